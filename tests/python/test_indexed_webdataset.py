"""WebDataset.indexed(): order, pixels and labels of a folder of the same pictures, from tar shards; their
indexes, lost and found.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from pathlib import Path

import millrace
import millrace.transforms as T
import pytest
import torch
from millrace import DataLoader, _core
from millrace.datasets import ImageFolder, WebDataset
from millrace.samplers import ShardShuffle, TwoTierShuffle
from pictures import jpeg_bytes, make_picture
from shard_data import same, write_tar
from torch.utils.data import DistributedSampler, Subset

FIXED = T.Compose([T.Resize((12, 16)), T.ToTensor()])
RANDOM = T.Compose([T.RandomResizedCrop(12), T.RandomHorizontalFlip(), T.ToTensor()])
LENGTHS = (7, 5, 1, 10)
COUNT = sum(LENGTHS)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "millrace" / "tar-indexes"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """class folders, and shards with the same pictures in the same order."""
    root, number = tmp_path_factory.mktemp("indexed"), 0
    for shard, length in enumerate(LENGTHS):
        members = []
        for i in range(number, number + length):
            label = i * 4 // COUNT
            data = jpeg_bytes(make_picture(24 + i % 5, 20 + i % 3, seed=i), quality=90)
            (root / "folder" / f"c{label}").mkdir(parents=True, exist_ok=True)
            (root / "folder" / f"c{label}" / f"{i:03d}.jpg").write_bytes(data)
            members += [(f"{i:03d}.jpg", data), (f"{i:03d}.cls", b"%d\n" % label)]
        number += length
        write_tar(root / f"s-{shard}.tar", members)
    return root


def shards(folder, transform=FIXED, **options):
    dataset = WebDataset(f"{folder}/s-{{0..3}}.tar", **options)
    return dataset.decode("pil").to_tuple("jpg;jpeg", "cls").map_tuple(transform).indexed()


def epochs(dataset, count=2, seed=5, **options):
    torch.manual_seed(seed)
    loader = DataLoader(dataset, **{"batch_size": 4, **options})
    if options.get("native") != "never":
        assert "python —" not in str(loader.explain()), str(loader.explain())
    return [list(loader) for _ in range(count)]


def assert_same(ours, theirs):
    assert len(ours) == len(theirs) and all(map(same, ours, theirs))


@pytest.mark.parametrize("workers", [0, 3])
@pytest.mark.parametrize("options", [{}, {"shuffle": True}, {"shuffle": True, "drop_last": True}], ids=str)
def test_the_same_as_a_folder(folder, workers, options):
    """Global shuffle over tars: torch's permutation, and random transforms, to the bit."""
    for transform in (FIXED, RANDOM):
        ours = epochs(shards(folder, transform), num_workers=workers, **options)
        theirs = epochs(ImageFolder(str(folder / "folder"), transform), num_workers=1, **options)
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other)


def test_what_python_code_gives(folder):
    for one, other in zip(
        epochs(shards(folder), shuffle=True, num_workers=2),
        epochs(shards(folder), shuffle=True, native="never"),
    ):
        assert_same(one, other)
    dataset = shards(folder)
    assert len(dataset) == COUNT and dataset.shard_lengths == list(LENGTHS)
    assert dataset.key(7) == "007" and dataset.key(-1) == f"{COUNT - 1:03d}"
    assert same(dataset[-1], dataset[COUNT - 1])
    for bad in (COUNT, -COUNT - 1):
        with pytest.raises(IndexError, match=f"index {bad} is out of range for {COUNT} samples"):
            dataset[bad]


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_in_worker_processes(folder, context):
    dataset = (
        WebDataset(f"{folder}/s-{{0..3}}.tar")
        .decode("pil")
        .map_dict(jpg=FIXED)
        .to_tuple("jpg", "cls", "__key__")
        .indexed()
    )
    loader = DataLoader(dataset, batch_size=4, num_workers=2, multiprocessing_context=context)
    assert "python —" in str(loader.explain())
    batches = list(loader)
    assert [key for batch in batches for key in batch[2]] == [f"{i:03d}" for i in range(COUNT)]
    assert torch.equal(
        torch.cat([batch[0] for batch in batches]),
        torch.cat([batch[0] for batch in epochs(shards(folder), 1)[0]]),
    )


def test_resumed_at_every_batch(folder):
    expected = epochs(shards(folder, RANDOM), shuffle=True)
    for taken in range(len(expected[0])):
        torch.manual_seed(5)
        one = DataLoader(shards(folder, RANDOM), batch_size=4, shuffle=True, num_workers=taken % 3)
        iterator = iter(one)
        assert_same([next(iterator) for _ in range(taken)], expected[0][:taken])
        state = pickle.loads(pickle.dumps(one.state_dict()))
        torch.manual_seed(1)
        other = DataLoader(shards(folder, RANDOM), batch_size=4, shuffle=True, num_workers=2 - taken % 3)
        other.load_state_dict(millrace.merge_states([state]))
        assert_same(list(other), expected[0][taken:])


def test_subsets_and_samplers(folder):
    image_folder = ImageFolder(str(folder / "folder"), RANDOM)

    def check(make, **options):
        for one, other in zip(
            epochs(make(shards(folder, RANDOM)), **options),
            epochs(make(image_folder), **options),
            strict=True,
        ):
            assert_same(one, other)

    check(lambda dataset: Subset(Subset(dataset, range(20, 2, -1)), [3, -1, 3, 0]))
    check(lambda dataset: dataset, sampler=DistributedSampler(image_folder, 3, 1, seed=2))
    check(lambda dataset: dataset, sampler=[0, -1, 5, -COUNT, 5])
    lengths = shards(folder).shard_lengths
    for sampler in (ShardShuffle(lengths, seed=1), TwoTierShuffle(lengths, 6, seed=1)):
        check(lambda dataset: dataset, sampler=sampler, count=1)
        labels = torch.cat([batch[1] for batch in epochs(shards(folder), 1, sampler=sampler)[0]])
        assert sorted(labels.tolist()) == sorted(i * 4 // COUNT for i in range(COUNT))
    with pytest.raises(IndexError):
        epochs(shards(folder), sampler=[COUNT])


# ---------------------------------------------------------------- indexes


def kept(cache):
    return sorted(cache.iterdir()) if cache.exists() else []


def test_indexes_are_made_once(folder, cache):
    assert len(shards(folder)) == COUNT and len(kept(cache)) == 4
    times = [path.stat().st_mtime_ns for path in kept(cache)]
    assert len(shards(folder)) == COUNT and [path.stat().st_mtime_ns for path in kept(cache)] == times


def three(path, name="a", content=b"1"):
    return write_tar(path, [(f"{name}{i}.cls", content) for i in range(3)])


def keys(path, **options):
    dataset = WebDataset(str(path)).indexed(**options)
    return [dataset.key(i) for i in range(len(dataset))], [dataset[i]["cls"] for i in range(len(dataset))]


def test_changed_shards_are_indexed_anew(tmp_path, cache):
    path = tmp_path / "s.tar"
    three(path)
    assert keys(path) == (["a0", "a1", "a2"], [b"1"] * 3)
    three(path, "b", b"22")  # of the same size: the time says it
    assert keys(path) == (["b0", "b1", "b2"], [b"22"] * 3)
    write_tar(path, [("c.cls", b"1"), ("d.cls", bytes(20_000))])
    assert keys(path)[0] == ["c", "d"]
    assert len(kept(cache)) == 3


def test_damaged_indexes_are_made_anew(tmp_path, cache):
    path = three(tmp_path / "s.tar")
    expected = keys(path)
    (index,) = kept(cache)
    whole = index.read_bytes()
    for damage in (
        b"",
        whole[:50],
        whole[:-1],
        b"x" + whole[1:],
        whole[:40] + b"\xff" + whole[41:],
        whole + b"x",
        os.urandom(500),
    ):
        index.write_bytes(damage)
        assert keys(path) == expected
        assert index.read_bytes() == whole


def test_an_index_beside_the_shard(tmp_path, cache):
    path = three(tmp_path / "s.tar")
    _core.TarIndex.build(path).save(path + ".index")
    assert keys(path)[0] == ["a0", "a1", "a2"] and not kept(cache)
    with open(path + ".index", "r+b") as file:
        file.write(b"zzz")
    assert keys(path)[0] == ["a0", "a1", "a2"] and len(kept(cache)) == 1


def test_an_index_older_than_its_shard_is_not_believed(tmp_path, cache):
    """Tars come in multiples of 10 KiB, so another shard under the same name easily has the same size."""
    path = three(tmp_path / "s.tar")
    _core.TarIndex.build(path).save(path + ".index")
    three(path, "b", b"a longer label")
    later = time.time() + 10
    os.utime(path, (later, later))
    assert keys(path) == (["b0", "b1", "b2"], [b"a longer label"] * 3)


def test_nowhere_to_keep_indexes(tmp_path, monkeypatch):
    path = three(tmp_path / "s.tar")
    (tmp_path / "file").write_text("in the way")
    for where in (tmp_path / "file", tmp_path / "file" / "deeper", "/proc/nowhere"):
        assert keys(path, index_dir=str(where))[0] == ["a0", "a1", "a2"]
        monkeypatch.setenv("XDG_CACHE_HOME", str(where))
        assert keys(path)[0] == ["a0", "a1", "a2"]
    assert keys(path, index_dir=str(tmp_path / "mine"))[0] == ["a0", "a1", "a2"]
    assert len(list((tmp_path / "mine").iterdir())) == 1


# ---------------------------------------------------------------- what is refused


def test_packed_shards_are_refused_with_the_remedy(tmp_path):
    path = write_tar(tmp_path / "s.tar.gz", [("a.cls", b"1")])
    with pytest.raises(
        millrace.UnavailableError, match=r"s\.tar\.gz is packed.*unpack it, or read it as a stream"
    ):
        len(WebDataset(path).indexed())


def test_broken_shards(tmp_path):
    path = three(tmp_path / "s.tar")
    os.truncate(path, 1200)
    with pytest.raises(millrace.CorruptDataError, match=r"s\.tar: .*at byte 1024"):
        len(WebDataset(path).indexed())
    with pytest.raises(
        millrace.CorruptDataError,
        match=r"'a\.cls' is there twice in sample 'a', the second time at byte 1024",
    ):
        len(WebDataset(write_tar(tmp_path / "t.tar", [("a.cls", b"1"), ("a.cls", b"2")])).indexed())
    with pytest.raises(FileNotFoundError):
        len(WebDataset(str(tmp_path / "missing.tar")).indexed())


def test_stages_that_do_not_fit(folder):
    dataset = WebDataset(f"{folder}/s-0.tar")
    for make, remedy in (
        (lambda d: d.shuffle(10), "leave shuffle.. out, and give the DataLoader shuffle=True"),
        (lambda d: d.batched(4), "leave batched.. out, and give the DataLoader a batch_size"),
        (lambda d: d.slice(3), "take a torch.utils.data.Subset"),
        (
            lambda d: d.decode("pil", handler=millrace.datasets.ignore_and_continue),
            "give Decode no handler, and the DataLoader on_error=",
        ),
    ):
        with pytest.raises(ValueError, match=remedy):
            make(dataset).indexed()
    with pytest.raises(ValueError, match="leave select_files and rename_files out"):
        WebDataset(f"{folder}/s-0.tar", select_files=bool).indexed()


def test_samples_that_miss_something(tmp_path):
    jpeg = jpeg_bytes(make_picture(20, 20))
    path = write_tar(tmp_path / "s.tar", [("a.jpg", jpeg), ("a.cls", b"1"), ("b.cls", b"1")])
    dataset = WebDataset(path).decode("pil").to_tuple("jpg", "cls").map_tuple(FIXED).indexed()
    with pytest.raises((ValueError, millrace.CorruptDataError), match="'b' has no"):
        list(DataLoader(dataset, batch_size=1))
    path = write_tar(
        tmp_path / "t.tar",
        [("a.jpg", b"\xff\xd8\xff no picture"), ("a.cls", b"1"), ("b.jpg", jpeg), ("b.cls", b"2")],
    )
    dataset = WebDataset(path).decode("pil").to_tuple("jpg", "cls").map_tuple(FIXED).indexed()
    with pytest.raises(millrace.CorruptDataError, match=r"t\.tar/a\.jpg"):
        list(DataLoader(dataset, batch_size=1))
    (batch,) = DataLoader(dataset, batch_size=1, on_error="skip")
    assert batch[1].tolist() == [2]


# ---------------------------------------------------------------- many shards

MANY = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from millrace import DataLoader
from millrace.datasets import WebDataset
dataset = WebDataset(sys.argv[1]).decode().to_tuple("cls").indexed(index_dir=sys.argv[2])
print(len(dataset), sum(int(batch[0].sum()) for batch in DataLoader(dataset, batch_size=50, shuffle=True)))
"""


def test_more_shards_than_descriptors(tmp_path):
    for i in range(300):
        write_tar(tmp_path / f"s-{i:03d}.tar", [(f"{i}.cls", b"%d" % i)])
    done = subprocess.run(
        [sys.executable, "-c", MANY, f"{tmp_path}/s-{{000..299}}.tar", str(tmp_path / "i")],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.split() == ["300", str(sum(range(300)))], done.stderr


def test_empty_shards(tmp_path):
    empty, one = write_tar(tmp_path / "e.tar", []), three(tmp_path / "s.tar")
    dataset = WebDataset([empty, one, empty]).indexed()
    assert len(dataset) == 3 and dataset.shard_lengths == [0, 3, 0] and dataset[-3]["__key__"] == "a0"
    assert dataset[0]["__url__"] == one


REMOTE = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
from millrace import DataLoader
from millrace.datasets import WebDataset
urls, index_dir, cache_dir = sys.argv[1], sys.argv[2], sys.argv[3] or None
dataset = WebDataset(urls, cache_dir=cache_dir).decode().to_tuple("cls").indexed(index_dir=index_dir)
loader = DataLoader(dataset, batch_size=50, shuffle=True)
print(len(dataset), sum(int(batch[0].sum()) for _ in range(2) for batch in loader))
print(sum(int(batch[0].sum()) for batch in DataLoader(dataset, batch_size=50, num_workers=2)))
"""


@pytest.mark.parametrize("cached", [pytest.param(False, marks=pytest.mark.slow), True])
def test_more_remote_shards_than_descriptors(tmp_path, cached):
    pytest.importorskip("obstore", reason="obstore is not installed: pip install obstore")
    from fault_proxy import FaultProxy

    for i in range(400):
        write_tar(tmp_path / f"s-{i:03d}.tar", [(f"{i}.cls", b"%d" % i)])
    with FaultProxy({f"/{path.name}": path.read_bytes() for path in tmp_path.glob("*.tar")}) as store:
        urls = store.url("s-{000..399}.tar")
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                REMOTE,
                urls,
                str(tmp_path / "i"),
                str(tmp_path / "cache") if cached else "",
            ],
            capture_output=True,
            text=True,
            timeout=120,
        )
        total = sum(range(400))
        assert done.stdout.split() == ["400", str(2 * total), str(total)], done.stderr
        if cached:
            assert len(store.requests) == 400, (
                "what was opened once is read from the cache, and the store is not asked again"
            )


def test_remote_shards_are_opened_again(tmp_path):
    pytest.importorskip("obstore", reason="obstore is not installed: pip install obstore")
    from fault_proxy import FaultProxy

    paths = [three(tmp_path / f"s-{i}.tar") for i in range(3)]
    with FaultProxy({f"/s-{i}.tar": Path(path).read_bytes() for i, path in enumerate(paths)}) as store:
        dataset = WebDataset(store.url("s-{0..2}.tar")).indexed(index_dir=str(tmp_path / "i"))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("millrace.datasets.webdataset.indexed._MOST_OPEN", 1)
            assert len(dataset) == 9
        local = WebDataset(paths).indexed(index_dir=str(tmp_path / "i"))
        for i in (0, 8, 1, 4):
            assert {**dataset[i], "__url__": ""} == {**local[i], "__url__": ""}
        assert dataset._shards.sources[1].is_here is False
        assert {r.method for r in store.requests} == {"GET"}, "the store is asked for bytes only"
        store.objects["/s-0.tar"], store.etags["/s-0.tar"] = store.objects["/s-1.tar"], '"new"'
        with pytest.raises(millrace.CorruptDataError, match="changed"):
            dataset[0]
