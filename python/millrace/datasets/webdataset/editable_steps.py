"""The steps of a WebDataset as a list that a script may change."""

from __future__ import annotations

import functools
from typing import Any


class EditableSteps(list):
    """A WebDataset's steps. Changing the list makes the data set a DataPipeline of what is in it then."""

    becomes: Any = None  # DataPipeline, which stands above this module and says so
    owner: Any = None

    def of(self, owner: Any) -> EditableSteps:
        self.owner = owner
        return self

    def _changed(self) -> None:
        owner, self.owner = self.owner, None
        if owner is not None:
            owner.__class__ = self.becomes
            owner.__dict__["_steps"] = self
            owner._forget()


def _changing(name: str) -> Any:
    method = getattr(list, name)

    @functools.wraps(method)
    def change(self: EditableSteps, *args: Any, **kw: Any) -> Any:
        result = method(self, *args, **kw)
        self._changed()
        return result

    return change


for _method in "__delitem__ __setitem__ __iadd__ append clear extend insert pop remove reverse".split():
    setattr(EditableSteps, _method, _changing(_method))
