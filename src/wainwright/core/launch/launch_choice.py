"""The launch choice: which of the offerings left to a NodeClaim would be launched.

One choice for plans and for the provider: reserved first, then spot if it does not cost more than
the cheapest on-demand offering left, then on-demand; of that capacity type the cheapest. Fees are
included. Metal and accelerator types are left out unless the requirements name them or there are no
others.
"""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from wainwright.core.scheduling.constraints.min_values import MinValues, min_values_of
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
    """What a NodeClaim could be launched as."""

    index: InstanceTypeIndex
    types: BitSet
    offering_groups: OfferingGroupSet
    """Offering groups without a reservation, in which the number of launches is not limited."""
    held: OfferingGroupSet = 0
    """Reserved groups of which it holds an instance; if there are any, it is launched in one."""
    reserved_types: BitSet = 0
    """The types in `held`, if the caller knows them already; saves looking them up."""
    requirements: Requirements
    min_values: MinValues = ()

    @property
    def spot(self) -> OfferingGroupSet:
        """The groups in which it would be launched as spot."""
        return self.offering_groups & self.index.spot_groups(
            self.requirements.allowed(CAPACITY_TYPE)
        )

    def meets_min_values(self, types: BitSet, offering_groups: OfferingGroupSet) -> bool:
        """Whether these types in these groups are diverse enough for minValues."""
        return all(
            self.index.has_values(
                key, count, types, offering_groups, self.requirements.allowed(key)
            )
            for key, count in self.min_values
            if count
        )


class LaunchChoice(NamedTuple):
    """An instance type, an offering group and the offering of the type in the group."""

    type_number: int
    offering_group: int
    offering: Offering


def hourly_cost(index: InstanceTypeIndex, type_number: int, offering: Offering) -> float:
    """USD per hour for a node of the type with this offering, fees included."""
    return offering.price + index.types[type_number].fee


def choose_offering(options: LaunchOptions, available_count: Callable[[str], int]) -> LaunchChoice:
    """What would be launched now; `available_count` returns a reservation's available instances."""
    index = options.index
    if options.held:
        best = index.find_cheapest(_reserved_types(options), options.held)
        assert best is not None, "held reservations have an offering"
        return LaunchChoice(*index.most_available(best[0], options.held, available_count))
    types, spot = _without_exotic_types(options), options.spot
    best = index.find_cheapest(types, options.offering_groups)
    assert best is not None, "a claim is left at least one offering"
    if spot and not spot >> best[1] & 1:
        other = index.find_cheapest(types, spot)
        best = other if other is not None and _costs_no_more(index, other, best) else best
    return LaunchChoice(*best)


def options_of_claim(claim: PlannedNodeClaim, index: InstanceTypeIndex) -> LaunchOptions:
    """What a planned NodeClaim could be launched as, from its pool's catalogue at planning."""
    admitted, reserved = index.compatible_groups(claim.requirements), index.reserved_groups
    held = index.groups_of_reservations(set(claim.choices.reservation_ids))
    return LaunchOptions(
        index=index,
        types=index.types_named(set(claim.choices.instance_types)),
        offering_groups=admitted ^ (admitted & reserved),
        held=admitted & held,
        requirements=claim.requirements,
        min_values=min_values_of(claim.requirements),
    )


def launch_candidates(options: LaunchOptions) -> LaunchOptions:
    """The types and offering groups among which EC2 may choose for the launch request."""
    if options.held:
        types = _reserved_types(options)
        return msgspec.structs.replace(
            options, types=types, offering_groups=options.held, min_values=()
        )
    return _of_one_capacity_type(
        msgspec.structs.replace(options, types=_without_exotic_types(options))
    )


def zone_of(options: LaunchOptions, choice: LaunchChoice) -> str | None:
    """The zone of the launch, which is one of the zones that the claim allows.

    If the offering has no zone it is the first allowed one in the catalogue, or if that has none,
    the first of the required ones.
    """
    if choice.offering.zone is not None:
        return choice.offering.zone
    stated = options.index.offering_groups[choice.offering_group].requirements.allowed(ZONE)
    allowed = options.requirements.allowed(ZONE)
    zones = options.index.zones if stated.open else stated.values
    required = None if allowed.open else allowed.any_value() or None
    return min(filter(allowed.admits, zones), default=required)


def capacity_type_of(options: LaunchOptions, choice: LaunchChoice) -> str:
    """The capacity type of the launch: on-demand if the offering has none and it is allowed."""
    if choice.offering.capacity_type is not None:
        return choice.offering.capacity_type
    offered = options.index.offering_groups[choice.offering_group].requirements.allowed(
        CAPACITY_TYPE
    )
    allowed = offered & options.requirements.allowed(CAPACITY_TYPE)
    return ON_DEMAND if allowed.admits(ON_DEMAND) else allowed.any_value()


def without_exotic_types(options: LaunchOptions) -> BitSet:
    """The types among which the offering is chosen: only reserved ones if any is held."""
    return _reserved_types(options) if options.held else _without_exotic_types(options)


def _without_exotic_types(options: LaunchOptions) -> BitSet:
    """The types without metal and accelerators, except those that the requirements name."""
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
    elif _costs_no_more(index, cheapest_spot, cheapest_other):
        types, offering_groups = _types_costing_no_more(options, spot, cheapest_other), spot
    else:
        types, offering_groups = options.types & index.available_in(on_demand), on_demand
    return msgspec.structs.replace(options, types=types, offering_groups=offering_groups)


def _types_costing_no_more(
    options: LaunchOptions, offering_groups: OfferingGroupSet, other: tuple[int, int, Offering]
) -> BitSet:
    """The types that cost no more than the other offering, or all if minValues need them."""
    offers = options.index.available_offerings(options.types, offering_groups)
    types = _bit_set({each[0] for each in offers if _costs_no_more(options.index, each, other)})
    return (
        types
        if options.meets_min_values(types, offering_groups)
        else options.types & options.index.available_in(offering_groups)
    )


def _costs_no_more(
    index: InstanceTypeIndex, spot: tuple[int, int, Offering], other: tuple[int, int, Offering]
) -> bool:
    """Whether the spot offering costs no more than the other one."""
    return hourly_cost(index, spot[0], spot[2]) <= hourly_cost(index, other[0], other[2])


def _reserved_types(options: LaunchOptions) -> BitSet:
    """The types of the held reservations, without metal and accelerators if possible."""
    types = options.reserved_types or options.types & options.index.available_in(options.held)
    if not (options.index.metal | options.index.accelerated) & types:
        return types
    return _without_exotic_types(
        msgspec.structs.replace(options, types=types, offering_groups=options.held, min_values=())
    )


def _bit_set(numbers: "list[int] | set[int]") -> BitSet:
    return sum(1 << number for number in set(numbers))
