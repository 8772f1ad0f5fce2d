"""Documents of tokens in rows of one length, and texts as tokens."""

from .layout import PackLayout, cu_seqlens, document_mask, document_mask_mod
from .packed import PackedSequences
from .packed_stream import PackedStream
from .tokenized import Tokenized

__all__ = [
    "PackLayout",
    "PackedSequences",
    "PackedStream",
    "Tokenized",
    "cu_seqlens",
    "document_mask",
    "document_mask_mod",
]
