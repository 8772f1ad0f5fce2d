"""The simulation of remote nodes: it gives what can be said without it, and what a cluster gave."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import remote_simulation
from benchmarks.compare import read_results
from benchmarks.remote_simulation_costs import fitted
from benchmarks.remote_simulation_model import Costs, Simulation, World, limit_of

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


def run(costs, batches=2000, warm=200, **world):
    return Simulation(costs, World(**world)).run(batches, warm)


def rate(*given, **world):
    return run(*given, **world)["batches_per_s"]


def test_one_node():
    found = run(Costs(bytes=1e6, node_cpu_s=0.02), nodes=1)
    assert found["batches_per_s"] == pytest.approx(50) and found["nodes_busy"] == pytest.approx(1)
    assert limit_of(found) == "nodes"
    assert rate(Costs(bytes=1e6, node_cpu_s=0.02), nodes=1, node_cpus=8) == pytest.approx(400)


def test_nodes_and_local_threads_add():
    costs = Costs(bytes=1e6, node_cpu_s=0.02, local_cpu_s=0.01)
    found = run(costs, nodes=5, local_threads=2, trainer_cpus=2, slots=12)
    assert found["batches_per_s"] == pytest.approx(5 * 50 + 200, rel=0.01)
    assert found["local"] == pytest.approx(2000 * 200 / 450, rel=0.02)
    found = run(costs, nodes=5, local_threads=2, trainer_cpus=2)
    assert found["batches_per_s"] < 400, "nodes take 40 ms for two tasks; 3 slots are no room for 8 batches"


def test_the_network_is_full():
    costs = Costs(bytes=1e6, node_cpu_s=0.02)
    found = run(costs, nodes=100, network=1e9, latency_s=0.001)
    assert found["batches_per_s"] == pytest.approx(1000) and limit_of(found) == "network"
    found = run(costs, nodes=10, node_network=20e6)
    assert found["batches_per_s"] == pytest.approx(10 * 20), "each node's own link"
    assert limit_of(found) == "links"


def test_a_thread_of_the_trainer_is_full():
    """Half a millisecond for a task and a nanosecond a byte: 1.5 ms of a batch."""
    stage = {"task_s": {"courier": 0.0005}, "byte_s": {"courier": 1e-9}}
    found = run(Costs(bytes=1e6, node_cpu_s=0.02, **stage), nodes=100)
    assert found["batches_per_s"] == pytest.approx(1 / 0.0015, rel=0.01) and limit_of(found) == "courier"
    found = run(Costs(bytes=1e6, node_cpu_s=0.02, member_s=1e-5), nodes=100)
    assert found["batches_per_s"] == pytest.approx(1000, rel=0.02), "100 members of 10 us each"
    stage = {"task_s": {"raylet": 0.002}}
    assert limit_of(run(Costs(bytes=1e6, node_cpu_s=0.02, **stage), nodes=100)) == "raylet"


def test_the_trainers_cpus_are_full():
    costs = Costs(bytes=1e6, node_cpu_s=0.02, byte_s={"cpu": 4e-9})
    found = run(costs, nodes=100, trainer_cpus=2)
    assert found["batches_per_s"] == pytest.approx(500) and limit_of(found) == "receiving"


def test_what_receives_makes_nothing_meanwhile():
    """A CPU receives 50 batches of 4 ms and makes 10 ms ones in the other 0.8 s of a second."""
    costs = Costs(bytes=1e6, node_cpu_s=0.02, local_cpu_s=0.01, byte_s={"cpu": 4e-9})
    found = run(costs, nodes=1, local_threads=1, trainer_cpus=1)
    assert found["batches_per_s"] == pytest.approx(50 + 80, rel=0.02)
    assert found["use"]["cpus"] == pytest.approx(1, rel=0.02)


def test_credits_by_littles_law():
    """Two tasks are on their way or in work for 0.1 s of latency and 0.01 s of work."""
    costs = Costs(bytes=0, node_cpu_s=0.01)
    for nodes in (1, 7):
        found = run(costs, nodes=nodes, latency_s=0.05)
        assert found["batches_per_s"] == pytest.approx(nodes * 2 / 0.11, rel=0.01)
        assert limit_of(found) == "credits"
    assert rate(costs, nodes=3, latency_s=0.05, credits=4) == pytest.approx(3 * 4 / 0.11, rel=0.01)
    assert rate(costs, nodes=3, latency_s=0.05, credits=20) == pytest.approx(300, rel=0.01), "busy again"


def test_the_loop_takes_its_time():
    found = run(Costs(bytes=0, node_cpu_s=0.01), nodes=10, step_s=0.01)
    assert found["batches_per_s"] == pytest.approx(100) and limit_of(found, loop=True) == "loop"


def test_a_slow_node_holds_up_those_behind_it():
    """Nine nodes of 100 a second, and one that takes a second for each batch: while the loop waits for that,
    the others make what may be out, and no more.
    """
    costs, ahead = Costs(bytes=0, node_cpu_s=0.01), 8 + 2 * 10
    world = {"nodes": 10, "slow_share": 0.1, "slow_times": 100.0}
    held_up = run(costs, **world)
    assert held_up["batches_per_s"] < 2 * ahead and limit_of(held_up) == "order"
    helped = run(Costs(bytes=0, node_cpu_s=0.01, local_cpu_s=0.01), local_threads=1, **world)
    assert helped["hedged"] > 0 and helped["duplicates"] > 0
    assert helped["batches_per_s"] > 1.3 * held_up["batches_per_s"]
    assert rate(costs, slots=2000, **world) == pytest.approx(900, rel=0.15), "there is room for all"


def test_nodes_that_die_lose_nothing():
    costs = Costs(bytes=1e6, node_cpu_s=0.02, local_cpu_s=0.02)
    world = {"nodes": 20, "latency_s": 0.001, "mtbf_s": 20.0, "detect_s": 1.0, "restart_s": 5.0}
    for threads in (0, 1):
        found = run(costs, 5000, local_threads=threads, **world)  # run() compares numbers and order
        assert found["died"] > 3 and found["hedged" if threads else "again"] > 0
        assert 200 < found["batches_per_s"] < 1050


# ---------------------------------------------------------------- what it is fed with


def epochs(sizes=(32, 224), rounds=3, actors=1, per_member=0.0):
    """Records as `measure` stores them, of costs that are known."""
    for size in sizes:
        bytes_of_batch = 64 * (3 * size**2 + 8)
        for repeat in range(rounds):
            remote = 100 + repeat
            yield {
                "kind": "epoch",
                "run": "now",
                "size": size,
                "actors": actors,
                "batch": 64,
                "seconds": 4.0,
                "others_share": 0.0,
                "local": 50,
                "remote": remote,
                "bytes": remote * bytes_of_batch,
                "courier_s": remote * (2e-4 + 1e-10 * bytes_of_batch + per_member * (actors - 1)),
                "ray_s": remote * (3e-4 + 1e-10 * bytes_of_batch),
                "ray_thread_s": remote * 1e-4,
                "raylet_s": remote * (1e-3 + 1e-9 * bytes_of_batch),
                "raylet_thread_s": remote * 3e-10 * bytes_of_batch,
                "making_s": 50 * 0.02,
                "loop_s": 0.01,
                "node_s": remote * 0.025,
            }


def idle():
    """A tenth of a CPU for each part, in which nothing is asked."""
    parts = ("ray_s", "ray_thread_s", "raylet_s", "raylet_thread_s", "node_s")
    return {"kind": "idle", "run": "now", "seconds": 5.0, **dict.fromkeys(parts, 0.5)}


def control():
    yield from (
        {"kind": "ray", "run": "now", "refs": n, "wait_s": 1e-6 * n, "call_s": 1e-3} for n in (2, 2000)
    )


def test_costs_are_lines_through_what_was_measured():
    found = fitted([*epochs(), *epochs((32,), actors=9, per_member=5e-6), *control()], 224)
    assert found.bytes == 64 * (3 * 224**2 + 8) and found.samples == 64
    assert (found.node_cpu_s, found.local_cpu_s) == pytest.approx((0.025, 0.02))
    assert found.task_s["courier"] == pytest.approx(2e-4) and found.byte_s["courier"] == pytest.approx(1e-10)
    assert found.task_s["cpu"] == pytest.approx(1.5e-3) and found.byte_s["cpu"] == pytest.approx(1.2e-9)
    assert found.byte_s["raylet"] == pytest.approx(3e-10) and found.byte_s["ray_thread"] == pytest.approx(0)
    assert found.member_s == pytest.approx(5e-6), "more than twice what ray.wait() takes for a flight"
    assert fitted([*epochs(), *control()], 224).member_s == pytest.approx(2e-6)
    with pytest.raises(ValueError, match="nothing was measured of pictures of 64"):
        fitted(list(epochs()), 64)


def test_what_ray_takes_when_it_rests_is_no_cost_of_batches():
    ray = {"ray_s", "ray_thread_s", "raylet_s", "raylet_thread_s", "node_s"}
    busy = [{**r, **{part: r[part] + 0.1 * r["seconds"] for part in ray}} for r in epochs()]
    found, wanted = fitted([idle(), *busy, *control()], 224), fitted([*epochs(), *control()], 224)
    assert found.node_cpu_s == pytest.approx(wanted.node_cpu_s)
    assert found.task_s == pytest.approx(wanted.task_s, abs=1e-9)


def test_only_the_page_between_its_marks_changes():
    begin, end = remote_simulation.MARKS
    page = f"before\n{begin}\nold\n{end}\nbehind"
    assert remote_simulation.page_with(page, "new") == f"before\n{begin}\nnew\n{end}\nbehind"
    with pytest.raises(ValueError, match="has no lines"):
        remote_simulation.page_with("before", "new")


def test_table_and_plot(tmp_path, capsys):
    costs = fitted([*epochs(), *control()], 224)
    found = list(remote_simulation.records(costs, "some.jsonl", nodes=(1, 10)))
    first = remote_simulation.table(found).splitlines()[2]
    nodes, local = 64 / (0.025 / 8), 64 / (0.02 / 8)
    assert local < found[0]["samples_per_s"] < 1.01 * (nodes + local) and first.startswith("| 1 | ")
    ends = remote_simulation.ends_of(costs)
    assert ends["network"] == pytest.approx(64 * 12.5e9 / costs.bytes) and "raylet" in ends
    pytest.importorskip("matplotlib")
    for name in ("one.svg", "two.svg"):
        remote_simulation.plot(found, tmp_path / name)
    assert (tmp_path / "one.svg").read_text() == (tmp_path / "two.svg").read_text()
    assert "nodes of 8 CPUs" in (tmp_path / "one.svg").read_text()


def test_the_measured_epochs_are_foretold():
    """What is stored was measured on a trainer and a node of one CPU each."""
    if not remote_simulation.COSTS.exists():
        pytest.skip("no costs are stored")
    costs_of = remote_simulation.latest(read_results(remote_simulation.COSTS))
    for size, real, said in remote_simulation.compared(costs_of):
        assert said == pytest.approx(real, rel=remote_simulation.TOLERANCE), size
