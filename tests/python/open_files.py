"""What this process has open, by number and name: threads and garbage that other tests left open and close
what they like, so a test counts what bears its own name, or what is new.
"""

import contextlib
import os


def open_files(named=""):
    """Descriptors that lead to a path in which `named` occurs: {(number, path)}."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # closed meanwhile, as is the one that lists them
            path = os.readlink(f"/proc/self/fd/{number}")
            if named in path:
                found.add((int(number), path))
    return found
