"""PNG texts and colour profiles: of those beyond Pillow's limits, which a script may set, Pillow decides."""

import random
import zlib

import numpy as np
import pytest
import torch
from millrace import CorruptDataError, DataLoader, _core, transforms
from millrace.datasets import ImageFolder
from PIL import Image, ImageFile, PngImagePlugin
from png_files import chunk, png, samples

MIB = 1 << 20


def bytes_that_stay(count):
    """Which deflate makes no smaller."""
    return random.Random(1).randbytes(count)


def zero_ended(*parts):
    return b"\0".join(parts)


def compressed(name, plain, method=0, cut=None):
    head = {b"iCCP": b"profile\0", b"zTXt": b"key\0", b"iTXt": b"key\0\1"}[name] + bytes([method])
    return chunk(name, head + (b"\0\0" if name == b"iTXt" else b"") + zlib.compress(plain)[:cut])


def places():
    """name: (before the pixels, behind them)"""
    for name in (b"iCCP", b"zTXt", b"iTXt"):
        text = name.decode()
        for size in (MIB - 1, MIB, MIB + 1, 3 * MIB):
            yield f"{text} of {size}", (compressed(name, b"a" * size), b"")
            yield f"{text} of {size}, behind", (b"", compressed(name, b"a" * size))
        yield f"{text} that deflates badly", (compressed(name, bytes_that_stay(40_000)), b"")
        yield f"{text} cut short", (compressed(name, bytes_that_stay(5000), cut=3000), b"")
        yield f"{text} cut to nothing", (compressed(name, b"", cut=0), b"")
        yield f"{text}, more behind its end", (compressed(name, b"a" * 9)[:-4] + b"", b"")
        for method in (1, 9, 255):
            yield f"{text} by method {method}", (compressed(name, b"a" * 90, method), b"")
    yield "iCCP without a name's end", (chunk(b"iCCP", b"profile"), b"")
    yield "iCCP that is empty", (chunk(b"iCCP"), b"")
    yield "zTXt of a key alone", (chunk(b"zTXt", b"key"), b"")
    yield "zTXt of a key and its end", (chunk(b"zTXt", b"key\0"), b"")
    yield "iTXt of a key alone", (chunk(b"iTXt", b"key\0\1"), b"")
    yield (
        "iTXt in two languages",
        (chunk(b"iTXt", zero_ended(b"key", b"\1", b"de", b"wort") + zlib.compress(b"a" * 3000)), b""),
    )
    yield "many short zTXt", (b"".join(compressed(b"zTXt", b"a" * 200_000) for _ in range(9)), b"")
    yield "5 MiB of tEXt", (b"".join(chunk(b"tEXt", b"k%d\0" % i + b"x" * MIB) for i in range(5)), b"")
    yield "5 MiB of zTXt behind", (b"", b"".join(compressed(b"zTXt", b"x" * (MIB - 9)) for _ in range(5)))


def by_pillow(path):
    try:
        with Image.open(path) as image:
            return torch.from_numpy(np.array(image.convert("RGB"))).permute(2, 0, 1)
    except Exception as error:
        return error


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root, noise = tmp_path_factory.mktemp("texts"), np.random.default_rng(3)
    (root / "class").mkdir()
    for number, (_, (before, behind)) in enumerate(places()):
        data = png(samples(noise, 9, 7, 8, 2), 8, 2, noise, before=before, behind=behind)
        (root / "class" / f"{number:03}.png").write_bytes(data)
    return root


@pytest.mark.parametrize(
    ("chunk_bytes", "all_bytes", "truncated", "workers"),
    [
        (MIB, 64 * MIB, False, 2),
        (MIB, 64 * MIB, True, 0),
        (4 * MIB, 4 * MIB, False, 0),
        (100, 64 * MIB, False, 2),
        (100, 64 * MIB, True, 2),
        (0, 0, False, 0),
        (MIB, 1000, False, 0),
    ],
)
def test_pillow_decides_by_the_scripts_limits(
    folder, monkeypatch, chunk_bytes, all_bytes, truncated, workers
):
    monkeypatch.setattr(PngImagePlugin, "MAX_TEXT_CHUNK", chunk_bytes)
    monkeypatch.setattr(PngImagePlugin, "MAX_TEXT_MEMORY", all_bytes)
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", truncated)
    dataset = ImageFolder(folder, transforms.PILToTensor())
    batches = iter(DataLoader(dataset, 1, num_workers=workers, native="require"))
    verdicts = []
    for (path, _), (name, _) in zip(dataset.samples, places(), strict=True):
        expected = by_pillow(path)
        verdicts.append(isinstance(expected, Exception))
        if verdicts[-1]:
            with pytest.raises(CorruptDataError):
                next(batches)
        else:
            assert torch.equal(next(batches)[0][0], expected), name
    assert any(verdicts) and not all(verdicts)


def test_limits_that_change_between_epochs_count(folder, monkeypatch):
    dataset = ImageFolder(folder, transforms.PILToTensor())
    dataset.samples = [
        sample for sample, (name, _) in zip(dataset.samples, places()) if name == f"zTXt of {3 * MIB}"
    ]
    loader = DataLoader(dataset, 1, num_workers=1)
    for limit, is_picture in [(MIB, False), (4 * MIB, True), (MIB, False)]:
        monkeypatch.setattr(PngImagePlugin, "MAX_TEXT_CHUNK", limit)
        if is_picture:
            assert len(list(loader)) == 1
            dataset.at(0, 0, 0)
        else:
            with pytest.raises(CorruptDataError, match="MAX_TEXT_CHUNK"):
                list(loader)
            with pytest.raises(CorruptDataError, match="MAX_TEXT_CHUNK"):
                dataset.at(0, 0, 0)


def test_usual_profiles_and_texts_are_decoded_natively():
    noise = np.random.default_rng(4)
    for before in [
        compressed(b"iCCP", bytes_that_stay(3000)),
        compressed(b"iCCP", b"a" * 100_000),
        compressed(b"zTXt", bytes_that_stay(500_000)),
        compressed(b"iTXt", b"a" * 1000),
        chunk(b"tEXt", b"parameters\0" + b"a photo of " * 100_000),
        b"".join(compressed(b"zTXt", b"a" * 50_000) for _ in range(20)),
    ]:
        assert _core.decode_image(png(samples(noise, 9, 7, 8, 2), 8, 2, noise, before=before)) is not None
