"""Rules of the transforms that say where a picture's pixels go, beyond crops and flips: borders, sizes that
are drawn, and maps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .chain import Chain, Rule, fill, interpolation_name, padding, pair, picture_fill
from .fields import by_fields
from .recognising import V1, NotLowered


def _frame(chain: Chain, name: str, kind: str, t: Any, **arguments: Any) -> None:
    """`t`: has fill and padding_mode."""
    colour = picture_fill(name, t.fill) if chain.dtype is None else fill(name, t.fill)
    mode = getattr(t, "padding_mode", "constant")
    op = {"op": "frame", "kind": kind, "fill": colour, "padding_mode": getattr(mode, "value", mode)}
    chain.crop(name, op | arguments)


def _pad(chain: Chain, t: Any, family: str) -> None:
    sides = [t.padding] if isinstance(t.padding, int) else t.padding
    if not isinstance(sides, Sequence) or not all(isinstance(side, int) for side in sides):
        raise NotLowered(f"Pad(padding={t.padding!r}) are no whole numbers")
    _frame(
        chain, "Pad", "pad", t, padding=padding(t.padding, V1)
    )  # all families keep torchvision's v1's order


def _random_zoom_out(chain: Chain, t: Any, family: str) -> None:
    low, high = t.side_range
    _frame(chain, "RandomZoomOut", "zoom_out", t, side_range=(float(low), float(high)), p=float(t.p))


def framed(name: str, kind: str) -> Rule:
    """timm's CenterCropOrPad and RandomCropOrPad."""

    def lower(chain: Chain, t: Any, family: str) -> None:
        height, width = pair(name, t.size)
        _frame(chain, name, kind, t, height=height, width=width)

    return lower


# -- sizes that depend on the picture


def _drawn_resize(chain: Chain, t: Any, family: str, name: str, **arguments: Any) -> None:
    mode = interpolation_name(name, t.interpolation)
    op = {"op": "drawn_resize", "interpolation": mode, "interpolations": [mode]}
    chain.resample(name, t, family, op | arguments)


def _random_shortest_size(chain: Chain, t: Any, family: str) -> None:
    sizes = [_whole("RandomShortestSize", size) for size in t.min_size]
    most = 0 if t.max_size is None else _whole("RandomShortestSize", t.max_size)
    _drawn_resize(chain, t, family, "RandomShortestSize", kind="shortest", sizes=sizes, max_size=most)


def _scale_jitter(chain: Chain, t: Any, family: str) -> None:
    height, width = pair("ScaleJitter", t.target_size)
    low, high = t.scale_range
    where = {"height": height, "width": width, "scale": (float(low), float(high))}
    _drawn_resize(chain, t, family, "ScaleJitter", kind="jitter", **where)


def _random_resize(chain: Chain, t: Any, family: str) -> None:
    sizes = [_whole("RandomResize", t.min_size), _whole("RandomResize", t.max_size)]
    _drawn_resize(chain, t, family, "RandomResize", kind="between", sizes=sizes)


def _whole(name: str, size: Any) -> int:
    if not isinstance(size, int):
        raise NotLowered(f"{name} of {size!r} is no whole number")
    return size


# -- maps


def _center(t: Any) -> tuple[float, float] | None:
    if t.expand:
        raise NotLowered(
            "RandomRotation(expand=True) makes pictures of any size and has no native form; leave expand out"
        )
    return None if t.center is None else (float(t.center[0]), float(t.center[1]))


def _shear(t: Any) -> tuple[float, ...]:
    return tuple(map(float, [0.0] * 4 if t.shear is None else [*t.shear, 0.0, 0.0][:4]))


def _several(chain: Chain, t: Any, family: str) -> None:
    raise NotLowered(
        f"{type(t).__name__} makes several pictures; what follows it has to be known, and all of it the whole"
        " transform"
    )


GEOMETRY: dict[str, Rule] = {
    "FiveCrop": _several,
    "TenCrop": _several,
    "Pad": _pad,
    "RandomZoomOut": _random_zoom_out,
    "RandomShortestSize": _random_shortest_size,
    "ScaleJitter": _scale_jitter,
    "RandomResize": _random_resize,
    "RandomRotation": by_fields("random_rotation", center=_center),
    "RandomAffine": by_fields("random_affine", shear=_shear),
    "RandomPerspective": by_fields("random_perspective"),
}
