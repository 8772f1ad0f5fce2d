"""Who may use whom below src/, by the table of src/README.md, and what they may see from outside."""

from __future__ import annotations

import re

from repo_tree import ROOT, lines


def _of_the_map() -> dict[str, set[str]]:
    """Module -> modules that it may use, in the table's order."""
    rows: dict[str, set[str]] = {}
    for line in lines(ROOT / "src" / "README.md"):
        row = re.fullmatch(r"\| `([a-z_]+)` \| ([^|]*) \|[^|]*\|", line.strip())
        if row is not None:
            rows[row[1]] = set(rows) if row[2] == "all above" else set(re.findall(r"[a-z_]+", row[2]))
    return rows


LAYERS = _of_the_map()

# Outside headers by their beginning, and the only folders that may see them.
OUTSIDE: dict[str, set[str]] = {
    "jpeglib.h": {"src/codecs"},
    "jerror.h": {"src/codecs"},
    "libdeflate.h": {"src/codecs"},
    "webp/": {"src/codecs"},
    "zlib.h": {"src/io"},
    "zstd.h": {"src/io"},
    "hwy/": {"src/base", "src/codecs", "src/collate", "src/transforms"},
    "simdjson": {"src/json"},
    # of torch, which nothing is compiled against: only adapters see it (test_layers.py names them)
    "torch/": set(),
    "ATen/": {"include/millrace"},
    "c10/": {"include/millrace"},
    "pybind11/": {"src/tensors", "python/bindings"},
    "Python.h": {"src/tensors", "python/bindings"},
    "cuda_": {"src/cuda"},
    "nvjpeg": {"src/cuda"},
    "nvtx": {"src/cuda"},
}

# Public headers that are not in millrace.h: what they adapt to has to be there, or they are chosen by name.
ADAPTERS = {
    "device_ahead.h",
    "device_batch.h",
    "device_loader.h",
    "dlpack.h",
    "dlpack_types.h",
    "torch.h",
    "torch_tensor.h",
}
