"""vCPU quotas of the account, per group of instance families and purchase option."""

from collections.abc import Mapping
from typing import Annotated, Final

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
"""Quota groups by category, the prefix of the family name."""


class QuotaLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """vCPUs per group (standard, g, p, …); a group that is not listed has no limit."""

    onDemand: dict[str, Annotated[int, msgspec.Meta(ge=0)]] = {}
    spot: dict[str, Annotated[int, msgspec.Meta(ge=0)]] = {}
    fleets: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """How many fleets may have instances at a time."""
    spotRole: bool = True
    """Whether callers may create the service-linked role that spot launches need."""


class QuotaState(msgspec.Struct, kw_only=True):
    limits: QuotaLimits = QuotaLimits()


class VcpuQuotas:
    """Counts running vCPUs; unused capacity of the account's reservations counts as running."""

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
        self._counted_state: InstancesState | None = None
        self._running_vcpus: dict[tuple[str, str], int] = {}
        instances.add_listener(self._on_state_change)

    def operations(self) -> Mapping[str, OperationHandler]:
        return {}

    def check(self, instance_type: str, lifecycle: str, count: int = 1) -> None:
        """Raises where `count` more would exceed the limit; reserved capacity counts already."""
        limits = self.state.limits
        if lifecycle not in (ON_DEMAND, SPOT):
            return
        quota_group = self.quota_group(instance_type)
        limit = (limits.spot if lifecycle == SPOT else limits.onDemand).get(quota_group)
        if limit is None:
            return
        if self.used(quota_group, lifecycle) + count * self._vcpus(instance_type) > limit:
            raise spot_limit_exceeded() if lifecycle == SPOT else vcpu_limit_exceeded(limit)

    def check_fleet(self, fleet: str) -> None:
        """Raises where one more fleet would exceed the limit; other launches have no fleet."""
        maximum = self.state.limits.fleets
        if maximum is None or not fleet:
            return
        other_fleets = {
            each.tags.get(FLEET_ID_TAG, "") for each in self._instances.list_alive()
        } - {"", fleet}
        if len(other_fleets) >= maximum:
            raise fleet_limit_exceeded(maximum)

    def used(self, quota_group: str, lifecycle: str) -> int:
        """vCPUs in use."""
        running = self._running_vcpus_by_group().get((quota_group, lifecycle), 0)
        if lifecycle == SPOT:
            return running
        reservations = self._reservations.state.reservations.values()
        return running + sum(
            self._idle_reserved_vcpus(each)
            for each in reservations
            if self.quota_group(each.type) == quota_group
        )

    def quota_group(self, instance_type: str) -> str:
        type_info = self._region_offerings.instance_types.get(instance_type)
        return QUOTA_GROUPS.get((type_info and type_info.category) or "", STANDARD_GROUP)

    def _idle_reserved_vcpus(self, reservation: CapacityReservation) -> int:
        """vCPUs that a reservation adds to those of running instances: its unused capacity.

        Instances in a reservation of another account count there, hence negative here.
        """
        if reservation.lifecycle != ON_DEMAND or not reservation.active:
            return 0
        is_own = reservation.owner == self._account
        count = reservation.total - reservation.used if is_own else -reservation.used
        return count * self._vcpus(reservation.type)

    def _vcpus(self, instance_type: str) -> int:
        type_info = self._region_offerings.instance_types.get(instance_type)
        return type_info.vcpus if type_info is not None else 0

    def _running_vcpus_by_group(self) -> dict[tuple[str, str], int]:
        """Running vCPUs by quota group and lifecycle.

        Maintained by the listener, and recounted only when another state has been loaded: a count
        over all instances at every launch would be quadratic.
        """
        if self._counted_state is not self._instances.state:
            self._counted_state = self._instances.state
            self._running_vcpus = {}
            for each in self._instances.list_alive():
                self._add(each, 1)
        return self._running_vcpus

    def _on_state_change(self, instance: Instance, previous_state: str) -> None:
        if self._counted_state is not self._instances.state:
            return
        if not previous_state:
            self._add(instance, 1)
        elif previous_state in ALIVE_STATES and not instance.alive:
            self._add(instance, -1)

    def _add(self, instance: Instance, sign: int) -> None:
        key = self.quota_group(instance.type), instance.lifecycle
        self._running_vcpus[key] = self._running_vcpus.get(key, 0) + sign * self._vcpus(
            instance.type
        )
