"""Files that end too early, wherever that is: an error with file and place where tarfile, gzip or pyarrow
has one, and never fewer samples without a word.
"""

from __future__ import annotations

import gzip
import io
import json
import tarfile

import millrace.datasets.webdataset as wds
import pytest
from fault_proxy import FaultProxy
from millrace import CorruptDataError, DataLoader
from millrace.datasets import (
    JSONL,
    ArrowFile,
    Lines,
    Parquet,
    WebDataset,
    ignore_and_continue,
    ignore_and_stop,
)

LONG = "folder/" * 16 + "n" * 60
ARCHIVES = {  # names, sizes, format, what comes behind the files
    "ustar": ("s{}", (1, 40, 511), tarfile.USTAR_FORMAT, None),
    "pax, long names": (LONG + "{}", (3, 700), tarfile.PAX_FORMAT, None),
    "gnu, long names": (LONG + "{}", (3, 700), tarfile.GNU_FORMAT, None),
    "no padding": ("s{}", (512, 0, 1024), tarfile.PAX_FORMAT, None),
    "a folder last": ("s{}", (5, 5), tarfile.PAX_FORMAT, tarfile.DIRTYPE),
    "a link last": ("s{}", (5, 600), tarfile.GNU_FORMAT, tarfile.SYMTYPE),
}


def archive(names, sizes, form, last=None, first=0):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=form) as tar:
        for number, size in enumerate(sizes, first):
            for suffix in ("txt", "bin"):
                info = tarfile.TarInfo(f"{names.format(number)}.{suffix}")
                info.size = size
                tar.addfile(info, io.BytesIO(b"x" * size))
        if last is not None:
            info = tarfile.TarInfo("last.txt")
            info.type, info.linkname = last, "s0.txt"
            tar.addfile(info)
    return made.getvalue()


def tarfile_reads(data):
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r|*") as tar:
            for member in tar:
                content = tar.extractfile(member) if member.isreg() else None
                assert content is None or len(content.read()) == member.size
        return True
    except (tarfile.ReadError, AssertionError):
        return False


def cuts(data):
    """At, before and behind each border of blocks, and in their middles; up to the zeros at the end."""
    end = -(-len(data.rstrip(b"\0")) // 512) * 512
    return sorted(at + more for at in range(0, end, 512) for more in (0, 3, 256, 511))


def error_of(read):
    try:
        read()
    except CorruptDataError as error:
        return error
    return None


@pytest.mark.parametrize("kind", ARCHIVES)
@pytest.mark.parametrize("reader", ["stream", "indexed"])
def test_where_tarfile_raises_so_do_we(tmp_path, kind, reader):
    data, raised = archive(*ARCHIVES[kind]), 0
    for cut in cuts(data):
        path = tmp_path / f"{cut}.tar"
        path.write_bytes(data[:cut])
        dataset = WebDataset(str(path), empty_check=False)
        error = error_of(lambda: list(dataset) if reader == "stream" else len(dataset.indexed()))
        if not tarfile_reads(data[:cut]):
            assert error is not None, cut
        if error is not None:
            assert f"{cut}.tar" in str(error) and "at byte" in str(error) or cut == 0, cut
            assert 0 <= error.offset <= cut and error.offset % 512 == 0
            raised += 1
    assert raised > len(cuts(data)) // 2


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("cut", [515, 1023, 1500, 2049, 3071, 3500])
def test_what_handlers_make_of_it(tmp_path, cut, workers):
    """Samples before the one that the cut is in or behind, then what the handler says; a half one never."""
    data = archive("s{}", (5, 5), tarfile.USTAR_FORMAT)
    (tmp_path / "cut.tar").write_bytes(data[:cut])
    (tmp_path / "next.tar").write_bytes(archive("n{}", (5,), tarfile.USTAR_FORMAT))
    urls = [str(tmp_path / name) for name in ("cut.tar", "next.tar")]

    def keys(**keywords):
        read = []
        loader = DataLoader(
            WebDataset(urls, empty_check=False, **keywords), batch_size=None, num_workers=workers
        )
        try:
            for sample in loader:
                assert {"txt", "bin"} <= sample.keys()
                read.append(sample["__key__"])
        except CorruptDataError as error:
            assert "cut.tar" in str(error) and error.offset <= cut
            read.append("error")
        return read

    before = ["s0"] if cut > 2560 else []
    assert keys() == [*before, "error"]
    assert keys(handler=ignore_and_stop) == before
    assert keys(handler=ignore_and_continue) == [*before, "n0"]


def packed(name, data):
    if name.endswith(".zst"):
        return pytest.importorskip("pyarrow").Codec("zstd").compress(data, asbytes=True)
    return gzip.compress(data) if name.endswith(".gz") else data


@pytest.mark.parametrize("name", ["x.tar.gz", "x.tar.zst"])
def test_packed_archives(tmp_path, name):
    """Those that hold a cut one, and those that are cut themselves."""
    data, path = archive("s{}", (1, 40), tarfile.USTAR_FORMAT), tmp_path / name
    for cut in (3, 515, 1023, 1024 + 513, 3 * 1024 + 700):
        path.write_bytes(packed(name, data[:cut]))
        error = error_of(lambda: list(WebDataset(str(path))))
        assert error is not None and name in str(error) and 0 <= error.offset <= cut
    whole = packed(name, data)
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        error = error_of(lambda: list(WebDataset(str(path))))
        assert error is not None and name in str(error), cut


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz", "x.jsonl.zst", "x.txt.gz", "x.txt.zst"])
def test_lines(tmp_path, name):
    text = "".join(json.dumps({"x": number, "t": "é" * number}) + "\n" for number in range(9)).encode()
    whole = packed(name, text)
    for cut in {1, 2, 3, *range(5, len(whole), 7), len(whole) - 1}:
        path = tmp_path / f"{cut}-{name}"
        path.write_bytes(whole[:cut])
        kind = JSONL if "jsonl" in name else Lines
        error = error_of(lambda: kind(path).__getitems__(list(range(len(kind(path))))))
        ends_well = whole is text and text[:cut].endswith(
            (b"}", b"\n")
        )  # nothing says that lines are missing
        assert ends_well or (error is not None and name in str(error)), cut


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow", "x.arrows"])
def test_tables(tmp_path, name):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table, path = pa.table({"a": list(range(100))}), tmp_path / name
    if name == "x.parquet":
        pq.write_table(table, path, row_group_size=30)
    else:
        with (pa.ipc.new_file if name == "x.arrow" else pa.ipc.new_stream)(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=30)
    whole, kind = path.read_bytes(), Parquet if name == "x.parquet" else ArrowFile
    for cut in (0, 3, len(whole) // 3, len(whole) // 2, len(whole) - 9, len(whole) - 1):
        path.write_bytes(whole[:cut])
        error = error_of(lambda: kind(path).__getitems__(list(range(100))))
        assert error is not None and name in str(error), cut


@pytest.mark.parametrize("cut", [300, 515, 1023, 1700, 2 * 1024 + 513])
def test_objects_whose_end_is_missing(tmp_path, cut):
    pytest.importorskip("obstore")
    data = archive("s{}", (1, 40), tarfile.USTAR_FORMAT)
    with FaultProxy({"/x.tar": data[:cut]}) as store:
        for read in (list, lambda dataset: len(dataset.indexed(index_dir=str(tmp_path)))):
            error = error_of(lambda: read(WebDataset(store.url("x.tar"))))
            assert error is not None and "x.tar" in str(error) and 0 <= error.offset <= cut


@pytest.mark.parametrize("cut", [0, 515, 1023, 1024 + 100, 1024 + 600, 2 * 1024 + 513])
def test_archives_that_a_command_writes(tmp_path, cut, monkeypatch):
    monkeypatch.setattr(wds.utils, "enforce_security", False)
    (tmp_path / "x.tar").write_bytes(archive("s{}", (1, 40), tarfile.USTAR_FORMAT)[:cut])
    with pytest.raises((tarfile.ReadError, CorruptDataError), match="x.tar"):
        list(WebDataset(f"pipe:cat {tmp_path}/x.tar"))
    assert (
        list(WebDataset(f"pipe:cat {tmp_path}/x.tar", handler=ignore_and_continue, empty_check=False)) == []
    )
