"""Whether a wheel can be given away: it loads without torch's libraries, has its own inside with their
licences, the C++ library with its headers and CMake package, and is small.

    python scripts/check_wheel.py WHEEL ...

The first thing that is wrong with a wheel is the last line, and the exit status is 1. Needs readelf.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

MOST_BYTES = 15_000_000  # of the wheel, which is packed
MOST_LIBRARY_BYTES = 24 << 20  # of the module, libmillrace and what lies beside them
# What every system has that the tag names, or Python brings.
EVERYWHERE = r"lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s)\.so\.\d+|ld-linux-[\w-]+\.so\.\d+"

# Of what is linked statically, or lies beside the module; "cuda-runtime" where GPU code is in it.
LICENCES = (
    "LICENSE",
    *(
        f"{name}.txt"
        for name in (
            "libjpeg-turbo",
            "zlib",
            "highway",
            "libdeflate",
            "libwebp",
            "zstd",
            "simdjson",
            "pybind11",
        )
    ),
)

# The C++ library, below millrace.cmake_prefix_path. A wheel has no links: the file is named as it is loaded.
CPP = (
    "millrace/include/millrace/millrace.h",
    "millrace/lib/libmillrace.so.0.1",
    "millrace/lib/cmake/millrace/millraceConfig.cmake",
    "millrace/lib/cmake/millrace/millrace-shared.cmake",
)
# The package beside it, and what its pages are made of.
TOOLS = ("millrace_tools/__init__.py", "millrace_tools/py.typed", "millrace_tools/report/page.css")


def needed(library: Path) -> list[str]:
    told = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.+)\]", told)


def wrong_with(wheel: Path) -> str:
    """ "" when nothing is."""
    if "manylinux" not in wheel.name:
        return "its tag names no systems: auditwheel has not repaired it"
    with tempfile.TemporaryDirectory() as folder:
        zipfile.ZipFile(wheel).extractall(folder)
        libraries = [path for path in Path(folder).rglob("*") if re.search(r"\.so(\.\d+)*$", path.name)]
        if not any(path.name.startswith("_core.") for path in libraries):
            return "it has no millrace._core"
        for part in (*CPP, *TOOLS):
            if not (Path(folder) / part).is_file():
                return f"it lacks {part}"
        texts = {path.name for path in Path(folder).glob("*.dist-info/licenses/*") if path.stat().st_size}
        if missing := sorted(set(LICENCES) - texts):
            return f"it lacks the licences of {', '.join(missing)}"
        own = {path.name for path in libraries}
        for library in libraries:
            for name in needed(library):
                if name not in own and not re.fullmatch(EVERYWHERE, name):
                    return f"{library.name} needs {name}, which is not in it"
        if (packed := wheel.stat().st_size) > MOST_BYTES:
            return f"it is {packed / 1e6:.1f} MB, more than {MOST_BYTES / 1e6:.0f}"
        if (total := sum(path.stat().st_size for path in libraries)) > MOST_LIBRARY_BYTES:
            return f"its libraries are {total / 2**20:.1f} MiB, more than {MOST_LIBRARY_BYTES >> 20}"
        print(f"{wheel.name}: {total / 2**20:.1f} MiB in {', '.join(sorted(own))}")
    return ""


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        if wrong := wrong_with(path):
            sys.exit(f"{path.name}: {wrong}")
