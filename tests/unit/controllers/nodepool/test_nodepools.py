"""NodePools: what they hold, whether they may launch, and their hashes (rows N1 to N4)."""

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from tests.support.claim_stories import ControllersAlone
from tests.support.controlled_cluster import (
    ControlledCluster,
    conditions,
    node_pool,
    pending_pod,
    run_cluster,
)

from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.workloads import Pod
from wainwright.controllers.nodepool.nodepool_counter import NodePoolCounter
from wainwright.emulator.faults import FaultRule
from wainwright.emulator.settings import EmulatorSettings
from wainwright.metrics import NODEPOOL_LIMIT, NODEPOOL_USAGE

FOREIGN = {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"}
HASH, VERSION = "karpenter.sh/nodepool-hash", "karpenter.sh/nodepool-hash-version"
EMPTY = {"cpu": "0", "memory": "0", "pods": "0", "ephemeral-storage": "0", "nodes": "0"}
NEVER = {"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]}


async def _usage(cluster: ControlledCluster) -> tuple[dict[str, Any], int]:
    pool = await cluster.pool()
    assert pool.status is not None
    return dict(pool.status.resources or {}), pool.status.nodes


def test_n1_a_pool_without_nodes_shows_zeros() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up()
        cluster.start()
        await cluster.wait(5)
        assert await _usage(cluster) == (EMPTY, 0)

    run_cluster(story)


def test_npl_1_n1_an_instance_counts_by_its_claim_then_by_its_node_until_it_goes() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(node_pool(disruption=NEVER))
        cluster.start()
        await cluster.wait(5)
        await cluster.create_pod()
        await cluster.wait(20)
        claim = await cluster.claim()
        assert claim.status is not None
        capacity = {key: str(value) for key, value in (claim.status.capacity or {}).items()}
        assert await _usage(cluster) == ({**EMPTY, **capacity, "nodes": "1"}, 1)
        smaller = {"status": {"capacity": {"cpu": "1", "memory": "1Gi", "pods": "5"}}}
        node = await cluster.join(claim, ready=False, **smaller)
        await cluster.wait(10)
        assert (await _usage(cluster))[0]["cpu"] == "1"
        assert (await _usage(cluster))[0]["ephemeral-storage"] == capacity["ephemeral-storage"]
        await cluster.set_ready(node.metadata.name)
        await cluster.wait(10)
        assert (await _usage(cluster))[0]["pods"] == "5"
        await cluster.api.delete(NodeClaim, claim.metadata.name)
        await cluster.wait(30)
        assert (await _usage(cluster))[1] <= 1  # the pod has another one by now
        await cluster.api.delete(Pod, "web-0", "default", grace_period=0)
        for each in await cluster.claims():
            await cluster.api.delete(NodeClaim, each.metadata.name)
        await cluster.wait(60)
        assert await _usage(cluster) == (EMPTY, 0)

    run_cluster(story)


def test_n1_the_status_is_written_every_five_seconds_at_most_and_only_where_it_changes() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(node_pool(disruption=NEVER))
        cluster.start()
        await cluster.wait(30)
        written: list[tuple[float, int]] = []
        recording = asyncio.create_task(_record_usage(cluster, written))
        await cluster.wait(600)
        assert written == []
        for number in range(20):
            await cluster.create_pod(f"web-{number}", cpu="30")
            await cluster.wait(1.5)
        await cluster.wait(60)
        moments = [moment for moment, _ in written]
        assert len(moments) > 3
        assert min(b - a for a, b in pairwise(moments)) >= 5
        assert written[-1][1] == 20
        recording.cancel()

    run_cluster(story)


def test_sta_3_a_node_that_is_marked_for_deletion_is_subtracted_once_and_added_once() -> None:
    """Marked twice, by the taint of a command and by its own deletion, it is still one node."""
    disrupted = [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]

    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(node_pool(disruption=NEVER))
        cluster.start()
        await cluster.wait(5)
        for pod in ("web-0", "web-1"):
            await cluster.add_node(pod, cpu="60")
        await cluster.wait(30)
        await cluster.kill()
        alone = ControllersAlone(cluster)
        await alone.start([NodePoolCounter(alone.context)])
        name, seen = min(each.metadata.name for each in await cluster.nodes()), list[int]()

        async def mark(patch: dict[str, Any]) -> None:
            await cluster.api.patch(Node, name, patch)
            await cluster.wait(6)
            seen.append((await _usage(cluster))[1])

        await mark({"spec": {"taints": disrupted}})
        await mark({"metadata": {"labels": {"team": "web"}}})
        await mark({"spec": {"taints": []}})
        await mark({"spec": {"taints": disrupted}})
        await cluster.api.delete(NodeClaim, name.removeprefix("node-"))
        await cluster.api.delete(Node, name)
        await mark({"spec": {"taints": []}})
        await alone.stop()
        assert seen == [1, 1, 2, 1, 1]

    run_cluster(story)


async def _record_usage(cluster: ControlledCluster, written: list[tuple[float, int]]) -> None:
    """When what a pool holds is written, and how many nodes it has then."""
    known, version = EMPTY, (await cluster.api.list(NodePool)).resource_version
    async for event in cluster.api.watch(NodePool, version):
        status = None if event.object is None else event.object.status
        if status is not None and status.resources != known:
            known = {name: str(amount) for name, amount in (status.resources or {}).items()}
            written.append((cluster.clock.now(), status.nodes))


def test_n1_usage_and_limits_are_metrics_that_go_with_the_pool() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(node_pool(limits={"cpu": "100"}))
        cluster.start()
        await cluster.add_node()
        await cluster.wait(10)
        cpu = {"nodepool": "web", "resource_type": "cpu"}
        usage = (await _usage(cluster))[0]["cpu"]
        assert cluster.metrics.value(NODEPOOL_USAGE, **cpu) == float(usage) > 0
        assert cluster.metrics.value(NODEPOOL_LIMIT, **cpu) == 100
        storage = {"nodepool": "web", "resource_type": "ephemeral_storage"}
        assert cluster.metrics.value(NODEPOOL_USAGE, **storage) > 2**30
        await cluster.api.patch(NodePool, "web", {"spec": {"limits": None}})
        await cluster.wait(10)
        assert "karpenter_nodepools_limit{" not in cluster.metrics.exposition()
        await cluster.api.delete(NodePool, "web")
        await cluster.wait(10)
        assert "karpenter_nodepools_usage{" not in cluster.metrics.exposition()

    run_cluster(story)


def test_a_node_that_is_gone_does_not_count_against_limits_until_the_status_is_written() -> None:
    """A pool with room for one node, whose last node goes while a pod waits."""

    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(node_pool(limits={"nodes": "1"}))
        cluster.start()
        node = await cluster.add_node()
        await cluster.wait(10)
        await cluster.create_pod("web-1", nodeSelector={}, cpu="40")
        await cluster.wait(20)
        assert len(await cluster.claims()) == 1
        (claim,) = await cluster.claims()
        await cluster.api.delete(NodeClaim, claim.metadata.name)
        await cluster.api.delete(Pod, "web-0", "default", grace_period=0)
        await cluster.wait(60)
        (after,) = await cluster.claims()
        assert after.metadata.name != claim.metadata.name
        assert node.metadata.name not in [each.metadata.name for each in await cluster.nodes()]

    run_cluster(story)


# Conditions


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (["spot", "gp3-spot"], ("True", "ValidationSucceeded")),
        (["gp3-spot"], ("False", "NodePoolValidationFailed")),
    ],
)
def test_npl_3_n4_a_pool_without_a_known_capacity_type_fails_validation(
    known: list[str], expected: tuple[str, str]
) -> None:
    async def story(cluster: ControlledCluster) -> None:
        requirement = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": known}
        pool = node_pool(template={"spec": {"requirements": [requirement]}})
        await cluster.set_up(node_pool("other"))
        cluster.api.load([pool])  # an older API server let it through
        cluster.start()
        await cluster.wait(10)
        found = conditions(await cluster.pool())
        assert found["ValidationSucceeded"] == expected
        assert found["Ready"][0] == expected[0]
        assert conditions(await cluster.pool("other"))["Ready"][0] == "True"

    run_cluster(story)


def test_n4_a_name_that_no_label_can_have_fails_validation() -> None:
    async def story(cluster: ControlledCluster) -> None:
        name = "w" * 64
        await cluster.set_up(node_pool(name))
        cluster.start()
        await cluster.wait(10)
        assert conditions(await cluster.pool(name))["Ready"] == (
            "False",
            "NodePoolValidationFailed",
        )

    run_cluster(story)


async def _class_readiness(cluster: ControlledCluster) -> tuple[str, str]:
    await cluster.wait(10)
    return conditions(await cluster.pool())["NodeClassReady"]


def test_npl_2_n3_a_pool_is_ready_only_with_a_class_that_is() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.create(node_pool())
        cluster.start()
        assert await _class_readiness(cluster) == ("False", "NodeClassNotFound")
        assert conditions(await cluster.pool())["Ready"] == ("False", "NodeClassNotFound")
        await cluster.create_class(securityGroupSelectorTerms=[{"tags": {"no": "such"}}])
        status, reason = await _class_readiness(cluster)
        found = conditions(await cluster.api.get(EC2NodeClass, "default"))["Ready"]
        assert (status, reason) == ("False", found[1])
        await cluster.create_pod()
        await cluster.wait(30)
        assert await cluster.claims() == []
        discovery = {"tags": {"karpenter.sh/discovery": "wain"}}
        await cluster.change_class({"securityGroupSelectorTerms": [discovery]})
        assert (await _class_readiness(cluster))[0] == "True"
        assert conditions(await cluster.pool())["Ready"][0] == "True"
        await cluster.wait(10)
        assert len(await cluster.claims()) == 1
        await cluster.api.delete(EC2NodeClass, "default")
        assert await _class_readiness(cluster) == ("False", "NodeClassTerminating")

    run_cluster(story)


def test_n3_a_class_that_could_not_be_looked_at_is_not_ready() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up()
        cluster.start()
        assert await _class_readiness(cluster) == ("False", "NodeClassReadinessUnknown")
        cluster.account.change({"faults": []})
        await cluster.wait(120)
        assert (await _class_readiness(cluster))[0] == "True"

    run_cluster(story, emulator=EmulatorSettings(faults=(FaultRule(operation="DescribeSubnets"),)))


def test_pools_of_foreign_classes_are_left_alone() -> None:
    async def story(cluster: ControlledCluster) -> None:
        foreign = node_pool("foreign", template={"spec": {"nodeClassRef": FOREIGN}})
        await cluster.set_up(node_pool(), foreign)
        before = await cluster.pool("foreign")
        cluster.start()
        await cluster.add_node()
        await cluster.wait(700)
        after = await cluster.pool("foreign")
        assert after.metadata.resourceVersion == before.metadata.resourceVersion

    run_cluster(story)


# Hashes


async def _hashes(cluster: ControlledCluster) -> dict[str, tuple[str | None, str | None]]:
    claims = {
        each.metadata.name: each.metadata.annotations or {} for each in await cluster.claims()
    }
    return {name: (found.get(HASH), found.get(VERSION)) for name, found in claims.items()}


async def _annotate(cluster: ControlledCluster, name: str, **annotations: str) -> None:
    keys = {"hash": HASH, "version": VERSION}
    changed = {keys[key]: value for key, value in annotations.items()}
    await cluster.api.patch(NodeClaim, name, {"metadata": {"annotations": changed}})


def test_npl_4_n2_hashes_of_another_version_are_taken_over_and_drifted_claims_stay_so() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(node_pool(disruption={**NEVER, "budgets": [{"nodes": "0"}]}))
        cluster.start()
        for number in range(3):
            await cluster.add_node(f"web-{number}", cpu="30")
        await cluster.wait(10)
        await cluster.kill()
        old, drifted, ours = sorted(await _hashes(cluster))
        await _annotate(cluster, old, hash="123", version="v3")
        await _annotate(cluster, drifted, hash="456", version="v3")
        await _annotate(cluster, ours, hash="789")
        await cluster.set_condition(drifted, "Drifted")
        await cluster.api.patch(
            NodePool, "web", {"metadata": {"annotations": {HASH: "123", VERSION: "v3"}}}
        )
        cluster.start()
        await cluster.wait(10)
        annotations = (await cluster.pool()).metadata.annotations or {}
        assert annotations[VERSION] == "wain-1"
        assert await _hashes(cluster) == {
            old: (annotations[HASH], "wain-1"),
            drifted: ("456", "wain-1"),
            ours: ("789", "wain-1"),
        }

    run_cluster(story)


def test_n2_a_pool_of_our_version_never_touches_its_claims() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(node_pool(disruption=NEVER))
        cluster.start()
        await cluster.add_node()
        await cluster.wait(10)
        (name,) = await _hashes(cluster)
        await _annotate(cluster, name, hash="123", version="v3")
        before = (await cluster.pool()).metadata.annotations or {}
        template = {"metadata": {"labels": {"team": "shop"}}}
        await cluster.api.patch(NodePool, "web", {"spec": {"template": template}})
        await cluster.wait(10)
        after = (await cluster.pool()).metadata.annotations or {}
        assert after[VERSION] == before[VERSION]
        assert after[HASH] != before[HASH]
        assert await _hashes(cluster) == {name: ("123", "v3")}

    run_cluster(story)


def test_n2_claims_carry_the_hash_that_the_pool_has() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up()
        cluster.start()
        await cluster.add_node()
        annotations = (await cluster.pool()).metadata.annotations or {}
        assert [*(await _hashes(cluster)).values()] == [(annotations[HASH], "wain-1")]

    run_cluster(story)


# The end


def test_a_deleted_pool_takes_its_nodes_with_it_and_their_pods_go_to_other_pools() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(node_pool(weight=10))
        cluster.start()
        await cluster.add_node()
        await cluster.wait(10)
        await cluster.create(node_pool("other"))
        await cluster.api.delete(NodePool, "web")
        await cluster.wait(20)
        await cluster.stop_pods()
        await cluster.create(pending_pod("web-1"))
        await cluster.wait(60)
        labels = [each.metadata.labels or {} for each in await cluster.claims()]
        assert {each["karpenter.sh/nodepool"] for each in labels} == {"other"}
        assert len(cluster.instances()) == 1

    run_cluster(story)
