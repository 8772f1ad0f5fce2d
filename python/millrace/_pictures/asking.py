"""Decides which pictures wait, and which arrays the engine reads: those that are opened while a loader of
ours asks a dataset for samples.

In a worker process these are the pictures and arrays of all threads; in this process those of a thread that
asks, while it asks; after `millrace.install()` those of all threads. This module never imports the packages
that need replacements: `look_around()` finds those that the script has imported by now.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from importlib import import_module
from importlib.util import resolve_name
from typing import Any, Literal

from .counts import PictureCounts
from .replaced import replacements, stop_watching, watch_imports


class Asker:
    """A thread that may ask a dataset for samples. `counts`: the counts of the engine for which it asks;
    False: its loader leaves pictures to Pillow; None: the thread does not ask.
    """

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts: PictureCounts | Literal[False] | None = None


class _Thread(threading.local):
    def __init__(self) -> None:
        self.asker = Asker()


this_thread = _Thread()
"""This thread's `asker`. Hot loops inline asks(): call look_around() if pictures are to wait, set `counts`,
restore it.
"""
_of_process: PictureCounts | None = None  # where all threads count


def asked() -> PictureCounts | None:
    """The counts for a picture that is opened now; None if the picture is not to wait."""
    counts = this_thread.asker.counts
    return _of_process if counts is None else counts or None


def everywhere(counts: PictureCounts | None) -> None:
    """From now on, let pictures wait in all threads except those that ask for a loader; None ends this."""
    global _of_process
    _of_process = counts
    if counts is not None:
        look_around()


def install() -> None:
    """Let pictures wait in the whole process, also those of packages that it imports later, unless
    MILLRACE_PICTURES is "pillow".
    """
    if _of_process is None and os.environ.get("MILLRACE_PICTURES") != "pillow":
        everywhere(PictureCounts())
        watch_imports([package for package, _ in _PACKAGES], look_around)


def uninstall() -> None:
    """End install(). Pictures that wait by now go on waiting."""
    stop_watching()
    everywhere(None)
    put_back()


def asks(counts: PictureCounts | None) -> Any:
    """Begin to ask a dataset in this thread; call it before the dataset. `counts` None: the dataset's
    pictures do not wait. Returns the argument for stops_asking().
    """
    if counts is not None:
        look_around()
    mine = this_thread.asker
    before, mine.counts = mine.counts, counts or False
    return before


def stops_asking(before: Any) -> None:
    this_thread.asker.counts = before


# (a package that the script must have imported before there is anything to replace, our module that does it)
_PACKAGES = (
    ("PIL.JpegImagePlugin", "pillow"),
    ("PIL.JpegImagePlugin", "pillow_colours"),
    ("PIL.WebPImagePlugin", "pillow_webp"),
    ("PIL.ImageEnhance", "pillow_colours"),
    ("PIL.ImageOps", "pillow_colours"),
    ("torchvision.transforms.transforms", "torchvision_calls"),
    ("torchvision.transforms.transforms", "torchvision_chains"),
    ("torchvision.transforms.v2", "torchvision_calls"),
    ("torchvision.transforms.v2", "torchvision_chains"),
    ("torchvision.io", "torch_decoders"),
    ("torchcodec.decoders._image_decoders", "torch_decoders"),
    ("cv2", "opencv"),
    ("h5py", "._arrays.hdf5_reads"),
    ("zarr.core.array", "._arrays.zarr_reads"),
)
_seen: set[tuple[str, str]] = set()
modules_seen = 0
"""Number of modules at the last look_around(); while it is the same, look_around() has nothing to do."""
_looked = False  # in this process, ever


def look_around() -> None:
    """Replaces functions in packages imported since the last call; about 0.1 us if there are none."""
    global modules_seen, _looked
    modules = sys.modules
    if len(modules) == modules_seen:
        return
    modules_seen, _looked = len(modules), True
    for package, ours in _PACKAGES:
        if package in modules and (package, ours) not in _seen:
            _seen.add((package, ours))
            try:
                install = getattr(import_module(f".{ours}", __package__), "install", None)
                if install is None or install() is False:  # that module, or the package, is being imported
                    _seen.discard((package, ours))
                    modules_seen = 0
            except Exception as error:  # a package that is not what it seems to be
                warnings.warn(f"what {package} reads stays as it is: {error!r}", stacklevel=2)


def look_around_once() -> None:
    """look_around(), unless this process has called it before: replacements that were put back stay so."""
    if not _looked:
        look_around()


def put_back() -> None:
    """Take out all that look_around() has put in. Pictures that wait keep their recording, and get their
    pixels through the door, which stays. The pictures with which waiting enhancers blend stay, too.
    """
    global modules_seen
    replacements.put_back()
    for _, ours in _PACKAGES:
        module: Any = sys.modules.get(resolve_name(f".{ours}", __package__))
        if hasattr(module, "uninstall"):  # it remembers what it has seen
            module.uninstall()
    _seen.clear()
    modules_seen = 0
