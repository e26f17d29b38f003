"""Metrics of pods on their way: how long until they are planned, bound and ready, and for how long
they have been waiting.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from tests.support.controlled_cluster import ControlledCluster, node_pool, run_cluster
from tests.support.scraped_metrics import ScrapedMetrics

from wainwright.api.kubernetes.workloads import Pod, PodCondition
from wainwright.clock import format_timestamp
from wainwright.controllers.settings import ControllerSettings
from wainwright.model.labels import ZONE

PODS = "karpenter_pods_"


async def make_ready(cluster: ControlledCluster, name: str, status: str = "True") -> None:
    """What the kubelet writes."""
    ready = PodCondition(
        type="Ready", status=status, lastTransitionTime=format_timestamp(cluster.clock.now())
    )
    written = {"phase": "Running", "conditions": msgspec.to_builtins([ready])}
    await cluster.api.patch_status(Pod, name, {"status": written}, "default")


async def start(cluster: ControlledCluster) -> None:
    await cluster.set_up(node_pool(disruption={"consolidateAfter": "Never"}))
    cluster.start()
    await cluster.wait(30)


def test_a_pod_is_measured_from_its_creation_and_from_its_plan() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await start(cluster)
        await cluster.create_pod()
        await cluster.wait(20)
        node = await cluster.join(await cluster.claim())
        await cluster.wait(20)
        await cluster.bind("web-0", node.metadata.name)
        await cluster.wait(7)
        await make_ready(cluster, "web-0", "False")
        await cluster.wait(3)
        assert not ScrapedMetrics(cluster.metrics).values(f"{PODS}startup_duration_seconds_sum")
        await make_ready(cluster, "web-0")
        await cluster.wait(1)
        scraped = ScrapedMetrics(cluster.metrics)

        def total(name: str) -> float:
            assert scraped.value(f"{PODS}{name}_seconds_count") == 1
            return scraped.value(f"{PODS}{name}_seconds_sum")

        assert 40 <= total("bound_duration") < 41
        assert 50 <= total("startup_duration") < 51
        decided = total("scheduling_decision_duration")
        assert 1 <= decided < 2, "the batch was idle for a second"
        assert abs(40 - decided - total("provisioning_bound_duration")) < 1
        assert abs(50 - decided - total("provisioning_startup_duration")) < 1
        assert not scraped.values(f"{PODS}unstarted_time_seconds")

    run_cluster(story)


def test_pods_that_wait_say_for_how_long_when_they_are_asked() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await start(cluster)
        await cluster.create_pod("large", cpu="900")
        await cluster.create_pod("small")
        await cluster.create_pod("gated", spec={"schedulingGates": [{"name": "later"}]})
        await cluster.wait(0.5)
        assert times(cluster, "provisioning_scheduling_undecided") == {"large": 0, "small": 0}
        await cluster.wait(9.5)
        assert times(cluster, "provisioning_scheduling_undecided") == {}
        everyone = {"large": 10, "small": 10, "gated": 10}
        assert times(cluster, "unbound") == times(cluster, "unstarted") == everyone
        assert times(cluster, "provisioning_unbound") == {"small": 9}
        node = await cluster.join(await cluster.claim())
        await cluster.bind("small", node.metadata.name)
        await cluster.wait(5)
        assert times(cluster, "unbound") == {"large": 15, "gated": 15}
        assert times(cluster, "unstarted") == {"large": 15, "small": 15, "gated": 15}
        assert times(cluster, "provisioning_unbound") == {}
        assert times(cluster, "provisioning_unstarted") == {"small": 14}
        await cluster.api.delete(Pod, "large", "default", grace_period=0)
        await make_ready(cluster, "small")
        await cluster.wait(1)
        assert times(cluster, "unstarted") == {"gated": 16}

    run_cluster(story)


def times(cluster: ControlledCluster, name: str) -> dict[str, int]:
    """By pod, in whole seconds."""
    scraped, metric = ScrapedMetrics(cluster.metrics), f"{PODS}{name}_time_seconds"
    stated: list[dict[str, Any]] = scraped.labels(metric)
    assert all(each["namespace"] == "default" for each in stated)
    return {each["name"]: int(scraped.value(metric, **each)) for each in stated}


def test_without_observability_of_the_state_no_pod_has_a_series() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await start(cluster)
        await cluster.create_pod("large", cpu="900")
        await cluster.wait(10)
        scraped = ScrapedMetrics(cluster.metrics)
        assert not scraped.values(f"{PODS}unbound_time_seconds")
        assert scraped.value(f"{PODS}scheduling_decision_duration_seconds_count") == 1

    run_cluster(story, settings=ControllerSettings(cluster_state_observability=False))


def test_a_process_that_ends_leaves_no_times_to_the_next() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await start(cluster)
        await cluster.create_pod("large", cpu="900")
        await cluster.wait(10)
        await cluster.kill()
        assert not ScrapedMetrics(cluster.metrics).values(f"{PODS}unbound_time_seconds")
        cluster.start()
        await cluster.wait(10)
        assert times(cluster, "unbound") == {"large": 20}

    run_cluster(story)


def test_pods_of_the_last_plan_are_counted_by_the_zone_that_is_left_to_them() -> None:
    def in_zones(*zones: str) -> dict[str, Any]:
        entry = {"key": ZONE, "operator": "In", "values": list(zones)}
        required = {"nodeSelectorTerms": [{"matchExpressions": [entry]}]}
        node_affinity = {"requiredDuringSchedulingIgnoredDuringExecution": required}
        return {"affinity": {"nodeAffinity": node_affinity}}

    async def story(cluster: ControlledCluster) -> None:
        await start(cluster)
        # Too large for any node, so that the next plan is made for all of them as well.
        await cluster.create_pod("anywhere", cpu="900")
        await cluster.create_pod("two", cpu="900", spec=in_zones("us-east-1a", "us-east-1b"))
        await cluster.create_pod("one", cpu="900", spec=in_zones("us-east-1b"))
        nowhere = in_zones("us-east-1a") | {"nodeSelector": {ZONE: "us-east-1b"}}
        await cluster.create_pod("nowhere", cpu="900", spec=nowhere)
        missing = {"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}
        await cluster.create_pod("lost", spec={"volumes": [missing]})
        await cluster.wait(10)
        scraped, zones = ScrapedMetrics(cluster.metrics), "pending_pods_by_effective_zone_count"
        found = {
            each["zone"]: scraped.value(f"karpenter_scheduler_{zones}", **each)
            for each in scraped.labels(f"karpenter_scheduler_{zones}")
        }
        assert found == {"flexible": 3, "us-east-1b": 1, "none": 1}
        assert scraped.value("karpenter_scheduler_ignored_pods_count") == 1, "no such volume"
        for pod in await cluster.pods():
            await cluster.api.delete(Pod, pod.metadata.name, "default", grace_period=0)
        await cluster.create_pod("small")
        await cluster.wait(30)
        after = ScrapedMetrics(cluster.metrics)
        assert after.value("karpenter_scheduler_ignored_pods_count") == 0
        assert after.values(f"karpenter_scheduler_{zones}") == [1]
        node = await cluster.join(await cluster.claim())
        await cluster.bind("small", node.metadata.name)
        await cluster.wait(1)
        assert not ScrapedMetrics(cluster.metrics).values(f"karpenter_scheduler_{zones}")

    run_cluster(story)


def test_a_plan_that_is_not_done_says_for_how_long_it_has_been_computed() -> None:
    async def story(cluster: ControlledCluster) -> None:
        async def slow(work: Callable[[], Any]) -> Any:
            await cluster.wait(20)
            return work()

        cluster.compute = slow
        await start(cluster)
        unfinished = "karpenter_scheduler_unfinished_work_seconds"
        assert ScrapedMetrics(cluster.metrics).value(unfinished) == 0
        await cluster.create_pod()
        await cluster.wait(11)
        assert 9 < ScrapedMetrics(cluster.metrics).value(unfinished) <= 10
        await cluster.wait(30)
        assert ScrapedMetrics(cluster.metrics).value(unfinished) == 0

    run_cluster(story)
