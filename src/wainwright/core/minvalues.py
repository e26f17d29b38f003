"""minValues: whether the types left to a draft are still as diverse as its pool asks for.

For each key a draft remembers just enough types to meet the count. While those stay the check is
one AND; only when one of them goes are others looked for.
"""

from typing import TypeAlias

from wainwright.core.narrowing import Narrowing
from wainwright.model.columns import Rows
from wainwright.model.index import TypeIndex
from wainwright.model.markets import Markets
from wainwright.model.requirements import Requirements

Minimums: TypeAlias = tuple[tuple[str, int], ...]
"""Key and how many different values of it the types left must have; in the order of keys."""

Witnesses: TypeAlias = tuple[Rows, ...]
"""For each minimum the types that meet it, or 0 where the markets have their say."""


def minimums(requirements: Requirements) -> Minimums:
    return tuple(
        (key, found.min_values)
        for key, found in requirements.items()
        if found.min_values is not None
    )


class Diversity:
    """Answers for one catalogue, with those about markets remembered: they cost most."""

    __slots__ = ("_index", "_remembered")

    def __init__(self, index: TypeIndex) -> None:
        self._index = index
        self._remembered: dict[tuple[str, int, Rows, Markets, Narrowing], bool] = {}

    def witnesses(
        self, wanted: Minimums, narrowing: Narrowing, rows: Rows, markets: Markets
    ) -> Witnesses | None:
        """Types that meet all of the minimums, or None where one cannot be met."""
        found: list[Rows] = []
        for key, count in wanted:
            met = self._met(key, count, narrowing, rows, markets)
            if met is None:
                return None
            found.append(met)
        return tuple(found)

    def still(
        self,
        wanted: Minimums,
        before: Witnesses,
        narrowing: Narrowing,
        rows: Rows,
        markets: Markets,
    ) -> Witnesses | None:
        """The same where the requirements did not change and fewer types are left."""
        if all(each and each & rows == each for each in before):
            return before
        return self.witnesses(wanted, narrowing, rows, markets)

    def lowered(
        self, wanted: Minimums, narrowing: Narrowing, rows: Rows, markets: Markets
    ) -> Minimums:
        """The minimums that can be met; each is lowered to what there is."""
        allowed = narrowing.requirements.allowed
        return tuple(
            (key, min(count, len(self._index.values_left(key, rows, markets, allowed(key)))))
            for key, count in wanted
        )

    def _met(
        self, key: str, count: int, narrowing: Narrowing, rows: Rows, markets: Markets
    ) -> Rows | None:
        if count == 0:
            return 0
        if not self._index.named_by_markets(key):
            return self._index.witnesses(key, count, rows, narrowing.requirements.allowed(key))
        question = (key, count, rows, markets, narrowing)
        if question not in self._remembered:
            if len(self._remembered) > 4096:
                self._remembered.clear()
            allowed = narrowing.requirements.allowed(key)
            self._remembered[question] = self._index.has_values(key, count, rows, markets, allowed)
        return 0 if self._remembered[question] else None
