"""WebDataset through the native engine: what Python code gives, for any number of threads, resumed anywhere, ended in any way."""

from __future__ import annotations

import copy
import gc
import gzip
import io
import os
import pickle
import re
import signal
import subprocess
import sys
import tarfile
import time

import numpy as np
import pytest
import torch
from pictures import jpeg_bytes, make_picture
from shard_data import same, write_tar

import millrace
import millrace.transforms as T
from millrace import DataLoader
from millrace.datasets import WebDataset

LENGTHS = (7, 5, 1, 6)
COUNT = sum(LENGTHS)
FIXED = T.Compose([T.Resize((12, 16)), T.ToTensor()])
RANDOM = T.Compose([T.RandomResizedCrop(12), T.RandomHorizontalFlip(), T.ToTensor()])


def encoded(picture, form):
    buffer = io.BytesIO()
    picture.save(buffer, form)
    return buffer.getvalue()


def members_of(number):
    picture = make_picture(24 + number % 5, 20 + number % 3, seed=number)
    form = ("jpg", "png", "webp")[number % 3]
    data = jpeg_bytes(picture, quality=90) if form == "jpg" else encoded(picture, form)
    return [(f"d/{number:03d}.{form}", data), (f"d/{number:03d}.cls", b"%d" % number), (f"d/{number:03d}.txt", b"t" * number)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder, number = tmp_path_factory.mktemp("streams"), 0
    for shard, length in enumerate(LENGTHS):
        members = [member for i in range(number, number + length) for member in members_of(i)]
        number += length
        path = write_tar(folder / f"s-{shard}.tar", members)
        with open(path, "rb") as file:
            data = file.read()
        (folder / f"s-{shard}.tar.gz").write_bytes(gzip.compress(data))
        subprocess.run(["zstd", "-q", "-f", path, "-o", f"{path}.zst"], check=False)
    return folder


def stream(folder, transform=FIXED, ending="tar", **options):
    return images(WebDataset(f"{folder}/s-{{0..3}}.{ending}", **options), transform)


def images(dataset, transform=FIXED):
    return dataset.decode("pil").to_tuple("jpg;png;webp", "cls").map_tuple(transform)


def loaded(dataset, **options):
    """All batches, by the engine and nothing else."""
    loader = DataLoader(dataset, **options)
    assert "python —" not in str(loader.explain()), str(loader.explain())
    return list(loader)


def by_python(dataset, **options):
    options.pop("num_workers", None)
    return list(DataLoader(dataset, native="never", **options))


def assert_same(ours, theirs):
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs):
        assert same(one, other)


def negative(label):
    return -float(label)


def halved(label):
    return label // 2


CHAINS = {
    "batch_size": (lambda f: stream(f), {"batch_size": 4}),
    "drop_last": (lambda f: stream(f), {"batch_size": 4, "drop_last": True}),
    "exact": (lambda f: stream(f), {"batch_size": COUNT, "drop_last": True}),
    "larger than all": (lambda f: stream(f), {"batch_size": 100}),
    "batched": (lambda f: stream(f).batched(4), {"batch_size": None}),
    "not partial": (lambda f: stream(f).batched(4, partial=False), {"batch_size": None}),
    "single": (lambda f: stream(f).batched(1), {"batch_size": None}),
    "shuffle": (lambda f: images(WebDataset(f"{f}/s-{{0..3}}.tar", shardshuffle=True, seed=3).shuffle(6, initial=4)).batched(5), {"batch_size": None}),
    "shuffled twice": (lambda f: stream(f, shardshuffle=True).shuffle(5).slice(1, 15, 2), {"batch_size": 3}),
    "slice": (lambda f: stream(f).slice(2, 13).batched(4), {"batch_size": None}),
    "rsample": (lambda f: stream(f).rsample(0.6), {"batch_size": 3}),
    "rename": (
        lambda f: WebDataset(f"{f}/s-{{0..3}}.tar").decode("pil").rename(image="jpg;png;webp", label="cls").to_tuple("label", "image").map_tuple(halved, FIXED),
        {"batch_size": 4},
    ),
    "map_dict": (
        lambda f: WebDataset(f"{f}/s-{{0..3}}.tar").decode("pilrgb").rename(image="jpg;png;webp").map_dict(image=FIXED, cls=negative).to_tuple("image", "cls", "__key__"),
        {"batch_size": 4},
    ),
    "functions": (lambda f: stream(f).map_tuple(None, negative).map_tuple(None, abs).batched(4), {"batch_size": None}),
    "text": (lambda f: WebDataset(f"{f}/s-{{0..3}}.tar").decode("pil").to_tuple("txt", "jpg;png;webp", "__key__", "cls").map_tuple(len, FIXED).batched(4), {"batch_size": None}),
    "select_files": (lambda f: stream(f, select_files=lambda name: not name.endswith(".txt")), {"batch_size": 4}),
    "with_epoch": (lambda f: stream(f).with_epoch(23), {"batch_size": 4}),
    "batches of an epoch": (lambda f: stream(f).batched(4).with_epoch(7), {"batch_size": None}),
    "repeat": (lambda f: stream(f, shardshuffle=True).shuffle(4).repeat(3), {"batch_size": 4}),
    "batched and repeat": (lambda f: stream(f).shuffle(4).batched(5).repeat(2), {"batch_size": None}),
    "resampled": (lambda f: stream(f, resampled=True).shuffle(4).batched(4).with_epoch(9), {"batch_size": None}),
    "gz": (lambda f: stream(f, ending="tar.gz").shuffle(4), {"batch_size": 4}),
    "zst": (lambda f: stream(f, ending="tar.zst").batched(4), {"batch_size": None}),
}


def needs(name):
    if name == "zst" and not os.path.exists("/usr/bin/zstd"):
        pytest.skip("there is no zstd program")


@pytest.mark.parametrize("name", CHAINS)
def test_what_python_gives(folder, name):
    needs(name)
    make, options = CHAINS[name]
    expected = by_python(make(folder), **options)
    assert expected
    for workers in (0, 1, 3):
        assert_same(loaded(make(folder), num_workers=workers, **options), expected)


@pytest.mark.parametrize("name", ["batch_size", "shuffle", "batches of an epoch", "repeat", "resampled", "gz", "slice"])
def test_two_epochs_are_those_of_python(folder, name):
    make, options = CHAINS[name]
    ours, theirs = DataLoader(make(folder), num_workers=2, **options), DataLoader(make(folder), native="never", **options)
    for _ in range(3):
        assert_same(list(ours), list(theirs))


@pytest.mark.parametrize("name", ["drop_last", "shuffle", "shuffled twice", "batches of an epoch", "batched and repeat", "resampled", "gz"])
def test_resumed_at_every_batch(folder, name):
    make, options = CHAINS[name]
    all_batches = [list(loader) for loader in [DataLoader(make(folder), **options)] for _ in range(2)]
    for taken in range(len(all_batches[0]) + 1):
        one = DataLoader(make(folder), num_workers=taken % 3, **options)
        iterator = iter(one)
        assert_same([next(iterator) for _ in range(taken)], all_batches[0][:taken])
        state = pickle.loads(pickle.dumps(one.state_dict()))
        del iterator
        for other_options in ({"num_workers": 2 - taken % 3}, {"native": "never"}):
            other = DataLoader(make(folder), **options, **other_options)
            other.load_state_dict(state)
            rest = list(other)
            if taken == len(all_batches[0]) and not rest:  # the state was taken before the end was seen
                rest = []
                assert_same(list(other), all_batches[1])
            elif taken == len(all_batches[0]):
                assert_same(rest, all_batches[1])
            else:
                assert_same(rest, all_batches[0][taken:])
                if other_options.get("native") is None:
                    assert_same(list(other), all_batches[1])


def test_a_state_of_python_code_goes_on_in_the_engine(folder):
    make, options = CHAINS["shuffle"]
    expected = by_python(make(folder), **options)
    one = DataLoader(make(folder), native="never", **options)
    iterator = iter(one)
    next(iterator)
    other = DataLoader(make(folder), num_workers=2, **options)
    other.load_state_dict(one.state_dict())
    assert_same(list(other), expected[1:])


def pixels(batches):
    return torch.cat([batch[0] for batch in batches])


@pytest.mark.parametrize("how", ["batch_size", "batched", "resampled"])
def test_random_transforms(folder, how):
    """The same pixels for any number of threads and behind a resume; others in the next epoch, and at each time a sample comes."""

    def make(workers):
        torch.manual_seed(11)
        dataset = stream(folder, RANDOM, shardshuffle=how != "resampled", resampled=how == "resampled").shuffle(6)
        if how == "resampled":
            dataset = dataset.with_epoch(30)
        return DataLoader(dataset.batched(4), batch_size=None, num_workers=workers) if how == "batched" else DataLoader(dataset, batch_size=4, num_workers=workers)

    loader = make(0)
    first, second = list(loader), list(loader)
    for workers in (1, 3):
        other = make(workers)
        assert_same(list(other), first)
        assert_same(list(other), second)
    if how != "resampled":
        ordered = [dict(zip(torch.cat([torch.as_tensor(b[1]) for b in batches]).tolist(), pixels(batches))) for batches in (first, second)]
        assert all(not torch.equal(ordered[0][label], ordered[1][label]) for label in range(COUNT))
    else:
        labels = torch.cat([batch[1] for batch in first])
        twice = [label for label in labels.unique() if (labels == label).sum() > 1]
        assert twice
        for label in twice:
            copies = pixels(first)[labels == label]
            assert not torch.equal(copies[0], copies[1])
    for taken in range(0, len(first), 2):
        one = make(taken % 3)
        iterator = iter(one)
        for _ in range(taken):
            next(iterator)
        other = make(2)
        torch.manual_seed(99)
        other.load_state_dict(one.state_dict())
        assert_same(list(other), first[taken:])


def test_passes_of_one_epoch_differ(folder):
    dataset = stream(folder, RANDOM).repeat(2)
    (batch,) = loaded(dataset, batch_size=2 * COUNT)
    assert not any(torch.equal(batch[0][i], batch[0][COUNT + i]) for i in range(COUNT))


REFUSALS = {
    "map": (lambda d: images(d).map(tuple), {}, "Map is Python code for whole samples; use map_tuple"),
    "select": (lambda d: images(d).select(bool), {}, "is Python code for whole samples"),
    "compose": (lambda d: images(d).compose(iter), {}, "is Python code for whole samples"),
    "no decode": (lambda d: d.to_tuple("jpg", "cls"), {}, r'the pictures are not decoded: use decode\("pil"\)'),
    "decoded twice": (lambda d: images(d.decode("pil")), {}, r"two decode\(\) stages"),
    "torchrgb": (lambda d: d.decode("torchrgb").to_tuple("jpg", "cls"), {}, r'natively by decode\("pil"\) alone, and this is decode'),
    "only": (lambda d: d.decode("pil", only="jpg").to_tuple("jpg", "cls"), {}, r'by decode\("pil"\) alone'),
    "dicts": (lambda d: d.decode("pil"), {}, r"samples should be tuples with one picture: use to_tuple"),
    "no picture": (lambda d: d.decode("pil").to_tuple("txt", "cls"), {}, "tuples with one picture"),
    "two pictures": (lambda d: d.decode("pil").to_tuple("jpg", "png"), {}, "tuples with one picture"),
    "perhaps a picture": (lambda d: d.decode("pil").to_tuple("jpg;txt", "cls"), {}, "the field 'jpg;txt' may be a picture or something else"),
    "bytes changed": (lambda d: d.map_dict(jpg=len).decode("pil").to_tuple("jpg", "cls"), {}, r"changed before decode\(\), as bytes"),
    "two functions": (lambda d: images(d).map_tuple(FIXED), {}, "two functions; make one of them, by Compose"),
    "renamed first": (lambda d: d.rename(image="jpg").decode("pil").to_tuple("image", "cls"), {}, r"renamed before decode\(\)"),
    "tuples first": (lambda d: d.decode("pil").map_tuple(FIXED).to_tuple("jpg", "cls"), {}, r"map_tuple\(\) comes before to_tuple\(\)"),
    "behind batched": (lambda d: images(d).batched(4).shuffle(3), {"batch_size": None}, r"comes behind batched\(\); the engine batches last"),
    "collation_fn": (lambda d: images(d).batched(4, collation_fn=list), {"batch_size": None}, r"batched\(\) has a collation_fn of its own"),
    "batches of batches": (lambda d: images(d).batched(4), {"batch_size": 2}, "batches of these; give the loader batch_size=None"),
    "single samples": (lambda d: images(d), {"batch_size": None}, r"single samples; give a batch_size, or use batched\(\)"),
    "on_error": (lambda d: images(d), {"on_error": "skip"}, 'on_error="skip" takes other indices of a map-style dataset, and a stream has none'),
    "transform": (lambda d: images(d, abs), {}, "transform: python"),
    "collate_fn": (lambda d: images(d), {"collate_fn": list}, "collate_fn: python"),
    "worker_init_fn": (lambda d: images(d), {"worker_init_fn": print, "num_workers": 1}, "worker_init_fn: python"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_explain_says_why_not(folder, name):
    make, options, reason = REFUSALS[name]
    dataset = make(WebDataset(f"{folder}/s-0.tar"))
    text = str(DataLoader(dataset, **{"batch_size": 2, **options}).explain())
    assert re.search(reason, text), text
    assert "native —" not in text


def test_a_subclass_is_left_to_python(folder):
    class Mine(WebDataset):
        def __iter__(self):
            return iter(())

    assert "Mine overrides __iter__ of WebDataset; use WebDataset itself" in str(DataLoader(images(Mine(f"{folder}/s-0.tar")), batch_size=2).explain())


# ---------------------------------------------------------------- what goes wrong


def labels(batch):
    return np.asarray(batch[1]).tolist()


def damaged_shards(tmp_path):
    """Two shards of 6; sample 8, the third of the second shard, has a JPEG that is none."""
    paths = []
    for shard in range(2):
        members = []
        for i in range(6 * shard, 6 * shard + 6):
            data = jpeg_bytes(make_picture(24, 20, seed=i)) if i != 8 else b"\xff\xd8\xff\xe0 no picture"
            members += [(f"{i:02d}.jpg", data), (f"{i:02d}.cls", b"%d" % i)]
        paths.append(write_tar(tmp_path / f"d-{shard}.tar", members))
    return paths


@pytest.mark.parametrize("workers", [0, 2])
def test_a_damaged_picture_names_itself_at_its_turn(tmp_path, workers):
    paths = damaged_shards(tmp_path)
    dataset = WebDataset(paths).decode("pil").to_tuple("jpg", "cls").map_tuple(FIXED)
    iterator = iter(DataLoader(dataset, batch_size=4, num_workers=workers))
    assert [labels(next(iterator)) for _ in range(2)] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    with pytest.raises(millrace.CorruptDataError, match=rf"{paths[1]}/08\.jpg"):
        next(iterator)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_cut_shard_says_so_at_its_turn(tmp_path, workers):
    paths = damaged_shards(tmp_path)
    with tarfile.open(paths[0]) as tar:
        third = tar.getmember("03.jpg")
    os.truncate(paths[0], third.offset_data + 100)
    dataset = WebDataset(paths).decode("pil").to_tuple("jpg", "cls").map_tuple(FIXED)
    expected, error = [], None
    try:
        for batch in DataLoader(dataset, native="never", batch_size=1):
            expected.append(labels(batch))
    except millrace.CorruptDataError as caught:
        error = caught
    assert expected and error is not None
    iterator = iter(DataLoader(dataset, batch_size=1, num_workers=workers))
    assert [labels(next(iterator)) for _ in expected] == expected
    with pytest.raises(millrace.CorruptDataError) as raised:
        next(iterator)
    assert str(raised.value) == str(error)
    assert next(iterator, "end") == "end"


@pytest.mark.parametrize("workers", [0, 2])
def test_a_missing_field_says_which(tmp_path, workers):
    jpeg = jpeg_bytes(make_picture(20, 20))
    path = write_tar(tmp_path / "m.tar", [("a.jpg", jpeg), ("a.cls", b"0"), ("b.cls", b"1"), ("c.jpg", jpeg), ("c.cls", b"x")])
    dataset = WebDataset(path).decode("pil").to_tuple("jpg", "cls").map_tuple(FIXED)
    iterator = iter(DataLoader(dataset, batch_size=1, num_workers=workers))
    assert labels(next(iterator)) == [0]
    with pytest.raises(ValueError, match="m.tar: sample 'b' has no field 'jpg', only 'cls'"):
        next(iterator)
    with pytest.raises(FileNotFoundError, match="missing.tar"):
        next(iter(DataLoader(stream(tmp_path / "missing.tar" / "x"), batch_size=2, num_workers=workers)))


def test_labels_that_cannot_be_read(tmp_path):
    path = write_tar(tmp_path / "l.tar", [("a.jpg", jpeg_bytes(make_picture(20, 20))), ("a.cls", b"cat")])
    dataset = WebDataset(path).decode("pil").to_tuple("jpg", "cls").map_tuple(FIXED)
    for native in ("auto", "never"):
        with pytest.raises(Exception, match="'a'.*cls|cls.*'a'"):
            next(iter(DataLoader(dataset, batch_size=2, native=native)))


# ---------------------------------------------------------------- ends


def threads_now():
    return len(os.listdir("/proc/self/task"))


def settled(count):
    """Whether there are no more than `count` threads, soon."""
    gc.collect()
    end = time.monotonic() + 5
    while threads_now() > count and time.monotonic() < end:
        time.sleep(0.01)
    return threads_now() <= count


def test_breaks_leave_nothing(folder):
    dataset = stream(folder).shuffle(4).batched(3)
    for batch in DataLoader(dataset, batch_size=None, num_workers=2):
        break
    gc.collect()
    threads, files = threads_now(), len(os.listdir("/proc/self/fd"))
    loader = DataLoader(dataset, batch_size=None, num_workers=2)
    for number in range(200):
        for turn, _ in enumerate(loader):
            if turn == number % 3:
                break
    iterator = iter(loader)
    list(iterator)
    assert iterator._stream._tickets.held == 0
    del iterator, loader
    assert settled(threads) and len(os.listdir("/proc/self/fd")) <= files


def test_a_closed_iterator_holds_no_samples(folder):
    iterator = iter(DataLoader(stream(folder), batch_size=3, num_workers=2))
    next(iterator)
    tickets = iterator._stream._tickets
    iterator._shutdown_workers()
    assert tickets.held == 0


def test_two_iterators_at_once(folder):
    loader = DataLoader(stream(folder).batched(4), batch_size=None, num_workers=2)
    expected = list(loader)
    one, two = iter(loader), iter(loader)
    pairs = list(zip(one, two, strict=True))
    assert_same([a for a, _ in pairs], expected)
    assert_same([b for _, b in pairs], expected)


def test_copies_and_pickles(folder):
    loader = DataLoader(stream(folder).shuffle(5), batch_size=4, num_workers=2)
    expected = [list(loader) for _ in range(2)]
    for other in (copy.deepcopy(DataLoader(stream(folder).shuffle(5), batch_size=4)), pickle.loads(pickle.dumps(DataLoader(stream(folder).shuffle(5), batch_size=4)))):
        assert_same(list(other), expected[0])
    iterator = iter(loader)
    next(iterator)
    middle = copy.deepcopy(loader)
    assert len(list(middle)) == len(expected[0])


def test_length_and_counters(folder):
    dataset = stream(folder).batched(4).with_length(5)
    loader = DataLoader(dataset, batch_size=None, num_workers=1)
    assert len(loader) == 5 and len(list(loader)) == 5
    with pytest.raises(TypeError, match="has no length"):
        len(DataLoader(stream(folder), batch_size=4))
    stats = loader.stats()
    assert stats["samples"] == COUNT and stats["batches"] == 5, stats


def test_pinned_and_persistent(folder):
    expected = by_python(stream(folder), batch_size=4)
    for options in ({"pin_memory": True}, {"persistent_workers": True}, {"prefetch_factor": 7}, {"timeout": 30}):
        loader = DataLoader(stream(folder), batch_size=4, num_workers=2, **options)
        for _ in range(2):
            assert_same(list(loader), expected)


def test_a_fork_says_what_to_do(folder):
    iterator = iter(DataLoader(stream(folder), batch_size=2, num_workers=2))
    next(iterator)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            next(iterator)
        except RuntimeError as error:
            os.write(write, str(error).encode())
        try:
            os.write(write, b"|%d" % len(list(DataLoader(stream(folder), batch_size=2, num_workers=1))))
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        text = pipe.read().decode()
    os.waitpid(child, 0)
    assert "its threads did not follow the fork" in text and text.endswith("|10")
    assert len(list(iterator)) == 9


INTERRUPTED = """
import os, signal, sys, threading, time
sys.path[:0] = {paths!r}
from test_stream_engine import DataLoader, stream, FIXED
seen = 0
try:
    threading.Timer(0.7, os.kill, (os.getpid(), signal.SIGINT)).start()
    for batch in DataLoader(stream({folder!r}).repeat(), batch_size=3, num_workers=2):
        seen += 1
except KeyboardInterrupt:
    print("interrupted", seen > 0)
"""


def test_ctrl_c(folder):
    script = INTERRUPTED.format(paths=[os.path.dirname(__file__)], folder=str(folder))
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert done.stdout.split() == ["interrupted", "True"], done.stderr
    assert done.returncode == 0 and not done.stderr.strip(), done.stderr
