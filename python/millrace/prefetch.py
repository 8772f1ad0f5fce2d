"""Batches on the device before the training loop asks for them.

The copies run on a stream of their own, queued in C++ (src/device/batch_copier.h describes the order). The
consumer's stream waits for them by an event; the host waits only when it is several steps ahead of the
device.
"""

from __future__ import annotations

import os
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

import torch

from . import _core
from ._common.batch_tree import Around, leaves, rebuilt
from ._common.devices import Device, device_of
from ._common.moment import ordinary
from ._loader.arguments import checked_depth
from ._profiling.stages import COPY, STEP, during

T_co = TypeVar("T_co", covariant=True)
_LEAST_QUEUED = 2  # steps queued on the device, so that it never waits for the host


class DevicePrefetcher(Generic[T_co]):
    """The batches of any iterable, copied to a device while the loop computes with the previous batch.

    >>> for images, labels in DevicePrefetcher(loader, "cuda"): ...

    Batches are dicts, lists, tuples, namedtuples and dataclasses of tensors, in any nesting. Other values
    pass through unchanged. Values with a `to()` of their own, and tensors that are sparse, nested, subclasses
    or need gradients, are moved by `to()` when their batch is delivered. Page-locked tensors are copied
    directly, others through page-locked memory that is kept. A millrace.DataLoader then makes its batches for
    the device, as with its own `device=`; its states are those of the batch that the loop has. Any number of
    prefetchers and devices; each iterator belongs to one thread. An error of `batches` is raised in the place
    of its batch.

    Args:
        batches: any DataLoader, or any other iterable; len() returns its length.
        device: "cuda", "cuda:1", a number, a torch.device; None: torch's current accelerator, or the CPU if
            there is none. On the CPU batches are passed on as they are.
        prefetch: how many batches are requested before the oldest is delivered, at least 1; as many are in
            the device's memory besides those in use. The loop may be as many steps ahead of the device (2 at
            least); `next()` waits for the device then.
        channels_last: 4-d tensors get torch.channels_last's strides, by a kernel on the device.
        on_device: called with each batch on the device, on the copying stream, so that its work overlaps with
            the loop's as well. `millrace.transforms.batch` has transforms for it: uint8 pictures take a
            quarter of float32's time on the link.
        static_buffers: every batch is copied into the tensors of the first one, on the loop's stream, as CUDA
            graphs need it. All batches must have the same shapes and types (drop_last=True). The tensors
            change at each step; clone tensors that you keep. Threads of a loader may ask CUDA for memory
            while a graph is captured: use capture_error_mode="thread_local".

    Raises:
        UnavailableError: if there is no such device here, or no driver.
        OutOfMemoryError: if the device's memory is full (torch.OutOfMemoryError).
    """

    def __init__(
        self,
        batches: Iterable[T_co],
        device: Device = None,
        prefetch: int = 2,
        *,
        channels_last: bool = False,
        on_device: Callable[[Any], Any] | None = None,
        static_buffers: bool = False,
    ) -> None:
        self.batches = batches
        self.device = device
        self.prefetch = checked_depth(prefetch)
        self.channels_last = channels_last
        self.on_device = on_device
        self.static_buffers = static_buffers

    def __iter__(self) -> Iterator[T_co]:
        options = (self.device, self.prefetch, self.channels_last, self.on_device, self.static_buffers)
        if _is_ours(self.batches):
            return self.batches._prefetched(*options)  # type: ignore[attr-defined]
        return prefetched(iter(self.batches), *options)

    def __len__(self) -> int:
        return len(self.batches)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        """Attributes that frameworks read from a DataLoader: `dataset`, `sampler`, `batch_size`, ..."""
        if name.startswith("__") or name == "batches":
            raise AttributeError(name)
        if name in ("state_dict", "load_state_dict") and not _is_ours(self.batches):
            raise AttributeError(
                f"{name}: only a millrace.DataLoader knows which batches the loop has, and which are still on"
                " their way"
            )
        return getattr(self.batches, name)


def _is_ours(batches: Any) -> bool:
    return callable(getattr(type(batches), "_prefetched", None))


class _Passing(Around):
    """One pass over an iterator of host batches."""

    def __init__(
        self,
        batches: Iterator[Any],
        channels_last: bool,
        on_device: Callable[[Any], Any] | None,
        static_buffers: bool,
    ) -> None:
        super().__init__(batches)
        self._channels_last = channels_last
        self._on_device = on_device
        self._static = _StaticBuffers() if static_buffers else None

    def _transformed(self, batch: Any) -> Any:
        if self._channels_last:
            batch = rebuilt(batch, _channels_last)
        if self._on_device is None:
            return batch
        try:
            return self._on_device(batch)
        except StopIteration as error:  # it would silently end the loop
            raise RuntimeError("on_device raised StopIteration") from error


class _HostIterator(_Passing):
    """The iterator if the device is the CPU: makes each batch on request."""

    def __next__(self) -> Any:
        batch = self._transformed(next(self._batches))
        return batch if self._static is None else ordinary(self._static.filled, batch)


class _Ahead:
    """A batch on its way to the consumer, or an error instead of it."""

    __slots__ = ("batch", "error", "ticket", "delivered")

    def __init__(self, batch: Any, error: Exception | None, delivered: int) -> None:
        self.batch = batch  # in the host's memory, until there is a ticket
        self.error = error
        self.ticket: Any = None
        self.delivered = delivered  # steps of the loader's progress; they count when this is handed out

    @property
    def ready(self) -> bool:
        return self.ticket is not None or self.error is not None


class DeviceIterator(_Passing):
    """One pass over an iterator of host batches. An interrupt loses no batch: the next call goes on with the
    interrupted work.

    How it ends: it has no threads. Closing the loader ends `_batches` (_loader/engine.py); an error from
    `_batches` is raised in the place of its batch. At the interpreter's end the error is SystemExit, which
    leaves next() at once. The copier works in the consumer's thread alone, and ends with it.
    """

    def __init__(
        self,
        batches: Iterator[Any],
        copier: _core.BatchCopier,
        device: torch.device,
        prefetch: int,
        channels_last: bool,
        on_device: Callable[[Any], Any] | None,
        static_buffers: bool,
        progress: Any = None,
    ) -> None:
        super().__init__(batches, channels_last, on_device, static_buffers)
        self._owner_pid = os.getpid()
        # (a moment of the consumer's stream, the host's tensors that it reads up to there)
        self._handed: deque[tuple[Any, list[Any]]] = deque()
        self._copier = copier
        self._device = device
        self._prefetch = checked_depth(prefetch)
        self._progress = progress
        self._profiler = getattr(getattr(batches, "_record", None), "profiler", None)  # of a loader of ours
        self._ahead: deque[_Ahead] = deque()
        self._asked = 0  # grows with the first steps, so that the first batch waits for no other
        self._ended = False
        self._warned = False
        if progress is not None:
            progress.hold(prefetch)

    def __next__(self) -> Any:
        if os.getpid() != self._owner_pid:
            raise RuntimeError(
                f"this iterator belongs to process {self._owner_pid}, whose device cannot be used after a"
                " fork. Make a new iterator here, in a process that was started by spawn"
            )
        if self._profiler is None:
            return self._next()
        before = self._profiler.begin(COPY)
        try:
            return self._next()
        except StopIteration:
            self._profiler.finish(before)
            raise
        finally:
            self._profiler.leave(before)

    def _next(self) -> Any:
        self._asked = min(self._asked + 1, self._prefetch)
        while not self._ended and (len(self._ahead) < self._asked or not self._ahead[-1].ready):
            ordinary(self._pull)
        if not self._ahead:
            self._take_delivered(None)
            raise StopIteration
        first = self._ahead[0]
        try:
            if first.error is not None:
                raise first.error
            with during(COPY, "handover"):
                batch = self._handed_out(first)
        except Exception:
            self._take_delivered(self._ahead.popleft().delivered)
            raise
        finally:
            del first  # an error's traceback holds this frame
        self._take_delivered(self._ahead.popleft().delivered)
        return batch

    def _pull(self) -> None:
        """Request one more batch, or go on with the batch that an interrupt left unfinished."""
        if not self._ahead or self._ahead[-1].ready:
            batch, error = None, None
            try:
                batch = next(self._batches)
            except StopIteration:
                self._ended = True
                return
            except Exception as failure:
                error = failure
            delivered = (
                0
                if self._progress is None
                else self._progress.held - sum(ahead.delivered for ahead in self._ahead)
            )
            self._ahead.append(_Ahead(batch, error, delivered))
            del batch, error  # the error's traceback holds this frame
        last = self._ahead[-1]
        try:
            if last.error is None:
                with during(COPY):
                    last.batch, last.ticket = self._copied(last.batch)
        except Exception as failure:
            last.batch, last.error = None, failure
        finally:
            del last

    def _copied(self, batch: Any) -> tuple[Any, Any]:
        copier = self._copier
        tensors = list({id(leaf): leaf for leaf in leaves(batch, []) if _core.is_plain_tensor(leaf)}.values())
        on_device = {id(tensor): copied for tensor, copied in zip(tensors, copier.copy(tensors))}
        result = rebuilt(batch, lambda leaf: on_device.get(id(leaf), leaf))
        if self._channels_last or self._on_device is not None:
            copier.enter()
            try:
                result = self._transformed(result)
            finally:
                copier.leave()
        if not self._warned and (why := copier.lock_failure):
            self._warned = True
            warnings.warn(
                # fmt: skip
                f"copies to {self._device} are slower than they could be: host memory could not be"
                f" page-locked ({why}). Raise the limit (ulimit -l), or use a smaller batch_size or prefetch",
                stacklevel=4,
            )
        return result, copier.seal()

    def _handed_out(self, first: _Ahead) -> Any:
        found = leaves(first.batch, [])
        self._copier.hand_out(first.ticket, [leaf for leaf in found if isinstance(leaf, torch.Tensor)])
        elsewhere = [leaf for leaf in found if not self._is_there(leaf)]
        try:
            batch = rebuilt(
                first.batch, lambda leaf: leaf if self._is_there(leaf) else _moved(leaf, self._device)
            )
        finally:
            self._follow(elsewhere)
        return batch if self._static is None else ordinary(self._static.filled, batch)

    def _follow(self, read: list[Any]) -> None:
        """Keep host tensors until the consumer's stream has read them, and keep the host from running too far
        ahead: memory of batches that the loop has dropped comes back only when the device has finished them.
        """
        self._handed.append((self._copier.record(), read))
        while len(self._handed) > max(_LEAST_QUEUED, self._prefetch):
            with during(STEP, "wait for the device"):  # the device computes the loop's step
                self._copier.wait_for(self._handed[0][0])
            self._handed.popleft()

    def _is_there(self, leaf: Any) -> bool:
        """Whether `leaf` is on the device. Values that the copier does not know are moved there later, on the
        consumer's stream.
        """
        return isinstance(leaf, torch.Tensor) and (leaf.device == self._device or _core.is_plain_tensor(leaf))

    def _take_delivered(self, count: int | None) -> None:
        if self._progress is not None:
            self._progress.take_delivered(count)

    def __del__(self) -> None:
        try:  # without this module's variables, which may be gone when the interpreter ends
            for moment, read in self.__dict__.get("_handed", ()):
                if read:
                    self._copier.wait_for(moment)
        except Exception:
            pass  # the device has failed, and reads no more


class _StaticBuffers:
    """Tensors that every batch is copied into; values other than tensors stay each batch's own."""

    def __init__(self) -> None:
        self._tensors: list[torch.Tensor] | None = None

    def filled(self, batch: Any) -> Any:
        new = [leaf for leaf in leaves(batch, []) if isinstance(leaf, torch.Tensor)]
        if self._tensors is None:
            self._tensors = [tensor.detach().clone().requires_grad_(tensor.requires_grad) for tensor in new]
        else:
            before, now = (
                [(tuple(tensor.shape), tensor.dtype) for tensor in found] for found in (self._tensors, new)
            )
            if before != now:
                raise ValueError(
                    f"static_buffers=True needs batches of the same shapes and types, but after {before} came"
                    f" {now}; use drop_last=True, and pad what has different lengths"
                )
            with torch.no_grad():
                for tensor, value in zip(self._tensors, new):
                    tensor.copy_(value)
        places = iter(self._tensors)
        return rebuilt(batch, lambda leaf: next(places) if isinstance(leaf, torch.Tensor) else leaf)


def _channels_last(leaf: Any) -> Any:
    return (
        leaf.contiguous(memory_format=torch.channels_last)
        if isinstance(leaf, torch.Tensor) and leaf.dim() == 4
        else leaf
    )


def _moved(leaf: Any, device: torch.device) -> Any:
    try:
        return leaf.to(device, non_blocking=True)
    except TypeError:  # many a to() knows no more than the device
        return leaf.to(device)


# ---------------------------------------------------------------- devices


def prefetched(
    batches: Iterator[Any], device: Device, prefetch: int, channels_last: bool = False,
    on_device: Callable[[Any], Any] | None = None, static_buffers: bool = False, *, progress: Any = None,
) -> Iterator[Any]:  # fmt: skip
    """An iterator over `batches` on the device; `batches` itself if the device is the CPU and there is
    nothing to do.
    """
    where = device_of(device)
    if where.type == "cpu":
        if not channels_last and on_device is None and not static_buffers:
            return batches
        return _HostIterator(batches, channels_last, on_device, static_buffers)
    return DeviceIterator(
        batches,
        _core.BatchCopier(str(where)),
        where,
        prefetch,
        channels_last,
        on_device,
        static_buffers,
        progress,
    )
