"""What the words of a command line name: objects as `module:attribute` or `script.py:attribute`."""

from __future__ import annotations

import os
import re
import sys
from typing import Any


def is_name(text: str) -> bool:
    """Whether `text` has the form module:attribute or script.py:attribute, and is no file."""
    return (
        not os.path.exists(text)
        and re.fullmatch(r"([A-Za-z_][\w.]*|.*\.py):[A-Za-z_][\w.]*", text) is not None
    )


def named(text: str) -> Any:
    """What it names, called when it is a class or function; as `millrace bench` finds it. Modules of the
    current folder are found.
    """
    from ..bench.targets import named as found

    sys.path.insert(0, os.getcwd())
    return found(text)
