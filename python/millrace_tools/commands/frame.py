"""What commands have in common: how they read their arguments, how they end, what they print of an error."""

from __future__ import annotations

import argparse
import functools
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

Command = Callable[[list[str]], int]
Option = tuple[tuple[str, ...], dict[str, Any]]


def option(*names: str, **settings: Any) -> Option:
    """The arguments of ArgumentParser.add_argument()."""
    return names, settings


def parsed(verb: str, description: str, options: list[Option], arguments: list[str]) -> argparse.Namespace:
    """The arguments of a verb that has these options and --json."""
    parser = argparse.ArgumentParser(prog=f"millrace {verb}", description=description)
    for names, settings in options:
        parser.add_argument(*names, **settings)
    parser.add_argument("--json", action="store_true", help="print everything as JSON instead")
    return parser.parse_args(arguments)


def command(
    verb: str, stopped: str = "stopped", wrong: tuple[type[Exception], ...] = ()
) -> Callable[[Command], Command]:
    """A decorator of a verb's main(): its exit status, or 130 after Ctrl-C, 2 for errors of the kinds
    `wrong`, 1 for others, which are printed.
    """

    def decorate(main: Command) -> Command:
        @functools.wraps(main)
        def ended(arguments: list[str]) -> int:
            try:
                return main(arguments)
            except KeyboardInterrupt:
                print(f"\nmillrace {verb}: {stopped}", file=sys.stderr)
                return 130
            except Exception as error:
                print(f"millrace {verb}: {printable(explained(error))}", file=sys.stderr)
                return 2 if isinstance(error, wrong) else 1

        return ended

    return decorate


def explained(error: Exception) -> str:
    """The message; of what code that is not ours raised, also its kind and its line, without which many say
    nothing.
    """
    frame = traceback.extract_tb(error.__traceback__)[-1]
    ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
    if os.path.abspath(frame.filename).startswith(ours) or isinstance(error, (ImportError, OSError)):
        return str(error)
    return f"{type(error).__name__}: {error} (line {frame.lineno} of {frame.filename})"


def printable(text: str) -> str:
    """Names of files and fields need not be text."""
    return text.encode("utf-8", "backslashreplace").decode()


def number(text: str) -> float:
    """For argparse: 1281167, 1,281,167, 1_281_167 or 1e9."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no number; write 1281167, 1_281_167 or 1e9, without a unit"
        ) from None
