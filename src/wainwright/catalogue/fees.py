"""Fees: what a node costs beside its instance, by the node and by the GiB of its disks."""

from wainwright.api.cloud import Fees
from wainwright.catalogue.ami import AmiFamily
from wainwright.catalogue.figure import EPHEMERAL_STORAGE, GIB, Rule
from wainwright.catalogue.settings import ClassSettings
from wainwright.catalogue.shapes import Size

BOTTLEROCKET_ROOT = 4 * GIB  # its operating system has a volume of its own
PLAIN = 20 * GIB


def fee(fees: Fees, gibibytes: float) -> float:
    """USD per hour of a node with so much disk."""
    return fees.perNode + fees.perGiBDisk * gibibytes


def disk(settings: ClassSettings | None, size: Size) -> float:
    """The GiB of volumes that come with a node; local disks are part of the instance.

    Under a Catalog nobody knows the volumes, and ephemeral storage stands for them.
    """
    if settings is None:
        return size.capacity.get(EPHEMERAL_STORAGE, 0) / GIB
    known = sum(device.size or 0 for device in settings.block_devices)
    held = size.shape.capacity[EPHEMERAL_STORAGE]
    if held.rule is Rule.SIZED_TO_PODS:
        grown = held.amount - int(held.detail["otherwise"])
        return ((known or _default(settings.ami_family)) + grown) / GIB
    return (known or _default(settings.ami_family)) / GIB


def _default(family: AmiFamily) -> int:
    system = BOTTLEROCKET_ROOT if family is AmiFamily.BOTTLEROCKET else 0
    return (family.traits.pod_device_size or PLAIN) + system
