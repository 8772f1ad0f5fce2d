"""Pool: the actors of one loader, or of the loaders of all ranks, on Ray.

The loader's iterators share it, one after the other. Actors of a loader alone end with it, with this process
(Ray ends the actors that a driver leaves), or when Ray is shut down. Those that ranks share have a name,
belong to none of them, and end by themselves when no rank has been heard of for a while.
"""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import time
import weakref
from typing import Any

from ..._common.ranks import world
from ...errors import UnavailableError
from .actor import BatchMaker, recipe_of
from .courier import Gone, Lost
from .maker import digest
from .member import Member
from .ray_calls import RayCalls

_MOST_CPUS = 8  # of one actor: more of them than that share a batch's rows less well
_NAMESPACE = "millrace"
IDLE_S = 60.0  # shared actors end after so long without a word
_STAY_S = 10.0
_METRICS_S = 2.0
_FEW = 8  # answers that are not asked for together: one more call costs more than it saves
_pools: weakref.WeakKeyDictionary[Any, Pool] = weakref.WeakKeyDictionary()


def pool_of(loader: Any, of_class: type, kind: str) -> Pool:
    """The loader's, made by its first iterator; UnavailableError where there can be none. `of_class`: of the
    actors' loaders. kind: what makes batches, as spec.py has it.
    """
    pool = _pools.get(loader)
    if pool is not None and pool.pid != os.getpid():
        raise UnavailableError(
            "Ray does not follow a fork: make the loader in the process that iterates over it"
        )
    if pool is None or not pool.is_of_todays_ray() or pool.kind != kind:
        pool = _pools[loader] = Pool(loader, of_class, kind)
        # an iterator may outlive its loader
        weakref.finalize(pool, Pool.end, pool.own, pool.calls, pool.ray, pool.pid).atexit = False
    else:
        pool.takes(_pickled(loader, of_class, kind))
    return pool


def _imported() -> Any:
    try:
        import ray
    except ImportError as error:
        raise UnavailableError(
            'remote="ray" needs Ray, which cannot be imported here '
            f"({error}); install it: pip install 'ray>=2.40'"
        ) from None
    return ray


def _started(ray: Any) -> None:
    """The script's Ray, the cluster that runs here, or one of this machine alone."""
    if ray.is_initialized():
        return
    try:
        ray.init(address="auto", log_to_driver=False)
    except ConnectionError:
        if "RAY_ADDRESS" in os.environ:
            raise
        ray.init(include_dashboard=False, log_to_driver=False)


class Pool:
    """as_needed: members help while the loop waits; else always. own: actors that end with the loader."""

    patience_s = 30.0  # a node that starts imports torch first

    def __init__(self, loader: Any, of_class: type, kind: str) -> None:
        self.ray, self.pid = _imported(), os.getpid()
        recipe = _pickled(loader, of_class, kind)
        _started(self.ray)
        self.calls = RayCalls(self.ray)
        self.as_needed = loader.remote_workers == "auto"
        self._job = self.ray.get_runtime_context().get_job_id()
        self._key, self._recipe = digest(recipe), self.ray.put(recipe)
        self.kind, self._class = kind, actor_class(self.ray)
        given = loader.remote_workers if isinstance(loader.remote_workers, dict) else {}
        self.name = given.get("pool") or _name_for_ranks(self._job, loader.dataset, kind)
        self._wanted = actors_wanted(self.ray, loader.remote_workers, loader.num_workers, kind)
        self.members = [self._member(at, options) for at, options in enumerate(self._wanted)]
        self.own = [] if self.name else list(self.members)
        self._meters = _Meters(self._key)
        self._near: list[Member] = []
        self._stay_at = 0.0

    def takes(self, recipe: bytes) -> None:
        """The dataset may have changed since the last iterator began, or the collate_fn."""
        if (key := digest(recipe)) == self._key:
            return
        with self.calls:
            self._key, self._recipe = key, self.ray.put(recipe)
        for member in (*self.members, *self._near):
            member.works_by(self._key, self._recipe)

    def _member(self, at: int, options: dict[str, Any]) -> Member:
        threads = math.ceil(options["num_cpus"])
        # many threads make the rows of a batch sooner than the next one comes
        at_once = {"rows": 1 if threads <= 2 else 2, "batches": threads, "processes": 1}[self.kind]
        return Member(self._handle(at, options), str(at), self._key, self._recipe, at_once + 1, self.calls)

    def _handle(self, at: int, options: dict[str, Any]) -> Any:
        threads, idle_s = math.ceil(options["num_cpus"]), 0.0
        options = {"max_concurrency": 1 if self.kind == "processes" else threads + 1, **options}
        if self.name:
            idle_s = 0.0 if options.get("lifetime") == "detached" else IDLE_S
            shared = {"name": f"{self.name} {at}", "namespace": _NAMESPACE, "get_if_exists": True}
            options |= {**shared, "lifetime": "detached"}
        return self._class.options(**options).remote(threads, idle_s)

    def made_again(self, member: Member) -> bool:
        """Of a member that is gone: whether there is one in its place."""
        if not self.name or member not in self.members:
            return False
        at = self.members.index(member)
        with contextlib.suppress(Exception), self.calls:  # Ray may be shut down
            member.handle = self._handle(at, self._wanted[at])
            return True
        return False

    def near(self, count: int) -> list[Member]:
        """Actors on this machine, one for each of so many local workers of a Python dataset, whatever CPUs
        Ray has to give here. The same ones each time.
        """
        if self._near:
            return self._near
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = NodeAffinitySchedulingStrategy(self.ray.get_runtime_context().get_node_id(), soft=False)
        made = self._class.options(num_cpus=0, max_restarts=-1, scheduling_strategy=here)
        self._near = [
            Member(made.remote(1), f"here {at}", self._key, self._recipe, 1, self.calls)
            for at in range(count)
        ]
        self.own += self._near
        return self._near

    @property
    def lives(self) -> bool:
        return not self.calls.ended

    def is_of_todays_ray(self) -> bool:
        """Whether Ray is still that which the actors are of."""
        lives = self.lives and self.ray.is_initialized()
        return lives and self.ray.get_runtime_context().get_job_id() == self._job

    def wait(self, refs: list[Any], seconds: float) -> list[Any]:
        """One of `refs` that is answered, or more, as soon as one is; none after `seconds`. Raises Gone when
        Ray is shut down.
        """
        with self.calls:
            first, others = self.ray.wait(refs, num_returns=1, timeout=seconds)
            if not first or len(others) < _FEW:
                return first
            return first + self.ray.wait(others, num_returns=len(others), timeout=0)[0]

    def get(self, ref: Any) -> Any:
        """What a member answered; its arrays lie in Ray's store. Raises Lost or Gone."""
        try:
            with self.calls:
                return self.ray.get(ref)
        except Gone:
            raise
        except self.ray.exceptions.ActorDiedError as error:
            raise Gone(str(error)) from None
        except Exception as error:  # Ray's own, or from the content of the answer
            raise Lost(str(error)) from None

    def cancel(self, ref: Any) -> None:
        with contextlib.suppress(Exception), self.calls:  # it may be answered, or Ray be shut down
            self.ray.cancel(ref)

    def notice(self, nodes: dict[str, dict[str, Any]]) -> None:
        """From time to time, what each node has done: for Ray's metrics. And says that this rank is there."""
        now = time.monotonic()
        with contextlib.suppress(Exception), self.calls:  # Ray may be shut down, or an actor be gone
            self._meters.show(nodes, now)
            if self.name and now >= self._stay_at:
                self._stay_at = now + _STAY_S
                for member in self.members:
                    member.handle.stay.remote()

    def why_nobody(self) -> str:
        """Return Ray's facts about it, to follow a sentence that says that no actor answers."""
        wanted = sum(options["num_cpus"] for options in self._wanted)
        with contextlib.suppress(Exception), self.calls:  # Ray may be gone
            free = self.ray.available_resources().get("CPU", 0)
            if free < min(options["num_cpus"] for options in self._wanted):
                return (
                    f". Ray has {free:g} CPUs free, and the actors want {wanted:g}: others hold them, such as"
                    " other loaders' actors; give each loader a number (remote_workers=)"
                )
        return ""

    @staticmethod
    def end(members: list[Member], calls: RayCalls, ray: Any, pid: int) -> None:
        if os.getpid() == pid:
            for member in members:
                with contextlib.suppress(Exception), calls:
                    ray.kill(member.handle)


class _Meters:
    """Ray's metrics of what members have made, by node."""

    def __init__(self, loader: str) -> None:
        self._loader, self._at = loader, 0.0
        self._counters: dict[str, Any] | None = None
        self._shown: dict[tuple[str, str], float] = {}

    def show(self, nodes: dict[str, dict[str, Any]], now: float) -> None:
        if now < self._at:
            return
        self._at = now + _METRICS_S
        if self._counters is None:
            from ray.util.metrics import Counter

            self._counters = {
                unit: Counter(f"millrace_remote_{unit}", f"{unit} made by remote workers", ("node", "loader"))
                for unit in ("batches", "samples", "bytes")
            }
        for node, done in list(nodes.items()):
            for unit, counter in self._counters.items():
                shown = self._shown.get((node, unit), 0)
                more = done[unit] - (shown if shown <= done[unit] else 0)  # an iterator begins at 0
                if more > 0:
                    counter.inc(more, {"node": node, "loader": self._loader})
                    self._shown[node, unit] = done[unit]


def _name_for_ranks(job: str, dataset: Any, kind: str) -> str | None:
    """Of the actors that all ranks of this job share, by what these have in common; None: there is one rank.
    Recipes are no part of it: their pickles may differ from process to process.
    """
    _, ranks = world()
    if ranks == 1:
        return None
    names = ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT")
    run = [value for name in names if (value := os.environ.get(name))] or [job]
    length = len(dataset) if hasattr(dataset, "__len__") else "?"
    return f"{' '.join(run)} {type(dataset).__qualname__} {length} {kind}"


def _pickled(loader: Any, of_class: type, kind: str) -> bytes:
    from ray import cloudpickle

    try:
        return cloudpickle.dumps(recipe_of(loader, of_class, kind))
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        raise UnavailableError(
            f'remote="ray" sends the dataset and collate_fn to other machines, but '
            f"{type(loader.dataset).__name__} cannot be pickled ({error}); open files and connections where"
            " samples are read, or leave remote out"
        ) from error


def actor_class(ray: Any) -> Any:
    class RayBatchMaker(BatchMaker):
        def hello(self, key: str, recipe: list[Any], node: str = "") -> dict[str, Any]:  # type: ignore[override]
            return super().hello(key, ray.get(recipe[0]), ray.get_runtime_context().get_node_id()[:12])

        def make_of(self, task: bytes) -> dict[str, Any]:
            """Bytes are what costs the caller least: Ray takes them as they are."""
            return super().make(*pickle.loads(task))

        def end(self) -> None:
            with contextlib.suppress(Exception):  # so that Ray does not start it again
                ray.kill(ray.get_runtime_context().current_actor)
            super().end()

    return ray.remote(RayBatchMaker)


def actors_wanted(ray: Any, wanted: Any, local_threads: int, kind: str = "rows") -> list[dict[str, Any]]:
    """Ray's options of each actor, for the argument remote_workers; num_cpus is always among them.

    A number of CPUs is divided among actors that fit on the cluster's nodes. "auto": all CPUs of the other
    nodes, or what `local_threads` leave of this machine's, if it is the only one. kind "processes":
    an actor has work for one CPU.
    """
    options: dict[str, Any] = {"max_restarts": -1, "scheduling_strategy": "SPREAD"}
    if isinstance(wanted, dict):
        count = wanted.get("actors", 1)
        given = {name: value for name, value in wanted.items() if name not in ("actors", "pool")}
        return [{"num_cpus": 1, **options, **given} for _ in range(count)]
    cpus = {node["NodeID"]: int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]}
    here = ray.get_runtime_context().get_node_id()
    if wanted == "auto":
        others = {node: count for node, count in cpus.items() if node != here and count}
        wanted = sum(others.values()) if others else max(0, cpus.get(here, 0) - local_threads)
        cpus = others or cpus
    size = max(1, min(wanted, 1 if kind == "processes" else _MOST_CPUS, max(cpus.values(), default=1)))
    sizes = [size] * (wanted // size) + ([wanted % size] if wanted % size else [])
    return [{**options, "num_cpus": each} for each in sizes]
