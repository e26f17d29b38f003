"""Builders for the values that decisions are made of, with defaults where a test does not care."""

from collections.abc import Mapping

from wainwright.model.instance_type import UNLIMITED, InstanceType, Offering
from wainwright.model.labels import CAPACITY_TYPE, ON_DEMAND, ZONE
from wainwright.model.requirements import NO_REQUIREMENTS, Requirements

GIB = 2**30


def asking(
    key: str, operator: str = "Exists", *values: str, min_values: int | None = None
) -> Requirements:
    """Requirements on a single key; `narrow` puts several together."""
    return Requirements.from_entries([(key, operator, values, min_values)])


def offering(
    *,
    zone: str | None = "zone-a",
    capacity_type: str | None = ON_DEMAND,
    price: float = 1.0,
    available: int = UNLIMITED,
    reservation_id: str | None = None,
    labels: Mapping[str, str] | None = None,
) -> Offering:
    """One way to buy; None leaves the zone or the capacity type open."""
    stated = {ZONE: zone, CAPACITY_TYPE: capacity_type, **(labels or {})}
    return Offering(
        requirements=Requirements.from_labels({k: v for k, v in stated.items() if v is not None}),
        price=price,
        available=available,
        reservation_id=reservation_id,
    )


def instance_type(
    *,
    name: str = "m5.large",
    capacity: Mapping[str, int] | None = None,
    overhead: Mapping[str, int] | None = None,
    labels: Mapping[str, str] | None = None,
    requirements: Requirements = NO_REQUIREMENTS,
    offerings: tuple[Offering, ...] | None = None,
    fee: float = 0.0,
) -> InstanceType:
    """A machine of two cpus and eight GiB, sold on demand in one zone, unless told otherwise."""
    return InstanceType(
        name=name,
        requirements=Requirements.from_labels(labels or {}).narrow(requirements),
        capacity={"cpu": 2000, "memory": 8 * GIB, "pods": 29} if capacity is None else capacity,
        overhead=overhead or {},
        offerings=(offering(),) if offerings is None else offerings,
        fee=fee,
    )
