"""torchdata: StatefulDataLoader derives from the class that is installed, but makes its iterators itself."""

import subprocess
import sys

import pytest

pytest.importorskip("torchdata.stateful_dataloader")

SCRIPT = """
import torch
import millrace
{install}
from torchdata.stateful_dataloader import StatefulDataLoader
torch.manual_seed(3)
loader = StatefulDataLoader(list(range(13)), 4, shuffle=True, num_workers={workers})
iterator = iter(loader)
seen = [next(iterator).tolist()]
state = loader.state_dict()
rest = [batch.tolist() for batch in iterator]
loader.load_state_dict(state)
assert [batch.tolist() for batch in loader] == rest
print(seen + rest)
if {install!r}:
    assert issubclass(StatefulDataLoader, millrace.DataLoader) and isinstance(loader, millrace.DataLoader)
    print(loader.stats()["engine"])
    plain = torch.utils.data.DataLoader(list(range(13)), 4, num_workers={workers})
    assert len(list(plain)) == 4
    print(plain.stats()["engine"])
"""


@pytest.mark.parametrize("workers, engine", [(0, "inline"), (2, "processes")])
def test_it_is_imported_while_ours_is_installed(workers, engine):
    def run(install):
        script = SCRIPT.format(install=install, workers=workers)
        return subprocess.run(
            [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, timeout=200
        )

    expected, ours = run(""), run("millrace.install()")
    assert ours.stdout.splitlines() == [expected.stdout.strip(), engine, engine], ours.stderr
