"""Instance types, and the offerings through which each of them can be launched."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

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

UNLIMITED: Final = 4294967295  # the count of an offering that has none of its own


class Offering(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One way to launch an instance type. A label it lacks is left open: no zone is any zone.

    Without a capacity type it is launched on demand where the requirements allow that, else as
    spot; it draws on a capacity reservation only if it names one.
    """

    requirements: Requirements
    """Finite values only; the reservation's labels need not be repeated here."""
    price: float
    """USD per hour."""
    available: int = UNLIMITED
    """0 when unavailable, the available count of a reservation, else UNLIMITED."""
    reservation_id: str | None = None
    """Offerings with the same id share one count."""
    modelled: bool = False
    """Whether the price is an estimate: neither a list price nor stated by a user or an account."""

    @property
    def zone(self) -> str | None:
        return single_label_value(self.requirements, ZONE)

    @property
    def capacity_type(self) -> str | None:
        return single_label_value(self.requirements, CAPACITY_TYPE)


@lru_cache(maxsize=4096)
def single_label_value(requirements: Requirements, key: str) -> str | None:
    """The single value of a label, or None.

    Cached here, as thousands of offerings share a few sets of labels: a cache in every offering
    would need a dictionary each, which is larger than the offering itself.
    """
    return requirements.single_value(key)


class InstanceType(msgspec.Struct, frozen=True, kw_only=True):
    """An EC2 instance type: its labels, its resources, and its offerings."""

    name: str
    requirements: Requirements
    capacity: Resources
    overhead: Resources
    """kube-reserved, system-reserved and eviction thresholds: capacity that pods cannot use."""
    offerings: tuple[Offering, ...] = ()
    attach_limits: dict[str, int] = {}
    """By CSI driver how many volumes of pods a node can attach; drivers not listed have no known
    limit."""
    fee: float = 0.0
    """USD per hour that a node costs on top of the price of any offering, volumes included."""

    @property
    def allocatable(self) -> dict[str, int]:
        """What pods can use; below zero, so that no pod fits, where the overhead is too large."""
        # Overhead of a resource that the type lacks is ignored: the negative amount would make the
        # type unusable for every pod.
        taken = {name: amount for name, amount in self.overhead.items() if name in self.capacity}
        return _without_huge_pages(subtract_resources(self.capacity, taken))


def _without_huge_pages(amounts: dict[str, int]) -> dict[str, int]:
    """The amounts with huge pages subtracted from memory, as the kubelet does."""
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


def is_metal(instance_type: InstanceType) -> bool:
    """Whether the type is bare metal, which is slow to start."""
    size = (
        instance_type.requirements.single_value(INSTANCE_SIZE)
        or instance_type.name.partition(".")[2]
    )
    return size.startswith(METAL_SIZE)


def is_accelerated(instance_type: InstanceType) -> bool:
    """Whether the type has GPUs or accelerators, which most pods would leave idle."""
    named = (
        INSTANCE_GPU_NAME in instance_type.requirements
        or INSTANCE_ACCELERATOR_NAME in instance_type.requirements
    )
    return named or any(
        instance_type.capacity.get(name)
        for name in ACCELERATOR_RESOURCES & instance_type.capacity.keys()
    )


def metal_types(types: Sequence[InstanceType]) -> BitSet:
    return sum(1 << number for number, instance_type in enumerate(types) if is_metal(instance_type))


def accelerated_types(types: Sequence[InstanceType]) -> BitSet:
    return sum(
        1 << number for number, instance_type in enumerate(types) if is_accelerated(instance_type)
    )


OfferedTypes: TypeAlias = Mapping[str, tuple[Requirements, ...]]
"""By instance type, the labels of each offering that exists, whether or not it can be launched now.

Offerings without capacity, price, subnet or free addresses are among them: a node is not replaced
because another one like it cannot be launched today.
"""
