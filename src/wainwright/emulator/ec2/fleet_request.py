"""A fleet as it is asked for: its targets, its strategies, and the pools that it may use."""

from collections.abc import Iterator, Mapping
from math import inf
from typing import Any, Final

import msgspec

from wainwright.emulator.ec2.allocation import LOWEST_PRICE, ON_DEMAND_ORDERS, SPOT_ORDERS
from wainwright.emulator.ec2.joining import specified
from wainwright.emulator.ec2.machines import BLOCK, INTERRUPTIBLE, ON_DEMAND, SPOT
from wainwright.emulator.ec2.state import LaunchTemplate, Subnet, TemplateVersion
from wainwright.emulator.ec2.subnetting import Subnetting
from wainwright.emulator.ec2.templates import Templates
from wainwright.emulator.world import Params
from wainwright.errors import AwsError

MOST_CONFIGS: Final = 50
MOST_OVERRIDES: Final = 300
RESERVED_CAPACITY: Final = "reserved-capacity"
USE_FIRST: Final = "use-capacity-reservations-first"
KINDS: Final = {
    "on-demand-capacity-reservation": ON_DEMAND,
    "capacity-block": BLOCK,
    "interruptible-capacity-reservation": INTERRUPTIBLE,
}
"""Reservation types of a fleet, to what their machines are called."""
ECHOED: Final = (
    "MaxPrice",
    "WeightedCapacity",
    "Priority",
    "Placement",
    "ImageId",
    "BlockDeviceMappings",
    "AvailabilityZoneId",
)
"""What answers repeat of an override, beside type and place."""
BUILT_IN: Final = (
    "ImageId",
    "BlockDeviceMappings",
    "KeyName",
    "IamInstanceProfile",
    "MetadataOptions",
)
"""What an override says of the machine itself."""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A launch template that the fleet names, read once for all of its overrides."""

    template: LaunchTemplate
    version: TemplateVersion
    preference: str
    target: str | None
    market: str | None
    """What its InstanceMarketOptions say."""

    @property
    def data(self) -> Mapping[str, Any]:
        return self.version.data


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """A pool: a type in a zone, launched from one template."""

    index: int
    source: Source
    override: Mapping[str, Any]
    type: str
    subnet: Subnet | None
    zone: str
    flaw: AwsError | None = None
    """Why it cannot be used, known before it is tried."""

    @property
    def weight(self) -> float:
        return float(self.override.get("WeightedCapacity") or 1)

    @property
    def data(self) -> dict[str, Any]:
        """What the machine is made from: the template, and what the override has of its own."""
        own = {name: self.override[name] for name in BUILT_IN if name in self.override}
        merged = {**self.source.data, **own}
        if "Placement" in self.override:
            merged["Placement"] = {**(merged.get("Placement") or {}), **self.override["Placement"]}
        return merged

    @property
    def shown(self) -> dict[str, Any]:
        """LaunchTemplateAndOverrides; whoever reads it finds the pool in it."""
        place = {"InstanceType": self.type, "AvailabilityZone": self.zone}
        if self.subnet is not None:
            place["SubnetId"] = self.subnet.id
        elif "SubnetId" in self.override:
            place["SubnetId"] = self.override["SubnetId"]
        echoed = {name: self.override[name] for name in ECHOED if name in self.override}
        if "Placement" in echoed:
            echoed["Placement"] = {"GroupName": echoed["Placement"].get("GroupName", "")}
        return {
            "LaunchTemplateSpecification": {
                "LaunchTemplateId": self.source.template.id,
                "Version": str(self.source.version.number),
            },
            "Overrides": {**place, **echoed},
        }


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """So much of one way to pay."""

    lifecycle: str
    wanted: float
    strategy: str
    use_first: bool = False
    """Whether open reservations are used up before anything else."""
    pools_to_use: int | None = None
    most_price: float | None = None
    reserved: bool = False
    """Whether it may only be fulfilled from reservations."""
    targets: tuple[str, ...] = ()
    """Reservations that the fleet itself names."""


class Reader:
    """Reads requests; what is wrong with the whole of one is raised."""

    def __init__(self, templates: Templates, subnetting: Subnetting) -> None:
        self._templates = templates
        self._subnetting = subnetting

    def choices(self, params: Params) -> list[Choice]:
        configs = params.get("LaunchTemplateConfigs") or ()
        overrides = sum(len(each.get("Overrides") or ()) for each in configs)
        if not configs:
            raise _missing("LaunchTemplateConfigs")
        if len(configs) > MOST_CONFIGS or overrides > MOST_OVERRIDES:
            raise AwsError(
                "InvalidParameterValue",
                f"A fleet can have at most {MOST_CONFIGS} launch templates and {MOST_OVERRIDES} "
                "overrides.",
            )
        found: list[Choice] = []
        for config in configs:
            source = self._source(config.get("LaunchTemplateSpecification") or {})
            for override in config.get("Overrides") or ({},):
                found.append(self._choice(len(found), source, override))
        _check_distinct(found)
        return found

    def _source(self, specification: Mapping[str, Any]) -> Source:
        template, version = self._templates.resolve(specification)
        preference, target = specified(version.data.get("CapacityReservationSpecification"))
        market = (version.data.get("InstanceMarketOptions") or {}).get("MarketType")
        return Source(
            template=template,
            version=version,
            preference=preference,
            target=target,
            market=market,
        )

    def _choice(self, index: int, source: Source, override: Mapping[str, Any]) -> Choice:
        if override.get("InstanceRequirements") or source.data.get("InstanceRequirements"):
            raise _not_emulated("InstanceRequirements")
        kind = override.get("InstanceType") or source.data.get("InstanceType")
        if not kind:
            raise _missing("InstanceType")
        subnet, flaw = None, None
        try:
            subnet = self._subnetting.of_override(override, source.data)
        except AwsError as error:
            flaw = error
        zone = subnet.zone if subnet is not None else override.get("AvailabilityZone") or ""
        return Choice(
            index=index,
            source=source,
            override=override,
            type=kind,
            subnet=subnet,
            zone=zone,
            flaw=flaw,
        )


def goals(params: Params) -> list[Goal]:
    """What the fleet wants, in the order in which it is fulfilled."""
    _check_kind(params)
    target = params.get("TargetCapacitySpecification") or {}
    total = target.get("TotalTargetCapacity") or 0
    on_demand = target.get("OnDemandTargetCapacity") or 0
    spot = target.get("SpotTargetCapacity") or 0
    if total < 1 or min(on_demand, spot) < 0 or on_demand + spot > total:
        raise AwsError(
            "InvalidParameterValue",
            "TotalTargetCapacity must be at least 1 and not less than its parts together.",
        )
    rest = {target.get("DefaultTargetCapacityType") or ON_DEMAND: total - on_demand - spot}
    found: list[Goal] = []
    for kind, part in ((ON_DEMAND, on_demand), (SPOT, spot)):
        found += _goal(params, kind, part + rest.pop(kind, 0))
    for kind, part in rest.items():
        found += _goal(params, kind, part)
    return found


def _goal(params: Params, kind: str, wanted: int) -> Iterator[Goal]:
    if not wanted:
        return
    if kind == ON_DEMAND:
        yield _on_demand(params.get("OnDemandOptions") or {}, wanted)
    elif kind == SPOT:
        yield _spot(params.get("SpotOptions") or {}, wanted)
    elif kind == BLOCK:
        yield Goal(lifecycle=BLOCK, wanted=wanted, strategy=LOWEST_PRICE, reserved=True)
    elif kind == RESERVED_CAPACITY:
        yield from _reserved(params.get("ReservedCapacityOptions") or {}, wanted)
    else:
        raise AwsError(
            "InvalidParameterValue",
            f"Value ({kind}) for parameter defaultTargetCapacityType is invalid.",
        )


def _on_demand(options: Mapping[str, Any], wanted: int) -> Goal:
    _check_options(options)
    strategy = (options.get("CapacityReservationOptions") or {}).get("UsageStrategy")
    if strategy not in (None, USE_FIRST):
        raise _no_such_strategy(strategy)
    return Goal(
        lifecycle=ON_DEMAND,
        wanted=wanted,
        strategy=_strategy(options, ON_DEMAND_ORDERS),
        use_first=strategy == USE_FIRST,
    )


def _spot(options: Mapping[str, Any], wanted: int) -> Goal:
    _check_options(options)
    return Goal(
        lifecycle=SPOT,
        wanted=wanted,
        strategy=_strategy(options, SPOT_ORDERS),
        pools_to_use=options.get("InstancePoolsToUseCount"),
    )


def _reserved(options: Mapping[str, Any], wanted: int) -> Iterator[Goal]:
    """One goal for each kind of reservation, in order; what one leaves open the next may have."""
    if options.get("ReservedCapacityFallbackOptions"):
        raise _not_emulated("ReservedCapacityFallbackOptions")
    target = options.get("CapacityReservationTarget") or {}
    if target.get("CapacityReservationResourceGroupArns"):
        raise _not_emulated("CapacityReservationResourceGroupArns")
    kinds = options.get("ReservationTypes")
    if not kinds or not set(kinds) <= KINDS.keys():
        raise AwsError(
            "InvalidParameterValue",
            f"ReservationTypes must name some of {', '.join(KINDS)}.",
        )
    for kind in kinds:
        yield Goal(
            lifecycle=KINDS[kind],
            wanted=wanted,
            strategy=_strategy(options, ON_DEMAND_ORDERS),
            reserved=True,
            targets=tuple(target.get("CapacityReservationIds") or ()),
        )


def _strategy(options: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    strategy = options.get("AllocationStrategy") or LOWEST_PRICE
    if strategy not in known:
        raise _no_such_strategy(strategy)
    return str(strategy)


def _check_kind(params: Params) -> None:
    kind = params.get("Type") or "maintain"
    if kind != "instant":
        raise AwsError("UnsupportedOperation", f"Fleets of type {kind} are not emulated.")
    unit = (params.get("TargetCapacitySpecification") or {}).get("TargetCapacityUnitType")
    if unit not in (None, "units"):
        raise _not_emulated(f"TargetCapacityUnitType {unit}")


def _check_options(options: Mapping[str, Any]) -> None:
    for name in ("SingleInstanceType", "SingleAvailabilityZone", "MaxTotalPrice"):
        if options.get(name):
            raise _not_emulated(name)


def _check_distinct(choices: list[Choice]) -> None:
    """EC2 takes a type in a zone only once, even from templates that differ."""
    pools = {(each.type, each.zone) for each in choices if each.subnet is not None}
    if len(pools) < sum(each.subnet is not None for each in choices):
        raise AwsError(
            "InvalidFleetConfig", "The fleet configuration contains duplicate instance pools."
        )


def _missing(name: str) -> AwsError:
    return AwsError("MissingParameter", f"The request must contain the parameter {name}")


def _not_emulated(name: str) -> AwsError:
    return AwsError("UnsupportedOperation", f"{name} is not emulated.")


def _no_such_strategy(name: str) -> AwsError:
    return AwsError("InvalidParameterValue", f"Value ({name}) for a strategy is invalid.")


__all__ = ["Choice", "Goal", "Reader", "goals", "inf"]
