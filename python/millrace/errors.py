"""The two exception types that are millrace's own; every other error is one of Python's.

`CorruptDataError` is an OSError, because that is what users of Pillow catch today: `path` names the file, `offset` the byte (-1:
unknown). `UnavailableError` is a RuntimeError: something millrace can do, but not here or not in this combination; its message
says what to change.
"""

from ._core import CorruptDataError, UnavailableError

__all__ = ["CorruptDataError", "UnavailableError"]


def corrupt_data(path: str, reason: object) -> CorruptDataError:
    """A CorruptDataError for `path`, as the engine raises it: the file, what is wrong with it, and both as attributes."""
    text = str(reason) or type(reason).__name__
    error = CorruptDataError(text if path in text else f"{path}: {text}")
    error.path, error.offset = path, -1
    return error
