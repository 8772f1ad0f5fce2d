"""Stacks of threads that come, go and move on, where CPython's own functions are not safe."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from millrace import _core
from python_code import run_code

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not _core.StageClock.enabled, reason="MILLRACE_PROFILE=0")]


def run(script, **environment):
    return run_code(script, flags=["-X", "faulthandler"], environment=environment).stdout.split()


@pytest.mark.alone
def test_finalizers_that_let_threads_go_on_while_these_are_looked_at():
    # The collector runs in the middle of a walk over another thread's frames, unless it is kept from it; the
    # finalizer sleeps, and the frames of many sizes, one in another's place, are no longer what they were.
    looks, collected, deepest = run("""
        import gc, random, sys, threading, time
        from millrace import _core

        gc.collect()
        gc.freeze()

        class Sleeps:
            count = 0
            def __init__(self):
                self.itself = self
            def __del__(self):
                Sleeps.count += 1
                time.sleep(0.00002)

        functions, idents, stop = [], [], False
        for size in range(12):
            space = {"functions": functions, "random": random}
            names = " = ".join(f"v{i}" for i in range(1 + 3 * size))
            exec(f"def f(n):\\n {names} = float(n)\\n if n: random.choice(functions)(n - 1)\\n"
                 " return [v0 + i for i in (1, 2)]", space)
            functions.append(space["f"])

        def run():
            idents.append(threading.get_ident())
            while not stop:
                random.choice(functions)(random.randrange(40))

        threads = [threading.Thread(target=run) for _ in range(2)]
        for thread in threads:
            thread.start()
        while len(idents) < 2:
            time.sleep(0.001)
        gc.set_threshold(6)
        sys.setswitchinterval(1e-5)
        looks, deepest, end = 0, 0, time.monotonic() + 2
        while time.monotonic() < end:
            Sleeps()
            stacks = [_core.stack_of_thread(ident) for ident in idents]
            for stack in stacks + list(_core.stacks_of_threads().values()):
                assert all(code.co_code and 0 <= offset < len(code.co_code) for code, offset in stack)
                looks, deepest = looks + 1, max(deepest, len(stack))
        assert gc.isenabled()
        stop = True
        gc.set_threshold(700)
        for thread in threads:
            thread.join()
        print(looks, Sleeps.count, deepest)
    """)
    assert int(looks) > 100 and int(collected) > 100 and int(deepest) > 30


@pytest.mark.alone
def test_threads_that_end_while_the_main_thread_is_asked_for_looks():
    # Freed memory is not what it was, with this variable.
    looks, threads = run("""
        import _thread, time
        from torch.utils.data import Dataset
        from millrace import DataLoader, _core

        ended = 0

        def ends():
            global ended
            ended += 1

        class Starts(Dataset):
            def __len__(self):
                return 2
            def __getitem__(self, index):
                end = time.monotonic() + 2
                while time.monotonic() < end:
                    try:
                        _thread.start_new_thread(ends, ())
                    except RuntimeError:  # too many at a time
                        time.sleep(0.01)
                return index

        _core.stack_pace(5e-6)
        seen = 0
        taken = _core.stack_take
        def take():
            global seen
            looks = taken()
            seen += len(looks)
            return looks
        _core.stack_take = take
        list(DataLoader(Starts(), None))
        print(seen, ended)
    """, MALLOC_PERTURB_="85")  # fmt: skip
    assert int(looks) > 1000 and int(threads) > 1000


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="it takes the main interpreter from 3.12 on")
def test_nothing_asks_for_calls_by_way_of_the_thread_that_has_the_gil():
    # A thread without the GIL that calls it in a loop, while others end, crashes in seconds with
    # MALLOC_PERTURB_; at the rate of looks that would take days.
    symbols = Path(_core.__file__).read_bytes()
    assert b"\0_PyEval_AddPendingCall\0" in symbols
    assert b"\0Py_AddPendingCall\0" not in symbols
