"""explain(samples=n): what each part of a sample costs, measured on some."""

import re
import time

import pytest
import torch
from loader_data import generator_states
from millrace import DataLoader
from millrace._pictures.pillow import record_of
from millrace.datasets import ImageFolder, WebDataset
from millrace.transforms import Compose
from PIL import Image
from prefix_cases import TAIL, Shaken, random_steps, root, with_steps  # noqa: F401
from stream_cases import images, write_shards
from torch.utils.data import TensorDataset


class Slow:
    """Three milliseconds of CPU."""

    def __call__(self, picture):
        began = time.thread_time()
        while time.thread_time() - began < 0.003:
            pass
        return picture


def costs(dataset, samples=4, **options):
    """[(native or python, {part: microseconds}, samples)]; [text] where nothing was measured."""
    lines = DataLoader(dataset, **{"batch_size": 4, **options}).explain(samples=samples).splitlines()
    found = []
    for line in lines:
        if not line.startswith("cost: "):
            continue
        match = re.fullmatch(r"cost: (native|python) — (.*) µs of CPU per sample, of (\d+) made here", line)
        if match is None:
            found.append(line)
            continue
        parts = [part.rsplit(" ", 1) for part in match[2].split(", ")]
        found.append(
            (match[1], {name: int(number.replace(",", "")) for name, number in parts}, int(match[3]))
        )
    return found


def test_a_native_picture_by_stage(root):
    ((kind, parts, count),) = costs(with_steps(root, *random_steps(), *TAIL))
    assert (kind, list(parts), count) == ("native", ["fetch", "decode", "transform"], 4)
    assert sum(parts.values()) > 0


def test_a_step_in_python_has_its_own_number_and_the_generators_stay(root):
    before = generator_states()
    (native, *_), (python, parts, _) = costs(with_steps(root, *random_steps(), Slow(), Shaken(), *TAIL))
    assert (native, python) == ("native", "python")
    assert list(parts) == ["Slow", "Shaken", "ToTensor", "Normalize"]
    assert parts["Slow"] > 2900
    assert generator_states() == before


def test_a_dataset_in_python_is_one_number(root):
    folder = ImageFolder(root, Compose([Slow(), *TAIL]), loader=lambda path: torch.zeros(3, 4, 4))
    ((kind, parts, count),) = costs(folder, samples=100)
    assert (kind, list(parts), count) == ("python", ["dataset[index]"], len(folder))
    assert parts["dataset[index]"] > 2900


def test_files_that_the_engine_cannot_read_are_left_out(root, tmp_path):
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "a.jpg").write_bytes(b"no picture")
    dataset = with_steps(tmp_path, *random_steps(), Slow(), *TAIL)
    assert [parts.get("Slow", 0) for _, parts, _ in costs(dataset)] == [0, 0]


@pytest.mark.parametrize("kind", ["rows", "stream"])
def test_what_is_not_measured_says_so(tmp_path, kind):
    if kind == "rows":
        assert costs(TensorDataset(torch.zeros(8, 2))) == [
            "cost: not measured — rows are copied, or made in whole batches"
        ]
    else:
        write_shards(tmp_path)
        assert costs(images(WebDataset(f"{tmp_path}/s-0.tar"))) == [
            "cost: not measured — samples of a stream come in its own order"
        ]


class Named(torch.utils.data.Dataset):
    """By names, one by one or, with `whole`, in lists alone."""

    def __init__(self, length, whole=False):
        self.length = length
        if whole:
            self.__getitems__ = lambda names: [0] * len(names)

    def __len__(self):
        return self.length

    def __getitem__(self, name):
        raise KeyError(name)


def test_what_cannot_be_made_says_why():
    assert costs(Named(0)) == ["cost: not measured — there are no samples"]
    assert costs(Named(5)) == ["cost: not measured — KeyError: 0"]
    ((kind, _, count),) = costs(Named(5, whole=True))
    assert (kind, count) == ("python", 4)
    with pytest.raises(TypeError):
        costs(Named(5), samples="3")


def test_a_step_that_asks_for_info_gets_it(root):
    informed = with_steps(root, *random_steps(), lambda picture: (picture.info["jfif"], picture)[1], *TAIL)
    assert [kind for kind, *_ in costs(informed)] == ["native", "python"]


@pytest.mark.parametrize("pictures", ["lazy", "pillow"])
def test_pictures_wait_as_they_do_in_the_loader(root, pictures):
    waits = []

    def look(picture):
        waits.append(record_of(picture) is not None)
        return 0

    folder = ImageFolder(root, look, loader=lambda path: Image.open(path).convert("RGB"))
    assert [kind for kind, *_ in costs(folder, pictures=pictures)] == ["python"]
    assert waits == [pictures == "lazy"] * 4


def test_nothing_is_made_unless_it_is_asked_for(root):
    assert costs(with_steps(root, *random_steps(), *TAIL), samples=0) == []
