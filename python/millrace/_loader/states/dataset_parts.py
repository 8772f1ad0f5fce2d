"""The states of a dataset and of its iterator, where a fetcher in this process runs them."""

from __future__ import annotations

from typing import Any

from ..._common.stateful import put_back, state_of


def dataset_parts(fetcher: Any, streams: bool) -> tuple[Any, Any]:
    """(the dataset's state, its iterator's as torchdata nests it) in the fetcher that runs it."""
    if not streams:
        return state_of(fetcher.dataset), None
    iterator = fetcher.dataset_iter
    return (
        None if iterator is fetcher.dataset else state_of(fetcher.dataset),
        {"dataset_iter_state": state_of(iterator), "fetcher_ended": fetcher.ended},
    )


def put_dataset_back(dataset: Any, saved: Any) -> None:
    """To where `saved`, a SavedState or None, is in the middle of an epoch: after torch's draws, because the
    dataset may hold the state of torch's generator.
    """
    if saved is not None and not saved.finished:
        put_back(dataset, saved.dataset_state)


def put_fetcher_back(fetcher: Any, saved: Any, streams: bool) -> None:
    parts = None if saved is None or not streams else saved.fetcher_state
    if parts is None:
        return
    if not saved.finished:
        put_back(fetcher.dataset_iter, parts["dataset_iter_state"])
        fetcher.ended = parts["fetcher_ended"]
    elif fetcher.dataset_iter is fetcher.dataset:
        put_back(fetcher.dataset, parts["dataset_iter_state"])
        fetcher.dataset_iter = iter(fetcher.dataset)
