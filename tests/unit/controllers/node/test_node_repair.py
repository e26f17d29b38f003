"""Nodes whose conditions show that they are broken (rows REP-1 and REP-2)."""

from typing import Any

import msgspec
import pytest
from tests.support.controlled_cluster import (
    ControlledCluster,
    node_pool,
    pending_pod,
    run_cluster,
)

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.kubernetes.cluster import Node, NodeCondition
from wainwright.api.kubernetes.workloads import Pod
from wainwright.api.wire import ObjectMeta
from wainwright.clock import format_timestamp
from wainwright.controllers.settings import ControllerSettings
from wainwright.metrics import NODECLAIMS_UNHEALTHY
from wainwright.model.labels import NODEPOOL
from wainwright.translate.object_metadata import parse_timestamp

TYPES = ["m5.large"]
REPAIR = ControllerSettings(node_repair=True)
DEADLINE = "karpenter.sh/nodeclaim-termination-timestamp"
MINUTE = 60.0


async def running_nodes(cluster: ControlledCluster, count: int = 1, **pool: Any) -> list[Node]:
    """Nodes that each run one pod which may not be disrupted."""
    spec = {"expireAfter": "Never", "terminationGracePeriod": "10h"}
    await cluster.set_up(node_pool(template={"spec": spec}, **pool))
    cluster.start()
    await cluster.wait(5)
    kept = {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}
    pods = [pending_pod(f"web-{n}", cpu="1500m", metadata=kept) for n in range(count)]
    await cluster.create(*pods)
    await cluster.wait(20)
    nodes = [await cluster.join(claim) for claim in await cluster.claims()]
    for n, node in enumerate(nodes):
        await cluster.bind(f"web-{n}", node.metadata.name)
    await cluster.wait(5)
    return nodes


async def report(
    cluster: ControlledCluster, node: Node, kind: str = "Ready", status: str = "False"
) -> None:
    """What the kubelet, the node lifecycle controller or the monitoring agent writes."""
    written = [NodeCondition(type="Ready", status="True")] if kind != "Ready" else []
    stamp = format_timestamp(cluster.clock.now())
    written.append(NodeCondition(type=kind, status=status, lastTransitionTime=stamp))
    conditions = {"status": {"conditions": msgspec.to_builtins(written)}}
    await cluster.api.patch_status(Node, node.metadata.name, conditions)


async def leaving(cluster: ControlledCluster) -> list[NodeClaim]:
    return [claim for claim in await cluster.claims() if claim.metadata.deletionTimestamp]


def run(story: Any, settings: ControllerSettings = REPAIR) -> None:
    run_cluster(story, settings=settings, instanceTypes=TYPES)


@pytest.mark.parametrize(
    ("kind", "status", "minutes"),
    [
        ("Ready", "False", 30),
        ("Ready", "Unknown", 30),
        ("StorageReady", "False", 30),
        ("NetworkingReady", "False", 30),
        ("KernelReady", "False", 30),
        ("ContainerRuntimeReady", "False", 30),
        ("AcceleratedHardwareReady", "False", 10),
    ],
)
def test_rep_1_a_broken_node_goes_forcefully_after_its_toleration(
    kind: str, status: str, minutes: int
) -> None:
    """Its pod may not be disrupted, the budget allows nothing, the grace period is ten hours."""

    async def story(cluster: ControlledCluster) -> None:
        disruption = {"consolidateAfter": "0s", "budgets": [{"nodes": "0"}]}
        (node,) = await running_nodes(cluster, disruption=disruption)
        await report(cluster, node, kind, status)
        await cluster.wait(minutes * MINUTE - 2)
        assert await leaving(cluster) == []
        await cluster.wait(4)
        (claim,) = await leaving(cluster)
        deadline = parse_timestamp((claim.metadata.annotations or {})[DEADLINE])
        assert deadline == pytest.approx(cluster.clock.now(), abs=4)
        pod = await cluster.api.get(Pod, "web-0", "default")
        assert pod.metadata.deletionGracePeriodSeconds == 1
        assert cluster.disrupted("unhealthy", "spot", "forceful") == 1
        labels = {"condition": kind, "nodepool": "web", "capacity_type": "spot"}
        image = claim.status.imageID if claim.status else ""
        assert cluster.metrics.value(NODECLAIMS_UNHEALTHY, image_id=image, **labels) == 1

    run(story)


@pytest.mark.parametrize(
    ("kind", "status"), [("MemoryPressure", "True"), ("KernelReady", "Unknown")]
)
def test_rep_1_conditions_without_a_policy_are_left_alone(kind: str, status: str) -> None:
    async def story(cluster: ControlledCluster) -> None:
        (node,) = await running_nodes(cluster)
        await report(cluster, node, kind, status)
        await cluster.wait(120 * MINUTE)
        assert await leaving(cluster) == []

    run(story)


def test_rep_1_a_node_that_recovers_in_time_stays() -> None:
    async def story(cluster: ControlledCluster) -> None:
        (node,) = await running_nodes(cluster)
        await report(cluster, node)
        await cluster.wait(29 * MINUTE)
        await report(cluster, node, status="True")
        await cluster.wait(5 * MINUTE)
        assert await leaving(cluster) == []
        await report(cluster, node)
        await cluster.wait(29 * MINUTE)
        assert await leaving(cluster) == []

    run(story)


def test_rep_1_an_earlier_deadline_is_kept() -> None:
    async def story(cluster: ControlledCluster) -> None:
        (node,) = await running_nodes(cluster)
        earlier = format_timestamp(cluster.clock.now())
        (claim,) = await cluster.claims()
        annotations = {"metadata": {"annotations": {DEADLINE: earlier}}}
        await cluster.api.patch(NodeClaim, claim.metadata.name, annotations)
        await report(cluster, node)
        await cluster.wait(31 * MINUTE)
        (claim,) = await leaving(cluster)
        assert (claim.metadata.annotations or {})[DEADLINE] == earlier

    run(story)


def test_rep_1_without_the_gate_nothing_is_repaired() -> None:
    async def story(cluster: ControlledCluster) -> None:
        (node,) = await running_nodes(cluster)
        await report(cluster, node, "KernelReady")
        await cluster.wait(120 * MINUTE)
        assert await leaving(cluster) == []

    run(story, ControllerSettings())


def test_rep_1_a_toleration_goes_on_after_a_restart() -> None:
    async def story(cluster: ControlledCluster) -> None:
        (node,) = await running_nodes(cluster)
        await report(cluster, node)
        await cluster.wait(15 * MINUTE)
        await cluster.kill()
        cluster.start()
        await cluster.wait(15 * MINUTE - 5)
        assert await leaving(cluster) == []
        await cluster.wait(10)
        assert len(await leaving(cluster)) == 1

    run(story)


@pytest.mark.parametrize(("unhealthy", "is_blocked"), [(1, False), (2, True)])
def test_rep_2_more_than_a_fifth_of_the_pool_stops_repair(unhealthy: int, is_blocked: bool) -> None:
    """Of three nodes one may be unhealthy: a fifth, rounded up."""

    async def story(cluster: ControlledCluster) -> None:
        nodes = await running_nodes(cluster, 3)
        for node in nodes[:unhealthy]:
            await report(cluster, node)
        await cluster.wait(31 * MINUTE)
        assert len(await leaving(cluster)) == (0 if is_blocked else unhealthy)
        blocked = await cluster.events("NodeRepairBlocked")
        kinds = {each.involvedObject.kind for each in blocked}
        assert kinds == ({"Node", "NodeClaim", "NodePool"} if is_blocked else set())

    run(story)


def test_rep_2_repair_goes_on_within_five_minutes_when_fewer_are_unhealthy() -> None:
    async def story(cluster: ControlledCluster) -> None:
        nodes = await running_nodes(cluster, 3)
        await report(cluster, nodes[0])
        await report(cluster, nodes[1])
        await cluster.wait(31 * MINUTE)
        await report(cluster, nodes[1], status="True")
        await cluster.wait(5 * MINUTE)
        (claim,) = await leaving(cluster)
        assert claim.status is not None
        assert claim.status.nodeName == nodes[0].metadata.name

    run(story)


@pytest.mark.parametrize(("others", "is_blocked"), [(0, True), (9, False)])
def test_rep_2_for_claims_without_a_pool_the_whole_cluster_counts(
    others: int, is_blocked: bool
) -> None:
    async def story(cluster: ControlledCluster) -> None:
        nodes = await running_nodes(cluster, 2)
        for n in range(others):
            await cluster.create(Node(metadata=ObjectMeta(name=f"other-{n}")))
        for node in nodes:
            labels = {"metadata": {"labels": {NODEPOOL: None}}}
            await cluster.api.patch(Node, node.metadata.name, labels)
            await report(cluster, node)
        await cluster.wait(31 * MINUTE)
        assert len(await leaving(cluster)) == (0 if is_blocked else 2)

    run(story)
