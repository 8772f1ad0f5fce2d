"""Transforms: torchvision's v1 and v2 classes, timm's and millrace's own, as the chain of dicts that
`_core.ImagePipeline` takes.

A chain describes: changes of the picture, one conversion to a tensor, normalisation, erasing. A user's list
may mix these: steps that commute are sorted (a flip after ToTensor is the same flip before it), and an order
that would change values is refused. Sizes are pixels.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ... import _core
from ...transforms.batch_size import RandomBatchSize
from .as_shipped import makes_crops
from .batch_sizes import BatchSizes, of_each_size, sides_per_batch
from .branches import HOLDERS_BY_CHANCE
from .chain import FLOATS, Chain, Rule, fill, floats, interpolation_name, is_fixed, padding, pair, type_of
from .fields import by_fields
from .geometry import GEOMETRY
from .policies import POLICIES
from .read_values import Picture, Steps
from .recognising import V1, V2, NotLowered, loaded
from .source_steps import add_read
from .view_chains import of_views
from .views import Seen, Views, seen_views


@dataclass(frozen=True)
class Lowered:
    """Transforms as op chains. `chains`: the arguments of `_core.ImagePipeline`, one chain for each of the
    `views`; if `views` is None, one view is the whole sample. `names`: the transforms in the chains.
    `row_type`: the class that the transforms themselves return: tensors, torchvision's Image after v2's
    ToImage, numpy's array after timm's ToNumpy; None if not known. `begins_with_rgb`: whether pictures of all
    modes become RGB before any other step; `makes_rgb`: whether grey pictures become RGB at any step; None:
    sometimes. `drawn_size`: the RandomBatchSize used as a size, if any (others may draw alike); `chains` then
    has one entry per size.
    """

    chains: list[list[dict[str, Any]]]
    names: list[str]
    row_type: type | None
    begins_with_rgb: bool = False
    makes_rgb: bool | None = False
    views: Views | None = None
    drawn_size: RandomBatchSize | None = None
    stacks: bool = False  # whether views are stacked at any step

    @property
    def is_random(self) -> bool:
        return not all(is_fixed(op) for chain in self.chains for op in chain)

    @property
    def dtype(self) -> str:
        """The type of all views, by the engine's name."""
        return type_of(self.chains[0])

    def pipelines(
        self, chains: Sequence[list[dict[str, Any]]], any_sizes: Callable[[], bool] = lambda: False
    ) -> list[_core.ImagePipeline]:
        """The engine's pipelines of `chains`, this object's, to which the caller may have added a step.

        NotLowered if the engine refuses an op's arguments (torchvision then refuses them in its own words),
        if one of several views has no fixed size, or if stacked views differ in size. `any_sizes` says
        whether the pictures of a batch may differ in size; it is called only where that matters.
        """
        try:
            made = [_core.ImagePipeline(chain) for chain in chains]
        except ValueError as error:
            raise NotLowered(str(error)) from None
        shapes = {pipeline.fixed_shape for pipeline in made}
        if self.stacks and len(shapes) > 1:
            raise NotLowered("views of several sizes are stacked, which torch.stack refuses")
        if (
            self.drawn_size is None
            and None in shapes
            and (self.stacks or (len(made) > 1 and not any_sizes()))
        ):
            raise NotLowered(
                "one of several views has the size of its picture; end it with a crop or a resize to a fixed"
                " size"
            )
        return made


def lowered(transform: Any, sizes: BatchSizes | None = None) -> Lowered:
    """Lower `transform` to op chains. NotLowered names the first transform that must run in Python. `sizes`:
    pass a new BatchSizes only if the caller handles `Lowered.drawn_size`.
    """
    if transform is None:
        raise NotLowered(
            "without a transform samples are PIL images, which default_collate refuses; end with ToTensor()"
            " or ToImage()"
        )
    chain = new_chain()
    chain.batch_sizes = sizes
    several = makes_crops(transform) or not chain.knows(transform)
    if several and (seen := seen_views(transform)) is not None:
        return Lowered(**of_views(transform, seen, new_chain))
    chain.add(transform)
    size, ops = None if sizes is None else sizes.first, chain.finish()
    made = [ops] if size is None else of_each_size(ops, size)
    what = chain.names, chain.row_type, chain.begins_with_rgb, chain.makes_rgb
    return Lowered(made, *what, drawn_size=size)


def lowered_lines(
    function: Any, lines: Sequence[Sequence[Picture]], stacked: bool, sizes: BatchSizes | None = None
) -> Lowered:
    """Lower the steps that `function` applies to a picture for each of its views (`lines`), as lowered()
    does. A single view that is not stacked is lowered without an arrangement of views.
    """
    if len(lines) == 1 and not stacked:
        return lowered(Steps(function, tuple(picture.step for picture in lines[0])), sizes)
    views = Views(0, stacked=True) if stacked else Views(list(range(len(lines))))
    return Lowered(**of_views(function, Seen(views, [list(line) for line in lines]), new_chain))


def new_chain() -> Chain:
    return Chain(_LOWERED, _timm_rules, add_read)


def _sides(chain: Chain, name: str, size: Any, one_is_shorter: bool = False) -> dict[str, Any]:
    """ "height" and "width" of an op. `one_is_shorter`: if `size` is one number, the width is 0."""
    if isinstance(size, RandomBatchSize):
        return sides_per_batch(chain, name, size, lambda one: _sides(chain, name, one, one_is_shorter))
    height, width = pair(name, size)
    one = isinstance(size, int) or len(size) == 1
    return {"height": height, "width": 0 if one and one_is_shorter else width}


def _random_resized_crop(chain: Chain, t: Any, family: str) -> None:
    name = "RandomResizedCrop"
    op = {
        "op": "random_resized_crop",
        **_sides(chain, name, t.size),
        "interpolation": interpolation_name(name, t.interpolation),
        "scale": tuple(map(float, t.scale)),
        "ratio": tuple(map(float, t.ratio)),
    }
    chain.resample(name, t, family, op)


def _resize(chain: Chain, t: Any, family: str) -> None:
    op = {
        "op": "resize",
        **_sides(chain, "Resize", t.size or (0, 0), one_is_shorter=True),  # None: max_size is the longer side
        "max_size": t.max_size or 0,
        "interpolation": interpolation_name("Resize", t.interpolation),
    }
    chain.resample("Resize", t, family, op)


def _center_crop(chain: Chain, t: Any, family: str) -> None:
    chain.crop("CenterCrop", {"op": "center_crop", **_sides(chain, "CenterCrop", t.size)})


def _random_crop(chain: Chain, t: Any, family: str) -> None:
    sides = _sides(chain, "RandomCrop", t.size)
    op: dict[str, Any] = {"op": "random_crop", **sides, "padding": padding(t.padding, family)}
    border = {
        "fill": fill("RandomCrop", t.fill),
        "padding_mode": getattr(t.padding_mode, "value", t.padding_mode),
    }
    op.update(border, pad_if_needed=bool(t.pad_if_needed))
    if family == V1 and t.pad_if_needed and any(op["padding"]):
        # v1 pads twice, and its second padding reflects the first; the others pad once.
        chain.crop("RandomCrop", {"op": "frame", "kind": "pad", "padding": op["padding"], **border})
        op["padding"] = (0, 0, 0, 0)
    chain.crop("RandomCrop", op)


def _flip(op: str) -> Callable[[Chain, Any, str], None]:
    return lambda chain, t, family: chain.change({"op": op, "p": float(t.p)})


def _grayscale(chain: Chain, t: Any, family: str) -> None:
    if t.num_output_channels not in (1, 3):
        raise NotLowered(f"Grayscale({t.num_output_channels!r}) makes neither one channel nor three")
    chain.change_picture({"op": "grayscale"}, "Grayscale")
    chain.makes_rgb = t.num_output_channels == 3
    chain.grey_from = None if chain.makes_rgb else len(chain.picture)


def _gaussian_noise(chain: Chain, t: Any, family: str) -> None:
    if chain.dtype is not torch.float32:
        raise NotLowered(
            "GaussianNoise is native for tensors of float32; put ToTensor() or ToDtype(torch.float32,"
            " scale=True) before it"
        )
    if chain.noise:
        raise NotLowered("GaussianNoise stands twice; keep one of them")
    chain.noise.append(
        {"op": "gaussian_noise", "mean": float(t.mean), "sigma": float(t.sigma), "clip": bool(t.clip)}
    )
    chain.noise_first = not chain.normalize


def _gaussian_blur(chain: Chain, t: Any, family: str) -> None:
    if chain.dtype not in (None, torch.uint8):
        raise NotLowered("GaussianBlur of floats does not round to bytes; put it before ToTensor or ToDtype")
    low, high = t.sigma
    op = {
        "op": "gaussian_blur",
        "kernel_size": pair("GaussianBlur", t.kernel_size),
        "sigma": (float(low), float(high)),
    }
    chain.change({**op, "p": 1.0})


def _random_erasing(chain: Chain, t: Any, family: str) -> None:
    if chain.dtype not in FLOATS:
        raise NotLowered(
            "RandomErasing is native for float tensors; put ToTensor() or ToDtype(torch.float32, scale=True)"
            " before it"
        )
    noise = t.value is None or isinstance(t.value, str)
    value = [] if noise else [t.value] if isinstance(t.value, (int, float)) else t.value
    op = {
        "op": "random_erasing",
        "p": float(t.p),
        "scale": tuple(map(float, t.scale)),
        "ratio": tuple(map(float, t.ratio)),
    }
    chain.erasing.append({**op, "value": [float(v) for v in value]})


def _to_tensor(chain: Chain, t: Any, family: str) -> None:
    dtype = torch.get_default_dtype()
    if dtype is torch.float64:
        raise NotLowered(
            "ToTensor makes torch's default dtype, and divides doubles, which the engine does not; take v2's"
            " ToDtype(torch.float64, scale=True)"
        )
    chain.convert("ToTensor", dtype)


def _to_bytes(chain: Chain, t: Any, family: str) -> None:
    if type(t).__name__ == "ToImage" and family == V2:
        chain.row_type = loaded("torchvision.tv_tensors", "Image")
    if type(t).__name__ == "ToImage" and chain.dtype is not None:
        return  # torchvision only relabels a tensor
    chain.convert(type(t).__name__, torch.uint8)


def _to_dtype(chain: Chain, t: Any, family: str) -> None:
    name, dtype = type(t).__name__, t.dtype
    if chain.dtype is None:
        raise NotLowered(f"{name} does nothing to PIL images; put ToImage() or PILToTensor() before it")
    if dtype is chain.dtype:
        return
    if isinstance(dtype, dict) or dtype not in FLOATS:
        raise NotLowered(
            f"{name}({dtype}) has no native form; the engine makes uint8, float16, bfloat16, float32 and"
            " float64"
        )
    if chain.dtype is torch.uint8 and not getattr(t, "scale", True):
        raise NotLowered("ToDtype to a float type without scale=True keeps 0..255; pass scale=True")
    if chain.normalize or chain.noise:
        before = "Normalize" if chain.normalize else "GaussianNoise"
        raise NotLowered(
            f"{name} follows {before}, whose results it rounds once more; put it before {before}"
        )
    if chain.dtype is not torch.uint8 and torch.finfo(dtype).bits > torch.finfo(chain.dtype).bits:
        raise NotLowered(f"{name} widens {chain.dtype} to {dtype}; convert once")
    if chain.dtype not in (torch.uint8, torch.float32):
        raise NotLowered(f"{name} rounds {chain.dtype} once more, to {dtype}; convert once")
    if dtype is torch.float64 and family == V1:
        raise NotLowered(
            f"v1's {name}({dtype}) divides doubles, which the engine does not; take v2's ToDtype"
        )
    if chain.dtype is torch.uint8:
        chain.multiply = family != V1
    chain.dtype = dtype


def _normalize(chain: Chain, t: Any, family: str) -> None:
    if chain.dtype not in FLOATS:
        raise NotLowered(
            "Normalize needs a float tensor; put ToTensor() or ToDtype(torch.float32, scale=True) before it"
        )
    chain.normalize.append({"op": "normalize", "mean": floats(t.mean), "std": floats(t.std)})


def _unless_tensor(rule: Rule) -> Rule:
    def lower(chain: Chain, t: Any, family: str) -> None:
        if chain.dtype is None:
            rule(chain, t, family)

    return lower


def _nothing(chain: Chain, t: Any, family: str) -> None:
    """Do nothing: on the RGB pictures and plain tensors of these chains, the transform does not change the
    batch.
    """


def _rgb(chain: Chain, t: Any, family: str) -> None:
    if not chain.picture and chain.dtype is None:
        chain.begins_with_rgb = True
    chain.makes_rgb, chain.grey_from = True, None


def _to_pure_tensor(chain: Chain, t: Any, family: str) -> None:
    chain.row_type = torch.Tensor


# What docs/native.md says of it (scripts/native_table.py).
BESIDES = 'functions that only `return picture.convert("RGB")`; [with these limits](#what-has-no-native-form)'
# By class name: the family's module path decides whether a class is the library's; the name decides which
# transform it is.
_LOWERED: dict[str, Rule] = {
    "RandomResizedCrop": _random_resized_crop,
    "Resize": _resize,
    "CenterCrop": _center_crop,
    "RandomCrop": _random_crop,
    "RandomHorizontalFlip": _flip("horizontal_flip"),
    "RandomVerticalFlip": _flip("vertical_flip"),
    **GEOMETRY,
    "ColorJitter": by_fields("color_jitter", p=lambda t: 1.0),
    "Grayscale": _grayscale,
    "RandomGrayscale": by_fields("random_grayscale"),
    "GaussianBlur": _gaussian_blur,
    "RandomPhotometricDistort": by_fields("photometric_distort"),
    "GaussianNoise": _gaussian_noise,
    **HOLDERS_BY_CHANCE,
    **POLICIES,
    "RandomErasing": _random_erasing,
    "ToTensor": _to_tensor,
    "PILToTensor": _to_bytes,
    "ToImage": _to_bytes,
    "ToDtype": _to_dtype,
    "ConvertImageDtype": _to_dtype,
    "Normalize": _normalize,
    "Identity": _nothing,
    "RGB": _rgb,
    "ToPureTensor": _to_pure_tensor,
}


@functools.cache
def _timm_rules() -> dict[str, Rule]:
    """The rules for classes in timm's own modules. timm's conversions leave tensors as they are."""
    from .timm_policies import TIMM_POLICIES  # not at the top: most programs have no timm
    from .timm_transforms import TIMM_TRANSFORMS

    conversions = {
        "MaybeToTensor": _unless_tensor(_to_tensor),
        "MaybePILToTensor": _unless_tensor(_to_bytes),
    }
    return {**conversions, **TIMM_TRANSFORMS, **TIMM_POLICIES}
