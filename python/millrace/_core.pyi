"""The native half of millrace: the engine, and what it is made of. Rules, defaults and docs for users live in
the Python modules.

All native work runs without the GIL. Errors: invalid argument -> ValueError, out of range -> IndexError, not
found -> FileNotFoundError, damaged bytes -> CorruptDataError, missing feature -> UnavailableError, anything
of the system -> OSError.
"""

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

__version__: str

def missing_in_torch() -> list[str]:
    """The names that this torch lacks of those asked for, and the consequences, a sentence each."""

class CorruptDataError(OSError):
    """A file's bytes are damaged or not what they should be. `path`: the file; `offset`: byte of the damage,
    -1 when unknown.
    """

    path: str
    offset: int

class UnavailableError(RuntimeError):
    """Something millrace can do, but not here or not in this combination; the message says what to change."""

class ByteSource:
    """Bytes that do not change: a file, or an object in a store. Any thread may read."""

    @property
    def name(self) -> str:
        """Path or URL, for messages."""

    @property
    def size(self) -> int: ...
    @property
    def is_here(self) -> bool:
        """All bytes are on a disk of this machine, and stay there."""

    def read_at(self, offset: int, size: int) -> bytes:
        """All of them; CorruptDataError where the source has fewer, FileNotFoundError or OSError of the
        system.
        """

def open_local_file(path: str, name: str = "", keep_open: bool = True) -> ByteSource:
    """An ordinary file; messages call it `name`, the path when empty. With `keep_open`, its descriptor is
    open as long as the source
    lives; else each read opens it anew.
    """

class SampleFiles:
    """One file per sample: in a folder, in tar shards, on its way in a stream."""

    def __len__(self) -> int: ...
    def name(self, index: int) -> str:
        """For messages."""

    def read(self, index: int) -> bytes: ...

class PixelFiles(SampleFiles):
    """Pictures in memory: a uint8 array of shape (samples, height, width, 3), of any strides, read where it
    lies. ValueError for any other.
    """

    def __init__(self, pixels: NDArray[np.uint8]) -> None: ...

class ArrowPictures(SampleFiles):
    """Pictures in a column of an Arrow table. Each chunk: (kinds, bytes, paths), `kinds` a uint8 array of
    shape (rows,), 0 for a null, 1 for bytes, 2 for the path of a file; the others (int32 offsets of shape
    (rows + 1,), data) as Arrow lays them out, or None. Read where they lie.
    """

    def __init__(self, column: str, chunks: Sequence[tuple[Any, Any, Any]]) -> None: ...

class PathFiles(SampleFiles):
    """Ordinary files."""

    def __init__(self, paths: PathTable) -> None: ...

class TarIndex:
    """Which samples a plain tar shard has, and where their files lie in it."""

    @staticmethod
    def build(source: str | os.PathLike[str] | ByteSource) -> TarIndex:
        """Reads the shard's headers. UnavailableError for packed archives, CorruptDataError for damaged
        ones.
        """

    @staticmethod
    def load(path: str) -> TarIndex:
        """What save() wrote; CorruptDataError for anything else."""

    def save(self, path: str, mark: int = 0) -> None:
        """The file appears whole or not at all."""

    def __len__(self) -> int: ...
    @property
    def mark(self) -> int:
        """content_mark() of its archive; 0: it was made of one in a store."""

    @property
    def shard_bytes(self) -> int:
        """Size of the archive that this is the index of."""

    @property
    def suffixes(self) -> list[str]:
        """All that appear, in order of appearance."""

    def key(self, sample: int) -> str: ...
    def files(self, sample: int) -> dict[str, tuple[int, int]]:
        """{suffix: (offset in the archive, size)}, in the archive's order."""

    def numbers(self, suffixes: Sequence[str]) -> NDArray[np.int64] | None:
        """Each sample's first file of these suffixes as a number, int64 [len]; None when a sample has none,
        or a file that is no whole number.
        """

class TarSamples(SampleFiles):
    """One file of each sample of many shards, numbered shard after shard: the first with a suffix that is one
    of `suffixes`.
    """

    def __init__(
        self, sources: Sequence[ByteSource], indexes: Sequence[TarIndex], suffixes: Sequence[str]
    ) -> None:
        """CorruptDataError names a sample that has none of them."""

def content_mark(source: str | os.PathLike[str] | ByteSource) -> int:
    """A checksum over the size and some places of a file. Data kept beside a file use it to notice that
    another file took its place.
    """

class LineIndex:
    """Where the lines of a plain file begin; 4 bytes a line. src/sources/line_index.h has the rules."""

    @staticmethod
    def load(path: str) -> LineIndex:
        """What save() wrote; CorruptDataError for anything else."""

    def save(self, path: str, mark: int = 0) -> None:
        """The file appears whole or not at all."""

    def __len__(self) -> int: ...
    @property
    def mark(self) -> int:
        """What it was saved with: content_mark() of its file; 0: nothing."""

    @property
    def source_bytes(self) -> int:
        """Size of the file that this is the index of."""

    @property
    def keeps_blank(self) -> bool: ...
    @property
    def memory_bytes(self) -> int: ...

class LineIndexBuilder:
    """Makes an index step by step. `keep_blank`: lines of nothing but blanks are lines, too.

    UnavailableError for packed files, CorruptDataError for UTF-16.
    """

    def __init__(self, source: str | os.PathLike[str] | ByteSource, keep_blank: bool = False) -> None: ...
    def step(self, bytes: int) -> bool:
        """Looks at so many bytes more; False at the end."""

    @property
    def position(self) -> int: ...
    def finish(self) -> LineIndex:
        """Once, at the end."""

class Unpacking:
    """Writes what a gzip or zstd file unpacks to to the descriptor `fd`, step by step."""

    def __init__(self, source: str | os.PathLike[str] | ByteSource, fd: int, into: str = "") -> None:
        """`into`: the file or folder that a full disk is told of."""

    @property
    def packed(self) -> bool:
        """By the file's first bytes."""

    @property
    def position(self) -> int:
        """Bytes written."""

    def step(self, bytes: int) -> bool:
        """So many bytes more; False at the end. CorruptDataError for damage, OSError for a full disk."""

class LineFiles:
    """The lines of several files, counted through. Any thread."""

    def __init__(
        self, sources: Sequence[ByteSource], indexes: Sequence[LineIndex], max_line_bytes: int
    ) -> None: ...
    def __len__(self) -> int: ...
    def place(self, line: int) -> tuple[int, int, int]:
        """(file, its byte where the line begins, where the next one does)"""

    def lines_before(self, file: int, offset: int) -> int:
        """Newlines in front of a byte of the file, which is read up to there."""

    def texts(self, lines: NDArray[np.int64]) -> tuple[list[str | None], list[int]]:
        """(the lines without their newline, the rows of those that are too long or no UTF-8 and therefore
        None)
        """

    def will_read(self, lines: NDArray[np.int64]) -> None:
        """Tells sources in stores which lines are wanted soon."""

class JsonLines:
    """Lines of JSON as columns of batches. Any number of threads.

    Fields: (path, kind, dtype, shape, bytes in place of a missing value or None); kinds and bytes are those
        of src/json/json_fields.h. closed: a line with a key that no field names is to be read another way.
    """

    def __init__(
        self,
        files: LineFiles,
        fields: Sequence[tuple[list[str], str, str, list[int], bytes | None]],
        closed: bool = False,
    ) -> None: ...
    def batch(
        self, lines: NDArray[np.int64], tensors: Sequence[torch.Tensor]
    ) -> tuple[list[Any], list[tuple[int, bytes | None]]]:
        """(a tensor, or list of str, tensors or objects for each field; (row, line) of lines that are to be
        read another way)

        `tensors`: to be filled, for the fields of kind number: dense, with a row for each line.
        """

    def seconds(self) -> dict[str, float]:
        """Spent so far, by the names of DataLoader.stats(): read; decode, which is parsing; collate, the
        making of Python's objects.
        """

class JsonLineReader:
    """The lines of one file or object, plain or packed, from first to last: {name: value}, or the first
    field's values without names.

    None for lines with a number (blank ones not counted) that is not `offset` modulo `stride`.
    `read_again(line, number, byte)` makes the sample of a line that must be read another way; `line` is None
    when it is too long. `start`: so many lines are passed over. `closed`: as in JsonLines.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | ByteSource,
        fields: Sequence[tuple[list[str], str, str, list[int], bytes | None]],
        names: Sequence[str] | None,
        read_again: Callable[[bytes | None, int, int], Any],
        *,
        start: int = 0,
        stride: int = 1,
        offset: int = 0,
        max_line_bytes: int = ...,
        closed: bool = False,
    ) -> None: ...
    def __iter__(self) -> JsonLineReader: ...
    def __next__(self) -> Any: ...
    @property
    def passed(self) -> int:
        """Lines given, bad ones among them."""

class StreamSamples(SampleFiles):
    """Samples of a stream on their way; their indices are tickets, which count up from 0."""

    def __init__(self) -> None: ...
    def add(self, content: bytes | LocatedFile, url: str, key: str, number: int, number_of_pass: int) -> int:
        """Adds a sample; returns its ticket. Its random choices depend on `number` and `number_of_pass`."""

    def add_file(self, path: str, number: int, number_of_pass: int) -> int:
        """As add(), for a file of its own."""

    def add_of(self, files: SampleFiles, index: int, number: int, number_of_pass: int) -> int:
        """As add(), for a sample of other files, such as a picture in memory."""

    def drop_before(self, ticket: int) -> None:
        """Forgets the samples with smaller tickets."""

    @property
    def held(self) -> int:
        """Samples not yet dropped."""

class LocatedFile:
    """A file in a plain tar shard that was not read yet."""

    @property
    def size(self) -> int: ...
    def read(self) -> bytes: ...

class ReadAhead:
    """A thread that reads large files of local shards before they are asked for, for one ShardReader after
    the other.
    """

    def __init__(self) -> None: ...

class ShardReader:
    """The samples of one tar shard, from first to last, as dicts: `{"__key__": str, "__url__": source.name,
    suffix: bytes, ...}`.

    Plain, gzip and zstd archives, told by their first bytes; ustar, PAX and GNU names. A file's key is its
    path up to the first dot of its base name, and its suffix, in lower case, the part after that dot;
    consecutive files with equal keys are one sample. Left out: folders, links, names without a dot, and the
    content of a first folder `__like_this__`. Archives larger than memory are read as they are asked for.

    Args:
        source: a path or a ByteSource.
        select, rename: functions of a file's name in the archive, called in the order rename, select; files
        that are not selected are left out.
        suffixes: only these are read; the others' samples come all the same.
        locate_from: files of at least so many bytes come as LocatedFile, to be read later, when the archive
            is not packed.
        start: so many samples are passed over; their content is not read when the archive is not packed.
        read_ahead: its thread is used instead of one of the reader's own, which starts anew for every shard.

    Raises CorruptDataError with the archive's name and the offset of the header for a damaged or cut archive:
    the shard ends there, without the sample in work; ValueError for a suffix that is twice in a sample: the
    next call goes on after the second one; UnavailableError for sparse files and archives packed by bzip2 or
    xz.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | ByteSource,
        *,
        select: Callable[[str], bool] | None = None,
        rename: Callable[[str], str] | None = None,
        suffixes: Iterable[str] | None = None,
        start: int = 0,
        locate_from: int | None = None,
        read_ahead: ReadAhead | None = None,
    ) -> None: ...
    def __iter__(self) -> ShardReader: ...
    def __next__(self) -> dict[str, Any]: ...

class SourcePool:
    """Any number of sources, at most `max_open` of which are open at once; src/io/source_pool.h has the
    rules.
    """

    def __init__(self, max_open: int) -> None: ...
    def add(self, name: str | os.PathLike[str], size: int, open: Callable[[], ByteSource]) -> ByteSource:
        """A source of `size` bytes that `open()` opens when it is read and closed, on whatever thread reads
        it. It keeps the pool.
        """

    @property
    def open_now(self) -> int: ...

class CacheCounts:
    """Of what open_cached_file() opened: blocks that readers came to first, and those that were compared with
    their records.
    """

    def __init__(self) -> None: ...
    @property
    def hit_blocks(self) -> int: ...
    @property
    def verified_blocks(self) -> int: ...

def open_cached_file(
    name: str,
    stem: str,
    header: bytes,
    map_offset: int,
    size: int,
    block_bytes: int,
    counts: CacheCounts,
    otherwise: Callable[[], ByteSource],
) -> ByteSource | None:
    """An object that the disk cache has whole, in `stem`.data, to be read like a local file;
    src/io/cached_file.h has the rules. None: it
    is not there, not whole, or its map does not begin with `header`. `otherwise()` opens the same version
    where its blocks can be fetched; it is called once, on whatever thread reads, if one is damaged.
    """

class BlockFile:
    """An object of a store, in blocks that arrive in any order while others read; src/io/block_file.h has the
    rules.

    `cache_fd`, `map_fd`: the disk cache's data file and map (records of 8 bytes per block from `map_offset`
    on); without them blocks lie in memory. `wake_fd`: an eventfd written to when the fetcher should look.
    `sequential`: bytes that the reader has passed are dropped. `max_held_bytes`: the least recently used
        blocks in memory go; 0: no bound. Descriptors are duplicated.
    """

    def __init__(
        self,
        name: str,
        size: int,
        *,
        block_bytes: int = 1048576,
        cache_fd: int = -1,
        map_fd: int = -1,
        map_offset: int = 0,
        wake_fd: int = -1,
        sequential: bool = False,
        max_held_bytes: int = 0,
    ) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def blocks(self) -> int: ...
    def write(self, offset: int, buffer: Any) -> int:
        """Brings bytes; what does not continue its block is left out. How many were new."""

    def take_wanted(self) -> list[int]:
        """The blocks that readers asked for since the last call, in that order."""

    def filled(self, block: int) -> int:
        """Bytes of the block that are here."""

    def next_missing(self, block: int) -> int:
        """The first from `block` on that nobody brought or used up; `blocks` when there is none."""

    def refresh(self) -> None:
        """Looks into the map for blocks that other processes brought."""

    def fail(self, kind: str, message: str, code: int = 0) -> None:
        """Makes reads of absent bytes raise: kind "not_found", "corrupt_data", "unavailable" or "system" with
        an errno.
        """

    def close(self) -> None:
        """Makes reads of absent bytes raise UnavailableError."""

    def stats(self) -> dict[str, Any]: ...
    def reader(self) -> ByteSource:
        """A source that waits for its bytes; Ctrl-C is seen. stats()["readers"] counts those alive."""

def image_format(data: bytes) -> str:
    """By magic number: "JPEG", "PNG", "GIF", "BMP", "TIFF", "WebP" or "unknown"."""

def probe_jpeg(data: bytes) -> dict[str, Any]:
    """width, height (as stored), components, precision, progressive, arithmetic, orientation (EXIF, 1..8).
    CorruptDataError.
    """

def transcode_jpeg(data: bytes, segment_pixels: int, own_tables: bool) -> bytes:
    """The same coefficients as one baseline scan with a restart marker every `segment_pixels` pixels (0:
    none), all metadata kept.

    CorruptDataError for files that are damaged in any way.
    """

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
    """(class names, paths, labels) of root/class/.../file, in torchvision's order. `extensions`: lower case;
    threads: 0 fits.
    """

def decode_image(data: bytes | bytearray | memoryview, mode: str = "RGB") -> NDArray[np.uint8] | None:
    """The picture in a JPEG, PNG or WebP file's bytes: (height, width, 3) uint8, equal to Pillow's
    open(...).convert("RGB"), EXIF not applied.

    None: ask Pillow, which decides: another format, a damaged file (Pillow reads some), metadata, an
    animation or a JPEG out of the ordinary, more than 89,478,485 pixels in a PNG or WebP. CorruptDataError
    for a JPEG of more than 500 scans; ValueError for any other mode.
    """

class NotRecorded(Exception):
    """Of RecordedPicture: Pillow does it, on pixels."""

class TensorValues:
    """What bytes become in a tensor. `conversions`: a chain of to_tensor and normalize alone, else
    ValueError. `interleaved`: pictures in colour become (height, width, 3).
    """

    def __init__(self, conversions: ImagePipeline, interleaved: bool = False) -> None: ...

def last_decode() -> int:
    """What this thread's last look at a RecordedPicture decoded: 0 nothing, 1 a part, 2 all of the file."""

class RecordedPicture:
    """A compressed picture and what it is to go through; immutable. Sizes are (width, height), boxes (left,
    upper, right, lower), in pixels; the numbers of filters and turns are Pillow's. NotRecorded where it
    cannot wait.
    """

    @staticmethod
    def open(data: bytes, grey: bool = False) -> RecordedPicture | None:
        """None where Pillow may refuse the file, or see it otherwise. A PNG or WebP is decoded here, as "L"
        if `grey`.
        """

    @staticmethod
    def of_pixels(size: tuple[int, int], mode: str, pixels: bytes) -> RecordedPicture:
        """Of "RGB" with four bytes each, or "L" with one, dense; they are copied."""

    @property
    def size(self) -> tuple[int, int]: ...
    @property
    def stored_size(self) -> tuple[int, int]: ...
    @property
    def mode(self) -> str:
        """ "RGB" or "L"."""

    @property
    def waits(self) -> int:
        """Bytes of the file that are kept until somebody looks; 0: the stored picture's pixels are there."""

    @property
    def renders(self) -> int:
        """How often anybody looked at a picture of this file."""

    @property
    def compressed(self) -> bytes: ...
    def crop(self, box: tuple[int, int, int, int]) -> RecordedPicture: ...
    def resize(
        self,
        size: tuple[int, int],
        resample: int,
        box: tuple[float, float, float, float],
        may_begin_down: bool = True,
    ) -> RecordedPicture:
        """`may_begin_down`: Pillow 13 or later, which makes the vertical pass first where that is less."""

    def transpose(self, method: int) -> RecordedPicture: ...
    def convert(self, mode: str) -> RecordedPicture: ...
    def recolor(self, operation: str, factor: float) -> RecordedPicture:
        """Brightness, contrast, saturation (ImageEnhance's, factor >= 0), or hue (torchvision's)."""

    def permute(self, source: Sequence[int]) -> RecordedPicture:
        """source: for each of the three channels, the channel with its new values."""

    def point(self, table: bytes) -> RecordedPicture:
        """A byte for each of 256, channel by channel."""

    def pad(self, padding: tuple[int, int, int, int], fill: tuple[int, int, int]) -> RecordedPicture:
        """padding: left, top, right, bottom."""

    def map(self, inverse: Sequence[float], resample: int, fill: tuple[int, int, int]) -> RecordedPicture:
        """Pillow's AFFINE to the same size; nearest, bilinear or bicubic."""

    def histogram(self) -> list[int]:
        """As Pillow's; raises what tobytes() raises, as does made()."""

    def made(self) -> RecordedPicture:
        """The same with its pixels made."""

    def tobytes(self, layout: str) -> bytes:
        """`layout`: L, RGB, BGR or RGBX. These three: CorruptDataError or UnavailableError for damage that
        only Pillow may judge; then give_pixels().
        """

    def array(self, layout: str) -> NDArray[np.uint8]:
        """(height, width, bytes), or (height, width) for L."""

    def tensor(self, values: TensorValues) -> torch.Tensor:
        """(3 or 1, height, width); (height, width, 3) of interleaved values and a picture in colour"""

    def give_pixels(self, rgbx: bytes) -> None:
        """The stored picture's, four bytes each, for all that were recorded over this file."""

def operations() -> dict[str, Any]:
    """{"policies": the kinds of operations that a policy may have, in the engine's order, "transforms": {the
    "op" of a chain's dict: {"name": torchvision's, if it has only one, "fields": {name: type}}}}.
    """

class ImagePipeline:
    """A checked chain of transforms, each a dict {"op": name, ...}. Immutable.

    Ops and their fields: random_resized_crop (height, width, scale, ratio, interpolation); resize (height,
    width or 0, max_size or 0, interpolation); center_crop (height, width); random_crop (height, width,
    padding (left, top, right, bottom), pad_if_needed, fill (r, g, b), padding_mode); horizontal_flip (p);
    vertical_flip (p); exif_transpose (only first); color_jitter (brightness, contrast, saturation, hue: None
    or (min, max) each); grayscale; random_grayscale (p); random_rotation (degrees (min, max), interpolation,
    center None or (x, y), fill); random_affine (the same, and translate None or (x, y), scale None or (min,
    max), shear (min x, max x, min y, max y)); gaussian_blur (kernel_size (width, height), sigma (min, max));
    to_tensor (dtype; multiply: scale by
    * (1 / 255), not / 255); normalize (mean, std); random_erasing (p, scale, ratio, value: one or three
    numbers, [] for noise; only last). interpolation: "nearest", "bilinear" or "bicubic".
    """

    def __init__(self, chain: list[dict[str, Any]]) -> None: ...
    @property
    def output_dtype(self) -> str: ...
    @property
    def fixed_shape(self) -> tuple[int, int, int] | None:
        """(channels, height, width) when it is the same for every picture."""

    def draw(
        self, width: int, height: int, seed: int, epoch: int, index: int, occurrence: int = 0
    ) -> list[dict[str, Any]]:
        """The random decisions for a picture of that size."""

    def apply(
        self, pixels: NDArray[np.uint8], seed: int, epoch: int, index: int, occurrence: int = 0
    ) -> torch.Tensor:
        """The chain on decoded pixels (H, W, 3 or 4): a tensor (C, H, W)."""

class ImageDataset:
    """The engine's input: files, labels, transforms. Immutable. `fallback` decodes files that are no JPEG.
    With a list of pipelines, each makes a view of the same picture, of a fixed shape and one dtype: rows and
    batches of pictures are lists then, and draw() gives a list for each. `stacked`: views of one shape, in
    rows of shape (views, C, H, W) and batches of (N, views, C, H, W). `interleaved`: of one view, rows of
    shape (H, W, C), not (C, H, W).

    `forms`: the pipelines are forms instead, of which all rows of a batch have one, by its number; shapes may
    differ.

    `ragged`: each row has the shape that its picture gives it. Batches have a tuple of rows then, tensors of
    shape (C, H, W) in memory that the batch's rows share; of several views a list of such tuples.

    `modes`: "rgb": only of pictures that are stored so; "grey_or_rgb": or in grey; others are errors.
    """

    def __init__(
        self,
        files: SampleFiles,
        labels: NDArray[np.int64],
        pipeline: ImagePipeline | list[ImagePipeline],
        fallback: Callable[[bytes, str], tuple[NDArray[np.uint8], int]] | None = None,
        stacked: bool = False,
        forms: bool = False,
        ragged: bool = False,
        modes: Literal["any", "rgb", "grey_or_rgb"] = "any",
    ) -> None: ...
    def __len__(self) -> int: ...
    def row(
        self,
        index: int,
        seed: int,
        epoch: int,
        occurrence: int = 0,
        interleaved: bool = False,
        form: int = 0,
    ) -> Any: ...
    def draw(self, index: int, seed: int, epoch: int, occurrence: int = 0, form: int = 0) -> list[Any]: ...

class Loader:
    """The engine: indices in, batches out, in order. One thread submits and takes; `threads` work.

    memory: of the batches: "system", kept warm; "torch", its allocator's; "page-locked", torch's for copies
    to a device; "page-locked on node N", a NUMA node.
    """

    def __init__(
        self,
        dataset: ImageDataset,
        threads: int,
        slots: int = 3,
        on_error: str = "raise",
        drop_last: bool = False,
        memory: str = "system",
    ) -> None: ...
    def start_epoch(self, seed: int, epoch: int) -> None: ...
    def submit(self, indices: Sequence[int] | NDArray[np.int64]) -> None:
        """One more batch to make."""

    def submit_form(self, indices: Sequence[int] | NDArray[np.int64], form: int) -> None:
        """The same, its rows in this form. ValueError where the dataset has none such."""

    def submit_mixed(
        self,
        indices: Sequence[int] | NDArray[np.int64],
        partners: Sequence[int],
        own: float,
        other: float,
        box: tuple[int, int, int, int] | None = None,
    ) -> None:
        """The same, each row i mixed with row partners[i], which is a permutation: own * i + other * partner,
        in float32; or, in a box (left, top, width, height) in pixels, the partner's pixels. ValueError where
        not `mixes`, and unless on_error="raise".
        """

    @property
    def mixes(self) -> bool:
        """Whether rows are one view of three channels, float32 and of one size."""

    def skip(self, indices: Sequence[int] | NDArray[np.int64]) -> None:
        """Before the epoch's first submit(): what came before, when it begins in its middle. Counts for the
        occurrences of later ones.
        """

    def set_limits(self, threads: int, slots: int) -> None:
        """How many of the threads work, and how many batches may be in memory, from now on; at least 1 each.
        Batches stay the same.
        """

    def end_epoch(self) -> None:
        """No more batches will be submitted."""

    def next(self, timeout: float = 0.0) -> tuple[torch.Tensor, torch.Tensor] | None:
        """(images (B, C, H, W), int64 labels (B,)), or None when the epoch is over. Raises the batch's error;
        Ctrl-C interrupts.

        With `timeout` > 0, TimeoutError after that many seconds.
        """

    @property
    def skipped(self) -> list[tuple[int, dict[str, Any]]]:
        """(row, {index, path, offset, reason}) of samples that could not be read, in the batch that next()
        gave last: their rows have
        anything in them. With on_error="leave" only, which takes pipelines with a fixed shape.
        """

    def close(self) -> None: ...
    def stats(self) -> dict[str, Any]: ...
    @property
    def keys(self) -> tuple[NDArray[np.int64], NDArray[np.uint32] | None]:
        """Of the batch that next() gave last, by row: the indices of the samples in it, and which occurrence
        of its index each is (None:
        each the first).
        """

    def snapshot(self) -> dict[str, Any]:
        """What it is doing: {"threads": [{doing: "idle", "read" or "make", seconds, index, sample_seconds,
        path}], the consumer's last,
        outstanding, claimed, complete: batches, unfinished_rows of the oldest, slots, free_slots}. Any
        thread.
        """

    def clocks(self) -> list[tuple[int, int, int, list[int], list[int]] | None]:
        """StageClock.read() of each of its threads."""

def why_not_fused(pipeline: ImagePipeline) -> str:
    """Why batches of this chain cannot be made on a GPU, with the remedy; "" when they can."""

class DeviceLoader:
    """Loader with batches made on a device, for use on its current stream at once. `decoding`: the path of
    libnvjpeg.so.*, or "".

    device: its name with an index. balances: decoding is shared between it and the threads. ahead: batches
    done before they are asked for. UnavailableError: no nvJPEG; ValueError: a chain for which
    `why_not_fused()` has a reason.
    """

    def __init__(
        self,
        dataset: ImageDataset,
        threads: int,
        slots: int,
        on_error: str,
        drop_last: bool,
        memory: str,
        device: object,
        decoding: object,
        balances: bool,
        ahead: int,
    ) -> None: ...
    def start_epoch(self, seed: int, epoch: int) -> None: ...
    def submit(self, indices: Sequence[int] | NDArray[np.int64]) -> None: ...
    def skip(self, indices: Sequence[int] | NDArray[np.int64]) -> None: ...
    def end_epoch(self) -> None: ...
    def next(self, timeout: float = 0.0) -> tuple[torch.Tensor, torch.Tensor] | None: ...
    def close(self) -> None: ...
    def stats(self) -> dict[str, Any]: ...
    @property
    def keys(self) -> tuple[NDArray[np.int64], NDArray[np.uint32] | None]: ...
    def snapshot(self) -> dict[str, Any]: ...
    def clocks(self) -> list[tuple[int, int, int, list[int], list[int]] | None]:
        """StageClock.read() of each of its threads, the one that feeds the device last."""

class MappedFile:
    """A whole file in memory, read only, as a buffer of bytes; no descriptor is kept. FileNotFoundError,
    OSError.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None: ...
    @property
    def path(self) -> str: ...
    @property
    def size(self) -> int: ...
    def advise(self, access: str) -> None:
        """Announces the reads to expect: "normal", "sequential" or "random"."""

    def __buffer__(self, flags: int, /) -> memoryview: ...

def positions(numbers: np.ndarray, dtype: str, value: int) -> NDArray[np.int64]:
    """Where `numbers`, whole, dense, of one dimension, equal `value`. In a mapped file that shrinks:
    CorruptDataError.
    """

def widens(stored: str, made: str) -> bool:
    """Whether RowGather makes rows of dtype `made` of `stored`: narrower whole numbers to int32 or int64 that
    hold them all.
    """

class ChunkCache:
    """Decoded chunks of the arrays that are given it, up to `most_bytes`: the one used longest ago goes
    first. Chunks of more than a quarter of that are not kept. Any thread.
    """

    def __init__(self, most_bytes: int) -> None: ...
    @property
    def bytes(self) -> int: ...

class ChunkedArray:
    """An array with chunks that lie in `source`, each by itself, as in HDF5. Reads run in any thread, without
    the GIL.

    `shape`, `chunk`: elements along each axis, of the array and of a chunk. `filters`: ("deflate", 0),
    ("shuffle", element bytes) or ("fletcher32", 0), as they were applied. `swap_bytes`: groups of so many
    bytes are turned round (1: none). `fill`: the bytes of one element that nobody wrote. `cells`, `offsets`,
    `sizes` (int64) and `left_out` (uint32), all of shape (chunks,): a chunk's number in the grid of chunks,
    where it lies, its bytes as stored, and the bits of filters that it was written without. ValueError for a
    form that contradicts itself, CorruptDataError for chunks outside the source.
    """

    def __init__(
        self,
        source: ByteSource,
        name: str,
        shape: Sequence[int],
        chunk: Sequence[int],
        element_bytes: int,
        swap_bytes: int,
        filters: Sequence[tuple[str, int]],
        fill: bytes,
        cells: NDArray[np.int64],
        offsets: NDArray[np.int64],
        sizes: NDArray[np.int64],
        left_out: NDArray[np.uint32],
        cache: ChunkCache | None = None,
    ) -> None: ...
    def get(self, key: Any, dtype: np.dtype) -> np.ndarray | None:
        """array[key] as a new array of `dtype`, which should be the array's: an integer (Python's or
        numpy's), a slice with a positive step, or a tuple of at most as many as there are axes. None for
        other keys, for those that reach outside, and where nothing is taken. CorruptDataError as read().
        """

    def read(self, box: Sequence[tuple[int, int, int]], into: np.ndarray) -> None:
        """The elements (start, count, step) along each axis, in the machine's byte order, into a dense array
        of as many bytes.
        IndexError for a box outside the array, CorruptDataError naming file, dataset, chunk and byte.
        """

class RowGather:
    """Rows of tensors and arrays, gathered into batches, in order. One thread submits and takes; `threads`
    copy large fields.

    Each of `fields`: (tables, index map, shape of a row, dtype, whether the tables lie in mapped files,
    options). Tables are tensors on the CPU or numpy arrays of that dtype; their rows are counted through, and
    the values of a row lie in the same way in all of them. While it lives they keep their memory, whatever is
    done to tensors; numpy's resize() and closing a map are errors (ValueError, BufferError). The map, int64
    of shape (samples,), leads from samples to rows; None: the same. Fields of a batch below 256 KiB are
    copied in submit(), larger ones, and those in mapped files, by the threads. Without threads, larger ones
    are copied in next(). The threads start with the first such field; `stats()["slots"]` is 0 before.

    Options, all may be left out or None. made: the dtype of batches, see widens(). highest: a number below 0
    or above is a CorruptDataError. excluded: (separator or None, distance, value): numbers `distance` (0 or
    1) after one that equals the separator become `value`, and so do `borders`. files: per table a
    MappedFile, a path, or None, for errors and to see that a file was cut short. borders: per table None or
    (byte of the file where number 0 is, int64 array of numbers). reads_ahead: submit() asks the system to
    read the rows from disk.
    """

    def __init__(
        self,
        fields: Sequence[
            tuple[
                Sequence[torch.Tensor | np.ndarray],
                NDArray[np.int64] | None,
                Sequence[int],
                str,
                bool,
                dict[str, Any],
            ]
        ],
        samples: int,
        threads: int = 0,
        slots: int = 3,
        memory: str = "system",
    ) -> None: ...
    def start_epoch(self) -> None:
        """Throws away all outstanding batches."""

    def submit(self, indices: Any) -> bool:
        """Submits one more batch. False, and nothing is submitted, unless `indices` is a list or tuple of
        ints or numpy.int64, or an int64 array of shape (n,), all in [-samples, samples), n > 0, and all
        tables lie where and as they lay at first.
        """

    def next(self, timeout: float = 0.0) -> tuple[torch.Tensor, ...] | None:
        """One tensor (n, *row shape) per field, or None when nothing is outstanding. Ctrl-C and TimeoutError
        as in Loader.
        """

    def set_limits(self, threads: int, slots: int) -> None:
        """How many of the threads work, and how many batches may be in memory, from now on; at least 1 each.
        Batches stay the same.
        """

    def close(self) -> None: ...
    def stats(self) -> dict[str, Any]: ...
    def clocks(self) -> list[tuple[int, int, int, list[int], list[int]] | None]:
        """StageClock.read() of each of its threads; none before the first large batch."""

def int64_array(sequence: Any) -> NDArray[np.int64] | None:
    """The numbers of what RowGather.submit takes; None for anything else."""

class BatchMemory:
    """Memory for batches of some fields, each (shape of a row, dtype): `slots` tensors of each leased at a
    time; more come from memory of
    their own. Any thread.
    """

    def __init__(
        self, fields: Sequence[tuple[Sequence[int], str]], slots: int, memory: str = "system"
    ) -> None: ...
    def empty(self, rows: int) -> list[torch.Tensor]:
        """A tensor (rows, *shape) for each field, what it holds undefined; its slot comes back when its last
        view dies.
        """

    def overflow_count(self) -> int:
        """Tensors that found all slots leased."""

def are_indices(indices: Any, length: int) -> bool:
    """Whether `indices` is a dense int64 array of shape (n,), of numbers from 0 to length - 1."""

class ChunkShares:
    """The samples of a batch, int64 `indices`, sorted by the chunk in which they lie, in their order within
    one: those of chunks[s] have the places[bounds[s]:bounds[s + 1]] of the batch, and the same part of `rows`
    counts from the chunk's beginning. `starts`, ascending: the first sample of each chunk, and the end.
    IndexError for an index outside.
    """

    def __init__(self, indices: NDArray[np.int64], starts: NDArray[np.int64]) -> None: ...
    @property
    def chunks(self) -> list[int]: ...
    @property
    def bounds(self) -> list[int]: ...
    @property
    def places(self) -> NDArray[np.int64]: ...
    @property
    def rows(self) -> NDArray[np.int64]: ...
    @property
    def in_order(self) -> bool:
        """Whether about half of the samples or more directly follow their predecessors in the data."""

class ChunkTable:
    """Arrays of equally many rows, each contiguous: the source of copy_rows(). ValueError for others.

    in_any_order: rows will be wanted from anywhere; large tables then have the small values of a row copied
        side by side, once.
    """

    def __init__(self, arrays: Sequence[np.ndarray], in_any_order: bool = False) -> None: ...
    @property
    def arrays(self) -> list[np.ndarray]:
        """The same values, as they are kept."""

def copy_rows(batches: Sequence[tuple[ChunkShares, int, Sequence[ChunkTable], list[torch.Tensor]]]) -> None:
    """Copies batches of (shares, first, tables, out): tables[i] is chunk first + i of the batch's shares;
    those of its rows that are in the batch are copied to their places in `out`, one array of a table for each
    tensor.

    Without the GIL when there is much to copy. Rows have the same bytes as the tensor's. IndexError for rows
    that are not there, ValueError for arrays that do not fit.
    """

def copy_field(source: np.ndarray, target: np.ndarray) -> None:
    """Copies the bytes of `source` to `target`, C-contiguous arrays of as many bytes that do not overlap.
    Many bytes are copied past the caches and without the GIL, so use it for bytes that are not read again
    soon. ValueError for arrays of other kinds.
    """

def cpu_budget() -> dict[str, Any]:
    """{"cpus": float, "threads": int, "reason": str}: this process's share, by affinity, cgroup quota and
    ranks on the node.
    """

def cpu_targets() -> list[str]:
    """Instruction sets that the kernels were compiled for, and which the processor has and
    MILLRACE_CPU_TARGETS allows, the best first: ["AVX2", "SSE4"].
    """

def limit_cpu_targets(newest: str) -> None:
    """Nothing better than this one is used from here on; "" takes the limit back."""

def plain_state(state: Any, names: Collection[str] | None = None) -> tuple[Any, str] | None:
    """(a copy of a dict or list of JSON's types, the CRC-32 of its canonical JSON in hexadecimal); None for
    anything else. `names`: the entries that the sum is of. _common/states.py has the rules.
    """

def json_target() -> str:
    """What simdjson runs, by its own name: "haswell", "westmere", ..."""

def empty_cache() -> int:
    """Frees slots kept for the next loader; returns their bytes."""

def end_with_process(process: int, grace_ms: int) -> bool:
    """Makes this process get SIGKILL so long after the end of another process; once per process. False: there
    is no thread for it.
    """

def memory_budget() -> tuple[int, str]:
    """(bytes that may still be taken before the machine or a memory cgroup is full, which of them limits)."""

def memory_kills(proc: str = "/proc") -> tuple[int, str]:
    """(how often the system has ended a process of this one's memory cgroup for want of memory, the tightest
    limit in words).
    """

def is_plain_tensor(value: object) -> bool:
    """Whether it is torch.Tensor itself: dense, on the CPU, without gradients, of an ordinary element
    type.
    """

NOTE_BYTES: int

def enter_stage(stage: int) -> int:
    """The calling thread's clock goes into this stage; returns the one it comes from. -1: nothing is done; no
    clock counts this thread.
    """

def sample_collator() -> Callable[[list[Any]], Any]:
    """A function that returns the batch that torch's default_collate makes of a list of samples, or
    NotImplemented if default_collate itself has to be asked. Its large tensors reuse the memory of earlier
    ones that the program has dropped.

    src/tensors/sample_collator.h has the rules.
    """

def sample_converter(others: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """torch's default_convert; `others`, which is that, is asked about leaves that it might change."""

def ranges_are_heard() -> bool:
    """Whether a profiler listens to what torch's record_function() tells."""

def note_ready(count: int) -> None:
    """Inside the consumer's next(): how many batches were ready when it was called. Nothing on a thread that
    no clock counts.
    """

class StageClock:
    """Where a thread's time goes: it is in exactly one stage at any moment. Stages are numbers, named in
    millrace/_profiling/stages.py.

    A worker's: attach(), then enter_stage() on that thread, end(). The consumer's: restart() for each epoch,
    begin() and leave() around next(). Reading is for any thread at any time.
    """

    enabled: bool
    """Of the class. False where MILLRACE_PROFILE=0 is in the environment: what begins then is not counted.
    Set
    by measurements of its cost.
    """
    def __init__(self) -> None: ...
    def attach(self, stage: int) -> None:
        """The calling thread is counted from now on; its first time begins the clock's life."""

    @staticmethod
    def detach() -> None:
        """The calling thread is counted by no clock."""

    @property
    def begin(self) -> Callable[[int], int]:
        """A function of a stage that attaches the calling thread, until leave() gets what it returned. May be
        nested.
        """

    @property
    def leave(self) -> Callable[[int], None]: ...
    def restart(self) -> None:
        """All is zero again, and the loop has begun."""

    def end(self) -> None:
        """Nothing is counted any more, until restart()."""

    def end_when_left(self) -> None:
        """The same, by the outermost leave()."""

    def count_made(self) -> None:
        """One more batch was answered; StageBoard.made."""

    @property
    def stage(self) -> int: ...
    @property
    def first_wait_ns(self) -> int:
        """What had been spent waiting for batches, or making them, when the first one was handed out."""

    def read(self) -> tuple[int, int, int, list[int], list[int]] | None:
        """(stage, born, until, wall by stage, CPU by stage), in nanoseconds of the monotonic clock; None: not
        begun.

        Wall times sum to until - born, the present stage included. CPU times come up to 0.2 ms late, and at a
        change of stage.
        """

    def steps(self) -> tuple[int, list[int], list[int], list[int]]:
        """(how many are no longer kept, when next() was called, when it returned, batches ready then or -1):
        the latest 65,536.
        """

    def write_note(self, text: str | bytes) -> None:
        """A text beside the row, up to NOTE_BYTES; written by one thread, any one."""

    def read_note(self) -> bytes: ...

class StageBoard:
    """Rows of clocks in a slot of the ring that holds nothing else, for workers in any process that has the
    ring.
    """

    def __init__(self, ring: SharedRing, slot: int, rows: int) -> None: ...
    def clock(self, row: int) -> StageClock:
        """For the row's one writer. Keeps the ring."""

    def read(self, row: int) -> tuple[int, int, int, list[int], list[int]] | None: ...
    def read_note(self, row: int) -> bytes: ...
    def end(self, row: int) -> None:
        """For a writer that is dead: its last stage ends now."""

    @property
    def made(self) -> int:
        """Batches that all writers have answered."""

class SharedRing:
    """Memory of batches that worker processes fill and this process leases to tensors: slots in `files`
    anonymous shared files.

    The process that made it takes slots, gives them to tasks, and leases or gives them back; others only
    write.
    """

    def __init__(self, slots: int, warm: int, files: int = 1) -> None: ...
    @staticmethod
    def attach(fds: list[int], slots: int, stride: int) -> SharedRing:
        """A worker's view; takes the descriptors over."""

    @property
    def fds(self) -> list[int]: ...
    @property
    def slots(self) -> int: ...
    @property
    def stride(self) -> int:
        """Bytes a batch can have at most."""

    @property
    def free_slots(self) -> int: ...
    @property
    def leased_slots(self) -> int: ...
    @property
    def retired_slots(self) -> int:
        """Those that came back while forked children may still read them."""

    def crowded(self, working_set: int) -> bool:
        """Whether a batch should be copied out of its slot: fewer are free, or children keep as many."""

    @property
    def memory_bytes(self) -> int: ...
    def take(self) -> int:
        """A free slot, or -1."""

    def give_back(self, slot: int) -> None: ...
    def reserved(self, slot: int) -> int:
        """Bytes of the slot that have memory."""

    def set_reserved(self, slot: int, bytes: int) -> None: ...
    def prefer_node(self, node: int) -> None:
        """Fresh pages come from this NUMA node, if they can; -1: from anywhere."""

    def lock_pages(self, slot: int, device: int) -> str:
        """Page-locks the memory that a taken slot has, for copies to CUDA devices. Why it failed; empty: it
        is locked.
        """

    def put(self, slot: int, offset: int, data: Any, reserved: int) -> int:
        """Copies a buffer into the slot; returns the bytes of the slot that have memory then. OSError when
        there is none.
        """

    def get(self, slot: int, offset: int, bytes: int) -> bytes: ...
    def lease(self, slot: int) -> SlotLease:
        """A taken slot, which is free again when the last reference to the lease and to what was made of it
        is gone. OSError without address space for it: then it is taken still.
        """

    def pack(
        self, slot: int, begin: int, reserved: int, tensors: list[torch.Tensor], buffers: list[Any]
    ) -> tuple[list[tuple[int, int, tuple[int, ...], tuple[int, ...]]], int, int] | None:
        """Copies all of them into the slot, after its first `begin` bytes: (fields (offset, element type,
        sizes, strides), end, reserved); None if too long.
        """

class SlotFile:
    """A file for a pickler in a slot with memory for its first `reserved` bytes; it starts at `begin`."""

    def __init__(self, ring: SharedRing, slot: int, begin: int, reserved: int) -> None: ...
    def write(self, data: Any) -> None:
        """Copies a buffer after the bytes written before. Data longer than the slot are only counted. OSError
        when memory is short.
        """

    @property
    def end(self) -> int:
        """The place of the next byte in the slot."""

    @property
    def reserved(self) -> int: ...

class SlotPart:
    """A buffer over part of a leased slot, not writable; any consumer of buffers takes it."""

class SlotLease:
    def part(self, offset: int, bytes: int) -> SlotPart: ...

class TurnGate:
    """How many workers work at a time: task n may begin once n is less than the limit and the tasks that have
    ended, together.

    Tasks are numbered from 0 in the order in which they go to workers. Nothing begins before a limit is set.
    """

    def __init__(self) -> None:
        """For threads of this process."""

    @staticmethod
    def on(ring: SharedRing, slot: int) -> TurnGate:
        """In a slot that holds nothing else, for all processes that have the ring."""

    def set_limit(self, limit: int) -> None:
        """The owner's; ValueError below 1."""

    def open(self) -> None:
        """Everything may begin, for good."""

    def close(self) -> None:
        """Nothing is to begin any more: wait() returns False at once."""

    def wait(self, number: int, seconds: float) -> bool:
        """Without the GIL, until task `number` may begin; False when that takes longer, or it is closed."""

    @property
    def closed(self) -> bool: ...
    def end(self) -> None:
        """One task that began has ended."""

class BatchFields:
    """Where a batch's tensors lie in its slot: (offset, torch's number of the element type, sizes[, strides])
    each.

    `by_rows`: sizes are those of one row, and the number of rows comes first.
    """

    def __init__(self, fields: list[tuple[Any, ...]], by_rows: bool) -> None: ...
    def tensors(self, lease: SlotLease, rows: int, copy: bool) -> list[torch.Tensor]:
        """Tensors over the slot, which share its lease; with `copy` in memory of their own."""

    def copies(self, ring: SharedRing, slot: int, rows: int) -> list[torch.Tensor]:
        """Tensors in memory of their own, in any process that has the ring."""

class RowWriter:
    """Writes samples into their batch, row by row, as default_collate would have put them together."""

    def __init__(self, ring: SharedRing) -> None: ...
    def begin(self, slot: int, reserved: int, capacity: int) -> None: ...
    def add(self, sample: object) -> bool:
        """False when the sample is not plain or not like the batch's first; the rows before stay."""

    @property
    def rows(self) -> int: ...
    @property
    def used_bytes(self) -> int: ...
    @property
    def reserved_bytes(self) -> int: ...
    @property
    def layout_number(self) -> int:
        """Changes when layout() does."""

    def layout(self) -> tuple[Any, ...]:
        """The batch's tree; src/tensors/row_writer.h describes it."""

    def objects(self) -> list[list[Any]]:
        """The strings of each leaf of strings."""

class RandomPermutation:
    """torch.randperm(n) of a generator seeded with `seed`, and from position n on its next one, drawn as far
    as it is asked for.
    """

    def __init__(self, n: int, seed: int) -> None: ...
    def at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """The elements at `positions`, as for all orders below; IndexError for a position that there is
        not.
        """

class KeyedPermutation:
    """A permutation of 0 .. n-1, computed element by element, for each (seed, epoch, stream)."""

    def __init__(self, n: int, seed: int, epoch: int, stream: int = 0) -> None: ...
    def at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]: ...

class AliasTable:
    """Draws with replacement by weight; any position of 0 or more."""

    def __init__(self, weights: NDArray[np.float64], seed: int, epoch: int) -> None: ...
    def at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]: ...

def size_draw(seed: int, epoch: int, position: int, end: int) -> int:
    """A number from 0 to end - 1, as likely as each other; a function of its arguments."""

def weighted_order(weights: NDArray[np.float64], count: int, seed: int, epoch: int) -> NDArray[np.int64]:
    """`count` draws without replacement by weight, int64 [count]."""

class ShuffleOrder:
    """The positions 0 .. n-1 of a stream in the order in which a shuffle buffer of `size` gives them; n =
    2**62: the end is far.
    """

    def __init__(self, n: int, size: int, seed: int, epoch: int) -> None: ...
    def at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]: ...
    def held(self, step: int) -> NDArray[np.int64]:
        """What the buffer holds before `step`, in no particular order."""

class ShardOrder:
    """The samples of consecutive runs, the runs in random order and each from its beginning."""

    def __init__(self, lengths: NDArray[np.int64], seed: int, epoch: int) -> None: ...
    def at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]: ...

class SegmentShuffle:
    """The samples of consecutive runs, each run shuffled in itself."""

    def __init__(self, lengths: NDArray[np.int64], seed: int, epoch: int) -> None: ...
    def at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]: ...

class Mixture:
    """Samples of several sources in exact proportions; sources are numbered as in their concatenation."""

    def __init__(
        self,
        lengths: NDArray[np.int64],
        weights: list[int],
        seed: int,
        epoch: int,
        shuffle: bool = True,
        start: int = 0,
        counts: list[int] = [],
    ) -> None: ...
    def at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]: ...
    def counts_at(self, position: int) -> list[int]:
        """Draws that each source has had before `position`."""

class SequencePacking:
    """Which tokens of which documents lie in which pack of `length` tokens, by "best_fit", "first_fit" or
    "concat".

    lengths: tokens of each document, int64 [n]. window: documents that best_fit puts in order together.
    most_pieces: of a pack, 0: any number. too_long: of documents longer than a pack: "split", "cut" or
        "skip". seed=None: documents in their order.
    """

    def __init__(
        self,
        lengths: NDArray[np.int64],
        length: int,
        strategy: str = "best_fit",
        window: int = 65536,
        most_pieces: int = 0,
        too_long: str = "split",
        seed: int | None = None,
    ) -> None: ...
    def __len__(self) -> int:
        """Packs; the same in every epoch."""

    def report(self) -> dict[str, int]:
        """documents, empty, skipped, cut, cut_tokens, split, tokens, pieces, packs."""

class PackOrder:
    """The packs of one epoch."""

    def __init__(self, packing: SequencePacking, epoch: int) -> None: ...
    def pieces(self, packs: NDArray[np.int64]) -> NDArray[np.int64]:
        """int64 [pieces, 4]: pack, document, the first token's place in it, tokens."""

class PackBuilder:
    """Writes packs as rows.

    arrays: (flat tokens, int64 offsets [documents + 1], name for messages) each. separator: a token after
    each document; the document's length in the packing counts it. targets: "shift" or "same".
    across_documents: labels know no documents. vocabulary: ids are below it, else CorruptDataError; 0: not
    checked.
    """

    def __init__(
        self,
        arrays: Sequence[tuple[np.ndarray, NDArray[np.int64], str]],
        length: int,
        separator: int | None = None,
        targets: str = "shift",
        across_documents: bool = False,
        pad: int = 0,
        ignore: int = -100,
        vocabulary: int = 0,
    ) -> None: ...
    def build(
        self,
        order: PackOrder,
        packs: NDArray[np.int64],
        ids: torch.Tensor,
        labels: torch.Tensor | None = None,
        positions: torch.Tensor | None = None,
        documents: torch.Tensor | None = None,
    ) -> tuple[NDArray[np.int32], int]:
        """Fills dense tensors [packs, length], int64 (documents: int32). Returns where segments begin in the
        concatenated rows, int32 [segments + 1] (padding is a segment), and the longest one's tokens. Any
        thread, several at once.
        """

    def __len__(self) -> int:
        """Documents."""

def pad_rows(
    rows: Sequence[list[int] | np.ndarray | torch.Tensor],
    value: torch.Tensor,
    out: torch.Tensor,
    mask: torch.Tensor | None = None,
    left: bool = False,
) -> None:
    """out[i] = rows[i], filled up with `value` (one number, shape [1], of out's dtype). Rows are dense, of
    out's dtype and shape but for
    the first dimension; lists of ints are for blocks of int64. mask: int64 [rows, length], 1 where there is
    data.
    """

def numa_node_of(pci_address: str) -> int:
    """The NUMA node of a PCI device ("0000:3b:00.0"); -1 when it is not known, or there is only one."""

def nvtx(on: bool) -> None:
    """Whether the engine's stages are shown as NVTX ranges, on the time lines of NVIDIA's profilers, from now
    on.

    read, decode, transform and collate of each thread, waiting for a batch, and queueing copies to a device.
    Costs nothing while off. UnavailableError: this build has no CUDA.
    """

class CopyTicket:
    """A moment on a copier's stream."""

class BatchCopier:
    """Copies of tensors to a device on a stream of its own. One thread at a time.

    `device`: torch's name of one, with an index, or a capsule over a
        `std::shared_ptr<millrace::TensorDevice>`.
    """

    def __init__(self, device: object) -> None: ...
    def copy(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        """Queues copies of dense CPU tensors; the results are for the copier's stream. Page-locked ones are
        read later, others now.
        """

    def seal(self) -> CopyTicket:
        """A ticket for the moment after all copies queued on the copier's stream so far."""

    def hand_out(self, ticket: CopyTicket, tensors: list[torch.Tensor]) -> None:
        """Makes the current stream wait for the ticket, and marks the tensors as used there."""

    def record(self) -> CopyTicket:
        """A ticket for the moment after all work queued on the device's current stream so far."""

    def wait_for(self, ticket: CopyTicket) -> None: ...
    def enter(self) -> None:
        """Sends this thread's work to the copier's stream until leave()."""

    def leave(self) -> None: ...
    def close(self) -> None:
        """Waits for the copies under way."""

    @property
    def stream(self) -> tuple[int, int, int]:
        """(stream_id, device_index, device_type) of the copier's torch.Stream."""

    @property
    def lock_failure(self) -> str:
        """Why host memory could not be page-locked; empty while it could."""

# Batches of pictures, in place of tensors: (address, dtype, n, c, h, w, channels_last); `place`: (CUDA device
# or -1, its stream or 0). The caller holds the memory. On a device the work is enqueued when the function
# returns.
_Images = tuple[int, str, int, int, int, int, bool]
_Place = tuple[int, int]

def cuda_missing_reason() -> str:
    """Why no CUDA device can be used, with the remedy; empty when one can."""

def batch_normalize(
    images: _Images, out: _Images, mean: list[float], std: list[float], place: _Place
) -> None: ...
def batch_flip(images: _Images, out: _Images, flipped: NDArray[np.uint8], place: _Place) -> None: ...
def batch_affine(
    images: _Images,
    out: _Images,
    inverse: NDArray[np.float64],
    bilinear: bool,
    fill: list[float],
    place: _Place,
) -> None:
    """`inverse`: (n, 6), from an output's (x, y) to the input's."""

def batch_color(
    images: _Images,
    out: _Images,
    order: NDArray[np.uint8],
    factors: NDArray[np.float64],
    to_grey: NDArray[np.uint8],
    grey_sums: int,
    place: _Place,
) -> None:
    """`order`: (n, 4) of 0 brightness, 1 contrast, 2 saturation, 3 hue, 4 none; `factors`: (n, 4);
    `grey_sums`: address of n int64 zeros.
    """

def batch_erase(
    images: _Images, out: _Images, boxes: NDArray[np.int32], value: list[float], seed: int, place: _Place
) -> None:
    """`boxes`: (n, 4) left, top, width, height; no `value`: normal noise."""

def batch_mix(
    images: _Images,
    out: _Images,
    partners: NDArray[np.int64],
    shares: NDArray[np.float64],
    boxes: NDArray[np.int32],
    place: _Place,
) -> None: ...

class GpuDecoder:
    """JPEG files to RGB in device memory. One thread at a time; `library`: path of libnvjpeg, or "" for the
    loader's search path.
    """

    def __init__(self, device: int, library: str, memory_ceiling_bytes: int) -> None: ...
    @property
    def has_hardware(self) -> bool: ...
    def plan(self, files: Sequence[bytes], regions: Sequence[tuple[int, int, int, int]]) -> int:
        """Bytes of device memory that decode() will fill; `regions`: (left, top, width, height) each, 0 wide:
        all; waits for the call before.
        """

    def decode(self, memory: int, stream: int) -> list[tuple[int, int, int, int, str]]:
        """(offset, width, height, pitch in bytes, problem) of each file of the last plan(); enqueued on the
        stream.
        """

class FusedPlan:
    """The crops, resizes, flips and colours of some pictures, and the steps after them, to be made a
    batch.
    """

    def __init__(
        self,
        geometry: NDArray[np.int32],
        flags: NDArray[np.uint8],
        bicubic: bool,
        order: NDArray[np.uint8],
        factors: NDArray[np.float64],
    ) -> None:
        """`geometry`: (n, 8) crop (left, top, width, height), its new (width, height), (left, top) of the
        output in that; `flags`: (n, 3)
        flip horizontally, flip vertically, to grey.
        """

    @staticmethod
    def of_pipeline(pipeline: ImagePipeline, sizes: list[tuple[int, int]], seed: int) -> FusedPlan:
        """The chain's decisions for pictures of these (width, height): picture i is
        `pipeline.apply(picture, seed, 0, i)`. Raises UnavailableError where one of them is the CPU's.
        """

    def workspace_bytes(self, height: int, width: int) -> int: ...
    def run(
        self,
        pictures: list[tuple[int, int, int, int, int]],
        mean: list[float],
        std: list[float],
        out: _Images,
        workspace: int,
        place: _Place,
    ) -> None:
        """`pictures`: (address, width, height, pitch in bytes, bytes per pixel)."""

def hash_rows(rows: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """XXH64 (seed 0) of each row of uint8 (rows, bytes), about 10 GB/s."""

def wake_on_signal(signal: int, fd: int) -> None:
    """A byte is written to `fd` whenever `signal` comes, then the handler that was there before is called.
    ValueError: it cannot be caught.
    """

def unwake_on_signal(signal: int) -> bool:
    """The reverse; True: the handler that was there before is back."""

class DriftStats:
    """Statistics of a feed: what millrace_tools.drift.DriftProfile holds."""

    def __init__(self, dict: dict[str, Any]) -> None:
        """What to_dict() returned; ValueError, KeyError or RuntimeError for anything else."""

    def to_dict(self) -> dict[str, Any]:
        """JSON's types, but for repeats.registers, which are bytes."""

    def merge(self, other: DriftStats) -> None:
        """Adds the other's samples; ValueError where fields of one name are of different kinds."""

class DriftExaminer:
    """A thread that looks at batches: src/tuning/drift_examiner.h."""

    def __init__(
        self,
        reference: DriftStats | None = None,
        queue: int = 2,
        rows: int = 256,
        values: int = 256,
        false_alarms: float = 1e-3,
        least: float = 1.0,
    ) -> None: ...
    def submit(
        self,
        step: int,
        new_epoch: bool,
        fields: Sequence[tuple[str, list[torch.Tensor], str, str]],
        wait: bool = False,
    ) -> bool:
        """`fields`: (name, tensors on the CPU, name of their type, "data", "ragged" or "lengths"); the
        tensors are held until they have
        been looked at. False when `queue` batches wait already, and `wait` is not. Raises what an earlier
        batch came to.
        """

    def finish(self) -> None:
        """Waits for all that was submitted; raises what it came to."""

    def statistics(self) -> DriftStats:
        """A copy of what has been seen so far."""

    def take_alarms(self) -> list[dict[str, Any]]:
        """Those since the last call: DriftAlarm of src/tuning/drift_detector.h."""

    def counts(self) -> dict[str, Any]:
        """examined, dropped; seconds of CPU."""

    def close(self) -> None:
        """Joins the thread; what waits is dropped."""

def field_layout(sizes: Sequence[int], dtype: str, ragged: bool = False) -> dict[str, Any]:
    """What a field's numbers are, by its type and shape: series_axis, series, channels, counted, padded."""

def stack_ends(codes: list[Any]) -> None:
    """Code objects that call the user's code: stacks end with the first of them."""

def stack_enter() -> None:
    """The main thread begins a stretch in which it is looked at (python/bindings/stack_looks.h)."""

def stack_leave() -> None: ...
def stack_pause() -> None:
    """Joins the ticking thread, before a fork; the next stretch starts it again."""

def stack_take() -> list[tuple[float, float, tuple[tuple[Any, int], ...]]]:
    """[(seconds that the look represents, share of the wait for it with a CPU, ((code, offset), ...))],
    innermost frame first.
    """

def stack_of_thread(ident: int) -> tuple[tuple[Any, int], ...]:
    """The same frames of another thread, which does not run while the caller has the GIL. Empty if there is
    none.
    """

def stacks_of_threads() -> dict[int, tuple[tuple[Any, int], ...]]:
    """All frames, up to 1,000, of each thread that runs Python code, by its ident: all as of one moment.
    sys._current_frames() would have
    them as objects, and walking those in Python lets other threads go on meanwhile.
    """

def stack_pace(seconds: float) -> None:
    """For tests: the mean time between two looks at the main thread; 0: as ever."""
