"""wds.writer: samples into tar shards, field by field encoded by its extension. `millrace pack` writes whole
data sets, with indexes.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import sys
import tarfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Union

import numpy as np
import torch
from PIL import Image

from . import tenbin
from .decoders import field_package
from .gopen import gopen
from .utils import Closing

Sample = Mapping[str, Any]
Encoder = Union[bool, str, None, Mapping[str, Callable[[Any], bytes]], Callable[[Any], Any]]


# ---------------------------------------------------------------- fields


def imageencoder(image: Any, format: str = "PNG") -> bytes:  # noqa: A002  (webdataset's name)
    """A PIL image, or an array (H, W) or (H, W, C) of uint8 or of floats in 0 .. 1, as a file."""
    if not isinstance(image, Image.Image):
        pixels = np.asarray(image)
        if pixels.dtype.kind == "f":
            if pixels.size and not (pixels.min() >= -0.001 and pixels.max() <= 1.001):
                raise ValueError(
                    f"a picture of floats has them in 0 .. 1, not in {pixels.min()} .. {pixels.max()}"
                )
            pixels = np.clip(pixels, 0, 1) * 255  # cut off, not rounded, as there
        if pixels.ndim == 3 and pixels.shape[2] == 1:
            pixels = pixels[:, :, 0]
        image = Image.fromarray(pixels.astype(np.uint8))
    kind = {"JPG": "JPEG", "PGM": "PPM", "PBM": "PPM", "PNM": "PPM"}.get(format.upper(), format.upper())
    if kind == "JPEG":
        image = image.convert("RGB") if image.mode not in ("RGB", "L") else image
    made = io.BytesIO()
    image.save(made, kind, **({"quality": 100} if kind == "JPEG" else {}))
    return made.getvalue()


def bytestr(data: Any) -> bytes:
    """Bytes as they are; anything else as text."""
    return (
        bytes(data)
        if isinstance(data, (bytes, bytearray, memoryview))
        else str(data).encode("utf-8", "surrogateescape")
    )


def torch_dumps(data: Any) -> bytes:
    """The bytes that torch.load() reads."""
    made = io.BytesIO()
    torch.save(data, made)
    return made.getvalue()


def numpy_dumps(data: np.ndarray) -> bytes:
    """The bytes of an .npy file, without pickles."""
    made = io.BytesIO()
    np.save(made, np.asarray(data), allow_pickle=False)
    return made.getvalue()


def numpy_npz_dumps(data: Mapping[str, np.ndarray]) -> bytes:
    """The bytes of a packed .npz file of these arrays, without pickles."""
    made = io.BytesIO()
    np.savez_compressed(made, allow_pickle=False, **{name: np.asarray(array) for name, array in data.items()})
    return made.getvalue()


def tenbin_dumps(data: Any) -> bytes:
    """The bytes of a .ten field of one array, or of a list of them."""
    return tenbin.encode_buffer(list(data) if isinstance(data, (list, tuple)) else [data])


def cbor_dumps(data: Any) -> bytes:
    return field_package("cbor").dumps(data)


def mp_dumps(data: Any) -> bytes:
    return field_package("msgpack").packb(data)


def _json(data: Any) -> bytes:
    return json.dumps(data).encode("utf-8")


default_handlers: dict[str, Callable[[Any], bytes]] = {
    **dict.fromkeys("cls cls2 class count index inx id txt text transcript".split(), bytestr),
    **dict.fromkeys(("json", "jsn"), _json),
    **dict.fromkeys(("pyd", "pickle", "pkl"), pickle.dumps),
    **dict.fromkeys(("ten", "tb"), tenbin_dumps),
    **dict.fromkeys(("mp", "msgpack", "msg"), mp_dumps),
    **{name: partial(imageencoder, format=name) for name in "jpg jpeg png ppm pgm pbm pnm".split()},
    "pth": torch_dumps,
    "npy": numpy_dumps,
    "npz": numpy_npz_dumps,
    "cbor": cbor_dumps,
}


def encode_field(
    name: str, value: Any, handlers: Mapping[str, Callable[[Any], bytes]] = default_handlers
) -> Any:
    """The bytes of a field: of `.gz` packed, else by the last part of its name. Bytes, and `__fields`, stay
    as they are.
    """
    if name.startswith("__") or isinstance(value, bytes) and not name.endswith(".gz"):
        return value
    if name.endswith(".gz"):
        return gzip.compress(encode_field(name[:-3], value, handlers))
    encode = handlers.get(name.rpartition(".")[2].lower(), handlers.get("default"))
    if encode is None:
        raise ValueError(
            f"field {name!r}: nothing is known that makes bytes of a {type(value).__name__} here; give bytes,"
            " or an encoder"
        )
    return encode(value)


def make_encoder(spec: Encoder) -> Callable[[Any], Any]:
    """A function of samples. True: by extension; False or None: none; a format, "png": pictures in it, too; a
    dict by extension.
    """
    if callable(spec):
        return spec
    if spec is False or spec is None:
        return lambda sample: sample
    handlers: Mapping[str, Callable[[Any], bytes]] = default_handlers
    if isinstance(spec, str):
        handlers = {**default_handlers, "default": lambda data: imageencoder(data, spec)}
    elif isinstance(spec, Mapping):
        handlers = {**spec}
    elif spec is not True:
        raise ValueError(
            f"encoder={spec!r}: give True, False, a picture format, a dict of functions, or a function"
        )
    return lambda sample: {name: encode_field(name, value, handlers) for name, value in sample.items()}


# ---------------------------------------------------------------- shards


class TarWriter(Closing):
    """Writes samples {"__key__": "a/b", "jpg": ..., "cls": ...} as files a/b.jpg, a/b.cls of one archive.

    Args:
        fileobj: a file, or what gopen() opens for writing.
        user, group, mode, mtime: of the files in it; mtime=None: now.
        compress: True packs it with gzip, False does not; None: if its name ends in gz.
        encoder: see make_encoder().
        keep_meta: writes `__fields__`, too, which are bytes or text.
        format: of the headers, tarfile.USTAR_FORMAT and the like.
    """

    def __init__(
        self,
        fileobj: Any,
        user: str = "bigdata",
        group: str = "bigdata",
        mode: int = 0o0444,
        compress: bool | None = None,
        encoder: Encoder = True,
        keep_meta: bool = False,
        mtime: float | None = None,
        format: Any = None,  # noqa: A002
    ) -> None:
        self.mtime, self.user, self.group, self.mode, self.keep_meta = mtime, user, group, mode, keep_meta
        self.encoder = make_encoder(encoder)
        name = (
            fileobj
            if isinstance(fileobj, str)
            else os.fspath(fileobj)
            if isinstance(fileobj, os.PathLike)
            else None
        )
        self._own = gopen(name, "wb") if name is not None else None
        stream = fileobj if name is None else self._own
        packed = str(name or "").endswith("gz") if compress is None else compress
        self.tarstream: Any = tarfile.open(
            fileobj=stream,
            mode="w|gz" if packed else "w|",
            format=tarfile.USTAR_FORMAT if format is None else format,
        )

    def write(self, obj: Sample) -> int:
        """Append a sample.

        Returns:
            The bytes that its fields have.
        """
        if not isinstance(obj.get("__key__"), str):
            raise ValueError(f"a sample needs a text as its __key__, not {obj.get('__key__')!r}")
        total, fields = 0, self.encoder(obj)
        for name in sorted(fields):
            if name == "__key__" or (name.startswith("__") and not self.keep_meta):
                continue
            content = (
                fields[name].encode(errors="surrogateescape")
                if name.startswith("__") and isinstance(fields[name], str)
                else fields[name]
            )
            if not isinstance(content, (bytes, bytearray, memoryview)):
                raise ValueError(
                    f"{obj['__key__']}.{name}: files hold bytes, not {type(content).__name__}; give bytes, or"
                    " encoder=True"
                )
            entry = tarfile.TarInfo(f"{obj['__key__']}.{name}")
            entry.size, entry.mode, entry.uname, entry.gname = len(content), self.mode, self.user, self.group
            entry.mtime = int(time.time() if self.mtime is None else self.mtime)
            self.tarstream.addfile(entry, io.BytesIO(content))
            total += len(content)
        return total

    def close(self) -> None:
        """End the archive, and close the file if it was opened here."""
        if self.tarstream is not None:
            self.tarstream.close()
            self.tarstream = None
        if self._own is not None:
            self._own.close()
            self._own = None


class ShardWriter(Closing):
    """TarWriters of files named by `pattern`, one after the other.

    Args:
        pattern: the files' names, "train-%06d.tar".
        maxcount, maxsize: samples, and bytes of fields, after which the next shard begins.
        post: a function called with each shard's name.
        start_shard: the number of the first shard.
        verbose: prints each shard begun.
        opener: a function of the name that opens a file to be written.
        **kw: TarWriter's.
    """

    def __init__(
        self,
        pattern: str,
        maxcount: int = 100000,
        maxsize: float = 3e9,
        post: Callable[[str], Any] | None = None,
        start_shard: int = 0,
        verbose: int = 1,
        opener: Callable[[str], Any] | None = None,
        **kw: Any,
    ) -> None:
        self.pattern, self.maxcount, self.maxsize, self.post, self.verbose = (
            pattern,
            maxcount,
            maxsize,
            post,
            verbose,
        )
        self.opener, self.kw = opener, kw
        self.shard, self.total, self.count, self.size = start_shard, 0, 0, 0.0
        self.fname: str | None = None
        self.tarstream: TarWriter | None = None
        self._stream: Any = None
        self.next_stream()

    def next_stream(self) -> None:
        """End the shard, and begin the next one."""
        self.finish()
        self.fname = self.pattern % self.shard
        if self.verbose:
            print(f"millrace: writes {self.fname}, from sample {self.total} on", file=sys.stderr)
        self.shard, self.count, self.size = self.shard + 1, 0, 0.0
        self._stream = None if self.opener is None else self.opener(self.fname)
        packed: dict[str, Any] = (
            {"compress": self.fname.endswith("gz")}
            if self.opener is not None and "compress" not in self.kw
            else {}
        )
        self.tarstream = TarWriter(self.fname if self._stream is None else self._stream, **packed, **self.kw)

    def write(self, obj: Sample) -> None:
        """Append a sample."""
        if self.tarstream is None or self.count >= self.maxcount or self.size >= self.maxsize:
            self.next_stream()
        self.size += self.tarstream.write(obj)  # type: ignore[union-attr]
        self.count += 1
        self.total += 1

    def finish(self) -> None:
        """End the shard."""
        if self.tarstream is None:
            return
        self.tarstream.close()
        self.tarstream = None
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        if self.post is not None:
            self.post(self.fname)  # type: ignore[arg-type]

    def close(self) -> None:
        """Call finish(), nothing more."""
        self.finish()
