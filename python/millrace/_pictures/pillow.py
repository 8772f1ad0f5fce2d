"""Waiting pictures of Pillow: a script's operations on an opened JPEG are recorded, and the pixels are made
when the script first looks at them. A PNG or a WebP is decoded at once, because only decoding shows damage;
operations on it are recorded.

Pillow's own classes, arguments, checks and messages stay. Three things are put into its classes while
pictures are recorded, and `asking.put_back()` removes them:

1. `ImageFile.load()` reads the compressed bytes of a regular JPEG, and decodes nothing. Pillow loads a file
   that it may refuse at once, so errors come where they always came.
2. The methods below call Pillow's own methods on a copy (`stand_in`). The copy's core image records: it has
   the names of the operations that can wait, and each returns a longer recording.
3. The door: Pillow reaches pixels through one attribute of the instance. A waiting picture has no such
   attribute; the class has a descriptor of that name, which makes the pixels and sets the attribute. Pictures
   that have pixels never use the descriptor, since it is not a data descriptor.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from PIL import Image, ImageFile, JpegImagePlugin

from .. import _core
from .._common.shipped import replaced
from .asking import asked
from .info import LazyInfo
from .pillow_versions import DOOR, MAY_BEGIN_DOWN
from .plain_files import end_png, is_plain
from .replaced import around, replacements

_RECORD = "_millrace_record"
_SHOWN = "_millrace_shown"
FILE = "_millrace_file"  # of a WebP: all its bytes
_LOOKS = "_millrace_looks"  # how often the script looked at the picture


def record_of(image: Image.Image) -> _core.RecordedPicture | None:
    """The recording, if `image` has no pixels yet."""
    state = image.__dict__
    return None if DOOR in state else state.get(_RECORD)


def recorded(image: Image.Image) -> _core.RecordedPicture | None:
    """The same, of a picture that may just have been opened."""
    record = record_of(image)
    if record is None and isinstance(image, ImageFile.ImageFile) and asked() is not None:
        if image.tile or FILE in image.__dict__:
            image.load()
        record = record_of(image)
    return record


# ------------------------------------------------------------------ from a file to a recording


def _begin(image: ImageFile.ImageFile) -> None:
    """`image` waits from now on, if it can."""
    counts = asked()
    if counts is None:
        return
    begun = is_plain(image, replacements.original(ImageFile.ImageFile, "load")) and _read(image)
    counts.opened += begun
    counts.left_to_pillow += not begun


def _read(image: ImageFile.ImageFile) -> bool:
    file = image.fp
    if file is None:
        return False
    try:
        file.seek(0)
        data = file.read()
    except Exception:  # Pillow's own load() will raise the same error
        return False
    record = recording_of(image, data)
    if record is None:
        return False
    if type(image) is not JpegImagePlugin.JpegImageFile:
        end_png(image, data)
    waits(image, record, image._exclusive_fp and image._close_exclusive_fp_after_loading)
    return True


def recording_of(image: ImageFile.ImageFile, data: Any) -> _core.RecordedPicture | None:
    record = _core.RecordedPicture.open(data, image.mode == "L") if type(data) is bytes else None
    return record if record is not None and (record.size, record.mode) == (image.size, image.mode) else None


def waits(image: Any, record: _core.RecordedPicture, closes: bool) -> None:
    """Make `image` a waiting picture. `closes`: close its file, too."""
    image.tile = []
    image.map = None
    image.readonly = 0
    if closes and image.fp is not None:
        image.fp.close()
    image.fp = None
    image.__dict__[_RECORD] = record
    image.__dict__.pop(DOOR, None)


# ------------------------------------------------------------------ from a recording to pixels


def rendered(record: _core.RecordedPicture, render: Callable[..., Any], *args: Any) -> Any:
    """`render(*args)`, a method of `record`; Pillow decodes the file if the engine leaves it to Pillow."""
    first = record.renders == 0
    try:
        result = render(*args)
    except (_core.CorruptDataError, _core.UnavailableError):
        # Image.open() may be the script's own, and asks for limits again.
        image = JpegImagePlugin.JpegImageFile(io.BytesIO(record.compressed))
        replacements.original(ImageFile.ImageFile, "load")(image)
        record.give_pixels(image.convert("RGB").tobytes("raw", "RGBX"))
        result = render(*args)
    if (counts := asked()) is not None:
        counts.decoded(_core.last_decode(), first)
    return result


def looked_at(image: Image.Image, record: _core.RecordedPicture, name: str, *args: Any) -> Any:
    """`record.name(*args)`. The second look at a picture makes its pixels, and keeps them."""
    if record_of(image) is not record:
        return getattr(record, name)(*args)
    state = image.__dict__
    state[_LOOKS] = looks = state.get(_LOOKS, 0) + 1
    if looks == 2:
        made = rendered(record, record.made)
        if hold(image, made):
            return getattr(made, name)(*args)
    return rendered(record, getattr(record, name), *args)


def _core_image(record: _core.RecordedPicture) -> Any:
    layout = "L" if record.mode == "L" else "RGBX"
    pixels = rendered(record, record.tobytes, layout)
    return Image.frombytes(record.mode, record.size, pixels, "raw", layout).im


def _make_pixels(image: Image.Image, record: _core.RecordedPicture) -> Any:
    if (counts := asked()) is not None:
        counts.called()
    state = image.__dict__
    core = state.setdefault(DOOR, _core_image(record))  # another thread's, if that came first
    state.pop(_RECORD, None)
    if (shown := state.pop(_SHOWN, None)) is not None:
        shown.append(core)
    return core


class _Door:
    def __get__(self, image: Image.Image | None, owner: type) -> Any:
        if image is None:
            return self
        state = image.__dict__
        record = state.get(_RECORD)
        if record is not None:
            return _make_pixels(image, record)
        if DOOR in state:  # another thread has set it meanwhile
            return state[DOOR]
        raise AttributeError(f"{owner.__name__!r} object has no attribute {DOOR!r}")


class _Access:
    """The result of load(): access to single pixels, which few scripts use. These are in the memory that the
    picture gets for `record`, also if the picture is closed, or gets other memory, before the first access.
    """

    def __init__(self, image: Image.Image, record: _core.RecordedPicture) -> None:
        self._image, self._record = image, record
        self._shown: list[Any] = image.__dict__.setdefault(_SHOWN, [])  # the core image, when there is one

    def __getitem__(self, at: Any) -> Any:
        return self._pixels()[at]

    def __setitem__(self, at: Any, value: Any) -> None:
        self._pixels()[at] = value

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pixels(), name)

    def _pixels(self) -> Any:
        if not self._shown:
            if record_of(self._image) is self._record:
                _make_pixels(self._image, self._record)
            else:
                self._shown.append(_core_image(self._record))
        return self._shown[0].pixel_access(0)


# ------------------------------------------------------------------ Pillow's methods


class _CoreImage:
    """A recording under the names of Pillow's core image, as Pillow's methods call them."""

    readonly = 0

    def __init__(self, record: _core.RecordedPicture) -> None:
        self.record, self.mode, self.size = record, record.mode, record.size

    def pixel_access(self, readonly: int = 0) -> None:
        return None

    def copy(self) -> _CoreImage:
        return self

    def crop(self, box: Any) -> _CoreImage:
        return _CoreImage(self.record.crop(box))

    def resize(self, size: Any, resample: int = 0, box: Any = None) -> _CoreImage:
        return _CoreImage(
            self.record.resize(size, resample, (0, 0, *self.size) if box is None else box, MAY_BEGIN_DOWN)
        )

    def transpose(self, method: int) -> _CoreImage:
        return _CoreImage(self.record.transpose(method))

    def convert(self, mode: str, dither: Any = 0) -> _CoreImage:
        return _CoreImage(self.record.convert(mode))

    def point(self, table: Any, mode: str | None = None) -> _CoreImage:
        if mode not in (None, self.mode):
            raise _core.NotRecorded
        return _CoreImage(self.record.point(bytes(min(max(value, 0), 255) for value in table)))


def _settled(image: Any) -> Any:
    """`image`; if it is over a _CoreImage, it becomes a waiting picture."""
    state = image.__dict__
    core = state.get(DOOR)
    if type(core) is _CoreImage:
        state[_RECORD] = core.record
        del state[DOOR]
    return image


def _no_larger(image: Any, source: _core.RecordedPicture) -> Any:
    """`image`; if it is smaller than its source, and its pixels take less memory than the data that they are
    made of, it gets its pixels.
    """
    record = record_of(image)
    if record is None or record.size == source.size:
        return image
    width, height = record.size
    stored = record.stored_size[0] * record.stored_size[1]
    if (width * height < stored) if record.waits == 0 else (4 * width * height < record.waits):
        hold(image, rendered(record, record.made))
    return image


def derived(image: Image.Image, record: _core.RecordedPicture, info: bool = True) -> Image.Image:
    """A waiting picture, made from `image`, with its info or without."""
    core: Any = _CoreImage(record)
    return _settled((image if info else Image.Image())._new(core))


def hold(image: Image.Image, record: _core.RecordedPicture) -> bool:
    """Give a waiting picture `record`, which has its pixels; False if the script may write into these, or if
    the picture does not wait any more.
    """
    state = image.__dict__
    if _SHOWN in state or record_of(image) is None:
        return False
    state[_RECORD] = record
    return True


@around
def _waiting(self: Image.Image, *args: Any, original: Callable[..., Any], **kwargs: Any) -> Any:
    """A method that returns a picture; for a waiting picture, it returns a waiting picture."""
    record = recorded(self)
    if record is None:
        return original(self, *args, **kwargs)
    stand_in = object.__new__(type(self))
    stand_in.__dict__.update(self.__dict__)
    stand_in.__dict__[DOOR] = _CoreImage(record)
    try:
        result = original(stand_in, *args, **kwargs)
    except (_core.NotRecorded, AttributeError, TypeError):  # it cannot wait, or is the script's own mistake
        return original(self, *args, **kwargs)
    return _no_larger(_settled(result), record)


@around
def _tobytes(
    self: Image.Image, encoder_name: str = "raw", *args: Any, original: Callable[..., bytes]
) -> bytes:
    record = recorded(self)
    if record is None or encoder_name != "raw" or (args and args != (self.mode,)):
        return original(self, encoder_name, *args)
    if self.__dict__.get(_LOOKS):  # the second look
        _make_pixels(self, record)
        return original(self, encoder_name, *args)
    if (counts := asked()) is not None:
        counts.called()
    return looked_at(self, record, "tobytes", record.mode)


@around
def _load(self: Image.Image, *, original: Callable[..., Any]) -> Any:
    record = record_of(self)
    return original(self) if record is None else _Access(self, record)


@around
def _close(self: Image.Image, *, original: Callable[..., None]) -> None:
    original(self)
    self.__dict__.pop(_RECORD, None)
    self.__dict__.pop(FILE, None)


@around
def _load_file(self: ImageFile.ImageFile, *, original: Callable[..., Any]) -> Any:
    if record_of(self) is None and self.tile:
        _begin(self)
    record = record_of(self)
    return original(self) if record is None else _Access(self, record)


@around
def _copy_info(self: Image.Image, *, original: Callable[..., Any]) -> Any:
    """Copy `info`; the copy of a LazyInfo is lazy, too."""
    return self.info.copy() if type(self.info) is LazyInfo else original(self)


# ------------------------------------------------------------------ in and out of Pillow's classes


_METHODS: list[tuple[type, str, Callable[..., Any]]] = [
    *(
        (Image.Image, name, _waiting)
        for name in ("convert", "copy", "__copy__", "crop", "point", "resize", "transpose")
    ),
    (Image.Image, "_copy_info", _copy_info),
    (Image.Image, "tobytes", _tobytes),
    (Image.Image, "load", _load),
    (Image.Image, "close", _close),
    (ImageFile.ImageFile, "load", _load_file),
]


def install() -> None:
    """Put the methods into Pillow's classes; do nothing if the script has replaced a part of Pillow that
    waiting pictures bypass.
    """
    if any(map(replaced, ("PIL.Image", "PIL.ImageFile", "PIL.JpegImagePlugin"))):
        return
    for owner, name, wrap in _METHODS:
        if name in owner.__dict__:
            replacements.put(owner, name, wrap)
    replacements.put(Image.Image, DOOR, lambda _: _Door())


def is_installed() -> bool:
    return replacements.original(ImageFile.ImageFile, "load") is not ImageFile.ImageFile.load
