"""The planner: the recogniser of a loader's dataset looks at all parts of the loader, which become one native
spec or none.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, ClassVar

from torch.utils.data import Dataset, Subset

from ..._common.lazy import imported
from ..._common.lowering.as_shipped import check_device, check_getitems
from ..._common.lowering.recognising import NotLowered
from ...samplers.resumable import inner_sampler
from ..engine import EngineSpec, PythonSpec
from ..engines.python import PYTHON
from .decoding import decoded_on_device
from .recognisers import RECOGNISERS
from .stages import Known, Stage, Stages

_BATCHES = "millrace.datasets.batches.dataset.BatchDataset"
_ON_GPU = {
    False: "by nvJPEG, with the transforms, what it can do",
    True: "by nvJPEG, with the transforms, a share that keeps GPU and threads busy",
}
IS_PYTHON = (
    "is Python code; the engine reads millrace.datasets.ImageFolder, torchvision's ImageFolder, DatasetFolder"
    " and others that are lists of paths and labels, timm's ImageDataset, tensors and numpy arrays, torch's"
    " TensorDataset, StackDataset, ConcatDataset, Hugging Face's Dataset, and Subset of these"
)


@dataclass(frozen=True)
class Plan:
    """What runs where. `spec` is None when the loader runs as Python code."""

    stages: tuple[Stage, ...]
    spec: EngineSpec | None
    known_part: Known | None = None
    """What the engine makes of each sample of such a loader."""
    decode_refusal: str | None = None
    """Why pictures are not decoded on the device, "" when they are; None: that was not asked for."""

    def python_spec(self, engine: str) -> PythonSpec:
        """Of the engine that runs Python, by its name, where `spec` is None."""
        alone = PYTHON[engine]
        return alone if self.known_part is None else self.known_part.spec(alone.engine, opened)

    def __str__(self) -> str:
        lines = list(map(str, self.stages))
        if self.decode_refusal is not None:
            on_gpu = _ON_GPU[bool(getattr(self.spec, "balances", False))]
            lines.append(
                f"decode: cpu — {self.decode_refusal}" if self.decode_refusal else f"decode: gpu — {on_gpu}"
            )
        return "\n".join(lines)


def is_python(root: Any) -> NotLowered:
    return NotLowered(f"{type(root).__name__} {IS_PYTHON}")


def _refuse(root: Any) -> Any:
    check_getitems(root)
    raise is_python(root)


@dataclass(frozen=True)
class Recogniser:
    """Knows the datasets of one line of RECOGNISERS. This class itself is asked about Python code.

    `find`: gives what there is to be known of a dataset of its class, an object of the class `finds`.
    `claims`: whether this recogniser is asked about such a dataset, and none after it. `exact`: it is never
    asked about subclasses.
    """

    find: Callable[[Any], Any] = _refuse
    claims: Callable[[Any], bool] = field(default=lambda root: True, kw_only=True)
    exact: bool = field(default=False, kw_only=True)
    finds: ClassVar[type | None] = None
    joined = False

    def spec(self, loader: Any, stages: Stages) -> EngineSpec | None:
        """Asks the stages, in the order in which they are told; None where one refuses."""
        stages.ask("dataset", lambda: self.find(root_of(loader.dataset)))
        stages.ask_the_others(loader)
        return None

    def part(self, dataset: Any, refusing: list[str]) -> Known | None:
        """What the engine makes of each sample, where these stages refuse. May raise anything: nothing."""
        return None

    def part_of(self, loader: Any, stages: Stages) -> Known | None:
        """Return the same for a loader, after its stages have been asked."""
        return self.part(loader.dataset, stages.refusing())


_PYTHON_CODE = Recogniser()


def root_of(dataset: Any) -> Any:
    while type(dataset) is Subset:
        dataset = dataset.dataset
    return dataset


@cache
def late(origin: str) -> Any:
    """What a module of this package, which is imported only now, has by a name: ".module:name"."""
    module, _, name = origin.partition(":")
    return getattr(imported(module, __package__), name)


def _bases(root: Any) -> dict[str, type]:
    return {f"{base.__module__}.{base.__qualname__}": base for base in type(root).__mro__}


def recogniser_of(dataset: Any, finds: type | None = None) -> Recogniser:
    """The first one that claims it, of those that find objects of this class, if one is given; else the one
    of Python code.
    """
    root = root_of(dataset)
    bases = _bases(root)
    for name, origin in RECOGNISERS:
        base = bases.get(name)
        # a user's module may be called alike
        if base is None or getattr(sys.modules.get(base.__module__), base.__name__, None) is not base:
            continue
        found = late(origin)
        if finds in (None, found.finds) and (base is type(root) or not found.exact) and found.claims(root):
            return found
    return _PYTHON_CODE


# One of them is there in a program that opens pictures; millrace imports none.
_PACKAGES = "PIL", "cv2", "torchcodec", "torchvision"
_OTHERS = "torch", "numpy", "os", "random", "math", "json", "pandas"  # none of these packages opens one
_OPENERS = "PIL.Image", "cv2", "torchcodec.decoders", "torchvision.io"


def _reader_of_items(loader: Any, recogniser: Recogniser) -> Recogniser | None:
    """Return the reader of the __getitem__ of a dataset that is Python code or that its recogniser may refuse
    (one of torchvision's with a loader of the script's, or of a subclass with a method of its own).
    """
    if loader.pictures != "native" or not any(name in sys.modules for name in _OPENERS):
        return None
    if recogniser is not _PYTHON_CODE:
        home = getattr(getattr(type(root_of(loader.dataset)), "__getitem__", None), "__module__", None) or ""
        if home.partition(".")[0] in ("millrace", "torch", "timm", "datasets"):
            return None
    opens = _may_open(root_of(loader.dataset))
    return late(".items:recogniser_of_items")(loader) if opens else None


def _may_open(root: Any) -> bool:
    """Whether its __getitem__ names what may open a picture: modules, functions, methods, other datasets."""
    function = getattr(type(root), "__getitem__", None)
    if not isinstance(function, FunctionType) or (code := function.__code__).co_freevars:
        return isinstance(function, FunctionType)

    def calls(name: str) -> bool:
        value = function.__globals__.get(name)
        if isinstance(value, ModuleType):
            return value.__name__.partition(".")[0] not in _OTHERS
        found = value, vars(root).get(name), inspect.getattr_static(type(root), name, None)
        kinds = FunctionType, BuiltinFunctionType, Dataset
        return name.partition(".")[0] in _PACKAGES or any(isinstance(one, kinds) for one in found)

    inner = [part.co_names for part in code.co_consts if isinstance(part, CodeType)]  # comprehensions
    return any(map(calls, chain(code.co_names, *inner)))


def opened(dataset: Any, seed: int, epoch: int, seeds: bool) -> Any:
    """Return the replacement of `dataset` as it is now: worker_init_fn may have changed it. Return the
    dataset itself if nothing of it is known.
    """
    try:
        part = recogniser_of(dataset).part(dataset, ["transform"])
    except NotLowered:
        part = None
    return dataset if part is None else part.stand_in(dataset, (seed, epoch), seeds)


def make_plan(loader: Any, explained: bool = True) -> Plan:
    """The plan for the next iterator of `loader`, a millrace.DataLoader; draws nothing and reads no file.
    `explained`: with all stages, also where the dataset's class alone says that there is no spec.
    """
    plan = _plan_on_the_cpu(loader, explained)
    if loader.decode == "cpu" or loader._millrace_device is None:
        return plan
    spec, refusal = decoded_on_device(loader, plan.spec)
    return replace(plan, spec=spec, decode_refusal=refusal)


def _plan_on_the_cpu(loader: Any, explained: bool) -> Plan:
    if loader.native == "never":
        return Plan((Stage("loader", False, 'native="never" was asked for'),), None)
    try:
        check_device()
    except NotLowered as refusal:
        return Plan((Stage("loader", False, str(refusal)),), None)
    recogniser = recogniser_of(loader.dataset)
    reader = _reader_of_items(loader, recogniser)
    if recogniser is _PYTHON_CODE:
        recogniser, reader = reader or recogniser, None
    if recogniser is _PYTHON_CODE and not explained:
        return Plan((), None)
    stages, part = Stages(), None
    spec = recogniser.spec(loader, stages)
    if spec is None:
        part = _known_part(recogniser, loader, stages)
    if spec is None and part is None and reader is not None and "dataset" in stages.refusing():
        read = Stages()
        if (spec := reader.spec(loader, read)) is None:
            part = _known_part(reader, loader, read)
        if spec is not None or part is not None:
            stages = read
    return Plan(stages.finish(part), spec, part)


def _known_part(recogniser: Recogniser, loader: Any, stages: Stages) -> Known | None:
    """What the engine makes of each sample of a loader that has no spec. Actors run that in Python."""
    if loader.remote is not None or "worker_init_fn" in stages.refusing():
        return None
    try:
        return recogniser.part_of(loader, stages)
    except Exception:  # NotLowered, or what Stages.ask() calls "could not be understood"
        return None


def order_advice(loader: Any) -> str | None:
    """What the loader's order costs its dataset, if it is one that makes batches and there is something to
    say.
    """
    root = root_of(loader.dataset)
    if _BATCHES not in _bases(root):
        return None
    return root.order_advice(inner_sampler(loader.batch_sampler or loader.sampler))
