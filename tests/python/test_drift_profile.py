"""DriftProfile: its numbers are numpy's, its parts add up, its file comes back or says what is wrong with
it.
"""

import dataclasses
import json

import millrace
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from millrace import CorruptDataError, DriftOptions, DriftProfile
from PIL import Image

pytestmark = pytest.mark.slow

FLOATS = st.floats(-1e12, 1e12) | st.sampled_from([0.0, -0.0, 1e-30, np.nan, np.inf, -np.inf])


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    hnp.arrays(np.float64, st.tuples(st.integers(1, 60), st.integers(1, 5)), elements=FLOATS),
    st.integers(1, 20),
)
def test_moments_are_numpys(data, rows):
    profile = DriftProfile.of(torch.from_numpy(data).split(rows))
    for number, series in enumerate(profile.fields["batch"]["series"]):
        column = data[:, number]
        finite = column[np.isfinite(column)]
        assert series["count"] == len(finite)
        assert series["nan"] == np.isnan(column).sum() and series["infinite"] == np.isinf(column).sum()
        assert series["zeros"] == (column == 0).sum()
        if len(finite):
            scale = np.abs(finite).max()
            assert series["mean"] == pytest.approx(finite.mean(), rel=1e-9, abs=1e-15 * scale)
            assert series["std"] == pytest.approx(finite.std(), rel=1e-9, abs=1e-12 * scale)
            assert (series["min"], series["max"]) == (finite.min(), finite.max())


def test_far_from_zero():
    data = 1e9 + np.random.default_rng(0).normal(0, 1, (4000, 1))
    (series,) = DriftProfile.of(torch.from_numpy(data).split(7)).fields["batch"]["series"]
    assert series["std"] == pytest.approx(data.std(), rel=1e-9)
    assert series["quantiles"][3] == pytest.approx(np.median(data), abs=0.1)  # the origin is taken off first


@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.int16, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.bool]
)
def test_types(dtype):
    data = torch.randint(
        0, 2 if dtype is torch.bool else 100, (300, 3), generator=torch.Generator().manual_seed(0)
    ).to(dtype)
    for number, series in enumerate(DriftProfile.of(data.split(32)).fields["batch"]["series"]):
        assert series["mean"] == pytest.approx(data[:, number].double().mean().item(), rel=1e-12)


def test_pictures_by_channel_in_any_layout():
    images = torch.rand(40, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    for feed in (
        images,
        images.to(memory_format=torch.channels_last),
        images.permute(0, 2, 3, 1).contiguous(),
        images.permute(0, 2, 3, 1),
    ):
        field = DriftProfile.of(feed.split(16)).fields["batch"]
        assert field["layout"]["channels"]
        assert [s["mean"] for s in field["series"]] == pytest.approx(
            images.double().mean((0, 2, 3)).tolist(), rel=1e-12
        )


@dataclasses.dataclass
class Sample:
    pixels: torch.Tensor
    note: str


def test_fields_of_any_nesting():
    one, two = torch.zeros(6, 2), torch.ones(6, dtype=torch.int64)

    def names(batch):
        return {name: field["type"] for name, field in DriftProfile.of([batch]).fields.items()}

    assert names([one, two]) == {"0": "float32", "1": "int64"}
    assert names({"a": {"b": (one, two)}, "text": ["x", "yy"] * 3}) == {
        "a.b.0": "float32",
        "a.b.1": "int64",
        "text": "int64",
    }
    assert names(Sample(one, "single texts are no field")) == {"pixels": "float32"}
    assert names((one.numpy(), [1, 2, 3, 4, 5, 6], object())) == {"0": "float32", "1": "int64"}
    assert names(((one, one), (one, two))) == {
        "0.0": "float32",
        "0.1": "float32",
        "1.0": "float32",
        "1.1": "int64",
    }
    boxes = [{"boxes": torch.rand(n, 4), "id": n} for n in (1, 5)]
    assert names(((torch.rand(3, 8, 9), torch.rand(3, 7, 7)), tuple(boxes))) == {
        "0": "float32",
        "1.boxes": "float32",
        "1.id": "int64",
    }
    listed = [(Image.new("RGB", (4 + n, 5)), n, "text") for n in range(12)]
    assert names(listed) == {"0": "uint8", "1": "int64", "2": "int64"}


def test_classes_lengths_and_ragged_rows():
    batch = {
        "label": torch.tensor([3, 3, 3, 1, -7]),
        "ids": torch.arange(1, 201).reshape(5, 40).clone(),  # fmt: skip
        "boxes": [torch.rand(n, 4) for n in (1, 0, 2, 9, 3, 3, 3, 3, 3)],
        "text": ["a", "", "abc", "ab", "x" * 10],
    }
    batch["ids"][2, 30:] = 0
    fields = DriftProfile.of([batch]).fields
    assert fields["label"]["counts"][0]["counts"] == [(3, 3), (-7, 1), (1, 1)]
    assert (fields["ids"]["lengths"]["min"], fields["ids"]["lengths"]["max"]) == (30, 40)
    assert (
        fields["boxes"]["lengths"]["mean"] == pytest.approx(3)
        and fields["boxes"]["series"][0]["count"] == 4 * 27
    )
    assert fields["text"]["series"][0]["max"] == 10 and not fields["text"]["counts"]


def test_repeated_samples_are_counted():
    data = torch.rand(500, 16, generator=torch.Generator().manual_seed(0))
    repeats = DriftProfile.of(torch.cat([data, data[:100]]).split(50)).to_dict()["repeats"]
    assert repeats["samples"] == 600 and repeats["distinct"] == pytest.approx(500, rel=0.05)
    assert (
        95 <= repeats["repeated"] <= 100
    )  # those whose place another sample took are forgotten: 0.8 of them are to be expected


def test_parts_add_up(tmp_path):
    drawn = torch.randn(4000, 3, generator=torch.Generator().manual_seed(0)).double()
    data = drawn * torch.tensor([1, 100, 1e-3]) + torch.tensor([0, 7, 0])
    labels = torch.randint(0, 5, (4000,))
    batches = list(zip(data.split(50), labels.split(50)))
    whole = DriftProfile.of(batches)
    for number in range(3):
        DriftProfile.of(batches[number::3]).save(tmp_path / f"{number}.json")
    merged = DriftProfile.load(tmp_path / "0.json").merge(
        *(DriftProfile.load(tmp_path / f"{n}.json") for n in (1, 2))
    )
    assert merged.samples == 4000 and "4,000 samples" in str(merged)
    for a, b in zip(whole.fields["0"]["series"], merged.fields["0"]["series"]):
        assert b["mean"] == pytest.approx(a["mean"], rel=1e-9, abs=1e-12) and b["std"] == pytest.approx(
            a["std"], rel=1e-9
        )
        assert b["quantiles"] == pytest.approx(a["quantiles"], rel=0.08, abs=1e-3)
        # Each in its own frame: the mean without extremes.
        cut_a, cut_b = (each["frame"][0] + each["frame"][1] * each["samples"][0][1] for each in (a, b))
        assert cut_b == pytest.approx(cut_a, abs=0.05 * a["std"])
    assert sorted(merged.fields["1"]["counts"][0]["counts"]) == sorted(
        whole.fields["1"]["counts"][0]["counts"]
    )
    assert merged.to_dict()["repeats"]["distinct"] == pytest.approx(4000, rel=0.05)
    with pytest.raises(ValueError, match="same kinds of shapes"):
        whole.merge(DriftProfile.of([(torch.rand(4, 2), labels[:4])]))


def test_files_come_back(tmp_path):
    profile = DriftProfile.of(
        [{"x": torch.randn(100, 4), "text": ["a", "bb"] * 50, "y": torch.full((100,), float("nan"))}]
    )
    profile.about = {"dataset": "mine"}
    profile.save(tmp_path / "profile.json")
    again = DriftProfile.load(tmp_path / "profile.json")
    assert again.fields == profile.fields and again.about["dataset"] == "mine" and again.samples == 100
    assert "text" in str(again)
    assert str(again).splitlines()[2].split() == [
        "field",
        "count",
        "mean",
        "std",
        "min",
        "median",
        "max",
        "NaN",
        "zeros",
    ]
    assert not list(tmp_path.glob(".profile-*"))


def test_damaged_files_say_so(tmp_path):
    path = tmp_path / "profile.json"
    DriftProfile.of([torch.randn(100, 2)]).save(path)
    sound = json.loads(path.read_text())

    def load(data):
        path.write_text(data if isinstance(data, str) else json.dumps(data))
        return DriftProfile.load(path)

    for text in ("", "{}", "[1]", "no JSON"):
        with pytest.raises(CorruptDataError, match="no drift profile"):
            load(text)
    with pytest.raises(ValueError, match="version 99"):
        load({**sound, "millrace_drift_profile": 99})
    for damage in ({"fields": {"batch": {}}}, {"repeats": {}}, {"fields": 3}, {"samples": "many"}):
        with pytest.raises(CorruptDataError, match="damaged"):
            load({**sound, **damage})
    field = sound["fields"]["batch"]
    for name, value in (("histogram", [[99999, 1]]), ("samples", []), ("frame", [0, 0, 0])):
        with pytest.raises(CorruptDataError, match="damaged"):
            load(
                {**sound, "fields": {"batch": {**field, "series": [{**field["series"][0], name: value}] * 2}}}
            )
    with pytest.raises(FileNotFoundError):
        DriftProfile.load(tmp_path / "none.json")


def test_nothing_to_look_at():
    with pytest.raises(ValueError, match="no samples"):
        DriftProfile.of([])
    with pytest.raises(ValueError, match="no field with numbers"):
        DriftProfile.of([object()])
    with pytest.raises(ValueError, match=r"among \['z'\]"):
        DriftProfile.of([{"x": torch.rand(3)}], options=DriftOptions(fields=["z"]))


def test_a_limit_of_samples():
    assert DriftProfile.of(torch.rand(100, 3).split(10), samples=25).samples == 30
    assert millrace.DriftProfile is DriftProfile
