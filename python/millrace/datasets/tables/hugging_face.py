"""What Hugging Face's datasets say about a schema in its metadata: classes by name, arrays of one shape."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any


def _features(schema: Any) -> dict[str, Any]:
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
    except (KeyError, ValueError, TypeError):
        return {}
    known = features if isinstance(features, dict) else {}
    return {name: feature for name, feature in known.items() if isinstance(feature, dict)}


def class_names(schema: Any, columns: Sequence[str]) -> dict[str, list[Any]]:
    """{column: names of its classes}, which its integers number."""
    features = _features(schema)
    names = {
        name: features[name].get("names")
        for name in columns
        if features.get(name, {}).get("_type") == "ClassLabel"
    }
    return {name: list(found) for name, found in names.items() if isinstance(found, list)}


def array_shapes(schema: Any) -> Mapping[str, tuple[int, ...]]:
    """{column: shape} of arrays that are stored as lists of lists."""
    shapes = {}
    for name, feature in _features(schema).items():
        shape = feature.get("shape")
        if (
            str(feature.get("_type")).startswith("Array")
            and isinstance(shape, list)
            and all(isinstance(size, int) for size in shape)
        ):
            shapes[name] = tuple(shape)
    return shapes
