"""Lists of shards, written short: "train-{000..127}.tar", "{a,b}/x.tar", "a.tar::b.tar", with ${NAME} from
the environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator

_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)(?:\.\.(-?\d+))?|([A-Za-z])\.\.([A-Za-z])(?:\.\.(-?\d+))?")
_SIGN = re.compile(r"\\.|[{},]", re.DOTALL)
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_MOST_SUBSTITUTIONS = 10  # one variable may name another


def expand_urls(urls: str | os.PathLike[str] | Iterable[str]) -> list[str]:
    """The shards' URLs.

    A string is split at "::", has ${NAME} replaced by the environment's WDS_NAME, and its braces expanded.
    Other iterables are taken as they are.

    Raises:
        ValueError: if the list is empty, an entry is no string, or a variable is not set.
    """
    if isinstance(urls, (str, os.PathLike)):
        parts = os.fspath(urls).split("::")
        result = [url for part in parts for url in expand_braces(_with_variables(part))]
    elif isinstance(urls, Iterable):
        result = [os.fspath(url) for url in urls]
    else:
        raise TypeError(f"urls should be a string, a path or a list of these, but is {urls!r}")
    for number, url in enumerate(result):
        if not isinstance(url, str) or not url:
            raise ValueError(f"shard {number} should be a path or URL, but is {url!r}")
    if not result:
        raise ValueError("there are no shards: the list of URLs is empty")
    return result


def _with_variables(text: str) -> str:
    for _ in range(_MOST_SUBSTITUTIONS):
        replaced = _VARIABLE.sub(_value, text)
        if replaced == text:
            break
        text = replaced
    return text


def _value(match: re.Match[str]) -> str:
    name = f"WDS_{match.group(1)}"
    if name not in os.environ:
        raise ValueError(f"the URL has {match.group(0)}, and the environment has no {name}; set it")
    return os.environ[name]


def expand_braces(text: str) -> Iterator[str]:
    """The words that `text` expands to, in a shell's order: lists {a,b}, ranges {3..5}, {08..10}, {a..e..2},
    nested. Cost: one word each.

    Braces with neither a list nor a range stay as they are; a backslash takes away the meaning of the
    character after it.
    """
    opening = next((at for at, sign, _ in _signs(text) if sign == "{"), None)
    if opening is None:
        yield _unescaped(text)
        return
    inside = next(
        (text[opening + 1 : at] for at, sign, depth in _signs(text, opening) if (sign, depth) == ("}", 1)),
        None,
    )
    if inside is None:
        options, rest = ["{"], text[opening + 1 :]
    else:
        options = _options(inside) or [f"{{{word}}}" for word in expand_braces(inside)]
        rest = text[opening + len(inside) + 2 :]
    before, ends = _unescaped(text[:opening]), list(expand_braces(rest))
    for option in options:
        for end in ends:
            yield before + option + end


def _signs(text: str, start: int = 0) -> Iterator[tuple[int, str, int]]:
    """(place, sign, how many braces are open there, its own included) of braces and commas, and of what a
    backslash has taken the meaning from.
    """
    depth = 0
    for match in _SIGN.finditer(text, start):
        depth += match[0] == "{"
        yield match.start(), match[0], depth
        depth -= match[0] == "}"


def _options(inside: str) -> list[str]:
    """The words that braces around `inside` expand to; none if they are neither a list nor a range."""
    if (match := _RANGE.fullmatch(inside)) is not None:
        return _range(match)
    commas = [at for at, sign, depth in _signs(inside) if sign == "," and depth == 0]
    parts = [inside[begin + 1 : end] for begin, end in zip([-1, *commas], [*commas, len(inside)])]
    return [word for part in parts for word in expand_braces(part)] if commas else []


def _range(match: re.Match[str]) -> list[str]:
    """Of numbers, as wide as the wider of the two where one is padded with zeros; or of letters."""
    first, last = match[1] or match[4], match[2] or match[5]
    step = abs(int(match[3] or match[6] or 1)) or 1
    begin, end = (int(first), int(last)) if match[1] else (ord(first), ord(last))
    codes = range(begin, end + 1, step) if begin <= end else range(begin, end - 1, -step)
    if match[4]:
        return [chr(code) for code in codes]
    padded = any(re.match(r"-?0\d", number) for number in (first, last))
    width = max(len(first), len(last)) if padded else 0
    return [f"{code:0{width}d}" for code in codes]


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text) if "\\" in text else text
