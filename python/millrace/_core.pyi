"""The native half of millrace: the engine, and what it is made of. Rules, defaults and docs for users live in the Python modules.

All native work runs without the GIL. Errors: invalid argument -> ValueError, out of range -> IndexError, not found ->
FileNotFoundError, damaged bytes -> CorruptDataError, missing feature -> UnavailableError, anything of the system -> OSError.
"""

from collections.abc import Callable, Sequence
from typing import Any, Optional, Union

import numpy as np
import torch
from numpy.typing import NDArray

__version__: str
built_for_torch: str

class CorruptDataError(OSError):
    """A file's bytes are damaged or not what they should be. `path`: the file; `offset`: byte of the damage, -1 when unknown."""

    path: str
    offset: int

class UnavailableError(RuntimeError):
    """Something millrace can do, but not here or not in this combination; the message says what to change."""

class PathTable:
    """An immutable list of paths in one block of memory."""

    def __init__(self, paths: Sequence[str]) -> None: ...
    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> str: ...
    @property
    def memory_bytes(self) -> int: ...

def list_image_folder(
    root: str, extensions: list[str], allow_empty: bool, threads: int = 0
) -> tuple[list[str], PathTable, NDArray[np.int64]]:
    """(class names, paths, labels) of root/class/.../file, in torchvision's order. `extensions`: lower case; threads: 0 fits."""

class ImagePipeline:
    """A checked chain of transforms, each a dict {"op": name, ...}. Immutable.

    Ops and their fields: random_resized_crop (height, width, scale, ratio, interpolation); resize (height, width or 0, max_size
    or 0, interpolation); center_crop (height, width); random_crop (height, width, padding (left, top, right, bottom),
    pad_if_needed, fill (r, g, b), padding_mode); horizontal_flip (p); vertical_flip (p); exif_transpose (only first); to_tensor
    (dtype; multiply: scale by * (1 / 255), not / 255); normalize (mean, std). interpolation: "nearest", "bilinear" or "bicubic".
    """

    def __init__(self, chain: list[dict[str, Any]]) -> None: ...
    @property
    def output_dtype(self) -> str: ...
    @property
    def fixed_shape(self) -> Optional[tuple[int, int, int]]:
        """(channels, height, width) when it is the same for every picture."""
    def draw(self, width: int, height: int, seed: int, epoch: int, index: int, occurrence: int = 0) -> list[dict[str, Any]]:
        """The random decisions for a picture of that size."""
    def apply(
        self, pixels: NDArray[np.uint8], seed: int, epoch: int, index: int, occurrence: int = 0
    ) -> torch.Tensor:
        """The chain on decoded pixels (H, W, 3 or 4): a tensor (C, H, W)."""

class ImageDataset:
    """What the engine reads: files, labels, transforms. Immutable. `fallback` decodes what is no JPEG."""

    def __init__(
        self,
        paths: PathTable,
        labels: NDArray[np.int64],
        pipeline: ImagePipeline,
        fallback: Optional[Callable[[bytes, str], tuple[NDArray[np.uint8], int]]] = None,
    ) -> None: ...
    def __len__(self) -> int: ...
    def row(self, index: int, seed: int, epoch: int, occurrence: int = 0) -> torch.Tensor: ...
    def draw(self, index: int, seed: int, epoch: int, occurrence: int = 0) -> list[dict[str, Any]]: ...

class Loader:
    """The engine: indices in, batches out, in order. One thread submits and takes; `threads` work."""

    def __init__(
        self, dataset: ImageDataset, threads: int, slots: int = 3, on_error: str = "raise", drop_last: bool = False
    ) -> None: ...
    def start_epoch(self, seed: int, epoch: int) -> None: ...
    def submit(self, indices: Union[Sequence[int], NDArray[np.int64]]) -> None:
        """One more batch to make."""
    def end_epoch(self) -> None:
        """No more batches will be submitted."""
    def next(self, timeout: float = 0.0) -> Optional[tuple[torch.Tensor, torch.Tensor]]:
        """(images (B, C, H, W), int64 labels (B,)), or None when the epoch is over. Raises the batch's error; Ctrl-C interrupts.

        With `timeout` > 0, TimeoutError after that many seconds.
        """
    def close(self) -> None: ...
    def stats(self) -> dict[str, Any]: ...

class RowGather:
    """Rows of tensors and arrays, gathered into batches, in order. One thread submits and takes; `threads` copy large fields.

    Each of `fields`: (tables, index map, shape of a row, dtype). Tables are tensors on the CPU or numpy arrays of that dtype, their
    rows dense; their rows are counted through. The map, int64 of shape (samples,), leads from samples to rows; None: the same.
    Fields of a batch below 256 KiB are copied in submit(), larger ones by the threads, or in next() when there are none. The threads
    start with the first large field; `stats()["slots"]` is 0 before.
    """

    def __init__(
        self,
        fields: Sequence[tuple[Sequence[Union[torch.Tensor, np.ndarray]], Optional[NDArray[np.int64]], Sequence[int], str]],
        samples: int,
        threads: int = 0,
        slots: int = 3,
    ) -> None: ...
    def start_epoch(self) -> None:
        """Throws away what is outstanding."""
    def submit(self, indices: Any) -> bool:
        """One more batch. False, and nothing is submitted, unless `indices` is a list or tuple of ints or numpy.int64, or an int64
        array of shape (n,), all in [-samples, samples), n > 0, and all tables lie where they lay at first."""
    def next(self, timeout: float = 0.0) -> Optional[tuple[torch.Tensor, ...]]:
        """One tensor (n, *row shape) per field, or None when nothing is outstanding. Ctrl-C and TimeoutError as in Loader."""
    def close(self) -> None: ...
    def stats(self) -> dict[str, Any]: ...

def int64_array(sequence: Any) -> Optional[NDArray[np.int64]]:
    """The numbers of what RowGather.submit takes; None for anything else."""

class RandomPermutation:
    """torch.randperm(n) of a generator seeded with `seed`, drawn as far as it is taken."""

    def __init__(self, n: int, seed: int) -> None: ...
    def take(self, count: int) -> NDArray[np.int64]:
        """The next `count` elements, fewer at the end."""

def cpu_budget() -> dict[str, Any]:
    """{"cpus": float, "threads": int, "reason": str}: this process's share, by affinity, cgroup quota and ranks on the node."""

def empty_cache() -> int:
    """Frees slots kept for the next loader; returns their bytes."""
