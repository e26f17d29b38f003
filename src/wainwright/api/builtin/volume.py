"""Volumes of pods and behind claims: those that tie a pod to nodes or take up a node's limit.

The in-tree disks are here because a scheduler counts each of them as a volume of the CSI driver
that has taken it over.
"""

from wainwright.api.builtin.part import Amount, Part, Resources, TemplateMetadata
from wainwright.api.builtin.selection import LabelSelector


class VolumeResources(Part, frozen=True, kw_only=True):
    requests: Resources | None = None
    limits: Resources | None = None


class PersistentVolumeClaimSpec(Part, frozen=True, kw_only=True):
    accessModes: list[str] | None = None
    resources: VolumeResources | None = None
    selector: LabelSelector | None = None
    storageClassName: str | None = None
    """Absent asks for the default class, the empty text for no class at all."""
    volumeMode: str | None = None
    volumeName: str = ""


class PersistentVolumeClaimTemplate(Part, frozen=True, kw_only=True):
    metadata: TemplateMetadata = TemplateMetadata()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class ClaimVolume(Part, frozen=True, kw_only=True):
    claimName: str = ""
    readOnly: bool = False


class EphemeralVolume(Part, frozen=True, kw_only=True):
    volumeClaimTemplate: PersistentVolumeClaimTemplate | None = None


class EmptyDirVolume(Part, frozen=True, kw_only=True):
    medium: str = ""
    sizeLimit: Amount | None = None


class InlineVolume(Part, frozen=True, kw_only=True):
    """A volume that a driver makes for one pod."""

    driver: str = ""


class ElasticBlockStoreVolume(Part, frozen=True, kw_only=True):
    volumeID: str = ""
    readOnly: bool = False


class GCEDiskVolume(Part, frozen=True, kw_only=True):
    pdName: str = ""
    readOnly: bool = False


class AzureDiskVolume(Part, frozen=True, kw_only=True):
    diskName: str = ""
    diskURI: str = ""


class AzureFileVolume(Part, frozen=True, kw_only=True):
    shareName: str = ""
    secretName: str = ""


class CinderVolume(Part, frozen=True, kw_only=True):
    volumeID: str = ""


class VsphereVolume(Part, frozen=True, kw_only=True):
    volumePath: str = ""


class PortworxVolume(Part, frozen=True, kw_only=True):
    volumeID: str = ""


class NFSVolume(Part, frozen=True, kw_only=True):
    server: str = ""
    path: str = ""


class HostPathVolume(Part, frozen=True, kw_only=True):
    path: str = ""
    type: str | None = None


class LocalVolume(Part, frozen=True, kw_only=True):
    path: str = ""


class Disk(Part, frozen=True, kw_only=True):
    """The kinds of storage that both a pod and a PersistentVolume can name; at most one is set."""

    awsElasticBlockStore: ElasticBlockStoreVolume | None = None
    gcePersistentDisk: GCEDiskVolume | None = None
    azureDisk: AzureDiskVolume | None = None
    azureFile: AzureFileVolume | None = None
    cinder: CinderVolume | None = None
    vsphereVolume: VsphereVolume | None = None
    portworxVolume: PortworxVolume | None = None
    nfs: NFSVolume | None = None
    hostPath: HostPathVolume | None = None


class Volume(Disk, frozen=True, kw_only=True):
    name: str = ""
    csi: InlineVolume | None = None
    persistentVolumeClaim: ClaimVolume | None = None
    ephemeral: EphemeralVolume | None = None
    emptyDir: EmptyDirVolume | None = None
