"""Archives as Python streams: the files in them, and the samples of files. For commands, and for scripts
(tariterators.py).
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .handlers import LEFT_OUT, Handler, handled, reraise_exception

_PATH = re.compile(r"((?:.*/)?[^.]+)\.([^/]*)")
META = r"__[^/]*__($|/)"
Sample = dict[str, Any]


def base_plus_ext(path: str) -> tuple[str | None, str | None]:
    """("a/b", "left.png") of "a/b.left.png"; (None, None) of a name without a dot, or with one in front."""
    found = _PATH.fullmatch(path)
    return (found[1], found[2]) if found else (None, None)


def valid_sample(sample: Any) -> bool:
    """Whether it is a dict with fields that nobody marked as `__bad__`."""
    return isinstance(sample, dict) and len(sample) > 0 and not sample.get("__bad__", False)


def tar_file_iterator(
    fileobj: Any,
    skip_meta: str | None = META,
    handler: Handler = reraise_exception,
    select_files: Callable[[str], bool] | None = None,
    rename_files: Callable[[str], str] | None = None,
) -> Iterator[Sample]:
    """{"fname": ..., "data": ...} of the regular files of an archive, plain or packed, that is read front to
    back.

    skip_meta: a regular expression of names that are left out; None leaves out "__name__" only.
    """
    skip = None if skip_meta is None else re.compile(skip_meta)

    def file_of(member: tarfile.TarInfo) -> Any:
        name = member.name
        archive.members = []  # type: ignore[attr-defined]  # it keeps all of them otherwise
        if not member.isreg() or ("/" not in name and name.startswith("__") and name.endswith("__")):
            return LEFT_OUT
        if skip is not None and skip.match(name):
            return LEFT_OUT
        name = rename_files(name) if rename_files else name
        if select_files is not None and not select_files(name):
            return LEFT_OUT
        content = archive.extractfile(member)
        return {"fname": name, "data": b"" if content is None else content.read()}

    with tarfile.open(fileobj=fileobj, mode="r|*") as archive:
        yield from handled(file_of, _members(archive), handler)


def _members(archive: Any) -> Iterator[Any]:
    """The members of a tarfile. Adds the byte offset to errors, and refuses a cut header."""
    try:
        yield from archive
        if archive.fileobj.pos % tarfile.BLOCKSIZE:
            raise tarfile.ReadError("the archive ends inside a header")
    except tarfile.ReadError as error:
        raise tarfile.ReadError(f"{error}, at byte {archive.offset}") from error


def tar_file_expander(
    data: Iterable[Sample],
    handler: Handler = reraise_exception,
    select_files: Callable[[str], bool] | None = None,
    rename_files: Callable[[str], str] | None = None,
    eof_value: Sample | None = None,
) -> Iterator[Sample]:
    """The files of all archives {"url": ..., "stream": ...}, with `__url__`.

    Newer versions of the package give {} after each archive, and scripts that group files themselves do not
    take it.

    Args:
        data: the archives.
        eof_value: comes after each archive, unless it is None.
    """
    for source in data:
        more = {"__url__": source["url"]}
        if source.get("local_path") is not None:
            more["__local_path__"] = source["local_path"]
        try:
            for file in tar_file_iterator(
                source["stream"], handler=handler, select_files=select_files, rename_files=rename_files
            ):
                yield {**file, **more}
            if eof_value is not None:
                yield eof_value
        except Exception as error:
            error.args = (*error.args, source["url"])  # as the package does
            if not handler(error):
                return
        finally:
            source["stream"].close()


def group_by_keys(
    data: Iterable[Sample],
    keys: Callable[[str], tuple[str | None, str | None]] = base_plus_ext,
    lcase: bool = True,
    suffixes: Iterable[str] | None = None,
    handler: Handler = reraise_exception,
) -> Iterator[Sample]:
    """Samples of consecutive files of one archive that have the same key.

    An empty dict between files ends a sample.

    Args:
        keys: a function from a file's name to (key, suffix); None leaves the file out.
        lcase: suffixes in small letters.
        suffixes: only these.
    """
    wanted = None if suffixes is None else frozenset(suffixes)
    sample: Sample | None = None
    for file in data:
        try:
            key, suffix = keys(file["fname"]) if file else (None, None)
            if file and (key is None or suffix is None):
                continue
            if sample is not None and (
                not file or key != sample["__key__"] or file["__url__"] != sample["__url__"]
            ):
                done, sample = sample, None
                if valid_sample(done):
                    yield done
            if not file:
                continue
            if sample is None:
                sample = {"__key__": key, "__url__": file["__url__"]}
            assert suffix is not None  # of a file
            suffix = suffix.lower() if lcase else suffix
            if suffix in sample:
                raise ValueError(
                    f"{file['__url__']}: {file['fname']!r} is twice in sample {key!r}; rename one, or leave"
                    " it out"
                )
            if wanted is None or suffix in wanted:
                sample[suffix] = file["data"]
            if "__local_path__" in file:
                sample["__local_path__"] = file["__local_path__"]
        except Exception as error:
            if handler(error):
                continue
            return
    if valid_sample(sample):
        yield sample  # type: ignore[misc]
