"""frozen() reads like the list it was made from, in every process, and cannot be changed."""

import copy
import gc
import math
import multiprocessing
import operator
import os
import pickle
import random
import subprocess
import sys
import textwrap
import threading
import time
from collections import namedtuple

import millrace
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from loader_data import make_folder, torchvision_or_skip
from millrace._common import columns
from millrace._loader.heavy_lists import heavy_lists
from open_files import open_files

from benchmarks import memory

Point = namedtuple("Point", "x y")
LISTS = {
    "paths": [f"class/{i:03}.jpg" for i in range(200)],
    "any text": ["", "é", "日本", "\U0001f600", "a\0b", "\ud800 alone", "한글"],
    "bytes": [b"", b"\xff\0", b"abc"],
    "labels": [3, 0, 255, 7],
    "negative": [-1, 200, -129],
    "int64": [2**63 - 1, -(2**63), 0],
    "too large": [2**64, -(2**70), 1],
    "unsigned": [2**63 - 1, 2**62],
    "floats": [0.1, -0.0, math.inf, 5e-324],
    "bools": [True, False, True],
    "pairs": [("a.jpg", 1), ("b.jpg", 0), ("", -5)],
    "rows": [("a", 1, 0.5, b"x", True), ("b", 2, 1.5, b"", False)],
    "nested": [(("a", 1), 2.0), (("b", 2), 3.0)],
    "singles": [("a",), ("b",)],
    "empty tuples": [(), ()],
    "uneven tuples": [("a",), ("a", 1)],
    "records": [{"file": "a", "id": 1}, {"file": "b", "id": 2}],
    "other records": [{"file": "a"}, {"id": 2}, {}],
    "other order": [{"a": 1, "b": 2}, {"b": 1, "a": 2}],
    "keys of a kind": [{1: 2}, {True: 3}],
    "mixed": ["a", 1, None, 2.5, b"b", True, ("c", 1)],
    "int and bool": [1, True, 0],
    "none": [None, None],
    "boxes": [("a", [1, 2, {"x": [3]}]), ("b", [])],
    "named": [Point(1, 2), Point(3, 4)],
    "one": ["x"],
    "empty": [],
}


def same(a, b):
    """Equal, of the same types all the way down."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(x, y) for x, y in zip([*a, *a.values()], [*b, *b.values()]))
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b and (not isinstance(a, float) or math.copysign(1, a) == math.copysign(1, b))


@pytest.mark.parametrize("name", LISTS)
def test_it_reads_like_the_list(name):
    items = LISTS[name]
    frozen = millrace.frozen(items)
    assert len(frozen) == len(items) and bool(frozen) == bool(items)
    assert same(list(frozen), items) and same([frozen[i] for i in range(len(items))], items)
    assert same([frozen[i - len(items)] for i in range(len(items))], items) and same(
        list(reversed(frozen)), items[::-1]
    )
    assert (
        frozen == items and items == frozen and frozen == millrace.frozen(list(items)) and not frozen != items
    )
    assert frozen != [*items, 1] and frozen != tuple(items)
    for item in items:
        assert (
            item in frozen
            and frozen.index(item) == items.index(item)
            and frozen.count(item) == items.count(item)
        )
    assert "elsewhere" not in frozen
    for outside in (len(items), -len(items) - 1):
        with pytest.raises(
            IndexError, match=f"index {outside} is outside this frozen list of {len(items)} items"
        ):
            frozen[outside]
    with pytest.raises(TypeError):
        frozen["a"]


@given(
    st.lists(
        st.text(st.characters())
        | st.binary()
        | st.integers()
        | st.none()
        | st.tuples(st.text(), st.integers()),
        max_size=20,
    )
)
@settings(max_examples=60, deadline=None)
def test_any_list(items):
    assert same(list(millrace.frozen(items)), items)


@given(st.sampled_from([str, bytes, int, float, bool]), st.data())
@settings(max_examples=60, deadline=None)
def test_any_list_of_one_type(kind, data):
    items = data.draw(st.lists(st.from_type(kind).filter(lambda x: x == x), max_size=20))
    assert same(list(millrace.frozen(items)), items)


def test_blocks_fit_together():
    items = [str(i) * (i % 5) + "ü" * (i == 70_000) for i in range(2 * columns._BLOCK + 3)]
    assert list(millrace.frozen(items)) == items


def test_slices_are_views():
    items = [f"{i}" for i in range(50)]
    frozen = millrace.frozen(items)
    for cut in (slice(10, 20), slice(None, None, -1), slice(40, 2, -3), slice(5, 5), slice(-3, None)):
        view = frozen[cut]
        assert isinstance(view, millrace.FrozenList) and view == items[cut] and view._shared is frozen._shared
        assert view[1:][::2] == items[cut][1:][::2]
    assert frozen[10:][0] == "10" and frozen[torch.tensor(3)] == "3"


def test_it_cannot_be_changed():
    frozen = millrace.frozen(["a", "b"])
    for change in (
        lambda: operator.setitem(frozen, 0, "c"),
        lambda: operator.delitem(frozen, 0),
        lambda: frozen.append("c"),
        frozen.sort,
    ):
        with pytest.raises(TypeError, match="frozen list cannot be changed; make a list of it"):
            change()
    with pytest.raises(TypeError, match="unhashable"):
        hash(frozen)
    records = millrace.frozen([{"boxes": [1]}, {"boxes": [2]}])
    records[0]["boxes"].append(9)
    assert records == [{"boxes": [1]}, {"boxes": [2]}], "what comes out is a new object each time"


def test_the_memory_is_sealed():
    shared = millrace.frozen(["abc"])._shared
    descriptor = shared._descriptor()
    for change in (
        lambda: os.pwrite(descriptor, b"x", 0),
        *(lambda n=n: os.ftruncate(descriptor, n) for n in (1, 1 << 20)),
    ):
        with pytest.raises(PermissionError):
            change()


def test_repr_is_short():
    assert repr(millrace.frozen(["a", "b"])) == "frozen(['a', 'b'])"
    assert repr(millrace.frozen(range(5_000))) == "frozen([0, 1, 2, ... 4,997 more])"


def test_what_it_takes():
    assert millrace.frozen(iter("abc")) == ["a", "b", "c"] and millrace.frozen(("a",)) == ["a"]
    frozen = millrace.frozen(["a"])
    assert millrace.frozen(frozen) is frozen
    for refused in ("abc", b"abc", {"a": 1}, {"a"}):
        with pytest.raises(TypeError, match=f"not a {type(refused).__name__}"):
            millrace.frozen(refused)
    with pytest.raises(TypeError, match="an item of type lock can be neither packed nor pickled"):
        millrace.frozen([1, threading.Lock()])


def test_copies():
    frozen = millrace.frozen([f"{i}" for i in range(10_000)])
    assert copy.copy(frozen) is frozen and copy.deepcopy([frozen])[0] is frozen
    assert pickle.loads(pickle.dumps(frozen)) == frozen
    assert pickle.loads(pickle.dumps(frozen[5:7])) == ["5", "6"] and len(pickle.dumps(frozen[5:7])) < 500


def descriptors():
    gc.collect()
    return len(open_files("memfd:millrace-frozen"))


def test_one_descriptor_while_it_lives():
    before = descriptors()
    frozen = [millrace.frozen(["a", i]) for i in range(5)]
    assert descriptors() == before + 5
    views = [each[1:] for each in frozen]
    del frozen
    assert descriptors() == before + 5 and views[3] == [3]
    with pytest.raises(TypeError):
        millrace.frozen([threading.Lock()])
    del views
    assert descriptors() == before


def test_threads_read_it_together():
    frozen, wrong = millrace.frozen([f"{i}" * 3 for i in range(1000)]), []

    def read(seed):
        for i in random.Random(seed).choices(range(1000), k=20_000):
            if frozen[i] != f"{i}" * 3:
                wrong.append(i)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


class Lengths(torch.utils.data.Dataset):
    """The lengths of strings; in a spawned worker, also whether their memory is the parent's."""

    def __init__(self, strings):
        self.strings = strings
        self.identity = strings._shared._identity

    def __len__(self):
        return len(self.strings)

    def __getitem__(self, index):
        return len(self.strings[index]), self.strings._shared._identity == self.identity


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
@pytest.mark.parametrize("cut", [slice(None), slice(10, 200)], ids=["whole", "slice"])
def test_workers_share_it(method, cut):
    strings = millrace.frozen(["x" * i for i in range(300)])[cut]
    before = descriptors()
    batches = list(millrace.DataLoader(Lengths(strings), 50, num_workers=1, multiprocessing_context=method))
    assert torch.cat([lengths for lengths, _ in batches]).tolist() == list(range(300))[cut]
    assert all(shared.all() for _, shared in batches), "the same pages, not a copy"
    del batches
    assert descriptors() <= before


def test_it_outlives_the_parents_object():
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    child = context.Process(target=_answer, args=(millrace.frozen(["a", "b"]), queue))
    child.start()
    gc.collect()
    assert queue.get(timeout=100) == ["a", "b"]
    child.join()


def _answer(frozen, queue):
    queue.put(list(frozen))


def test_torchvisions_folder_may_hold_frozen_samples(tmp_path):
    folder = torchvision_or_skip().datasets.ImageFolder
    make_folder(tmp_path, 6)
    dataset = folder(str(tmp_path), torchvision_or_skip().transforms.ToTensor())
    expected = [label for _, label in dataset.samples]
    dataset.samples = millrace.frozen(dataset.samples)
    loader = millrace.DataLoader(dataset, 1, num_workers=1, native="require")
    for _ in range(2):
        assert [int(label) for _, label in loader] == expected
    dataset.samples = dataset.samples[3:]
    assert [int(label) for _, label in loader] == expected[3:]


# -- memory
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.alone
def test_a_million_strings_are_frozen_quickly_and_without_a_second_copy():
    script = textwrap.dedent("""
        import resource, time
        import millrace
        items = [f"folder/class_{i % 1000:04d}/image_{i:09d}.jpg" for i in range(1_000_000)]
        peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        before, started = peak(), time.process_time()
        frozen = millrace.frozen(items)
        print(time.process_time() - started, peak() - before)
    """)
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=200, check=True
    )
    seconds, megabytes = map(float, run.stdout.split())
    assert megabytes < 75, "41 MB of characters, 4 or 8 of ends, and blocks"
    assert seconds < 5


@pytest.mark.alone
def test_reading_is_quick():
    frozen = millrace.frozen([f"folder/class_{i % 1000:04d}/image_{i:09d}.jpg" for i in range(100_000)])
    places = random.Random(0).sample(range(100_000), 50_000)
    best = math.inf
    for _ in range(5):
        started = time.process_time()
        for place in places:
            frozen[place]
        best = min(best, time.process_time() - started)
    assert best / len(places) < 3e-6, "about 0.4 us on an idle machine"


@pytest.mark.skipif(
    not os.path.exists("/proc/self/smaps_rollup"), reason="reads proportional set sizes from /proc"
)
def test_an_epoch_copies_nothing():
    """500,000 strings: as a list, the workers come to copy 84 to 107 MB; frozen, as many as without strings,
    give or take 7 MB.
    """
    growth = {kind: memory.measure_apart(kind, "millrace", 500_000)["growth_mb"] for kind in memory.KINDS}
    assert growth["frozen"] - growth["indices"] < 24
    assert growth["list"] - growth["frozen"] > 40, "the measure sees what it is made for"


# -- the advice
# ------------------------------------------------------------------------------------------------------------


class Holder(torch.utils.data.Dataset):
    def __init__(self, **attributes):
        vars(self).update(attributes)

    def __len__(self):
        return 10

    def __getitem__(self, index):
        return index


@pytest.fixture(scope="module")
def paths():
    return [f"folder/class_{i % 1000:04d}/image_{i:09d}.jpg" for i in range(300_000)]


@pytest.mark.alone
def test_heavy_lists_are_found_and_weighed(paths):
    labels = [i % 1000 for i in range(1000)] * 300
    pairs = list(zip(paths, labels))
    table = {path: [float(i)] for i, path in enumerate(paths)}
    dataset = Holder(
        paths=paths, labels=labels, short=paths[:100], array=torch.zeros(10**7), frozen=millrace.frozen(paths)
    )
    text = sum(map(sys.getsizeof, paths))
    ((name, count, size),) = heavy_lists(dataset)
    assert (name, count) == ("dataset.paths", 300_000) and 0.8 < size / text < 1.2

    parts = [Holder(), Holder(pairs=pairs, again=pairs), Holder(table=table)]
    nested = torch.utils.data.Subset(torch.utils.data.ConcatDataset(parts), [0])
    found = {name: size for name, _, size in heavy_lists(nested)}
    assert set(found) == {"dataset.dataset.datasets[1].pairs", "dataset.dataset.datasets[2].table"}
    assert 0.7 < found["dataset.dataset.datasets[1].pairs"] / (text + 300_000 * sys.getsizeof((1, 2))) < 1.3
    assert (
        heavy_lists(paths)[0][0] == "dataset"
        and heavy_lists(range(10**9)) == []
        and heavy_lists(millrace.frozen(paths)) == []
    )

    started = time.process_time()
    heavy_lists(nested)
    assert time.process_time() - started < 0.2


def test_explain_says_when_freezing_helps(paths):
    dataset = Holder(paths=paths)

    def memory_lines(dataset, **options):
        return [
            line
            for line in millrace.DataLoader(dataset, **options).explain().splitlines()
            if line.startswith("memory:")
        ]

    (line,) = memory_lines(dataset, num_workers=2)
    assert line.startswith("memory: python — ") and "dataset.paths (300,000 items, about " in line
    assert "millrace.frozen(dataset.paths)" in line
    assert memory_lines(dataset) == [], "without workers nothing is copied"
    dataset.paths = millrace.frozen(paths)
    assert memory_lines(dataset, num_workers=2) == []
