"""Nothing acts before the caches are in sync (row STA-1).

What a process has not listed yet looks as if it did not exist: a node without pods is empty, an
instance without a NodeClaim is garbage, a static NodePool without NodeClaims lacks all of them. And
a claim whose instance is not known yet may have more room than it seems.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from tests.support.aws_account import discovered_node_class
from tests.support.claim_stories import ObservedCluster, ObservedSeam, node_claim
from tests.support.controlled_cluster import (
    ControlledCluster,
    node_pool,
    pending_pod,
    run_cluster,
)

from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.operations import (
    CapacityBuffer,
    PodTemplate,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
)
from wainwright.api.kubernetes.workloads import Pod, StatefulSet, TopologySpreadConstraint
from wainwright.api.wire import ObjectMeta, WireStruct
from wainwright.controllers.disruption.pod_deletion_costs import DELETION_COST_ANNOTATION
from wainwright.controllers.manager import watched_kinds
from wainwright.controllers.provisioning.capacity_buffers import BUFFER_KINDS
from wainwright.controllers.settings import ControllerSettings
from wainwright.model.labels import HOSTNAME, NODEPOOL
from wainwright.model.plan import PlanOptions

EVERYTHING = ControllerSettings(
    plan_options=PlanOptions(static_capacity=True),
    node_repair=True,
    managed_deletion_cost=True,
    capacity_buffer=True,
    default_constraints=(
        TopologySpreadConstraint(
            maxSkew=100, topologyKey=HOSTNAME, whenUnsatisfiable="DoNotSchedule"
        ),
    ),
)
ALL_KINDS = watched_kinds(EVERYTHING)
LATE = 300.0
"""Seconds after the others at which the list of a kind comes."""
READING = ("list", "get", "Describe", "Get", "List", "Receive")
SMALL = {
    "spec": {
        "requirements": [
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]},
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        ]
    }
}


def late_list(cluster: ControlledCluster, late: type[WireStruct]) -> list[tuple[float, str, str]]:
    """The next process sees this kind late; what it writes, in the cluster and in the cloud: when,
    verb, kind or service."""
    began, writes = cluster.clock.now(), list[tuple[float, str, str]]()

    async def before(verb: str, kind: str, _: Mapping[str, Any]) -> None:
        if (verb, kind) == ("list", late.__name__):
            await cluster.clock.sleep(began + LATE - cluster.clock.now())
        if not verb.startswith(READING):
            writes.append((cluster.clock.now() - began, verb, kind))

    cluster.port = ObservedCluster(cluster.api, before)
    cluster.seam = ObservedSeam(cluster.account, before)
    return writes


@pytest.mark.parametrize("kind", ALL_KINDS, ids=lambda kind: kind.__name__)
def test_sta_1_nothing_is_written_before_every_kind_is_listed(kind: type[WireStruct]) -> None:
    """A class to be resolved, a static NodePool without nodes, a pod without one, and an instance
    that nobody claims: there is something to do for all."""

    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(node_pool(template=SMALL))
        await cluster.create(node_pool("fixed", template=SMALL, replicas=1), pending_pod())
        writes = late_list(cluster, kind)
        cluster.start()
        await cluster.wait(LATE - 1)
        assert writes == []
        await cluster.wait(30)
        assert {(verb, what) for _, verb, what in writes} >= {
            ("CreateFleet", "ec2"),
            ("create", "NodeClaim"),
            ("patch_status", "EC2NodeClass"),
        }

    run_cluster(story, settings=EVERYTHING, instanceTypes=["m5.large"])


async def settled_cluster(cluster: ControlledCluster) -> None:
    """In which everything is as it should be, so that nothing is to be launched or ended: two
    static nodes, one with a pod and room for the pod that waits, one that a buffer keeps, and two
    that drain: a pod, and a volume, keep their instances. A class waits for its claim to go.
    """
    await cluster.set_up(node_pool(template=SMALL), node_pool("fixed", template=SMALL, replicas=2))
    cluster.start()
    await cluster.wait(30)
    await _join_new(cluster)
    await cluster.add_node(cpu="1500m", spec=TO_WEB)
    await _buffer(cluster)
    await _draining(cluster)
    await _leaving_class(cluster)
    await cluster.create_pod("waiting", cpu="100m", spec=TO_WEB)
    await cluster.wait(60)


TO_WEB = {"nodeSelector": {NODEPOOL: "web"}}


async def _buffer(cluster: ControlledCluster) -> None:
    await cluster.create(*buffer_objects())
    await cluster.wait(30)
    await _join_new(cluster)


def buffer_objects(replicas: int = 1) -> tuple[PodTemplate, CapacityBuffer]:
    """Room for so many pods, each of which fills a node."""
    requests = {"cpu": "1500m", "memory": "1Gi"}
    container = {"name": "main", "resources": {"requests": requests}}
    unit = {"spec": {"containers": [container], **TO_WEB}, "metadata": {"labels": {"app": "web"}}}
    metadata = {"name": "unit", "namespace": "default"}
    made = {"metadata": metadata, "template": unit}
    spec = {"podTemplateRef": {"name": "unit"}, "replicas": replicas}
    return (
        msgspec.convert(made, PodTemplate, strict=False),
        msgspec.convert({"metadata": metadata, "spec": spec}, CapacityBuffer, strict=False),
    )


async def _join_new(cluster: ControlledCluster) -> list[Node]:
    joined = {node.spec.providerID for node in await cluster.nodes()}
    new = [
        claim
        for claim in await cluster.claims()
        if claim.status and claim.status.providerID not in joined
    ]
    nodes = [
        await cluster.join(claim, metadata={"labels": dict(claim.metadata.labels or {})})
        for claim in new
    ]
    await cluster.wait(1)
    return nodes


async def _draining(cluster: ControlledCluster) -> None:
    protected = {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}
    await cluster.create(node_claim("with-pod"), node_claim("with-volume"))
    await cluster.wait(10)
    await _join_new(cluster)
    await cluster.create_pod("stays", metadata=protected)
    await cluster.bind("stays", "node-with-pod")
    source = VolumeAttachmentSource(persistentVolumeName="pv-1")
    attached = VolumeAttachmentSpec(
        attacher="ebs.csi.aws.com", nodeName="node-with-volume", source=source
    )
    await cluster.create(VolumeAttachment(metadata=ObjectMeta(name="pv-1"), spec=attached))
    await cluster.wait(1)
    for name in ("with-pod", "with-volume"):
        await cluster.api.delete(NodeClaim, name)


async def _leaving_class(cluster: ControlledCluster) -> None:
    """Deleted while the node of its NodeClaim still drains."""
    await cluster.create(discovered_node_class("old"))
    await cluster.wait(30)
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "old"}
    protected = {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}
    await cluster.create(node_claim("of-old", nodeClassRef=reference))
    await cluster.wait(10)
    (node,) = await _join_new(cluster)
    await cluster.create_pod("guard", metadata=protected)
    await cluster.bind("guard", node.metadata.name)
    await cluster.api.delete(EC2NodeClass, "old")
    await cluster.wait(1)


async def there_is(cluster: ControlledCluster) -> dict[str, Any]:
    """What exists, in the cluster and in the cloud, with what is being deleted."""
    kinds: tuple[type[Any], ...] = (NodeClaim, Node, NodePool, EC2NodeClass, Pod)
    objects = {
        kind.__name__: {
            each.metadata.name: each.metadata.deletionTimestamp
            for each in (await cluster.api.list(kind)).items
        }
        for kind in kinds
    }
    conditions = {
        (each.metadata.name, condition.type): (condition.status, condition.reason)
        for each in (await cluster.api.list(NodePool)).items
        for condition in (each.status.conditions if each.status else None) or ()
    }
    return {**objects, "instances": sorted(cluster.instances()), "conditions": conditions}


MATTERS = (Pod, Node, NodeClaim, NodePool, EC2NodeClass, VolumeAttachment, *BUFFER_KINDS[:2])
"""Kinds whose absence would have a controller launch, end or undo something."""


@pytest.mark.parametrize("kind", MATTERS, ids=lambda kind: kind.__name__)
def test_sta_1_a_kind_that_is_listed_late_costs_nobody_anything(kind: type[WireStruct]) -> None:
    async def story(cluster: ControlledCluster) -> None:
        await settled_cluster(cluster)
        before = await there_is(cluster)
        await cluster.kill()
        writes = late_list(cluster, kind)
        cluster.start()
        await cluster.wait(LATE - 1)
        assert writes == []
        await cluster.wait(120)
        assert await there_is(cluster) == before
        assert {verb for _, verb, _ in writes} & {"TerminateInstances", "evict", "delete"} == set()

    run_cluster(story, settings=EVERYTHING, instanceTypes=["m5.large"])


def test_sta_1_what_is_due_when_a_process_starts_waits_for_its_caches() -> None:
    """An expired claim, a broken node, an instance that nobody claims, a spot interruption, and a
    pod that has to say how much its end costs, in front of a process that cannot list yet what
    matters to none of them."""

    async def story(cluster: ControlledCluster) -> None:
        never = node_pool(template=SMALL, disruption={"consolidateAfter": "Never"})
        await cluster.set_up(never, node_pool("kept", template=SMALL))
        cluster.start()
        await cluster.wait(30)
        kept = node_claim("kept", metadata={"labels": {NODEPOOL: "kept"}})
        expired = node_claim("expired", expireAfter="10m")
        await cluster.create(kept, expired, *map(node_claim, ("broken", "orphan", "spot")))
        await cluster.wait(10)
        instances = {
            claim.metadata.name: claim.status.providerID.rpartition("/")[2]
            for claim in await cluster.claims()
            if claim.status
        }
        await _join_new(cluster)
        await _replica(cluster, "node-kept")
        await cluster.kill()
        await _make_due(cluster)
        writes = late_list(cluster, StatefulSet)
        cluster.start()
        await cluster.wait(LATE / 2)
        spot = {"instance": instances["spot"], "kind": "spot", "seconds": 600}
        cluster.account.change({"interruptions": [spot]})
        await cluster.wait(LATE / 2 - 1)
        assert writes == []
        assert {*cluster.instances()} == {*instances.values()}
        await cluster.wait(150)
        assert [each.metadata.name for each in await cluster.claims()] == ["kept"]
        assert cluster.instances() == [instances["kept"]]
        assert ("DeleteMessage", "sqs") in {(verb, what) for _, verb, what in writes}
        pod = await cluster.api.get(Pod, "replica", "default")
        assert DELETION_COST_ANNOTATION in (pod.metadata.annotations or {})

    run_cluster(story, settings=EVERYTHING, instanceTypes=["m5.large"])


async def _replica(cluster: ControlledCluster, node: str) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1"}
    owned = {"metadata": {"ownerReferences": [{**owner, "controller": True}]}}
    await cluster.create_pod("replica")
    await cluster.bind("replica", node)
    await cluster.api.patch(Pod, "replica", owned, "default")
    await cluster.wait(1)


async def _make_due(cluster: ControlledCluster) -> None:
    """While no controller runs."""
    broken = {"type": "Ready", "status": "False", "lastTransitionTime": "2020-01-01T00:00:00Z"}
    await cluster.api.patch_status(Node, "node-broken", {"status": {"conditions": [broken]}})
    for kind, name in ((Node, "node-orphan"), (NodeClaim, "orphan")):
        await cluster.api.patch(kind, name, {"metadata": {"finalizers": None}})
        await cluster.api.delete(kind, name)
    await cluster.wait(700)


# A claim whose instance is not known yet


def held_launches(cluster: ControlledCluster, seconds: float) -> None:
    """From the next process on EC2 takes its time for every launch."""

    async def before(verb: str, _: str, params: Mapping[str, Any]) -> None:
        if verb == "CreateFleet" and not params.get("DryRun"):
            await cluster.clock.sleep(seconds)

    cluster.seam = ObservedSeam(cluster.account, before)


async def _names(cluster: ControlledCluster) -> set[str]:
    return {each.metadata.name for each in await cluster.claims()}


def test_sta_1_nothing_is_planned_while_an_instance_is_on_its_way() -> None:
    """Nobody knows yet how large it is: the second pod may fit beside the first, and does."""

    async def story(cluster: ControlledCluster) -> None:
        held_launches(cluster, 20)
        await cluster.set_up(node_pool(template=SMALL))
        cluster.start()
        await cluster.wait(30)
        await cluster.create_pod("web-0", cpu="500m")
        await cluster.wait(5)
        first = await _names(cluster)
        await cluster.create_pod("web-1", cpu="500m")
        await cluster.wait(60)
        assert len(first) == 1
        assert await _names(cluster) == first

    run_cluster(story, instanceTypes=["m5.large"])


def test_sta_1_nothing_is_disrupted_while_an_instance_is_on_its_way() -> None:
    """Beside an empty node, which goes once the other is known."""

    async def story(cluster: ControlledCluster) -> None:
        held_launches(cluster, 90)
        await cluster.set_up(node_pool(template=SMALL))
        cluster.start()
        await cluster.wait(30)
        await cluster.create(node_claim("empty"))
        await cluster.wait(95)
        await cluster.join(await cluster.claim())
        await cluster.create(node_claim("slow"))
        await cluster.wait(85)
        (node,) = await cluster.nodes()
        assert node.spec.taints in (None, [])
        await cluster.wait(60)
        assert await _names(cluster) == {"slow"}

    run_cluster(story, instanceTypes=["m5.large"])


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param((node_pool("fixed", template=SMALL, replicas=1),), id="static-capacity"),
        pytest.param(buffer_objects(2), id="capacity-buffer"),
    ],
)
def test_sta_1_nodes_without_pods_are_not_launched_while_an_instance_is_on_its_way(
    objects: tuple[WireStruct, ...],
) -> None:
    async def story(cluster: ControlledCluster) -> None:
        held_launches(cluster, 90)
        await cluster.set_up(node_pool(template=SMALL))
        cluster.start()
        await cluster.wait(30)
        await cluster.create(node_claim("slow"))
        await cluster.wait(5)
        await cluster.create(*objects)
        await cluster.wait(80)
        assert await _names(cluster) == {"slow"}
        await cluster.wait(30)
        assert len(await _names(cluster)) == 2

    run_cluster(story, settings=EVERYTHING, instanceTypes=["m5.large"])


def test_sta_1_a_pool_is_counted_when_all_its_instances_are_known() -> None:
    async def story(cluster: ControlledCluster) -> None:
        held_launches(cluster, 90)
        await cluster.set_up(node_pool(template=SMALL))
        cluster.start()
        await cluster.wait(30)
        counts = []
        for claim in ("first", "second"):
            await cluster.create(node_claim(claim))
            for seconds in (85, 15):
                await cluster.wait(seconds)
                status = (await cluster.pool()).status
                counts.append(0 if status is None else status.nodes)
        assert counts == [0, 1, 1, 2]

    run_cluster(story, instanceTypes=["m5.large"])
