"""Decoders of fields by their extension: webdataset's table, but nothing is unpickled unless it was allowed
by name. Pictures come in the form of webdataset's names: "pil", "torchrgb" and so on.

A sample's fields are decoded one by one, each by the first decoder that gives something other than None. The
order: first gz, then the decoders given to decode(), then this table. A field that none of them knows stays
bytes.
"""

from __future__ import annotations

import gzip
import importlib
import io
import json
import pickle
import sys
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Union

import numpy as np
import torch
from PIL import Image

from millrace.errors import CorruptDataError, UnavailableError

from ... import _core
from ..._common.optional import optional
from ..pillow_decode import PillowDecoder
from . import tenbin, utils


class ImageSpec(NamedTuple):
    """The form of a picture. container: "numpy" (H, W, C), "torch" (C, H, W) or "pil"; without C for mode
    "L".
    """

    container: str
    floats: bool  # float32 in 0 .. 1 instead of uint8
    mode: str


def _specs() -> dict[str, ImageSpec]:
    arrays = [
        (f"{mode}{end}", floats, mode.upper())
        for floats, end in ((False, "8"), (True, ""))
        for mode in ("l", "rgb", "rgba")
    ]
    specs = {name: ImageSpec("numpy", floats, mode) for name, floats, mode in arrays}
    specs |= {f"torch{name}": ImageSpec("torch", floats, mode) for name, floats, mode in arrays}
    specs |= {f"pil{mode}": ImageSpec("pil", False, mode.upper()) for mode in ("l", "rgb", "rgba")}
    return specs | {"torch": ImageSpec("torch", True, "RGB"), "pil": ImageSpec("pil", False, "RGB")}


IMAGE_SPECS = _specs()

#: Extensions (the last part of a field's name) that the picture decoder decodes.
IMAGE_EXTENSIONS = frozenset(
    "apng blp bmp bufr bw cur dcx dds dib emf eps fit fits flc fli ftc ftu gbr gif grib h5 hdf icb icns ico"
    " iim im j2c j2k jfif jp2 jpc jpe jpeg jpf jpg jpx mpeg mpg msp pbm pcd pcx pgm png pnm ppm ps psd pxr"
    " ras rgb rgba sgi tga tif tiff vda vst webp wmf xbm xpm".split()
)


@dataclass(frozen=True)
class ImageHandler:
    """A decoder of pictures; `spec` is one of IMAGE_SPECS.

    Raises:
        ValueError: if `spec` is another name.
    """

    spec: str
    extensions: frozenset[str] = IMAGE_EXTENSIONS

    def __post_init__(self) -> None:
        if self.spec not in IMAGE_SPECS:
            raise ValueError(
                f"decode({self.spec!r}) is unknown: give a function, or one of"
                f" {', '.join(map(repr, sorted(IMAGE_SPECS)))}"
            )

    def __call__(self, key: str, data: bytes) -> Any:
        """The picture; None if `key`, a field's name, has no extension of a picture."""
        if key.rpartition(".")[2].lower() not in self.extensions:
            return None
        return picture(data, IMAGE_SPECS[self.spec])


def picture(data: bytes, spec: ImageSpec) -> Any:
    """`data` decoded by the engine's codecs if they can, else by Pillow, to the same pixels."""
    pixels: Any = _core.decode_image(data) if spec.mode == "RGB" and spec.container != "pil" else None
    if pixels is not None and pixels.size > 3 * (Image.MAX_IMAGE_PIXELS or sys.maxsize):
        PillowDecoder().check_size(pixels.shape[1], pixels.shape[0])
    if pixels is None:
        with Image.open(io.BytesIO(data)) as image:
            converted = image.convert(spec.mode)
        if spec.container == "pil":
            return converted
        pixels = np.asarray(converted)
    if spec.floats:
        pixels = pixels.astype(np.float32) / 255.0
    if spec.container == "numpy":
        return pixels
    return torch.from_numpy(pixels.transpose(2, 0, 1).copy() if pixels.ndim == 3 else pixels.copy())


Decoder = Callable[[str, bytes], Any]
AllowPickle = Union[bool, Collection[str]]

MOST_UNPACKED = 2**32  # bytes that a compressed field may have


class DecodingError(CorruptDataError):
    """The error of a field that could not be decoded; the cause is its decoder's exception.

    Attributes:
        url, key, field: where the field is.
    """

    url: str | None = None
    key: str | None = None
    field: str | None = None


class PickleRefused(ValueError):
    """The error of a field that is a pickle, or needs one, where that was not allowed."""


@dataclass(frozen=True)
class Continue:
    """The answer of a decoder that has only unwrapped the data: the other decoders go on with it.

    Args:
        key: the name under which they go on.
        data: the unwrapped data.
    """

    key: str
    data: bytes


def gzfilter(key: str, data: bytes) -> Continue | None:
    """Unpack a field with a name that ends in .gz; None for others.

    Raises:
        ValueError: if the field unpacks to more than 4 GiB.
    """
    if not key.endswith(".gz"):
        return None
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        unpacked = file.read(MOST_UNPACKED + 1)
    if len(unpacked) > MOST_UNPACKED:
        raise ValueError(f"the field unpacks to more than {MOST_UNPACKED} bytes")
    return Continue(key[:-3], unpacked)


# ---------------------------------------------------------------- the table


def _pickle(data: bytes, pickles: bool) -> Any:
    if not _reads_pickles(pickles):
        raise PickleRefused("it is a pickle, which can run any code when it is read")
    return pickle.loads(data)


def _reads_pickles(allowed: bool) -> bool:
    """Whether pickles are read. `allowed`: decode()'s answer. ValueError if enforce_security refuses all
    pickles (utils.py).
    """
    if utils.enforce_security:
        raise ValueError("Unpickling is not allowed: enforce_security is set")
    return allowed or utils.enforce_security is False


def _torch(data: bytes, pickles: bool) -> Any:
    if utils.enforce_security:
        raise ValueError("torch.loads is not allowed: enforce_security is set")
    wds = importlib.import_module(__package__)
    pickles = _reads_pickles(pickles) and not (
        wds.pytorch_weights_only or wds.autodecode.pytorch_weights_only
    )
    try:
        return torch.load(io.BytesIO(data), weights_only=not pickles, map_location="cpu")
    except pickle.UnpicklingError as error:
        if pickles:
            raise
        what = str(error).partition("\n")[0][:200]
        raise PickleRefused(
            f"it holds more than tensors, which takes a pickle that can run any code ({what})"
        ) from None


def _arrays(read: Callable[..., Any]) -> Callable[[bytes, bool], Any]:
    """A reader that uses numpy. Under enforce_security it reads arrays without objects in them."""

    def reads(data: bytes, pickles: bool) -> Any:
        objects = not utils.enforce_security and (pickles or utils.enforce_security is False)
        try:
            return read(io.BytesIO(data), allow_pickle=objects)
        except ValueError as error:
            if "allow_pickle" not in str(error):
                raise
            raise PickleRefused(
                "it is an array of objects, or no array at all, which takes a pickle that can run any code"
            ) from None

    return reads


def field_package(name: str) -> Any:
    """The package that reads and writes a kind of fields."""
    return optional(name, "such fields (decode(only=...) leaves them out) are read and written by", name)


#: Readers of a field's bytes, by extension; these need no pickles.
PLAIN: dict[str, Callable[[bytes], Any]] = {
    **dict.fromkeys(("txt", "text", "transcript"), bytes.decode),
    **dict.fromkeys(("cls", "cls2", "index", "inx", "id"), int),
    **dict.fromkeys(("json", "jsn"), json.loads),
    **dict.fromkeys(("ten", "tb"), tenbin.decode_buffer),
    **dict.fromkeys(("mp", "msg"), lambda data: field_package("msgpack").unpackb(data)),
    "cbor": lambda data: field_package("cbor").loads(data),
}
#: These readers also take whether pickles are allowed.
PICKLED: dict[str, Callable[[bytes, bool], Any]] = {
    **dict.fromkeys(("pkl", "pickle", "pyd"), _pickle),
    "pth": _torch,
    "npy": _arrays(np.lib.format.read_array),
    "npz": _arrays(lambda file, allow_pickle: dict(np.load(file, allow_pickle=allow_pickle))),
}


def read_field(extension: str, data: bytes, allow_pickle: bool) -> Any:
    """The value of a field's bytes; None for an unknown extension."""
    if extension in PLAIN:
        return PLAIN[extension](data)
    return PICKLED[extension](data, allow_pickle) if extension in PICKLED else None


@dataclass(frozen=True)
class BasicHandlers:
    """The table as a decoder. `allow_pickle`: True, or the extensions that may be pickles."""

    allow_pickle: AllowPickle = False

    def __call__(self, key: str, data: bytes) -> Any:
        extension, allowed = key.rpartition(".")[2], self.allow_pickle
        return read_field(extension, data, allowed if isinstance(allowed, bool) else extension in allowed)


# ---------------------------------------------------------------- samples


class SampleDecoder:
    """A function of samples: `decoder(sample)` is a new dict with decoded fields.

    WebDataset.decode() documents the arguments.
    """

    def __init__(
        self,
        handlers: Iterable[str | Decoder],
        pre: Iterable[Decoder] | None = None,
        post: Iterable[Decoder] | None = None,
        only: None | str | Collection[str] = None,
        partial: bool = False,
        allow_pickle: AllowPickle = False,
    ) -> None:
        middle = [ImageHandler(handler) if isinstance(handler, str) else handler for handler in handlers]
        before = [gzfilter] if pre is None else list(pre)
        behind = [BasicHandlers(allow_pickle)] if post is None else list(post)
        self._decoders: list[Decoder] = [*before, *middle, *behind]
        for decoder in self._decoders:
            if not callable(decoder):
                raise TypeError(
                    f"a decoder should be a function of (key, data) or a name, not {type(decoder).__name__}"
                )
        self._only = None if only is None else frozenset(only.split() if isinstance(only, str) else only)
        self._partial = partial

    def __call__(self, sample: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(sample, dict):
            raise TypeError(
                f"decode() takes samples that are dicts, not {type(sample).__name__}; put it before"
                " to_tuple()"
            )
        result = {}
        for name, value in sample.items():
            if name[:2] == "__":
                result[name] = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
            elif (self._only is not None and name not in self._only) or (
                self._partial and not isinstance(value, bytes)
            ):
                result[name] = value
            else:
                result[name] = self._field(sample, name, value)
        return result

    def _field(self, sample: dict[str, Any], name: str, value: Any) -> Any:
        try:
            if not isinstance(value, bytes):
                raise TypeError(
                    f"it is no bytes but {type(value).__name__}; decode(partial=True) leaves what is decoded"
                    " already"
                )
            return self._decoded("." + name, value)
        except (MemoryError, UnavailableError):
            raise
        except Exception as error:
            raise decoding_error(error, sample, name) from error

    def _decoded(self, key: str, data: bytes) -> Any:
        for decoder in self._decoders:
            result = decoder(key, data)
            if type(result).__name__ == "Continue":  # ours, or webdataset's
                key, data = result.key, result.data
            elif result is not None:
                return result
        return data


def decoding_error(error: Exception, sample: dict[str, Any], name: str) -> DecodingError:
    url: Any = sample.get("__url__")
    key = sample.get("__key__")
    extension = name.rpartition(".")[2]
    remedy = (
        f'; if you trust this data: decode(..., allow_pickle=("{extension}",))'
        if isinstance(error, PickleRefused)
        else ""
    )
    named = DecodingError(
        f"{url}: sample {key!r}, field {name!r} cannot be decoded: {type(error).__name__}: {error}{remedy}"
    )
    named.path, named.offset = url, -1
    named.url, named.key, named.field = url, key, name
    return named
