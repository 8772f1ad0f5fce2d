"""Chains of several views of a picture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .chain import Chain, is_fixed, type_of
from .read_values import Picture
from .recognising import NotLowered, holder_name
from .views import Seen


def of_views(transform: Any, seen: Seen, new_chain: Callable[[], Chain]) -> dict[str, Any]:
    """What Lowered is made of."""
    chains_by_steps: dict[tuple[int, ...], Chain] = {}

    def chain_of(line: list[Picture]) -> Chain:
        key = tuple(id(picture.step) for picture in line)
        if key not in chains_by_steps:
            made = chains_by_steps[key] = new_chain()
            for picture in line:
                made.add(picture.step)
        return chains_by_steps[key]

    name = holder_name(transform)
    for line in seen.shared():
        chain = chain_of(line)
        if chain.noise or chain.erasing or not all(map(is_fixed, chain.picture)):
            raise NotLowered(
                f"{name} changes the picture by chance before it makes several views of it; move that into"
                " the transforms of the views"
            )
    chains = [chain_of(line) for line in seen.lines]
    made = [chain.finish() for chain in chains]
    dtypes = dict.fromkeys(map(type_of, made))
    if len(dtypes) > 1:
        raise NotLowered(f"{name} makes views of several dtypes ({', '.join(dtypes)}); make them one")
    row_types = {chain.row_type for chain in chains}
    rgb = {chain.makes_rgb for chain in chains}
    inner = dict.fromkeys(", ".join(chain.names) for chain in chains)
    return {
        "chains": made,
        "names": [
            f"{name}: {len(made)} views{', stacked' if seen.views.stacked else ''} ({'; '.join(inner)})"
        ],
        "row_type": row_types.pop() if len(row_types) == 1 else None,
        "begins_with_rgb": all(chain.begins_with_rgb for chain in chains),
        "makes_rgb": rgb.pop() if len(rgb) == 1 else None,
        "views": seen.views,
        "stacks": any(chain.stacked_at is not None for chain in chains),
    }
