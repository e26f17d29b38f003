"""Which struct reads which kind of Kubernetes."""

from typing import Final

from wainwright.api.builtin.node import Namespace, Node
from wainwright.api.builtin.pod import Pod
from wainwright.api.builtin.policy import PodDisruptionBudget, PriorityClass, RuntimeClass
from wainwright.api.builtin.service import Service
from wainwright.api.builtin.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from wainwright.api.builtin.workloads import (
    DaemonSet,
    Deployment,
    Job,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from wainwright.api.wire import Wire

KINDS: Final[dict[tuple[str, str], type[Wire]]] = {
    ("v1", "Pod"): Pod,
    ("v1", "Node"): Node,
    ("v1", "Namespace"): Namespace,
    ("v1", "PersistentVolume"): PersistentVolume,
    ("v1", "PersistentVolumeClaim"): PersistentVolumeClaim,
    ("v1", "ReplicationController"): ReplicationController,
    ("v1", "Service"): Service,
    ("apps/v1", "Deployment"): Deployment,
    ("apps/v1", "ReplicaSet"): ReplicaSet,
    ("apps/v1", "StatefulSet"): StatefulSet,
    ("apps/v1", "DaemonSet"): DaemonSet,
    ("batch/v1", "Job"): Job,
    ("policy/v1", "PodDisruptionBudget"): PodDisruptionBudget,
    ("storage.k8s.io/v1", "StorageClass"): StorageClass,
    ("storage.k8s.io/v1", "CSINode"): CSINode,
    ("scheduling.k8s.io/v1", "PriorityClass"): PriorityClass,
    ("node.k8s.io/v1", "RuntimeClass"): RuntimeClass,
}
"""By apiVersion and kind."""

CLUSTER_WIDE: Final = frozenset(
    {
        "Node",
        "Namespace",
        "PersistentVolume",
        "StorageClass",
        "CSINode",
        "PriorityClass",
        "RuntimeClass",
    }
)
"""Kinds whose objects are in no namespace."""
