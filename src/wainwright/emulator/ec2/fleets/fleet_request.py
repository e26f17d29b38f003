"""What a CreateFleet request asks for: target capacity by purchase option, the allocation strategy
of each (the order in which overrides are tried, and how much is wanted of each), and every
override resolved to an instance type, a zone and a launch template.
"""

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from wainwright.emulator.context import Params, Response
from wainwright.emulator.ec2.capacity_reservations.reservation_capacity import (
    parse_reservation_specification,
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

LOWEST_PRICE: Final = "lowest-price"
PRIORITIZED: Final = "prioritized"
DIVERSIFIED: Final = "diversified"
CAPACITY_OPTIMIZED: Final = "capacity-optimized"
CAPACITY_OPTIMIZED_PRIORITIZED: Final = "capacity-optimized-prioritized"
PRICE_CAPACITY_OPTIMIZED: Final = "price-capacity-optimized"
DEEP_FRACTION: Final = 0.5  # a pool with half as much left as the deepest one counts as deep


class AllocationCandidate(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A type in a zone, as the fleet sees it before it tries."""

    index: int
    """Where the request names it."""
    price: float | None
    """None where it is not sold."""
    priority: float | None = None
    depth: float = inf
    """How many could be had; what only the owner of the machines knows, and the fleet uses."""


AllocationOrder: TypeAlias = Callable[[Sequence[AllocationCandidate]], list[AllocationCandidate]]


def _candidate_price(pool: AllocationCandidate) -> float:
    return inf if pool.price is None else pool.price


def _candidate_priority(pool: AllocationCandidate) -> float:
    """The lowest number first; who has none comes last."""
    return inf if pool.priority is None else pool.priority


def order_by_price(pools: Sequence[AllocationCandidate]) -> list[AllocationCandidate]:
    """Equal prices keep the order of the request."""
    return sorted(pools, key=_candidate_price)


def order_by_priority(pools: Sequence[AllocationCandidate]) -> list[AllocationCandidate]:
    return sorted(pools, key=_candidate_priority)


def order_by_depth(pools: Sequence[AllocationCandidate]) -> list[AllocationCandidate]:
    return sorted(pools, key=lambda pool: (-pool.depth, _candidate_price(pool)))


def order_by_depth_then_price(pools: Sequence[AllocationCandidate]) -> list[AllocationCandidate]:
    """The cheapest of the deep pools, then the cheapest of the others."""
    enough = _depth_threshold(pools)
    return sorted(pools, key=lambda pool: (pool.depth < enough, _candidate_price(pool)))


def order_by_depth_then_priority(pools: Sequence[AllocationCandidate]) -> list[AllocationCandidate]:
    enough = _depth_threshold(pools)
    return sorted(pools, key=lambda pool: (pool.depth < enough, _candidate_priority(pool)))


def _depth_threshold(pools: Sequence[AllocationCandidate]) -> float:
    return DEEP_FRACTION * max((pool.depth for pool in pools), default=0.0)


ON_DEMAND_STRATEGIES: Final[dict[str, AllocationOrder]] = {
    LOWEST_PRICE: order_by_price,
    PRIORITIZED: order_by_priority,
}
SPOT_STRATEGIES: Final[dict[str, AllocationOrder]] = {
    LOWEST_PRICE: order_by_price,
    DIVERSIFIED: order_by_price,
    CAPACITY_OPTIMIZED: order_by_depth,
    CAPACITY_OPTIMIZED_PRIORITIZED: order_by_depth_then_priority,
    PRICE_CAPACITY_OPTIMIZED: order_by_depth_then_price,
}


def diversification_count(strategy: str, pools_to_use: int | None, available: int) -> int:
    """Over how many pools a spot fleet divides what it wants; the others stand in."""
    if strategy == DIVERSIFIED:
        return max(available, 1)
    if strategy == LOWEST_PRICE:
        return max(min(pools_to_use or 1, available), 1)
    return 1


def even_shares(wanted: int, over: int) -> list[int]:
    """Even parts, the larger ones first."""
    part, rest = divmod(wanted, over)
    return [part + (number < rest) for number in range(over)]


RESERVED_CAPACITY: Final = "reserved-capacity"
USE_RESERVATIONS_FIRST: Final = "use-capacity-reservations-first"
LIFECYCLE_BY_RESERVATION_TYPE: Final = {
    "on-demand-capacity-reservation": ON_DEMAND,
    "capacity-block": CAPACITY_BLOCK,
    "interruptible-capacity-reservation": INTERRUPTIBLE,
}
"""Reservation types of a fleet, to what their machines are called."""
NOT_EMULATED_OPTIONS: Final = (
    "MaxTotalPrice",
    "MinTargetCapacity",
    "SingleAvailabilityZone",
    "SingleInstanceType",
)


class PurchaseOption(msgspec.Struct, frozen=True, kw_only=True):
    """One way to pay, and in which order pools are tried for it."""

    lifecycle: str
    strategy: str = LOWEST_PRICE
    use_first: bool = False
    """Whether open reservations are used up before anything else."""
    pools_to_use: int | None = None
    reserved: bool = False
    """Whether only reservations will do."""
    targets: tuple[str, ...] = ()
    """Reservations that the fleet itself names."""


class TargetCapacity(msgspec.Struct, frozen=True, kw_only=True):
    """So much capacity; what one way does not give, the next may."""

    wanted: float
    purchase_options: tuple[PurchaseOption, ...]


def parse_target_capacity(params: Params) -> list[TargetCapacity]:
    """In the order in which they are fulfilled."""
    _check_fleet_type(params)
    target = params.get("TargetCapacitySpecification") or {}
    wanted = _split_target_capacity(target)
    default = target.get("DefaultTargetCapacityType") or ON_DEMAND
    wanted[default] = wanted.get(default, 0) + wanted.pop("")
    return [
        TargetCapacity(wanted=count, purchase_options=_purchase_options(params, kind))
        for kind, count in wanted.items()
        if count
    ]


def _split_target_capacity(target: Mapping[str, Any]) -> dict[str, int]:
    """By way to pay; under "" what is left to the default."""
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
        return (PurchaseOption(lifecycle=CAPACITY_BLOCK, reserved=True),)
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
        use_first=usage == USE_RESERVATIONS_FIRST,
    )


def _spot_option(options: Mapping[str, Any]) -> PurchaseOption:
    _check_options(options)
    return PurchaseOption(
        lifecycle=SPOT,
        strategy=_allocation_strategy(options, SPOT_STRATEGIES),
        pools_to_use=options.get("InstancePoolsToUseCount"),
    )


def _reserved_options(options: Mapping[str, Any]) -> tuple[PurchaseOption, ...]:
    """One for each kind of reservation, in their order."""
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
            reserved=True,
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
"""What answers repeat of an override, beside type and place."""
INSTANCE_OVERRIDE_FIELDS: Final = (
    "ImageId",
    "KeyName",
    "IamInstanceProfile",
    "MetadataOptions",
)
"""What an override says of the machine itself."""


class FleetTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """A launch template that the fleet names, read once for all of its overrides."""

    template: LaunchTemplate
    version: LaunchTemplateVersion
    preference: str
    target: str | None
    market: str | None
    """What its InstanceMarketOptions say."""
    max_price: str | None


class FleetOverride(msgspec.Struct, frozen=True, kw_only=True):
    """A pool: a type in a zone, launched from one template."""

    index: int
    source: FleetTemplate
    override: Mapping[str, Any]
    type: str
    zone: str
    subnet: Subnet | None
    flaw: AwsError | None = None
    """Why there is no subnet."""

    @property
    def weight(self) -> float:
        """How much of the target a machine fulfils."""
        return float(self.override.get("WeightedCapacity") or 1)

    @property
    def max_price(self) -> float | None:
        asked = self.override.get("MaxPrice") or self.source.max_price
        return None if asked is None else float(asked)

    def data(self) -> dict[str, Any]:
        """What the machine is made from: the template, and what the override has of its own."""
        template = self.source.version.data
        merged = {
            **template,
            **{
                name: self.override[name]
                for name in INSTANCE_OVERRIDE_FIELDS
                if name in self.override
            },
        }
        if "BlockDeviceMappings" in self.override:
            # Device by device: what the override does not say is the template's.
            disks = template.get("BlockDeviceMappings") or ()
            merged["BlockDeviceMappings"] = [*disks, *self.override["BlockDeviceMappings"]]
        if "Placement" in self.override:
            merged["Placement"] = {
                **(template.get("Placement") or {}),
                **self.override["Placement"],
            }
        return merged

    def shown(self) -> Response:
        """LaunchTemplateAndOverrides; whoever reads it finds the pool in it."""
        subnet = self.override.get("SubnetId") if self.subnet is None else self.subnet.id
        overrides = {"InstanceType": self.type, "AvailabilityZone": self.zone, "SubnetId": subnet}
        overrides |= {
            name: self.override[name] for name in ECHOED_OVERRIDE_FIELDS if name in self.override
        }
        group = (self.override.get("Placement") or {}).get("GroupName")
        if group:
            overrides["Placement"] = {"GroupName": group}
        return {
            "LaunchTemplateSpecification": {
                "LaunchTemplateId": self.source.template.id,
                "Version": str(self.source.version.number),
            },
            "Overrides": {name: each for name, each in overrides.items() if each},
        }


class OverridePlacement(NamedTuple):
    """Where an override puts its machines, or why nowhere."""

    zone: str
    subnet: Subnet | None
    flaw: AwsError | None


class OverrideReader:
    """Reads the pools out of a request; what is wrong with all of it is raised."""

    def __init__(self, templates: LaunchTemplates, places: SubnetSelector) -> None:
        self._templates = templates
        self._places = places

    def read(self, params: Params) -> list[FleetOverride]:
        configs = params.get("LaunchTemplateConfigs") or ()
        _check_request_size(configs)
        found: list[FleetOverride] = []
        for config in configs:
            source = self._source(config.get("LaunchTemplateSpecification") or {})
            sites: dict[Any, OverridePlacement] = {}
            overrides: Sequence[Mapping[str, Any]] = config.get("Overrides") or ({},)
            for override in overrides:
                site = self._site(source, override, sites)
                found.append(_make_override(len(found), source, override, site))
        _check_unique_overrides(found)
        return found

    def _source(self, specification: Mapping[str, Any]) -> FleetTemplate:
        template, version = self._templates.resolve(specification)
        preference, target = parse_reservation_specification(
            version.data.get("CapacityReservationSpecification")
        )
        market = version.data.get("InstanceMarketOptions") or {}
        return FleetTemplate(
            template=template,
            version=version,
            preference=preference,
            target=target,
            market=market.get("MarketType"),
            max_price=(market.get("SpotOptions") or {}).get("MaxPrice"),
        )

    def _site(
        self, source: FleetTemplate, override: Mapping[str, Any], seen: dict[Any, OverridePlacement]
    ) -> OverridePlacement:
        """Overrides have many types and few places: each of these is looked up once."""
        said = override.get
        if said("Placement"):
            return self._found(source, override)
        key = (said("SubnetId"), said("AvailabilityZone"), said("AvailabilityZoneId"))
        if key not in seen:
            seen[key] = self._found(source, override)
        return seen[key]

    def _found(self, source: FleetTemplate, override: Mapping[str, Any]) -> OverridePlacement:
        try:
            subnet = self._places.subnet(override, source.version.data)
        except AwsError as flaw:
            return OverridePlacement(override.get("AvailabilityZone") or "", None, flaw)
        return OverridePlacement(subnet.zone, subnet, None)


def _make_override(
    index: int, source: FleetTemplate, override: Mapping[str, Any], site: OverridePlacement
) -> FleetOverride:
    data = source.version.data
    if override.get("InstanceRequirements") or data.get("InstanceRequirements"):
        raise not_emulated_error("InstanceRequirements")
    kind = override.get("InstanceType") or data.get("InstanceType")
    if not kind:
        raise _missing_parameter("InstanceType")
    return FleetOverride(
        index=index,
        source=source,
        override=override,
        type=kind,
        zone=site.zone,
        subnet=site.subnet,
        flaw=site.flaw,
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


def _check_unique_overrides(choices: list[FleetOverride]) -> None:
    """EC2 takes a type in a zone only once, even from templates that differ."""
    placed = [(each.type, each.zone) for each in choices if each.subnet is not None]
    if len(set(placed)) < len(placed):
        raise AwsError(
            "InvalidFleetConfig", "The fleet configuration contains duplicate instance pools."
        )


def _missing_parameter(name: str) -> AwsError:
    return AwsError("MissingParameter", f"The request must contain the parameter {name}")
