"""Bad files of tokens: errors with the file's name when it is opened or needed; the process lives on."""

from __future__ import annotations

import json
import os

import millrace
import numpy as np
import pytest
import torch
from millrace import CorruptDataError
from millrace.datasets import Arrays, Tokens
from python_code import run_code
from token_files import write_litdata, write_llmc, write_mds, write_megatron, write_npy, write_raw

TOKENS = np.arange(1000, dtype=np.uint16) % 500 + 1


def refused(kind, text, *arguments, **options):
    with pytest.raises(kind, match=text) as caught:
        Tokens(*arguments, **options)
    return caught.value


def test_files_that_are_no_tokens(tmp_path):
    raw = write_raw(tmp_path / "a.bin", TOKENS)
    error = refused(
        CorruptDataError,
        "no whole number of uint32",
        write_raw(tmp_path / "odd.bin", TOKENS[:999]),
        8,
        "uint32",
    )
    assert error.path == str(tmp_path / "odd.bin")
    refused(ValueError, "give dtype=", raw, 8)
    refused(ValueError, "not float32", raw, 8, "float32")
    refused(ValueError, "not uint64", raw, 8, "uint64")
    (tmp_path / "empty.bin").touch()
    refused(CorruptDataError, "is empty", tmp_path / "empty.bin", 8, "uint16")
    refused(FileNotFoundError, "none.bin", tmp_path / "none.bin", 8, "uint16")
    refused(ValueError, "without index.json", tmp_path, 8, "uint16")
    refused(ValueError, "unpack it", tmp_path / "a.bin.gz", 8, "uint16")
    refused(ValueError, "needs 1001 tokens.*have at most 1000", raw, 1000, "uint16")
    refused(
        ValueError,
        "uint32.*uint16|uint16.*uint32",
        [raw, write_npy(tmp_path / "b.npy", TOKENS.astype(np.uint32))],
        8,
        "uint16",
    )
    refused(ValueError, "paths is empty", [], 8)


def test_arguments_that_contradict_each_other(tmp_path):
    raw = write_raw(tmp_path / "a.bin", TOKENS)
    for text, options in {
        "length": dict(length=0),
        "stride": dict(stride=0),
        "targets=": dict(targets="next"),
        "boundaries=": dict(boundaries="respect"),
        "boundaries=.*unknown": dict(boundaries=("ignore", "mask")),
        "leaves out targets": dict(boundaries="mask", document_separator=3, targets=None),
        "give document_separator=": dict(boundaries="start"),
        "separator_at=": dict(separator_at="middle"),
        "out_dtype=": dict(out_dtype=torch.int16),
        "max_token": dict(max_token=-1),
    }.items():
        refused(ValueError, text, raw, **{"length": 8, "dtype": "uint16", **options})
    refused(TypeError, "length should be an integer", raw, 8.0, "uint16")
    wide = write_npy(tmp_path / "b.npy", TOKENS.astype(np.uint32))
    refused(ValueError, "int32 does not hold all of uint32", wide, 8, out_dtype=torch.int32)


def test_damaged_formats(tmp_path):
    npy = write_npy(tmp_path / "a.npy", TOKENS)
    refused(ValueError, "says that it holds uint16", npy, 8, "int32")
    os.truncate(npy, 1000)
    refused(CorruptDataError, "ends .* bytes before", npy, 8)
    os.truncate(npy, 20)
    refused(CorruptDataError, "header", npy, 8)
    refused(ValueError, "shape", write_npy(tmp_path / "b.npy", TOKENS.reshape(10, 100)), 8)
    refused(ValueError, "float64", write_npy(tmp_path / "c.npy", TOKENS / 3), 8)
    refused(ValueError, "byte order", write_npy(tmp_path / "d.npy", TOKENS.astype(">u2")), 8)
    llmc = write_llmc(tmp_path / "e.bin", TOKENS)
    os.truncate(llmc, 2000)
    refused(CorruptDataError, "ends .* bytes before", llmc, 8)


def test_an_index_that_disagrees_with_its_data(tmp_path):
    def fresh(name):
        return write_megatron(tmp_path / name, np.split(TOKENS, [100, 300]))

    data = fresh("cut")
    os.truncate(data, 1998)
    assert refused(CorruptDataError, "1998 bytes instead of 2000", data, 8).path.endswith("cut.idx")
    data = fresh("grown")
    with open(data, "ab") as file:
        file.write(b"12")
    refused(CorruptDataError, "2002 bytes instead of 2000", data, 8)
    data = fresh("index")
    os.truncate(data.with_suffix(".idx"), 40)
    refused(CorruptDataError, "ends", data, 8)
    data = fresh("header")
    os.truncate(data.with_suffix(".idx"), 20)
    refused(CorruptDataError, "within its header", data, 8)
    for at, what in {
        9: "version",
        17: "dtype code",
        18: "ends",
        34: "instead of",
        34 + 12: "instead of",
        34 + 36: "cover",
    }.items():
        data = fresh(f"damaged{at}")
        index = bytearray(data.with_suffix(".idx").read_bytes())
        index[at] ^= 0x7F
        data.with_suffix(".idx").write_bytes(index)
        refused((CorruptDataError), what, data, 8)
    data = fresh("other")
    refused(ValueError, "says that it holds uint16", data, 8, "int32")
    (tmp_path / "no.idx").write_bytes(b"something else")
    refused(CorruptDataError, "no Megatron index", tmp_path / "no", 8)
    refused(FileNotFoundError, "nowhere", tmp_path / "nowhere.idx", 8)


def test_folders_that_disagree_with_their_index(tmp_path):
    def changed(folder, change):
        index = json.loads((folder / "index.json").read_text())
        change(index)
        (folder / "index.json").write_text(json.dumps(index))
        return folder

    def lit(name, change=lambda index: None):
        return changed(write_litdata(tmp_path / name, [[TOKENS[:100]], [TOKENS[100:]]]), change)

    refused(ValueError, "compression zstd", lit("a", lambda i: i["config"].update(compression="zstd")), 8)
    refused(ValueError, "pickle", lit("b", lambda i: i["config"].update(data_format=["pickle"])), 8)
    refused(
        CorruptDataError,
        "items and index.json says 3",
        lit("c", lambda i: i["chunks"][0].update(chunk_size=3)),
        8,
    )
    refused(CorruptDataError, "ends .* bytes before", lit("d", lambda i: i["chunks"][1].update(dim=901)), 8)
    refused(CorruptDataError, "lacks", lit("e", lambda i: i["chunks"][0].pop("filename")), 8)
    (tmp_path / "e" / "index.json").write_text("{")
    refused(CorruptDataError, "no JSON", tmp_path / "e", 8)

    def mds(name, change=lambda index: None, **options):
        return changed(write_mds(tmp_path / name, [TOKENS.reshape(50, 20)], **options), change)

    refused(ValueError, "give dtype=", mds("f", encoding="bytes"), 8)
    refused(
        CorruptDataError,
        "records and index.json says 7",
        mds("g", lambda i: i["shards"][0].update(samples=7)),
        8,
    )
    refused(ValueError, "one column", mds("h", lambda i: i["shards"][0].update(column_encodings=["str"])), 8)
    shard = mds("i") / "shard.00000.mds"
    os.truncate(shard, 1000)
    refused(CorruptDataError, "was cut short", shard.parent, 8)
    refused(ValueError, "needs 21 tokens", mds("j"), 20)


@pytest.mark.parametrize("workers", [0, 2])
def test_ids_over_the_vocabulary(tmp_path, workers):
    tokens = TOKENS.copy()
    tokens[555] = 50_257
    dataset = Tokens(write_raw(tmp_path / "a.bin", tokens), 10, "uint16", max_token=50_256)
    loader = millrace.DataLoader(dataset, 5, num_workers=workers, native="require")
    seen, iterator = [], iter(loader)
    while True:
        try:
            seen.append(next(iterator)[0][0, 0].item())
        except StopIteration:
            break
        except CorruptDataError as error:
            assert error.path == dataset.paths[0] and error.offset == 1110 and "50257" in str(error)
            seen.append(None)
    assert [number for number, first in enumerate(seen) if first is None] == [11] and len(seen) == 20
    with pytest.raises(CorruptDataError, match="token 50257"):
        dataset[55]
    negative = Tokens(write_raw(tmp_path / "b.bin", -TOKENS.astype(np.int32)), 10, "int32", max_token=10)
    with pytest.raises(CorruptDataError, match="token -1 "):
        negative[0]


@pytest.mark.parametrize("workers", [0, 1])
def test_ids_over_the_vocabulary_by_policy(tmp_path, workers):
    tokens = TOKENS.copy()
    tokens[[555, 801]] = 50_257
    path = write_raw(tmp_path / "a.bin", tokens)
    dataset = Tokens(path, 10, "uint16", max_token=50_256, targets=None)
    loader = millrace.DataLoader(dataset, 5, num_workers=workers, on_error="skip")
    assert torch.cat(list(loader)).shape == (98, 10) and int(torch.cat(list(loader)).max()) < 50_257
    errors = loader.stats()["errors"]
    assert [error["index"] for error in errors] == [55, 80]
    assert all("token 50257" in error["reason"] for error in errors)
    replaced = torch.cat(list(millrace.DataLoader(dataset, 5, num_workers=workers, on_error="replace")))
    assert replaced.shape == (100, 10) and torch.equal(replaced[55], replaced[56])
    without = Tokens(path, 10, "uint16", targets=None)
    assert torch.cat(list(millrace.DataLoader(without, 5, on_error="skip", native="require"))).max() == 50_257


def cut_while_loading(dataset, path, workers):
    loader = millrace.DataLoader(dataset, 4, num_workers=workers, native="require")
    iterator, good, bad = iter(loader), 0, []
    next(iterator)
    os.truncate(path, 30_000)
    while True:
        try:
            next(iterator)
            good += 1
        except StopIteration:
            return good, bad
        except CorruptDataError as error:
            bad.append(error)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_file_that_is_cut_short_meanwhile(tmp_path, workers):
    path = write_raw(tmp_path / "a.bin", np.ones(100_000, np.uint16))
    dataset = Tokens(path, 100, "uint16")
    good, bad = cut_while_loading(dataset, path, workers)
    assert good + len(bad) == 249 and good >= 30 and bad
    assert all(error.path == str(path) and "shorter than it was" in str(error) for error in bad)
    with pytest.raises(CorruptDataError, match="shorter"):
        dataset[998]
    with pytest.raises(CorruptDataError, match="shorter"):
        dataset[151]  # within the last page, whose end reads as zeros
    assert dataset[0][0].tolist() == [1] * 100


@pytest.mark.parametrize("workers", [0, 2])
def test_a_mapped_array_that_is_cut_short_meanwhile(tmp_path, workers):
    path = tmp_path / "a.npy"
    np.save(path, np.ones((1000, 50), np.float32))
    dataset = Arrays(x=path)
    good, bad = cut_while_loading(dataset, path, workers)
    assert good + len(bad) == 249 and bad and all(str(path) in str(error) for error in bad)
    with pytest.raises(CorruptDataError, match="shorter"):
        dataset[999]
    memmap = np.load(write_npy(tmp_path / "b.npy", np.ones((1000, 50), np.float32)), mmap_mode="r")
    good, bad = cut_while_loading(memmap, tmp_path / "b.npy", workers)
    assert good + len(bad) == 249 and bad


def test_in_torchs_worker_processes_too(tmp_path):
    """torch puts its own handler of SIGBUS into workers, which would end them."""
    path = write_raw(tmp_path / "a.bin", np.ones(100_000, np.uint16))
    dataset = Tokens(path, 100, "uint16")
    for loader_class in torch.utils.data.DataLoader, millrace.DataLoader:
        os.truncate(path, 200_000)
        loader = loader_class(dataset, 4, num_workers=1, collate_fn=list)
        iterator = iter(loader)
        next(iterator)
        os.truncate(path, 30_000)
        with pytest.raises(CorruptDataError, match="shorter than it was"):
            for _ in iterator:
                pass


def test_other_faults_still_end_the_process(tmp_path):
    """With faulthandler before or behind us: its report is there, and the signal is the end."""
    code = """
import faulthandler, mmap, os, sys
import numpy as np, torch
from millrace.datasets import Tokens
path = sys.argv[1]
if sys.argv[2] == "before": faulthandler.enable()
dataset = Tokens(path, 100, "uint16")
dataset[0]
if sys.argv[2] == "behind": faulthandler.enable(); dataset[1]
other = np.memmap(path, np.uint16, "r")
os.truncate(path, 4096)
try: dataset[900]
except OSError: print("caught", flush=True)
print(other[-1])
"""
    for order in "before", "behind":
        path = write_raw(tmp_path / "a.bin", np.ones(100_000, np.uint16))
        done = run_code(code, path, order, status=-7)
        assert done.stdout == "caught\n" and "Fatal Python error: Bus error" in done.stderr, done


def test_indices(tmp_path):
    dataset = Tokens(write_raw(tmp_path / "a.bin", TOKENS), 10, "uint16")
    for index in len(dataset), -len(dataset) - 1:
        with pytest.raises(IndexError, match="out of range"):
            dataset[index]
    with pytest.raises(TypeError):
        dataset["a"]
    assert dataset[np.int64(3)][0].tolist() == dataset[3 - len(dataset)][0].tolist() == TOKENS[30:40].tolist()
