"""Some hundred damaged files of every format: what a reader raises is of a documented class, and names the
file.

Each format has a process of its own, which a library that crashes would end: forks of an interpreter that has
imported torch and nothing else (this file, as a script).
"""

from __future__ import annotations

import gzip
import json
import os
import random
import resource
import subprocess
import sys
import time
import traceback
import warnings
from pathlib import Path

import numpy as np
import pytest

MUTANTS, IN_MAKE_TEST = 250, 80
MOST_BYTES = 4 << 30  # of memory, so that a size that is damaged is not believed without a word


def write_npy(folder):
    np.save(folder / "x.npy", np.arange(600.0).reshape(100, 6))
    return folder / "x.npy"


def write_npz(folder):
    np.savez(folder / "x.npz", a=np.arange(300), b=np.ones((300, 2), np.float32))
    return folder / "x.npz"


def write_packed_npz(folder):
    np.savez_compressed(folder / "x.npz", a=np.arange(300))
    return folder / "x.npz"


def write_h5(folder):
    import h5py

    with h5py.File(folder / "x.h5", "w") as file:
        file.create_dataset("plain", data=np.arange(400).reshape(100, 4))
        file.create_dataset(
            "deflated",
            data=np.arange(400.0).reshape(100, 4),
            chunks=(30, 4),
            compression="gzip",
            shuffle=True,
        )
        file.create_dataset("checked", data=np.arange(100), chunks=(30,), fletcher32=True)
        file.create_dataset("lzf", data=np.arange(100), chunks=(30,), compression="lzf")
    return folder / "x.h5"


def write_zarr(folder):
    import zarr

    array = zarr.create_array(str(folder / "x.zarr"), shape=(100, 4), chunks=(30, 4), dtype="int32")
    array[:] = np.arange(400, dtype=np.int32).reshape(100, 4)
    return folder / "x.zarr" / "zarr.json"


def table():
    import pyarrow as pa

    texts = [f"text {i}" for i in range(200)]
    lists = pa.array([[i, i + 1] for i in range(200)], pa.list_(pa.int32()))
    return pa.table(
        {
            "n": np.arange(200),
            "f": np.arange(200.0),
            "t": texts,
            "l": lists,
            "d": pa.array(texts).dictionary_encode(),
        }
    )


def write_parquet(folder):
    import pyarrow.parquet as pq

    pq.write_table(table(), folder / "x.parquet", row_group_size=60)
    return folder / "x.parquet"


def write_arrow(folder):
    import pyarrow as pa

    with pa.OSFile(str(folder / "x.arrow"), "wb") as file, pa.ipc.new_file(file, table().schema) as writer:
        writer.write_table(table(), 60)
    return folder / "x.arrow"


def write_arrows(folder):
    import pyarrow as pa

    with pa.OSFile(str(folder / "x.arrow"), "wb") as file, pa.ipc.new_stream(file, table().schema) as writer:
        writer.write_table(table(), 60)
    return folder / "x.arrow"


def write_token_npy(folder):
    np.save(folder / "x.npy", np.arange(600, dtype=np.uint16))
    return folder / "x.npy"


def write_llmc(folder):
    import token_files

    return token_files.write_llmc(folder / "x.bin", np.arange(600, dtype=np.uint16))


def write_megatron(folder):
    import token_files

    token_files.write_megatron(folder / "x", [np.arange(i, i + 60, dtype=np.uint16) for i in range(10)])
    return folder / "x.idx"


def write_mds(folder):
    import token_files

    token_files.write_mds(folder / "mds", [np.arange(600, dtype=np.int64).reshape(10, 60)])
    return folder / "mds" / "index.json"


def write_litdata(folder):
    import token_files

    token_files.write_litdata(folder / "lit", [[np.arange(60, dtype=np.int32)] * 4])
    return folder / "lit" / "index.json"


def write_jsonl(folder):
    path = folder / "x.jsonl"
    path.write_text(
        "".join(json.dumps({"n": i, "t": f"text {i}", "f": [i / 2, 1.5]}) + "\n" for i in range(200))
    )
    return path


def write_packed_jsonl(folder):
    path = folder / "x.jsonl.gz"
    path.write_bytes(gzip.compress(write_jsonl(folder).read_bytes()))
    return path


def write_text(folder):
    (folder / "x.txt").write_text("".join(f"line {i} äöü\n" for i in range(200)), encoding="utf-8")
    return folder / "x.txt"


def write_tar(folder):
    import shard_data

    return Path(
        shard_data.write_tar(
            folder / "x.tar", [(f"{i}.{e}", f"{i}".encode()) for i in range(30) for e in ("cls", "txt")]
        )
    )


def write_packed_tar(folder):
    import shard_data

    return Path(
        shard_data.write_tar(
            folder / "x.tar.gz", [(f"{i}.{e}", f"{i}".encode()) for i in range(30) for e in ("cls", "txt")]
        )
    )


def write_profile(folder):
    import millrace
    import torch

    loader = millrace.DataLoader(millrace.datasets.Arrays(x=torch.arange(64.0)), 8)
    watch = millrace.watch(loader)
    for _ in watch if hasattr(watch, "__iter__") else loader:
        pass
    watch.profile().save(folder / "x.json")
    return folder / "x.json"


def read_all(dataset):
    for i in range(len(dataset)):
        dataset[i]


def readers():
    from millrace import datasets as d

    tokens = lambda path: read_all(d.Tokens(path.parent if path.name == "index.json" else path, 20, None))  # noqa: E731
    kept = lambda path: {"index_dir": str(path.parent / "kept")}  # noqa: E731
    return {
        "npy": (write_npy, lambda path: read_all(d.Arrays(x=path))),
        "npz": (write_npz, lambda path: read_all(d.Arrays(a=path, b=path))),
        "npz, packed": (write_packed_npz, lambda path: read_all(d.Arrays(a=path))),
        "h5": (write_h5, lambda path: read_all(d.HDF5(path))),
        "zarr": (write_zarr, lambda path: read_all(d.Zarr(path.parent))),
        "parquet": (write_parquet, lambda path: read_all(d.Parquet(path))),
        "arrow": (write_arrow, lambda path: read_all(d.ArrowFile(path))),
        "arrow, stream": (write_arrows, lambda path: read_all(d.ArrowFile(path))),
        "tokens, npy": (write_token_npy, tokens),
        "tokens, llm.c": (write_llmc, tokens),
        "tokens, megatron": (write_megatron, tokens),
        "tokens, mds": (write_mds, tokens),
        "tokens, litdata": (write_litdata, tokens),
        "jsonl": (
            write_jsonl,
            lambda path: read_all(d.JSONL(path, {"n": int, "t": str, "f": (float, (2,))}, **kept(path))),
        ),
        "jsonl, fields found": (write_jsonl, lambda path: read_all(d.JSONL(path, **kept(path)))),
        "jsonl, packed": (write_packed_jsonl, lambda path: read_all(d.JSONL(path, {"n": int}, **kept(path)))),
        "jsonl, stream": (write_packed_jsonl, lambda path: list(d.JSONLStream(path, {"n": int}))),
        "text": (write_text, lambda path: read_all(d.Lines(path, **kept(path)))),
        "tar": (write_tar, lambda path: list(d.WebDataset(str(path)))),
        "tar, packed": (write_packed_tar, lambda path: list(d.WebDataset(str(path)))),
        "tar, indexed": (
            write_tar,
            lambda path: read_all(d.WebDataset(str(path)).indexed(index_dir=str(path.parent / "kept"))),
        ),
    }


NAMES = [
    "npy",
    "npz",
    "npz, packed",
    "h5",
    "zarr",
    "parquet",
    "arrow",
    "arrow, stream",
    "tokens, npy",
    "tokens, llm.c",
    "tokens, megatron",
    "tokens, mds",
    "tokens, litdata",
    "jsonl",
    "jsonl, fields found",
    "jsonl, packed",
    "jsonl, stream",
    "text",
    "tar",
    "tar, packed",
    "tar, indexed",
]
NEEDED = {"h5": "h5py", "zarr": "zarr", "parquet": "pyarrow", "arrow": "pyarrow", "arrow, stream": "pyarrow"}


def mutant(data, rng):
    """Bits turned, bytes replaced, cut off or taken out; half of it near the beginning or the end, where
    formats say what they are.
    """
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        near = min(len(data), rng.choice((64, 512)))
        at = rng.choice(
            (
                rng.randrange(near),
                len(data) - 1 - rng.randrange(near),
                rng.randrange(len(data)),
                rng.randrange(len(data)),
            )
        )
        what, size = rng.randrange(6), rng.choice((1, 2, 4, 8, 40))
        if what <= 1:
            data[at] ^= 1 << rng.randrange(8)
        elif what == 2:
            data[at : at + size] = rng.choice((b"\x00", b"\xff", bytes([rng.randrange(256)]))) * len(
                data[at : at + size]
            )
        elif what == 3:
            data[at : at + size] = rng.randbytes(len(data[at : at + size]))
        elif what == 4:
            del data[at : at + size]
        else:
            del data[at:]
        if len(data) < 2:
            return bytes(data)
    return bytes(data)


def main(name, folder, seed, mutants):
    """Prints what is wrong, a line for each, and last how many mutants were refused."""
    from millrace import CorruptDataError, UnavailableError

    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
    write, read = readers()[name]
    path = write(folder)
    read(path)
    rng, refused = random.Random(f"{name} {seed}"), 0
    others = {other: other.read_bytes() for other in path.parent.iterdir() if other.is_file()}
    for number in range(mutants):
        target = rng.choice(
            [other for other in sorted(others) if other.suffix == path.suffix or name.startswith("tokens, ")]
        )
        target.write_bytes(mutant(others[target], rng))
        (folder / "now").write_text(f"{number}")
        try:
            read(path)
        except (CorruptDataError, UnavailableError, ValueError, OSError) as error:
            refused += 1
            text, places = str(error), {str(other) for other in others} | {str(path.parent)}
            if isinstance(error, UnicodeError) or not any(place in text for place in places):
                print(f"{number}: {type(error).__name__} without a path: {text[:300]!r} {where(error)}")
        except BaseException as error:
            print(f"{number}: {type(error).__name__}: {str(error)[:300]!r} {where(error)}")
        for other, data in others.items():
            other.write_bytes(data)
    print(refused)


def where(error):
    return " < ".join(
        f"{Path(frame.filename).name}:{frame.lineno}"
        for frame in reversed(traceback.extract_tb(error.__traceback__)[-4:])
    )


@pytest.fixture(scope="module", params=[IN_MAKE_TEST, pytest.param(MUTANTS, marks=pytest.mark.slow)])
def outcomes(tmp_path_factory, request):
    """A folder with one for each format, which gets what it printed and the status that it ended with."""
    folder = tmp_path_factory.mktemp("formats")
    with subprocess.Popen([sys.executable, __file__, str(folder), "0", str(request.param)]) as process:
        yield folder, process, request.param
        process.kill()


@pytest.mark.parametrize("name", NAMES)
def test_errors_name_the_file(name, outcomes):
    if name in NEEDED:
        pytest.importorskip(NEEDED[name])
    formats, process, mutants = outcomes
    folder = formats / str(NAMES.index(name))
    while not (folder / "status").exists() and process.poll() is None:
        time.sleep(0.05)
    now = (folder / "files" / "now").read_text() if (folder / "files" / "now").exists() else "none"
    status, errors = int((folder / "status").read_text()), (folder / "stderr").read_text()
    assert status == 0, f"mutant {now} ends the process: {status}\n{errors[-2000:]}"
    *wrong, refused = (folder / "stdout").read_text().splitlines()
    assert not wrong, "\n".join(wrong[:20])
    assert int(refused) > mutants // 20  # else this tests nothing


def fork_each(folder, seed, mutants):
    import millrace  # noqa: F401  # once for all

    for number, name in enumerate(NAMES):
        of_it = folder / str(number)
        (of_it / "files").mkdir(parents=True)
        child = os.fork()
        if not child:
            for fd, stream in (1, "stdout"), (2, "stderr"):
                os.dup2(os.open(of_it / stream, os.O_WRONLY | os.O_CREAT, 0o600), fd)
            status = 1
            try:
                main(name, of_it / "files", seed, mutants)
                sys.stdout.flush()
                status = 0
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
            os._exit(status)
        (of_it / "ended").write_text(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
        (of_it / "ended").rename(of_it / "status")  # there when it is whole


if __name__ == "__main__":
    fork_each(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
