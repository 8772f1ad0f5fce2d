"""Tokens: the dataset."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal, Union

import numpy as np
import torch
from torch.utils.data import Dataset

from ... import _core
from ..._common.indices import checked_index
from ..._common.regular_files import map_regular
from ...samplers.global_order import checked_number
from ..kept import FirstVersions
from ..row_samples import RowSamples
from .formats import open_path
from .stretches import Stretch, checked_dtype
from .windows import Windows, document_starts, token_rows

Path = Union[str, "os.PathLike[str]"]


class Tokens(Dataset):
    """Windows of `length` tokens over files of token ids that are mapped into memory, of any size.

    Sample i is (x, y), int64 of shape (length,) each, where y is x one token further on; with targets=None it
    is x alone. Windows begin every `stride` tokens of a file and never cross from one file into the next;
    tokens at a file's end that are too few for a window are left out. A millrace.DataLoader makes whole
    batches natively: ids are widened straight into the batch's rows. The dataset pickles as its arguments:
    worker processes map the files themselves.

    Args:
        paths: a file or several, in order; formats may differ, dtypes not. Raw numbers (nanoGPT's train.bin),
            .npy, llm.c's .bin, Megatron's .bin and .idx (either one, or their prefix), a folder of MosaicML's
            MDS shards or of LitData's token chunks.
        length: tokens of x, at least 1.
        dtype: of raw files: uint8, int8, uint16, int16, uint32, int32 or int64. Formats that say it need
        none.
        stride: None is `length`: each token is a target once in an epoch. 1: every window that there is.
        targets: "shift" or None.
        document_separator: the id between documents.
        boundaries: "ignore": windows run on from one document into the next. "mask": so they do, but a target
            that is the first token of another document is `ignore_index`, which torch's cross_entropy leaves
            out. "start": a window begins with each document, and every `stride` tokens in longer ones; one
            that reaches past the document's end runs on into the next. ("start", "mask"): both. Documents are
            those of Megatron's index, or lie between separators.
        separator_at: where a document has its separator: "end" (<|endoftext|>: the target after it is
            another document's) or "start" (a BOS token: it is itself the target that is left out).
        max_token: ids below 0 or above it are a CorruptDataError, when a batch has one (or what on_error=
            says, sample by sample). None: no check.
        ignore_index: the value that "mask" writes.
        out_dtype: torch.int64, or torch.int32 for files with ids that fit.

    Attributes:
        paths: the argument, as absolute paths. The other arguments are attributes, too.
        token_count: the number of tokens in the files.
        stored_dtype: the dtype of the ids in the files.
        computed_shuffle_above: a shuffling sampler's order of more windows than this is computed, not stored
            (millrace.samplers.RandomSampler).

    Raises:
        FileNotFoundError, OSError: if a file cannot be opened.
        CorruptDataError: if a file is empty, a size is no whole number of ids, or an index does not fit its
            data. Later, in a batch, if a file was cut short, or an id is not allowed; both with the file's
            name.
        ValueError: if arguments contradict each other or the files, or if all files are too short for one
            window.
    """

    computed_shuffle_above = 2**24

    def __init__(
        self,
        paths: Path | Sequence[Path],
        length: int,
        dtype: Any = None,
        stride: int | None = None,
        targets: Literal["shift"] | None = "shift",
        document_separator: int | None = None,
        boundaries: str | Sequence[str] = "ignore",
        *,
        separator_at: Literal["end", "start"] = "end",
        max_token: int | None = None,
        ignore_index: int = -100,
        out_dtype: torch.dtype = torch.int64,
    ) -> None:
        several = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
        if not several:
            raise ValueError("paths is empty; give at least one file of tokens")
        self.paths = [os.path.abspath(os.fspath(path)) for path in several]
        self.length = checked_number("length", length, 1)
        self.stride = self.length if stride is None else checked_number("stride", stride, 1)
        self.dtype = None if dtype is None else checked_dtype(dtype)
        if targets not in ("shift", None):
            raise ValueError(f'targets={targets!r} is unknown; use "shift" for (x, y), or None for x alone')
        self.targets = targets
        separator = document_separator
        self.document_separator = (
            None if separator is None else checked_number("document_separator", separator, -(2**63))
        )
        self.boundaries = (boundaries,) if isinstance(boundaries, str) else tuple(boundaries)
        if self.boundaries != ("ignore",) and {*self.boundaries} not in (
            {"mask"},
            {"start"},
            {"mask", "start"},
        ):
            raise ValueError(
                f'boundaries={boundaries!r} is unknown; use "ignore", "mask", "start" or ("start", "mask")'
            )
        if "mask" in self.boundaries and targets is None:
            raise ValueError(
                'boundaries="mask" leaves out targets, and targets=None has none; use targets="shift"'
            )
        if separator_at not in ("end", "start"):
            raise ValueError(f'separator_at={separator_at!r} is unknown; use "end" or "start"')
        self.separator_at = separator_at
        self.max_token = None if max_token is None else checked_number("max_token", max_token)
        self.ignore_index = checked_number("ignore_index", ignore_index, -(2**31))
        if out_dtype not in (torch.int64, torch.int32):
            raise ValueError(f"out_dtype={out_dtype} is not torch.int64 or torch.int32")
        self.out_dtype = str(out_dtype)  # torch.dtype does not pickle by every protocol
        self._first = FirstVersions()
        self._open()

    def _open(self) -> None:
        stretches = [stretch for path in self.paths for stretch in open_path(path, self.dtype)]
        for name in {stretch.file.path for stretch in stretches}:
            self._first.check_file(name)
        need = self.length + (self.targets is not None)
        first = stretches[0]
        for stretch in stretches:
            if stretch.tokens.dtype != first.tokens.dtype:
                raise ValueError(
                    f"{stretch.file.path} holds {stretch.tokens.dtype} and {first.file.path}"
                    f" {first.tokens.dtype}; make one Tokens of each and a ConcatDataset of both"
                )
            if self.boundaries != ("ignore",):
                self._check_documents(stretch)
        self.stored_dtype = first.tokens.dtype.name
        out = self.out_dtype.removeprefix("torch.")
        if self.stored_dtype != out and not _core.widens(self.stored_dtype, out):
            raise ValueError(f"{out} does not hold all of {self.stored_dtype}; leave out_dtype out")
        self.token_count = sum(stretch.tokens.size for stretch in stretches)
        self.windows = Windows(
            stretches,
            self.length,
            need,
            self.stride,
            self.boundaries,
            self.document_separator,
            self.separator_at == "end",
        )
        if self.windows.count == 0:
            longest = max(stretch.tokens.shape[1] for stretch in stretches)
            raise ValueError(
                f"no window: length={self.length} needs {need} tokens, and"
                f" {first.file.path}{' and the others' if len(stretches) > 1 else ''} have at most {longest}"
                " in a row; use a smaller length"
            )
        self._samples = RowSamples(token_rows(self))

    def __len__(self) -> int:
        return self.windows.count

    def __getitem__(self, index: int) -> Any:
        return self._samples[[checked_index(index, len(self))]][0]

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Samples of several indices, gathered at once; what torch's DataLoader asks for."""
        length = len(self)
        return self._samples[[checked_index(index, length) for index in indices]]

    def documents(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """The documents themselves, for PackedSequences.

        Separators stay in the document that they end or begin.

        Returns:
            Arrays [n] of ids, mapped (copied for formats of separate records with gaps), and for each of them
            int64 [documents + 1]: the places where its documents begin, and its end.

        Raises:
            ValueError: if nothing says where documents begin.
        """
        arrays: list[np.ndarray] = []
        offsets: list[np.ndarray] = []
        for stretch in (stretch for path in self.paths for stretch in open_path(path, self.dtype)):
            self._check_documents(stretch)
            runs, each = stretch.tokens.shape
            if runs > 1:
                starts = np.arange(0, runs * each, each)
            else:
                starts = document_starts(stretch, self.document_separator, self.separator_at == "end")
            # as memmaps, which worker processes that are started anew map again
            if stretch.tokens.flags.c_contiguous:
                arrays.append(
                    map_regular(stretch.file.path, stretch.tokens.dtype, stretch.offset, (runs * each,))
                )
            else:
                arrays.append(stretch.tokens.reshape(-1))
            offsets.append(np.append(starts[starts < runs * each], runs * each).astype(np.int64))
        return arrays, offsets

    def _check_documents(self, stretch: Stretch) -> None:
        """ValueError where nothing says where documents begin; separate records are documents."""
        if self.document_separator is None and stretch.documents is None and len(stretch.tokens) <= 1:
            raise ValueError(
                f"{stretch.file.path} does not say where documents begin: give document_separator="
            )

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value
            for name, value in self.__dict__.items()
            if name not in ("windows", "_samples", "token_count", "stored_dtype")
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()

    def __repr__(self) -> str:
        return (
            f"Tokens({len(self)} windows of {self.length} over {self.token_count} {self.stored_dtype} ids in"
            f" {len(self.paths)} path(s))"
        )
