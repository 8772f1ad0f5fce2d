"""The parts of an Arrow dataset's samples that the engine does not make: the other columns, and the original
picture, if the transform leaves it in the sample. Most collate functions do not look at that picture, so it
is opened on first access.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ByName:
    """Makes a dict of `keys`, in this order: a sample of its picture and its other columns, or a batch of all
    pictures and the other columns' batches.
    """

    keys: tuple[str, ...]
    picture: str

    def __call__(self, picture: Any, others: Mapping[str, Any]) -> dict[str, Any]:
        return {key: picture if key == self.picture else others[key] for key in self.keys}


class ArrowRows:
    """Dicts of the columns of `table`, a datasets.table.Table, by position in it. `columns`: from a key to
    the name of its column. None is the picture: `feature` decodes it from column `pictures`.
    """

    def __init__(self, table: Any, columns: Mapping[str, str | None], pictures: str, feature: Any) -> None:
        self._columns = dict(columns)
        names = list(dict.fromkeys(name for name in columns.values() if name is not None))
        self._rest = table.select(names) if names else None
        self._pictures = table.select([pictures]) if None in columns.values() else None
        self._feature = feature

    def __call__(self, positions: Iterable[int]) -> list[dict[str, Any]]:
        wanted = list(positions)
        found = self._rest.fast_gather(wanted).to_pydict() if self._rest is not None and wanted else {}
        return [
            {
                key: self._picture(position) if name is None else found[name][number]
                for key, name in self._columns.items()
            }
            for number, position in enumerate(wanted)
        ]

    def _picture(self, position: int) -> Any:
        return unopened(functools.partial(self._opened, position))

    def _opened(self, position: int) -> Any:
        (stored,) = self._pictures.fast_slice(position, 1).column(0).to_pylist()  # type: ignore[union-attr]
        return self._feature.decode_example(stored)


def unopened(opens: Callable[[], Any]) -> Any:
    """A PIL image that becomes the result of `opens()` on the first access to any attribute."""
    cls = _unopened_class()
    picture = cls.__new__(cls)
    object.__getattribute__(picture, "__dict__")[_OPENS] = opens
    return picture


_OPENS = "millrace opens"


@functools.cache
def _unopened_class() -> Any:
    from PIL import Image  # already imported: such datasets need it

    class Unopened(Image.Image):
        def __getattribute__(self, name: str) -> Any:
            if name == "__class__":  # asked by isinstance()
                return Image.Image
            _open(self)
            return getattr(self, name)

        def __setattr__(self, name: str, value: Any) -> None:
            _open(self)
            setattr(self, name, value)

    return Unopened


def _open(picture: Any) -> None:
    fields = object.__getattribute__(picture, "__dict__")
    opened = fields[_OPENS]()
    fields.clear()
    fields.update(vars(opened))
    object.__setattr__(picture, "__class__", type(opened))
