"""Hugging Face's datasets with a column of pictures and a transform: read natively, in batches that are
torch's where nothing is drawn; and left to Python where the function may do anything else.
"""

import io
import itertools
import pickle

import hugging_face_functions as functions
import millrace
import numpy as np
import pytest
import torch
from lazy_cases import written
from picture_files import COUNT, MEAN, STD, TRAINING, jpeg
from PIL import Image
from torch.utils.data import ConcatDataset, DataLoader, Subset
from torchvision import transforms as T

datasets = pytest.importorskip("datasets")
datasets.disable_progress_bars()

PLAIN = T.Compose([T.Resize(40), T.CenterCrop(32), T.ToTensor(), T.Normalize(MEAN, STD)])


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    monkeypatch.setattr(functions, "PLAIN", PLAIN)
    monkeypatch.setattr(functions, "TRAINING", True)


def features():
    label, text = datasets.ClassLabel(names=["a", "b", "c"]), datasets.Value("string")
    return datasets.Features({"image": datasets.Image(), "label": label, "text": text})


def table(images):
    count = len(images)
    columns = {"label": [i % 3 for i in range(count)], "text": [f"text {i}" for i in range(count)]}
    return datasets.Dataset.from_dict({"image": images, **columns}, features=features())


@pytest.fixture(scope="module")
def in_memory():
    return table([{"bytes": jpeg(i), "path": f"{i}.jpg"} for i in range(COUNT)])


@pytest.fixture(scope="module")
def sources(gallery, in_memory, tmp_path_factory):
    """name -> dataset, as load_dataset() and others make them."""
    folder = tmp_path_factory.mktemp("parquet")
    for part in range(2):
        in_memory.shard(2, part).to_parquet(folder / f"{part}.parquet")
    in_memory.save_to_disk(folder / "saved", num_shards=3)

    def load(kind, **options):
        found = datasets.load_dataset(kind, split="train", cache_dir=str(folder / "cache"), **options)
        return found if "text" in found.column_names else found.add_column("text", ["a"] * len(found))

    paths = table([str(path) for path in sorted((gallery / "images").iterdir())])
    turned = in_memory.map(lambda row: {"label": row["label"]}, remove_columns="text").add_column(
        "text", ["b"] * COUNT
    )
    return {
        "memory": in_memory,
        "imagefolder": load("imagefolder", data_dir=str(gallery / "classes")),
        "parquet": load("parquet", data_files=str(folder / "*.parquet")),
        "saved": datasets.load_from_disk(folder / "saved"),
        "paths": paths,
        "both": datasets.concatenate_datasets([in_memory.select(range(3, 9)), paths, turned]),
        "mode": in_memory.cast_column("image", datasets.Image(mode="RGB")),
    }


def with_labels(examples):
    """transformers' collate_fn."""
    pixel_values = torch.stack([example["pixel_values"] for example in examples])
    labels = torch.tensor([example["label"] for example in examples])
    return {"pixel_values": pixel_values, "labels": labels}


def samples(examples):
    return examples


def seen_samples(examples):
    for picture in [value for example in examples for value in example.values()]:
        if isinstance(picture, Image.Image):
            picture.load()
    return examples


def same(dataset, workers=0, native=True, **options):
    """Asserts that batches are torch's, and says what made them."""
    options = {"batch_size": 4, **options}
    loader = millrace.DataLoader(dataset, num_workers=workers, **options)
    text = loader.explain()
    assert ("dataset: native" in text) == native, text
    assert written(list(loader)) == written(list(DataLoader(dataset, **options)))
    assert loader.stats()["engine"] == (("threads" if native else "processes") if workers else "inline")
    return text


# ---------------------------------------------------------------- what runs natively


@pytest.mark.parametrize("name", ["memory", "imagefolder", "parquet", "saved", "paths", "both", "mode"])
def test_sources(sources, name):
    workers = 2 * (name in ("imagefolder", "parquet", "both"))
    dataset = sources[name].with_transform(functions.run_image_classification(PLAIN))
    text = same(dataset, workers, collate_fn=with_labels)
    assert "Arrow dataset of" in text and "EXIF orientation" in text, text
    same(dataset.shuffle(seed=3).select(range(2, COUNT - 1)), workers, collate_fn=with_labels)


@pytest.mark.parametrize("name", functions.known(None))
def test_functions(in_memory, name):
    function = functions.known(PLAIN)[name]
    dataset = in_memory.with_transform(function)
    same(dataset, 2, collate_fn=seen_samples)
    if name != "transformers":  # which leaves PIL images in the samples
        same(dataset, collate_fn=None)
        same(Subset(dataset.shuffle(seed=1), [5, 3, 3, 0]), 2)
        same(Subset(dataset, [5, -1, 3]))


def test_a_function_follows_what_it_reads(in_memory, monkeypatch):
    dataset = in_memory.with_transform(functions.chosen)
    assert "dataset: native" in millrace.DataLoader(dataset).explain()
    monkeypatch.setattr(functions, "TRAINING", False)
    assert "in the modes of their files" in millrace.DataLoader(dataset).explain()


def test_chosen_columns(in_memory):
    dataset = in_memory.with_transform(functions.deleted, columns=["label", "image"])
    same(dataset)
    same(
        in_memory.with_transform(functions.deleted, columns=["image", "label"], output_all_columns=True),
        native=False,
    )
    odd = in_memory.add_column("weight", np.arange(COUNT) / 3).add_column(
        "ids", [[i, 2] for i in range(COUNT)]
    )
    same(odd.with_transform(functions.deleted))


def test_a_transform_whose_pictures_differ_in_mode(in_memory):
    """mode="RGB" makes them alike before the function sees them."""
    dataset = in_memory.cast_column("image", datasets.Image(mode="RGB"))
    same(dataset.with_transform(functions.in_any_mode), 2)


def test_the_picture_of_before_is_opened_when_it_is_looked_at(in_memory):
    dataset = in_memory.with_transform(functions.run_image_classification(PLAIN))
    (batch,) = millrace.DataLoader(dataset, batch_size=COUNT, collate_fn=samples)
    first, second, third, *_ = (sample["image"] for sample in batch)
    assert isinstance(first, Image.Image) and not isinstance(first, torch.Tensor)
    assert type(first) is not Image.Image, "nobody has looked"
    first.load()
    assert written(first) == written(dataset[0]["image"]) and type(first) is type(dataset[0]["image"])
    second.info["seen"] = True
    second.new = 5
    assert second.info["seen"]
    assert second.new == 5
    assert second.getpixel((1, 1)) == dataset[1]["image"].getpixel((1, 1))
    assert written(pickle.loads(pickle.dumps(third))) == written(dataset[2]["image"])


def test_transformers_collators(in_memory):
    transformers = pytest.importorskip("transformers")
    for collate in (transformers.DefaultDataCollator(), transformers.default_data_collator):
        same(in_memory.with_transform(functions.deleted).remove_columns("text"), 2, collate_fn=collate)


def test_draws_are_functions_of_the_sample(sources):
    """Any number of workers, either order of the table, resumed in the middle of an epoch, and replayed."""
    dataset = sources["parquet"].with_transform(functions.run_image_classification(TRAINING))

    def loader(workers=0, data=dataset, **options):
        torch.manual_seed(7)
        options = {"batch_size": 3, "shuffle": True, "collate_fn": with_labels, **options}
        return millrace.DataLoader(data, num_workers=workers, **options)

    def epoch(of):
        torch.manual_seed(8)
        return written(list(of))

    expected = epoch(loader())
    assert epoch(loader(2)) == expected and len(expected[1]) == -(-COUNT // 3)
    for workers in (0, 2):
        first = loader(workers, history=True)
        torch.manual_seed(8)
        for number, _ in enumerate(first):
            if number == 1:
                break
        resumed = loader(workers)
        resumed.load_state_dict(first.state_dict())
        assert written(list(resumed))[1] == expected[1][2:]
        assert written(first.replay(1)) == expected[1][1]


def test_pictures_that_are_none(in_memory):
    def files(*rows):
        return table([{"bytes": jpeg(0), "path": None}, *rows, {"bytes": jpeg(1), "path": None}])

    damaged = {"bytes": jpeg(3)[:300], "path": "c.jpg"}
    cases = {
        "is null": (None, Exception),
        "c.jpg": (damaged, OSError),
        "/nowhere/d.jpg": ({"bytes": None, "path": "/nowhere/d.jpg"}, FileNotFoundError),
    }
    for text, (row, error) in cases.items():
        dataset = files(row).with_transform(functions.deleted)
        for workers, native in itertools.product((0, 2), ("auto", "never")):
            iterator = iter(millrace.DataLoader(dataset, num_workers=workers, native=native, batch_size=1))
            next(iterator)
            with pytest.raises(error, match=text if native == "auto" else None):
                next(iterator)
        loader = millrace.DataLoader(dataset, num_workers=2, on_error="skip", batch_size=2)
        (batch,) = loader
        assert batch["label"].tolist() == [0, 2] and batch["text"] == ["text 0", "text 2"]
        assert text in str(loader.stats()["errors"])
    png = io.BytesIO()
    Image.open(io.BytesIO(jpeg(2))).convert("P").save(png, "GIF")
    same(files({"bytes": png.getvalue(), "path": None}).with_transform(functions.deleted), 2)


# ---------------------------------------------------------------- what does not


@pytest.mark.parametrize("function", functions.UNKNOWN)
def test_functions_that_may_do_anything(in_memory, function):
    dataset = in_memory.with_transform(function)
    loader = millrace.DataLoader(dataset, batch_size=4)
    assert "native" not in loader.explain().replace("no native", ""), loader.explain()
    with pytest.raises(millrace.UnavailableError):
        iter(millrace.DataLoader(dataset, native="require"))


def test_refused_datasets_say_why(in_memory, monkeypatch):
    def reason(dataset):
        return millrace.DataLoader(dataset, batch_size=2).explain().splitlines()[0]

    both = {"image": datasets.Image(), "mask": datasets.Image()}
    masks = datasets.Dataset.from_dict({"image": ["a"], "mask": ["b"]}, features=datasets.Features(both))
    assert "'mask' (Image)" in reason(masks.with_transform(functions.deleted))
    grey = in_memory.cast_column("image", datasets.Image(mode="L"))
    assert "mode='L'" in reason(grey.with_transform(functions.deleted))
    undecoded = in_memory.cast_column("image", datasets.Image(decode=False))
    assert "no column of pictures" in reason(undecoded.with_transform(functions.deleted))
    assert "has no rows" in reason(in_memory.select([]).with_transform(functions.deleted))
    remote = table(["https://example.com/a.jpg", "b.jpg"]).with_transform(functions.deleted)
    assert "https://example.com/a.jpg" in reason(remote)
    known = in_memory.with_transform(functions.deleted)
    assert "concatenate_datasets" in reason(ConcatDataset([known, known]))
    monkeypatch.setattr(datasets.Image, "decode_example", lambda self, value, **_: None)
    assert "decode_example was replaced" in reason(known)


def test_names_with_colons_are_files(gallery, tmp_path):
    (tmp_path / "12:30.jpg").write_bytes(jpeg(1))
    same(table([str(tmp_path / "12:30.jpg")]).with_transform(functions.deleted))
