"""Objects as manifests write them, typed, with defaults where a test does not care."""

from typing import Any

import msgspec

from wainwright.api.builtin import KINDS, decode
from wainwright.api.builtin.node import Node
from wainwright.api.builtin.pod import Pod, PodSpec
from wainwright.api.builtin.policy import PriorityClass, RuntimeClass
from wainwright.api.builtin.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from wainwright.api.kinds import known
from wainwright.api.nodeclaim import NodeClaim
from wainwright.api.nodepool import NodePool
from wainwright.api.wire import Wire
from wainwright.manifests.translate import Translated, snapshot
from wainwright.manifests.translate.affinity import Places
from wainwright.manifests.translate.bonds import Binding
from wainwright.manifests.translate.claims import Claims
from wainwright.manifests.translate.machines import Machine, paired
from wainwright.manifests.translate.namespaces import Namespaces
from wainwright.manifests.translate.pods import Pods
from wainwright.manifests.translate.priorities import Priorities
from wainwright.manifests.translate.runtimes import Runtimes
from wainwright.manifests.translate.storage import Storage
from wainwright.manifests.translate.volumes import Volumes
from wainwright.manifests.world import World

Value = dict[str, Any]

CLASS = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
NOW = "2026-01-01T00:00:00Z"


def typed(value: Value) -> Wire:
    version, kind = value["apiVersion"], value["kind"]
    if (version, kind) in KINDS:
        return decode(value)
    made: Wire = msgspec.convert(value, known()[version, kind].type)
    return made


def world(*values: Value) -> World:
    made = World()
    made.objects.extend(typed(value) for value in values)
    return made


def translated(*values: Value) -> Translated:
    return snapshot(world(*values))


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
    """Metadata of what is owned."""
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


def machines(*values: Value) -> list[Machine]:
    objects = [typed(value) for value in values]
    return paired(
        [each for each in objects if isinstance(each, Node)],
        [each for each in objects if isinstance(each, NodeClaim)],
    )


def machine(*values: Value) -> Machine:
    [only] = machines(*values)
    return only


def condition(kind: str, status: str = "True", message: str = "") -> Value:
    return {"type": kind, "status": status, "lastTransitionTime": NOW, "message": message}


def requirement(key: str, *values: str, operator: str = "In") -> Value:
    return {"key": key, "operator": operator, "values": list(values)}


def pods(*around: Value) -> Pods:
    """Translates pods in the midst of these objects."""
    objects = [typed(value) for value in around]
    runtimes = Runtimes(each for each in objects if isinstance(each, RuntimeClass))
    priorities = Priorities(each for each in objects if isinstance(each, PriorityClass))
    claims = Claims((each for each in objects if isinstance(each, PersistentVolumeClaim)), ())
    storage = Storage(each for each in objects if isinstance(each, StorageClass))
    disks = [each for each in objects if isinstance(each, PersistentVolume)]
    places = Places({})
    binding = Binding(places, Namespaces(()))
    return Pods(runtimes, priorities, places, binding, Volumes(claims, storage, disks, {}))
