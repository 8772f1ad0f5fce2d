"""PackLayout: what a row of packed documents looks like; and what attention needs to know of it: masks, and
where sequences begin.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ... import _core
from .documents import TokenArray


def document_mask(document_ids: torch.Tensor) -> torch.Tensor:
    """The attention mask: each token may attend to itself and to earlier tokens of the same document.

    Padding is treated as a document. The mask takes length² bytes per row; for long rows take
    document_mask_mod() or cu_seqlens().

    Args:
        document_ids: int [batch, length], or [length], as PackedSequences(document_ids=True) has them.

    Returns:
        bool [batch, 1, length, length], or [length, length], for scaled_dot_product_attention(attn_mask=...):
        batch x heads x queries x keys.
    """
    same = document_ids.unsqueeze(-1) == document_ids.unsqueeze(-2)
    mask = same.tril_()
    return mask.unsqueeze(1) if document_ids.dim() == 2 else mask


def document_mask_mod(document_ids: torch.Tensor) -> Callable[..., torch.Tensor]:
    """The mask of `document_mask()` for torch.nn.attention.flex_attention, which never holds the mask.

    >>> mask = create_block_mask(document_mask_mod(ids), batch, None, length, length)

    Args:
        document_ids: int [batch, length], on the device of the attention.
    """

    def mask_mod(
        batch: torch.Tensor, head: torch.Tensor, query: torch.Tensor, key: torch.Tensor
    ) -> torch.Tensor:
        return (document_ids[batch, query] == document_ids[batch, key]) & (query >= key)

    return mask_mod


def cu_seqlens(position_ids: torch.Tensor) -> tuple[torch.Tensor, int]:
    """The arguments of flash attention's interface for sequences of different lengths.

    The interface is flash_attn_varlen_func, or torch.nn.attention.varlen.

    Args:
        position_ids: int [batch, length] or [length]; a sequence begins where they are 0. Of tensors on a
            device, this waits for it.

    Returns:
        (where sequences begin in the concatenated rows, int32 [sequences + 1]; the longest one's tokens).
    """
    flat = position_ids.reshape(-1)
    begins = torch.nonzero(flat == 0).squeeze(1).to(torch.int32)
    ends = torch.tensor([flat.numel()], dtype=torch.int32, device=flat.device)
    begins = torch.cat([begins, ends])
    longest = int(begins.diff().max()) if len(begins) > 1 else 0
    return begins, longest


STRATEGIES = ("best_fit", "first_fit", "concat")
TOO_LONG = ("split", "cut", "skip", "raise")


@dataclass(frozen=True)
class PackLayout:
    """Checked arguments that PackedSequences and PackedStream share; PackedSequences documents them."""

    length: int
    strategy: str = "best_fit"
    separator: int | None = None
    targets: str | None = "shift"
    position_ids: bool = True
    document_ids: bool = False
    cross_document_loss: bool = False
    pad_id: int = 0
    ignore_index: int = -100
    max_documents_per_pack: int | None = None
    too_long: str = "split"
    vocab_size: int | None = None

    def __post_init__(self) -> None:
        for name, known in (
            ("strategy", STRATEGIES),
            ("too_long", TOO_LONG),
            ("targets", ("shift", "same", None)),
        ):
            if getattr(self, name) not in known:
                raise ValueError(
                    f"{name} should be one of {', '.join(map(repr, known))}, but got"
                    f" {name}={getattr(self, name)!r}"
                )
        for name, least in (
            ("length", 1),
            ("max_documents_per_pack", 1),
            ("vocab_size", 1),
            ("separator", None),
            ("pad_id", None),
        ):
            value = getattr(self, name)
            if value is None and name not in ("length", "pad_id"):
                continue
            if (
                isinstance(value, bool)
                or not hasattr(value, "__index__")
                or (least is not None and operator.index(value) < least)
            ):
                raise ValueError(
                    f"{name} should be an integer{'' if least is None else ' of 1 or more'}, but got"
                    f" {name}={value!r}"
                )
        if self.length > 1 << 24:
            raise ValueError(f"length should be at most {1 << 24} tokens, but got length={self.length}")

    @property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """(name, dtype) of each tensor of a sample."""
        known = (
            ("input_ids", "int64", True),
            ("labels", "int64", self.targets is not None),
            ("position_ids", "int64", self.position_ids),
            ("document_ids", "int32", self.document_ids),
        )
        return tuple((name, dtype) for name, dtype, is_wanted in known if is_wanted)

    def counted(self, lengths: np.ndarray) -> np.ndarray:
        """What documents of these lengths take in packs: int64 [documents]. Empty ones have no separator."""
        return lengths if self.separator is None else lengths + (lengths > 0)

    def check_lengths(self, arrays: Sequence[TokenArray]) -> None:
        """ValueError for the first document that is longer than a pack, if that is what too_long asks for."""
        if self.too_long != "raise":
            return
        before = 0
        for array in arrays:
            counted = self.counted(np.diff(array.offsets))
            if (longer := np.flatnonzero(counted > self.length)).size:
                number = int(longer[0])
                raise ValueError(
                    f"{array.name}: document {before + number} takes {counted[number]} tokens, more than"
                    f" length={self.length}; cut it, or choose too_long='split', 'cut' or 'skip'"
                )
            before += len(counted)

    def packing(self, counted: np.ndarray, window: int, seed: int | None) -> _core.SequencePacking:
        too_long = "split" if self.too_long == "raise" else self.too_long
        most = self.max_documents_per_pack or 0
        return _core.SequencePacking(counted, self.length, self.strategy, window, most, too_long, seed)

    def builder(self, arrays: Sequence[TokenArray]) -> _core.PackBuilder:
        return _core.PackBuilder(
            [(array.tokens, array.offsets, array.name) for array in arrays],
            self.length,
            self.separator,
            self.targets or "shift",
            self.cross_document_loss,
            self.pad_id,
            self.ignore_index,
            self.vocab_size or 0,
        )

    def empty(self, rows: int) -> list[torch.Tensor]:
        """Tensors for the fields of so many rows."""
        return [torch.empty((rows, self.length), dtype=getattr(torch, dtype)) for _, dtype in self.fields]

    def build(
        self,
        builder: _core.PackBuilder,
        order: _core.PackOrder,
        packs: np.ndarray,
        tensors: list[torch.Tensor],
    ) -> tuple[dict[str, torch.Tensor], np.ndarray, int]:
        """(the fields of a batch, written into `tensors`; cu_seqlens; max_seqlen). The GIL is released."""
        batch = {name: tensor for (name, _), tensor in zip(self.fields, tensors)}
        outputs = (batch.get(name) for name in ("labels", "position_ids", "document_ids"))
        begins, longest = builder.build(order, packs, batch["input_ids"], *outputs)
        return batch, begins, longest
