"""Tokenized: texts of another dataset as token ids."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch.utils.data import Subset

from ... import _core
from ..._common.lowering.recognising import loaded
from ..._common.per_process import PerProcess
from ..._profiling.stages import FETCH, TRANSFORM, during
from ...collate import Pad
from ...samplers.global_order import checked_number
from ..batches import BatchDataset, BatchMaker, MakerOptions
from .encoders import Encoder

_TEXTS_AT_ONCE = 512


class Tokenized(BatchDataset):
    """A dataset's texts as token ids, made when they are asked for: whole batches of them by millrace's
    DataLoader, in its threads.

    Sample i is a dict with "input_ids", int64 [tokens], in place of the text, and the other fields as they
    are. Of a tuple, it is a tuple with the ids in the text's place.

    A tokenizers.Tokenizer, transformers' included, encodes without the GIL. Unless the environment variable
    TOKENIZERS_PARALLELISM is set, it is set to "false": loaders have threads or processes of their own.

    Args:
        dataset: map-style. Its samples are str, or dicts or tuples with a text in `field`.
        tokenizer: a tokenizers.Tokenizer; one of transformers' fast tokenizers; or any function from str to a
            list of ints.
        field: where the text is, by name or by place in the tuple. Samples that are str have none.
        max_length: the most tokens of a sample, special ones included.
        truncation: whether longer texts are cut; False: ValueError.
        padding: None: samples have the lengths they have, and the loader's collate_fn pads (`pad()` is one).
            "max_length": all samples have that length, and "attention_mask", int64, 1 where there are tokens.
        pad_id: the id in the padding; None: the tokenizer's.
        special_tokens: whether the tokenizer puts its special tokens around a text, where it has any.
        keep_text: whether the text stays in dicts, under its name.

    Raises:
        ValueError: if a field holds no text, with the sample's index; or if a text is longer than
            `max_length` and `truncation` is False.
    """

    def __init__(
        self,
        dataset: Any,
        tokenizer: Any,
        field: str | int = "text",
        max_length: int | None = None,
        truncation: bool = True,
        *,
        padding: str | None = None,
        pad_id: int | None = None,
        special_tokens: bool = True,
        keep_text: bool = False,
    ) -> None:
        if isinstance(dataset, str) or not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
            raise ValueError(
                f"dataset is a {type(dataset).__name__}; give a map-style dataset or a list of texts. A"
                " stream is tokenized by its map(): stream.map(lambda sample:"
                " tokenizer.encode(sample['txt']).ids)"
            )
        if padding not in (None, "max_length"):
            raise ValueError(
                f"padding={padding!r} is unknown; use None or 'max_length'. To the longest of a batch:"
                " collate_fn=dataset.pad()"
            )
        self.dataset, self.field = dataset, field
        self.max_length = None if max_length is None else checked_number("max_length", max_length, least=1)
        if padding is not None and self.max_length is None:
            raise ValueError("padding='max_length' needs max_length")
        self.truncation, self.padding, self.keep_text = truncation, padding, keep_text
        self._encoder = Encoder(tokenizer, self.max_length if truncation else None, special_tokens)
        self._pad_id = None if pad_id is None else checked_number("pad_id", pad_id, least=-(2**63))
        if padding is not None:
            self.pad_id  # noqa: B018  (says at once when there is none)
        self._lengths: np.ndarray | None = None
        self._reading = PerProcess(threading.Lock)

    def __len__(self) -> int:
        return len(self.dataset)

    @property
    def tokenizer(self) -> Any:
        return self._encoder.tokenizer

    @property
    def pad_id(self) -> int:
        """The id in the padding.

        Raises:
            ValueError: if neither it nor the tokenizer says.
        """
        found = self._encoder.pad_id() if self._pad_id is None else self._pad_id
        if found is None:
            raise ValueError("the tokenizer has no padding token: give pad_id=")
        return found

    def pad(self, multiple_of: int | None = None, values: Mapping[str, int] | None = None) -> Pad:
        """A collate function for dict samples: input_ids filled up to the longest of the batch, and
        "attention_mask".

        Args:
            multiple_of: the length is rounded up to the next multiple, as in `Pad`.
            values: the fill values of other fields of different lengths.
        """
        filling: dict[str | int, int | float] = {"input_ids": self.pad_id}
        filling.update(values or {})
        return Pad(
            filling,
            multiple_of=multiple_of,
            mask={"attention_mask": "input_ids"},
        )

    def lengths(self) -> np.ndarray:
        """The number of tokens of each sample, truncated but not padded, for LengthGroupedSampler.

        All are tokenized once, in threads.

        Returns:
            int64 [samples].
        """
        if self._lengths is None:
            parts = [
                range(i, min(i + _TEXTS_AT_ONCE, len(self))) for i in range(0, len(self), _TEXTS_AT_ONCE)
            ]

            def counts(part: range) -> list[int]:
                return list(map(len, self._ids(self._read(np.arange(part.start, part.stop)), part)))

            with ThreadPoolExecutor(_core.cpu_budget()["threads"]) as pool:
                self._lengths = np.array(
                    [n for part in pool.map(counts, parts) for n in part], dtype=np.int64
                )
        return self._lengths

    def refusal(self) -> str | None:
        """The reason why samples of `dataset` may not be asked for in threads; None: they may."""
        dataset = self.dataset
        while type(dataset) is Subset:
            dataset = dataset.dataset
        if type(dataset) in (list, tuple, loaded("datasets.arrow_dataset", "Dataset")) or isinstance(
            dataset, BatchDataset
        ):
            return None
        return (
            f"{type(dataset).__name__} is Python code, which runs in worker processes; of lists, of"
            " millrace's datasets and of Hugging Face's Dataset, texts are tokenized in threads"
        )

    def batch_maker(self, options: MakerOptions) -> BatchMaker:
        return _TextMaker(self, options)

    def _read(self, indices: np.ndarray) -> list[Any]:
        """The dataset's samples; one thread at a time asks."""
        wanted = indices.tolist()
        with self._reading():
            many = getattr(self.dataset, "__getitems__", None)
            return many(wanted) if callable(many) else [self.dataset[i] for i in wanted]

    def _text(self, sample: Any, index: int) -> str:
        try:
            text = sample if isinstance(sample, str) else sample[self.field]
        except (KeyError, IndexError, TypeError):
            has = (
                f"has {', '.join(map(repr, sample))}"
                if isinstance(sample, Mapping)
                else f"is a {type(sample).__name__}"
            )
            raise ValueError(
                f"sample {index} {has}, and no field {self.field!r}; name the text's field: field="
            ) from None
        if not isinstance(text, str):
            raise ValueError(
                f"sample {index}: field {self.field!r} is {type(text).__name__}, not text (str); leave it"
                " out, or convert it"
            )
        return text

    def _ids(self, samples: Sequence[Any], indices: Any) -> list[list[int]]:
        ids = self._encoder.encode(
            [self._text(sample, int(index)) for sample, index in zip(samples, indices)]
        )
        if self.max_length is not None and not self.truncation:
            for index, each in zip(indices, ids):
                if len(each) > self.max_length:
                    raise ValueError(
                        f"sample {index} has {len(each)} tokens, more than max_length={self.max_length};"
                        " allow truncation, or leave it out"
                    )
        return ids

    def _with_ids(self, sample: Any, ids: Any) -> Any:
        if isinstance(sample, str):
            return {"input_ids": ids}
        if not isinstance(sample, Mapping):
            place = self.field % len(sample)  # type: ignore[operator]
            return tuple(ids if i == place else value for i, value in enumerate(sample))
        return {
            **{name: value for name, value in sample.items() if name != self.field or self.keep_text},
            "input_ids": ids,
        }

    def _full(self) -> Pad:
        """Of padding="max_length"."""
        if isinstance(self.field, int):
            return Pad({self.field: self.pad_id}, to=self.max_length)
        return Pad({"input_ids": self.pad_id}, to=self.max_length, mask={"attention_mask": "input_ids"})

    def _samples(self, indices: np.ndarray) -> list[Any]:
        samples = self._read(indices)
        made = []
        for sample, ids in zip(samples, self._ids(samples, indices)):
            tensor = torch.tensor(ids, dtype=torch.int64)
            if self.padding is None:
                made.append(self._with_ids(sample, tensor))
                continue
            assert self.max_length is not None  # __init__ asks for it
            full = torch.full((self.max_length,), self.pad_id, dtype=torch.int64)
            full[: len(tensor)] = tensor
            made.append(self._with_ids(sample, full))
            if isinstance(made[-1], dict):
                made[-1]["attention_mask"] = (torch.arange(self.max_length) < len(tensor)).to(torch.int64)
        return made


class _TextMaker(BatchMaker):
    def __init__(self, dataset: Tokenized, options: MakerOptions) -> None:
        self._dataset, self._collate = dataset, options.collate
        self._lock = threading.Lock()
        self._seconds = {"read": 0.0, "transform": 0.0, "collate": 0.0}

    def make(self, ticket: np.ndarray) -> Any:
        dataset, times = self._dataset, [time.perf_counter()]
        with during(FETCH):
            samples = dataset._read(ticket)
        times.append(time.perf_counter())
        with during(TRANSFORM):
            ids = dataset._ids(samples, ticket)
        times.append(time.perf_counter())
        pad = self._collate
        if pad is None:
            pad = dataset._full() if dataset.padding is not None else self._of_one_length(ids)
        elif dataset.padding is not None:
            return pad(dataset._samples(ticket))
        batch = pad(list(map(dataset._with_ids, samples, ids)))
        times.append(time.perf_counter())
        with self._lock:
            for name, begin, end in zip(self._seconds, times, times[1:]):
                self._seconds[name] += end - begin
        return batch

    def _of_one_length(self, ids: list[list[int]]) -> Pad:
        longest, shortest = max(map(len, ids)), min(map(len, ids))
        if longest != shortest:
            raise ValueError(
                f"samples of a batch have {shortest} to {longest} tokens and cannot be stacked: give the"
                " loader collate_fn=dataset.pad(), which pads to the longest, or the dataset"
                " padding='max_length'"
            )
        return Pad({"input_ids" if isinstance(self._dataset.field, str) else self._dataset.field: 0})

    def seconds(self) -> dict[str, float]:
        with self._lock:
            return dict(self._seconds)
