"""Several views of a picture: batches, samples, states and refusals of transforms that make them."""

import gc
import pickle
import shutil
import weakref

import millrace
import pytest
import seen_classes as seen
import torch
from loader_data import make_folder, pictures
from millrace import transforms as t
from test_pixel_arrays import filled, random_bytes
from view_cases import VIEWS, InPython, chain, flat, structure

COUNT, BATCH = 13, 5  # the last batch is short
WORKERS = pytest.mark.parametrize("workers", [0, 2])
EACH = pytest.mark.parametrize("name", VIEWS)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("views")
    make_folder(root, COUNT)
    return str(root)


@pytest.fixture
def make(root):
    """make(name or transform): a dataset whose labels are its indices."""

    def make(transform, folder=root):
        return pictures(folder, transform=VIEWS[transform][0]() if isinstance(transform, str) else transform)

    return make


def load(dataset, **options):
    torch.manual_seed(11)
    return millrace.DataLoader(dataset, options.pop("batch_size", BATCH), native="require", **options)


def check_rows(batch, dataset, loader, epoch=0):
    """The rows of all views are those of `at()`."""
    views, labels = batch
    views = flat(views)
    assert all(len(view) == len(labels) for view in views)
    for row, label in enumerate(labels.tolist()):
        expected = flat(dataset.at(label, loader.seed, epoch)[0])
        assert len(expected) == len(views)
        assert all(torch.equal(view[row], one) for view, one in zip(views, expected))


def line(loader, stage):
    return next(line for line in loader.explain().splitlines() if line.startswith(stage + ":"))


# ---------------------------------------------------------------- batches


@WORKERS
@EACH
def test_batches_are_the_samples_arranged_as_torch_does(name, workers, make):
    dataset = make(name)
    loader = load(dataset, num_workers=workers, shuffle=workers == 2)
    batches = list(loader)
    assert sorted(label for _, labels in batches for label in labels.tolist()) == list(range(COUNT))
    assert [len(flat(views)) for views, _ in batches] == [VIEWS[name][1]] * 3
    for batch in batches:
        check_rows(batch, dataset, loader)
    theirs = list(torch.utils.data.DataLoader(InPython(dataset), BATCH))
    assert list(map(structure, batches)) == list(map(structure, theirs))
    assert loader.stats()["engine"] == ("threads" if workers else "inline")


@EACH
def test_no_tensor_of_a_batch_is_part_of_another(name, make):
    """Also where a view stands twice, as default_collate stacks it twice."""
    ((views, _),) = list(load(make(name), batch_size=COUNT))
    begins = [view.untyped_storage().data_ptr() + view.storage_offset() * 4 for view in flat(views)]
    assert len(set(begins)) == len(begins)
    first, *others = flat(views)
    before = [other.clone() for other in others]
    first.zero_()
    assert all(torch.equal(other, kept) for other, kept in zip(others, before))


@WORKERS
@EACH
def test_a_collate_fn_gets_samples_as_the_transform_returns_them(name, workers, make):
    dataset, seen_samples = make(name), []

    def keep(samples):
        seen_samples.extend(samples)
        return len(samples)

    loader = load(dataset, num_workers=workers, collate_fn=keep)
    assert list(loader) == [5, 5, 3]
    assert "keep gets samples" in line(loader, "collate_fn")
    for sample, theirs in zip(seen_samples, InPython(dataset)):
        expected, label = dataset.at(sample[1], loader.seed, 0)
        assert type(sample) is tuple and sample[1] == label
        assert structure(sample) == structure(theirs)
        assert all(torch.equal(*pair) for pair in zip(flat(sample[0]), flat(expected), strict=True))


def test_one_generator_gives_the_same_batches_for_any_number_of_workers(make):
    epochs = [[flat(views) for views, _ in load(make("dino"), num_workers=workers)] for workers in (0, 1, 3)]
    for other in epochs[1:]:
        for one, same in zip(epochs[0], other, strict=True):
            assert all(map(torch.equal, one, same))


@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set")
def test_pinned_memory_is_asked_for(make):
    dataset = make("nested")
    loader = load(dataset, num_workers=2, pin_memory=True)
    for batch in loader:
        check_rows(batch, dataset, loader)
        assert all(view.is_pinned() == torch.cuda.is_available() for view in flat(batch[0]))


def test_torchvisions_folders(root, torchvision):
    dataset = torchvision.datasets.ImageFolder(root, VIEWS["moco"][0]())
    loader, ours = load(dataset, num_workers=2), pictures(root, transform=dataset.transform)
    done = 0
    for views, labels in loader:
        for row in range(len(labels)):
            expected = flat(ours.at(done, loader.seed, 0)[0])
            assert all(torch.equal(view[row], one) for view, one in zip(views, expected, strict=True))
            done += 1
    assert done == COUNT


def test_grey_pictures_in_memory():
    dataset = filled("mnist", "FashionMNIST", torch.tensor(random_bytes(9, 28, 28)), targets=torch.arange(9))
    dataset.transform = seen.TwoCrops(t.Compose([t.RandomResizedCrop(12), t.ToTensor()]))
    ((one, other), labels) = next(iter(load(dataset, batch_size=9, num_workers=2)))
    assert one.shape == other.shape == (9, 1, 12, 12) and labels.tolist() == list(range(9))
    assert not torch.equal(one, other)
    dataset.transform = seen.TwoCrops(t.Compose([t.CenterCrop(9), seen.MocoBlur(None), t.ToTensor()]))
    assert next(iter(load(dataset)))[0][0].shape == (5, 1, 9, 9)


def test_two_datasets_behind_each_other(make):
    one = make("dino")
    both = torch.utils.data.ConcatDataset([one, make(one.transform)])
    labels = []
    loader = load(both, num_workers=2)
    for views, numbers in loader:
        labels += numbers.tolist()
        assert [len(view) for view in flat(views)] == [len(numbers)] * 5
    assert labels == [*range(COUNT), *range(COUNT)]
    assert "native" in line(load(torch.utils.data.ConcatDataset([one, make("dino")])), "transform")
    other = torch.utils.data.ConcatDataset([one, make(t.MultiView((chain(16), chain(8))))])
    told = line(millrace.DataLoader(other, BATCH), "transform")
    assert "ConcatDataset's parts have different transforms" in told
    arranged = [make(t.MultiView(cls([chain(16), chain(8)]))) for cls in (tuple, list)]
    with pytest.raises(millrace.UnavailableError, match="different transforms"):
        iter(load(torch.utils.data.ConcatDataset(arranged)))


# ---------------------------------------------------------------- damage, states


@WORKERS
@pytest.mark.parametrize("damaged", [[2], [12], [0, 11, 12]], ids=str)
def test_damaged_pictures_are_left_out_of_all_views(damaged, workers, make, root, tmp_path):
    folder = tmp_path / "some damaged"
    shutil.copytree(root, folder)
    dataset = make("dinov2", folder)
    for index in damaged:
        with open(dataset.samples[index][0], "wb") as file:
            file.write(b"no picture")
    loader = load(dataset, num_workers=workers, on_error="skip")
    batches = list(loader)
    labels = [label for _, numbers in batches for label in numbers.tolist()]
    assert sorted(labels) == [index for index in range(COUNT) if index not in damaged]
    for batch in batches:
        check_rows(batch, dataset, loader)
    with pytest.raises(millrace.CorruptDataError):
        list(load(dataset, num_workers=workers))


@WORKERS
@pytest.mark.parametrize("name", ["dino", "nested"])
def test_a_run_goes_on_in_the_middle_of_an_epoch(name, workers, make):
    options = dict(num_workers=workers, shuffle=True)
    whole = [list(load(make(name), **options)) for _ in range(1)][0]
    loader = load(make(name), **options)
    iterator = iter(loader)
    next(iterator)
    state = pickle.loads(pickle.dumps(loader.state_dict()))
    later = millrace.DataLoader(make(name), BATCH, native="require", **options)
    later.load_state_dict(state)
    rest = list(later)
    assert len(rest) == 2
    for (views, labels), (expected, numbers) in zip(rest, whole[1:], strict=True):
        assert torch.equal(labels, numbers)
        assert all(map(torch.equal, flat(views), flat(expected)))


# ---------------------------------------------------------------- samples


@EACH
def test_single_samples(name, make):
    dataset = make(name)
    torch.manual_seed(5)
    seed = int(torch.empty((), dtype=torch.int64).random_())
    torch.manual_seed(5)
    sample, label = dataset[3]
    expected, _ = dataset.at(3, seed, 0)
    assert label == 3 and structure(sample) == structure(expected) == structure(InPython(dataset)[3][0])
    assert all(map(torch.equal, flat(sample), flat(expected)))
    different = VIEWS[name][1] - (2 if name == "dinov2" else 0)  # two views stand there twice
    drawn = dataset.draw(3, seed, 0)
    drawn = [drawn] if different == 1 else drawn
    assert len(drawn) == different and all(type(view) is list and view for view in drawn)
    copy = pickle.loads(pickle.dumps(dataset))
    assert all(map(torch.equal, flat(copy.at(3, seed, 0)[0]), flat(expected)))
    assert copy.draw(3, seed, 0) == dataset.draw(3, seed, 0)


def test_multi_view_alone():
    views = t.MultiView({"a": (len, [max]), "b": min})
    assert views([3, 1]) == {"a": (2, [3]), "b": 1}
    assert repr(t.MultiView([len])) == "MultiView([<built-in function len>])"
    for nothing in ([], {}, [[], {}]):
        with pytest.raises(ValueError, match="one transform or more"):
            t.MultiView(nothing)
    for odd in (len, "abc", 3, None):
        with pytest.raises(TypeError, match="views must be a list, tuple or dict of transforms"):
            t.MultiView(odd)
    with pytest.raises(TypeError, match="3 is no transform"):
        t.MultiView([len, 3])


def test_views_of_other_dtypes_are_an_error_that_names_them():
    bytes_, halves = t.Compose([t.CenterCrop(9), t.ToImage()]), t.ToDtype(torch.float16, scale=True)
    message = (
        r"^views\['a'\]\[0\] makes float32, and views\['b'\] uint8; views of one picture have one dtype: end "
        r"them alike, with ToTensor\(\)"
    )
    with pytest.raises(ValueError, match=message):
        t.MultiView({"a": [chain(9), len], "b": bytes_})
    with pytest.raises(ValueError, match=r"views\[0\] makes uint8, and views\[2\] float16"):
        t.MultiView([bytes_, bytes_, t.Compose([bytes_, halves])])
    t.MultiView([bytes_, lambda picture: picture, bytes_])  # what is not known is what it may be


# ---------------------------------------------------------------- what is said


def test_explain_names_the_views(make):
    told = line(load(make("lightly")), "transform")
    inner = "RandomResizedCrop, RandomHorizontalFlip, ToTensor, Normalize"
    assert told == f"transform: native — Each: 2 views ({inner})"
    assert "Solarize(solarize by chance)" in line(load(make("dino")), "transform")


class Nothing:
    def __call__(self, picture):
        return picture


REFUSED = {
    "a random beginning": (
        lambda: seen.Prepared(t.RandomResizedCrop(16), t.ToTensor()),
        "Prepared changes the picture by chance before it makes several views of it",
    ),
    "a picture erased, then two views": (
        lambda: seen.Prepared(t.Compose([t.Resize((9, 9)), t.ToTensor(), t.RandomErasing()]), Nothing()),
        "Prepared changes the picture by chance before it makes several views of it",
    ),
    "several dtypes": (
        lambda: seen.Pair(chain(9), t.Compose([t.CenterCrop(9), t.ToImage()])),
        r"Pair makes views of several dtypes \(float32, uint8\); make them one",
    ),
    "any size": (
        lambda: t.MultiView([chain(8), t.ToTensor()]),
        "one of several views has the size of its picture",
    ),
    "pictures": (lambda: t.MultiView([chain(8), t.CenterCrop(8)]), "end with ToTensor"),
    "inside of a Compose": (
        lambda: t.Compose([seen.TwoCrops(chain(8))]),
        "makes several views; give it as the whole transform",
    ),
    "not understood": (lambda: seen.Overrides(chain(8)), "Overrides .* has no native form"),
    "itself": (lambda: _of_itself(), "has no native form"),
}  # fmt: skip


def _of_itself():
    views = t.MultiView([chain(8)])
    views.views = [views]
    return views


@pytest.mark.parametrize("why", REFUSED)
def test_refusals(why, make):
    transform, reason = REFUSED[why]
    dataset = make(transform())
    with pytest.raises(millrace.UnavailableError, match=reason):
        iter(load(dataset))
    with pytest.raises(millrace.UnavailableError, match=reason):
        dataset.at(0, 1, 0)


def test_a_transform_that_is_not_read_is_called(make):
    transform = seen.Overrides(chain(8))
    ((views, labels),) = list(millrace.DataLoader(make(transform), COUNT))
    assert transform.count == COUNT and [view.shape for view in views] == [(COUNT, 3, 8, 8)] * 2
    assert labels.tolist() == list(range(COUNT))


def test_streams_make_views_as_folders_do(replay_shards):
    shards = sorted(str(path) for path in replay_shards.glob("*.tar"))
    dataset = millrace.datasets.WebDataset(shards).decode("pil").to_tuple("jpg;png;webp", "cls")
    dataset = dataset.map_tuple(VIEWS["moco"][0](), None)
    (first, second), _ = next(iter(millrace.DataLoader(dataset, 4, native="require")))
    assert first.shape == second.shape and not torch.equal(first, second)


def test_a_batch_goes_when_it_is_dropped(root):
    """Its slot is leased again at once, and not when the collector next runs."""
    views = t.MultiView({"large": [chain(16)], "small": (chain(8), chain(8))})
    loader = millrace.DataLoader(millrace.datasets.ImageFolder(root, views), 2, native="require")
    gc.disable()
    try:
        for pictures_, _ in loader:
            gone = weakref.ref(pictures_["large"][0])
            del pictures_
            assert gone() is None
    finally:
        gc.enable()
