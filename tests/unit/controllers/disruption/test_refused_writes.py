"""An API server that refuses to change single objects, as webhooks and quotas make it: whatever
does not need these objects goes on.
"""

from collections.abc import Mapping
from typing import Any

import pytest
from tests.support.claim_stories import ObservedCluster
from tests.support.controlled_cluster import ControlledCluster, conditions, run_cluster
from tests.unit.controllers.disruption.test_carrying_out import (
    DISRUPTED,
    TYPES,
    drift,
    replacements,
    started,
    tainted,
    two_replacements,
)

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.workloads import Pod
from wainwright.errors import RequestForbiddenError
from wainwright.metrics import DISRUPTION_QUEUE_FAILURES
from wainwright.sim.world import WorldChanges

LOOKS_FOR_SAVINGS = {"spec": {"disruption": {"consolidateAfter": "0s"}}}
CLOSED = {"spec": {"disruption": {"budgets": [{"nodes": "0"}]}}}


class RefusedWrites:
    """Of which objects, by verb and kind, nothing is written, and how often that was tried."""

    def __init__(self, cluster: ControlledCluster) -> None:
        self._refused: dict[tuple[str, str], set[str]] = {}
        self.count = 0
        cluster.port = ObservedCluster(cluster.api, self._before)

    def refuse(self, verb: str, kind: str, *names: str) -> None:
        """Without names from now on all are accepted again."""
        self._refused[verb, kind] = set(names)

    def _before(self, verb: str, kind: str, details: Mapping[str, Any]) -> None:
        if details.get("name") in self._refused.get((verb, kind), ()):
            self.count += 1
            raise RequestForbiddenError("admission webhook denied the request", status=403)


async def leave_taint(cluster: ControlledCluster, node: str) -> None:
    """Of a command of a process that is no more."""
    left = [{"key": DISRUPTED, "effect": "NoSchedule"}]
    await cluster.api.patch(Node, node, {"spec": {"taints": left}})


async def empty(cluster: ControlledCluster, *pods: str) -> None:
    for name in pods:
        await cluster.api.delete(Pod, name, "default", grace_period=0)


def claim_of(node: Node) -> str:
    return node.metadata.name.removeprefix("node-")


async def leaving(cluster: ControlledCluster) -> list[str]:
    return [
        each.metadata.name for each in await cluster.claims() if each.metadata.deletionTimestamp
    ]


async def staying(cluster: ControlledCluster) -> list[str]:
    return [
        each.metadata.name for each in await cluster.claims() if not each.metadata.deletionTimestamp
    ]


@pytest.mark.parametrize("is_simulation", [False, True])
def test_q5_a_taint_that_cannot_be_removed_stops_no_other_disruption(is_simulation: bool) -> None:
    """A simulation, which rests where nothing changes, tries it again as well."""

    async def story(cluster: ControlledCluster) -> None:
        writes = RefusedWrites(cluster)
        if is_simulation:
            cluster.feed = WorldChanges(cluster.api, cluster.account)
        first, second = await started(cluster, "web-0", "web-1")
        writes.refuse("patch", "Node", first.metadata.name)
        await leave_taint(cluster, first.metadata.name)
        await empty(cluster, "web-1")
        await cluster.api.patch(NodePool, "web", LOOKS_FOR_SAVINGS)
        await cluster.wait(120)
        assert await staying(cluster) == [claim_of(first)], "the empty node has gone"
        assert await tainted(cluster) == [first.metadata.name]
        assert claim_of(second) not in await staying(cluster)
        writes.refuse("patch", "Node")
        await cluster.wait(11)
        assert await tainted(cluster) == []

    run_cluster(story, instanceTypes=["m5.large"])


def test_q5_a_node_waits_until_its_orphaned_replacement_could_be_deleted_and_others_do_not() -> (
    None
):
    """The node and the replacement together may be more than limits allow."""

    async def story(cluster: ControlledCluster) -> None:
        writes = RefusedWrites(cluster)
        await started(cluster, "web-0", "web-1")
        await drift(cluster)
        while len(await replacements(cluster)) < 2:
            await cluster.wait(0.5)
        await cluster.kill()
        kept, other = await replacements(cluster)
        writes.refuse("delete", "NodeClaim", kept.metadata.name)
        await cluster.api.patch(NodePool, "web", CLOSED)
        cluster.start()
        await cluster.wait(30)
        replaced = (kept.metadata.annotations or {})["wainwright.dev/replaces"]
        assert await tainted(cluster) == [f"node-{replaced}"]
        assert other.metadata.name not in await staying(cluster)
        writes.refuse("delete", "NodeClaim")
        await cluster.wait(20)
        assert await tainted(cluster) == []
        assert kept.metadata.name not in await staying(cluster)

    run_cluster(story, instanceTypes=["m5.large"])


def test_q4_a_replacement_that_cannot_be_taken_back_keeps_its_nodes_and_no_other_replacement() -> (
    None
):
    async def story(cluster: ControlledCluster) -> None:
        writes = RefusedWrites(cluster)
        first, second = await two_replacements(cluster)
        (node,) = await tainted(cluster)
        await cluster.api.patch(NodePool, "web", CLOSED)
        writes.refuse("delete", "NodeClaim", first.metadata.name)
        await cluster.wait(660)
        assert second.metadata.name not in await staying(cluster)
        assert first.metadata.name in await staying(cluster)
        assert await tainted(cluster) == [node]
        writes.refuse("delete", "NodeClaim")
        await cluster.wait(300)
        assert await tainted(cluster) == []
        assert await staying(cluster) == [node.removeprefix("node-")]
        failures = cluster.metrics.value(DISRUPTION_QUEUE_FAILURES, consolidation_type="drift")
        assert failures == 2, "each replacement once, however often it was tried"

    run_cluster(story, instanceTypes=TYPES)


@pytest.mark.parametrize("is_simulation", [False, True])
def test_q4_a_node_that_cannot_be_set_free_is_left_to_the_next_look(is_simulation: bool) -> None:
    async def story(cluster: ControlledCluster) -> None:
        writes = RefusedWrites(cluster)
        if is_simulation:
            cluster.feed = WorldChanges(cluster.api, cluster.account)
        (node,) = await started(cluster, "web-0")
        await drift(cluster)
        await cluster.wait(20)
        (claim,) = await replacements(cluster)
        await cluster.api.patch(NodePool, "web", CLOSED)
        await cluster.wait(60)
        writes.refuse("patch", "Node", node.metadata.name)
        await cluster.api.delete(NodeClaim, claim.metadata.name)
        await cluster.wait(60)
        assert await tainted(cluster) == [node.metadata.name]
        assert "DisruptionReason" not in conditions(await cluster.claim())
        writes.refuse("patch", "Node")
        await cluster.wait(11)
        assert await tainted(cluster) == []
        failures = cluster.metrics.value(DISRUPTION_QUEUE_FAILURES, consolidation_type="drift")
        assert failures == 1

    run_cluster(story, instanceTypes=["m5.large"])


def test_a_node_of_a_command_that_cannot_be_deleted_keeps_no_other_of_it() -> None:
    async def story(cluster: ControlledCluster) -> None:
        writes = RefusedWrites(cluster)
        nodes = await started(cluster, "web-0", "web-1", "web-2")
        first, *others = sorted(claim_of(each) for each in nodes)
        writes.refuse("delete", "NodeClaim", first)
        await empty(cluster, "web-0", "web-1", "web-2")
        await cluster.api.patch(NodePool, "web", LOOKS_FOR_SAVINGS)
        await cluster.wait(60)
        assert await staying(cluster) == [first]
        assert await tainted(cluster) == [f"node-{first}"]
        writes.refuse("delete", "NodeClaim")
        await cluster.wait(120)
        assert await staying(cluster) == []
        assert cluster.disrupted("empty") == 1 + len(others)

    run_cluster(story, instanceTypes=["m5.large"])
