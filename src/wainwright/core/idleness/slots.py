"""Ways into a reservation: which pool could launch what there, and what that would be like."""

from collections.abc import Iterable, Iterator

from wainwright.core.templates import Template
from wainwright.core.why.nearest import overdrawn
from wainwright.core.why.stops import broken, limit_reached
from wainwright.model.columns import row_numbers
from wainwright.model.labels import RESERVATION_ID
from wainwright.model.obstacle import PoolForbids
from wainwright.model.reason import LabelConflict, LimitReached
from wainwright.model.requirements import Requirements
from wainwright.model.resources import Resources, subtract
from wainwright.model.values import ValueSet


class Way:
    """One pool and one type, bought with a slot of one reservation."""

    def __init__(self, template: Template, market: int, row: int) -> None:
        self.template = template
        self.row = row
        self.kind = template.index.types[row]
        self._market = market
        self._sold = template.index.markets[market]
        self._machine = self.kind.requirements.narrow(self._sold.requirements)
        self.in_stock = bool(self._sold.sold >> row & 1)
        self.barred = self._barred()
        """Why the pool itself does not allow it."""
        self.taken: Resources = template.overhead.of(row)
        """By daemonsets."""
        self.room = subtract(self.kind.allocatable, self.taken)
        self.overdrawn = overdrawn(template, 1 << row)
        """Where daemonsets want more than there is; then nothing fits at all."""
        self.limit = self._limit()
        self._clashes: dict[Requirements, LabelConflict | None] = {}

    @property
    def looks(self) -> object:
        """What sets it apart from ways into other reservations, but for their names."""
        sold = self._sold.requirements.without({RESERVATION_ID})
        return self.template.number, self.row, self.in_stock, sold

    def clash(self, wanted: Requirements) -> LabelConflict | None:
        """Why its labels are not those that are wanted."""
        if wanted not in self._clashes:
            self._clashes[wanted] = self._clash(wanted)
        return self._clashes[wanted]

    def machine(self, wanted: Requirements) -> Requirements:
        """What the labels of a node would be that is launched for who wants this."""
        pool = self.template.base.requirements
        return self._machine.narrow(pool).narrow(self.template.decided_here(wanted))

    def is_known(self, wanted: Requirements) -> bool:
        """Whether the pool could give that with other machines than these."""
        return self.template.base.requirements.compatible(wanted, self.template.well_known)

    def _barred(self) -> PoolForbids | None:
        wanted = self.template.base.requirements
        if self._is(wanted):
            return None
        key = self._failing(wanted, wanted)
        return PoolForbids(key=key, wanted=wanted.allowed(key), offered=self._value(key))

    def _clash(self, wanted: Requirements) -> LabelConflict | None:
        pool = self.template.base.requirements
        found = pool.conflict(wanted, self.template.well_known)
        if found is not None:
            return LabelConflict(key=found.key, wanted=found.wanted, offered=found.offered)
        asked = self.template.decided_here(wanted)
        both = pool.narrow(asked)
        if self._is(both):
            return None
        key = self._failing(asked, both)
        return LabelConflict(key=key, wanted=wanted.allowed(key), offered=self._value(key))

    def _is(self, wanted: Requirements) -> bool:
        index = self.template.index
        admitted = index.admitted_by(wanted) >> self.row & 1
        return bool(admitted and index.markets_admitted_by(wanted) >> self._market & 1)

    def _failing(self, keys: Iterable[str], wanted: Requirements) -> str:
        """The first of the labels that is not as it should be."""
        known = list(keys)
        each = (key for key in known if not self._is(wanted.without(set(wanted) - {key})))
        return next(each, known[0])

    def _value(self, key: str) -> ValueSet | None:
        """What its machines have there; None where they lack the label."""
        return self._machine[key].allowed if key in self._machine else None

    def _limit(self) -> LimitReached | None:
        """The limit that one more machine would break."""
        names = broken(self.template, self.row)
        return limit_reached(self.template, self.row, names[0]) if names else None


def ways(reservation: str, templates: Iterable[Template]) -> Iterator[list[Way]]:
    """By pool, highest weight first, all types that the reservation is for."""
    for template in templates:
        found = [
            Way(template, number, row)
            for number, market in enumerate(template.index.markets)
            if market.reservation_id == reservation
            for row in row_numbers(market.listed)
        ]
        if found:
            yield found
