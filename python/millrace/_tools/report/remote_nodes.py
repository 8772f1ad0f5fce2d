"""What other machines made of a loader's batches, for its report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .scales import amount
from .summary import Summary


def node_rows(summary: Summary) -> list[tuple[str, float, float, str]]:
    """Of each node: its name, the seconds that its actors were at work, its share of the samples, and the
    rest in words.
    """
    rows = []
    for name, node in summary.remote["nodes"].items():
        way, received = amount(node["way_seconds"] / node["batches"], "s"), amount(node["bytes"], "B")
        words = f"{node['samples']:,} samples; {received}, {way} a batch on the way"
        rows.append((name, node["make_seconds"], node["samples"] / max(1, summary.samples), words))
    return rows


def remote_line(remote: Mapping[str, Any]) -> str:
    counted = (
        "{local:,} batches made here, {again:,} given to another worker, {hedged:,} made here as well,"
        " {duplicates:,} dropped, {checked:,} compared"
    ).format(**remote)
    expelled = "".join(f"; worker {name} expelled: {why}" for name, why in remote["expelled"].items())
    return f"remote workers: {remote['working']} of {remote['workers']} at work; {counted}{expelled}"
