"""Buying: orders that come at nearly the same time and are alike go into one request."""

from collections.abc import Sequence

from wainwright.aws.batch import FLEETS, Batcher, counted
from wainwright.aws.codes import RESERVATION_FULL
from wainwright.aws.lots import lot
from wainwright.aws.ordering import Order
from wainwright.aws.purchase import Bargain, Means, Purchase
from wainwright.errors import NoCapacity, WainError


class Buyer:
    """Collects orders for a moment, and has those bought together that are alike."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self._batcher: Batcher[Order, Bargain] = Batcher(
            means.clock,
            FLEETS,
            self._buy,
            key=lambda order: order.key,
            watch=counted(means.metrics, "create_fleet"),
        )

    async def buy(self, order: Order) -> Bargain:
        return await self._batcher.add(order)

    async def _buy(self, orders: Sequence[Order]) -> list[Bargain | WainError]:
        made = lot(orders, self._means.addresses, self._means.slots)
        return [*await Purchase(self._means, made).run(), *map(_late, made.late)]


def _late(order: Order) -> NoCapacity:
    message = f"{order.claim.name}: the reservations that it may use are taken by other launches"
    return NoCapacity(message, reason=RESERVATION_FULL)
