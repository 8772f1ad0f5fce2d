"""Batches on the device before the training loop asks for them.

The copies run on a stream of their own, queued in C++ (src/device/batch_copier.h has the order of things); the consumer's stream
waits for them by an event, and the host never waits.
"""

from __future__ import annotations

import os
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, NamedTuple, Optional, TypeVar, Union

import torch

from . import _core
from .batch_tree import leaves, rebuilt
from .errors import UnavailableError

T_co = TypeVar("T_co", covariant=True)
Device = Union[str, int, torch.device, None]


class DevicePrefetcher(Generic[T_co]):
    """The batches of any iterable, copied to a device while the loop computes with the one before.

    for images, labels in DevicePrefetcher(loader, "cuda"): ...

    batches: a DataLoader of anybody's, or anything that can be iterated over; its length is this one's.
    device: "cuda", "cuda:1", a number, a torch.device; None: torch's current accelerator, or the CPU where there is none. On the CPU
        batches are passed on as they are.
    prefetch: how many batches are asked for before the oldest is handed out, at least 1; as many are in the device's memory beside
        the one in use.
    channels_last: 4-d tensors get torch.channels_last's strides, by a kernel on the device.
    on_device: called with each batch on the device, on the copying stream, so that its work hides behind the loop's as well.
        `millrace.transforms.batch` has transforms for it: uint8 pictures take a quarter of float32's time on the link.
    static_buffers: every batch is put into the tensors of the first one, on the loop's stream: what CUDA graphs need. All batches
        must have the same shapes (drop_last=True). The tensors change at each step; clone what you keep.

    Batches are dicts, lists, tuples, namedtuples and dataclasses of tensors, in any nesting. Other values pass through unchanged;
    those with a `to()` of their own, and tensors that are sparse, nested, subclasses or need gradients, are moved by it when their
    batch is handed out. Page-locked tensors are copied from where they lie, others through page-locked memory that is kept.
    Any number of prefetchers and devices; each iterator belongs to one thread. An error of `batches` is raised at its place.

    UnavailableError: there is no such device here, or no driver; torch.OutOfMemoryError: its memory is full.
    """

    def __init__(
        self,
        batches: Iterable[T_co],
        device: Device = None,
        prefetch: int = 2,
        *,
        channels_last: bool = False,
        on_device: Optional[Callable[[Any], Any]] = None,
        static_buffers: bool = False,
    ) -> None:
        self.batches = batches
        self.device = device
        self.prefetch = checked_depth(prefetch)
        self.channels_last = channels_last
        self.on_device = on_device
        self.static_buffers = static_buffers

    def __iter__(self) -> Iterator[T_co]:
        return prefetched(iter(self.batches), self.device, self.prefetch, self.channels_last, self.on_device, self.static_buffers)

    def __len__(self) -> int:
        return len(self.batches)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        """What frameworks ask a DataLoader for: `dataset`, `sampler`, `batch_size`, `set_epoch`, ..."""
        if name.startswith("__") or name in ("batches", "state_dict", "load_state_dict"):
            raise AttributeError(name)
        return getattr(self.batches, name)


class _Ahead(NamedTuple):
    """A batch on its way to the consumer, or the error in its place."""

    batch: Any
    error: Optional[Exception]
    ticket: Any
    turns: int  # of the loader's progress, which it takes when it is handed out


class DeviceIterator(Iterator[Any]):
    """One pass over an iterator of host batches."""

    def __init__(
        self, batches: Iterator[Any], copier: _core.BatchCopier, device: torch.device, prefetch: int, channels_last: bool,
        on_device: Optional[Callable[[Any], Any]], static_buffers: bool, progress: Any = None,
    ) -> None:  # fmt: skip
        self._batches = batches
        self._copier = copier
        self._device = device
        self._prefetch = prefetch
        self._channels_last = channels_last
        self._on_device = on_device
        self._static: Any = () if static_buffers else None
        self._progress = progress
        self._owner_pid = os.getpid()
        self._ahead: deque[_Ahead] = deque()
        self._asked = 0  # grows with the first steps, so that the first batch waits for no other
        self._ended = False
        self._warned = False
        if progress is not None:
            progress.hold(prefetch)

    def __iter__(self) -> DeviceIterator:
        return self

    def __len__(self) -> int:
        return len(self._batches)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_batches":
            raise AttributeError(name)
        return getattr(self._batches, name)

    def __next__(self) -> Any:
        if os.getpid() != self._owner_pid:
            raise RuntimeError(
                f"this iterator belongs to process {self._owner_pid}, whose device cannot be used after a fork. Make a new iterator here, "
                "in a process that was started by spawn"
            )
        self._asked = min(self._asked + 1, self._prefetch)
        while len(self._ahead) < self._asked and not self._ended:
            self._pull()
        if not self._ahead:
            self._take_turns(None)
            raise StopIteration
        next_one = self._ahead.popleft()
        self._take_turns(next_one.turns)
        if next_one.error is not None:
            try:
                raise next_one.error
            finally:
                del next_one  # its traceback holds this frame
        return self._handed_out(next_one)

    def _pull(self) -> None:
        before = 0 if self._progress is None else self._progress.held
        batch = ticket = error = None
        try:
            batch = next(self._batches)
        except StopIteration:
            self._ended = True
            return
        except Exception as failure:
            error = failure
        turns = 0 if self._progress is None else self._progress.held - before
        if error is None:
            try:
                batch, ticket = self._copied(batch)
            except Exception as failure:
                batch, error = None, failure
        self._ahead.append(_Ahead(batch, error, ticket, turns))

    def _copied(self, batch: Any) -> tuple[Any, Any]:
        copier = self._copier
        tensors = list({id(leaf): leaf for leaf in leaves(batch, []) if _core.is_plain_tensor(leaf)}.values())
        on_device = {id(tensor): copied for tensor, copied in zip(tensors, copier.copy(tensors))}
        result = rebuilt(batch, lambda leaf: on_device.get(id(leaf), leaf))
        if self._channels_last or self._on_device is not None:
            copier.enter()
            try:
                if self._channels_last:
                    result = rebuilt(result, _channels_last)
                if self._on_device is not None:
                    result = self._on_device(result)
            finally:
                copier.leave()
        if not self._warned and (why := copier.lock_failure):
            self._warned = True
            warnings.warn(f"copies to {self._device} are slower than they could be: host memory could not be page-locked ({why}). "
                          "Raise the limit (ulimit -l), or use a smaller batch_size or prefetch", stacklevel=4)  # fmt: skip
        return result, copier.seal()

    def _handed_out(self, ready: _Ahead) -> Any:
        found = leaves(ready.batch, [])
        self._copier.hand_out(ready.ticket, [leaf for leaf in found if isinstance(leaf, torch.Tensor)])
        batch = rebuilt(ready.batch, self._moved)
        if self._static is None:
            return batch
        if self._static == ():
            self._static = rebuilt(batch, lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf)
        else:
            _fill(self._static, batch)
        return self._static

    def _moved(self, leaf: Any) -> Any:
        """What the copier does not know is moved on the consumer's stream."""
        if isinstance(leaf, torch.Tensor) and (leaf.device == self._device or _core.is_plain_tensor(leaf)):
            return leaf
        return leaf.to(self._device, non_blocking=True)

    def _take_turns(self, count: Optional[int]) -> None:
        if self._progress is not None:
            self._progress.take_turns(count)


def _channels_last(leaf: Any) -> Any:
    return leaf.contiguous(memory_format=torch.channels_last) if isinstance(leaf, torch.Tensor) and leaf.dim() == 4 else leaf


def _fill(static: Any, batch: Any) -> None:
    mine, new = leaves(static, []), leaves(batch, [])
    shapes = [[tuple(leaf.shape) if isinstance(leaf, torch.Tensor) else None for leaf in found] for found in (mine, new)]
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"static_buffers=True needs batches of the same shapes, but after {shapes[0]} came {shapes[1]}; use drop_last=True, and pad "
            "what has different lengths"
        )
    for to, leaf in zip(mine, new):
        if isinstance(to, torch.Tensor):
            to.copy_(leaf)


# ---------------------------------------------------------------- devices


def checked_depth(prefetch: int) -> int:
    if not isinstance(prefetch, int) or isinstance(prefetch, bool) or prefetch < 1:
        raise ValueError(f"{prefetch!r} batches cannot be prefetched to a device; give a number from 1 on")
    return prefetch


def prefetched(
    batches: Iterator[Any], device: Device, prefetch: int, channels_last: bool = False,
    on_device: Optional[Callable[[Any], Any]] = None, static_buffers: bool = False, progress: Any = None,
) -> Iterator[Any]:  # fmt: skip
    """An iterator over `batches` on the device; `batches` itself when that is the CPU and nothing is to be done there."""
    where = device_of(device)
    if where.type == "cpu":
        if not channels_last and on_device is None:
            return batches
        return _on_the_cpu(batches, channels_last, on_device)
    return DeviceIterator(
        batches, _core.BatchCopier(str(where)), where, prefetch, channels_last, on_device, static_buffers, progress
    )


def _on_the_cpu(batches: Iterator[Any], channels_last: bool, on_device: Optional[Callable[[Any], Any]]) -> Iterator[Any]:
    for batch in batches:
        if channels_last:
            batch = rebuilt(batch, _channels_last)
        yield batch if on_device is None else on_device(batch)


def batch_memory(loader: Any) -> str:
    """The memory that a loader's batches are to be made in, by the engine's name of it: page-locked where they go to a device."""
    goes_to_a_device = loader.pin_memory or (loader.device is not None and loader.device.type != "cpu")
    if not goes_to_a_device or not torch.accelerator.is_available():
        return "system"
    node = -1 if (device := locks_for(loader)) is None else numa_node(device)
    return "page-locked" if node < 0 else f"page-locked on node {node}"


def locks_for(loader: Any) -> Optional[int]:
    """The CUDA device that a loader's batches go to from the memory that its workers fill; None: none, or none here."""
    if loader.device is None or loader.device.type != "cuda" or not torch.cuda.is_available():
        return None
    return torch.cuda.current_device() if loader.device.index is None else loader.device.index


def numa_node(device: int) -> int:
    """The NUMA node that a CUDA device hangs on; -1: not known, or the only one."""
    properties = torch.cuda.get_device_properties(device)
    try:
        domain, bus, slot = properties.pci_domain_id, properties.pci_bus_id, properties.pci_device_id
    except AttributeError:  # not every build of torch tells
        return -1
    return _core.numa_node_of(f"{domain:04x}:{bus:02x}:{slot:02x}.0")


def device_of(device: Device) -> torch.device:
    """The device with its index, if it is one that batches can be copied to from here.

    UnavailableError: torch has no support for it, or there is none, with the reason. ValueError: there are fewer.
    """
    if device is None:
        device = torch.accelerator.current_accelerator() or "cpu"
    where = torch.device(device)
    if where.type == "cpu":
        return where
    if where.type == "cuda":
        if torch.version.cuda is None and torch.version.hip is None:
            raise UnavailableError(
                f'device="{where}": this torch ({torch.__version__}) was built without CUDA; install a CUDA build of it, or use '
                'device="cpu", which passes batches on as they are'
            )
        if torch.cuda._is_in_bad_fork():
            raise UnavailableError(
                f'device="{where}": CUDA was used before this process was forked, and cannot be used after it; start the process by '
                'spawn (torch.multiprocessing.set_start_method("spawn"))'
            )
        try:
            torch.cuda.init()
        except Exception as error:
            raise UnavailableError(f'device="{where}" cannot be used: {error}') from error
    module = torch.get_device_module(where)
    count = module.device_count()
    if (where.index or 0) >= count:
        raise ValueError(f'device="{where}": there are {count} {where.type} devices here, numbered from 0')
    return where if where.index is not None else torch.device(where.type, module.current_device())
