"""Subclasses of augmentation policies that replace a table and nothing else, told by their attributes."""

from __future__ import annotations

import inspect

from .recognising import OURS, V2, NotLowered

WITH_TABLES = ("RandAugment", "TrivialAugmentWide", "AutoAugment")
# What a subclass may have of its own: its tables, and what has no part in a call.
_MAY_DIFFER = {
    "_augmentation_space",
    "_AUGMENTATION_SPACE",
    "_get_policies",
    "__init__",
    "__repr__",
    "extra_repr",
    "__doc__",
    "__module__",
    "__dict__",
    "__weakref__",
    "__annotations__",
    "__annotate_func__",
    "__annotations_cache__",
    "__parameters__",
    "__orig_bases__",
    "__static_attributes__",
    "__firstlineno__",
}


def policy_class(cls: type) -> type | None:
    """torchvision's class or ours of which `cls` is a subclass that has other tables and nothing else; None:
    it is no subclass of any. NotLowered: it has more of its own.
    """
    libraries = (OURS + ".", "torchvision.transforms.")
    bases = (b for b in cls.__mro__[1:] if b.__name__ in WITH_TABLES and b.__module__.startswith(libraries))
    if (base := next(bases, None)) is None:
        return None
    # v2 gives each subclass v1's get_params anew, and calls it nowhere.
    may_differ = _MAY_DIFFER | ({"get_params"} if base.__module__.startswith(V2) else set())
    for name in dir(base):
        differs = inspect.getattr_static(cls, name, None) is not inspect.getattr_static(base, name, None)
        if differs and name not in may_differ:
            raise NotLowered(
                f"{cls.__name__} has a {name} of its own; the engine knows subclasses of {base.__name__} that"
                " replace its tables only"
            )
    return base
