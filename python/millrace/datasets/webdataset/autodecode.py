"""wds.autodecode: decoders of fields by the package's names. decode() puts them together; decoders.py does
the work.
"""

from __future__ import annotations

import functools
import io
import os
import tempfile
from collections.abc import Callable
from typing import Any

from millrace.errors import UnavailableError

from ..._common.optional import optional
from . import tenbin
from .decoders import (
    IMAGE_EXTENSIONS,
    IMAGE_SPECS,
    PICKLED,
    PLAIN,
    BasicHandlers,
    Continue,
    DecodingError,
    ImageHandler,
    SampleDecoder,
    gzfilter,
    read_field,
)

Decoder = SampleDecoder
imagehandler = ImageHandler
imagespecs = IMAGE_SPECS
basichandlers = BasicHandlers()
default_pre_handlers, default_post_handlers = [gzfilter], [basichandlers]
default_decoder = SampleDecoder([])

__all__ = [
    "IMAGE_EXTENSIONS",
    "Continue",
    "Decoder",
    "DecodingError",
    "ImageHandler",
    "basichandlers",
    "decoders",
    "default_decoder",
    "gzfilter",
    "handle_extension",
    "imagehandler",
    "imagespecs",
    "torch_audio",
    "torch_loads",
    "torch_video",
    "unpickle_loads",
]


def _loads(extension: str, data: bytes) -> Any:
    """The field's value. A script that calls this means the data: pickles are read unless enforce_security is
    set (utils.py).
    """
    return read_field(extension, data, True)


unpickle_loads = functools.partial(_loads, "pkl")
npy_loads = functools.partial(_loads, "npy")
npz_loads = functools.partial(_loads, "npz")
msgpack_loads = functools.partial(_loads, "msg")
cbor_loads = functools.partial(_loads, "cbor")
tenbin_loads = tenbin.decode_buffer

#: Functions of a field's bytes, by extension.
decoders: dict[str, Callable[[bytes], Any]] = {
    extension: functools.partial(_loads, extension) for extension in (*PLAIN, *PICKLED)
}

#: True, or WDS_PYTORCH_WEIGHTS_ONLY=1 in the environment: .pth fields hold tensors and plain containers only,
#: whatever else is allowed.
pytorch_weights_only = os.environ.get("WDS_PYTORCH_WEIGHTS_ONLY", "0") == "1"


def torch_loads(data: bytes) -> Any:
    """Read torch.save()'s output.

    See `pytorch_weights_only`, and utils.enforce_security, which refuses it.
    """
    return _loads("pth", data)


def handle_extension(extensions: str, f: Callable[[bytes], Any]) -> Callable[[str, bytes], Any]:
    """A decoder for decode(): f(data) of fields with a name that is, or ends with, one of these: "left.png
    right.png".
    """
    return functools.partial(
        _if_extension, endings=tuple(f".{name}" for name in extensions.lower().split()), function=f
    )


def _if_extension(key: str, data: bytes, endings: tuple[str, ...], function: Callable[[bytes], Any]) -> Any:
    return function(data) if f".{key.lower()}".endswith(endings) else None


_AUDIO_EXTENSIONS = frozenset("flac mp3 sox wav m4a ogg wma".split())
_VIDEO_EXTENSIONS = frozenset("mp4 ogv mjpeg avi mov h264 mpg webm wmv".split())


def torch_audio(key: str, data: bytes) -> Any:
    """A decoder for decode(): (samples, rate) of flac, mp3, wav, ..., by torchaudio.

    Raises:
        UnavailableError: if torchaudio is missing.
    """
    if key.rpartition(".")[2] not in _AUDIO_EXTENSIONS:
        return None
    return optional("torchaudio", "sound is decoded by", "torchaudio").load(io.BytesIO(data))


def torch_video(key: str, data: bytes) -> Any:
    """A decoder for decode(): (frames, sound, info) of mp4, avi, mov, ..., by torchvision's read_video().

    Raises:
        UnavailableError: if torchvision's read_video() is missing.
    """
    extension = key.rpartition(".")[2].lower()
    if extension not in _VIDEO_EXTENSIONS:
        return None
    try:
        from torchvision.io import read_video
    except ImportError:
        raise UnavailableError(
            "videos are decoded by torchvision.io.read_video, which this torchvision has not: give decode() a"
            " function (key, data) that uses torchcodec or PyAV"
        ) from None
    with tempfile.NamedTemporaryFile(suffix=f".{extension}") as file:
        file.write(data)
        file.flush()
        return read_video(file.name, pts_unit="sec")
