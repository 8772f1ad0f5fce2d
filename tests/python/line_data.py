"""Files of JSON lines for tests, and what Python's json and torch make of them."""

from __future__ import annotations

import gzip
import json
import math
import shutil
import subprocess

import numpy as np
import torch


def write_lines(path, lines, end="\n"):
    """Strings or bytes as lines; packed as the name's end says. Returns the path."""
    data = b"".join((line if isinstance(line, bytes) else line.encode()) + end.encode() for line in lines)
    return write_bytes(path, data)


def write_bytes(path, data):
    if str(path).endswith(".gz"):
        data = gzip.compress(data)
    elif str(path).endswith(".zst"):
        data = subprocess.run(
            [shutil.which("zstd"), "-qc"], input=data, capture_output=True, check=True
        ).stdout
    path.write_bytes(data)
    return str(path)


def write_json(path, values):
    return write_lines(path, [json.dumps(value) for value in values])


def alike(a, b):
    """Equality of values of JSON and tensors: types, keys in order, dtypes; NaN equals itself."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(alike(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, float):
        return a == b and math.copysign(1, a) == math.copysign(1, b) or (math.isnan(a) and math.isnan(b))
    if isinstance(a, torch.Tensor):
        return (
            a.dtype == b.dtype
            and a.shape == b.shape
            and np.array_equal(a.numpy(), b.numpy(), equal_nan=a.is_floating_point())
        )
    return a == b
