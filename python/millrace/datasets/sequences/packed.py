"""PackedSequences: documents of tokens in rows of one length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ... import _core
from ..._common.moment import bare
from ..._common.torch_private import default_collate
from ...samplers.global_order import checked_number
from ...samplers.readers import SEED_BITS
from ..batches import BatchDataset, BatchMaker, MakerOptions
from .documents import token_arrays
from .layout import PackLayout, cu_seqlens


class PackedSequences(BatchDataset):
    """Rows of `length` tokens, each filled with whole documents as far as that goes, for training language
    models without padding.

    Sample i is a dict: input_ids, labels and position_ids, int64 [length], and document_ids, int32 [length],
    as they are wanted. The number of rows (`len()`) is the same in every epoch, so any sampler goes with it,
    and states are the sampler's.

    Documents without tokens are left out. `efficiency` is the share of tokens that are no padding, report()
    says more.

    For flash attention, `collate_fn=dataset.collate` adds cu_seqlens, int32 [sequences + 1], and max_seqlen
    to each batch.

    Args:
        documents: (flat tokens, offsets): one array [n] of integers, mapped from a file or in memory, and
            where documents begin in it, [documents + 1]; or an object with these two as `tokens` and
            `offsets`, or with a method documents() that returns a list of each, as millrace.datasets.Tokens
            has; or an Arrow column of lists of integers; or a list of documents (arrays, tensors, lists of
            ints), copied into one array.
        length: tokens of a row.
        strategy: "best_fit": documents of a window, long ones first, each where it leaves the least room;
            "first_fit": each into the oldest row that has room, as they come; "concat": one after the other,
            cut where a row ends.
        separator: a token that is put after each document, and counts as its last.
        targets: "shift": labels[t] is the token after t in its document, also if that lies in another row.
            "same": labels are input_ids, for models that shift them themselves, as Hugging Face's. None: no
            labels.
        position_ids: 0, 1, 2, ... in each document, or piece of one, and in the padding.
        document_ids: 0, 0, 1, ... by document of the row, -1 in the padding; for document_mask().
        cross_document_loss: False: where a document ends the label is `ignore_index` ("same": where one
            begins). True: labels know no documents.
        pad_id, ignore_index: the values that fill the row's end, in input_ids and in labels.
        max_documents_per_pack: at most so many in a row.
        window: documents that best_fit puts in order together. More: a bit fuller; fewer: more random
            company.
        seed: from one epoch (set_epoch) to the next, documents of equal length change places, and rows their
            order, as a function of (seed, epoch). None: documents in their order, rows as they were begun,
            every epoch the same.
        too_long: of documents longer than a row: "split" into pieces; "cut", the rest left out; "skip";
            "raise" ValueError at once.
        vocab_size: ids that are not below it are a CorruptDataError, when a batch has one. None: no check.

    Raises:
        ValueError: if arguments are none of these, offsets fall or point outside their tokens, or documents
            hold no integers.
        CorruptDataError: in a batch, if an id lies outside the vocabulary, or if a mapped file was cut short.
    """

    def __init__(
        self,
        documents: Any,
        length: int,
        strategy: str = "best_fit",
        separator: int | None = None,
        *,
        targets: str | None = "shift",
        position_ids: bool = True,
        document_ids: bool = False,
        cross_document_loss: bool = False,
        pad_id: int = 0,
        ignore_index: int = -100,
        max_documents_per_pack: int | None = None,
        window: int = 65536,
        seed: int | None = 0,
        too_long: str = "split",
        vocab_size: int | None = None,
    ) -> None:
        self.layout = PackLayout(
            length,
            strategy,
            separator,
            targets,
            position_ids,
            document_ids,
            cross_document_loss,
            pad_id,
            ignore_index,
            max_documents_per_pack,
            too_long,
            vocab_size,
        )
        self.window = checked_number("window", window, least=1)
        self.seed = None if seed is None else checked_number("seed", seed, least=-(2**63))
        self._arrays = token_arrays(documents)
        self._epoch = bare(torch.tensor, [0]).share_memory_()  # copies in worker processes see it, too
        self._plan()

    def _plan(self) -> None:
        layout = self.layout
        self._builder = layout.builder(self._arrays)  # checks the offsets
        layout.check_lengths(self._arrays)
        counted = [layout.counted(np.diff(array.offsets)) for array in self._arrays]
        lengths = counted[0] if len(counted) == 1 else np.concatenate([np.empty(0, dtype=np.int64), *counted])
        self._packing = layout.packing(
            lengths, self.window, None if self.seed is None else self.seed & SEED_BITS
        )
        self._order: tuple[int, _core.PackOrder] | None = None

    def __len__(self) -> int:
        return len(self._packing)

    @property
    def epoch(self) -> int:
        return int(self._epoch)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch: which documents keep company from here on, by (seed, epoch).

        To be called where the sampler's is, also when a run goes on.
        """
        self._epoch[0] = checked_number("epoch", epoch)

    @property
    def efficiency(self) -> float:
        """The share of all rows' tokens that are no padding; 1.0 when there are no rows."""
        total = len(self) * self.layout.length
        return self._packing.report()["tokens"] / total if total else 1.0

    def report(self) -> dict[str, Any]:
        """A summary of the packing.

        Returns:
            packs; documents in them, and pieces of these; tokens, separators included; fill, as `efficiency`;
            of the documents, those that were split, and cut with cut_tokens left out; and those that are in
            no pack: skipped, too long, and empty.
        """
        return {**self._packing.report(), "fill": self.efficiency}

    def packed(self, index: int) -> list[tuple[int, int, int]]:
        """The documents that lie in row `index` of this epoch.

        Returns:
            (document, its first token here, tokens) of each piece, separators counted.
        """
        rows = self.checked_indices([index])
        return [tuple(row[1:]) for row in self._epoch_order().pieces(rows).tolist()]

    def batch_maker(self, options: MakerOptions) -> BatchMaker:
        return _PackMaker(self, options)

    def collate(self, samples: Sequence[dict[str, torch.Tensor]]) -> dict[str, Any]:
        """The batch of these samples, with the arguments of flash attention, for `collate_fn`.

        Needs position_ids.

        Returns:
            The batch, with "cu_seqlens" (int32, where sequences begin in its concatenated rows; padding is a
            sequence) and "max_seqlen" (the longest one's tokens).
        """
        if not self.layout.position_ids:
            raise ValueError(
                "collate finds sequences by their positions: make the dataset with position_ids=True"
            )
        batch = default_collate(list(samples))
        batch["cu_seqlens"], batch["max_seqlen"] = cu_seqlens(batch["position_ids"])
        return batch

    def knows_collate(self, collate_fn: Any) -> bool:
        own = getattr(collate_fn, "__func__", None) is PackedSequences.collate and collate_fn.__self__ is self
        return own and self.layout.position_ids

    def _epoch_order(self) -> _core.PackOrder:
        epoch, order = self.epoch, self._order
        if order is None or order[0] != epoch:
            order = self._order = epoch, _core.PackOrder(self._packing, epoch)
        return order[1]

    def _build(
        self, order: _core.PackOrder, indices: np.ndarray, tensors: list[torch.Tensor]
    ) -> tuple[dict[str, torch.Tensor], np.ndarray, int]:
        built = self.layout.build(self._builder, order, indices, tensors)
        for array in self._arrays:
            array.check_file()
        return built

    def _samples(self, indices: np.ndarray) -> list[Any]:
        batch, _, _ = self._build(self._epoch_order(), indices, self.layout.empty(len(indices)))
        return [dict(zip(batch, row)) for row in zip(*batch.values())]

    def __getstate__(self) -> dict[str, Any]:
        """The state without the parts that are planned anew, so that it costs little to send."""
        return {
            name: value
            for name, value in vars(self).items()
            if name not in ("_builder", "_packing", "_order")
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._plan()

    def __repr__(self) -> str:
        report = self.report()
        return (
            f"PackedSequences({report['packs']} packs of {self.layout.length} tokens, {report['documents']}"
            f" documents, {self.layout.strategy}, {report['fill']:.2%} full)"
        )


class _PackMaker(BatchMaker):
    def __init__(self, dataset: PackedSequences, options: MakerOptions) -> None:
        self._dataset, self._with_begins = dataset, options.collate is not None
        shape = (dataset.layout.length,)
        self._memory = _core.BatchMemory(
            [(shape, dtype) for _, dtype in dataset.layout.fields], options.slots, options.memory
        )

    def expect(self, indices: np.ndarray) -> tuple[np.ndarray, _core.PackOrder]:
        return indices, self._dataset._epoch_order()  # the epoch may be another one when the batch is made

    def make(self, ticket: tuple[np.ndarray, _core.PackOrder]) -> dict[str, Any]:
        indices, order = ticket
        batch, begins, longest = self._dataset._build(order, indices, self._memory.empty(len(indices)))
        return (
            {**batch, "cu_seqlens": torch.from_numpy(begins), "max_seqlen": longest}
            if self._with_begins
            else batch
        )
