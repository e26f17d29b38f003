"""The listing: which types and offerings of a catalogue are asked for, and in which order."""

from collections.abc import Callable, Iterable
from enum import StrEnum
from math import inf

import msgspec

from wainwright.catalogue.pattern import matches
from wainwright.model.index import TypeIndex
from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.labels import (
    ARCH,
    INSTANCE_CPU,
    INSTANCE_MEMORY,
    RESERVATION_ID,
    RESERVATION_LABELS,
)
from wainwright.model.requirements import NO_REQUIREMENTS, Requirements
from wainwright.model.resources import CPU, MEMORY
from wainwright.model.values import integer

MIB = 2**20


class Order(StrEnum):
    """What a listing is sorted by."""

    NAME = "name"
    PRICE = "price"
    CPU = "cpu"
    MEMORY = "memory"


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a listing is narrowed to; what is empty narrows nothing."""

    instance_types: tuple[str, ...] = ()
    """Patterns."""
    zones: tuple[str, ...] = ()
    capacity_types: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    cpu: int = 0
    """In thousandths, of the machine as it is sold."""
    memory: int = 0
    """In bytes, of the machine as it is sold."""
    requirements: Requirements | None = None
    """Of a pool: then only what it may launch is listed."""

    @property
    def by_offering(self) -> bool:
        """Whether types without an offering that is wanted are left out."""
        return bool(self.zones or self.capacity_types) or self.requirements is not None


def listing(index: TypeIndex, wanted: Wanted, order: Order = Order.NAME) -> list[InstanceType]:
    """The types wanted, each with the offerings wanted."""
    asked = wanted.requirements or NO_REQUIREMENTS
    found = []
    for kind in index.members(index.admitted_by(asked)):
        if not _described(kind, wanted):
            continue
        kept = tuple(offering for offering in kind.offerings if _sold(offering, wanted, asked))
        if kept or not wanted.by_offering:
            found.append(msgspec.structs.replace(kind, offerings=kept))
    return sorted(found, key=_rank(order))


def _described(kind: InstanceType, wanted: Wanted) -> bool:
    patterns, architectures = wanted.instance_types, wanted.architectures
    if patterns and not any(matches(pattern, kind.name) for pattern in patterns):
        return False
    if architectures and not any(kind.requirements.allowed(ARCH).admits(a) for a in architectures):
        return False
    return cpu(kind) >= wanted.cpu and memory(kind) >= wanted.memory


def _sold(offering: Offering, wanted: Wanted, asked: Requirements) -> bool:
    """A zone or capacity type that the offering leaves open is any."""
    if wanted.zones and offering.zone is not None and offering.zone not in wanted.zones:
        return False
    bought = offering.capacity_type
    if wanted.capacity_types and bought is not None and bought not in wanted.capacity_types:
        return False
    stated = offering.requirements
    if offering.reservation_id is not None:
        stated = stated.narrow(Requirements.from_labels({RESERVATION_ID: offering.reservation_id}))
    return stated.compatible(asked, asked.keys() - RESERVATION_LABELS)


def cpu(kind: InstanceType) -> int:
    """In thousandths, as the machine is sold."""
    label = integer(kind.requirements.only(INSTANCE_CPU) or "")
    return kind.capacity.get(CPU, 0) if label is None else label * 1000


def memory(kind: InstanceType) -> int:
    """In bytes, as the machine is sold; the kubelet will find a little less."""
    label = integer(kind.requirements.only(INSTANCE_MEMORY) or "")
    return kind.capacity.get(MEMORY, 0) if label is None else label * MIB


def cheapest(offerings: Iterable[Offering], capacity_type: str | None = None) -> Offering | None:
    """The cheapest that can be had, or if none can, the cheapest there is."""
    meant = [each for each in offerings if capacity_type in (None, each.capacity_type)]
    return min(meant, key=lambda each: (each.available == 0, each.price), default=None)


def _rank(order: Order) -> Callable[[InstanceType], tuple[float, float, str]]:
    def rank(kind: InstanceType) -> tuple[float, float, str]:
        best = cheapest(kind.offerings)
        price = inf if best is None else best.price
        sizes = {Order.CPU: cpu, Order.MEMORY: memory}
        if order in sizes:
            return sizes[order](kind), price, kind.name
        return (price if order is Order.PRICE else 0.0), 0.0, kind.name

    return rank
