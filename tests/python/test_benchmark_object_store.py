"""benchmarks.object_store in small: the cached sides give the shards' bytes, ask for nothing, and the table
has their shares.
"""

from __future__ import annotations

import pytest

from benchmarks.object_store import measure, table

pytestmark = pytest.mark.slow

pytest.importorskip("obstore", reason="obstore is not installed: pip install obstore")


def test_the_disk_cache_against_local_files() -> None:
    records = list(measure(rounds=1, shards=2, mib=1, cpus=[0], part="cache"))
    epochs = [record for record in records if record["repeat"] == 0]
    kinds = ("local_files", "cached_same", "cached_new", "cached_asked")
    assert {record["loader"] for record in epochs} == {
        kind + ending for kind in kinds for ending in ("", "_samples")
    }
    assert len({record["bytes"] for record in epochs if record["group"] == "bytes"}) == 1
    assert len({record["samples"] for record in epochs if record["group"] == "samples"}) == 1
    shown = table(records)
    assert "cached_same_samples" in shown and "local_files_samples: " in shown and "bulk" not in shown
