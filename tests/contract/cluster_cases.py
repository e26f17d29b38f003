"""The contract of the cluster port, case by case. `test_cluster.py` runs all of them on the one in
memory, `tests/integration/test_cluster.py` on a real kube-apiserver.

Where the real server's answer surprised, the case says so.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from datetime import datetime
from typing import Any, NamedTuple

import pytest
from tests.support.tested_clusters import Case, Manifest, TestedCluster

from wainwright.api.api_resources import served_resources
from wainwright.api.karpenter.auto_mode import NodeClass
from wainwright.api.karpenter.nodeclaim import NodeClaim, NodeClaimSpec
from wainwright.api.karpenter.nodepool import (
    NodePool,
    NodePoolSpec,
    NodePoolStatus,
    NodePoolTemplate,
    NodePoolTemplateSpec,
)
from wainwright.api.karpenter.shared_fields import NodeClassRef
from wainwright.api.kubernetes.cluster import Namespace, Node, PodDisruptionBudget
from wainwright.api.kubernetes.meta import ObjectReference
from wainwright.api.kubernetes.operations import (
    CapacityBuffer,
    ConfigMap,
    Event,
    Lease,
    LeaseSpec,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
)
from wainwright.api.kubernetes.workloads import Pod
from wainwright.api.wire import ObjectMeta, WireStruct
from wainwright.cluster import EventType, ObjectList, Preconditions, WatchEvent
from wainwright.errors import (
    AlreadyExistsError,
    ConflictError,
    EvictionBlockedError,
    InvalidObjectError,
    KubernetesError,
    ObjectNotFoundError,
    RequestForbiddenError,
    ResourceVersionGoneError,
)
from wainwright.sim.api_server import InMemoryApiServer

FINALIZER = "karpenter.sh/termination"
CLASS_REF = NodeClassRef(group="karpenter.k8s.aws", kind="EC2NodeClass", name="default")


CASES: dict[str, Case] = {}
"""By name, which is a sentence about the port."""


def on_each_cluster(case: Case) -> Case:
    CASES[case.__name__] = case
    return case


def node_pool(tested: TestedCluster, base: str = "pool", **metadata: Any) -> NodePool:
    template = NodePoolTemplate(spec=NodePoolTemplateSpec(nodeClassRef=CLASS_REF, requirements=[]))
    return NodePool(
        metadata=ObjectMeta(name=tested.name(base), **metadata),
        spec=NodePoolSpec(template=template),
    )


def pod_manifest(tested: TestedCluster, name: str, **changes: Any) -> Manifest:
    spec = {"containers": [{"name": "app", "image": "app"}], **changes.pop("spec", {})}
    metadata = {"name": name, "namespace": tested.namespace, **changes}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def create_pod(tested: TestedCluster, name: str, **changes: Any) -> Pod:
    await tested.apply(pod_manifest(tested, name, **changes))
    return await tested.cluster.get(Pod, name, tested.namespace)


async def create_running_pod(tested: TestedCluster, name: str, *, ready: bool = True) -> Pod:
    """A pod of the app web on a node."""
    await create_pod(tested, name, labels={"app": "web"}, spec={"nodeName": "node"})
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    status = {"phase": "Running", "conditions": [condition]}
    return await tested.cluster.patch_status(Pod, name, {"status": status}, tested.namespace)


async def create_budget(tested: TestedCluster, name: str, allowed: int, **spec: Any) -> None:
    """A budget for the app web as its controller would leave it; nobody runs one here."""
    selector = {"matchLabels": {"app": "web"}}
    await tested.apply(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": tested.namespace},
            "spec": {"minAvailable": 1, "selector": selector, **spec},
        }
    )
    status = {
        "disruptionsAllowed": allowed,
        "currentHealthy": 1 + allowed,
        "desiredHealthy": 1,
        "expectedPods": 2,
        "observedGeneration": 1,
    }
    await tested.cluster.patch_status(
        PodDisruptionBudget, name, {"status": status}, tested.namespace
    )


async def is_there(tested: TestedCluster, kind: type[WireStruct], name: str) -> bool:
    namespace = tested.namespace if kind is Pod else ""
    try:
        await tested.cluster.get(kind, name, namespace)
    except ObjectNotFoundError:
        return False
    return True


async def raised(error: type[KubernetesError], request: Awaitable[object]) -> Any:
    with pytest.raises(error) as caught:
        await request
    return caught.value


class Change(NamedTuple):
    type: EventType
    resource_version: str
    object: Any


async def next_events(
    tested: TestedCluster, kind: type[Any], version: str, number: int
) -> list[Change]:
    """The next changes of objects of this test, without bookmarks."""
    found: list[Change] = []
    async with asyncio.timeout(20), aclosing(tested.cluster.watch(kind, version)) as events:
        async for event in events:
            if event.object is not None and tested.namespace in str(event.object.metadata):
                found.append(Change(event.type, event.resource_version, event.object))
            if len(found) == number:
                return found
    raise AssertionError(f"the watch ended after {found}")


# Creation


@on_each_cluster
async def a_created_object_has_identity_version_and_defaults(tested: TestedCluster) -> None:
    created = await tested.cluster.create(node_pool(tested))
    metadata = created.metadata
    assert metadata.uid
    assert int(metadata.resourceVersion) > 0
    assert metadata.generation == 1
    assert metadata.creationTimestamp is not None
    assert datetime.fromisoformat(metadata.creationTimestamp).tzinfo is not None
    assert created.spec.disruption.budgets[0].nodes == "10%"
    assert created.spec.template.spec.expireAfter == "720h"
    assert await tested.cluster.get(NodePool, tested.name("pool")) == created


@on_each_cluster
async def a_created_object_has_no_status_whatever_was_sent(tested: TestedCluster) -> None:
    sent = NodePool(
        spec=node_pool(tested).spec,
        metadata=ObjectMeta(name=tested.name("pool")),
        status=NodePoolStatus(nodes=7),
    )
    assert (await tested.cluster.create(sent)).status is None


@on_each_cluster
async def an_object_that_was_read_can_be_created_under_another_name(
    tested: TestedCluster,
) -> None:
    first = await tested.cluster.create(node_pool(tested))
    metadata = ObjectMeta(
        name=tested.name("copy"), uid=first.metadata.uid, resourceVersion="1", generation=9
    )
    copy = await tested.cluster.create(NodePool(spec=first.spec, metadata=metadata))
    assert copy.metadata.uid != first.metadata.uid
    assert copy.metadata.generation == 1


@on_each_cluster
async def a_name_can_be_generated(tested: TestedCluster) -> None:
    sent = NodePool(
        spec=node_pool(tested).spec, metadata=ObjectMeta(generateName=tested.name("pool") + "-")
    )
    names = [(await tested.cluster.create(sent)).metadata.name for _ in range(2)]
    assert all(name.startswith(tested.name("pool") + "-") for name in names)
    assert len(set(names)) == 2


@on_each_cluster
async def a_name_is_taken_once(tested: TestedCluster) -> None:
    await tested.cluster.create(node_pool(tested))
    error = await raised(AlreadyExistsError, tested.cluster.create(node_pool(tested)))
    assert f'nodepools.karpenter.sh "{tested.name("pool")}" already exists' in str(error)


@on_each_cluster
async def what_does_not_exist_is_not_found(tested: TestedCluster) -> None:
    cluster, name = tested.cluster, tested.name("nobody")
    error = await raised(ObjectNotFoundError, cluster.get(NodePool, name))
    assert str(error) == f'nodepools.karpenter.sh "{name}" not found'
    await raised(ObjectNotFoundError, cluster.patch(NodePool, name, {"spec": {"weight": 1}}))
    await raised(ObjectNotFoundError, cluster.patch_status(NodePool, name, {"status": {}}))
    await raised(ObjectNotFoundError, cluster.delete(NodePool, name))
    await raised(ObjectNotFoundError, cluster.evict(name, tested.namespace))


@on_each_cluster
async def nothing_is_created_in_a_namespace_that_does_not_exist(
    tested: TestedCluster,
) -> None:
    pod = Pod(metadata=ObjectMeta(name="a", namespace=tested.name("nowhere")))
    error = await raised(ObjectNotFoundError, tested.cluster.create(pod))
    assert f'namespaces "{tested.name("nowhere")}" not found' in str(error)


@on_each_cluster
async def a_list_has_all_objects_in_order_and_a_version_to_watch_from(
    tested: TestedCluster,
) -> None:
    for name in ("b", "a", "c"):
        await create_pod(tested, name)
    found = await tested.cluster.list(Pod, tested.namespace)
    assert [pod.metadata.name for pod in found.items] == ["a", "b", "c"]
    newest = max(int(pod.metadata.resourceVersion) for pod in found.items)
    assert int(found.resource_version) >= newest
    everywhere = await tested.cluster.list(Pod)
    assert {pod.metadata.uid for pod in found.items} <= {p.metadata.uid for p in everywhere.items}
    assert (await tested.cluster.list(Pod, tested.name("nowhere"))).items == []


@on_each_cluster
async def the_pods_of_one_node_can_be_listed(tested: TestedCluster) -> None:
    """More of them than a page holds, as always the newest, and those that are being deleted."""
    node, other = tested.name("node"), tested.name("other")
    for name in "gfedcba":
        await create_pod(tested, name, spec={"nodeName": node})
    await create_pod(tested, "h")
    await create_pod(tested, "i", spec={"nodeName": other})
    await tested.cluster.delete(Pod, "a", tested.namespace, grace_period=0)
    await tested.cluster.delete(Pod, "b", tested.namespace)
    await tested.cluster.bind("h", tested.namespace, node)
    found = await tested.cluster.list_pods_on_node(node)
    assert [pod.metadata.name for pod in found.items] == [*"bcdefgh"]
    assert {pod.spec.nodeName for pod in found.items} == {node}
    assert (await tested.cluster.list_pods_on_node(tested.name("nowhere"))).items == []


# Validation


@on_each_cluster
async def a_rule_names_the_field_that_breaks_it(tested: TestedCluster) -> None:
    hostname = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["a"]}
    await tested.cluster.create(node_pool(tested))
    patch = {"spec": {"template": {"spec": {"requirements": [hostname]}}}}
    error = await raised(
        InvalidObjectError, tested.cluster.patch(NodePool, tested.name("pool"), patch)
    )
    assert [each.field for each in error.fields] == ["spec.template.spec.requirements[0].key"]
    assert "kubernetes.io/hostname is different on every node" in error.fields[0].message


@on_each_cluster
async def every_invalid_field_is_named(tested: TestedCluster) -> None:
    await tested.cluster.create(node_pool(tested))
    patch = {"spec": {"weight": 0, "limits": {"cpu": "plenty"}}}
    error = await raised(
        InvalidObjectError, tested.cluster.patch(NodePool, tested.name("pool"), patch)
    )
    assert sorted(each.field for each in error.fields) == ["spec.limits.cpu", "spec.weight"]
    assert (await tested.cluster.get(NodePool, tested.name("pool"))).spec.weight is None


@on_each_cluster
async def a_value_of_the_wrong_type_is_invalid(tested: TestedCluster) -> None:
    await tested.cluster.create(node_pool(tested))
    patch = {"spec": {"weight": "heavy"}}
    error = await raised(
        InvalidObjectError, tested.cluster.patch(NodePool, tested.name("pool"), patch)
    )
    assert [each.field for each in error.fields] == ["spec.weight"]


@on_each_cluster
async def creation_is_validated(tested: TestedCluster) -> None:
    invalid = NodePool(
        metadata=ObjectMeta(name=tested.name("pool")),
        spec=NodePoolSpec(template=node_pool(tested).spec.template, weight=101),
    )
    error = await raised(InvalidObjectError, tested.cluster.create(invalid))
    assert [each.field for each in error.fields] == ["spec.weight"]
    assert not await is_there(tested, NodePool, tested.name("pool"))
    misnamed = NodePool(metadata=ObjectMeta(name="Not_a_name"), spec=invalid.spec)
    error = await raised(InvalidObjectError, tested.cluster.create(misnamed))
    assert "metadata.name" in [each.field for each in error.fields]


@on_each_cluster
async def a_rule_compares_with_the_object_before(tested: TestedCluster) -> None:
    await tested.cluster.create(
        NodeClaim(
            metadata=ObjectMeta(name=tested.name("claim")),
            spec=NodeClaimSpec(nodeClassRef=CLASS_REF, requirements=[]),
        )
    )
    patch = {"spec": {"expireAfter": "1h"}}
    error = await raised(
        InvalidObjectError, tested.cluster.patch(NodeClaim, tested.name("claim"), patch)
    )
    assert [each.field for each in error.fields] == ["spec"]
    same = {"spec": {"expireAfter": "720h"}, "metadata": {"labels": {"a": "b"}}}
    patched = await tested.cluster.patch(NodeClaim, tested.name("claim"), same)
    assert (patched.metadata.labels, patched.metadata.generation) == ({"a": "b"}, 1)


@on_each_cluster
async def the_status_is_validated(tested: TestedCluster) -> None:
    await tested.cluster.create(node_pool(tested))
    condition = {"type": "Ready", "status": "Maybe", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    request = tested.cluster.patch_status(
        NodePool, tested.name("pool"), {"status": {"conditions": [condition]}}
    )
    error = await raised(InvalidObjectError, request)
    assert [each.field for each in error.fields] == ["status.conditions[0].status"]


@on_each_cluster
async def a_pod_needs_containers(tested: TestedCluster) -> None:
    pod = Pod(metadata=ObjectMeta(name="empty", namespace=tested.namespace))
    error = await raised(InvalidObjectError, tested.cluster.create(pod))
    assert [each.field for each in error.fields] == ["spec.containers"]


@on_each_cluster
async def labels_are_validated(tested: TestedCluster) -> None:
    pool = node_pool(tested, labels={"team": "not a label value"})
    error = await raised(InvalidObjectError, tested.cluster.create(pool))
    assert error.fields[0].field.startswith("metadata.labels")


# Merge patches


@on_each_cluster
async def a_patch_merges_maps_deletes_by_null_and_replaces_lists(
    tested: TestedCluster,
) -> None:
    cluster, name = tested.cluster, tested.name("pool")
    await cluster.create(node_pool(tested, labels={"a": "1", "b": "2"}))
    budgets = [{"nodes": "1"}, {"nodes": "2"}]
    await cluster.patch(NodePool, name, {"spec": {"disruption": {"budgets": budgets}}})
    patch = {
        "metadata": {"labels": {"a": None, "c": "3"}},
        "spec": {"disruption": {"budgets": [{"nodes": "50%"}]}},
    }
    patched = await cluster.patch(NodePool, name, patch)
    assert patched.metadata.labels == {"b": "2", "c": "3"}
    assert [each.nodes for each in patched.spec.disruption.budgets] == ["50%"]
    assert patched.spec.disruption.consolidateAfter == "0s"


@on_each_cluster
async def a_deleted_field_gets_its_default_again(tested: TestedCluster) -> None:
    cluster, name = tested.cluster, tested.name("pool")
    await cluster.create(node_pool(tested, labels={"a": "1"}))
    await cluster.patch(NodePool, name, {"spec": {"disruption": {"consolidateAfter": "5m"}}})
    patch = {"metadata": {"labels": None}, "spec": {"disruption": None}}
    patched = await cluster.patch(NodePool, name, patch)
    assert patched.spec.disruption.consolidateAfter == "0s"
    assert not patched.metadata.labels


@on_each_cluster
async def a_patch_of_a_version_that_is_gone_conflicts(tested: TestedCluster) -> None:
    cluster, name = tested.cluster, tested.name("pool")
    first = await cluster.create(node_pool(tested))
    second = await cluster.patch(NodePool, name, {"spec": {"weight": 5}})
    stale = {"metadata": {"resourceVersion": first.metadata.resourceVersion}}
    await raised(ConflictError, cluster.patch(NodePool, name, {**stale, "spec": {"weight": 6}}))
    await raised(
        ConflictError, cluster.patch_status(NodePool, name, {**stale, "status": {"nodes": 1}})
    )
    fresh = {"metadata": {"resourceVersion": second.metadata.resourceVersion}}
    patched = await cluster.patch(NodePool, name, {**fresh, "spec": {"weight": 6}})
    assert patched.spec.weight == 6


@on_each_cluster
async def a_patch_that_changes_nothing_keeps_the_version(tested: TestedCluster) -> None:
    cluster, name = tested.cluster, tested.name("pool")
    created = await cluster.create(node_pool(tested, labels={"a": "1"}))
    patch = {"metadata": {"labels": {"a": "1"}}, "spec": {"disruption": {"consolidateAfter": "0s"}}}
    assert await cluster.patch(NodePool, name, patch) == created


@on_each_cluster
async def an_empty_map_is_no_map(tested: TestedCluster) -> None:
    cluster, name = tested.cluster, tested.name("pool")
    created = await cluster.create(node_pool(tested))
    patch = {"metadata": {"labels": {}, "annotations": {"a": None}, "finalizers": []}}
    assert await cluster.patch(NodePool, name, patch) == created


@on_each_cluster
async def unknown_fields_are_dropped(tested: TestedCluster) -> None:
    cluster, name = tested.cluster, tested.name("pool")
    created = await cluster.create(node_pool(tested))
    assert await cluster.patch(NodePool, name, {"spec": {"colour": "blue"}}) == created


@on_each_cluster
async def identity_cannot_be_patched(tested: TestedCluster) -> None:
    cluster, name = tested.cluster, tested.name("pool")
    await cluster.create(node_pool(tested))
    error = await raised(
        InvalidObjectError, cluster.patch(NodePool, name, {"metadata": {"uid": "other"}})
    )
    assert [each.field for each in error.fields] == ["metadata.uid"]
    rename = {"metadata": {"name": tested.name("other")}}
    assert (
        await raised(RequestForbiddenError, cluster.patch(NodePool, name, rename))
    ).status == 400


@on_each_cluster
async def the_generation_counts_changes_of_the_spec_only(tested: TestedCluster) -> None:
    cluster, name = tested.cluster, tested.name("pool")
    await cluster.create(node_pool(tested))
    labelled = await cluster.patch(NodePool, name, {"metadata": {"labels": {"a": "1"}}})
    assert labelled.metadata.generation == 1
    weighted = await cluster.patch(NodePool, name, {"spec": {"weight": 5}})
    assert weighted.metadata.generation == 2
    reported = await cluster.patch_status(NodePool, name, {"status": {"nodes": 3}})
    assert reported.metadata.generation == 2


@on_each_cluster
async def spec_and_status_are_written_separately(tested: TestedCluster) -> None:
    cluster, name = tested.cluster, tested.name("pool")
    await cluster.create(node_pool(tested))
    both = {"spec": {"weight": 5}, "status": {"nodes": 3}}
    patched = await cluster.patch(NodePool, name, both)
    assert (patched.spec.weight, patched.status) == (5, None)
    patched = await cluster.patch_status(NodePool, name, {**both, "spec": {"weight": 9}})
    assert patched.status is not None
    assert (patched.spec.weight, patched.status.nodes) == (5, 3)


@on_each_cluster
async def the_status_of_our_kinds_cannot_carry_metadata(tested: TestedCluster) -> None:
    cluster, name = tested.cluster, tested.name("pool")
    await cluster.create(node_pool(tested))
    patch = {"metadata": {"labels": {"a": "1"}}, "status": {"nodes": 3}}
    assert (await cluster.patch_status(NodePool, name, patch)).metadata.labels is None


@on_each_cluster
async def a_status_can_be_taken_away(tested: TestedCluster) -> None:
    cluster, name = tested.cluster, tested.name("pool")
    await cluster.create(node_pool(tested))
    await cluster.patch_status(NodePool, name, {"status": {"nodes": 3}})
    assert (await cluster.patch_status(NodePool, name, {"status": None})).status is None
    error = await raised(InvalidObjectError, cluster.patch(NodePool, name, {"spec": None}))
    assert "spec" in [each.field for each in error.fields]


@on_each_cluster
async def what_the_server_sets_cannot_be_taken_away(tested: TestedCluster) -> None:
    cluster, name = tested.cluster, tested.name("pool")
    created = await cluster.create(node_pool(tested))
    patch = {"metadata": {"uid": None, "creationTimestamp": None, "generation": None}}
    assert await cluster.patch(NodePool, name, patch) == created


@on_each_cluster
async def a_version_of_null_is_refused_for_our_kinds_only(tested: TestedCluster) -> None:
    cluster, name = tested.cluster, tested.name("pool")
    await cluster.create(node_pool(tested))
    patch = {"metadata": {"resourceVersion": None, "labels": {"a": "b"}}}
    error = await raised(InvalidObjectError, cluster.patch(NodePool, name, patch))
    assert [each.field for each in error.fields] == ["metadata.resourceVersion"]
    await create_pod(tested, "web")
    patched = await cluster.patch(Pod, "web", patch, tested.namespace)
    assert patched.metadata.labels == {"a": "b"}


@on_each_cluster
async def kinds_without_a_status_have_none_to_patch(tested: TestedCluster) -> None:
    metadata = ObjectMeta(name="settings", namespace=tested.namespace)
    await tested.cluster.create(ConfigMap(metadata=metadata))
    request = tested.cluster.patch_status(ConfigMap, "settings", {"status": {}}, tested.namespace)
    await raised(ObjectNotFoundError, request)


# Deletion


@on_each_cluster
async def a_deleted_object_is_gone(tested: TestedCluster) -> None:
    await tested.cluster.create(node_pool(tested))
    await tested.cluster.delete(NodePool, tested.name("pool"))
    assert not await is_there(tested, NodePool, tested.name("pool"))


@on_each_cluster
async def finalizers_keep_an_object_that_is_being_deleted(tested: TestedCluster) -> None:
    cluster, name = tested.cluster, tested.name("pool")
    await cluster.create(node_pool(tested, finalizers=[FINALIZER]))
    await cluster.delete(NodePool, name)
    marked = await cluster.get(NodePool, name)
    assert marked.metadata.deletionTimestamp is not None
    assert marked.metadata.generation == 2  # a deletion counts as a change of what is wanted
    await cluster.delete(NodePool, name)
    assert await cluster.get(NodePool, name) == marked
    error = await raised(AlreadyExistsError, cluster.create(node_pool(tested)))
    assert "object is being deleted" in str(error)
    await cluster.patch(NodePool, name, {"metadata": {"finalizers": None}})
    assert not await is_there(tested, NodePool, name)


@on_each_cluster
async def an_object_that_is_being_deleted_can_be_changed_but_not_kept(
    tested: TestedCluster,
) -> None:
    cluster, name = tested.cluster, tested.name("pool")
    await cluster.create(node_pool(tested, finalizers=[FINALIZER]))
    await cluster.delete(NodePool, name)
    assert (await cluster.patch(NodePool, name, {"spec": {"weight": 3}})).spec.weight == 3
    more = {"metadata": {"finalizers": [FINALIZER, "example.com/more"]}}
    error = await raised(InvalidObjectError, cluster.patch(NodePool, name, more))
    assert [each.field for each in error.fields] == ["metadata.finalizers"]
    undo = {"metadata": {"deletionTimestamp": None}}
    await cluster.patch(NodePool, name, undo)
    assert (await cluster.get(NodePool, name)).metadata.deletionTimestamp is not None


@on_each_cluster
async def a_deletion_can_require_an_object_and_its_version(tested: TestedCluster) -> None:
    cluster, name = tested.cluster, tested.name("pool")
    created = await cluster.create(node_pool(tested))
    for wrong in (Preconditions(uid="other"), Preconditions(resource_version="1")):
        await raised(ConflictError, cluster.delete(NodePool, name, preconditions=wrong))
    metadata = created.metadata
    right = Preconditions(uid=metadata.uid, resource_version=metadata.resourceVersion)
    await cluster.delete(NodePool, name, preconditions=right)
    assert not await is_there(tested, NodePool, name)


@on_each_cluster
async def the_first_namespaces_cannot_be_deleted(tested: TestedCluster) -> None:
    for name in ("default", "kube-public", "kube-system"):
        error = await raised(RequestForbiddenError, tested.cluster.delete(Namespace, name))
        assert error.status == 403
    assert await is_there(tested, Namespace, "default")


# Pods


@on_each_cluster
async def a_new_pod_is_pending_with_the_defaults_of_admission(tested: TestedCluster) -> None:
    pod = await create_pod(tested, "new")
    assert pod.status.phase == "Pending"
    assert (pod.spec.terminationGracePeriodSeconds, pod.spec.priority) == (30, 0)
    assert (pod.spec.restartPolicy, pod.spec.schedulerName) == ("Always", "default-scheduler")
    tolerated = [
        (each.key, each.effect, each.tolerationSeconds) for each in pod.spec.tolerations or ()
    ]
    assert tolerated == [
        ("node.kubernetes.io/not-ready", "NoExecute", 300),
        ("node.kubernetes.io/unreachable", "NoExecute", 300),
    ]


@on_each_cluster
async def a_pod_that_tolerates_everything_gets_no_more_tolerations(tested: TestedCluster) -> None:
    everything = [{"operator": "Exists"}]
    pod = await create_pod(tested, "new", spec={"tolerations": everything})
    assert [(each.key, each.effect) for each in pod.spec.tolerations or ()] == [("", "")]


@on_each_cluster
async def tolerations_of_a_pod_can_be_added_but_not_removed(tested: TestedCluster) -> None:
    cluster, namespace = tested.cluster, tested.namespace
    await create_pod(tested, "new", spec={"tolerations": [{"operator": "Exists"}]})
    more = [{"operator": "Exists"}, {"key": "a", "operator": "Exists"}]
    patched = await cluster.patch(Pod, "new", {"spec": {"tolerations": more}}, namespace)
    assert [each.key for each in patched.spec.tolerations or ()] == ["", "a"]
    fewer = {"spec": {"tolerations": more[1:]}}
    await raised(InvalidObjectError, cluster.patch(Pod, "new", fewer, namespace))


@on_each_cluster
async def a_pod_of_a_critical_priority_class_has_its_priority(tested: TestedCluster) -> None:
    pod = await create_pod(tested, "new", spec={"priorityClassName": "system-node-critical"})
    assert pod.spec.priority == 2_000_001_000


@on_each_cluster
async def a_pod_is_bound_once(tested: TestedCluster) -> None:
    await create_pod(tested, "new")
    await tested.cluster.bind("new", tested.namespace, "node-1")
    bound = await tested.cluster.get(Pod, "new", tested.namespace)
    assert (bound.spec.nodeName, bound.metadata.generation) == ("node-1", 1)
    conditions = [(each.type, each.status) for each in bound.status.conditions or ()]
    assert conditions == [("PodScheduled", "True")]
    await raised(ConflictError, tested.cluster.bind("new", tested.namespace, "node-2"))


@on_each_cluster
async def a_pod_that_is_being_deleted_is_not_bound(tested: TestedCluster) -> None:
    await create_pod(tested, "new", finalizers=["example.com/keep"])
    await tested.cluster.delete(Pod, "new", tested.namespace)
    await raised(ConflictError, tested.cluster.bind("new", tested.namespace, "node"))


@on_each_cluster
async def a_negative_grace_period_is_a_second(tested: TestedCluster) -> None:
    await create_running_pod(tested, "web")
    await tested.cluster.delete(Pod, "web", tested.namespace, grace_period=-1)
    marked = await tested.cluster.get(Pod, "web", tested.namespace)
    assert marked.metadata.deletionGracePeriodSeconds == 1


@on_each_cluster
async def the_spec_of_a_pod_cannot_be_changed(tested: TestedCluster) -> None:
    await create_pod(tested, "new")
    patch = {"spec": {"nodeName": "node-1"}}
    error = await raised(
        InvalidObjectError, tested.cluster.patch(Pod, "new", patch, tested.namespace)
    )
    assert [each.field for each in error.fields] == ["spec"]


@on_each_cluster
async def a_pod_that_no_kubelet_runs_is_deleted_at_once(tested: TestedCluster) -> None:
    await create_pod(tested, "unbound")
    await create_running_pod(tested, "finished")
    await tested.cluster.patch_status(
        Pod, "finished", {"status": {"phase": "Succeeded"}}, tested.namespace
    )
    for name in ("unbound", "finished"):
        await tested.cluster.delete(Pod, name, tested.namespace)
        assert not await is_there(tested, Pod, name)


def seconds_between(earlier: str | None, later: str | None) -> float:
    assert earlier is not None
    assert later is not None
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()


@on_each_cluster
async def a_pod_on_a_node_waits_for_its_kubelet(tested: TestedCluster) -> None:
    cluster, namespace = tested.cluster, tested.namespace
    await create_running_pod(tested, "web")
    await cluster.delete(Pod, "web", namespace)
    marked = (await cluster.get(Pod, "web", namespace)).metadata
    assert (marked.deletionGracePeriodSeconds, marked.generation) == (30, 2)
    assert 29 <= seconds_between(marked.creationTimestamp, marked.deletionTimestamp) <= 40
    await asyncio.sleep(1.1)  # of real time where the server's clock is the real one
    await cluster.delete(Pod, "web", namespace, grace_period=60)  # never made longer
    assert (await cluster.get(Pod, "web", namespace)).metadata == marked
    await cluster.delete(Pod, "web", namespace, grace_period=5)
    shorter = (await cluster.get(Pod, "web", namespace)).metadata
    assert shorter.deletionGracePeriodSeconds == 5
    # Counted from the first request, not from this one.
    assert seconds_between(shorter.deletionTimestamp, marked.deletionTimestamp) == 25
    await cluster.delete(Pod, "web", namespace, grace_period=0)
    assert not await is_there(tested, Pod, "web")


@on_each_cluster
async def a_stopped_pod_waits_for_its_finalizers(tested: TestedCluster) -> None:
    cluster, namespace = tested.cluster, tested.namespace
    await create_pod(tested, "web", finalizers=["example.com/keep"], spec={"nodeName": "node"})
    await cluster.delete(Pod, "web", namespace)
    await cluster.delete(Pod, "web", namespace, grace_period=0)
    kept = await cluster.get(Pod, "web", namespace)
    assert kept.metadata.deletionGracePeriodSeconds == 0
    await cluster.patch(Pod, "web", {"metadata": {"finalizers": None}}, namespace)
    assert not await is_there(tested, Pod, "web")


@on_each_cluster
async def a_pod_without_finalizers_still_waits_for_its_kubelet(tested: TestedCluster) -> None:
    cluster, namespace = tested.cluster, tested.namespace
    await create_pod(tested, "web", finalizers=["example.com/keep"], spec={"nodeName": "node"})
    await cluster.delete(Pod, "web", namespace)
    await cluster.patch(Pod, "web", {"metadata": {"finalizers": None}}, namespace)
    assert await is_there(tested, Pod, "web")


# Other kinds


def event_of(tested: TestedCluster) -> Event:
    subject = ObjectReference(
        apiVersion="v1", kind="Pod", namespace=tested.namespace, name="web", uid="uid"
    )
    return Event(
        metadata=ObjectMeta(generateName="web.", namespace=tested.namespace),
        involvedObject=subject,
        type="Normal",
        reason="Nominated",
        message="Pod should schedule on: nodeclaim/general-1",
        count=1,
    )


@on_each_cluster
async def an_event_can_be_written_and_counted(tested: TestedCluster) -> None:
    created = await tested.cluster.create(event_of(tested))
    name, namespace = created.metadata.name, tested.namespace
    patched = await tested.cluster.patch(Event, name, {"count": 2}, namespace)
    assert (patched.count, patched.involvedObject) == (2, created.involvedObject)
    assert [each.metadata.name for each in (await tested.cluster.list(Event, namespace)).items] == [
        name
    ]


@on_each_cluster
async def a_lease_is_taken_by_whoever_has_its_version(tested: TestedCluster) -> None:
    metadata = ObjectMeta(name="leader", namespace=tested.namespace)
    spec = LeaseSpec(holderIdentity="a", renewTime="2026-01-01T00:00:00.000000Z")
    created = await tested.cluster.create(Lease(metadata=metadata, spec=spec))
    version = {"resourceVersion": created.metadata.resourceVersion}
    patch = {"metadata": version, "spec": {"holderIdentity": "b"}}
    taken = await tested.cluster.patch(Lease, "leader", patch, tested.namespace)
    assert taken.spec == LeaseSpec(holderIdentity="b", renewTime=spec.renewTime)
    await raised(ConflictError, tested.cluster.patch(Lease, "leader", patch, tested.namespace))


@on_each_cluster
async def the_times_of_a_lease_have_six_digits(tested: TestedCluster) -> None:
    """A real server cannot read others."""
    metadata = ObjectMeta(name="times", namespace=tested.namespace)
    await tested.cluster.create(Lease(metadata=metadata, spec=LeaseSpec(holderIdentity="a")))
    for time in ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.5Z", "now"):
        patch = {"spec": {"renewTime": time}}
        request = tested.cluster.patch(Lease, "times", patch, tested.namespace)
        await raised(InvalidObjectError, request)


@on_each_cluster
async def a_lease_without_a_holder_has_an_empty_one(tested: TestedCluster) -> None:
    """So it is released; a duration of nothing would be refused."""
    metadata = ObjectMeta(name="released", namespace=tested.namespace)
    spec = LeaseSpec(holderIdentity="a", leaseDurationSeconds=15)
    await tested.cluster.create(Lease(metadata=metadata, spec=spec))
    patch = {"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}}
    released = await tested.cluster.patch(Lease, "released", patch, tested.namespace)
    assert not released.spec.holderIdentity
    await raised(
        InvalidObjectError,
        tested.cluster.patch(
            Lease, "released", {"spec": {"leaseDurationSeconds": 0}}, tested.namespace
        ),
    )


@on_each_cluster
async def of_many_patches_of_one_version_one_is_carried_out(tested: TestedCluster) -> None:
    pool = await tested.cluster.create(node_pool(tested, "storm"))
    version = {"resourceVersion": pool.metadata.resourceVersion}

    async def patch(number: int) -> bool:
        labels = {"winner": str(number)}
        try:
            await tested.cluster.patch(
                NodePool, pool.metadata.name, {"metadata": {**version, "labels": labels}}
            )
        except ConflictError:
            return False
        return True

    outcomes = await asyncio.gather(*map(patch, range(12)))
    found = await tested.cluster.get(NodePool, pool.metadata.name)
    assert outcomes.count(True) == 1
    assert (found.metadata.labels or {})["winner"] == str(outcomes.index(True))


@on_each_cluster
async def of_patches_of_any_version_none_is_lost(tested: TestedCluster) -> None:
    """At most five at once: the server itself tries each only so often."""
    pool = await tested.cluster.create(node_pool(tested, "merged"))
    name = pool.metadata.name
    patches = ({"metadata": {"labels": {f"key-{number}": "a"}}} for number in range(5))
    await asyncio.gather(*(tested.cluster.patch(NodePool, name, patch) for patch in patches))
    found = await tested.cluster.get(NodePool, name)
    assert sorted(found.metadata.labels or {}) == [f"key-{number}" for number in range(5)]


@on_each_cluster
async def settings_can_be_watched(tested: TestedCluster) -> None:
    version = (await tested.cluster.list(ConfigMap)).resource_version
    metadata = ObjectMeta(name="settings", namespace=tested.namespace)
    await tested.cluster.create(ConfigMap(metadata=metadata, data={"pause": "all"}))
    await tested.cluster.patch(
        ConfigMap, "settings", {"data": {"pause": None, "other": "1"}}, tested.namespace
    )
    created, changed = await next_events(tested, ConfigMap, version, 2)
    assert (created.object.data, changed.object.data) == ({"pause": "all"}, {"other": "1"})


@on_each_cluster
async def a_volume_attachment_comes_and_goes(tested: TestedCluster) -> None:
    source = VolumeAttachmentSource(persistentVolumeName="volume")
    spec = VolumeAttachmentSpec(attacher="ebs.csi.aws.com", nodeName="node", source=source)
    name = tested.name("attachment")
    created = await tested.cluster.create(
        VolumeAttachment(metadata=ObjectMeta(name=name), spec=spec)
    )
    assert (created.spec, created.status.attached) == (spec, False)
    attached = await tested.cluster.patch_status(
        VolumeAttachment, name, {"status": {"attached": True}}
    )
    assert attached.status.attached
    await tested.cluster.delete(VolumeAttachment, name)
    assert not await is_there(tested, VolumeAttachment, name)


@on_each_cluster
async def a_kind_whose_crd_is_missing_is_not_found(tested: TestedCluster) -> None:
    await raised(ObjectNotFoundError, tested.cluster.list(NodeClass))
    await raised(ObjectNotFoundError, tested.cluster.get(NodeClass, "default"))


@on_each_cluster
async def every_kind_can_be_listed(tested: TestedCluster) -> None:
    for kind in served_resources().keys() - {CapacityBuffer}:  # its CRD is not ours to install
        assert int((await tested.cluster.list(kind)).resource_version) > 0


# Nodes


def node_manifest(tested: TestedCluster, **metadata: Any) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": tested.name("node"), **metadata},
        "spec": {"providerID": "aws:///us-west-2a/i-1"},
        "status": {"capacity": {"cpu": "4"}},
    }


@on_each_cluster
async def a_new_node_is_tainted_and_keeps_the_status_it_came_with(
    tested: TestedCluster,
) -> None:
    await tested.apply(node_manifest(tested))
    node = await tested.cluster.get(Node, tested.name("node"))
    assert [(each.key, each.effect) for each in node.spec.taints or ()] == [
        ("node.kubernetes.io/not-ready", "NoSchedule")
    ]
    assert node.status.capacity == node.status.allocatable == {"cpu": "4"}
    assert node.metadata.generation is None


@on_each_cluster
async def the_provider_id_of_a_node_is_set_once(tested: TestedCluster) -> None:
    await tested.apply(node_manifest(tested))
    patch = {"spec": {"providerID": "aws:///us-west-2a/i-2"}}
    error = await raised(InvalidObjectError, tested.cluster.patch(Node, tested.name("node"), patch))
    assert [each.field for each in error.fields] == ["spec.providerID"]
    without: Manifest = {**node_manifest(tested), "metadata": {"name": tested.name("late")}}
    await tested.apply({**without, "spec": {}})
    patched = await tested.cluster.patch(Node, tested.name("late"), patch)
    assert patched.spec.providerID == "aws:///us-west-2a/i-2"


@on_each_cluster
async def the_status_of_core_kinds_can_carry_metadata_but_no_spec(
    tested: TestedCluster,
) -> None:
    await tested.apply(node_manifest(tested))
    patch = {
        "metadata": {"labels": {"a": "1"}},
        "spec": {"unschedulable": True},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    node = await tested.cluster.patch_status(Node, tested.name("node"), patch)
    assert (node.metadata.labels, node.spec.unschedulable) == ({"a": "1"}, False)
    assert [each.type for each in node.status.conditions or ()] == ["Ready"]


# Evictions


async def allowed(tested: TestedCluster, budget: str = "web") -> int | None:
    found = await tested.cluster.get(PodDisruptionBudget, budget, tested.namespace)
    return found.status.disruptionsAllowed


@on_each_cluster
async def a_pod_without_a_budget_is_evicted(tested: TestedCluster) -> None:
    pod = await create_running_pod(tested, "web-1")
    await tested.cluster.evict("web-1", tested.namespace, uid=pod.metadata.uid, grace_period=7)
    evicted = await tested.cluster.get(Pod, "web-1", tested.namespace)
    assert evicted.metadata.deletionGracePeriodSeconds == 7
    [reason] = [c.reason for c in evicted.status.conditions or () if c.type == "DisruptionTarget"]
    assert reason == "EvictionByEvictionAPI"


@on_each_cluster
async def an_eviction_can_require_the_pod_it_means(tested: TestedCluster) -> None:
    """Of a running pod: for a pending one the real server tries for ten seconds first."""
    await create_running_pod(tested, "web-1")
    await raised(ConflictError, tested.cluster.evict("web-1", tested.namespace, uid="other"))
    pod = await tested.cluster.get(Pod, "web-1", tested.namespace)
    assert pod.metadata.deletionTimestamp is None


@on_each_cluster
async def a_budget_allows_as_many_evictions_as_it_has(tested: TestedCluster) -> None:
    for name in ("web-1", "web-2"):
        await create_running_pod(tested, name)
    await create_budget(tested, "web", allowed=1)
    await tested.cluster.evict("web-1", tested.namespace)
    assert await allowed(tested) == 0
    error = await raised(EvictionBlockedError, tested.cluster.evict("web-2", tested.namespace))
    assert error.status == 429
    assert "The disruption budget web does not allow evicting pods currently" in str(error)
    kept = await tested.cluster.get(Pod, "web-2", tested.namespace)
    assert kept.metadata.deletionTimestamp is None


@on_each_cluster
async def a_budget_says_what_it_lacks(tested: TestedCluster) -> None:
    await create_running_pod(tested, "web-1")
    await create_budget(tested, "web", allowed=0)
    error = await raised(EvictionBlockedError, tested.cluster.evict("web-1", tested.namespace))
    assert "The disruption budget web needs 1 healthy pods and has 1 currently" in str(error)


@on_each_cluster
async def an_eviction_is_counted_once(tested: TestedCluster) -> None:
    await create_running_pod(tested, "web-1")
    await create_budget(tested, "web", allowed=2)
    await tested.cluster.evict("web-1", tested.namespace)
    evicted = await tested.cluster.get(Pod, "web-1", tested.namespace)
    await tested.cluster.evict("web-1", tested.namespace)
    assert await tested.cluster.get(Pod, "web-1", tested.namespace) == evicted
    assert await allowed(tested) == 1
    found = await tested.cluster.get(PodDisruptionBudget, "web", tested.namespace)
    assert list(found.status.disruptedPods or {}) == ["web-1"]


@on_each_cluster
async def a_budget_that_its_controller_has_not_seen_allows_nothing(
    tested: TestedCluster,
) -> None:
    await create_running_pod(tested, "web-1")
    await create_budget(tested, "web", allowed=1)
    changed = {"spec": {"minAvailable": 0}}
    await tested.cluster.patch(PodDisruptionBudget, "web", changed, tested.namespace)
    error = await raised(EvictionBlockedError, tested.cluster.evict("web-1", tested.namespace))
    assert error.retry_after == 10


@on_each_cluster
async def two_budgets_block_every_eviction(tested: TestedCluster) -> None:
    """The real server answers 500, without a reason."""
    await create_running_pod(tested, "web-1")
    for budget in ("web", "again"):
        await create_budget(tested, budget, allowed=1)
    error = await raised(EvictionBlockedError, tested.cluster.evict("web-1", tested.namespace))
    assert "more than one PodDisruptionBudget" in str(error)
    assert (await allowed(tested, "web"), await allowed(tested, "again")) == (1, 1)


@on_each_cluster
async def a_budget_does_not_hold_pods_that_are_not_running(tested: TestedCluster) -> None:
    pending = await create_pod(tested, "pending", labels={"app": "web"}, spec={"nodeName": "node"})
    assert pending.status.phase == "Pending"
    await create_budget(tested, "web", allowed=0)
    await tested.cluster.evict("pending", tested.namespace)
    evicted = await tested.cluster.get(Pod, "pending", tested.namespace)
    assert evicted.metadata.deletionTimestamp is not None


@on_each_cluster
async def an_unready_pod_goes_where_the_budget_is_met_without_it(
    tested: TestedCluster,
) -> None:
    await create_running_pod(tested, "unready", ready=False)
    await create_budget(tested, "web", allowed=0)
    await tested.cluster.evict("unready", tested.namespace)
    assert await allowed(tested) == 0
    await create_running_pod(tested, "another", ready=False)
    unmet = {"status": {"currentHealthy": 0}}
    await tested.cluster.patch_status(PodDisruptionBudget, "web", unmet, tested.namespace)
    await raised(EvictionBlockedError, tested.cluster.evict("another", tested.namespace))


@on_each_cluster
async def a_budget_can_let_every_unready_pod_go(tested: TestedCluster) -> None:
    await create_running_pod(tested, "unready", ready=False)
    await create_budget(tested, "web", allowed=0, unhealthyPodEvictionPolicy="AlwaysAllow")
    unmet = {"status": {"currentHealthy": 0}}
    await tested.cluster.patch_status(PodDisruptionBudget, "web", unmet, tested.namespace)
    await tested.cluster.evict("unready", tested.namespace)
    evicted = await tested.cluster.get(Pod, "unready", tested.namespace)
    assert evicted.metadata.deletionTimestamp is not None


# Watches


def seen(events: list[Change]) -> list[tuple[str, str]]:
    return [(event.type, event.object.metadata.name.partition("-")[0]) for event in events]


@on_each_cluster
async def a_watch_has_every_change_after_a_list_in_order(tested: TestedCluster) -> None:
    cluster = tested.cluster
    await cluster.create(node_pool(tested, "before"))
    version = (await cluster.list(NodePool)).resource_version
    await cluster.create(node_pool(tested, "first"))
    await cluster.create(node_pool(tested, "second"))
    await cluster.patch(NodePool, tested.name("first"), {"spec": {"weight": 5}})
    await cluster.patch_status(NodePool, tested.name("second"), {"status": {"nodes": 1}})
    await cluster.delete(NodePool, tested.name("first"))
    events = await next_events(tested, NodePool, version, 5)
    assert seen(events) == [
        ("ADDED", "first"),
        ("ADDED", "second"),
        ("MODIFIED", "first"),
        ("MODIFIED", "second"),
        ("DELETED", "first"),
    ]
    versions = [int(event.resource_version) for event in events]
    assert versions == sorted(set(versions))
    assert events[2].object.spec.weight == 5
    assert all(e.object.metadata.resourceVersion == e.resource_version for e in events)


@on_each_cluster
async def a_kind_is_followed_from_all_of_its_objects_on(tested: TestedCluster) -> None:
    cluster, names = tested.cluster, (tested.name("first"), tested.name("second"))
    await cluster.create(node_pool(tested, "first"))
    async with asyncio.timeout(20), aclosing(cluster.list_and_watch(NodePool)) as changes:
        listed = await anext(changes)
        assert isinstance(listed, ObjectList)
        assert names[0] in {each.metadata.name for each in listed.items}
        assert int(listed.resource_version) > 0
        await cluster.create(node_pool(tested, "second"))
        assert seen([await _next_change(changes)]) == [("ADDED", "second")]


@on_each_cluster
async def objects_are_listed_by_their_name(tested: TestedCluster) -> None:
    cluster, name = tested.cluster, tested.name("meant")
    await cluster.create(node_pool(tested, "meant"))
    await cluster.create(node_pool(tested, "other"))
    listed = await cluster.list(NodePool, name=name)
    assert [each.metadata.name for each in listed.items] == [name]


@on_each_cluster
async def one_object_is_followed_by_its_name(tested: TestedCluster) -> None:
    cluster, name = tested.cluster, tested.name("meant")
    await cluster.create(node_pool(tested, "meant"))
    await cluster.create(node_pool(tested, "other"))
    followed = cluster.list_and_watch(NodePool, name=name)
    async with asyncio.timeout(20), aclosing(followed) as changes:
        listed = await anext(changes)
        assert isinstance(listed, ObjectList)
        assert [each.metadata.name for each in listed.items] == [name]
        await cluster.patch(NodePool, tested.name("other"), {"spec": {"weight": 5}})
        await cluster.delete(NodePool, name)
        assert seen([await _next_change(changes)]) == [("DELETED", "meant")]


async def _next_change(
    changes: AsyncGenerator[ObjectList[NodePool] | WatchEvent[NodePool], None],
) -> Change:
    async for change in changes:
        if isinstance(change, WatchEvent) and change.object is not None:
            return Change(change.type, change.resource_version, change.object)
    raise AssertionError("the watch has ended")


@on_each_cluster
async def a_watch_resumes_after_the_last_event_seen(tested: TestedCluster) -> None:
    cluster = tested.cluster
    version = (await cluster.list(NodePool)).resource_version
    await cluster.create(node_pool(tested, "first"))
    await cluster.create(node_pool(tested, "second"))
    [first] = await next_events(tested, NodePool, version, 1)
    [second] = await next_events(tested, NodePool, first.resource_version, 1)
    assert seen([first, second]) == [("ADDED", "first"), ("ADDED", "second")]


@on_each_cluster
async def a_watch_waits_for_what_is_to_come(tested: TestedCluster) -> None:
    version = (await tested.cluster.list(NodePool)).resource_version
    watching = asyncio.create_task(next_events(tested, NodePool, version, 1))
    await asyncio.sleep(0.2)
    assert not watching.done()
    await tested.cluster.create(node_pool(tested, "late"))
    assert seen(await watching) == [("ADDED", "late")]


@on_each_cluster
async def the_end_of_an_object_with_finalizers_is_two_events(tested: TestedCluster) -> None:
    """The last one has the object as it was last stored: with the finalizer."""
    cluster, name = tested.cluster, tested.name("pool")
    await cluster.create(node_pool(tested, finalizers=[FINALIZER]))
    version = (await cluster.list(NodePool)).resource_version
    await cluster.delete(NodePool, name)
    await cluster.patch(NodePool, name, {"metadata": {"finalizers": None}})
    events = await next_events(tested, NodePool, version, 2)
    assert [event.type for event in events] == [EventType.MODIFIED, EventType.DELETED]
    assert [event.object.metadata.finalizers for event in events] == [[FINALIZER], [FINALIZER]]


@on_each_cluster
async def a_pod_that_goes_at_once_is_marked_first(tested: TestedCluster) -> None:
    version = (await tested.cluster.list(Pod)).resource_version
    await create_pod(tested, "short")
    await tested.cluster.delete(Pod, "short", tested.namespace)
    events = await next_events(tested, Pod, version, 3)
    assert [event.type for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert events[1].object.metadata.deletionGracePeriodSeconds == 0


@on_each_cluster
async def an_eviction_is_three_changes(tested: TestedCluster) -> None:
    await create_running_pod(tested, "web-1")
    await create_budget(tested, "web", allowed=1)
    pods = (await tested.cluster.list(Pod)).resource_version
    await tested.cluster.evict("web-1", tested.namespace)
    marked, deleted = await next_events(tested, Pod, pods, 2)
    assert marked.object.metadata.deletionTimestamp is None
    assert deleted.object.metadata.deletionTimestamp is not None
    [counted] = await next_events(tested, PodDisruptionBudget, pods, 1)
    assert int(counted.resource_version) < int(marked.resource_version)


@on_each_cluster
async def a_bookmark_moves_a_quiet_watch_forward(tested: TestedCluster) -> None:
    """The real server sends none as long as nobody lists the kind: the cache that serves its
    watches knows no version but those of its own kind, and those that a list has asked etcd for.
    """
    listed = await tested.cluster.list(NodePool)
    for number in range(12):
        await create_pod(tested, f"pod-{number}")
    await tested.cluster.list(NodePool)
    async with aclosing(tested.cluster.watch(NodePool, listed.resource_version)) as events:
        bookmark = await asyncio.wait_for(anext(events), 20)
    assert (bookmark.type, bookmark.object) == (EventType.BOOKMARK, None)
    assert int(bookmark.resource_version) > int(listed.resource_version)
    await tested.cluster.create(node_pool(tested))
    [event] = await next_events(tested, NodePool, bookmark.resource_version, 1)
    assert event.type == EventType.ADDED


@on_each_cluster
async def a_version_from_before_the_known_history_is_gone(tested: TestedCluster) -> None:
    """The real server has known NodePools since their CRD was applied."""
    await forget_history(tested)
    async with aclosing(tested.cluster.watch(NodePool, "1")) as events:
        await raised(ResourceVersionGoneError, anext(events))


async def forget_history(tested: TestedCluster) -> None:
    if isinstance(tested.cluster, InMemoryApiServer):
        await tested.cluster.create(node_pool(tested))
        tested.cluster.stop()
        tested.cluster.start(forget_history=True)
