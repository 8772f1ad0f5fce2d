"""Errors of shards and samples name shard, key and field, or are skipped; nothing else is lost."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import re
import tarfile
import warnings

import millrace
import numpy as np
import pytest
import torch
from millrace import DataLoader
from millrace.datasets import (
    DecodingError,
    WebDataset,
    ignore_and_continue,
    ignore_and_stop,
    warn_and_continue,
    warn_and_stop,
)
from millrace.datasets.webdataset.cache import StreamingOpen
from millrace.datasets.webdataset.tar_streams import tar_file_iterator
from shard_data import numbered_shards, write_tar
from split_cases import number


@pytest.fixture
def shards(tmp_path):
    return numbered_shards(tmp_path, [4, 4, 4])


def damage(path, at):
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(b"\xff" * 16)


def cut_shard(path):
    """Its first two samples are whole."""
    data = open(path, "rb").read()
    open(path, "wb").write(data[: 2 * 1024 + 300])


BROKEN = {
    "cut": (cut_shard, millrace.CorruptDataError, [4, 5]),
    "wrong checksum": (lambda path: damage(path, 1024), millrace.CorruptDataError, [4]),
    "missing": (os.unlink, FileNotFoundError, []),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_shard(shards, what):
    break_it, error, read = BROKEN[what]
    break_it(shards[1])
    seen = []
    with pytest.raises(error, match="n-001.tar"):
        for sample in WebDataset(shards):
            seen.append(number(sample))
    assert seen[:4] == [0, 1, 2, 3] and set(seen[4:]) <= set(read)
    skipped = [number(sample) for sample in WebDataset(shards, handler=ignore_and_continue)]
    assert skipped[:4] == [0, 1, 2, 3] and skipped[-4:] == [8, 9, 10, 11] and set(skipped[4:-4]) <= set(read)
    with pytest.warns(UserWarning, match="n-001.tar"):
        assert [number(sample) for sample in WebDataset(shards, handler=warn_and_continue)] == skipped
    stopped = [number(sample) for sample in WebDataset(shards, handler=ignore_and_stop)]
    assert stopped == skipped[:-4]
    with pytest.warns(UserWarning, match="n-001.tar"):
        assert [number(sample) for sample in WebDataset(shards, handler=warn_and_stop)] == stopped


@pytest.mark.parametrize("what", BROKEN)
def test_resuming_over_a_broken_shard(shards, what):
    BROKEN[what][0](shards[1])

    def make():
        return WebDataset(shards, handler=ignore_and_continue).shuffle(3, initial=2).map(number)

    dataset, expected, states = make(), list(make()), []
    states = [json.dumps(dataset.state_dict()) for _ in dataset]
    for cut, state in enumerate(states, 1):
        resumed = make()
        resumed.load_state_dict(json.loads(state))
        assert list(resumed) == expected[cut:]


def test_a_name_that_is_twice_in_a_sample(tmp_path):
    members = [("a.cls", b"0"), ("a.txt", b"x"), ("a.cls", b"1"), ("b.cls", b"2")]
    url = write_tar(tmp_path / "twice.tar", members)
    with pytest.raises(ValueError, match="twice.tar.*a.*cls"):
        list(WebDataset(url))
    samples = list(WebDataset(url, handler=ignore_and_continue))
    assert [(s["__key__"], s["cls"]) for s in samples][-1] == ("b", b"2") and len(samples) <= 2


def test_an_empty_dataset(tmp_path):
    url = write_tar(tmp_path / "empty.tar", [])
    with pytest.raises(ValueError, match="found no samples: 1 shard .*empty_check=False"):
        list(WebDataset(url))
    assert list(WebDataset(url, empty_check=False)) == []
    assert list(WebDataset(url, empty_check=False).with_epoch(5)) == [], "nothing to repeat"


def test_a_reader_without_samples_is_no_error_where_samples_are_divided(tmp_path):
    paths = numbered_shards(tmp_path, [1])
    loader = DataLoader(WebDataset(paths).map(number), None, num_workers=2)
    assert list(loader) == [0]


def test_a_sample_without_the_asked_field(shards):
    with pytest.raises(
        ValueError, match=r"n-000.tar: sample '00000' has no field 'jpg' or 'png', only 'cls'"
    ):
        list(WebDataset(shards).to_tuple("jpg;png", "cls"))
    with pytest.raises(ValueError, match="field 'cls' is None"):
        list(WebDataset(shards).map(lambda s: {**s, "cls": None}).to_tuple("cls"))
    with pytest.raises(ValueError, match="has no field 'x'"):
        list(WebDataset(shards).rename(y="x"))
    with pytest.raises(ValueError, match="has no field 'x'"):
        list(WebDataset(shards).map_dict(x=int))
    assert len(list(WebDataset(shards).to_tuple("x", handler=ignore_and_continue))) == 0


def test_wrong_order_of_stages_is_said(shards):
    for chain, message in (
        (lambda ds: ds.to_tuple("cls").decode(), "put it before to_tuple"),
        (lambda ds: ds.map_tuple(int), "as to_tuple"),
        (lambda ds: ds.to_tuple("cls").map_dict(cls=int), "put it before to_tuple"),
    ):
        with pytest.raises(TypeError, match=message):
            list(chain(WebDataset(shards)))
    with pytest.raises(ValueError, match="not bytes"):
        list(WebDataset(shards).map(lambda s: b"x").unbatched())
    with pytest.raises(ValueError, match="not tuple"):
        list(WebDataset(shards).to_tuple("cls").unlisted())


# ---------------------------------------------------------------- decoding


class Evil:
    def __reduce__(self):
        return exec, ("raise SystemError('it ran')",)


def packed(kind):
    file = io.BytesIO()
    if kind in ("pyd", "pkl", "pickle"):
        return pickle.dumps(Evil())
    if kind == "npy":
        np.save(file, np.array([Evil()], dtype=object), allow_pickle=True)
    elif kind == "npz":
        np.savez(file, a=np.array([Evil()], dtype=object))
    else:
        torch.save({"a": Evil()}, file)
    return file.getvalue()


@pytest.mark.parametrize("gz", [False, True])
@pytest.mark.parametrize("kind", ["pyd", "pkl", "pickle", "npy", "npz", "pth"])
def test_pickles_are_refused_unless_allowed_by_name(tmp_path, kind, gz):
    data = gzip.compress(packed(kind)) if gz else packed(kind)
    name = f"part.{kind}.gz" if gz else f"part.{kind}"
    url = write_tar(tmp_path / "evil.tar", [(f"k.{name}", data), ("k.cls", b"1")])
    with pytest.raises(
        DecodingError, match=rf"evil.tar: sample 'k', field '{name}'.*allow_pickle=\("
    ) as caught:
        list(WebDataset(url).decode())
    assert (caught.value.url, caught.value.key, caught.value.field) == (url, "k", name)
    assert isinstance(caught.value, OSError)
    with pytest.raises(DecodingError):
        list(WebDataset(url).decode(allow_pickle=["other"]))
    for allowed in (True, (kind,)):
        with pytest.raises((DecodingError, SystemError), match="it ran"):
            list(WebDataset(url).decode(allow_pickle=allowed))
    assert list(WebDataset(url).decode(only="cls").to_tuple("cls")) == [(1,)]
    assert list(WebDataset(url).decode(handler=ignore_and_continue)) == []


def test_harmless_pickles_where_they_are_allowed(tmp_path):
    objects = io.BytesIO()
    np.save(objects, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    url = write_tar(tmp_path / "a.tar", [("k.pyd", pickle.dumps([1, 2])), ("k.npy", objects.getvalue())])
    (sample,) = WebDataset(url).decode(allow_pickle=("pyd", "npy"))
    assert sample["pyd"] == [1, 2] and sample["npy"][0] == {"a": 1}
    with pytest.raises(DecodingError, match="allow_pickle"):
        list(WebDataset(url).decode(allow_pickle=("pyd",)))


@pytest.mark.parametrize(
    "name, data",
    [
        ("jpg", b"\xff\xd8\xff\xe0 no picture"),
        ("cls", b"one"),
        ("txt", b"\xff\xfe"),
        ("json", b"{"),
        ("npy", b"\x93NUMPY no"),
        ("npz", b"no archive"),
        ("pth", b"nothing"),
        ("ten", b"~TenBin~" + (2**40).to_bytes(8, "little")),
        ("ten", b"other ten bytes and some more"),
        ("ten", b"~TenBin~"),
        ("json.gz", b"\x1f\x8b cut"),
    ],
)
def test_damaged_fields(tmp_path, name, data):
    url = write_tar(tmp_path / "damaged.tar", [(f"a.{name}", data), ("b.cls", b"1")])
    with pytest.raises(DecodingError, match=f"damaged.tar: sample 'a', field '{name}' cannot be decoded: "):
        list(WebDataset(url).decode("rgb8"))
    assert [s["__key__"] for s in WebDataset(url).decode("rgb8", handler=ignore_and_continue)] == ["b"]


def test_errors_of_users_functions_are_their_own(shards):
    def fails(key, data):
        raise KeyError("mine")

    with pytest.raises(DecodingError, match="KeyError: 'mine'") as caught:
        list(WebDataset(shards).decode(fails))
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(ZeroDivisionError):
        list(WebDataset(shards).map(lambda s: 1 // 0))


@pytest.mark.parametrize("workers", [0, 2])
def test_errors_come_through_a_loader(shards, workers):
    cut_shard(shards[1])
    loader = DataLoader(WebDataset(shards).map(number), 2, num_workers=workers)
    with pytest.raises(millrace.CorruptDataError, match="n-001.tar"):
        for _ in loader:
            pass
    damaged = DataLoader(WebDataset(shards, handler=ignore_and_continue).map(number), 2, num_workers=workers)
    seen = sorted(n for batch in damaged for n in batch.tolist())
    assert set(range(12)) - {4, 5, 6, 7} <= set(seen) and len(seen) == len(set(seen))


def test_an_error_ends_the_iterator_and_its_state_repeats_it(shards):
    """What a batch or a buffer had taken before the error is not lost."""
    broken = [5]

    def read(sample):
        if number(sample) in broken:
            raise OSError("for a moment")
        return number(sample)

    dataset = WebDataset(shards).map(read).listed(4)
    items = iter(dataset)
    assert next(items) == [0, 1, 2, 3]
    with pytest.raises(OSError, match="for a moment"):
        next(items)
    assert next(items, None) is None
    state = dataset.state_dict()
    broken.clear()
    again = WebDataset(shards).map(read).listed(4)
    again.load_state_dict(state)
    assert list(again) == [[4, 5, 6, 7], [8, 9, 10, 11]]


def test_batches_of_different_samples(tmp_path):
    url = write_tar(tmp_path / "x.tar", [("a.cls", b"1"), ("b.txt", b"1"), ("c.npy", b"")])
    with pytest.raises(ValueError, match="different fields"):
        list(WebDataset(url).batched(2))
    sizes = lambda s: (np.zeros(len(s)), s["__key__"])
    with pytest.raises(ValueError, match="2 and 1 fields"):
        list(WebDataset(url).map(lambda s: ("a",) * (1 + ("cls" in s))).batched(2))
    with pytest.raises(ValueError, match="field 0 has different shapes"):
        list(WebDataset(url).map(lambda s: {**s, "x": 1} if "cls" in s else s).map(sizes).batched(2))


def test_shards_that_need_something_else(tmp_path):
    with pytest.raises(millrace.UnavailableError, match="not read from commands"):
        WebDataset("pipe:cat x.tar")
    with tarfile.open(tmp_path / "plain.tar", "w"):
        pass
    with pytest.raises(ValueError, match="no samples"):
        list(WebDataset(str(tmp_path / "plain.tar")))


def test_stages_that_take_no_handler_raise_what_is_wrong(shards):
    dataset = WebDataset(shards)
    for stage, message in (
        (dataset.rename_keys(("label", "*.none")), "no field fits"),
        (dataset.extract_keys("*.none"), "has no field that fits '.*none'"),
        (dataset.xdecode(), "has no decoder for field 'cls'"),
    ):
        with pytest.raises(ValueError, match=message):
            next(iter(stage))
    assert dataset.rename_keys(("label", "cls")).indexed()[0]["label"] == b"0"


def test_patterns_and_what_is_no_list_are_refused_at_once(tmp_path):
    write_tar(tmp_path / "x{1.tar", [("a.cls", b"1")])
    assert len(list(WebDataset(str(tmp_path / "x{1.tar")))) == 1
    for pattern in ("*.tar", "x-{}.tar", "x-{000..003.tar", "x?.tar"):
        with pytest.raises(ValueError, match=r"is no file; shards are named by \{000\.\.127\}.*glob"):
            WebDataset(str(tmp_path / pattern))
    for urls in (None, 5):
        with pytest.raises(
            TypeError, match=f"urls should be a string, a path or a list of these, but is {urls}"
        ):
            WebDataset(urls)


def raise_warnings(worker):
    warnings.simplefilter("error")


def test_an_epoch_that_begins_once_more_in_new_workers_warns(tmp_path):
    urls = numbered_shards(tmp_path, [5, 5])
    torchs = torch.utils.data.DataLoader

    def warned(dataset, kind, named=False, **arguments):
        """In which epochs."""
        loader = kind(dataset, batch_size=None, num_workers=2, worker_init_fn=raise_warnings, **arguments)
        epochs = []
        for epoch in range(3):
            if named:
                dataset.set_epoch(epoch)
            try:
                list(loader)
            except UserWarning as warning:
                assert "epoch 0 of this WebDataset begins once more" in str(warning)
                assert "set_epoch(epoch)" in str(warning)
                epochs.append(epoch)
        return epochs

    shuffled = WebDataset(urls).shuffle(3).to_tuple("cls")
    assert warned(WebDataset(urls, shardshuffle=True).to_tuple("cls"), torchs) == [1]
    assert warned(shuffled, torchs) == [1]
    assert warned(WebDataset(urls).shuffle(3), torchs, named=True) == []
    assert warned(WebDataset(urls).shuffle(3), torchs, persistent_workers=True) == []
    assert warned(WebDataset(urls).shuffle(3), DataLoader) == []
    assert warned(WebDataset(urls), torchs) == []


def test_mistakes_in_the_steps_are_no_shards_errors(tmp_path):
    """A handler decides about shards: a pattern that is none, or an entry without an URL, is raised."""
    path = tmp_path / "a.tar"
    write_tar(path, [("a.txt", b"a")])
    with open(path, "rb") as file, pytest.raises(re.error):
        list(tar_file_iterator(file, skip_meta="(", handler=lambda error: True))
    with pytest.raises(KeyError, match="url"):
        list(StreamingOpen(handler=lambda error: True)([{"other": 1}]))
