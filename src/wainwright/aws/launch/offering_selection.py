"""What a claim is launched as: one capacity type, and the compatible instance types and zones.

The selection itself is `core.launch`, the same as in plans. Its inputs here are the requirements of
the claim and the current catalog of its class.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Final

import msgspec

from wainwright.api.catalog_documents import CloudReservation
from wainwright.catalogue.class_catalog import NodeClassCatalog
from wainwright.catalogue.offerings.capacity_reservations import CAPACITY_BLOCK
from wainwright.catalogue.offerings.layered_offering import PriceLayer
from wainwright.core.launch.instance_type_truncation import MAX_TYPES_PER_LAUNCH, truncate_types
from wainwright.core.launch.launch_choice import LaunchOptions, launch_candidates
from wainwright.core.scheduling.constraints.min_values import min_values_of
from wainwright.errors import InsufficientCapacityError
from wainwright.model.bitset import iter_bits
from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import (
    INSTANCE_TENANCY,
    ON_DEMAND,
    RESERVATION_ID,
    RESERVATION_INTERRUPTIBLE,
    RESERVATION_TYPE,
    RESERVED,
    SPOT,
    ZONE,
    ZONE_ID,
)
from wainwright.model.node_claim import NodeClaim
from wainwright.model.offering_groups import OfferingGroup, OfferingGroupSet
from wainwright.model.requirements import Requirement, Requirements, one_of
from wainwright.model.resources import resources_key

DEFAULT, DEDICATED = "default", "dedicated"
MAX_CACHED_SELECTIONS: Final = 1024  # of one catalog
MIN_SPOT_TYPES: Final = 5
"""With fewer instance types spot capacity is often missing, and interrupted soon."""

AvailableCount = Callable[[str], int]
"""The number of available instances of a reservation, by its id."""


class LaunchOffering(msgspec.Struct, frozen=True, kw_only=True):
    """An instance type in a zone that the claim may use."""

    instance_type: str
    zone: str
    price: float
    reservation: str = ""


class LaunchSelection(msgspec.Struct, frozen=True, kw_only=True):
    """What is requested from EC2 for a claim; equal for claims that are launched alike."""

    capacity_type: str
    offerings: tuple[LaunchOffering, ...]
    """Cheapest first; a type in a zone may occur in several reservations."""
    tenancy: str = DEFAULT
    reservation_type: str = DEFAULT
    interruptible: bool = False
    prioritised: bool = False
    """Whether prices differ from EC2's own, so that they must be passed on as priorities."""
    notes: tuple[str, ...] = ()


class LaunchSelector:
    """Selects from one catalog; selections are cached, as most claims of a pool are alike."""

    def __init__(self, catalog: NodeClassCatalog) -> None:
        self._catalog = catalog
        self._cache: dict[Hashable, LaunchSelection] = {}

    def select(self, claim: NodeClaim, available_count: AvailableCount) -> LaunchSelection:
        """InsufficientCapacityError if no offering that the claim allows has capacity.

        A claim that is pinned to a reservation may use another of the same type and zone if its own
        is full: which one was counted for it is up to the plan, not to its pods.
        """
        try:
            return self._select(claim, available_count)
        except InsufficientCapacityError:
            substituted = self._with_substitutes(claim)
            if substituted is claim:
                raise
            return self._select(substituted, available_count)

    def has_capacity(self, claim: NodeClaim, available_count: AvailableCount) -> bool:
        try:
            self.select(claim, available_count)
        except InsufficientCapacityError:
            return False
        return True

    def _select(self, claim: NodeClaim, available_count: AvailableCount) -> LaunchSelection:
        # The set of full reservations is part of the key: the counts change with every launch,
        # but a selection depends only on which reservations have any instance available.
        full = self._full_reservations(available_count)
        key = (claim.requirements, resources_key(claim.requests), full)
        selection = self._cache.get(key)
        if selection is None:
            if len(self._cache) >= MAX_CACHED_SELECTIONS:
                self._cache.clear()
            selection = self._cache[key] = select_launch(claim, self._catalog, available_count)
        return selection

    def possible_reservations(self, claim: NodeClaim) -> frozenset[str]:
        """Those in which an earlier process may have launched the claim."""
        index, requirements = self._catalog.index, self._with_substitutes(claim).requirements
        rows = index.compatible_types(requirements) & index.fitting(claim.requests)
        numbers = iter_bits(index.compatible_groups(requirements))
        groups = [index.offering_groups[number] for number in numbers]
        ids = {group.reservation_id for group in groups if group.available_types & rows}
        return frozenset(each for each in ids if each is not None)

    def _with_substitutes(self, claim: NodeClaim) -> NodeClaim:
        """The claim with all reservations that are like those which it is pinned to."""
        requirements = claim.requirements
        if RESERVATION_ID not in requirements or claim.reservation_required:
            return claim
        offered = [each.reservation for each in self._catalog.reservations if each.is_offered]
        pinned = requirements.allowed(RESERVATION_ID)
        kinds = {_reservation_kind(each) for each in offered if pinned.admits(each.id)}
        alike = [each.id for each in offered if _reservation_kind(each) in kinds]
        if all(map(pinned.admits, alike)):
            return claim
        widened = requirements.without({RESERVATION_ID}).narrow(
            Requirements([Requirement(key=RESERVATION_ID, allowed=one_of(alike))])
        )
        return msgspec.structs.replace(claim, requirements=widened)

    def _full_reservations(self, available_count: AvailableCount) -> frozenset[str]:
        ids = {group.reservation_id for group in self._catalog.index.offering_groups} - {None}
        return frozenset(each for each in ids if each is not None and available_count(each) <= 0)


def _reservation_kind(reservation: CloudReservation) -> tuple[str, str, str, bool]:
    """What instances of a reservation have in common with those of another."""
    return (
        reservation.instanceType,
        reservation.availabilityZone,
        reservation.reservationType,
        bool(reservation.interruptible),
    )


def select_launch(
    claim: NodeClaim, catalog: NodeClassCatalog, available_count: AvailableCount
) -> LaunchSelection:
    """InsufficientCapacityError if no offering that the claim allows has capacity."""
    tenancy, index = _select_tenancy(claim), catalog.index
    allowed = _launchable(claim, index, available_count if tenancy == DEFAULT else lambda _: 0)
    if not allowed.types & index.available_in(allowed.offering_groups | allowed.held):
        raise _no_capacity_error(claim, index, allowed)
    candidates = launch_candidates(allowed)
    types = _truncate_types(claim, candidates)
    offerings = tuple(sorted(_launch_offerings(candidates, catalog, types), key=_offering_order))
    selection = _select_capacity_type(candidates)
    if selection.reservation_type == CAPACITY_BLOCK:
        offerings = offerings[:1]  # EC2 does not choose among several capacity blocks
    return msgspec.structs.replace(
        selection,
        offerings=offerings,
        tenancy=tenancy,
        prioritised=_has_price_override(catalog, selection.capacity_type, offerings),
        notes=_spot_notes(selection.capacity_type, types),
    )


def _select_tenancy(claim: NodeClaim) -> str:
    """Shared hardware if the claim allows it."""
    allowed = claim.requirements.allowed(INSTANCE_TENANCY)
    for tenancy in (DEFAULT, DEDICATED):
        if allowed.admits(tenancy):
            return tenancy
    message = f"{claim.name} requires tenancy {allowed}; only default and dedicated exist"
    raise InsufficientCapacityError(
        message, "mend the requirement in the NodePool", reason="NoTenancy"
    )


def _launchable(
    claim: NodeClaim, index: InstanceTypeIndex, available_count: AvailableCount
) -> LaunchOptions:
    """What the claim allows: types that it fits on, and reservations with available instances."""
    requirements = claim.requirements
    rows = index.compatible_types(requirements) & index.fitting(claim.requests)
    unreserved = reserved = 0
    for number in iter_bits(index.compatible_groups(requirements)):
        group = index.offering_groups[number]
        if group.reservation_id is None:
            unreserved |= 1 << number
        elif group.available_types & rows and available_count(group.reservation_id) > 0:
            reserved |= 1 << number
    return LaunchOptions(
        index=index,
        types=rows,
        offering_groups=unreserved,
        held=_single_reservation_type(index, rows, reserved),
        requirements=requirements,
        min_values=min_values_of(requirements),
    )


def _single_reservation_type(
    index: InstanceTypeIndex, rows: int, reserved: OfferingGroupSet
) -> OfferingGroupSet:
    """Reservations of the type of the cheapest one, as one request can use only one type."""
    by_type: dict[tuple[str, bool], OfferingGroupSet] = {}
    for number in iter_bits(reserved):
        reservation_type = _reservation_type(index.offering_groups[number])
        by_type[reservation_type] = by_type.get(reservation_type, 0) | 1 << number
    if len(by_type) < 2:
        return reserved
    cheapest = {each: index.find_cheapest(rows, groups) for each, groups in by_type.items()}
    prices = {each: offer[2].price for each, offer in cheapest.items() if offer is not None}
    return by_type[min(prices, key=lambda each: (prices[each], each[0] != DEFAULT, each))]


def _reservation_type(group: OfferingGroup) -> tuple[str, bool]:
    requirements = group.requirements
    interruptible = requirements.single_value(RESERVATION_INTERRUPTIBLE) == "true"
    return requirements.single_value(RESERVATION_TYPE) or DEFAULT, interruptible


def _truncate_types(claim: NodeClaim, candidates: LaunchOptions) -> tuple[InstanceType, ...]:
    """The cheapest types, few enough for one request, and enough for the claim's minValues."""
    rows, offering_groups = candidates.types, candidates.offering_groups | candidates.held
    types = (
        truncate_types(candidates, MAX_TYPES_PER_LAUNCH)
        if candidates.meets_min_values(rows, offering_groups)
        else None
    )
    if not types:
        message = (
            f"{claim.name}: what is left to launch does not meet the minValues of its NodePool"
        )
        raise InsufficientCapacityError(
            message, "lower minValues, or allow more types", reason="MinValues"
        )
    return types


def _select_capacity_type(candidates: LaunchOptions) -> LaunchSelection:
    """A selection without offerings: capacity type and reservation type only."""
    if candidates.held:
        first = candidates.index.offering_groups[next(iter(iter_bits(candidates.held)))]
        reservation_type, interruptible = _reservation_type(first)
        return LaunchSelection(
            capacity_type=RESERVED,
            offerings=(),
            reservation_type=reservation_type,
            interruptible=interruptible,
        )
    return LaunchSelection(
        capacity_type=SPOT if candidates.offering_groups & candidates.spot else ON_DEMAND,
        offerings=(),
    )


def _launch_offerings(
    candidates: LaunchOptions, catalog: NodeClassCatalog, types: Iterable[InstanceType]
) -> Iterator[LaunchOffering]:
    selected = {each.name for each in types}
    groups = candidates.offering_groups | candidates.held
    for row, _, offering in candidates.index.available_offerings(candidates.types, groups):
        name = candidates.index.types[row].name
        if name in selected:
            for zone in _offering_zones(offering, catalog, candidates.requirements):
                reservation = offering.reservation_id or ""
                yield LaunchOffering(
                    instance_type=name, zone=zone, price=offering.price, reservation=reservation
                )


def _offering_zones(
    offering: Offering, catalog: NodeClassCatalog, requirements: Requirements
) -> Iterable[str]:
    """The zone of the offering; if it has none, all that the claim and the class allow."""
    if offering.zone is not None:
        return (offering.zone,) if offering.zone in catalog.zones else ()
    names, ids = requirements.allowed(ZONE), requirements.allowed(ZONE_ID)
    return [
        zone
        for zone, zone_id in catalog.zones.items()
        if names.admits(zone) and (not zone_id or ids.admits(zone_id))
    ]


def _offering_order(offering: LaunchOffering) -> tuple[float, str, str, str]:
    return offering.price, offering.instance_type, offering.zone, offering.reservation


def _has_price_override(
    catalog: NodeClassCatalog, capacity_type: str, offerings: Iterable[LaunchOffering]
) -> bool:
    """Whether an overlay or an InstanceType object has set a price of this capacity type.

    Reserved instances are not chosen by price: an offering without a capacity type is not theirs.
    """
    return capacity_type != RESERVED and any(
        step.layer in (PriceLayer.OVERLAY, PriceLayer.INSTANCE_TYPE)
        for name in sorted({offering.instance_type for offering in offerings})
        for layered in catalog.offerings[name]
        if not layered.is_reserved and layered.capacity_type in (None, capacity_type)
        for step in layered.steps
    )


def _spot_notes(capacity_type: str, types: tuple[InstanceType, ...]) -> tuple[str, ...]:
    if capacity_type != SPOT or len(types) >= MIN_SPOT_TYPES:
        return ()
    return (
        f"EC2 is left a choice of {len(types)} for the instance type: with fewer than "
        f"{MIN_SPOT_TYPES} spot capacity is often unavailable, and soon interrupted",
    )


def _no_capacity_error(
    claim: NodeClaim, index: InstanceTypeIndex, allowed: LaunchOptions
) -> InsufficientCapacityError:
    """Names the first condition that no offering meets: labels, resources, capacity."""
    if not index.compatible_types(claim.requirements):
        why = "no instance type of its class has the labels that it requires"
    elif not allowed.types:
        why = "no instance type with the labels that it requires has room for its pods"
    else:
        why = "every offering that it may use has no capacity or, if reserved, is in use"
    return InsufficientCapacityError(f"{claim.name}: {why}", reason="NothingLeft")
