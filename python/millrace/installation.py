"""install() replaces torch's class by millrace.DataLoader in every module; uninstall() takes that back.

Frameworks bind torch's class to a name of their own when they are imported, and later build loaders from that
name and the attributes of the user's loader. So they would silently replace a loader of ours by one of
torch's; therefore install() exchanges their names, too.
"""

from __future__ import annotations

import gc
import multiprocessing.process
import sys
from abc import ABCMeta
from collections.abc import Callable, Iterator
from types import GenericAlias, ModuleType
from typing import TYPE_CHECKING, Any

import torch.utils.data

from ._pictures import asking as pictures

_PACKAGE = __name__.partition(".")[0]

if TYPE_CHECKING:
    from torch.utils.data import DataLoader as TorchDataLoader
else:

    class _AnyTypes:
        """torch's class, generic in any number of types: in one up to torch 2.15, then in two."""

        def __getitem__(self, types: Any) -> type:
            return torch.utils.data.DataLoader

    TorchDataLoader = _AnyTypes()


class Replaceable(ABCMeta):
    """Metaclass of millrace.DataLoader. While that is installed, every loader of torch's class is an instance
    of ours.

    It derives from ABCMeta, because `class Mine(DataLoader, ABC)` must go on working.
    """

    def __getitem__(cls, types: Any) -> Any:
        """`DataLoader[int]`; with a torch class that is generic in more types, any number of these."""
        try:
            return cls.__class_getitem__(types)  # type: ignore[attr-defined]
        except TypeError:
            return GenericAlias(cls, types)

    def __instancecheck__(cls, instance: Any) -> bool:
        replaced = _replaced_by(cls)
        return super().__instancecheck__(instance) if replaced is None else isinstance(instance, replaced)

    def __subclasscheck__(cls, subclass: type) -> bool:
        replaced = _replaced_by(cls)
        return super().__subclasscheck__(subclass) if replaced is None else issubclass(subclass, replaced)

    def __subclasses__(cls) -> list[type]:
        """The subclasses and, while installed, the other subclasses of torch's class: Lightning patches a
        class and all its subclasses.
        """
        replaced = _replaced_by(cls)
        subclasses: Callable[[type], list[type]] = type.__subclasses__
        others = [] if replaced is None else [other for other in subclasses(replaced) if other is not cls]
        return subclasses(cls) + others


class _Installation:
    """The changes of install(). Keeps the namespaces themselves, since a module may leave sys.modules
    meanwhile.
    """

    def __init__(self, ours: type) -> None:
        self.ours = ours
        self.torchs = ours.__bases__[0]
        self.exchanged: list[tuple[dict[str, Any], str]] = []
        # Modules that chose our class before keep it afterwards.
        self.chosen = {(id(names), name) for names, name in _places(ours)}

    def exchange(self) -> None:
        for names, name in list(_places(self.torchs)):
            names[name] = self.ours
            self.exchanged.append((names, name))

    def take_back(self) -> None:
        met_since = [
            (names, name) for names, name in _places(self.ours) if (id(names), name) not in self.chosen
        ]
        for names, name in self.exchanged + met_since:
            if names.get(name) is self.ours:
                names[name] = self.torchs


_installation: _Installation | None = None


def _replaced_by(cls: type) -> type | None:
    return _installation.torchs if _installation is not None and _installation.ours is cls else None


def _namespaces() -> Iterator[dict[str, Any]]:
    """Yield the variables of every module outside this package: the package's own names stay as they are."""
    for module_name, module in list(sys.modules.items()):
        # By type(): a library's object in place of a module may import half the library when an attribute is
        # read.
        if issubclass(type(module), ModuleType) and module_name.partition(".")[0] != _PACKAGE:
            yield ModuleType.__getattribute__(module, "__dict__")
    if "__mp_main__" in sys.modules:
        # A spawned process runs the script in one dict and makes a module of a copy: no module has the dict
        # that the script's functions use.
        for names in gc.get_objects():
            if (
                type(names) is dict
                and type(names.get("__name__")) is str
                and names["__name__"] == "__mp_main__"
            ):
                yield names


def _places(cls: type) -> Iterator[tuple[dict[str, Any], str]]:
    """(namespace, name) of every module variable that holds `cls`."""
    for names in _namespaces():
        for name, value in list(names.items()):
            if value is cls:
                yield names, name


class _InChildren:
    """Travels in the settings that a process passes to the processes it spawns, and calls install() when it
    is unpickled: a child that starts afresh would have torch's class. Forked children need nothing.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _install_in_child, ()


def _install_in_child() -> _InChildren:
    install()
    return _InChildren()


def install() -> None:
    """Replace `torch.utils.data.DataLoader` by `millrace.DataLoader`, for this process and the processes it
    spawns.

    Every module variable that holds torch's class is exchanged, whatever its name, so libraries may be
    imported before or after: accelerate, transformers, Lightning and timm then build loaders of ours. A class
    attribute or default argument that holds torch's class keeps it. Existing loaders stay as they are, and
    subclasses keep their base; both still pass `isinstance(loader, DataLoader)`. torch's own loaders from
    before cannot be pickled while ours is installed.

    Pictures that any code opens with Pillow wait to be decoded from now on (docs/pictures.md), unless the
    environment has MILLRACE_PICTURES=pillow.

    Calling it again is harmless, and looks for torch's class anew.
    """
    global _installation
    if _installation is None:
        from .dataloader import DataLoader

        _installation = _Installation(DataLoader)
        multiprocessing.process.current_process()._config["millrace"] = _InChildren()  # type: ignore[attr-defined]
    _installation.exchange()
    pictures.install()


def uninstall() -> None:
    """Undo `install()`, also in modules imported since; do nothing if it is not installed.

    In a module imported since then, torch's class replaces ours, even if the module had asked for
    `millrace.DataLoader` itself; modules that did so earlier keep ours. Existing loaders stay as they are.
    """
    global _installation
    if _installation is not None:
        installation, _installation = _installation, None
        installation.take_back()
        pictures.uninstall()
        multiprocessing.process.current_process()._config.pop("millrace", None)  # type: ignore[attr-defined]
