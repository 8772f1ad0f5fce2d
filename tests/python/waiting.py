"""Waiting for what comes by itself."""

import time


def wait_until(condition, seconds=200.0):
    """Whether it holds before the time is over."""
    until = time.monotonic() + seconds
    while not (holds := condition()) and time.monotonic() < until:
        time.sleep(0.01)
    return holds
