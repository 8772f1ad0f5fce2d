"""Hugging Face Arrow datasets: what is gathered natively is what torch's DataLoader makes."""

import gc

import millrace
import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, StackDataset, Subset

datasets = pytest.importorskip("datasets")
datasets.disable_progress_bars()

COUNT = 23
INTS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")


def numbers(count=COUNT, first=0):
    """One column of each kind that is recognised; `first` is the number in the first row."""
    value, array, lists = datasets.Value, np.arange(first, first + count), datasets.List
    features = {name: value(name) for name in (*INTS, *FLOATS, "bool")}
    data = {name: (array * 5).astype(name) for name in INTS} | {
        name: (array / 3).astype(name) for name in FLOATS
    }
    features |= {
        "label": datasets.ClassLabel(num_classes=100),
        "tokens": lists(value("int32"), length=4),
        "padded": lists(value("int32")),
        "large": datasets.LargeList(value("int64")),
        "one": lists(value("float64"), length=1),
        "nested": lists(lists(value("float32"), length=2), length=3),
        "pairs": lists(lists(value("uint8"))),
        "picture": datasets.Array2D((2, 3), "uint8"),
        "volume": datasets.Array3D((2, 1, 3), "float64"),
    }
    data |= {
        "bool": array % 3 == 0,
        "label": array % 100,
        "tokens": [[i, 2, 3, -i] for i in array.tolist()],
        "padded": [[i, 7, i * i] for i in array.tolist()],
        "large": [[i, 7] for i in array.tolist()],
        "pairs": [[[i % 200, 1], [2, 3]] for i in array.tolist()],
        "one": [[i / 7] for i in array.tolist()],
        "nested": [[[i, 1], [2, 3], [4, 5 + i]] for i in array.tolist()],
        "picture": [np.full((2, 3), i, np.uint8) for i in array],
        "volume": [np.full((2, 1, 3), i / 3) for i in array],
    }
    return datasets.Dataset.from_dict(data, features=datasets.Features(features))


def from_disk(dataset, folder):
    dataset.save_to_disk(folder, num_shards=3)
    return datasets.load_from_disk(folder)


VIEWS = {
    "whole": lambda dataset, folder: dataset,
    "select": lambda dataset, folder: dataset.select([7, 3, 3, 22, 0, 9]),
    "range": lambda dataset, folder: dataset.select(range(3, 17)),
    "shuffle": lambda dataset, folder: dataset.shuffle(seed=3),
    "shuffle of a range": lambda dataset, folder: (
        dataset.select(range(3, 17)).shuffle(seed=3).select([5, 1, 2])
    ),
    "concatenated": lambda dataset, folder: datasets.concatenate_datasets(
        [dataset, numbers(4, 50), dataset.select(range(5, 8))]
    ),
    "concatenated and shuffled": (
        lambda dataset, folder: datasets.concatenate_datasets(
            [dataset.shuffle(seed=1), numbers(4, 50)]
        ).shuffle(seed=2)
    ),
    "mapped files": from_disk,
    "mapped files, shuffled": lambda dataset, folder: from_disk(dataset, folder).shuffle(seed=5),
}


def equal(ours, theirs):
    assert type(ours) is type(theirs) and len(ours) == len(theirs)
    for mine, other in zip(ours, theirs):
        assert type(mine) is type(other) and list(mine) == list(other)
        for key in mine:
            a, b = mine[key], other[key]
            assert (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride()), key
            assert torch.equal(a, b), key


def both(dataset, **arguments):
    arguments = {"batch_size": 4, **arguments}
    epochs = []
    for loader_class, more in ((millrace.DataLoader, {"native": "require"}), (DataLoader, {})):
        torch.manual_seed(7)
        epochs.append(list(loader_class(dataset, **arguments, **more)))
    equal(*epochs)
    return epochs[0]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("kind", ["torch", "numpy"])
def test_batches_are_torchs(kind, view, tmp_path):
    dataset = VIEWS[view](numbers(), str(tmp_path / "saved")).with_format(kind)
    both(dataset)
    both(dataset, shuffle=True, drop_last=True)
    both(dataset, num_workers=2)


@pytest.mark.parametrize("workers", [0, 2])
def test_with_threads_and_wide_rows(workers):
    wide = {"x": np.random.default_rng(0).random((40, 30_000), np.float32), "y": np.arange(40)}
    features = datasets.Features(
        {"x": datasets.List(datasets.Value("float32"), length=30_000), "y": datasets.Value("int16")}
    )
    dataset = datasets.Dataset.from_dict(wide, features=features).with_format("torch").shuffle(seed=1)
    batches = both(dataset, num_workers=workers, shuffle=True)
    assert batches[0]["x"].dtype is torch.float32 and batches[0]["y"].dtype is torch.int64


@pytest.mark.parametrize("kind", ["torch", "numpy"])
def test_chosen_columns_come_in_torchs_order(kind):
    dataset = numbers()
    dataset.set_format(kind, columns=["volume", "int8", "bool"])
    both(dataset)
    text = numbers().add_column("text", ["a"] * COUNT)
    both(text.with_format(kind, columns=["float64", "tokens"]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_a_dtype_of_the_format_counts(dtype):
    both(numbers().with_format("torch", columns=["int32", "float32", "picture", "bool"], dtype=dtype))
    both(numbers().with_format("torch", columns=["int64", "uint8"], dtype=torch.int32))


def test_inside_torchs_datasets():
    dataset = numbers().with_format("torch")
    both(Subset(dataset, [4, -1, 0, 9, 9]))
    both(Subset(dataset.shuffle(seed=1), [4, 0, 9, 9]))
    both(Subset(dataset, [4, -1, 0, 9, 9]), shuffle=True)
    both(ConcatDataset([dataset, Subset(dataset.shuffle(seed=2), [5, 3]), dataset.select([3, 2])]))
    both(ConcatDataset([numbers().with_format("numpy", columns=["int64", "tokens"])] * 2))
    stack = StackDataset(a=dataset.with_format("numpy"), b=torch.arange(COUNT))
    ours, theirs = (
        next(iter(cls(stack, batch_size=5, shuffle=False))) for cls in (millrace.DataLoader, DataLoader)
    )
    equal([ours["a"]], [theirs["a"]])
    assert torch.equal(ours["b"], theirs["b"])
    assert millrace.DataLoader(stack, batch_size=5).stats()["engine"] == "inline"


def test_samples_asked_for_alone_stay_in_python():
    """numpy's formatter gives numbers of a list of samples as int64, but of one sample as they are stored."""
    concatenated = ConcatDataset([numbers().with_format("numpy", columns=["int8"])] * 2)
    assert "concatenate_datasets" in millrace.DataLoader(concatenated, batch_size=4).explain()
    batches = [
        next(iter(cls(concatenated, batch_size=4)))["int8"] for cls in (millrace.DataLoader, DataLoader)
    ]
    assert batches[0].dtype is batches[1].dtype is torch.int8


@pytest.mark.parametrize("index", [COUNT, -1, -COUNT - 1, "label", 1.5])
@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("workers", [0, 2])
def test_odd_indices_end_as_with_torch(index, shuffled, workers):
    dataset = numbers().with_format("torch", columns=["int8", "float16"])
    dataset = dataset.shuffle(seed=1) if shuffled else dataset
    ends = []
    for loader_class in (millrace.DataLoader, DataLoader):
        used = workers if loader_class is millrace.DataLoader else 0  # torch's workers would wrap the error
        iterator = iter(loader_class(dataset, batch_sampler=[[0, 1], [2, index], [3]], num_workers=used))
        end = []
        for _ in range(3):
            try:
                end.append({key: value.tolist() for key, value in next(iterator).items()})
            except Exception as error:
                end.append((type(error), str(error)))
        ends.append(end)
    assert ends[0] == ends[1]


def test_memory_of_the_dataset_outlives_it():
    iterator = iter(
        millrace.DataLoader(
            numbers().with_format("torch", columns=["tokens"]), batch_size=4, native="require"
        )
    )
    first = next(iterator)["tokens"]
    del iterator._dataset
    gc.collect()
    assert first[:, 0].tolist() == [0, 1, 2, 3]
    assert next(iterator)["tokens"][:, 0].tolist() == [4, 5, 6, 7]


def test_rows_are_read_where_they_lie(tmp_path):
    import pyarrow

    dataset = from_disk(numbers(), str(tmp_path / "saved")).with_format("torch")
    before = pyarrow.total_allocated_bytes()
    iterator = iter(millrace.DataLoader(dataset, batch_size=4, native="require"))
    next(iterator)
    assert pyarrow.total_allocated_bytes() - before < 4096


def odd(column, feature, values=None):
    values = [None] * 3 if values is None else values
    return datasets.Dataset.from_dict(
        {column: values}, features=datasets.Features({column: feature})
    ).with_format("torch")


REFUSED = {
    "no format": (lambda: numbers(), "with_format('torch')"),
    "another format": (lambda: numbers().with_format("arrow"), "with_format('torch')"),
    "transform": (lambda: numbers().with_transform(lambda batch: batch), "transform the finished batch"),
    "device": (lambda: numbers().with_format("torch", device="cpu"), "device"),
    "unformatted columns": (
        lambda: numbers().with_format("torch", columns=["int8"], output_all_columns=True),
        "select_columns",
    ),
    "text": (
        lambda: odd("title", datasets.Value("string"), ["a", "b", "c"]),
        "column 'title' is of Arrow type string",
    ),
    "lists of different lengths": (
        lambda: odd("tokens", datasets.List(datasets.Value("int32")), [[1], [2, 5], [3]]),
        "column 'tokens' has lists of different lengths; pad them to one length",
    ),
    "inner lists of different lengths": (
        lambda: odd(
            "boxes", datasets.List(datasets.List(datasets.Value("int32"))), [[[1], [2, 5]], [[1, 2], [3]]]
        ),
        "column 'boxes' has lists of different lengths",
    ),
    "lists of text": (
        lambda: odd("words", datasets.List(datasets.Value("string")), [["a"], ["b"]]),
        "column 'words' is of Arrow",
    ),
    "nulls": (
        lambda: odd("weight", datasets.Value("float32"), [1.0, None, 2.0]),
        "column 'weight' has nulls",
    ),
    "null lists": (
        lambda: odd("box", datasets.List(datasets.Value("float32"), length=2), [[1, 2], None, [3, 4]]),
        "has nulls",
    ),
    "nulls in lists": (
        lambda: odd("box", datasets.List(datasets.Value("float32"), length=2), [[1, 2], [None, 1]]),
        "has nulls",
    ),
    "lists of bools": (
        lambda: odd("mask", datasets.List(datasets.Value("bool"), length=2), [[True, False]]),
        "cast it to uint8",
    ),
    "images": (lambda: odd("image", datasets.Image()), "column 'image'"),
    "open shape": (
        lambda: odd("x", datasets.Array2D((None, 2), "float32"), [[[1, 2]], [[3, 4]]]),
        "column 'x'",
    ),
    "empty": (lambda: numbers().select([]).with_format("torch"), "no rows"),
    "floats made ints": (lambda: numbers().with_format("torch", dtype=torch.int64), "from float16 to int64"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_stays_in_python_says_why(case):
    make, words = REFUSED[case]
    loader = millrace.DataLoader(make(), batch_size=2)
    assert words in loader.explain()
    with pytest.raises(millrace.UnavailableError):
        iter(millrace.DataLoader(make(), batch_size=2, native="require"))


def test_refused_datasets_still_run():
    dataset = odd("weight", datasets.Value("float32"), [1.0, None, 2.0])
    ours, theirs = (list(cls(dataset, batch_size=2)) for cls in (millrace.DataLoader, DataLoader))
    assert str(ours) == str(theirs)
    masks = odd("mask", datasets.List(datasets.Value("bool"), length=2), [[True, False], [False, False]])
    equal(*(list(cls(masks, batch_size=2)) for cls in (millrace.DataLoader, DataLoader)))


def test_a_replaced_method_runs(monkeypatch):
    dataset = numbers().with_format("torch", columns=["int8"])
    monkeypatch.setattr(
        datasets.Dataset, "__getitems__", lambda self, keys: [{"int8": torch.tensor(5)} for _ in keys]
    )
    loader = millrace.DataLoader(dataset, batch_size=2)
    assert "__getitems__ was replaced" in loader.explain()
    assert next(iter(loader))["int8"].tolist() == [5, 5]


def test_importing_millrace_imports_neither_library():
    import subprocess
    import sys

    code = (
        "import sys, torch, millrace; list(millrace.DataLoader(torch.arange(4))); print({'datasets',"
        " 'pyarrow'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
