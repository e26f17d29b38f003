"""Questions about a built catalogue: list its types, explain the resources and prices of one."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from math import inf
from typing import Final

import msgspec

from wainwright.catalogue.class_catalog import NodeClassCatalog
from wainwright.catalogue.instancetypes.derived_amount import DerivedAmount
from wainwright.catalogue.instancetypes.overhead import Overhead
from wainwright.catalogue.offerings.built_in_offerings import base_price_step
from wainwright.catalogue.offerings.cloud_adjustments import matches_pattern
from wainwright.catalogue.offerings.layered_offering import LayeredOffering, PriceLayer, PriceStep
from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import (
    ARCH,
    CAPACITY_TYPE,
    INSTANCE_CPU,
    INSTANCE_MEMORY,
    RESERVATION_ID,
    RESERVATION_LABELS,
    ZONE,
    ZONE_ID,
)
from wainwright.model.requirements import NO_REQUIREMENTS, Requirements, ValueSet, parse_integer
from wainwright.model.resources import CPU, HUGE_PAGES_PREFIX, MEMORY, format_quantity

MIB = 2**20


class SortOrder(StrEnum):
    """What a listing is sorted by."""

    NAME = "name"
    PRICE = "price"
    CPU = "cpu"
    MEMORY = "memory"


class TypeFilter(msgspec.Struct, frozen=True, kw_only=True):
    """What a listing is narrowed to; what is empty narrows nothing."""

    instance_types: tuple[str, ...] = ()
    """Patterns."""
    zones: tuple[str, ...] = ()
    capacity_types: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    cpu: int = 0
    """In thousandths, of the instance as it is sold."""
    memory: int = 0
    """In bytes, of the instance as it is sold."""
    requirements: Requirements | None = None
    """Of a pool: then only what it may launch is listed."""

    @property
    def by_offering(self) -> bool:
        """Whether types without an offering that is wanted are left out."""
        return bool(self.zones or self.capacity_types) or self.requirements is not None


def list_instance_types(
    index: InstanceTypeIndex, wanted: TypeFilter, order: SortOrder = SortOrder.NAME
) -> list[InstanceType]:
    """The types wanted, each with the offerings wanted."""
    asked = wanted.requirements or NO_REQUIREMENTS
    found = []
    for kind in index.iter_types(index.compatible_types(asked)):
        if not _matches_type(kind, wanted):
            continue
        kept = tuple(
            offering for offering in kind.offerings if _matches_offering(offering, wanted, asked)
        )
        if kept or not wanted.by_offering:
            found.append(msgspec.structs.replace(kind, offerings=kept))
    return sorted(found, key=_type_sort_key(order))


def _matches_type(kind: InstanceType, wanted: TypeFilter) -> bool:
    patterns, architectures = wanted.instance_types, wanted.architectures
    if patterns and not any(matches_pattern(pattern, kind.name) for pattern in patterns):
        return False
    if architectures and not any(kind.requirements.allowed(ARCH).admits(a) for a in architectures):
        return False
    return nominal_cpu(kind) >= wanted.cpu and nominal_memory(kind) >= wanted.memory


def _matches_offering(offering: Offering, wanted: TypeFilter, asked: Requirements) -> bool:
    """A zone or capacity type that the offering leaves open is any."""
    if wanted.zones and offering.zone is not None and offering.zone not in wanted.zones:
        return False
    bought = offering.capacity_type
    if wanted.capacity_types and bought is not None and bought not in wanted.capacity_types:
        return False
    stated = offering.requirements
    if offering.reservation_id is not None:
        stated = stated.narrow(Requirements.from_labels({RESERVATION_ID: offering.reservation_id}))
    return stated.is_compatible(asked, asked.keys() - RESERVATION_LABELS)


def nominal_cpu(kind: InstanceType) -> int:
    """In thousandths, as the instance is sold."""
    label = parse_integer(kind.requirements.single_value(INSTANCE_CPU) or "")
    return kind.capacity.get(CPU, 0) if label is None else label * 1000


def nominal_memory(kind: InstanceType) -> int:
    """In bytes, as the instance is sold; the kubelet will find a little less."""
    label = parse_integer(kind.requirements.single_value(INSTANCE_MEMORY) or "")
    return kind.capacity.get(MEMORY, 0) if label is None else label * MIB


def cheapest_offering(
    offerings: Iterable[Offering], capacity_type: str | None = None
) -> Offering | None:
    """The cheapest that can be had, or if none can, the cheapest there is."""
    meant = [each for each in offerings if capacity_type in (None, each.capacity_type)]
    return min(meant, key=lambda each: (each.available == 0, each.price), default=None)


def _type_sort_key(order: SortOrder) -> Callable[[InstanceType], tuple[float, float, str]]:
    def rank(kind: InstanceType) -> tuple[float, float, str]:
        best = cheapest_offering(kind.offerings)
        price = inf if best is None else best.price
        resources = {SortOrder.CPU: nominal_cpu, SortOrder.MEMORY: nominal_memory}
        if order in resources:
            return resources[order](kind), price, kind.name
        return (price if order is SortOrder.PRICE else 0.0), 0.0, kind.name

    return rank


CAPACITY: Final = "capacity"
ALLOCATABLE: Final = "allocatable"


class ExplainedAmount(msgspec.Struct, frozen=True, kw_only=True):
    """One amount of one resource, and why it is that."""

    resource: str
    part: str
    """Capacity, one of the things that are kept back, or allocatable: what is left."""
    amount: str
    why: str


def explain_resources(built: NodeClassCatalog, name: str) -> list[ExplainedAmount]:
    """Resource by resource: what the instance has, what is kept back, what pods can use."""
    kind, made = built.by_name[name], built.resources[name].derived
    found = []
    for resource in sorted(made.capacity):
        kept = list(_overhead_parts(made.overhead, resource))
        found.append(_explained_amount(resource, CAPACITY, made.capacity[resource]))
        found += [_explained_amount(resource, part, derived, sign="-") for part, derived in kept]
        found.append(_allocatable_amount(kind, resource, nothing_kept=not kept))
    return found


def explain_labels(built: NodeClassCatalog, name: str) -> dict[str, str]:
    """What can be asked of the type's nodes, whatever zone they are bought in."""
    described = built.by_name[name].requirements
    return {key: _format_values(each.allowed) for key, each in described.items()}


def _format_values(allowed: ValueSet) -> str:
    """One value, several where a node can have either, or a condition where a Catalog has one."""
    return str(allowed) if allowed.open else ", ".join(sorted(allowed.values)) or "(none)"


def explain_unavailability(built: NodeClassCatalog, name: str) -> str:
    """Why the type cannot be launched at all, in a sentence; empty where it can."""
    why = built.incompatible.get(name)
    if why is not None:
        return f"{name} {why.value}: nothing of it is on offer for this class."
    if name in built.unpriced:
        return f"{name} has no price, and cannot be bought until somebody gives it one."
    if not any(offering.available for offering in built.by_name[name].offerings):
        return f"{name} is out of stock everywhere."
    return ""


def _overhead_parts(overhead: Overhead, resource: str) -> Iterator[tuple[str, DerivedAmount]]:
    parts: tuple[tuple[str, Mapping[str, DerivedAmount]], ...] = (
        ("kube-reserved", overhead.kube_reserved),
        ("system-reserved", overhead.system_reserved),
        ("eviction threshold", overhead.eviction),
        ("overhead", overhead.declared),
        ("overhead", overhead.stated),
    )
    for part, derived_amounts in parts:
        if resource in derived_amounts:
            yield part, derived_amounts[resource]


def _explained_amount(
    resource: str, part: str, derived: DerivedAmount, *, sign: str = ""
) -> ExplainedAmount:
    text = format_quantity(resource, derived.amount)
    return ExplainedAmount(
        resource=resource,
        part=part,
        amount=f"{sign}{text}" if derived.amount else text,
        why=derived.explained(),
    )


def _allocatable_amount(
    kind: InstanceType, resource: str, *, nothing_kept: bool
) -> ExplainedAmount:
    amount = kind.allocatable[resource]
    why = "all of it" if nothing_kept else "capacity less what is kept back"
    pages = [name for name in kind.capacity if name.startswith(HUGE_PAGES_PREFIX)]
    if resource == MEMORY and pages:
        why = f"{why}, and less {' and '.join(pages)}"
    if amount < 0:
        why = f"{why}: less than nothing, so that no pod fits"
    return ExplainedAmount(
        resource=resource, part=ALLOCATABLE, amount=format_quantity(resource, amount), why=why
    )


GROUPING_LABELS: frozenset[str] = RESERVATION_LABELS | {CAPACITY_TYPE, ZONE, ZONE_ID}


class PriceHistory(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Offerings of a type whose prices came about in the same way."""

    capacity_type: str | None
    """None where the offering leaves it open; so with the zones."""
    zones: tuple[str, ...]
    labels: dict[str, str]
    """What else the offering names."""
    reservation_id: str | None = msgspec.field(name="reservationID")
    available: int
    price: float | None
    """None where no layer gave one: it cannot be bought."""
    steps: tuple[PriceStep, ...]
    """From the bottom up; the last one's price is the one in force."""


def price_histories(built: NodeClassCatalog, name: str) -> list[PriceHistory]:
    """Every offering of the type; zones with the same history stand together."""
    found: dict[tuple[object, ...], PriceHistory] = {}
    for offering in built.offerings[name]:
        one = _price_history(built, name, offering)
        key = (
            one.capacity_type,
            tuple(one.labels.items()),
            one.reservation_id,
            one.available,
            one.price,
            tuple(
                (step.layer, step.source, step.before, step.after, step.how) for step in one.steps
            ),
        )
        same = found.get(key)
        zones = one.zones if same is None else (*same.zones, *one.zones)
        found[key] = msgspec.structs.replace(one, zones=zones)
    return sorted(found.values(), key=_history_sort_key)


def _price_history(built: NodeClassCatalog, name: str, offering: LayeredOffering) -> PriceHistory:
    labels = {key: offering.requirements.single_value(key) for key in offering.requirements}
    return PriceHistory(
        capacity_type=offering.capacity_type,
        zones=() if offering.zone is None else (offering.zone,),
        labels={key: value or "" for key, value in labels.items() if key not in GROUPING_LABELS},
        reservation_id=offering.reservation_id,
        available=offering.available,
        price=offering.price,
        steps=price_steps(built, name, offering),
    )


def price_steps(
    built: NodeClassCatalog, name: str, offering: LayeredOffering
) -> tuple[PriceStep, ...]:
    """The price steps of an offering, with the list price first unless an object made it."""
    if (
        offering.steps
        and offering.steps[0].before is None
        and offering.steps[0].layer
        in (
            PriceLayer.INSTANCE_TYPE,
            PriceLayer.RESERVATION,
        )
    ):
        return offering.steps
    if built.from_catalog:
        bottom = PriceStep(
            layer=PriceLayer.CATALOG, source=built.region, before=None, after=offering.base
        )
    else:
        bottom = base_price_step(name, built.region, offering)
    return (bottom, *offering.steps)


def _history_sort_key(
    account: PriceHistory,
) -> tuple[str, tuple[str, ...], list[tuple[str, str]], str]:
    labels = sorted(account.labels.items())
    return account.capacity_type or "", account.zones, labels, account.reservation_id or ""
