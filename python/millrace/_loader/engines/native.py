"""Engines without Python code of the user: C++ loaders and thread pools, with the engines' protocol; and the
spec of engines that read pictures, on the CPU or partly on a device. rows.py, batches.py and stream.py have
the other specs.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ... import _core
from ..._common.batch_place import at_place
from ..._common.data_parallel import rank_of
from ..._history.draws import DrawWatch, watch_of
from ..._profiling.stages import NAMES, recorded, recording, thread_rows
from ...datasets.pillow_decode import PillowDecoder
from ..engine import Delivered, Engine, Setup, closed_error
from .core import Core
from .mixing import Mixed, NotTraced

if TYPE_CHECKING:
    from ..._common.lowering.views import Views
    from ...transforms.batch_size import RandomBatchSize
    from .targets import LooksUp


class NativeSpec:
    """What specs of native engines are by default."""

    native, leaves_out, shares_batches = True, False, True
    """shares_batches: whether threads share the rows of a batch, or each makes whole ones."""
    place: Any = None
    repeats: Any = None
    item_count: int | None = None
    """Length of a Python dataset with samples that depend on how often their index came before; else None."""
    python_collate: Any = None
    """Makes the consumer's batches of those that collated() returns, if it is not None."""
    late: type[TimeoutError] = TimeoutError
    """Of the core's next() when its time is over. The core's own has no errno."""

    def core(self, threads: int, batch_size: int | None, on_error: str, drop_last: bool, memory: str) -> Core:
        """Belongs to the caller. threads=0: it works inside next(). memory: batches', as batch_memory()
        says.
        """
        raise NotImplementedError

    def open(self, setup: Setup) -> Engine:
        size, on_error, memory = setup.batch_size, setup.on_error, setup.memory
        return NativeEngine(self, self.core(setup.threads, size, on_error, setup.drop_last, memory), setup)

    def usual_slots(self, threads: int, batch_size: int | None) -> int:
        """Batches in memory at once, the consumer's included, unless the engine is told otherwise."""
        raise NotImplementedError

    def rows(self, batch: Any) -> Any:
        """One index list of the sampler, as the core takes it."""
        return batch

    def form(self, epoch: int, batch: int) -> int | None:
        """Which form the samples of a batch have, for core.submit_form(); None: there is one."""
        return None

    def collated(self, made: Any) -> Any:
        """What the core's next() returned, as default_collate returns it."""
        return made

    def mixer(self, core: Core, on_error: str) -> _core.Loader | None:
        """`core`, if it mixes the pictures of a batch where traced() says how."""
        return None

    def traced(self, rows: Any, *place: int) -> Mixed:
        """What the collate_fn will do to the batch of these rows; raises NotTraced."""
        raise NotTraced

    def lists_ahead(self, batch_size: int | None) -> int:
        """Index lists that the core wants to know beforehand; 0: as many as torch would have sent."""
        return 0


class MadeOnce:
    """Engines with an exact position: they never make a delivered batch again."""

    def uncount(self) -> None:
        """Nothing is counted twice."""


class NativeEngine(MadeOnce):
    """`core` makes the batches of `spec`; a collate_fn that is Python gets them from it.

    An index list that cannot be submitted is an error in the place of its batch. close(): `core` wakes the
    thread inside its next(), and waits until that thread has left.
    """

    def __init__(self, spec: NativeSpec, core: Core, setup: Setup) -> None:
        self.workers: list[Any] = []
        self.fetcher = None
        self.lists_ahead = spec.lists_ahead(setup.batch_size) if setup.threads else 0
        self.pins = spec.place is not None
        self._spec, self.core, self._threads = spec, core, setup.threads
        self._progress, self._keys_wanted = setup.progress, spec.leaves_out
        self._rank = 0 if setup.loader.process_group is None else rank_of(setup.loader)
        self._range = "wait" if setup.threads else "make"
        # One entry per outstanding index list, in order: None for a list in the core, Mixed if its collate_fn
        # was traced, else its error.
        self._pending: deque[Exception | Mixed | None] = deque()
        self._mixer = spec.mixer(core, setup.on_error) if setup.threads else None
        self._number = 0  # of the next batch to be submitted
        self._drained = False  # on_error="skip": the core knows how many batches there are
        self._closed = False
        self._place: tuple[int, int] = 0, 0  # seed and epoch
        self._watch: DrawWatch | None = None
        if spec.python_collate is not None and not setup.threads:
            self._watch = watch_of(setup.progress.log)
        self.stats, self.set_limits = core.stats, core.set_limits

    @property
    def outstanding(self) -> int:
        return len(self._pending)

    def start_epoch(self, seed: int, epoch: int, shared_seed: int | None = None) -> None:
        self._pending.clear()
        self._place, self._drained, self._number = (seed, epoch), False, self._progress.yielded
        self.core.start_epoch(seed, epoch)
        # for cores with samples that depend on how often their index came before in the epoch
        skips = type(self.core).skip is not Core.skip
        if skips and (before := self._progress.indices_before()) is not None:
            self.core.skip(self._spec.rows(before))

    def submit(self, index: Any) -> None:
        mixed = None
        try:
            rows, mixer = self._spec.rows(index), self._mixer
            if (
                mixer is not None
                and (mixed := self._traced(rows)) is not None
                and mixed.arguments is not None
            ):
                mixer.submit_mixed(rows, *mixed.arguments)
            elif (form := self._spec.form(self._progress.number, self._number)) is not None:
                assert isinstance(self.core, _core.Loader)
                self.core.submit_form(rows, form)
            else:
                self.core.submit(rows)
        except Exception as error:
            self._pending.append(error.with_traceback(None))  # a traceback would hold the consumer's frames
        else:
            self._pending.append(mixed)
        self._number += 1

    def _traced(self, rows: Any) -> Mixed | None:
        """Return the traced collate_fn of this batch, if it only mixes the pictures; else None: next() calls
        the collate_fn, and raises its errors.
        """
        try:
            return self._spec.traced(rows, *self._place, self._number, self._rank)
        except NotTraced:
            self._mixer = None  # nor would it be for other batches
        except Exception:
            pass
        return None

    def end_epoch(self) -> None:
        self.core.end_epoch()
        self._drained = True

    def next(self, timeout: float) -> Delivered | None:
        if not self._pending and not self._drained:
            return None
        number = self._number - len(self._pending)  # of the batch that comes
        ahead, made = self._pending[0] if self._pending else None, None
        error = ahead if isinstance(ahead, Exception) else None
        if error is None:
            try:
                made = self._made(timeout)
            except Exception as failure:
                if self._closed:  # by another thread: nothing was delivered
                    raise
                if isinstance(failure, self._spec.late) and failure.errno is None:  # it is still to come
                    raise RuntimeError(f"DataLoader timed out after {timeout} seconds") from None
                error = failure
            else:
                if made is None and self._closed:
                    raise closed_error()
        if self._pending:
            self._pending.popleft()
        if error is not None:
            delivered = Delivered(None, error=error)
            del error  # its traceback holds this frame, and this frame would hold it
            return delivered
        if made is None:
            self._pending.clear()
            return None
        wanted = self._keys_wanted and self._progress.log is not None
        rows = self.core.keys if wanted else None
        if isinstance(ahead, Mixed):
            return Delivered(ahead.batch(made[0]), rows=rows)
        return self._delivered(self._spec.collated(made), rows, number)

    def _made(self, timeout: float) -> Any:
        if not recording():
            return self.core.next(timeout)
        with recorded(self._range):
            return self.core.next(timeout)

    def _delivered(self, batch: Any, rows: Any, number: int) -> Delivered:
        collate = self._spec.python_collate
        if collate is None:
            return Delivered(batch, rows=rows)
        at, where = (self._progress.number, number), (*self._place, number, self._rank)

        def finish(batch: Any) -> Any:
            with at_place(at):
                return collate.seeded(batch, *where) if self._threads else collate(batch)

        if self._threads:
            return Delivered(batch, rows=rows, finish=finish)
        draws = None if self._watch is None else self._watch.before()
        try:
            batch = finish(batch)
        except Exception as error:
            return Delivered(None, error=error, rows=rows)
        return Delivered(batch, rows=rows, draws=None if self._watch is None else self._watch.after(draws))

    def close(self) -> None:
        self._closed = True
        self.core.close()

    def snapshot(self, stacks: bool) -> dict[str, Any]:
        return native_snapshot(self.core)

    def rows(self) -> list[Any]:
        return thread_rows(self.core.clocks(), "device thread" if self.pins else None)


def native_snapshot(core: Core) -> dict[str, Any]:
    """Return `core.snapshot()` for dump_state(): what each thread works on, and the queue."""
    found = dict(core.snapshot())
    threads = [{"name": f"thread {number}", **thread} for number, thread in enumerate(found.pop("threads"))]
    if isinstance(core, (_core.Loader, _core.DeviceLoader)):
        for thread, reading in zip(threads[:-1], core.clocks()):
            if reading is not None and thread["doing"] != "idle":
                thread["doing"] = NAMES[reading[0]]
        threads[-1]["name"] = "consumer"
        if threads[-1]["doing"] == "idle":
            threads.pop()
    return {"workers": threads, "queue": found}


def one_batch(core: Core, place: tuple[int, int], rows: Any, occurrences: np.ndarray | None) -> Any:
    """Return the batch of `rows`, made in an epoch of its own, so that the core has seen nothing else.
    `occurrences`: how often each row's index came before in the epoch; the first one of an index counts.
    """
    core.start_epoch(*place)
    if occurrences is not None and occurrences.any():
        first = dict(zip(rows[::-1].tolist(), occurrences[::-1].tolist()))
        core.skip(np.repeat(np.array(list(first), np.int64), list(first.values())))
    core.submit(rows)
    return core.next()


_LARGE_BATCH_BYTES = 64 * 2**20


def ring_slots(batch_bytes: int | None) -> int:
    """Batches in memory at once, the consumer's included; None: their size is not known beforehand.

    Three, or two when one takes 64 MiB or more: for batches of 128 x 3 x 224 x 224 floats the third was
    measured to bring 2 % of speed at most, for half as much memory again.
    """
    return 2 if batch_bytes is not None and batch_bytes >= _LARGE_BATCH_BYTES else 3


def slots_for(pipelines: Sequence[_core.ImagePipeline], batch_size: int | None) -> int:
    """ring_slots() of batches that have what `pipelines` make."""
    sizes = [pipeline.fixed_shape for pipeline in pipelines]
    if None in sizes or batch_size is None:
        return ring_slots(None)
    elements = sum(math.prod(size) for size in sizes if size is not None)
    return ring_slots(batch_size * elements * getattr(torch, pipelines[0].output_dtype).itemsize)


# ---------------------------------------------------------------- pictures


@dataclass(frozen=True)
class Files:
    """Where the pictures are and what they are labelled: `labels` is an int64 array of shape
    (len(files),). With `targets` these are the samples' positions, from which it makes the consumer's
    targets. `paths`: of `files`, where these lie in folders.
    """

    files: _core.SampleFiles
    labels: np.ndarray
    paths: _core.PathTable | None = None
    targets: LooksUp | None = None


@dataclass(frozen=True)
class ImageSpec(NativeSpec):
    """Files, their labels, the transforms, and the way from the sampler's indices to the files."""

    files: Files
    pipelines: tuple[_core.ImagePipeline, ...]
    """One for each view."""
    views: Views | None
    """How samples arrange them; None: a sample is the only one."""
    index_maps: tuple[Sequence[int], ...]
    python_collate: Any = None
    on_error: str | None = None  # of a dataset that has a policy of its own
    arrangement: type[list] | type[tuple] = list  # of pictures and labels
    drawn_size: RandomBatchSize | None = None
    """`pipelines` are one for each of its sizes, in place of each view."""
    leaves_out = True

    def core(self, threads: int, batch_size: int | None, on_error: str, drop_last: bool, memory: str) -> Core:
        policy = self.on_error or on_error
        return _core.Loader(self.dataset(), threads, self.slots(batch_size), policy, drop_last, memory)

    def dataset(self) -> _core.ImageDataset:
        stacked = self.views is not None and self.views.stacked
        made = self.files.files, self.files.labels, list(self.pipelines), PillowDecoder()
        forms = self.drawn_size is not None
        return _core.ImageDataset(*made, stacked=stacked, forms=forms, ragged=self.ragged)

    @property
    def ragged(self) -> bool:
        """Whether pictures of a batch may differ in size; only a function of samples can take these."""
        collate = self.python_collate
        if collate is None or collate.of_batch:
            return False
        return any(pipeline.fixed_shape is None for pipeline in self.pipelines)

    def form(self, epoch: int, batch: int) -> int | None:
        return None if self.drawn_size is None else self.drawn_size.place_of(epoch, batch)

    def slots(self, batch_size: int | None) -> int:
        if self.drawn_size is None:
            return slots_for(self.pipelines, batch_size)
        return min(slots_for([pipeline], batch_size) for pipeline in self.pipelines)

    def usual_slots(self, threads: int, batch_size: int | None) -> int:
        return self.slots(batch_size)

    def rows(self, batch: Iterable[Any]) -> Any:
        """File indices of one index list of the sampler. Errors are those of indexing a list."""
        if isinstance(batch, np.ndarray) and batch.dtype.kind not in "iu":
            batch = batch.tolist()  # submit() would round floats; a list of them is refused
        for indices in self.index_maps:
            batch = [indices[i] for i in batch]
        return batch

    def mixer(self, core: Core, on_error: str) -> _core.Loader | None:
        collate, labelled = self.python_collate, self.files.targets is None and self.files.labels.size > 0
        if collate is None or not collate.of_batch or collate.function is None or not labelled:
            return None
        if (self.on_error or on_error) != "raise" or self.drawn_size is not None:
            return None
        return core if isinstance(core, _core.Loader) and core.mixes else None

    def traced(self, rows: Any, *place: int) -> Mixed:
        size = self.pipelines[0].fixed_shape
        assert size is not None
        labels = torch.from_numpy(self.files.labels[np.asarray(rows, dtype=np.int64)])
        return self.python_collate.traced(labels, (len(labels), *size), *place)

    def collated(self, made: tuple[Any, torch.Tensor]) -> Any:
        if self.views is None:
            return self.arrangement(made)
        pictures, labels = made
        return [self.views.batch(pictures if isinstance(pictures, list) else [pictures]), labels]


class DeviceCore(_core.DeviceLoader):
    set_limits = None


@dataclass(frozen=True)
class DeviceImageSpec(ImageSpec):
    """The same, its batches made on a device: JPEGs are decoded and augmented there, all that can be, or a
    share that keeps both busy.
    """

    place: Callable[[], Any] = tuple
    balances: bool = False
    ahead: int = 0

    def core(self, threads: int, batch_size: int | None, on_error: str, drop_last: bool, memory: str) -> Core:
        slots = self.slots(batch_size) + 1  # one is being copied
        options = threads, slots, self.on_error or on_error, drop_last, memory
        device, decoding = self.place()
        return DeviceCore(self.dataset(), *options, device, decoding, self.balances, self.ahead)
