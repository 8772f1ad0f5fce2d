"""Whose pictures wait: those that are opened while a loader of ours asks a dataset for samples.

In a worker process that is everybody; in this process it is the thread that asks, while it asks; after
`millrace.install()` everybody again. The packages in which something has to be replaced are never imported
for it: `look_around()` finds those that the script has imported by now.
"""

from __future__ import annotations

import sys
import threading

from .counts import PictureCounts

MODES = ("lazy", "pillow")


class _Thread(threading.local):
    counts: PictureCounts | None = None  # of the engine that this thread asks a dataset for


_thread = _Thread()
_of_process: PictureCounts | None = None  # where all threads count


def asked() -> PictureCounts | None:
    """Where a picture that is opened now counts; None where it is not to wait."""
    return _thread.counts or _of_process


def everywhere(counts: PictureCounts | None) -> None:
    """From now on in all threads; None: no longer."""
    global _of_process
    _of_process = counts
    if counts is not None:
        look_around()


def asks(counts: PictureCounts | None) -> PictureCounts | None:
    """In front of a call of a dataset, in this thread. Returns what stops_asking() needs."""
    before = _thread.counts
    if counts is not None:
        _thread.counts = counts
        look_around()
    return before


def stops_asking(before: PictureCounts | None) -> None:
    _thread.counts = before


# What the script has to import before there is anything to replace, and the module here that replaces it.
_PACKAGES = (
    ("PIL.JpegImagePlugin", "pillow"),
    ("torchvision.transforms.functional", "torchvision_calls"),
    ("torchvision.transforms.v2.functional", "torchvision_calls"),
)
_seen: set[str] = set()


def look_around() -> None:
    """Replaces functions in packages imported since the last call; about 0.2 us if there are none."""
    modules = sys.modules
    for package, ours in _PACKAGES:
        if package in modules and package not in _seen:
            _seen.add(package)
            from importlib import import_module

            import_module("." + ours, __package__).install()


def put_back() -> None:
    """Takes out all that look_around() has put in."""
    for _, ours in _PACKAGES:
        module = sys.modules.get(f"{__package__}.{ours}")
        if module is not None:
            module.uninstall()
    _seen.clear()
