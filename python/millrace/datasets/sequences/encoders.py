"""Tokenizers of all kinds as one: lists of texts to lists of ids."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..._common.lowering.recognising import is_a
from ..._common.per_process import PerProcess


class Encoder:
    """Ids of texts by a tokenizer, special tokens and truncation as asked for. Any thread; pickles with its
    tokenizer.

    tokenizer: a `tokenizers.Tokenizer`, or one of transformers' that is built on one: a copy of it encodes
        texts in batches, without the GIL, so that its own padding and truncation stay as they are. Else a
        function from a text to ids, or to a mapping with "input_ids"; or an object with such an encode()
        (tiktoken, SentencePiece). These ids are cut after `max_length`.
    """

    def __init__(self, tokenizer: Any, max_length: int | None, special_tokens: bool) -> None:
        if not callable(tokenizer) and not callable(getattr(tokenizer, "encode", None)):
            raise ValueError(
                f"tokenizer is a {type(tokenizer).__name__}; give a tokenizers.Tokenizer, one of"
                " transformers' fast tokenizers, or a function from str to a list of ints"
            )
        self.tokenizer, self.max_length, self.special_tokens = tokenizer, max_length, special_tokens
        self._encode = PerProcess(Encoder._prepared)

    @property
    def backend(self) -> Any:
        """The tokenizers.Tokenizer inside the tokenizer; None for others."""
        candidates = (self.tokenizer, getattr(self.tokenizer, "backend_tokenizer", None))
        return next((each for each in candidates if is_a(each, "tokenizers", "Tokenizer")), None)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text. Errors are the tokenizer's; ValueError for ids that are no integers."""
        return self._encode(self)(texts)

    def _prepared(self) -> Callable[[Sequence[str]], list[list[int]]]:
        backend = self.backend
        if backend is None:
            return self._one_by_one
        # Loaders encode in threads or processes of their own; threads of the tokenizer's besides would get in
        # their way, and it warns, and stops using them, when a process with such threads forks.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        copy = type(backend).from_str(backend.to_str())
        copy.no_padding()
        copy.no_truncation()
        if self.max_length is not None:
            direction = (backend.truncation or {}).get(
                "direction", getattr(self.tokenizer, "truncation_side", "right")
            )
            copy.enable_truncation(self.max_length, direction=direction)
        encode = getattr(copy, "encode_batch_fast", copy.encode_batch)  # without the places in the text
        return lambda texts: [
            encoding.ids for encoding in encode(texts, add_special_tokens=self.special_tokens)
        ]

    def _one_by_one(self, texts: Sequence[str]) -> list[list[int]]:
        encode = self.tokenizer if callable(self.tokenizer) else self.tokenizer.encode
        return [_as_list(encode(text))[: self.max_length] for text in texts]

    def pad_id(self) -> int | None:
        """The id of its padding token, if it says one."""
        own = getattr(self.tokenizer, "pad_token_id", None)
        if own is not None or self.backend is None:
            return own
        padding = self.backend.padding
        if padding is not None:
            return padding["pad_id"]
        return next(
            (
                id
                for token in ("[PAD]", "<pad>", "<|pad|>")
                if (id := self.backend.token_to_id(token)) is not None
            ),
            None,
        )


def _as_list(ids: Any) -> list[int]:
    if isinstance(ids, Mapping):
        ids = ids["input_ids"]
    ids = getattr(ids, "ids", ids)  # a tokenizers.Encoding
    if type(ids) is list and (not ids or type(ids[0]) is int):
        return ids
    array = np.asarray(ids)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
        raise ValueError(
            f"the tokenizer gave {type(ids).__name__} of {array.dtype}; it should give a list of ints"
        )
    return array.tolist()
