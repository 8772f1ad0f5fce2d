"""Commands in place of files, "pipe:cat shard.tar": whether they may run (utils.py), and what they write as a
Python file.
"""

from __future__ import annotations

import subprocess
from typing import Any

from millrace.errors import UnavailableError

from . import utils

_COMMAND = "pipe:"


def is_command(url: str) -> bool:
    """Whether a shard is what a command writes."""
    return url.startswith(_COMMAND)


def opened(url: str, mode: str = "rb", bufsize: int = -1, **kw: Any) -> Pipe:
    """The command at work, if it may run; **kw: Pipe's."""
    commands_allowed(url)
    return Pipe(url[len(_COMMAND) :], mode, bufsize, **kw)


def commands_allowed(url: str) -> None:
    """UnavailableError, or ValueError where enforce_security is set, unless the script said that shards may
    run commands.
    """
    if utils.enforce_security:
        raise ValueError(f"{url}: commands are not run while enforce_security is set")
    if utils.enforce_security is None:
        raise UnavailableError(
            f"{url}: shards are not read from commands; give the URL that the command reads (s3://, https://,"
            " ...). If you trust all URLs: wds.utils.enforce_security = False, or WDS_SECURE=0 in the"
            " environment"
        )


class Pipe(utils.Closing):
    """What a command writes, or reads. Its failure is an OSError, at the end of what it wrote or at close().

    timeout: seconds that it may take to end after that. ignore_errors: its status does not matter;
        ignore_status: these do not.
    """

    def __init__(
        self,
        command: str,
        mode: str = "rb",
        bufsize: int = -1,
        timeout: float = 7200.0,
        ignore_errors: bool = False,
        ignore_status: Any = (),
    ) -> None:
        self.command, self.status = command, None
        self._timeout, self._ignored = timeout, None if ignore_errors else {0, *ignore_status}
        reads = mode.startswith("r")
        direction: dict[str, Any] = {"stdout" if reads else "stdin": subprocess.PIPE}
        self._process = subprocess.Popen(command, shell=True, bufsize=bufsize, **direction)
        self.stream: Any = self._process.stdout if reads else self._process.stdin
        self._reads = reads

    def read(self, size: int = -1) -> bytes:
        data = self.stream.read(size)
        if not data and size != 0:
            self._wait()
        return data

    def readline(self, size: int = -1) -> bytes:
        return self.stream.readline(size)

    def write(self, data: Any) -> int:
        return self.stream.write(data)

    def flush(self) -> None:
        self.stream.flush()

    def close(self) -> None:
        """A command that is still writing is ended: nobody reads the rest."""
        if self.stream.closed:
            return
        self.stream.close()
        if self._reads and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(self._timeout)
        else:
            self._wait()

    def _wait(self) -> None:
        self.status = self._process.wait(self._timeout)
        if self._ignored is not None and self.status not in self._ignored:
            raise OSError(
                f"{_COMMAND}{self.command}: the command ended with status {self.status}; look at what it"
                " printed"
            )
