"""Fleet: the one request that buys machines, and what its answer says."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from wainwright.aws.instance import ONLY_RESERVATIONS, Instance
from wainwright.aws.launching import Choice
from wainwright.aws.lots import pool_of, reservation_of
from wainwright.aws.nodeclass.resolved import Subnet
from wainwright.aws.ordering import Order
from wainwright.aws.seam import Answer
from wainwright.aws.templates.split import Config
from wainwright.aws.tokens import BATCH_TAG
from wainwright.aws.wire import Row, tagged
from wainwright.catalogue.reservations import CAPACITY_BLOCK
from wainwright.errors import AwsError
from wainwright.model.labels import RESERVED, SPOT

CHEAPEST: Final = "lowest-price"
LIKELIEST: Final = "price-capacity-optimized"
CHEAPEST_TOLD: Final = "prioritized"
LIKELIEST_TOLD: Final = "capacity-optimized-prioritized"
"""The same two with prices that EC2 has to be told of."""
INTERRUPTIBLE: Final = "interruptible-capacity-reservation"


def request(order: Order, configs: Iterable[Config], batch: str, count: int) -> dict[str, Any]:
    """CreateFleet for so many machines like the one ordered.

    Nothing is said about how reservations are to be used: a template that names one is launched
    into that one or not at all.
    """
    tags = {**order.tags, BATCH_TAG: batch}
    made: dict[str, Any] = {
        "Type": "instant",
        "ClientToken": batch,
        "LaunchTemplateConfigs": [config.as_request() for config in configs],
        "TargetCapacitySpecification": {
            "DefaultTargetCapacityType": _market(order.choice),
            "TotalTargetCapacity": count,
        },
        **_options(order.choice),
        "TagSpecifications": tagged(tags, "instance", "volume", "fleet"),
    }
    return {**made, "Context": order.context} if order.context else made


def _market(choice: Choice) -> str:
    if choice.capacity_type == SPOT:
        return SPOT
    if choice.reservation_type == CAPACITY_BLOCK:
        return CAPACITY_BLOCK
    return "reserved-capacity" if choice.interruptible else "on-demand"


def _options(choice: Choice) -> dict[str, Any]:
    match _market(choice):
        case "spot":
            strategy = LIKELIEST_TOLD if choice.prioritised else LIKELIEST
            return {"SpotOptions": {"AllocationStrategy": strategy}}
        case "on-demand":
            strategy = CHEAPEST_TOLD if choice.prioritised else CHEAPEST
            return {"OnDemandOptions": {"AllocationStrategy": strategy}}
        case "reserved-capacity":
            return {"ReservedCapacityOptions": {"ReservationTypes": [INTERRUPTIBLE]}}
        case _:
            return {}


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A pool that had nothing, or not enough."""

    instance_type: str
    zone: str
    subnet: str
    error: AwsError


class Bought(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a request."""

    machines: tuple[Instance, ...]
    """In the order in which they are dealt out."""
    failures: tuple[Failure, ...]


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What has to be known to read an answer."""

    order: Order
    batch: str
    configs: tuple[Config, ...]
    subnets: Mapping[str, Subnet]
    """By zone, those that were launched in."""
    now: float

    def read(self, answer: Answer) -> Bought:
        return Bought(
            machines=tuple(self._machines(answer.get("Instances") or ())),
            failures=tuple(map(_failure, answer.get("Errors") or ())),
        )

    def _machines(self, groups: Sequence[Row]) -> Iterator[Instance]:
        for group in groups:
            place = _override(group)
            kind = group.get("InstanceType") or place.get("InstanceType", "")
            zone = place.get("AvailabilityZone") or self._zone_of(place.get("SubnetId", ""))
            for identity in group.get("InstanceIds") or ():
                yield self._machine(identity, kind, zone, place)

    def _machine(self, identity: str, kind: str, zone: str, place: Row) -> Instance:
        """As DescribeInstances will show it before long."""
        subnet, asked = self.subnets.get(zone), self._asked(kind, zone)
        choice, resolved = self.order.choice, self.order.source.resolved
        reservation = self.reservation(kind, zone)
        return Instance(
            id=identity,
            state="pending",
            instance_type=kind,
            image_id=place.get("ImageId") or asked.get("ImageId", ""),
            zone=zone,
            zone_id=subnet.zone_id if subnet else resolved.zones.get(zone, ""),
            launched=self.now,
            subnet_id=place.get("SubnetId") or asked.get("SubnetId", ""),
            tenancy=choice.tenancy,
            spot=choice.capacity_type == SPOT,
            reservation_id=reservation,
            preference=ONLY_RESERVATIONS if reservation else "",
            tags={**self.order.tags, BATCH_TAG: self.batch},
        )

    def reservation(self, kind: str, zone: str) -> str:
        """The one that a machine there was launched into: each pool has one template."""
        if self.order.choice.capacity_type != RESERVED:
            return ""
        for config in self.configs:
            if any(pool_of(each) == (kind, zone) for each in config.overrides):
                return reservation_of(config)
        return ""

    def _asked(self, kind: str, zone: str) -> Mapping[str, Any]:
        """What was asked for in that pool, where the answer does not repeat it."""
        every = (each for config in self.configs for each in config.overrides)
        return next((each for each in every if pool_of(each) == (kind, zone)), {})

    def _zone_of(self, subnet: str) -> str:
        return next((zone for zone, each in self.subnets.items() if each.id == subnet), "")


def _override(row: Row) -> Row:
    found: Row = (row.get("LaunchTemplateAndOverrides") or {}).get("Overrides") or {}
    return found


def _failure(row: Row) -> Failure:
    place = _override(row)
    return Failure(
        instance_type=place.get("InstanceType", ""),
        zone=place.get("AvailabilityZone", ""),
        subnet=place.get("SubnetId", ""),
        error=AwsError(row.get("ErrorCode", "Unknown"), row.get("ErrorMessage", "")),
    )
