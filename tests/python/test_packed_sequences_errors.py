"""PackedSequences: arguments that mean nothing, ids that are not allowed, files that are cut short."""

from __future__ import annotations

import millrace
import numpy as np
import pytest
from millrace import DataLoader
from millrace.datasets import PackedSequences
from packed_cases import DOCS, flat, rows_of
from packing_data import documents


def test_bad_arguments():
    tokens, offsets = flat(DOCS)
    for options, message in [
        ({"strategy": "worst"}, "strategy should be one of 'best_fit'"),
        ({"length": 0}, "length should be an integer of 1 or more"),
        ({"length": 1 << 25}, "length should be at most"),
        ({"targets": "next"}, "targets should be one of"),
        ({"too_long": "drop"}, "too_long should be one of"),
        ({"max_documents_per_pack": 0}, "max_documents_per_pack should be"),
        ({"vocab_size": 0}, "vocab_size should be"),
        ({"separator": 1.5}, "separator should be an integer"),
        ({"window": 0}, "window should be"),
    ]:
        with pytest.raises(ValueError, match=message):
            PackedSequences(DOCS, **{"length": 8, **options})
    for given, message in [
        ("tokens.bin", "read by millrace.datasets.Tokens"),
        ((tokens, offsets[:-1].copy() + 10**9), "outside the"),
        ((tokens, offsets[::-1]), "offsets never fall"),
        ((tokens, []), "there are no offsets"),
        ((tokens.astype("float32"), offsets), "float32 of 1 dimensions; tokens should be integers"),
        ((tokens[:, None], offsets), "of 2 dimensions"),
        ([[1, 2], [0.5]], r"documents\[1\] is float64"),
        ([[1, 2], [[1], [1, 2]]], r"documents\[1\] is a list of sequences"),
        ([["a"], [1]], r"documents\[0\] is <U1"),
        ([np.array([1], "uint64"), np.array([1], "int64")], "documents mix int64 and uint64"),
    ]:
        with pytest.raises(ValueError, match=message):
            PackedSequences(given, 8)
    with pytest.raises(IndexError, match="is out of range for"):
        PackedSequences(DOCS, 8)[10**6]
    assert len(PackedSequences([], 8)) == len(PackedSequences([[], []], 8)) == 0
    assert PackedSequences([[], [3]], 8, separator=7).report()["empty"] == 1


@pytest.mark.parametrize("workers", [0, 2])
def test_ids_outside_the_vocabulary(tmp_path, workers):
    tokens, offsets = flat(DOCS)
    tokens = tokens.astype("int32")
    tokens[offsets[17] + 2] = -5
    tokens.tofile(tmp_path / "some.bin")
    mapped = np.memmap(tmp_path / "some.bin", tokens.dtype, "r")
    loader = DataLoader(PackedSequences((mapped, offsets), 64, vocab_size=70000), 4, num_workers=workers)
    with pytest.raises(
        millrace.CorruptDataError,
        match="some.bin: token 2 of document 17 is -5, and the vocabulary has 0 to 69999",
    ):
        list(loader)
    list(DataLoader(PackedSequences((mapped, offsets), 64), 4))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("left", [0, 4096, 20_000, 79_998])
def test_a_mapped_file_is_cut_short(tmp_path, workers, left):
    """Also within its last page, where the system would give zeros."""
    docs = documents([100] * 400, "uint16")
    tokens, offsets = flat(docs)
    tokens.tofile(tmp_path / "some.bin")
    dataset = PackedSequences((np.memmap(tmp_path / "some.bin", "uint16", "r"), offsets), 128)
    loader = DataLoader(dataset, 4, num_workers=workers)
    assert len(list(loader)) == -(-len(dataset) // 4)
    with open(tmp_path / "some.bin", "r+b") as file:
        file.truncate(left)
    with pytest.raises(millrace.CorruptDataError, match="some.bin: the file"):
        list(loader)
    with pytest.raises(millrace.CorruptDataError, match="some.bin"):
        rows_of(dataset)
