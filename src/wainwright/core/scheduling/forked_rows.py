"""Rows of a table that a fork shares with the original until it replaces them."""

from typing import Protocol, TypeVar

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
