"""Lots: orders that are alike, put together into what one request asks for.

What is known to be used up is left out before anybody is asked: subnets without addresses,
reservations without room, and orders for which no place of a reservation is left.
"""

from collections.abc import Mapping, Sequence

import msgspec

from wainwright.aws.codes import typed
from wainwright.aws.nodeclass.resolved import Subnet
from wainwright.aws.ordering import Order
from wainwright.aws.slots import Slots
from wainwright.aws.subnets import Addresses
from wainwright.aws.templates.content import Template
from wainwright.aws.templates.split import Config, Split
from wainwright.errors import BadInput, NoCapacity
from wainwright.model.labels import RESERVED


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
    reservations = _reservations(made) if first.choice.capacity_type == RESERVED else ()
    room = sum(map(slots.free, reservations)) if reservations else len(orders)
    return Lot(
        orders=tuple(orders[:room]),
        late=tuple(orders[room:]),
        configs=made.configs,
        subnets=subnets,
        reservations=reservations,
        notes=made.remarks,
    )


def reservation_of(config: Config) -> str:
    """The capacity reservation that a template launches into; empty where it is none."""
    said = config.template.data.get("CapacityReservationSpecification") or {}
    return str((said.get("CapacityReservationTarget") or {}).get("CapacityReservationId", ""))


def _reservations(made: Split) -> tuple[str, ...]:
    return tuple(sorted({reservation_of(config) for config in made.configs}))


def _nothing(order: Order, subnets: Mapping[str, Subnet], made: Split) -> NoCapacity:
    zones = {ware.zone for ware in order.choice.wares}
    if not zones & subnets.keys():
        why = f"no subnet of its class has a free address in {', '.join(sorted(zones))}"
    elif made.remarks:
        why = "; ".join(made.remarks)
    else:
        why = "the reservations that it may use are full"
    return NoCapacity(f"{order.claim.name}: {why}", reason="NothingLeft")
