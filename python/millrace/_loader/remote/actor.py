"""BatchMaker, which runs in an actor: makers over the datasets that trainers have sent. Does not use Ray."""

from __future__ import annotations

import contextlib
import os
import pickle
import platform
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from ..engines.fetchers import stop_iteration_of, wrapped_error
from ..plan import make_plan
from .blocks import as_blocks
from .maker import Maker, Work, maker_of
from .parcels import Address, Outbox, this_machine
from .python_maker import PythonMaker

_MOST_MAKERS = 4
_RECIPE = "collate_fn", "worker_init_fn", "pictures"

_NO_MODULE = (
    "; install it on every node, or have Ray send it: ray.init(runtime_env={'py_modules': [...]}), or"
    " remote_workers={'runtime_env': ...}"
)


def recipe_of(loader: Any, of_class: type, kind: str) -> tuple[type, dict[str, Any]]:
    """(the class of an actor's loader, its arguments). kind: kind_of() at the trainer. An actor follows it,
    because the trainer's plan may have reasons against native code that an actor's plan lacks.
    """
    size = loader.batch_size or getattr(loader.batch_sampler, "batch_size", None) or 1
    options = {name: getattr(loader, name) for name in _RECIPE}
    native = "never" if kind == "processes" else "auto"
    return of_class, {"dataset": loader.dataset, "batch_size": size, "native": native, **options}


class _Bench:
    """A maker, and how many calls are in its make() or wait for it."""

    def __init__(self, maker: Maker) -> None:
        self.maker, self.users = maker, 0
        self.lanes = threading.Semaphore(maker.lanes)


class BatchMaker:
    """Makes batches for trainers. Answers are dicts. "error": the reason why the answer has no result;
    "raised": the dataset's own exception, in torch's wrapper, if it can be pickled. Ray reports errors of the
    process.

    Any number of trainers share it; trainers that send the same recipe share a maker. Each trainer asks for a
    few batches at a time, which come in the order of asking, so none gets more than the others. threads: of
    the engine. idle_s: the process ends when no trainer has called for so many seconds; 0: never.
    """

    def __init__(self, threads: int, idle_s: float = 0.0) -> None:
        self._threads = max(1, threads)
        self._lock, self._making = threading.Lock(), threading.Lock()
        self._benches: dict[str, _Bench] = {}  # in order of last use
        self._heard, self._inside = time.monotonic(), 0
        self._outbox = Outbox()
        if idle_s:
            threading.Thread(target=self._end_when_idle, args=(idle_s,), daemon=True).start()

    def hello(self, key: str, recipe: bytes, node: str) -> dict[str, Any]:
        """Prepare the maker of a recipe. recipe: recipe_of(), pickled; key: its name. Trainers call this
        again after a restart of the actor. node: the node's name, if Ray has one. Returns "node"; "facts", to
        compare with the trainer's; and "machine", which tells whether parcels reach it.
        """
        node = f"{platform.node()} ({node})" if node else platform.node()
        try:
            with self._call(), self._making:
                if key not in self._benches:
                    self._let_old_ones_go()
                    self._benches[key] = _Bench(self._made(recipe))
                facts = self._benches[key].maker.facts()
                return {"node": node, "facts": facts, "machine": this_machine()}
        except Exception as error:
            remedy = _NO_MODULE if isinstance(error, ModuleNotFoundError) else ""
            return {"node": node, "error": f"{type(error).__name__}: {error}{remedy}"}

    def _made(self, recipe: bytes) -> Maker:
        of_class, options = pickle.loads(recipe)
        loader = of_class(**options, history=False)
        spec = make_plan(loader, explained=False).spec
        return maker_of(spec, self._threads, loader.batch_size, "system") or PythonMaker(loader)

    def _let_old_ones_go(self) -> None:
        """Drop recipes of earlier epochs, and of loaders that are gone. A trainer that still uses one of them
        calls hello() again.
        """
        with self._lock:
            unused = [key for key, bench in self._benches.items() if not bench.users]
            gone = [self._benches.pop(key) for key in unused[: max(0, len(self._benches) - _MOST_MAKERS + 1)]]
        for bench in gone:
            bench.maker.close()

    def make(self, key: str, work: Work, address: Address | None = None) -> dict[str, Any]:
        """Make a batch. Returns "blocks": the batch, as as_blocks() packs it; "seconds" that it took;
        "parcel": where the bytes of its arrays are, if not in "blocks".
        """
        with self._lock:
            bench = self._benches[key] = self._benches.pop(key)  # KeyError: hello() comes first
            bench.users += 1
        try:
            with self._call(), bench.lanes:
                began = time.monotonic()
                blocks, parcel = as_blocks(bench.maker.make(Work(*work))), None
                if address is not None:
                    parcel = self._outbox.put(address, blocks.arrays)
                if parcel is not None:
                    blocks = blocks._replace(arrays=[])
                return {"blocks": tuple(blocks), "parcel": parcel, "seconds": time.monotonic() - began}
        except Exception as error:
            true, wrapped = stop_iteration_of(error), wrapped_error(f"on {platform.node()}")
            raised = wrapped if _crosses(wrapped) else None
            return {"error": f"{type(true).__name__}: {true}", "raised": raised}
        finally:
            with self._lock:
                bench.users -= 1

    @contextlib.contextmanager
    def _call(self) -> Iterator[None]:
        """While entered, the process does not end as idle, however long the call takes."""
        with self._lock:
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                self._heard = time.monotonic()

    def stay(self) -> None:
        """Note that a trainer is there, although it wants nothing now."""
        self._heard = time.monotonic()

    def _end_when_idle(self, idle_s: float) -> None:
        while self._inside or time.monotonic() - self._heard < idle_s:
            time.sleep(min(1.0, idle_s / 4))
        self.end()

    def end(self) -> None:
        os._exit(0)


def _crosses(wrapped: Any) -> bool:
    try:
        pickle.loads(sys.modules.get("ray.cloudpickle", pickle).dumps(wrapped))  # type: ignore[attr-defined]  # as Ray does it
    except Exception:
        return False
    return True
