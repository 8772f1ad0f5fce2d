"""Makers, members and pools as RemoteCore uses them, without Ray."""

import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

import numpy as np
import torch
from millrace._loader.remote.blocks import as_blocks
from millrace._loader.remote.courier import Gone, Lost

LENGTH, BATCHES, SIZE = 50, 40, 4
PLACE = 5, 2


def batch_of(work, salt=0.0):
    counts = work.occurrences if work.occurrences is not None else np.zeros(len(work.rows), np.uint32)
    if (work.rows >= LENGTH).any():
        raise IndexError(f"no row {work.rows.max()}")
    values = torch.from_numpy(work.rows * 1000 + counts * 10 + work.place[0] + work.place[1] * 0.5 + salt)
    return values.reshape(-1, 1).repeat(1, 3).float(), torch.from_numpy(work.rows.copy())


class FakeMaker:
    """As Maker. `pace_s`: seconds that a batch takes."""

    rows_to_check = 4

    def __init__(self, pace_s=0.0, lanes=1):
        self.pace_s, self.lanes, self.made = pace_s, lanes, 0
        self.has = self.most = 0
        self.moves = False  # whether a batch is another one each time

    def facts(self):
        return {"millrace": "1"}

    def stats(self):
        return {"samples": -1}

    def name(self, work, row):
        return f"file {work.rows[row]}"

    def first(self, made, count):
        return made[0][:count], made[1][:count]

    def make(self, work):
        self.has += 1
        self.most = max(self.most, self.has)
        time.sleep(self.pace_s)
        self.has -= 1
        self.made += 1
        return batch_of(work, float(self.made) if self.moves else 0.0)

    def close(self):
        pass


class FakeMember:
    """`deed(number)`: "right", "lost", "gone", "error", "wrong", or seconds that its n-th batch takes."""

    def __init__(self, name, deed, facts=None):
        self.name, self.deed, self.facts = name, deed, facts or {"millrace": "1"}
        self.node, self.expelled, self.failures, self.sent = "?", None, 0, 0
        self.credits, self.until_check = 2, 0
        self.is_gone = False
        self.most, self.has = 0, 0
        self.pool = ThreadPoolExecutor(1)

    def ask(self):
        return self.pool.submit(self.hello)

    def hello(self):
        if self.is_gone:
            raise Gone
        return {"node": f"node {self.name}", "facts": self.facts, "machine": None}

    def meet(self, machine):
        assert machine is None

    def opened(self, answer):
        return answer

    def confirm(self, answer):
        assert answer.get("parcel") is None

    def ended(self, ref):
        assert ref is not None

    def send(self, work):
        self.sent += 1
        self.has += 1
        self.most = max(self.most, self.has)
        return self.pool.submit(self.make, work, self.deed(self.sent))

    def make(self, work, deed):
        try:
            if isinstance(deed, float):
                time.sleep(deed)
            self.is_gone = self.is_gone or deed == "gone"
            if self.is_gone:
                raise Gone
            if deed == "lost":
                raise Lost
            if deed == "error":
                return {"error": "FileNotFoundError: file 7"}
            try:
                return {
                    "blocks": as_blocks(batch_of(work, 1.0 if deed == "wrong" else 0.0)),
                    "parcel": None,
                    "seconds": 0.001,
                }
            except IndexError as error:
                return {"error": str(error)}
        finally:
            self.has -= 1


class FakePool:
    patience_s, lives = 30.0, True

    def __init__(self, *members, as_needed=False):
        self.members, self.as_needed = list(members), as_needed

    def why_nobody(self):
        return ""

    def notice(self, nodes):
        pass

    def made_again(self, member):
        return False

    def wait(self, refs, seconds):
        if not self.lives:
            raise Gone
        return list(wait(refs, seconds, FIRST_COMPLETED).done)

    def get(self, ref):
        return ref.result()

    def cancel(self, ref):
        ref.cancel()


def right(number):
    return "right"
