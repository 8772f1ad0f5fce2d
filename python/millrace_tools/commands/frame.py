"""What commands have in common: how they read their arguments, how they end, what they print of an error."""

from __future__ import annotations

import argparse
import json
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


def command(
    verb: str,
    description: str,
    options: list[Option],
    stopped: str = "stopped",
    wrong: tuple[type[Exception], ...] = (),
) -> Callable[[Callable[[argparse.Namespace], int]], Command]:
    """Makes a function of a command's words from a verb's main(). main() gets the values of these options and
    of --json; the words are those after the verb. The exit status is main's, or 130 after Ctrl-C, 2 for wrong
    words and for errors of the kinds `wrong`, 1 for others, which are printed.
    """
    parser = argparse.ArgumentParser(prog=f"millrace {verb}", description=description)
    for names, settings in options:
        parser.add_argument(*names, **settings)
    parser.add_argument("--json", action="store_true", help="print everything as JSON instead")

    def decorate(main: Callable[[argparse.Namespace], int]) -> Command:
        def ended(arguments: list[str]) -> int:
            given = parser.parse_args(arguments)
            try:
                return main(given)
            except KeyboardInterrupt:
                print(f"\nmillrace {verb}: {stopped}", file=sys.stderr)
                return 130
            except Exception as error:
                print(f"millrace {verb}: {printable(explained(error))}", file=sys.stderr)
                return 2 if isinstance(error, wrong) else 1

        return ended

    return decorate


def show(given: argparse.Namespace, found: Any, text: str) -> None:
    """What a command has found: as JSON where that was asked for, else as text."""
    print(printable(json.dumps(found) if given.json else text))


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
