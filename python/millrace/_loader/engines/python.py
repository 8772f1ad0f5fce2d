"""What runs a dataset that is Python code, by the name that stats()["engine"] has."""

from __future__ import annotations

from ..engine import PythonSpec
from .inline import InlineEngine
from .processes import ProcessEngine
from .threads import ThreadEngine

PYTHON = {
    "inline": PythonSpec(InlineEngine),
    "threads": PythonSpec(ThreadEngine),
    "processes": PythonSpec(ProcessEngine),
}
