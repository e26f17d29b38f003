"""Consistency, hydration, pod events and Consolidatable (rows C1 to C3, LIF-6 to LIF-8)."""

import asyncio
from typing import Any

import msgspec
import pytest
from tests.support.controlled_cluster import (
    ControlledCluster,
    conditions,
    node_pool,
    pending_pod,
    run_cluster,
)

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.workloads import Pod
from wainwright.translate.object_metadata import parse_timestamp

KEPT = {"consolidateAfter": "1h", "budgets": [{"nodes": "0"}]}
CLASS_LABEL = "karpenter.k8s.aws/ec2nodeclass"
FOREIGN = {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"}


async def _started(cluster: ControlledCluster, **disruption: Any) -> None:
    await cluster.set_up(node_pool(disruption={**KEPT, **disruption}))
    cluster.start()
    await cluster.wait(5)


# Consistency


async def _join_with(cluster: ControlledCluster, memory: str) -> None:
    await cluster.create_pod(cpu="1", memory="1Gi")
    await cluster.wait(20)
    claim = await cluster.claim()
    status = {"capacity": {"memory": memory}}
    await cluster.join(claim, status=status)
    await cluster.wait(5)


async def _consistency(cluster: ControlledCluster) -> tuple[str, str]:
    return conditions(await cluster.claim())["ConsistentStateFound"]


def test_lif_6_c1_a_node_with_less_than_nine_tenths_of_what_it_should_have_is_named() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await _started(cluster)
        await _join_with(cluster, "1Gi")
        assert await _consistency(cluster) == ("False", "ConsistencyCheckFailed")
        (event,) = await cluster.events("FailedConsistencyCheck")
        claim = await cluster.claim()
        assert claim.status is not None
        expected = (claim.status.capacity or {})["memory"]
        assert f"expected {expected} of resource memory, but found 1Gi (" in event.message
        assert conditions(claim)["Ready"][0] == "True"

    run_cluster(story)


@pytest.mark.parametrize(("share", "expected"), [(0.905, "True"), (0.895, "False")])
def test_c1_a_tenth_less_is_no_inconsistency(share: float, expected: str) -> None:
    async def story(cluster: ControlledCluster) -> None:
        await _started(cluster)
        await cluster.create_pod()
        await cluster.wait(20)
        claim = await cluster.claim()
        assert claim.status is not None
        memory = str((claim.status.capacity or {})["memory"])
        mebibytes = (
            int(memory.removesuffix("Mi"))
            if memory.endswith("Mi")
            else 1024 * int(memory.removesuffix("Gi"))
        )
        await cluster.join(claim, status={"capacity": {"memory": f"{int(mebibytes * share)}Mi"}})
        await cluster.wait(5)
        assert (await _consistency(cluster))[0] == expected

    run_cluster(story)


def test_c1_a_claim_is_looked_at_once_in_ten_minutes() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await _started(cluster)
        await _join_with(cluster, "1Gi")
        (node,) = await cluster.nodes()
        full = {"status": {"capacity": {"memory": "1000Gi"}}}
        await cluster.api.patch_status(Node, node.metadata.name, full)
        await cluster.wait(590)
        assert (await _consistency(cluster))[0] == "False"
        assert len(await cluster.events("FailedConsistencyCheck")) == 1
        await cluster.wait(10)
        assert (await _consistency(cluster))[0] == "True"

    run_cluster(story)


def test_c1_as_long_as_it_lasts_people_are_reminded_every_ten_minutes() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await _started(cluster)
        await _join_with(cluster, "1Gi")
        await cluster.wait(1810)
        assert len(await cluster.events("FailedConsistencyCheck")) == 4

    run_cluster(story)


def test_c1_nodes_that_are_not_initialized_and_resources_nobody_requests_are_not_compared() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await _started(cluster)
        await cluster.create_pod()
        await cluster.wait(20)
        claim = await cluster.claim()
        status = {"capacity": {"memory": "1Gi", "ephemeral-storage": "1Gi"}}
        node = await cluster.join(claim, ready=False, status=status)
        await cluster.wait(700)
        assert "ConsistentStateFound" not in conditions(await cluster.claim())
        more = {"status": {"capacity": {"memory": "1000Gi"}}}
        await cluster.api.patch_status(Node, node.metadata.name, more)
        await cluster.set_ready(node.metadata.name)
        await cluster.wait(5)
        assert (await _consistency(cluster))[0] == "True"

    run_cluster(story)


# Hydration


def test_lif_8_c3_claims_and_nodes_without_the_label_of_their_class_get_it() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await _started(cluster)
        await cluster.add_node()
        await cluster.wait(5)
        claim = await cluster.claim()
        (node,) = await cluster.nodes()
        for kind, name in ((NodeClaim, claim.metadata.name), (Node, node.metadata.name)):
            await cluster.api.patch(kind, name, {"metadata": {"labels": {CLASS_LABEL: None}}})
        await cluster.wait(1)
        claim = await cluster.claim()
        (node,) = await cluster.nodes()
        assert (claim.metadata.labels or {})[CLASS_LABEL] == "default"
        assert (node.metadata.labels or {})[CLASS_LABEL] == "default"

    run_cluster(story)


def test_lif_8_c3_claims_of_foreign_classes_are_left_alone() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await _started(cluster)
        manifest = {
            "metadata": {"name": "foreign"},
            "spec": {"nodeClassRef": FOREIGN, "requirements": []},
            "status": {"providerID": "azure:///1", "conditions": []},
        }
        claim = msgspec.convert(manifest, NodeClaim, strict=False)
        cluster.api.load([claim])
        before = await cluster.claim()
        node = await cluster.join(before)
        await cluster.create_pod()
        await cluster.bind("web-0", node.metadata.name)
        await cluster.wait(1300)
        assert (await cluster.claim()).metadata.resourceVersion == before.metadata.resourceVersion
        (after,) = await cluster.nodes()
        assert CLASS_LABEL not in (after.metadata.labels or {})

    run_cluster(story)


# Pod events


async def _last_event(cluster: ControlledCluster) -> float | None:
    """Seconds since the last one."""
    claim = await cluster.claim()
    assert claim.status is not None
    stamp = parse_timestamp(claim.status.lastPodEventTime)
    return None if stamp is None else cluster.clock.now() - stamp


async def _bound(cluster: ControlledCluster, name: str, node: Node, **more: Any) -> None:
    await cluster.create(pending_pod(name, "10m", "10Mi", **more))
    await cluster.bind(name, node.metadata.name)
    await cluster.wait(1)


def test_c2_a_pod_that_is_bound_finishes_or_begins_to_terminate_is_an_event() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await _started(cluster)
        node = await cluster.add_node()
        await cluster.wait(60)
        assert (await _last_event(cluster) or 0) >= 60
        await _bound(cluster, "job", node)
        assert await _last_event(cluster) == 1
        await cluster.wait(60)
        await cluster.api.patch_status(Pod, "job", {"status": {"phase": "Succeeded"}}, "default")
        await cluster.wait(1)
        assert await _last_event(cluster) == 1
        await cluster.wait(60)
        await cluster.api.delete(Pod, "web-0", "default")
        await cluster.wait(1)
        assert await _last_event(cluster) == 1
        await cluster.wait(20)
        await cluster.api.delete(Pod, "web-0", "default", grace_period=0)
        await cluster.wait(1)
        assert await _last_event(cluster) == 22

    run_cluster(story)


def test_c2_daemonset_pods_and_other_changes_are_no_events() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await _started(cluster)
        node = await cluster.add_node()
        await cluster.wait(60)
        before = await _last_event(cluster)
        assert before is not None
        owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "1"}
        daemon = pending_pod("agent", "10m", metadata={"ownerReferences": [owner]})
        bound = msgspec.structs.replace(
            daemon, spec=msgspec.structs.replace(daemon.spec, nodeName=node.metadata.name)
        )
        cluster.api.load([bound])
        await cluster.api.patch(Pod, "web-0", {"metadata": {"labels": {"a": "b"}}}, "default")
        await cluster.wait(5)
        assert await _last_event(cluster) == before + 5

    run_cluster(story)


def test_c2_events_are_written_once_in_ten_seconds() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await _started(cluster)
        node = await cluster.add_node()
        await cluster.wait(60)
        for number in range(8):
            await _bound(cluster, f"job-{number}", node)
        assert await _last_event(cluster) == 8
        await cluster.wait(3)
        await _bound(cluster, "late", node)
        assert await _last_event(cluster) == 1

    run_cluster(story)


def test_c2_a_restart_is_no_pod_event() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await _started(cluster)
        await cluster.add_node()
        await cluster.wait(60)
        before = await _last_event(cluster)
        assert before is not None
        await cluster.kill()
        cluster.start()
        await cluster.wait(60)
        assert await _last_event(cluster) == before + 60

    run_cluster(story)


@pytest.mark.parametrize("claims", [0, 2])
def test_c2_a_node_without_a_claim_or_with_two_is_left_alone(claims: int) -> None:
    async def story(cluster: ControlledCluster) -> None:
        await _started(cluster)
        node = await cluster.add_node()
        await cluster.wait(60)
        claim = await cluster.claim()
        if claims == 2:
            metadata = msgspec.structs.replace(claim.metadata, name="web-twin", uid="twin")
            cluster.api.load([msgspec.structs.replace(claim, metadata=metadata)])
            await cluster.wait(1)
        else:
            manifest = {"metadata": {"name": "alone"}, "spec": {"providerID": "aws:///x/i-1"}}
            node = await cluster.api.create(msgspec.convert(manifest, Node, strict=False))
        before = [each.status for each in await cluster.claims()]
        await _bound(cluster, "job", node)
        stamps = [each and each.lastPodEventTime for each in before]
        after = [each.status and each.status.lastPodEventTime for each in await cluster.claims()]
        assert after == stamps

    run_cluster(story)


# Consolidatable


async def _is_consolidatable(cluster: ControlledCluster) -> bool:
    return "Consolidatable" in conditions(await cluster.claim())


def test_lif_7_consolidatable_once_consolidate_after_has_passed_since_the_last_pod_event() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await _started(cluster, consolidateAfter="30m")
        node = await cluster.add_node()
        await cluster.wait(1790)
        assert not await _is_consolidatable(cluster)
        await cluster.wait(20)
        assert await _is_consolidatable(cluster)
        await _bound(cluster, "job", node)
        assert not await _is_consolidatable(cluster)
        await cluster.wait(1801)
        assert await _is_consolidatable(cluster)

    run_cluster(story)


def test_lif_7_a_pod_event_takes_consolidatable_back_with_the_same_request() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await _started(cluster, consolidateAfter="30m")
        node = await cluster.add_node()
        await cluster.wait(1810)
        assert await _is_consolidatable(cluster)
        version = (await cluster.api.list(NodeClaim)).resource_version
        await _bound(cluster, "job", node)
        assert not await _is_consolidatable(cluster)
        changes = cluster.api.watch(NodeClaim, version)
        await anext(changes)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await anext(changes)

    run_cluster(story)


def test_lif_7_without_a_pod_event_it_counts_from_initialization() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await _started(cluster, consolidateAfter="30m")
        await cluster.create_pod()
        await cluster.wait(600)
        node = await cluster.join(await cluster.claim(), ready=False)
        await cluster.wait(2000)
        assert not await _is_consolidatable(cluster)
        await cluster.set_ready(node.metadata.name)
        await cluster.wait(1700)
        assert not await _is_consolidatable(cluster)
        await cluster.wait(110)
        assert await _is_consolidatable(cluster)

    run_cluster(story)


def test_lif_7_a_node_that_pods_are_on_their_way_to_is_not_consolidatable_yet() -> None:
    """It would be taken back as soon as they come: two requests for each new node."""

    async def story(cluster: ControlledCluster) -> None:
        await _started(cluster, consolidateAfter="1s")
        await cluster.create_pod()
        await cluster.wait(3)
        await cluster.join(await cluster.claim())
        await cluster.wait(15)
        assert not await _is_consolidatable(cluster)
        await cluster.api.delete(Pod, "web-0", "default")
        await cluster.wait(20)
        assert await _is_consolidatable(cluster)

    run_cluster(story)


def test_lif_7_a_node_that_is_consolidatable_stays_so_when_pods_are_planned_onto_it() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await _started(cluster, consolidateAfter="1s")
        await cluster.add_node()
        await cluster.wait(60)
        assert await _is_consolidatable(cluster)
        await cluster.create_pod("web-1", cpu="100m", memory="100Mi")
        await cluster.wait(10)
        assert len(await cluster.claims()) == 1
        assert await _is_consolidatable(cluster)

    run_cluster(story)


def test_lif_7_never_means_never_and_a_change_of_the_pool_counts_at_once() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await _started(cluster, consolidateAfter="Never")
        await cluster.add_node()
        await cluster.wait(7200)
        assert not await _is_consolidatable(cluster)
        await cluster.api.patch(
            type(await cluster.pool()), "web", {"spec": {"disruption": {"consolidateAfter": "1h"}}}
        )
        await cluster.wait(1)
        assert await _is_consolidatable(cluster)

    run_cluster(story)
