"""A torch without the functions that are asked for by name: slower, never wrong. It is made by a copy of the
module in which their names are spoiled.
"""

import subprocess
import sys
from pathlib import Path

import millrace
import pytest
from millrace import _core

pytestmark = pytest.mark.slow

NAMES = (
    b"_ZN3c1035newStorageImplFromRefcountedDataPtr",
    b"aoti_torch_empty_strided_pinned",
    b"_ZN2at12hasCallbacksEv",
    b"aoti_torch_get_strides",
)

SCRIPT = """
import millrace, torch
from millrace import _core
from millrace._loader import iterator
from torch.utils.data import Subset, TensorDataset

assert len(_core.missing_in_torch()) == 4 and _core.ranges_are_heard()

def rows(loader):
    return torch.cat([batch[0] for batch in loader])

wide = torch.arange(40.0)[:, None].repeat(1, 70_000)
for memory in ("system", "page-locked"):
    iterator.batch_memory = lambda loader: memory
    for workers in (0, 2):
        loader = millrace.DataLoader(TensorDataset(wide), 4, num_workers=workers, native="require")
        assert torch.equal(rows(loader), wide)

table = wide.clone()
batches = iter(millrace.DataLoader(TensorDataset(table), 4, num_workers=2, native="require"))
seen = [next(batches)[0]]
table.share_memory_()
junk = [torch.full_like(wide, -1) for _ in range(2)]
seen += [batch[0] for batch in batches]
assert torch.equal(torch.cat(seen), wide)

order = torch.randperm(200_000)
kept = order.clone()
subset = Subset(TensorDataset(torch.arange(200_000)), order)
batches = iter(millrace.DataLoader(subset, 1000, native="require"))
seen = [next(batches)[0]]
order.share_memory_()
junk = [torch.full_like(kept, 2**60) for _ in range(4)]
seen += [batch[0] for batch in batches]
assert torch.equal(torch.cat(seen), kept)
"""


def test_a_torch_that_lacks_them(tmp_path):
    code = Path(_core.__file__).read_bytes()
    for name in NAMES:
        assert code.count(name) == 1, name
        code = code.replace(name, b"_" * len(name))
    package = tmp_path / "millrace"
    package.mkdir()
    for path in Path(millrace.__file__).parent.iterdir():
        if path.suffix != ".so":
            (package / path.name).symlink_to(path)
    (package / Path(_core.__file__).name).write_bytes(code)
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{SCRIPT}"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
