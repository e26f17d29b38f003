"""What forks of the scheduling state are made of: shallow copies, and tables whose rows are shared
with the original until they are replaced.
"""

from typing import Protocol, TypeVar

Object = TypeVar("Object")


def shallow_copy(value: Object) -> Object:
    """The same attributes in another object of the same class, which must not have slots.

    As `copy.copy`, without its search for a protocol: a simulation makes several copies, and that
    search takes longer than the copies.
    """
    clone = object.__new__(type(value))
    clone.__dict__.update(value.__dict__)
    return clone


Row = TypeVar("Row")
RowOut = TypeVar("RowOut", covariant=True)


class Rows(Protocol[RowOut]):
    """Something of every node, by its number."""

    def __getitem__(self, number: int, /) -> RowOut: ...


class ForkedRows(dict[int, Row]):
    """The rows of another table, except for those that were replaced here.

    An unchanged row is read from the other table: a fork of thousands of nodes is made without
    copying one of them.
    """

    def __init__(self, rows: Rows[Row]) -> None:
        self._rows = rows

    def __missing__(self, number: int) -> Row:
        return self._rows[number]
