"""States: their checksums; the parts of one that was loaded, each checked; and the Stateful protocol, objects
with state_dict() and load_state_dict(state), as torchdata and others define it.

A state that was damaged on its way is refused where it is loaded. A checksum is of what a state says, not of
how it was stored: a state is the same behind pickle, torch.save, or json, which makes lists of tuples and
text of keys, in any order of keys. Tensors and arrays count with their contents up to 64 KiB, larger ones
with type and shape; of objects of other classes, which only users' own states have, counts that they are
there.
"""

from __future__ import annotations

import copy
import functools
import inspect
import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from zlib import crc32

import numpy as np
import torch

from ..errors import StateError

KEY = "checksum"
_MOST_BYTES = 64 << 10  # a checksum of more would cost more than all else in state_dict()
_NULL = type(None)
_LONG = 256  # letters


def _encoder() -> Callable[[Any], str]:
    """json's text of JSON's types, keys in order. Nothing that comes here holds itself; not looking for that,
    and using one encoder again, saves a third of the time.
    """
    encoder = json.JSONEncoder(check_circular=False, sort_keys=True, separators=(",", ":"))
    if json.encoder.c_make_encoder is None:
        return encoder.encode
    parts = json.encoder.c_make_encoder(
        None, encoder.default, json.encoder.encode_basestring_ascii, None, ":", ",", True, False, True
    )
    return lambda value: "".join(parts(value, 0))


encoded = _encoder()


def signed(state: dict[str, Any], of_json: bool = False) -> dict[str, Any]:
    """`state` with its checksum, in front, where a state that was cut short has it still. `of_json`: it
    should be of JSON's types with text for keys, which saves time; then the result is a copy.

    The names of what it is of stand beside it, so that a subclass may add to what its base gave.
    """
    if of_json:
        result, plain = _copied(state)
        try:
            return {KEY: " ".join((_sum(plain), *state)), **result}
        except TypeError:  # a number of numpy's, say
            pass
    return {
        KEY: " ".join((_sum(_plain(state, set())), *state)),
        **(copy.deepcopy(state) if of_json else state),
    }


def verified(state: Mapping[str, Any], whose: str, verify: bool = True) -> dict[str, Any]:
    """`state` without its checksum. StateError when it has one that does not fit; one without is of an
    earlier revision, or made by hand.

    `whose`: "the loader's state", say, for the message.
    """
    rest = {key: value for key, value in state.items() if key != KEY}
    if not verify or KEY not in state:
        return rest
    then = state[KEY]
    number, *names = then.split(" ") if isinstance(then, str) else [""]
    now = _sum(_plain({key: rest[key] for key in names if key in rest}, set()))
    if number != now:
        raise StateError(
            f"{whose} is damaged, or was changed after state_dict() gave it: its checksum is {_short(then)},"
            f" and what it holds has {now}. Load another one; load_state_dict(state, verify=False) takes what"
            " was changed on purpose"
        )
    return rest


def signing(method: Callable[[Any], dict[str, Any]]) -> Callable[[Any], dict[str, Any]]:
    """Decorator of a method state_dict(): what it gives gets its checksum. `_state_is_json` of the class is
    signed()'s `of_json`.
    """

    @functools.wraps(method)
    def state_dict(self: Any) -> dict[str, Any]:
        return signed(method(self), getattr(type(self), "_state_is_json", False))

    state_dict.unsigned = method  # type: ignore[attr-defined]
    return state_dict


def unsigned_state(thing: Any) -> Any:
    """thing.state_dict(), for a state that has a checksum of its own: without one, where that is possible."""
    method = getattr(getattr(type(thing), "state_dict", None), "unsigned", None)
    return thing.state_dict() if method is None else method(thing)


@functools.lru_cache(64)
def _of_text(text: str) -> str:
    """Generators' states come again in state after state, and to write one takes as long as all the rest."""
    return f"\0text {len(text)} {crc32(text.encode('utf-8', 'surrogatepass')):08x}"


def _copied(value: Any) -> tuple[Any, Any]:
    """(a copy of a dict or list of JSON's types, the same with a few letters in place of each long text)"""
    is_dict = type(value) is dict
    result: Any = {} if is_dict else [None] * len(value)
    plain = result
    for key, inner in value.items() if is_dict else enumerate(value):
        kind, written = type(inner), inner
        if kind is dict or kind is list or kind is tuple:
            inner, written = _copied(inner)
        elif kind is str and len(inner) >= _LONG:
            written = _of_text(inner)
        result[key] = inner
        if plain is not result:
            plain[key] = written
        elif written is not inner:
            plain = result.copy()
            plain[key] = written
    return result, plain


def _sum(plain: Any) -> str:
    return f"{crc32(encoded(plain).encode('ascii')):08x}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _plain(value: Any, around: set[int]) -> Any:
    """`value` in JSON's types, as json would write and read it. `around`: the containers that it is in."""
    kind = type(value)
    if kind is str:
        return value if len(value) < _LONG else _of_text(value)
    if kind is int or kind is float or kind is bool or kind is _NULL:
        return value
    if not isinstance(value, (dict, list, tuple, deque, set, frozenset)):
        return _leaf(value)
    if id(value) in around:
        return "\0again"
    around.add(id(value))
    try:
        if isinstance(value, dict):
            return {_key(key): _plain(inner, around) for key, inner in value.items()}
        inner = [_plain(item, around) for item in value]
        return sorted(inner, key=encoded) if isinstance(value, (set, frozenset)) else inner
    finally:
        around.discard(id(value))


def _key(key: Any) -> str:
    if isinstance(key, str):
        return str.__str__(key)
    if isinstance(key, (bool, np.bool_)):
        return "true" if key else "false"
    if isinstance(key, (int, np.integer)):
        return int.__repr__(int(key))
    if isinstance(key, float):
        return float.__repr__(key)
    return "null" if key is None else f"\0{encoded(_plain(key, set()))}"


def _leaf(value: Any) -> Any:
    if isinstance(value, str):
        return _plain(str.__str__(value), set())
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value)
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, (bytes, bytearray)):
        return ["\0bytes", len(value), crc32(value)]
    try:
        if isinstance(value, torch.Tensor):
            return _of_array("tensor", str(value.dtype), value.shape, value.nbytes, lambda: _bytes_of(value))
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            return _of_array("array", value.dtype.str, value.shape, value.nbytes, value.tobytes)
    except Exception:  # sparse, nested, on a device that is gone: present, and no more
        pass
    return "\0object"


def _bytes_of(tensor: torch.Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def _of_array(what: str, dtype: str, shape: Any, size: int, contents: Any) -> list[Any]:
    return [f"\0{what}", dtype, list(shape), crc32(contents()) if size <= _MOST_BYTES else "\0large"]


REMEDY = "the state is damaged or not complete; load another one, or begin anew with load_state_dict({})"
_NOTHING = object()


class Fields:
    """The entries of a dict in a state. `name`: where it is, "" for the state itself. A `default` is for what
    may be missing.
    """

    def __init__(self, values: Any, name: str = "") -> None:
        if not isinstance(values, Mapping):
            raise _wrong(name or "the state", values, "a dict")
        self._values, self._name = values, name

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def any(self, key: str, default: Any = _NOTHING) -> Any:
        if key not in self._values:
            if default is _NOTHING:
                raise StateError(
                    f"the state has no {self._at(key)}, only {sorted(map(str, self._values))}: {REMEDY}"
                )
            return default
        return self._values[key]

    def number(self, key: str, default: Any = _NOTHING, least: int = 0, optional: bool = False) -> Any:
        """A whole number from `least` on; `optional`: or None."""
        value = self.any(key, default)
        if value is default or (optional and value is None):
            return value
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise _wrong(self._at(key), value, f"a whole number of {least} or more")
        return value

    def flag(self, key: str, default: Any = _NOTHING) -> bool:
        return self._typed(key, default, bool, "True or False")

    def text(self, key: str) -> Any:
        """Or None."""
        return self._typed(key, None, (str, type(None)), "text")

    def entries(self, key: str, default: Any = _NOTHING) -> list[Any]:
        return list(self._typed(key, default, (list, tuple), "a list"))

    def dict(self, key: str, default: Any = _NOTHING, optional: bool = False) -> Any:
        """A dict, as it is; `optional`: or None."""
        value = self.any(key, default)
        return None if optional and value is None else self._typed(key, default, Mapping, "a dict")

    def part(self, key: str, default: Any = _NOTHING) -> Fields:
        return Fields(self.dict(key, default), self._at(key))

    def _typed(self, key: str, default: Any, kind: Any, what: str) -> Any:
        value = self.any(key, default)
        if not isinstance(value, kind):
            raise _wrong(self._at(key), value, what)
        return value

    def _at(self, key: str) -> str:
        return f"{self._name}[{key!r}]"


def _wrong(at: str, value: Any, what: str) -> StateError:
    text = repr(value)
    return StateError(
        f"{at} should be {what}, but is {text if len(text) <= 60 else text[:57] + '...'}: {REMEDY}"
    )


def is_stateful(thing: Any) -> bool:
    """Whether `thing` can say where it stands and be put there. A model is not meant: its state is weights,
    not a place in data.
    Nor is a class, whose objects can.
    """
    if isinstance(thing, (type, torch.nn.Module)):
        return False
    return all(_has(thing, name) for name in ("state_dict", "load_state_dict"))


def _has(thing: Any, name: str) -> bool:
    """Whether it is defined: a __getattr__ that has an answer to any name, as wrappers have, does not
    count.
    """
    return callable(getattr(thing, name, None)) and inspect.getattr_static(thing, name, None) is not None


def state_of(thing: Any) -> Any:
    """Its state, as it is now and stays, for a state that has a checksum; None for what is not Stateful."""
    return copy.deepcopy(unsigned_state(thing)) if is_stateful(thing) else None


def put_back(thing: Any, state: Any) -> None:
    """Loads a copy of `state`, which the caller may want to use again."""
    if state is not None and is_stateful(thing):
        thing.load_state_dict(copy.deepcopy(state))
