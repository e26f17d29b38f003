"""What a claim is launched as: one capacity type, and the types and zones that would do.

The choice itself is `core.launch`, the same as in plans. Here it is made of what the claim asks for
and what the catalog of its class has at this moment.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Final

import msgspec

from wainwright.catalogue.class_catalog import NodeClassCatalog
from wainwright.catalogue.offerings.capacity_reservations import CAPACITY_BLOCK
from wainwright.catalogue.offerings.layered_offering import PriceLayer
from wainwright.core.launch.instance_type_truncation import MAX_TYPES_PER_LAUNCH, truncate_types
from wainwright.core.launch.launch_choice import LaunchOptions, launch_candidates
from wainwright.core.scheduling.min_values import min_values_of
from wainwright.errors import InsufficientCapacityError
from wainwright.model.bitset import iter_bits
from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import (
    INSTANCE_TENANCY,
    ON_DEMAND,
    RESERVATION_INTERRUPTIBLE,
    RESERVATION_TYPE,
    RESERVED,
    SPOT,
    ZONE,
    ZONE_ID,
)
from wainwright.model.node_claim import NodeClaim
from wainwright.model.offering_groups import OfferingGroup, OfferingGroupSet
from wainwright.model.requirements import Requirements
from wainwright.model.resources import resources_key

DEFAULT, DEDICATED = "default", "dedicated"
MAX_CACHED_CHOICES: Final = 1024  # choices of one catalogue
MIN_SPOT_TYPES: Final = 5
"""Fewer types than this are too few for spot capacity to be found, and to stay."""

AvailableCount = Callable[[str], int]
"""How many instances a reservation has free."""


class LaunchOffering(msgspec.Struct, frozen=True, kw_only=True):
    """A type in a zone that would do."""

    kind: str
    zone: str
    price: float
    reservation: str = ""


class LaunchSelection(msgspec.Struct, frozen=True, kw_only=True):
    """What EC2 is asked for on behalf of a claim; equal for claims that are launched alike."""

    capacity_type: str
    offerings: tuple[LaunchOffering, ...]
    """Cheapest first; a type in a zone may be there in several reservations."""
    tenancy: str = DEFAULT
    reservation_type: str = DEFAULT
    interruptible: bool = False
    prioritised: bool = False
    """Whether somebody else than EC2 has set the prices, so that it must be told of them."""
    notes: tuple[str, ...] = ()


class LaunchSelector:
    """Chooses from one catalogue, and remembers: most claims ask for the same."""

    def __init__(self, built: NodeClassCatalog) -> None:
        self._built = built
        self._made: dict[Hashable, LaunchSelection] = {}

    def choose(self, claim: NodeClaim, free: AvailableCount) -> LaunchSelection:
        """InsufficientCapacityError where nothing is left of what the claim may buy."""
        key = (claim.requirements, resources_key(claim.requests), self._full(free))
        found = self._made.get(key)
        if found is None:
            if len(self._made) >= MAX_CACHED_CHOICES:
                self._made.clear()
            found = self._made[key] = select_launch(claim, self._built, free)
        return found

    def _full(self, free: AvailableCount) -> frozenset[str]:
        ids = {market.reservation_id for market in self._built.index.offering_groups} - {None}
        return frozenset(each for each in ids if each is not None and free(each) <= 0)


def select_launch(
    claim: NodeClaim, built: NodeClassCatalog, free: AvailableCount
) -> LaunchSelection:
    """InsufficientCapacityError where nothing is left of what the claim may buy."""
    tenancy = _choose_tenancy(claim)
    everything = _launchable(claim, built.index, free if tenancy == DEFAULT else lambda _: 0)
    if not everything.types & built.index.available_in(
        everything.offering_groups | everything.held
    ):
        raise _no_capacity_error(claim, built.index, everything)
    left = launch_candidates(everything)
    kinds = _truncate_types(claim, left)
    offerings = tuple(sorted(_launch_offerings(left, built, kinds), key=_offering_order))
    market = _choose_capacity_type(left)
    if market.reservation_type == CAPACITY_BLOCK:
        offerings = offerings[:1]  # a block is bought as one; EC2 does not choose among several
    return msgspec.structs.replace(
        market,
        offerings=offerings,
        tenancy=tenancy,
        prioritised=_has_price_override(built, market.capacity_type, offerings),
        notes=_spot_notes(market.capacity_type, kinds),
    )


def _choose_tenancy(claim: NodeClaim) -> str:
    """Shared hardware wherever that will do."""
    allowed = claim.requirements.allowed(INSTANCE_TENANCY)
    for tenancy in (DEFAULT, DEDICATED):
        if allowed.admits(tenancy):
            return tenancy
    message = f"{claim.name} asks for tenancy {allowed}, and there is only default and dedicated"
    raise InsufficientCapacityError(
        message, "mend the requirement in the NodePool", reason="NoTenancy"
    )


def _launchable(claim: NodeClaim, index: InstanceTypeIndex, free: AvailableCount) -> LaunchOptions:
    """What the claim may buy: types that it fits, and reservations only where they have room."""
    wanted = claim.requirements
    rows = index.compatible_types(wanted) & index.fitting(claim.requests)
    open_to = held = 0
    for number in iter_bits(index.compatible_groups(wanted)):
        reservation = index.offering_groups[number].reservation_id
        if reservation is None:
            open_to |= 1 << number
        elif index.offering_groups[number].available_types & rows and free(reservation) > 0:
            held |= 1 << number
    return LaunchOptions(
        index=index,
        types=rows,
        offering_groups=open_to,
        held=_single_reservation_type(index, rows, held),
        requirements=wanted,
        min_values=min_values_of(wanted),
    )


def _single_reservation_type(
    index: InstanceTypeIndex, rows: int, held: OfferingGroupSet
) -> OfferingGroupSet:
    """Reservations of one type only, as each is bought on a market of its own: the cheapest's."""
    by_type: dict[tuple[str, bool], OfferingGroupSet] = {}
    for number in iter_bits(held):
        kind = _reservation_type(index.offering_groups[number])
        by_type[kind] = by_type.get(kind, 0) | 1 << number
    if len(by_type) < 2:
        return held
    bought = {
        kind: index.find_cheapest(rows, offering_groups)
        for kind, offering_groups in by_type.items()
    }
    prices = {kind: found[2].price for kind, found in bought.items() if found is not None}
    return by_type[min(prices, key=lambda kind: (prices[kind], kind[0] != DEFAULT, kind))]


def _reservation_type(market: OfferingGroup) -> tuple[str, bool]:
    said = market.requirements
    interruptible = said.single_value(RESERVATION_INTERRUPTIBLE) == "true"
    return said.single_value(RESERVATION_TYPE) or DEFAULT, interruptible


def _truncate_types(claim: NodeClaim, left: LaunchOptions) -> tuple[InstanceType, ...]:
    """The cheapest types, few enough for one request, and diverse enough for the claim."""
    rows, offering_groups = left.types, left.offering_groups | left.held
    kinds = (
        truncate_types(left, MAX_TYPES_PER_LAUNCH)
        if left.meets_min_values(rows, offering_groups)
        else None
    )
    if not kinds:
        message = f"{claim.name}: what is left to buy does not keep the minValues of its pool"
        raise InsufficientCapacityError(
            message, "lower minValues, or allow more types", reason="MinValues"
        )
    return kinds


def _choose_capacity_type(left: LaunchOptions) -> LaunchSelection:
    """How it is paid for."""
    if left.held:
        first = left.index.offering_groups[next(iter(iter_bits(left.held)))]
        kind, interruptible = _reservation_type(first)
        return LaunchSelection(
            capacity_type=RESERVED, offerings=(), reservation_type=kind, interruptible=interruptible
        )
    return LaunchSelection(
        capacity_type=SPOT if left.offering_groups & left.spot else ON_DEMAND, offerings=()
    )


def _launch_offerings(
    left: LaunchOptions, built: NodeClassCatalog, kinds: Iterable[InstanceType]
) -> Iterator[LaunchOffering]:
    chosen = {kind.name for kind in kinds}
    for row, _, offering in left.index.available_offerings(
        left.types, left.offering_groups | left.held
    ):
        name = left.index.types[row].name
        if name in chosen:
            for zone in _offering_zones(offering, built, left.requirements):
                reservation = offering.reservation_id or ""
                yield LaunchOffering(
                    kind=name, zone=zone, price=offering.price, reservation=reservation
                )


def _offering_zones(
    offering: Offering, built: NodeClassCatalog, wanted: Requirements
) -> Iterable[str]:
    """That of the offering; where it leaves it open, all that the claim and the class allow."""
    if offering.zone is not None:
        return (offering.zone,) if offering.zone in built.zones else ()
    names, ids = wanted.allowed(ZONE), wanted.allowed(ZONE_ID)
    return [
        zone
        for zone, identity in built.zones.items()
        if names.admits(zone) and (not identity or ids.admits(identity))
    ]


def _offering_order(offering: LaunchOffering) -> tuple[float, str, str, str]:
    return offering.price, offering.kind, offering.zone, offering.reservation


def _has_price_override(
    built: NodeClassCatalog, capacity_type: str, offerings: Iterable[LaunchOffering]
) -> bool:
    """Whether an overlay or an InstanceType object has set a price that counts here."""
    return any(
        step.layer in (PriceLayer.OVERLAY, PriceLayer.INSTANCE_TYPE)
        for name in sorted({offering.kind for offering in offerings})
        for lot in built.offerings[name]
        if not lot.is_reserved and lot.capacity_type in (None, capacity_type)
        for step in lot.steps
    )


def _spot_notes(capacity_type: str, kinds: tuple[InstanceType, ...]) -> tuple[str, ...]:
    if capacity_type != SPOT or len(kinds) >= MIN_SPOT_TYPES:
        return ()
    return (
        f"EC2 is left a choice of {len(kinds)} for the instance type: with fewer than "
        f"{MIN_SPOT_TYPES} spot capacity is often not to be had, and soon taken back",
    )


def _no_capacity_error(
    claim: NodeClaim, index: InstanceTypeIndex, left: LaunchOptions
) -> InsufficientCapacityError:
    """What of it was missing, from the first condition to the last."""
    admitted = index.compatible_types(claim.requirements)
    if not admitted:
        why = "no instance type of its class has the labels that it asks for"
    elif not left.types:
        why = "no instance type with the labels that it asks for has room for its pods"
    else:
        why = "every offering that it may buy is out of stock or, if reserved, in use"
    return InsufficientCapacityError(f"{claim.name}: {why}", reason="NothingLeft")
