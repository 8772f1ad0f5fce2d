"""The planner: a loader's parts, looked at one by one, become one native spec or none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data import ConcatDataset, SequentialSampler, Subset

from ... import _core
from ..._common.lowering.as_shipped import check_device
from ..._common.lowering.recognising import NotLowered, holder_name
from ..._common.lowering.rows import RowSet
from ..._common.shipped import is_default_collate
from ..._common.states import is_stateful
from ..._common.torch_private import _DatasetKind, default_collate
from ...datasets.batches import BatchDataset
from ...samplers import BatchSampler, RandomSampler, native
from ...samplers.global_order import GlobalOrderSampler
from ...samplers.resumable import inner_sampler
from ..arguments import recognise_worker_init
from ..engine import EngineSpec, PythonSpec
from ..engines.native import Files, ImageSpec
from ..engines.python import PYTHON
from ..engines.python_collate import PythonCollate, with_targets
from ..engines.rows import RowsSpec
from .arrow import has_transform
from .batches import BatchSource, batch_spec, recognise_batch_collate, recognise_batches
from .decoding import decoded_on_device
from .in_memory import ROWS, lies_in_memory, recognise_rows
from .recognisers import (
    IS_PYTHON,
    PICTURES,
    chains_of,
    counted,
    is_fast_collate,
    joins_pictures,
    recognise_any_collate,
    recognise_batch_function,
    recognise_collate,
    recognise_source,
    takes_samples,
)
from .source import Source
from .streams import Stream, recognise_stream

if TYPE_CHECKING:
    from ..._common.lowering.transforms import Lowered
    from ..engines.stream import StreamSpec
    from .prefix import KnownPart
    from .stream_prefix import KnownStream


@dataclass(frozen=True)
class Stage:
    """One line of `explain()`."""

    name: str
    native: bool
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {'native' if self.native else 'python'} — {self.reason}"


@dataclass(frozen=True)
class Plan:
    """What runs where. `spec` is None when the loader runs as Python code."""

    stages: tuple[Stage, ...]
    spec: EngineSpec | None
    known_part: KnownPart | KnownStream | None = None
    """What the engine makes of each sample of such a loader."""
    decode_refusal: str | None = None
    """Why pictures are not decoded on the device, "" when they are; None: that was not asked for."""

    def python_spec(self, engine: str) -> PythonSpec:
        """Of the engine that runs Python, by its name, where `spec` is None."""
        return PYTHON[engine] if self.known_part is None else self.known_part.spec(PYTHON[engine])

    def __str__(self) -> str:
        lines = list(map(str, self.stages))
        if self.decode_refusal is not None:
            on_gpu = _ON_GPU[bool(getattr(self.spec, "balances", False))]
            lines.append(
                f"decode: cpu — {self.decode_refusal}" if self.decode_refusal else f"decode: gpu — {on_gpu}"
            )
        return "\n".join(lines)


_STREAM, _ARROW = "millrace.datasets.webdataset.dataset.WebDataset", "datasets.arrow_dataset.Dataset"
_ON_GPU = {
    False: "by nvJPEG, with the transforms, what it can do",
    True: "by nvJPEG, with the transforms, a share that keeps GPU and threads busy",
}


class _Stages:
    """Collects the answers of the recognisers; a refusal of one does not stop the others, so that users see
    all at once.
    """

    def __init__(self) -> None:
        self.answers: dict[str, tuple[bool, str]] = {}
        self.beside: set[str] = set()  # stages that run as Python code beside the engine, which does the rest

    def ask(self, name: str, recogniser: Callable[[], tuple[str, Any]]) -> Any:
        try:
            reason, value = recogniser()
        except NotLowered as refusal:
            self.answers[name] = False, str(refusal)
        except (
            Exception
        ) as error:  # odd arguments: torch knows what to do, or says what is wrong in its words
            self.answers[name] = False, f"could not be understood ({error!r})"
        else:
            self.answers[name] = True, reason
            return value
        return None

    def ask_worker_init(self, loader: Any) -> None:
        function, workers = loader.worker_init_fn, loader.num_workers
        self.ask("worker_init_fn", lambda: (recognise_worker_init(function, workers), None))

    def refusing(self) -> list[str]:
        return [name for name, (native, _) in self.answers.items() if not native]

    def finish(self) -> tuple[Stage, ...]:
        refusing = self.refusing()
        if not refusing:
            answers = self.answers.items()
            return tuple(
                Stage(name, native and name not in self.beside, reason) for name, (native, reason) in answers
            )
        ready = (
            f"ready for the engine, but {' and '.join(refusing)} {'is' if len(refusing) == 1 else 'are'} not"
        )
        return tuple(
            Stage(name, False, ready if native else reason) for name, (native, reason) in self.answers.items()
        )


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
    kind = _kind(loader.dataset)
    if kind == "stream":
        return _stream_plan(loader)
    if kind == "batches":
        return _batch_plan(loader)
    if kind == "python" and not explained:
        return Plan((), None)
    stages = _Stages()
    data: Source | RowSet | None = stages.ask("dataset", lambda: _dataset(loader, kind))
    transform = None
    if isinstance(data, Source):
        transform = stages.ask("transform", lambda: _transform(data, takes_samples(loader.collate_fn)))
    if isinstance(data, Source) and (functions := [f for f in data.target_transforms if f is not None]):
        names = ", ".join(dict.fromkeys(map(holder_name, functions)))
        called = f"{names}, called in next() for each sample of the batch, in order"
        stages.ask("target_transform", lambda: (called, None))
        stages.beside.add("target_transform")
    stages.ask("sampler", lambda: _sampler(loader))
    collate: PythonCollate | None = stages.ask("collate_fn", lambda: _collate(loader, data, transform))
    if collate is not None:
        stages.beside.add("collate_fn")
    stages.ask_worker_init(loader)
    spec: EngineSpec | None = None
    if isinstance(data, RowSet) and not stages.refusing():
        spec = _rows_spec(loader, data, collate)
    elif isinstance(data, Source) and not stages.refusing():
        # Last, because the table of a big folder takes a while when it is first made.
        files: Files | None = stages.ask("dataset", lambda: _files(data))
        if files is not None and transform is not None:
            pipelines, made = transform
            arrangement: type[list] | type[tuple] = list
            if files.targets is not None:
                collate = with_targets(collate, files.targets, data.form)
            elif collate is not None and made.views is None and is_fast_collate(loader, made.dtype):
                stages.ask(
                    "collate_fn", lambda: ("fast_collate; rows are written straight into the batch", None)
                )
                stages.beside.discard("collate_fn")
                collate, arrangement = None, tuple
            options = data.index_maps, collate, data.on_error, arrangement
            spec = ImageSpec(files, tuple(pipelines), made.views, *options, made.drawn_size)
    elif isinstance(data, Source) and stages.refusing() == ["transform"] and not is_stateful(loader.dataset):
        from .prefix import known_part  # most loaders have no use for it

        return _partial_plan(loader, stages, partial(known_part, data), refusal_told=False)
    return Plan(stages.finish(), spec)


def _partial_plan(
    loader: Any, stages: _Stages, recogniser: Callable[[], KnownPart | KnownStream], refusal_told: bool
) -> Plan:
    """Where not all has a native form, but what `recogniser` finds. Actors run all of it in Python.
    `refusal_told`: why the transform is refused is said, if it is, and not what is left of it.
    """
    lines, refusing = stages.finish(), stages.refusing()
    if loader.remote is not None or "worker_init_fn" in refusing:
        return Plan(lines, None)
    try:
        part = recogniser()
    except Exception:  # NotLowered, or what _Stages.ask() calls not understood
        return Plan(lines, None)
    known = [
        Stage("dataset", True, f"{part.counted}, read and decoded where samples are made"),
        Stage("transform", True, ", ".join(part.names)),
    ]
    told = {"dataset", "transform"} - set(refusing)
    if part.prefix.rest and not (refusal_told and "transform" in refusing):
        known.append(Stage("transform", False, part.prefix.words_of_the_rest()))
        told.add("transform")
    return Plan((*known, *(line for line in lines if line.name not in told)), None, part)


def _kind(dataset: Any) -> str:
    """Who is asked about a dataset. Its class picks the one recogniser that can say yes, or why not; the
    modules of the others are not entered. Goes by names where a class may not have been imported.
    """
    root = _root(dataset)
    cls = type(root)
    bases = {f"{base.__module__}.{base.__qualname__}" for base in cls.__mro__}
    if _STREAM in bases and root is dataset:
        return "stream"
    if isinstance(root, BatchDataset):
        return "rows" if cls in ROWS or lies_in_memory(root) else "batches"
    if cls is ConcatDataset and joins_pictures(root):
        return "pictures"
    if cls in ROWS or f"{cls.__module__}.{cls.__qualname__}" == _ARROW:
        return "pictures" if has_transform(root) else "rows"
    return "pictures" if bases & PICTURES or "__getitems__" in getattr(root, "__dict__", ()) else "python"


def _root(dataset: Any) -> Any:
    while type(dataset) is Subset:
        dataset = dataset.dataset
    return dataset


def order_advice(loader: Any) -> str | None:
    """What the loader's order costs its dataset, if it is one that makes batches and there is something to
    say.
    """
    root = _root(loader.dataset)
    if not isinstance(root, BatchDataset):
        return None
    return root.order_advice(inner_sampler(loader.batch_sampler or loader.sampler))


def _stream_plan(loader: Any) -> Plan:
    stages = _Stages()
    stream: Stream | None = stages.ask("dataset", lambda: recognise_stream(loader))
    transform = stages.ask("transform", lambda: _transform(stream)) if stream is not None else None
    if loader._auto_collation:
        stages.ask("collate_fn", lambda: (recognise_collate(loader.collate_fn), None))
    stages.ask_worker_init(loader)
    spec: StreamSpec | None = None
    if stream is not None and transform is not None and not stages.refusing():
        made, decides = (transform[0], transform[1].views), "decides about pictures that cannot be decoded"
        if stream.handler is None:
            spec = stream.spec(*made, loader)
        else:
            spec = stages.ask("handler", lambda: (decides, stream.spec(*made, loader)))
    if spec is not None:
        return Plan(stages.finish(), spec)
    from .stream_prefix import known_stream

    return _partial_plan(loader, stages, partial(known_stream, loader.dataset), refusal_told=True)


def _batch_plan(loader: Any) -> Plan:
    stages = _Stages()
    source: BatchSource | None = stages.ask("dataset", lambda: recognise_batches(loader))
    stages.ask("sampler", lambda: _sampler(loader))
    collate = stages.ask("collate_fn", lambda: recognise_batch_collate(loader, source))
    stages.ask_worker_init(loader)
    return Plan(
        stages.finish(), None if stages.refusing() or source is None else batch_spec(loader, source, collate)
    )


def _dataset(loader: Any, kind: str) -> tuple[str, Source | RowSet]:
    dataset = loader.dataset
    if kind == "python":
        raise NotLowered(f"{type(_root(dataset)).__name__} {IS_PYTHON}")
    if kind == "rows":
        rows = recognise_rows(dataset)
        if loader.on_error != "raise" and rows.refuses:
            raise NotLowered(
                f'on_error="{loader.on_error}" looks at samples one by one, in Python; max_token= makes some'
                " of them errors"
            )
        place = "mapped files" if rows.mapped_files else "memory"
        return f"{rows.name} of {rows.length} samples in {place}, copied row by row", rows
    source = recognise_source(dataset)
    return source.name, source


def _rows_spec(loader: Any, rows: RowSet, collate: PythonCollate | None) -> RowsSpec:
    fetcher = _DatasetKind.create_fetcher(
        _DatasetKind.Map, loader.dataset, True, default_collate, loader.drop_last
    )
    in_order = type(inner_sampler(loader._index_sampler)) is SequentialSampler
    return RowsSpec(rows, fetcher.fetch, in_order, collate)


def _collate(loader: Any, data: Source | RowSet | None, transform: Any) -> tuple[str, PythonCollate | None]:
    if isinstance(data, RowSet):
        reason, collate = recognise_batch_function(loader.collate_fn, data.sample_types)
        return (reason or recognise_collate(loader.collate_fn, data.sample_types)), collate
    if data is None and not is_default_collate(loader.collate_fn) and loader._auto_collation:
        name = holder_name(loader.collate_fn)
        raise NotLowered(
            f"{name} is not torch's default_collate; it is called where samples are made, as by torch's"
            " loader, and takes no longer than there"
        )
    if data is None or not loader._auto_collation:
        return recognise_collate(loader.collate_fn), None
    container = tuple if data.form is None else dict
    if transform is None:
        return recognise_any_collate(loader.collate_fn, torch.Tensor, None, container)
    return recognise_any_collate(loader.collate_fn, transform[1].row_type, transform[1].views, container)


def _transform(
    source: Source | Stream, any_sizes: bool = False
) -> tuple[str, tuple[list[_core.ImagePipeline], Lowered]]:
    """any_sizes: pictures of a batch need not have one size."""
    made, chains, names = _chains(source)
    for part in getattr(source, "parts", ())[1:]:
        other, other_chains, _ = _chains(part)
        alike = other.row_type == made.row_type and other.views == made.views
        if other_chains != chains or not alike or other.drawn_size != made.drawn_size:
            raise NotLowered(
                f"ConcatDataset's parts have different transforms: that of {part.name} is not that of"
                f" {source.parts[0].name}; give all of them the same"  # type: ignore[union-attr]
            )
    reason = ", ".join(names)
    if made.drawn_size is not None:
        reason += f"; each batch has a size of {made.drawn_size}"
    return reason, (made.pipelines(chains, any_sizes), made)


def _chains(source: Source | Stream) -> tuple[Lowered, list[list[dict[str, Any]]], list[str]]:
    """(the transform, as the engine takes each of its views, the names of what is in it)"""
    # loaders of rows do without the many modules of these
    from ..._common.lowering.batch_sizes import BatchSizes
    from ..._common.lowering.transforms import lowered

    if isinstance(source, Source):
        made = lowered(source.transform, BatchSizes())
        return (made, *chains_of(source, made))
    made = lowered(source.transform)
    if made.views is not None:
        source.check_views(made.views)
    if made.row_type is np.ndarray:
        raise NotLowered("streams make tensors, and ToNumpy arrays; use MaybePILToTensor")
    return made, made.chains, made.names


def _files(source: Source) -> tuple[str, Files]:
    files = source.make_files()
    return counted(source, files), files


def _sampler(loader: Any) -> tuple[str, None]:
    if not loader._auto_collation:
        raise NotLowered("batch_size=None hands out single samples; give a batch_size to batch natively")
    index_sampler = loader._index_sampler
    batches, name = native(index_sampler), type(index_sampler).__name__
    if type(batches) is BatchSampler:
        name = f"{type(batches.sampler).__name__} in batches of {batches.batch_size}"
        if (sampler := native(batches.sampler)) is not None:
            own = isinstance(sampler, GlobalOrderSampler)
            computed = isinstance(sampler, RandomSampler) and sampler.is_computed()
            return f"{name}, {'millrace' if own or computed else 'torch'}'s order and draws", None
    return f"{name} runs in the consumer's thread and feeds the engine", None
