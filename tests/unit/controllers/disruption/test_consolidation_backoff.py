"""A node that consolidation removes and that has to be launched again is left alone for a while."""

from typing import Any

import msgspec
from tests.support.controlled_cluster import ControlledCluster, node_pool, run_cluster

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.kubernetes.cluster import Node, PodDisruptionBudget
from wainwright.api.kubernetes.workloads import Pod, StatefulSet
from wainwright.controllers.disruption.disruption_reports import NEW_SECONDS
from wainwright.core.disruption.candidates import UNDONE_CONSOLIDATIONS
from wainwright.metrics import UNDONE_CONSOLIDATIONS_TOTAL

ON_DEMAND = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
POOL: dict[str, Any] = {
    "disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]},
    "template": {"spec": {"requirements": [ON_DEMAND]}},
}

STATEFUL_SET: dict[str, Any] = {
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main"}]},
        },
    },
}


async def create_pod(cluster: ControlledCluster, name: str) -> None:
    await cluster.create_pod(name, **await of_web(cluster))


async def of_web(cluster: ControlledCluster) -> dict[str, Any]:
    """What makes a pod one of the StatefulSet web."""
    uid = (await cluster.api.get(StatefulSet, "web", "default")).metadata.uid
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": uid}
    return {"cpu": "800m", "metadata": {"ownerReferences": [{**owner, "controller": True}]}}


async def begin(cluster: ControlledCluster) -> None:
    await cluster.set_up(node_pool(**POOL))
    await cluster.create(msgspec.convert(STATEFUL_SET, StatefulSet, strict=False))
    cluster.start()
    await cluster.wait(5)


async def two_half_empty_nodes(cluster: ControlledCluster) -> None:
    """Each with a pod of web on it, which fits beside the other."""
    await begin(cluster)
    first = await cluster.add_node("web-0", **await of_web(cluster))
    await fill(cluster, first.metadata.name)
    await cluster.add_node("web-1", **await of_web(cluster))
    await cluster.api.delete(Pod, "filler", "default", grace_period=0)


async def fill(cluster: ControlledCluster, node: str) -> None:
    await cluster.create_pod("filler", cpu="1")
    await cluster.bind("filler", node)


async def drained(cluster: ControlledCluster) -> Pod:
    """The pod that consolidation has evicted, within a minute."""
    for _ in range(60):
        await cluster.wait(1)
        leaving = [each for each in await cluster.pods() if each.metadata.deletionTimestamp]
        if leaving:
            return leaving[0]
    raise AssertionError("nothing was evicted")


async def occupy_the_other_node(cluster: ControlledCluster, evicted: Pod) -> None:
    """Somebody else takes the room that was meant for the pod."""
    (kept,) = (
        each.metadata.name
        for each in await cluster.nodes()
        if each.metadata.name != evicted.spec.nodeName and not each.metadata.deletionTimestamp
    )
    await fill(cluster, kept)


async def undo(cluster: ControlledCluster, evicted: Pod) -> Node:
    """The pod is created again, and a node launched for it."""
    await occupy_the_other_node(cluster, evicted)
    await cluster.stop_pods()
    node = await cluster.add_node(evicted.metadata.name, **await of_web(cluster))
    await cluster.wait(120)
    await cluster.api.delete(Pod, "filler", "default", grace_period=0)
    return node


async def undone_claims(cluster: ControlledCluster) -> dict[str, str]:
    """By name."""
    return {
        each.metadata.name: stated
        for each in await cluster.claims()
        if (stated := (each.metadata.annotations or {}).get(UNDONE_CONSOLIDATIONS))
    }


async def verdicts(cluster: ControlledCluster) -> dict[str, str]:
    assert cluster.manager is not None
    assert cluster.manager.disruption is not None
    current = await cluster.manager.disruption.verdicts()
    return {each.candidate.name: each.code for each in current.outcomes}


def test_a_removal_that_is_undone_is_reported_and_not_repeated_for_a_growing_time() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await two_half_empty_nodes(cluster)
        first = await undo(cluster, await drained(cluster))
        ((claim, count),) = (await undone_claims(cluster)).items()
        assert (first.metadata.name, count) == (f"node-{claim}", "1")
        (event,) = await cluster.events("ConsolidationUndone")
        assert event.involvedObject.name == claim
        assert "StatefulSet default/web" in event.message
        assert "1 time in a row" in event.message
        assert cluster.metrics.value(UNDONE_CONSOLIDATIONS_TOTAL, nodepool="web") == 1
        await protect_all_but(cluster, first.metadata.name)
        await cluster.wait(1800)
        assert len(await cluster.nodes()) == 2, "an hour has not passed"
        assert (await verdicts(cluster))[first.metadata.name] == "consolidation-backoff"

        await cluster.wait(1800)
        second = await undo(cluster, await drained(cluster))
        assert {*(await undone_claims(cluster)).values()} == {"2"}
        await protect_all_but(cluster, second.metadata.name)
        await cluster.wait(3600)
        assert len(await cluster.nodes()) == 2, "two hours this time"
        await cluster.wait(3600)
        assert (await drained(cluster)).spec.nodeName == second.metadata.name

    run_cluster(story, instanceTypes=["m5.large"])


DB_BUDGET: dict[str, Any] = {
    "metadata": {"name": "db", "namespace": "default"},
    "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "db"}}},
}


def test_a_removal_that_takes_the_room_of_a_pod_that_waits_for_its_eviction_is_undone_too() -> None:
    """The plan has room for it on the node that is left; the kube-scheduler does not know that."""

    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        for number in range(2):
            node = await cluster.add_node(f"web-{number}", **await of_web(cluster))
            await cluster.create_pod(f"filler-{number}", cpu="1")
            await cluster.bind(f"filler-{number}", node.metadata.name)
        named = {"name": "db", "namespace": "default"}
        db = msgspec.convert({**STATEFUL_SET, "metadata": named}, StatefulSet, strict=False)
        uid = (await cluster.api.create(db)).metadata.uid
        owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": uid}
        metadata = {"labels": {"app": "db"}, "ownerReferences": [{**owner, "controller": True}]}
        draining = await cluster.add_node("db-0", cpu="300m", metadata=metadata)
        await cluster.create(msgspec.convert(DB_BUDGET, PodDisruptionBudget, strict=False))
        status = {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1}
        counted = {"status": {**status, "expectedPods": 1, "observedGeneration": 1}}
        await cluster.api.patch_status(PodDisruptionBudget, "db", counted, "default")
        ready = [{"type": "Ready", "status": "True"}]
        running = {"status": {"phase": "Running", "conditions": ready}}
        await cluster.api.patch_status(Pod, "db-0", running, "default")
        await cluster.wait(2)
        for number in range(2):
            await cluster.api.delete(Pod, f"filler-{number}", "default", grace_period=0)
        await cluster.api.delete(NodeClaim, draining.metadata.name.removeprefix("node-"))
        evicted = await drained(cluster)
        (kept,) = (
            each.spec.nodeName
            for each in await cluster.pods()
            if each.metadata.name.startswith("web") and not each.metadata.deletionTimestamp
        )
        await cluster.stop_pods()
        await create_pod(cluster, evicted.metadata.name)
        await cluster.create_pod("other", cpu="300m")
        for name in (evicted.metadata.name, "other"):
            await cluster.bind(name, kept)
        await cluster.wait(30)
        assert {*(await undone_claims(cluster)).values()} == {"1"}

    run_cluster(story, instanceTypes=["m5.large"])


async def protect_all_but(cluster: ControlledCluster, name: str) -> None:
    """So that it is certain which node consolidation would remove."""
    kept = {"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}
    for node in await cluster.nodes():
        if node.metadata.name != name:
            await cluster.api.patch(Node, node.metadata.name, kept)


def test_a_launch_after_all_pods_have_found_a_node_undoes_nothing() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await two_half_empty_nodes(cluster)
        evicted = await drained(cluster)
        await cluster.stop_pods()
        await create_pod(cluster, evicted.metadata.name)
        (kept,) = (
            each.metadata.name
            for each in await cluster.nodes()
            if each.metadata.name != evicted.spec.nodeName
        )
        await cluster.bind(evicted.metadata.name, kept)
        await cluster.wait(60)
        await cluster.api.delete(Pod, evicted.metadata.name, "default", grace_period=0)
        await fill(cluster, kept)
        await cluster.add_node(evicted.metadata.name, **await of_web(cluster))
        assert await undone_claims(cluster) == {}

    run_cluster(story, instanceTypes=["m5.large"])


def test_a_workload_that_has_grown_needs_its_node_for_that() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await two_half_empty_nodes(cluster)
        evicted = await drained(cluster)
        await cluster.stop_pods()
        await create_pod(cluster, "web-2")
        await create_pod(cluster, "web-3")
        await cluster.add_node(evicted.metadata.name, **await of_web(cluster))
        assert await undone_claims(cluster) == {}

    run_cluster(story, instanceTypes=["m5.large"])


def test_a_launch_that_costs_less_than_was_saved_undoes_nothing() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        small = await cluster.add_node("web-0", **await of_web(cluster))
        await fill(cluster, small.metadata.name)
        await cluster.create_pod("big", cpu="2500m")
        large = await cluster.add_node("web-1", **await of_web(cluster))
        await cluster.bind("big", large.metadata.name)
        for name in ("big", "filler"):
            await cluster.api.delete(Pod, name, "default", grace_period=0)
        evicted = await drained(cluster)
        assert evicted.spec.nodeName == large.metadata.name
        await undo(cluster, evicted)
        assert await undone_claims(cluster) == {}

    run_cluster(story, instanceTypes=["m5.large", "m5.xlarge"])


async def undone_once(cluster: ControlledCluster, *others: str) -> Node:
    """A node that came of a removal which was undone; `others` are pods on it besides web-0."""
    await begin(cluster)
    for name in others:
        await cluster.create_pod(name, cpu="2500m")
    node = await cluster.add_node("web-0", **await of_web(cluster))
    for name in others:
        await cluster.bind(name, node.metadata.name)
    stated = {"metadata": {"annotations": {UNDONE_CONSOLIDATIONS: "1"}}}
    await cluster.api.patch(NodeClaim, (await cluster.claim()).metadata.name, stated)
    await cluster.wait(60)
    return node


def test_an_empty_node_goes_whatever_was_undone() -> None:
    async def story(cluster: ControlledCluster) -> None:
        node = await undone_once(cluster)
        assert await verdicts(cluster) == {node.metadata.name: "consolidation-backoff"}
        await cluster.wait(NEW_SECONDS)
        (event, *_) = await cluster.events("Unconsolidatable")
        assert "had to be launched again" in event.message
        await cluster.api.delete(Pod, "web-0", "default", grace_period=0)
        await cluster.wait(120)
        assert await cluster.nodes() == []

    run_cluster(story, instanceTypes=["m5.large", "m5.xlarge"])


def test_a_replacement_inherits_the_count() -> None:
    async def story(cluster: ControlledCluster) -> None:
        node = await undone_once(cluster, "big")
        await cluster.api.delete(Pod, "big", "default", grace_period=0)
        await cluster.wait(1800)
        assert len(await cluster.claims()) == 1, "an hour has not passed"
        await cluster.wait(1830)
        (replacement,) = (
            each.metadata.name
            for each in await cluster.claims()
            if f"node-{each.metadata.name}" != node.metadata.name
        )
        assert (await undone_claims(cluster))[replacement] == "1"

    run_cluster(story, instanceTypes=["m5.large", "m5.xlarge"])
