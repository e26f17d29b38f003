"""Launching: what is bought for a claim: one way to pay, and the types and zones that would do.

The choice itself is `core.launch`, the same as in plans. Here it is made of what the claim asks for
and what the catalogue of its class has at this moment.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Final

import msgspec

from wainwright.catalogue.built import Built
from wainwright.catalogue.lots import Layer
from wainwright.catalogue.reservations import CAPACITY_BLOCK
from wainwright.core.launch import Left, to_be_bought
from wainwright.core.minvalues import minimums
from wainwright.core.shortlist import LAUNCHED, cut
from wainwright.errors import NoCapacity
from wainwright.model.claim import Claim
from wainwright.model.columns import row_numbers
from wainwright.model.index import TypeIndex
from wainwright.model.instance_type import InstanceType, Offering
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
from wainwright.model.markets import Market, Markets
from wainwright.model.requirements import Requirements
from wainwright.model.resources import signature

DEFAULT, DEDICATED = "default", "dedicated"
REMEMBERED: Final = 1024  # choices of one catalogue
FEW: Final = 5
"""Fewer types than this are too few for spot capacity to be found, and to stay."""

Free = Callable[[str], int]
"""How many instances a reservation has free."""


class Ware(msgspec.Struct, frozen=True, kw_only=True):
    """A type in a zone that would do."""

    kind: str
    zone: str
    price: float
    reservation: str = ""


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """What EC2 is asked for on behalf of a claim; equal for claims that are launched alike."""

    capacity_type: str
    wares: tuple[Ware, ...]
    """Cheapest first; a type in a zone may be there in several reservations."""
    tenancy: str = DEFAULT
    reservation_type: str = DEFAULT
    interruptible: bool = False
    prioritised: bool = False
    """Whether somebody else than EC2 has set the prices, so that it must be told of them."""
    notes: tuple[str, ...] = ()


class Chooser:
    """Chooses from one catalogue, and remembers: most claims ask for the same."""

    def __init__(self, built: Built) -> None:
        self._built = built
        self._made: dict[Hashable, Choice] = {}

    def choose(self, claim: Claim, free: Free) -> Choice:
        """NoCapacity where nothing is left of what the claim may buy."""
        key = (claim.requirements, signature(claim.requests), self._full(free))
        found = self._made.get(key)
        if found is None:
            if len(self._made) >= REMEMBERED:
                self._made.clear()
            found = self._made[key] = choose(claim, self._built, free)
        return found

    def _full(self, free: Free) -> frozenset[str]:
        ids = {market.reservation_id for market in self._built.index.markets} - {None}
        return frozenset(each for each in ids if each is not None and free(each) <= 0)


def choose(claim: Claim, built: Built, free: Free) -> Choice:
    """NoCapacity where nothing is left of what the claim may buy."""
    tenancy = _tenancy(claim)
    everything = _left(claim, built.index, free if tenancy == DEFAULT else lambda _: 0)
    if not everything.rows & built.index.sold_in(everything.markets | everything.held):
        raise _nothing(claim, built.index, everything)
    left = to_be_bought(everything)
    kinds = _kinds(claim, left)
    wares = tuple(sorted(_wares(left, built, kinds), key=_rank))
    market = _market(left)
    if market.reservation_type == CAPACITY_BLOCK:
        wares = wares[:1]  # a block is bought as one; EC2 does not choose among several
    return msgspec.structs.replace(
        market,
        wares=wares,
        tenancy=tenancy,
        prioritised=_prioritised(built, market.capacity_type, wares),
        notes=_notes(market.capacity_type, kinds),
    )


def _tenancy(claim: Claim) -> str:
    """Shared hardware wherever that will do."""
    allowed = claim.requirements.allowed(INSTANCE_TENANCY)
    for tenancy in (DEFAULT, DEDICATED):
        if allowed.admits(tenancy):
            return tenancy
    message = f"{claim.name} asks for tenancy {allowed}, and there is only default and dedicated"
    raise NoCapacity(message, "mend the requirement in the NodePool", reason="NoTenancy")


def _left(claim: Claim, index: TypeIndex, free: Free) -> Left:
    """What the claim may buy: types that it fits, and reservations only where they have room."""
    wanted = claim.requirements
    rows = index.admitted_by(wanted) & index.holding(claim.requests)
    open_to = held = 0
    for number in row_numbers(index.markets_admitted_by(wanted)):
        reservation = index.markets[number].reservation_id
        if reservation is None:
            open_to |= 1 << number
        elif index.markets[number].sold & rows and free(reservation) > 0:
            held |= 1 << number
    return Left(
        index=index,
        rows=rows,
        markets=open_to,
        held=_of_one_type(index, rows, held),
        requirements=wanted,
        minimums=minimums(wanted),
    )


def _of_one_type(index: TypeIndex, rows: int, held: Markets) -> Markets:
    """Reservations of one type only, as each is bought on a market of its own: the cheapest's."""
    by_type: dict[tuple[str, bool], Markets] = {}
    for number in row_numbers(held):
        kind = _reservation_type(index.markets[number])
        by_type[kind] = by_type.get(kind, 0) | 1 << number
    if len(by_type) < 2:
        return held
    bought = {kind: index.best_buy(rows, markets) for kind, markets in by_type.items()}
    prices = {kind: found[2].price for kind, found in bought.items() if found is not None}
    return by_type[min(prices, key=lambda kind: (prices[kind], kind[0] != DEFAULT, kind))]


def _reservation_type(market: Market) -> tuple[str, bool]:
    said = market.requirements
    interruptible = said.only(RESERVATION_INTERRUPTIBLE) == "true"
    return said.only(RESERVATION_TYPE) or DEFAULT, interruptible


def _kinds(claim: Claim, left: Left) -> tuple[InstanceType, ...]:
    """The cheapest types, few enough for one request, and diverse enough for the claim."""
    rows, markets = left.rows, left.markets | left.held
    kinds = cut(left, LAUNCHED) if left.meets(rows, markets) else None
    if not kinds:
        message = f"{claim.name}: what is left to buy does not keep the minValues of its pool"
        raise NoCapacity(message, "lower minValues, or allow more types", reason="MinValues")
    return kinds


def _market(left: Left) -> Choice:
    """How it is paid for."""
    if left.held:
        first = left.index.markets[next(iter(row_numbers(left.held)))]
        kind, interruptible = _reservation_type(first)
        return Choice(
            capacity_type=RESERVED, wares=(), reservation_type=kind, interruptible=interruptible
        )
    return Choice(capacity_type=SPOT if left.markets & left.spot else ON_DEMAND, wares=())


def _wares(left: Left, built: Built, kinds: Iterable[InstanceType]) -> Iterator[Ware]:
    chosen = {kind.name for kind in kinds}
    for row, _, offering in left.index.offers(left.rows, left.markets | left.held):
        name = left.index.types[row].name
        if name in chosen:
            for zone in _zones(offering, built, left.requirements):
                reservation = offering.reservation_id or ""
                yield Ware(kind=name, zone=zone, price=offering.price, reservation=reservation)


def _zones(offering: Offering, built: Built, wanted: Requirements) -> Iterable[str]:
    """That of the offering; where it leaves it open, all that the claim and the class allow."""
    if offering.zone is not None:
        return (offering.zone,) if offering.zone in built.zones else ()
    names, ids = wanted.allowed(ZONE), wanted.allowed(ZONE_ID)
    return [
        zone
        for zone, identity in built.zones.items()
        if names.admits(zone) and (not identity or ids.admits(identity))
    ]


def _rank(ware: Ware) -> tuple[float, str, str, str]:
    return ware.price, ware.kind, ware.zone, ware.reservation


def _prioritised(built: Built, capacity_type: str, wares: Iterable[Ware]) -> bool:
    """Whether an overlay or an InstanceType object has set a price that counts here."""
    return any(
        step.layer in (Layer.OVERLAY, Layer.INSTANCE_TYPE)
        for name in sorted({ware.kind for ware in wares})
        for lot in built.lots[name]
        if not lot.reserved and lot.capacity_type in (None, capacity_type)
        for step in lot.steps
    )


def _notes(capacity_type: str, kinds: tuple[InstanceType, ...]) -> tuple[str, ...]:
    if capacity_type != SPOT or len(kinds) >= FEW:
        return ()
    return (
        f"EC2 is left a choice of {len(kinds)} for the instance type: with fewer than {FEW} spot "
        "capacity is often not to be had, and soon taken back",
    )


def _nothing(claim: Claim, index: TypeIndex, left: Left) -> NoCapacity:
    """What of it was missing, from the first condition to the last."""
    admitted = index.admitted_by(claim.requirements)
    if not admitted:
        why = "no instance type of its class has the labels that it asks for"
    elif not left.rows:
        why = "no instance type with the labels that it asks for has room for its pods"
    else:
        why = "every offering that it may buy is out of stock or, if reserved, in use"
    return NoCapacity(f"{claim.name}: {why}", reason="NothingLeft")
