"""The model behind remote_simulation.py: a trainer, its network and nodes that make batches, event by event.

A task goes through: the courier (sent), the network, its node (one batch at a time, whose rows the CPUs
share), the node's link, the trainer's link, the CPUs that receive ("receiving": the time of all threads, over
the trainer's CPUs), the busiest threads of the trainer's raylet and of Ray in the trainer, the courier
(received). Each of these does one thing after the other. Beside that a local maker works with the CPUs that
receiving leaves, and the loop takes batches in their order. As RemoteCore does it: a node has at
most `credits` tasks, no more than `slots + credits * nodes` batches are out, the oldest task goes first, what
the loop waits for too long is made here, too, and answers that come twice are dropped.
"""

from __future__ import annotations

import heapq
import itertools
import statistics
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

HEDGE_S, HEDGE_TIMES = 0.5, 4.0  # as core.py has them
ARRIVING = ("network", "receiving", "raylet", "ray_thread")  # an answer's way to the courier
STAGES = ("courier", *ARRIVING)  # of the trainer, one thing at a time each


@dataclass(frozen=True)
class Costs:
    """Of batches of one kind, in seconds. node_cpu_s: CPU time of one at a node, local_cpu_s: here. task_s
    and byte_s: of each stage of the trainer, for a task and for each of its bytes; "cpu" is the CPU time of
    all threads that receive. member_s: the courier's, for a task and each member.
    """

    bytes: float
    node_cpu_s: float
    local_cpu_s: float = 0.0
    task_s: dict[str, float] = field(default_factory=dict)
    byte_s: dict[str, float] = field(default_factory=dict)
    member_s: float = 0.0
    samples: int = 1

    def of(self, stage: str) -> float:
        """Seconds of a batch at a stage, on its way there and back."""
        return self.task_s.get(stage, 0.0) + self.byte_s.get(stage, 0.0) * self.bytes


@dataclass(frozen=True)
class World:
    """Networks are in bytes per second, 0: without limit. latency_s: of the network, each way. step_s: of the
    loop, for a batch. slow_share of the nodes take slow_times as long. mtbf_s: mean time of a node to its
    death, 0: none dies; detect_s: until that is known; restart_s: until it helps again.
    """

    nodes: int
    node_cpus: int = 1
    trainer_cpus: float = 1.0
    local_threads: int = 0
    network: float = 0.0
    node_network: float = 0.0
    latency_s: float = 0.0
    credits: int = 2
    slots: int = 3
    step_s: float = 0.0
    slow_share: float = 0.0
    slow_times: float = 1.0
    mtbf_s: float = 0.0
    detect_s: float = 5.0
    restart_s: float = 60.0
    seed: int = 0


class Task:
    __slots__ = ("number", "answered", "sent", "own")

    def __init__(self, number: int) -> None:
        self.number, self.answered, self.own = number, False, False
        self.sent: float | None = None

    def __lt__(self, other: Task) -> bool:
        return self.number < other.number


class Stage:
    """Does one thing after the other."""

    def __init__(self, run: Simulation) -> None:
        self.run, self.free, self.took = run, 0.0, 0.0

    @property
    def busy(self) -> float:
        """Seconds until now. What waits for it begins when it is free, without a pause before."""
        return self.took - max(0.0, self.free - self.run.now)

    def take(self, seconds: float, then: Callable[..., None], *given: Any, later: float = 0.0) -> None:
        """`then` is called `later` after it is done."""
        begin = max(self.run.now, self.free)
        self.free = begin + seconds
        self.took += seconds
        self.run.at(self.free + later, then, *given)


class Node:
    """`life`: how often it has died; what began in another life does not arrive."""

    def __init__(self, run: Simulation, slow: float) -> None:
        self.cpu, self.link, self.slow = Stage(run), Stage(run), slow
        self.flights: set[Task] = set()
        self.life, self.known, self.dead = 0, True, False


class Simulation:
    def __init__(self, costs: Costs, world: World) -> None:
        self.costs, self.world = costs, world
        self.now = 0.0
        self.events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self.ids = itertools.count()
        self.random = np.random.default_rng(world.seed)
        slow = round(world.slow_share * world.nodes)
        self.nodes = [Node(self, world.slow_times if at < slow else 1.0) for at in range(world.nodes)]
        self.random.shuffle(self.nodes)  # type: ignore[arg-type]
        self.stages = {name: Stage(self) for name in STAGES}
        self.out, self.helping = 0, world.nodes  # flights, and nodes that are known to live
        self.receiving = 0.0  # CPU seconds of all that was sent and received so far
        self.tasks: dict[int, Task] = {}
        self.waiting: list[Task] = []
        self.own: deque[Task] = deque()
        self.idle: list[deque[Node]] = [deque() for _ in range(world.credits)]  # by flights
        self.submitted = self.delivered = 0
        self.loop_waits = True
        self.local_busy = False
        self.took: deque[float] = deque(maxlen=64)
        self.counts: Counter[str] = Counter()
        self.order: list[int] = []
        self.local_s = self.starved_s = 0.0
        self.starved_since: float | None = None
        for node in self.nodes:
            self.idle[0].append(node)
            if world.mtbf_s:
                self.at(self.random.exponential(world.mtbf_s), self.die, node)

    def at(self, when: float, then: Callable[..., None], *given: Any) -> None:
        heapq.heappush(self.events, (when, next(self.ids), then, given))

    # ---------------------------------------------------------------- the loop

    def run(self, batches: int, warm: int) -> dict[str, Any]:
        """What `batches` of them take behind the first `warm`."""
        ahead = self.world.slots + self.world.credits * self.world.nodes
        for _ in range(ahead):
            self.submit()
        self.step_until(warm)
        before = self.seen()
        self.step_until(warm + batches)
        after = self.seen()
        assert self.order == list(range(self.delivered)), "a batch is lost, repeated or out of order"
        seen = {name: after[name] - before.get(name, 0.0) for name in after}
        seconds = seen.pop("seconds")
        nodes, links = (seen.pop(name) / seconds / self.world.nodes for name in ("nodes", "links"))
        use = {name: seen.pop(name) / seconds for name in (*STAGES, "cpus")}
        rate = seen.pop("delivered") / seconds
        found = {"batches_per_s": rate, "samples_per_s": rate * self.costs.samples, "use": use}
        return {
            **found,
            "nodes_busy": nodes,
            "links_busy": links,
            "starved": seen.pop("starved") / seconds,
            **seen,
        }

    def seen(self) -> dict[str, float]:
        """All that is counted, until now."""
        receiving = self.receiving + self.local_s
        starved = self.starved_s + (self.now - self.starved_since if self.starved_since is not None else 0)
        return {
            "seconds": self.now,
            "delivered": self.delivered,
            "nodes": sum(node.cpu.busy for node in self.nodes),
            "links": sum(node.link.busy for node in self.nodes),
            "cpus": receiving / self.world.trainer_cpus,
            "starved": starved,
            **{name: stage.busy for name, stage in self.stages.items()},
            **{name: self.counts[name] for name in ("local", "hedged", "again", "duplicates", "died")},
        }

    def step_until(self, delivered: int) -> None:
        while self.delivered < delivered:
            self.now, _, then, given = heapq.heappop(self.events)
            then(*given)

    def submit(self) -> None:
        task = Task(self.submitted)
        self.tasks[task.number] = task
        self.submitted += 1
        heapq.heappush(self.waiting, task)
        self.assign()

    def deliver(self) -> None:
        """The next batch to the loop, if it is there and the loop asks for it."""
        while self.loop_waits:
            task = self.tasks[self.delivered]
            if not task.answered:
                self.look_late(task)
                return
            del self.tasks[task.number]
            self.order.append(task.number)
            self.delivered += 1
            self.submit()
            if self.world.step_s:
                self.loop_waits = False
                self.at(self.now + self.world.step_s, self.stepped)

    def stepped(self) -> None:
        self.loop_waits = True
        self.deliver()

    def look_late(self, task: Task) -> None:
        """What the loop waits for is made here, too, when it is late."""
        if task.sent is None or task.own or not self.world.local_threads:
            return
        usual = statistics.median(self.took) if self.took else 0.0
        late = task.sent + max(HEDGE_S, HEDGE_TIMES * usual)
        if self.now < late:
            self.at(late, self.still_late, task)
            return
        self.counts["hedged"] += 1
        task.own = True
        self.own.append(task)
        self.make_here()

    def still_late(self, task: Task) -> None:
        if self.loop_waits and not task.answered and task.number == self.delivered:
            self.look_late(task)

    # ---------------------------------------------------------------- who makes what

    def assign(self) -> None:
        """Tasks to nodes with credits, those with the fewest flights first; the rest waits."""
        self.make_here()
        while self.waiting:
            node = self.free_node()
            if node is None:
                break
            self.send(heapq.heappop(self.waiting), node)
        starved = not self.waiting and self.out < self.helping * self.world.credits
        if starved and self.starved_since is None:
            self.starved_since = self.now
        elif not starved and self.starved_since is not None:
            self.starved_s += self.now - self.starved_since
            self.starved_since = None

    def free_node(self) -> Node | None:
        for flights, nodes in enumerate(self.idle):
            while nodes:
                node = nodes.popleft()
                if node.known and len(node.flights) == flights:
                    return node
        return None

    def has_credit(self, node: Node) -> None:
        if node.known and len(node.flights) < self.world.credits:
            self.idle[len(node.flights)].append(node)

    def make_here(self) -> None:
        if self.local_busy or not self.world.local_threads or not (self.own or self.waiting):
            return
        task = self.own.popleft() if self.own else heapq.heappop(self.waiting)
        self.local_busy = True
        seconds = self.costs.local_cpu_s / self.world.local_threads
        self.at(self.now + seconds, self.made_here, task, self.now, self.receiving)

    def made_here(self, task: Task, began: float, receiving: float) -> None:
        """Receiving takes CPUs from it, where there are not enough for both."""
        had = self.world.trainer_cpus * (self.now - began) - (self.receiving - receiving)
        missing = self.costs.local_cpu_s - had
        if missing > 1e-9:
            self.at(self.now + missing / self.world.trainer_cpus, self.made_here, task, began, receiving)
            return
        self.local_busy = False
        self.local_s += self.costs.local_cpu_s
        if self.arrive(task):
            self.counts["local"] += 1
        self.assign()

    def send(self, task: Task, node: Node) -> None:
        task.sent = self.now
        node.flights.add(task)
        self.out += 1
        self.has_credit(node)
        self.receiving += self.costs.of("cpu")  # at once: of sending and receiving
        seconds = self.costs.task_s.get("courier", 0.0) / 2 + self.costs.member_s * len(self.nodes)
        self.stages["courier"].take(
            seconds, self.at_node, task, node, node.life, self.now, later=self.world.latency_s
        )

    def at_node(self, task: Task, node: Node, life: int, began: float) -> None:
        if node.life == life and not node.dead:
            seconds = self.costs.node_cpu_s / self.world.node_cpus * node.slow
            node.cpu.take(seconds, self.made_there, task, node, life, began)

    def made_there(self, task: Task, node: Node, life: int, began: float) -> None:
        if node.life == life:
            node.link.take(
                self.over(self.world.node_network), self.at_trainer, task, node, life, began, 0,
                later=self.world.latency_s,
            )  # fmt: skip

    def at_trainer(self, task: Task, node: Node, life: int, began: float, stage: int) -> None:
        if node.life != life:
            return
        if stage < len(ARRIVING):
            name = ARRIVING[stage]
            if name == "network":
                seconds = self.over(self.world.network)
            elif name == "receiving":
                seconds = self.costs.of("cpu") / self.world.trainer_cpus
            else:
                seconds = self.costs.of(name)
            self.stages[name].take(seconds, self.at_trainer, task, node, life, began, stage + 1)
        else:
            seconds = self.costs.of("courier") - self.costs.task_s.get("courier", 0.0) / 2
            self.stages["courier"].take(seconds, self.received, task, node, life, began)

    def received(self, task: Task, node: Node, life: int, began: float) -> None:
        if node.life != life:
            return
        node.flights.discard(task)
        self.out -= 1
        self.has_credit(node)
        self.took.append(self.now - began)
        self.arrive(task)
        self.assign()

    def over(self, network: float) -> float:
        return self.costs.bytes / network if network else 0.0

    def arrive(self, task: Task) -> bool:
        if task.answered:
            self.counts["duplicates"] += 1
            return False
        task.answered = True
        self.deliver()
        return True

    # ---------------------------------------------------------------- nodes that die

    def die(self, node: Node) -> None:
        node.life += 1
        node.dead = True
        self.counts["died"] += 1
        self.at(self.now + self.world.detect_s, self.known_dead, node)

    def known_dead(self, node: Node) -> None:
        """Its tasks go to others."""
        node.known = False
        self.helping -= 1
        self.out -= len(node.flights)
        for task in node.flights:
            if not task.answered and not task.own:
                self.counts["again"] += 1
                task.sent = None
                heapq.heappush(self.waiting, task)
        node.flights.clear()
        self.at(self.now + self.world.restart_s, self.back, node)
        self.assign()

    def back(self, node: Node) -> None:
        node.known, node.dead = True, False
        self.helping += 1
        node.cpu.free = node.link.free = self.now
        self.has_credit(node)
        self.at(self.now + self.random.exponential(self.world.mtbf_s), self.die, node)
        self.assign()


def limit_of(found: dict[str, Any], loop: bool = False) -> str:
    """What a rate ends at: a stage of the trainer, "nodes" or their "links" where these are busy, steps of
    the `loop`, the "order" where batches wait for one before them, or "credits" where nodes wait for tasks
    that are on their way.
    """
    name, most = max(((name, found["use"][name]) for name in STAGES), key=lambda item: item[1])
    if most >= 0.9:
        return name
    if found["nodes_busy"] >= 0.9:
        return "nodes"
    if found["links_busy"] >= 0.9:
        return "links"
    if found["starved"] >= 0.5:
        return "loop" if loop else "order"
    return "credits"
