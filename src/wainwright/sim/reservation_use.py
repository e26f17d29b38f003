"""How capacity reservations were used in a simulation: reserved, used and idle hours, and what used
and idle ones would have cost on demand.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from wainwright.emulator.ec2.capacity_reservations.reservation_capacity import CapacityReservation
from wainwright.emulator.emulated_account import EmulatedAwsAccount
from wainwright.model.simulation import ReservationTotals
from wainwright.sim.money import PriceBook
from wainwright.sim.observed_state import ReservationCount

HOUR: Final = 3600.0


class _Use(msgspec.Struct, kw_only=True):
    """The hours of one reservation so far, and what has held since the last change."""

    since: float
    total: int = 0
    used: int = 0
    idle: int = 0
    price: float = 0.0
    total_hours: float = 0.0
    used_hours: float = 0.0
    idle_hours: float = 0.0
    idle_cost: float = 0.0
    used_value: float = 0.0


class ReservationAtMoment(msgspec.Struct, frozen=True, kw_only=True):
    """What a reservation has at this moment; all counts are 0 while it is not active."""

    id: str
    instance_type: str
    zone: str
    used: int
    total: int
    idle: int
    price: float
    """On demand, of one instance in USD per hour."""
    is_price_modelled: bool


class ReservationUse:
    def __init__(self, account: EmulatedAwsAccount, prices: PriceBook) -> None:
        self._account = account
        self._prices = prices
        self._uses: dict[str, _Use] = {}
        self.counts: Mapping[str, ReservationCount] = {}

    def refresh(self, at: float) -> None:
        """To be called whenever an instance, a reservation or a price has changed."""
        for reservation in self._reservations():
            self._refresh(reservation, at)
        counts = {
            identity: ReservationCount(used=use.used, total=use.total)
            for identity, use in self._uses.items()
        }
        if counts != self.counts:
            self.counts = counts

    def finish(self, at: float) -> list[ReservationTotals]:
        self.refresh(at)
        for use in self._uses.values():
            _add_up(use, at)
        return [
            ReservationTotals(
                id=identity,
                slotHours=round(use.total_hours, 9),
                usedHours=round(use.used_hours, 9),
                idleHours=round(use.idle_hours, 9),
                idleCost=round(use.idle_cost, 9),
                usedValue=round(use.used_value, 9),
            )
            for identity, use in sorted(self._uses.items())
        ]

    def states(self) -> Iterator[ReservationAtMoment]:
        """As they were when last refreshed."""
        for reservation in self._reservations():
            use = self._uses[reservation.id]
            yield ReservationAtMoment(
                id=reservation.id,
                instance_type=reservation.type,
                zone=reservation.zone,
                used=use.used,
                total=use.total,
                idle=use.idle,
                price=use.price,
                is_price_modelled=self._prices.is_on_demand_modelled(
                    reservation.type, reservation.zone
                ),
            )

    def _reservations(self) -> Iterable[CapacityReservation]:
        return self._account.services.reservations.state.reservations.values()

    def _refresh(self, reservation: CapacityReservation, at: float) -> None:
        use = self._uses.get(reservation.id)
        if use is None:
            use = self._uses[reservation.id] = _Use(since=at)
        is_active = reservation.active
        total, used = (reservation.total, reservation.used) if is_active else (0, 0)
        idle = reservation.free if is_active else 0
        price = self._prices.on_demand_price(reservation.type, reservation.zone)
        if (total, used, idle, price) != (use.total, use.used, use.idle, use.price):
            _add_up(use, at)
            use.total, use.used, use.idle, use.price = total, used, idle, price


def _add_up(use: _Use, at: float) -> None:
    hours = (at - use.since) / HOUR
    use.total_hours += use.total * hours
    use.used_hours += use.used * hours
    use.idle_hours += use.idle * hours
    use.idle_cost += use.idle * use.price * hours
    use.used_value += use.used * use.price * hours
    use.since = at
