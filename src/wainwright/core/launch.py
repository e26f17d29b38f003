"""The launch choice: which of the offerings left to a claim would be bought, and what may stand in.

One choice for plans and for the provider: reserved first, then spot if it is not dearer than the
cheapest on-demand offering left, then on-demand; of that kind the cheapest. Fees count in all of
it. Whole machines and types with accelerators are left out unless somebody asked for them or
nothing else will do.
"""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from wainwright.core.minvalues import Minimums, minimums
from wainwright.model.columns import Rows
from wainwright.model.index import TypeIndex
from wainwright.model.instance_type import Offering
from wainwright.model.labels import (
    CAPACITY_TYPE,
    INSTANCE_FAMILY,
    INSTANCE_SIZE,
    INSTANCE_TYPE,
    ON_DEMAND,
    ZONE,
)
from wainwright.model.markets import Markets
from wainwright.model.plan import PlannedClaim
from wainwright.model.requirements import Requirements


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """What is left to a claim."""

    index: TypeIndex
    rows: Rows
    markets: Markets
    """Where it may buy as much as it likes."""
    held: Markets = 0
    """Where it holds a slot of a reservation; if anywhere, it is bought there."""
    slots: Rows = 0
    """The types that have a slot there, where somebody knows them already."""
    requirements: Requirements
    minimums: Minimums = ()

    @property
    def spot(self) -> Markets:
        """Where it would be bought as capacity that may be taken back."""
        return self.markets & self.index.spot_for(self.requirements.allowed(CAPACITY_TYPE))

    def meets(self, rows: Rows, markets: Markets) -> bool:
        """Whether these types, bought there, are still diverse enough."""
        return all(
            self.index.has_values(key, count, rows, markets, self.requirements.allowed(key))
            for key, count in self.minimums
            if count
        )


class Buy(NamedTuple):
    """A type, a market and the offering that brings them together."""

    row: int
    market: int
    offering: Offering


def cost(index: TypeIndex, row: int, offering: Offering) -> float:
    """USD per hour for a node of the type, bought in this way, with the fees beside."""
    return offering.price + index.types[row].fee


def choose(left: Left, free: Callable[[str], int]) -> Buy:
    """What would be bought now; `free` tells how many slots a reservation has left."""
    index = left.index
    if left.held:
        best = index.best_buy(_ordinary_slots(left), left.held)
        assert best is not None, "what a claim holds is sold"
        return _emptiest(left, Buy(*best), free)
    rows, spot = _ordinary(left), left.spot
    best = index.best_buy(rows, left.markets)
    assert best is not None, "a claim is left at least one offering"
    if spot and not spot >> best[1] & 1:
        other = index.best_buy(rows, spot)
        best = other if other is not None and _bearable(index, other, best) else best
    return Buy(*best)


def left_to(claim: PlannedClaim, index: TypeIndex) -> Left:
    """What a claim of a plan may buy, from the catalogue that its pool was planned with."""
    names, held_ids = set(claim.choices.instance_types), set(claim.choices.reservation_ids)
    admitted = index.markets_admitted_by(claim.requirements)
    held = reserved = 0
    for number, market in enumerate(index.markets):
        if market.reservation_id is not None:
            reserved |= 1 << number
            held |= (market.reservation_id in held_ids) << number
    return Left(
        index=index,
        rows=_rows([row for row, kind in enumerate(index.types) if kind.name in names]),
        markets=admitted ^ (admitted & reserved),
        held=admitted & held,
        requirements=claim.requirements,
        minimums=minimums(claim.requirements),
    )


def to_be_bought(left: Left) -> Left:
    """The types and markets among which the launch request lets the cloud choose."""
    if left.held:
        rows = _ordinary_slots(left)
        return msgspec.structs.replace(left, rows=rows, markets=left.held, minimums=())
    return _of_one_kind(msgspec.structs.replace(left, rows=_ordinary(left)))


def zone_of(left: Left, buy: Buy) -> str | None:
    """The zone that would be launched in, which is one of the zones that the claim may choose.

    Where the offering leaves it open it is the first allowed one that the catalogue knows, or if
    it knows none, the first that is asked for.
    """
    if buy.offering.zone is not None:
        return buy.offering.zone
    stated = left.index.markets[buy.market].requirements.allowed(ZONE)
    allowed = left.requirements.allowed(ZONE)
    known = left.index.zones if stated.open else stated.values
    asked = None if allowed.open else allowed.any() or None
    return min(filter(allowed.admits, known), default=asked)


def capacity_type_of(left: Left, buy: Buy) -> str:
    """What it would be launched as: on-demand where the offering leaves it open, if that may be."""
    if buy.offering.capacity_type is not None:
        return buy.offering.capacity_type
    sold = left.index.markets[buy.market].requirements.allowed(CAPACITY_TYPE)
    both = sold & left.requirements.allowed(CAPACITY_TYPE)
    return ON_DEMAND if both.admits(ON_DEMAND) else both.any()


def ordinary(left: Left) -> Rows:
    """The types among which the best buy is looked for: with a slot those that have one."""
    return _ordinary_slots(left) if left.held else _ordinary(left)


def _ordinary(left: Left) -> Rows:
    """The types without whole machines and accelerators that nobody asked for."""
    index = left.index
    metal = index.metal & left.rows
    accelerated = index.accelerated & left.rows
    if not metal | accelerated:
        return left.rows
    metal ^= metal & _named(left, INSTANCE_TYPE, INSTANCE_SIZE)
    accelerated ^= accelerated & _named(left, INSTANCE_TYPE, INSTANCE_FAMILY)
    rows = left.rows ^ (metal | accelerated)
    return rows if rows and left.meets(rows, left.markets) else left.rows


def _named(left: Left, *keys: str) -> Rows:
    """The types that a list of values in the requirements names."""
    found = 0
    for key in keys:
        requirement = left.requirements.get(key)
        if requirement is not None and not requirement.allowed.open:
            found |= left.index.admitted_by(Requirements([requirement]))
    return found


def _of_one_kind(left: Left) -> Left:
    index, spot = left.index, left.spot
    on_demand = left.markets ^ spot
    cheapest_spot = index.best_buy(left.rows, spot)
    cheapest_other = index.best_buy(left.rows, on_demand)
    if cheapest_spot is None:
        rows, markets = left.rows & index.sold_in(on_demand), on_demand
    elif cheapest_other is None:
        rows, markets = left.rows & index.sold_in(spot), spot
    elif _bearable(index, cheapest_spot, cheapest_other):
        rows, markets = _not_dearer(left, spot, cheapest_other), spot
    else:
        rows, markets = left.rows & index.sold_in(on_demand), on_demand
    return msgspec.structs.replace(left, rows=rows, markets=markets)


def _not_dearer(left: Left, markets: Markets, other: tuple[int, int, Offering]) -> Rows:
    """The types sold for at most the cost, unless minValues need the others as well."""
    offers = left.index.offers(left.rows, markets)
    rows = _rows({each[0] for each in offers if _bearable(left.index, each, other)})
    return rows if left.meets(rows, markets) else left.rows & left.index.sold_in(markets)


def _bearable(
    index: TypeIndex, spot: tuple[int, int, Offering], other: tuple[int, int, Offering]
) -> bool:
    """Whether spot capacity is not dearer than what else could be bought."""
    return cost(index, spot[0], spot[2]) <= cost(index, other[0], other[2])


def _ordinary_slots(left: Left) -> Rows:
    """The ordinary ones among the types that have a slot."""
    rows = left.slots or left.rows & left.index.sold_in(left.held)
    if not (left.index.metal | left.index.accelerated) & rows:
        return rows
    return _ordinary(msgspec.structs.replace(left, rows=rows, markets=left.held, minimums=()))


def _emptiest(left: Left, best: Buy, free: Callable[[str], int]) -> Buy:
    """Of equal reservations the one with the most slots left."""
    equal = left.index.best_offers(best.row, left.held)
    if len(equal) == 1:
        return best
    return min((Buy(*each) for each in equal), key=lambda buy: _slot_rank(buy.offering, free))


def _slot_rank(offering: Offering, free: Callable[[str], int]) -> tuple[str, int, str]:
    name = offering.reservation_id or ""
    return offering.zone or "", -free(name), name


def _rows(numbers: "list[int] | set[int]") -> Rows:
    return sum(1 << number for number in set(numbers))
