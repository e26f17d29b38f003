"""An API server that refuses to change or create single objects, as webhooks and quotas make it:
whatever does not need these objects goes on.
"""

from collections.abc import Mapping
from typing import Any

import pytest
from tests.support.claim_stories import ObservedCluster
from tests.support.controlled_cluster import (
    ControlledCluster,
    conditions,
    node_pool,
    run_cluster,
)
from tests.unit.controllers.disruption.test_carrying_out import (
    DISRUPTED,
    ON_DEMAND,
    TYPES,
    drift,
    pool,
    replacements,
    started,
    tainted,
    two_replacements,
)

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.workloads import Pod
from wainwright.controllers.disruption.disruption_controller import Disruption
from wainwright.disruption_verdicts import verdict_facts
from wainwright.errors import RequestForbiddenError
from wainwright.messages.disruption import describe_verdict
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
        """Without names from now on all are accepted again. A taint is written and removed."""
        self._refused[verb, kind] = set(names)

    def _before(self, verb: str, kind: str, details: Mapping[str, Any]) -> None:
        if "taints" in (details.get("patch") or {}).get("spec", {}):
            verb = "taint"
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
        first, _ = await started(cluster, "web-0", "web-1")
        writes.refuse("taint", "Node", first.metadata.name)
        await leave_taint(cluster, first.metadata.name)
        await empty(cluster, "web-1")
        await cluster.api.patch(NodePool, "web", LOOKS_FOR_SAVINGS)
        await cluster.wait(120)
        assert await staying(cluster) == [claim_of(first)], "the empty node has gone"
        assert await tainted(cluster) == [first.metadata.name]
        writes.refuse("taint", "Node")
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
        writes.refuse("taint", "Node", node.metadata.name)
        await cluster.api.delete(NodeClaim, claim.metadata.name)
        await cluster.wait(60)
        assert await tainted(cluster) == [node.metadata.name]
        assert "DisruptionReason" not in conditions(await cluster.claim())
        writes.refuse("taint", "Node")
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


def test_q5_nodes_wait_until_what_was_launched_of_a_refused_command_could_be_deleted() -> None:
    """Of two replacements the second is refused, and so is the deletion of the first."""

    async def story(cluster: ControlledCluster) -> None:
        created: list[str] = []
        is_refusing = True

        def before(verb: str, kind: str, details: Mapping[str, Any]) -> None:
            if kind != "NodeClaim" or not is_refusing:
                return
            if verb == "create" and "wainwright.dev/replaces" in (
                details["object"].metadata.annotations or {}
            ):
                created.append(details["object"].metadata.name)
                if len(created) == 2:
                    raise RequestForbiddenError("exceeded quota", status=403)
            if verb == "delete":
                raise RequestForbiddenError("admission webhook denied the request", status=403)

        cluster.port = ObservedCluster(cluster.api, before)
        (left,) = await two_replacements(cluster)
        assert left.metadata.name == created[0]
        (node,) = await tainted(cluster)
        await cluster.api.patch(NodePool, "web", CLOSED)
        await cluster.wait(60)
        assert await tainted(cluster) == [node]
        assert len(created) == 2
        is_refusing = False
        await cluster.wait(20)
        assert await tainted(cluster) == []
        assert await staying(cluster) == [node.removeprefix("node-")]

    run_cluster(story, instanceTypes=TYPES)


def test_bud_5_a_node_that_cannot_be_set_free_uses_the_budget() -> None:
    async def story(cluster: ControlledCluster) -> None:
        writes = RefusedWrites(cluster)
        nodes = await started(cluster, "web-0", "web-1", budgets=[{"nodes": "1"}])
        await drift(cluster)
        await cluster.wait(20)
        (claim,) = await replacements(cluster)
        (first,) = await tainted(cluster)
        writes.refuse("taint", "Node", first)
        await cluster.api.delete(NodeClaim, claim.metadata.name)
        await cluster.wait(300)
        assert await tainted(cluster) == [first]
        assert await replacements(cluster) == []
        await cluster.api.patch(
            NodePool, "web", {"spec": {"disruption": {"budgets": [{"nodes": "2"}]}}}
        )
        await cluster.wait(60)
        assert sorted(await tainted(cluster)) == sorted(each.metadata.name for each in nodes)
        said = (await verdicts(cluster))[first]
        assert "the taint of an earlier command, or its reason, could not be removed" in said

    run_cluster(story, instanceTypes=["m5.large"])


# Commands that cannot be begun


def _disruption(cluster: ControlledCluster) -> Disruption:
    assert cluster.manager is not None
    assert cluster.manager.disruption is not None
    return cluster.manager.disruption


async def verdicts(cluster: ControlledCluster) -> dict[str, str]:
    outcomes = (await _disruption(cluster).verdicts()).outcomes
    return {each.candidate.name: describe_verdict(verdict_facts(each)) for each in outcomes}


def test_a_node_that_cannot_be_tainted_lets_others_be_disrupted_and_says_why() -> None:
    """It is empty, and emptiness comes before drift: the pod of the other node moves to it."""

    async def story(cluster: ControlledCluster) -> None:
        writes = RefusedWrites(cluster)
        first, _ = await started(cluster, "web-0", "web-1")
        writes.refuse("taint", "Node", first.metadata.name)
        await empty(cluster, "web-0")
        await cluster.api.patch(NodePool, "web", LOOKS_FOR_SAVINGS)
        await drift(cluster)
        await cluster.wait(60)
        assert await staying(cluster) == [claim_of(first)]
        said = (await verdicts(cluster))[first.metadata.name]
        assert "its disruption could not be begun, and is tried again later: its taint, or" in said
        assert "(admission webhook denied the request)" in said
        labels = {"consolidation_type": "emptiness"}
        assert cluster.metrics.value(DISRUPTION_QUEUE_FAILURES, **labels) == 1
        await cluster.wait(1800)
        assert 4 <= writes.count <= 7, "after 1, 3, 7, 15 and 25 minutes, at the latest"
        assert cluster.metrics.value(DISRUPTION_QUEUE_FAILURES, **labels) == writes.count
        blocked = [
            each
            for each in await cluster.events("DisruptionBlocked")
            if each.involvedObject.name == first.metadata.name
        ]
        assert 2 <= len(blocked) <= 3, "once in a quarter of an hour"
        assert "(admission webhook denied the request)" in blocked[0].message
        writes.refuse("taint", "Node")
        await cluster.wait(660)
        assert claim_of(first) not in await staying(cluster)

    run_cluster(story, instanceTypes=["m5.large"])


async def other_pool(cluster: ControlledCluster, *pods: str) -> str:
    """Drifted nodes with these pods, and in another NodePool one that is too large for its pod."""
    other = node_pool(
        "other",
        template={"spec": {"requirements": [ON_DEMAND]}},
        disruption={"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]},
        weight=1,
    )
    await cluster.set_up(pool(consolidateAfter="Never"), other)
    cluster.start()
    await cluster.wait(5)
    for name in pods:
        selector = {"spec": {"nodeSelector": {"karpenter.sh/nodepool": "web"}}}
        await cluster.add_node(name, cpu="1500m", **selector)
    selector = {"spec": {"nodeSelector": {"karpenter.sh/nodepool": "other"}}}
    await cluster.create_pod("big", cpu="2900m", **selector)
    large = (await cluster.add_node("small", cpu="800m", **selector)).metadata.name
    await cluster.bind("big", large)
    await empty(cluster, "big")
    return large


def test_replacements_that_are_refused_let_other_pools_be_consolidated() -> None:
    """The look after one that failed uses the other methods, so that they need not wait until each
    of the drifted nodes has been tried."""

    async def story(cluster: ControlledCluster) -> None:
        refused: list[float] = []

        def before(verb: str, kind: str, details: Mapping[str, Any]) -> None:
            if (verb, kind) != ("create", "NodeClaim"):
                return
            metadata = details["object"].metadata
            is_replacement = "wainwright.dev/replaces" in (metadata.annotations or {})
            if is_replacement and metadata.labels["karpenter.sh/nodepool"] == "web":
                refused.append(cluster.clock.now())
                raise RequestForbiddenError("exceeded quota", status=403)

        cluster.port = ObservedCluster(cluster.api, before)
        large = await other_pool(cluster, "web-0", "web-1", "web-2", "web-3", "web-4", "web-5")
        await cluster.wait(30)
        await cluster.api.patch(NodePool, "other", LOOKS_FOR_SAVINGS)
        await drift(cluster)
        while not refused:
            await cluster.wait(1)
        await cluster.wait(2)
        assert await tainted(cluster) == []
        await cluster.wait(33)
        assert await tainted(cluster) == [large]
        assert len(refused) <= 3, "a look in between, and one that waits for its validation"
        await cluster.wait(12)
        said = [text for text in (await verdicts(cluster)).values() if "could not be begun" in text]
        assert len(said) == len(refused)
        assert all("a replacement could not be created (exceeded quota)" in each for each in said)
        failures = cluster.metrics.value(DISRUPTION_QUEUE_FAILURES, consolidation_type="drift")
        assert failures == len(refused)

    run_cluster(story, instanceTypes=TYPES)


def test_a_command_that_is_begun_ends_the_wait_of_its_nodes() -> None:
    """The next failure is the first one again. In a simulation, that rests in between."""

    async def story(cluster: ControlledCluster) -> None:
        writes = RefusedWrites(cluster)
        cluster.feed = WorldChanges(cluster.api, cluster.account)
        (node,) = await started(cluster, "web-0")
        await cluster.wait(30)
        for _ in range(2):
            writes.refuse("taint", "Node", node.metadata.name)
            writes.count = 0
            await drift(cluster, f"tier-{cluster.clock.now():.0f}")
            while not writes.count:
                await cluster.wait(1)
            writes.refuse("taint", "Node")
            await cluster.wait(45)
            assert await tainted(cluster) == []
            await cluster.wait(30)
            assert await tainted(cluster) == [node.metadata.name]
            (claim,) = await replacements(cluster)
            await drift_back(cluster)
            await cluster.api.delete(NodeClaim, claim.metadata.name)
            await cluster.wait(20)
            assert await tainted(cluster) == []

    run_cluster(story, instanceTypes=["m5.large"])


async def drift_back(cluster: ControlledCluster) -> None:
    change = {"spec": {"template": {"metadata": {"labels": {"tier": None}}}}}
    await cluster.api.patch(NodePool, "web", change)
