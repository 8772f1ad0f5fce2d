"""wds.tariterators: shards as Python streams, step by step: URLs -> open files -> files in them -> samples.

WebDataset and tarfile_to_samples() read by the engine; these are for scripts that put a step of their own
between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .gopen import gopen
from .handlers import Handler, handled, reraise_exception
from .shardlists import TarfileToSamples, tarfile_to_samples
from .tar_streams import (
    Sample,
    base_plus_ext,
    group_by_keys,
    tar_file_expander,
    tar_file_iterator,
    valid_sample,
)

__all__ = [
    "base_plus_ext",
    "group_by_keys",
    "tar_file_expander",
    "tar_file_iterator",
    "tarfile_samples",
    "tarfile_to_samples",
    "url_opener",
    "valid_sample",
]


def url_opener(data: Iterable[Sample], handler: Handler = reraise_exception, **kw: Any) -> Iterator[Sample]:
    """{"url": ...} with its "stream", by gopen(url, **kw)."""

    def opened(sample: Sample) -> Sample:
        sample["stream"] = gopen(sample["url"], **kw)
        return sample

    return handled(opened, data, handler)


def tarfile_samples(
    src: Iterable[Sample],
    handler: Handler = reraise_exception,
    select_files: Callable[[str], bool] | None = None,
    rename_files: Callable[[str], str] | None = None,
) -> Iterator[Sample]:
    """The samples of {"url": ...}, read by the engine.

    In a DataPipeline it is the step tarfile_to_samples().
    """
    return TarfileToSamples(handler, select_files, rename_files).generate(iter(src))
