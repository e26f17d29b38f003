"""Kinds that only running controllers read and write: Event, Lease, ConfigMap, VolumeAttachment,
CapacityBuffer with PodTemplate.
"""

from wainwright.api.kubernetes.meta import KubernetesStruct, ObjectReference, ResourceList
from wainwright.api.kubernetes.workloads import PodTemplateSpec
from wainwright.api.wire import Condition, ObjectMeta


class EventSource(KubernetesStruct, frozen=True, kw_only=True):
    component: str = ""


class Event(KubernetesStruct, frozen=True, kw_only=True):
    """What was done to an object, for people. It is in the object's namespace, or in default."""

    apiVersion: str = "v1"
    kind: str = "Event"
    metadata: ObjectMeta = ObjectMeta()
    involvedObject: ObjectReference = ObjectReference()
    type: str = ""
    """Normal or Warning."""
    reason: str = ""
    message: str = ""
    source: EventSource = EventSource()
    count: int = 0
    firstTimestamp: str | None = None
    lastTimestamp: str | None = None


class LeaseSpec(KubernetesStruct, frozen=True, kw_only=True):
    holderIdentity: str | None = None
    leaseDurationSeconds: int | None = None
    acquireTime: str | None = None
    """With exactly six digits of a second, as is renewTime."""
    renewTime: str | None = None
    leaseTransitions: int | None = None


class Lease(KubernetesStruct, frozen=True, kw_only=True):
    """Who leads, and until when; or, in kube-node-lease, that a node is alive."""

    apiVersion: str = "coordination.k8s.io/v1"
    kind: str = "Lease"
    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()


class ConfigMap(KubernetesStruct, frozen=True, kw_only=True):
    apiVersion: str = "v1"
    kind: str = "ConfigMap"
    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] | None = None


class VolumeAttachmentSource(KubernetesStruct, frozen=True, kw_only=True):
    persistentVolumeName: str | None = None


class VolumeAttachmentSpec(KubernetesStruct, frozen=True, kw_only=True):
    attacher: str = ""
    nodeName: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachmentStatus(KubernetesStruct, frozen=True, kw_only=True):
    attached: bool = False


class VolumeAttachment(KubernetesStruct, frozen=True, kw_only=True):
    """A volume on a node; a drained node is terminated when none is left."""

    apiVersion: str = "storage.k8s.io/v1"
    kind: str = "VolumeAttachment"
    metadata: ObjectMeta = ObjectMeta()
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
    status: VolumeAttachmentStatus = VolumeAttachmentStatus()


class PodTemplate(KubernetesStruct, frozen=True, kw_only=True):
    apiVersion: str = "v1"
    kind: str = "PodTemplate"
    metadata: ObjectMeta = ObjectMeta()
    template: PodTemplateSpec = PodTemplateSpec()


class LocalObjectReference(KubernetesStruct, frozen=True, kw_only=True):
    """An object in the same namespace."""

    name: str = ""


class ScalableReference(KubernetesStruct, frozen=True, kw_only=True):
    """A workload in the same namespace."""

    apiGroup: str = ""
    kind: str = ""
    name: str = ""


class CapacityBufferSpec(KubernetesStruct, frozen=True, kw_only=True):
    provisioningStrategy: str = ""
    """Empty means buffer.x-k8s.io/active-capacity."""
    podTemplateRef: LocalObjectReference | None = None
    scalableRef: ScalableReference | None = None
    replicas: int | None = None
    percentage: int | None = None
    """Of the replicas of the workload."""
    limits: ResourceList | None = None


class CapacityBufferStatus(KubernetesStruct, frozen=True, kw_only=True):
    podTemplateRef: LocalObjectReference | None = None
    podTemplateGeneration: int | None = None
    replicas: int | None = None
    provisioningStrategy: str = ""
    conditions: list[Condition] | None = None


class CapacityBuffer(KubernetesStruct, frozen=True, kw_only=True):
    """Room that is kept free for pods which may come. Its CRD is SIG Autoscaling's, not ours."""

    apiVersion: str = "autoscaling.x-k8s.io/v1beta1"
    kind: str = "CapacityBuffer"
    metadata: ObjectMeta = ObjectMeta()
    spec: CapacityBufferSpec = CapacityBufferSpec()
    status: CapacityBufferStatus | None = None
