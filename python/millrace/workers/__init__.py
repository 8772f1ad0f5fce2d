"""Worker processes over one shared ring: how datasets that are Python code are loaded."""

from .process_iterator import ProcessIter

__all__ = ["ProcessIter"]
