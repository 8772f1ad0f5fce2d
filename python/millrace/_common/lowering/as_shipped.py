"""NotLowered where a script has replaced a part of torch, torchvision, timm or Pillow that the engine does
the work of: that part has to run. Asked once an epoch, when it is planned; some 0.5 ms. And of which library
an object is.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from ..shipped import is_default_collate, is_foreign, replaced, replaced_builtin, replaced_in, top_names
from ..torch_private import collate
from .recognising import OURS, TIMM, V1, V1_POLICIES, V2, NotLowered, loaded

_COLLATE, _FETCH = collate.__name__, "torch.utils.data._utils.fetch"
_PILLOW = (
    *("PIL.Image", "PIL.ImageFile", "PIL.JpegImagePlugin", "PIL.PngImagePlugin", "PIL.WebPImagePlugin"),
    *("PIL.ImageOps", "PIL.ImageEnhance", "PIL.ImageFilter", "PIL.ImageChops"),
)
_V1_FUNCTIONS = tuple(
    f"torchvision.transforms.{name}" for name in ("functional", "_functional_pil", "_functional_tensor")
)
_V2_FUNCTIONS = f"{V2}.functional"
_TIMM_MODULES = tuple(f"{TIMM}.{name}" for name in ("transforms", "auto_augment", "random_erasing"))
_OF_SEVERAL = ("FiveCrop", "TenCrop")
_OPENERS = {"JPEG": ("PIL.JpegImagePlugin", "jpeg_factory")} | {
    name: (f"PIL.{plugin}ImagePlugin", f"{plugin}ImageFile")
    for name, plugin in (("PNG", "Png"), ("WEBP", "WebP"))
}

# Policies of which a subclass may have these of its own: its tables, and what has no part in a call.
_WITH_TABLES = ("RandAugment", "TrivialAugmentWide", "AutoAugment")
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


def family_of(cls: type) -> str | None:
    module = cls.__module__
    if module == V1_POLICIES:
        return V1
    if module in _TIMM_MODULES and cls is loaded(module, cls.__name__):
        return TIMM
    for family in (OURS, V1, V2):
        if module == family or module.startswith(family + "."):
            return family
    return None


def policy_class(cls: type) -> type | None:
    """torchvision's class or ours of which `cls` is a subclass that has other tables and nothing else; None:
    it is no subclass of any. NotLowered: it has more of its own.
    """
    libraries = (OURS + ".", "torchvision.transforms.")
    bases = (b for b in cls.__mro__[1:] if b.__name__ in _WITH_TABLES and b.__module__.startswith(libraries))
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


def check_object(transform: Any) -> None:
    """NotLowered where an object does more than its class."""
    name = type(transform).__name__
    if getattr(transform, "_forward_hooks", None) or getattr(transform, "_forward_pre_hooks", None):
        raise NotLowered(f"{name} has forward hooks; remove them")
    for method in getattr(transform, "__dict__", {}):
        if isinstance(getattr(type(transform), method, None), types.FunctionType):
            raise NotLowered(
                f"this {name} has a {method} of its own, set on the object; leave that of its class"
            )


def check_getitems(root: Any) -> None:
    if "__getitems__" in getattr(root, "__dict__", ()):
        raise NotLowered(f"this {type(root).__name__} was given a __getitems__ of its own; remove it")


def container_parts(transform: Any) -> list[Any] | None:
    """Of a library's Compose, or torch's Sequential."""
    if type(transform) is torch.nn.Sequential:
        return list(transform)
    is_compose = type(transform).__name__ == "Compose" and family_of(type(transform)) is not None
    return list(transform.transforms) if is_compose else None


def makes_crops(transform: Any) -> bool:
    """Whether it is FiveCrop or TenCrop of a library, or a Compose that holds one."""
    try:
        if (parts := container_parts(transform)) is not None:
            return any(map(makes_crops, parts))
    except (RecursionError, TypeError, AttributeError):  # it holds itself, or no transforms
        return False
    return type(transform).__name__ in _OF_SEVERAL and family_of(type(transform)) is not None


def refuse(part: str | None) -> None:
    if part is not None:
        raise NotLowered(f"{part} was replaced, so it runs; restore it")


def check_class(cls: type, *names: str) -> None:
    refuse(replaced_in(cls, *names))


def check_functions(module: str, *names: str) -> None:
    refuse(replaced(module, *names))


def check_transforms(families: set[str]) -> None:
    """Raise NotLowered unless the functions that the classes of these families call are as shipped, Pillow's
    among them.
    """
    modules = [*_V1_FUNCTIONS, "torchvision.transforms.v2._utils"] if families else []
    if V2 in families or TIMM in families:
        modules += [name for name in sys.modules if name.startswith(_V2_FUNCTIONS)]
        refuse(_replaced_name_of_v2())
        refuse(_replaced_kernel())
    for module in (*modules, *(_TIMM_MODULES if TIMM in families else ())):
        refuse(replaced(module))
    check_pillow()


def check_pillow() -> None:
    for module in _PILLOW:
        refuse(replaced(module))
    refuse(replaced_builtin("torch", "numpy"))
    image: Any = sys.modules.get("PIL.Image")
    for name, (module, opener) in _OPENERS.items() if image is not None else ():
        found = image.OPEN.get(name, (None,))[0]
        known = getattr(sys.modules.get(module), opener, None)
        if found is not None and found is not known:
            raise NotLowered(
                f"Image.register_open() was given another class for {name}, so that opens pictures"
            )


def check_collation() -> None:
    """torch's default_collate, but for its table of functions, and what brings samples to it."""
    refuse(replaced(_COLLATE))
    refuse(replaced(_FETCH))
    refuse(replaced_builtin("torch"))


def check_device() -> None:
    if (device := torch.get_default_device()).type != "cpu":
        raise NotLowered(f"torch's default device is {device}, and the engine makes tensors on the CPU")


def _replaced_name_of_v2() -> str | None:
    """A name of v2's functions that does not lead to what its modules define by it."""
    names = vars(sys.modules[_V2_FUNCTIONS]) if _V2_FUNCTIONS in sys.modules else {}
    for module in [name for name in sys.modules if name.startswith(_V2_FUNCTIONS + "._")]:
        for name in top_names(module):
            if name in names and names[name] is not getattr(sys.modules[module], name, None):
                return f"{_V2_FUNCTIONS}.{name}"
    return None


def _replaced_kernel() -> str | None:
    registry = getattr(sys.modules.get(f"{_V2_FUNCTIONS}._utils"), "_KERNEL_REGISTRY", {})
    for function, kernels in registry.items():
        for kind, kernel in kernels.items():
            if kind.__module__.partition(".")[0] in ("torch", "torchvision", "PIL") and is_foreign(kernel):
                return f"the kernel of {function.__name__} for {kind.__name__}"
    return None


IMAGE_AND_LABEL = (tuple, torch.Tensor, int)

# What torch ships, in the order in which default_collate looks types up. None: containers, which it walks
# through itself.
_SHIPPED = {
    torch.Tensor: collate.collate_tensor_fn,
    np.ndarray: collate.collate_numpy_array_fn,
    np.generic: collate.collate_numpy_scalar_fn,
    float: collate.collate_float_fn,
    int: collate.collate_int_fn,
    tuple: None,
    dict: None,
}


def recognise_collate(collate_fn: Any, sample_types: Iterable[type] = IMAGE_AND_LABEL) -> str:
    """What replaces `collate_fn` natively; NotLowered for anything but default_collate, unchanged for these
    types.
    """
    if not is_default_collate(collate_fn):
        name = getattr(collate_fn, "__qualname__", type(collate_fn).__name__)
        raise NotLowered(
            f"{name} is not torch's default_collate, so it gets the samples, in Python; as a function of the"
            " batch, return f(default_collate(samples)), it would run behind the engine, and millrace.Pad"
            " fills rows up to one length"
        )
    check_collation()
    # default_collate asks this public table at call time, for the sample itself and for its parts.
    for part in sorted(sample_types, key=lambda part: list(_SHIPPED).index(_known_base(part)), reverse=True):
        if _collate_function(part) is not _SHIPPED[_known_base(part)]:
            raise NotLowered(
                f"default_collate_fn_map was changed for {part.__name__}; restore it to collate natively"
            )
    return "default_collate; rows are written straight into the batch"


def _known_base(part: type) -> type:
    return next(known for known in _SHIPPED if issubclass(part, known))


def _collate_function(part: type) -> Any:
    table = collate.default_collate_fn_map
    if part in table:
        return table[part]
    return next((function for key, function in table.items() if issubclass(part, key)), None)
