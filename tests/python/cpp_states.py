"""What tests of the C++ library's states have in common: the program that prints batches and states, and what
both languages write of them.
"""

from __future__ import annotations

import copy
import json
import subprocess
from pathlib import Path
from typing import Any
from zlib import crc32

from millrace._common.states import unpacked

PROGRAM = Path(__file__).parents[2] / "build/dev/tests/cpp/api/api_states"


def program(*arguments: object, lines: str = "") -> list[Any]:
    run = subprocess.run(
        [PROGRAM, *map(str, arguments)], input=lines, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


def sums(batch: Any) -> list[int]:
    tensors = batch.values() if isinstance(batch, dict) else batch
    return [crc32(tensor.contiguous().numpy().tobytes()) for tensor in tensors]


def without_torchs(state: dict[str, Any]) -> dict[str, Any]:
    """What both write: not the state of torch's global generator, nor how a generator's state was packed."""
    state = copy.deepcopy(state)
    state.pop("checksum")
    state["millrace"]["order"]["generators"].pop("global", None)

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(inner) for key, inner in value.items()}
        if isinstance(value, str) and len(value) > 1000:
            return unpacked(value).numpy().tobytes()
        return value

    return plain(state)  # type: ignore[no-any-return]
