"""NotLowered where a script has replaced a part of torch, torchvision, timm or Pillow that the engine does
the work of: that part has to run. Asked once an epoch, when it is planned; some 0.5 ms.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

from ..shipped import is_foreign, replaced, replaced_builtin, replaced_in, top_names
from ..torch_private import collate
from .recognising import TIMM, V2, NotLowered

_COLLATE, _FETCH = collate.__name__, "torch.utils.data._utils.fetch"
_PILLOW = (
    *("PIL.Image", "PIL.ImageFile", "PIL.JpegImagePlugin", "PIL.PngImagePlugin", "PIL.WebPImagePlugin"),
    *("PIL.ImageOps", "PIL.ImageEnhance", "PIL.ImageFilter", "PIL.ImageChops"),
)
_V1_FUNCTIONS = tuple(
    f"torchvision.transforms.{name}" for name in ("functional", "_functional_pil", "_functional_tensor")
)
_V2_FUNCTIONS = f"{V2}.functional"
_OPENERS = {"JPEG": ("PIL.JpegImagePlugin", "jpeg_factory")} | {
    name: (f"PIL.{plugin}ImagePlugin", f"{plugin}ImageFile")
    for name, plugin in (("PNG", "Png"), ("WEBP", "WebP"))
}


def refuse(part: str | None) -> None:
    if part is not None:
        raise NotLowered(f"{part} was replaced, so it runs; restore it")


def check_class(cls: type, *names: str) -> None:
    refuse(replaced_in(cls, *names))


def check_functions(module: str, *names: str) -> None:
    refuse(replaced(module, *names))


def check_transforms(families: set[str]) -> None:
    """The functions behind the classes of these families, Pillow's among them."""
    for module in (*_V1_FUNCTIONS, "torchvision.transforms.v2._utils") if families else ():
        refuse(replaced(module))
    if V2 in families or TIMM in families:
        for module in [name for name in sys.modules if name.startswith(_V2_FUNCTIONS)]:
            refuse(replaced(module))
        refuse(_replaced_name_of_v2())
        refuse(_replaced_kernel())
    if TIMM in families:
        for name in ("transforms", "auto_augment", "random_erasing"):
            refuse(replaced(f"{TIMM}.{name}"))
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
