"""Unavailable offerings (the ICE cache): what EC2 has run out of, not asked for again for a while.

An offering is a type in a zone by a capacity type. What is marked stays unavailable for three
minutes: time enough to launch something else, and short enough to come back when it is over.
"""

from typing import Final, NamedTuple

from wainwright.api.catalog_documents import UnavailableOffering
from wainwright.clock import Clock

UNAVAILABLE_TTL: Final = 180.0  # seconds


class UnavailableKey(NamedTuple):
    """A type in a zone by a capacity type; None stands for all of them."""

    instance_type: str | None
    zone: str | None
    capacity_type: str | None


class UnavailableOfferings:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pools: dict[UnavailableKey, float] = {}
        self._subnets: dict[str, float] = {}

    def mark(self, instance_type: str, zone: str, capacity_type: str) -> None:
        self._pools[UnavailableKey(instance_type, zone, capacity_type)] = self._until()

    def mark_capacity_type(self, capacity_type: str) -> None:
        """Nothing at all can be bought this way."""
        self._pools[UnavailableKey(None, None, capacity_type)] = self._until()

    def mark_subnet(self, subnet: str) -> None:
        """Has no address left; others of the same zone may have."""
        self._subnets[subnet] = self._until()

    def full(self, subnet: str) -> bool:
        return self._subnets.get(subnet, 0.0) > self._clock.now()

    def pools(self) -> tuple[UnavailableKey, ...]:
        """All that are out of stock now, in a fixed order."""
        now = self._clock.now()
        self._pools = {pool: until for pool, until in self._pools.items() if until > now}
        return tuple(sorted(self._pools, key=lambda pool: [part or "" for part in pool]))

    def entries(self) -> list[UnavailableOffering]:
        """The same as a Cloud has it, for the layers of the catalogue."""
        return [
            UnavailableOffering(
                instanceType=pool.instance_type, zone=pool.zone, capacityType=pool.capacity_type
            )
            for pool in self.pools()
        ]

    def _until(self) -> float:
        return self._clock.now() + UNAVAILABLE_TTL
