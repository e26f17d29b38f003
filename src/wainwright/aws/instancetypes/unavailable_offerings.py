"""Unavailable offerings (the ICE cache): offerings without capacity are not requested for a while.

An offering here is an instance type in a zone with a capacity type. A marked offering stays
unavailable for three minutes: long enough to launch something else, and short enough to use the
capacity when it is back.
"""

from typing import Final

from wainwright.catalogue.offerings.capacity_state import UnavailableKey
from wainwright.clock import Clock

UNAVAILABLE_TTL: Final = 180.0  # seconds


class UnavailableOfferings:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._expiries: dict[UnavailableKey, float] = {}
        self._subnets: dict[str, float] = {}

    def mark(self, instance_type: str, zone: str, capacity_type: str) -> None:
        self._expiries[UnavailableKey(instance_type, zone, capacity_type)] = self._until()

    def mark_capacity_type(self, capacity_type: str) -> None:
        """No offering of this capacity type can be launched."""
        self._expiries[UnavailableKey(None, None, capacity_type)] = self._until()

    def mark_subnet(self, subnet: str) -> None:
        """The subnet has no free address; others of the same zone may have."""
        self._subnets[subnet] = self._until()

    def is_subnet_full(self, subnet: str) -> bool:
        return self._subnets.get(subnet, 0.0) > self._clock.now()

    def keys(self) -> tuple[UnavailableKey, ...]:
        """All that are unavailable now, sorted."""
        now = self._clock.now()
        self._expiries = {key: until for key, until in self._expiries.items() if until > now}
        return tuple(sorted(self._expiries, key=lambda key: [part or "" for part in key]))

    def next_expiry(self) -> float | None:
        """When the first of them may be tried again."""
        now = self._clock.now()
        moments = (*self._expiries.values(), *self._subnets.values())
        return min((moment for moment in moments if moment > now), default=None)

    def _until(self) -> float:
        return self._clock.now() + UNAVAILABLE_TTL
