"""`python -m millrace run`: a training script, unchanged, with millrace.DataLoader installed from its first
line on.

The script must not notice: `__main__`, sys.argv and sys.path are what `python train.py` makes them, so that
classes defined in it can be pickled and spawned processes import it by its path; exit codes and Ctrl-C are
the interpreter's own.
"""

from __future__ import annotations

import io
import os
import runpy
import sys
import weakref
import zipfile
from importlib.machinery import SourceFileLoader
from types import ModuleType, TracebackType
from typing import Any

from millrace.dataloader import DataLoader
from millrace.installation import install

USAGE = "usage: python -m millrace run [--explain] (SCRIPT | -m MODULE) [ARGUMENTS...]"


def run(arguments: list[str]) -> int:
    """Runs what `arguments` name; the exit status. Exceptions of the script, SystemExit too, pass through."""
    words = list(arguments)
    explain = words[:1] == ["--explain"]
    if explain:
        del words[0]
    as_module = words[:1] == ["-m"]
    if as_module:
        del words[0]
    if not words or words[0].startswith("-"):
        print(USAGE, file=sys.stderr)
        return 2

    install()
    if explain:
        _explain_once()
    main = ModuleType("__main__")
    sys.modules["__main__"] = main
    sys.argv[:] = words
    sys.excepthook = _without_our_frames(main)
    if as_module:
        runpy._run_module_as_main(words[0])  # type: ignore[attr-defined]  # what `python -m` calls; sys.path is right already
        return 0
    return _run_script(words[0], main)


def _run_script(script: str, main: ModuleType) -> int:
    """As the interpreter: a file is executed under its absolute path; a folder or zip file has a __main__.py
    that is.
    """
    path = os.path.abspath(script)
    container = os.path.isdir(path) or zipfile.is_zipfile(path)
    if not getattr(sys.flags, "safe_path", False):  # then nothing was put there that could be replaced
        sys.path[0] = path if container else os.path.dirname(os.path.realpath(path))
    elif container:
        sys.path.insert(0, path)
    if container:
        runpy._run_module_as_main("__main__", alter_argv=False)  # type: ignore[attr-defined]
        return 0
    try:
        with io.open_code(path) as file:
            source = file.read()
    except OSError as error:
        print(
            f"{sys.executable}: can't open file {path!r}: [Errno {error.errno}] {error.strerror}",
            file=sys.stderr,
        )
        return 2
    vars(main).update(
        __file__=path,
        __builtins__=sys.modules["builtins"],
        __loader__=SourceFileLoader("__main__", path),
        __cached__=None,
    )
    exec(compile(source, path, "exec", dont_inherit=True), vars(main))
    return 0


def _without_our_frames(main: ModuleType) -> Any:
    """An excepthook with a traceback that begins in the script."""
    names = vars(main)

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        while trace is not None and trace.tb_frame.f_globals is not names:
            trace = trace.tb_next
        sys.__excepthook__(kind, error.with_traceback(trace), trace)

    return show


def _explain_once() -> None:
    """Prints `explain()` of every loader to stderr when it is first iterated."""
    make_iterator = DataLoader._get_iterator
    known: weakref.WeakSet[DataLoader] = weakref.WeakSet()

    def explained(self: DataLoader) -> Any:
        if self not in known:
            known.add(self)
            print(
                f"DataLoader over {type(self.dataset).__name__}:\n{self.explain()}",
                file=sys.stderr,
                flush=True,
            )
        return make_iterator(self)

    DataLoader._get_iterator = explained  # type: ignore[method-assign]
