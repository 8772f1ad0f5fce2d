"""What `loader.report()` returns: a profile that prints itself, and that can be saved as a page, a trace or
numbers.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Union

from ..._common.whole_file import write_whole
from . import text
from .colours import STYLE
from .loader_page import loader_page, notebook_block
from .metrics import scalars
from .summary import Summary, profile_of
from .trace import trace_events

PathLike = Union[str, os.PathLike[str]]


class Report:
    """Where a loader's time went, up to the call.

    `profile` is what `loader.profile(steps=True)` returns; `advice` what to change, whose first line is the
    verdict at the top (None: one that follows from the profile alone). str() and print() give plain lines;
    notebooks draw it.
    """

    def __init__(self, profile: Mapping[str, Any], advice: str | None = None) -> None:
        self.profile = profile
        self.advice = advice
        self.summary = Summary(profile)

    def __str__(self) -> str:
        return text.plain(self.summary, self.advice)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<style>{STYLE}</style>{notebook_block(self.summary, self.advice)}"

    def html(self) -> str:
        """The page that save() writes."""
        return loader_page(self.profile, self.advice).html()

    def save(self, path: PathLike = "report.html") -> Path:
        """Writes a page, one file with everything in it. OSError: the folder is missing or cannot be written
        to.
        """
        return write_whole(path, self.html())

    def save_trace(self, path: PathLike = "trace.json") -> Path:
        """Writes the steps as Chrome's trace events, which ui.perfetto.dev and chrome://tracing draw. OSError
        as save().
        """
        return write_whole(path, json.dumps(trace_events(self.profile), separators=(",", ":")))

    def to_tensorboard(self, writer: Any, step: int, prefix: str = "millrace") -> None:
        """Gives the numbers to anything with add_scalar(tag, value, step), as torch.utils.tensorboard's
        SummaryWriter.
        """
        for name, value in scalars(self.summary).items():
            writer.add_scalar(f"{prefix}/{name}", value, step)


def report_of(loader: Any) -> Report:
    """What `loader.report()` returns."""
    advice = getattr(loader, "advice", None)
    return Report(profile_of(loader, steps=True), (str(advice()) or None) if callable(advice) else None)
