"""Datasets that are Python code: in worker processes over one shared ring, in threads, or inside next()."""

from .inline_iterator import InlineIter
from .process_iterator import ProcessIter
from .thread_iterator import ThreadIter

__all__ = ["InlineIter", "ProcessIter", "ThreadIter"]
