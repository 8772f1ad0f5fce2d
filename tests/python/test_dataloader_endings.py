"""How iterators end, and what a bad sample, a bad moment or a fork does to them."""

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading

import millrace
import PIL
import pytest
import torch
from loader_data import make_folder, pictures
from waiting import wait_until

COUNT = 12


@pytest.fixture
def paths(tmp_path):
    return make_folder(tmp_path, COUNT)


@pytest.fixture
def dataset(tmp_path, paths):
    return pictures(str(tmp_path))


def native_threads():
    """Threads of this process that Python did not start."""
    return len(os.listdir("/proc/self/task")) - threading.active_count()


def settled(before):
    return wait_until(lambda: native_threads() <= before)


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="counts threads through /proc")
@pytest.mark.parametrize("end", ["exhausted", "break", "del", "garbage", "shutdown", "error"])
def test_threads_end(dataset, paths, end):
    before = native_threads()
    loader = millrace.DataLoader(dataset, 2, num_workers=2, native="require")
    iterator = iter(loader)
    next(iterator)
    if end == "exhausted":
        list(iterator)
    elif end == "break":
        for _ in loader:
            break
        del iterator
    elif end == "del":
        del iterator
    elif end == "garbage":
        iterator.itself = iterator
        del iterator
        gc.collect()
    elif end == "shutdown":
        iterator._shutdown_workers()
        iterator._shutdown_workers()
        with pytest.raises(AssertionError, match="Invalid iterator state"):
            next(iterator)
    elif end == "error":
        os.truncate(paths[-1], 0)
        iterator = None
        with pytest.raises(OSError):
            list(loader)
    assert settled(before)


def test_half_built_iterators_end(dataset):
    class Refusing:
        def __iter__(self):
            raise LookupError("not today")

    for workers in (0, 1):
        with pytest.raises(LookupError):
            iter(
                millrace.DataLoader(dataset, batch_sampler=Refusing(), num_workers=workers, native="require")
            )
    gc.collect()


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_keeps_its_turn_and_the_epoch_goes_on(dataset, paths, workers):
    with open(paths[5], "wb") as file:
        file.write(b"this is no picture")
    os.remove(paths[8])
    iterator = iter(millrace.DataLoader(dataset, 2, num_workers=workers, native="require"))
    seen = []
    while True:
        try:
            seen.append(next(iterator)[1].tolist())
        except StopIteration:
            break
        except OSError as error:
            kind = type(error)
            if isinstance(error, PIL.UnidentifiedImageError):  # as Pillow raises it; ours is of both classes
                kind = millrace.CorruptDataError if isinstance(error, millrace.CorruptDataError) else kind
            seen.append((kind, paths[5] in str(error), paths[8] in str(error)))
    corrupt, missing = (millrace.CorruptDataError, True, False), (FileNotFoundError, False, True)
    assert seen == [[0, 1], [2, 3], corrupt, [6, 7], missing, [10, 11]]


def test_an_error_does_not_keep_the_iterator_alive(dataset, paths):
    os.truncate(paths[0], 0)
    before = native_threads()
    gc.disable()
    try:
        iterator = iter(millrace.DataLoader(dataset, 2, num_workers=2, native="require"))
        with pytest.raises(OSError):
            next(iterator)
        del iterator
        assert settled(before)
    finally:
        gc.enable()


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_skip_fills_holes_from_the_end(dataset, paths, workers):
    for index in (1, 6):
        os.truncate(paths[index], 10)
    loader = millrace.DataLoader(dataset, 4, num_workers=workers, on_error="skip", native="require")
    assert [labels.tolist() for _, labels in loader] == [[0, 11, 2, 3], [4, 5, 10, 7], [8, 9]]
    errors = loader.stats()["errors"]
    assert [(error["index"], error["path"]) for error in errors] == [(1, paths[1]), (6, paths[6])]
    assert all(error["reason"] for error in errors)


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_replace_takes_the_next_readable(dataset, paths, workers):
    for index in (1, 2, 11):
        os.truncate(paths[index], 10)
    loader = millrace.DataLoader(dataset, 4, num_workers=workers, on_error="replace", native="require")
    assert [labels.tolist() for _, labels in loader] == [[0, 3, 3, 3], [4, 5, 6, 7], [8, 9, 10, 0]]
    assert len(loader.stats()["errors"]) >= 3


def test_skip_over_persistent_epochs(dataset, paths):
    os.truncate(paths[0], 10)
    loader = millrace.DataLoader(
        dataset, 4, num_workers=1, on_error="skip", persistent_workers=True, drop_last=True, native="require"
    )
    for _ in range(3):
        assert [labels.tolist() for _, labels in loader] == [[11, 1, 2, 3], [4, 5, 6, 7]]


def test_timeout(dataset, tmp_path, stuck_picture):
    """A format that Pillow decodes keeps the thread that asked for it waiting."""
    stuck, gate = str(tmp_path / "a" / "stuck.odd"), stuck_picture
    with open(stuck, "wb") as file:
        file.write(b"STUCK")
    dataset.samples = [(stuck, 0), *dataset.samples]
    loader = millrace.DataLoader(dataset, 2, num_workers=1, timeout=0.3, native="require")
    iterator = iter(loader)
    try:
        for _ in range(2):
            with pytest.raises(RuntimeError, match="^DataLoader timed out after 0.3 seconds$"):
                next(iterator)
    finally:
        gate.set()
    iterator._timeout = 30
    with pytest.raises(OSError):
        next(iterator)
    assert next(iterator)[1].tolist() == [1, 2]


def test_a_forked_child_may_not_go_on_but_does_no_harm(dataset):
    loader = millrace.DataLoader(dataset, 2, num_workers=2, native="require")
    iterator = iter(loader)
    next(iterator)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            try:
                next(iterator)
            except RuntimeError as error:
                status = 0 if "Make a new iterator here" in str(error) else 2
            iterator._shutdown_workers()
            del iterator
            gc.collect()
            if status == 0 and [labels.tolist() for _, labels in loader][0] != [0, 1]:
                status = 3
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(list(iterator)) == 5


def test_persistent_workers_start_anew_after_an_interrupt(dataset, monkeypatch):
    before = native_threads()
    loader = millrace.DataLoader(dataset, 4, num_workers=2, persistent_workers=True, native="require")
    iterator = iter(loader)
    with monkeypatch.context() as patch:
        patch.setattr(iterator, "_put_index", lambda: signal.raise_signal(signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            next(iterator)
    assert settled(before)
    with pytest.raises(AssertionError, match="Invalid iterator state"):
        next(iterator)
    assert [labels.tolist() for _, labels in loader] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert loader.epoch == 1


def test_persistent_workers_start_anew_in_a_forked_child(dataset):
    loader = millrace.DataLoader(dataset, 4, num_workers=2, persistent_workers=True, native="require")
    expected = [labels.tolist() for _, labels in loader]
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if [labels.tolist() for _, labels in loader] == expected else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert [labels.tolist() for _, labels in loader] == expected


SCRIPT = """
    import sys
    sys.path.insert(0, {tests!r})
    import torch, millrace
    from loader_data import pictures
    loader = millrace.DataLoader(pictures({root!r}), 2, num_workers=2,
                                 persistent_workers={persistent}, native="require")
    iterator = iter(loader)
    kept = next(iterator)
    {ending}
"""


@pytest.mark.parametrize(
    "persistent, ending, status",
    [(True, "", 0), (False, "sys.exit(3)", 3), (False, "iterator.me = iterator; raise LookupError", 1)],
)
def test_the_process_may_end_with_a_live_iterator(dataset, tmp_path, persistent, ending, status):
    tests = os.path.dirname(os.path.abspath(__file__))
    script = textwrap.dedent(SCRIPT).format(
        tests=tests, root=str(tmp_path), ending=ending, persistent=persistent
    )
    process = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False
    )
    assert process.returncode == status, process.stderr
    assert "terminate" not in process.stderr and "Fatal" not in process.stderr


def test_a_loader_may_run_in_another_thread(dataset):
    seen = []
    loader = millrace.DataLoader(dataset, 4, num_workers=2, native="require")
    thread = threading.Thread(target=lambda: seen.extend(labels.tolist() for _, labels in loader))
    thread.start()
    thread.join(30)
    assert seen == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


def test_loaders_may_run_inside_each_other(dataset):
    outer = millrace.DataLoader(dataset, 6, num_workers=1, native="require")
    assert (
        sum(len(list(millrace.DataLoader(dataset, 6, num_workers=1, native="require"))) for _ in outer) == 4
    )


def test_kept_batches_stay_as_they_were(dataset):
    expected = [images.clone() for images, _ in millrace.DataLoader(dataset, 1, native="require")]
    kept = [images for images, _ in millrace.DataLoader(dataset, 1, num_workers=2, native="require")]
    gc.collect()
    assert all(torch.equal(a, b) for a, b in zip(kept, expected, strict=True))
