"""WebDataset through the native engine: errors come at their turn, and no end leaves anything behind."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import signal
import tarfile
import weakref

import millrace
import numpy as np
import pytest
from millrace import DataLoader
from millrace.datasets import WebDataset
from open_files import open_files
from pictures import jpeg_bytes, make_picture
from python_code import run_code
from shard_data import write_tar
from stream_cases import COUNT, FIXED, assert_same, by_python, folder, stream  # noqa: F401
from waiting import wait_until


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
    path = write_tar(
        tmp_path / "m.tar",
        [("a.jpg", jpeg), ("a.cls", b"0"), ("b.cls", b"1"), ("c.jpg", jpeg), ("c.cls", b"x")],
    )
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


def test_a_select_that_replaces_a_picture(folder):
    def thumbnail(sample):
        sample["jpg"] = sample["jpg"].resize((4, 4))
        return True

    dataset = (
        WebDataset(f"{folder}/s-0.tar")
        .slice(1)
        .decode("pil")
        .select(thumbnail)
        .to_tuple("jpg", "cls")
        .map_tuple(FIXED)
    )
    with pytest.raises(
        TypeError, match='not the shard\'s picture but Tensor: select.. replaced it. .*native="never"'
    ):
        next(iter(DataLoader(dataset, batch_size=1)))
    assert len(list(DataLoader(dataset, batch_size=1, native="never"))) == 1


def test_on_error_says_what_streams_have_instead(folder):
    for on_error in ("skip", "replace"):
        with pytest.raises(
            millrace.UnavailableError,
            match=f'on_error="{on_error}" .*give a WebDataset a handler instead: decode',
        ):
            iter(DataLoader(stream(folder), batch_size=4, on_error=on_error))


def test_equal_steps_need_a_declared_epoch(folder):
    with pytest.raises(millrace.UnavailableError, match=r"give a WebDataset an epoch, by \.with_epoch"):
        iter(DataLoader(stream(folder), batch_size=4, equal_steps="drop"))
    expected = by_python(stream(folder).with_epoch(20), batch_size=4)
    assert_same(
        list(DataLoader(stream(folder).with_epoch(10), batch_size=4, num_workers=2, equal_steps="drop")),
        expected,
    )
    batched = stream(folder).batched(4).with_epoch(3)
    assert len(list(DataLoader(batched, batch_size=None, num_workers=2, equal_steps="drop"))) == 6


# ---------------------------------------------------------------- ends


def threads_now():
    return len(os.listdir("/proc/self/task"))


def settled(count):
    """Whether there are no more than `count` threads, soon."""
    gc.collect()
    return wait_until(lambda: threads_now() <= count)


def test_breaks_leave_nothing(folder):
    dataset = stream(folder).shuffle(4).batched(3)
    for batch in DataLoader(dataset, batch_size=None, num_workers=2):
        break
    gc.collect()
    threads, files = threads_now(), open_files(str(folder))
    loader = DataLoader(dataset, batch_size=None, num_workers=2)
    for number in range(200):
        for turn, _ in enumerate(loader):
            if turn == number % 3:
                break
    iterator = iter(loader)
    list(iterator)
    assert iterator._engine._tickets.held == 0
    del iterator, loader
    assert settled(threads) and open_files(str(folder)) <= files


@pytest.mark.parametrize("workers", [0, 2])
def test_an_engine_goes_with_its_iterator(folder, workers):
    iterator = iter(DataLoader(stream(folder), batch_size=3, num_workers=workers))
    next(iterator)
    engine = weakref.ref(iterator._engine)
    gc.disable()  # no cycle waits for the collector
    try:
        del iterator
        assert engine() is None
    finally:
        gc.enable()


def test_a_closed_iterator_holds_no_samples(folder):
    iterator = iter(DataLoader(stream(folder), batch_size=3, num_workers=2))
    next(iterator)
    tickets = iterator._engine._tickets
    iterator._shutdown_workers()
    assert tickets.held == 0
    with pytest.raises(AssertionError, match="shut down before its last batch; make a new one"):
        next(iterator)


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
    for copied in (copy.deepcopy, copy.copy, lambda loader: pickle.loads(pickle.dumps(loader))):
        assert_same(list(copied(DataLoader(stream(folder).shuffle(5), batch_size=4))), expected[0])
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
    for options in (
        {"pin_memory": True},
        {"persistent_workers": True},
        {"prefetch_factor": 7},
        {"timeout": 30},
    ):
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
import os, signal, threading
from stream_cases import DataLoader, stream, FIXED
seen = 0
try:
    for batch in DataLoader(stream({folder!r}).repeat(), batch_size=3, num_workers=2):
        seen += 1
        if seen == 1:
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
except KeyboardInterrupt:
    print("interrupted", seen > 0)
"""


def test_ctrl_c(folder):
    script = INTERRUPTED.format(folder=str(folder))
    done = run_code(script, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    assert done.stdout.split() == ["interrupted", "True"] and not done.stderr.strip(), done.stderr
