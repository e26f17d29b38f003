"""Pod with every field that affects scheduling, and the workloads: Deployment, Job …"""

from wainwright.api.kubernetes.meta import (
    KubernetesStruct,
    LabelSelector,
    NodeSelector,
    NodeSelectorTerm,
    ResourceList,
    TemplateObjectMeta,
)
from wainwright.api.kubernetes.storage import PersistentVolumeClaimTemplate, Volume
from wainwright.api.wire import ObjectMeta


class PreferredSchedulingTerm(KubernetesStruct, frozen=True, kw_only=True):
    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(KubernetesStruct, frozen=True, kw_only=True):
    requiredDuringSchedulingIgnoredDuringExecution: NodeSelector | None = None
    preferredDuringSchedulingIgnoredDuringExecution: list[PreferredSchedulingTerm] | None = None


class PodAffinityTerm(KubernetesStruct, frozen=True, kw_only=True):
    """The pods of an affinity or anti-affinity, and the topology key."""

    topologyKey: str = ""
    labelSelector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespaceSelector: LabelSelector | None = None
    matchLabelKeys: list[str] | None = None
    mismatchLabelKeys: list[str] | None = None


class WeightedPodAffinityTerm(KubernetesStruct, frozen=True, kw_only=True):
    weight: int = 0
    podAffinityTerm: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(KubernetesStruct, frozen=True, kw_only=True):
    """Affinity and anti-affinity have the same fields."""

    requiredDuringSchedulingIgnoredDuringExecution: list[PodAffinityTerm] | None = None
    preferredDuringSchedulingIgnoredDuringExecution: list[WeightedPodAffinityTerm] | None = None


class Affinity(KubernetesStruct, frozen=True, kw_only=True):
    nodeAffinity: NodeAffinity | None = None
    podAffinity: PodAffinity | None = None
    podAntiAffinity: PodAffinity | None = None


class TopologySpreadConstraint(KubernetesStruct, frozen=True, kw_only=True):
    """How evenly pods are spread over the values of a node label."""

    maxSkew: int = 0
    topologyKey: str = ""
    whenUnsatisfiable: str = ""
    labelSelector: LabelSelector | None = None
    minDomains: int | None = None
    nodeAffinityPolicy: str | None = None
    nodeTaintsPolicy: str | None = None
    matchLabelKeys: list[str] | None = None


class ResourceClaim(KubernetesStruct, frozen=True, kw_only=True):
    """A container's use of one of the pod's claims on devices."""

    name: str = ""
    request: str = ""


class ResourceRequirements(KubernetesStruct, frozen=True, kw_only=True):
    requests: ResourceList | None = None
    limits: ResourceList | None = None
    claims: list[ResourceClaim] | None = None


class ContainerPort(KubernetesStruct, frozen=True, kw_only=True):
    containerPort: int = 0
    hostPort: int = 0
    hostIP: str = ""
    protocol: str = ""
    """Empty means TCP."""


class Container(KubernetesStruct, frozen=True, kw_only=True):
    name: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: list[ContainerPort] | None = None
    restartPolicy: str | None = None
    """On an init container, Always makes it a sidecar that runs as long as the pod."""


class Toleration(KubernetesStruct, frozen=True, kw_only=True):
    key: str = ""
    operator: str = ""
    """Empty means Equal."""
    value: str = ""
    effect: str = ""
    tolerationSeconds: int | None = None


class PodSchedulingGate(KubernetesStruct, frozen=True, kw_only=True):
    name: str = ""


class PodResourceClaim(KubernetesStruct, frozen=True, kw_only=True):
    name: str = ""
    resourceClaimName: str | None = None
    resourceClaimTemplateName: str | None = None


class PodSpec(KubernetesStruct, frozen=True, kw_only=True):
    containers: list[Container] | None = None
    initContainers: list[Container] | None = None
    resources: ResourceRequirements | None = None
    overhead: ResourceList | None = None
    nodeName: str = ""
    nodeSelector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    topologySpreadConstraints: list[TopologySpreadConstraint] | None = None
    schedulingGates: list[PodSchedulingGate] | None = None
    schedulerName: str = ""
    priority: int | None = None
    priorityClassName: str = ""
    preemptionPolicy: str | None = None
    runtimeClassName: str | None = None
    hostNetwork: bool = False
    volumes: list[Volume] | None = None
    resourceClaims: list[PodResourceClaim] | None = None
    restartPolicy: str = ""
    terminationGracePeriodSeconds: int | None = None


class PodTemplateSpec(KubernetesStruct, frozen=True, kw_only=True):
    metadata: TemplateObjectMeta = TemplateObjectMeta()
    spec: PodSpec = PodSpec()


class PodCondition(KubernetesStruct, frozen=True, kw_only=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    lastTransitionTime: str | None = None


class ContainerStatus(KubernetesStruct, frozen=True, kw_only=True):
    """The resources of a running container, which differ from its spec during a resize."""

    name: str = ""
    allocatedResources: ResourceList | None = None
    resources: ResourceRequirements | None = None


class PodStatus(KubernetesStruct, frozen=True, kw_only=True):
    phase: str = ""
    reason: str = ""
    nominatedNodeName: str = ""
    startTime: str | None = None
    conditions: list[PodCondition] | None = None
    containerStatuses: list[ContainerStatus] | None = None
    initContainerStatuses: list[ContainerStatus] | None = None


class Pod(KubernetesStruct, frozen=True, kw_only=True):
    apiVersion: str = "v1"
    kind: str = "Pod"
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class RollingUpdate(KubernetesStruct, frozen=True, kw_only=True):
    """Numbers of pods, or percentages of the replicas."""

    maxSurge: int | str | None = None
    maxUnavailable: int | str | None = None


class DeploymentStrategy(KubernetesStruct, frozen=True, kw_only=True):
    """How pods are replaced when the template has changed."""

    type: str = ""
    rollingUpdate: RollingUpdate | None = None


class UpdateStrategy(KubernetesStruct, frozen=True, kw_only=True):
    """The same of a StatefulSet or DaemonSet."""

    type: str = ""


class ReplicaSetSpec(KubernetesStruct, frozen=True, kw_only=True):
    replicas: int | None = None
    """Absent means one."""
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class DeploymentSpec(KubernetesStruct, frozen=True, kw_only=True):
    replicas: int | None = None
    """Absent means one."""
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    strategy: DeploymentStrategy | None = None


class Deployment(KubernetesStruct, frozen=True, kw_only=True):
    apiVersion: str = "apps/v1"
    kind: str = "Deployment"
    metadata: ObjectMeta = ObjectMeta()
    spec: DeploymentSpec = DeploymentSpec()


class ReplicaSet(KubernetesStruct, frozen=True, kw_only=True):
    apiVersion: str = "apps/v1"
    kind: str = "ReplicaSet"
    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicaSetSpec = ReplicaSetSpec()


class ReplicationControllerSpec(KubernetesStruct, frozen=True, kw_only=True):
    """The predecessor of ReplicaSets: its selector is a map of labels."""

    replicas: int | None = None
    """Absent means one."""
    selector: dict[str, str] | None = None
    """Where it is empty the API server sets it to the labels of the template."""
    template: PodTemplateSpec = PodTemplateSpec()

    @property
    def selected(self) -> dict[str, str]:
        return self.selector or self.template.metadata.labels or {}


class ReplicationController(KubernetesStruct, frozen=True, kw_only=True):
    apiVersion: str = "v1"
    kind: str = "ReplicationController"
    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicationControllerSpec = ReplicationControllerSpec()


class StatefulSetOrdinals(KubernetesStruct, frozen=True, kw_only=True):
    start: int = 0


class StatefulSetSpec(KubernetesStruct, frozen=True, kw_only=True):
    replicas: int | None = None
    """Absent means one."""
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    volumeClaimTemplates: list[PersistentVolumeClaimTemplate] | None = None
    ordinals: StatefulSetOrdinals | None = None
    podManagementPolicy: str = ""
    serviceName: str = ""
    updateStrategy: UpdateStrategy | None = None


class StatefulSet(KubernetesStruct, frozen=True, kw_only=True):
    apiVersion: str = "apps/v1"
    kind: str = "StatefulSet"
    metadata: ObjectMeta = ObjectMeta()
    spec: StatefulSetSpec = StatefulSetSpec()


class DaemonSetSpec(KubernetesStruct, frozen=True, kw_only=True):
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    updateStrategy: UpdateStrategy | None = None


class DaemonSet(KubernetesStruct, frozen=True, kw_only=True):
    apiVersion: str = "apps/v1"
    kind: str = "DaemonSet"
    metadata: ObjectMeta = ObjectMeta()
    spec: DaemonSetSpec = DaemonSetSpec()


class JobSpec(KubernetesStruct, frozen=True, kw_only=True):
    parallelism: int | None = None
    completions: int | None = None
    completionMode: str | None = None
    backoffLimit: int | None = None
    activeDeadlineSeconds: int | None = None
    ttlSecondsAfterFinished: int | None = None
    suspend: bool | None = None
    manualSelector: bool | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class JobCondition(KubernetesStruct, frozen=True, kw_only=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    lastTransitionTime: str | None = None


class JobStatus(KubernetesStruct, frozen=True, kw_only=True):
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    conditions: list[JobCondition] | None = None


class Job(KubernetesStruct, frozen=True, kw_only=True):
    apiVersion: str = "batch/v1"
    kind: str = "Job"
    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class PodSetSpec(KubernetesStruct, frozen=True, kw_only=True):
    """How many pods of which template."""

    replicas: int | None = None
    """As the object states it."""
    default_replicas: int = 1
    maximum: int | None = None
    """The most replicas that the object itself allows, where it scales."""
    pods_per_replica: int = 1
    suspended: bool = False
    template: PodTemplateSpec = PodTemplateSpec()


class PodSet(KubernetesStruct, frozen=True, kw_only=True):
    """Pods of one template that an object of any other kind creates, such as a CronJob; one of
    several where the object has more templates. apiVersion, kind and metadata are the object's.
    """

    apiVersion: str
    kind: str
    metadata: ObjectMeta
    name: str = ""
    """Of the set; empty where the object has one."""
    spec: PodSetSpec


class OwnedObject(KubernetesStruct, frozen=True, kw_only=True):
    """An object between a pod and what created it in the end, as a Revision of Knative."""

    kind: str
    metadata: ObjectMeta


class Autoscaler(KubernetesStruct, frozen=True, kw_only=True):
    """A HorizontalPodAutoscaler or ScaledObject: how many replicas a workload may have."""

    kind: str
    metadata: ObjectMeta
    target_kind: str
    target_name: str
    minimum: int
    maximum: int
    scales_from_zero: bool = False
    """Whether it acts on a workload that states 0 replicas."""
