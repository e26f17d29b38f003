"""CreateFleet: compatible launch requests as one batch, its request to EC2, and its response.

What is known to have no capacity is left out of the request: subnets without free addresses,
reservations without available instances, and launch requests that no reserved instance remains for.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from wainwright.aws.api.error_codes import to_cloud_error
from wainwright.aws.api.services import AwsResponse, Row, tag_specifications
from wainwright.aws.instances import BATCH_TAG, RESERVATIONS_ONLY, Ec2Instance
from wainwright.aws.launch.launch_request import LaunchRequest
from wainwright.aws.launch.offering_selection import AvailableCount, LaunchOffering, LaunchSelection
from wainwright.aws.launchtemplate.launch_templates import LaunchTemplateConfig, TemplateSplit
from wainwright.aws.launchtemplate.template_data import INTERRUPTIBLE_RESERVATION, LaunchTemplate
from wainwright.aws.nodeclass.network import SubnetAddresses
from wainwright.aws.nodeclass.status import ResolvedSubnet
from wainwright.catalogue.offerings.capacity_reservations import CAPACITY_BLOCK
from wainwright.errors import AwsError, InsufficientCapacityError, InvalidInputError
from wainwright.model.labels import RESERVED, SPOT

MAX_FLEET_CONFIGS: Final = 50
MAX_FLEET_OVERRIDES: Final = 300
"""Limits of EC2 for one request."""


class FleetBatch(msgspec.Struct, frozen=True, kw_only=True):
    """Launch requests for one CreateFleet call, and the contents of that call."""

    requests: tuple[LaunchRequest, ...]
    without_capacity: tuple[LaunchRequest, ...] = ()
    """Requests that no reserved instance remains for; they are not launched."""
    configs: tuple[LaunchTemplateConfig, ...]
    subnets: Mapping[str, ResolvedSubnet]
    """By zone."""
    reservations: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def first(self) -> LaunchRequest:
        """Stands for all requests: their keys are equal."""
        return self.requests[0]

    @property
    def templates(self) -> list[LaunchTemplate]:
        return [config.template for config in self.configs]

    @property
    def addresses_per_instance(self) -> int:
        """Addresses that the smallest of the instance types uses as a node."""
        types = self.first.launch_context.instance_types
        return min(types[each.instance_type].max_pods for each in self.first.selection.offerings)


def build_fleet_batch(
    requests: Sequence[LaunchRequest],
    addresses: SubnetAddresses,
    available_count: AvailableCount,
) -> FleetBatch:
    """InsufficientCapacityError if nothing remains to be requested.

    RequestRejectedError if the launch template cannot be written.
    """
    first = requests[0]
    subnets = addresses.choose_by_zone(first.launch_context.resolved.subnets)
    try:
        split = first.split_templates(subnets, available_count)
    except InvalidInputError as error:
        raise to_cloud_error(error, f"launching NodeClaim {first.claim.name}") from error
    if not split.configs:
        raise _empty_batch_error(first, subnets, split)
    configs = truncate_configs(split.configs, first.selection.offerings)
    reservations = (
        _target_reservation_ids(configs) if first.selection.capacity_type == RESERVED else ()
    )
    launchable = sum(map(available_count, reservations)) if reservations else len(requests)
    return FleetBatch(
        requests=tuple(requests[:launchable]),
        without_capacity=tuple(requests[launchable:]),
        configs=configs,
        subnets=subnets,
        reservations=reservations,
        notes=split.remarks,
    )


def truncate_configs(
    configs: Sequence[LaunchTemplateConfig], offerings: Iterable[LaunchOffering]
) -> tuple[LaunchTemplateConfig, ...]:
    """The cheapest configs and overrides, within EC2's limits for one request.

    Every instance type and every zone keeps an override, as minValues may require that many.
    """
    prices: dict[tuple[str, str], float] = {}
    for offering in offerings:
        key = (offering.instance_type, offering.zone)
        prices[key] = min(prices.get(key, offering.price), offering.price)
    by_price = sorted(
        configs, key=lambda config: min(prices[type_and_zone(o)] for o in config.overrides)
    )
    cheapest = by_price[:MAX_FLEET_CONFIGS]
    type_zones = sorted(
        (type_and_zone(o) for config in cheapest for o in config.overrides),
        key=prices.__getitem__,
    )
    kept = set(_cover_types_and_zones(type_zones)[:MAX_FLEET_OVERRIDES])
    truncated = (
        LaunchTemplateConfig(
            template=config.template,
            overrides=tuple(each for each in config.overrides if type_and_zone(each) in kept),
        )
        for config in configs
        if config in cheapest
    )
    return tuple(config for config in truncated if config.overrides)


def _cover_types_and_zones(type_zones: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The first of every type, the first of every zone, then all in their order."""
    types: dict[str, tuple[str, str]] = {}
    zones: dict[str, tuple[str, str]] = {}
    for type_zone in type_zones:
        types.setdefault(type_zone[0], type_zone)
        zones.setdefault(type_zone[1], type_zone)
    return list(dict.fromkeys([*types.values(), *zones.values(), *type_zones]))


def type_and_zone(override: Mapping[str, Any]) -> tuple[str, str]:
    """The instance type and the zone of an override."""
    return override["InstanceType"], override["AvailabilityZone"]


def target_reservation_id(config: LaunchTemplateConfig) -> str:
    """The capacity reservation that a template launches into; empty if there is none."""
    specification = config.template.data.get("CapacityReservationSpecification") or {}
    target = specification.get("CapacityReservationTarget") or {}
    return str(target.get("CapacityReservationId", ""))


def _target_reservation_ids(configs: Sequence[LaunchTemplateConfig]) -> tuple[str, ...]:
    return tuple(sorted({target_reservation_id(config) for config in configs}))


def _empty_batch_error(
    request: LaunchRequest, subnets: Mapping[str, ResolvedSubnet], split: TemplateSplit
) -> InsufficientCapacityError:
    zones = {offering.zone for offering in request.selection.offerings}
    if not zones & subnets.keys():
        why = f"no subnet of its class has a free address in {', '.join(sorted(zones))}"
    elif split.remarks:
        why = "; ".join(split.remarks)
    else:
        why = "the reservations that it may use are full"
    return InsufficientCapacityError(f"{request.claim.name}: {why}", reason="NothingLeft")


LOWEST_PRICE: Final = "lowest-price"
PRICE_CAPACITY_OPTIMIZED: Final = "price-capacity-optimized"
PRIORITIZED: Final = "prioritized"
CAPACITY_OPTIMIZED_PRIORITIZED: Final = "capacity-optimized-prioritized"
"""The same two strategies where prices are passed on as priorities."""


def create_fleet_request(
    request: LaunchRequest, configs: Iterable[LaunchTemplateConfig], batch: str, count: int
) -> dict[str, Any]:
    """CreateFleet for `count` instances like the requested one.

    No usage strategy for reservations is set: a template with a target reservation is launched into
    that reservation or not at all.
    """
    tags = {**request.tags, BATCH_TAG: batch}
    params: dict[str, Any] = {
        "Type": "instant",
        "ClientToken": batch,
        "LaunchTemplateConfigs": [config.as_request() for config in configs],
        "TargetCapacitySpecification": {
            "DefaultTargetCapacityType": _target_capacity_type(request.selection),
            "TotalTargetCapacity": count,
        },
        **_allocation_options(request.selection),
        "TagSpecifications": tag_specifications(tags, "instance", "volume", "fleet"),
    }
    return {**params, "Context": request.context} if request.context else params


def _target_capacity_type(selection: LaunchSelection) -> str:
    if selection.capacity_type == SPOT:
        return SPOT
    if selection.reservation_type == CAPACITY_BLOCK:
        return CAPACITY_BLOCK
    return "reserved-capacity" if selection.interruptible else "on-demand"


def _allocation_options(selection: LaunchSelection) -> dict[str, Any]:
    match _target_capacity_type(selection):
        case "spot":
            strategy = (
                CAPACITY_OPTIMIZED_PRIORITIZED
                if selection.prioritised
                else PRICE_CAPACITY_OPTIMIZED
            )
            return {"SpotOptions": {"AllocationStrategy": strategy}}
        case "on-demand":
            strategy = PRIORITIZED if selection.prioritised else LOWEST_PRICE
            return {"OnDemandOptions": {"AllocationStrategy": strategy}}
        case "reserved-capacity":
            return {"ReservedCapacityOptions": {"ReservationTypes": [INTERRUPTIBLE_RESERVATION]}}
        case _:
            return {}


class FleetError(msgspec.Struct, frozen=True, kw_only=True):
    """An offering that had no capacity, or not enough."""

    instance_type: str
    zone: str
    subnet: str
    error: AwsError


class CreateFleetResult(msgspec.Struct, frozen=True, kw_only=True):
    """The parsed response."""

    instances: tuple[Ec2Instance, ...]
    """By id: the order in which they are assigned, here and in `recovery`."""
    failures: tuple[FleetError, ...]


class FleetResponseParser(msgspec.Struct, frozen=True, kw_only=True):
    """Parses a response with the data of its request, which the response does not repeat."""

    request: LaunchRequest
    batch: str
    configs: tuple[LaunchTemplateConfig, ...]
    subnets: Mapping[str, ResolvedSubnet]
    """By zone, those that were launched in."""
    now: float

    def parse(self, response: AwsResponse) -> CreateFleetResult:
        return CreateFleetResult(
            instances=tuple(
                sorted(self._instances(response.get("Instances") or ()), key=lambda each: each.id)
            ),
            failures=tuple(map(self._failure, response.get("Errors") or ())),
        )

    def _instances(self, groups: Sequence[Row]) -> Iterator[Ec2Instance]:
        for group in groups:
            override = _response_override(group)
            instance_type = group.get("InstanceType") or override.get("InstanceType", "")
            zone = self._zone(override)
            for instance_id in group.get("InstanceIds") or ():
                yield self._instance(instance_id, instance_type, zone, override)

    def _instance(
        self, instance_id: str, instance_type: str, zone: str, override: Row
    ) -> Ec2Instance:
        """The instance as DescribeInstances will return it soon."""
        subnet, requested = self.subnets.get(zone), self._requested_override(instance_type, zone)
        selection, resolved = self.request.selection, self.request.launch_context.resolved
        reservation = self.reservation_of(instance_type, zone)
        return Ec2Instance(
            id=instance_id,
            state="pending",
            instance_type=instance_type,
            image_id=override.get("ImageId") or requested.get("ImageId", ""),
            zone=zone,
            zone_id=subnet.zone_id if subnet else resolved.zones.get(zone, ""),
            launched_at=self.now,
            subnet_id=override.get("SubnetId") or requested.get("SubnetId", ""),
            tenancy=selection.tenancy,
            spot=selection.capacity_type == SPOT,
            reservation_id=reservation,
            reservation_preference=RESERVATIONS_ONLY if reservation else "",
            tags={**self.request.tags, BATCH_TAG: self.batch},
        )

    def reservation_of(self, instance_type: str, zone: str) -> str:
        """The reservation of an instance there: each type and zone is in one template only."""
        if self.request.selection.capacity_type != RESERVED:
            return ""
        for config in self.configs:
            if any(type_and_zone(each) == (instance_type, zone) for each in config.overrides):
                return target_reservation_id(config)
        return ""

    def _requested_override(self, instance_type: str, zone: str) -> Mapping[str, Any]:
        """The override in the request, for fields that the response does not repeat."""
        overrides = (each for config in self.configs for each in config.overrides)
        return next(
            (each for each in overrides if type_and_zone(each) == (instance_type, zone)), {}
        )

    def _failure(self, row: Row) -> FleetError:
        override = _response_override(row)
        zone = self._zone(override)
        subnet = self.subnets.get(zone)
        return FleetError(
            instance_type=override.get("InstanceType", ""),
            zone=zone,
            subnet=override.get("SubnetId") or (subnet.id if subnet else ""),
            error=AwsError(row.get("ErrorCode", "Unknown"), row.get("ErrorMessage", "")),
        )

    def _zone(self, override: Row) -> str:
        """The zone that the response states, else that of its subnet."""
        return override.get("AvailabilityZone") or self._zone_of(override.get("SubnetId", ""))

    def _zone_of(self, subnet: str) -> str:
        return next((zone for zone, each in self.subnets.items() if each.id == subnet), "")


def _response_override(row: Row) -> Row:
    override: Row = (row.get("LaunchTemplateAndOverrides") or {}).get("Overrides") or {}
    return override
