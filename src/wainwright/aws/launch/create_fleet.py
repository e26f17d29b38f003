"""CreateFleet: launch requests that are alike as one batch, the request for it, and its response.

What is known to be used up is left out before EC2 is asked: subnets without addresses,
reservations without capacity, and requests for which no reserved instance is left.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from wainwright.aws.api.error_codes import to_cloud_error
from wainwright.aws.api.seam import AwsResponse, Row, tag_specifications
from wainwright.aws.instances import BATCH_TAG, RESERVATIONS_ONLY, Ec2Instance
from wainwright.aws.launch.launch_request import LaunchRequest
from wainwright.aws.launch.offering_selection import LaunchOffering, LaunchSelection
from wainwright.aws.launchtemplate.template_configs import LaunchTemplateConfig, TemplateSplit
from wainwright.aws.launchtemplate.template_data import LaunchTemplate
from wainwright.aws.nodeclass.network import SubnetAddresses
from wainwright.aws.nodeclass.status import ResolvedSubnet
from wainwright.aws.reservation_availability import ReservationHolds
from wainwright.catalogue.offerings.capacity_reservations import CAPACITY_BLOCK
from wainwright.errors import AwsError, InsufficientCapacityError, InvalidInputError
from wainwright.model.labels import RESERVED, SPOT

MAX_FLEET_CONFIGS: Final = 50
MAX_FLEET_OVERRIDES: Final = 300
"""What EC2 takes in one request."""


class FleetBatch(msgspec.Struct, frozen=True, kw_only=True):
    """Orders for one request, and what it is made of."""

    requests: tuple[LaunchRequest, ...]
    late: tuple[LaunchRequest, ...] = ()
    """Those for which nothing is left."""
    configs: tuple[LaunchTemplateConfig, ...]
    subnets: Mapping[str, ResolvedSubnet]
    """By zone."""
    reservations: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def first(self) -> LaunchRequest:
        """They differ in nothing that matters."""
        return self.requests[0]

    @property
    def templates(self) -> list[LaunchTemplate]:
        return [config.template for config in self.configs]

    @property
    def addresses(self) -> int:
        """What the smallest of the instances takes once it is a node."""
        kinds = self.first.launch_context.kinds
        return min(kinds[offering.kind].density for offering in self.first.choice.offerings)


def build_fleet_batch(
    requests: Sequence[LaunchRequest],
    addresses: SubnetAddresses,
    reservation_holds: ReservationHolds,
) -> FleetBatch:
    """InsufficientCapacityError where nothing is left to ask for.

    RequestRejectedError where the launch template cannot be written.
    """
    first = requests[0]
    subnets = addresses.choose(first.launch_context.resolved.subnets)
    try:
        made = first.divided(subnets, reservation_holds.free)
    except InvalidInputError as error:
        raise to_cloud_error(error, f"launching {first.claim.name}") from error
    if not made.configs:
        raise _empty_batch_error(first, subnets, made)
    configs = truncate_configs(made.configs, first.choice.offerings)
    reservations = (
        _target_reservation_ids(configs) if first.choice.capacity_type == RESERVED else ()
    )
    room = sum(map(reservation_holds.free, reservations)) if reservations else len(requests)
    return FleetBatch(
        requests=tuple(requests[:room]),
        late=tuple(requests[room:]),
        configs=configs,
        subnets=subnets,
        reservations=reservations,
        notes=made.remarks,
    )


def truncate_configs(
    configs: Sequence[LaunchTemplateConfig], offerings: Iterable[LaunchOffering]
) -> tuple[LaunchTemplateConfig, ...]:
    """As much as EC2 takes in one request, the cheapest of it.

    Every type and every zone keeps a place, as somebody may have asked for so many of them.
    """
    prices: dict[tuple[str, str], float] = {}
    for offering in offerings:
        known = prices.get((offering.kind, offering.zone), offering.price)
        prices[offering.kind, offering.zone] = min(known, offering.price)
    ordered = sorted(
        configs, key=lambda config: min(prices[type_and_zone(o)] for o in config.overrides)
    )
    few = ordered[:MAX_FLEET_CONFIGS]
    pools = sorted(
        (type_and_zone(o) for config in few for o in config.overrides), key=prices.__getitem__
    )
    kept = set(_cover_types_and_zones(pools)[:MAX_FLEET_OVERRIDES])
    cut = (
        LaunchTemplateConfig(
            template=config.template,
            overrides=tuple(each for each in config.overrides if type_and_zone(each) in kept),
        )
        for config in configs
        if config in few
    )
    return tuple(config for config in cut if config.overrides)


def _cover_types_and_zones(pools: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The first of every type, the first of every zone, then all in their order."""
    types: dict[str, tuple[str, str]] = {}
    zones: dict[str, tuple[str, str]] = {}
    for pool in pools:
        types.setdefault(pool[0], pool)
        zones.setdefault(pool[1], pool)
    return list(dict.fromkeys([*types.values(), *zones.values(), *pools]))


def type_and_zone(override: Mapping[str, Any]) -> tuple[str, str]:
    """The type and the zone that an override means."""
    return override["InstanceType"], override["AvailabilityZone"]


def target_reservation_id(config: LaunchTemplateConfig) -> str:
    """The capacity reservation that a template launches into; empty where it is none."""
    said = config.template.data.get("CapacityReservationSpecification") or {}
    return str((said.get("CapacityReservationTarget") or {}).get("CapacityReservationId", ""))


def _target_reservation_ids(configs: Sequence[LaunchTemplateConfig]) -> tuple[str, ...]:
    return tuple(sorted({target_reservation_id(config) for config in configs}))


def _empty_batch_error(
    request: LaunchRequest, subnets: Mapping[str, ResolvedSubnet], made: TemplateSplit
) -> InsufficientCapacityError:
    zones = {offering.zone for offering in request.choice.offerings}
    if not zones & subnets.keys():
        why = f"no subnet of its class has a free address in {', '.join(sorted(zones))}"
    elif made.remarks:
        why = "; ".join(made.remarks)
    else:
        why = "the reservations that it may use are full"
    return InsufficientCapacityError(f"{request.claim.name}: {why}", reason="NothingLeft")


LOWEST_PRICE: Final = "lowest-price"
PRICE_CAPACITY_OPTIMIZED: Final = "price-capacity-optimized"
PRIORITIZED: Final = "prioritized"
CAPACITY_OPTIMIZED_PRIORITIZED: Final = "capacity-optimized-prioritized"
"""The same two with prices that EC2 has to be told of."""
INTERRUPTIBLE_RESERVATION: Final = "interruptible-capacity-reservation"


def create_fleet_request(
    request: LaunchRequest, configs: Iterable[LaunchTemplateConfig], batch: str, count: int
) -> dict[str, Any]:
    """CreateFleet for so many instances like the one ordered.

    Nothing is said about how reservations are to be used: a template that names one is launched
    into that one or not at all.
    """
    tags = {**request.tags, BATCH_TAG: batch}
    made: dict[str, Any] = {
        "Type": "instant",
        "ClientToken": batch,
        "LaunchTemplateConfigs": [config.as_request() for config in configs],
        "TargetCapacitySpecification": {
            "DefaultTargetCapacityType": _target_capacity_type(request.choice),
            "TotalTargetCapacity": count,
        },
        **_allocation_options(request.choice),
        "TagSpecifications": tag_specifications(tags, "instance", "volume", "fleet"),
    }
    return {**made, "Context": request.context} if request.context else made


def _target_capacity_type(choice: LaunchSelection) -> str:
    if choice.capacity_type == SPOT:
        return SPOT
    if choice.reservation_type == CAPACITY_BLOCK:
        return CAPACITY_BLOCK
    return "reserved-capacity" if choice.interruptible else "on-demand"


def _allocation_options(choice: LaunchSelection) -> dict[str, Any]:
    match _target_capacity_type(choice):
        case "spot":
            strategy = (
                CAPACITY_OPTIMIZED_PRIORITIZED if choice.prioritised else PRICE_CAPACITY_OPTIMIZED
            )
            return {"SpotOptions": {"AllocationStrategy": strategy}}
        case "on-demand":
            strategy = PRIORITIZED if choice.prioritised else LOWEST_PRICE
            return {"OnDemandOptions": {"AllocationStrategy": strategy}}
        case "reserved-capacity":
            return {"ReservedCapacityOptions": {"ReservationTypes": [INTERRUPTIBLE_RESERVATION]}}
        case _:
            return {}


class FleetError(msgspec.Struct, frozen=True, kw_only=True):
    """A pool that had nothing, or not enough."""

    instance_type: str
    zone: str
    subnet: str
    error: AwsError


class CreateFleetResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a request."""

    instances: tuple[Ec2Instance, ...]
    """In the order in which they are dealt out."""
    failures: tuple[FleetError, ...]


class FleetResponseParser(msgspec.Struct, frozen=True, kw_only=True):
    """What has to be known to read an answer."""

    request: LaunchRequest
    batch: str
    configs: tuple[LaunchTemplateConfig, ...]
    subnets: Mapping[str, ResolvedSubnet]
    """By zone, those that were launched in."""
    now: float

    def read(self, response: AwsResponse) -> CreateFleetResult:
        return CreateFleetResult(
            instances=tuple(self._instances(response.get("Instances") or ())),
            failures=tuple(map(_parse_fleet_error, response.get("Errors") or ())),
        )

    def _instances(self, groups: Sequence[Row]) -> Iterator[Ec2Instance]:
        for group in groups:
            place = _response_override(group)
            kind = group.get("InstanceType") or place.get("InstanceType", "")
            zone = place.get("AvailabilityZone") or self._zone_of(place.get("SubnetId", ""))
            for identity in group.get("InstanceIds") or ():
                yield self._instance(identity, kind, zone, place)

    def _instance(self, identity: str, kind: str, zone: str, place: Row) -> Ec2Instance:
        """As DescribeInstances will show it before long."""
        subnet, asked = self.subnets.get(zone), self._asked(kind, zone)
        choice, resolved = self.request.choice, self.request.launch_context.resolved
        reservation = self.reservation(kind, zone)
        return Ec2Instance(
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
            preference=RESERVATIONS_ONLY if reservation else "",
            tags={**self.request.tags, BATCH_TAG: self.batch},
        )

    def reservation(self, kind: str, zone: str) -> str:
        """The one that an instance there was launched into: each pool has one template."""
        if self.request.choice.capacity_type != RESERVED:
            return ""
        for config in self.configs:
            if any(type_and_zone(each) == (kind, zone) for each in config.overrides):
                return target_reservation_id(config)
        return ""

    def _asked(self, kind: str, zone: str) -> Mapping[str, Any]:
        """What was asked for in that pool, where the answer does not repeat it."""
        every = (each for config in self.configs for each in config.overrides)
        return next((each for each in every if type_and_zone(each) == (kind, zone)), {})

    def _zone_of(self, subnet: str) -> str:
        return next((zone for zone, each in self.subnets.items() if each.id == subnet), "")


def _response_override(row: Row) -> Row:
    found: Row = (row.get("LaunchTemplateAndOverrides") or {}).get("Overrides") or {}
    return found


def _parse_fleet_error(row: Row) -> FleetError:
    place = _response_override(row)
    return FleetError(
        instance_type=place.get("InstanceType", ""),
        zone=place.get("AvailabilityZone", ""),
        subnet=place.get("SubnetId", ""),
        error=AwsError(row.get("ErrorCode", "Unknown"), row.get("ErrorMessage", "")),
    )
