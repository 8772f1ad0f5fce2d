"""What attention needs to know of packed documents: masks, and where sequences begin."""

from __future__ import annotations

from collections.abc import Callable

import torch


def document_mask(document_ids: torch.Tensor) -> torch.Tensor:
    """Who may attend to whom: tokens of the same document, each to itself and those before it. Padding is as
    a document.

    document_ids: int [batch, length], or [length], as PackedSequences(document_ids=True) has them. Returns
    bool [batch, 1, length, length], or [length, length], for scaled_dot_product_attention(attn_mask=...):
    batch x heads x queries x keys. length² bytes per row; for long rows take document_mask_mod() or
    cu_seqlens().
    """
    same = document_ids.unsqueeze(-1) == document_ids.unsqueeze(-2)
    mask = same.tril_()
    return mask.unsqueeze(1) if document_ids.dim() == 2 else mask


def document_mask_mod(document_ids: torch.Tensor) -> Callable[..., torch.Tensor]:
    """The same for torch.nn.attention.flex_attention, which never holds the mask:

    >>> mask = create_block_mask(document_mask_mod(ids), batch, None, length, length)

    document_ids: int [batch, length], on the device of the attention.
    """

    def mask_mod(
        batch: torch.Tensor, head: torch.Tensor, query: torch.Tensor, key: torch.Tensor
    ) -> torch.Tensor:
        return (document_ids[batch, query] == document_ids[batch, key]) & (query >= key)

    return mask_mod


def cu_seqlens(position_ids: torch.Tensor) -> tuple[torch.Tensor, int]:
    """Where sequences begin in the rows behind one another, int32 [sequences + 1], and the longest one's
    tokens: what flash attention's interface for sequences of different lengths takes (flash_attn_varlen_func,
    torch.nn.attention.varlen).

    position_ids: int [batch, length] or [length]; a sequence begins where they are 0. Of tensors on a device,
        this waits for it.
    """
    flat = position_ids.reshape(-1)
    begins = torch.nonzero(flat == 0).squeeze(1).to(torch.int32)
    ends = torch.tensor([flat.numel()], dtype=torch.int32, device=flat.device)
    begins = torch.cat([begins, ends])
    longest = int(begins.diff().max()) if len(begins) > 1 else 0
    return begins, longest
