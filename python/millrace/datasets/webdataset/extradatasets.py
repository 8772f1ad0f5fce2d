"""wds.extradatasets: streams for tests, and streams that say another length than their own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice, repeat
from typing import Any

from torch.utils.data import IterableDataset

from .utils import repeatedly

__all__ = ["MockDataset", "repeatedly", "with_epoch", "with_length"]


class MockDataset(IterableDataset):
    """The same sample, `length` times."""

    def __init__(self, sample: Any, length: int) -> None:
        super().__init__()
        self.sample, self.length = sample, length

    def __iter__(self) -> Iterator[Any]:
        return repeat(self.sample, self.length)


class with_epoch(IterableDataset):  # noqa: N801  (webdataset's name)
    """A stream in epochs of `length` samples.

    It goes on in the next epoch where it was, and begins anew at its end.
    """

    def __init__(self, dataset: Iterable[Any], length: int) -> None:
        super().__init__()
        self.dataset, self.length = dataset, length
        self._source: Iterator[Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_source": None}

    def __iter__(self) -> Iterator[Any]:
        if self._source is None:
            self._source = repeatedly(self.dataset)
        return islice(self._source, self.length)


class with_length(IterableDataset):  # noqa: N801  (webdataset's name)
    """A stream with the len() `length`."""

    def __init__(self, dataset: Iterable[Any], length: int) -> None:
        super().__init__()
        self.dataset, self.length = dataset, length

    def __iter__(self) -> Iterator[Any]:
        return iter(self.dataset)

    def __len__(self) -> int:
        return self.length
