"""What pack() reads: a Source hands out samples as files in memory, by their number or in one pass.

A folder of class folders is the plainest kind; each other has a file of its own beside this one, and
`opening` tells which SRC is.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from millrace import _core
from millrace._common.regular_files import open_regular
from millrace.datasets import IMG_EXTENSIONS
from millrace.errors import corrupt_data
from PIL import Image

_SUFFIXES = {"JPEG": "jpg", "PNG": "png", "WebP": "webp", "GIF": "gif", "BMP": "bmp", "TIFF": "tiff"}


class Source:
    """Samples in a fixed order. `classes`: names of the labels, when they are known."""

    classes: list[str] | None = None
    threads = True  # whether several threads may call read()
    by_number = True  # False: only stream() can be used
    unit_lengths: list[int] | None = None  # of runs of samples that are read together, as one is expensive

    def describe(self) -> str:
        """Differs when the samples do; a pack is only resumed from the source it was begun from."""
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def key(self, number: int) -> str:
        raise NotImplementedError

    def label(self, number: int) -> int | None:
        raise NotImplementedError

    def read(self, number: int) -> dict[str, bytes]:
        """The sample's files by suffix."""
        raise NotImplementedError

    def stream(self) -> Iterator[Any]:
        """(key, files) of all samples in order; an exception in the place of one that cannot be read."""
        for number in range(len(self)):
            yield self.key(number), self.read(number)


def picture_suffix(content: bytes, otherwise: str) -> str:
    """By content, since endings lie: "jpg" for every JPEG."""
    return _SUFFIXES.get(_core.image_format(content[:16]), otherwise)


class FolderSource(Source):
    """root/class/.../file, in torchvision's order. A sample's key is its path below root without the ending;
    where that would be the key of two files, both keep their endings.
    """

    def __init__(
        self, root: str, classes: list[str] | None, paths: Sequence[str], labels: Sequence[int]
    ) -> None:
        self.classes, self._paths, self._labels = classes, paths, labels
        names = [os.path.relpath(path, root) for path in paths]
        stems = [os.path.splitext(name)[0] for name in names]
        uses = Counter(stems)
        self._keys = [stem if uses[stem] == 1 else name for stem, name in zip(stems, names)]

    @classmethod
    def of_folder(cls, root: str) -> FolderSource:
        classes, paths, labels = _core.list_image_folder(root, list(IMG_EXTENSIONS), False)
        return cls(root, classes, [paths[i] for i in range(len(paths))], labels.tolist())

    def describe(self) -> str:
        return f"folder {digest(self._keys, self._labels)}"

    def __len__(self) -> int:
        return len(self._paths)

    def key(self, number: int) -> str:
        return self._keys[number]

    def label(self, number: int) -> int | None:
        return self._labels[number]

    def read(self, number: int) -> dict[str, bytes]:
        path = self._paths[number]
        with open_regular(path, "rb") as file:
            content = file.read()
        if _core.image_format(content[:16]) == "unknown":
            _check_rare_picture(path, content)
        suffix = picture_suffix(content, os.path.splitext(path)[1].lstrip(".").lower() or "bin")
        return {suffix: content, "cls": str(self._labels[number]).encode()}


def _check_rare_picture(path: str, content: bytes) -> None:
    try:
        with Image.open(io.BytesIO(content)):
            return
    except OSError:
        reason = "is no picture that Pillow knows" if content else "is empty (0 bytes)"
        raise corrupt_data(path, f"{path} {reason}; delete it, or pack with on_error='skip'") from None


def digest(*lists: Any) -> str:
    """A short hash of lists of anything that prints."""
    state = hashlib.blake2b(digest_size=12)
    for items in lists:
        for item in items:
            state.update(str(item).encode("utf-8", "surrogateescape") + b"\0")
    return state.hexdigest()
