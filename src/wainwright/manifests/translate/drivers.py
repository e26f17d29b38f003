"""CSI drivers: which of them attaches a volume, and how many volumes of it a node takes."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from wainwright.api.builtin.storage import CSINode, PersistentVolume
from wainwright.api.builtin.volume import Disk
from wainwright.model.attachments import Attachment

NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
"""What a storage class says whose volumes somebody else makes, one by one."""

EBS: Final = "kubernetes.io/aws-ebs"
GCE: Final = "kubernetes.io/gce-pd"
MIGRATED: Final = {
    EBS: "ebs.csi.aws.com",
    GCE: "pd.csi.storage.gke.io",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/azure-file": "file.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
    "kubernetes.io/vsphere-volume": "csi.vsphere.vmware.com",
}
"""Provisioners that were once part of Kubernetes, and the drivers that do their work today."""

DISKS: Final[dict[str, tuple[str, Callable[[Any], str]]]] = {
    "awsElasticBlockStore": (EBS, lambda disk: disk.volumeID.rpartition("/")[2]),
    "gcePersistentDisk": (GCE, lambda disk: disk.pdName),
    "azureDisk": ("kubernetes.io/azure-disk", lambda disk: disk.diskURI or disk.diskName),
    "azureFile": (
        "kubernetes.io/azure-file",
        lambda disk: f"{disk.secretName}/{disk.shareName}".strip("/"),
    ),
    "cinder": ("kubernetes.io/cinder", lambda disk: disk.volumeID),
    "portworxVolume": ("kubernetes.io/portworx-volume", lambda disk: disk.volumeID),
    "vsphereVolume": ("kubernetes.io/vsphere-volume", lambda disk: disk.volumePath),
}
"""By field of a volume: its provisioner, and what that calls the disk.

An EBS volume may be written with its zone before it, as in aws://us-west-2a/vol-0123.
"""

OF_EKS_AUTO_MODE: Final = "ebs.csi.eks.amazonaws.com"
UNSUPPORTED: Final = frozenset({OF_EKS_AUTO_MODE})
"""Drivers that only nodes of somebody else's making have."""


def driver(provisioner: str) -> str:
    return MIGRATED.get(provisioner, provisioner)


def inline(volume: Disk) -> Attachment | None:
    """A disk that is named in place, by a pod or a PersistentVolume."""
    for field, (provisioner, identity) in DISKS.items():
        disk = getattr(volume, field)
        if disk is not None:
            return _attachment(driver(provisioner), identity(disk))
    return None


def persistent(volume: PersistentVolume) -> Attachment | None:
    """What is attached to the node; None for a share in a network, or a folder of the node."""
    kept = volume.spec.csi
    return inline(volume.spec) if kept is None else _attachment(kept.driver, kept.volumeHandle)


def _attachment(name: str, volume: str) -> Attachment | None:
    return Attachment(driver=name, volume=volume) if name and volume else None


def attach_limits(written: Iterable[CSINode]) -> dict[str, dict[str, int]]:
    """By node and driver how many volumes can be attached, where there is a limit."""
    return {
        node.metadata.name: {
            each.name: each.allocatable.count
            for each in node.spec.drivers or ()
            if each.allocatable is not None and each.allocatable.count is not None
        }
        for node in written
    }
