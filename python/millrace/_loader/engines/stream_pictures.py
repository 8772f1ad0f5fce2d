"""A stream's samples whose pictures were not read: what the engine's threads read and decode."""

from __future__ import annotations

from typing import Any

from ... import _core
from ...datasets.webdataset.decoders import IMAGE_EXTENSIONS, IMAGE_SPECS, picture
from ...datasets.webdataset.flow import Context
from ...datasets.webdataset.shards import ShardFlow, Shards


class Picture:
    """A picture that was not decoded, nor read where it need not be. `number`, `number_of_pass`: what its
    random numbers are drawn from.
    """

    __slots__ = ("content", "key", "number", "number_of_pass", "url")

    def __init__(self, content: Any, url: str, key: str, number: int, number_of_pass: int) -> None:
        self.content, self.url, self.key, self.number, self.number_of_pass = (
            content,
            url,
            key,
            number,
            number_of_pass,
        )


def is_picture_name(name: str) -> bool:
    return name.rpartition(".")[2].lower() in IMAGE_EXTENSIONS


def as_pil(value: Any) -> Any:
    """A Picture as decode("pil") makes it, now; anything else as it is."""
    if type(value) is not Picture:
        return value
    return picture(
        value.content if isinstance(value.content, bytes) else value.content.read(), IMAGE_SPECS["pil"]
    )


class PictureFlow(ShardFlow):
    """ShardFlow whose samples have Pictures."""

    def __init__(self, shards: Shards, context: Context, own: Any) -> None:
        super().__init__(shards, context, own)
        self._numbers = None if shards.resampled else shards.share(context).shards

    def _reader(self, source: Any) -> Any:
        return _PictureReader(super()._reader(source), self)

    def _reads_later(self) -> bool:
        return True

    @property
    def identity(self) -> tuple[int, int]:
        """(number of the present sample, number of the pass): the same for any number of ranks, but of
        resampled shards, where each has draws of its own.
        """
        if self._numbers is None:
            reader = self._context.reader
            return self._sample, reader.number + self._shard * reader.readers
        return self._numbers[self._shard] << 32 | self._sample, self._context.repetition


class _PictureReader:
    """Puts Pictures into the samples of one shard. Errors pass through, and the shard goes on after them as
    its reader does.
    """

    def __init__(self, reader: _core.ShardReader, flow: PictureFlow) -> None:
        self._reader, self._flow = reader, flow

    def __iter__(self) -> _PictureReader:
        return self

    def __next__(self) -> dict[str, Any]:
        sample = next(self._reader)
        number, number_of_pass = self._flow.identity
        for name, value in sample.items():
            if name.startswith("__"):
                continue
            if is_picture_name(name):
                key = f"{sample['__key__']}.{name}"
                sample[name] = Picture(value, sample["__url__"], key, number, number_of_pass)
            elif isinstance(value, _core.LocatedFile):
                sample[name] = value.read()
        return sample
