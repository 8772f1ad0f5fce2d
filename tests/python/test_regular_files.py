"""What is in place of a file with data: a FIFO, a device, a folder or a socket is an error at once that says
what it is, in every format.

All formats of one kind run in a process of its own with a deadline, as what is tested would wait for ever or
fill the memory.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest
from line_data import write_json
from pictures import jpeg_bytes, make_picture

KINDS = {"FIFO": "a FIFO", "zero": "a character device", "folder": "a directory", "socket": "a socket"}
DEADLINE = 100  # for all formats together, on a machine that has much else to do
CPU_SECONDS = 1.0  # for one

# What is run for each format, with `path` where its file should be, in the class folder of an image folder,
# `root`.
FORMATS = {
    "pictures": ("jpg", "next(iter(DataLoader(ImageFolder(root, transforms.ToTensor()), 1, num_workers=2)))"),
    "pictures, in Python": ("jpg", "ImageFolder(root, lambda picture: picture)[0]"),
    "pictures, by Pillow": ("jpg", "millrace.datasets.pillow_decode.pil_loader(path)"),
    "pictures, packed": ("jpg", "pack(root, out)"),
    "tar": ("tar", "list(WebDataset(path))"),
    "tar, file:": ("tar", "list(WebDataset('file:' + path))"),
    "tar, indexed": ("tar", "len(WebDataset(path).indexed())"),
    "tar, inspected": (
        "tar",
        "raise OSError(survey([path], Progress('', None, quiet=True))['broken']['first'][0]['error'])",
    ),
    "tar, packed": ("tar", "pack(path, out)"),
    "tokens": ("bin", "Tokens(path, 8, 'uint16')[0]"),
    "lines": ("txt", "len(Lines(path))"),
    "jsonl": ("jsonl", "JSONL(path)[0]"),
    "jsonl, as a stream": ("jsonl", "list(JSONLStream(path, {'n': int}))"),
    "npy": ("npy", "Arrays(x=path)"),
    "npz": ("npz", "Arrays(x=path)"),
    "parquet": ("parquet", "Parquet(path)"),
    "parquet, packed": ("parquet", "ParquetSource([path])"),
    "arrow": ("arrow", "ArrowFile(path)"),
    "h5": ("h5", "HDF5(path)[0]"),
    "zarr": ("zarr", "Zarr(path)[0]"),
    "profile": ("json", "DriftProfile.load(path)"),
    "tune file": ("json", "tune_file._runs(Path(path))"),
    "stage profile": ("json", 'command("estimate", "--profile", path)'),
    "source": ("any", "millrace.stores.open_source(path)"),
}
# Where a folder has a meaning of its own: it is an error, too, in other words.
FOLDERS = {
    "pictures",
    "pictures, in Python",
    "pictures, packed",
    "tar, packed",
    "tokens",
    "parquet",
    "arrow",
    "zarr",
}

SCRIPT = """
import resource, sys, time, warnings
warnings.simplefilter("ignore")
resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, 4 << 30))
import contextlib, io
from pathlib import Path
import h5py, pyarrow.dataset, pyarrow.parquet, zarr
import millrace, millrace.datasets.pillow_decode, millrace.stores
from millrace import DataLoader, transforms
from millrace.datasets import HDF5, JSONL, ArrowFile, Arrays, ImageFolder, JSONLStream, Lines, Parquet
from millrace.datasets import Tokens, WebDataset, Zarr
from millrace_tools.drift.profile import DriftProfile
from millrace_tools.pack import pack
from millrace_tools.pack.dataset_source import ParquetSource
from millrace_tools.pack.survey import survey
from millrace_tools.texts import Progress
from millrace._loader.tuning import tune_file
def command(*words):
    from millrace.__main__ import main
    with contextlib.redirect_stderr(io.StringIO()) as told:
        main(list(words))
    raise OSError(told.getvalue())
for line in sys.stdin:
    path, code = line.rstrip("\\n").split("\\t")
    root, out = path.rsplit("/", 2)[0], path + ".out"
    began = time.process_time()
    try:
        exec(code)
        said = "nothing"
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
    print(f"{time.process_time() - began:.3f}\\t" + said.replace("\\n", " "), flush=True)
"""


def make_odd(path, kind):
    """What is no regular file, at this path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "FIFO":
        os.mkfifo(path)
    elif kind == "zero":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        folder = os.open(path.parent, os.O_RDONLY)
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(f"/proc/self/fd/{folder}/{path.name}")  # a socket's path has 107 bytes at most
        os.close(folder)
    return path


def said_by(lines, deadline=DEADLINE):
    """What the script prints for each line (path, code) before the deadline: (CPU seconds, error)."""
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            output, _ = process.communicate(
                "".join(f"{path}\t{code}\n" for path, code in lines), timeout=deadline
            )
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
    return [
        (float(seconds), said) for seconds, _, said in (line.partition("\t") for line in output.splitlines())
    ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.alone
def test_every_format_says_what_is_in_place_of_its_file(kind, tmp_path):
    for module in ("pyarrow", "h5py", "zarr"):
        pytest.importorskip(module)
    places = [
        (tmp_path / name.replace(" ", "") / "class" / f"odd.{suffix}", code)
        for name, (suffix, code) in FORMATS.items()
    ]
    cases = [(make_odd(path, kind), code) for path, code in places]
    said = said_by(cases)
    assert len(said) == len(cases), f"{list(FORMATS)[len(said)]!r} waits for {KINDS[kind]}"
    for name, (path, _), (seconds, error) in zip(FORMATS, cases, said):
        if kind == "folder" and name in FOLDERS:
            assert error.startswith(("FileNotFoundError", "ValueError", "IndexError", "IsADirectoryError")), (
                name,
                error,
            )
        else:
            assert f"it is {KINDS[kind]}, not a regular file" in error and str(path) in error, (name, error)
        assert seconds < CPU_SECONDS, (name, seconds)


@pytest.mark.parametrize("on_error", ["skip", pytest.param("replace", marks=pytest.mark.slow)])
def test_a_device_among_pictures_is_a_bad_sample(on_error, tmp_path):
    (tmp_path / "a").mkdir()
    for i in range(3):
        (tmp_path / "a" / f"{i}.jpg").write_bytes(jpeg_bytes(make_picture(20, 20, seed=i)))
    odd = [make_odd(tmp_path / "a" / f"odd-{kind}.jpg", kind) for kind in ("FIFO", "zero", "socket")]
    for native in ("require", "never"):
        code = (
            "l = DataLoader(ImageFolder(root, transforms.ToTensor()), 1, num_workers=1,"
            f" on_error={on_error!r}, native={native!r}); n = len(list(l)); raise OSError(str((n,"
            " l.stats()['errors'])))"
        )
        [(_, said)] = said_by([(odd[0], code)])
        assert ("(3," if on_error == "skip" else "(6,") in said, said
        for path in odd:
            assert str(path) in said
        assert "it is a FIFO, not a regular file" in said
        assert "it is a character device" in said
        assert "it is a socket" in said


def test_fifos_in_place_of_what_is_kept_are_passed_over(tmp_path):
    data = tmp_path / "data" / "x.jsonl"
    data.parent.mkdir()
    write_json(data, [{"n": i} for i in range(10)])
    make_odd(data.with_name("x.jsonl.lines"), "FIFO")
    tar = (
        "import os, shard_data; t = shard_data.numbered_shards(root + '/t', [5])[0]; os.mkfifo(t +"
        " '.index'); "
    )
    cache = (
        "import os; from millrace.stores.disk_cache import _stem; c = millrace.stores.DiskCache(root + '/c');"
        " c.folder.mkdir(); u = 'http://x/y'; os.mkfifo(c.folder / (_stem(u) + '.map')); assert"
        " c.find_whole(u) is None and c.find_any(u) is None; c.stats(); assert c.admit(u, 5, 'v') is not"
        " None; assert Path(c.folder / (_stem(u) + '.map')).is_file(); "
    )
    said = said_by(
        [
            (data, f"raise OSError(len(JSONL({str(data)!r}, index_dir=root)))"),
            (
                data,
                (
                    f"sys.path.insert(0, {os.path.dirname(__file__)!r}); {tar}raise"
                    " OSError(len(WebDataset(t).indexed()))"
                ),
            ),
            (data, f"{cache}raise OSError(7)"),
        ]
    )
    assert [error for _, error in said] == ["OSError: 10", "OSError: 5", "OSError: 7"]


def test_files_of_proc_are_read(tmp_path):
    """They have no size, and are regular files."""
    code = (
        "raise"
        " OSError(len(millrace._core.PathFiles(millrace._core.PathTable(['/proc/self/status'])).read(0)))"
    )
    [(_, said)] = said_by([(tmp_path / "a" / "b", code)])
    assert int(said.removeprefix("OSError: ")) > 100
