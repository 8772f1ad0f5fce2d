"""The drop-in: torch's DataLoader with a planner in front of its iterators."""

from __future__ import annotations

import copy
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import torch.utils.data
from torch.utils.data import Dataset, Sampler
from torch.utils.data.dataloader import _DatasetKind

from ._common.checksum import signed, verified
from ._common.data_parallel import part_of, sampler_of_part
from ._common.devices import Device, device_of
from ._loader.arguments import checked_arguments
from ._loader.engines import InlineIter, ProcessIter, ThreadIter
from ._loader.engines.stream_iterator import StreamIter, seen_as_inline
from ._loader.heavy_lists import memory_advice
from ._loader.iterator import NativeInlineIter, NativeThreadIter
from ._loader.plan import Plan, StreamJob, make_plan, order_advice
from ._loader.run_record import RunRecord
from ._loader.states import Progress, SavedState, before_first_epoch, fingerprint
from ._loader.tuning import (
    Auto,
    Tuning,
    checked_memory,
    resolved_prefetch,
    resolved_workers,
    tuning_lines,
    tuning_of,
)
from ._profiling import Profiler, settings_of
from ._tools.history.dump import known
from ._tools.history.methods import Recorded
from ._tools.history.recorder import BatchHistory, recorder_of
from .errors import UnavailableError
from .installation import Replaceable
from .prefetch import checked_depth, prefetched
from .samplers import LengthGroupedSampler, StratifiedBatchSampler

if TYPE_CHECKING:
    from ._tools.advice import Advice
    from ._tools.report.report import Report

T_co = TypeVar("T_co", covariant=True)


class DataLoader(torch.utils.data.DataLoader[T_co], Recorded, Generic[T_co], metaclass=Replaceable):
    """`torch.utils.data.DataLoader`, with a native engine for the datasets and transforms it knows.

    Every argument of torch's class means what it means there; see its documentation. Each `iter(loader)`
    looks at the dataset, its transform, the sampler, `collate_fn` and `worker_init_fn`. When the engine knows
    them all, batches are made by `num_workers` native threads (0: in `next()`), else by your Python code in
    worker processes; `explain()` says which, and what to change.

    Further arguments, keyword-only, readable and settable as attributes:

    num_workers: also "auto": as many as this process may use CPUs (affinity, cgroup quota, LOCAL_WORLD_SIZE),
        up to 8 where these are fewer, of which as many work at a time as serve the training loop best and use
        no more CPU time than that, found out while it runs. Batches do not depend on it. prefetch_factor:
        also "auto": the same for the number of batches in memory. docs/autotune.md has both; explain() and
        stats()["tuned"] say what was chosen.
    memory_budget: what the batches in memory may take with prefetch_factor="auto": bytes, or a share of the
        memory that may be taken (float below 1; None: 0.1), for all ranks of a node together. At most half of
        it page-locked. ValueError where two do not fit.
    tune_file: where "auto" keeps what it chose, and begins the next time; None: the path in
        MILLRACE_TUNE_FILE, if it is set.
    native: "auto" uses the engine when it can; "never" does not; "require" raises UnavailableError at
        `iter()` where it cannot.
    on_error: what happens to a sample that cannot be read; of datasets that are Python code, one whose
        `__getitem__` raises. "raise": `next()` raises, and the next call goes on with the following batch, as
        torch's does. "skip": rows from the epoch's end fill the holes, so the epoch gets shorter than
        `len(loader)`; the sampler is drained when the epoch starts, so it must end. Each number of workers
        gives the same batches, but with `in_order=False`. In Python a batch with holes is fetched anew once
        they are filled, so its samples may be asked for several times. "replace": the next readable index of
        the dataset takes the place; every length stays. What was left out is listed in `stats()["errors"]`.
        Datasets that are Python code must be map-style and batched for these two, which ask for samples one
        by one, not by `__getitems__`; anything else is refused at `iter()`.
    snapshot_every_n_steps: how often workers send the state of a Stateful dataset along with a batch; a state
        taken in between makes the batches since then again when it is loaded. 0: only the epoch's start.
        Other datasets need none of this.
    equal_steps: makes all ranks of a run take as many steps, agreed before each epoch starts (`iter()` is
        then a collective call). "drop": as few as the rank with the fewest index lists has. "repeat", "pad":
        as many as the one with the most; the others hand out their first lists again, or their last one.
        `len(loader)` stays this rank's own. Of streams: WebDatasets with_epoch(n), "drop".
    auto_epoch: calls `sampler.set_epoch()` before each further epoch, unless you did. Without it, a shuffling
        sampler of several ranks, or of millrace.samplers, that never got it is warned of.
    process_group: the data-parallel ranks, among which a map-style dataset is divided (by a
        DistributedSampler): a ProcessGroup, or a DeviceMesh whose dimension `mesh_dim` they are (or
        dimensions: `mesh_dim=("replicate", "shard")`). All ranks with the same place in it, those of a
            tensor-parallel group, get the same batches. `iter()` is then a collective call of all ranks.
    worker_method: where a dataset that is Python code runs, with workers. "process": in worker processes, as
        torch's, over one shared ring of batches. "thread": in threads of this process, which share the
        dataset and its memory; right for code that releases the GIL. "auto": in processes, or in threads on
        an interpreter without GIL.

    device: None hands out CPU tensors. "cuda", "cuda:1", a number, a torch.device: batches are there already,
        copied on a stream of their own while the loop computes; DevicePrefetcher describes how, and does the
        same for any other loader. "cpu" is None. Assigning it counts from the next iterator; in subclasses,
        which may have a `device` of their own, only the argument counts.
    prefetch_to_device: how many batches may be in the device's memory beside those in use.
    decode: where an image folder's JPEGs are decoded and transformed, with a CUDA `device`. "cpu": by the
        engine's threads. "gpu": by nvJPEG and one kernel, in threads and streams of its own (also without
        workers), with the same crops, flips and colours at the same seed; the CPU makes what nvJPEG cannot
        do, and errors are the CPU's. UnavailableError at `iter()` where it cannot be. "auto": the GPU gets a
        share that keeps both sides busy, or nothing where it cannot be, and `explain()` says why.

    history: what is remembered of the batches handed out, for replay() and seen(): a BatchHistory with
        settings of your own; True: one with the usual ones; False: nothing.

    The same natively: the order, every draw from torch's generators, batch types and shapes, errors' types,
    one line of sampler calls in the consumer's thread, laziness without workers, `timeout`, persistent
    workers, frameworks' isinstance tests.

    Different natively: random transforms draw from (`seed`, `epoch`, index), so they neither read nor advance
    the generators of torch, random and numpy, and are the same for every `num_workers`. Errors keep their
    type and are not wrapped in "Caught ... in DataLoader worker process". `multiprocessing_context` is
    checked but unused, `in_order=False` returns batches in order all the same, `iterator._workers` is empty,
    batches are not in shared memory, and what is assigned to the dataset counts from the next iterator. What
    is written into tensors in memory counts from the next batch made; they must not be resized while threads
    read them.
    """

    # Subclasses of torch's class whose __init__ does not call its base's come to have this one when it is
    # installed.
    native: Literal["auto", "never", "require"] = "auto"
    on_error: Literal["raise", "skip", "replace"] = "raise"
    worker_method: Literal["auto", "process", "thread"] = "auto"
    snapshot_every_n_steps: int | None = 1
    equal_steps: Literal["pad", "drop", "repeat"] | None = None
    auto_epoch: bool = False
    process_group: Any = None
    mesh_dim: None | str | tuple[str, ...] = None
    device: None | str | int | torch.device = None
    prefetch_to_device: int = 2
    _device_argument: torch.device | None = None
    _millrace_wrapped_for: torch.device | None = (
        None  # the device of the DevicePrefetcher that iterates over it
    )
    decode: Literal["cpu", "gpu", "auto"] = "cpu"
    memory_budget: None | int | float = None
    tune_file: None | str | os.PathLike = None
    _millrace_run: RunRecord | None = None
    _millrace_tuning: Tuning | None = None
    _millrace_progress: Progress | None = None
    _millrace_saved: dict[str, Any] | None = None  # loaded, for the next iterator

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
    ) -> None:
        checked_arguments(native, on_error, worker_method, equal_steps, device, decode, history)
        if process_group is not None or mesh_dim is not None:
            sampler, shuffle = sampler_of_part(
                dataset, sampler, batch_sampler, shuffle, part_of(process_group, mesh_dim)
            )
        if batch_size is not None and isinstance(sampler, (LengthGroupedSampler, StratifiedBatchSampler)):
            raise ValueError(
                f"a {type(sampler).__name__} gives whole batches: give it as batch_sampler=, and leave"
                " batch_size out"
            )
        tuned = in_order and on_error != "skip" and decode == "cpu"
        num_workers = resolved_workers(num_workers, dataset, multiprocessing_context, tuned)
        prefetch_factor = resolved_prefetch(prefetch_factor, num_workers)
        # torch's class is called DataLoader too: a name like self.__x would be one of its own mangled names.
        self.native = native
        self.on_error = on_error
        self.worker_method = worker_method
        self.snapshot_every_n_steps = snapshot_every_n_steps
        self.equal_steps = equal_steps
        self.auto_epoch = auto_epoch
        self.process_group = process_group
        self.mesh_dim = mesh_dim
        self._device_argument = None if device is None else torch.device(device)
        if type(self) is DataLoader or device is not None:  # else it may be a subclass's own, and set already
            self.device = self._device_argument
        self.prefetch_to_device = checked_depth(prefetch_to_device)
        self.decode = decode
        self.history = history
        self.memory_budget = checked_memory(memory_budget)
        self.tune_file = tune_file
        self._millrace_run = self._millrace_tuning = None
        self._millrace_progress = None
        self._millrace_saved = None
        super().__init__(
            dataset,
            batch_size,
            shuffle,
            sampler,
            batch_sampler,
            num_workers,
            collate_fn,
            pin_memory,
            drop_last,
            timeout,
            worker_init_fn,
            multiprocessing_context,
            generator,
            prefetch_factor=prefetch_factor,
            persistent_workers=persistent_workers,
            pin_memory_device=pin_memory_device,
            in_order=in_order,
        )

    def __iter__(self) -> Iterator[T_co]:  # type: ignore[override]
        return self._tapped(None)

    def _tapped(self, tap: Callable[[Any], Any] | None) -> Iterator[T_co]:
        """An iterator; `tap(batches)` stands in it before batches are copied to a device."""
        self._millrace_wrapped_for = None
        device, prefetch = self._millrace_device, checked_depth(self.prefetch_to_device)
        batches = self._batches() if tap is None else tap(self._batches())
        if device is None or getattr(batches, "millrace_on_device", False):
            return batches
        return prefetched(batches, device, prefetch, progress=self._millrace_progress)

    def _batches(self) -> Any:
        """torch's iterator. That of a stream keeps nothing for the next epoch, so persistent_workers need not
        keep it.
        """
        if isinstance(self._iterator, StreamIter):
            self._iterator = None
        batches = super().__iter__()
        if self._millrace_progress is not None:
            self._millrace_progress.remember_start()
        known(self)
        return batches

    def _prefetched(self, device: Device, *options: Any) -> Iterator[Any]:
        """What a DevicePrefetcher around this loader iterates over: batches that are made for its device."""
        self._millrace_wrapped_for = None
        if self._millrace_device is not None:
            return prefetched(iter(self), device, *options)
        self._millrace_wrapped_for = device_of(device)
        return prefetched(
            self._batches(), self._millrace_wrapped_for, *options, progress=self._millrace_progress
        )

    @property
    def _millrace_device(self) -> torch.device | None:
        """Where batches go. Many subclasses of torch's class have a `device` of their own: theirs is not
        ours, but for the argument.
        """
        own = self.device if type(self) is DataLoader else self._device_argument
        return self._millrace_wrapped_for if own is None else torch.device(own)

    def _get_iterator(self) -> Any:
        profiler = Profiler(settings_of(self))
        with profiler.starting():
            return self._new_iterator(profiler)

    def _new_iterator(self, profiler: Profiler) -> Any:
        plan = make_plan(self)
        self._refuse_what_torch_cannot(plan)
        if advice := order_advice(self):
            warnings.warn(advice, stacklevel=5)
        if self.num_workers > 0:
            self.check_worker_number_rationality()
        recorder_of(self)  # here: what follows may see a copy of this loader
        record = RunRecord(self._engine_name(plan), profiler)
        profiler.native = plan.job is not None
        record.tuning = self._millrace_tuning = tuning_of(self, plan, record.engine)
        saved = None if self._millrace_saved is None else SavedState.read(self._millrace_saved, verify=False)
        streams = isinstance(plan.job, StreamJob)
        progress = Progress(seen_as_inline(self) if streams else self, saved, self._millrace_progress)
        if streams:
            iterator: Any = StreamIter(self, plan.job, record, progress)
        elif plan.job is not None:
            native_class = NativeThreadIter if self.num_workers > 0 else NativeInlineIter
            iterator = native_class(self, plan.job, record, progress)
        else:
            python_class = {"processes": ProcessIter, "threads": ThreadIter, "inline": InlineIter}[
                record.engine
            ]
            iterator = python_class(self, record, progress)
        profiler.ends_with(iterator)
        self._millrace_run, self._millrace_progress, self._millrace_saved = record, progress, None
        return iterator

    def check_worker_number_rationality(self) -> None:
        if not isinstance(
            self.num_workers, Auto
        ):  # of "auto", no more work at a time than there are CPUs for
            super().check_worker_number_rationality()

    def _refuse_what_torch_cannot(self, plan: Plan) -> None:
        if self.decode == "gpu" and plan.decode_refusal:
            raise UnavailableError(
                f'decode="gpu" is not possible here: {plan.decode_refusal}. decode="auto" takes the CPU then'
            )
        if plan.job is not None:
            return
        if self.native == "require":
            raise UnavailableError(f'native="require", but this loader runs in Python:\n{plan}')
        if self.on_error != "raise" and not (self._dataset_kind == _DatasetKind.Map and self._auto_collation):
            raise UnavailableError(
                f'on_error="{self.on_error}" takes another index of a map-style dataset, in batches; this'
                ' loader has none. Leave it out, and give a WebDataset a handler instead: decode("pil",'
                " handler=millrace.datasets.warn_and_continue)"
            )

    def _engine_name(self, plan: Plan) -> str:
        if self.num_workers == 0:
            return "inline"
        return "threads" if plan.job is not None or self._in_threads() else "processes"

    def _in_threads(self) -> bool:
        """Whether workers that run Python are threads: where asked for, and where they need not take
        turns.
        """
        if self.worker_method == "auto":
            return not getattr(sys, "_is_gil_enabled", lambda: True)()
        return self.worker_method == "thread"

    def explain(self) -> str:
        """What the next iterator runs on: one line per stage, `name: native|python — reason`. Draws nothing,
        starts nothing.

        One more line, `memory: python — ...`, names lists of 16 MB or more that worker processes would come
        to copy; `order: ...` says what a shuffle costs that a dataset in chunks cannot keep up with, which
        `iter()` warns of, too.
        """
        plan = make_plan(self)
        advice = memory_advice(self.dataset) if self._engine_name(plan) == "processes" else []
        if order := order_advice(self):
            advice = [*advice, f"order: {order}"]
        return "\n".join([str(plan), *tuning_lines(self, plan, self._engine_name(plan)), *advice])

    def report(self) -> Report:
        """The profile and its steps, to be printed, or saved as a page: report().save("report.html").
        docs/report.md has the rest.
        """
        from ._tools.report.report import report_of

        return report_of(self)

    def stats(self, steps: bool = False) -> dict[str, Any]:
        """What the latest iterator has done so far, since it was made.

        engine: "threads", "processes" or "inline"; samples, batches: handed out; wait_seconds: the time that
        `next()` kept the consumer waiting; slots of the ring, and overflow_slots: batches that found it full;
        left_out: samples that on_error left out; errors: {index, path, offset, reason} of the first 1,000 of
            them; bytes read (native) or moved (processes). Of native
        iterators only, else zero: seconds {read, decode, transform, collate} summed over threads. With
        decode="gpu" or "auto" also
        left_to_device: pictures that the threads have left to the device's decoder so far. "profile": what
            profile(steps) returns.
        "tuned", where an argument is "auto": what was chosen, within which budget, when and why.
        """
        record = self._latest_run()
        tuned = {} if self._millrace_tuning is None else {"tuned": self._millrace_tuning.report()}
        return {**record.stats(), **tuned, "profile": record.profile_now(steps)}

    def profile(self, steps: bool = False) -> dict[str, Any] | None:
        """Where each second of the latest iterator's epoch went, in the training loop's thread and in each
        worker: a dict of JSON's types.

        consumer: seconds by what next() and the loop did, which sum to wall_seconds; workers: the same for
        each thread or process; stages: wall and CPU seconds; blame: the seconds that the loop lost, by stage;
        bottleneck: the stage to improve first, or "consumer". `steps`: also when each next() was called and
            returned. docs/profile.md explains every key.
        """
        return self._latest_run().profile_now(steps)

    def _latest_run(self) -> RunRecord:
        return self._millrace_run or RunRecord(
            self._engine_name(make_plan(self)), Profiler(settings_of(self))
        )

    def advice(self) -> Advice:
        """What to change so that the loop waits less: a list of millrace.Suggestion, each with the throughput
        that a model of the measured stages foretells, and `line`, all of it in one line. From the latest
        iterator; a few batches are enough.
        """
        from ._tools.advice import advice_of

        return advice_of(self)

    def state_dict(self) -> dict[str, Any]:
        """Where the training loop is in this loader's data: a small dict, of JSON's types if the states of
        your objects are.

        Exact at every batch, whatever was prefetched. Its keys are those of torchdata's StatefulDataLoader,
        and "millrace" for what those have no place for. Holds the states of Stateful datasets, samplers and
        their iterators (objects with state_dict() and load_state_dict()). Taken inside the loop behind the
        last batch, it resumes to an empty rest of the epoch; taken behind the loop, to the next epoch. Before
        the first iterator: the start of the first epoch. "checksum" tells whether it was damaged since.
        """
        if self._millrace_saved is not None:
            return copy.deepcopy(self._millrace_saved)
        progress = self._millrace_progress
        if progress is None or not progress.is_under_way:
            progress = before_first_epoch(self)
        return progress.state(self)

    def load_state_dict(self, state_dict: dict[str, Any], verify: bool = True) -> None:
        """The next `iter(loader)` goes on where `state_dict` was taken, and the present iterator is given up.
        {}: only that.

        Generators that were given to the loader or its sampler are set to where they were, so that later
        epochs are the same too; of torch's global generator only the draws of the resumed epoch are repeated.
        StateError (a ValueError) when the state is damaged (its checksum says so, unless `verify` is False),
        of another version, or of another dataset length or sampler. The number of workers may be another, but
        for streams and Stateful datasets, whose workers' places it has: StateError, and AssertionError as
        torchdata raises it, at `iter()`.
        """
        saved = None if state_dict == {} else SavedState.read(state_dict, verify)
        if saved is not None:
            saved.check_fingerprint(fingerprint(self))
            saved.set_sampler_epoch(self)
        self._iterator = None
        self._millrace_progress = None
        self._millrace_saved = None if saved is None else copy.deepcopy(state_dict)
        if saved is not None and not verify:
            self._millrace_saved = signed(verified(self._millrace_saved, "the loader's state", verify))

    def __copy__(self) -> DataLoader[T_co]:
        """A loader over the same objects, which begins anew: iterators and their place are this one's."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.__dict__.update(
            _iterator=None, _millrace_run=copy.copy(self._millrace_run), _millrace_progress=None
        )
        return twin

    @property
    def seed(self) -> int | None:
        """The base seed drawn by the latest iterator, on which native random transforms depend; None before
        the first.
        """
        return None if self._millrace_run is None else self._millrace_run.seed

    @property
    def epoch(self) -> int:
        """How often the latest iterator was reset: 0 but for persistent workers."""
        return 0 if self._millrace_run is None else self._millrace_run.epoch
