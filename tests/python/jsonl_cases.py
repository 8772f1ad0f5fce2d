"""Lines of JSON that tests of JSONL share."""

from __future__ import annotations

ROWS = [
    {
        "text": f"Zeile {i} äöü \N{GRINNING FACE}"[: 8 + i % 12],
        "label": i - 20,
        "score": i / 7,
        "flag": i % 3 == 0,
        "box": [i, 2.5, -i],
        "ids": list(range(i % 5)),
    }
    for i in range(60)
]
