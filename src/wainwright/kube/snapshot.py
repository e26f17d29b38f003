"""What scheduling and disruption depend on, of a whole cluster, as one List that offline commands
read. It only lists. Objects have the fields of our wire structs and no others: pods come without
environment, commands, images and what volumes contain.
"""

import asyncio
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec

from wainwright.api.api_resources import ApiResource, resource_of
from wainwright.api.catalog_documents import InstanceType, NodeOverlay
from wainwright.api.karpenter.auto_mode import NodeClass
from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.cluster import (
    Namespace,
    Node,
    PodDisruptionBudget,
    PriorityClass,
    RuntimeClass,
    Service,
)
from wainwright.api.kubernetes.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from wainwright.api.kubernetes.workloads import (
    DaemonSet,
    Deployment,
    Job,
    Pod,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from wainwright.api.wire import SNAPSHOT_ANNOTATION, WireStruct, to_manifest
from wainwright.clock import Clock
from wainwright.cluster import Cluster
from wainwright.errors import ObjectNotFoundError, RequestForbiddenError
from wainwright.kube.retries import read_with_retries
from wainwright.kube.snapshot_annotations import is_kept_annotation

Manifest = dict[str, Any]

KARPENTER_KINDS: Final[tuple[type[WireStruct], ...]] = (NodePool, NodeClaim, EC2NodeClass)
OPTIONAL_KINDS: Final[tuple[type[WireStruct], ...]] = (NodeOverlay, InstanceType, NodeClass)
"""CRDs that a cluster with Karpenter need not have: ours, and that of EKS Auto Mode."""
CORE_KINDS: Final[tuple[type[WireStruct], ...]] = (
    Node,
    Pod,
    Namespace,
    PodDisruptionBudget,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    CSINode,
    PriorityClass,
    RuntimeClass,
    Deployment,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
    Job,
    ReplicationController,
    Service,
)
SNAPSHOT_KINDS: Final = (*KARPENTER_KINDS, *OPTIONAL_KINDS, *CORE_KINDS)
DISPENSABLE_KINDS: Final[tuple[type[WireStruct], ...]] = (Service,)
"""Only default constraints of the scheduler depend on them. They are left out where they may not be
listed, so that a role made before they were part of a snapshot is still enough for one.
"""
LIST_SECONDS: Final = 20.0
"""Waited at most for one list that is refused for the moment: it is repeated up to five times."""
RIGHTS_HINT: Final = "`wain snapshot --rbac | kubectl apply -f -` makes a role that may; bind it"
CHANGING_METADATA: Final = ("resourceVersion", "managedFields")
"""Changes with every heartbeat of a node, and means nothing outside the cluster."""


class ClusterSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The objects in the order of kind, namespace and name, and what could not be had."""

    items: list[Manifest]
    missing_kinds: tuple[ApiResource, ...] = ()
    """Of Karpenter, and not served by this cluster."""
    left_out: tuple[str, ...] = ()
    """What the API server said of kinds that may not be listed and can be done without."""
    unreadable: int = 0

    def to_json(self) -> bytes:
        """The same bytes for the same cluster."""
        document = {
            "apiVersion": "v1",
            "kind": "List",
            "metadata": {"annotations": {SNAPSHOT_ANNOTATION: "v1"}},
            "items": self.items,
        }
        encoded = msgspec.json.encode(document, order="sorted")
        return msgspec.json.format(encoded, indent=1) + b"\n"


async def take_snapshot(cluster: Cluster, clock: Clock, *, seed: str = "") -> ClusterSnapshot:
    """Lists every kind once; RequestForbiddenError names all that may not be listed. A list that is
    refused for the moment is repeated: so many at once are what a busy API server refuses first.
    `seed`: of the waits, another in each process.
    """
    found = await asyncio.gather(*(_list(cluster, kind, clock, seed) for kind in SNAPSHOT_KINDS))
    refused = [each for each in found if isinstance(each, _RefusedList)]
    if not all(each.is_dispensable for each in refused):
        raise _combined([each.error for each in refused])
    lists = [each for each in found if isinstance(each, _Listed)]
    items = [manifest for each in lists for manifest in map(snapshot_manifest, each.objects)]
    return ClusterSnapshot(
        items=sorted(items, key=_order),
        missing_kinds=tuple(
            resource_of(each.kind)
            for each in lists
            if each.objects is NOT_SERVED and each.kind in KARPENTER_KINDS
        ),
        left_out=tuple(each.error.message for each in refused),
        unreadable=sum(each.unreadable for each in lists),
    )


NOT_SERVED: Final[tuple[WireStruct, ...]] = ()


class _Listed(msgspec.Struct, frozen=True):
    kind: type[WireStruct]
    objects: Sequence[WireStruct]
    unreadable: int = 0


class _RefusedList(msgspec.Struct, frozen=True):
    kind: type[WireStruct]
    error: RequestForbiddenError

    @property
    def is_dispensable(self) -> bool:
        return self.kind in DISPENSABLE_KINDS and self.error.status == HTTPStatus.FORBIDDEN


async def _list(
    cluster: Cluster, kind: type[WireStruct], clock: Clock, seed: str
) -> _Listed | _RefusedList:
    try:
        listed = await read_with_retries(
            lambda: cluster.list(kind), clock, longest=LIST_SECONDS, seed=f"{seed} {kind.__name__}"
        )
    except ObjectNotFoundError:
        return _Listed(kind, NOT_SERVED)
    except RequestForbiddenError as error:
        return _RefusedList(kind, error)
    return _Listed(kind, listed.items, len(listed.unreadable))


def _combined(refused: Sequence[RequestForbiddenError]) -> RequestForbiddenError:
    """One line for each; a refusal of the credentials is the same for all of them."""
    messages = list(dict.fromkeys(each.message for each in refused))
    combined = RequestForbiddenError("\n  ".join(messages), refused[0].status)
    combined.hint = (
        "the server does not accept the credentials of this context: log in again"
        if refused[0].status == 401
        else RIGHTS_HINT
    )
    return combined


def snapshot_manifest(obj: WireStruct) -> Manifest:
    """The object without what changes all the time, and without annotations of others."""
    manifest = to_manifest(obj)
    metadata: Manifest = {
        key: value
        for key, value in manifest.get("metadata", {}).items()
        if key not in CHANGING_METADATA
    }
    manifest = {**manifest, "metadata": metadata}
    for condition in manifest.get("status", {}).get("conditions") or ():
        condition.pop("lastHeartbeatTime", None)
    if isinstance(obj, NodePool):
        # Nodes drift when any annotation of its template changes, whoever reads it.
        return {**manifest, "metadata": _without_foreign_annotations(metadata)}
    kept: Manifest = _without_foreign_annotations(manifest)
    return kept


def _without_foreign_annotations(value: Any) -> Any:
    """Of the object itself and of the templates in it."""
    if isinstance(value, list):
        return [_without_foreign_annotations(each) for each in value]
    if not isinstance(value, dict):
        return value
    kept = {key: _without_foreign_annotations(item) for key, item in value.items()}
    annotations = kept.get("annotations")
    if isinstance(annotations, dict):
        kept["annotations"] = {
            key: text for key, text in annotations.items() if is_kept_annotation(key)
        }
        if not kept["annotations"]:
            del kept["annotations"]
    return kept


def _order(manifest: Manifest) -> tuple[str, str, str]:
    metadata = manifest["metadata"]
    return manifest["kind"], metadata.get("namespace", ""), metadata.get("name", "")


def snapshot_rules(name: str = "wainwright-snapshot") -> list[Manifest]:
    """A ClusterRole with all that a snapshot needs, and nothing else."""
    by_group: dict[str, list[str]] = {}
    for resource in map(resource_of, SNAPSHOT_KINDS):
        by_group.setdefault(resource.group.partition("/")[0], []).append(resource.plural)
    rules = [
        {"apiGroups": [group], "resources": sorted(plurals), "verbs": ["get", "list"]}
        for group, plurals in sorted(by_group.items())
    ]
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": rules,
    }
    return [role]


def describe_missing(missing: Iterable[ApiResource]) -> str:
    """A sentence on kinds that the cluster does not serve; empty where there are none."""
    names = ", ".join(each.qualified_plural for each in missing)
    return f"the cluster serves no {names}: the CRDs are not installed" if names else ""


def describe_left_out(left_out: Sequence[str]) -> str:
    """A sentence on kinds that may not be listed and were left out; empty where there are none."""
    if not left_out:
        return ""
    said = "; ".join(left_out)
    return f"left out: {said}; the default constraints of a --scheduler-config depend on them"
