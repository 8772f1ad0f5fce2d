"""What scripts find under `wds.` beside WebDataset, after `from millrace.datasets import webdataset as wds`; and what is there no more.

webdataset's modules (wds.filters, wds.shardlists, ...) have no counterparts: their names are all in one place, so each of them is it.
"""

from __future__ import annotations

import functools
import importlib
import io
from collections.abc import Callable, Iterable
from typing import Any, Union

from millrace.errors import UnavailableError

from .collation import default_collation_fn
from .decoders import BasicHandlers, Continue, SampleDecoder, gzfilter
from .images import IMAGE_EXTENSIONS, ImageHandler
from .pipelines import (
    STEPS,
    DataPipeline,
    RandomMix,
    ResampledShards,
    RoundRobin,
    SimpleShardList,
    pipelinefilter,
)
from .urls import expand_urls
from .web_loader import WebLoader

_AUDIO_EXTENSIONS = frozenset("flac mp3 sox wav m4a ogg wma".split())


def handle_extension(extensions: str, function: Callable[[bytes], Any]) -> Callable[[str, bytes], Any]:
    """A decoder for decode(): function(data) of the fields whose name is, or ends with, one of these: "left.png right.png"."""
    return functools.partial(_if_extension, endings=tuple(f".{name}" for name in extensions.lower().split()), function=function)


def _if_extension(key: str, data: bytes, endings: tuple[str, ...], function: Callable[[bytes], Any]) -> Any:
    return function(data) if f".{key.lower()}".endswith(endings) else None


def torch_audio(key: str, data: bytes) -> Any:
    """A decoder for decode(): (samples, rate) of flac, mp3, wav, ..., by torchaudio. UnavailableError without it."""
    if key.rpartition(".")[2] not in _AUDIO_EXTENSIONS:
        return None
    try:
        import torchaudio  # type: ignore[import-not-found]
    except ImportError:
        raise UnavailableError("sound is decoded by torchaudio, which is not installed: pip install torchaudio") from None
    return torchaudio.load(io.BytesIO(data))


def identity(value: Any) -> Any:
    """What map_tuple() calls for a field that stays as it is."""
    return value


def getfirst(sample: dict[str, Any], keys: Union[str, Iterable[str]], default: Any = None, missing_is_error: bool = True) -> Any:
    """The first of these fields that the sample has, "jpg;png". ValueError, or `default`, when it has none."""
    names = keys.split(";") if isinstance(keys, str) else list(keys)
    for name in names:
        if name in sample:
            return sample[name]
    if missing_is_error:
        raise ValueError(f"the sample has none of the fields {', '.join(map(repr, names))}, only {', '.join(map(repr, sample))}")
    return default


NAMES: dict[str, Any] = {
    **STEPS,
    "Continue": Continue,
    "DataPipeline": DataPipeline,
    "Decoder": SampleDecoder,
    "IMAGE_EXTENSIONS": IMAGE_EXTENSIONS,
    "ImageHandler": ImageHandler,
    "RandomMix": RandomMix,
    "ResampledShardList": ResampledShards,
    "ResampledShards": ResampledShards,
    "RoundRobin": RoundRobin,
    "SimpleShardList": SimpleShardList,
    "WebLoader": WebLoader,
    "basichandlers": BasicHandlers(),
    "default_collation_fn": default_collation_fn,
    "expand_urls": expand_urls,
    "getfirst": getfirst,
    "gzfilter": gzfilter,
    "handle_extension": handle_extension,
    "identity": identity,
    "imagehandler": ImageHandler,
    "pipelinefilter": pipelinefilter,
    "torch_audio": torch_audio,
}

_MODULES = frozenset("autodecode compat filters mix pipeline shardlists tariterators utils".split())

_WRITERS = frozenset(("ShardWriter", "TarWriter"))

#: What to write instead of what webdataset, or an older version of it, has.
_INSTEAD = {
    "Cached": "the operating system keeps local shards in memory; WebDataset(..., cache_dir=...) keeps those of stores",
    "FluidWrapper": "DataPipeline(iterable), which has the fluent methods",
    "LMDBCached": "WebDataset(..., cache_dir=...) keeps shards on disk",
    "MockDataset": "DataPipeline(iterable), where itertools.repeat(sample, n) in a list is one",
    "MultiShardSample": "Mixture([WebDataset(...), WebDataset(...)], weights=[...])",
    "PytorchShardList": "WebDataset(urls, shardshuffle=True), whose ranks and workers divide the shards",
    "ResizedDataset": ".with_epoch(n) and .with_length(n)",
    "ShardList": "WebDataset(urls)",
    "gopen": "millrace.stores.open_source(url), which reads files, http(s)://, s3://, gs:// and az://",
    "group_by_keys": "WebDataset(urls) groups files to samples itself; `rename_files` and `select_files` choose",
    "info": ".map(function), which may print",
    "resampled": "ResampledShards(urls), or WebDataset(urls, resampled=True)",
    "tarfile_samples": "WebDataset(urls), or DataPipeline(SimpleShardList(urls), tarfile_to_samples())",
    "torch_video": "decode(function), where function(key, data) is torchcodec's decoder or your own for .mp4",
    "url_opener": "tarfile_to_samples(), which opens shards and reads them",
    "tar_file_expander": "tarfile_to_samples(), which opens shards and reads them",
}


def lookup(module: str, name: str) -> Any:
    """`wds.<name>`. AttributeError, with what to write instead where something is known."""
    if name in NAMES:
        return NAMES[name]
    if name in _MODULES:
        return importlib.import_module(module)
    if name in _WRITERS:
        try:
            return getattr(importlib.import_module("webdataset"), name)
        except ImportError:
            raise UnavailableError(
                f"{name} is the webdataset package's: pip install webdataset. `millrace pack SRC DST` writes shards without it"
            ) from None
    remedy = f": use {_INSTEAD[name]}" if name in _INSTEAD else "; its WebDataset, steps and handlers do, and docs/shards.md lists them"
    raise AttributeError(f"module {module!r} has no {name!r}{remedy if not name.startswith('_') else ''}")
