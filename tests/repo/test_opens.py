"""Files with data are opened in one way in each language, which takes regular files only: a FIFO would wait
for ever, a device never ends.

src/io/file_errors.cpp and python/millrace/_common/regular_files.py have it. What is opened in another way is
listed here, with the reason.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

from repo_tree import ROOT, files, name

# ---------------------------------------------------------------- C++

_CPP = re.compile(
    r"(?<![\w.>])(?:::open|::openat|::open64|fopen|freopen|std::ifstream|std::fstream|ifstream)\s*\(|\bstd::i?fstream"
    r" \w+\("
)
_CPP_ALLOWED = {
    "src/io/file_errors.cpp": 1,  # the way
    # to read and write, which waits for nobody; what is no map is told by its content
    "src/io/entry_lock.cpp": 1,
    "src/io/cached_file.cpp": 1,  # the same
    "src/io/verified_blocks.cpp": 1,  # /proc
    "src/io/file_mapping.cpp": 2,  # /proc
    "src/core/numa.cpp": 2,  # /sys
    "src/core/cgroup.cpp": 3,  # /proc, /sys
    "src/core/memory_budget.cpp": 2,  # /proc, /sys
}


def test_cpp_opens_files_in_one_way() -> None:
    found = {}
    for path in files(".h", ".cpp", ".cu", ".cuh"):
        if not name(path).startswith(("src/", "include/", "python/bindings/")):
            continue
        code = "\n".join(line.partition("//")[0] for line in path.read_text(encoding="utf-8").splitlines())
        if count := len(_CPP.findall(code)):
            found[name(path)] = count
    assert found == _CPP_ALLOWED, (
        "open_to_read() opens files with data; list anything else here, with the reason"
    )


# ---------------------------------------------------------------- Python

# Calls that open a path, by the last parts of their names. open() of an object (a stage, an archive) is not
# one of them.
_OPENS = {
    "open",
    "os.open",
    "io.open",
    "np.load",
    "np.memmap",
    "np.fromfile",
    "np.loadtxt",
    "np.genfromtxt",
    "torch.load",
    "zipfile.ZipFile",
    "tarfile.open",
    "gzip.open",
    "h5py.File",
    "zarr.open",
    "zarr.open_array",
    "zarr.open_group",
    "tensorstore.open",
    "Image.open",
    "parquet.ParquetFile",
    "ParquetFile",
    "read_metadata",
    "np.lib.format.open_memmap",
    "pa.memory_map",
    "pa.OSFile",
    "pickle.load",
}
_METHODS = {"read_text", "read_bytes"}  # of a Path

_PY_ALLOWED = {
    "_common/regular_files.py": {"open": 1, "os.open": 2, "np.memmap": 1},  # the way
    # What does not wait: opened to read and write.
    "stores/cache_room.py": {"os.open": 1, "read_bytes": 1},  # and /proc
    # Libraries that open paths themselves, behind a check_regular() of the same path, or of what stands in
    # it.
    "datasets/arrays.py": {"np.load": 1, "zipfile.ZipFile": 1},
    "datasets/array_files/hdf5_arrays.py": {"h5py.File": 2},
    "datasets/array_files/zarr_arrays.py": {"zarr.open": 1, "zarr.open_array": 1, "tensorstore.open": 1},
    "datasets/tables/arrow_file.py": {"pa.memory_map": 1},
    "datasets/tables/parquet.py": {"ParquetFile": 1, "read_metadata": 1},
    "millrace_tools/pack/dataset_source.py": {"ParquetFile": 1},
    # What is open already, or in memory.
    "datasets/hdf5.py": {"read_metadata": 1},  # ours
    "datasets/zarr.py": {"read_metadata": 1},
    "datasets/pillow_decode.py": {"Image.open": 4},
    "_loader/engines/stream_prefix.py": {"Image.open": 1},  # bytes
    "_loader/engines/item_prefix.py": {"Image.open": 1},  # bytes
    "datasets/webdataset/decoders.py": {"Image.open": 1, "np.load": 1, "torch.load": 1},
    "millrace_tools/pack/pictures.py": {"Image.open": 3},
    "millrace_tools/pack/sources.py": {"Image.open": 1},
    "datasets/webdataset/tar_streams.py": {"tarfile.open": 1},
    "millrace_tools/doctor/batches.py": {"open": 1},
    "_common/shared_memory.py": {"open": 1},
    # What is written, by a name of ours or the user's, who may want a terminal.
    "stores/cache_entry.py": {"open": 1},
    "millrace_tools/pack/shard_writer.py": {"open": 1},
    "_history/recorder.py": {"open": 1},
    "millrace_tools/commands/bench.py": {"open": 2},
    "datasets/webdataset/stages.py": {"open": 1, "pickle.load": 1},  # which loads from a stream
    "datasets/webdataset/cache.py": {"open": 1},
    "datasets/webdataset/tenbin.py": {"open": 1},
    "datasets/webdataset/writer.py": {"tarfile.open": 1},
    # /proc and /sys, and parts of millrace and of other packages.
    "millrace_tools/system_files.py": {"read_text": 1},
    "_profiling/stages.py": {"open": 1},
    "_replay/dump.py": {"open": 2},
    "_loader/engines/process_worker.py": {"open": 1},
    "_loader/engines/channel.py": {"open": 2, "pickle.load": 1},  # a memfd of this process's own
    "_loader/engines/worker_end.py": {"open": 1},
    # another process's memfd, which waits for nobody; what is none is told by its content
    "_loader/remote/parcels.py": {"open": 2, "os.open": 1},
    "millrace_tools/bench/client.py": {"os.open": 1},  # /dev/null
    "millrace_tools/report/page.py": {"read_text": 2},
    "millrace_tools/report/loader_page.py": {"read_text": 1},
    "stores/clients.py": {"open": 1},
}


def dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return f"{dotted(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else "()"


def opens(path: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            called = dotted(node.func)
            last = called.rpartition(".")[2]
            if called in _OPENS or last in _METHODS:
                found[last if last in _METHODS else called] += 1
            elif last in ("ParquetFile", "read_metadata"):
                found[last] += 1
    return found


def test_python_opens_files_in_one_way() -> None:
    root = ROOT / "python"
    found = {
        str(path.relative_to(root)).removeprefix("millrace/"): dict(counts)
        for path in sorted(root.rglob("*.py"))
        if (counts := opens(path))
    }
    both = {file: (found.get(file), _PY_ALLOWED.get(file)) for file in found.keys() | _PY_ALLOWED.keys()}
    wrong = {file: counts for file, counts in both.items() if counts[0] != counts[1]}
    assert not wrong, (
        "open_regular() and its like open files with data; list anything else here, with the reason: (found,"
        " listed)"
    )


def test_the_search_finds_what_it_should(tmp_path) -> None:
    sample = tmp_path / "sample.py"
    sample.write_text(
        "open('x'); os.open('x', 0); Path('x').read_text(); np.load(p); archive.open(i); open_regular('x')\n"
    )
    assert opens(sample) == {"open": 1, "os.open": 1, "read_text": 1, "np.load": 1}
    assert (
        _CPP.search("fd = ::open(path, 0)")
        and _CPP.search("std::ifstream file(path);")
        and not _CPP.search("shard.open(x)")
    )
