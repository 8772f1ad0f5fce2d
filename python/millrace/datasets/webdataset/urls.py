"""Lists of shards, written short: "train-{000..127}.tar", "{a,b}/x.tar", "a.tar::b.tar", with ${NAME} from
the environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator

_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)(?:\.\.(-?\d+))?|([A-Za-z])\.\.([A-Za-z])(?:\.\.(-?\d+))?")
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_MOST_SUBSTITUTIONS = 10  # one variable may name another


def expand_urls(urls: str | Iterable[str]) -> list[str]:
    """The shards' URLs. A string is split at "::", has ${NAME} replaced by the environment's WDS_NAME, and
    its braces expanded.

    Other iterables are taken as they are. ValueError for an empty list, what is no string, or a variable that
    is not set.
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
    """The words that `text` stands for, in a shell's order: lists {a,b}, ranges {3..5}, {08..10}, {a..e..2},
    nested. Cost: one word each.

    What is no list or range stays as it is, braces included; a backslash before a character takes its meaning
    away.
    """
    opening = _find(text, 0, "{")
    while opening >= 0:
        closing = _closing(text, opening)
        if closing >= 0:
            options = _options(text[opening + 1 : closing])
            if options is not None:
                before = _unescaped(text[:opening])
                rest = list(expand_braces(text[closing + 1 :]))
                for option in options:
                    for end in rest:
                        yield before + option + end
                return
            inner = list(expand_braces(text[opening + 1 : closing]))
            if len(inner) > 1:  # no list itself, but there is one within
                for option in inner:
                    for end in expand_braces(text[closing + 1 :]):
                        yield _unescaped(text[:opening]) + "{" + option + "}" + end
                return
        opening = _find(text, opening + 1, "{")
    yield _unescaped(text)


def _find(text: str, start: int, wanted: str) -> int:
    """The next unescaped character of `wanted`, or -1."""
    position = start
    while position < len(text):
        if text[position] == "\\":
            position += 2
            continue
        if text[position] in wanted:
            return position
        position += 1
    return -1


def _closing(text: str, opening: int) -> int:
    depth, position = 0, opening
    while (position := _find(text, position, "{}")) >= 0:
        depth += 1 if text[position] == "{" else -1
        if depth == 0:
            return position
        position += 1
    return -1


def _options(inside: str) -> None | list[str]:
    """What a pair of braces with this between them stands for; None if for itself."""
    if (match := _RANGE.fullmatch(inside)) is not None:
        return _numbers(match) if match.group(1) is not None else _letters(match)
    parts, depth, start, position = [], 0, 0, 0
    while (position := _find(inside, position, "{},")) >= 0:
        character = inside[position]
        if character == "," and depth == 0:
            parts.append(inside[start:position])
            start = position + 1
        else:
            depth += {"{": 1, "}": -1, ",": 0}[character]
        position += 1
    if not parts:
        return None
    parts.append(inside[start:])
    return [word for part in parts for word in expand_braces(part)]


def _numbers(match: re.Match[str]) -> list[str]:
    first, last = match.group(1), match.group(2)
    padded = any(re.match(r"-?0\d", number) for number in (first, last))
    width = max(len(first), len(last)) if padded else 0
    return [f"{number:0{width}d}" for number in _steps(int(first), int(last), match.group(3))]


def _letters(match: re.Match[str]) -> list[str]:
    return [chr(code) for code in _steps(ord(match.group(4)), ord(match.group(5)), match.group(6))]


def _steps(first: int, last: int, step: None | str) -> range:
    width = abs(int(step or 1)) or 1
    return range(first, last + 1, width) if first <= last else range(first, last - 1, -width)


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text) if "\\" in text else text
