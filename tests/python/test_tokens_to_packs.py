"""From files to rows: documents of token files packed, lines of JSON padded, in the loader's threads."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
import torch
from millrace import DataLoader, Pad
from millrace.datasets import JSONL, JSONLStream, PackedSequences, PackedStream, Tokens
from token_files import write_litdata, write_mds, write_megatron, write_raw

DOCUMENTS = [np.arange(1, n + 1, dtype=np.uint16) + 100 * n for n in (5, 3, 8, 1, 4, 6)]


def documents_of(tokens):
    arrays, offsets = tokens.documents()
    return [flat[a:b].tolist() for flat, ends in zip(arrays, offsets) for a, b in zip(ends, ends[1:])]


def test_every_format_says_its_documents(tmp_path):
    expected = [document.tolist() for document in DOCUMENTS]
    assert documents_of(Tokens(write_megatron(tmp_path / "m", DOCUMENTS), 2)) == expected
    ended = np.concatenate([np.append(document, 0) for document in DOCUMENTS]).astype(np.uint16)
    raw = write_raw(tmp_path / "ended.bin", ended)
    assert documents_of(Tokens(raw, 2, "uint16", document_separator=0)) == [
        [*document, 0] for document in expected
    ]
    begun = np.concatenate([np.append([0], document) for document in DOCUMENTS]).astype(np.uint16)
    raw = write_raw(tmp_path / "begun.bin", begun)
    assert documents_of(Tokens(raw, 2, "uint16", document_separator=0, separator_at="start")) == [
        [0, *d] for d in expected
    ]
    records = np.arange(40, dtype=np.uint16).reshape(8, 5)
    assert documents_of(Tokens(write_mds(tmp_path / "mds", [records], extra=True), 2)) == records.tolist()
    assert (
        documents_of(Tokens(write_litdata(tmp_path / "lit", [DOCUMENTS]), 2, document_separator=65535)) != []
    )
    with pytest.raises(ValueError, match="give document_separator="):
        Tokens(raw, 2, "uint16").documents()


@pytest.mark.parametrize("workers", [0, 2])
def test_token_files_are_packed(tmp_path, workers):
    tokens = Tokens(write_megatron(tmp_path / "m", DOCUMENTS), 2)
    packs = PackedSequences(tokens, 9, document_ids=True)
    loader = DataLoader(pickle.loads(pickle.dumps(packs)), 2, num_workers=workers, native="require")
    rows = torch.cat([batch["input_ids"][batch["document_ids"] >= 0] for batch in loader])
    assert sorted(rows.tolist()) == sorted(np.concatenate(DOCUMENTS).tolist())


@pytest.mark.parametrize("workers", [0, 2])
def test_lines_are_padded_in_threads(tmp_path, workers):
    path = tmp_path / "lines.jsonl"
    path.write_text(
        "".join(
            json.dumps({"ids": document.tolist(), "label": n}) + "\n" for n, document in enumerate(DOCUMENTS)
        )
    )
    dataset = JSONL(str(path), {"ids": ("int64", (None,)), "label": int})
    pad = Pad({"ids": -1}, multiple_of=4, mask="mask")
    loader = DataLoader(dataset, 4, collate_fn=pad, num_workers=workers, native="require")
    batches = list(loader)
    assert [batch["ids"].shape for batch in batches] == [(4, 8), (2, 8)]
    for batch, at in zip(batches, (0, 4)):
        expected = pad([dataset[i] for i in range(at, min(at + 4, 6))])
        assert all(torch.equal(batch[name], expected[name]) for name in ("ids", "label", "mask"))


def test_a_stream_of_lines_is_packed(tmp_path):
    path = tmp_path / "lines.jsonl"
    path.write_text("".join(json.dumps({"ids": document.tolist()}) + "\n" for document in DOCUMENTS))
    stream = JSONLStream(str(path), {"ids": ("int64", (None,))}).map(lambda sample: sample["ids"])
    rows = list(DataLoader(PackedStream(stream, 9, document_ids=True), batch_size=None))
    tokens = torch.cat([row["input_ids"][row["document_ids"] >= 0] for row in rows])
    assert sorted(tokens.tolist()) == sorted(np.concatenate(DOCUMENTS).tolist())
