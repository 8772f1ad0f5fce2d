"""Nodes of Ray on this machine, and what happens to them by chance."""

import contextlib
import random
import threading
import time

import psutil
import pytest
import ray
from millrace import _core

NODES, LEAST, MOST = 4, 2, 5
STOPPED_S, IDLE_S = 5.0, 8.0  # IDLE_S: from a fault to the next one, where no actor helps between them
KINDS = {  # of faults: how often, beside the others
    "an actor is killed": 3,
    "an actor is stopped": 3,
    "a raylet is killed": 2,
    "a raylet is stopped": 1,
    "a node leaves": 1,
    "a node comes": 3,
}


class Nodes:
    """The cluster. Guarded by who uses it: one thread at a time."""

    def __init__(self):
        from ray.cluster_utils import Cluster

        self.cluster = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False}
        )
        self.masks, self._made = {}, 0  # the newest instruction set of each node that ever was, by its id
        self.stopped = {}
        self.fill()
        self.cluster._shutdown_at_exit = False  # its handlers of signals are for the main thread only

    def add(self):
        """A node with the next instruction set: what runs on it inherits its environment. None: none came."""
        newest = _core.cpu_targets()
        mask = newest[self._made % len(newest)]
        self._made += 1
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MILLRACE_CPU_TARGETS", mask)
            if mask == "SSE4":
                patch.setenv("JSIMD_FORCESSE2", "1")  # libjpeg-turbo has a switch of its own
            try:
                node = self.cluster.add_node(num_cpus=1)
            except Exception as error:  # Ray gives a node 30 s, which can be too few where others work
                say(f"no node comes: {error}")
                return None
        self.masks[node.node_id[:12]] = mask
        return f"{node.node_id[:12]} ({mask})"

    def fill(self):
        """As many nodes as there are to be."""
        while len(self.all) < NODES:
            self.add()

    @property
    def all(self):
        return sorted(self.cluster.worker_nodes, key=lambda node: node.node_id)

    @staticmethod
    def raylet(node):
        return psutil.Process(node.all_processes["raylet"][0].process.pid)

    def actors(self):
        """(process, node) of each actor that runs."""
        found = []
        for node in self.all:
            with contextlib.suppress(psutil.Error, KeyError):
                for process in self.raylet(node).children(recursive=True):
                    with contextlib.suppress(psutil.Error):
                        if "ray::RayBatchMaker" in " ".join(process.cmdline()):
                            found.append((process, node))
        return found

    def can(self, kind):
        if kind.startswith("an actor"):
            return bool(self.actors())
        if kind == "a node comes":
            return len(self.all) < MOST
        return kind == "a raylet is stopped" or len(self.all) > LEAST

    def do(self, kind, random):
        """Makes a fault; says of whom, or None where it cannot be made any more."""
        try:
            if kind == "a node comes":
                return self.add()
            if kind.startswith("an actor"):
                process, node = random.choice(self.actors())
                mask = self.masks[node.node_id[:12]]
                assert process.environ()["MILLRACE_CPU_TARGETS"] == mask
            else:
                node = random.choice(self.all)
                process = self.raylet(node)
            if kind == "a node leaves" or kind == "a raylet is killed":
                self.cluster.remove_node(node, allow_graceful=kind == "a node leaves")
            elif kind == "an actor is killed":
                process.kill()
            else:
                process.suspend()
                self.stopped[process] = time.monotonic() + STOPPED_S
            return f"{node.node_id[:12]}, pid {process.pid}"
        except psutil.NoSuchProcess:
            return None

    def resume(self, all=False):
        """Those that were stopped long enough."""
        for process, when in [*self.stopped.items()]:
            if all or time.monotonic() >= when:
                del self.stopped[process]
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.resume()

    def shutdown(self):
        self.resume(all=True)
        ray.shutdown()
        self.cluster.shutdown()


class Faults(threading.Thread):
    """Makes `count` faults, each a while after actors made a batch again, or gave none for long."""

    def __init__(self, nodes, count, seed):
        super().__init__(name="faults", daemon=True)
        self.nodes, self.count, self.seed, self._random = nodes, count, seed, random.Random(seed)
        self._kinds = self._random.sample([*KINDS], len(KINDS))  # each once, then by their weights
        self.done, self.trouble = [], None
        self.helped, self.ended = threading.Event(), threading.Event()

    def run(self):
        try:
            while len(self.done) < self.count and not self.ended.is_set():
                self.helped.clear()
                self._wait(IDLE_S, self.helped)
                self._wait(self._random.uniform(0, 0.5), self.ended)
                kind = self._next()
                whom = self.nodes.do(kind, self._random)
                if whom is not None:
                    self.done.append((kind, whom))
                    say(
                        f"fault {len(self.done)} of {self.count}: {kind}: {whom}; {len(self.nodes.all)} nodes"
                    )
            while self.nodes.stopped:
                self._wait(0.2, self.ended)
        except BaseException as error:
            self.trouble = error
        finally:
            self.nodes.resume(all=True)

    def _next(self):
        for at, kind in enumerate(self._kinds):
            if self.nodes.can(kind):
                return self._kinds.pop(at)
        kinds = {kind: weight for kind, weight in KINDS.items() if self.nodes.can(kind)}
        return self._random.choices([*kinds], [*kinds.values()])[0]

    def _wait(self, seconds, event):
        until = time.monotonic() + seconds
        while time.monotonic() < until and not event.wait(0.1):
            self.nodes.resume()

    def story(self):
        last = [f"{kind}: {whom}" for kind, whom in self.done[-3:]] or ["none"]
        return f"MILLRACE_REMOTE_SEED={self.seed}; {len(self.done)} faults, the last ones: {'; '.join(last)}"


def say(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)
