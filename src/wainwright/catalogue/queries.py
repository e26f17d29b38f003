"""Queries on a built catalogue: list its types, explain the resources and prices of one."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from math import inf
from typing import Final

import msgspec

from wainwright.catalogue.class_catalog import NodeClassCatalog
from wainwright.catalogue.instancetypes.capacity import NodeResources
from wainwright.catalogue.instancetypes.derived_amount import DerivationRule, DerivedAmount
from wainwright.catalogue.instancetypes.overhead import Overhead
from wainwright.catalogue.offerings.built_in_offerings import base_price_step
from wainwright.catalogue.offerings.cloud_adjustments import matches_pattern
from wainwright.catalogue.offerings.excluded_offerings import excluded_by
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
    """The filter of a listing; an empty field matches everything."""

    instance_types: tuple[str, ...] = ()
    """Patterns with `*`."""
    zones: tuple[str, ...] = ()
    capacity_types: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    cpu: int = 0
    """The minimum in thousandths, of the advertised vCPUs."""
    memory: int = 0
    """The minimum in bytes, of the advertised memory."""
    requirements: Requirements | None = None
    """Of a NodePool: then only what it may launch is listed."""

    @property
    def requires_offering(self) -> bool:
        """Whether types without a matching offering are left out."""
        return bool(self.zones or self.capacity_types) or self.requirements is not None


def list_instance_types(
    index: InstanceTypeIndex, wanted: TypeFilter, order: SortOrder = SortOrder.NAME
) -> list[InstanceType]:
    """The types that match the filter, each with its matching offerings."""
    requirements = wanted.requirements or NO_REQUIREMENTS
    listed = []
    for instance_type in index.iter_types(index.compatible_types(requirements)):
        if not _matches_type(instance_type, wanted):
            continue
        offerings = tuple(
            offering
            for offering in instance_type.offerings
            if _matches_offering(offering, wanted, requirements)
        )
        if offerings or not wanted.requires_offering:
            listed.append(msgspec.structs.replace(instance_type, offerings=offerings))
    return sorted(listed, key=_type_sort_key(order))


def _matches_type(instance_type: InstanceType, wanted: TypeFilter) -> bool:
    patterns, architectures = wanted.instance_types, wanted.architectures
    if patterns and not any(matches_pattern(pattern, instance_type.name) for pattern in patterns):
        return False
    if architectures and not any(
        instance_type.requirements.allowed(ARCH).admits(a) for a in architectures
    ):
        return False
    return (
        nominal_cpu(instance_type) >= wanted.cpu and nominal_memory(instance_type) >= wanted.memory
    )


def _matches_offering(offering: Offering, wanted: TypeFilter, requirements: Requirements) -> bool:
    """A zone or capacity type that the offering leaves open matches any."""
    if wanted.zones and offering.zone is not None and offering.zone not in wanted.zones:
        return False
    capacity_type = offering.capacity_type
    if wanted.capacity_types and capacity_type not in (None, *wanted.capacity_types):
        return False
    labels = offering.requirements
    if offering.reservation_id is not None:
        labels = labels.narrow(Requirements.from_labels({RESERVATION_ID: offering.reservation_id}))
    return labels.is_compatible(requirements, requirements.keys() - RESERVATION_LABELS)


def nominal_cpu(instance_type: InstanceType) -> int:
    """The advertised vCPUs, in thousandths."""
    label = parse_integer(instance_type.requirements.single_value(INSTANCE_CPU) or "")
    return instance_type.capacity.get(CPU, 0) if label is None else label * 1000


def nominal_memory(instance_type: InstanceType) -> int:
    """The advertised memory in bytes; the kubelet will find a little less."""
    label = parse_integer(instance_type.requirements.single_value(INSTANCE_MEMORY) or "")
    return instance_type.capacity.get(MEMORY, 0) if label is None else label * MIB


def cheapest_offering(
    offerings: Iterable[Offering], capacity_type: str | None = None
) -> Offering | None:
    """The cheapest available offering, or if none is available, the cheapest of all."""
    candidates = [each for each in offerings if capacity_type in (None, each.capacity_type)]
    return min(candidates, key=lambda each: (each.available == 0, each.price), default=None)


def _type_sort_key(order: SortOrder) -> Callable[[InstanceType], tuple[float, float, str]]:
    def sort_key(instance_type: InstanceType) -> tuple[float, float, str]:
        best = cheapest_offering(instance_type.offerings)
        price = inf if best is None else best.price
        resources = {SortOrder.CPU: nominal_cpu, SortOrder.MEMORY: nominal_memory}
        if order in resources:
            return resources[order](instance_type), price, instance_type.name
        return (price if order is SortOrder.PRICE else 0.0), 0.0, instance_type.name

    return sort_key


CAPACITY: Final = "capacity"
ALLOCATABLE: Final = "allocatable"
ATTACH_LIMIT: Final = "attach limit"


class ExplainedAmount(msgspec.Struct, frozen=True, kw_only=True):
    """One amount of one resource, and the rule that gave it."""

    resource: str
    part: str
    """Capacity, one part of the overhead, allocatable, or how many volumes can be attached."""
    amount: str
    why: str


def explain_resources(catalog: NodeClassCatalog, name: str) -> list[ExplainedAmount]:
    """Resource by resource: capacity, the parts of the overhead, allocatable; then volumes."""
    instance_type, resources = catalog.by_name[name], catalog.resources[name]
    declared = resources.derived.declared_allocatable
    rows = []
    for resource in sorted(resources.capacity):
        rows.append(_explained_amount(resource, CAPACITY, _derived_capacity(resources, resource)))
        if resource in declared:
            rows.append(_explained_amount(resource, ALLOCATABLE, declared[resource]))
            continue
        parts = list(_overhead_parts(resources.derived.overhead, resource))
        rows += [_explained_amount(resource, part, derived, sign="-") for part, derived in parts]
        rows.append(_allocatable_amount(instance_type, resource, has_overhead=bool(parts)))
    for driver, derived in sorted(resources.derived.attach_limits.items()):
        rows.append(_explained_amount(f"volumes of {driver}", ATTACH_LIMIT, derived))
    return rows


def _derived_capacity(resources: NodeResources, resource: str) -> DerivedAmount:
    """The capacity with its rule; at least what an InstanceType object says is allocatable."""
    derived, amount = resources.derived.capacity.get(resource), resources.capacity[resource]
    if derived is not None and derived.amount == amount:
        return derived
    otherwise = format_quantity(resource, 0 if derived is None else derived.amount)
    rule = DerivationRule.NOT_LESS_THAN_ALLOCATABLE
    return DerivedAmount(amount, rule, {"otherwise": otherwise})


def explain_labels(catalog: NodeClassCatalog, name: str) -> dict[str, str]:
    """The labels of the type's nodes that do not depend on the offering."""
    requirements = catalog.by_name[name].requirements
    return {key: _format_values(each.allowed) for key, each in requirements.items()}


def _format_values(allowed: ValueSet) -> str:
    """One value, several where a node can have either, or the condition that a Catalog has."""
    return str(allowed) if allowed.open else ", ".join(sorted(allowed.values)) or "(none)"


def explain_unavailability(catalog: NodeClassCatalog, name: str) -> str:
    """Why the type cannot be launched at all, as a sentence; empty where it can."""
    incompatibility = catalog.incompatible.get(name)
    if incompatibility is not None:
        return f"{name} {incompatibility.value}: nothing of it is on offer for this class."
    if why := excluded_by(catalog.offerings[name]):
        return f"{name} has no offering for this class ({why})."
    if name in catalog.unpriced:
        return f"{name} has no price, and is not launched until a Cloud or NodeOverlay states one."
    if not any(offering.available for offering in catalog.by_name[name].offerings):
        return f"{name} is out of stock everywhere."
    return ""


def _overhead_parts(overhead: Overhead, resource: str) -> Iterator[tuple[str, DerivedAmount]]:
    parts: tuple[tuple[str, Mapping[str, DerivedAmount]], ...] = (
        ("kube-reserved", overhead.kube_reserved),
        ("system-reserved", overhead.system_reserved),
        ("eviction threshold", overhead.eviction),
        ("overhead", overhead.declared),
        ("overhead", overhead.from_catalog),
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
        why=derived.explain(),
    )


def _allocatable_amount(
    instance_type: InstanceType, resource: str, *, has_overhead: bool
) -> ExplainedAmount:
    amount = instance_type.allocatable[resource]
    why = "capacity less what is kept back" if has_overhead else "all of it"
    pages = [name for name in instance_type.capacity if name.startswith(HUGE_PAGES_PREFIX)]
    if resource == MEMORY and pages:
        why = f"{why}, and less {' and '.join(pages)}"
    if amount < 0:
        why = f"{why}: less than nothing, so that no pod fits"
    return ExplainedAmount(
        resource=resource, part=ALLOCATABLE, amount=format_quantity(resource, amount), why=why
    )


GROUPING_LABELS: frozenset[str] = RESERVATION_LABELS | {CAPACITY_TYPE, ZONE, ZONE_ID}


class PriceHistory(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Offerings of a type whose prices have the same steps."""

    capacity_type: str | None
    """None where the offering leaves it open."""
    zones: tuple[str, ...]
    """Empty where the offering leaves the zone open."""
    labels: dict[str, str]
    """The other labels of the offering."""
    reservation_id: str | None = msgspec.field(name="reservationID")
    available: int
    price: float | None
    modelled: bool
    """Whether the price is an estimate."""
    """None where no layer gave one: it cannot be launched."""
    steps: tuple[PriceStep, ...]
    """From the bottom up; the price of the last one is in effect."""


def price_histories(catalog: NodeClassCatalog, name: str) -> list[PriceHistory]:
    """The price history of every offering of the type; zones with the same one are merged."""
    histories: dict[tuple[object, ...], PriceHistory] = {}
    for offering in catalog.offerings[name]:
        history = _price_history(catalog, name, offering)
        key = (
            history.capacity_type,
            tuple(history.labels.items()),
            history.reservation_id,
            history.available,
            history.price,
            tuple(
                (step.layer, step.source, step.before, step.after, step.how)
                for step in history.steps
            ),
        )
        same = histories.get(key)
        zones = history.zones if same is None else (*same.zones, *history.zones)
        histories[key] = msgspec.structs.replace(history, zones=zones)
    return sorted(histories.values(), key=_history_sort_key)


def _price_history(catalog: NodeClassCatalog, name: str, offering: LayeredOffering) -> PriceHistory:
    labels = {key: offering.requirements.single_value(key) for key in offering.requirements}
    return PriceHistory(
        capacity_type=offering.capacity_type,
        zones=() if offering.zone is None else (offering.zone,),
        labels={key: value or "" for key, value in labels.items() if key not in GROUPING_LABELS},
        reservation_id=offering.reservation_id,
        available=offering.available,
        price=offering.price,
        modelled=offering.is_modelled,
        steps=price_steps(catalog, name, offering),
    )


def price_steps(
    catalog: NodeClassCatalog, name: str, offering: LayeredOffering
) -> tuple[PriceStep, ...]:
    """The price steps of an offering, from the list price on, unless an object declares it."""
    declaring = (PriceLayer.INSTANCE_TYPE, PriceLayer.RESERVATION)
    first = offering.steps[0] if offering.steps else None
    if first is not None and first.before is None and first.layer in declaring:
        return offering.steps
    if catalog.from_catalog:
        bottom = PriceStep(
            layer=PriceLayer.CATALOG, source=catalog.region, before=None, after=offering.base_price
        )
    else:
        bottom = base_price_step(name, catalog.region, offering)
    return (bottom, *offering.steps)


def _history_sort_key(
    history: PriceHistory,
) -> tuple[str, tuple[str, ...], list[tuple[str, str]], str]:
    labels = sorted(history.labels.items())
    return history.capacity_type or "", history.zones, labels, history.reservation_id or ""
