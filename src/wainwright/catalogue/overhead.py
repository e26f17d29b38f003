"""Overhead: everything that stands between a node's capacity and what its pods may use."""

from collections.abc import Mapping

import msgspec

from wainwright.catalogue.density import pods_counted_in_memory
from wainwright.catalogue.eviction import eviction
from wainwright.catalogue.figure import MEMORY, PODS, Figure, Rule
from wainwright.catalogue.machine import Machine
from wainwright.catalogue.reserved import kube_reserved, system_reserved
from wainwright.catalogue.settings import NO_OVERRIDE, ClassSettings, Override


class Overhead(msgspec.Struct, frozen=True, kw_only=True):
    """The parts, by resource."""

    kube_reserved: Mapping[str, Figure]
    system_reserved: Mapping[str, Figure]
    eviction: Mapping[str, Figure]
    declared: Mapping[str, Figure]
    stated: Mapping[str, Figure] = {}
    """What a Catalog says in place of all the others but the declared."""

    @property
    def parts(self) -> tuple[Mapping[str, Figure], ...]:
        return self.kube_reserved, self.system_reserved, self.eviction, self.declared, self.stated

    def total(self) -> dict[str, int]:
        total: dict[str, int] = {}
        for part in self.parts:
            for resource, figure in part.items():
                total[resource] = total.get(resource, 0) + figure.amount
        return total


def overhead(
    machine: Machine,
    settings: ClassSettings,
    capacity: Mapping[str, Figure],
    override: Override = NO_OVERRIDE,
) -> Overhead:
    counted = pods_counted_in_memory(machine, settings, override, capacity[PODS])
    return Overhead(
        kube_reserved=kube_reserved(settings.kubelet, capacity, counted),
        system_reserved=system_reserved(settings.kubelet),
        eviction=eviction(settings.kubelet, capacity),
        declared=declared(override) if override.overhead else {},
    )


def declared(override: Override) -> dict[str, Figure]:
    """What an InstanceType object takes off, unless capacity has it already.

    Memory overhead stands in for the percentage of the virtual machine, so capacity lacks it
    already; only where the object states the memory as well is it still to be subtracted.
    """
    return {
        resource: Figure(override.overhead[resource], Rule.DECLARED_OVERHEAD)
        for resource in sorted(override.overhead)
        if resource != MEMORY or MEMORY in override.resources
    }
