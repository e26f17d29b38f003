"""Lots: orders that are alike, put together into what one request asks for.

What is known to be used up is left out before anybody is asked: subnets without addresses,
reservations without room, and orders for which no place of a reservation is left.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from wainwright.aws.codes import typed
from wainwright.aws.launching import Ware
from wainwright.aws.nodeclass.resolved import Subnet
from wainwright.aws.ordering import Order
from wainwright.aws.slots import Slots
from wainwright.aws.subnets import Addresses
from wainwright.aws.templates.content import Template
from wainwright.aws.templates.split import Config, Split
from wainwright.errors import BadInput, NoCapacity
from wainwright.model.labels import RESERVED

CONFIGS: Final = 50
OVERRIDES: Final = 300
"""What EC2 takes in one request."""


class Lot(msgspec.Struct, frozen=True, kw_only=True):
    """Orders for one request, and what it is made of."""

    orders: tuple[Order, ...]
    late: tuple[Order, ...] = ()
    """Those for which nothing is left."""
    configs: tuple[Config, ...]
    subnets: Mapping[str, Subnet]
    """By zone."""
    reservations: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def first(self) -> Order:
        """They differ in nothing that matters."""
        return self.orders[0]

    @property
    def templates(self) -> list[Template]:
        return [config.template for config in self.configs]

    @property
    def addresses(self) -> int:
        """What the smallest of the machines takes once it is a node."""
        kinds = self.first.source.kinds
        return min(kinds[ware.kind].density for ware in self.first.choice.wares)


def lot(orders: Sequence[Order], addresses: Addresses, slots: Slots) -> Lot:
    """NoCapacity where nothing can be asked for; Refused where nothing can be written."""
    first = orders[0]
    subnets = addresses.choose(first.source.resolved.subnets)
    try:
        made = first.divided(subnets, slots.free)
    except BadInput as error:
        raise typed(error, f"launching {first.claim.name}") from error
    if not made.configs:
        raise _nothing(first, subnets, made)
    configs = trimmed(made.configs, first.choice.wares)
    reservations = _reservations(configs) if first.choice.capacity_type == RESERVED else ()
    room = sum(map(slots.free, reservations)) if reservations else len(orders)
    return Lot(
        orders=tuple(orders[:room]),
        late=tuple(orders[room:]),
        configs=configs,
        subnets=subnets,
        reservations=reservations,
        notes=made.remarks,
    )


def trimmed(configs: Sequence[Config], wares: Iterable[Ware]) -> tuple[Config, ...]:
    """As much as EC2 takes in one request, the cheapest of it.

    Every type and every zone keeps a place, as somebody may have asked for so many of them.
    """
    prices: dict[tuple[str, str], float] = {}
    for ware in wares:
        known = prices.get((ware.kind, ware.zone), ware.price)
        prices[ware.kind, ware.zone] = min(known, ware.price)
    ordered = sorted(configs, key=lambda config: min(prices[pool_of(o)] for o in config.overrides))
    few = ordered[:CONFIGS]
    pools = sorted((pool_of(o) for config in few for o in config.overrides), key=prices.__getitem__)
    kept = set(_spread(pools)[:OVERRIDES])
    cut = (
        Config(
            template=config.template,
            overrides=tuple(each for each in config.overrides if pool_of(each) in kept),
        )
        for config in configs
        if config in few
    )
    return tuple(config for config in cut if config.overrides)


def _spread(pools: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The first of every type, the first of every zone, then all in their order."""
    types: dict[str, tuple[str, str]] = {}
    zones: dict[str, tuple[str, str]] = {}
    for pool in pools:
        types.setdefault(pool[0], pool)
        zones.setdefault(pool[1], pool)
    return list(dict.fromkeys([*types.values(), *zones.values(), *pools]))


def pool_of(override: Mapping[str, Any]) -> tuple[str, str]:
    """The type and the zone that an override means."""
    return override["InstanceType"], override["AvailabilityZone"]


def reservation_of(config: Config) -> str:
    """The capacity reservation that a template launches into; empty where it is none."""
    said = config.template.data.get("CapacityReservationSpecification") or {}
    return str((said.get("CapacityReservationTarget") or {}).get("CapacityReservationId", ""))


def _reservations(configs: Sequence[Config]) -> tuple[str, ...]:
    return tuple(sorted({reservation_of(config) for config in configs}))


def _nothing(order: Order, subnets: Mapping[str, Subnet], made: Split) -> NoCapacity:
    zones = {ware.zone for ware in order.choice.wares}
    if not zones & subnets.keys():
        why = f"no subnet of its class has a free address in {', '.join(sorted(zones))}"
    elif made.remarks:
        why = "; ".join(made.remarks)
    else:
        why = "the reservations that it may use are full"
    return NoCapacity(f"{order.claim.name}: {why}", reason="NothingLeft")
