"""The planner: a loader's parts, looked at one by one, become one native spec or none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data import SequentialSampler, default_collate
from torch.utils.data.dataloader import _DatasetKind

from ... import _core
from ..._common.lowering.holders import holder_name
from ..._common.lowering.refusal import NotLowered
from ..._common.lowering.rows import RowSet
from ...samplers.native import inner_sampler
from ..engine import EngineSpec
from ..engines.images import Files, ImageSpec
from ..engines.rows import RowsSpec
from ..seeding import recognise_worker_init
from .batches import BatchSource, batch_spec, is_batches, recognise_batch_collate, recognise_batches
from .collate import recognise_collate
from .decoding import decoded_on_device
from .grey import grey_chains
from .in_memory import is_in_memory, recognise_rows
from .python_collate import PythonCollate, recognise_any_collate, recognise_batch_function, with_targets
from .samplers import has_torchs_order, is_plain, sampler_name
from .source import Source
from .sources import joins_pictures, recognise_source
from .streams import Stream, is_stream, recognise_stream
from .timm_collate import is_fast_collate

if TYPE_CHECKING:
    from ..._common.lowering.transforms import Lowered
    from ..engines.stream import StreamSpec


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
    decode_refusal: str | None = None
    """Why pictures are not decoded on the device, "" when they are; None: that was not asked for."""

    def __str__(self) -> str:
        lines = list(map(str, self.stages))
        if self.decode_refusal is not None:
            on_gpu = _ON_GPU[bool(getattr(self.spec, "balances", False))]
            lines.append(
                f"decode: cpu — {self.decode_refusal}" if self.decode_refusal else f"decode: gpu — {on_gpu}"
            )
        return "\n".join(lines)


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


def make_plan(loader: Any) -> Plan:
    """The plan for the next iterator of `loader`, a millrace.DataLoader; draws nothing and reads no file."""
    plan = _plan_on_the_cpu(loader)
    if loader.decode == "cpu" or loader._millrace_device is None:
        return plan
    return Plan(plan.stages, *decoded_on_device(loader, plan.spec))


def _plan_on_the_cpu(loader: Any) -> Plan:
    if loader.native == "never":
        return Plan((Stage("loader", False, 'native="never" was asked for'),), None)

    if is_stream(loader.dataset):
        return _stream_plan(loader)
    if is_batches(loader.dataset) and not is_in_memory(loader.dataset):
        return _batch_plan(loader)
    stages = _Stages()
    data: Source | RowSet | None = stages.ask("dataset", lambda: _dataset(loader))
    transform = stages.ask("transform", lambda: _transform(data)) if isinstance(data, Source) else None
    if isinstance(data, Source) and data.target_transforms:
        stages.ask("target_transform", lambda: (_told_of_targets(data), None))
        stages.beside.add("target_transform")
    stages.ask("sampler", lambda: _sampler(loader))
    collate: PythonCollate | None = stages.ask("collate_fn", lambda: _collate(loader, data, transform))
    if collate is not None:
        stages.beside.add("collate_fn")
    stages.ask(
        "worker_init_fn", lambda: (recognise_worker_init(loader.worker_init_fn, loader.num_workers), None)
    )
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
                collate = with_targets(collate, files.targets)
            elif collate is not None and made.views is None and is_fast_collate(loader, made.dtype):
                stages.ask(
                    "collate_fn", lambda: ("fast_collate; rows are written straight into the batch", None)
                )
                stages.beside.discard("collate_fn")
                collate, arrangement = None, tuple
            options = data.index_maps, collate, data.on_error, arrangement
            spec = ImageSpec(files, tuple(pipelines), made.views, *options)
    return Plan(stages.finish(), spec)


def _stream_plan(loader: Any) -> Plan:
    stages = _Stages()
    stream: Stream | None = stages.ask("dataset", lambda: _stream(loader))
    transform = stages.ask("transform", lambda: _transform(stream)) if stream is not None else None
    if loader._auto_collation:
        stages.ask("collate_fn", lambda: (recognise_collate(loader.collate_fn), None))
    stages.ask(
        "worker_init_fn", lambda: (recognise_worker_init(loader.worker_init_fn, loader.num_workers), None)
    )
    spec: StreamSpec | None = None
    if stream is not None and transform is not None and not stages.refusing():
        (pipeline,), decides = transform[0], "decides about pictures that cannot be decoded"
        if stream.handler is None:
            spec = stream.spec(pipeline, loader)
        else:
            spec = stages.ask("handler", lambda: (decides, stream.spec(pipeline, loader)))
    return Plan(stages.finish(), spec)


def _batch_plan(loader: Any) -> Plan:
    stages = _Stages()
    source: BatchSource | None = stages.ask("dataset", lambda: _batches(loader))
    stages.ask("sampler", lambda: _sampler(loader))
    collate = stages.ask("collate_fn", lambda: recognise_batch_collate(loader, source))
    stages.ask(
        "worker_init_fn", lambda: (recognise_worker_init(loader.worker_init_fn, loader.num_workers), None)
    )
    return Plan(
        stages.finish(), None if stages.refusing() or source is None else batch_spec(loader, source, collate)
    )


def _batches(loader: Any) -> tuple[str, BatchSource]:
    source = recognise_batches(loader)
    return f"{source.name} of {source.length} samples, whole batches made in threads", source


def _stream(loader: Any) -> tuple[str, Stream]:
    stream = recognise_stream(loader)
    return f"{stream.name}, its pictures read by the engine's threads, the rest in the consumer's", stream


def _dataset(loader: Any) -> tuple[str, Source | RowSet]:
    dataset = loader.dataset
    if is_in_memory(dataset) and not joins_pictures(dataset):
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
    if data is None or not loader._auto_collation:
        return recognise_collate(loader.collate_fn), None
    if transform is None:
        return recognise_any_collate(loader.collate_fn, torch.Tensor)
    return recognise_any_collate(loader.collate_fn, transform[1].row_type, transform[1].views)


def _transform(source: Source | Stream) -> tuple[str, tuple[list[_core.ImagePipeline], Lowered]]:
    made, chains, names = _chains(source)
    for part in getattr(source, "parts", ())[1:]:
        other, other_chains, _ = _chains(part)
        if (other_chains, other.row_type, other.views) != (chains, made.row_type, made.views):
            raise NotLowered(
                f"ConcatDataset's parts have different transforms: that of {part.name} is not that of"
                f" {source.parts[0].name}; give all of them the same"  # type: ignore[union-attr]
            )
    return ", ".join(names), (made.pipelines(chains), made)


def _chains(source: Source | Stream) -> tuple[Lowered, list[list[dict[str, Any]]], list[str]]:
    """(the transform, as the engine takes each of its views, the names of what is in it)"""
    from ..._common.lowering.transforms import lowered  # loaders of rows do without its many modules

    made = lowered(source.transform)
    if not isinstance(source, Source):
        if made.views is not None:
            raise NotLowered("streams have no native form for several views of a picture; index the shards")
        if made.row_type is np.ndarray:
            raise NotLowered("streams make tensors, and ToNumpy arrays; use MaybePILToTensor")
        return made, made.chains, made.names
    if source.any_mode and not made.begins_with_rgb:
        raise NotLowered(
            f"{source.name} leaves pictures in the modes of their files; begin the transform with"
            " torchvision.transforms.v2.RGB()"
        )
    if source.grey:
        return made, grey_chains(made), made.names
    if source.exif:
        turned = [[{"op": "exif_transpose"}, *chain] for chain in made.chains]
        return made, turned, ["EXIF orientation", *made.names]
    return made, made.chains, made.names


def _told_of_targets(source: Source) -> str:
    names = dict.fromkeys(map(holder_name, source.target_transforms))
    return f"{', '.join(names)}, called in next() for each sample of the batch, in order"


def _files(source: Source) -> tuple[str, Files]:
    files = source.make_files()
    kept = "pictures in memory" if isinstance(files.files, _core.PixelFiles) else "files"
    return f"{source.name} of {len(files.files)} {kept}", files


def _sampler(loader: Any) -> tuple[str, None]:
    if not loader._auto_collation:
        raise NotLowered("batch_size=None hands out single samples; give a batch_size to batch natively")
    index_sampler = loader._index_sampler
    if is_plain(index_sampler):
        return (
            (
                f"{sampler_name(index_sampler)},"
                f" {'torch' if has_torchs_order(index_sampler) else 'millrace'}'s order and draws"
            ),
            None,
        )
    return f"{sampler_name(index_sampler)} runs in the consumer's thread and feeds the engine", None
