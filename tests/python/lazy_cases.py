"""What the tests of lazy pictures share: Pillow with and without the recording, JPEGs of all kinds, calls
that are recorded, and results written down so that == compares them.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import random
import warnings
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from millrace._pictures import asking
from millrace._pictures.counts import PictureCounts
from pictures import jpeg_bytes, make_picture
from PIL import Image
from PIL.PngImagePlugin import PngInfo

FILTERS = ("NEAREST", "BOX", "BILINEAR", "HAMMING", "BICUBIC", "LANCZOS")
TURNS = tuple(Image.Transpose)


@contextlib.contextmanager
def lazy_pictures() -> Iterator[PictureCounts]:
    """All pictures of this process wait. Afterwards nothing of Pillow's or torchvision's is replaced."""
    counts = PictureCounts()
    asking.everywhere(counts)
    try:
        yield counts
    finally:
        asking.everywhere(None)
        asking.put_back()


def written(value: Any) -> Any:
    """A value as something that == compares: type, description and bytes."""
    if isinstance(value, Image.Image):
        about = (type(value), value.__class__.__name__, value.mode, value.size, value.format, value.readonly)
        return about, written(value.info), _digest(value.tobytes())
    if isinstance(value, torch.Tensor):
        plain = value.detach().as_subclass(torch.Tensor).contiguous()
        return type(value), plain.dtype, tuple(plain.shape), _digest(_bytes_of(plain))
    if isinstance(value, np.ndarray):
        return type(value), value.dtype, value.shape, value.flags.writeable, _digest(value.tobytes())
    if isinstance(value, (bytes, bytearray)) and len(value) > 64:
        return type(value), _digest(value)
    if isinstance(value, dict):
        return {key: written(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value), [written(part) for part in value]
    return value


def _bytes_of(tensor: torch.Tensor) -> bytes:
    return tensor.reshape(-1).view(torch.uint8).numpy().tobytes()


def _digest(data: bytes | bytearray) -> tuple[int, str]:
    return len(data), hashlib.blake2b(data, digest_size=12).hexdigest()


def outcome(function: Callable[[], Any]) -> Any:
    """Its value as written(), or its exception's type and text; and the warnings on the way."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            result: Any = "returned", written(function())
        except Exception as error:
            result = type(error), str(error)
    return result, [(warning.category, str(warning.message)) for warning in seen]


def seeded(function: Callable[[], Any], seed: int = 7) -> Any:
    """Its outcome() from seeded generators, and where it left them."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    result = outcome(function)
    return result, random.random(), float(np.random.rand()), float(torch.rand(()))


def that_raise(functions: dict[str, Callable[[], Any]]) -> set[str]:
    """Names of those that raise: same_lazily() passes where both sides fail in a test's own mistake."""
    return {name for name, function in functions.items() if outcome(function)[0][0] != "returned"}


def same_lazily(
    function: Callable[[], Any], opened: int | None = 1, run: Callable[[Callable[[], Any]], Any] = outcome
) -> PictureCounts:
    """Asserts that `function()` comes to the same with Pillow alone and with pictures that wait.

    `opened`: how many waited; None: any number. Returns what was counted.
    """
    alone = run(function)
    with lazy_pictures() as counts:
        lazy = run(function)
    assert lazy == alone
    assert opened is None or counts.opened == opened, counts.total()
    return counts


# ------------------------------------------------------------------ files


def with_sampling(data: bytes, luma: int, size: tuple[int, int]) -> bytes:
    """A file whose first component is sampled `luma` (as 0x41: four across, one down) and of another size.

    The entropy-coded data stays, so as many blocks must be in the new picture as were in the old.
    """
    changed = bytearray(data)
    frame = data.index(b"\xff\xc0")
    changed[frame + 5 : frame + 9] = size[1].to_bytes(2, "big") + size[0].to_bytes(2, "big")
    changed[frame + 11] = luma
    return bytes(changed)


def _with_orientation(picture: Image.Image, orientation: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = orientation, "a maker"
    return jpeg_bytes(picture, quality=85, exif=exif.tobytes(), dpi=(72, 72), comment=b"a comment")


def lazy_jpegs(width: int = 61, height: int = 45, seed: int = 5) -> dict[str, bytes]:
    """name -> file: all that waits."""
    photo = make_picture(width, height, seed)
    grey = photo.convert("L")
    files = {
        "420": jpeg_bytes(photo, quality=75, subsampling="4:2:0"),
        "422": jpeg_bytes(photo, quality=90, subsampling="4:2:2"),
        "444": jpeg_bytes(photo, quality=95, subsampling="4:4:4"),
        "coarse": jpeg_bytes(photo, quality=5),
        "finest": jpeg_bytes(photo, quality=100),
        "restarts": jpeg_bytes(photo, restart_marker_blocks=3),
        "restart rows": jpeg_bytes(photo, restart_marker_rows=1),
        "progressive": jpeg_bytes(photo, quality=90, progressive=True),
        "progressive 444": jpeg_bytes(photo, quality=90, progressive=True, subsampling="4:4:4"),
        "grey": jpeg_bytes(grey, quality=85),
        "grey progressive": jpeg_bytes(grey, quality=85, progressive=True),
        "grey restarts": jpeg_bytes(grey, restart_marker_blocks=5),
        "optimized": jpeg_bytes(photo, optimize=True),
        "rgb": jpeg_bytes(photo, keep_rgb=True),
        "profile": jpeg_bytes(photo, icc_profile=bytes(range(200))),
    }
    files |= {f"turned {n}": _with_orientation(photo, n) for n in (1, 2, 3, 4, 5, 6, 7, 8)}
    across, down = -(-width // 16), -(-height // 8)
    files["440"] = with_sampling(files["422"], 0x12, (8 * across - 3, 16 * down - 5))
    across, down = -(-width // 16), -(-height // 16)
    files["411"] = with_sampling(files["420"], 0x41, (32 * across - 5, 8 * down - 1))
    return files


def _chunk(kind: bytes, content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + kind + content + zlib.crc32(kind + content).to_bytes(4, "big")


def decoded_files(width: int = 61, height: int = 45, seed: int = 6) -> dict[str, bytes]:
    """name -> PNG or WebP: all that waits, once it is decoded."""
    photo = make_picture(width, height, seed)

    def saved(picture: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
        file = io.BytesIO()
        picture.save(file, kind, **options)
        return file.getvalue()

    exif, texts = Image.Exif(), PngInfo()
    exif[0x0112] = 6
    texts.add_text("author", "somebody")
    texts.add_itxt("title", "a title", zip=True)
    plain = saved(photo)
    data = plain.index(b"IDAT") - 4
    length = int.from_bytes(plain[data : data + 4], "big")
    content, end = plain[data + 8 : data + 8 + length], plain[data + 12 + length :]
    pieces = b"".join(_chunk(b"IDAT", content[at : at + 1000]) for at in range(0, length, 1000))
    return {
        "png": plain,
        "png grey": saved(photo.convert("L")),
        "png stored": saved(photo, compress_level=0),
        "png turned 6": saved(photo, exif=exif, dpi=(72, 72)),
        "png with texts": saved(photo, pnginfo=texts, icc_profile=bytes(range(200))),
        "png transparent": saved(photo, transparency=photo.getpixel((5, 5))),
        "png grey transparent": saved(photo.convert("L"), transparency=77),
        "png in pieces": plain[:data] + pieces + end,
        "png with texts behind": plain[:-12] + _chunk(b"tEXt", b"late\0a text") + end,
        "png with bytes behind": plain + b"some bytes behind the end",
        "webp": saved(photo, "WEBP"),
        "webp lossless": saved(photo, "WEBP", lossless=True),
        "webp turned 6": saved(photo, "WEBP", exif=exif, icc_profile=bytes(range(200))),
    }


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


# ------------------------------------------------------------------ calls that are recorded

Call = Callable[[Image.Image], Image.Image]
_part = st.floats(0, 1, width=32)
_side = st.integers(1, 90)


def _crop(left: float, top: float, right: float, bottom: float, beyond: int) -> Call:
    def crop(image: Image.Image) -> Image.Image:
        width, height = image.size
        xs, ys = sorted((left, right)), sorted((top, bottom))
        box = (
            int(xs[0] * width) - beyond,
            int(ys[0] * height) - beyond,
            int(xs[1] * width) + 1 + beyond,
            int(ys[1] * height) + 1,
        )
        return image.crop(box)

    return crop


def _resize(width: int, height: int, kind: str, box: tuple[float, float, float, float] | None) -> Call:
    def resize(image: Image.Image) -> Image.Image:
        part = None
        if box is not None:
            (x0, x1), (y0, y1) = sorted((box[0], box[1])), sorted((box[2], box[3]))
            part = (
                x0 * (image.width - 1),
                y0 * (image.height - 1),
                x1 * (image.width - 1) + 1,
                y1 * (image.height - 1) + 1,
            )
        return image.resize((width, height), Image.Resampling[kind], part)

    return resize


calls: st.SearchStrategy[Call] = st.one_of(
    st.builds(_crop, _part, _part, _part, _part, st.sampled_from([0, 0, 0, 3])),
    st.builds(_resize, _side, _side, st.sampled_from(FILTERS), st.none() | st.tuples(*[_part] * 4)),
    st.sampled_from(TURNS).map(lambda method: lambda image: image.transpose(method)),
    st.sampled_from(["RGB", "L"]).map(lambda mode: lambda image: image.convert(mode)),
    st.just(lambda image: image.copy()),
    st.just(lambda image: (image.load(), image)[1]),
)
chains: st.SearchStrategy[list[Call]] = st.lists(calls, max_size=6)


def through(image: Image.Image, chain: list[Call]) -> Image.Image:
    for call in chain:
        image = call(image)
    return image


# ------------------------------------------------------------------ loaders

PROCESSES = {"num_workers": 2, "multiprocessing_context": "fork"}
WAYS: dict[str, dict[str, Any]] = {  # millrace's arguments
    "inline": {"num_workers": 0},
    "fork": {**PROCESSES, "worker_method": "process"},
    "spawn": {**PROCESSES, "multiprocessing_context": "spawn", "worker_method": "process"},
    "threads": {"num_workers": 2, "worker_method": "thread"},
}


def epochs(loader: Any, seed: int = 5, count: int = 1) -> list[Any]:
    """All batches as written(), and the next number of torch's generator."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    batches = [written(batch) for _ in range(count) for batch in loader]
    return [*batches, float(torch.rand(()))]


def same_batches(dataset: Any, way: str = "inline", count: int = 1, **options: Any) -> dict[str, Any]:
    """Asserts that millrace's batches are torch's, with and without lazy pictures.

    Returns `stats()["pictures"]` of the lazy loader: of the last epoch, or of all where workers persist.
    """
    import millrace

    options = {"batch_size": 4, **options}
    theirs = {name: value for name, value in WAYS[way].items() if name != "worker_method"}
    expected = epochs(torch.utils.data.DataLoader(dataset, **theirs, **options), count=count)
    pillow = millrace.DataLoader(dataset, **WAYS[way], **options, pictures="pillow")
    assert epochs(pillow, count=count) == expected
    assert pillow.stats()["pictures"]["opened"] == 0
    lazy = millrace.DataLoader(dataset, **WAYS[way], **options, pictures="lazy")
    assert epochs(lazy, count=count) == expected
    return lazy.stats()["pictures"]
