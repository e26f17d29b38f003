"""What a fleet wants: how much of which way to pay, and by which strategy."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from wainwright.emulator.ec2.allocation import LOWEST_PRICE, ON_DEMAND_ORDERS, SPOT_ORDERS
from wainwright.emulator.ec2.machines import BLOCK, INTERRUPTIBLE, ON_DEMAND, SPOT
from wainwright.emulator.world import Params
from wainwright.errors import AwsError

RESERVED_CAPACITY: Final = "reserved-capacity"
USE_FIRST: Final = "use-capacity-reservations-first"
KINDS: Final = {
    "on-demand-capacity-reservation": ON_DEMAND,
    "capacity-block": BLOCK,
    "interruptible-capacity-reservation": INTERRUPTIBLE,
}
"""Reservation types of a fleet, to what their machines are called."""
LEFT_OUT: Final = (
    "MaxTotalPrice",
    "MinTargetCapacity",
    "SingleAvailabilityZone",
    "SingleInstanceType",
)


class Way(msgspec.Struct, frozen=True, kw_only=True):
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


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """So much capacity; what one way does not give, the next may."""

    wanted: float
    ways: tuple[Way, ...]


def goals(params: Params) -> list[Goal]:
    """In the order in which they are fulfilled."""
    _check_kind(params)
    target = params.get("TargetCapacitySpecification") or {}
    wanted = _parts(target)
    default = target.get("DefaultTargetCapacityType") or ON_DEMAND
    wanted[default] = wanted.get(default, 0) + wanted.pop("")
    return [Goal(wanted=count, ways=_ways(params, kind)) for kind, count in wanted.items() if count]


def _parts(target: Mapping[str, Any]) -> dict[str, int]:
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


def _ways(params: Params, kind: str) -> tuple[Way, ...]:
    if kind == ON_DEMAND:
        return (_on_demand(params.get("OnDemandOptions") or {}),)
    if kind == SPOT:
        return (_spot(params.get("SpotOptions") or {}),)
    if kind == BLOCK:
        return (Way(lifecycle=BLOCK, reserved=True),)
    if kind == RESERVED_CAPACITY:
        return _reserved(params.get("ReservedCapacityOptions") or {})
    raise invalid(kind, "defaultTargetCapacityType")


def _on_demand(options: Mapping[str, Any]) -> Way:
    _check_options(options)
    usage = (options.get("CapacityReservationOptions") or {}).get("UsageStrategy")
    if usage not in (None, USE_FIRST):
        raise invalid(usage, "usageStrategy")
    return Way(
        lifecycle=ON_DEMAND,
        strategy=_strategy(options, ON_DEMAND_ORDERS),
        use_first=usage == USE_FIRST,
    )


def _spot(options: Mapping[str, Any]) -> Way:
    _check_options(options)
    return Way(
        lifecycle=SPOT,
        strategy=_strategy(options, SPOT_ORDERS),
        pools_to_use=options.get("InstancePoolsToUseCount"),
    )


def _reserved(options: Mapping[str, Any]) -> tuple[Way, ...]:
    """One for each kind of reservation, in their order."""
    target = options.get("CapacityReservationTarget") or {}
    if options.get("ReservedCapacityFallbackOptions"):
        raise not_emulated("ReservedCapacityFallbackOptions")
    if target.get("CapacityReservationResourceGroupArns"):
        raise not_emulated("CapacityReservationResourceGroupArns")
    kinds = options.get("ReservationTypes") or ()
    if not kinds or not set(kinds) <= KINDS.keys():
        raise invalid(", ".join(kinds), "reservationTypes")
    return tuple(
        Way(
            lifecycle=KINDS[kind],
            strategy=_strategy(options, ON_DEMAND_ORDERS),
            reserved=True,
            targets=tuple(target.get("CapacityReservationIds") or ()),
        )
        for kind in kinds
    )


def _strategy(options: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    strategy = options.get("AllocationStrategy") or LOWEST_PRICE
    if strategy not in known:
        raise invalid(strategy, "allocationStrategy")
    return str(strategy)


def _check_kind(params: Params) -> None:
    kind = params.get("Type") or "maintain"
    if kind != "instant":
        raise not_emulated(f"A fleet of type {kind}")
    unit = (params.get("TargetCapacitySpecification") or {}).get("TargetCapacityUnitType")
    if unit not in (None, "units"):
        raise not_emulated(f"TargetCapacityUnitType {unit}")


def _check_options(options: Mapping[str, Any]) -> None:
    for name in LEFT_OUT:
        if options.get(name):
            raise not_emulated(name)


def not_emulated(name: str) -> AwsError:
    return AwsError("UnsupportedOperation", f"{name} is not emulated.")


def invalid(value: str, name: str) -> AwsError:
    return AwsError("InvalidParameterValue", f"Value ({value}) for parameter {name} is invalid.")
