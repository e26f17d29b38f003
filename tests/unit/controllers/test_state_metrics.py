"""Metrics of the state (rows STA-1, STA-4), and of conditions."""

import msgspec
from tests.support.controlled_cluster import SOLD, ControlledCluster, node_pool, run_cluster
from tests.support.scraped_metrics import ScrapedMetrics

from wainwright.api.catalog_documents import NodeOverlay
from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.workloads import Pod
from wainwright.controllers.condition_metrics import METRICS
from wainwright.metrics import (
    NODEPOOL_COST,
    SCHEDULER_QUEUE,
    SCHEDULER_UNSCHEDULABLE,
    SCHEDULING_SECONDS,
    STATE_NODES,
    STATE_SYNCED,
    STATE_UNSYNCED_SECONDS,
)
from wainwright.model.labels import INSTANCE_TYPE


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
    of_claims = METRICS[NodeClaim]

    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(node_pool(disruption={"consolidateAfter": "Never"}))
        cluster.start()
        await cluster.wait(5)
        await cluster.create_pod()
        await cluster.wait(20)
        claim = await cluster.claim()
        name = claim.metadata.name

        def count(kind: str, status: str, reason: str) -> float:
            scraped = ScrapedMetrics(cluster.metrics)
            labels = {"type": kind, "status": status, "reason": reason}
            return sum(scraped.values("operator_nodeclaim_status_condition_count", **labels))

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


def test_for_how_long_conditions_and_deletions_last_is_computed_by_the_scrape() -> None:
    prefix = "operator_nodeclaim_"

    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(node_pool(disruption={"consolidateAfter": "Never"}))
        cluster.start()
        await cluster.wait(30)
        await cluster.add_node()
        await cluster.wait(10)
        name = (await cluster.claim()).metadata.name
        current = f"{prefix}status_condition_current_status_seconds"
        labels = {"type": "Registered", "status": "True", "reason": "Registered"}
        assert 10 <= ScrapedMetrics(cluster.metrics).value(current, **labels) <= 11
        await cluster.wait(100)
        assert 110 <= ScrapedMetrics(cluster.metrics).value(current, **labels) <= 111
        deletion = f"{prefix}termination_current_time_seconds"
        assert not ScrapedMetrics(cluster.metrics).values(deletion)
        await cluster.api.delete(NodeClaim, name)
        await cluster.wait(5)
        assert 5 <= ScrapedMetrics(cluster.metrics).value(deletion, name=name) <= 6
        await cluster.stop_pods()
        await cluster.wait(60)
        assert not ScrapedMetrics(cluster.metrics).values(deletion, name=name)

    run_cluster(story)


def test_conditions_of_node_claims_are_counted_together_with_the_longest_time() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(node_pool(disruption={"consolidateAfter": "Never"}))
        cluster.start()
        await cluster.wait(30)
        await cluster.add_node()
        await cluster.wait(100)
        await cluster.add_node("second")
        await cluster.wait(10)
        scraped, prefix = ScrapedMetrics(cluster.metrics), "operator_nodeclaim_status_condition_"
        registered = {"type": "Registered", "status": "True"}
        assert scraped.value(f"{prefix}count", **registered) == 2
        assert scraped.value(f"{prefix}current_status_seconds", **registered) > 100
        assert all("name" not in each for each in scraped.labels(f"{prefix}count"))
        ready = {"name": "web", "type": "Ready", "status": "True"}
        assert scraped.value("operator_nodepool_status_condition_count", **ready) == 1

    run_cluster(story)


def test_offerings_that_no_pool_can_launch_have_no_series() -> None:
    wanted = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-east-1a"]},
        {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["m5"]},
    ]

    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(node_pool(template={"spec": {"requirements": wanted}}))
        cluster.start()
        await cluster.wait(70)
        found = ScrapedMetrics(cluster.metrics)
        prefix = "karpenter_cloudprovider_instance_type_"
        types = {each["instance_type"] for each in found.labels(f"{prefix}cpu_cores")}
        assert types == {each for each in SOLD if each.startswith("m5.")}
        for each in found.labels(f"{prefix}offering_available"):
            assert (each["capacity_type"], each["zone"]) == ("on-demand", "us-east-1a")
        assert len(found.labels(f"{prefix}offering_price_estimate")) == len(types)

    run_cluster(story)


def test_instance_types_and_offerings_are_those_that_the_pools_can_launch() -> None:
    prefix = "karpenter_cloudprovider_instance_type_"

    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up()
        cluster.start()
        await cluster.wait(70)
        scraped = ScrapedMetrics(cluster.metrics)
        assert scraped.value(f"{prefix}cpu_cores", instance_type="m5.xlarge") == 4
        memory = scraped.value(f"{prefix}memory_bytes", instance_type="m5.xlarge")
        assert 14 * 2**30 < memory <= 16 * 2**30
        labels = {"instance_type": "m5.large", "capacity_type": "on-demand", "zone": "us-east-1a"}
        assert scraped.value(f"{prefix}offering_price_estimate", **labels) == 0.096
        assert scraped.value(f"{prefix}offering_available", **labels) == 1
        assert cluster.manager is not None
        cluster.manager._cloud.mark_unavailable("m5.large", "us-east-1a", "on-demand")
        await cluster.wait(70)
        after = ScrapedMetrics(cluster.metrics)
        assert after.value(f"{prefix}offering_available", **labels) == 0
        assert sum(after.values(f"{prefix}offering_available", instance_type="m5.large")) > 0

    run_cluster(story, instanceTypes=["m5.large", "m5.xlarge"])


def test_a_node_without_a_known_price_is_an_error_of_the_cost() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(node_pool(disruption={"consolidateAfter": "Never"}))
        cluster.start()
        await cluster.wait(30)
        node = await cluster.add_node()
        await cluster.wait(130)
        errors = "karpenter_nodepools_cost_tracker_errors_total"
        assert not ScrapedMetrics(cluster.metrics).values(errors)
        other = {"metadata": {"labels": {INSTANCE_TYPE: "m1.unknown"}}}
        await cluster.api.patch(Node, node.metadata.name, other)
        await cluster.wait(130)
        assert ScrapedMetrics(cluster.metrics).value(errors, nodepool="web") >= 1

    run_cluster(story)


def test_nodes_that_are_disrupted_use_the_budgets_of_their_pool_up() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(node_pool(disruption={"consolidateAfter": "Never"}))
        cluster.start()
        await cluster.wait(30)
        node = await cluster.add_node()
        await cluster.wait(30)
        used = "karpenter_nodepools_nodes_consuming_budgets"
        labels = {"nodepool": "web", "reason": "drifted"}
        assert ScrapedMetrics(cluster.metrics).value(used, **labels) == 0
        await cluster.set_ready(node.metadata.name, "False")
        await cluster.wait(30)
        scraped = ScrapedMetrics(cluster.metrics)
        assert scraped.value(used, **labels) == 1
        assert scraped.value(used, nodepool="web", reason="unhealthy") == 0, "repair is for these"

    run_cluster(story)
