"""The content of a CreateFleet request: target capacity by purchase option, and every override
resolved to an instance type, a zone and a launch template.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from wainwright.emulator.api_conventions import parse_price
from wainwright.emulator.context import Params, Response
from wainwright.emulator.ec2.capacity_reservations.reservation_capacity import (
    parse_reservation_specification,
)
from wainwright.emulator.ec2.fleets.allocation_strategies import (
    LOWEST_PRICE,
    ON_DEMAND_STRATEGIES,
    SPOT_STRATEGIES,
)
from wainwright.emulator.ec2.instance.launcher import SubnetSelector
from wainwright.emulator.ec2.instance.lifecycle import (
    CAPACITY_BLOCK,
    INTERRUPTIBLE,
    ON_DEMAND,
    SPOT,
)
from wainwright.emulator.ec2.launch_templates import (
    LaunchTemplate,
    LaunchTemplates,
    LaunchTemplateVersion,
)
from wainwright.emulator.ec2.vpc.vpc_network import Subnet
from wainwright.errors import AwsError

RESERVED_CAPACITY: Final = "reserved-capacity"
USE_RESERVATIONS_FIRST: Final = "use-capacity-reservations-first"
LIFECYCLE_BY_RESERVATION_TYPE: Final = {
    "on-demand-capacity-reservation": ON_DEMAND,
    "capacity-block": CAPACITY_BLOCK,
    "interruptible-capacity-reservation": INTERRUPTIBLE,
}
"""The lifecycle of instances by the reservation type of a fleet."""
NOT_EMULATED_OPTIONS: Final = (
    "MaxTotalPrice",
    "MinTargetCapacity",
    "SingleAvailabilityZone",
    "SingleInstanceType",
)


class PurchaseOption(msgspec.Struct, frozen=True, kw_only=True):
    """A purchase option, and the order in which capacity pools are tried for it."""

    lifecycle: str
    strategy: str = LOWEST_PRICE
    use_open_reservations_first: bool = False
    """Whether open reservations are used before other capacity."""
    instance_pools_to_use: int | None = None
    reservations_only: bool = False
    """Whether instances are launched into reservations only."""
    targets: tuple[str, ...] = ()
    """Reservations that the fleet request itself names."""


class TargetCapacity(msgspec.Struct, frozen=True, kw_only=True):
    """Capacity to launch; what one purchase option cannot provide, the next may."""

    capacity: float
    purchase_options: tuple[PurchaseOption, ...]


def parse_target_capacity(params: Params) -> list[TargetCapacity]:
    """Target capacities in the order in which they are fulfilled."""
    _check_fleet_type(params)
    target = params.get("TargetCapacitySpecification") or {}
    capacity_by_type = _split_target_capacity(target)
    default = target.get("DefaultTargetCapacityType") or ON_DEMAND
    capacity_by_type[default] = capacity_by_type.get(default, 0) + capacity_by_type.pop("")
    return [
        TargetCapacity(capacity=count, purchase_options=_purchase_options(params, kind))
        for kind, count in capacity_by_type.items()
        if count
    ]


def _split_target_capacity(target: Mapping[str, Any]) -> dict[str, int]:
    """By purchase option; "" is the part that uses the default option."""
    total = target.get("TotalTargetCapacity") or 0
    on_demand = target.get("OnDemandTargetCapacity") or 0
    spot = target.get("SpotTargetCapacity") or 0
    if total < 1 or min(on_demand, spot) < 0 or on_demand + spot > total:
        raise AwsError(
            "InvalidParameterValue",
            "TotalTargetCapacity must be at least 1 and not less than its parts together.",
        )
    return {ON_DEMAND: on_demand, SPOT: spot, "": total - on_demand - spot}


def _purchase_options(params: Params, kind: str) -> tuple[PurchaseOption, ...]:
    if kind == ON_DEMAND:
        return (_on_demand_option(params.get("OnDemandOptions") or {}),)
    if kind == SPOT:
        return (_spot_option(params.get("SpotOptions") or {}),)
    if kind == CAPACITY_BLOCK:
        return (PurchaseOption(lifecycle=CAPACITY_BLOCK, reservations_only=True),)
    if kind == RESERVED_CAPACITY:
        return _reserved_options(params.get("ReservedCapacityOptions") or {})
    raise invalid_fleet_parameter(kind, "defaultTargetCapacityType")


def _on_demand_option(options: Mapping[str, Any]) -> PurchaseOption:
    _check_options(options)
    usage = (options.get("CapacityReservationOptions") or {}).get("UsageStrategy")
    if usage not in (None, USE_RESERVATIONS_FIRST):
        raise invalid_fleet_parameter(usage, "usageStrategy")
    return PurchaseOption(
        lifecycle=ON_DEMAND,
        strategy=_allocation_strategy(options, ON_DEMAND_STRATEGIES),
        use_open_reservations_first=usage == USE_RESERVATIONS_FIRST,
    )


def _spot_option(options: Mapping[str, Any]) -> PurchaseOption:
    _check_options(options)
    return PurchaseOption(
        lifecycle=SPOT,
        strategy=_allocation_strategy(options, SPOT_STRATEGIES),
        instance_pools_to_use=options.get("InstancePoolsToUseCount"),
    )


def _reserved_options(options: Mapping[str, Any]) -> tuple[PurchaseOption, ...]:
    """One for each reservation type, in their order."""
    target = options.get("CapacityReservationTarget") or {}
    if options.get("ReservedCapacityFallbackOptions"):
        raise not_emulated_error("ReservedCapacityFallbackOptions")
    if target.get("CapacityReservationResourceGroupArns"):
        raise not_emulated_error("CapacityReservationResourceGroupArns")
    kinds = options.get("ReservationTypes") or ()
    if not kinds or not set(kinds) <= LIFECYCLE_BY_RESERVATION_TYPE.keys():
        raise invalid_fleet_parameter(", ".join(kinds), "reservationTypes")
    return tuple(
        PurchaseOption(
            lifecycle=LIFECYCLE_BY_RESERVATION_TYPE[kind],
            strategy=_allocation_strategy(options, ON_DEMAND_STRATEGIES),
            reservations_only=True,
            targets=tuple(target.get("CapacityReservationIds") or ()),
        )
        for kind in kinds
    )


def _allocation_strategy(options: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    strategy = options.get("AllocationStrategy") or LOWEST_PRICE
    if strategy not in known:
        raise invalid_fleet_parameter(strategy, "allocationStrategy")
    return str(strategy)


def _check_fleet_type(params: Params) -> None:
    kind = params.get("Type") or "maintain"
    if kind != "instant":
        raise not_emulated_error(f"A fleet of type {kind}")
    unit = (params.get("TargetCapacitySpecification") or {}).get("TargetCapacityUnitType")
    if unit not in (None, "units"):
        raise not_emulated_error(f"TargetCapacityUnitType {unit}")


def _check_options(options: Mapping[str, Any]) -> None:
    for name in NOT_EMULATED_OPTIONS:
        if options.get(name):
            raise not_emulated_error(name)


def not_emulated_error(name: str) -> AwsError:
    return AwsError("UnsupportedOperation", f"{name} is not emulated.")


def invalid_fleet_parameter(value: str, name: str) -> AwsError:
    return AwsError("InvalidParameterValue", f"Value ({value}) for parameter {name} is invalid.")


MAX_TEMPLATE_CONFIGS: Final = 50
MAX_OVERRIDES: Final = 300
ECHOED_OVERRIDE_FIELDS: Final = (
    "MaxPrice",
    "WeightedCapacity",
    "Priority",
    "ImageId",
    "BlockDeviceMappings",
    "AvailabilityZoneId",
)
"""Fields of an override that responses repeat, besides type, zone and subnet."""
INSTANCE_OVERRIDE_FIELDS: Final = (
    "ImageId",
    "KeyName",
    "IamInstanceProfile",
    "MetadataOptions",
)
"""Fields of an override that replace those of the launch template."""


class FleetTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """A launch template of the fleet, read once for all of its overrides."""

    template: LaunchTemplate
    version: LaunchTemplateVersion
    preference: str
    target: str | None
    market_type: str | None
    """MarketType of its InstanceMarketOptions."""
    max_price: str | None


class FleetOverride(msgspec.Struct, frozen=True, kw_only=True):
    """A capacity pool of the fleet: an instance type in a zone, and its launch template."""

    index: int
    fleet_template: FleetTemplate
    params: Mapping[str, Any]
    type: str
    zone: str
    subnet: Subnet | None
    placement_error: AwsError | None = None
    """Why there is no subnet, where it is None."""

    @property
    def weight(self) -> float:
        """How much of the target one instance fulfils."""
        return float(self.params.get("WeightedCapacity") or 1)

    @property
    def max_price(self) -> float | None:
        max_price = self.params.get("MaxPrice") or self.fleet_template.max_price
        return None if max_price is None else parse_price(max_price, "maxPrice")

    def data(self) -> dict[str, Any]:
        """The launch parameters: the template, with the fields of the override over it."""
        template = self.fleet_template.version.data
        merged = {
            **template,
            **{name: self.params[name] for name in INSTANCE_OVERRIDE_FIELDS if name in self.params},
        }
        if "BlockDeviceMappings" in self.params:
            # Merged device by device: fields that the override leaves out are the template's.
            template_devices = template.get("BlockDeviceMappings") or ()
            merged["BlockDeviceMappings"] = [*template_devices, *self.params["BlockDeviceMappings"]]
        if "Placement" in self.params:
            merged["Placement"] = {
                **(template.get("Placement") or {}),
                **self.params["Placement"],
            }
        return merged

    def view(self) -> Response:
        """LaunchTemplateAndOverrides, which identifies the capacity pool to the caller."""
        subnet = self.params.get("SubnetId") if self.subnet is None else self.subnet.id
        overrides = {"InstanceType": self.type, "AvailabilityZone": self.zone, "SubnetId": subnet}
        overrides |= {
            name: self.params[name] for name in ECHOED_OVERRIDE_FIELDS if name in self.params
        }
        group = (self.params.get("Placement") or {}).get("GroupName")
        if group:
            overrides["Placement"] = {"GroupName": group}
        return {
            "LaunchTemplateSpecification": {
                "LaunchTemplateId": self.fleet_template.template.id,
                "Version": str(self.fleet_template.version.number),
            },
            "Overrides": {name: each for name, each in overrides.items() if each},
        }


class OverridePlacement(NamedTuple):
    """Zone and subnet of an override, or why there is no subnet."""

    zone: str
    subnet: Subnet | None
    error: AwsError | None


class OverrideReader:
    """Reads the overrides of a request; raises errors that concern the whole request."""

    def __init__(self, templates: LaunchTemplates, subnet_selector: SubnetSelector) -> None:
        self._templates = templates
        self._subnet_selector = subnet_selector

    def read(self, params: Params) -> list[FleetOverride]:
        configs = params.get("LaunchTemplateConfigs") or ()
        _check_request_size(configs)
        overrides: list[FleetOverride] = []
        for config in configs:
            fleet_template = self._read_template(config.get("LaunchTemplateSpecification") or {})
            placements: dict[Any, OverridePlacement] = {}
            raw_overrides: Sequence[Mapping[str, Any]] = config.get("Overrides") or ({},)
            for raw in raw_overrides:
                placement = self._find_placement(fleet_template, raw, placements)
                overrides.append(_make_override(len(overrides), fleet_template, raw, placement))
        _check_unique_overrides(overrides)
        return overrides

    def _read_template(self, specification: Mapping[str, Any]) -> FleetTemplate:
        template, version = self._templates.resolve(specification)
        preference, target = parse_reservation_specification(
            version.data.get("CapacityReservationSpecification")
        )
        market_options = version.data.get("InstanceMarketOptions") or {}
        return FleetTemplate(
            template=template,
            version=version,
            preference=preference,
            target=target,
            market_type=market_options.get("MarketType"),
            max_price=(market_options.get("SpotOptions") or {}).get("MaxPrice"),
        )

    def _find_placement(
        self,
        fleet_template: FleetTemplate,
        params: Mapping[str, Any],
        placements: dict[Any, OverridePlacement],
    ) -> OverridePlacement:
        """The placement of an override, cached per subnet and zone.

        Overrides have many types and few subnets: without the cache, 300 overrides would repeat the
        same few lookups.
        """
        get = params.get
        if get("Placement"):
            return self._resolve_placement(fleet_template, params)
        key = (get("SubnetId"), get("AvailabilityZone"), get("AvailabilityZoneId"))
        if key not in placements:
            placements[key] = self._resolve_placement(fleet_template, params)
        return placements[key]

    def _resolve_placement(
        self, fleet_template: FleetTemplate, params: Mapping[str, Any]
    ) -> OverridePlacement:
        try:
            subnet = self._subnet_selector.select(params, fleet_template.version.data)
        except AwsError as error:
            return OverridePlacement(params.get("AvailabilityZone") or "", None, error)
        return OverridePlacement(subnet.zone, subnet, None)


def _make_override(
    index: int,
    fleet_template: FleetTemplate,
    params: Mapping[str, Any],
    placement: OverridePlacement,
) -> FleetOverride:
    data = fleet_template.version.data
    if params.get("InstanceRequirements") or data.get("InstanceRequirements"):
        raise not_emulated_error("InstanceRequirements")
    instance_type = params.get("InstanceType") or data.get("InstanceType")
    if not instance_type:
        raise _missing_parameter("InstanceType")
    return FleetOverride(
        index=index,
        fleet_template=fleet_template,
        params=params,
        type=instance_type,
        zone=placement.zone,
        subnet=placement.subnet,
        placement_error=placement.error,
    )


def _check_request_size(configs: Any) -> None:
    if not configs:
        raise _missing_parameter("LaunchTemplateConfigs")
    overrides = sum(len(each.get("Overrides") or ()) for each in configs)
    if len(configs) > MAX_TEMPLATE_CONFIGS or overrides > MAX_OVERRIDES:
        raise AwsError(
            "InvalidParameterValue",
            f"A fleet can have at most {MAX_TEMPLATE_CONFIGS} launch templates and {MAX_OVERRIDES} "
            "overrides.",
        )


def _check_unique_overrides(overrides: list[FleetOverride]) -> None:
    """EC2 accepts a type in a zone only once, even with different templates."""
    locations = [(each.type, each.zone) for each in overrides if each.subnet is not None]
    if len(set(locations)) < len(locations):
        raise AwsError(
            "InvalidFleetConfig", "The fleet configuration contains duplicate instance pools."
        )


def _missing_parameter(name: str) -> AwsError:
    return AwsError("MissingParameter", f"The request must contain the parameter {name}")
