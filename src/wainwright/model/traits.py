"""Traits of instance types that set a few of them apart when something is to be bought."""

from collections.abc import Sequence
from typing import Final

from wainwright.model.columns import Rows
from wainwright.model.instance_type import InstanceType
from wainwright.model.labels import INSTANCE_ACCELERATOR_NAME, INSTANCE_GPU_NAME, INSTANCE_SIZE

METAL: Final = "metal"
ACCELERATORS: Final = frozenset(
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
    """Whether it is a whole machine, which is slow to start."""
    size = kind.requirements.only(INSTANCE_SIZE) or kind.name.partition(".")[2]
    return size.startswith(METAL)


def is_accelerated(kind: InstanceType) -> bool:
    """Whether it has devices that most pods would leave idle."""
    named = INSTANCE_GPU_NAME in kind.requirements or INSTANCE_ACCELERATOR_NAME in kind.requirements
    return named or any(kind.capacity.get(name) for name in ACCELERATORS & kind.capacity.keys())


def metal(types: Sequence[InstanceType]) -> Rows:
    return sum(1 << row for row, kind in enumerate(types) if is_metal(kind))


def accelerated(types: Sequence[InstanceType]) -> Rows:
    return sum(1 << row for row, kind in enumerate(types) if is_accelerated(kind))
