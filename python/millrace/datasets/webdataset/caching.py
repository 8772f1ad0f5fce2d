"""Samples kept as they passed: mcached() and lmdb_cached()."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from typing import Any

from ..._common.optional import optional
from . import utils
from .utils import PipelineStage


class Cached(PipelineStage):
    """A step that keeps the samples that passed, in each worker process.

    It gives them again from the second epoch on, always in the same order.
    """

    def __init__(self) -> None:
        self.cached: list[Any] | None = None

    def run(self, samples: Iterable[Any]) -> Iterator[Any]:
        if self.cached is not None:
            yield from self.cached
            return
        passed = []
        for sample in samples:
            passed.append(sample)
            yield sample
        self.cached = passed


class LMDBCached(PipelineStage):
    """A step that keeps the samples that passed in an LMDB database, and gives them again once all of them
    passed.

    It needs `pip install lmdb`.

    Args:
        map_size: bytes that the database may have.
        pickler: dumps() and loads() of samples; the default is pickle, so nobody else may write the file.
        chunksize: samples written at once.
    """

    _END = b"_"

    def __init__(
        self, fname: str, map_size: float = 1e12, pickler: Any = pickle, chunksize: int = 500
    ) -> None:
        lmdb = optional("lmdb", "samples are kept by", "lmdb")
        if utils.enforce_security:
            raise ValueError(
                f"{fname}: samples are kept as pickles, which are not read while enforce_security is set"
            )
        self.db = lmdb.open(fname, readonly=False, map_size=int(map_size))
        self.pickler, self.chunksize = pickler, chunksize

    def is_complete(self) -> bool:
        """Whether all samples passed once."""
        with self.db.begin() as transaction:
            return transaction.get(self._END) is not None

    def add_samples(self, samples: Iterable[tuple[str, Any]]) -> None:
        """Write (key, sample) pairs."""
        with self.db.begin(write=True) as transaction:
            for key, sample in samples:
                transaction.put(key.encode(errors="surrogateescape"), self.pickler.dumps(sample))

    def run(self, samples: Iterable[Any]) -> Iterator[Any]:
        if self.is_complete():
            with self.db.begin() as transaction:
                for key, value in transaction.cursor():
                    if key != self._END:
                        yield self.pickler.loads(value)
            return
        passed: list[tuple[str, Any]] = []
        for number, sample in enumerate(samples):
            passed.append(((isinstance(sample, dict) and sample.get("__key__")) or str(number), sample))
            if len(passed) >= self.chunksize:
                self.add_samples(passed)
                passed = []
            yield sample
        self.add_samples(passed)
        with self.db.begin(write=True) as transaction:
            transaction.put(self._END, b"1")
