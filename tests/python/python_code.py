"""Python code in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap


def run_code(code, *arguments, status=0, flags=(), environment=None, **options):
    """The process behind its end, which has this status (None: any). It imports what the caller can."""
    path = os.pathsep.join(filter(None, sys.path))
    command = [sys.executable, *flags, "-c", textwrap.dedent(code), *map(str, arguments)]
    options = {"capture_output": True, "text": True, "timeout": 200, "check": False, **options}
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path, **(environment or {})}, **options)
    assert status is None or done.returncode == status, done.stderr[-4000:]
    return done
