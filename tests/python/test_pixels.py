"""Pixels: what the engine makes of varied JPEGs against Pillow's open, convert, crop and resize of the same
boxes.

The boxes come from `ds.draw`. What is asked: never more than one level apart, and identical where Pillow
resizes horizontally first, as it did for years (newer Pillow starts vertically for some tall crops).
"""

import numpy as np
import pytest
import torch
from millrace import transforms
from millrace.datasets import ImageFolder
from pictures import jpeg_bytes, make_picture
from PIL import Image, ImageOps
from pillow_facts import PILLOW, begins_down, skip_before

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
PER_KIND = 36


def patched_440(random, width, height, **options):
    """4:4:0, which Pillow cannot write, from 4:2:2: both store two brightness blocks and one of each colour
    per unit, here side
    by side, there below each other, so changing the frame header turns one into a valid file of the other.
    """
    columns, rows = -(-width // 8), -(-height // 16)
    target = np.asarray(make_picture(8 * columns, 16 * rows, int(random.integers(1 << 30))))
    units = target.reshape(
        rows, 2, 8, columns, 8, 3
    )  # row of units, upper or lower block, y, column of units, x, colour
    source = units.transpose(0, 2, 3, 1, 4, 5).reshape(8 * rows, 16 * columns, 3)
    data = bytearray(jpeg_bytes(Image.fromarray(source), subsampling="4:2:2", **options))
    frame = data.index(b"\xff\xc0")
    assert data[frame + 11] == 0x21
    data[frame + 5 : frame + 9] = height.to_bytes(2, "big") + width.to_bytes(2, "big")
    data[frame + 11] = 0x12
    return bytes(data)


def patched_ycck(picture, **options):
    """YCCK, which Pillow cannot write, from CMYK: the Adobe marker says what the four components mean."""
    data = bytearray(jpeg_bytes(picture.convert("CMYK"), **options))
    data[data.index(b"Adobe") + 11] = 2
    return bytes(data)


def exif(orientation):
    tags = Image.Exif()
    tags[0x0112] = orientation
    return tags


KINDS = {
    "420": lambda r, p, o: jpeg_bytes(p, subsampling="4:2:0", **o),
    "422": lambda r, p, o: jpeg_bytes(p, subsampling="4:2:2", **o),
    "444": lambda r, p, o: jpeg_bytes(p, subsampling="4:4:4", **o),
    "440": lambda r, p, o: patched_440(r, *p.size, **o),
    "grey": lambda r, p, o: jpeg_bytes(p.convert("L"), **o),
    "cmyk": lambda r, p, o: jpeg_bytes(p.convert("CMYK"), **o),
    "ycck": lambda r, p, o: patched_ycck(p, **o),
    "rgb": lambda r, p, o: jpeg_bytes(p, keep_rgb=True, **o),
    "progressive_420": lambda r, p, o: jpeg_bytes(p, progressive=True, subsampling="4:2:0", **o),
    "progressive_444": lambda r, p, o: jpeg_bytes(p, progressive=True, subsampling="4:4:4", **o),
    "exif": lambda r, p, o: jpeg_bytes(p, exif=exif(int(r.integers(1, 9))), **o),
    "optimised": lambda r, p, o: jpeg_bytes(p, optimize=True, **o),
    "restart_blocks": lambda r, p, o: jpeg_bytes(p, restart_marker_blocks=int(r.integers(1, 9)), **o),
    "restart_rows": lambda r, p, o: jpeg_bytes(p, restart_marker_rows=1, **o),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """root/kind/NN.jpg: most sizes like thumbnails of photos, a quarter tiny; qualities from 25 to 98."""
    root = tmp_path_factory.mktemp("pixels")
    random = np.random.default_rng(11)
    for kind, encode in KINDS.items():
        (root / kind).mkdir()
        for i in range(PER_KIND):
            low, high = (1, 40) if i % 4 == 0 else (60, 300)
            width, height = (int(side) for side in random.integers(low, high, 2))
            picture = make_picture(width, height, int(random.integers(1 << 30)))
            (root / kind / f"{i:02}.jpg").write_bytes(
                encode(random, picture, {"quality": int(random.integers(25, 99))})
            )
    return str(root)


class Tally:
    """Counts of compared crops."""

    def __init__(self):
        self.crops = self.identical = self.horizontal = self.identical_horizontal = 0
        self.worst = 0.0

    def add(self, levels, identical, horizontal_first):
        self.crops += 1
        self.identical += identical
        self.horizontal += horizontal_first
        self.identical_horizontal += identical and horizontal_first
        self.worst = max(self.worst, levels)

    def check(self, name, capsys):
        with capsys.disabled():
            print(
                f"\n  {name}: {self.crops} crops, max difference {self.worst:.3f} levels, {self.identical}"
                f" identical; {self.identical_horizontal} of {self.horizontal} that Pillow resizes"
                " horizontally first"
            )
        assert self.worst <= 1.001
        assert self.horizontal >= 0.5 * self.crops
        assert self.identical_horizontal >= 0.99 * self.horizontal


def pillow_resize(crop, size, resampling):
    """(what Pillow 13 gives, whether it resized horizontally first)."""
    height, width = size
    if PILLOW < (13, 0) and begins_down(crop.size, (width, height)):
        result = crop.resize((crop.width, height), resampling).resize((width, height), resampling)
    else:
        result = crop.resize((width, height), resampling)
    in_two_steps = crop.resize((width, crop.height), resampling).resize((width, height), resampling)
    return result, result.tobytes() == in_two_steps.tobytes()


def levels_apart(row, expected):
    """By numpy: torch's threads for such small tensors wait for each other longer than they work."""
    return int(np.abs(row.numpy().astype(np.int16) - expected.numpy().astype(np.int16)).max())


def expected_row(picture, decisions, size, resampling):
    """(H x W x 3 bytes by Pillow, whether it resized horizontally first)."""
    box, *flips = decisions
    crop = picture.crop((box["left"], box["top"], box["left"] + box["width"], box["top"] + box["height"]))
    result, horizontal_first = pillow_resize(crop, size, resampling)
    for flip in flips:
        if flip["flip"]:
            result = ImageOps.mirror(result) if flip["op"] == "horizontal_flip" else ImageOps.flip(result)
    return torch.from_numpy(np.array(result)).permute(2, 0, 1), horizontal_first


def test_normalised_random_crops(folder, capsys):
    normalize = transforms.Normalize(MEAN, STD)
    data = ImageFolder(
        folder,
        transforms.Compose(
            [
                transforms.RandomResizedCrop(64),
                transforms.RandomHorizontalFlip(),
                transforms.ToTensor(),
                normalize,
            ]
        ),
    )
    assert len(data) >= 500
    levels_per_unit = 255 * torch.tensor(STD).view(3, 1, 1)
    tally, flips = Tally(), 0
    for i, (path, label) in enumerate(data.samples):
        picture = Image.open(path).convert("RGB")
        for seed in range(2):
            row, target = data.at(i, seed, epoch=1)
            assert target == label and row.dtype == torch.float32
            decisions = data.draw(i, seed, epoch=1)
            assert [d["op"] for d in decisions] == ["random_resized_crop", "horizontal_flip"]
            flips += decisions[1]["flip"]
            pixels, horizontal_first = expected_row(picture, decisions, (64, 64), Image.BILINEAR)
            expected = normalize(pixels.float().div(255))
            worst = ((row - expected).abs() * levels_per_unit).max().item()
            tally.add(worst, torch.equal(row, expected), horizontal_first)
            if worst > 1.001:
                print(path, picture.size, decisions, worst)
    tally.check("RandomResizedCrop(64), bilinear, normalised", capsys)
    assert 0.4 < flips / tally.crops < 0.6


def test_bicubic_crops_as_bytes(folder, capsys):
    data = ImageFolder(
        folder,
        transforms.Compose(
            [
                transforms.RandomResizedCrop(
                    (50, 71), scale=(0.02, 1.0), ratio=(0.4, 2.5), interpolation="bicubic"
                ),
                transforms.RandomVerticalFlip(),
                transforms.PILToTensor(),
            ]
        ),
    )
    tally = Tally()
    for i, (path, _) in enumerate(data.samples):
        row, _ = data.at(i, 7, 0)
        assert row.dtype == torch.uint8
        pixels, horizontal_first = expected_row(
            Image.open(path).convert("RGB"), data.draw(i, 7, 0), (50, 71), Image.BICUBIC
        )
        worst = levels_apart(row, pixels)
        tally.add(worst, torch.equal(row, pixels), horizontal_first)
        if worst > 1:
            print(path, worst)
    tally.check("RandomResizedCrop(50, 71), bicubic, bytes", capsys)


@pytest.mark.parametrize(
    "chain",
    [
        [transforms.Resize(72), transforms.CenterCrop(64)],
        [transforms.Resize((40, 90), interpolation="bicubic")],
        [transforms.Resize(30, max_size=40)],
        [transforms.Resize(33, interpolation="nearest")],
        [transforms.CenterCrop((80, 200))],
    ],
    ids=str,
)
def test_fixed_chains(folder, capsys, chain):
    if "40, 90" in str(chain):
        skip_before(13, "a resize may begin with the rows, which bicubic pixels tell")
    chain = transforms.Compose([*chain, transforms.ToImage()])
    data = ImageFolder(folder, chain)
    differing = 0
    chosen = range(0, len(data), 3)
    for i in chosen:
        row, _ = data.at(i, 0, 0)
        expected = chain(Image.open(data.samples[i][0]).convert("RGB"))
        assert row.shape == expected.shape
        assert levels_apart(row, expected) <= 1, data.samples[i]
        differing += not torch.equal(row, expected)
    with capsys.disabled():
        print(f"\n  {differing} of {len(chosen)} pictures differ by one level somewhere")
    assert differing <= 0.1 * len(chosen)


@pytest.mark.parametrize(
    "options",
    [
        {"size": 50, "pad_if_needed": True},
        {"size": (40, 60), "padding": 30, "fill": (10, 20, 30), "pad_if_needed": True},
        {"size": 48, "padding": [9, 3, 11, 5], "padding_mode": "edge", "pad_if_needed": True},
    ],
    ids=str,
)
def test_random_crops_with_padding(folder, options):
    crop = transforms.RandomCrop(**options)
    data = ImageFolder(folder, transforms.Compose([crop, transforms.PILToTensor()]))
    for i in range(0, len(data), 2):
        row, _ = data.at(i, 1, 2, occurrence=3)
        (box,) = data.draw(i, 1, 2, occurrence=3)
        picture = Image.open(data.samples[i][0]).convert("RGB")
        torch.manual_seed(0)
        expected = crop.transform(
            picture, {**crop.make_params([picture]), "top": box["top"], "left": box["left"]}
        )
        assert (box["height"], box["width"]) == tuple(crop.size)
        assert torch.equal(row, transforms.PILToTensor()(expected)), (data.samples[i], box)


def test_whole_pictures_are_identical(folder):
    data = ImageFolder(folder, transforms.PILToTensor())
    for i, (path, _) in enumerate(data.samples[::2]):
        assert torch.equal(
            data.at(2 * i, 0, 0)[0], transforms.PILToTensor()(Image.open(path).convert("RGB"))
        ), path


def test_exif_orientation_on_request(folder):
    chain = transforms.Compose([transforms.RandomResizedCrop(32), transforms.PILToTensor()])
    data = ImageFolder(folder, chain, exif=True)
    seen = set()
    for i in [i for i, target in enumerate(data.targets) if data.classes[target] == "exif"]:
        stored = Image.open(data.samples[i][0])
        upright = ImageOps.exif_transpose(stored).convert("RGB")
        box = [d for d in data.draw(i, 5, 0) if d["op"] == "random_resized_crop"]
        pixels, _ = expected_row(upright, box, (32, 32), Image.BILINEAR)
        assert levels_apart(data.at(i, 5, 0)[0], pixels) <= 1
        seen.add(stored.getexif().get(0x0112, 1))
    assert seen == set(range(1, 9))
