"""The fluent methods, named and meant as webdataset's. Each returns a new pipeline with one more stage."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Iterable
from typing import Any

from .caching import Cached, LMDBCached
from .collation import default_collation_fn
from .decoders import AllowPickle, Decoder
from .handlers import Handler, reraise_exception
from .holding import Batched, RandomSample, Shuffle, Slice, Unpacked, elements_of, rows_of
from .stages import (
    DEFAULT_PATTERNS,
    Associate,
    Decode,
    DecodeByPattern,
    ExtractKeys,
    Fields,
    LogKeys,
    Map,
    MapDict,
    MapTuple,
    Rename,
    RenameKeys,
    Select,
    ToDict,
    ToTuple,
    alternatives,
)


class Fluent:
    """A mixin for classes that have `compose(stage)`.

    Samples are dicts {"__key__", "__url__", field: value} until to_tuple().
    """

    def compose(self, *stages: Any) -> Any:
        raise NotImplementedError

    # ---------------------------------------------------------------- fields

    def decode(
        self,
        *args: str | Decoder,
        pre: Iterable[Decoder] | None = None,
        post: Iterable[Decoder] | None = None,
        only: None | str | Collection[str] = None,
        partial: bool = False,
        handler: Handler = reraise_exception,
        allow_pickle: AllowPickle = False,
    ) -> Any:
        """Decode fields by their extensions: txt, cls, id, json, npy, npz, pth, ten, msgpack, cbor, and
        within .gz.

        Other fields stay bytes.

        Args:
            *args: "pil", "rgb8", "torchrgb" and the like decode pictures (decoders.py has the names);
                functions of (".extension", bytes) decode fields for which they return something other than
                None. Tried in this order, between those of `pre` and `post`.
            pre, post: functions tried before and after those of `args`.
            only: names of fields, a list or separated by spaces; the others stay as they are.
            partial: leaves fields alone that are no bytes.
            allow_pickle: pickles (pyd, pkl, pickle, arrays of objects in npy and npz, pth with more than
                tensors) run any code when they are read, so they are refused. True allows all; a list allows
                these extensions.

        Raises:
            DecodingError: if a field is a pickle that is refused.
        """
        names = only.split() if isinstance(only, str) else only
        return self.compose(
            Decode(
                args,
                None if pre is None else tuple(pre),
                None if post is None else tuple(post),
                None if names is None else frozenset(names),
                partial,
                allow_pickle if isinstance(allow_pickle, bool) else _names("allow_pickle", allow_pickle),
                handler,
            )
        )

    def xdecode(
        self,
        *args: tuple[str, Any],
        must_decode: bool = True,
        defaults: Iterable[Any] = DEFAULT_PATTERNS,
        **kw: Any,
    ) -> Any:
        """Decode fields by functions of a file.

        Args:
            *args: pairs (pattern, function); False as the function leaves bytes.
            **kw: `png=function` is ("*.png", function).
        """
        patterns = (*defaults, *args, *((f"*.{name}", function) for name, function in kw.items()))
        return self.compose(DecodeByPattern(patterns, must_decode))

    def to_tuple(
        self,
        *args: Fields,
        handler: Handler = reraise_exception,
        missing_is_error: bool = True,
        none_is_error: bool | None = None,
    ) -> Any:
        """The fields as a tuple, in this order.

        Args:
            *args: names of fields; "jpg;png" is the first of these that the sample has. "jpg cls" is two
                fields.
            missing_is_error: False gives None in place of a field that the sample lacks.

        Raises:
            ValueError: if a sample lacks a field, unless `missing_is_error` is False. The handler gets it.
        """
        fields = args[0].split() if len(args) == 1 and isinstance(args[0], str) and " " in args[0] else args
        nones = missing_is_error if none_is_error is None else none_is_error
        return self.compose(ToTuple(tuple(map(alternatives, fields)), missing_is_error, nones, handler))

    def to_dict(
        self, *args: Fields, handler: Handler = reraise_exception, missing_is_error: bool = True
    ) -> Any:
        """Samples with these fields only, called by the first name of "jpg;png".

        With no fields named, all but `__key__` and `__url__`.
        """
        fields = args[0].split() if len(args) == 1 and isinstance(args[0], str) else args
        return self.compose(ToDict(tuple(map(alternatives, fields)), missing_is_error, handler))

    def rename(self, handler: Handler = reraise_exception, keep: bool = True, **kw: Fields) -> Any:
        """Rename fields: with `rename(image="jpg;png")` the field is called image.

        Args:
            keep: False leaves out the fields not named, `__key__` too.
            **kw: the fields by their new names.
        """
        return self.compose(Rename({new: alternatives(old) for new, old in kw.items()}, keep, handler))

    def rename_keys(
        self,
        *args: tuple[str, str],
        keep_unselected: bool = False,
        must_match: bool = True,
        duplicate_is_error: bool = True,
        **kw: str,
    ) -> Any:
        """Rename fields with a name that fits the pattern: `rename_keys(image="*.jpg")` or
        `rename_keys(("image", "*.jpg"))`.
        """
        return self.compose(RenameKeys((*args, *kw.items()), keep_unselected, must_match, duplicate_is_error))

    def extract_keys(
        self, *args: Fields, duplicate_is_error: bool = True, ignore_missing: bool = False
    ) -> Any:
        """A tuple of the fields that fit these patterns, "*.jpg;*.png"."""
        return self.compose(ExtractKeys(tuple(map(alternatives, args)), duplicate_is_error, ignore_missing))

    # ---------------------------------------------------------------- functions

    def map(self, f: Callable[[Any], Any], handler: Handler = reraise_exception) -> Any:
        """Replace each sample by f(sample); None leaves the sample out."""
        return self.compose(Map(f, handler))

    def map_tuple(self, *args: Callable[[Any], Any] | None, handler: Handler = reraise_exception) -> Any:
        """Call a function for each field of a tuple; None leaves the field as it is."""
        return self.compose(MapTuple(args, handler))

    def map_dict(self, handler: Handler = reraise_exception, **kw: Callable[[Any], Any]) -> Any:
        """Replace fields by functions of them: `map_dict(jpg=f)` puts f(sample["jpg"]) in the place of
        sample["jpg"].
        """
        if not kw:
            raise ValueError("map_dict() needs a function for one field at least: map_dict(jpg=f)")
        return self.compose(MapDict(kw, handler))

    def associate(self, associator: Callable[[str], Any] | dict[str, Any]) -> Any:
        """Samples with more fields: associator(key), or associator[key] where it has one; `key` is the
        sample's `__key__`.
        """
        return self.compose(Map(Associate(associator)))

    def select(self, predicate: Callable[[Any], bool], handler: Handler = reraise_exception) -> Any:
        """The samples of which predicate(sample) is true."""
        return self.compose(Select(predicate, handler))

    # ---------------------------------------------------------------- order and number

    def shuffle(
        self,
        size: int,
        initial: int = 100,
        rng: Any = None,
        seed: int | None = None,
        handler: Handler | None = None,
    ) -> Any:
        """Shuffle samples through a buffer.

        The order is a function of (the data set's seed, `seed`, epoch, reader). Put it before decode(): the
        buffer holds bytes then, and resuming reads its samples again without decoding.

        Args:
            size: samples that the buffer has; below 1: nothing changes.
            initial: the buffer begins to give samples when it has so many.
            rng: None only.
            seed: the order depends on it, as told above.
            handler: no effect, as nothing can fail here.

        Raises:
            ValueError: if there is an `rng`: its state would not be known.
        """
        if rng is not None:
            raise ValueError(
                "shuffle(rng=...) could not be resumed; give seed=, an int, which makes the order as well"
            )
        return self if size < 1 else self.compose(Shuffle(int(size), int(initial), seed))

    def rsample(self, p: float = 0.5) -> Any:
        """Each sample with probability `p`."""
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"rsample(p) takes a probability, 0 <= p <= 1, not {p}")
        return self.compose(RandomSample(p))

    def slice(self, *args: int | None) -> Any:
        """A slice of each reader's samples, by itertools.islice's arguments: (stop), (start, stop) or (start,
        stop, step).
        """
        if not 1 <= len(args) <= 3:
            raise TypeError(f"slice() takes 1 to 3 arguments, as itertools.islice does, not {len(args)}")
        start, stop, step = (
            (0, args[0], 1)
            if len(args) == 1
            else (args[0] or 0, args[1], (args[2] if len(args) > 2 else 1) or 1)
        )
        if start < 0 or (stop is not None and stop < 0) or step < 1:
            raise ValueError(
                f"slice({', '.join(map(str, args))}): start and stop should be 0 or more, and step 1 or more"
            )
        return self.compose(Slice(start, stop, step))

    def batched(
        self,
        batchsize: int = 20,
        collation_fn: Callable[[list[Any]], Any] | None = default_collation_fn,
        partial: bool = True,
    ) -> Any:
        """Batches of `batchsize` samples: collation_fn of a list of them.

        Args:
            batchsize: samples of a batch.
            collation_fn: a function of a list of samples. The default makes arrays of numbers and arrays,
                tensors of tensors, and lists of anything else, field by field.
            partial: False drops the shorter batch at the reader's end.
        """
        if batchsize < 1:
            raise ValueError(f"batchsize should be 1 or more, but is {batchsize}")
        return self.compose(Batched(int(batchsize), collation_fn, partial))

    def unbatched(self) -> Any:
        """The samples of batches."""
        return self.compose(Unpacked("unbatched", rows_of))

    def listed(self, batchsize: int, partial: bool = True) -> Any:
        """Lists of `batchsize` samples."""
        return self.batched(batchsize, None, partial)

    def unlisted(self) -> Any:
        """The elements of lists."""
        return self.compose(Unpacked("unlisted", elements_of))

    # ---------------------------------------------------------------- what passes

    def log_keys(self, logfile: str | None = None) -> Any:
        """Write a line for each sample to `logfile`."""
        return self.compose(LogKeys(logfile)) if logfile else self

    def mcached(self) -> Any:
        """Keep samples as they passed in the first epoch, in memory, each worker process for itself.

        Later epochs have the same order.
        """
        return self.compose(Cached())

    def lmdb_cached(
        self, fname: str, map_size: float = 1e12, pickler: Any = pickle, chunksize: int = 500
    ) -> Any:
        """Keep samples as mcached() does, but in an LMDB database.

        For the arguments, see `LMDBCached`.
        """
        return self.compose(LMDBCached(fname, map_size, pickler, chunksize))


def _names(argument: str, names: Any) -> frozenset[str]:
    if isinstance(names, str):
        raise ValueError(f"{argument}={names!r}: give True, or a list of extensions: ({names!r},)")
    return frozenset(names)
