"""wds.filters: the steps of a DataPipeline by the package's names, and, with a _ in front, the same as
functions of samples.

The steps are the stages that WebDataset's methods append. A script's own steps go through pipelinefilter().
"""

from __future__ import annotations

import functools
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from .caching import Cached, LMDBCached
from .collation import default_collation_fn
from .fluent import Fluent
from .handlers import reraise_exception
from .holding import DetShuffle, Shuffle
from .utils import identity

__all__ = [
    "Cached",
    "LMDBCached",
    "associate",
    "batched",
    "decode",
    "default_collation_fn",
    "detshuffle",
    "extract_keys",
    "getfirst",
    "identity",
    "info",
    "listed",
    "log_keys",
    "map",
    "map_dict",
    "map_tuple",
    "pipelinefilter",
    "rename",
    "rename_keys",
    "reraise_exception",
    "rsample",
    "select",
    "shuffle",
    "slice",
    "to_dict",
    "to_tuple",
    "transform_with",
    "unbatched",
    "unlisted",
    "xdecode",
]


class _Step(Fluent):
    """Fluent methods that return their stage."""

    def compose(self, *stages: Any) -> Any:
        return stages[0]


def _step(name: str) -> Callable[..., Any]:
    method = getattr(Fluent, name)

    @functools.wraps(method)
    def step(*args: Any, **kw: Any) -> Any:
        stage = method(_Step(), *args, **kw)
        return None if isinstance(stage, _Step) else stage  # shuffle(0) and the like change nothing

    return step


def _function(step: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
    """The step as a function of samples and of its arguments."""

    @functools.wraps(step)
    def function(data: Iterable[Any], *args: Any, **kw: Any) -> Iterator[Any]:
        stage = step(*args, **kw)
        return iter(data) if stage is None else stage(data)

    return function


associate, batched, decode = _step("associate"), _step("batched"), _step("decode")
extract_keys, listed, log_keys = _step("extract_keys"), _step("listed"), _step("log_keys")
map, map_dict, map_tuple = _step("map"), _step("map_dict"), _step("map_tuple")
rename, rename_keys, rsample = _step("rename"), _step("rename_keys"), _step("rsample")
select, slice, to_dict = _step("select"), _step("slice"), _step("to_dict")
to_tuple, unbatched, unlisted, xdecode = (
    _step("to_tuple"),
    _step("unbatched"),
    _step("unlisted"),
    _step("xdecode"),
)
_shuffling = _step("shuffle")

_associate, _batched, _decode = _function(associate), _function(batched), _function(decode)
_extract_keys, _listed, _log_keys = _function(extract_keys), _function(listed), _function(log_keys)
_map, _map_dict, _map_tuple = _function(map), _function(map_dict), _function(map_tuple)
_rename, _rename_keys, _rsample = _function(rename), _function(rename_keys), _function(rsample)
_select, _slice, _to_dict = _function(select), _function(slice), _function(to_dict)
_to_tuple, _unbatched, _unlisted, _xdecode = (
    _function(to_tuple),
    _function(unbatched),
    _function(unlisted),
    _function(xdecode),
)


# ---------------------------------------------------------------- shuffles


def shuffle(
    bufsize: int = 1000, initial: int = 100, rng: Any = None, seed: int | None = None, handler: Any = None
) -> Any:
    """The step that WebDataset.shuffle() appends.

    In front of tarfile_to_samples() it shuffles all shards, whatever `bufsize` is.
    """
    return _shuffling(bufsize, initial, rng, seed, handler)


def detshuffle(bufsize: int = 1000, initial: int = 100, seed: int = 0, epoch: int = -1) -> DetShuffle | None:
    """The step of a shuffle() in an order that always depends on (seed, epoch).

    Epochs count from `epoch` + 1. The step's `epoch` says which it was.
    """
    return None if bufsize < 1 else DetShuffle(int(bufsize), int(initial), seed, epoch)


def _shuffle(
    data: Iterable[Any],
    bufsize: int = 1000,
    initial: int = 100,
    rng: Any = None,
    seed: int | None = None,
    handler: Any = None,
) -> Iterator[Any]:
    """shuffle() as a function of samples. With an `rng`, a random.Random, its draws are those that the
    package makes.
    `handler` has no effect, as nothing can fail here.
    """
    if rng is None:
        return iter(data) if bufsize < 1 else Shuffle(bufsize, initial, seed)(data)
    return _drawn(iter(data), bufsize, min(initial, bufsize), rng)


def _drawn(items: Iterator[Any], size: int, initial: int, rng: random.Random) -> Iterator[Any]:
    """One random place of a buffer after the other; it grows by one at each until it has `size`."""
    held: list[Any] = []

    def take() -> Any:
        place = rng.randint(0, len(held) - 1)
        held[place], taken = held[-1], held[place]
        held.pop()
        return taken

    for item in items:
        held.append(item)
        if len(held) < size:
            held.extend(islice(items, 1))
        if len(held) >= initial:
            yield take()
    while held:
        yield take()


# ---------------------------------------------------------------- steps of one's own


class pipelinefilter:  # noqa: N801  (webdataset's name)
    """A step of one's own: `pipelinefilter(f)(2, k=3)` is a function from samples to f(samples, 2, k=3)."""

    def __init__(self, f: Callable[..., Iterable[Any]]) -> None:
        self.f = f

    def __call__(self, *args: Any, **kw: Any) -> FilterFunction:
        return FilterFunction(self.f, *args, **kw)


RestCurried = pipelinefilter


class FilterFunction:
    """f(samples, *args, **kw) as a function of samples, which can be sent to other processes."""

    def __init__(self, f: Callable[..., Iterable[Any]], *args: Any, **kw: Any) -> None:
        self.f, self.args, self.kw = f, args, kw

    def __call__(self, data: Iterable[Any]) -> Iterable[Any]:
        return self.f(data, *self.args, **self.kw)

    def __repr__(self) -> str:
        return f"<{getattr(self.f, '__name__', self.f)} {self.args} {self.kw}>"


def compose(*functions: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """One function of functions, the first of which is called first."""
    return functools.reduce(lambda first, then: lambda value: then(first(value)), functions, identity)


def pipeline(source: Any, *steps: Callable[[Any], Any]) -> Any:
    """`source` through steps."""
    return compose(*steps)(source)


def _info(
    data: Iterable[Any],
    fmt: str | None = None,
    n: int = 3,
    every: int = -1,
    width: int = 50,
    stream: Any = None,
    name: str = "",
) -> Iterator[Any]:
    """Prints samples that pass: the first `n`, and each `every`-th one. `fmt`: a format of the sample's
    fields instead, by name or, of a tuple, by number.
    """
    out = sys.stderr if stream is None else stream
    for number, sample in enumerate(data):
        if number < n or (every > 0 and (number + 1) % every == 0):
            if fmt is not None:
                print(fmt.format(**sample) if isinstance(sample, dict) else fmt.format(*sample), file=out)
            else:
                fields = sample.items() if isinstance(sample, dict) else enumerate(sample)
                print(
                    f"--- {name} {number}",
                    *(f"  {field}: {repr(value)[:width]}" for field, value in fields),
                    sep="\n",
                    file=out,
                )
        yield sample


info = pipelinefilter(_info)


# ---------------------------------------------------------------- fields


def getfirst(
    sample: dict[str, Any],
    keys: str | Iterable[str],
    default: Any = None,
    missing_is_error: bool = True,
) -> Any:
    """The first of these fields that the sample has.

    Args:
        keys: the names of the fields, "jpg;png".
        default: the value when the sample has none of them and `missing_is_error` is False.

    Raises:
        ValueError: if the sample has none of them and `missing_is_error` is True.
    """
    names = keys.split(";") if isinstance(keys, str) else list(keys)
    for name in names:
        if name in sample:
            return sample[name]
    if missing_is_error:
        wanted, found = (", ".join(repr(name) for name in those) for those in (names, sample))
        raise ValueError(f"the sample has none of the fields {wanted}, only {found}")
    return default


def transform_with(
    sample: Sequence[Any], transformers: Sequence[Callable[[Any], Any] | None] | None
) -> list[Any]:
    """A list of transformers[i](sample[i]); None, or no function, leaves a field as it is."""
    functions = [*(transformers or ()), *[None] * len(sample)]
    return [value if function is None else function(value) for value, function in zip(sample, functions)]


def tuple2dict(values: Sequence[Any]) -> dict[int, Any]:
    return dict(enumerate(values))


def dict2tuple(values: dict[int, Any]) -> tuple[Any, ...]:
    return tuple(values[number] for number in range(len(values)))
