"""ChunkCache: its budget, its announced uses, which chunk goes first."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from millrace.datasets.batches import ChunkCache


@settings(deadline=None, derandomize=True, max_examples=100)
@given(
    st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True), max_size=40),
    st.integers(0, 6),
    st.data(),
)
def test_cache_keeps_its_budget_and_its_word(uses, budget, data):
    cache = ChunkCache(lambda chunk: [chunk], lambda chunk: 1, budget, len)
    ahead = data.draw(st.integers(1, 5))
    numbers = []
    for at in range(len(uses)):
        while len(numbers) < min(len(uses), at + ahead):
            numbers.append(cache.announce(uses[len(numbers)]))
        for _ in range(data.draw(st.integers(0, 2))):
            cache.read_ahead()
            assert cache.held_bytes <= max(budget, 1)
        there, reads = all(chunk in cache._present for chunk in uses[at]), cache.reads
        found = cache.get_all(uses[at], [(numbers[at],)] * len(uses[at]))
        assert found == ([([chunk], 1) for chunk in uses[at]] if there else None) and cache.reads == reads
        for chunk in () if there else uses[at]:
            assert cache.get(chunk, (numbers[at],)) == ([chunk], 1)
            assert cache.held_bytes <= max(budget, 1)
    assert not cache._uses
    cache.empty()
    assert cache.held_bytes == 0


def test_keeps_what_is_needed_soonest():
    cache = ChunkCache(lambda chunk: [chunk], lambda chunk: 1, 2, len)
    numbers = [cache.announce([chunk]) for chunk in (0, 1, 2, 0, 1)]
    for number, chunk in zip(numbers, (0, 1, 2, 0, 1)):
        cache.get(chunk, (number,))
    assert cache.reads == 4, "of 0 and 1, 0 is kept for its second use when 2 comes"
