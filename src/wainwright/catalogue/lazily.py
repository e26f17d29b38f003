"""Mappings that are worked out entry by entry: most plans look at a few types of thousands."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TypeVar

One = TypeVar("One")


class Lazily(Mapping[str, One]):
    """Has all names from the start; what belongs to a name is made once, when it is asked for."""

    __slots__ = ("_made", "_make", "_names")

    def __init__(self, names: Collection[str], make: Callable[[str], One]) -> None:
        self._names = names
        self._make = make
        self._made: dict[str, One] = {}

    def __getitem__(self, name: str) -> One:
        found = self._made.get(name)
        if found is None:
            if name not in self._names:
                raise KeyError(name)
            found = self._made[name] = self._make(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names
