"""States: their checksums; the checked entries of a loaded state; the Stateful protocol (objects with
state_dict() and load_state_dict(state), as torchdata and others define it); and the states of random
generators, torch's and Python's, also as text.

A state that was damaged in transit is refused when it is loaded. The checksum is of the state's contents, not
of their stored form: it stays the same after pickle, torch.save, or json (which turns tuples into lists and
keys into text), in any order of keys. Tensors and arrays count with their contents up to 64 KiB, larger ones
with type and shape. Objects of other classes, which only users' own states have, count by their presence
alone.
"""

from __future__ import annotations

import base64
import contextlib
import copy
import functools
import inspect
import json
import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from zlib import compress, crc32, decompress

import numpy as np
import torch

from .._core import plain_state
from ..errors import StateError
from .moment import bare

KEY = "checksum"
_MOST_BYTES = 64 << 10  # a checksum of more would cost more than all else in state_dict()
_LONG = 256  # letters
_encoded = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


def signed(state: dict[str, Any], of_json: bool = False) -> dict[str, Any]:
    """`state` with its checksum as the first entry, so that a state that was cut short still has it.
    `of_json`: the state should have JSON's types, with text for keys; the result is a copy then.

    The checksum lists the names of the entries that it covers, so a subclass may add entries to its base
    class's state.
    """
    result, number = _copied(state) if of_json else (state, _sum(state))
    return {KEY: " ".join((number, *state)), **result}


def verified(state: Mapping[str, Any], whose: str, verify: bool = True) -> dict[str, Any]:
    """`state` without its checksum. StateError if the checksum does not match. A state without a checksum is
    accepted: an earlier revision saved it, or it was made by hand.

    `whose`: for the message, for example "the loader's state".
    """
    if verify and KEY in state:
        number, *names = _parts(state[KEY])
        if number != (now := _sum(dict(state), names)):
            raise _damaged(whose, state[KEY], now)
    return {key: value for key, value in state.items() if key != KEY}


def verified_copy(state: dict[str, Any], whose: str, verify: bool = True) -> dict[str, Any]:
    """As verified(), but the result is a deep copy and keeps the checksum."""
    then = state.get(KEY) if verify else None
    number, *names = _parts(then)
    result, now = _copied(state, names)
    if verify and KEY in state and number != now:
        raise _damaged(whose, then, now)
    return result


def _parts(checksum: Any) -> list[str]:
    """The number in a checksum, and the names of the entries that it covers."""
    return checksum.split(" ") if isinstance(checksum, str) else [""]


def _damaged(whose: str, then: Any, now: str) -> StateError:
    return StateError(
        f"{whose} is damaged, or was changed after state_dict() gave it: its checksum is {_short(then)},"
        f" and what it holds has {now}. Load another one; load_state_dict(state, verify=False) takes what"
        " was changed on purpose"
    )


def signing(method: Callable[[Any], dict[str, Any]]) -> Callable[[Any], dict[str, Any]]:
    """Decorator of a method state_dict(): adds the checksum to its result. `_state_is_json` of the class is
    signed()'s `of_json`.
    """

    @functools.wraps(method)
    def state_dict(self: Any) -> dict[str, Any]:
        return signed(method(self), getattr(type(self), "_state_is_json", False))

    state_dict.unsigned = method  # type: ignore[attr-defined]
    return state_dict


def unsigned_state(thing: Any) -> Any:
    """thing.state_dict(), if possible without a checksum: for a larger state that has its own checksum."""
    method = getattr(getattr(type(thing), "state_dict", None), "unsigned", None)
    return thing.state_dict() if method is None else method(thing)


def deep_copy(state: Any) -> Any:
    """copy.deepcopy(), in a tenth of the time for JSON's types, which most states have. In those, an object
    that the state holds twice becomes two objects.
    """
    found = plain_state(state, ())
    return bare(copy.deepcopy, state) if found is None else found[0]


def _copied(state: dict[str, Any], names: Sequence[str] | None = None) -> tuple[dict[str, Any], str]:
    """(a deep copy of `state`, its _sum())."""
    return plain_state(state, names) or (bare(copy.deepcopy, state), _sum(state, names))


def _sum(state: dict[str, Any], names: Sequence[str] | None = None) -> str:
    """The checksum's number, eight hexadecimal digits. `names`: the entries that count; None: all."""
    found = plain_state(state, names)
    if found is not None:
        return found[1]
    counted = state if names is None else {key: state[key] for key in names if key in state}
    return _crc(_encoded(_plain(counted, set())))


def _crc(text: str) -> str:
    return f"{crc32(text.encode('utf-8', 'surrogatepass')):08x}"


def _short(value: Any, most: int = 40) -> str:
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _plain(value: Any, around: set[int]) -> Any:
    """`value` in JSON's types, as json would write and read it. `around`: ids of the containers that
    hold it.
    """
    if isinstance(value, str):
        text = str.__str__(value)
        return text if len(text) < _LONG else f"\0text {len(text)} {_crc(text)}"
    if not isinstance(value, (dict, list, tuple, deque, set, frozenset)):
        return _leaf(value)
    if id(value) in around:
        return "\0again"
    around.add(id(value))
    try:
        if isinstance(value, dict):
            return {_key(key): _plain(inner, around) for key, inner in value.items()}
        inner = [_plain(item, around) for item in value]
        return sorted(inner, key=_encoded) if isinstance(value, (set, frozenset)) else inner
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
    return "null" if key is None else f"\0{_encoded(_plain(key, set()))}"


def _leaf(value: Any) -> Any:
    if value is None or isinstance(value, (bool, np.bool_)):
        return None if value is None else bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value)
    if isinstance(value, (bytes, bytearray)):
        return ["\0bytes", len(value), crc32(value)]
    try:
        if isinstance(value, torch.Tensor):
            return _of_array("tensor", str(value.dtype), value.shape, value.nbytes, lambda: _bytes_of(value))
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            return _of_array("array", value.dtype.str, value.shape, value.nbytes, value.tobytes)
    except Exception:  # sparse, nested, or on a lost device: only its presence counts
        pass
    return "\0object"


def _bytes_of(tensor: torch.Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def _of_array(what: str, dtype: str, shape: Any, size: int, contents: Any) -> list[Any]:
    return [f"\0{what}", dtype, list(shape), crc32(contents()) if size <= _MOST_BYTES else "\0large"]


REMEDY = "the state is damaged or not complete; load another one, or begin anew with load_state_dict({})"
_NOTHING = object()


class Fields:
    """The entries of a dict in a state, checked when they are read. `name`: the dict's place in the state, ""
    for the state itself. An entry that may be missing has a `default`; StateError for others.
    """

    def __init__(self, values: Any, name: str = "") -> None:
        if not isinstance(values, (dict, Mapping)):  # dict first: asking an abstract class takes longer
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
        """A whole number >= `least`; `optional`: None is allowed, too."""
        value = self.any(key, default)
        if value is default or (optional and value is None):
            return value
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise _wrong(self._at(key), value, f"a whole number of {least} or more")
        return value

    def flag(self, key: str, default: Any = _NOTHING) -> bool:
        return self._typed(key, default, bool, "True or False")

    def text(self, key: str) -> Any:
        """A text or None."""
        return self._typed(key, None, (str, type(None)), "text")

    def entries(self, key: str, default: Any = _NOTHING) -> list[Any]:
        return list(self._typed(key, default, (list, tuple), "a list"))

    def dict(self, key: str, default: Any = _NOTHING, optional: bool = False) -> Any:
        """A dict, not copied; `optional`: None is allowed, too."""
        return self._typed(key, default, (dict, Mapping), "a dict", optional)

    def part(self, key: str, default: Any = _NOTHING) -> Fields:
        return Fields(self.dict(key, default), self._at(key))

    def _typed(self, key: str, default: Any, kind: Any, what: str, optional: bool = False) -> Any:
        value = self.any(key, default)
        if not isinstance(value, kind) and not (optional and value is None):
            raise _wrong(self._at(key), value, what)
        return value

    def _at(self, key: str) -> str:
        return f"{self._name}[{key!r}]"


def _wrong(at: str, value: Any, what: str) -> StateError:
    return StateError(f"{at} should be {what}, but is {_short(value, most=60)}: {REMEDY}")


def is_stateful(thing: Any) -> bool:
    """Whether `thing` can report its position and be moved to one. False for a model, since its state is
    weights, not a position in data, and for a class, since only its objects have a position.
    """
    if isinstance(thing, (type, torch.nn.Module)):
        return False
    return all(_has(thing, name) for name in ("state_dict", "load_state_dict"))


def _has(thing: Any, name: str) -> bool:
    """Whether `thing` has a method of this name. A __getattr__ that answers any name, as in wrappers, does
    not count.
    """
    return callable(getattr(thing, name, None)) and inspect.getattr_static(thing, name, None) is not None


def state_of(thing: Any) -> Any:
    """A deep copy of the state of `thing`, without checksum where possible; None if `thing` is not
    Stateful.
    """
    return deep_copy(unsigned_state(thing)) if is_stateful(thing) else None


def put_back(thing: Any, state: Any) -> None:
    """Load a copy of `state` into `thing`, if both exist. The caller may use `state` again."""
    if state is not None and is_stateful(thing):
        thing.load_state_dict(deep_copy(state))


def packed(state: torch.Tensor | str | None) -> str | None:
    """A generator's state (uint8) as text of about 3.4 kB: half of its 5 kB are zero bytes. A text or None is
    returned as it is.
    """
    if state is None or isinstance(state, str):
        return state
    return base64.b64encode(compress(state.numpy().tobytes(), 1)).decode("ascii")


def unpacked(text: str | None) -> Any:
    """The reverse of packed(): a tensor or None; StateError for a text that packed() did not make."""
    if text is None:
        return None
    try:
        return torch.frombuffer(
            bytearray(decompress(base64.b64decode(text, validate=True))), dtype=torch.uint8
        )
    except Exception as error:
        raise StateError(
            f"the state of a random generator cannot be read ({error}); the saved state is damaged"
        ) from error


def global_generator_at(state: torch.Tensor) -> contextlib.AbstractContextManager[None]:
    """Context: sets torch's global CPU generator to `state`, and restores it at the end."""
    return generators_at({"global": state})


def draw_base_seed(generator: Any = None) -> int:
    """Draw a base seed as torch's iterators draw it."""
    return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())


def generator_states(own: dict[str, torch.Generator], pythons: bool) -> dict[str, torch.Tensor]:
    """The states of the generators `own`, by their names, and of torch's global one, as "global"; if
    `pythons`, also of the generators of the modules random and numpy.random, as "python".
    """
    states = {name: generator.get_state() for name, generator in own.items()} | {
        "global": torch.get_rng_state()
    }
    if pythons:
        version, words, gauss = random.getstate()
        numpys = np.random.get_state(legacy=False)
        # a script may have exchanged the bit generator; another kind is not saved
        mersenne = numpys["bit_generator"] == "MT19937"
        state = numpys["state"]
        kept = (
            [state["key"].tolist(), int(state["pos"]), numpys["has_gauss"], numpys["gauss"]]
            if mersenne
            else None
        )
        states["python"] = torch.frombuffer(
            bytearray(json.dumps([version, words, gauss, kept]), "ascii"), dtype=torch.uint8
        )
    return states


@contextlib.contextmanager
def generators_at(states: Mapping[str, torch.Tensor | None]) -> Iterator[None]:
    """Context: sets the global generators to `states`, from generator_states(), and restores them at
    the end.
    """
    before = generator_states({}, pythons=states.get("python") is not None)
    put_generators(states)
    try:
        yield
    finally:
        put_generators(before)


def put_generators(states: Mapping[str, torch.Tensor | None]) -> None:
    if (torchs := states.get("global")) is not None:
        torch.set_rng_state(torchs)
    if (pythons := states.get("python")) is not None:
        version, words, gauss, numpys = json.loads(pythons.numpy().tobytes())
        random.setstate((version, tuple(words), gauss))
        if numpys is not None:
            np.random.set_state(("MT19937", np.array(numpys[0], np.uint32), *numpys[1:]))
