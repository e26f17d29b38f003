"""Shapes: a machine as a class of nodes has it, from its capacity to what pods may use."""

from collections.abc import Mapping

import msgspec

from wainwright.catalogue.capacity import capacity
from wainwright.catalogue.figure import Figure
from wainwright.catalogue.machine import Machine
from wainwright.catalogue.overhead import Overhead, overhead
from wainwright.catalogue.settings import NO_OVERRIDE, ClassSettings, Override


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    capacity: Mapping[str, Figure]
    overhead: Overhead

    def allocatable(self) -> dict[str, int]:
        """What is left for pods. The smallest machines may end below zero: nothing fits them."""
        taken = self.overhead.total()
        return {name: figure.amount - taken.get(name, 0) for name, figure in self.capacity.items()}


def shape(machine: Machine, settings: ClassSettings, override: Override = NO_OVERRIDE) -> Shape:
    figures = capacity(machine, settings, override)
    return Shape(
        name=machine.name,
        capacity=figures,
        overhead=overhead(machine, settings, figures, override),
    )
