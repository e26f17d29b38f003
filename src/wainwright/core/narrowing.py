"""Narrowings: requirements together with what they leave of a pool's types and markets.

Equal requirements are one object, and what comes of joining two is remembered, so that the same
question is answered once in a plan however many pods ask it.
"""

from collections.abc import Set as AbstractSet
from typing import Final

from wainwright.model.columns import Rows
from wainwright.model.index import TypeIndex
from wainwright.model.markets import Markets
from wainwright.model.requirements import Requirements

REMEMBERED: Final = 16384  # narrowings kept for one pool; when there are more, all are forgotten


class Ground:
    """What the narrowings of one pool share."""

    __slots__ = ("index", "reserved", "usable", "well_known")

    def __init__(
        self, index: TypeIndex, usable: Rows, reserved: Markets, well_known: AbstractSet[str]
    ) -> None:
        self.index = index
        self.usable = usable
        """Types with any room at all once daemonsets have theirs."""
        self.reserved = reserved
        """The markets that sell slots of a reservation."""
        self.well_known = well_known


class Narrowing:
    """One set of requirements on nodes of a pool."""

    __slots__ = (
        "_ground",
        "_joined",
        "_known",
        "markets",
        "offered",
        "requirements",
        "reserved",
        "rows",
    )

    def __init__(
        self, ground: Ground, requirements: Requirements, known: "dict[Requirements, Narrowing]"
    ) -> None:
        index = ground.index
        admitted = index.markets_admitted_by(requirements)
        self.requirements = requirements
        self.rows: Rows = ground.usable & index.admitted_by(requirements)
        """Types with the labels, sold or not."""
        self.reserved: Markets = admitted & ground.reserved
        self.markets: Markets = admitted ^ self.reserved
        """Where anybody may buy as much as he likes."""
        self.offered: Rows = index.sold_in(self.markets)
        """Types sold in those."""
        self._ground = ground
        self._known = known
        self._joined: dict[Requirements, Narrowing | None] = {}

    def joined(self, asked: Requirements) -> "Narrowing | None":
        """Both at once, or None if no node can be both."""
        if asked in self._joined:
            return self._joined[asked]
        found = self._join(asked)
        self._joined[asked] = found
        return found

    def _join(self, asked: Requirements) -> "Narrowing | None":
        if not self.requirements.compatible(asked, self._ground.well_known):
            return None
        together = self.requirements.narrow(asked)
        if together is self.requirements:
            return self
        found = self._known.get(together)
        if found is None:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            found = self._known[together] = Narrowing(self._ground, together, self._known)
        return found


def narrowing(ground: Ground, requirements: Requirements) -> Narrowing:
    """The first of a pool, of which all others come."""
    return Narrowing(ground, requirements, {})
