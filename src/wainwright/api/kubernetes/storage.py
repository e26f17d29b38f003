"""Storage that constrains scheduling: volumes, PersistentVolume, claim, StorageClass, CSINode.
The in-tree volume sources are here because the scheduler counts each of them as a volume of the
CSI driver that replaced it.
"""

from wainwright.api.kubernetes.meta import (
    KubernetesStruct,
    LabelSelector,
    NodeSelector,
    ObjectReference,
    QuantityValue,
    ResourceList,
    TemplateObjectMeta,
    TopologySelectorTerm,
)
from wainwright.api.wire import ObjectMeta


class VolumeResourceRequirements(KubernetesStruct, frozen=True, kw_only=True):
    requests: ResourceList | None = None
    limits: ResourceList | None = None


class PersistentVolumeClaimSpec(KubernetesStruct, frozen=True, kw_only=True):
    accessModes: list[str] | None = None
    resources: VolumeResourceRequirements | None = None
    selector: LabelSelector | None = None
    storageClassName: str | None = None
    """Absent means the default class, the empty text no class."""
    volumeMode: str | None = None
    volumeName: str = ""


class PersistentVolumeClaimTemplate(KubernetesStruct, frozen=True, kw_only=True):
    metadata: TemplateObjectMeta = TemplateObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class PersistentVolumeClaimVolumeSource(KubernetesStruct, frozen=True, kw_only=True):
    claimName: str = ""
    readOnly: bool = False


class EphemeralVolumeSource(KubernetesStruct, frozen=True, kw_only=True):
    volumeClaimTemplate: PersistentVolumeClaimTemplate | None = None


class EmptyDirVolumeSource(KubernetesStruct, frozen=True, kw_only=True):
    medium: str = ""
    sizeLimit: QuantityValue | None = None


class CSIVolumeSource(KubernetesStruct, frozen=True, kw_only=True):
    """A volume that a driver creates for one pod."""

    driver: str = ""


class AWSElasticBlockStoreVolumeSource(KubernetesStruct, frozen=True, kw_only=True):
    volumeID: str = ""
    readOnly: bool = False


class GCEPersistentDiskVolumeSource(KubernetesStruct, frozen=True, kw_only=True):
    pdName: str = ""
    readOnly: bool = False


class AzureDiskVolumeSource(KubernetesStruct, frozen=True, kw_only=True):
    diskName: str = ""
    diskURI: str = ""


class AzureFileVolumeSource(KubernetesStruct, frozen=True, kw_only=True):
    shareName: str = ""
    secretName: str = ""


class CinderVolumeSource(KubernetesStruct, frozen=True, kw_only=True):
    volumeID: str = ""


class VsphereVolumeSource(KubernetesStruct, frozen=True, kw_only=True):
    volumePath: str = ""


class PortworxVolumeSource(KubernetesStruct, frozen=True, kw_only=True):
    volumeID: str = ""


class NFSVolumeSource(KubernetesStruct, frozen=True, kw_only=True):
    server: str = ""
    path: str = ""


class HostPathVolumeSource(KubernetesStruct, frozen=True, kw_only=True):
    path: str = ""
    type: str | None = None


class LocalVolumeSource(KubernetesStruct, frozen=True, kw_only=True):
    path: str = ""


class InTreeVolumeSources(KubernetesStruct, frozen=True, kw_only=True):
    """Volume sources that both a pod and a PersistentVolume can have; at most one is set."""

    awsElasticBlockStore: AWSElasticBlockStoreVolumeSource | None = None
    gcePersistentDisk: GCEPersistentDiskVolumeSource | None = None
    azureDisk: AzureDiskVolumeSource | None = None
    azureFile: AzureFileVolumeSource | None = None
    cinder: CinderVolumeSource | None = None
    vsphereVolume: VsphereVolumeSource | None = None
    portworxVolume: PortworxVolumeSource | None = None
    nfs: NFSVolumeSource | None = None
    hostPath: HostPathVolumeSource | None = None


class Volume(InTreeVolumeSources, frozen=True, kw_only=True):
    name: str = ""
    csi: CSIVolumeSource | None = None
    persistentVolumeClaim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    emptyDir: EmptyDirVolumeSource | None = None


class VolumeNodeAffinity(KubernetesStruct, frozen=True, kw_only=True):
    required: NodeSelector | None = None


class CSIPersistentVolumeSource(KubernetesStruct, frozen=True, kw_only=True):
    """A volume of a CSI driver and its handle."""

    driver: str = ""
    volumeHandle: str = ""


class PersistentVolumeSpec(InTreeVolumeSources, frozen=True, kw_only=True):
    accessModes: list[str] | None = None
    capacity: ResourceList | None = None
    claimRef: ObjectReference | None = None
    csi: CSIPersistentVolumeSource | None = None
    local: LocalVolumeSource | None = None
    nodeAffinity: VolumeNodeAffinity | None = None
    storageClassName: str = ""
    volumeMode: str | None = None


class PersistentVolumeStatus(KubernetesStruct, frozen=True, kw_only=True):
    phase: str = ""


class PersistentVolume(KubernetesStruct, frozen=True, kw_only=True):
    apiVersion: str = "v1"
    kind: str = "PersistentVolume"
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class PersistentVolumeClaimStatus(KubernetesStruct, frozen=True, kw_only=True):
    phase: str = ""
    accessModes: list[str] | None = None
    capacity: ResourceList | None = None


class PersistentVolumeClaim(KubernetesStruct, frozen=True, kw_only=True):
    apiVersion: str = "v1"
    kind: str = "PersistentVolumeClaim"
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class StorageClass(KubernetesStruct, frozen=True, kw_only=True):
    apiVersion: str = "storage.k8s.io/v1"
    kind: str = "StorageClass"
    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    parameters: dict[str, str] | None = None
    volumeBindingMode: str | None = None
    """Absent means Immediate."""
    allowedTopologies: list[TopologySelectorTerm] | None = None
    reclaimPolicy: str | None = None


class VolumeNodeResources(KubernetesStruct, frozen=True, kw_only=True):
    count: int | None = None
    """How many volumes of the driver can be attached to a node; absent means no limit."""


class CSINodeDriver(KubernetesStruct, frozen=True, kw_only=True):
    name: str = ""
    nodeID: str = ""
    topologyKeys: list[str] | None = None
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(KubernetesStruct, frozen=True, kw_only=True):
    drivers: list[CSINodeDriver] | None = None


class CSINode(KubernetesStruct, frozen=True, kw_only=True):
    apiVersion: str = "storage.k8s.io/v1"
    kind: str = "CSINode"
    metadata: ObjectMeta = ObjectMeta()
    spec: CSINodeSpec = CSINodeSpec()
