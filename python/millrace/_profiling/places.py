"""Which stage a stack of Python frames is in, and where: names of libraries, functions and calls, and the
dataset's own transforms.

A stack is ((code object, instruction offset), ...), innermost first. Functions of C have no frame: their
caller's bytecode says which name it is calling. The innermost frame that says something decides, so a picture
that a transform is the first to touch is decoded, not transformed; what nothing is known of is "sample".
"""

from __future__ import annotations

import bisect
import dis
import functools
import os
import re
import sys
import sysconfig
from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any, NamedTuple

Stack = tuple[tuple[CodeType, int], ...]


class Place(NamedTuple):
    stage: str  # fetch, decode, transform, collate, sample
    where: str  # "module.function (file.py:33)": the innermost line that is nobody's library


# Parts of file names, "/" in front and behind; the first that fits decides. None: a frame that says nothing
# itself.
_FILES: tuple[tuple[str, str | None], ...] = (
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
#: Attributes in which datasets hold their transforms, other datasets, and transforms other transforms.
_HELD = tuple(
    "transform transforms target_transform image_transform augment augmentation augmentations tfm tfms"
    " preprocess".split()
)
_INNER = ("dataset", "datasets", "base", "base_dataset", "source", "data_source", "stages", "_dataset")
_PARTS = ("transforms", "functions", "function", "func", "lambd", "fn", "steps")
_LOADED = frozenset(
    "LOAD_GLOBAL LOAD_NAME LOAD_FAST LOAD_FAST_BORROW LOAD_FAST_CHECK LOAD_DEREF LOAD_CLASSDEREF LOAD_METHOD"
    " LOAD_ATTR LOAD_SUPER_ATTR".split()
)
_ENTRIES = {"RESUME", "RETURN_GENERATOR", "COPY_FREE_VARS", "MAKE_CELL"}
_COLLATES = frozenset(
    {"add", "begin", "samples_again", "collate_fn", "self.collate_fn", "self.collated", "writer.begin"}
)
_LIBRARIES = (
    *{
        os.path.join(sysconfig.get_paths()[name], "")
        for name in ("stdlib", "platstdlib", "purelib", "platlib")
    },
    os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), ""),
)


class Places:
    """Classifies stacks of one dataset. `ends`: our code that calls the user's, with which stacks end. One
    thread at a time.
    """

    def __init__(self, dataset: Any, ends: frozenset[CodeType]) -> None:
        self._ends = ends
        self._transforms = frozenset(_codes_of_transforms(dataset))
        self._tail = _last_call(getattr(type(_innermost(dataset)), "__getitem__", None))
        self._known: dict[tuple[Stack, bool, bool], Place] = {}

    def of(self, stack: Stack, ran: bool = False, blocked: bool = False) -> Place:
        """`ran`: the thread was running when it was to be looked at, so a read that it has come to since says
        nothing. `blocked`: it had
        no CPU until it came here.
        """
        key = (stack, ran, blocked)
        place = self._known.get(key)
        if place is None:
            if len(self._known) >= 4096:
                self._known.clear()
            place = self._known[key] = Place(self._stage(stack, ran, blocked), _where(stack, self._ends))
        return place

    def _stage(self, stack: Stack, ran: bool, blocked: bool) -> str:
        inner = [frame for frame in stack if frame[0] not in self._ends]
        outer = next((frame for frame in stack if frame[0] in self._ends), None)
        if outer is not None and called(*outer)[0] in _COLLATES:
            return "collate"
        if not stack:  # the stretch had ended: behind the last call of collate_fn
            return "collate"
        if not inner:
            return self._of_name(self._tail, True) or "sample"
        entered = called(*inner[0])[1]
        for depth, (code, offset) in enumerate(inner):
            if code in self._transforms:
                # what it calls itself, without a frame, is its own work unless it reads or decodes
                name = "" if depth or entered else called(code, offset)[0]
                return self._of_name(name, False) or "transform"
            if depth == 0 and entered:  # at its first instruction: the time before was its caller's
                if blocked:  # who called nothing meanwhile: it iterated over a file, or read mapped memory
                    return "fetch"
                if len(inner) > 1:
                    continue
                return "sample"
            stage = self._of_frame(code, called(code, offset)[0] if depth == 0 else "")
            if stage is not None and not (ran and stage == "fetch"):
                return stage
        return "sample"

    def _of_frame(self, code: CodeType, name: str) -> str | None:
        if name and (stage := self._of_name(name, True)) is not None:
            return stage
        file = code.co_filename
        for part, stage in _FILES:
            if part in file:
                if part == "/PIL/Image.py":
                    return (
                        "decode"
                        if code.co_name in _PILLOW_DECODES
                        else "transform"
                        if code.co_name != "convert"
                        else None
                    )
                return stage
        if not file.startswith(_LIBRARIES):
            function = code.co_name
            if function in _READS:
                return "fetch"
            if _DECODES.match(function):
                return "decode"
            if _TRANSFORMS.match(function):
                return "transform"
        return None

    @staticmethod
    def _of_name(name: str, transforms: bool) -> str | None:
        """Of a call without a frame, by its name: "np.load", "self.transform", "file.read"."""
        root, _, last = name.rpartition(".")
        root = root.rpartition(".")[2]
        if last in _LOADS and root in _LOADERS or _DECODES.match(last):
            return "decode"
        if last in _READS or name in _READS_BARE:
            return "fetch"
        if transforms and (_TRANSFORMS.match(last) or last in _HELD or root == "cv2"):
            return "transform"
        return None


# -------------------------------------------------------------------- bytecode


@functools.lru_cache(512)
def _instructions(code: CodeType) -> list[dis.Instruction]:
    return list(dis.get_instructions(code))


@functools.lru_cache(8192)
def called(code: CodeType, offset: int) -> tuple[str, bool]:
    """(dotted name of what the instruction calls, or "", whether the function has only been entered)"""
    try:
        listed = _instructions(code)
        # it may lie in the call's cache
        number = bisect.bisect_right([instruction.offset for instruction in listed], offset) - 1
        instruction = listed[max(number, 0)]
        if "CALL" not in instruction.opname:
            return "", instruction.opname in _ENTRIES or number <= 0
        return _callee(listed[:number], instruction), False
    except Exception:  # bytecode of another kind: then nothing is known
        return "", False


def _callee(before: list[dis.Instruction], call: dis.Instruction) -> str:
    at = getattr(call, "positions", None)
    names: list[tuple[int, int, str]] = []
    if at is not None and at.col_offset is not None:
        end = (at.end_lineno, at.end_col_offset)
        for load in before:
            here = load.positions  # type: ignore[attr-defined]
            if (
                load.opname not in _LOADED
                or here is None
                or (here.lineno, here.col_offset) != (at.lineno, at.col_offset)
            ):
                continue
            if (here.end_lineno, here.end_col_offset) < end:
                names.append((here.end_lineno, here.end_col_offset, str(load.argval)))
        return ".".join(dict.fromkeys(name for *_, name in sorted(names)))
    for load in reversed(
        before
    ):  # 3.10: the function is what was loaded last as a method, or else the last name
        if load.opname == "LOAD_METHOD":
            return f"?.{load.argval}"
        if load.opname.startswith("CALL") or load.opname.startswith("STORE"):
            break
    return ""


def _last_call(function: Any) -> str:
    """What a function calls last before it returns: where the time has gone that ends behind it."""
    code = getattr(function, "__code__", None)
    name = ""
    for instruction in _instructions(code) if code is not None else ():
        if instruction.opname.startswith("CALL"):
            name = called(code, instruction.offset)[0] or name
    return name


# -------------------------------------------------------------------- transforms


def _codes_of_transforms(dataset: Any) -> Iterator[CodeType]:
    """Code objects of the transforms that a dataset, or one inside it, holds."""
    seen: set[int] = set()
    datasets = [dataset]
    while datasets and len(seen) < 1000:
        holder = datasets.pop()
        if id(holder) in seen or isinstance(holder, (str, bytes, int, float)):
            continue
        seen.add(id(holder))
        if isinstance(holder, (list, tuple)):
            datasets.extend(holder[:100])
            continue
        held = _attributes(holder)
        for name in _HELD:
            yield from _codes(held.get(name), seen)
        if type(holder).__name__ in ("Map", "MapTuple", "MapDict"):  # stages of a WebDataset
            yield from _codes([held.get("function"), held.get("functions")], seen)
        arguments = held.get("_format_kwargs")  # datasets of Hugging Face: set_transform()
        if isinstance(arguments, dict):
            yield from _codes(arguments.get("transform"), seen)
        datasets.extend(held[name] for name in _INNER if name in held)


def _innermost(dataset: Any) -> Any:
    """Behind wrappers: Subset and the like."""
    for _ in range(8):
        inner = _attributes(dataset).get("dataset")
        if inner is None:
            break
        dataset = inner
    return dataset


def _attributes(holder: Any) -> dict[str, Any]:
    """Without asking it: __getattr__ of the user's may do anything."""
    try:
        return vars(holder) if hasattr(type(holder), "__dictoffset__") and type(holder).__dictoffset__ else {}
    except Exception:
        return {}


def _codes(transform: Any, seen: set[int]) -> Iterator[CodeType]:
    if transform is None or id(transform) in seen or len(seen) >= 1000:
        return
    seen.add(id(transform))
    if isinstance(transform, (list, tuple)):
        for part in transform[:100]:
            yield from _codes(part, seen)
    elif isinstance(transform, dict):
        yield from _codes(list(transform.values()), seen)
    elif isinstance(transform, MethodType):
        yield from _codes(transform.__func__, seen)
    elif isinstance(transform, FunctionType):
        yield transform.__code__
        for cell in transform.__closure__ or ():
            try:
                inner = cell.cell_contents
            except ValueError:  # empty
                continue
            if isinstance(inner, (FunctionType, MethodType)):
                yield from _codes(inner, seen)
    elif isinstance(transform, functools.partial):
        yield from _codes(transform.func, seen)
    elif not isinstance(transform, type):
        for cls in type(transform).__mro__:
            if cls.__module__.split(".")[0] in ("builtins", "torch", "typing", "abc"):
                continue
            for function in vars(cls).values():
                if isinstance(function, FunctionType):
                    yield function.__code__
        held = _attributes(transform)
        for name in _PARTS:
            yield from _codes(held.get(name), seen)
        yield from _codes(list((held.get("_modules") or {}).values()), seen)


# -------------------------------------------------------------------- names for people


def _where(stack: Stack, ends: frozenset[CodeType]) -> str:
    users = [frame for frame in stack if frame[0] not in ends]
    if not users:
        return ""
    code, offset = next(
        (frame for frame in users if not frame[0].co_filename.startswith((*_LIBRARIES, "<"))), users[0]
    )
    function = getattr(code, "co_qualname", code.co_name)
    line = (
        next((line for start, end, line in code.co_lines() if start <= offset < end), None)
        or code.co_firstlineno
    )
    return f"{_module_of(code.co_filename)}.{function} ({os.path.basename(code.co_filename)}:{line})"


@functools.lru_cache(256)
def _module_of(file: str) -> str:
    """By its path: to look at every module would, in a forked worker, copy 10 MB of their pages."""
    parts = os.path.splitext(file)[0].removesuffix("/__init__").split("/")
    for first in range(len(parts) - 1, 0, -1):
        name = ".".join(parts[first:])
        if getattr(sys.modules.get(name), "__file__", None) == file:
            return name
    return parts[-1]
