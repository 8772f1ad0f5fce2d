"""PackedStream: documents that come one by one, packed window by window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch.utils.data import IterableDataset, get_worker_info

from ... import _core
from ..._common.states import Fields, is_stateful, put_back, signing, state_of, verified
from ...errors import StateError
from ...samplers.global_order import checked_number
from ...samplers.readers import SEED_BITS
from .documents import concatenated, integers
from .layout import PackLayout

_VERSION = 1
_ROWS_AT_ONCE = 16


class PackedStream(IterableDataset):
    """Rows as those of `PackedSequences`, of documents that only come one after the other: WebDatasets, JSON
    lines, generators.

    `window` documents are held at a time and packed. Of each window's rows the emptiest is not given out: its
    documents go to the next window, so that none but the last row of all is left half empty.

    state_dict() is the position after the last sample that was given: the source's own state at the window's
    beginning, if it has one, else how many documents of it to pass over; the few tokens that came from the
    window before; how many rows were given. A DataLoader's state has it for each worker.

    Args:
        source: an iterable of documents, or a map-style dataset, gone through in order; a document is a list,
            array or tensor of ints [n], or a dict or tuple that has it in `field`. WebDatasets share their
            shards among ranks and workers. Of a source that is no IterableDataset, n worker processes take
            every n-th document each; ranks should each have their own.
        field: the name or place of the tokens in a document that is a dict or tuple.
        window: documents; with strategy="concat" the memory that is needed grows with it, and nothing else
            depends on it.
        seed: rows of a window come in a random order, as a function of (seed, epoch, window); None: as they
            were begun.
        length, strategy, separator, **layout: as those of `PackedSequences`; samples are the same.

    Raises:
        ValueError: if a document holds something else than integers, lacks the field, or is too long for
            too_long="raise"; with the document's number.
    """

    def __init__(
        self,
        source: Iterable[Any],
        length: int,
        strategy: str = "best_fit",
        separator: int | None = None,
        *,
        field: None | str | int = None,
        window: int = 1024,
        seed: int | None = 0,
        **layout: Any,
    ) -> None:
        super().__init__()
        if isinstance(source, (str, bytes)) or not (
            hasattr(source, "__iter__") or hasattr(source, "__getitem__")
        ):
            raise ValueError(
                f"source is a {type(source).__name__}; give an iterable of documents, each a list or array of"
                " token ids"
            )
        self.layout = PackLayout(length, strategy, separator, **layout)
        self.source, self.field = source, field
        self.window = checked_number("window", window, least=1)
        self.seed = None if seed is None else checked_number("seed", seed, least=-(2**63))
        self._epoch = 0
        self._run: _Run | None = None
        self._pending: dict[str, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        # How a loader tells copies in workers which epoch begins (_loader/states/epochs.py), of a source that
        # counts them.
        if name == "_notify_workers" and hasattr(self.__dict__.get("source"), name):
            return self.source._notify_workers  # type: ignore[attr-defined]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute {name!r}")

    @property
    def epoch(self) -> int:
        """The source's, if it counts epochs; else the one that set_epoch() named."""
        own = getattr(self.source, "epoch", None)
        return own if isinstance(own, int) else self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iterator: its rows come in this epoch's order.

        The source's documents do so, too, if it has epochs.
        """
        self._epoch = checked_number("epoch", epoch)
        if callable(getattr(self.source, "set_epoch", None)):
            self.source.set_epoch(epoch)  # type: ignore[attr-defined]

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        state, self._pending = self._pending, None
        run = self._run = _Run(self, state)
        return iter(run)

    @signing
    def state_dict(self) -> dict[str, Any]:
        if self._pending is not None:
            return dict(self._pending)
        return _start(self, self.epoch) if self._run is None else self._run.state()

    def load_state_dict(self, state: Mapping[str, Any], verify: bool = True) -> None:
        """Let the next iterator go on from `state`.

        Raises:
            StateError: if the state is of something else, or of other arguments, or damaged, as its checksum
                says, unless `verify` is False.
        """
        facts = _facts(self)
        if (
            not isinstance(state, Mapping)
            or state.get("kind") != "PackedStream"
            or state.get("version") != _VERSION
        ):
            raise StateError(
                "this is no state of a PackedStream of this version; give what its state_dict() returned"
            )
        saved = state.get("facts")
        saved = saved if isinstance(saved, Mapping) else {}
        if different := [name for name, value in facts.items() if saved.get(name) != value]:
            raise StateError(
                f"the state is of a PackedStream with another {', '.join(different)}; build it with the same"
                " arguments"
            )
        state = verified(state, "the PackedStream's state", verify)
        fields = Fields(state)
        for key in ("epoch", "taken", "window", "given"):
            fields.number(key)
        fields.entries("carried")
        put_back(self.source, fields.any("source"))
        self._epoch = state["epoch"]
        self._pending, self._run = dict(state), None


def _facts(stream: PackedStream) -> dict[str, Any]:
    return {**vars(stream.layout), "window": stream.window, "seed": stream.seed}


def _start(stream: PackedStream, epoch: int) -> dict[str, Any]:
    return {
        "kind": "PackedStream",
        "version": _VERSION,
        "facts": _facts(stream),
        "epoch": epoch,
        "source": state_of(stream.source),
        "taken": 0,
        "window": 0,
        "carried": [],
        "given": 0,
    }


class _Run:
    """One iterator's way. Its state is that of the source before the window that is being given out, and what
    came from before it.
    """

    def __init__(self, stream: PackedStream, state: dict[str, Any] | None) -> None:
        self._stream = stream
        self._epoch = stream.epoch if state is None else state["epoch"]
        self._items = iter(stream.source)  # first: its state is that of the iterator made last
        self._begun = _start(stream, self._epoch) if state is None else state
        self._ended = False

    def state(self) -> dict[str, Any]:
        """The state; after the last sample, the beginning of the next pass."""
        return _start(self._stream, self._stream.epoch) if self._ended else dict(self._begun)

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        stream, documents = self._stream, self._documents()
        while True:
            begun = self._begun
            window = list(islice(documents, stream.window))
            last = len(window) < stream.window
            rows, carried = _packed(stream, self._epoch, begun, window, last)
            for row in islice(rows, begun["given"], None):
                self._begun = {**begun, "given": self._begun["given"] + 1}
                yield row
            if last:
                self._ended = True
                return
            self._begun = {
                **begun,
                "source": state_of(stream.source),
                "taken": begun["taken"] + len(window),
                "window": begun["window"] + 1,
                "carried": carried,
                "given": 0,
            }

    def _documents(self) -> Iterator[np.ndarray]:
        """From the window on that the state names; numbers in messages count what this reader has read."""
        source, taken, items = self._stream.source, self._begun["taken"], self._items
        if not is_stateful(source):
            if not isinstance(source, IterableDataset) and (worker := get_worker_info()) is not None:
                items = islice(items, worker.id, None, worker.num_workers)
            items = islice(items, taken, None)
        for number, item in enumerate(items, taken):
            yield _document(self._stream, item, number)


def _document(stream: PackedStream, item: Any, number: int) -> np.ndarray:
    name, layout = f"document {number}", stream.layout
    if stream.field is not None:
        try:
            item = item[stream.field]
        except (KeyError, IndexError, TypeError):
            has = (
                f"has {', '.join(map(repr, item))}"
                if isinstance(item, Mapping)
                else f"is a {type(item).__name__}"
            )
            raise ValueError(f"{name} {has}, and no field {stream.field!r}") from None
    elif isinstance(item, (Mapping, str, bytes)):
        raise ValueError(
            f"{name} is a {type(item).__name__}, not token ids; name the field that has them, or tokenize"
            " texts: map()"
        )
    tokens = integers(item, name)
    takes = len(tokens) + (layout.separator is not None and len(tokens) > 0)
    if layout.too_long == "raise" and takes > layout.length:
        raise ValueError(
            f"{name} takes {takes} tokens, more than length={layout.length}; choose too_long='split', 'cut'"
            " or 'skip'"
        )
    return tokens


def _packed(
    stream: PackedStream, epoch: int, begun: Mapping[str, Any], window: list[np.ndarray], last: bool
) -> tuple[Iterator[dict[str, torch.Tensor]], list[list[int]]]:
    """(the rows to give out, what the next window begins with)"""
    layout = stream.layout
    # What was carried is the rest of a document, and its separator may be all that is left of it.
    array = concatenated(
        [*(np.array(rest, dtype=np.int64) for rest in begun["carried"]), *window], "the window's documents"
    )
    counted = layout.counted(np.diff(array.offsets))
    if layout.separator is not None:
        counted[: len(begun["carried"])] = np.diff(array.offsets)[: len(begun["carried"])] + 1
    seed = None if stream.seed is None else (stream.seed * 1_000_003 + begun["window"]) & SEED_BITS
    packing = layout.packing(counted, stream.window + len(begun["carried"]), seed)
    order, builder = _core.PackOrder(packing, epoch), layout.builder([array])
    chosen, carried = np.arange(len(packing), dtype=np.int64), []
    if not last and len(packing):
        pieces = order.pieces(chosen)
        filled = np.bincount(pieces[:, 0], weights=pieces[:, 3], minlength=len(packing))
        emptiest = int(filled.argmin())
        if filled[emptiest] < layout.length:  # then each of its pieces reaches to its document's end
            chosen = np.delete(chosen, emptiest)
            for document, begin in pieces[pieces[:, 0] == emptiest, 1:3].tolist():
                carried.append(
                    array.tokens[array.offsets[document] + begin : array.offsets[document + 1]].tolist()
                )

    def rows() -> Iterator[dict[str, torch.Tensor]]:
        for begin in range(0, len(chosen), _ROWS_AT_ONCE):
            packs = chosen[begin : begin + _ROWS_AT_ONCE]
            batch, _, _ = layout.build(builder, order, packs, layout.empty(len(packs)))
            for row in zip(*batch.values()):
                yield dict(zip(batch, row))

    return rows(), carried
