"""Class folders the Python way, for what the native listing cannot ask: `is_valid_file`, and overridden
`find_classes`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Union

IMG_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")

Folder = Union[str, "os.PathLike[str]"]


def find_classes(directory: Folder) -> tuple[list[str], dict[str, int]]:
    """The names of the folders in `directory`, sorted, and their numbers. FileNotFoundError when there is
    none.
    """
    with os.scandir(directory) as entries:
        classes = sorted(entry.name for entry in entries if entry.is_dir())
    if not classes:
        raise FileNotFoundError(f"Couldn't find any class folder in {directory}.")
    return classes, {name: number for number, name in enumerate(classes)}


def make_dataset(
    directory: Folder,
    class_to_idx: dict[str, int],
    extensions: str | Sequence[str] | None = None,
    is_valid_file: Callable[[str], bool] | None = None,
    allow_empty: bool = False,
) -> list[tuple[str, int]]:
    """(path, class index) of every valid file below the class folders, in the order of torchvision's
    make_dataset.

    Exactly one of `extensions` (endings in lower case, compared with the file's in lower case) and
    `is_valid_file` decides which files are valid. FileNotFoundError names the classes without a valid file,
    unless `allow_empty`.
    """
    if not class_to_idx:
        raise ValueError("'class_to_index' must have at least one entry to collect any samples.")
    if (extensions is None) == (is_valid_file is None):
        raise ValueError("Both extensions and is_valid_file cannot be None or not None at the same time")
    if is_valid_file is None:
        endings = extensions if isinstance(extensions, str) else tuple(extensions or ())

        def is_valid_file(path: str) -> bool:
            return path.lower().endswith(endings)

    directory = os.path.expanduser(directory)
    samples: list[tuple[str, int]] = []
    empty = []
    for name in sorted(class_to_idx):
        before = len(samples)
        for folder, _, files in sorted(os.walk(os.path.join(directory, name), followlinks=True)):
            paths = (os.path.join(folder, file) for file in sorted(files))
            samples.extend((path, class_to_idx[name]) for path in paths if is_valid_file(path))
        if len(samples) == before:
            empty.append(name)
    if empty and not allow_empty:
        message = f"Found no valid file for the classes {', '.join(empty)}. "
        if extensions is not None:
            message += (
                "Supported extensions are:"
                f" {extensions if isinstance(extensions, str) else ', '.join(extensions)}"
            )
        raise FileNotFoundError(message)
    return samples
