"""Instance types, and the offerings through which each of them can be launched."""

from collections.abc import Sequence
from functools import cached_property
from typing import Final

import msgspec

from wainwright.model.bitset import BitSet
from wainwright.model.labels import (
    CAPACITY_TYPE,
    INSTANCE_ACCELERATOR_NAME,
    INSTANCE_GPU_NAME,
    INSTANCE_SIZE,
    ZONE,
)
from wainwright.model.requirements import Requirements
from wainwright.model.resources import HUGE_PAGES_PREFIX, MEMORY, Resources, subtract_resources

UNLIMITED: Final = 4294967295  # how offerings without a count say that there are enough


class Offering(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One way to buy an instance type. A label it lacks is left open: no zone is any zone.

    Without a capacity type it is bought on demand by whoever may have that, else as spot; it is a
    reserved instance of a reservation only if it names one.
    """

    requirements: Requirements
    """Finite values only; the reservation's labels need not be repeated here."""
    price: float
    """USD per hour."""
    available: int = UNLIMITED
    """0 when out of stock, the free count of a reservation, else UNLIMITED."""
    reservation_id: str | None = None
    """Offerings with the same id share one count."""

    @cached_property
    def zone(self) -> str | None:
        return self.requirements.single_value(ZONE)

    @cached_property
    def capacity_type(self) -> str | None:
        return self.requirements.single_value(CAPACITY_TYPE)


class InstanceType(msgspec.Struct, frozen=True, kw_only=True):
    """A size of instance: its labels, what it holds, and where it is sold."""

    name: str
    requirements: Requirements
    capacity: Resources
    overhead: Resources
    """What the system, the kubelet and its eviction thresholds keep for themselves."""
    offerings: tuple[Offering, ...] = ()
    fee: float = 0.0
    """USD per hour that a node costs beside its instance, however that is bought: its disks too."""

    @property
    def allocatable(self) -> dict[str, int]:
        """What pods can have; below zero, and so for nobody, where the overhead is too large."""
        # Overhead of a resource that the instance lacks is no debt: that would make it unusable.
        taken = {name: amount for name, amount in self.overhead.items() if name in self.capacity}
        return _without_huge_pages(subtract_resources(self.capacity, taken))


def _without_huge_pages(amounts: dict[str, int]) -> dict[str, int]:
    """Huge pages are set aside from memory, as the kubelet does."""
    pages = sum(
        max(0, amount) for name, amount in amounts.items() if name.startswith(HUGE_PAGES_PREFIX)
    )
    memory = amounts.get(MEMORY, 0)
    return amounts | {MEMORY: max(0, memory - pages)} if pages and memory > 0 else amounts


METAL_SIZE: Final = "metal"
ACCELERATOR_RESOURCES: Final = frozenset(
    {
        "amd.com/gpu",
        "aws.amazon.com/neuron",
        "aws.amazon.com/neuroncore",
        "aws.amazon.com/neurondevice",
        "habana.ai/gaudi",
        "nvidia.com/gpu",
    }
)


def is_metal(kind: InstanceType) -> bool:
    """Whether it is bare metal, which is slow to start."""
    size = kind.requirements.single_value(INSTANCE_SIZE) or kind.name.partition(".")[2]
    return size.startswith(METAL_SIZE)


def is_accelerated(kind: InstanceType) -> bool:
    """Whether it has devices that most pods would leave idle."""
    named = INSTANCE_GPU_NAME in kind.requirements or INSTANCE_ACCELERATOR_NAME in kind.requirements
    return named or any(
        kind.capacity.get(name) for name in ACCELERATOR_RESOURCES & kind.capacity.keys()
    )


def metal_types(types: Sequence[InstanceType]) -> BitSet:
    return sum(1 << row for row, kind in enumerate(types) if is_metal(kind))


def accelerated_types(types: Sequence[InstanceType]) -> BitSet:
    return sum(1 << row for row, kind in enumerate(types) if is_accelerated(kind))
