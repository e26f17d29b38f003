"""Explaining a type: every number that a plan looks at, with the rule that gave it."""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from wainwright.catalogue.built import Built
from wainwright.catalogue.figure import MEMORY, Figure
from wainwright.catalogue.overhead import Overhead
from wainwright.model.instance_type import InstanceType
from wainwright.model.resources import HUGE_PAGES, quantity_text
from wainwright.model.values import ValueSet

CAPACITY: Final = "capacity"
ALLOCATABLE: Final = "allocatable"


class Number(msgspec.Struct, frozen=True, kw_only=True):
    """One amount of one resource, and why it is that."""

    resource: str
    part: str
    """Capacity, one of the things that are kept back, or allocatable: what is left."""
    amount: str
    why: str


def numbers(built: Built, name: str) -> list[Number]:
    """Resource by resource: what the machine has, what is kept back, what pods can use."""
    kind, made = built.by_name[name], built.sizes[name].shape
    found = []
    for resource in sorted(made.capacity):
        kept = list(_kept(made.overhead, resource))
        found.append(_number(resource, CAPACITY, made.capacity[resource]))
        found += [_number(resource, part, figure, sign="-") for part, figure in kept]
        found.append(_left(kind, resource, nothing_kept=not kept))
    return found


def labels(built: Built, name: str) -> dict[str, str]:
    """What can be asked of the type's nodes, whatever zone they are bought in."""
    described = built.by_name[name].requirements
    return {key: _values(each.allowed) for key, each in described.items()}


def _values(allowed: ValueSet) -> str:
    """One value, several where a node can have either, or a condition where a Catalog has one."""
    return str(allowed) if allowed.open else ", ".join(sorted(allowed.values)) or "(none)"


def obstacle(built: Built, name: str) -> str:
    """Why the type cannot be launched at all, in a sentence; empty where it can."""
    why = built.incompatible.get(name)
    if why is not None:
        return f"{name} {why.value}: nothing of it is on offer for this class."
    if name in built.unpriced:
        return f"{name} has no price, and cannot be bought until somebody gives it one."
    if not any(offering.available for offering in built.by_name[name].offerings):
        return f"{name} is out of stock everywhere."
    return ""


def _kept(overhead: Overhead, resource: str) -> Iterator[tuple[str, Figure]]:
    parts: tuple[tuple[str, Mapping[str, Figure]], ...] = (
        ("kube-reserved", overhead.kube_reserved),
        ("system-reserved", overhead.system_reserved),
        ("eviction threshold", overhead.eviction),
        ("overhead", overhead.declared),
        ("overhead", overhead.stated),
    )
    for part, figures in parts:
        if resource in figures:
            yield part, figures[resource]


def _number(resource: str, part: str, figure: Figure, *, sign: str = "") -> Number:
    text = quantity_text(resource, figure.amount)
    return Number(
        resource=resource,
        part=part,
        amount=f"{sign}{text}" if figure.amount else text,
        why=figure.explained(),
    )


def _left(kind: InstanceType, resource: str, *, nothing_kept: bool) -> Number:
    amount = kind.allocatable[resource]
    why = "all of it" if nothing_kept else "capacity less what is kept back"
    pages = [name for name in kind.capacity if name.startswith(HUGE_PAGES)]
    if resource == MEMORY and pages:
        why = f"{why}, and less {' and '.join(pages)}"
    if amount < 0:
        why = f"{why}: less than nothing, so that no pod fits"
    return Number(
        resource=resource, part=ALLOCATABLE, amount=quantity_text(resource, amount), why=why
    )
