"""Objects as manifests write them, typed, with defaults for what a test does not need."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kinds import known_kinds
from wainwright.api.kubernetes.cluster import Node, PriorityClass, RuntimeClass
from wainwright.api.kubernetes.object_reader import KUBERNETES_KINDS, decode_object
from wainwright.api.kubernetes.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from wainwright.api.kubernetes.workloads import Pod, PodSpec
from wainwright.api.wire import WireStruct
from wainwright.core.disruption.eviction import evict_from_deleting_nodes
from wainwright.manifests.cluster_manifests import ClusterManifests
from wainwright.messages.input_remarks import describe_remarks
from wainwright.model.snapshot import ReservationState, Snapshot
from wainwright.offline import blocked_evictions
from wainwright.translate.cluster_state import translate_snapshot
from wainwright.translate.node_claim_pairing import NodeWithClaim, pair_nodes_with_claims
from wainwright.translate.pod_constraints import ConstraintTranslator
from wainwright.translate.pods import PodTranslator, PriorityClasses
from wainwright.translate.requirements import NodeAffinityTranslator
from wainwright.translate.resources import RuntimeClasses
from wainwright.translate.topology import NamespaceIndex
from wainwright.translate.volumes import StorageClasses, VolumeClaims, VolumeTranslator

Value = dict[str, Any]

CLASS = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
NOW = "2026-01-01T00:00:00Z"


def typed(value: Value) -> WireStruct:
    version, kind = value["apiVersion"], value["kind"]
    if (version, kind) in KUBERNETES_KINDS:
        return decode_object(value)
    made: WireStruct = msgspec.convert(value, known_kinds()[version, kind].type)
    return made


def manifests(*values: Value) -> ClusterManifests:
    made = ClusterManifests()
    made.objects.extend(typed(value) for value in values)
    return made


class ReadInput(NamedTuple):
    """A snapshot without pods on nodes being deleted that can be evicted, and warnings."""

    snapshot: Snapshot
    warnings: tuple[str, ...]


def read_input(given: ClusterManifests, reservations: Iterable[ReservationState] = ()) -> ReadInput:
    """As offline commands read it."""
    found = translate_snapshot(given, reservations=reservations)
    evictions = evict_from_deleting_nodes(found.snapshot)
    remarks = (*found.remarks, *blocked_evictions(evictions.blocked))
    return ReadInput(evictions.snapshot, describe_remarks(remarks))


def translated(*values: Value) -> ReadInput:
    return read_input(manifests(*values))


def thing(version: str, kind: str, name: str, **fields: Any) -> Value:
    metadata = {"name": name, **fields.pop("metadata", {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def pod(name: str = "a", **fields: Any) -> Value:
    """A pod in namespace shop; `spec` adds to a container without requests."""
    metadata = {"namespace": "shop", **fields.pop("metadata", {})}
    spec = {"containers": [{"name": "c"}], **fields.pop("spec", {})}
    return thing("v1", "Pod", name, metadata=metadata, spec=spec, **fields)


def typed_pod(name: str = "a", **fields: Any) -> Pod:
    made = typed(pod(name, **fields))
    assert isinstance(made, Pod)
    return made


def pod_spec(**fields: Any) -> PodSpec:
    return msgspec.convert(fields, PodSpec)


def owned(kind: str, name: str = "owner") -> Value:
    """Metadata with an owner reference."""
    return {"ownerReferences": [{"apiVersion": "v1", "kind": kind, "name": name, "uid": "1"}]}


def container(name: str = "c", **requests: str) -> Value:
    return {"name": name, "resources": {"requests": requests}}


def node(name: str = "n", **fields: Any) -> Value:
    status = {"capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"}, **fields.pop("status", {})}
    return thing("v1", "Node", name, status=status, **fields)


def claim(name: str = "web-1", *, pool: str | None = "web", **fields: Any) -> Value:
    """A claim of the pool; `spec` adds to one without requirements."""
    metadata = dict(fields.pop("metadata", {}))
    own = {} if pool is None else {"karpenter.sh/nodepool": pool}
    metadata["labels"] = {**own, **metadata.get("labels", {})}
    spec = {"nodeClassRef": CLASS, "requirements": [], **fields.pop("spec", {})}
    return thing("karpenter.sh/v1", "NodeClaim", name, metadata=metadata, spec=spec, **fields)


def pool(name: str = "web", **fields: Any) -> Value:
    """A pool; `template` adds to its template's spec, `labels` are its nodes'."""
    template = {"nodeClassRef": CLASS, "requirements": [], **fields.pop("template", {})}
    made = {"spec": template, "metadata": {"labels": fields.pop("labels", {})}}
    spec = {"template": made, **fields.pop("spec", {})}
    return thing("karpenter.sh/v1", "NodePool", name, spec=spec, **fields)


def typed_pool(name: str = "web", **fields: Any) -> NodePool:
    made = typed(pool(name, **fields))
    assert isinstance(made, NodePool)
    return made


def paired_nodes(*values: Value) -> list[NodeWithClaim]:
    objects = [typed(value) for value in values]
    return pair_nodes_with_claims(
        [each for each in objects if isinstance(each, Node)],
        [each for each in objects if isinstance(each, NodeClaim)],
    )


def paired_node(*values: Value) -> NodeWithClaim:
    [only] = paired_nodes(*values)
    return only


def condition(kind: str, status: str = "True", message: str = "") -> Value:
    return {"type": kind, "status": status, "lastTransitionTime": NOW, "message": message}


def requirement(key: str, *values: str, operator: str = "In") -> Value:
    return {"key": key, "operator": operator, "values": list(values)}


def pods(*around: Value) -> PodTranslator:
    """A translator of pods in an input with these objects."""
    objects = [typed(value) for value in around]
    runtimes = RuntimeClasses(each for each in objects if isinstance(each, RuntimeClass))
    priorities = PriorityClasses(each for each in objects if isinstance(each, PriorityClass))
    claims = VolumeClaims((each for each in objects if isinstance(each, PersistentVolumeClaim)), ())
    storage = StorageClasses(each for each in objects if isinstance(each, StorageClass))
    disks = [each for each in objects if isinstance(each, PersistentVolume)]
    places = NodeAffinityTranslator({})
    binding = ConstraintTranslator(places, NamespaceIndex(()))
    return PodTranslator(
        runtimes, priorities, places, binding, VolumeTranslator(claims, storage, disks, {})
    )
