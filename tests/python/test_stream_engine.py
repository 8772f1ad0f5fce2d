"""WebDataset through the native engine: what Python gives, for any number of threads, resumed anywhere."""

from __future__ import annotations

import pickle
import shutil

import pytest
import torch
from loader_data import advanced, going_on
from millrace import DataLoader
from millrace.datasets import WebDataset, ignore_and_continue
from stream_cases import COUNT, FIXED, LENGTHS, RANDOM, assert_same, by_python, folder, images, loaded, stream  # noqa: F401
from torch.utils.data import default_collate


def negative(label):
    return -float(label)


def odd(sample):
    return int(sample["cls"]) % 2 == 1


def sound(sample):
    """Looks at everything, in copies; true of all samples when their pictures are bytes."""
    copies = dict(sample), {**sample}, sample.copy(), sample | {}, dict(**sample)
    return all(isinstance(value, (bytes, str)) for copy in copies for value in copy.values())


def halved(label):
    return label // 2


PICTURE = "jpg;png;webp"


def opened(folder, **options):
    return WebDataset(f"{folder}/s-{{0..3}}.tar", **options)


def renumbered(sample):
    """A predicate that changes what it sees."""
    sample["cls"] = b"%d" % (2 * int(sample["cls"]))
    return sample.pop("txt") != b"t"


def dicts(dataset, **options):
    return dataset.decode("pil", **options).rename(image=PICTURE).map_dict(image=FIXED, cls=negative)


CHAINS = {
    "batch_size": (lambda f: stream(f), {"batch_size": 4}),
    "drop_last": (lambda f: stream(f), {"batch_size": 4, "drop_last": True}),
    "exact": (lambda f: stream(f), {"batch_size": COUNT, "drop_last": True}),
    "larger than all": (lambda f: stream(f), {"batch_size": 100}),
    "batched": (lambda f: stream(f).batched(4), {"batch_size": None}),
    "not partial": (lambda f: stream(f).batched(4, partial=False), {"batch_size": None}),
    "single": (lambda f: stream(f).batched(1), {"batch_size": None}),
    "shuffle": (
        lambda f: images(opened(f, shardshuffle=True, seed=3).shuffle(6, initial=4)).batched(5),
        {"batch_size": None},
    ),
    "shuffled twice": (lambda f: stream(f, shardshuffle=True).shuffle(5).slice(1, 15, 2), {"batch_size": 3}),
    "slice": (lambda f: stream(f).slice(2, 13).batched(4), {"batch_size": None}),
    "rsample": (lambda f: stream(f).rsample(0.6), {"batch_size": 3}),
    "rename": (
        lambda f: (
            opened(f)
            .decode("pil")
            .rename(image=PICTURE, label="cls")
            .to_tuple("label", "image")
            .map_tuple(halved, FIXED)
        ),
        {"batch_size": 4},
    ),
    "map_dict": (
        lambda f: (
            opened(f)
            .decode("pilrgb")
            .rename(image=PICTURE)
            .map_dict(image=FIXED, cls=negative)
            .to_tuple("image", "cls", "__key__")
        ),
        {"batch_size": 4},
    ),
    "functions": (
        lambda f: stream(f).map_tuple(None, negative).map_tuple(None, abs).batched(4),
        {"batch_size": None},
    ),
    "text": (
        lambda f: (
            opened(f)
            .decode("pil")
            .to_tuple("txt", PICTURE, "__key__", "cls")
            .map_tuple(len, FIXED)
            .batched(4)
        ),
        {"batch_size": None},
    ),
    "select_files": (
        lambda f: stream(f, select_files=lambda name: not name.endswith(".txt")),
        {"batch_size": 4},
    ),
    "select": (lambda f: images(opened(f).select(odd).shuffle(4)).batched(4), {"batch_size": None}),
    "select that changes samples": (lambda f: images(opened(f).select(renumbered)), {"batch_size": 4}),
    "torch's collation": (lambda f: stream(f).batched(4, collation_fn=default_collate), {"batch_size": None}),
    "dicts": (lambda f: dicts(opened(f)), {"batch_size": 4}),
    "dicts batched": (lambda f: dicts(opened(f)).batched(4), {"batch_size": None}),
    "chosen dicts": (
        lambda f: dicts(opened(f)).to_dict("image", "cls").batched(4, default_collate),
        {"batch_size": None},
    ),
    "dicts with a handler": (
        lambda f: dicts(opened(f), handler=ignore_and_continue).batched(4),
        {"batch_size": None},
    ),
    "select of copies": (lambda f: images(opened(f).select(sound)), {"batch_size": 4}),
    "with_epoch": (lambda f: stream(f).with_epoch(23), {"batch_size": 4}),
    "batches of an epoch": (lambda f: stream(f).batched(4).with_epoch(7), {"batch_size": None}),
    "repeat": (lambda f: stream(f, shardshuffle=True).shuffle(4).repeat(3), {"batch_size": 4}),
    "batched and repeat": (lambda f: stream(f).shuffle(4).batched(5).repeat(2), {"batch_size": None}),
    "resampled": (
        lambda f: stream(f, resampled=True).shuffle(4).batched(4).with_epoch(9),
        {"batch_size": None},
    ),
    "gz": (lambda f: stream(f, ending="tar.gz").shuffle(4), {"batch_size": 4}),
    "zst": (lambda f: stream(f, ending="tar.zst").batched(4), {"batch_size": None}),
}


DECLARED = (
    "with_epoch",
    "batches of an epoch",
    "resampled",
)  # as long as there are workers, so these are compared with as many
MOST_WORKERS = {name: 2 if name in DECLARED else 3 for name in CHAINS}


def needs(name):
    if name == "zst" and shutil.which("zstd") is None:
        pytest.skip("there is no zstd program")


@pytest.mark.parametrize("name", CHAINS)
def test_what_python_gives(folder, name):
    needs(name)
    make, options = CHAINS[name]
    expected = by_python(make(folder), **options)
    assert expected
    for workers in (0, 1) if name in DECLARED else (0, 1, 3):
        assert_same(loaded(make(folder), num_workers=workers, **options), expected)


@pytest.mark.parametrize(
    "name", ["batch_size", "shuffle", "batches of an epoch", "repeat", "resampled", "gz", "slice"]
)
def test_two_epochs_are_those_of_python(folder, name):
    make, options = CHAINS[name]
    workers = MOST_WORKERS[name] - 1
    ours = DataLoader(make(folder), num_workers=workers, **options)
    theirs = DataLoader(make(folder), native="never", **options)
    for _ in range(3):
        assert_same(list(ours), list(theirs))


@pytest.mark.parametrize(
    "name",
    [
        "drop_last",
        "shuffle",
        "shuffled twice",
        "batches of an epoch",
        "batched and repeat",
        "resampled",
        "gz",
    ],
)
def test_resumed_at_every_batch(folder, name):
    make, options = CHAINS[name]
    all_batches = [list(loader) for loader in [DataLoader(make(folder), **options)] for _ in range(2)]
    most = MOST_WORKERS[name]
    for taken in range(len(all_batches[0]) + 1):
        one = DataLoader(make(folder), num_workers=taken % most, **options)
        iterator = iter(one)
        assert_same([next(iterator) for _ in range(taken)], all_batches[0][:taken])
        state = pickle.loads(pickle.dumps(one.state_dict()))
        del iterator
        for other_options in ({"num_workers": most - 1 - taken % most}, {"native": "never"}):
            other = going_on(DataLoader(make(folder), **options, **other_options), state)
            # Behind the last batch, whether it is full or not, an empty rest of the epoch comes first.
            assert_same(list(other), all_batches[0][taken:])
            assert_same(list(other), all_batches[1])


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize(
    "keywords", [{}, {"resampled": True, "shardshuffle": False}], ids=["in order", "resampled"]
)
def test_declared_epochs_count_for_each_worker(folder, keywords, workers):
    """As in webdataset, whoever does the work: a script has as many steps natively."""
    for how, size in ((lambda ds, n: ds.with_epoch(n), 4), (lambda ds, n: ds.batched(4).with_epoch(n), None)):
        expected = by_python(how(stream(folder, **keywords), 8 * workers), batch_size=size)
        loader = DataLoader(how(stream(folder, **keywords), 8), batch_size=size, num_workers=workers)
        assert_same(list(loader), expected)
        in_workers = DataLoader(
            how(stream(folder, **keywords), 8), batch_size=size, num_workers=workers, native="never"
        )
        assert len(list(loader)) == len(list(in_workers)) == len(expected)


def test_with_workers_found_out_epochs_count_for_the_rank(folder):
    declared = stream(folder).with_epoch(12)
    assert_same(
        loaded(declared, batch_size=4, num_workers="auto"),
        by_python(stream(folder).with_epoch(12), batch_size=4),
    )


def test_a_state_of_python_code_goes_on_in_the_engine(folder):
    make, options = CHAINS["shuffle"]
    expected = by_python(make(folder), **options)
    one = DataLoader(make(folder), native="never", **options)
    _held = advanced(one, 1)
    other = going_on(DataLoader(make(folder), num_workers=2, **options), one.state_dict())
    assert_same(list(other), expected[1:])


def labels(batches):
    return torch.cat([torch.as_tensor(batch[1]) for batch in batches]).tolist()


def pixels(batches):
    return torch.cat([batch[0] for batch in batches])


@pytest.mark.parametrize("how", ["batch_size", "batched", "resampled"])
def test_random_transforms(folder, how):
    """The same pixels for any threads and behind a resume; others in the next epoch and repetition."""

    def make(workers):
        torch.manual_seed(11)
        dataset = stream(
            folder, RANDOM, shardshuffle=how != "resampled", resampled=how == "resampled"
        ).shuffle(6)
        if how == "resampled":
            dataset = dataset.with_epoch(30 // max(1, workers))
        batched, size = (dataset.batched(4), None) if how == "batched" else (dataset, 4)
        return DataLoader(batched, batch_size=size, num_workers=workers)

    loader = make(0)
    first, second = list(loader), list(loader)
    for workers in (1, 3):
        other = make(workers)
        assert_same(list(other), first)
        assert_same(list(other), second)
    if how != "resampled":
        ordered = [dict(zip(labels(batches), pixels(batches))) for batches in (first, second)]
        assert all(not torch.equal(ordered[0][label], ordered[1][label]) for label in range(COUNT))
    else:
        all_labels = torch.tensor(labels(first))
        twice = [label for label in all_labels.unique() if (all_labels == label).sum() > 1]
        assert twice
        for label in twice:
            copies = pixels(first)[all_labels == label]
            assert not torch.equal(copies[0], copies[1])
    for taken in range(0, len(first), 2):
        one = make(taken % 3)
        _held = advanced(one, taken)
        other = make(2)
        torch.manual_seed(99)
        other.load_state_dict(one.state_dict())
        assert_same(list(other), first[taken:])


def test_passes_of_one_epoch_differ(folder):
    dataset = stream(folder, RANDOM).repeat(2)
    (batch,) = loaded(dataset, batch_size=2 * COUNT)
    assert not any(torch.equal(batch[0][i], batch[0][COUNT + i]) for i in range(COUNT))


def test_ranks_that_draw_the_same_shard_differ(folder, monkeypatch):
    pixels_of = []
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", "2")
        torch.manual_seed(5)
        dataset = images(WebDataset(f"{folder}/s-0.tar", resampled=True), RANDOM).with_epoch(LENGTHS[0])
        (batch,) = loaded(dataset, batch_size=LENGTHS[0])
        assert batch[1].tolist() == list(range(LENGTHS[0]))
        pixels_of.append(batch[0])
    assert not any(map(torch.equal, *pixels_of))
