"""The common base of WebDataset and Mixture: a pipeline as data, its epochs, its state, and the fluent
methods (fluent.py).

A pipeline is never changed: each method returns another one with one more stage. Only the place of its latest
iterator changes:

    iter() makes an iterator, which begins at its first next(): at the position that was loaded, or else at
    the start of an epoch. The epoch is the one that set_epoch() named, once; then always the next one
    state_dict() is the position of the iterator that was made last
"""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from torch.utils.data import IterableDataset, get_worker_info

from millrace._common.ranks import world
from millrace.errors import StateError

from ..._common.states import signing
from . import utils
from .flow import VERSION, Context, Flow, Position, Run, Stage, as_stage, build, checked_state
from .fluent import Fluent
from .holding import RandomSample, Shuffle
from .missing import no_method
from .split import EpochBoard, Reader, is_divided_by_accelerate

ENDLESS = sys.maxsize  # samples or repetitions


class Chain(Fluent, utils.Closing, IterableDataset):
    """Base of pipelines. Subclasses define the source, in `_source()`, and describe it, in `_facts()`."""

    _stages: tuple[Stage, ...] = ()
    _world: tuple[int, int] | None = None  # where it was sent from

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed
        self._length: int | None = None
        self._repetitions = 1
        self._most: int | None = None  # samples of an epoch
        self._forget()

    def _forget(self) -> None:
        self._board = EpochBoard()
        self._seen = 0  # how often the epoch had been set when it was last looked at
        self._last = -1  # the latest epoch that began
        self._notified: tuple[int, int] | None = (
            None  # how often it had been set when this process told its workers, and the process
        )
        self._began_in = 0  # the process
        self._latest: Run | None = None
        self._pending: dict[str, Any] | None = None
        self._undivided = False  # where it was sent from, somebody else divided it among the ranks

    # ---------------------------------------------------------------- to be defined

    def _source(self, context: Context, own: Any) -> Flow:
        raise NotImplementedError

    def _facts(self) -> list[str]:
        """Facts that a position in the source depends on."""
        raise NotImplementedError

    # ---------------------------------------------------------------- the pipeline

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The steps after the source, in order, as data (stages.py, holding.py)."""
        return self._stages

    def compose(self, *stages: Any) -> Any:
        """The pipeline with further stages.

        The state of a function, or of an object with `run`, is not known, so resuming runs the pipeline from
        the start of the epoch up to it.

        Args:
            *stages: each a `millrace.datasets.webdataset.Stage`, a function from an iterator to an iterator,
                or an object with `run`.
        """
        other = self._copy()
        other._stages = (*self._stages, *map(as_stage, stages))
        return other

    def append(self, stage: Any) -> None:
        """Append a stage to this data set itself, as in webdataset; compose() makes another data set.

        Epochs, and a state that was loaded, are forgotten.
        """
        self._stages = (*self._stages, as_stage(stage))
        self._forget()

    @property
    def pipeline(self) -> tuple[Any, ...]:
        """The source's steps, and the stages, in the form of a DataPipeline's list.

        DataPipeline(*steps) with other steps is another pipeline.
        """
        return (*self._head(), *self._stages)

    def _head(self) -> tuple[Any, ...]:
        """The steps that a DataPipeline has before the stages."""
        bare = self._copy()
        bare._stages = ()
        return (bare,)

    def stage(self, i: int) -> Any:
        """Step number `i` of `pipeline`."""
        return self.pipeline[i]

    def iterator(self) -> Iterator[Any]:
        """iter(), by webdataset's name."""
        return iter(self)

    iterator1 = iterator

    def invoke(self, f: Any, *args: Any) -> Iterator[Any]:
        """The items of step `f`.

        Args:
            f: an iterable, or a function, a stage or an object with run().
            *args: arguments of the call of the function, the stage or run().
        """
        if not args and isinstance(f, Iterable):
            return iter(f)
        return iter(getattr(f, "run", f)(*args) if not isinstance(f, Stage) else f(*args))

    def _copy(self) -> Any:
        other = copy.copy(self)
        other._world = self._world  # not the one of __getstate__(): this may be a spawned worker
        other._forget()
        return other

    def repeat(self, nepochs: int = -1, nbatches: int = -1) -> Any:
        """Make an epoch of `nepochs` times the data, each time in another order.

        Args:
            nepochs: how many times; -1: endless.
            nbatches: at most so many items.
        """
        other = self._copy()
        other._repetitions = nepochs if nepochs > 0 else ENDLESS
        other._most = nbatches if nbatches > 0 else None
        return other

    def with_epoch(self, nsamples: int = -1, nbatches: int = -1) -> Any:
        """Make an epoch of so many items (samples, or batches after batched()) for each reader.

        The data are repeated as needed. A reader is a worker of a rank, as in webdataset: two workers give
        twice as many items, natively, too, if num_workers is a number. With num_workers="auto" each rank
        gives so many items. A state of such an epoch must be loaded with the same number of workers.
        """
        return self.repeat(nbatches=max(nsamples, nbatches))

    def with_length(self, n: int, silent: bool = False) -> Any:
        """Make len() return `n`.

        It changes nothing else: with_epoch() does.

        Args:
            n: the length.
            silent: no effect; there is no warning.
        """
        other = self._copy()
        other._length = n
        return other

    @property
    def most(self) -> int | None:
        """Items of an epoch, if with_epoch() or repeat() declared the number."""
        return self._most

    @property
    def repeats(self) -> bool:
        """Whether an epoch goes through the data more than once."""
        return self._repetitions != 1

    def __len__(self) -> int:
        if self._length is None:
            raise TypeError(
                f"a {type(self).__name__} has no length; declare one: dataset = dataset.with_length(n)"
            )
        return self._length

    def __bool__(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        """Raises AttributeError for a missing attribute, with the replacement to write instead."""
        raise no_method(type(self).__name__, name)

    # ---------------------------------------------------------------- epochs

    @property
    def epoch(self) -> int:
        """The epoch of the next iterator in this process."""
        if self._pending is not None:
            return self._pending["epoch"]
        epoch, times = self._board.read()
        is_new = times != self._seen and self._notified != (times, os.getpid())
        return epoch if is_new else self._last + 1

    def set_epoch(self, epoch: int) -> None:
        """Make the next iterator, here and in worker processes, begin this epoch.

        Later iterators begin the epochs after it.
        """
        if self._pending is not None and self._pending["epoch"] != epoch:
            self._pending = None
        self._board.set(epoch)

    @property
    def _items_of_epoch(self) -> int | None:
        """Items of each reader in an epoch, if that is declared."""
        return self._most if self._repetitions == ENDLESS else None

    def _notify_workers(self, saved_epoch: int | None) -> int:
        """Sets the epoch for all workers. Called by a DataLoader before its workers begin an epoch."""
        epoch = self.epoch if saved_epoch is None else saved_epoch
        self._board.set(epoch)
        self._notified, self._last = (self._board.read()[1], os.getpid()), epoch
        if self._pending is not None and "places" not in self._pending:
            self._pending = None  # it named the epoch that begins now
        return epoch

    def _begin(self, run: Run) -> list[Any] | None:
        """Begins `run`; returns the entries of its position, or None at the start of the epoch."""
        pending, run.reader = self._pending, Reader.here(self._world)
        if self._undivided or is_divided_by_accelerate(self):
            run.reader = replace(run.reader, rank=0, ranks=1)
        run.epoch, positions = self.epoch, None
        worker = get_worker_info()
        if (
            worker is not None
            and worker.id == 0
            and pending is None
            and self._began_in != os.getpid()
            and self._shuffles
        ):
            self._board.warn_of_repetition()
        self._began_in = os.getpid()
        if pending is not None and "places" in pending:
            positions = run.go_on(pending)
        self._pending, self._last, self._seen = None, run.epoch, self._board.read()[1]
        run.begun = True
        return positions

    @property
    def _shuffles(self) -> bool:
        """Whether one epoch differs from another."""
        return any(isinstance(stage, (Shuffle, RandomSample)) for stage in self._stages)

    # ---------------------------------------------------------------- iterating

    def __iter__(self) -> Iterator[Any]:
        run = self._latest = Run(most=self._most)
        return self._items(run)

    def iterate(self, source: Any, stages: tuple[Stage, ...], most: int | None) -> Iterator[Any]:
        """An iterator, as iter() makes it, with another source and other stages.

        They give the same samples in another form, so the positions are the same.

        Args:
            source: a function of (context, own).
            stages: replace this data set's stages.
            most: replaces with_epoch()'s number. None: the caller counts, and calls end() when the epoch is
                over.
        """
        run = self._latest = Run(source, stages, most)
        return self._items(run)

    def end(self) -> None:
        """Mark the iterator that was made last as ended."""
        self._latest.ended, self._latest.flow = True, None  # type: ignore[union-attr]

    def _items(self, run: Run) -> Iterator[Any]:
        positions = self._begin(run)
        most = ENDLESS if run.most is None else run.most
        while run.repetition < self._repetitions and run.given < most:
            run.flow = self._flow(run, Context(self.seed, run.epoch, run.repetition, run.reader), positions)
            positions = None
            if most == ENDLESS and self._repetitions == 1:
                yield from run.flow  # counted by nobody, as nobody asks
                break
            for item in run.flow:
                run.given += 1
                run.given_now += 1
                yield item
                if run.given >= most:
                    break
            else:
                if run.given_now == 0:  # there is nothing to repeat
                    break
                run.repetition, run.given_now = run.repetition + 1, 0
        run.ended, run.flow = True, None

    def _flow(self, run: Run, context: Context, positions: Position | None) -> Flow:
        stages = self._stages if run.stages is None else run.stages
        try:
            source = (run.source or self._source)(context, None if positions is None else positions[0])
            return build(source, stages, context, None if positions is None else positions[1:])
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            if positions is None or isinstance(error, StateError):
                raise
            raise StateError(
                f"the state's position {positions} is none in this pipeline ({error!r}): it is damaged; load"
                " another one"
            ) from error

    def close(self) -> None:
        """Drop the samples that the iterator that was made last has read ahead, and forget its position."""
        self._latest = None

    # ---------------------------------------------------------------- state

    @signing
    def state_dict(self) -> dict[str, Any]:
        """The position of the iterator that was made last: numbers only, whatever samples are held.

        After the iterator's end it is the start of the next epoch. It belongs to one reader, that is, one
        worker of one rank; a DataLoader keeps those of its workers.
        """
        run = self._latest
        if self._pending is not None and (run is None or not run.begun):
            return copy.deepcopy(self._pending)
        if run is None or not run.begun or run.ended:
            return {"version": VERSION, "epoch": self.epoch}
        return {**run.state(), "pipeline": self._described()}

    def load_state_dict(self, state: dict[str, Any], verify: bool = True) -> None:
        """Make the next iterator go on where `state` was taken.

        Args:
            state: a dict from state_dict().
            verify: False leaves the checksum of `state` unchecked.

        Raises:
            StateError: if the state is of another version, of another pipeline, or damaged (by its checksum,
                unless `verify` is False).
        """
        self._pending = checked_state(state, type(self).__name__, self._described(), verify)
        self._latest = None

    def _described(self) -> list[str]:
        """All facts that a position depends on."""
        return [*self._facts(), *(str(stage) for stage in self._stages if stage.counts)]

    def __getstate__(self) -> dict[str, Any]:
        """The state for worker processes that are not forked: they get the epochs that are set here, this
        rank, and whether ranks divide the data.
        """
        sent = {
            "_latest": None,
            "_notified": None,
            "_world": world(),
            "_undivided": is_divided_by_accelerate(self),
        }
        return {**self.__dict__, **sent, "_enforce_security": utils.enforce_security}

    def __setstate__(self, state: dict[str, Any]) -> None:
        allowed = state.pop("_enforce_security", None)
        # a new process does not have the value that the script set
        if allowed is not None and utils.enforce_security is None:
            utils.enforce_security = allowed
        self.__dict__.update(state)


def seed_of(seed: int | None) -> int:
    """The given seed, else the environment's WDS_SEED, else 0. All ranks must have the same."""
    return int(os.environ.get("WDS_SEED", "0")) if seed is None else seed
