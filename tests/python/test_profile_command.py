"""millrace profile: datasets by name and by guess, a table, JSON, a file for watch(), errors on one line."""

import json

import millrace
import pytest
import torch
from millrace.__main__ import main as command_line
from pictures import jpeg_bytes, make_picture
from shard_data import write_tar

pytestmark = pytest.mark.slow

SCRIPT = """
import torch
from torch.utils.data import DataLoader, TensorDataset

dataset = TensorDataset(torch.arange(300.0).reshape(100, 3), torch.arange(100) % 4)
loader = DataLoader(dataset, 25)
number = 7

def made():
    return dataset

class Broken(torch.utils.data.Dataset):
    def __len__(self): return 10
    def __getitem__(self, index): raise RuntimeError("bad sample")
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "profiled.py"
    path.write_text(SCRIPT)
    return path


def run(capsys, *words):
    status = command_line(["profile", *map(str, words)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.mark.parametrize("name", ["dataset", "loader", "made"])
def test_objects_of_a_script(capsys, script, tmp_path, name):
    out = tmp_path / "profile.json"
    status, text, errors = run(capsys, f"{script}:{name}", "--out", out, "--workers", 0)
    assert status == 0
    assert not errors
    assert "100 samples" in text
    assert "1: 4 different numbers" in text
    assert f"written to {out}" in text
    profile = millrace.DriftProfile.load(out)
    assert profile.fields["0"]["series"][0]["mean"] == pytest.approx(148.5)
    assert profile.about["dataset"] == f"{script}:{name}"
    dataset = torch.utils.data.TensorDataset(torch.arange(300.0).reshape(100, 3), torch.arange(100) % 4)
    watched = millrace.watch(millrace.DataLoader(dataset, 10, shuffle=True), out, "raise")
    assert len(list(watched)) == 10


def test_modules_json_and_a_limit(capsys, script, monkeypatch):
    monkeypatch.chdir(script.parent)
    status, text, _ = run(
        capsys,
        "profiled:dataset",
        "--json",
        "--samples",
        30,
        "--batch-size",
        10,
        "--workers",
        0,
        "--field",
        "1",
    )
    found = json.loads(text)
    assert status == 0 and found["samples"] == 30 and list(found["fields"]) == ["1"]


def test_class_folders(capsys, jpeg_folder):
    status, text, _ = run(capsys, jpeg_folder, "--picture-size", 32, "--json")
    fields = json.loads(text)["fields"]
    assert status == 0 and fields["0"]["row_shape"] == [3, 32, 32] and fields["0"]["type"] == "uint8"
    assert fields["1"]["counts"][0]["counts"] == [[0, 8], [1, 8], [2, 8]]


def test_shards(capsys, tmp_path):
    members = []
    for i in range(12):
        picture = jpeg_bytes(make_picture(40 + i, 30, seed=i))
        members += [(f"{i:03d}.jpg", picture), (f"{i:03d}.cls", b"%d" % (i % 3)), (f"{i:03d}.txt", b"x" * i)]
    write_tar(tmp_path / "s.tar", members)
    status, text, _ = run(capsys, tmp_path / "s.tar", "--json")
    fields = json.loads(text)["fields"]
    assert status == 0 and fields["jpg"]["layout"]["channels"] and fields["txt"]["series"][0]["max"] == 11
    assert fields["cls"]["counts"][0]["total"] == 12


def test_tables(capsys, tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    pyarrow.parquet.write_table(pa.table({"a": [1.0, 2.0, 3.0], "b": [1, 1, 2]}), tmp_path / "t.parquet")
    status, text, _ = run(capsys, tmp_path, "--json")
    assert status == 0 and json.loads(text)["fields"]["a"]["series"][0]["mean"] == 2


@pytest.mark.parametrize(
    "words, message",
    [
        (["nowhere"], "no such file or folder"),
        (["{script}:nothing"], "has no 'nothing'"),
        (["{script}:number"], "neither a dataset nor a loader"),
        (["none.py:dataset"], "there is no file"),
        (["no_module:x"], "no_module"),
        (["{script}:Broken", "--workers", "0"], "bad sample"),
        (["{folder}"], "neither class folders"),
        (["{script}:dataset", "--workers", "0", "--out", "{folder}/none/p.json"], "none"),
    ],
)
def test_errors(capsys, script, tmp_path, words, message):
    folder = tmp_path / "empty"
    folder.mkdir()
    status, text, errors = run(capsys, *(word.format(script=script, folder=folder) for word in words))
    assert status == 1 and not text and message in errors and errors.startswith("millrace profile: ")


def test_wrong_arguments(capsys):
    for words in ([], ["x", "--batch-size", "0"], ["x", "--workers", "-1"]):
        with pytest.raises(SystemExit) as end:
            command_line(["profile", *words])
        assert end.value.code == 2
    capsys.readouterr()


def test_ctrl_c(capsys, script, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(millrace.DriftProfile, "of", interrupted)
    status, _, errors = run(capsys, f"{script}:dataset", "--workers", 0)
    assert status == 130 and "stopped" in errors


def test_the_median_of_whole_numbers_is_one(capsys, script):
    status, text, _ = run(capsys, f"{script}:dataset")
    classes = next(line.split() for line in text.splitlines() if line.startswith("1 "))
    assert status == 0 and classes[5] in ("1", "2"), text
