"""Documents for tests of packing, and what their packs must be, written down in Python."""

from __future__ import annotations

import keyword
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

IGNORED = -100

layouts = st.fixed_dictionaries(
    {
        "strategy": st.sampled_from(["best_fit", "first_fit", "concat"]),
        "separator": st.sampled_from([None, 0, 77]),
        "targets": st.sampled_from(["shift", "same"]),
        "max_documents_per_pack": st.sampled_from([None, None, 1, 3]),
        "seed": st.sampled_from([None, 0, 5]),
        "window": st.integers(1, 40),
    }
)


def documents(lengths: list[int], dtype: str = "uint16") -> list[np.ndarray]:
    """Token ids that say where they are from: no two tokens of all documents are the same, and none is below
    100.
    """
    ends = np.cumsum([0, *lengths])
    return [np.arange(100 + begin, 100 + end).astype(dtype) for begin, end in zip(ends, ends[1:])]


def pieces_of(row: dict[str, Any]) -> list[slice]:
    """Where documents lie in a row, by its document_ids."""
    ids = np.asarray(row["document_ids"])
    found = [
        slice(int(np.flatnonzero(ids == n)[0]), int(np.flatnonzero(ids == n)[-1]) + 1)
        for n in range(ids.max() + 1)
    ]
    assert [s.start for s in found] == [0, *(s.stop for s in found)][: len(found)], (
        "pieces lie behind one another"
    )
    assert (ids[found[-1].stop if found else 0 :] == -1).all()
    return found


def check_rows(
    rows: list[dict[str, Any]], docs: list[np.ndarray], separator: Any, targets: str, most: Any
) -> None:
    """Every token of every document once, separators behind them, positions from 0, and no label of another
    document.
    """
    follows = {}  # token -> what comes behind it
    for doc in docs:
        tokens = [int(token) for token in doc]
        follows.update(zip(tokens, [*tokens[1:], IGNORED if separator is None else separator]))
    seen: list[int] = []
    separators = 0
    for row in rows:
        ids, labels, positions = (np.asarray(row[name]) for name in ("input_ids", "labels", "position_ids"))
        pieces = pieces_of(row)
        assert most is None or len(pieces) <= most
        for piece in pieces:
            assert positions[piece].tolist() == list(range(piece.stop - piece.start))
            own = ids[piece].tolist()
            if targets == "shift":
                expected = [IGNORED if token < 100 else follows[token] for token in own]
            else:
                expected = [IGNORED, *own[1:]]
            assert labels[piece].tolist() == expected
            assert all(behind == follows[token] for token, behind in zip(own, own[1:]))
            seen += [token for token in own if token >= 100]
            separators += sum(token < 100 for token in own)
        padding = slice(pieces[-1].stop if pieces else 0, None)
        assert (labels[padding] == IGNORED).all() and (ids[padding] == 0).all()
        assert positions[padding].tolist() == list(range(len(positions[padding])))
    assert sorted(seen) == sorted(follows)
    assert separators == (0 if separator is None else sum(len(doc) > 0 for doc in docs))


def stdlib_texts(count: int = 60) -> list[str]:
    """Sources of Python's standard library, a file each."""
    folder = Path(keyword.__file__).parent
    return [
        path.read_text(encoding="utf-8", errors="replace") for path in sorted(folder.glob("*.py"))[:count]
    ]
