"""What the words of a command line name: objects as `module:attribute` or `script.py:attribute`; and what to print of an error that code of
the user's raised."""

from __future__ import annotations

import os
import re
import sys
import traceback
from typing import Any


def is_name(text: str) -> bool:
    """Whether `text` has the form module:attribute or script.py:attribute, and is no file."""
    return not os.path.exists(text) and re.fullmatch(r"([A-Za-z_][\w.]*|.*\.py):[A-Za-z_][\w.]*", text) is not None


def named(text: str) -> Any:
    """What it names, called when it is a class or function; as `millrace bench` finds it. Modules of the current folder are found."""
    from ..benching.targets import named as found

    sys.path.insert(0, os.getcwd())
    return found(text)


def explained(error: Exception) -> str:
    """The message; of what code that is not ours raised, also its kind and its line, without which many say nothing."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    ours = os.path.abspath(frame.filename).startswith(os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep)
    if ours or isinstance(error, (ImportError, OSError)):
        return str(error)
    return f"{type(error).__name__}: {error} (line {frame.lineno} of {frame.filename})"
