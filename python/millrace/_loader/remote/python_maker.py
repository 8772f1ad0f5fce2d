"""PythonMaker: batches of a dataset that is Python code, each sample with seeds of its own.

Before the dataset makes a sample, the generators of torch, random and numpy are seeded by (seed, epoch,
index, occurrence). So a sample depends neither on the process that makes it, nor on earlier samples of that
process. The generators belong to the whole process, so this runs in processes that do nothing else.
"""

from __future__ import annotations

from typing import Any

import torch

from ..._common.batch_place import OF_ACTOR, put_place
from ..._common.torch_private import _DatasetKind, _utils
from ..._pictures.asking import everywhere
from ..._pictures.counts import PictureCounts
from ..engines.fetchers import Sink, make_fetcher
from ..engines.seeding import seed_all
from .maker import Maker, Work, common_facts, name_of


class OfPython(Maker):
    """Makes a Python dataset's batches. They are compared as a whole, because the result of a collate_fn may
    depend on all samples of a batch.
    """

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def name(self, work: Work, row: int) -> str:
        return repr(work.rows[row])

    def facts(self) -> dict[str, Any]:
        cls = type(self._dataset)
        return common_facts(f"{cls.__module__}.{cls.__qualname__}", self._dataset)


class PythonMaker(OfPython):
    """One batch at a time."""

    lanes = 1

    def __init__(self, loader: Any) -> None:
        super().__init__(loader.dataset)
        seeded = (_SeededLists if hasattr(loader.dataset, "__getitems__") else _Seeded)(loader.dataset)
        self._seeded, how = seeded, (True, loader.collate_fn, False, Sink(), "raise")
        self._fetcher = make_fetcher(_DatasetKind.Map, seeded, *how)
        put_place(OF_ACTOR)
        torch.set_num_threads(1)  # as in torch's worker processes
        if loader.pictures != "pillow":
            everywhere(PictureCounts())
        info = _utils.worker.WorkerInfo
        self._info = info(id=0, num_workers=1, seed=0, dataset=loader.dataset)
        _utils.worker._worker_info = self._info
        if loader.worker_init_fn is not None:
            loader.worker_init_fn(0)

    def make(self, work: Work) -> Any:
        _utils.worker._worker_info = self._info  # other loaders of ranks may be served here, too
        self._seeded.begin(work)
        return self._fetcher.fetch(work.rows)

    def close(self) -> None:
        """Do nothing: the maker ends with its process."""


class _Seeded:
    """The dataset, with the generators seeded before each sample of `work`. A sample that comes twice in a
    batch comes in the order of its occurrences.
    """

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self._work = Work((0, 0), [], None)
        self._row = 0

    def begin(self, work: Work) -> None:
        self._work, self._row = work, 0

    def _seed(self) -> None:
        (seed, epoch), rows, occurrences = self._work
        occurrence = 0 if occurrences is None else int(occurrences[self._row])
        text = f"{seed} {epoch} {occurrence} ".encode() + name_of(rows[self._row])
        seed_all(text)
        self._row += 1

    def __getitem__(self, index: Any) -> Any:
        self._seed()
        return self.dataset[index]


class _SeededLists(_Seeded):
    """As _Seeded, for a dataset with __getitems__: all samples of a list have the seeds of the first."""

    def __getitems__(self, indices: Any) -> Any:
        if len(indices):
            self._seed()
        return self.dataset.__getitems__(indices)
