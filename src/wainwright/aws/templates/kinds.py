"""Kinds: what a template must know of an instance type."""

from collections.abc import Mapping

import msgspec

from wainwright.catalogue.built import Built
from wainwright.catalogue.density import eni_density, pods
from wainwright.catalogue.figure import EPHEMERAL_STORAGE, PODS, Rule
from wainwright.catalogue.machine import Machine
from wainwright.catalogue.settings import ClassSettings
from wainwright.catalogue.shapes import Size
from wainwright.model.requirements import Requirements

ALONE = ClassSettings()


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """An instance type under a class."""

    name: str
    architecture: str
    requirements: Requirements
    """Its labels, by which an image is chosen for it."""
    density: int
    """The pods in force, which were planned with."""
    by_class: int
    """The pods it would take without an InstanceType object."""
    unaided: int
    """The pods an image reckons by the type's interfaces when it is told nothing."""
    efa_interfaces: int = 0
    disk: int | None = None
    """Bytes of the disk that holds pods, where it must be larger than the class has it."""


def kind(machine: Machine, size: Size, requirements: Requirements, settings: ClassSettings) -> Kind:
    storage = size.shape.capacity[EPHEMERAL_STORAGE]
    return Kind(
        name=machine.name,
        architecture=machine.architecture,
        requirements=requirements,
        density=size.capacity[PODS],
        by_class=pods(machine, settings).amount,
        unaided=eni_density(machine, ALONE, reserved=0).amount,
        efa_interfaces=machine.efa_interfaces,
        disk=storage.amount if storage.rule is Rule.SIZED_TO_PODS else None,
    )


def kinds(built: Built, machines: Mapping[str, Machine]) -> dict[str, Kind]:
    """Every type of a class's catalogue, by name."""
    settings = built.settings or ALONE
    return {
        each.name: kind(machines[each.name], built.sizes[each.name], each.requirements, settings)
        for each in built.types
        if each.name in machines
    }
