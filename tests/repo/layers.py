"""Who may use whom below src/. The same table, for people, is in src/README.md; test_layers.py keeps both
equal.
"""

from __future__ import annotations

LAYERS: dict[str, set[str]] = {
    "base": set(),
    "trace": {"base"},
    "core": {"base"},
    "io": {"base", "trace", "core"},
    "codecs": {"base", "core"},
    "transforms": {"base", "core"},
    "samplers": {"base"},
    "sources": {"base", "core", "io"},
    "arrays": {"base", "trace", "core", "io", "codecs"},
    "json": {"base"},
    "ordered": {"base", "trace", "core"},
    "collate": {"base", "trace", "core", "ordered"},
    "sequences": {"base", "core", "samplers", "collate"},
    "device": {"base", "trace", "core", "transforms"},
    "loader": {
        "base",
        "trace",
        "core",
        "io",
        "codecs",
        "transforms",
        "samplers",
        "sources",
        "arrays",
        "json",
        "ordered",
        "collate",
        "sequences",
        "device",
    },
    "tensors": {
        "base",
        "trace",
        "core",
        "io",
        "codecs",
        "transforms",
        "samplers",
        "sources",
        "arrays",
        "json",
        "ordered",
        "collate",
        "sequences",
        "device",
        "loader",
    },
    "cuda": {"base", "trace", "core", "transforms", "device"},
    "nocuda": {"base", "trace", "core", "transforms", "device"},
    "pictures": {"base", "core", "codecs", "transforms"},
    "tuning": {"base", "core"},
    "api": {
        "base",
        "trace",
        "core",
        "io",
        "codecs",
        "transforms",
        "samplers",
        "sources",
        "json",
        "collate",
        "sequences",
        "device",
        "loader",
    },
}

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
ADAPTERS = {"device_batch.h", "device_loader.h", "dlpack.h", "dlpack_types.h", "torch.h", "torch_tensor.h"}
