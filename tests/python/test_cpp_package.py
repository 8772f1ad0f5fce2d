"""The C++ library as programs outside the tree get it: installed and found by CMake or pkg-config, or
added as a folder. What is installed is what build/dev has built.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import make_photos
import millrace
import pytest
import torch
import torch.utils.cpp_extension
from installed_library import BUILD, CXX, EXAMPLES, ROOT, STRICT, check_own_dataset, installed_prefix, run  # noqa: F401
from millrace import transforms
from pictures import make_jpeg_folder

TORCH = Path(torch.utils.cmake_prefix_path)


pytestmark = pytest.mark.slow
needs_torch = pytest.mark.skipif(
    not (TORCH / "Torch/TorchConfig.cmake").exists(), reason="this torch came without its CMake package"
)
CLANG = next(filter(None, map(shutil.which, ["clang++", "clang++-14", "clang++-15", "clang++-16"])), None)
FAST = ["-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS_RELEASE=-O0"]
HEADERS = sorted(path.name for path in (ROOT / "include/millrace").glob("*.h"))


def developer() -> str:
    """As build/dev has it."""
    found = re.search(r"^MILLRACE_DEVELOPER:\w+=(\w+)", (BUILD / "CMakeCache.txt").read_text(), re.MULTILINE)
    return found[1] if found else "OFF"


def built(source: Path, folder: Path, *options: object) -> Path:
    """Configures and builds a project with the CMake that a user has; its build folder. Not optimised: the
    library that is installed is, and what is built here is short.
    """
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    run("cmake", "-S", source, "-B", folder, *launcher, *FAST, *options)
    run("cmake", "--build", folder, "--parallel", len(os.sched_getaffinity(0)))
    return folder


@pytest.fixture(scope="session")
def photos(tmp_path_factory) -> Path:
    if not make_photos.sources_installed():
        pytest.skip("scikit-image and scikit-learn are not installed")
    return make_photos.make_photos(tmp_path_factory.mktemp("photos") / "photos", 1000, quiet=True)


@pytest.fixture(scope="session")
def example(prefix, tmp_path_factory):
    """example(name): the program of an example, built outside the tree against what is installed."""

    def make(name: str, *options: object) -> Path:
        folder = tmp_path_factory.mktemp(name)
        shutil.copytree(EXAMPLES / name, folder / "source")
        prefixes = f"-DCMAKE_PREFIX_PATH={prefix};{TORCH}"
        return built(folder / "source", folder / "build", prefixes, *options) / name

    return make


def test_what_is_installed(prefix: Path) -> None:
    there = {str(path.relative_to(prefix)) for path in prefix.rglob("*") if not path.is_dir()}
    library = next(path for path in there if path.endswith("libmillrace.a")).removesuffix("libmillrace.a")
    assert {f"include/millrace/{header}" for header in HEADERS} == {
        path for path in there if path.startswith("include/")
    }
    assert {path.removeprefix(library) for path in there if not path.startswith("include/")} == {
        "libmillrace.a",
        "libmillrace.so",
        "libmillrace.so.0.1",
        "libmillrace.so.0.1.0",
        "pkgconfig/millrace.pc",
        "pkgconfig/millrace-static.pc",
        *(
            f"cmake/millrace/{name}.cmake"
            for name in (
                "millraceConfig",
                "millraceConfigVersion",
                "millrace-externals",
                "millrace-shared",
                "millrace-shared-release",
                "millrace-static",
                "millrace-static-release",
            )
        ),
    }
    texts = [path.read_text() for path in prefix.rglob("*") if path.suffix in (".cmake", ".pc", ".h")]
    assert not [text for text in texts if re.search(rf"{re.escape(str(ROOT))}|/before|/cuda-\d", text)]
    shared = prefix / library / "libmillrace.so"
    assert "Library soname: [libmillrace.so.0.1]" in run("readelf", "-d", shared)


def test_only_the_interface_leaves_the_library(prefix: Path) -> None:
    shared = next(prefix.rglob("libmillrace.so"))
    listed = run("nm", "--dynamic", "--defined-only", "--format=just-symbols", "--demangle", shared)
    names = listed.splitlines()
    plain = [re.sub(r"^(typeinfo( name)?|vtable) for ", "", name) for name in names]
    declared = "".join((ROOT / "include/millrace" / header).read_text() for header in HEADERS)
    functions = re.findall(r"^MILLRACE_API [\w:<>, *&]*?(\w+)\(", declared, re.MULTILINE)
    assert len(functions) > 20 and "random_bits" in functions
    assert not [name for name in functions if f"millrace::{name}(" not in listed]
    assert not [name for name in plain if not name.startswith("millrace::")]
    # Modules have namespaces of their own; classes of the interface begin with a capital.
    assert not [name for name in plain if re.match(r"millrace::[a-z_0-9]+::", name)]
    assert not [name for name in plain if "::Impl" in name.partition("(")[0]]


@needs_torch
def test_a_network_is_trained(example, photos: Path) -> None:
    """find_package(millrace) beside torch's own package: as accurate as examples/train_image_folder.py."""
    told = run(example("train_photos"), photos, 8, 2)
    reached = re.findall(r"^accuracy ([\d.]+)$", told, re.MULTILINE)
    assert float(reached[0]) >= 0.99, told


@needs_torch
def test_adapters(prefix: Path, tmp_path: Path) -> None:
    folder = built(ROOT / "tests/python/cpp_package", tmp_path, f"-DCMAKE_PREFIX_PATH={prefix};{TORCH}")
    run(folder / "adapters")
    run(folder / "adapters_on_fake")


@needs_torch
def test_batches_on_a_device(example, tmp_path: Path) -> None:
    """The CPU is one, too; one that is not there is said to be so."""
    photos = make_jpeg_folder(tmp_path / "photos", per_class=40, size=(300, 280))
    chain = [transforms.Resize(256), transforms.CenterCrop(224), transforms.ToTensor()]
    folder = millrace.datasets.ImageFolder(photos, transforms.Compose(chain))
    means, squares = [], []
    for batch, _ in millrace.DataLoader(folder, 40):
        means.append(batch.double().mean((0, 2, 3)))
        squares.append(batch.double().square().mean((0, 2, 3)))
    mean, square = torch.stack(means).mean(0), torch.stack(squares).mean(0)
    numbers = {"mean": mean, "deviation": (square - mean**2).sqrt()}
    program = example("device_batches")
    for device in ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]:
        told = dict(line.split(" ", 1) for line in run(program, photos, device).splitlines())
        for name, expected in numbers.items():
            found = torch.tensor([float(word) for word in told[name].split()]).double()
            torch.testing.assert_close(found, expected, rtol=0, atol=2e-3)
    if not torch.cuda.is_available():
        refused = subprocess.run([program, photos, "cuda"], capture_output=True, text=True)
        assert refused.returncode == 1 and "libtorch sees no" in refused.stderr


@needs_torch
def test_features_of_tar_shards(example, tmp_path: Path) -> None:
    """The features that a network has in C++ are those it has in Python, of the same pictures."""
    import io

    from PIL import Image

    torch.manual_seed(0)
    side, rows = 16, []
    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()
    ).eval()
    torch.jit.trace(network, torch.zeros(1, 3, side, side)).save(tmp_path / "network.pt")
    pictures = torch.randint(0, 256, (20, side, side, 3), dtype=torch.uint8)
    for shard in range(2):
        with tarfile.open(tmp_path / f"train-{shard:03d}.tar", "w") as tar:
            for i in range(10 * shard, 10 * shard + 10):
                file = io.BytesIO()
                Image.fromarray(pictures[i].numpy()).save(file, "PNG")
                for suffix, data in (("png", file.getvalue()), ("cls", str(i % 3).encode())):
                    entry = tarfile.TarInfo(f"{i:06d}.{suffix}")
                    entry.size = len(data)
                    tar.addfile(entry, io.BytesIO(data))
                rows.append(i % 3)
    told = run(example("shard_features"), tmp_path / "network.pt", side, tmp_path / "train-{000..001}.tar")
    found = torch.tensor([[float(word) for word in line.split()] for line in told.splitlines()])
    with torch.no_grad():
        expected = network(pictures.permute(0, 3, 1, 2) / 255)
    assert found[:, 0].tolist() == rows
    torch.testing.assert_close(found[:, 1:], expected, rtol=1e-4, atol=1e-5)


def test_own_dataset(example, own_dataset) -> None:
    own_dataset(example("own_dataset"))


def test_resume_after_a_kill(example, tmp_path: Path) -> None:
    told = run(example("resume"), tmp_path).splitlines()
    assert told == ["killed", "killed", "finished", "the same samples as without a kill"]
    assert json.loads((tmp_path / "checkpoint").read_text().partition("\n")[0])


@pytest.mark.parametrize("kind", ["shared", "static"])
def test_both_kinds_of_the_library(kind: str, prefix: Path, tmp_path: Path) -> None:
    """DLPack into a library that is C, from either."""
    shutil.copytree(EXAMPLES / "dlpack_c", tmp_path / "source")
    lists = tmp_path / "source/CMakeLists.txt"
    lists.write_text(lists.read_text().replace("COMPONENTS core", f"COMPONENTS core {kind}"))
    program = built(tmp_path / "source", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}") / "dlpack_c"
    assert [float(line) for line in run(program).split()] == [37, 112, 187, 262]
    assert ("libmillrace.so.0.1" in run("readelf", "-d", program)) == (kind == "shared")


def test_as_a_folder_of_another_project(tmp_path: Path, own_dataset, prefix: Path) -> None:
    """FetchContent, which is add_subdirectory(): the library, and nothing else of the project."""
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.22)\nproject(theirs LANGUAGES CXX)\n"
        "include(FetchContent)\n"
        f"FetchContent_Declare(millrace SOURCE_DIR {ROOT})\nFetchContent_MakeAvailable(millrace)\n"
        f"add_executable(theirs {EXAMPLES}/own_dataset/own_dataset.cpp)\n"
        "target_link_libraries(theirs PRIVATE millrace::millrace)\n"
        "install(TARGETS theirs)\n"
    )
    folder = tmp_path / "build"
    told = run("cmake", "-S", tmp_path, "-B", folder, f"-DMILLRACE_DEVELOPER={developer()}", *FAST)
    of_cmake = re.compile(r"-- (.*CXX|Configuring|Generating|Build files)")
    assert [line for line in told.splitlines() if not of_cmake.match(line)] == []
    assert "CUDA_COMPILER" not in (folder / "CMakeCache.txt").read_text()
    built(tmp_path, folder)
    own_dataset(folder / "theirs")
    assert "libmillrace" not in run("readelf", "-d", folder / "theirs"), "static, unless BUILD_SHARED_LIBS"
    run("cmake", "--install", folder, "--prefix", tmp_path / "theirs")
    assert [path.name for path in (tmp_path / "theirs").rglob("*") if path.is_file()] == ["theirs"]
    told = run("cmake", "--build", folder, "--target", "help")
    targets = set(re.findall(r"^\.\.\. (\S+)", told, re.MULTILINE))
    assert "millrace_static" in targets and "_core" not in targets, targets
    assert not [name for name in targets if name.endswith("_test")]


@pytest.mark.parametrize("compiler", [CXX, CLANG], ids=["gcc", "clang"])
def test_headers_are_strict(compiler: str | None, prefix: Path, tmp_path: Path) -> None:
    """Each alone, with every warning an error, as installed."""
    if compiler is None:
        pytest.skip("this compiler is not here")
    torchs = {header for header in HEADERS if header.startswith(("torch", "device_"))}
    libtorch = [f"-isystem{path}" for path in torch.utils.cpp_extension.include_paths()]
    for header in HEADERS if (TORCH / "Torch").exists() else sorted({*HEADERS} - torchs):
        source = tmp_path / f"{Path(header).stem}.cpp"
        source.write_text(f"#include <millrace/{header}>\n#include <millrace/{header}>\n")
        more = libtorch if header in torchs else []
        run(compiler, *STRICT, "-fsyntax-only", f"-I{prefix}/include", *more, source)


@needs_torch
@pytest.mark.skipif(CXX is None, reason="no C++ compiler")
def test_the_pages_code_compiles(prefix: Path, tmp_path: Path) -> None:
    """The blocks of docs/cpp.md, as one function, in which later ones see the names of the first."""
    page = (ROOT / "docs/cpp.md").read_text()
    blocks = re.findall(r"^```cpp\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 4
    first, *others = (re.sub(r"^#include.*\n", "", block, flags=re.MULTILINE) for block in blocks)
    includes = re.findall(r"^#include .*", "".join(blocks), re.MULTILINE)
    source = tmp_path / "page.cpp"
    source.write_text(
        "\n".join([*includes, "#include <millrace/device_loader.h>", "void step(at::Tensor, at::Tensor);"])
        + f"\nvoid page() {{\n{first}\nLoader again(photos, {{.batch_size = 128}});\n"
        + "".join(f"{{\n{block}}}\n" for block in others)
        + "}\n"
    )
    libtorch = [f"-isystem{path}" for path in torch.utils.cpp_extension.include_paths()]
    run(CXX, "-std=c++20", "-Wall", "-Wextra", "-fsyntax-only", f"-I{prefix}/include", *libtorch, source)


@pytest.mark.skipif(CXX is None, reason="no C++ compiler")
def test_without_rtti_and_without_exceptions(prefix: Path, own_dataset, tmp_path: Path) -> None:
    source = EXAMPLES / "own_dataset/own_dataset.cpp"
    folder = next(prefix.rglob("libmillrace.so")).parent
    flags = [f"-I{prefix}/include", f"-L{folder}", f"-Wl,-rpath,{folder}"]
    run(CXX, *STRICT, "-fno-rtti", source, "-o", tmp_path / "program", *flags, "-lmillrace")
    own_dataset(tmp_path / "program")
    for header in ("millrace.h", "loader.h", "error.h", "dlpack.h"):
        source = tmp_path / "x.cpp"
        source.write_text(f"#include <millrace/{header}>\n")
        command = [CXX, "-std=c++20", "-fno-exceptions", "-fsyntax-only", *flags, source]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        assert "compile without -fno-exceptions" in done.stderr, header


def test_what_find_package_says(prefix: Path, tmp_path: Path) -> None:
    def answer(asked: str, *options: str) -> str:
        (tmp_path / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.22)\nproject(x LANGUAGES NONE)\n"
            f"find_package(millrace {asked})\n"
            'message(STATUS "found: ${millrace_FOUND} ${millrace_VERSION} cuda: ${millrace_cuda_FOUND}")\n'
        )
        command = [
            "cmake",
            "-S",
            tmp_path,
            "-B",
            tmp_path / "build",
            f"-DCMAKE_PREFIX_PATH={prefix}",
            *options,
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        return " ".join((done.stdout + done.stderr).split())

    assert "found: 1 0.1.0 cuda:" in answer("0.1 REQUIRED")
    assert "found: 1 0.1.0 cuda:" in answer("REQUIRED COMPONENTS core OPTIONAL_COMPONENTS cuda torch")
    assert "version: 0.1.0" in answer("0.2 REQUIRED") and "found:" not in answer("0.2 REQUIRED")
    assert "there are core, torch, cuda, shared and static" in answer("REQUIRED COMPONENTS gpu")
    assert "ask for the component shared, or for static" in answer("REQUIRED COMPONENTS shared static")
    hidden = "-DCMAKE_DISABLE_FIND_PACKAGE_Torch=ON"
    assert "add `python -c" in answer("REQUIRED COMPONENTS torch", hidden)
