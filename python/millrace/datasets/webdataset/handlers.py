"""Handlers of samples and shards that cannot be used: functions of the exception, as in the webdataset
package.

They return True to go on after the error, or False to end the stream there. The default raises. webdataset's
own handlers work, too.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

Handler = Callable[[Exception], bool]

LEFT_OUT = object()


def handled(function: Callable[[Any], Any], items: Iterable[Any], handler: Handler) -> Iterator[Any]:
    """function(item) of each item, without LEFT_OUT; the handler decides about the errors that function
    raises.
    """
    for item in items:
        try:
            result = function(item)
        except Exception as error:
            if handler(error):
                continue
            return
        if result is not LEFT_OUT:
            yield result


def reraise_exception(error: Exception) -> NoReturn:
    """Raise `error` where the sample would have come."""
    raise error


def ignore_and_continue(error: Exception) -> bool:
    """Go on after the `error`, silently."""
    return True


def warn_and_continue(error: Exception) -> bool:
    """Go on after the `error`, with a warning."""
    warnings.warn(f"{type(error).__name__}: {error}", stacklevel=2)
    return True


def ignore_and_stop(error: Exception) -> bool:
    """End the stream at the `error`, silently."""
    return False


def warn_and_stop(error: Exception) -> bool:
    """End the stream at the `error`, with a warning."""
    warnings.warn(f"{type(error).__name__}: {error}", stacklevel=2)
    return False
