"""remote="ray" on clusters of Ray, each of several raylets on this machine: batches are those of a loader of
this machine alone, whatever happens to actors and nodes.
"""

import os
import runpy
import signal
import subprocess
import sys
import threading
import time

import pytest
import remote_help
import torch
from loader_data import make_folder, pictures
from remote_help import PATIENCE_S
from shard_data import same

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install ray")

import millrace  # noqa: E402
from millrace import transforms as T  # noqa: E402

COUNT = 120
pytestmark = pytest.mark.filterwarnings("ignore:no remote worker answers:RuntimeWarning")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("remote")
    make_folder(root, COUNT)
    return str(root)


@pytest.fixture
def cluster():
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    for _ in range(2):
        made.add_node(num_cpus=1)
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


def loader_of(folder, ragged=False, **options):
    """Random pictures, some of which come several times in an epoch; `ragged`: of several sizes."""
    first = T.Resize(12) if ragged else T.RandomResizedCrop(16)
    data = pictures(folder, transform=T.Compose([first, T.RandomHorizontalFlip(), T.ToTensor()]))
    if ragged:
        options["collate_fn"] = untouched
    sampler = torch.utils.data.RandomSampler(
        data, replacement=True, num_samples=2 * COUNT, generator=torch.Generator().manual_seed(5)
    )
    options = {"num_workers": 1, "generator": torch.Generator().manual_seed(7), **options}
    return millrace.DataLoader(data, 8, sampler=sampler, **options)


def untouched(samples):
    return samples


def helped(loader, wanted=1):
    return remote_help.helped(loader, slowly, wanted)


def slowly(loader):
    return list(remote_help.slowly(loader))


def equal(epochs, folder, ragged=False):
    alone = loader_of(folder, ragged)
    for epoch in epochs:
        wanted = list(alone)
        assert same(epoch, wanted, ordered=True)


def pids_of_actors():
    return [
        int(line.split()[0])
        for line in subprocess.check_output(["ps", "-eo", "pid,args"], text=True).splitlines()
        if "ray::RayBatchMaker" in line
    ]


@pytest.mark.parametrize("way, ragged", [("parcels", False), ("store", False), ("parcels", True)])
def test_batches_are_those_of_this_machine_alone(cluster, folder, way, ragged, monkeypatch):
    remote_help.through(monkeypatch, way)
    loader = loader_of(folder, ragged, remote="ray", remote_workers=2)
    epochs = helped(loader, wanted=2)
    epochs.append(slowly(loader))
    equal(epochs, folder, ragged)
    seen = loader.stats()["remote"]
    assert seen["expelled"] == {} and seen["checked"] >= 1
    made = sum(node["batches"] for node in seen["nodes"].values())
    assert remote_help.in_shared_memory(seen) == (made if way == "parcels" else 0)


def test_actors_and_nodes_that_die_change_nothing(cluster, folder, monkeypatch):
    remote_help.through(monkeypatch, "parcels")
    loader = loader_of(folder, remote="ray", remote_workers=2)
    epochs = helped(loader, wanted=2)
    for fault in ("kill", "stop", "remove", "add"):
        batches = []
        for number, batch in enumerate(loader):
            batches.append(batch)
            time.sleep(0.01)
            if number == 5:
                actors = pids_of_actors()
                if fault == "kill" and actors:
                    os.kill(actors[0], signal.SIGKILL)
                if fault == "stop" and actors:
                    os.kill(actors[0], signal.SIGSTOP)
                if fault == "remove":
                    cluster.remove_node(sorted(cluster.worker_nodes, key=id)[0], allow_graceful=False)
                if fault == "add":
                    cluster.add_node(num_cpus=1)
        if fault == "stop" and actors:
            os.kill(actors[0], signal.SIGCONT)
        epochs.append(batches)
    epochs += helped(loader)
    equal(epochs, folder)


@pytest.mark.parametrize("then", [None, 1])
def test_a_state_goes_on_with_other_actors_or_none(cluster, folder, then):
    loader, batches = loader_of(folder, remote="ray", remote_workers=2), []
    first = helped(loader, wanted=2)
    for batch in loader:
        batches.append(batch)
        if len(batches) == 7:
            break
    state = loader.state_dict()
    remote = {} if then is None else {"remote": "ray", "remote_workers": then}
    other = loader_of(folder, **remote)
    other.load_state_dict(state)
    batches += slowly(other)
    equal([*first, batches], folder)


def test_two_loaders_of_one_process(cluster, folder):
    """Batch by batch in turns, with an actor each."""
    loaders = [loader_of(folder, remote="ray", remote_workers=1) for _ in range(2)]
    first = [helped(loader) for loader in loaders]
    turns = list(zip(*map(remote_help.slowly, loaders)))
    for loader, epochs, last in zip(loaders, first, zip(*turns)):
        equal([*epochs, list(last)], folder)
        assert loader.stats()["remote"]["expelled"] == {}


_TRAINER = """
import sys, time, torch, ray
sys.path.insert(0, sys.argv[1])
import test_remote as t
ray.init(address=sys.argv[2], log_to_driver=False)
loader = t.loader_of(sys.argv[3], remote="ray", remote_workers=2)
t.helped(loader, 2)
print("helped", flush=True)
while True:
    t.slowly(loader)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_actors_end_with_their_trainer(cluster, folder, how):
    """Killed, or ended by Ctrl-C in mid-epoch."""
    ours = set(pids_of_actors())
    here = os.path.dirname(__file__)
    path = os.pathsep.join([os.path.join(os.path.dirname(here), "python"), *sys.path])
    trainer = subprocess.Popen(
        [sys.executable, "-c", _TRAINER, here, cluster.address, folder],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    try:
        assert "helped" in [line.strip() for line in iter(trainer.stdout.readline, "helped\n")] + ["helped"]
        assert set(pids_of_actors()) - ours
        trainer.send_signal(how)
        _, told = trainer.communicate(timeout=PATIENCE_S)
    finally:
        trainer.kill()
    assert trainer.returncode in (-how, 1), told  # Ray makes 1 of an unhandled KeyboardInterrupt
    assert how == signal.SIGKILL or told.rstrip().endswith("KeyboardInterrupt"), told
    until = time.monotonic() + PATIENCE_S
    while set(pids_of_actors()) - ours:
        assert time.monotonic() < until, "actors outlive the trainer"
        time.sleep(0.1)


def test_a_dataset_that_does_not_pickle_says_so(cluster, folder):
    loader = loader_of(folder, remote="ray", remote_workers=1)
    loader.dataset.lock = threading.Lock()
    with pytest.raises(millrace.errors.UnavailableError, match="ImageFolder cannot be pickled"):
        iter(loader)


def test_the_example_runs(cluster, folder, monkeypatch, capsys):
    script = os.path.join(os.path.dirname(__file__), "..", "..", "examples", "ray_remote.py")
    monkeypatch.setattr(sys, "argv", [script, folder, "--epochs", "1"])
    runpy.run_path(script, run_name="__main__")
    assert f"epoch 0: {COUNT // 8} equal batches" in capsys.readouterr().out
