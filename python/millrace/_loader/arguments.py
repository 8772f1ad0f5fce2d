"""The arguments of DataLoader: checked, recognised, and those that may be "auto" as numbers.

A number in place of "auto" can be read by any framework, and knows that it was "auto".
"""

from __future__ import annotations

import functools
import math
import multiprocessing
import os
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator
from numbers import Integral
from typing import Any, TypeVar, cast

import torch.utils.data
from torch.utils.data import IterableDataset

from .. import _core
from .._common.data_parallel import EQUAL_STEPS
from .._common.interpreter import level_of_the_loop
from .._common.lowering.recognising import NotLowered, loaded
from .._common.torch_private import _DatasetKind
from .._history.recorder import BatchHistory
from ..errors import UnavailableError
from ..samplers import LengthGroupedSampler, StratifiedBatchSampler

_TORCHS_INIT = torch.utils.data.DataLoader.__init__.__code__  # before install()
_Init = TypeVar("_Init", bound=Callable[..., None])
_LISTS_AHEAD = 16
_WAITING_PER_CPU, _FEW = 4, 8


class Auto(int):
    """A number in place of "auto". Copying it to another loader keeps "auto"."""


def is_auto(value: Any, name: str) -> bool:
    """Whether an argument is "auto". ValueError for other strings."""
    if isinstance(value, str) and value != "auto":
        raise ValueError(f'{name}={value!r} is neither a number nor "auto"')
    return isinstance(value, (str, Auto))


def is_tuned(loader: Any) -> bool:
    """Whether an argument of the loader is "auto"."""
    return isinstance(loader.num_workers, Auto) or isinstance(loader.prefetch_factor, Auto)


def resolved_auto(
    workers: Any, prefetch: Any, dataset: Any = None, context: Any = None, tuned: bool = True
) -> tuple[Any, Any]:
    """num_workers and prefetch_factor, "auto" as numbers.

    As many workers are started as there are CPUs for, if they compute; where few CPUs are, more, of which
    only those work that wait. Just as many as CPUs where nothing is `tuned`, so all work, and where each
    further one costs: of an iterable-style dataset, which they divide, and where a process is started with an
    interpreter of its own. Index lists are drawn ahead per worker: at least 16 in all, so that so many
    batches may be in memory; None without workers.
    """
    if is_auto(workers, "num_workers"):
        workers = Auto(_core.cpu_budget()["threads"])
        if tuned and not isinstance(dataset, IterableDataset) and _forks(context):
            workers = Auto(max(workers, min(_WAITING_PER_CPU * workers, _FEW)))
    if is_auto(prefetch, "prefetch_factor"):
        some = isinstance(workers, int) and workers > 0
        prefetch = Auto(max(2, math.ceil(_LISTS_AHEAD / workers))) if some else None
    return workers, prefetch


def _forks(context: Any) -> bool:
    """Whether worker processes will be forked; asking must not fix the start method, which the user may still
    set.
    """
    if context is None:
        method = (
            multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]
        )
    else:
        method = context if isinstance(context, str) else getattr(context, "get_start_method", str)()
    return method == "fork"


#: Arguments that torch's class does not have, and what they are where they are not given.
OURS = {
    "native": "auto",
    "on_error": "raise",
    "worker_method": "auto",
    "pictures": "native",
    "snapshot_every_n_steps": 1,
    "equal_steps": None,
    "auto_epoch": False,
    "process_group": None,
    "mesh_dim": None,
    "device": None,
    "prefetch_to_device": 2,
    "decode": "cpu",
    "history": True,
    "memory_budget": None,
    "tune_file": None,
    "remote": None,
    "remote_workers": "auto",
}


class Carrier:
    """The `timeout` of a loader that was given arguments of ours: see rebuilds.py.

    Its copies and pickles have these, but not the loader's dataset. A `__setstate__` of the loader cannot
    bring them: Accelerate's wrappers would find it in the place of their own.
    """

    loader: Callable[[], Any] = staticmethod(lambda: None)
    dataset: Callable[[], Any]  # a weak reference, if there can be one; not in copies
    collate_fn: Callable[[], Any]  # the same
    num_workers: int
    given: dict[str, Any]  # for frameworks that let go of the old loader before they build the new one

    def __lt__(self, other: float) -> bool:
        """torch's __init__ asks for that: warns if it makes a loader of torch's class instead of ours."""
        caller = sys._getframe(1)
        if caller.f_code is _TORCHS_INIT and not hasattr(caller.f_locals["self"], "_device_argument"):
            from .rebuilds import what_is_lost

            advise(what_is_lost(self, caller.f_locals))
        return self.plain() < other

    def ours(self, old: Any) -> dict[str, Any]:
        return self.given if old is None else ours_of(old)

    def plain(self) -> float:
        return float(self) if isinstance(self, float) else int(cast(int, self))

    def __reduce__(self) -> Any:
        return _copied, (type(self), self.plain(), self.num_workers, self.given)


class _Whole(Carrier, int):
    pass


class _Broken(Carrier, float):
    pass


def _copied(kind: Any, number: float, num_workers: int, given: dict[str, Any]) -> Any:
    made = kind(number)
    made.num_workers, made.given = num_workers, given
    return made


def _reference(thing: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(thing)
    except TypeError:
        return lambda: thing


def ours_of(loader: Any) -> dict[str, Any]:
    """Those that are not what they are where they are not given."""
    found = ((name, getattr(loader, "_device_argument" if name == "device" else name)) for name in OURS)
    return {name: value for name, value in found if value != OURS[name]}


def keeping_ours(init: _Init) -> _Init:
    """`init` of DataLoader; a loader that is built from another one's arguments gets ours of that one, too.
    Arguments that are given explicitly stay.
    """

    @functools.wraps(init)
    def keeping(self: Any, *arguments: Any, **options: Any) -> None:
        carrier = next((v for v in (*arguments, *options.values()) if isinstance(v, Carrier)), None)
        if carrier is not None:
            from .rebuilds import with_ours

            options = with_ours(carrier, init, (self, *arguments), options)
        init(self, *arguments, **options)

    return cast(_Init, keeping)


def hand_on(loader: Any) -> None:
    """Makes loader.timeout a Carrier if there is something to carry, else a plain number."""
    timeout, given = loader.timeout, ours_of(loader)
    if isinstance(timeout, Carrier):
        timeout = timeout.plain()
    if given and isinstance(timeout, (int, float)):
        timeout = (_Broken if isinstance(timeout, float) else _Whole)(timeout)
        timeout.loader, timeout.dataset = weakref.ref(loader), _reference(loader.dataset)
        timeout.collate_fn, timeout.num_workers = _reference(loader.collate_fn), loader.num_workers
        timeout.given = given
    loader.timeout = timeout


DECODE = ("cpu", "gpu", "auto")  # where pictures are decoded
NATIVE = ("auto", "never", "require")
ON_ERROR = ("raise", "skip", "replace")
WORKER_METHODS = ("auto", "process", "thread")
PICTURES = {  # and what explain() says
    "native": "native — by the engine, where __getitem__ can be read; else lazy",
    "lazy": "lazy — JPEGs, PNGs and WebPs that the dataset opens with Pillow are decoded by the engine, where"
    " they are looked at, and regular JPEGs that it reads with cv2, torchvision.io or torchcodec, at once",
    "pillow": "pillow — as the dataset opens them",
}


def checked_arguments(
    native: Any,
    on_error: Any,
    worker_method: Any,
    equal_steps: Any,
    device: Any,
    decode: Any,
    history: Any,
) -> None:
    """ValueError for what DataLoader does not know."""
    _one_of("native", native, NATIVE)
    _one_of("on_error", on_error, ON_ERROR)
    _one_of("worker_method", worker_method, WORKER_METHODS)
    if equal_steps is not None and equal_steps not in EQUAL_STEPS:
        raise ValueError(
            f"equal_steps={equal_steps!r} is unknown; use None or one of {', '.join(map(repr, EQUAL_STEPS))}"
        )
    _one_of("decode", decode, DECODE)
    if not isinstance(history, (bool, BatchHistory)):
        raise ValueError(
            f"history={history!r} is no BatchHistory; use millrace.BatchHistory(...), True or False"
        )
    if decode != "cpu" and (device is None or torch.device(device).type == "cpu"):
        raise ValueError(f'decode="{decode}" makes batches on a GPU: say on which, with device="cuda"')


def refuse_impossible(loader: Any, plan: Any) -> None:
    """UnavailableError, with what to change, where native=, decode= or on_error= cannot be had by `plan`."""
    if loader.decode == "gpu" and plan.decode_refusal:
        raise UnavailableError(
            f'decode="gpu" is not possible here: {plan.decode_refusal}. decode="auto" takes the CPU then'
        )
    if plan.spec is not None:
        return
    if loader.native == "require":
        what = "this loader runs" if plan.known_part is None else "a part of it runs"
        raise UnavailableError(f'native="require", but {what} in Python:\n{loader.explain()}')
    batches_samples = loader._dataset_kind == _DatasetKind.Map and loader._auto_collation
    if loader.on_error != "raise" and not batches_samples:
        raise UnavailableError(
            f'on_error="{loader.on_error}" takes another index of a map-style dataset, in batches; this'
            ' loader has none. Leave it out, and give a WebDataset a handler instead: decode("pil",'
            " handler=millrace.datasets.warn_and_continue)"
        )


def checked_sampler(sampler: Any, batch_size: int | None) -> None:
    """ValueError for a batch sampler of ours that is given as `sampler`."""
    if batch_size is not None and isinstance(sampler, (LengthGroupedSampler, StratifiedBatchSampler)):
        raise ValueError(
            f"a {type(sampler).__name__} gives whole batches: give it as batch_sampler=, and leave batch_size"
            " out"
        )


def checked_pictures(pictures: Any) -> Any:
    """None: what the environment says, else "native"."""
    if pictures is None:
        pictures = os.environ.get("MILLRACE_PICTURES", "native")
    _one_of("pictures", pictures, tuple(PICTURES))
    return pictures


def checked_memory(budget: None | int | float) -> None | int | float:
    """The argument `memory_budget`: None, bytes, or a share of the available memory."""
    if budget is None or isinstance(budget, float) and 0.0 < budget < 1.0:
        return budget
    if isinstance(budget, (bool, float)) or not isinstance(budget, Integral) or budget < 1:
        raise ValueError(
            f"memory_budget={budget!r} is neither a number of bytes nor a share between 0 and 1; 2**30 is a"
            " GiB, 0.25 a quarter of the memory that may be taken"
        )
    return int(budget)


def checked_depth(prefetch: int) -> int:
    if not isinstance(prefetch, int) or isinstance(prefetch, bool) or prefetch < 1:
        raise ValueError(f"{prefetch!r} batches cannot be prefetched to a device; give a number from 1 on")
    return prefetch


def checked_remote(loader: Any, num_workers: int) -> None:
    """ValueError if the loader's remote= or remote_workers= is not known, or does not fit its arguments."""
    remote, wanted = loader.remote, loader.remote_workers
    if remote is None:
        return
    _one_of("remote", remote, ("ray",))
    is_number = isinstance(wanted, int) and not isinstance(wanted, bool) and wanted > 0
    if not (is_number or isinstance(wanted, dict) or isinstance(wanted, str) and wanted == "auto"):
        raise ValueError(
            f'remote_workers={wanted!r} is no number of CPUs from 1 on; give one, "auto", or a dict of Ray\'s'
            ' options for actors, as {"actors": 4, "num_cpus": 8}'
        )
    if num_workers < 1:
        raise ValueError(
            f'remote="{remote}" needs num_workers from 1 on: local threads go on when nodes fail'
        )
    if loader.on_error != "raise":
        raise ValueError(f'remote="{remote}" works with on_error="raise" only, got "{loader.on_error}"')
    if loader.decode != "cpu":
        raise ValueError(f'remote="{remote}" makes batches on CPUs: leave decode="{loader.decode}" out')


def warn_of_the_unused(loader: Any) -> None:
    """Of arguments that mean nothing without another one. Those of torch's class are torch's to warn of."""
    kind = type(loader)
    needs = (
        ("memory_budget", is_tuned(loader), 'num_workers="auto" or prefetch_factor="auto"'),
        ("tune_file", is_tuned(loader), 'num_workers="auto" or prefetch_factor="auto"'),
        ("prefetch_to_device", loader._device_argument is not None, "device="),
        ("remote_workers", loader.remote is not None, 'remote="ray"'),
    )
    for name, has_it, other in needs:
        value = getattr(loader, name)
        if not has_it and value != getattr(kind, name):
            advise(f"{name}={value!r} has no effect without {other}: give the loader both, or leave it out")


def advise(*lines: str | None) -> None:
    for line in filter(None, lines):
        warnings.warn(line, stacklevel=level_of_the_loop())


def unused_by(loader: Any, native: bool, engine: str) -> Iterator[str]:
    """A sentence for each argument that torch's workers have a use for, and `engine` has not."""
    if loader.num_workers == 0:
        return
    if native and not loader.in_order:
        yield (
            "in_order=False has no effect natively: batches come in order, because threads claim single"
            " samples, and none waits for a slow batch. Leave it out"
        )
    never, process = 'native="never"', 'worker_method="process"'
    if engine == "threads" and loader.multiprocessing_context is not None:
        yield (
            "multiprocessing_context has no effect on threads, which this loader's workers are: leave it"
            f" out, or take processes, by {never if native else process}"
        )


def _one_of(name: str, value: Any, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"{name}={value!r} is unknown; use one of {', '.join(map(repr, known))}")


# They only seed Python's generators, which no native stage reads.
_SEEDING_FUNCTIONS = (
    ("transformers.trainer_utils", "seed_worker"),
    ("timm.data.loader", "_worker_init"),
    ("lightning.fabric.utilities.seed", "pl_worker_init_function"),
    ("lightning_fabric.utilities.seed", "pl_worker_init_function"),
    ("pytorch_lightning.utilities.seed", "pl_worker_init_function"),
)


def recognise_worker_init(worker_init_fn: Any, num_workers: int) -> str:
    """Why `worker_init_fn` need not run; NotLowered when it must."""
    if worker_init_fn is None:
        return "none given"
    if num_workers == 0:
        return "never called with num_workers=0"
    function = worker_init_fn
    while isinstance(function, functools.partial):
        function = function.func
    for module, name in _SEEDING_FUNCTIONS:
        if function is not None and function is loaded(module, name):
            return f"{module}.{name} only seeds Python's generators; native stages do not use them"
    name = getattr(function, "__qualname__", type(function).__name__)
    raise NotLowered(
        f"{name} may do anything to a worker process, and there is none; drop it if it only seeds: native"
        " randomness follows loader.seed"
    )
