"""Photos in a file of a loader's own format, written once and kept beside the peers' environments."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable


def packed(samples: list[tuple[str, int]], ending: str, write: Callable[[str], None]) -> str:
    """The file with these samples' photos, which `write(path)` writes at first use. `ending`: of its name."""
    digest = hashlib.sha256(repr([(p, os.path.getsize(p)) for p, _ in samples]).encode()).hexdigest()[:16]
    folder = os.path.join(os.path.dirname(__file__), "..", "envs", f"{ending}s")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"{digest}.{ending}")
    if not os.path.exists(path):
        write(path + ".part")
        os.rename(path + ".part", path)
    return path
