"""Ephemeral storage: which disk holds the pods of a node, and how large it is."""

from wainwright.catalogue.ami import AmiFamily
from wainwright.catalogue.figure import GIB, Figure, Rule, ceiling
from wainwright.catalogue.machine import Machine
from wainwright.catalogue.settings import BlockDevice, ClassSettings, InstanceStorePolicy
from wainwright.catalogue.threshold import WHOLE, Threshold

GB = 10**9
PLAIN_DEFAULT = 20 * GIB


def ephemeral_storage(machine: Machine, settings: ClassSettings) -> Figure:
    """Local disks where the class stripes them, else the volume of the class, else the family's."""
    if settings.instance_store_policy is InstanceStorePolicy.RAID0 and machine.local_storage_gb:
        detail = {"local_storage_gb": machine.local_storage_gb}
        return Figure(machine.local_storage_gb * GB, Rule.LOCAL_DISKS, detail)
    return _volume_of_class(settings) or _default_volume(settings.ami_family)


def _volume_of_class(settings: ClassSettings) -> Figure | None:
    devices = settings.block_devices
    root = next((device for device in devices if device.root), None)
    if root is not None and root.size is not None:
        return _volume(root, Rule.ROOT_VOLUME)
    if settings.ami_family is AmiFamily.CUSTOM:
        # Nobody knows where the user's own image keeps pods; the last device is the best guess.
        return _volume(devices[-1], Rule.LAST_VOLUME) if devices else None
    pod_device = settings.ami_family.traits.pod_device
    named = next((device for device in devices if device.device == pod_device), None)
    return _volume(named, Rule.EPHEMERAL_VOLUME) if named is not None else None


def _volume(device: BlockDevice, rule: Rule) -> Figure | None:
    return None if device.size is None else Figure(device.size, rule, {"device": device.device})


def _default_volume(family: AmiFamily) -> Figure:
    traits = family.traits
    if traits.pod_device_size is None:
        return Figure(PLAIN_DEFAULT, Rule.PLAIN_DEFAULT)
    return Figure(traits.pod_device_size, Rule.DEFAULT_VOLUME, {"device": traits.pod_device})


def sized_to_pods(
    otherwise: Figure, *, pods: int, per_pod: int, reserved: int, kept: Threshold
) -> Figure:
    """The volume, grown until each of the pods has its share after what is reserved and kept free.

    Local disks are as large as they are.
    """
    wanted = pods * per_pod + reserved
    if otherwise.rule is Rule.LOCAL_DISKS or otherwise.amount - kept.of(otherwise.amount) >= wanted:
        return otherwise
    free = kept.quantity.units if kept.quantity is not None else 0
    share = 0 if kept.off or kept.quantity is not None else kept.share
    size = ceiling((wanted + free) * WHOLE, (WHOLE - share) * GIB) * GIB
    detail = {"pods": pods, "per_pod": per_pod, "otherwise": otherwise.amount}
    return Figure(size, Rule.SIZED_TO_PODS, detail)
