"""States of several ranks as one that any number of ranks can load."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from ..._common.checksum import KEY, signed
from ..._common.ranks import gathered
from ...errors import StateError
from .saved import SavedState


def gather_state(loader: Any) -> dict[str, Any]:
    """The state of all ranks' loaders as one, the same on each rank: merge_states() of every rank's
    `loader.state_dict()`.

    A collective call where torch.distributed is initialised: all ranks make it, at the same step.
    """
    return merge_states(gathered(loader.state_dict()))


def merge_states(states: Sequence[dict[str, Any]], verify: bool = True) -> dict[str, Any]:
    """One state for any number of ranks, workers and any batch size, from the states of all ranks, in order
    of rank.

    Loaded by each of the new ranks, the rest of the epoch is the same samples in the same global order. For
    map-style datasets whose order is known to all ranks: torch's DistributedSampler, the samplers of
    millrace.samplers, or a single rank. StateError when the states are not of one step of one run, or hold
    what belongs to one worker (the state of a Stateful dataset, an iterable dataset), or when one is damaged;
    `verify=False` takes states that were changed on purpose.
    """
    if isinstance(states, dict):
        raise TypeError(
            "merge_states() takes the states of all ranks in a list; of a single rank: merge_states([state])"
        )
    if not states:
        raise ValueError("merge_states([]): there is no state to merge")
    for rank, state in enumerate(states):
        if isinstance(state, dict) and "millrace" not in state:
            raise StateError(
                f"the state of rank {rank} is not from millrace.DataLoader; only its states can be merged"
            )
    read = [SavedState.read(state, verify) for state in states]
    first = read[0]
    for rank, saved in enumerate(read):
        for what, ours, theirs in (
            ("dataset, sampler or batch size", first.fingerprint, saved.fingerprint),
            ("number of batches", first.yielded, saved.yielded),
            ("end of epoch", first.finished, saved.finished),
            ("place in the order", _place(first), _place(saved)),
        ):
            if ours != theirs:
                raise StateError(
                    f"ranks 0 and {rank} differ in {what}: {ours} and {theirs}; take the states of all ranks"
                    " at the same step of one run"
                )
        if saved.workers or saved.dataset_state is not None or saved.fetcher_state is not None:
            raise StateError(
                f"the state of rank {rank} holds a dataset's own state, which belongs to one rank and worker;"
                " load each rank's state into that rank instead"
            )
        if saved.replay:
            raise StateError(
                f"the state of rank {rank} was not taken at this step; use snapshot_every_n_steps=1"
            )
    return _merged(states, first)


def _merged(states: Sequence[dict[str, Any]], first: SavedState) -> dict[str, Any]:
    merged = copy.deepcopy(states[0])
    order = merged["millrace"]["order"]
    ranks = order.get("ranks", 1)
    if ranks == 1 < len(states):
        sampler = (first.fingerprint or {}).get("sampler", "this sampler")
        raise StateError(
            f"{sampler} has no order that its {len(states)} ranks share, so their states cannot be merged;"
            " use torch's DistributedSampler or one of millrace.samplers, or load each rank's state into"
            " that rank"
        )
    if ranks != len(states):
        raise StateError(
            f"the states are of {ranks} ranks, and {len(states)} were given; give one of each rank, in order"
        )
    merged["millrace"]["elastic"] = True
    merged.pop(KEY, None)
    return signed(merged)


def _place(saved: SavedState) -> Any:
    state = saved.cursor.iterator_state
    state = state.get("sampler", state) if isinstance(state, dict) else {}
    return state.get("position", saved.cursor.samples)
