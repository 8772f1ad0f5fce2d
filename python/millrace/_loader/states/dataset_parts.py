"""The states of a dataset and of its iterator, where a fetcher runs them."""

from __future__ import annotations

from typing import Any

from ..._common.stateful import state_of


def dataset_parts(fetcher: Any, streams: bool) -> tuple[Any, Any]:
    """(the dataset's state, its iterator's as torchdata nests it) in the fetcher that runs it."""
    if not streams:
        return state_of(fetcher.dataset), None
    iterator = fetcher.dataset_iter
    return (
        None if iterator is fetcher.dataset else state_of(fetcher.dataset),
        {"dataset_iter_state": state_of(iterator), "fetcher_ended": fetcher.ended},
    )
