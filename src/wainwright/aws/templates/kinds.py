"""Kinds: what a template must know of an instance type."""

from collections.abc import Mapping
from typing import Final

import msgspec

from wainwright.api.quantity import NANO, Format, Quantity
from wainwright.catalogue.ami import AmiFamily
from wainwright.catalogue.built import Built
from wainwright.catalogue.density import eni_density, pods
from wainwright.catalogue.figure import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Figure, Rule
from wainwright.catalogue.machine import Machine
from wainwright.catalogue.settings import ClassSettings
from wainwright.catalogue.shapes import Size
from wainwright.model.requirements import Requirements

ALONE = ClassSettings()
TOLD: Final = {
    AmiFamily.AL2: (CPU, EPHEMERAL_STORAGE, MEMORY),
    AmiFamily.AL2023: (MEMORY,),
}
"""What a kubelet is told of the resources that it keeps. On a command line, as AL2 has it, the list
stands in place of all that the image has reckoned; files of settings are merged. Bottlerocket is
told nothing by type, Windows reckons right, and nobody but its owner tells a Custom image."""


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
    reserved: str = ""
    """What its kubelet must be told to keep, where the image would reckon with other pods."""


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
        reserved=_reserved(size.shape.overhead.kube_reserved, settings.ami_family),
    )


def _reserved(kept: Mapping[str, Figure], family: AmiFamily) -> str:
    """Nothing unless memory was reckoned by the pods of an InstanceType object."""
    memory = kept.get(MEMORY)
    if memory is None or memory.rule is not Rule.KUBE_MEMORY_DECLARED:
        return ""
    return ",".join(f"{each}={_said(each, kept[each].amount)}" for each in TOLD.get(family, ()))


def _said(resource: str, amount: int) -> str:
    if resource == CPU:
        return f"{amount}m"
    return str(Quantity(amount * NANO, Format.BINARY))


def kinds(built: Built, machines: Mapping[str, Machine]) -> dict[str, Kind]:
    """Every type of a class's catalogue, by name."""
    settings = built.settings or ALONE
    return {
        each.name: kind(machines[each.name], built.sizes[each.name], each.requirements, settings)
        for each in built.types
        if each.name in machines
    }
