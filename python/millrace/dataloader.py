"""The drop-in: torch's DataLoader with a planner in front of its iterators."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import torch.utils.data
from torch.utils.data import Dataset, Sampler

from ._common.data_parallel import part_of
from ._common.devices import Device, device_of
from ._common.interpreter import has_gil
from ._common.lazy import tool
from ._common.states import deep_copy
from ._common.torch_private import _DatasetKind
from ._history.recorder import LOADERS, BatchHistory, recorder_of
from ._loader import plan as planner
from ._loader import tuning as autotune
from ._loader.arguments import (
    Auto,
    advise,
    checked_arguments,
    checked_depth,
    checked_memory,
    checked_pictures,
    checked_remote,
    checked_sampler,
    hand_on,
    is_tuned,
    keeping_ours,
    refuse_impossible,
    resolved_auto,
    unused_by,
    warn_of_the_unused,
)
from ._loader.engine import RunRecord, leave_if_ending
from ._loader.iterator import InlineIterator, iterator_over
from ._loader.parts import sampler_of_part
from ._loader.states import Progress, SavedState, before_first_epoch, fingerprint
from ._profiling import Profiler, settings_of, snapshot
from ._replay.dump import watch
from ._replay.methods import Recorded
from .installation import Replaceable, TorchDataLoader
from .prefetch import prefetched

if TYPE_CHECKING:
    from millrace_tools.advice import Advice
    from millrace_tools.report.report import Report

T_co = TypeVar("T_co", covariant=True)


class DataLoader(TorchDataLoader[T_co], Recorded, Generic[T_co], metaclass=Replaceable):
    """`torch.utils.data.DataLoader`, with a native engine for the datasets and transforms it knows.

    Every argument of torch's class means what it means there. Each `iter(loader)` looks at the dataset, its
    transform, the sampler, `collate_fn` and `worker_init_fn`: `explain()` says what runs natively and what to
    change. docs/dataloader.md describes every argument and what differs natively.

    Args:
        num_workers, prefetch_factor: also "auto": found out while the loop runs (docs/autotune.md).
        memory_budget: the memory that "auto" stays within: bytes, or a share of the memory; None: 0.1.
        tune_file: where the numbers that "auto" finds are kept.
        native: "auto", "never", or "require": UnavailableError at `iter()` where the engine cannot run.
        worker_method: "process", "thread", or "auto": where a dataset that is Python code runs.
        pictures: "native": where the `__getitem__` of such a dataset can be read, the engine makes the
            pictures, with draws of its own (docs/native.md); else, and with "lazy", JPEGs that it opens are
            decoded where they are looked at, by the engine (docs/pictures.md); "pillow": by Pillow. None:
            $MILLRACE_PICTURES, else "native".
        on_error: for samples that cannot be read. "raise"; "skip": samples from the epoch's end take their
            place; "replace": the next readable index does. `stats()["errors"]` lists what was left out.
        snapshot_every_n_steps: how often workers send the state of a Stateful dataset along (docs/resume.md).
        equal_steps: "drop", "repeat" or "pad": all ranks take as many steps (docs/resume.md).
        auto_epoch: calls `sampler.set_epoch()` before each further epoch.
        process_group, mesh_dim: the data-parallel ranks among which a map-style dataset is divided.
        device: None, or where batches are copied to while the loop computes (docs/gpu.md).
        prefetch_to_device: how many batches are copied ahead.
        decode: "cpu", "gpu" or "auto": where an image folder's JPEGs are decoded and transformed.
        history: how much is kept for replay() and seen(): a BatchHistory, True or False (docs/history.md).
        remote: None or "ray": batches are made by other machines, too (docs/remote.md).
        remote_workers: how many CPUs, "auto", or a dict of Ray's options.
    """

    # Class-level defaults: after install(), subclasses of torch's class inherit from this class, and some do
    # not call its __init__.
    native: Literal["auto", "never", "require"] = "auto"
    on_error: Literal["raise", "skip", "replace"] = "raise"
    worker_method: Literal["auto", "process", "thread"] = "auto"
    pictures: Literal["native", "lazy", "pillow"] = "native"
    snapshot_every_n_steps: int | None = 1
    equal_steps: Literal["pad", "drop", "repeat"] | None = None
    auto_epoch: bool = False
    process_group: Any = None
    mesh_dim: None | str | tuple[str, ...] = None
    device: None | str | int | torch.device = None
    prefetch_to_device: int = 2
    _device_argument: torch.device | None = None
    _millrace_wrapped_for: torch.device | None = None  # by the DevicePrefetcher that iterates over it
    decode: Literal["cpu", "gpu", "auto"] = "cpu"
    memory_budget: None | int | float = None
    tune_file: None | str | os.PathLike = None
    remote: Literal["ray"] | None = None
    remote_workers: int | Literal["auto"] | dict[str, Any] = "auto"
    _millrace_run: RunRecord | None = None
    _millrace_tuning: autotune.Tuning | None = None
    _millrace_progress: Progress | None = None
    _millrace_saved: SavedState | None = None  # loaded, for the next iterator

    @keeping_ours
    def __init__(
        self,
        dataset: Dataset[T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler | Iterable | None = None,
        batch_sampler: Sampler[list] | Iterable[list] | None = None,
        num_workers: int | Literal["auto"] = 0,
        collate_fn: Callable[[list], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: torch.Generator | None = None,
        *,
        prefetch_factor: None | int | Literal["auto"] = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        native: Literal["auto", "never", "require"] = "auto",
        on_error: Literal["raise", "skip", "replace"] = "raise",
        worker_method: Literal["auto", "process", "thread"] = "auto",
        pictures: Literal["native", "lazy", "pillow"] | None = None,
        snapshot_every_n_steps: int | None = 1,
        equal_steps: Literal["pad", "drop", "repeat"] | None = None,
        auto_epoch: bool = False,
        process_group: Any = None,
        mesh_dim: None | str | tuple[str, ...] = None,
        device: None | str | int | torch.device = None,
        prefetch_to_device: int = 2,
        decode: Literal["cpu", "gpu", "auto"] = "cpu",
        history: bool | BatchHistory = True,
        memory_budget: None | int | float = None,
        tune_file: None | str | os.PathLike = None,
        remote: Literal["ray"] | None = None,
        remote_workers: int | Literal["auto"] | dict[str, Any] = "auto",
    ) -> None:
        checked_arguments(native, on_error, worker_method, equal_steps, device, decode, history)
        checked_sampler(sampler, batch_size)
        if process_group is not None or mesh_dim is not None:
            sampler, shuffle = sampler_of_part(
                dataset, sampler, batch_sampler, shuffle, part_of(process_group, mesh_dim)
            )
        tuned = dataset, multiprocessing_context, in_order and on_error != "skip" and decode == "cpu"
        workers, lists_ahead = resolved_auto(num_workers, prefetch_factor, *tuned)
        # torch's class is called DataLoader too: a name like self.__x would be one of its own mangled names.
        self.native = native
        self.on_error = on_error
        self.worker_method = worker_method
        self.pictures = checked_pictures(pictures)
        self.snapshot_every_n_steps = snapshot_every_n_steps
        self.equal_steps = equal_steps
        self.auto_epoch = auto_epoch
        self.process_group = process_group
        self.mesh_dim = mesh_dim
        self._device_argument = None if device is None else torch.device(device)
        if type(self) is DataLoader or device is not None:  # else a subclass may have set its own `device`
            self.device = self._device_argument
        self.prefetch_to_device = checked_depth(prefetch_to_device)
        self.decode = decode
        self.history = history
        self.memory_budget = checked_memory(memory_budget)
        self.tune_file = tune_file
        self.remote, self.remote_workers = remote, remote_workers
        checked_remote(self, workers)
        self._millrace_run = self._millrace_tuning = self._millrace_progress = self._millrace_saved = None
        super().__init__(
            dataset,
            batch_size,
            shuffle,
            sampler,
            batch_sampler,
            workers,
            collate_fn,
            pin_memory,
            drop_last,
            timeout,
            worker_init_fn,
            multiprocessing_context,
            generator,
            prefetch_factor=lists_ahead,
            persistent_workers=persistent_workers,
            pin_memory_device=pin_memory_device,
            in_order=in_order,
        )
        hand_on(self)
        warn_of_the_unused(self)

    def __iter__(self) -> Iterator[T_co]:  # type: ignore[override]
        return self._tapped(None)

    def _tapped(self, tap: Callable[[Any], Any] | None) -> Iterator[T_co]:
        """Return an iterator; `tap`, if any, wraps the batches before they are copied to a device."""
        self._millrace_wrapped_for = None
        device, prefetch = self._millrace_device, checked_depth(self.prefetch_to_device)
        batches = self._batches() if tap is None else tap(self._batches())
        if device is None or getattr(batches, "millrace_on_device", False):
            return batches
        return prefetched(batches, device, prefetch, progress=self._millrace_progress)

    def _batches(self) -> Any:
        """Return torch's iterator: a new one for a stream, or if the run's workers end with each epoch."""
        leave_if_ending()
        if isinstance(self._iterator, InlineIterator) or not getattr(self._millrace_progress, "stays", True):
            self._iterator = None
        batches = super().__iter__()
        if self._millrace_progress is not None:
            self._millrace_progress.remember_start()
        LOADERS[id(self)] = self
        if getattr(self.history, "stuck_after", None):
            watch()
        return batches

    def _prefetched(self, device: Device, *options: Any) -> Iterator[Any]:
        """Return the iterator for a DevicePrefetcher around this loader: batches are made for its device."""
        self._millrace_wrapped_for = None
        if self._millrace_device is not None:
            return prefetched(iter(self), device, *options)
        where = self._millrace_wrapped_for = device_of(device)
        return prefetched(self._batches(), where, *options, progress=self._millrace_progress)

    @property
    def _millrace_device(self) -> torch.device | None:
        """The device that batches go to. In a subclass only the argument counts, not its own `device`."""
        own = self.device if type(self) is DataLoader else self._device_argument
        return self._millrace_wrapped_for if own is None else torch.device(own)

    def _get_iterator(self) -> Any:
        profiler = Profiler(settings_of(self))
        with profiler.starting():
            return self._new_iterator(profiler)

    def _new_iterator(self, profiler: Profiler) -> Any:
        plan = planner.make_plan(self, explained=False)
        refuse_impossible(self, plan)
        engine = self._engine_name(plan)
        advise(planner.order_advice(self), *unused_by(self, plan.spec is not None, engine))
        if self.num_workers > 0:
            self.check_worker_number_rationality()
        recorder_of(self)  # here: the code below may see a copy of this loader
        record = RunRecord(engine, profiler)
        profiler.native = plan.spec is not None
        tuning = autotune.tuning_of(self, plan, record.engine) if is_tuned(self) else None
        record.tuning = self._millrace_tuning = tuning
        saved = None if self._millrace_saved is None else self._millrace_saved.for_an_iterator()
        spec = plan.spec or plan.python_spec(record.engine)
        if self.remote is not None:
            from ._loader.remote import remote_spec

            spec = remote_spec(self, spec, DataLoader)
        streams = spec.native and self._dataset_kind == _DatasetKind.Iterable
        loader = planner.seen_as_inline(self) if streams else self
        progress = Progress(loader, saved, self._millrace_progress)
        iterator = iterator_over(loader, spec, record, progress)
        profiler.ends_with(iterator)
        self._millrace_run, self._millrace_progress, self._millrace_saved = record, progress, None
        return iterator

    def check_worker_number_rationality(self) -> None:
        if not isinstance(self.num_workers, Auto):  # with "auto", no more workers run at a time than CPUs
            super().check_worker_number_rationality()

    def _engine_name(self, plan: planner.Plan) -> str:
        if self.num_workers == 0:
            return "inline"
        return "threads" if plan.spec is not None or self._in_threads() else "processes"

    def _in_threads(self) -> bool:
        """Whether workers that run Python are threads: on request, and in "auto" if there is no GIL."""
        if self.worker_method == "auto":
            return not has_gil()
        return self.worker_method == "thread"

    def explain(self, samples: int = 0) -> str:
        """Say what the next iterator runs on: one line per stage, `name: native|python — reason`.

        A line `memory: python — ...` names lists of 16 MB or more that worker processes would end up copying.
        A line `order: ...` gives the cost of a shuffle that is too slow for a dataset in chunks; `iter()`
        warns of it, too. Draws nothing, starts nothing.

        Args:
            samples: number of samples to make, one by one, in this thread; `cost: ...` gives the mean CPU
                time of each of the engine's stages and of each step in Python.
        """
        from ._loader.plan.explaining import lines_behind

        plan = planner.make_plan(self)
        engine = self._engine_name(plan)
        lines = [str(plan), *(autotune.tuning_lines(self, plan, engine) if is_tuned(self) else ())]
        return "\n".join([*lines, *lines_behind(self, plan, engine, samples)])

    def report(self) -> Report:
        """Return the profile and its steps, to print or to save as a page (docs/report.md)."""
        return tool("report.report", "Report")(self.profile(steps=True) or {}, str(self.advice()))

    def stats(self, steps: bool = False) -> dict[str, Any]:
        """Return what the latest iterator has done since it was made.

        engine: "threads", "processes" or "inline"; samples, batches: handed out; wait_seconds: the time that
        the consumer waited in `next()`; slots of the ring, and overflow_slots: batches that found it full;
        pictures: opened by a Python dataset, and what became of them (docs/pictures.md);
        left_out: samples that on_error left out; errors: {index, path, offset, reason} of the first 1,000 of
        them; bytes read (native) or moved (processes). Native only, else zero: seconds {read, decode,
        transform, collate} summed over threads, left_to_device: pictures left to the device's decoder.
        "profile": the result of profile(steps). "tuned", if an argument is "auto": the choices, with reasons.
        """
        record = self._latest_run()
        tuned = {} if self._millrace_tuning is None else {"tuned": self._millrace_tuning.report()}
        return {**record.stats(), **tuned, "profile": snapshot(record, steps)}

    def profile(self, steps: bool = False) -> dict[str, Any] | None:
        """Return where each second of the latest iterator's epoch went, in the training loop's thread and in
        each worker: a dict of JSON's types.

        consumer: seconds by activity of next() and the loop, which sum to wall_seconds; workers: the same for
        each thread or process; stages: wall and CPU seconds; blame: the seconds that the loop lost, by stage;
        bottleneck: the stage to improve first, or "consumer". `steps`: add the times at which each next() was
        called and returned. docs/profile.md explains every key.
        """
        return snapshot(self._latest_run(), steps)

    def _latest_run(self) -> RunRecord:
        run = self._millrace_run
        return run or RunRecord(self._engine_name(planner.make_plan(self)), Profiler(settings_of(self)))

    def advice(self) -> Advice:
        """Return what to change so that the loop waits less: Suggestions, each with the throughput that a
        model of the measured stages predicts, and `line`, all of it in one line. A few batches are enough.
        """
        return tool("advice", "advise")(self.profile(steps=True), tool("advice", "facts_of")(self))

    def state_dict(self) -> dict[str, Any]:
        """Return the training loop's position in this loader's data: a small dict, of JSON's types if the
        states of your objects are.

        Exact at every batch, whatever was prefetched. It has the keys of torchdata's StatefulDataLoader, and
        "millrace" for everything else. Holds the states of Stateful datasets, samplers and their iterators
        (objects with state_dict() and load_state_dict()). Taken inside the loop after the last batch, it
        resumes to an empty rest of the epoch; taken after the loop, to the next epoch. Before the first
        iterator: the start of the first epoch. "checksum" tells whether the state was damaged since.
        """
        if self._millrace_saved is not None:
            return deep_copy(self._millrace_saved.state)
        progress = self._millrace_progress
        if progress is None or not progress.is_under_way:
            progress = before_first_epoch(self)
        return progress.state(self)

    def load_state_dict(self, state_dict: dict[str, Any], verify: bool = True) -> None:
        """Drop the present iterator; the next `iter(loader)` goes on where `state_dict` was taken. {}: only
        drop the iterator.

        Generators given to the loader or its sampler get their saved states back, so that later epochs are
        the same too; of torch's global generator only the draws of the resumed epoch are repeated. The number
        of workers may differ, except for streams and Stateful datasets: their states hold each worker's
        position, so `iter()` raises a StateError that is also an AssertionError, as in torchdata.

        Raises:
            StateError: (a ValueError) if the state is damaged (its checksum says so, unless `verify` is
                False), of another version, or of another dataset length or sampler.
        """
        saved = None if state_dict == {} else SavedState.read(state_dict, verify)
        if saved is not None:
            saved.check_fingerprint(fingerprint(self))
            saved.set_sampler_epoch(self)
        self._iterator = self._millrace_progress = None
        self._millrace_saved = saved

    def __copy__(self) -> DataLoader[T_co]:
        """Return a loader over the same objects that begins anew, without this one's iterator and place."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.__dict__.update(
            _iterator=None, _millrace_run=copy.copy(self._millrace_run), _millrace_progress=None
        )
        hand_on(twin)
        return twin

    @property
    def seed(self) -> int | None:
        """The latest iterator's base seed, which seeds native random transforms; None before the first."""
        return None if self._millrace_run is None else self._millrace_run.seed

    @property
    def epoch(self) -> int:
        """The latest iterator's epoch, counted if persistent workers keep the base seed; else 0."""
        return 0 if self._millrace_run is None else self._millrace_run.epoch
