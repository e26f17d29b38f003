"""Quotas: how many vCPUs the account may run, per group of instance families and market."""

from collections.abc import Mapping
from typing import Final

import msgspec

from wainwright.emulator.context import AccountContext, OperationHandler
from wainwright.emulator.ec2.capacity_reservations.reservation_api import CapacityReservations
from wainwright.emulator.ec2.capacity_reservations.reservation_capacity import CapacityReservation
from wainwright.emulator.ec2.instance.instances import Instances
from wainwright.emulator.ec2.instance.launch_errors import (
    fleet_limit_exceeded,
    spot_limit_exceeded,
    vcpu_limit_exceeded,
)
from wainwright.emulator.ec2.instance.lifecycle import (
    ALIVE_STATES,
    ON_DEMAND,
    SPOT,
    Instance,
    InstancesState,
)
from wainwright.emulator.ec2.region_offerings import RegionOfferings

STANDARD_GROUP: Final = "standard"
FLEET_ID_TAG: Final = "aws:ec2:fleet-id"
QUOTA_GROUPS: Final = {
    "dl": "dl",
    "f": "f",
    "g": "g",
    "gr": "g",
    "hpc": "hpc",
    "inf": "inf",
    "p": "p",
    "trn": "trn",
    "u": "u",
    "vt": "g",
    "x": "x",
}
"""What the names of families begin with, to the group that is counted together."""


class QuotaLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """vCPUs per group (standard, g, p, …); a group that is not named has no limit."""

    onDemand: dict[str, int] = {}
    spot: dict[str, int] = {}
    fleets: int | None = None
    """How many fleets may have machines at a time."""
    spotRole: bool = True
    """Whether whoever launches spot machines may create the role that this needs."""


class QuotaState(msgspec.Struct, kw_only=True):
    limits: QuotaLimits = QuotaLimits()


class VcpuQuotas:
    """Counts what runs; what a reservation of the account sets aside counts as if it ran."""

    name = "ec2"

    def __init__(
        self,
        context: AccountContext,
        region_offerings: RegionOfferings,
        instances: Instances,
        reservations: CapacityReservations,
    ) -> None:
        self.state = QuotaState()
        self._account = context.account
        self._region_offerings = region_offerings
        self._instances = instances
        self._reservations = reservations
        self._counted: InstancesState | None = None
        self._running: dict[tuple[str, str], int] = {}
        instances.watch(self._note)

    def operations(self) -> Mapping[str, OperationHandler]:
        return {}

    def check(self, instance_type: str, lifecycle: str, count: int = 1) -> None:
        """Raises where more of the type would be too many; reserved ones are counted already."""
        limits = self.state.limits
        if lifecycle not in (ON_DEMAND, SPOT):
            return
        bucket = self.bucket(instance_type)
        limit = (limits.spot if lifecycle == SPOT else limits.onDemand).get(bucket)
        if limit is None:
            return
        if self.used(bucket, lifecycle) + count * self._vcpus(instance_type) > limit:
            raise spot_limit_exceeded() if lifecycle == SPOT else vcpu_limit_exceeded(limit)

    def check_fleet(self, fleet: str) -> None:
        """Raises where one more fleet would be too many; other launches have no fleet."""
        maximum = self.state.limits.fleets
        if maximum is None or not fleet:
            return
        known = {each.tags.get(FLEET_ID_TAG, "") for each in self._instances.alive()} - {"", fleet}
        if len(known) >= maximum:
            raise fleet_limit_exceeded(maximum)

    def used(self, bucket: str, lifecycle: str) -> int:
        """vCPUs."""
        running = self._counts().get((bucket, lifecycle), 0)
        if lifecycle == SPOT:
            return running
        known = self._reservations.state.reservations.values()
        return running + sum(
            self._beyond(each) for each in known if self.bucket(each.type) == bucket
        )

    def bucket(self, instance_type: str) -> str:
        machine = self._region_offerings.machines.get(instance_type)
        return QUOTA_GROUPS.get((machine and machine.category) or "", STANDARD_GROUP)

    def _beyond(self, reservation: CapacityReservation) -> int:
        """What a reservation adds to the machines that run: its own idle ones.

        Machines in a reservation of another account are counted there.
        """
        if reservation.lifecycle != ON_DEMAND or not reservation.active:
            return 0
        own = reservation.owner == self._account
        beyond = reservation.total - reservation.used if own else -reservation.used
        return beyond * self._vcpus(reservation.type)

    def _vcpus(self, instance_type: str) -> int:
        machine = self._region_offerings.machines.get(instance_type)
        return machine.vcpus if machine is not None else 0

    def _counts(self) -> dict[tuple[str, str], int]:
        """Counted anew when another state has been loaded."""
        if self._counted is not self._instances.state:
            self._counted = self._instances.state
            self._running = {}
            for each in self._instances.alive():
                self._add(each, 1)
        return self._running

    def _note(self, instance: Instance, before: str) -> None:
        if self._counted is not self._instances.state:
            return
        if not before:
            self._add(instance, 1)
        elif before in ALIVE_STATES and not instance.alive:
            self._add(instance, -1)

    def _add(self, instance: Instance, sign: int) -> None:
        key = self.bucket(instance.type), instance.lifecycle
        self._running[key] = self._running.get(key, 0) + sign * self._vcpus(instance.type)
