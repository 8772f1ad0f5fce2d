"""Streams with a step or a stage that the engine does not know: the known steps of their pictures are native
where samples are made, and all else is Python. Samples are those of Python; what is drawn depends on the
sample alone.
"""

import random

import millrace.transforms as T
import numpy as np
import pytest
import torch
from loader_data import advanced, generator_states, going_on
from millrace import DataLoader
from millrace._loader.engines import stream_prefix
from millrace.datasets import WebDataset
from millrace.datasets.webdataset import ignore_and_continue, warn_and_stop
from millrace.errors import UnavailableError
from PIL import Image
from prefix_cases import Doubled, Notes, Raises, Shaken, Solarised, stages
from stream_cases import COUNT, FIXED, RANDOM, assert_same, folder, images, stream, write_shards  # noqa: F401

KNOWN = [T.Resize((12, 16)), T.CenterCrop((10, 12))]
PICTURES = "jpg;png;webp"


def shards(folder, **options):
    return WebDataset(f"{folder}/s-{{0..3}}.tar", **options)


def named(folder, transform=FIXED):
    """Samples that are dicts."""
    decoded = shards(folder).decode("pil").rename(image=PICTURES)
    return decoded.map_dict(image=transform)


def halved(sample):
    return sample[0] / 2, sample[1]


def as_lists(samples):
    return list(samples), len(samples)


def as_tensor(picture):
    return torch.from_numpy(np.array(picture))


def loader_of(dataset, workers=0, **options):
    torch.manual_seed(4)
    return DataLoader(dataset, **{"batch_size": 4, **options}, num_workers=workers)


def batches(*arguments, **options):
    return list(loader_of(*arguments, **options))


CASES = {  # name: (folder -> dataset, options of the loader, the native steps, the stages that are not)
    "a step in the middle": (
        lambda f: stream(f, T.Compose([*KNOWN, Solarised(), T.ToTensor()])),
        {},
        "Resize, CenterCrop",
        {"transform"},
    ),
    "a step at the end": (
        lambda f: stream(f, T.Compose([*KNOWN, T.ToTensor(), Doubled()])),
        {},
        "Resize, CenterCrop, ToTensor",
        {"transform"},
    ),
    "a picture for a function": (
        lambda f: stream(f, T.Compose(KNOWN)).map_tuple(as_tensor),
        {},
        "Resize, CenterCrop",
        {"dataset"},
    ),
    "a stage behind": (lambda f: stream(f).map(halved), {}, "Resize, ToTensor", {"dataset"}),
    "dicts": (lambda f: named(f).map(dict), {}, "Resize, ToTensor", {"dataset"}),
    "a shuffle in front": (
        lambda f: images(shards(f).shuffle(5)).map(halved),
        {},
        "Resize, ToTensor",
        {"dataset"},
    ),
    "a shuffle of pictures": (
        lambda f: shards(f).decode("pil").shuffle(5).to_tuple(PICTURES, "cls").map_tuple(FIXED).map(halved),
        {},
        "Resize, ToTensor",
        {"dataset"},
    ),
    "a picture beside": (
        lambda f: (
            shards(f).decode("pil").to_tuple(PICTURES, PICTURES).map_tuple(FIXED).map_tuple(None, as_tensor)
        ),
        {"batch_size": 1},
        "Resize, ToTensor",
        {"dataset"},
    ),
    "a collate_fn": (stream, {"collate_fn": as_lists}, "Resize, ToTensor", {"collate_fn"}),
    "batched": (
        lambda f: stream(f).batched(4, collation_fn=as_lists),
        {"batch_size": None},
        "Resize, ToTensor",
        {"dataset"},
    ),
    "single samples": (stream, {"batch_size": None}, "Resize, ToTensor", {"dataset"}),
    "an epoch of some": (lambda f: stream(f).map(halved).with_epoch(30), {}, "Resize, ToTensor", {"dataset"}),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("workers", [0, 2])
def test_samples_are_those_of_python(folder, name, workers):
    make, options, native, python = CASES[name]
    found = stages(make(folder), **{"batch_size": 4, **options})
    assert [reason for stage, how, reason in found if (stage, how) == ("transform", "native")] == [native]
    assert {stage for stage, how, reason in found if how == "python" and "ready for" not in reason} == python
    ours = batches(make(folder), workers, **options)
    theirs = batches(make(folder), workers, native="never", **options)
    assert ours
    assert_same(ours, theirs)


@pytest.mark.parametrize("method", ["thread", "process"])
def test_what_is_drawn_depends_on_the_sample_alone(folder, method):
    """Threads share generators with the training loop: only the engine's draws are the sample's."""
    steps = [T.RandomResizedCrop(12), T.RandomHorizontalFlip(), *([] if method == "thread" else [Shaken()])]
    dataset = stream(folder, T.Compose([*steps, T.PILToTensor(), Doubled()]))

    def samples(workers):
        made = batches(dataset, workers, **({"worker_method": method} if workers else {}))
        return {int(label): picture for batch in made for picture, label in zip(*batch)}

    one = samples(1)
    assert len(one) == COUNT and len({picture.numpy().tobytes() for picture in one.values()}) == COUNT
    for workers in (0, 3) if method == "process" else (3,):
        assert all(torch.equal(one[label], picture) for label, picture in samples(workers).items())


def noise(label):
    return random.random() + float(np.random.rand()) + float(torch.rand(()))


LABELS = {  # where a function of the label stands, which draws
    "in the same call": lambda d, change: d.to_tuple("cls", PICTURES).map_tuple(noise, change),
    "in a call before": lambda d, change: (
        d.to_tuple(PICTURES, "cls").map_tuple(None, noise).map_tuple(change)
    ),
    "behind": lambda d, change: d.to_tuple(PICTURES, "cls").map_tuple(change).map_tuple(None, noise),
}


@pytest.mark.parametrize("place", LABELS)
def test_what_functions_beside_the_pictures_draw_depends_on_the_sample_alone(folder, place):
    change = T.Compose([T.RandomResizedCrop(12), Shaken(), T.ToTensor()])
    found = []
    for workers in (0, 1, 3):
        dataset = LABELS[place](shards(folder).decode("pil"), change)
        rows = batches(dataset, workers, batch_size=1)
        found.append({tuple(float(part.double().sum()) for part in row) for row in rows})
    assert len(found[0]) == COUNT and found[0] == found[1] == found[2]


def test_epochs_differ_and_the_training_loops_draws_are_its_own(folder):
    dataset = stream(folder, T.Compose([T.RandomResizedCrop(12), Shaken(), T.PILToTensor()]))
    batches(stream(folder), native="require")  # draws a base seed, and nothing else
    expected = generator_states()
    loader = loader_of(dataset)
    first = list(loader)
    assert generator_states() == expected
    assert_same(first, batches(dataset))
    assert not all(torch.equal(one[0], other[0]) for one, other in zip(first, list(loader)))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("ours_first", [True, False])
def test_states_fit_the_stream_that_is_all_python(folder, workers, ours_first):
    dataset = lambda: stream(folder, shardshuffle=True).shuffle(4).map(halved)  # noqa: E731
    kinds = [{}, {"native": "never"}]
    one, other = kinds if ours_first else kinds[::-1]
    loader = loader_of(dataset(), workers, **one)
    given = []
    for batch in loader:
        given.append(batch)
        if len(given) == 2:
            state = loader.state_dict()
    again = going_on(loader_of(dataset(), workers, **other), state)
    assert_same(list(again), given[2:])


def test_a_resumed_stream_draws_what_it_would_have(folder):
    dataset = lambda: stream(folder, RANDOM).map(halved)  # noqa: E731
    loader = loader_of(dataset(), 2)
    iterator = advanced(loader, 1)
    state = loader.state_dict()
    rest = list(iterator)
    again = going_on(loader_of(dataset(), 2), state)
    assert_same(list(again), rest)


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    return write_shards(tmp_path_factory.mktemp("damaged"), damaged=(3, 9))


@pytest.mark.parametrize("handler", [ignore_and_continue, warn_and_stop])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_decodes_handler_has_the_pictures_that_cannot_be_decoded(damaged, handler):
    """And the function's handler what the function raises."""
    decoded = shards(damaged).decode("pil", handler=handler)
    dataset = decoded.to_tuple(PICTURES, "cls").map_tuple(FIXED).map(halved)
    ours, theirs = batches(dataset, batch_size=1), batches(dataset, batch_size=1, native="never")
    assert len(ours) == (COUNT - 2 if handler is ignore_and_continue else len(theirs))
    assert_same(ours, theirs)
    for mapping in (FIXED, T.Compose([*KNOWN, Raises()])):
        left = decoded.to_tuple(PICTURES, "cls").map_tuple(mapping, handler=ignore_and_continue).map(halved)
        assert_same(batches(left, batch_size=1), batches(left, batch_size=1, native="never"))


def test_a_predicate_that_looks_at_a_damaged_picture_is_decodes_affair(damaged):
    decoded = shards(damaged).decode("pil", handler=ignore_and_continue).rename(image=PICTURES)
    dataset = decoded.select(lambda sample: sample["image"].width > 0).to_tuple("image", "cls")
    for behind in (dataset.map_tuple(FIXED), dataset.map_tuple(FIXED).map(halved)):
        ours = [int(label) for batch in batches(behind) for label in batch[1]]
        assert sorted(ours) == sorted(set(range(COUNT)) - {3, 9})


def test_a_step_of_pillow_does_not_read_the_file_again(folder, monkeypatch):
    """Pillow 13 copies the info of each picture that it makes another of."""
    read, seen = [], []
    monkeypatch.setattr(stream_prefix, "info_of", lambda image: read.append(image) or {"a": 1})

    def turned(picture):
        made = picture.transpose(Image.Transpose.ROTATE_90).transpose(Image.Transpose.ROTATE_180)
        if not seen:
            seen.append(made.info["a"])
        return made

    batches(stream(folder, T.Compose([*KNOWN, turned, T.ToTensor()])))
    assert seen == [1] and len(read) == 1


def test_errors_are_pythons(damaged):
    texts = []
    for native in ("auto", "never"):
        with pytest.raises(Exception) as caught:
            batches(stream(damaged).map(halved), native=native)
        texts.append((type(caught.value), str(caught.value).partition(" at 0x")[0]))
    assert texts[0] == texts[1]


def test_a_step_sees_what_it_would_have_seen(folder):
    for steps in ([*KNOWN, Notes()], [*KNOWN, T.ToTensor(), Notes()]):
        dataset = stream(folder, T.Compose(steps))
        assert_same(batches(dataset), batches(dataset, native="never"))
    infos = [[], []]
    for kind, native in enumerate(("auto", "never")):
        look = lambda picture, kind=kind: infos[kind].append(sorted(picture.info)) or 0  # noqa: E731
        batches(stream(folder, T.Compose([*KNOWN, look])), native=native)
    assert infos[0] == infos[1] and any(infos[0])


def test_persistent_workers_draw_anew(folder):
    dataset = stream(folder, RANDOM).map(halved)
    loader = loader_of(dataset, 1, persistent_workers=True)
    first, second = list(loader), list(loader)
    assert not all(torch.equal(one[0], other[0]) for one, other in zip(first, second))


def test_several_views_are_blocks_of_the_batch(folder):
    views = T.MultiView([RANDOM, FIXED])
    blocks = batches(stream(folder, views), native="require")[0][0]
    assert [block.shape for block in blocks] == [(4, 3, 12, 12), (4, 3, 12, 16)]
    fixed = T.MultiView([FIXED, T.Compose([*KNOWN, T.ToTensor()])])
    assert_same(
        batches(stream(folder, fixed), native="require"), batches(stream(folder, fixed), native="never")
    )
    by_torch = stream(folder, fixed).batched(4, collation_fn=torch.utils.data.default_collate)
    ours = batches(by_torch, batch_size=None, native="require")
    assert_same(ours, batches(by_torch, batch_size=None, native="never"))
    with pytest.raises(UnavailableError, match="lists of samples that are several views"):
        batches(stream(folder, fixed).batched(4), batch_size=None, native="require")
