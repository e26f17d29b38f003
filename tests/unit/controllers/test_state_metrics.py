"""Metrics of the state (rows STA-1, STA-4), and of conditions."""

import msgspec
from tests.support.controlled_cluster import ControlledCluster, node_pool, run_cluster

from wainwright.api.catalog_documents import NodeOverlay
from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.workloads import Pod
from wainwright.metrics import (
    NODEPOOL_COST,
    SCHEDULER_QUEUE,
    SCHEDULER_UNSCHEDULABLE,
    SCHEDULING_SECONDS,
    STATE_NODES,
    STATE_SYNCED,
    STATE_UNSYNCED_SECONDS,
    condition_metrics,
)


def test_sta_1_nodes_are_counted_once_with_claims_that_have_not_joined() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(node_pool(disruption={"consolidateAfter": "Never"}))
        cluster.start()
        await cluster.wait(5)
        assert cluster.metrics.value(STATE_NODES) == 0
        assert cluster.metrics.value(STATE_SYNCED) == 1
        await cluster.add_node()
        await cluster.wait(5)
        await cluster.create_pod("web-1", cpu="30")
        await cluster.wait(20)
        assert cluster.metrics.value(STATE_NODES) == len(await cluster.claims()) == 2

    run_cluster(story)


def test_sta_1_while_an_instance_is_not_known_the_state_is_not_in_sync() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up()
        cluster.start()
        await cluster.wait(5)
        await cluster.create_pod()
        seen = set()
        for _ in range(800):
            await cluster.wait(0.005)
            seen.add(cluster.metrics.value(STATE_SYNCED))
        assert seen == {0, 1}
        assert cluster.metrics.value(STATE_SYNCED) == 1
        assert cluster.metrics.value(STATE_UNSYNCED_SECONDS) == 0

    run_cluster(story)


def test_sta_4_the_cost_of_a_pool_follows_its_nodes_prices_and_overlays() -> None:
    overlay = {
        "metadata": {"name": "discount"},
        "spec": {"requirements": [], "priceAdjustment": "-50%"},
    }

    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(node_pool(disruption={"consolidateAfter": "Never"}))
        cluster.start()
        await cluster.wait(70)
        assert "karpenter_nodepools_cost_total" in cluster.metrics.exposition()
        assert cluster.metrics.value(NODEPOOL_COST, nodepool="web") == 0
        await cluster.add_node()
        await cluster.wait(70)
        listed = cluster.metrics.value(NODEPOOL_COST, nodepool="web")
        assert 0.01 < listed < 0.2
        await cluster.create(msgspec.convert(overlay, NodeOverlay))
        await cluster.wait(130)
        discounted = cluster.metrics.value(NODEPOOL_COST, nodepool="web")
        assert abs(discounted - listed / 2) < 1e-9
        await cluster.api.delete(NodePool, "web")
        await cluster.wait(130)
        assert 'karpenter_nodepools_cost_total{nodepool="web"}' not in cluster.metrics.exposition()

    run_cluster(story)


def test_conditions_are_counted_with_their_transitions_until_their_object_is_gone() -> None:
    of_claims = condition_metrics("NodeClaim")

    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(node_pool(disruption={"consolidateAfter": "Never"}))
        cluster.start()
        await cluster.wait(5)
        await cluster.create_pod()
        await cluster.wait(20)
        claim = await cluster.claim()
        name = claim.metadata.name

        def count(kind: str, status: str, reason: str) -> float:
            stated = {"namespace": "", "name": name}
            return cluster.metrics.value(
                of_claims.count, type=kind, status=status, reason=reason, **stated
            )

        assert count("Launched", "True", "Launched") == 1
        assert count("Registered", "Unknown", "NodeNotFound") == 1
        node = await cluster.join(claim)
        await cluster.bind("web-0", node.metadata.name)
        await cluster.wait(10)
        assert count("Registered", "Unknown", "NodeNotFound") == 0
        assert count("Registered", "True", "Registered") == 1
        registered = {"type": "Registered", "status": "True"}
        assert cluster.metrics.value(of_claims.transitions, reason="Registered", **registered) == 1
        taken = cluster.metrics.distribution(of_claims.transition_seconds, **registered)
        assert (taken.count, taken.total > 10) == (1, True)
        await cluster.api.delete(NodeClaim, name)
        await cluster.wait(1)
        await cluster.stop_pods()
        await cluster.wait(60)
        assert await cluster.claims() == []
        assert "operator_nodeclaim_status_condition_count{" not in cluster.metrics.exposition()
        assert cluster.metrics.distribution(of_claims.termination_seconds).count == 1

    run_cluster(story)


def test_pods_without_a_place_are_counted_until_they_have_one() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up()
        cluster.start()
        await cluster.wait(5)
        await cluster.create_pod("large", cpu="900")
        await cluster.create_pod("small")
        await cluster.wait(20)
        metrics = cluster.metrics
        assert (metrics.value(SCHEDULER_QUEUE), metrics.value(SCHEDULER_UNSCHEDULABLE)) == (1, 1)
        assert metrics.distribution(SCHEDULING_SECONDS).count >= 1
        await cluster.api.delete(Pod, "large", "default", grace_period=0)
        await cluster.create_pod("other")
        await cluster.wait(30)
        assert metrics.value(SCHEDULER_UNSCHEDULABLE) == 0

    run_cluster(story)
