"""remote="ray" while actors and nodes die, hang, come and go by chance: batches are byte for byte those
of this machine alone, in their order, and a state goes on with other actors.

A trainer and four nodes, each of a raylet on this machine, some of them limited to an older instruction set.
Pictures lie in a file system that all share, tar shards in an S3 server.

MILLRACE_REMOTE_FAULTS: faults of all tests together; 200, with pytest -s -o faulthandler_timeout=0: the full
run, half an hour on two CPUs. MILLRACE_REMOTE_SEED: draws the same faults again; their moments differ all the
same. MILLRACE_REMOTE_FAULTS_OUT: what came of it is appended to this file; remote_faults.jsonl has full runs.
"""

import collections
import contextlib
import io
import json
import os
import random
import socket
import subprocess
import sys
import tarfile
import time
import urllib.request

import numpy as np
import pytest
import torch
from loader_data import pictures
from PIL import Image
from remote_help import in_shared_memory, through

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install ray")

import millrace  # noqa: E402
from faulty_nodes import NODES, Faults, Nodes, say  # noqa: E402
from millrace import transforms as T  # noqa: E402
from millrace.datasets import WebDataset  # noqa: E402

FAULTS = int(os.environ.get("MILLRACE_REMOTE_FAULTS", 8))
SEED = int(os.environ.get("MILLRACE_REMOTE_SEED", time.time_ns() % 10**6))
COUNT, SHARDS, SAMPLES, SIZE = 120, 6, 1600, 8
BATCH_S, HELP_S = 120, 200  # the longest wait for a batch, for help of all nodes
pytestmark = pytest.mark.filterwarnings("ignore:no remote worker answers:RuntimeWarning")


# ---------------------------------------------------------------- data


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Pictures large enough that actors are at work most of the time."""
    root, draws = tmp_path_factory.mktemp("faults"), np.random.default_rng(1)
    for index in range(COUNT):
        path = root / "abc"[index * 3 // COUNT] / f"{index:03}.jpg"
        path.parent.mkdir(exist_ok=True)
        coarse = Image.fromarray(draws.integers(0, 256, (6, 8, 3), dtype=np.uint8))
        coarse.resize((300 + index, 240 - index % 7), Image.Resampling.BICUBIC).save(path, quality=90)
    return root


def tars(folder):
    """The folder's pictures as shards; each one's label is its number."""
    paths = sorted(folder.rglob("*.jpg"), key=lambda path: path.name)
    for number in range(SHARDS):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as tar:
            for index in range(number, COUNT, SHARDS):
                for suffix, data in (("jpg", paths[index].read_bytes()), ("cls", str(index).encode())):
                    entry = tarfile.TarInfo(f"{index:04}.{suffix}")
                    entry.size = len(data)
                    tar.addfile(entry, io.BytesIO(data))
        yield f"part-{number}.tar", out.getvalue()


@pytest.fixture(scope="module")
def s3(folder, tmp_path_factory):
    """URLs of the shards. Nodes that start while it is there read the same store."""
    pytest.importorskip("moto.server", reason="moto's server is not installed: pip install 'moto[server]'")
    obstore = pytest.importorskip("obstore", reason="obstore is not installed: pip install obstore")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    home = tmp_path_factory.mktemp("s3")
    log = open(home / "log", "wb")
    words = ["-c", "from moto.server import main; main()", "-H", "127.0.0.1", "-p", str(port)]
    (home / "credentials").write_text("[default]\naws_access_key_id = k\naws_secret_access_key = s\n")
    with (
        log,
        subprocess.Popen([sys.executable, *words], stdout=log, stderr=log) as server,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        patch.setenv("AWS_REGION", "us-east-1")
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(home / "credentials"))
        patch.setenv("AWS_CONFIG_FILE", str(home / "config"))
        try:
            until = time.monotonic() + 60
            while True:
                with contextlib.suppress(OSError):
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                assert time.monotonic() < until and server.poll() is None, "the S3 server did not start"
                time.sleep(0.05)
            bucket = urllib.request.Request(f"http://127.0.0.1:{port}/bucket", b"", method="PUT")
            urllib.request.urlopen(bucket, timeout=60).read()
            store = obstore.store.S3Store(
                "bucket", client_options={"allow_http": True}, access_key_id="k", secret_access_key="s"
            )
            for name, data in tars(folder):
                obstore.put(store, name, data)
            yield [f"s3://bucket/part-{number}.tar" for number in range(SHARDS)]
        finally:
            server.terminate()


def chain():
    """Much of what has kernels of its own for each instruction set."""
    steps = [
        T.RandomResizedCrop(64),
        T.RandomHorizontalFlip(),
        T.ColorJitter(0.3, 0.3, 0.3),
        T.GaussianBlur(3),
    ]
    return T.Compose([*steps, T.ToTensor(), T.Normalize((0.4, 0.5, 0.6), (0.2, 0.3, 0.2))])


def maker_of(data):
    """A function that makes loaders over `data`, equal but for its keywords: a sample comes several times
    in an epoch, so that random numbers depend on how often it came.
    """

    def loader(**options):
        sampler = torch.utils.data.RandomSampler(
            data, replacement=True, num_samples=SAMPLES, generator=torch.Generator().manual_seed(5)
        )
        seed = torch.Generator().manual_seed(7)
        return millrace.DataLoader(
            data, SIZE, sampler=sampler, num_workers=1, generator=seed, timeout=BATCH_S, **options
        )

    return loader


@pytest.fixture(scope="module")
def nodes(s3):
    made = Nodes()
    ray.init(address=made.cluster.address, log_to_driver=False)
    yield made
    made.shutdown()


# ---------------------------------------------------------------- the comparison


def difference(got, want):
    """What is wrong with a batch, or None."""
    if got is None:
        return "the epoch ends too early"
    if got[1].tolist() != want[1].tolist():
        return f"samples {got[1].tolist()} in place of {want[1].tolist()}"
    for one, other in zip(got, want):
        if one.dtype != other.dtype or one.shape != other.shape:
            return f"{one.dtype} of {tuple(one.shape)} in place of {other.dtype} of {tuple(other.shape)}"
        unequal = (one.contiguous().view(torch.uint8) != other.contiguous().view(torch.uint8)).sum().item()
        if unequal:
            return f"{unequal} bytes of samples {want[1].tolist()} differ"
    return None


class Run:
    """A loader with actors beside one without."""

    def __init__(self, make, seed):
        self._make, self._random = make, random.Random(seed)
        self.actors = NODES
        self.loader, self._alone = make(remote="ray", remote_workers=NODES), make()
        self.counts, self.by_node = collections.Counter(), collections.Counter()

    def epoch(self, each):
        """One epoch of both, equal; `each(what stats() says of the actors)` behind some batches: it may ask
        for another loader, which goes on with other actors.
        """
        batches, number = iter(self.loader), 0
        for number, want in enumerate(self._alone):
            problem = difference(next(batches, None), want)
            assert problem is None, f"batch {number}: {problem}"
            self.counts["compared"] += 1
            if number % 4 == 0 and each(self.seen()):
                state = self.loader.state_dict()
                self._count()
                del batches
                self.actors = self._random.choice([n for n in (1, 2, 3, 4, 6) if n != self.actors])
                self.loader = self._make(remote="ray", remote_workers=self.actors)
                self.loader.load_state_dict(state)
                batches = iter(self.loader)
                self.counts["resumed"] += 1
                say(f"goes on behind batch {number} with {self.actors} actors")
        assert next(batches, None) is None, "batches come behind the epoch's end"
        self._count()

    def seen(self):
        return self.loader.stats()["remote"]

    def _count(self):
        seen = self.seen()
        assert seen["expelled"] == {}
        for node, made in seen["nodes"].items():
            self.by_node[node.partition("(")[2].rstrip(")")] += made["batches"]
        self.counts.update({name: value for name, value in seen.items() if isinstance(value, int)})
        del self.counts["workers"]


def check(make, nodes, count, seed):
    """Batches of `make`'s loaders over `count` faults."""
    run, faults = Run(make, seed), Faults(nodes, count, seed)
    want = {node.node_id[:12] for node in nodes.all}
    until = time.monotonic() + HELP_S
    while not want <= {node for node, made in run.by_node.items() if made}:
        run.epoch(lambda seen: False)
        assert time.monotonic() < until, (
            f"{want - set(run.by_node)} did not help: {run.loader.stats()['remote']}"
        )
    say(f"all {len(want)} nodes help: {dict(run.by_node)}")
    resumed, before = 0, -1

    def each(seen):
        nonlocal resumed, before
        made = sum(node["batches"] for node in seen["nodes"].values())
        run.counts["in shared memory"] = max(run.counts["in shared memory"], in_shared_memory(seen))
        if made > before:
            faults.helped.set()
        before = made
        due = (len(faults.done) + 6) // 8 > resumed  # behind the second fault, and each eighth from there
        resumed += due
        return due

    faults.start()
    try:
        while faults.is_alive():
            run.epoch(each)
        run.epoch(lambda seen: False)
    except Exception as error:
        raise AssertionError(f"{error} ({faults.story()})") from error
    finally:
        faults.ended.set()
        faults.join()
    assert faults.trouble is None, f"{faults.trouble!r} ({faults.story()})"
    kinds = collections.Counter(kind for kind, _ in faults.done)
    masks = collections.Counter()
    for node, made in run.by_node.items():
        masks[nodes.masks[node]] += made
    say(f"faults: {dict(kinds)}\n  batches: {dict(run.counts)}\n  by actors: {dict(masks)}")
    if "MILLRACE_REMOTE_FAULTS_OUT" in os.environ:
        found = {"faults": kinds, "batches": run.counts, "made_by_actors_with": masks, "different": 0}
        with open(os.environ["MILLRACE_REMOTE_FAULTS_OUT"], "a") as out:
            print(json.dumps({"count": count, "seed": seed, "ray": ray.__version__, **found}), file=out)
    assert len(faults.done) == count and run.counts["resumed"] >= 1
    assert set(masks) == set(nodes.masks.values())
    return run


@pytest.fixture(autouse=True)
def enough_nodes(nodes):
    """As many as at the beginning: the test before may have left others."""
    nodes.fill()


def test_pictures_of_a_shared_file_system(folder, nodes, monkeypatch):
    through(monkeypatch, "parcels")
    run = check(maker_of(pictures(str(folder), transform=chain())), nodes, (FAULTS + 1) // 2, SEED)
    assert run.counts["in shared memory"]


def test_shards_of_an_s3_server(s3, nodes, tmp_path, monkeypatch):
    through(monkeypatch, "store")
    data = WebDataset(s3, shardshuffle=False).decode("pil").to_tuple("jpg", "cls").map_tuple(chain())
    run = check(maker_of(data.indexed(index_dir=str(tmp_path))), nodes, FAULTS // 2, SEED + 1)
    assert not run.counts["in shared memory"]
