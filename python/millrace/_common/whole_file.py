"""Files that are replaced as a whole: who reads one meanwhile finds the old text or the new one."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: str | os.PathLike[str], text: str) -> Path:
    """Writes `text` as UTF-8 under another name beside `path`, then renames it, so that `path` is whole at
    any time.

    OSError of the kind that came up, naming the path and what to do.
    """
    path = Path(path)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        try:
            part.write_text(text, encoding="utf-8")
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        rule = "give a path in a folder that exists and may be written to"
        raise type(error)(error.errno, f"cannot write {path}: {reason}; {rule}") from error
    return path
