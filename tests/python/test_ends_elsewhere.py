"""Loaders that somebody else ends: the interpreter, while a daemon thread loops over them, and another
thread, while next() waits.
"""

import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import exit_cases
import millrace
import pytest

pytestmark = pytest.mark.slow


@pytest.mark.alone  # the threads have a moment to leave, which is short where they get no CPU
@pytest.mark.parametrize("kind", exit_cases.KINDS)
def test_the_process_may_end_while_a_daemon_thread_loops(kind, tmp_path):
    if kind.startswith("device"):
        exit_cases.fake_module()  # or skip
    done = subprocess.run(
        [sys.executable, exit_cases.__file__, kind, str(tmp_path)],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "")


def test_the_process_may_end_with_torchs_loaders_and_ours_in_their_middle(tmp_path):
    """`python exit_cases.py "beside torch's" FOLDER 500` does it 500 times."""
    command = [sys.executable, exit_cases.__file__, "beside torch's", str(tmp_path), "4"]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "") and "terminate" not in done.stderr


@pytest.mark.parametrize(
    "kind", [kind for kind in exit_cases.KINDS if not kind.startswith(("watched", "device", "sampler"))]
)
def test_another_thread_may_close_it_at_any_moment(kind, tmp_path):
    """next() ends with an answer, within moments; without workers it may also go on, as torch's does."""
    loader = exit_cases.loader(kind, str(tmp_path))
    chance = random.Random(5)
    for _ in range(6):
        iterator, came, answers = iter(loader), threading.Event(), []

        def consume(iterator=iterator, came=came, answers=answers):
            try:
                for _ in iterator:
                    came.set()
                answers.append(None)
            except BaseException as error:
                answers.append(error)

        thread = threading.Thread(target=consume, daemon=True)
        thread.start()
        assert came.wait(30)
        time.sleep(chance.random() * 0.01)
        closers = [threading.Thread(target=getattr(iterator, "_shutdown_workers", bool)) for _ in range(2)]
        for closer in closers:
            closer.start()
        for joined in (*closers, thread):
            joined.join(30)
            assert not joined.is_alive()
        [answer] = answers
        assert answer is None or "closed" in str(answer) or "Invalid iterator state" in str(answer), repr(
            answer
        )
        assert answer is None or isinstance(answer, (millrace.UnavailableError, AssertionError))
        if not kind.endswith("0"):
            with pytest.raises((AssertionError, StopIteration, millrace.UnavailableError)):
                next(iterator)
    assert len(list(loader)) > 0  # the loader is as good as before


def test_the_loader_may_be_closed_by_what_it_calls():
    """From inside next(): a sample, in the consumer's own thread."""

    class Closing(exit_cases.Slow):
        def __getitem__(self, index):
            if index == 9:
                iterators[-1]._shutdown_workers()
            return super().__getitem__(index)

    iterators = [iter(millrace.DataLoader(Closing(), 4, num_workers=2, worker_method="thread"))]
    with pytest.raises((AssertionError, millrace.UnavailableError)):
        for _ in range(20):
            next(iterators[-1])
