"""Which check belongs to which part of which kind."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from wainwright.api.builtin import check_storage, check_workloads
from wainwright.api.builtin.check_labels import labels
from wainwright.api.builtin.check_pod import pod_spec
from wainwright.api.builtin.check_policy import disruption_budget, priority_class, runtime_class
from wainwright.api.builtin.check_resources import capacities
from wainwright.api.builtin.check_spread import repeated_keys, uses_label_keys
from wainwright.api.builtin.check_taints import taints
from wainwright.api.builtin.check_volumes import claim
from wainwright.api.builtin.node import NodeSpec, NodeStatus
from wainwright.api.builtin.pod import Pod, PodSpec
from wainwright.api.builtin.service import ServiceSpec
from wainwright.api.builtin.wording import broken
from wainwright.api.fault import Fault, Path

LONGEST_NAME: Final = 253

PartCheck = Callable[[Any, Path], Iterator[Fault]]


def _node_spec(spec: NodeSpec, path: Path) -> Iterator[Fault]:
    yield from taints(spec.taints, (*path, "taints"))


def _node_status(status: NodeStatus, path: Path) -> Iterator[Fault]:
    yield from capacities(status.capacity, (*path, "capacity"))
    yield from capacities(status.allocatable, (*path, "allocatable"))


def _service(spec: ServiceSpec, path: Path) -> Iterator[Fault]:
    yield from labels(spec.selector, (*path, "selector"))


PARTS: Final[dict[tuple[str, str], PartCheck]] = {
    ("Pod", "spec"): pod_spec,
    ("Node", "spec"): _node_spec,
    ("Node", "status"): _node_status,
    ("PersistentVolume", "spec"): check_storage.volume,
    ("PersistentVolumeClaim", "spec"): claim,
    ("ReplicationController", "spec"): check_workloads.replication_controller,
    ("Service", "spec"): _service,
    ("Deployment", "spec"): check_workloads.replica_set,
    ("ReplicaSet", "spec"): check_workloads.replica_set,
    ("StatefulSet", "spec"): check_workloads.stateful_set,
    ("DaemonSet", "spec"): check_workloads.daemon_set,
    ("Job", "spec"): check_workloads.job,
    ("PodDisruptionBudget", "spec"): disruption_budget,
    ("CSINode", "spec"): check_storage.csi_node,
}
"""By kind and field: what can be said of a part without looking at the rest of the object.

A status is what a controller says, and the API server drops it from most objects on creation; only
a node's is held to rules.
"""

WHOLES: Final[dict[str, Callable[[Any], Iterator[Fault]]]] = {
    "StorageClass": check_storage.storage_class,
    "PriorityClass": priority_class,
    "RuntimeClass": runtime_class,
}
"""Kinds without a spec: their fields are at the top."""


def depends_on_metadata(spec: object) -> bool:
    """Whether `together` can have something to say of a pod with this spec."""
    if not isinstance(spec, PodSpec):
        return False
    return uses_label_keys(spec) or any(v.ephemeral is not None for v in spec.volumes or ())


def together(pod: Pod) -> Iterator[Fault]:
    """What is wrong between a pod's metadata and its spec."""
    yield from repeated_keys(pod.spec, pod.metadata.labels or {}, ("spec",))
    yield from _ephemeral_claims(pod)


def _ephemeral_claims(pod: Pod) -> Iterator[Fault]:
    """The claim of an ephemeral volume is named after pod and volume."""
    for index, volume in enumerate(pod.spec.volumes or ()):
        name = f"{pod.metadata.name}-{volume.name}"
        if volume.ephemeral is not None and len(name) > LONGEST_NAME:
            message = f"the claim made for this volume would have a name of {len(name)} characters"
            expected = f"a pod and a volume name of together at most {LONGEST_NAME - 1} characters"
            yield broken(("spec", "volumes", index, "name"), volume.name, message, expected)
