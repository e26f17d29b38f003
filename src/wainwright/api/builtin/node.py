"""Node and Namespace: where pods are, in the two senses that scheduling knows."""

from wainwright.api.builtin.part import Part, Resources
from wainwright.api.wire import Metadata


class Taint(Part, frozen=True, kw_only=True):
    key: str = ""
    value: str = ""
    effect: str = ""
    timeAdded: str | None = None


class NodeSpec(Part, frozen=True, kw_only=True):
    taints: list[Taint] | None = None
    unschedulable: bool = False
    providerID: str = ""


class NodeCondition(Part, frozen=True, kw_only=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    lastTransitionTime: str | None = None


class AttachedVolume(Part, frozen=True, kw_only=True):
    name: str = ""


class NodeSystemInfo(Part, frozen=True, kw_only=True):
    architecture: str = ""
    operatingSystem: str = ""
    osImage: str = ""
    kubeletVersion: str = ""


class NodeStatus(Part, frozen=True, kw_only=True):
    capacity: Resources | None = None
    allocatable: Resources | None = None
    """Absent means as much as the capacity."""
    conditions: list[NodeCondition] | None = None
    volumesAttached: list[AttachedVolume] | None = None
    volumesInUse: list[str] | None = None
    nodeInfo: NodeSystemInfo = NodeSystemInfo()


class Node(Part, frozen=True, kw_only=True):
    apiVersion: str = "v1"
    kind: str = "Node"
    metadata: Metadata = Metadata()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class NamespaceStatus(Part, frozen=True, kw_only=True):
    phase: str = ""


class Namespace(Part, frozen=True, kw_only=True):
    """Its labels are what a namespaceSelector looks at."""

    apiVersion: str = "v1"
    kind: str = "Namespace"
    metadata: Metadata = Metadata()
    status: NamespaceStatus = NamespaceStatus()
