"""Node, Namespace, Service, PodDisruptionBudget, PriorityClass, RuntimeClass."""

from wainwright.api.kubernetes.meta import KubernetesStruct, LabelSelector, ResourceList
from wainwright.api.kubernetes.workloads import Toleration
from wainwright.api.wire import ObjectMeta


class Taint(KubernetesStruct, frozen=True, kw_only=True):
    key: str = ""
    value: str = ""
    effect: str = ""
    timeAdded: str | None = None


class NodeSpec(KubernetesStruct, frozen=True, kw_only=True):
    taints: list[Taint] | None = None
    unschedulable: bool = False
    providerID: str = ""


class NodeCondition(KubernetesStruct, frozen=True, kw_only=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    lastTransitionTime: str | None = None


class AttachedVolume(KubernetesStruct, frozen=True, kw_only=True):
    name: str = ""


class NodeSystemInfo(KubernetesStruct, frozen=True, kw_only=True):
    architecture: str = ""
    operatingSystem: str = ""
    osImage: str = ""
    kubeletVersion: str = ""


class NodeStatus(KubernetesStruct, frozen=True, kw_only=True):
    capacity: ResourceList | None = None
    allocatable: ResourceList | None = None
    """Absent means equal to the capacity."""
    conditions: list[NodeCondition] | None = None
    volumesAttached: list[AttachedVolume] | None = None
    volumesInUse: list[str] | None = None
    nodeInfo: NodeSystemInfo = NodeSystemInfo()


class Node(KubernetesStruct, frozen=True, kw_only=True):
    apiVersion: str = "v1"
    kind: str = "Node"
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class NamespaceStatus(KubernetesStruct, frozen=True, kw_only=True):
    phase: str = ""


class Namespace(KubernetesStruct, frozen=True, kw_only=True):
    """Its labels are matched by namespaceSelectors."""

    apiVersion: str = "v1"
    kind: str = "Namespace"
    metadata: ObjectMeta = ObjectMeta()
    status: NamespaceStatus = NamespaceStatus()


class ServiceSpec(KubernetesStruct, frozen=True, kw_only=True):
    selector: dict[str, str] | None = None
    """Absent or empty, no default spread is deduced from the service."""


class Service(KubernetesStruct, frozen=True, kw_only=True):
    apiVersion: str = "v1"
    kind: str = "Service"
    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()


class PodDisruptionBudgetSpec(KubernetesStruct, frozen=True, kw_only=True):
    minAvailable: int | str | None = None
    maxUnavailable: int | str | None = None
    selector: LabelSelector | None = None
    unhealthyPodEvictionPolicy: str | None = None


class PodDisruptionBudgetStatus(KubernetesStruct, frozen=True, kw_only=True):
    disruptionsAllowed: int | None = None
    currentHealthy: int = 0
    desiredHealthy: int = 0
    expectedPods: int = 0
    observedGeneration: int = 0
    disruptedPods: dict[str, str] | None = None
    """Pods whose eviction was allowed, and when; until their deletion has been seen."""


class PodDisruptionBudget(KubernetesStruct, frozen=True, kw_only=True):
    apiVersion: str = "policy/v1"
    kind: str = "PodDisruptionBudget"
    metadata: ObjectMeta = ObjectMeta()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class PriorityClass(KubernetesStruct, frozen=True, kw_only=True):
    apiVersion: str = "scheduling.k8s.io/v1"
    kind: str = "PriorityClass"
    metadata: ObjectMeta = ObjectMeta()
    value: int = 0
    globalDefault: bool = False
    preemptionPolicy: str | None = None


class RuntimeClassOverhead(KubernetesStruct, frozen=True, kw_only=True):
    podFixed: ResourceList | None = None


class RuntimeClassScheduling(KubernetesStruct, frozen=True, kw_only=True):
    nodeSelector: dict[str, str] | None = None
    tolerations: list[Toleration] | None = None


class RuntimeClass(KubernetesStruct, frozen=True, kw_only=True):
    """A container runtime, its overhead per pod, and the nodes that support it."""

    apiVersion: str = "node.k8s.io/v1"
    kind: str = "RuntimeClass"
    metadata: ObjectMeta = ObjectMeta()
    handler: str = ""
    overhead: RuntimeClassOverhead | None = None
    scheduling: RuntimeClassScheduling | None = None
