"""RandomBatchSize: a size per batch, natively and in Python: which size each batch has, its pixels, and who
refuses it.
"""

import copy
import pickle
import re

import millrace
import pytest
import torch
from loader_data import make_folder, pictures
from millrace import transforms as t
from millrace._common import batch_place
from millrace._loader.plan import make_plan
from millrace._loader.plan.decoding import decoded_on_device
from millrace._loader.remote.maker import Work
from millrace._loader.remote.python_maker import PythonMaker
from millrace._loader.remote.spec import kind_of
from stream_cases import stream, write_shards
from thinned import thinned
from torch.utils.data import DistributedSampler, IterableDataset
from view_cases import InPython

COUNT, BATCH = 21, 4
BATCHES = -(-COUNT // BATCH)
SIZES = [8, (12, 9), 16, 23]
SIZE = t.RandomBatchSize(SIZES, seed=3)
ENGINES = ["native", "row by row", "processes", "threads"]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("sizes")
    make_folder(root, COUNT)
    return str(root)


def chain(size=SIZE):
    return t.Compose([t.RandomResizedCrop(size), t.RandomHorizontalFlip(), t.ToTensor()])


def load(dataset, engine="native", **options):
    """By one of ENGINES: C++ alone, rows of C++ in Python's workers, or Python in processes or threads."""
    if engine == "native":
        options["native"] = "require"
    elif engine == "row by row":
        options["native"] = "never"
    else:
        dataset = InPython(dataset)
        if options.get("num_workers"):
            options["worker_method"] = {"processes": "process", "threads": "thread"}[engine]
    return millrace.DataLoader(dataset, options.pop("batch_size", BATCH), **options)


def shape(size):
    return [size, size] if isinstance(size, int) else list(size)


def expected(epoch, size=SIZE, batches=BATCHES):
    return [shape(size.at(epoch, number)) for number in range(batches)]


def shapes(batches):
    return [list(batch[0].shape[2:]) for batch in batches]


def rows(batch):
    return batch[0], batch[1].tolist()


# ---------------------------------------------------------------- the draw


def test_the_draw_is_a_function_of_seed_epoch_and_batch():
    sizes = t.RandomBatchSize(range(32, 353, 32))
    drawn = [[sizes.at(epoch, batch) for batch in range(200)] for epoch in range(3)]
    assert drawn[0] != drawn[1] != drawn[2] != drawn[0]
    assert all(set(epoch) == set(sizes.sizes) for epoch in drawn)
    assert drawn[1] == [t.RandomBatchSize(range(32, 353, 32)).at(1, batch) for batch in range(200)]
    other = t.RandomBatchSize(range(32, 353, 32), seed=-1)
    assert drawn[0] != [other.at(0, batch) for batch in range(200)]
    # runs that are resumed by a later version go on with these
    known = [4, 4, 4, 4, 4, 5, 3, 2, 5, 1, 1, 5]
    assert [t.RandomBatchSize([1, 2, 3, 4, 5]).at(0, batch) for batch in range(12)] == known


def test_every_batches_have_one_size():
    often, seldom = t.RandomBatchSize(SIZES), t.RandomBatchSize(SIZES, every=3)
    assert [seldom.at(2, batch) for batch in range(30)] == [often.at(2, batch // 3) for batch in range(30)]


@pytest.mark.parametrize(
    "arguments, kind, words",
    [
        (([],), ValueError, "sizes must have one size or more"),
        (([32, 0],), ValueError, "must be 1 pixel or more, got 0"),
        (([(32, -1)],), ValueError, r"must be 1 pixel or more, got \(32, -1\)"),
        (([True],), TypeError, "got True"),
        (([32.0],), TypeError, "got 32.0"),
        (([(1, 2, 3)],), TypeError, r"pair of ints \(height, width\), got \(1, 2, 3\)"),
        ((224,), TypeError, "a list of sizes, got 224"),
        (("224",), TypeError, "a list of sizes, got '224'"),
        (([32], 0), ValueError, "every must be 1 or more batches, got 0"),
        (([32], True), TypeError, "every must be an int, got True"),
        (([32], 1, 0.5), TypeError, "seed must be an int, got 0.5"),
    ],
)
def test_bad_arguments_are_refused_in_words(arguments, kind, words):
    sizes, *others = arguments
    with pytest.raises(kind, match=words):
        t.RandomBatchSize(sizes, **dict(zip(("every", "seed"), others)))


def test_it_is_a_value():
    size = t.RandomBatchSize(SIZES, every=2, seed=5)
    assert pickle.loads(pickle.dumps(size)) == copy.deepcopy(size) == eval(f"t.{size!r}") == size
    assert len({size, copy.copy(size), SIZE}) == 2 and size != SIZES
    assert repr(size) in repr(chain(size))
    with pytest.raises(IndexError, match="count from 0"):
        size.at(0, -1)


# ---------------------------------------------------------------- which batch has which size


@thinned(3, engine=ENGINES, workers=[0, 1, 3])
def test_each_batch_has_its_size(root, engine, workers):
    loader = load(pictures(root, transform=chain()), engine, shuffle=True, num_workers=workers)
    assert [shapes(loader) for _ in range(2)] == [expected(0), expected(1)]


@pytest.mark.parametrize("engine", ["native", "processes"])
def test_workers_that_stay_count_the_epochs(root, engine):
    options = {"num_workers": 2, "persistent_workers": True}
    loader = load(pictures(root, transform=chain()), engine, **options)
    assert [shapes(loader) for _ in range(3)] == [expected(0), expected(1), expected(2)]


@pytest.mark.parametrize("workers", [0, 2, "auto"])
def test_pixels_are_those_of_a_loader_with_that_size(root, workers):
    dataset = pictures(root, transform=chain())
    loader = load(dataset, shuffle=True, num_workers=workers)
    batches = [rows(batch) for batch in loader]
    assert shapes(batches) == expected(0)
    for number, (images, labels) in enumerate(batches):
        size = SIZE.at(0, number)
        fixed = pictures(root, transform=chain(size))
        for image, label in zip(images, labels):
            assert torch.equal(image, fixed.at(label, loader.seed, 0)[0])
            assert torch.equal(image, dataset.at(label, loader.seed, 0, size=size)[0])


@pytest.mark.parametrize("engine", ["native", "processes"])
def test_ranks_draw_the_same_whatever_their_seeds(root, engine):
    found = []
    for rank in range(2):
        torch.manual_seed(100 + rank)
        sampler = DistributedSampler(range(COUNT), 2, rank)
        loader = load(pictures(root, transform=chain()), engine, sampler=sampler, num_workers=rank)
        found.append([shapes(loader) for _ in range(2)])
    assert found[0] == found[1] == [expected(0, batches=3), expected(1, batches=3)]


def test_lists_of_any_length(root):
    lists = [[3], [1, 2, 0, 5, 20, 19, 18], [4, 4], [-1, 7, 8]]
    loader = millrace.DataLoader(pictures(root, transform=chain()), batch_sampler=lists, num_workers=2)
    assert [(len(batch[0]), *batch[0].shape[2:]) for batch in loader] == [
        (len(one), *size) for one, size in zip(lists, expected(0))
    ]


@thinned(2, engine=ENGINES[:3], at=range(BATCHES + 1))
def test_a_run_that_resumes_goes_on_with_its_sizes(root, engine, at):
    size = t.RandomBatchSize(SIZES, every=2, seed=1)
    workers = at % 3

    def make():
        return load(pictures(root, transform=chain(size)), engine, num_workers=workers)

    loader = make()
    shapes(loader)
    iterator = iter(loader)
    for _ in range(at):
        next(iterator)
    state = loader.state_dict()
    resumed = make()
    resumed.load_state_dict(state)
    if at < BATCHES:
        assert shapes(resumed) == expected(1, size)[at:]
    rest = shapes(resumed)
    assert rest == expected(2, size) or (at == BATCHES and not rest)


@pytest.mark.parametrize("engine", ["native", "row by row", "processes"])
def test_batches_are_replayed_in_their_size(root, engine):
    loader = load(pictures(root, transform=chain()), engine, num_workers=1, shuffle=True)
    shapes(loader)
    batches = list(loader)
    state = loader.state_dict()
    for step in (0, 2, BATCHES - 1):
        again = loader.replay(step)
        assert again[0].shape == batches[step][0].shape
        if engine == "native":
            assert torch.equal(again[0], batches[step][0])
            seen = loader.seen(step, draws=True)
            assert seen["size"] == SIZE.at(1, step) and len(seen["draws"]) == len(again[0])
    assert shapes([loader.replay(3, epoch=0)]) == expected(0)[3:4]
    assert state["millrace"]["number"] == 1


@pytest.mark.parametrize("engine", ["native", "processes"])
@pytest.mark.parametrize("workers", [0, 2])
def test_rows_that_fill_holes_are_made_in_the_size_of_their_batch(root, tmp_path, engine, workers):
    dataset = pictures(root, transform=chain())
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"no picture")
    dataset.samples = [
        (str(broken) if index in (2, 3, 9) else path, index) for path, index in dataset.samples
    ]
    loader = load(dataset, engine, num_workers=workers, on_error="skip")
    batches = [rows(batch) for batch in loader]
    assert shapes(batches) == expected(0, batches=5)
    assert sorted(sum((labels for _, labels in batches), [])) == sorted({*range(COUNT)} - {2, 3, 9})
    if engine == "native":
        for number, (images, labels) in enumerate(batches):
            for image, label in zip(images, labels):
                assert torch.equal(image, dataset.at(label, loader.seed, 0, size=SIZE.at(0, number))[0])


@pytest.mark.parametrize("policy", ["replace", "raise"])
def test_a_broken_file_is_replaced_or_raised(root, tmp_path, policy):
    dataset = pictures(root, transform=chain())
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"no picture")
    dataset.samples = [(str(broken) if index == 9 else path, index) for path, index in dataset.samples]
    iterator, found = iter(load(dataset, num_workers=2, on_error=policy)), []
    for number in range(BATCHES):
        if policy == "raise" and number == 2:
            with pytest.raises(OSError, match="broken"):
                next(iterator)
            found.append(expected(0)[2])
        else:
            found += shapes([next(iterator)])
    assert found == expected(0)


# ---------------------------------------------------------------- where a size stands

PAIRED = t.RandomBatchSize([20, 26, 31], seed=2), t.RandomBatchSize([16, 22, 27], seed=2)
CHAINS = {
    "resize and crop": lambda: [t.Resize(PAIRED[0]), t.CenterCrop(PAIRED[1])],
    "padded": lambda: [t.RandomCrop(PAIRED[1], padding=2, pad_if_needed=True)],
    "by chance": lambda: [t.RandomApply([t.Resize(PAIRED[0])], p=0.5), t.RandomCrop(PAIRED[1], 9)],
    "a choice": lambda: [t.RandomChoice([t.RandomResizedCrop(PAIRED[1]), t.CenterCrop(PAIRED[1])])],
    "after the tensor": lambda: [t.PILToTensor(), t.CenterCrop(PAIRED[1]), t.ToDtype(torch.float32, True)],
}


@pytest.mark.parametrize("name", CHAINS)
def test_sizes_that_are_drawn_together(root, name):
    transform = t.Compose(CHAINS[name]() + ([] if "tensor" in name else [t.ToTensor()]))
    for engine in ("native", "processes"):
        loader = load(pictures(root, transform=transform), engine)
        assert shapes(loader) == expected(0, PAIRED[1])


def test_sizes_that_are_drawn_apart_run_in_python(root):
    sizes = t.RandomBatchSize([24, 28]), t.RandomBatchSize([16, 20], seed=1)
    transform = t.Compose([t.RandomResizedCrop(sizes[0]), t.CenterCrop(sizes[1]), t.ToTensor()])
    loader = millrace.DataLoader(pictures(root, transform=transform), BATCH)
    assert "CenterCrop has a size per batch that is drawn apart" in loader.explain()
    assert shapes(loader) == expected(0, sizes[1])


def test_a_collate_function_knows_the_size(root):
    def resized(samples):
        size = shape(SIZE.current())
        images = torch.stack([image for image, _ in samples])
        return torch.nn.functional.interpolate(images, size), torch.tensor([label for _, label in samples])

    for options in ({}, {"num_workers": 2}, {"num_workers": 1, "worker_method": "thread", "native": "never"}):
        loader = millrace.DataLoader(pictures(root), BATCH, collate_fn=resized, **options)
        assert [shapes(loader) for _ in range(2)] == [expected(0), expected(1)], options
        assert shapes([loader.replay(2)]) == expected(1)[2:3]


def test_explain_names_the_sizes(root):
    text = millrace.DataLoader(pictures(root, transform=chain()), BATCH).explain()
    assert re.search(
        r"transform: native — RandomResizedCrop, .*each batch has a size of RandomBatchSize", text
    )


# ---------------------------------------------------------------- outside of a loader's batches


def test_a_dataset_alone_takes_the_first_size(root):
    dataset = pictures(root, transform=chain())
    assert dataset[0][0].shape == (3, 8, 8) and SIZE.current() == 8
    assert InPython(dataset)[0][0].shape == (3, 8, 8)
    assert shapes(torch.utils.data.DataLoader(dataset, BATCH)) == [[8, 8]] * BATCHES
    iterator = iter(load(dataset, "row by row"))
    next(iterator)
    assert dataset[0][0].shape == (3, 8, 8)


def test_at_and_draw_want_the_size(root):
    dataset = pictures(root, transform=chain())
    assert dataset.at(0, 1, 2, size=(12, 9))[0].shape == (3, 12, 9)
    fixed = pictures(root, transform=chain(23))
    assert dataset.draw(5, 1, 2, size=23) == fixed.draw(5, 1, 2)
    for size in (None, 9):
        with pytest.raises(ValueError, match=r"name the batch's, one of \[8, \(12, 9\), 16, 23\]"):
            dataset.at(0, 1, 2, size=size)
    with pytest.raises(ValueError, match="the transform has no RandomBatchSize"):
        fixed.draw(0, 1, 2, size=23)


def test_several_views_are_made_in_python(root):
    dataset = pictures(root, transform=t.MultiView([chain(), chain(10)]))
    loader = millrace.DataLoader(dataset, BATCH)
    assert "RandomResizedCrop has a size per batch, which is native where" in loader.explain()
    assert [list(batch[0][0].shape[2:]) for batch in loader] == expected(0)


class Stream(IterableDataset):
    def __iter__(self):
        yield from [torch.zeros(3, *shape(SIZE.current()))] * 2


def test_streams_refuse_it(tmp_path):
    with pytest.raises(millrace.UnavailableError, match="a size per batch is not known here: .*Iterable"):
        next(iter(millrace.DataLoader(Stream(), 2)))
    for workers in (1, 2):
        with pytest.raises(millrace.UnavailableError, match="not known here"):
            next(iter(millrace.DataLoader(Stream(), 2, num_workers=workers)))


def test_a_stream_of_shards_is_no_native_one(tmp_path):
    loader = millrace.DataLoader(stream(write_shards(tmp_path), chain()), 2)
    assert make_plan(loader).spec is None
    with pytest.raises(millrace.UnavailableError, match="not known here"):
        next(iter(loader))


def test_devices_and_actors_do_without(root):
    loader = millrace.DataLoader(pictures(root, transform=chain()), BATCH)
    spec = make_plan(loader).spec
    assert decoded_on_device(loader, spec) == (
        spec,
        "a size per batch (RandomBatchSize) is made on the CPU; give the transforms one size",
    )
    kind, reason = kind_of(loader, spec)
    assert kind is None and "RandomBatchSize" in reason


def test_batches_that_actors_make_in_python_refuse_it(root, monkeypatch):
    monkeypatch.setattr(batch_place, "_process", None)  # these are what an actor's process has
    monkeypatch.setattr(torch.utils.data._utils.worker, "_worker_info", None)
    threads = torch.get_num_threads()
    loader = load(pictures(root, transform=chain()), "processes", pictures="pillow")
    try:
        with pytest.raises(millrace.UnavailableError, match="does not know its number; leave remote= out"):
            PythonMaker(loader).make(Work((0, 0), [1, 2], None))
    finally:
        torch.set_num_threads(threads)


def test_parts_with_other_draws_are_no_native_dataset(root):
    parts = [pictures(root, transform=chain(t.RandomBatchSize(SIZES, seed=seed))) for seed in (3, 3, 4)]
    alike, apart = (torch.utils.data.ConcatDataset(some) for some in (parts[:2], parts[1:]))
    assert shapes(load(alike, batch_size=21)) == expected(0, batches=2)
    assert "ConcatDataset's parts have different transforms" in millrace.DataLoader(apart, 21).explain()


def test_the_engine_refuses_a_form_that_there_is_not(root):
    spec = make_plan(millrace.DataLoader(pictures(root, transform=chain()), BATCH)).spec
    core = spec.core(1, BATCH, "raise", False, "system")
    core.start_epoch(0, 0)
    with pytest.raises(ValueError, match="form 4 of a batch: its rows have 4"):
        core.submit_form([0, 1], 4)
    core.submit_form([0, 1], 3)
    assert core.next()[0].shape == (2, 3, 23, 23)
    core.close()
    with pytest.raises(IndexError, match="form 4 is out of range"):
        spec.dataset().row(0, 0, 0, form=4)
