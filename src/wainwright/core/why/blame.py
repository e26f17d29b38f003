"""Blame: the label for which pod and pool find nothing, who asks for it, and what there is."""

from collections.abc import Callable, Iterator

from wainwright.core.templates import Template
from wainwright.core.why.misspelt import correction
from wainwright.model.columns import Rows, row_numbers, union
from wainwright.model.labels import CAPACITY_TYPE, ZONE
from wainwright.model.markets import Market, Markets
from wainwright.model.reason import Asker, NothingOffered, NotOnOffer, NoTypeMatches
from wainwright.model.requirements import Requirements
from wainwright.model.values import ValueSet, one_of


class Blame:
    """What one alternative of a pod and one pool ask of labels, together and each for itself."""

    def __init__(self, template: Template, wanted: Requirements, both: Requirements) -> None:
        self.index = template.index
        self.wanted = wanted
        self.pool = template.base.requirements
        self.both = both

    def unmatched(self) -> NoTypeMatches:
        """The label that ruled out the last type."""
        rows, key = self.index.everything, ""
        for key in self._keys():
            kept = rows & self.index.admitted_by(_only(self.both, key))
            if not kept:
                break
            rows = kept
        asker = self._asker(key, self.index.admitted_by)
        wanted = self._asked(key, asker)
        everywhere = (1 << len(self.index.markets)) - 1
        known = self.index.values_left(key, self.index.everything, everywhere)
        meant = correction(wanted, known)
        return NoTypeMatches(key=key, wanted=wanted, asker=asker, meant=meant and meant[1])

    def unsold(self, rows: Rows, *, reservations: bool) -> NotOnOffer | NothingOffered:
        """Why none of the types can be bought: not sold there or so, or sold out."""
        stalls = self._stalls(rows, reservations=reservations)
        admitted = stalls & self.index.markets_admitted_by(self.both)
        found = None if admitted else self._culprit(stalls)
        if found is None:
            return self._sold_out(rows, admitted)
        key, before = found
        asker = self._asker(key, lambda asked: stalls & self.index.markets_admitted_by(asked))
        wanted, offered = self._asked(key, asker), self._values(key, before, rows)
        meant = correction(wanted, offered)
        return NotOnOffer(
            key=key,
            wanted=wanted,
            offered=one_of(offered),
            instance_type=next(self.index.members(rows)).name,
            asker=asker,
            meant=meant and meant[1],
        )

    def _stalls(self, rows: Rows, *, reservations: bool) -> Markets:
        """The markets that have any of the types, in stock or not."""
        return union(
            1 << number
            for number, market in enumerate(self.index.markets)
            if market.listed & rows and (reservations or market.reservation_id is None)
        )

    def _culprit(self, stalls: Markets) -> tuple[str, Markets] | None:
        """The label that rules out the last market, and the markets left before it.

        Preferably one that does so whatever else is asked.
        """
        keys = [key for key in self._keys() if self.index.named_by_markets(key)]
        for key in keys:
            if not stalls & self._admitting(key):
                return key, stalls
        for key in keys:
            kept = stalls & self._admitting(key)
            if not kept:
                return key, stalls
            stalls = kept
        return None

    def _admitting(self, key: str) -> Markets:
        return self.index.markets_admitted_by(_only(self.both, key))

    def _keys(self) -> list[str]:
        """The pool's labels before those of the pod."""
        return [*(key for key in self.both if key not in self.wanted), *self.wanted]

    def _asker(self, key: str, left: Callable[[Requirements], Rows]) -> Asker:
        """Whose wish leaves nothing, be it alone."""
        if key not in self.wanted or (key in self.pool and not left(_only(self.pool, key))):
            return Asker.POOL
        if key not in self.pool or not left(_only(self.wanted, key)):
            return Asker.POD
        return Asker.BOTH

    def _asked(self, key: str, asker: Asker) -> ValueSet:
        asked = {Asker.POOL: self.pool, Asker.POD: self.wanted, Asker.BOTH: self.both}
        return asked[asker].allowed(key)

    def _values(self, key: str, markets: Markets, rows: Rows) -> list[str]:
        """With which values the types are sold in these markets, if need be while they last."""
        there = list(self._markets(markets))
        selling = [market for market in there if market.sold & rows]
        return _values(key, selling or there)

    def _markets(self, markets: Markets) -> Iterator[Market]:
        return (self.index.markets[number] for number in row_numbers(markets))

    def _sold_out(self, rows: Rows, admitted: Markets) -> NothingOffered:
        there = list(self._markets(admitted))
        usual = [market for market in there if market.reservation_id is None]
        reserved = {market.reservation_id for market in there if market.reservation_id is not None}
        listed = rows & union(market.listed for market in there)
        return NothingOffered(
            instance_type=next(self.index.members(listed or rows)).name,
            zones=tuple(_values(ZONE, usual)),
            capacity_types=tuple(_values(CAPACITY_TYPE, usual)),
            reservations=tuple(sorted(reserved)),
        )


def _only(requirements: Requirements, key: str) -> Requirements:
    return requirements.without(set(requirements) - {key})


def _values(key: str, markets: list[Market]) -> list[str]:
    allowed = [market.requirements.allowed(key) for market in markets]
    return sorted({value for each in allowed if not each.open for value in each.values})
