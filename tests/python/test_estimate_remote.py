"""Estimate.with_nodes() and `millrace estimate --remote`: their numbers, words and errors."""

from __future__ import annotations

import json
import math
import sys

import millrace
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from millrace.__main__ import main as command_line

pytestmark = pytest.mark.slow

properties = settings(derandomize=True, deadline=None, max_examples=200)
NODES = {"cpus": 4, "node_cpus": 32, "sample_bytes": 150_528}
GIVEN = ["--cpus", 4, "--node-cpus", 32, "--sample-bytes", 150_528]
RUN = ["--step-ms", 180, "--batch-size", 256, "--world-size", 8, "--measured", 1000]
MODULE = """
import torch

pictures = torch.utils.data.TensorDataset(torch.zeros(64, 3, 8, 8, dtype=torch.uint8))
"""


def close(a, b):
    return math.isclose(a, b, rel_tol=1e-9)


def made(step_ms=180, measured=1000, **options):
    return millrace.estimate(step_ms=step_ms, batch_size=256, world_size=8, measured=measured, **options)


def command(capsys, *words):
    status = command_line(["estimate", *map(str, words)])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def test_by_hand():
    """A rank makes 250 samples a second with each of its 4 CPUs and needs 256 / 0.18 s. One received costs it
    1e6 bytes * 2 s per 1e9 bytes = 2 ms, half of the 4 ms of making one: two come for each that is missing.
    """
    nodes = made().with_nodes(
        cpus=4,
        node_cpus=10,
        sample_bytes=1e6,
        ranks_per_machine=4,
        network_gbit=100,
        price_per_hour=2,
        node_price_per_hour=1,
        cpu_s_per_gb=2,
        share=0.8,
    )
    missing = 256 / 0.18 - 1000
    assert close(nodes.wanted, 8 * 2 * missing) and close(nodes.node_rate, 10 * 250 * 0.8)
    assert nodes.nodes == math.ceil(16 * missing / 2000) == 4 and nodes.limit is None
    assert close(nodes.reached, 8 * 256 / 0.18) and close(nodes.bytes_per_second, nodes.wanted * 1e6)
    assert close(nodes.gbit_per_machine, 4 * 2 * missing * 8e6 / 1e9)
    assert close(nodes.cpus_receiving, 2 * missing * 2e-3)
    assert close(nodes.cost_without, 16 / 8000 / 3600 * 1e6)
    assert close(nodes.cost_with, 20 / nodes.reached / 3600 * 1e6)
    with_three = 19 / (8000 + 3 * 2000 / 2) / 3600 * 1e6
    assert nodes.nodes_cheapest == 3 and close(nodes.cost_cheapest, with_three), "the 4th has little to do"
    assert "3 cost less" in str(nodes)


def test_a_network_that_is_too_slow_is_the_limit():
    nodes = made(step_ms=60).with_nodes(**NODES, ranks_per_machine=8, network_gbit=10)
    assert nodes.limit == "network" and close(nodes.gbit_per_machine, 10)
    assert nodes.reached < nodes.needed and nodes.cost_with is None
    assert "the network of a machine with GPUs is full at 10 Gbit/s" in str(nodes)
    assert "10 Gbit/s of 10 into each machine" in str(nodes) and "of what the run needs" in str(nodes)


def test_a_rank_that_cannot_receive_more():
    """Samples that are cheap to make and large: 0.9 s of CPU time receive what 1 s makes."""
    options = {"cpus": 1, "node_cpus": 8, "cpu_s_per_gb": 0.9, "sample_bytes": 1e6}
    nodes = made(step_ms=100).with_nodes(**options)
    assert nodes.limit == "CPUs" and close(nodes.cpus_receiving, 1)
    assert close(nodes.reached, 8 * (1000 + 0.1 * 1000 / 0.9))
    assert "receiving takes all 1 CPUs of a rank" in str(nodes)
    nodes = made(step_ms=100).with_nodes(**{**options, "cpu_s_per_gb": 1.1})
    assert (nodes.limit, nodes.nodes) == ("gain", 0) and nodes.reached == nodes.measured
    assert "none helps" in str(nodes) and "uint8" in str(nodes)


def test_none_is_needed():
    nodes = made(measured=2000, samples=1e6, price_per_hour=1).with_nodes(**NODES, node_price_per_hour=1)
    assert (nodes.nodes, nodes.nodes_cheapest, nodes.limit) == (0, 0, None) and "none is needed" in str(nodes)
    assert nodes.cost_with == nodes.cost_without


def test_nodes_that_cost_more_than_they_bring():
    nodes = made().with_nodes(**NODES, price_per_hour=1, node_price_per_hour=100)
    assert nodes.nodes_cheapest == 0 and "do not pay for themselves" in str(nodes)
    nodes = made().with_nodes(**NODES, price_per_hour=2.5, node_price_per_hour=1.3)
    assert nodes.nodes_cheapest == nodes.nodes and "so they pay for themselves" in str(nodes)


rate, price, few = st.floats(1, 1e6), st.floats(0.01, 1e3), st.integers(1, 64)


@properties
@given(st.floats(1, 1e4), rate, few, few, st.floats(1, 1e8), price, price, st.floats(0.1, 1e3))
def test_numbers_belong_together(step_ms, measured, cpus, node_cpus, size, gpu, node, gbit):
    nodes = made(step_ms, measured).with_nodes(
        cpus=cpus,
        node_cpus=node_cpus,
        sample_bytes=size,
        network_gbit=gbit,
        price_per_hour=gpu,
        node_price_per_hour=node,
    )
    assert nodes.reached <= nodes.needed * (1 + 1e-9) and nodes.gbit_per_machine <= gbit * (1 + 1e-9)
    assert nodes.cpus_receiving <= cpus * (1 + 1e-9) and 0 <= nodes.nodes_cheapest <= nodes.nodes
    assert nodes.cost_cheapest <= min(nodes.cost_with, nodes.cost_without)
    if nodes.measured < nodes.needed:
        assert (nodes.limit is None) <= close(nodes.reached, nodes.needed)
        assert nodes.reached >= nodes.measured * (1 - 1e-9)
    json.dumps(nodes.to_dict(), allow_nan=False)
    assert str(nodes)


WRONG = [
    ({"cpus": 0}, "cpus=0 should be more than 0"),
    ({"node_cpus": 1.5}, "node_cpus=1.5 should be a whole number"),
    ({"sample_bytes": 0.15}, "less than a byte; is it in megabytes?"),
    ({"ranks_per_machine": 9}, "ranks_per_machine=9 is more than world_size=8"),
    ({"network_gbit": -1}, "network_gbit=-1 should be more than 0"),
    ({"network_gbit": math.nan}, "network_gbit=nan should be a finite number"),
    ({"node_price_per_hour": 1}, "is compared with price_per_hour="),
    ({"node_price_per_hour": -1, "price_per_hour": 1}, "node_price_per_hour=-1 should be 0 or more"),
    ({"price_per_hour": "2 USD"}, "should be a finite number"),
    ({"cpu_s_per_gb": 0}, "cpu_s_per_gb=0 should be more than 0"),
    ({"share": 0}, "share=0 should be more than 0"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG, ids=[str(wrong) for wrong, _ in WRONG])
def test_refused(wrong, message):
    with pytest.raises(ValueError) as caught:
        made().with_nodes(**{**NODES, **wrong})
    assert message in str(caught.value)


def test_it_needs_a_measured_rate():
    with pytest.raises(ValueError, match="depends on what the loader gives: say measured="):
        millrace.estimate(step_ms=180, batch_size=256).with_nodes(**NODES)


def test_the_command(capsys):
    prices = ["--price-per-hour", 2.5, "--node-price-per-hour", 1.3]
    network = ["--ranks-per-node", 8, "--network-gbit", 25]
    status, text, error = command(capsys, *RUN, "--remote", *GIVEN, *network, *prices)
    assert (status, error) == (0, "")
    assert "1 of 32 CPUs (5,760 samples/s each) brings the loaders to 11,378 samples/s" in text
    assert "4.15 Gbit/s of 25" in text and "cost      of 1M samples: 0.6944 without nodes, 0.52 USD" in text
    status, text, _ = command(capsys, *RUN, "--samples", 1e6, "--remote", *GIVEN, *prices, "--json")
    found = json.loads(text)
    assert status == 0 and found["remote"]["nodes"] == 1 and found["cost_lost"] > 0
    assert "remote" not in json.loads(command(capsys, *RUN, "--json")[1])


def test_bytes_and_cpus_of_what_is_measured_here(tmp_path, monkeypatch, capsys):
    (tmp_path / "estimated_remote.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    words = ["--step-ms", 0.6, "--batch-size", 8, "--dataset", "estimated_remote:pictures", "--seconds", 0.3]
    status, text, error = command(capsys, *words, "--remote", "--node-cpus", 2, "--json")
    sys.modules.pop("estimated_remote", None)
    found = json.loads(text)
    assert status == 0 and found["remote"]["cpus"] >= 1, error
    sent, wanted = found["remote"]["bytes_per_second"], found["remote"]["wanted"]
    assert close(sent, wanted * 192), "3 x 8 x 8 bytes"


REFUSED = [
    (["--remote"], "--remote needs what the loader gives"),
    (["--measured", "5", "--remote"], "--remote needs --node-cpus"),
    (["--measured", "5", "--remote", "--node-cpus", "8"], "--remote needs --cpus"),
    (["--measured", "5", "--remote", "--node-cpus", "8", "--cpus", "2"], "--remote needs --sample-bytes"),
    (["--measured", "5", "--node-cpus", "8", "--share", "1"], "--node-cpus and --share: of nodes with CPUs"),
    (["--dataset", "no:such", "--remote", "--node-cpus", "-8"], "node_cpus=-8.0 should be more than 0"),
    (["--dataset", "no:such", "--remote", "--node-cpus", "8", "--cpus", "0"], "cpus=0.0 should be more"),
]


@pytest.mark.parametrize(("words", "message"), REFUSED, ids=[" ".join(words) for words, _ in REFUSED])
def test_wrong_arguments(capsys, words, message):
    status, text, error = command(capsys, "--step-ms", 100, "--batch-size", 8, *words)
    assert status == 2 and text == "" and message in error
