"""Metrics with a series for each node and pod, as a scrape finds them."""

from typing import Any

import msgspec
import pytest
from tests.support.controlled_cluster import (
    ControlledCluster,
    merged,
    node_pool,
    pending_pod,
    run_cluster,
)
from tests.support.scraped_metrics import ScrapedMetrics

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.kubernetes.workloads import DaemonSet, Pod, ReplicaSet
from wainwright.controllers.settings import ControllerSettings

GIB = 2**30
OVERHEAD: dict[str, Any] = {
    "status": {
        "capacity": {"cpu": "4", "memory": "16Gi", "ephemeral-storage": "20Gi", "pods": "58"},
        "allocatable": {
            "cpu": "3920m",
            "memory": "15Gi",
            "ephemeral-storage": "18Gi",
            "pods": "58",
        },
    }
}


async def owned(
    cluster: ControlledCluster, kind: type[ReplicaSet | DaemonSet], **more: Any
) -> dict[str, Any]:
    """A pod of an object that is there: the API server deletes others."""
    template = {"metadata": {"labels": {"app": "web"}}, **with_limit("2")}
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": template}
    metadata = {"name": "web", "namespace": "default"}
    manifest = {"metadata": metadata, "spec": spec}
    owner = await cluster.api.create(msgspec.convert(manifest, kind, strict=False))
    reference = {"apiVersion": "apps/v1", "kind": kind.__name__, "name": "web"}
    references = [{**reference, "uid": owner.metadata.uid}]
    return merged({"metadata": {"ownerReferences": references}}, more)


def with_limit(cpu: str) -> dict[str, Any]:
    resources = {"requests": {"cpu": "500m"}, "limits": {"cpu": cpu, "memory": "2Gi"}}
    return {"spec": {"containers": [{"name": "main", "resources": resources}]}}


async def start(cluster: ControlledCluster) -> str:
    """The name of a node with a pod of its own, and one of a DaemonSet."""
    await cluster.set_up(node_pool(disruption={"consolidateAfter": "Never"}))
    cluster.start()
    await cluster.wait(30)
    await cluster.create_pod(**await owned(cluster, ReplicaSet))
    await cluster.wait(20)
    node = await cluster.join(await cluster.claim(), **OVERHEAD)
    name = node.metadata.name
    agent = await owned(cluster, DaemonSet, **with_limit("2"))
    await cluster.create(pending_pod("agent", **agent))
    await cluster.bind("web-0", name)
    await cluster.bind("agent", name)
    await cluster.wait(10)
    return name


def test_a_node_has_its_resources_and_those_of_its_pods() -> None:
    async def story(cluster: ControlledCluster) -> None:
        name = await start(cluster)
        await cluster.create_pod("done", cpu="1")
        await cluster.bind("done", name)
        await cluster.api.patch_status(Pod, "done", {"status": {"phase": "Succeeded"}}, "default")
        await cluster.wait(1)
        scraped = ScrapedMetrics(cluster.metrics)

        def of_node(metric: str, resource: str) -> float:
            labels = {"node_name": name, "nodepool": "web", "managed": "true"}
            return scraped.value(f"karpenter_nodes_{metric}", resource_type=resource, **labels)

        assert of_node("allocatable", "cpu") == 3.92
        assert of_node("system_overhead", "cpu") == 0.08
        assert of_node("system_overhead", "memory") == GIB
        assert of_node("total_pod_requests", "cpu") == 1.5
        assert of_node("total_pod_requests", "memory") == 3 * GIB, "a limit counts as a request"
        assert of_node("total_pod_requests", "pods") == 2
        assert of_node("total_pod_limits", "cpu") == 2
        assert of_node("total_daemon_requests", "cpu") == 0.5
        assert of_node("total_daemon_limits", "memory") == 2 * GIB
        assert of_node("total_daemon_requests", "pods") == 1

    run_cluster(story)


def test_a_node_has_other_resources_once_a_pod_of_the_cluster_requests_them() -> None:
    storage = {"resource_type": "ephemeral_storage"}

    async def story(cluster: ControlledCluster) -> None:
        name = await start(cluster)
        allocatable = "karpenter_nodes_allocatable"
        assert not ScrapedMetrics(cluster.metrics).values(allocatable, **storage)
        resources = {"requests": {"ephemeral-storage": "1Gi"}}
        container = {"name": "main", "resources": resources}
        await cluster.create_pod("writer", spec={"containers": [container]})
        await cluster.bind("writer", name)
        await cluster.wait(1)
        scraped = ScrapedMetrics(cluster.metrics)
        assert scraped.value(allocatable, **storage) == 18 * GIB
        assert scraped.value("karpenter_nodes_total_pod_requests", **storage) == GIB

    run_cluster(story)


def test_a_node_has_the_labels_that_dashboards_group_by_and_its_age() -> None:
    async def story(cluster: ControlledCluster) -> None:
        name = await start(cluster)
        before = ScrapedMetrics(cluster.metrics)
        (labels,) = before.labels("karpenter_nodes_current_lifetime_seconds")
        family, _, size = labels["instance_type"].partition(".")
        assert (labels["instance_family"], labels["instance_size"]) == (family, size)
        assert labels["node_name"] == name
        assert labels["zone"].startswith("us-east-1")
        assert (labels["capacity_type"], labels["os"]) == ("spot", "linux")
        await cluster.wait(60)
        after = ScrapedMetrics(cluster.metrics)
        age = "karpenter_nodes_current_lifetime_seconds"
        assert 10 <= before.value(age) < 11
        assert after.value(age) - before.value(age) == pytest.approx(60)

    run_cluster(story)


def test_the_utilization_is_the_share_of_all_nodes_that_pods_request() -> None:
    async def story(cluster: ControlledCluster) -> None:
        name = await start(cluster)
        utilization = "karpenter_cluster_utilization_percent"
        scraped = ScrapedMetrics(cluster.metrics)
        assert scraped.value(utilization, resource_type="cpu") == pytest.approx(100 * 1.5 / 3.92)
        assert scraped.value(utilization, resource_type="memory") == pytest.approx(100 * 3 / 15)
        await cluster.create_pod("second", cpu="2")
        await cluster.bind("second", name)
        await cluster.wait(1)
        scraped = ScrapedMetrics(cluster.metrics)
        assert scraped.value(utilization, resource_type="cpu") == pytest.approx(100 * 3.5 / 3.92)

    run_cluster(story)


def test_pods_are_counted_by_what_they_and_their_nodes_are() -> None:
    async def story(cluster: ControlledCluster) -> None:
        name = await start(cluster)
        before = ScrapedMetrics(cluster.metrics)
        await cluster.create_pod("second", cpu="100m")
        await cluster.bind("second", name)
        await cluster.create_pod("large", cpu="900")
        await cluster.wait(1)
        scraped = ScrapedMetrics(cluster.metrics)
        state, bound = "karpenter_pods_state", {"scheduled": "true", "nodepool": "web"}
        running = {"phase": "Pending", "ready": "false", "managed": "true"}
        added = scraped.value(state, **bound, **running) - before.value(state, **bound, **running)
        assert added == 1
        assert all(each["instance_type"] for each in scraped.labels(state) if each["nodepool"])
        assert scraped.value(state, nodepool="", scheduled="false", managed="false") == 1
        await cluster.api.delete(Pod, "large", "default", grace_period=0)
        await cluster.wait(1)
        assert all(each["nodepool"] for each in ScrapedMetrics(cluster.metrics).labels(state))

    run_cluster(story)


def test_without_observability_of_the_state_nodes_claims_and_pods_have_no_series() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await start(cluster)
        text = cluster.metrics.exposition()
        assert "node_name=" not in text
        assert "karpenter_pods_state" not in text
        assert "operator_node_status_condition" not in text
        assert "operator_nodeclaim_status_condition" not in text

    run_cluster(story, settings=ControllerSettings(cluster_state_observability=False))


@pytest.mark.parametrize("is_whole", [True, False])
def test_conditions_of_pools_and_classes_are_exported_whatever_the_settings(is_whole: bool) -> None:
    async def story(cluster: ControlledCluster) -> None:
        await start(cluster)
        scraped, ready = ScrapedMetrics(cluster.metrics), {"type": "Ready", "status": "True"}
        for kind, name in (("nodepool", "web"), ("ec2nodeclass", "default")):
            prefix = f"operator_{kind}_status_condition"
            assert scraped.value(f"{prefix}_count", name=name, **ready) == 1
            assert scraped.value(f"{prefix}_current_status_seconds", name=name, **ready) > 0
        conditions = scraped.values("operator_nodeclaim_status_condition_count", **ready)
        assert conditions == [1] * is_whole

    settings = ControllerSettings(cluster_state_observability=is_whole)
    run_cluster(story, settings=settings)


@pytest.mark.parametrize("is_whole", [True, False])
def test_what_is_being_deleted_is_exported_whatever_the_settings(is_whole: bool) -> None:
    async def story(cluster: ControlledCluster) -> None:
        await start(cluster)
        claim = await cluster.claim()
        await cluster.api.delete(NodeClaim, claim.metadata.name)
        await cluster.wait(10)
        current = "operator_nodeclaim_termination_current_time_seconds"
        deleted = ScrapedMetrics(cluster.metrics).value(current, name=claim.metadata.name)
        assert deleted == pytest.approx(10, abs=1)
        await cluster.stop_pods()
        await cluster.wait(120)
        scraped = ScrapedMetrics(cluster.metrics)
        assert not scraped.values(current)
        assert scraped.value("operator_nodeclaim_termination_duration_seconds_count") == 1

    settings = ControllerSettings(cluster_state_observability=is_whole)
    run_cluster(story, settings=settings)
