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
    types: BitSet
    offering_groups: OfferingGroupSet
    """Where it may buy as much as it likes."""
    held: OfferingGroupSet = 0
    """Where it holds a slot of a reservation; if anywhere, it is bought there."""
    reserved_types: BitSet = 0
    """The types that have a slot there, where somebody knows them already."""
    requirements: Requirements
    min_values: MinValues = ()

    @property
    def spot(self) -> OfferingGroupSet:
        """Where it would be bought as capacity that may be taken back."""
        return self.offering_groups & self.index.spot_groups(
            self.requirements.allowed(CAPACITY_TYPE)
        )

    def meets_min_values(self, types: BitSet, offering_groups: OfferingGroupSet) -> bool:
        """Whether these types, bought there, are still diverse enough."""
        return all(
            self.index.has_values(
                key, count, types, offering_groups, self.requirements.allowed(key)
            )
            for key, count in self.min_values
            if count
        )


class LaunchChoice(NamedTuple):
    """A type, a market and the offering that brings them together."""

    type_number: int
    offering_group: int
    offering: Offering


def hourly_cost(index: InstanceTypeIndex, type_number: int, offering: Offering) -> float:
    """USD per hour for a node of the type, bought in this way, with the fees beside."""
    return offering.price + index.types[type_number].fee


def choose_offering(options: LaunchOptions, available_count: Callable[[str], int]) -> LaunchChoice:
    """What would be bought now; `free` tells how many slots a reservation has left."""
    index = options.index
    if options.held:
        best = index.find_cheapest(_reserved_types(options), options.held)
        assert best is not None, "what a claim holds is sold"
        return _most_available_reservation(options, LaunchChoice(*best), available_count)
    types, spot = _without_exotic_types(options), options.spot
    best = index.find_cheapest(types, options.offering_groups)
    assert best is not None, "a claim is left at least one offering"
    if spot and not spot >> best[1] & 1:
        other = index.find_cheapest(types, spot)
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
        types=_bit_set(
            [
                type_number
                for type_number, instance_type in enumerate(index.types)
                if instance_type.name in names
            ]
        ),
        offering_groups=admitted ^ (admitted & reserved),
        held=admitted & held,
        requirements=claim.requirements,
        min_values=min_values_of(claim.requirements),
    )


def launch_candidates(options: LaunchOptions) -> LaunchOptions:
    """The types and markets among which the launch request lets the cloud choose."""
    if options.held:
        types = _reserved_types(options)
        return msgspec.structs.replace(
            options, types=types, offering_groups=options.held, min_values=()
        )
    return _of_one_capacity_type(
        msgspec.structs.replace(options, types=_without_exotic_types(options))
    )


def zone_of(options: LaunchOptions, choice: LaunchChoice) -> str | None:
    """The zone that would be launched in, which is one of the zones that the claim may choose.

    Where the offering leaves it open it is the first allowed one that the catalogue knows, or if
    it knows none, the first that is asked for.
    """
    if choice.offering.zone is not None:
        return choice.offering.zone
    stated = options.index.offering_groups[choice.offering_group].requirements.allowed(ZONE)
    allowed = options.requirements.allowed(ZONE)
    zones = options.index.zones if stated.open else stated.values
    required = None if allowed.open else allowed.any() or None
    return min(filter(allowed.admits, zones), default=required)


def capacity_type_of(options: LaunchOptions, choice: LaunchChoice) -> str:
    """What it would be launched as: on-demand where the offering leaves it open, if that may be."""
    if choice.offering.capacity_type is not None:
        return choice.offering.capacity_type
    offered = options.index.offering_groups[choice.offering_group].requirements.allowed(
        CAPACITY_TYPE
    )
    allowed = offered & options.requirements.allowed(CAPACITY_TYPE)
    return ON_DEMAND if allowed.admits(ON_DEMAND) else allowed.any()


def without_exotic_types(options: LaunchOptions) -> BitSet:
    """The types among which the best buy is looked for: with a slot those that have one."""
    return _reserved_types(options) if options.held else _without_exotic_types(options)


def _without_exotic_types(options: LaunchOptions) -> BitSet:
    """The types without whole machines and accelerators that nobody asked for."""
    index = options.index
    metal = index.metal & options.types
    accelerated = index.accelerated & options.types
    if not metal | accelerated:
        return options.types
    metal ^= metal & _types_named(options, INSTANCE_TYPE, INSTANCE_SIZE)
    accelerated ^= accelerated & _types_named(options, INSTANCE_TYPE, INSTANCE_FAMILY)
    types = options.types ^ (metal | accelerated)
    return (
        types
        if types and options.meets_min_values(types, options.offering_groups)
        else options.types
    )


def _types_named(options: LaunchOptions, *keys: str) -> BitSet:
    """The types that a list of values in the requirements names."""
    types = 0
    for key in keys:
        requirement = options.requirements.get(key)
        if requirement is not None and not requirement.allowed.open:
            types |= options.index.compatible_types(Requirements([requirement]))
    return types


def _of_one_capacity_type(options: LaunchOptions) -> LaunchOptions:
    index, spot = options.index, options.spot
    on_demand = options.offering_groups ^ spot
    cheapest_spot = index.find_cheapest(options.types, spot)
    cheapest_other = index.find_cheapest(options.types, on_demand)
    if cheapest_spot is None:
        types, offering_groups = options.types & index.available_in(on_demand), on_demand
    elif cheapest_other is None:
        types, offering_groups = options.types & index.available_in(spot), spot
    elif _is_not_dearer(index, cheapest_spot, cheapest_other):
        types, offering_groups = _types_not_dearer(options, spot, cheapest_other), spot
    else:
        types, offering_groups = options.types & index.available_in(on_demand), on_demand
    return msgspec.structs.replace(options, types=types, offering_groups=offering_groups)


def _types_not_dearer(
    options: LaunchOptions, offering_groups: OfferingGroupSet, other: tuple[int, int, Offering]
) -> BitSet:
    """The types sold for at most the cost, unless minValues need the others as well."""
    offers = options.index.offers(options.types, offering_groups)
    types = _bit_set({each[0] for each in offers if _is_not_dearer(options.index, each, other)})
    return (
        types
        if options.meets_min_values(types, offering_groups)
        else options.types & options.index.available_in(offering_groups)
    )


def _is_not_dearer(
    index: InstanceTypeIndex, spot: tuple[int, int, Offering], other: tuple[int, int, Offering]
) -> bool:
    """Whether spot capacity is not dearer than what else could be bought."""
    return hourly_cost(index, spot[0], spot[2]) <= hourly_cost(index, other[0], other[2])


def _reserved_types(options: LaunchOptions) -> BitSet:
    """The ordinary ones among the types that have a slot."""
    types = options.reserved_types or options.types & options.index.available_in(options.held)
    if not (options.index.metal | options.index.accelerated) & types:
        return types
    return _without_exotic_types(
        msgspec.structs.replace(options, types=types, offering_groups=options.held, min_values=())
    )


def _most_available_reservation(
    options: LaunchOptions, best: LaunchChoice, available_count: Callable[[str], int]
) -> LaunchChoice:
    """Of equal reservations the one with the most slots left."""
    equal = options.index.cheapest_offerings(best.type_number, options.held)
    if len(equal) == 1:
        return best
    return min(
        (LaunchChoice(*each) for each in equal),
        key=lambda choice: _reservation_order(choice.offering, available_count),
    )


def _reservation_order(
    offering: Offering, available_count: Callable[[str], int]
) -> tuple[str, int, str]:
    name = offering.reservation_id or ""
    return offering.zone or "", -available_count(name), name


def _bit_set(numbers: "list[int] | set[int]") -> BitSet:
    return sum(1 << number for number in set(numbers))
