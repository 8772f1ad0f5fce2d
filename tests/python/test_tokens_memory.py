"""A sparse file of 200 GB: what an epoch's beginning, shuffled and resumed, adds to the process' memory."""

from __future__ import annotations

import json

import pytest
from python_code import run_code

CODE = """
import json, sys
import millrace
from millrace.datasets import Tokens

def anonymous():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon")) / 1000

before = anonymous()
path, stride, workers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
tokens = Tokens(path, 2048, "uint16", stride=stride)
loader = millrace.DataLoader(tokens, 16, shuffle=True, num_workers=workers, native="require")
for number, (x, y) in zip(range(200), loader):
    assert x.shape == (16, 2048) and not x.any()
other = millrace.DataLoader(tokens, 16, shuffle=True, num_workers=workers)
other.load_state_dict(loader.state_dict())
next(iter(other))
print(json.dumps({"before": before, "added": anonymous() - before, "windows": len(tokens),
                  "engine": loader.stats()["engine"]}))
"""


@pytest.mark.parametrize("stride, workers", [(1, 2), (2048, 0), (2048, 2)])
def test_200_gigabytes_in_200_megabytes(tmp_path, stride, workers):
    path = tmp_path / "tokens.bin"
    with open(path, "wb") as file:
        file.truncate(200_000_000_000)
    found = json.loads(run_code(CODE, path, stride, workers).stdout)
    assert found["windows"] == (10**11 - 2049) // stride + 1
    assert found["added"] < 20, found
    assert found["before"] + found["added"] < 200, found  # torch alone: 147
