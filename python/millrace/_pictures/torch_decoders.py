"""The decoders of torchvision.io and torchcodec: a regular JPEG comes from the engine, in a tensor of the
same values and strides.

Both call an operator of torch: that is replaced, so names that a script bound before get the engine's pixels,
too, and arguments are checked by the packages. Where torchvision's operators could not be loaded, its
functions raise; they are replaced then, and decode JPEGs. Left to the packages: grey tensors of JPEGs in
colour, other devices, and an orientation that their versions read differently.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Callable
from typing import Any

import torch

from .. import _core
from .decoding import agrees, decoded, jpeg_in, put_in_front
from .orientation import orientation_of

_UNCHANGED, _GREY, _RGB = 0, 1, 3  # ImageReadMode of both packages
_MODES = {"UNCHANGED": _UNCHANGED, "GRAY": _GREY, "RGB": _RGB}


def _decoded(jpeg: bytes, mode: int, turned: bool) -> torch.Tensor | None:
    """(channels, height, width), the bytes of a pixel beside each other."""
    if mode not in (_UNCHANGED, _GREY, _RGB):
        return None

    def make(record: _core.RecordedPicture) -> torch.Tensor | None:
        grey = record.mode == "L"
        orientation = orientation_of(jpeg) if turned else 1
        if orientation is None or (mode == _GREY and not grey):
            return None
        if grey and mode != _RGB:
            pixels = torch.from_numpy(record.array("L")).unsqueeze(-1)
        else:
            pixels = torch.from_numpy(record.convert("RGB").array("RGB"))
        return _upright(pixels.permute(2, 0, 1), orientation)

    return decoded(jpeg, make)


def _upright(tensor: torch.Tensor, orientation: int) -> torch.Tensor:
    if orientation > 4:
        tensor = tensor.transpose(1, 2)
    flips = {2: (2,), 3: (1, 2), 4: (1,), 6: (2,), 7: (1, 2), 8: (1,)}.get(orientation)
    return tensor if flips is None else tensor.flip(flips)


def _bytes_of(data: Any) -> bytes | None:
    if type(data) is not torch.Tensor or data.dtype is not torch.uint8 or data.dim() != 1:
        return None
    if data.device.type != "cpu" or not data.is_contiguous():
        return None
    return data.numpy().tobytes()


# ------------------------------------------------------------------ operators


def _vision_operator(data: Any, mode: Any, apply_exif_orientation: Any = False) -> torch.Tensor | None:
    jpeg = _bytes_of(data)
    return None if jpeg is None else _decoded(jpeg, mode, bool(apply_exif_orientation))


def _codec_operator(data: Any, mode: Any) -> torch.Tensor | None:
    return _vision_operator(data, mode, True)


def _put_in_vision(package: Any) -> None:
    image = package.image
    if not image._has_image_ops():
        for name in ("read_image", "decode_image", "decode_jpeg"):
            ours = _in_place_of(getattr(image, name))
            for module in (image, package):
                put_in_front(module, name, ours, f"{module.__name__}:{name}")
        return
    operators = torch.ops.image
    for name in ("decode_image", "decode_jpeg"):
        if _agrees(getattr(operators, name), True):
            put_in_front(operators, name, _vision_operator, f"torch:ops.image.{name}")


def _put_in_codec(decoders: Any) -> None:
    if _agrees(decoders._decode_jpeg):
        put_in_front(decoders, "_decode_jpeg", _codec_operator, f"{_CODEC}:_decode_jpeg")


def _agrees(turning: Callable[..., Any], *more: bool) -> bool:
    """Whether `turning` gives the engine's pixels. `more`: its arguments after the mode."""

    def theirs(jpeg: bytes) -> Any:
        return turning(torch.frombuffer(bytearray(jpeg), dtype=torch.uint8), _UNCHANGED, *more)

    return agrees(theirs, lambda jpeg: _decoded(jpeg, _UNCHANGED, True))


# ------------------------------------------------------------------ functions without operators


def _in_place_of(original: Callable[..., Any]) -> Callable[..., torch.Tensor | None]:
    signature = inspect.signature(original)

    def ours(*args: Any, **kwargs: Any) -> torch.Tensor | None:
        try:
            given = signature.bind(*args, **kwargs).arguments
            mode = given.get("mode", "UNCHANGED")
            number = _MODES.get(mode.upper() if isinstance(mode, str) else mode.name)
            on_cpu = torch.device(given.get("device", "cpu")).type == "cpu"
        except (TypeError, ValueError, AttributeError, RuntimeError):  # the script's own mistake
            return None
        source = next(iter(given.values()))
        jpeg = _bytes_of(source) if isinstance(source, torch.Tensor) else jpeg_in(source)
        if jpeg is None or number is None or not on_cpu:
            return None
        return _decoded(jpeg, number, bool(given.get("apply_exif_orientation", False)))

    return ours


# ------------------------------------------------------------------ in and out of the packages

_CODEC = "torchcodec.decoders._image_decoders"
# Module -> (what it has when its import is nearly done, what puts replacements there)
_PLACES: dict[str, tuple[str, Callable[[Any], None]]] = {
    "torchvision.io": ("decode_jpeg", _put_in_vision),
    _CODEC: ("decode_image", _put_in_codec),
}
_done: set[str] = set()


def install() -> bool:
    """In the packages that are imported by now. False while one is being imported."""
    ready = True
    for name, (last, put) in _PLACES.items():
        module = sys.modules.get(name)
        if module is None or name in _done:
            continue
        if hasattr(module, last):
            _done.add(name)
            with contextlib.suppress(AttributeError):  # a version that has something else there
                put(module)
        else:
            ready = False
    return ready


def uninstall() -> None:
    _done.clear()
