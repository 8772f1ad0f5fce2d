"""Names of libraries, functions and calls, with the stage of each; and which code is that of a dataset's
transforms.
"""

from __future__ import annotations

import functools
import os
import re
import sysconfig
from collections.abc import Iterator
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

# Parts of file names, "/" before and after; the first that fits decides. None: a frame that says nothing
# itself.
_FILES: tuple[tuple[str, str | None], ...] = (
    ("/millrace/_pictures/", "decode"),
    ("/torchvision/transforms/", "transform"),
    ("/torchaudio/transforms/", "transform"),
    ("/torchaudio/functional/", "transform"),
    ("/torchvision/io/", "decode"),
    ("/torchvision/datasets/", None),
    ("/albumentations/", "transform"),
    ("/kornia/", "transform"),
    ("/imgaug/", "transform"),
    ("/augly/", "transform"),
    ("/monai/transforms/", "transform"),
    ("/monai/data/image_reader", "decode"),
    ("/tokenizers/", "transform"),
    ("/transformers/", "transform"),
    ("/millrace/transforms/", "transform"),
    ("/millrace/datasets/pillow_decode", "decode"),
    ("/millrace/datasets/webdataset/decoders", "decode"),
    ("/millrace/datasets/webdataset/shards", "fetch"),
    ("/millrace/stores/", "fetch"),
    ("/PIL/ImageFile.py", "decode"),
    ("/PIL/Image.py", None),  # by function, see _PILLOW
    ("ImagePlugin.py", "decode"),
    ("/PIL/", "transform"),  # ImageOps, ImageEnhance, ImageFilter
    ("/simplejpeg/", "decode"),
    ("/turbojpeg", "decode"),
    ("/imageio/", "decode"),
    ("/skimage/io/", "decode"),
    ("/skimage/", "transform"),
    ("/soundfile.py", "decode"),
    ("/torchaudio/", "decode"),
    ("/torchcodec/", "decode"),
    ("/librosa/core/audio", "decode"),
    ("/librosa/", "transform"),
    ("/decord/", "decode"),
    ("/av/", "decode"),
    ("/gzip.py", "decode"),
    ("/zipfile", "decode"),
    ("/lzma.py", "decode"),
    ("/bz2.py", "decode"),
    ("/json/", "decode"),
    ("/csv.py", "decode"),
    ("/pickle.py", "decode"),
    ("/torch/serialization.py", "decode"),
    ("/torch/_weights_only_unpickler.py", "decode"),
    ("/numpy/lib/npyio.py", "decode"),
    ("/numpy/lib/_npyio_impl.py", "decode"),
    ("/numpy/lib/format.py", "decode"),
    ("/numpy/lib/_format_impl.py", "decode"),
    ("/safetensors/", "decode"),
    ("/pyarrow/", "fetch"),
    ("/h5py/", "fetch"),
    ("/zarr/", "fetch"),
    ("/lmdb/", "fetch"),
    ("/fsspec/", "fetch"),
    ("/s3fs/", "fetch"),
    ("/gcsfs/", "fetch"),
    ("/boto3/", "fetch"),
    ("/botocore/", "fetch"),
    ("/s3transfer/", "fetch"),
    ("/requests/", "fetch"),
    ("/urllib3/", "fetch"),
    ("/urllib/", "fetch"),
    ("/http/", "fetch"),
    ("/httpx/", "fetch"),
    ("/httpcore/", "fetch"),
    ("/aiohttp/", "fetch"),
    ("/smart_open/", "fetch"),
    ("/socket.py", "fetch"),
    ("/ssl.py", "fetch"),
    ("/selectors.py", "fetch"),
    ("/tarfile.py", "fetch"),
)
_PILLOW_DECODES = frozenset(
    "open _open_core preinit init load frombytes frombuffer _decompression_bomb_check __init__ new".split()
)

#: Functions that read, by the name under which they are called or defined.
_READS = frozenset(
    "read readinto readinto1 read1 readline readlines readall pread preadv read_bytes read_text read_file"
    " read_range get_range get_object download download_file download_fileobj download_as_bytes urlopen"
    " urlretrieve recv recv_into recvfrom connect sendall stat listdir scandir fetch fetchone fetchall"
    " fetchmany execute get_bytes get_blob fromfile memmap getxattr".split()
)
#: Also where nothing else is known of the name in front of the dot.
_READS_BARE = frozenset(
    (
        "open os.open os.read io.open select poll requests.get session.get client.get store.get s3.get "
        + "txn.get"
    ).split()
)
_DECODES = re.compile(
    r"^(im|jpeg_|png_|_*)?(decode|imdecode|imread|decode_\w+|\w+_decode|decompress|decompressobj|frombuffer_jpeg|loadtxt|genfromtxt|"
    r"unpack|unpackb|parse|safe_load)$"
)
_LOADERS = frozenset(
    "json orjson ujson simdjson pickle cPickle cloudpickle marshal msgpack yaml toml tomllib zlib gzip bz2"
    " lzma zstd zstandard lz4 blosc blosc2 brotli np numpy torch Image sf soundfile simplejpeg torchaudio"
    " jpeg wavfile".split()
)
_LOADS = frozenset("load loads load_npz open read decompress block frame from_buffer".split())
_TRANSFORMS = re.compile(
    r"^_*(transforms?|transform_\w+|\w+_transforms?|augment\w*|preprocess\w*|tokenize\w*|tfms?|normali[sz]e\w*)$"
)
#: Attributes in which datasets hold their transforms.
HELD = tuple(
    "transform transforms target_transform image_transform augment augmentation augmentations tfm tfms"
    " preprocess".split()
)
COLLATES = frozenset(
    {"add", "begin", "samples_again", "collate_fn", "self.collate_fn", "self.collated", "writer.begin"}
)
_MILLRACE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIBRARIES = (
    *{
        os.path.join(sysconfig.get_paths()[name], "")
        for name in ("stdlib", "platstdlib", "purelib", "platlib")
    },
    os.path.join(_MILLRACE, ""),
    os.path.join(f"{_MILLRACE}_tools", ""),
)
"""Folders of code that is not the user's."""


def stage_of_code(code: CodeType) -> str | None:
    """Of a frame, by its file and, where that is the user's, by its function's name."""
    file, function = code.co_filename, code.co_name
    for part, stage in _FILES:
        if part in file:
            if part != "/PIL/Image.py":
                return stage
            if function in _PILLOW_DECODES:
                return "decode"
            return None if function == "convert" else "transform"
    return None if file.startswith(LIBRARIES) else _stage_of_users(function)


def _stage_of_users(function: str) -> str | None:
    if function in _READS:
        return "fetch"
    if _DECODES.match(function):
        return "decode"
    return "transform" if _TRANSFORMS.match(function) else None


def stage_of_call(name: str, transforms: bool = True) -> str | None:
    """Of a call without a frame, by its name: "np.load", "self.transform", "file.read"."""
    root, _, last = name.rpartition(".")
    root = root.rpartition(".")[2]
    if last in _LOADS and root in _LOADERS or _DECODES.match(last):
        return "decode"
    if last in _READS or name in _READS_BARE:
        return "fetch"
    if transforms and (_TRANSFORMS.match(last) or last in HELD or root == "cv2"):
        return "transform"
    return None


#: Attributes in which datasets hold other datasets, and transforms other transforms.
_INNER = ("dataset", "datasets", "base", "base_dataset", "source", "data_source", "stages", "_dataset")
_PARTS = ("transforms", "functions", "function", "func", "lambd", "fn", "steps")


_MOST = 1000  # objects that are looked at
_MOST_PARTS = 100  # of a list


def codes_of_transforms(dataset: Any) -> Iterator[CodeType]:
    """Code objects of the transforms that a dataset, or one inside it, holds."""
    seen: set[int] = set()
    datasets = [dataset]
    while datasets and len(seen) < _MOST:
        holder = datasets.pop()
        if id(holder) in seen or isinstance(holder, (str, bytes, int, float)):
            continue
        seen.add(id(holder))
        if isinstance(holder, (list, tuple)):
            datasets.extend(holder[:_MOST_PARTS])
            continue
        held = _attributes(holder)
        transforms = [held.get(name) for name in HELD]
        if type(holder).__name__ in ("Map", "MapTuple", "MapDict"):  # stages of a WebDataset
            transforms += [held.get("function"), held.get("functions")]
        arguments = held.get("_format_kwargs")  # datasets of Hugging Face: set_transform()
        if isinstance(arguments, dict):
            transforms.append(arguments.get("transform"))
        for transform in transforms:
            yield from _codes(transform, seen)
        datasets.extend(held[name] for name in _INNER if name in held)


def innermost(dataset: Any) -> Any:
    """The dataset inside wrappers: Subset and the like."""
    for _ in range(8):
        dataset = _attributes(dataset).get("dataset", dataset)
    return dataset


def _attributes(holder: Any) -> dict[str, Any]:
    """Without asking it: __getattr__ of the user's may do anything."""
    try:
        return vars(holder) if type(holder).__dictoffset__ else {}
    except Exception:
        return {}


def _codes(transform: Any, seen: set[int]) -> Iterator[CodeType]:
    if transform is None or id(transform) in seen or len(seen) >= _MOST:
        return
    seen.add(id(transform))
    if isinstance(transform, FunctionType):
        yield transform.__code__
    elif not isinstance(transform, (type, MethodType)):
        for cls in type(transform).__mro__:
            if cls.__module__.split(".")[0] not in ("builtins", "functools", "torch", "typing", "abc"):
                functions = (value for value in vars(cls).values() if isinstance(value, FunctionType))
                yield from (function.__code__ for function in functions)
    for part in _parts(transform):
        yield from _codes(part, seen)


def _parts(transform: Any) -> list[Any]:
    """The callables that a transform is made of."""
    if isinstance(transform, (list, tuple)):
        return list(transform[:_MOST_PARTS])
    if isinstance(transform, dict):
        return list(transform.values())
    if isinstance(transform, MethodType):
        return [transform.__func__]
    if isinstance(transform, functools.partial):
        return [transform.func]
    if isinstance(transform, FunctionType):
        filled = [cell.cell_contents for cell in transform.__closure__ or () if cell != CellType()]
        return [value for value in filled if isinstance(value, (FunctionType, MethodType))]
    held = {} if isinstance(transform, type) else _attributes(transform)
    return [held.get(name) for name in _PARTS] + list((held.get("_modules") or {}).values())
