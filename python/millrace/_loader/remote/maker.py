"""Makers: each makes one batch from what determines it, the same here and on actors.

PictureMaker   pictures in files, by the C++ engine: its threads share a batch's rows
BatchesMaker   whole batches of a dataset that makes them: tables, texts, lines, array files
PythonMaker    any other map-style dataset (python_maker.py): in processes of their own alone
"""

from __future__ import annotations

import abc
import hashlib
import pickle
import threading
from typing import Any, NamedTuple

import numpy as np
import torch

from ... import _core
from ...datasets.batches import MakerOptions
from ..engine import EngineSpec, empty_counters
from ..engines.batches import BatchSpec
from ..engines.native import ImageSpec, one_batch


class Work(NamedTuple):
    """What determines a batch.

    place: seed and epoch
    rows: the dataset's indices, int64 of shape (B,); a list, where a Python dataset has others
    occurrences: uint32 of shape (B,): how often each came before in the epoch; None: never
    """

    place: tuple[int, int]
    rows: Any
    occurrences: np.ndarray | None


class Maker(abc.ABC):
    """By default without an engine, and its batches are compared as a whole."""

    lanes: int
    """How many threads may be in make() at the same time."""
    rows_to_check: int | None = None
    """How many rows of a batch to make twice, where its rows do not depend on one another."""

    @abc.abstractmethod
    def make(self, work: Work) -> Any:
        """The batch, as the engine's core has it; raises its error."""

    def first(self, made: Any, count: int) -> Any:
        """That of a batch which has its first rows alone. Only with rows_to_check."""
        raise NotImplementedError

    @abc.abstractmethod
    def name(self, work: Work, row: int) -> str:
        """The sample in this row."""

    @abc.abstractmethod
    def facts(self) -> dict[str, Any]:
        """What must be equal where two machines are to make the same batches."""

    def stats(self) -> dict[str, Any]:
        """As DataLoader.stats() has it."""
        return empty_counters()

    def clocks(self) -> list[Any]:
        return []

    def snapshot(self) -> dict[str, Any]:
        return {"threads": []}

    @abc.abstractmethod
    def close(self) -> None: ...


def maker_of(spec: EngineSpec | None, threads: int, batch_size: int | None, memory: str) -> Maker | None:
    """spec: of a loader's plan. None: nothing native makes whole batches from their index lists alone."""
    if type(spec) is ImageSpec:
        return PictureMaker(spec, threads, batch_size, memory)
    return BatchesMaker(spec, threads, memory) if type(spec) is BatchSpec else None


def common_facts(kind: str, dataset: Any) -> dict[str, Any]:
    try:
        length = len(dataset)
    except TypeError:
        length = None
    return {
        "millrace": _core.__version__,
        "torch": torch.__version__,
        "what makes batches": kind,
        "samples": length,
    }


def digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()


class PictureMaker(Maker):
    """The threads of its engine share the rows of a batch."""

    lanes = 1
    rows_to_check = 4

    def __init__(self, spec: ImageSpec, threads: int, batch_size: int | None, memory: str) -> None:
        self._files = spec.files
        core = self.core = spec.core(threads, batch_size, "raise", False, memory)
        self.stats, self.clocks, self.snapshot = core.stats, core.clocks, core.snapshot  # type: ignore[method-assign]

    def make(self, work: Work) -> tuple[Any, torch.Tensor]:
        """(pictures, or a list of them by view; labels)."""
        return one_batch(self.core, *work)

    def first(self, made: Any, count: int) -> Any:
        pictures, labels = made
        some = [view[:count] for view in pictures] if isinstance(pictures, list) else pictures[:count]
        return some, labels[:count]

    def name(self, work: Work, row: int) -> str:
        number = int(work.rows[row])
        return f"{number} ({self._files.files.name(number)})"

    def facts(self) -> dict[str, Any]:
        files = self._files.files
        some = range(0, len(files), max(1, len(files) // 1000))
        names = b"\n".join(files.name(index).encode(errors="surrogateescape") for index in some)
        return {
            **common_facts("pictures", files),
            "names of files": digest(names),
            "labels": digest(self._files.labels.tobytes()),
        }

    def close(self) -> None:
        self.core.close()


class BatchesMaker(Maker):
    """Any number of threads makes batches at a time, up to `lanes`, over one cache of what was read."""

    def __init__(self, spec: BatchSpec, threads: int, memory: str) -> None:
        self.lanes, self._source = threads, spec.source
        options = MakerOptions(threads, spec.usual_slots(threads, None) + 1, memory, spec.collate)
        self._maker = spec.source.dataset.batch_maker(options)
        self._order = threading.Lock()

    def make(self, work: Work) -> Any:
        with self._order:
            ticket = self._maker.expect(work.rows)
        return self._maker.make(ticket)

    def name(self, work: Work, row: int) -> str:
        return str(int(work.rows[row]))

    def facts(self) -> dict[str, Any]:
        dataset = self._source.dataset
        return common_facts(f"whole batches of {type(dataset).__name__}", dataset)

    def stats(self) -> dict[str, Any]:
        counters = super().stats()
        return {**counters, "seconds": {**counters["seconds"], **self._maker.seconds()}}

    def close(self) -> None:
        self._maker.close()


class RowsAlone:
    """As EpochKeys, where batches depend on their rows alone: these are as the spec has made them."""

    def restart(self) -> None:
        """Nothing is counted."""

    def of(self, indices: Any) -> tuple[Any, None]:
        return indices, None


def name_of(index: Any) -> bytes:
    """The same in each process, and another one for each index."""
    return repr(index).encode() if isinstance(index, (int, str)) else pickle.dumps(index, 5)


class AnyKeys:
    """As EpochKeys, for Python datasets: indices are whatever its __getitem__ takes, and stay as they are.
    Memory: one entry of a dict for each index of the epoch.
    """

    def __init__(self) -> None:
        self._seen: dict[Any, int] = {}

    def restart(self) -> None:
        self._seen = {}

    def of(self, indices: Any) -> tuple[list[Any], np.ndarray | None]:
        rows = indices.tolist() if isinstance(indices, np.ndarray) else list(indices)
        counts = np.zeros(len(rows), np.uint32)
        for at, row in enumerate(rows):
            key = row if type(row) is int else name_of(row)
            counts[at] = self._seen.get(key, 0)
            self._seen[key] = int(counts[at]) + 1
        return rows, counts if counts.any() else None
