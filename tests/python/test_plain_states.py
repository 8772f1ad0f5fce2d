"""States of JSON's types are copied and summed up natively: as Python's json and deepcopy do it, and any
other state in the slow way, to the same sum.
"""

from __future__ import annotations

import collections
import copy
import gc
import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from millrace._common import states
from millrace._core import plain_state

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.integers(250, 260).map(lambda count: "é" * count),
    st.integers(250, 260).map(lambda count: "x" * count),
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=20,
)
STATES = st.dictionaries(NAMES, VALUES, max_size=8)


def slow_sum(state):
    return states._crc(states._encoded(states._plain(state, set())))


@settings(max_examples=300, deadline=None)
@given(STATES, st.data())
def test_as_python_does_it(state, data):
    copied, number = plain_state(state)
    assert repr(copied) == repr(state) and number == slow_sum(state)  # repr: NaN is equal to nothing
    assert repr(states.deep_copy(state)) == repr(copy.deepcopy(state))
    names = data.draw(st.lists(st.sampled_from([*state, "elsewhere"]), unique=True))
    part = {name: state[name] for name in names if name in state}
    assert plain_state(state, names)[1] == slow_sum(part) == states._sum(state, names)


def test_nothing_of_the_copy_is_the_states():
    state = {"a": {"b": [1, {"c": []}]}, "d": []}
    copied, _ = plain_state(state)
    copied["a"]["b"][1]["c"].append(1)
    copied["d"].append(2)
    copied["a"]["e"] = 3
    assert state == {"a": {"b": [1, {"c": []}]}, "d": []}
    listed, _ = plain_state([state, 1])
    listed[0]["d"].append(1)
    assert state["d"] == []


class Text(str):
    pass


def deep(levels):
    state = {}
    for _ in range(levels):
        state = {"a": state}
    return state


@pytest.mark.parametrize(
    "state",
    [
        {"a": (1, 2)},
        {1: 2},
        {"a": {None: 1}},
        {"a": Text("x")},
        {Text("a"): 1},
        {"a": 2**64},
        {"a": -(2**63) - 1},
        {"a": "\ud800"},
        {"\ud800": 1},
        {"a": b""},
        {"a": collections.OrderedDict(b=1)},
        {"a": object},
        deep(200),
        3,
        "text",
        None,
    ],
    ids=lambda state: repr(state)[:20],
)
def test_what_is_left_to_python(state):
    assert plain_state(state) is None
    assert states.deep_copy(state) == state
    if isinstance(state, dict) and all(isinstance(key, str) for key in state):
        signed = states.signed(state, of_json=True)
        assert states.verified_copy(signed, "it") == signed and states.verified(signed, "it") == state


def test_sums_are_those_of_earlier_revisions():
    """States that were saved must load for ever."""
    state = {
        "b": [1, 2.5, 1e16, 1e-7, math.inf, None, True],
        "a": {"text": 'é\n"\\\x7f😀', "long": "ab" * 200},
    }
    assert plain_state(state)[1] == "649f8194" == slow_sum(state)
    assert slow_sum(json.loads(json.dumps(state))) == "649f8194"


def test_what_holds_itself():
    state = {"a": []}
    state["a"].append(state)
    assert plain_state(state) is None and states.deep_copy(state)["a"][0]["a"]


def test_collections_on_the_way():
    """A finalizer that runs while a state is copied may change it."""
    state = {f"k{i}": {"a": [i]} for i in range(50)}

    class Cycle:
        def __init__(self):
            self.me = self

        def __del__(self):
            state.pop(next(iter(state)), None)
            state[f"n{len(state)}"] = {}

    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(300):
            Cycle()
            copied, number = plain_state(state)
            assert number == slow_sum(copied)
    finally:
        gc.set_threshold(*before)
