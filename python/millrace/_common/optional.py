"""Packages that are not needed to import millrace."""

from __future__ import annotations

import importlib
from typing import Any

from ..errors import UnavailableError


def optional(name: str, use: str, install: str) -> Any:
    """The module `name`. UnavailableError, with how to get it, where it is not installed. `use`: what it does
    here, for that message.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise UnavailableError(
            f"{use} {package}, which is not installed: pip install {install} ({error})"
        ) from None
