"""Shapes: a machine as a class of nodes has it, from its capacity to what pods may use."""

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from wainwright.catalogue.branch import branch_interfaces
from wainwright.catalogue.capacity import capacity
from wainwright.catalogue.figure import Figure, Rule, amounts
from wainwright.catalogue.machine import Accelerator, Gpu, Machine
from wainwright.catalogue.overhead import Overhead, overhead
from wainwright.catalogue.settings import NO_OVERRIDE, ClassSettings, Override
from wainwright.model.resources import Resources, ordered

Build: TypeAlias = tuple[int | str | bool | Gpu | Accelerator | Rule | None, ...]


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """Every number with the rule that gave it."""

    capacity: Mapping[str, Figure]
    overhead: Overhead

    def allocatable(self) -> dict[str, int]:
        """What is left for pods. The smallest machines may end below zero: nothing fits them."""
        taken = self.overhead.total()
        return {name: figure.amount - taken.get(name, 0) for name, figure in self.capacity.items()}


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """The same as plain amounts, in the order of names."""

    shape: Shape
    capacity: Resources
    overhead: Resources


def shape(machine: Machine, settings: ClassSettings, override: Override = NO_OVERRIDE) -> Shape:
    figures = capacity(machine, settings, override)
    return Shape(capacity=figures, overhead=overhead(machine, settings, figures, override))


def size(made: Shape) -> Size:
    """What is kept of a resource that the machine lacks (process ids, say) is no debt."""
    taken = made.overhead.total()
    return Size(
        shape=made,
        capacity=ordered(amounts(made.capacity)),
        overhead=ordered({name: taken[name] for name in taken if name in made.capacity}),
    )


def sizes(machines: Mapping[str, Machine], settings: ClassSettings) -> dict[str, Size]:
    """All machines under one class. Those of equal build share one size: there are a third."""
    made: dict[str, Size] = {}
    by_build: dict[Build, Size] = {}
    for name, machine in machines.items():
        key = build(machine, settings)
        found = by_build.get(key)
        if found is None:
            found = by_build[key] = size(shape(machine, settings))
        made[name] = found
    return made


def build(machine: Machine, settings: ClassSettings) -> Build:
    """Everything that a shape can depend on: machines that agree in this have the same shape."""
    striped = settings.instance_store_policy is not None
    branches = branch_interfaces(machine)
    return (
        machine.vcpus,
        machine.memory_mib,
        machine.architecture,
        machine.hypervisor == "xen",
        machine.addresses_per_interface,
        machine.network_interfaces,
        machine.all_network_interfaces,
        machine.local_storage_gb if striped else 0,
        machine.efa_interfaces,
        machine.gpu,
        machine.accelerator,
        None if branches is None else branches.amount,
        None if branches is None else branches.rule,
    )
