"""Damaged pictures: refused where Pillow refuses, else what Pillow shows (the long run: tests/fuzz)."""

import warnings

import against_pillow
import pytest
import torch
from millrace import CorruptDataError, DataLoader, _core, transforms
from millrace.datasets import ImageFolder, pillow_decode
from picture_mutants import segments, sound_files, without_last_scans
from pictures import jpeg_bytes, make_picture
from PIL import ImageFile
from pillow_pixels import compare_with_pillow

KINDS = {
    "420": {"subsampling": "4:2:0"},
    "444": {"subsampling": "4:4:4"},
    "restarts": {"restart_marker_blocks": 3},
    "progressive": {"progressive": True},
    "grey": {"mode": "L"},
    "cmyk": {"mode": "CMYK"},
}


def photo(kind, size=(96, 80)):
    options = dict(KINDS[kind])
    return jpeg_bytes(make_picture(*size, seed=3, mode=options.pop("mode", "RGB")), quality=90, **options)


def row(tmp_path, data, *stages):
    folder = tmp_path / "one" / "class"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "f.jpg").write_bytes(data)
    return ImageFolder(tmp_path / "one", transforms.Compose([*stages, transforms.PILToTensor()])).at(0, 0, 0)[
        0
    ]


def test_some_hundred_mutants_under_every_policy():
    table = against_pillow.run(600, seed=18, tars_each=1)
    assert not table.violations(), [
        f"{what}: {mutant.seed}, {mutant.mutation}" for what, mutant in table.wrong
    ]
    assert table.total("pictures", "raise") == 600 and 60 < table.total("refused", "raise") < 400
    assert {key[2] for key in table.counts} == {"raise", "replace", "skip", "crops", "stream", "indexed"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_marker_inside_the_scan_is_judged_by_pillow(tmp_path, kind):
    """0x40: libjpeg fills the rest with grey and then refuses the marker on its way to the end."""
    data = bytearray(photo(kind))
    begin, end = next((begin, end) for marker, begin, end in segments(bytes(data)) if marker == 0xDA)
    refused = 0
    for marker in (0x01, 0x40, 0xC0, 0xC4, 0xD3, 0xD9, 0xFE):
        at = (begin + 2 * end) // 3
        data[at : at + 2] = bytes([0xFF, marker])
        refused += not compare_with_pillow(tmp_path, bytes(data), "f.jpg")
    assert refused >= 2


def test_progressive_pictures_that_lack_scans_are_pillows(tmp_path):
    whole = photo("progressive")
    scans = sum(marker == 0xDA for marker, _, _ in segments(whole))
    for kept in range(1, scans + 1):
        data = without_last_scans(whole, kept)
        assert compare_with_pillow(tmp_path, data, "f.jpg"), kept
        assert (_core.decode_image(data) is None) == (kept < scans), "left to Pillow"


def test_sound_files_are_not_left_to_pillow():
    for name, data in sound_files()["jpeg"].items():
        odd = "unfinished" in name or "padded" in name
        assert (_core.decode_image(data) is None) == odd, name


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lost", [1, 2, 3, 20, 300])
def test_truncated_pictures_follow_pillows_switch(tmp_path, kind, lost, monkeypatch):
    data = photo(kind)[:-lost]
    refused = not compare_with_pillow(tmp_path, data, "f.jpg")
    assert refused or lost < 20
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    assert compare_with_pillow(tmp_path, data, "f.jpg")
    assert row(tmp_path, data, transforms.Resize((20, 20))).shape == (3, 20, 20)


def test_what_pillow_reads_besides_libjpeg(tmp_path):
    """Segments that libjpeg skips, and for which Pillow refuses a file."""
    data = photo("420")

    def with_segment(marker, content):
        return data[:2] + bytes([0xFF, marker]) + (2 + len(content)).to_bytes(2, "big") + content + data[2:]

    refused = [
        compare_with_pillow(tmp_path, with_segment(*segment), "f.jpg")
        for segment in [
            (0xEE, b"Adobe"),
            (0xE2, b"ICC_PROFILE\0"),
            (0xED, b"Photoshop 3.0\x008BIM\4\4"),
            (0xE0, b"JFIF\0"),
            (0xF1, b""),
            (0xFE, b"a comment"),
        ]
    ]
    assert refused == [False, False, False, False, False, True]
    assert not compare_with_pillow(tmp_path, data[:2] + b"\xff\x01" + data[2:], "f.jpg")
    assert compare_with_pillow(tmp_path, data[:20] + b"junk" + data[20:], "f.jpg"), "behind JFIF"
    assert not compare_with_pillow(tmp_path, data[:-2] + b"\xff\xc8\xff\xd9", "f.jpg"), (
        "an unknown frame behind the last row"
    )


def test_a_bomb_of_scans_is_not_left_to_pillow(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(pillow_decode, "decode_with_pillow", lambda data, name: asked.append(name))
    data = photo("progressive")
    begin, end = [(begin, end) for marker, begin, end in segments(data) if marker == 0xDA][-1]
    for scans in (400, 600):
        with pytest.raises(CorruptDataError):
            row(tmp_path, data[:begin] + data[begin:end] * scans + b"\xff\xd9")
        assert len(asked) == 1, "of 400 scans, not of 600"


def test_skip_leaves_out_what_pillow_refuses(tmp_path):
    for i in range(12):
        data = bytearray(photo("420", (60 + i, 50)))
        if i % 3 == 0:
            at = len(data) * 3 // 4
            data[at : at + 2] = b"\xff\x40"
        (tmp_path / f"{i:02}").mkdir()
        (tmp_path / f"{i:02}" / "f.jpg").write_bytes(data)
    for stage in (transforms.Resize((20, 20)), transforms.RandomResizedCrop(20, scale=(0.05, 0.1))):
        loader = DataLoader(
            ImageFolder(tmp_path, transforms.Compose([stage, transforms.ToTensor()])),
            4,
            num_workers=2,
            on_error="skip",
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            labels = torch.cat([labels for _, labels in loader]).tolist()
        assert sorted(labels) == [i for i in range(12) if i % 3], stage
        assert sorted(error["index"] for error in loader.stats()["errors"]) == [0, 3, 6, 9]
