"""Pod: what is to be placed, with every field that decides where it can go."""

from wainwright.api.builtin.affinity import Affinity, TopologySpreadConstraint
from wainwright.api.builtin.part import Part, Resources, TemplateMetadata
from wainwright.api.builtin.volume import Volume
from wainwright.api.wire import Metadata


class ResourceClaim(Part, frozen=True, kw_only=True):
    """A container's use of one of the pod's claims on devices."""

    name: str = ""
    request: str = ""


class ResourceRequirements(Part, frozen=True, kw_only=True):
    requests: Resources | None = None
    limits: Resources | None = None
    claims: list[ResourceClaim] | None = None


class ContainerPort(Part, frozen=True, kw_only=True):
    containerPort: int = 0
    hostPort: int = 0
    hostIP: str = ""
    protocol: str = ""
    """Empty means TCP."""


class Container(Part, frozen=True, kw_only=True):
    name: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: list[ContainerPort] | None = None
    restartPolicy: str | None = None
    """On an init container, Always makes it a sidecar that runs as long as the pod."""


class Toleration(Part, frozen=True, kw_only=True):
    key: str = ""
    operator: str = ""
    """Empty means Equal."""
    value: str = ""
    effect: str = ""
    tolerationSeconds: int | None = None


class PodSchedulingGate(Part, frozen=True, kw_only=True):
    name: str = ""


class PodResourceClaim(Part, frozen=True, kw_only=True):
    name: str = ""
    resourceClaimName: str | None = None
    resourceClaimTemplateName: str | None = None


class PodSpec(Part, frozen=True, kw_only=True):
    containers: list[Container] | None = None
    initContainers: list[Container] | None = None
    resources: ResourceRequirements | None = None
    overhead: Resources | None = None
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


class PodTemplate(Part, frozen=True, kw_only=True):
    metadata: TemplateMetadata = TemplateMetadata()
    spec: PodSpec = PodSpec()


class PodCondition(Part, frozen=True, kw_only=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    lastTransitionTime: str | None = None


class ContainerStatus(Part, frozen=True, kw_only=True):
    """What a running container was given, which a resize may have made differ from its spec."""

    name: str = ""
    allocatedResources: Resources | None = None
    resources: ResourceRequirements | None = None


class PodStatus(Part, frozen=True, kw_only=True):
    phase: str = ""
    reason: str = ""
    nominatedNodeName: str = ""
    startTime: str | None = None
    conditions: list[PodCondition] | None = None
    containerStatuses: list[ContainerStatus] | None = None
    initContainerStatuses: list[ContainerStatus] | None = None


class Pod(Part, frozen=True, kw_only=True):
    apiVersion: str = "v1"
    kind: str = "Pod"
    metadata: Metadata = Metadata()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
