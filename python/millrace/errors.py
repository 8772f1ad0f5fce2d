"""The exception types that are millrace's own; every other error is one of Python's.

`CorruptDataError` is an OSError, because that is what users of Pillow catch today: `path` names the file,
`offset` the byte (-1: unknown). Where Pillow has a type of its own for the fault, the error is of that type,
too: `UnidentifiedImageError` and `DecompressionBombError`. `UnavailableError` is a RuntimeError: something
millrace can do, but not here or not in this combination; its message says what to change. `StateError` is a
ValueError: a saved state that is damaged, or belongs to other data.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ._core import CorruptDataError, UnavailableError

__all__ = ["CorruptDataError", "StateError", "UnavailableError"]


class StateError(ValueError):
    """A saved state that an object cannot resume from: it is damaged, or does not belong to that object."""


class WorkersError(StateError, AssertionError):
    """A state with places that belong to as many workers as there were. torchdata's loader raises
    AssertionError then.
    """


def __getattr__(name: str) -> Any:
    """Make a type that is Pillow's, too. They are made on first use, because this imports Pillow."""
    if name not in ("UnidentifiedImageError", "DecompressionBombError"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from PIL import Image, UnidentifiedImageError

    of_pillow = UnidentifiedImageError if name == "UnidentifiedImageError" else Image.DecompressionBombError
    made = type(name, (CorruptDataError, of_pillow), {"__module__": __name__})
    return globals().setdefault(name, made)


def note(error: BaseException, text: str) -> None:
    """Add `text`, the error's place in the engine, below its traceback (Python 3.11 on)."""
    if hasattr(error, "add_note"):
        error.add_note(text)


def corrupt_data(
    path: str, reason: object, kind: type[CorruptDataError] = CorruptDataError
) -> CorruptDataError:
    """A CorruptDataError for `path`, as the engine raises it: the text names the file and the fault, the
    attributes are `path` and `offset`.
    """
    text = str(reason) or type(reason).__name__
    error = kind(text if path in text else f"{path}: {text}")
    error.path, error.offset = path, -1
    return error


@contextmanager
def damage_named(path: str, what: str) -> Iterator[None]:
    """Wrap a library's reading of the file at `path`: its errors about bytes become a CorruptDataError that
    names the file and says `what` could not be done. Errors that name the file already, errors of the system
    and MemoryError pass through.
    """
    try:
        yield
    except (CorruptDataError, UnavailableError, MemoryError):
        raise
    except Exception as error:  # libraries raise nearly every type for bytes that they do not expect
        if path in str(error):
            raise
        # EINVAL: a place before the beginning
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise OSError(error.errno, error.strerror, path) from error
        raise corrupt_data(path, f"{path}: {what}: {type(error).__name__}: {error}") from error
