"""WebDataset gives what the webdataset package gives, in its order, over shards that it wrote."""

from __future__ import annotations

import io
import json
import pickle
import subprocess
import warnings

import numpy as np
import pytest
import torch
from millrace.datasets import WebDataset
from millrace.datasets.webdataset import Stage, stages
from pictures import jpeg_bytes, make_picture
from shard_data import same

wds = pytest.importorskip("webdataset")


COUNT = 23


def sample(i):
    picture = make_picture(20 + i % 5, 16, seed=i, mode=("RGB", "L", "RGBA")[i % 3])
    png = io.BytesIO()
    picture.save(png, "PNG")
    return {
        "__key__": f"dir{i // 10}/k{i:03d}",
        "jpg": jpeg_bytes(picture.convert("RGB"), quality=80),
        "seg.png": png.getvalue(),
        "cls": i % 7,
        "txt": f"tëxt {i}",
        "json": {"number": i, "list": [i, None, "x"]},
        "meta.json.gz": {"gz": i},
        "npy": np.arange(6, dtype=np.float32).reshape(2, 3) * i,
        "npz": {"a": np.full(3, i), "b": np.ones((1, 2))},
        "pth": torch.arange(4) + i,
        "ten": [np.arange(i % 4 + 1, dtype=np.int64), np.full((2, 2), i, np.float32)],
        "id": i,
        "bin": bytes([i]) * 3,
        **({"extra": b"only some"} if i % 4 == 0 else {}),
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")
    for ending in ("tar", "tar.gz"):
        writers = [wds.TarWriter(str(folder / f"s-{shard:03d}.{ending}")) for shard in range(4)]
        for i in range(COUNT):
            writers[i // 6].write(sample(i))
        for writer in writers:
            writer.close()
    return folder


def both(folder, chain, ending="tar", **options):
    """What `chain` makes of our dataset, and of the package's."""
    urls = f"{folder}/s-{{000..003}}.{ending}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = wds.WebDataset(urls, shardshuffle=False, **options)
        return list(chain(WebDataset(urls, **options))), [_without_path(item) for item in chain(theirs)]


def _without_path(item):
    """The package says of local shards where they are, too."""
    return (
        {name: value for name, value in item.items() if name != "__local_path__"}
        if isinstance(item, dict)
        else item
    )


def trim(ds):
    """Without what only some tests are about: decode() would refuse nothing here, but takes time."""
    return ds.decode("rgb8", only="jpg cls json txt")


def add_one(x):
    return x + 1


def halves(source):
    for item in source:
        yield item
        yield item


ALL = "jpg seg.png cls txt json npy npz pth ten id bin".split()


CHAINS = {
    "bytes": lambda ds: ds,
    "tuple of bytes": lambda ds: ds.to_tuple("__key__", "__url__", "jpg", "cls"),
    **{
        kind: lambda ds, kind=kind: ds.decode(kind).to_tuple(*ALL)
        for kind in (
            "l8 rgb8 rgba8 l rgb rgba torchl8 torchrgb8 torchrgba8 torchl torchrgb torchrgba torch pil pill"
            " pilrgb pilrgba"
        ).split()
    },
    "no pictures": lambda ds: ds.decode(),
    "gz within": lambda ds: ds.decode().to_tuple("meta.json.gz"),
    "own decoder": (
        lambda ds: ds.decode(lambda key, data: len(data) if key == ".seg.png" else None, "rgb8").to_tuple(
            "jpg", "seg.png"
        )
    ),
    "handle_extension": (
        lambda ds: ds.decode(wds.handle_extension("seg.png", len), "pil").to_tuple("seg.png", "jpg")
    ),
    "only": lambda ds: ds.decode(only="cls txt"),
    "only as list": lambda ds: ds.decode("l8", only=["jpg"]),
    "partial": lambda ds: ds.map_dict(cls=int).decode(partial=True).to_tuple("cls", "txt"),
    "no table": lambda ds: ds.decode("rgb8", pre=[], post=[]).to_tuple("jpg", "txt", "meta.json.gz"),
    "alternatives": lambda ds: ds.to_tuple("extra;txt", "nothing;cls"),
    "fields in one string": lambda ds: ds.to_tuple("txt cls"),
    "missing is None": lambda ds: ds.to_tuple("extra", "cls", missing_is_error=False),
    "missing left out": lambda ds: ds.to_tuple("extra", "cls", handler=wds.ignore_and_continue),
    "missing stops": lambda ds: ds.to_tuple("extra", "cls", handler=wds.ignore_and_stop),
    "rename": lambda ds: trim(ds).rename(image="png;jpg", label="cls"),
    "rename only these": lambda ds: trim(ds).rename(image="jpg", label="cls", keep=False),
    "rename_keys": lambda ds: ds.rename_keys(("text", "t?t"), image="*.png"),
    "rename_keys keeps": lambda ds: ds.rename_keys(image="*.png", keep_unselected=True),
    "extract_keys": lambda ds: ds.extract_keys("*.cls", "*.png;*.gif", "t?t"),
    "extract what is there": lambda ds: ds.extract_keys("*.cls", "extra", ignore_missing=True),
    "map": lambda ds: trim(ds).map(lambda s: {"n": s["cls"] * 2, "__key__": "lost"}),
    "map leaves out": lambda ds: trim(ds).map(lambda s: s["cls"] if s["cls"] % 2 else None),
    "map with errors": lambda ds: trim(ds).map(lambda s: 10 // s["cls"], handler=wds.ignore_and_continue),
    "map stops": lambda ds: trim(ds).map(lambda s: 10 // (s["cls"] - 4), handler=wds.ignore_and_stop),
    "map_tuple": lambda ds: trim(ds).to_tuple("jpg", "cls", "txt").map_tuple(np.mean, add_one),
    "map_tuple with None": lambda ds: trim(ds).to_tuple("cls", "cls").map_tuple(None, add_one),
    "map_dict": lambda ds: trim(ds).map_dict(cls=add_one, jpg=np.sum),
    "select": lambda ds: trim(ds).select(lambda s: s["cls"] in (1, 2)),
    "slice": lambda ds: ds.slice(5),
    "slice from to": lambda ds: ds.slice(3, 20).to_tuple("__key__"),
    "slice by step": lambda ds: ds.slice(2, None, 4).to_tuple("__key__"),
    "batched": lambda ds: trim(ds).to_tuple("cls", "txt").batched(4),
    "batched whole": lambda ds: trim(ds).to_tuple("cls", "txt").batched(4, partial=False),
    "batched dicts": lambda ds: (
        ds.decode(only="cls npy txt").map(lambda s: {k: s[k] for k in ("cls", "npy", "txt")}).batched(5)
    ),
    "batched tensors": lambda ds: ds.decode().to_tuple("pth", "npy", "id").batched(6),
    "batched by hand": (
        lambda ds: ds.to_tuple("cls", "txt").batched(3, collation_fn=lambda batch: [*zip(*batch)])
    ),
    "listed": lambda ds: ds.to_tuple("cls").listed(4),
    "unlisted": lambda ds: ds.to_tuple("cls").listed(4).unlisted(),
    "unbatched": lambda ds: ds.decode().to_tuple("pth", "id", "txt").batched(7).unbatched(),
    "rebatched": lambda ds: ds.decode().to_tuple("pth", "id").batched(7).unbatched().batched(4),
    "composed": lambda ds: ds.to_tuple("cls").compose(halves),
    "xdecode": lambda ds: ds.xdecode(("*.json", json.load), cls=lambda f: int(f.read()), must_decode=False),
    "with_epoch, shorter": lambda ds: ds.to_tuple("cls").with_epoch(5),
    "with_epoch, longer": lambda ds: ds.to_tuple("cls").with_epoch(60),
    "with_epoch, batches": lambda ds: ds.to_tuple("cls").batched(5).with_epoch(nbatches=9),
    "repeat": lambda ds: ds.to_tuple("cls").repeat(2),
    "repeat, so many": lambda ds: ds.to_tuple("cls").repeat(3, 50),
}


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_gives_the_same(folder, name):
    ours, theirs = both(folder, CHAINS[name])
    assert len(ours) == len(theirs) > 0
    assert same(ours, theirs)


@pytest.mark.parametrize("name", ["bytes", "rgb8", "batched tensors"])
def test_packed_shards_give_the_same(folder, name):
    ours, theirs = both(folder, CHAINS[name], "tar.gz")
    assert same(ours, theirs)


def test_zstd_shards_give_the_same(folder, tmp_path):
    try:
        for shard in range(4):
            subprocess.run(
                ["zstd", "-q", f"{folder}/s-{shard:03d}.tar", "-o", f"{tmp_path}/s-{shard:03d}.tar.zst"],
                check=True,
            )
    except FileNotFoundError:
        pytest.skip("the command zstd is not installed")
    packed = list(WebDataset(f"{tmp_path}/s-{{000..003}}.tar.zst").to_tuple("__key__", "jpg", "txt"))
    assert packed == list(WebDataset(f"{folder}/s-{{000..003}}.tar").to_tuple("__key__", "jpg", "txt"))


@pytest.mark.parametrize(
    "options",
    [
        {"select_files": lambda name: name.endswith((".cls", ".txt"))},
        {"rename_files": lambda name: name.replace("seg.png", "mask.png")},
        {
            "rename_files": lambda name: name.replace("dir", "d"),
            "select_files": lambda name: name.startswith("d0/"),
        },
    ],
    ids=["select", "rename", "both"],
)
def test_names_in_the_archive(folder, options):
    ours, theirs = both(folder, lambda ds: ds, **options)
    assert same(ours, theirs) and ours


def test_lists_of_urls(folder):
    paths = [f"{folder}/s-000.tar", f"{folder}/s-002.tar"]
    expected = [s["__key__"] for s in wds.WebDataset(paths, shardshuffle=False)]
    for urls in (
        paths,
        tuple(paths),
        iter(paths),
        "::".join(paths),
        f"{folder}/s-{{000,002}}.tar",
        f"{folder}/s-00{{0..2..2}}.tar",
    ):
        assert [s["__key__"] for s in WebDataset(urls)] == expected
    assert [s["__url__"] for s in WebDataset(f"file:{paths[0]}")] == [f"file:{paths[0]}"] * 6


@pytest.mark.parametrize("ranks, workers", [(1, 1), (1, 2), (2, 1), (2, 2), (1, 4)])
def test_ranks_and_workers_get_the_packages_shards(folder, monkeypatch, ranks, workers):
    """As long as there is a shard for each."""
    urls = f"{folder}/s-{{000..003}}.tar"
    for rank in range(ranks):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", str(ranks))
        for worker in range(workers):
            info = torch.utils.data._utils.worker.WorkerInfo(
                id=worker, num_workers=workers, seed=0, dataset=None
            )
            monkeypatch.setattr(torch.utils.data._utils.worker, "_worker_info", info)
            theirs = wds.WebDataset(
                urls, shardshuffle=False, nodesplitter=wds.split_by_node, workersplitter=wds.split_by_worker
            )
            expected = [s["__key__"] for s in theirs]
            assert [s["__key__"] for s in WebDataset(urls)] == expected
            given = WebDataset(urls, nodesplitter=wds.split_by_node, workersplitter=wds.split_by_worker)
            assert [s["__key__"] for s in given] == expected


def test_variables(monkeypatch, folder):
    monkeypatch.setenv("WDS_DATA", str(folder))
    assert len(list(WebDataset("${DATA}/s-000.tar"))) == 6
    with pytest.raises(ValueError, match="no WDS_NOWHERE"):
        WebDataset("${NOWHERE}/s.tar")


def test_what_the_package_writes_of_ours(folder, tmp_path):
    """Its own reader takes samples of our stages, and ours its stages."""
    urls = f"{folder}/s-{{000..003}}.tar"
    mixed = wds.DataPipeline(WebDataset(urls), wds.decode(only="cls"), wds.to_tuple("cls"))
    assert [c for (c,) in mixed] == [i % 7 for i in range(COUNT)]
    ours = WebDataset(urls).compose(wds.filters.decode(only="cls"), wds.filters.to_tuple("cls"))
    assert [c for (c,) in ours] == [i % 7 for i in range(COUNT)]


def test_to_dict(folder):
    ds = WebDataset(f"{folder}/s-000.tar").decode()
    assert [*next(iter(ds.to_dict("png;seg.png", "cls")))] == ["png", "cls"]
    assert "__key__" not in next(iter(ds.to_dict())) and next(iter(ds.to_dict("cls id"))) == {
        "cls": 0,
        "id": 0,
    }


def test_the_chain_is_data(folder):
    ds = WebDataset(f"{folder}/s-000.tar")
    chain = (
        ds.shuffle(5)
        .decode("pil")
        .to_tuple("jpg;png", "cls")
        .map_tuple(add_one, None)
        .batched(4, partial=False)
    )
    assert ds.stages == () and all(isinstance(stage, Stage) for stage in chain.stages)
    shuffle, decode, to_tuple, map_tuple, batched = chain.stages
    assert (shuffle.size, decode.handlers, to_tuple.fields) == (5, ("pil",), (("jpg", "png"), ("cls",)))
    assert map_tuple == stages.MapTuple((add_one, None)) and (batched.batchsize, batched.partial) == (
        4,
        False,
    )
    assert chain.shuffle(0) is chain


def test_pipelines_are_pickled(folder):
    ds = WebDataset(f"{folder}/s-{{000..001}}.tar", shardshuffle=True).shuffle(5).decode("pil")
    ds = ds.to_tuple("cls").map_tuple(add_one).batched(4)
    ds.set_epoch(3)
    again = pickle.loads(pickle.dumps(ds.with_epoch(7).with_length(9)))
    assert len(again) == 9 and again.stages == ds.stages
    again.set_epoch(3)
    assert same(list(again), _at(ds.with_epoch(7), 3))


def _at(ds, epoch):
    ds.set_epoch(epoch)
    return list(ds)


def test_subclasses_stay_subclasses(folder):
    class Labels(WebDataset):
        def labels(self):
            return self.decode(only="cls").to_tuple("cls")

    with Labels(f"{folder}/s-000.tar").slice(3) as dataset:
        assert isinstance(dataset.labels().shuffle(2), Labels) and list(dataset.labels()) == [
            (0,),
            (1,),
            (2,),
        ]


def test_lengths(folder):
    ds = WebDataset(f"{folder}/s-000.tar")
    assert ds and len(ds.with_length(5)) == 5
    with pytest.raises(TypeError, match="with_length"):
        len(ds)


def test_log_keys(folder, tmp_path):
    assert list(WebDataset(f"{folder}/s-000.tar").log_keys(str(tmp_path / "log")).to_tuple("cls"))
    assert (tmp_path / "log").read_text().splitlines()[1] == "1\tNone\tNone\tdir0/k001"
