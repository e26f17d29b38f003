"""Storage that ties pods to places: PersistentVolume and claim, StorageClass, CSINode."""

from wainwright.api.builtin.part import ObjectReference, Part, Resources
from wainwright.api.builtin.selection import NodeSelector, TopologySelectorTerm
from wainwright.api.builtin.volume import Disk, LocalVolume, PersistentVolumeClaimSpec
from wainwright.api.wire import Metadata


class VolumeNodeAffinity(Part, frozen=True, kw_only=True):
    required: NodeSelector | None = None


class DriverVolume(Part, frozen=True, kw_only=True):
    """A volume that a CSI driver keeps, and what it calls it."""

    driver: str = ""
    volumeHandle: str = ""


class PersistentVolumeSpec(Disk, frozen=True, kw_only=True):
    accessModes: list[str] | None = None
    capacity: Resources | None = None
    claimRef: ObjectReference | None = None
    csi: DriverVolume | None = None
    local: LocalVolume | None = None
    nodeAffinity: VolumeNodeAffinity | None = None
    storageClassName: str = ""
    volumeMode: str | None = None


class PersistentVolumeStatus(Part, frozen=True, kw_only=True):
    phase: str = ""


class PersistentVolume(Part, frozen=True, kw_only=True):
    apiVersion: str = "v1"
    kind: str = "PersistentVolume"
    metadata: Metadata = Metadata()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class PersistentVolumeClaimStatus(Part, frozen=True, kw_only=True):
    phase: str = ""
    accessModes: list[str] | None = None
    capacity: Resources | None = None


class PersistentVolumeClaim(Part, frozen=True, kw_only=True):
    apiVersion: str = "v1"
    kind: str = "PersistentVolumeClaim"
    metadata: Metadata = Metadata()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class StorageClass(Part, frozen=True, kw_only=True):
    apiVersion: str = "storage.k8s.io/v1"
    kind: str = "StorageClass"
    metadata: Metadata = Metadata()
    provisioner: str = ""
    parameters: dict[str, str] | None = None
    volumeBindingMode: str | None = None
    """Absent means Immediate."""
    allowedTopologies: list[TopologySelectorTerm] | None = None
    reclaimPolicy: str | None = None


class VolumeNodeResources(Part, frozen=True, kw_only=True):
    count: int | None = None
    """How many volumes of the driver a node can take; absent means no limit."""


class CSINodeDriver(Part, frozen=True, kw_only=True):
    name: str = ""
    nodeID: str = ""
    topologyKeys: list[str] | None = None
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Part, frozen=True, kw_only=True):
    drivers: list[CSINodeDriver] | None = None


class CSINode(Part, frozen=True, kw_only=True):
    apiVersion: str = "storage.k8s.io/v1"
    kind: str = "CSINode"
    metadata: Metadata = Metadata()
    spec: CSINodeSpec = CSINodeSpec()
