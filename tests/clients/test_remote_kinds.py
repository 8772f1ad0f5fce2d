"""remote="ray" over each kind of dataset, on one cluster of Ray: batches are the same whoever makes them."""

import gc
import json
import os
import random
import subprocess
import sys
import time

import numpy as np
import pytest
import remote_help
import torch
from remote_help import PATIENCE_S

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install ray")

import millrace  # noqa: E402
from millrace._history.hashes import BatchHash  # noqa: E402
from torch.utils.data import Dataset  # noqa: E402

COUNT, SIZE = 96, 8
TWO = {"actors": 2, "num_cpus": 1}
pytestmark = pytest.mark.filterwarnings("ignore:no remote worker answers:RuntimeWarning")


@pytest.fixture(scope="module")
def cluster():
    from ray.cluster_utils import Cluster

    # Ray sends the folder of the script, which is pytest's, to its workers
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([os.path.dirname(__file__), *filter(None, [before])])
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 32, "include_dashboard": False})
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()
    os.environ.pop("PYTHONPATH")
    if before is not None:
        os.environ["PYTHONPATH"] = before


class Drawn(Dataset):
    """Draws of all three generators, a word, and an array; samples are of this file's own type."""

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        if index == COUNT + 1:
            raise KeyError("sample of no file")
        values = torch.rand(3, 40, 50), random.random(), np.random.rand(600, 2)
        return {"values": values[0], "number": values[1], "array": values[2], "word": f"w{index}"}


class Lists(Drawn):
    def __getitems__(self, indices):
        shift = torch.rand(1)
        return [self[index] | {"shift": shift} for index in indices]


class Moving(Dataset):
    """Samples depend on what nobody seeds."""

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        return torch.tensor([time.perf_counter_ns()])


class Numbered(Dataset):
    """Says which epoch it was told of."""

    epoch = 0

    def __len__(self):
        return 16

    def __getitem__(self, index):
        return 100 * self.epoch + index


class Deadly(Dataset):
    """Sample 5 ends the process that asks for it first, sample 7 each one."""

    def __init__(self, folder):
        self.flag = str(folder / "died")

    def __len__(self):
        return 12

    def __getitem__(self, index):
        if index == 7 or index == 5 and not os.path.exists(self.flag):
            open(self.flag, "w").close()
            os._exit(1)
        return index


def ragged(samples):
    return [sample["word"] for sample in samples], {sample["number"] for sample in samples}


def loader_of(data, **options):
    order = torch.utils.data.RandomSampler(
        data, replacement=True, num_samples=2 * COUNT, generator=torch.Generator().manual_seed(3)
    )
    seed = torch.Generator().manual_seed(4)
    options = {"num_workers": 1, "remote": "ray", "remote_workers": TWO, "generator": seed, **options}
    return millrace.DataLoader(data, SIZE, sampler=order, **options)


def hashes(loader):
    return [BatchHash.of(batch).text for batch in remote_help.slowly(loader)]


def helped(loader, wanted=1):
    return remote_help.helped(loader, hashes, wanted)


def jsonl(folder):
    path = folder / "rows.jsonl"
    rows = [{"text": "x" * (n % 7), "label": n, "values": [n, 2.5 * n]} for n in range(COUNT)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return millrace.datasets.JSONL(str(path))


def parquet(folder):
    pa, files = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pa.table({"label": list(range(COUNT)), "name": [f"n{n}" for n in range(COUNT)]})
    files.write_table(table, folder / "rows.parquet", row_group_size=10)
    return millrace.datasets.Parquet(str(folder / "rows.parquet"))


KINDS = {
    "Python": (lambda folder: Drawn(), {}),
    "Python by lists": (lambda folder: Lists(), {}),
    "Python and a collate_fn": (lambda folder: Drawn(), {"collate_fn": ragged}),
    "lines": (jsonl, {}),
    "tables": (parquet, {}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_whoever_makes_a_batch_it_is_the_same(cluster, tmp_path, kind):
    make, options = KINDS[kind]
    data = make(tmp_path)
    loader = loader_of(data, **options)
    assert "remote: ray — " in loader.explain()
    epochs = helped(loader, 2) + [hashes(loader)]
    seen = loader.stats()["remote"]
    assert seen["expelled"] == {} and sum(node["samples"] for node in seen["nodes"].values()) > 0
    other = loader_of(data, remote_workers={"actors": 1, "num_cpus": 1}, **options)
    assert [hashes(other) for _ in epochs] == epochs
    if not kind.startswith("Python"):
        alone = loader_of(data, remote=None, remote_workers="auto", **options)
        assert [hashes(alone) for _ in epochs] == epochs
    else:
        assert len(set(map(tuple, epochs))) == len(epochs), "epochs draw anew"


def test_a_state_goes_on_with_other_actors(cluster):
    loader = loader_of(Drawn())
    whole, begun = hashes(loader), []
    loader = loader_of(Drawn())
    for batch in loader:
        begun.append(BatchHash.of(batch).text)
        if len(begun) == 9:
            break
    other = loader_of(Drawn(), remote_workers=1, num_workers=2)
    other.load_state_dict(loader.state_dict())
    assert begun + hashes(other) == whole


def test_an_error_is_the_datasets_own(cluster):
    loader = millrace.DataLoader(
        Drawn(), batch_sampler=[[0, 1], [2, COUNT + 1], [3]], num_workers=1, remote="ray", remote_workers=1
    )
    iterator = iter(loader)
    assert next(iterator)["word"] == ["w0", "w1"]
    with pytest.raises(KeyError, match="sample of no file"):
        next(iterator)
    assert next(iterator)["word"] == ["w3"]


ONE = {"actors": 1, "num_cpus": 0}


def test_each_iterator_has_the_dataset_of_its_day(cluster):
    data = Numbered()
    loader = millrace.DataLoader(data, 4, num_workers=1, remote="ray", remote_workers=ONE)
    for data.epoch in range(3):
        assert torch.cat(list(loader)).tolist() == [100 * data.epoch + n for n in range(16)]


def test_an_iterator_may_outlive_its_loader(cluster):
    iterator = iter(millrace.DataLoader(Numbered(), 4, num_workers=1, remote="ray", remote_workers=ONE))
    gc.collect()
    assert torch.cat(list(iterator)).tolist() == list(range(16))


def test_what_the_trainer_runs_as_python_is_python_there(cluster, tmp_path):
    options = {"native": "never", "collate_fn": len, "num_workers": 1, "remote": "ray", "remote_workers": ONE}
    assert list(millrace.DataLoader(jsonl(tmp_path), 4, **options)) == [4] * (COUNT // 4)


def test_processes_that_die_are_followed_by_others(cluster, tmp_path):
    loader = millrace.DataLoader(
        Deadly(tmp_path), 4, num_workers=1, remote="ray", remote_workers={"actors": 1, "num_cpus": 0}
    )
    iterator = iter(loader)
    assert next(iterator).tolist() == [0, 1, 2, 3]
    with pytest.raises(RuntimeError, match="3 worker processes in turn ended"):
        next(iterator)
    assert os.path.exists(tmp_path / "died")
    assert next(iterator).tolist() == [8, 9, 10, 11]


def test_samples_that_nobody_can_repeat_are_told_once_and_taken(cluster):
    loader = loader_of(Moving())
    with pytest.warns(RuntimeWarning, match="made twice") as heard:
        helped(loader)
    assert len([w for w in heard if "made twice" in str(w.message)]) >= 1
    assert loader.stats()["remote"]["expelled"] == {}


def test_what_stays_here_says_why(cluster):
    rows = torch.utils.data.TensorDataset(torch.arange(8))
    loader = millrace.DataLoader(rows, 4, num_workers=1, remote="ray")
    assert "remote: this machine alone — rows in memory are only copied" in loader.explain()
    with pytest.warns(RuntimeWarning, match="rows in memory are only copied"):
        iter(loader)


_RANK = """
import json, os, sys, time
sys.path.insert(0, sys.argv[1])
import test_remote_kinds as t
import ray
ray.init(address=sys.argv[2], log_to_driver=False)
loader = t.loader_of(t.Drawn(), remote_workers={"actors": 2, "num_cpus": 0})
epochs = t.helped(loader, 2)
names = sorted(actor["name"] for actor in ray.util.list_named_actors(all_namespaces=True))
print(json.dumps([epochs, names]), flush=True)
sys.stdin.readline()
if sys.argv[3] == "1":
    print(json.dumps(t.hashes(loader)), flush=True)
"""


def test_ranks_share_actors_and_one_may_stop(cluster):
    here = os.path.dirname(__file__)
    path = os.pathsep.join([here, os.path.join(os.path.dirname(here), "python"), *sys.path])
    job = {"WORLD_SIZE": "2", "MASTER_ADDR": "here", "MASTER_PORT": "1", "PYTHONPATH": path}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", _RANK, here, cluster.address, str(rank)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **job, "RANK": str(rank)},
        )
        for rank in range(2)
    ]
    try:
        (first, names), (second, others) = (json.loads(rank.stdout.readline()) for rank in ranks)
        assert names == others and len(names) == 2
        shared = min(len(first), len(second))
        assert first[:shared] == second[:shared]
        ranks[0].kill()
        ranks[0].wait()
        ranks[1].stdin.write("\n")
        ranks[1].stdin.flush()
        assert len(json.loads(ranks[1].stdout.readline())) == 2 * COUNT // SIZE
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    for name in names:
        ray.kill(ray.get_actor(name, namespace="millrace"))


_SHUTDOWN = """
import sys
sys.path.insert(0, sys.argv[1])
import test_remote_kinds as t
import ray
ray.init(address=sys.argv[2], log_to_driver=False)
loader = t.loader_of(t.millrace.datasets.JSONL(sys.argv[3]), remote_workers=1)
t.helped(loader)
whole = t.hashes(t.loader_of(t.millrace.datasets.JSONL(sys.argv[3]), remote=None, remote_workers="auto"))
loader = t.loader_of(t.millrace.datasets.JSONL(sys.argv[3]), remote_workers=1)
found = []
for batch in loader:
    found.append(t.BatchHash.of(batch).text)
    if len(found) == 5:
        ray.shutdown()
assert found == whole, "batches after the shutdown"
assert not ray.is_initialized(), "nobody may start it again"
print("done", flush=True)
"""


def test_ray_may_be_shut_down_before_the_loader(cluster, tmp_path):
    jsonl(tmp_path)
    here = os.path.dirname(__file__)
    path = os.pathsep.join([here, os.path.join(os.path.dirname(here), "python"), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", _SHUTDOWN, here, cluster.address, str(tmp_path / "rows.jsonl")],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert "done" in done.stdout and "Exception in thread" not in done.stderr, done.stdout + done.stderr
