"""timm's ImageDataset over its folder reader: a list of paths and labels, with timm's rule for pictures that
cannot be read.

timm takes the next sample in their place, which is the engine's policy "replace", whatever the loader's is.
Two things differ: stats()["errors"] names them instead of a warning in timm's log, and more than ten bad
ones behind each other are no error while there is a good one. Older versions of timm replace what is no
picture, and raise for files that are missing or cut short; the engine replaces these, too.
"""

from __future__ import annotations

from typing import Any

from ..._common.lowering.refusal import NotLowered, loaded
from ..engines.images import Files
from .path_lists import check_overrides, known_files, library_code, pairs
from .source import Source

_READER = "timm.data.readers.reader_image_folder"
_ATTRIBUTES = (
    "reader",
    "load_bytes",
    "input_img_mode",
    "transform",
    "target_transform",
    "additional_features",
)
# The names in the code of __getitem__, by generation: the newest, the one before, and that without features.
_COMMON = {*_ATTRIBUTES, *("read", "Image", "open", "convert", "len", "_logger", "warning")}
_COUNTING = {*("Exception", "filename", "str", "_consecutive_errors", "_ERROR_RETRY", "__getitem__")}
_READS = (
    _COMMON | {"range", "_max_retries", "IOError", "OSError", "RuntimeError"},
    _COMMON | _COUNTING,
    (_COMMON | _COUNTING) - {"additional_features"},
)
_READER_READS = ({"samples", "open"},)


def recognise_timm(root: Any) -> Source:
    """The Source of an ImageDataset; NotLowered when its samples must be made by Python."""
    cls, base, reader = type(root), loaded("timm.data.dataset", "ImageDataset"), root.reader
    folder = loaded(_READER, "ReaderImageFolder")
    check_overrides(cls, base, _ATTRIBUTES)
    if folder is None or type(reader) is not folder:
        raise NotLowered(
            f"timm's {cls.__name__} reads with {type(reader).__name__}, in Python; the engine reads what"
            " ReaderImageFolder lists"
        )
    for owner, known in ((base, _READS), (folder, _READER_READS)):
        if set(library_code(owner, "__getitem__").co_names) not in known:
            raise NotLowered(f"{owner.__name__} of this timm reads samples in a way that is not known here")
    if root.load_bytes or getattr(root, "additional_features", None) is not None:
        raise NotLowered("load_bytes and additional_features make samples of another kind; leave them out")
    if root.input_img_mode not in ("RGB", "", None):
        raise NotLowered(f"input_img_mode={root.input_img_mode!r} has no native form; the engine makes RGB")
    function = root.target_transform

    def files() -> Files:
        return known_files(root, [reader.samples], pairs, function)

    return Source(
        f"timm {cls.__name__}",
        root.transform,
        files,
        any_mode=not root.input_img_mode,
        target_transforms=() if function is None else (function,),
        on_error="replace",
    )
