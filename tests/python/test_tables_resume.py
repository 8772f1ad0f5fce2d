"""Runs over tables that are cut anywhere and go on, with other ranks, workers and batch sizes."""

from __future__ import annotations

import json

import millrace
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from millrace import DataLoader, samplers

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
feather = pytest.importorskip("pyarrow.feather")

from millrace.datasets import ArrowFile, Parquet, Table  # noqa: E402

ROWS = 61
TABLE = pa.table({"row": list(range(ROWS)), "text": [f"row {i}" for i in range(ROWS)]})


@pytest.fixture(scope="module")
def datasets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    pq.write_table(TABLE.slice(0, 40), folder / "a.parquet", row_group_size=9)
    pq.write_table(TABLE.slice(40), folder / "b.parquet", row_group_size=50)
    feather.write_feather(TABLE, str(folder / "c.arrow"), chunksize=13)
    return {
        "parquet": Parquet([str(folder / "a.parquet"), str(folder / "b.parquet")], cache_bytes=2000),
        "filtered": Parquet(str(folder / "a.parquet"), filters=[("row", "!=", 7)]),
        "arrow": ArrowFile(str(folder / "c.arrow")),
        "table": Table(TABLE),
        "numbers": Table(TABLE.select(["row"])),
    }


ORDERS = {
    "chunks": lambda dataset, **ranks: dataset.shuffled(2, 3, **ranks),
    "permutation": lambda dataset, **ranks: samplers.PermutationSampler(len(dataset), 3, **ranks),
    "in order": lambda dataset, **ranks: samplers.DistributedSampler(dataset, shuffle=False, **ranks),
}


def loaders(dataset, order, ranks, batch_size, workers):
    made = [ORDERS[order](dataset, num_replicas=ranks, rank=rank) for rank in range(ranks)]
    return [
        DataLoader(dataset, batch_size, sampler=sampler, num_workers=workers, native="require")
        for sampler in made
    ]


def rows(batches):
    return [row for batch in batches for row in batch["row"].tolist()]


@pytest.mark.parametrize("kind", ["parquet", "filtered", "arrow", "table", "numbers"])
@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(sorted(ORDERS)),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(0, 20),
    st.sampled_from([0, 2]),
    st.sampled_from([0, 3]),
)
def test_goes_on_under_other_ranks(
    datasets, kind, order, ranks, others, size, other_size, cut, workers, other_workers
):
    dataset = datasets[kind]
    if order == "chunks" and kind == "numbers":
        order = "permutation"
    whole = [rows(loader) for loader in loaders(dataset, order, ranks, size, 0)]
    expected = [row for step in zip(*whole) for row in step]
    first, taken = loaders(dataset, order, ranks, size, workers), []
    cut = min(cut, len(first[0]))
    for loader in first:
        iterator = iter(loader)
        taken.append(rows(next(iterator) for _ in range(cut)))
        loader.cut = loader.state_dict()
    before = [row for step in zip(*taken) for row in step]
    state = json.loads(json.dumps(millrace.merge_states([loader.cut for loader in first])))
    second = loaders(dataset, order, others, other_size, other_workers)
    for loader in second:
        loader.load_state_dict(state)
    rest = [rows(loader) for loader in second]
    after = [row for step in zip(*rest) for row in step]
    assert len({len(part) for part in rest}) == 1
    went = before + after
    length = len(dataset)
    assert went[:length] == expected[:length], "the order is one, whoever reads it"
