"""src/README.md says how to add a transform: each recipe is followed in a copy of the house, and used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from repo_tree import ROOT

pytestmark = pytest.mark.slow

#: {file: [(text of the file, what stands there afterwards)]}; no text: a new file.
Changes = dict[str, list[tuple[str, str]]]

VALUES: Changes = {
    "include/millrace/augment_policy.h": [
        ("  invert,\n", "  invert,\n  halve,\n"),
        ('"invert", ', '"invert", "halve", '),
    ],
    "src/transforms/ops/halve.h": [
        (
            "",
            """// Halve: each byte becomes half of it.
#pragma once

#include "transforms/ops/pixel_op.h"

namespace millrace::transforms {

struct Halve : EachByte<Halve> {
  static constexpr AugmentKind kind = AugmentKind::halve;
  static PixelAmount amount(double) { return {}; }
  MILLRACE_BOTH static int32_t byte(int32_t v, PixelAmount) { return v / 2; }
};

}  // namespace millrace::transforms
""",
        )
    ],
    "src/transforms/ops/pixel_ops.h": [
        (
            '#include "transforms/ops/hue.h"',
            '#include "transforms/ops/halve.h"\n#include "transforms/ops/hue.h"',
        ),
        ("PixelOpList<Brightness, ", "PixelOpList<Brightness, Halve, "),
    ],
    "python/millrace/transforms/operations.py": [
        ('"RandomInvert",', '"RandomInvert",\n    "RandomHalve",'),
        (
            "class RandomInvert(",
            '''class RandomHalve(PictureOperation):
    """Half of each byte, with probability `p`."""

    kind, of_picture = "halve", lambda picture: picture.point(lambda v: v // 2)


class RandomInvert(''',
        ),
    ],
    "python/millrace/transforms/__init__.py": [
        (".operations: ", ".operations: RandomHalve\n    .operations: ")
    ],
}

GEOMETRY: Changes = {
    "include/millrace/transform_spec.h": [
        (
            "struct ExifTranspose {",
            "struct RandomShift {\n  double p = 0.5, pixels = 0;\n};\nstruct ExifTranspose {",
        ),
        ("ExifTranspose, DrawnResize,", "ExifTranspose, RandomShift, DrawnResize,"),
    ],
    "src/transforms/ops/random_shift.h": [
        (
            "",
            """// RandomShift: moves the picture to the right; the left edge repeats.
#pragma once

#include "transforms/ops/operation.h"

namespace millrace::transforms {

template <>
struct Operation<RandomShift> {
  static constexpr const char *name = "RandomShift", *key = "random_shift";

  static void fields(auto& f, auto& t) { f("p", t.p)("pixels", t.pixels); }
  static void check(const RandomShift& t, const Check& check) { check.probability(t.p); }
  static void draw(const RandomShift& t, Draw& draw) { draw.applies(t.p); }
  static void plan(const RandomShift& t, const OpParams& decided, PictureSize in, PictureSteps& to) {
    const auto left = -static_cast<int32_t>(t.pixels);
    if (decided.applied)
      to.push_back(MoveStep{{left, 0, in.width, in.height}, false, false, PaddingMode::edge, {}});
  }
  static void describe(auto& f, const OpParams& decided) { f("applied", decided.applied); }
};

}  // namespace millrace::transforms
""",
        )
    ],
    "src/transforms/ops/operations.h": [
        (
            '#include "transforms/ops/resize.h"',
            '#include "transforms/ops/random_shift.h"\n#include "transforms/ops/resize.h"',
        )
    ],
    "python/millrace/transforms/warp.py": [
        (
            "class RandomRotation(",
            '''class RandomShift(Transform):
    """`pixels` to the right with probability `p`; the left edge repeats."""

    def __init__(self, pixels: float, p: float = 0.5) -> None:
        super().__init__()
        self.pixels, self.p = pixels, p

    def transform(self, inpt: Picture, params: dict[str, Any]) -> Picture:
        width, height = inpt.size
        return inpt.transform((width, height), 0, (-self.pixels, 0, width - self.pixels, height))


class RandomRotation(''',
        )
    ],
    "python/millrace/transforms/__init__.py": [(".warp: ", ".warp: RandomShift\n    .warp: ")],
    "python/millrace/transforms/__init__.pyi": [
        (
            "from .warp import RandomAffine",
            "from .warp import RandomShift as RandomShift\nfrom .warp import RandomAffine",
        )
    ],
    "python/millrace/_common/lowering/geometry.py": [
        ('    "Pad": _pad,', '    "RandomShift": by_fields("random_shift"),\n    "Pad": _pad,')
    ],
}

PROGRAM = """
import numpy, pathlib, sys, torch
from PIL import Image
from millrace import DataLoader, transforms as T
from millrace.datasets import ImageFolder

folder = pathlib.Path(sys.argv[1])
pixels = numpy.random.default_rng(0).integers(0, 256, (20, 30, 3), numpy.uint8)
for number in range(4):
    (folder / "c").mkdir(parents=True, exist_ok=True)
    Image.fromarray(numpy.roll(pixels, number)).save(folder / "c" / f"{number}.png")

def batch(*steps):
    loader = DataLoader(ImageFolder(folder, T.Compose([*steps, T.PILToTensor()])), 4, num_workers=1)
    assert "transform: native" in str(loader.explain()), loader.explain()
    return next(iter(loader))[0]

plain = batch()
assert torch.equal(batch(T.RandomHalve(1.0)), plain // 2)
assert torch.equal(batch(T.RandomHalve(1.0), T.RandomInvert(1.0)), 255 - plain // 2)
with Image.open(folder / "c" / "0.png") as picture:
    assert torch.equal(T.PILToTensor()(T.RandomHalve(1.0)(picture)), plain[0] // 2)
shifted = batch(T.RandomShift(7.0, 1.0))
assert torch.equal(shifted[..., 7:], plain[..., :-7]) and bool((shifted[..., :7] == plain[..., :1]).all())
assert torch.equal(batch(T.RandomShift(7.0, 0.0)), plain)
"""


def follow(changes: Changes, copy: Path) -> None:
    for name, edits in changes.items():
        path = copy / name
        text = path.read_text() if path.exists() else ""
        for old, new in edits:
            assert text.count(old) >= 1, f"{name} has not: {old}"
            text = text.replace(old, new, 1)
        path.write_text(text)


def run(*command: object, **options: object) -> None:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


def test_a_transform_is_few_files(tmp_path: Path) -> None:
    assert len(VALUES) <= 5 and len(GEOMETRY) <= 7
    copy = tmp_path / "copy"
    run("git", "clone", "-q", ROOT, copy)
    changed = subprocess.run(["git", "diff", "HEAD", "--binary"], cwd=ROOT, capture_output=True, check=True)
    subprocess.run(["git", "apply", "--allow-empty"], cwd=copy, input=changed.stdout, check=True)
    follow(VALUES, copy)
    follow(GEOMETRY, copy)
    options = ["-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS_RELEASE=-O1", "-DMILLRACE_PYTHON=ON"]
    options += ["-DMILLRACE_CUDA=OFF", f"-DCMAKE_LIBRARY_OUTPUT_DIRECTORY={copy / 'python/millrace'}"]
    run(
        "cmake",
        "-S",
        copy,
        "-B",
        copy / "build",
        "-G",
        "Ninja",
        f"-DPython_EXECUTABLE={sys.executable}",
        *options,
    )
    run("ninja", "-C", copy / "build", "_core")
    program = [sys.executable, "-c", PROGRAM, tmp_path / "photos"]
    run(*program, env={**os.environ, "PYTHONPATH": str(copy / "python")}, cwd=tmp_path)
