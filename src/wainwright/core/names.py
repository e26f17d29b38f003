"""Names: what the sets of a plan are called when they are written down."""

from itertools import compress
from operator import itemgetter
from typing import Final

from wainwright.core.narrowing import Narrowing
from wainwright.model.columns import Rows, row_numbers
from wainwright.model.index import TypeIndex
from wainwright.model.labels import CAPACITY_TYPE, ZONE
from wainwright.model.markets import Markets
from wainwright.model.plan import Choices
from wainwright.model.values import ValueSet

FLAGS: Final = bytes.maketrans(b"01", b"\x00\x01")


class Spelling:
    """The names of some types; any set of these is spelt out in the order of names."""

    __slots__ = ("_flags_of", "_marker", "_names")

    def __init__(self, index: TypeIndex, rows: Rows) -> None:
        digits = _digits(rows)
        ordered = [row for row in index.by_name if row < len(digits) and digits[~row]]
        self._names = [index.types[row].name for row in ordered]
        self._marker: Rows = 1 << len(index.types)
        # A getter of one place gives no tuple, so that the marker is asked for as well, twice.
        self._flags_of = itemgetter(*[~row for row in ordered], 0, 0)

    def of(self, rows: Rows) -> tuple[str, ...]:
        return tuple(compress(self._names, self._flags_of(_digits(rows | self._marker))))


def _digits(rows: Rows) -> bytes:
    """For each row whether it is in the set, the last row first."""
    return bin(rows)[2:].encode().translate(FLAGS)


class Names:
    """What the sets of one catalogue are called; equal sets are spelt out once."""

    __slots__ = (
        "_admitted",
        "_ids",
        "_index",
        "_known",
        "_markets",
        "_open",
        "_spellings",
        "told",
    )

    def __init__(self, index: TypeIndex) -> None:
        self._index = index
        self._ids = [market.reservation_id for market in index.markets]
        self.told: dict[tuple[Narrowing, Rows], Choices] = {}
        self._known: dict[Rows, tuple[str, ...]] = {}
        self._spellings: dict[Rows, Spelling] = {}
        self._admitted: dict[tuple[str, ValueSet], list[tuple[str, Markets]]] = {}
        self._markets = {
            key: list(index.markets_by_value(key).items()) for key in (ZONE, CAPACITY_TYPE)
        }
        self._open = {ZONE: index.zoneless, CAPACITY_TYPE: 0}

    def types(self, rows: Rows, among: Rows) -> tuple[str, ...]:
        """In order; `among` are all that any draft of the pool might have."""
        found = self._known.get(rows)
        if found is None:
            spelling = self._spellings.get(among)
            if spelling is None:
                spelling = self._spellings[among] = Spelling(self._index, among)
            found = self._known[rows] = spelling.of(rows)
        return found

    def values(self, key: str, rows: Rows, markets: Markets, allowed: ValueSet) -> tuple[str, ...]:
        """The values of a label that these types have in these markets, in order.

        A market that leaves the zone open stands for every zone that the catalogue knows.
        """
        sold = self._index.sold_in
        anywhere = sold(self._open[key] & markets) & rows
        found = tuple(
            value
            for value, having in self._markets[key]
            if allowed.admits(value) and (anywhere or sold(having & markets) & rows)
        )
        return found or _asked(allowed)

    def held(self, key: str, held: Markets, allowed: ValueSet) -> tuple[str, ...]:
        """The same for markets that are known to sell what is left."""
        admitted = self._admitted.get((key, allowed))
        if admitted is None:
            admitted = self._admitted[key, allowed] = [
                (value, having | self._open[key])
                for value, having in self._markets[key]
                if allowed.admits(value)
            ]
        return tuple([value for value, having in admitted if having & held]) or _asked(allowed)

    def reservations(self, held: Markets) -> tuple[str, ...]:
        found = {self._ids[market] or "" for market in row_numbers(held)}
        return tuple(sorted(found))


def _asked(allowed: ValueSet) -> tuple[str, ...]:
    """What is asked for, where nobody who sells names a value."""
    return () if allowed.open else tuple(sorted(allowed.values))
