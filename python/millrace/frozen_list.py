"""frozen(): a dataset's list of paths, labels or records that worker processes share instead of copying."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, NoReturn

from ._common.columns import Column, pack
from ._common.shared_memory import SharedBytes, is_spawning


def frozen(items: Iterable[Any]) -> FrozenList:
    """Return `items` as a read-only sequence that any number of worker processes share.

    Every look at an object of a Python list writes to it, to count references, so each forked worker comes to
    own a copy of the whole list; a spawned one gets a copy at once. Here the items lie in flat shared memory,
    and an object is made when an item is looked at: of the type that went in, and a new one each time, so
    changing a dict that came out changes nothing inside.

        self.samples = millrace.frozen(self.samples)        # at the end of a dataset's __init__

    It reads like a list: indices from both ends, `in`, `==` with lists, index(), count(); slices are views
    and copy nothing.

    Args:
        items: str, bytes, int, float or bool, all of one type, are stored as they are (int in as few bytes as
            the largest needs); so are tuples of one length and dicts with the same str keys, field by field.
            Anything else, and a list of mixed types, is stored as one pickle per item, which is slower to
            read.

    Raises:
        TypeError: if an item cannot be pickled, or if `items` is a str, bytes, dict or set in place of a
            sequence.
    """
    if isinstance(items, FrozenList):
        return items
    if isinstance(items, (str, bytes, bytearray, Mapping, Set)):
        raise TypeError(
            f"frozen() takes a list or another sequence of items, not a {type(items).__name__}; use"
            " frozen(list(...))"
        )
    if not isinstance(items, (list, tuple)):
        items = list(items)
    columns: list[Column] = []
    shared = SharedBytes(lambda file: columns.append(pack(lambda: iter(items), len(items), file)))
    return FrozenList(shared, columns[0], range(len(items)))


class FrozenList(Sequence):
    """The read-only sequence that `frozen()` returns. Do not make one by hand. It cannot be changed; copies
    are the object itself.

    Workers of every start method share its memory; any other pickle holds the items. One descriptor is open
    while it, or a slice of it, exists. May be read by any number of threads.

    Args:
        shared: its memory.
        column: how the items lie in that memory.
        positions: which part of the memory it shows.
    """

    __slots__ = ("_shared", "_column", "_positions", "_read", "__weakref__")
    __hash__ = None  # type: ignore[assignment]  # as a list

    def __init__(self, shared: SharedBytes, column: Column, positions: range) -> None:
        self._shared = shared
        self._column = column
        self._positions = (
            positions  # of the items in the column: a slice is another range over the same memory
        )
        self._read = column.reader(shared.memory)

    def __len__(self) -> int:
        return len(self._positions)

    def __getitem__(self, index: Any) -> Any:
        try:
            position = self._positions[index]
        except IndexError:
            raise IndexError(f"index {index} is outside this frozen list of {len(self)} items") from None
        if type(position) is int:
            return self._read(position)
        return FrozenList(self._shared, self._column, position)

    def __iter__(self) -> Iterator[Any]:
        return map(self._read, self._positions)

    def __reversed__(self) -> Iterator[Any]:
        return map(self._read, reversed(self._positions))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (list, FrozenList)):
            return NotImplemented
        return len(self) == len(other) and all(map(operator.eq, self, other))

    def __repr__(self) -> str:
        shown = [repr(item) for item in self[:3]]
        dots = [f"... {len(self) - 3:,} more"] if len(self) > 3 else []
        return f"frozen([{', '.join(shown + dots)}])"

    def __copy__(self) -> FrozenList:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> FrozenList:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if len(self) < self._column.rows and not is_spawning():
            return frozen, (list(self),)  # a slice does not drag the rest along
        return FrozenList, (self._shared, self._column, self._positions)

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(
            "a frozen list cannot be changed; make a list of it, change that, and freeze it again: items ="
            " list(items)"
        )

    __setitem__ = __delitem__ = append = clear = extend = insert = pop = remove = reverse = sort = (
        __iadd__
    ) = __imul__ = _refuse
