"""The launch choice: which of the offerings left to a NodeClaim would be launched.

One choice for plans and for the provider: reserved first, then spot if it is not dearer than the
cheapest on-demand offering left, then on-demand; of that capacity type the cheapest. Fees count in
all of it. Metal and accelerator types are left out unless somebody asked for them or nothing else
will do.
"""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from wainwright.core.scheduling.min_values import MinValues, min_values_of
from wainwright.model.bitset import BitSet
from wainwright.model.instance_type import Offering
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import (
    CAPACITY_TYPE,
    INSTANCE_FAMILY,
    INSTANCE_SIZE,
    INSTANCE_TYPE,
    ON_DEMAND,
    ZONE,
)
from wainwright.model.offering_groups import OfferingGroupSet
from wainwright.model.plan import PlannedNodeClaim
from wainwright.model.requirements import Requirements


class LaunchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is left to a claim."""

    index: InstanceTypeIndex
    rows: BitSet
    offering_groups: OfferingGroupSet
    """Where it may buy as much as it likes."""
    held: OfferingGroupSet = 0
    """Where it holds a slot of a reservation; if anywhere, it is bought there."""
    slots: BitSet = 0
    """The types that have a slot there, where somebody knows them already."""
    requirements: Requirements
    minimums: MinValues = ()

    @property
    def spot(self) -> OfferingGroupSet:
        """Where it would be bought as capacity that may be taken back."""
        return self.offering_groups & self.index.spot_groups(
            self.requirements.allowed(CAPACITY_TYPE)
        )

    def meets(self, rows: BitSet, offering_groups: OfferingGroupSet) -> bool:
        """Whether these types, bought there, are still diverse enough."""
        return all(
            self.index.has_values(key, count, rows, offering_groups, self.requirements.allowed(key))
            for key, count in self.minimums
            if count
        )


class LaunchChoice(NamedTuple):
    """A type, a market and the offering that brings them together."""

    row: int
    offering_group: int
    offering: Offering


def hourly_cost(index: InstanceTypeIndex, row: int, offering: Offering) -> float:
    """USD per hour for a node of the type, bought in this way, with the fees beside."""
    return offering.price + index.types[row].fee


def choose_offering(left: LaunchOptions, free: Callable[[str], int]) -> LaunchChoice:
    """What would be bought now; `free` tells how many slots a reservation has left."""
    index = left.index
    if left.held:
        best = index.find_cheapest(_reserved_types(left), left.held)
        assert best is not None, "what a claim holds is sold"
        return _most_available_reservation(left, LaunchChoice(*best), free)
    rows, spot = _without_exotic_types(left), left.spot
    best = index.find_cheapest(rows, left.offering_groups)
    assert best is not None, "a claim is left at least one offering"
    if spot and not spot >> best[1] & 1:
        other = index.find_cheapest(rows, spot)
        best = other if other is not None and _is_not_dearer(index, other, best) else best
    return LaunchChoice(*best)


def options_of_claim(claim: PlannedNodeClaim, index: InstanceTypeIndex) -> LaunchOptions:
    """What a claim of a plan may buy, from the catalogue that its pool was planned with."""
    names, held_ids = set(claim.choices.instance_types), set(claim.choices.reservation_ids)
    admitted = index.compatible_groups(claim.requirements)
    held = reserved = 0
    for number, offering_group in enumerate(index.offering_groups):
        if offering_group.reservation_id is not None:
            reserved |= 1 << number
            held |= (offering_group.reservation_id in held_ids) << number
    return LaunchOptions(
        index=index,
        rows=_bit_set([row for row, kind in enumerate(index.types) if kind.name in names]),
        offering_groups=admitted ^ (admitted & reserved),
        held=admitted & held,
        requirements=claim.requirements,
        minimums=min_values_of(claim.requirements),
    )


def launch_candidates(left: LaunchOptions) -> LaunchOptions:
    """The types and markets among which the launch request lets the cloud choose."""
    if left.held:
        rows = _reserved_types(left)
        return msgspec.structs.replace(left, rows=rows, offering_groups=left.held, minimums=())
    return _of_one_capacity_type(msgspec.structs.replace(left, rows=_without_exotic_types(left)))


def zone_of(left: LaunchOptions, buy: LaunchChoice) -> str | None:
    """The zone that would be launched in, which is one of the zones that the claim may choose.

    Where the offering leaves it open it is the first allowed one that the catalogue knows, or if
    it knows none, the first that is asked for.
    """
    if buy.offering.zone is not None:
        return buy.offering.zone
    stated = left.index.offering_groups[buy.offering_group].requirements.allowed(ZONE)
    allowed = left.requirements.allowed(ZONE)
    known = left.index.zones if stated.open else stated.values
    asked = None if allowed.open else allowed.any_value() or None
    return min(filter(allowed.admits, known), default=asked)


def capacity_type_of(left: LaunchOptions, buy: LaunchChoice) -> str:
    """What it would be launched as: on-demand where the offering leaves it open, if that may be."""
    if buy.offering.capacity_type is not None:
        return buy.offering.capacity_type
    sold = left.index.offering_groups[buy.offering_group].requirements.allowed(CAPACITY_TYPE)
    both = sold & left.requirements.allowed(CAPACITY_TYPE)
    return ON_DEMAND if both.admits(ON_DEMAND) else both.any_value()


def without_exotic_types(left: LaunchOptions) -> BitSet:
    """The types among which the best buy is looked for: with a slot those that have one."""
    return _reserved_types(left) if left.held else _without_exotic_types(left)


def _without_exotic_types(left: LaunchOptions) -> BitSet:
    """The types without whole machines and accelerators that nobody asked for."""
    index = left.index
    metal = index.metal & left.rows
    accelerated = index.accelerated & left.rows
    if not metal | accelerated:
        return left.rows
    metal ^= metal & _types_named(left, INSTANCE_TYPE, INSTANCE_SIZE)
    accelerated ^= accelerated & _types_named(left, INSTANCE_TYPE, INSTANCE_FAMILY)
    rows = left.rows ^ (metal | accelerated)
    return rows if rows and left.meets(rows, left.offering_groups) else left.rows


def _types_named(left: LaunchOptions, *keys: str) -> BitSet:
    """The types that a list of values in the requirements names."""
    found = 0
    for key in keys:
        requirement = left.requirements.get(key)
        if requirement is not None and not requirement.allowed.open:
            found |= left.index.compatible_types(Requirements([requirement]))
    return found


def _of_one_capacity_type(left: LaunchOptions) -> LaunchOptions:
    index, spot = left.index, left.spot
    on_demand = left.offering_groups ^ spot
    cheapest_spot = index.find_cheapest(left.rows, spot)
    cheapest_other = index.find_cheapest(left.rows, on_demand)
    if cheapest_spot is None:
        rows, offering_groups = left.rows & index.available_in(on_demand), on_demand
    elif cheapest_other is None:
        rows, offering_groups = left.rows & index.available_in(spot), spot
    elif _is_not_dearer(index, cheapest_spot, cheapest_other):
        rows, offering_groups = _types_not_dearer(left, spot, cheapest_other), spot
    else:
        rows, offering_groups = left.rows & index.available_in(on_demand), on_demand
    return msgspec.structs.replace(left, rows=rows, offering_groups=offering_groups)


def _types_not_dearer(
    left: LaunchOptions, offering_groups: OfferingGroupSet, other: tuple[int, int, Offering]
) -> BitSet:
    """The types sold for at most the cost, unless minValues need the others as well."""
    offers = left.index.available_offerings(left.rows, offering_groups)
    rows = _bit_set({each[0] for each in offers if _is_not_dearer(left.index, each, other)})
    return (
        rows
        if left.meets(rows, offering_groups)
        else left.rows & left.index.available_in(offering_groups)
    )


def _is_not_dearer(
    index: InstanceTypeIndex, spot: tuple[int, int, Offering], other: tuple[int, int, Offering]
) -> bool:
    """Whether spot capacity is not dearer than what else could be bought."""
    return hourly_cost(index, spot[0], spot[2]) <= hourly_cost(index, other[0], other[2])


def _reserved_types(left: LaunchOptions) -> BitSet:
    """The ordinary ones among the types that have a slot."""
    rows = left.slots or left.rows & left.index.available_in(left.held)
    if not (left.index.metal | left.index.accelerated) & rows:
        return rows
    return _without_exotic_types(
        msgspec.structs.replace(left, rows=rows, offering_groups=left.held, minimums=())
    )


def _most_available_reservation(
    left: LaunchOptions, best: LaunchChoice, free: Callable[[str], int]
) -> LaunchChoice:
    """Of equal reservations the one with the most slots left."""
    equal = left.index.cheapest_offerings(best.row, left.held)
    if len(equal) == 1:
        return best
    return min(
        (LaunchChoice(*each) for each in equal),
        key=lambda buy: _reservation_order(buy.offering, free),
    )


def _reservation_order(offering: Offering, free: Callable[[str], int]) -> tuple[str, int, str]:
    name = offering.reservation_id or ""
    return offering.zone or "", -free(name), name


def _bit_set(numbers: "list[int] | set[int]") -> BitSet:
    return sum(1 << number for number in set(numbers))
