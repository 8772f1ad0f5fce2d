"""What happens to worker processes while their loader is being closed."""

import os
import signal

import millrace
import psutil
from waiting import wait_until


def test_a_worker_that_dies_while_it_is_closed_is_no_error():
    """torch's handler of SIGCHLD would raise in close(), behind the line that has reaped the worker, too:
    then nobody would know that it has ended, and its pipes would stay.
    """
    iterator = iter(millrace.DataLoader(range(400), batch_size=8, num_workers=2))
    next(iterator)
    workers, end = iterator._workers, iterator._engine.ends[0]
    stop = end.stop

    def stopped():
        for worker in workers:  # before it is told to end, which it might
            os.kill(worker.pid, signal.SIGKILL)
        assert wait_until(lambda: all(psutil.Process(w.pid).status() == "zombie" for w in workers))
        stop()

    end.stop = stopped
    iterator._shutdown_workers()
    assert [worker.exitcode for worker in workers] == [-signal.SIGKILL] * 2
