"""Instance: one machine as DescribeInstances shows it, with the few things that matter here."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from wainwright.aws.wire import Row, from_pairs
from wainwright.model.labels import ON_DEMAND, RESERVED, SPOT

ONLY_RESERVATIONS: Final = "capacity-reservations-only"


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    state: str
    instance_type: str
    image_id: str
    zone: str
    launched: float
    """Seconds since 1970."""
    zone_id: str = ""
    subnet_id: str = ""
    security_groups: frozenset[str] = frozenset()
    tenancy: str = "default"
    placement_group: str = ""
    """Its id, else its name."""
    partition: int = 0
    spot: bool = False
    reservation_id: str = ""
    """The capacity reservation that it is in, wanted or not."""
    preference: str = ""
    efa: bool = False
    tags: Mapping[str, str] = {}

    @property
    def reserved(self) -> bool:
        """Launched into its reservation, and still there.

        What EC2 put into an open reservation by itself is on-demand: nobody here counts on it.
        """
        return bool(self.reservation_id) and self.preference == ONLY_RESERVATIONS

    @property
    def capacity_type(self) -> str:
        if self.reserved:
            return RESERVED
        return SPOT if self.spot else ON_DEMAND


def instance(row: Row) -> Instance:
    """From a row of the answer; what EC2 may leave out is allowed to be absent."""
    placement: Mapping[str, Any] = row.get("Placement") or {}
    specification = row.get("CapacityReservationSpecification") or {}
    interfaces: Iterable[Mapping[str, Any]] = row.get("NetworkInterfaces") or ()
    return Instance(
        id=row["InstanceId"],
        state=row["State"]["Name"],
        instance_type=row["InstanceType"],
        image_id=row.get("ImageId", ""),
        zone=placement.get("AvailabilityZone", ""),
        zone_id=placement.get("AvailabilityZoneId", ""),
        launched=row["LaunchTime"].timestamp(),
        subnet_id=row.get("SubnetId", ""),
        security_groups=frozenset(each["GroupId"] for each in row.get("SecurityGroups") or ()),
        tenancy=placement.get("Tenancy") or "default",
        placement_group=placement.get("GroupId") or placement.get("GroupName") or "",
        partition=placement.get("PartitionNumber") or 0,
        spot=bool(row.get("SpotInstanceRequestId")) or row.get("InstanceLifecycle") == "spot",
        reservation_id=row.get("CapacityReservationId") or "",
        preference=specification.get("CapacityReservationPreference") or "",
        efa=any(str(each.get("InterfaceType", "")).startswith("efa") for each in interfaces),
        tags=from_pairs(row.get("Tags")),
    )
