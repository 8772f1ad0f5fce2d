"""A cluster of Ray on this machine: the trainer with its node on one CPU, another node on another one."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch

from benchmarks import probes
from benchmarks.harness import ROOT, choose_cpus

PATIENCE_S = 900.0  # actors import torch first, on machines that may have other work
NODE = "cpu_node"  # a resource of the node without the trainer


class Cluster:
    """`head_cpus`: those that tasks may use beside the trainer. head_raylet, node_raylet: pids; what runs on
    a node is a child of its raylet.
    """

    def __init__(self, head_cpus: int = 0) -> None:
        os.environ.setdefault("RAY_AUTH_MODE", "disabled")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        # Ray gives its workers the least priority; here they share CPUs with what else runs on the machine.
        os.environ.setdefault("RAY_worker_niceness", "0")
        # Workers import functions of benchmarks from there.
        paths = [str(ROOT / "python"), str(ROOT), os.environ.get("PYTHONPATH")]
        os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
        import ray
        from ray.cluster_utils import Cluster as Raylets

        torch.set_num_threads(1)
        self.before = os.sched_getaffinity(0)
        self.cpus = choose_cpus(min(2, len(self.before)))
        os.sched_setaffinity(0, self.cpus[:1])
        options = {"num_cpus": head_cpus, "include_dashboard": False}
        self.raylets = Raylets(initialize_head=True, head_node_args=options)
        os.sched_setaffinity(0, self.cpus[-1:])
        node = self.raylets.add_node(num_cpus=1, resources={NODE: 1})
        os.sched_setaffinity(0, self.cpus[:1])
        self.ray: Any = ray
        ray.init(address=self.raylets.address, log_to_driver=False)
        self.head_raylet, self.node_raylet = (_raylet_of(each) for each in (self.raylets.head_node, node))

    def close(self) -> None:
        self.ray.shutdown()
        self.raylets.shutdown()
        os.sched_setaffinity(0, self.before)


def _raylet_of(node: Any) -> int:
    return node.all_processes["raylet"][0].process.pid


@contextmanager
def cluster(head_cpus: int = 0) -> Iterator[Cluster]:
    made = Cluster(head_cpus)
    try:
        yield made
    finally:
        made.close()


class Spent:
    """CPU seconds of this process and all below it, until stop(). probes.tree_cpu_seconds() forgets the
    workers that Ray ends meanwhile; here they count until they were last seen.
    """

    def __init__(self, interval_s: float = 0.5) -> None:
        self.first = self._look()
        self.last = dict(self.first)
        self._done, self._interval_s = threading.Event(), interval_s
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _look(self) -> dict[int, float]:
        found = {}
        for process in probes.process_tree(os.getpid()):
            with suppress(OSError), open(f"/proc/{process}/stat") as file:
                found[process] = sum(map(int, file.read().rpartition(")")[2].split()[11:13])) / probes.TICK
        return found

    def _watch(self) -> None:
        while not self._done.wait(self._interval_s):
            self.last.update(self._look())

    def stop(self) -> float:
        self._done.set()
        self._thread.join()
        self.last.update(self._look())
        return sum(seconds - self.first.get(process, 0.0) for process, seconds in self.last.items())


def wait_for(loader: Any, actors: int) -> None:
    """Epochs until so many actors help."""
    until = time.monotonic() + PATIENCE_S
    while True:
        for _ in loader:
            pass
        seen = loader.stats()["remote"]
        if seen["workers"] >= actors and seen["nodes"]:
            return
        if time.monotonic() > until:
            raise SystemExit(f"{actors} actors do not answer: {seen}")
