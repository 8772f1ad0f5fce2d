"""What the words of a command line name: objects as `module:name` or `script.py:name`.

A script is loaded as multiprocessing loads it into a spawned process: under the name `__mp_main__`, so that
what stands under `if __name__ == "__main__":` does not run, and what is defined in it can be pickled.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import runpy
import sys
from types import ModuleType
from typing import Any

_DOTTED = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*"
_NAMED = re.compile(rf"({_DOTTED}|.*\.py):({_DOTTED})")
_GUARDED = '. Under `if __name__ == "__main__":` nothing runs here: make it at the top, or in a function'


def is_name(text: str) -> bool:
    """Whether `text` has the form module:name or script.py:name, and is no file."""
    return not os.path.exists(text) and _NAMED.fullmatch(text) is not None


def named(text: str, call: bool = True) -> Any:
    """What `module:name` or `script.py:name` names, called if it makes what is asked for."""
    module, name = divided(text)
    sys.path.insert(0, os.getcwd())
    is_script = module.endswith(".py")
    thing: Any = _script(os.path.abspath(module)) if is_script else importlib.import_module(module)
    for part in name.split("."):
        if not hasattr(thing, part):
            raise ValueError(f"{text}: {module} has no {part!r}{_GUARDED if is_script else ''}")
        thing = getattr(thing, part)
    return called(thing, text) if call else thing


def divided(text: str, what: str = "") -> tuple[str, str]:
    """(module or script, name). ValueError for what has not this form, FileNotFoundError for no script."""
    match = _NAMED.fullmatch(text)
    if match is None:
        raise ValueError(
            f"{what}{text!r}: write module:name or script.py:name, of a dataset, a function that makes one,"
            " or a loader"
        )
    if match[1].endswith(".py") and not os.path.isfile(match[1]):
        raise FileNotFoundError(f"{what}{text}: there is no file {match[1]}")
    return match[1], match[2]


def _script(path: str) -> ModuleType:
    main = sys.modules["__main__"]
    if getattr(main, "__file__", None) == path:
        return main
    sys.path.insert(0, os.path.dirname(path))
    module = ModuleType("__mp_main__")
    module.__file__ = path
    # As in multiprocessing.spawn: both names, before anything can be pickled.
    sys.modules["__main__"] = sys.modules["__mp_main__"] = module
    vars(module).update(runpy.run_path(path, run_name="__mp_main__"))
    return module


def called(thing: Any, text: str) -> Any:
    """`thing`, or what it makes, if it is a class or a function."""
    makes = isinstance(thing, type) or (
        callable(thing) and not hasattr(thing, "__getitem__") and not hasattr(thing, "__iter__")
    )
    if not makes:
        return thing
    try:
        inspect.signature(thing).bind()
    except TypeError as error:
        raise ValueError(
            f"{text} is called without arguments, but: {error}; name a function that needs none"
        ) from None
    except ValueError:  # written in C: it has no signature
        pass
    return thing()
