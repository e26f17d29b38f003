"""Disks: the block device mappings of a class, or those of its family of images."""

from typing import Any, Final

from wainwright.api.ec2nodeclass import BlockDevice, EC2NodeClassSpec, Volume
from wainwright.api.quantity import parse
from wainwright.aws.wire import Row
from wainwright.catalogue.ami import AmiFamily
from wainwright.catalogue.figure import GIB, ceiling
from wainwright.errors import BadInput

BOTTLEROCKET_SYSTEM: Final = ("/dev/xvda", 4)
FIELDS: Final = {
    "VolumeType": "volumeType",
    "SnapshotId": "snapshotID",
    "Encrypted": "encrypted",
    "KmsKeyId": "kmsKeyID",
    "DeleteOnTermination": "deleteOnTermination",
    "Iops": "iops",
    "Throughput": "throughput",
    "VolumeInitializationRate": "volumeInitializationRate",
}


def block_devices(spec: EC2NodeClassSpec, family: AmiFamily) -> list[Row]:
    """What the class lists, and nothing else; else the family's. Custom images bring their own."""
    if spec.blockDeviceMappings:
        return [_device(each) for each in spec.blockDeviceMappings]
    traits = family.traits
    if traits.pod_device_size is None:
        return []
    pods = _default(traits.pod_device, traits.pod_device_size // GIB)
    if family is AmiFamily.BOTTLEROCKET:
        return [_default(*BOTTLEROCKET_SYSTEM), pods]
    return [pods]


def grown(spec: EC2NodeClassSpec, family: AmiFamily, size: int) -> list[Row]:
    """The same for a type whose pods need so many bytes, as its override in a fleet has it.

    None where nobody knows which disk holds the pods. Overrides know fewer fields than templates.
    """
    devices, device = block_devices(spec, family), _of_pods(spec, family)
    for each in devices:
        each.get("Ebs", {}).pop("VolumeInitializationRate", None)
        if each["DeviceName"] == device:
            each["Ebs"] = {**each.get("Ebs", {}), "VolumeSize": ceiling(size, GIB)}
    return devices if any(each["DeviceName"] == device for each in devices) else []


def _of_pods(spec: EC2NodeClassSpec, family: AmiFamily) -> str | None:
    listed = spec.blockDeviceMappings or []
    root = next((each.deviceName for each in listed if each.rootVolume), None)
    if root is not None or family is not AmiFamily.CUSTOM:
        return root or family.traits.pod_device
    return listed[-1].deviceName if listed else None


def _default(device: str, gibibytes: int) -> Row:
    ebs = {"VolumeSize": gibibytes, "VolumeType": "gp3", "Encrypted": True}
    return {"DeviceName": device, "Ebs": ebs}


def _device(mapping: BlockDevice) -> Row:
    if not mapping.deviceName:
        raise BadInput(
            "a disk of the class has no deviceName, and EC2 cannot attach it without",
            "name it in spec.blockDeviceMappings, as in deviceName: /dev/xvda",
        )
    if mapping.ebs is None:
        return {"DeviceName": mapping.deviceName}
    return {"DeviceName": mapping.deviceName, "Ebs": _volume(mapping.ebs)}


def _volume(volume: Volume) -> dict[str, Any]:
    """EC2 counts whole GiB: what is not whole, as 20G are, counts as one more."""
    made = {} if volume.volumeSize is None else {"VolumeSize": _gibibytes(volume.volumeSize)}
    stated = {name: getattr(volume, field) for name, field in FIELDS.items()}
    return made | {name: value for name, value in stated.items() if value is not None}


def _gibibytes(size: str) -> int:
    return ceiling(parse(size).units, GIB)
