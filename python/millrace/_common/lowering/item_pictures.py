"""What opens a picture, and what turns it into arrays and tensors, where a __getitem__ calls it: Pillow,
OpenCV, torchvision.io, torchcodec, numpy and torch. Nothing is imported to find out.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ..shipped import is_shipped
from .chain import interpolation_name
from .crops import made_object
from .item_values import Array, Content, File, Opened, Value
from .picture_calls import METHODS as PICTURE_METHODS
from .read_values import MadeList, Op, Picture, Symbol, require
from .recognising import loaded

RGB = Op({"op": "rgb"}, 'convert("RGB")')
GREY = Op({"op": "grey"}, 'convert("L")')
UPRIGHT = Op({"op": "exif_transpose"}, "EXIF orientation")
_EIGHT_BITS = "grey_or_rgb"  # of which OpenCV, torchvision and Pillow make the same RGB


def opened(function: Any, arguments: list[Any], keywords: dict[str, Any]) -> Symbol | None:
    """What `function` opens, or makes of a picture; None: it is another function. NotRead where the arguments
    are others than are known here.
    """
    of_pictures = any(isinstance(part, (Picture, Array)) for part in arguments)
    for (module, name), known in (_OF_PICTURES if of_pictures else _OPENERS).items():
        theirs = _bare(loaded(module, name))
        if theirs is not None and _bare(function) is theirs and _is_theirs(function, module):
            return _called(known, arguments, keywords)
    return None


def method(owner: Symbol, name: str, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    """What `owner.name(...)` is."""
    known = _METHODS.get((Picture if isinstance(owner, Picture) else type(owner), name))
    require(known is not None)
    return _called(known, [owner, *arguments], keywords)


def _called(known: Any, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    try:
        return known(*arguments, **keywords)
    except (TypeError, ValueError):  # arguments that the function does not have
        require(False)


def _bare(function: Any) -> Any:
    """`function` without the wrapper that millrace may have put around it, before or after a script bound its
    name.
    """
    is_ours = type(function).__module__.partition(".")[0] == "millrace"
    return getattr(function, "__wrapped__", function) if is_ours else function


def _is_theirs(function: Any, module: str) -> bool:
    """Whether `function` is from the package of `module`, or millrace's wrapper around such a function
    (_pictures).
    """
    homes = module.partition(".")[0], "millrace", open.__module__, io.BytesIO.__module__, "None"
    return str(getattr(function, "__module__", None)).partition(".")[0] in homes


# ---------------------------------------------------------------- files


def file_of(value: Any) -> File:
    if isinstance(value, File):
        return value
    require(isinstance(value, Value))
    return File(value)


def _open(file: Any, mode: Any = "r") -> File:
    require(mode == "rb" and isinstance(file, Value))
    return File(file)


def _bytes_io(initial_bytes: Any) -> File:
    if isinstance(initial_bytes, Content):
        require(initial_bytes.kind is bytes)
        return initial_bytes.file
    require(isinstance(initial_bytes, Value))
    return File(initial_bytes, "bytes")


def _read(file: File) -> Content:
    require(file.kind == "path")
    return Content(file, bytes)


def _from_buffer(buffer: Any, dtype: Any = float) -> Content:
    require(dtype is np.uint8)
    file = buffer.file if isinstance(buffer, Content) else _bytes_io(buffer)
    require(not isinstance(buffer, Content) or buffer.kind is bytes)
    return Content(file, np.ndarray)


def _from_file(file: Any, dtype: Any = float) -> Content:
    require(dtype is np.uint8 and isinstance(file, Value))
    return Content(File(file), np.ndarray)


def _read_file(path: Any) -> Content:
    require(isinstance(path, Value))
    return Content(File(path), torch.Tensor)


# ---------------------------------------------------------------- pictures


def _image_open(fp: Any) -> Picture:
    return Opened(file_of(fp))


def _rgb_loader(path: Any) -> Picture:
    names = "default_loader", "pil_loader"
    require(all(is_shipped(loaded(_FOLDER, name), _FOLDER, name) for name in names))
    return Opened(file_of(path)).then(RGB)


def _default_loader(path: Any) -> Picture:
    backend = loaded("torchvision", "get_image_backend")
    require(backend is not None and backend() == "PIL")
    return _rgb_loader(path)


def _from_array(obj: Any, mode: Any = None) -> Picture:
    if isinstance(obj, Value):
        shape, is_bytes = _shape_of(obj.of)
        grey = len(shape) == 3 and mode in (None, "L")
        require(is_bytes and (grey or len(shape) == 4 and shape[3] == 3 and mode in (None, "RGB")))
        picture = Opened(File(obj, "pixels"), "any")
        return picture.then(GREY) if grey else picture.then(RGB)
    require(mode is None and isinstance(obj, Array) and obj.is_plain())
    return obj.picture


def _shape_of(rows: Any) -> tuple[tuple[int, ...], bool]:
    """(the shape of an array with rows that may be pictures, whether its dtype is bytes)."""
    if not isinstance(rows, (np.ndarray, torch.Tensor)):
        return (), False
    return tuple(rows.shape), rows.dtype in (np.uint8, torch.uint8)


def _exif_transpose(image: Any) -> Picture:
    require(isinstance(image, Opened))  # nothing was done to it yet
    return image.then(UPRIGHT)


def _imread(filename: Any, flags: Any = 1) -> Array:
    require(isinstance(filename, Value) and flags == 1)
    return Array(Opened(File(filename), _EIGHT_BITS).then(RGB).then(UPRIGHT), np.ndarray, bgr=True)


def _imdecode(buf: Any, flags: Any) -> Array:
    require(isinstance(buf, Content) and buf.kind is np.ndarray and flags == 1)
    return Array(Opened(buf.file, _EIGHT_BITS).then(RGB).then(UPRIGHT), np.ndarray, bgr=True)


def _cvt_color(src: Any, code: Any) -> Array:
    require(isinstance(src, Array) and src.kind is np.ndarray and not src.channels_first and code == 4)
    return src.with_(bgr=not src.bgr)


def _tensor_of(input: Any, mode: Any = "UNCHANGED", apply_exif_orientation: Any = False) -> Array:
    name = str(getattr(mode, "name", mode)).upper()
    require(name in ("RGB", "UNCHANGED") and apply_exif_orientation is False)
    if isinstance(input, Content):
        require(input.kind is torch.Tensor)
    file = input.file if isinstance(input, Content) else file_of(input)
    picture: Picture = Opened(file, _EIGHT_BITS).then(RGB) if name == "RGB" else Opened(file, "rgb")
    return Array(picture, torch.Tensor, channels_first=True)


def _tensor_of_jpeg(input: Any, mode: Any = "UNCHANGED") -> Array:
    require(isinstance(input, Content))
    return _tensor_of(input, mode)


def _codec_tensor(source: Any, mode: Any = "UNCHANGED") -> Array:
    """torchcodec's, which turns pictures upright."""
    made = _tensor_of(source, mode)
    return made.with_(picture=made.picture.then(UPRIGHT))


def _converted(picture: Picture, mode: Any) -> Picture:
    if mode == "L" and not [step for step in picture.steps() if step is not UPRIGHT]:
        return picture.then(GREY)
    return PICTURE_METHODS["convert"](picture, mode)


def _resized(picture: Picture, size: Any, resample: Any = 3) -> Picture:
    """Pillow's method, of an image of three channels."""
    require(
        type(size) in (tuple, MadeList, list) and len(size) == 2 and all(type(side) is int for side in size)
    )
    require(isinstance(resample, int) and is_image(picture))
    op = {"op": "resize", "width": size[0], "height": size[1], "max_size": 0}
    op["interpolation"] = interpolation_name("resize", resample)
    return picture.then(Op(op, f"resize({tuple(size)})"))


def is_image(picture: Picture) -> bool:
    """Whether it is a PIL image, of three channels."""
    return all(
        isinstance(step, Op) and step.op["op"] in ("rgb", "exif_transpose", "resize")
        for step in picture.steps()
    )


# ---------------------------------------------------------------- arrays


_FLOATS = (np.float32, "float32", np.dtype("float32"), torch.float32)
_BYTES = (None, np.uint8, "uint8", np.dtype("uint8"), torch.uint8)


def _as_type(array: Array, dtype: Any) -> Array:
    if any(dtype is one or type(dtype) is type(one) and dtype == one for one in _FLOATS):
        return array.with_(scale="floats" if array.scale == "bytes" else array.scale)
    require(dtype is None or array.scale == "bytes")
    require(any(dtype is one or type(dtype) is type(one) and dtype == one for one in _BYTES))
    return array


def _np_array(object: Any, dtype: Any = None) -> Array:
    array = object
    if isinstance(object, Picture):
        require(is_image(object))
        array = Array(object, np.ndarray)
    require(array.kind is np.ndarray)
    return _as_type(array, dtype)


def _as_tensor(data: Any, dtype: Any = None) -> Array:
    require(isinstance(data, Array))
    return _as_type(data, dtype).with_(kind=torch.Tensor)


def _float(array: Array) -> Array:
    require(array.kind is torch.Tensor)
    return _as_type(array, torch.float32)


def _permuted(array: Array, *order: Any) -> Array:
    axes = order[0] if len(order) == 1 and isinstance(order[0], (tuple, list)) else order
    require(tuple(axes) == ((1, 2, 0) if array.channels_first else (2, 0, 1)))
    return array.with_(channels_first=not array.channels_first)


def _transposed(array: Any, *order: Any) -> Array:
    require(isinstance(array, Array) and array.kind is np.ndarray)  # a tensor's takes two axes
    return _permuted(array, *order)


def _torch_permuted(array: Array, *order: Any) -> Array:
    require(array.kind is torch.Tensor)
    return _permuted(array, *order)


def _same(value: Any) -> Any:
    return value


def divided(array: Array, other: Any) -> Array:
    """`array / other`, of float32; numpy's bytes become float64, which the engine does not divide."""
    require(type(other) in (int, float) and other == 255 and array.scale != "unit")
    if array.scale == "bytes":
        require(array.kind is torch.Tensor and torch.get_default_dtype() is torch.float32)
    return array.with_(scale="unit")


_FOLDER = "torchvision.datasets.folder"
_OPENERS: dict[tuple[str, str], Callable[..., Any]] = {
    ("builtins", "open"): _open,
    ("io", "BytesIO"): _bytes_io,
    ("numpy", "frombuffer"): _from_buffer,
    ("numpy", "fromfile"): _from_file,
    ("torchvision.io", "read_file"): _read_file,
    ("PIL.Image", "open"): _image_open,
    ("PIL.Image", "fromarray"): _from_array,
    (_FOLDER, "default_loader"): _default_loader,
    (_FOLDER, "pil_loader"): _rgb_loader,
    ("cv2", "imread"): _imread,
    ("cv2", "imdecode"): _imdecode,
    ("torchvision.io", "read_image"): _tensor_of,
    ("torchvision.io", "decode_image"): _tensor_of,
    ("torchvision.io", "decode_jpeg"): _tensor_of_jpeg,
    ("torchcodec.decoders", "decode_image"): _codec_tensor,
}


def _as(name: str) -> Callable[..., Any]:
    """torchvision's function, as the transform of v1 that calls it."""

    def call(picture: Any, *arguments: Any, **keywords: Any) -> Picture:
        given = picture.given() if isinstance(picture, Array) else picture
        return given.then(made_object(loaded(_V1, name), list(arguments), keywords))

    return call


_V1 = "torchvision.transforms.transforms"
_V1_FUNCTIONS = "torchvision.transforms.functional"
_OF_PICTURES: dict[tuple[str, str], Callable[..., Any]] = {
    ("PIL.Image", "fromarray"): _from_array,
    ("PIL.ImageOps", "exif_transpose"): _exif_transpose,
    ("cv2", "cvtColor"): _cvt_color,
    (_V1_FUNCTIONS, "to_tensor"): _as("ToTensor"),
    (_V1_FUNCTIONS, "pil_to_tensor"): _as("PILToTensor"),
    (_V1_FUNCTIONS, "resize"): _as("Resize"),
    (_V1_FUNCTIONS, "center_crop"): _as("CenterCrop"),
    (_V1_FUNCTIONS, "normalize"): _as("Normalize"),
    ("numpy", "array"): _np_array,
    ("numpy", "asarray"): _np_array,
    ("numpy", "ascontiguousarray"): _np_array,
    ("numpy", "transpose"): _transposed,
    ("torch", "from_numpy"): _as_tensor,
    ("torch", "as_tensor"): _as_tensor,
    ("torch", "tensor"): _as_tensor,
}
_METHODS: dict[tuple[type, str], Callable[..., Any]] = {
    (File, "read"): _read,
    (Picture, "convert"): _converted,
    (Picture, "resize"): _resized,
    (Picture, "copy"): _same,
    (Array, "copy"): _same,
    (Array, "contiguous"): _same,
    (Array, "astype"): _as_type,
    (Array, "float"): _float,
    (Array, "to"): _as_type,
    (Array, "div"): divided,
    (Array, "permute"): _torch_permuted,
    (Array, "transpose"): _transposed,
}
