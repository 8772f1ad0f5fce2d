"""Copies of a loader that make single past batches, without a change to its running iterator; and the index
lists of a past epoch, drawn again by a copy of the sampler from a state of that epoch.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import warnings
from collections.abc import Generator, Iterator
from typing import Any

import torch

from .._common.batch_place import Place
from .._common.states import draw_base_seed, generator_states, generators_at, is_stateful, unpacked
from .._history.recorder import EpochLog, Step
from .._loader.states.index_cursor import IndexCursor, known_sampler, own_generators
from .._loader.states.progress import Progress
from .._loader.states.saved import CursorStart, SavedState
from ..datasets.webdataset.split import OWN_PLACE
from ..errors import UnavailableError
from ..samplers.resumable import inner_sampler

_FRESH = {
    "_iterator": None,
    "history": False,
    "persistent_workers": False,
    "timeout": 0,
    "pin_memory": False,
    "equal_steps": None,  # fmt: skip
    "auto_epoch": False,
    "_millrace_run": None,
    "_millrace_progress": None,
    "_millrace_saved": None,
}


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Restore the global generators of torch, numpy and random afterwards; silence warnings, so that none
    comes twice.
    """
    with generators_at(generator_states({}, pythons=True)), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def view(loader: Any, **changes: Any) -> Any:
    """A loader over the same dataset, with other settings. It shares no attribute that an iterator would
    change.
    """
    result = copy.copy(loader)
    result.__dict__.update(_FRESH | changes)
    return result


def view_of_list(loader: Any, rows: Any, workers: int, dataset: Any) -> Any:
    """A view() with a single index list."""
    which = "batch_sampler" if loader._auto_collation else "sampler"
    changes = {
        which: [rows],
        "num_workers": workers,
        "prefetch_factor": 1 if workers else None,
        "generator": None,
        "dataset": dataset,
        "process_group": None,
    }
    if loader.on_error == "skip":  # the list has the indices after filling
        changes["on_error"] = "raise"
    return view(loader, **changes)


def copied_order(loader: Any) -> tuple[Any, dict[str, Any]]:
    """(a copy of the loader's index sampler, attributes of a view that has the copy instead). The copy's
    generators are copies, too.
    """
    sampler = loader._index_sampler
    inner = inner_sampler(sampler)
    memo: dict[int, Any] = {id(loader.dataset): loader.dataset}
    for name in ("data_source", "dataset", "weights", "indices", "lengths"):  # large, and only read
        value = getattr(inner, name, None)
        if value is not None and not callable(value):
            memo[id(value)] = value
    for generator in own_generators(loader).values():
        memo[id(generator)] = torch.Generator(generator.device).set_state(generator.get_state())
    try:
        twin = copy.deepcopy(sampler, memo)
    except Exception as error:
        raise UnavailableError(
            f"the sampler {type(inner).__name__} cannot be copied ({error!r}), and without a copy its draws"
            " cannot be repeated; only the latest steps can be replayed, whose indices are remembered:"
            " BatchHistory(steps=...) says how many"
        ) from error
    which = "batch_sampler" if loader._auto_collation else "sampler"
    generator = loader.generator
    return twin, {which: twin, "generator": memo.get(id(generator)) if generator is not None else None}


def own_dataset(loader: Any) -> Any:
    """A copy of the loader's dataset with a position that may be changed."""
    memo: dict[Any, Any] = {OWN_PLACE: True}
    try:
        return copy.deepcopy(loader.dataset, memo)
    except Exception as error:
        if (
            loader.num_workers > 0
            and not loader._in_threads()
            and not hasattr(loader.dataset, "_notify_workers")
        ):
            return loader.dataset  # each worker process has its own
        raise UnavailableError(
            f"a {type(loader.dataset).__name__} that is run again needs a place of its own, but it cannot be"
            f" deep-copied ({error!r}); give it a __deepcopy__, or use num_workers > 0"
        ) from error


def dataset_of_epoch(dataset: Any, epoch: int | None) -> Any:
    """A map-style dataset that changes by epochs, as it was in that one."""
    if epoch is None or getattr(dataset, "epoch", epoch) == epoch:
        return dataset
    twin = copy.copy(dataset)
    twin.set_epoch(epoch)
    return twin


class PastProgress(Progress):
    """Of a view_of_list(): the seeds are those of the epoch it repeats, and its worker is the one that made
    the batch.
    """

    def __init__(self, loader: Any, log: EpochLog, number: int, step: Step) -> None:
        super().__init__(loader)
        self._log, self._step_number = log, number
        self._worker = step.worker
        self.workers_then = log.workers
        self.draws = step.draws
        self.epoch, self.began_in = log.engine_epoch, log.began_in

    def worker_number(self, number: int) -> int:
        return max(0, self._worker)

    def place_of(self, number: int) -> Place:
        return self._log.number, self._step_number

    def prepare(self, spec: Any) -> None:
        """Nothing: no epoch begins."""

    def workers_begin(self, dataset: Any, resumes: bool) -> None:
        """Do nothing: no epoch begins for the dataset, either."""

    def begun(self, iterator: Any) -> None:
        iterator._base_seed, iterator._shared_seed = self._log.base_seed, self._log.shared_seed
        self._base_seed, self._shared_seed = iterator._base_seed, iterator._shared_seed
        self._iterator_seed, self._dataset = iterator._base_seed, iterator._dataset


def lists_again(loader: Any, state: dict[str, Any], as_arrays: bool, steps: Any = None) -> Generator[Any]:
    """All lists of the epoch that `state` is from, from its first list on. To be used, and closed, inside
    undisturbed().

    `steps`: the Steps that all ranks had agreed on. UnavailableError if the sampler's state leads only
    forwards.
    """
    saved = SavedState.read(state)
    sampler, changes = copied_order(loader)
    twin = view(loader, **changes)
    saved.set_sampler_epoch(twin)
    start = _rewound(saved.cursor, sampler)
    generators = own_generators(twin)
    if not start.drew_when_made:
        yield from IndexCursor(sampler, None, generators, start, False, as_arrays, steps)
        return
    then = {name: unpacked(start.generators.get(name)) for name in (*generators, "global", "python")}
    for name, generator in generators.items():
        if then[name] is not None:
            generator.set_state(then[name])
    # A user's sampler may draw in its __iter__. Without workers, that is before the base seed's draw; with
    # workers, after it.
    with generators_at({name: then.get(name) for name in ("global", "python")}):
        if twin.num_workers > 0:
            draw_base_seed(twin.generator)
            yield from sampler
        else:
            lists = iter(sampler)
            draw_base_seed(twin.generator)
            yield from lists


def list_again(loader: Any, state: dict[str, Any], number: int, plan: Any, steps: Any) -> Any:
    """The list of step `number`, as lists_again() gives it; None if the epoch ends before. The list is marked
    (engines/epoch_keys.py) if the loader's samples depend on how often their index came before.
    """
    repeats = plan.python_spec("inline").repeats
    with contextlib.closing(lists_again(loader, state, plan.spec is not None, steps)) as lists:
        for at, found in enumerate(lists):
            marked = found if repeats is None else repeats.of(found)
            if at == number:
                return marked
    return None


def _rewound(start: CursorStart, sampler: Any) -> CursorStart:
    """The epoch's beginning."""
    if not start.lists and not start.samples:
        return start
    if start.elastic:
        raise UnavailableError(
            "the epoch was begun by other ranks, so the steps before it was resumed cannot be made again; use"
            " a state from before the step"
        )
    known = known_sampler(sampler)
    state: Any | None = start.iterator_state
    if known is not None and isinstance(state, dict):
        inner = state.get("sampler")
        if (inner or state).get("since", 0) > 0:
            raise UnavailableError(
                "the mixture's weights were changed before this state was taken; use a state from before the"
                " step"
            )
        state = {**state, "position": 0}
        if inner is not None:
            state["sampler"] = {**inner, "position": 0}
    elif any(map(is_stateful, (sampler, getattr(sampler, "sampler", None)))) or (
        state,
        start.index_sampler_state,
    ) != (None, None):
        raise UnavailableError(
            f"the state of {type(sampler).__name__} leads only forwards; use a state from before the step"
        )
    return dataclasses.replace(start, lists=0, samples=0, iterator_state=state, pending=[], again=[])
