"""pyarrow, resolved when a table is first asked for."""

from __future__ import annotations

from typing import Any

from millrace.errors import UnavailableError


def arrow() -> Any:
    """The module pyarrow. UnavailableError where it is not installed."""
    try:
        import pyarrow
    except ImportError:
        raise UnavailableError(
            "tables are read by pyarrow, which is not installed: pip install 'millrace[parquet]'"
        ) from None
    return pyarrow


def parquet() -> Any:
    """The module pyarrow.parquet."""
    arrow()
    import pyarrow.parquet

    return pyarrow.parquet


def compute() -> Any:
    """The module pyarrow.compute."""
    arrow()
    import pyarrow.compute

    return pyarrow.compute


def arrow_dataset() -> Any:
    """The module pyarrow.dataset."""
    arrow()
    import pyarrow.dataset

    return pyarrow.dataset


def local_files() -> Any:
    """pyarrow's local file system."""
    arrow()
    import pyarrow.fs

    return pyarrow.fs.LocalFileSystem()
