"""Provisioning: batches, what is on its way, pods without a place, and the runaway guard."""

from typing import Any

import msgspec
import pytest
from tests.support.claim_stories import ObservedCluster
from tests.support.controlled_cluster import (
    ControlledCluster,
    conditions,
    node_pool,
    pending_pod,
    run_cluster,
)
from tests.support.scraped_metrics import ScrapedMetrics

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.workloads import Pod
from wainwright.clock import VirtualClock
from wainwright.controllers.provisioning.launch_backoff import BACKOFF_STEP
from wainwright.controllers.provisioning.provisioner import (
    MOST_REPORTED,
    START_SECONDS,
    PodBatchWindow,
    ReportedPods,
)
from wainwright.controllers.settings import ControllerSettings
from wainwright.core.explain.pod_verdicts import EMPTY_FUNNEL
from wainwright.metrics import SCHEDULING_SECONDS
from wainwright.model.disruption import Pause
from wainwright.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, ZONE
from wainwright.model.plan import ClusterLimits, PlanOptions, UnschedulableGroup
from wainwright.model.reasons import (
    LimitExceeded,
    NoCompatiblePool,
    PoolReason,
    PoolVerdict,
    UntoleratedTaint,
)
from wainwright.model.taints import Taint

QUIET: dict[str, Any] = {"disruption": {"consolidateAfter": "Never"}}
LIMITED_TO_ONE: dict[str, Any] = {"limits": {"nodes": "1"}}


def _only(instance_type: str) -> dict[str, Any]:
    requirement = {
        "key": "node.kubernetes.io/instance-type",
        "operator": "In",
        "values": [instance_type],
    }
    return {"template": {"spec": {"requirements": [requirement]}}}


@pytest.mark.parametrize(
    ("arrivals", "closes"),
    [
        ([0.0], 1.0),
        ([0.0, 0.9, 1.8], 2.8),
        ([number * 0.9 for number in range(40)], 10.0),
        ([0.0, 5.0], 1.0),
    ],
)
def test_a_batch_ends_when_no_pod_comes_for_a_second_and_after_ten_at_the_latest(
    arrivals: list[float], closes: float
) -> None:
    window = PodBatchWindow(idle=1.0, most=10.0)
    for arrival in arrivals:
        if window.is_open and window.seconds_left(arrival) <= 0:
            break
        window.extend(arrival)
    assert window.seconds_left(closes) == pytest.approx(0.0)


def test_pods_that_come_together_share_a_node() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up()
        cluster.start()
        await cluster.wait(5)
        for number in range(6):
            await cluster.create(pending_pod(f"web-{number}", cpu="100m"))
            await cluster.wait(0.5)
        assert await cluster.claims() == []
        await cluster.wait(2)
        assert len(await cluster.claims()) == 1

    run_cluster(story)


def test_pods_that_wait_for_their_turn_to_be_bound_are_not_planned_again() -> None:
    """The kube-scheduler binds hundreds of pods one after the other; while it does, the rest is
    counted on the node that came up for it, and afterwards not for longer than usual.
    """

    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(node_pool(**_only("m5.large")))
        cluster.start()
        names = [f"web-{number}" for number in range(5)]
        await cluster.create(*(pending_pod(name, cpu="300m") for name in names))
        await cluster.wait(5)
        node = await cluster.join(await cluster.claim())
        for name in names[:-1]:
            await cluster.wait(8)
            await cluster.bind(name, node.metadata.name)
        await cluster.wait(8)
        assert _plans(cluster) == 1
        await cluster.wait(8)
        assert _plans(cluster) == 2, "the last one was due"

    run_cluster(story)


def test_a_node_whose_claim_does_not_say_yet_that_it_is_initialized_keeps_its_pods() -> None:
    """The label of the node and the condition of the claim are two requests."""

    async def story(cluster: ControlledCluster) -> None:
        async def take_time(verb: str, kind: str, _: object) -> None:
            if (verb, kind) == ("patch_status", "NodeClaim"):
                await cluster.clock.sleep(4)

        cluster.port = ObservedCluster(cluster.api, take_time)
        await cluster.set_up(node_pool(**_only("m5.large")))
        cluster.start()
        await cluster.create(pending_pod("web-0", cpu="1500m"))
        await cluster.wait(20)
        await cluster.join(await cluster.claim())
        await cluster.wait(1)
        await cluster.create(pending_pod("web-1", cpu="1500m"))
        await cluster.wait(2)
        assert len(await cluster.claims()) == 2
        nominated = {event.message.split()[-1] for event in await cluster.events("Nominated")}
        names = {f"nodeclaim/{claim.metadata.name}" for claim in await cluster.claims()}
        assert nominated == names, "each pod has been planned once"

    run_cluster(story)


def _plans(cluster: ControlledCluster) -> int:
    return cluster.metrics.distribution(SCHEDULING_SECONDS).count


def test_a_pod_that_comes_later_uses_the_room_of_a_node_on_its_way() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(node_pool(**_only("m5.large")))
        cluster.start()
        await cluster.create(pending_pod("web-0", cpu="500m"))
        await cluster.wait(20)
        await cluster.create(pending_pod("web-1", cpu="500m"))
        await cluster.wait(20)
        claim = await cluster.claim()
        nominated = [event.message for event in await cluster.events("Nominated")]
        assert all(claim.metadata.name in message for message in nominated)
        await cluster.create(pending_pod("web-2", cpu="1500m"))
        await cluster.wait(20)
        assert len(await cluster.claims()) == 2

    run_cluster(story)


def test_nothing_is_planned_before_the_instances_of_claims_are_known() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up()
        cluster.start()
        await cluster.wait(5)
        failing = {"operation": "CreateFleet", "code": "InternalError", "status": 500}
        cluster.account.change({"faults": [failing]})
        await cluster.create(pending_pod("web-0"))
        await cluster.wait(4)
        first = await cluster.claims()
        await cluster.create(pending_pod("web-1", cpu="60"))
        await cluster.wait(20)
        later = await cluster.claims()
        assert len(first) == 1
        assert len(later) == 2, "a launch that has failed does not keep others waiting"

    run_cluster(story)


def test_without_capacity_the_next_plan_takes_what_is_left() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(
            node_pool(
                template={
                    "spec": {
                        "requirements": [
                            {
                                "key": "node.kubernetes.io/instance-type",
                                "operator": "In",
                                "values": ["m5.large", "m5.xlarge"],
                            }
                        ]
                    }
                }
            )
        )
        cluster.account.change({"unavailable": [{"instanceType": "m5.large"}]})
        cluster.start()
        await cluster.create(pending_pod("web-0"))
        await cluster.wait(60)
        claim = await cluster.claim()
        labels = claim.metadata.labels or {}
        assert labels["node.kubernetes.io/instance-type"] == "m5.xlarge"
        assert len(cluster.instances()) == 1

    run_cluster(story)


def test_a_pod_without_a_place_has_an_event_and_is_planned_again_when_that_changes() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(node_pool(**_only("m5.large")))
        cluster.start()
        await cluster.create(pending_pod("web-0", cpu="8"))
        await cluster.wait(700)
        assert await cluster.claims() == []
        messages = [event.message for event in await cluster.events("FailedScheduling")]
        assert 1 <= len(messages) <= 3  # one in five minutes
        assert messages[0].startswith("Failed to schedule pod: NodePool web: the pod needs 8 cpu; ")
        assert "; fix: allow node.kubernetes.io/instance-type=m5." in messages[0]
        await cluster.api.patch(
            NodePool, "web", {"spec": msgspec.to_builtins(node_pool(**_only("m5.4xlarge")).spec)}
        )
        await cluster.wait(20)
        assert len(await cluster.claims()) == 1

    run_cluster(story, instanceTypes=None)


def test_of_thousands_of_pods_without_a_place_so_many_get_an_event_in_a_round() -> None:
    """Each is a request to the API server, and what could be launched waits for it."""

    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(node_pool(**_only("m5.large")))
        cluster.start()
        for number in range(MOST_REPORTED + 50):
            await cluster.create(pending_pod(f"large-{number}", cpu="8"))
        await cluster.wait(20)
        first = {each.involvedObject.name for each in await cluster.events("FailedScheduling")}
        assert len(first) == MOST_REPORTED
        await cluster.create(pending_pod("small"))
        await cluster.wait(20)
        names = {each.involvedObject.name for each in await cluster.events("FailedScheduling")}
        assert len(names) == MOST_REPORTED + 50, "the others at the next plan"

    run_cluster(story)


def test_pods_wait_for_the_first_class_that_is_resolved() -> None:
    """At the start nothing can be launched for a moment, and no pod is given up for that."""

    async def story(cluster: ControlledCluster) -> None:
        await cluster.create(node_pool())
        cluster.start()
        await cluster.create(pending_pod())
        await cluster.wait(START_SECONDS - 5)
        assert await cluster.events("FailedScheduling") == []
        await cluster.wait(30)
        assert len(await cluster.events("FailedScheduling")) == 1, "there really is no class"

    run_cluster(story)


def test_pods_wait_for_the_status_of_a_class_that_is_resolved_but_not_written_yet() -> None:
    async def story(cluster: ControlledCluster) -> None:
        async def before(verb: str, kind: str, _: object) -> None:
            if (verb, kind) == ("patch_status", "EC2NodeClass"):
                await cluster.clock.sleep(5)

        cluster.port = ObservedCluster(cluster.api, before)
        await cluster.set_up()
        await cluster.create(pending_pod())
        cluster.start()
        await cluster.wait(10)
        assert await cluster.events("FailedScheduling") == []
        assert len(await cluster.claims()) == 1

    run_cluster(story)


def test_an_offering_without_capacity_is_tried_again_after_three_minutes() -> None:
    async def story(cluster: ControlledCluster) -> None:
        cluster.account.change({"unavailable": [{"instanceType": "m5.large"}]})
        await cluster.set_up(node_pool(**_only("m5.large")))
        cluster.start()
        await cluster.create(pending_pod("web-0"))
        await cluster.wait(60)
        assert await cluster.claims() == []
        cluster.account.change({"unavailable": []})
        await cluster.wait(100)
        early = await cluster.claims()
        await cluster.wait(60)
        assert (len(early), len(await cluster.claims())) == (0, 1)

    run_cluster(story)


def test_limits_of_pool_and_cluster_hold_over_several_batches() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(
            node_pool("first", **LIMITED_TO_ONE, weight=10),
            node_pool("second", **_only("m5.large")),
        )
        cluster.start()
        for number in range(5):
            await cluster.create(pending_pod(f"web-{number}", cpu="1500m", **_apart()))
            await cluster.wait(30)
        pools = [(claim.metadata.labels or {})["karpenter.sh/nodepool"] for claim in await claims()]
        assert sorted(pools) == ["first", "second", "second"]

    async def claims() -> list[NodeClaim]:
        return await clusters[0].claims()

    clusters: list[ControlledCluster] = []

    async def with_limit(cluster: ControlledCluster) -> None:
        limits = ClusterLimits(nodes=3)
        cluster.settings = msgspec.structs.replace(
            cluster.settings, plan_options=PlanOptions(cluster_limits=limits)
        )
        clusters.append(cluster)
        await story(cluster)

    run_cluster(with_limit)


def _apart() -> dict[str, Any]:
    """Pods of which each needs a node of its own."""
    term = {
        "labelSelector": {"matchLabels": {"app": "web"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return {"metadata": {"labels": {"app": "web"}}, "spec": _with_affinity(affinity)}


def _with_affinity(affinity: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": affinity}


@pytest.mark.parametrize(
    ("value", "launches"),
    [
        ("provisioning", 0),
        ("all", 0),
        ("disruption", 1),
        ("Disruption ", 1),
        ("false", 1),
        ("true", 0),
    ],
)
def test_a_paused_pool_gets_no_new_claims(value: str, launches: int) -> None:
    async def story(cluster: ControlledCluster) -> None:
        pool = node_pool()
        annotated = msgspec.structs.replace(
            pool,
            metadata=msgspec.structs.replace(
                pool.metadata, annotations={"wainwright.dev/pause": value}
            ),
        )
        await cluster.set_up(annotated)
        cluster.start()
        await cluster.create(pending_pod())
        await cluster.wait(60)
        assert len(await cluster.claims()) == launches
        assert _is_paused(cluster, "web") == (not launches)
        await cluster.api.patch(NodePool, "web", {"metadata": {"annotations": None}})
        await cluster.wait(10)
        assert len(await cluster.claims()) == 1
        assert not _is_paused(cluster, "web")

    run_cluster(story)


def _is_paused(cluster: ControlledCluster, pool: str) -> bool:
    return bool(
        ScrapedMetrics(cluster.metrics).value("wainwright_provisioning_paused", nodepool=pool)
    )


def _paused_pool(name: str = "web", pause: str = "provisioning", **spec: Any) -> NodePool:
    pool = node_pool(name, **spec)
    annotations = {"wainwright.dev/pause": pause}
    metadata = msgspec.structs.replace(pool.metadata, annotations=annotations)
    return msgspec.structs.replace(pool, metadata=metadata)


def test_pods_and_nodepools_say_that_provisioning_is_paused() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(_paused_pool())
        cluster.start()
        await cluster.create(pending_pod())
        await cluster.wait(300)
        (failed,) = await cluster.events("FailedScheduling")
        assert failed.message == (
            "Failed to schedule pod: NodePool web: it launches no nodes: provisioning is paused by "
            "its annotation wainwright.dev/pause; fix: resume it: kubectl annotate nodepool web "
            "wainwright.dev/pause-"
        )
        (paused,) = await cluster.events("ProvisioningPaused")
        assert paused.involvedObject.name == "web"
        assert paused.message == (
            "no node is launched for pods: provisioning is paused by its annotation "
            "wainwright.dev/pause; resume it: kubectl annotate nodepool web wainwright.dev/pause-"
        )

    run_cluster(story)


def test_a_paused_nodepool_beside_others_is_named() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(_paused_pool("batch"), node_pool(**_only("m5.large"), **QUIET))
        cluster.start()
        await cluster.create(pending_pod("web-0", cpu="3"))
        await cluster.create(pending_pod("web-1"))
        await cluster.wait(60)
        assert len(await cluster.claims()) == 1
        (failed,) = await cluster.events("FailedScheduling")
        assert failed.involvedObject.name == "web-0"
        assert "; provisioning is paused in batch" in failed.message
        assert (_is_paused(cluster, "batch"), _is_paused(cluster, "web")) == (True, False)

    run_cluster(story)


def test_a_pause_of_all_nodepools_says_how_to_resume_them() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(node_pool())
        cluster.start()
        await cluster.create(pending_pod())
        await cluster.wait(60)
        (failed,) = await cluster.events("FailedScheduling")
        assert "provisioning of all NodePools is paused by the setting pause; fix: " in (
            failed.message
        )
        assert "ConfigMap wainwright-settings" in failed.message
        assert _is_paused(cluster, "web")

    run_cluster(story, settings=ControllerSettings(pause=Pause.PROVISIONING))


UNREADABLE = '"yes" is not one of all, disruption, provisioning: everything is paused'


def test_pods_and_nodepools_say_that_a_pause_cannot_be_read() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(_paused_pool(pause="yes"))
        cluster.start()
        await cluster.create(pending_pod())
        await cluster.wait(60)
        (failed,) = await cluster.events("FailedScheduling")
        why = f"(wainwright.dev/pause: {UNREADABLE}); fix: resume it: kubectl annotate nodepool web"
        assert why in failed.message
        (paused,) = await cluster.events("ProvisioningPaused")
        assert UNREADABLE in paused.message

    run_cluster(story)


def test_a_setting_that_cannot_be_read_is_named_with_how_to_resume() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(node_pool())
        cluster.start()
        settings.switch.set("yes")
        await cluster.create(pending_pod())
        await cluster.wait(60)
        assert await cluster.claims() == []
        (paused,) = await cluster.events("ProvisioningPaused")
        assert f"(pause of the ConfigMap wainwright-settings: {UNREADABLE})" in paused.message
        assert "resume it: remove the key pause of the ConfigMap" in paused.message

    settings = ControllerSettings()
    run_cluster(story, settings=settings)


def test_a_plan_without_a_paused_nodepool_is_not_made_again_and_again() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(_paused_pool())
        cluster.start()
        await cluster.create(pending_pod())
        await cluster.wait(60)
        plans = cluster.metrics.distribution(SCHEDULING_SECONDS).count
        await cluster.wait(120)
        assert cluster.metrics.distribution(SCHEDULING_SECONDS).count == plans

    run_cluster(story)


def test_objects_of_foreign_classes_are_left_alone() -> None:
    async def story(cluster: ControlledCluster) -> None:
        foreign = {"group": "example.com", "kind": "Machines", "name": "default"}
        await cluster.set_up(node_pool(template={"spec": {"nodeClassRef": foreign}}))
        cluster.start()
        await cluster.create(pending_pod())
        await cluster.wait(60)
        assert await cluster.claims() == []

    run_cluster(story)


@pytest.mark.parametrize(
    ("pool_limits", "cluster_limits"),
    [
        ({"cpu": "3"}, ClusterLimits()),
        ({}, ClusterLimits(cpu=3000)),
        ({}, ClusterLimits(price_per_hour=0.1)),
    ],
)
def test_a_launch_that_is_tried_again_keeps_its_share_of_the_limits(
    pool_limits: dict[str, Any], cluster_limits: ClusterLimits
) -> None:
    async def story(cluster: ControlledCluster) -> None:
        pool = node_pool(**_only("m5.large"), **QUIET, limits=pool_limits)
        await cluster.set_up(pool)
        cluster.start()
        await cluster.wait(5)
        cluster.account.change({"faults": [{"operation": "CreateFleet"}]})
        await cluster.create(pending_pod("web-0", cpu="500m"))
        await cluster.wait(20)
        assert conditions(await cluster.claim())["Launched"][0] == "Unknown"
        await cluster.create(pending_pod("web-1", cpu="1800m"))
        await cluster.wait(20)
        assert len(await cluster.claims()) == 1, "what is launched for web-0 has two CPUs"
        cluster.account.change({"faults": []})
        await cluster.wait(120)
        assert len(cluster.instances()) == 1

    settings = ControllerSettings(plan_options=PlanOptions(cluster_limits=cluster_limits))
    run_cluster(story, settings=settings)


@pytest.mark.parametrize(
    ("missing", "expected"),
    [([], ["m5.large"] * 3), (["m5.large"], ["m5.large", "m5.xlarge"])],
    ids=["as planned", "the first becomes larger"],
)
def test_launches_that_become_larger_than_planned_keep_to_the_limits(
    missing: list[str], expected: list[str]
) -> None:
    """Three nodes of two CPUs each are planned; in one zone EC2 may have none so small."""
    apart = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    here = {"nodeSelector": {ZONE: "us-east-1a"}}

    async def story(cluster: ControlledCluster) -> None:
        kinds = {"key": CAPACITY_TYPE, "operator": "In", "values": [ON_DEMAND]}
        template = {"spec": {"requirements": [kinds]}}
        await cluster.set_up(node_pool(template=template, **QUIET, limits={"cpu": "6"}))
        cluster.start()
        await cluster.wait(5)
        entries = [{"instanceType": each, "zone": "us-east-1a"} for each in missing]
        cluster.account.change({"unavailable": entries})
        for number, place in enumerate((here, {}, {})):
            more: dict[str, Any] = {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"topologySpreadConstraints": [apart], **place},
            }
            await cluster.create(pending_pod(f"web-{number}", cpu="1500m", **more))
        await cluster.wait(60)
        labels = [claim.metadata.labels or {} for claim in await cluster.claims()]
        assert sorted(each[INSTANCE_TYPE] for each in labels) == expected
        assert len(cluster.instances()) == len(expected)

    run_cluster(story, instanceTypes=["m5.large", "m5.xlarge"])


async def _join_too_small(cluster: ControlledCluster) -> None:
    """Every claim that has launched gets a node that keeps too much of its memory to itself."""
    names = {node.metadata.name for node in await cluster.nodes()}
    for claim in await cluster.claims():
        launched = conditions(claim).get("Launched", ("", ""))[0] == "True"
        if launched and f"node-{claim.metadata.name}" not in names:
            small = {"cpu": "2", "memory": "512Mi", "pods": "29"}
            await cluster.join(claim, status={"allocatable": small})


def _waiting_pods(cluster: ControlledCluster) -> float:
    return ScrapedMetrics(cluster.metrics).value("wainwright_launch_backoff_pods")


def test_a_pod_that_may_get_a_node_again_no_longer_waits() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(node_pool(**_only("m5.large"), **QUIET))
        cluster.start()
        await cluster.create(pending_pod("web-0"))
        for _ in range(4):
            await cluster.wait(60)
            await _join_too_small(cluster)
        assert _waiting_pods(cluster) == 1
        await cluster.wait(BACKOFF_STEP)
        assert _waiting_pods(cluster) == 0

    run_cluster(story)


def test_a_pod_that_the_scheduler_does_not_bind_gets_no_node_after_node() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(node_pool(**_only("m5.large"), **QUIET))
        cluster.start()
        await cluster.create(pending_pod("web-0"))
        counts = []
        for _ in range(24):
            await cluster.wait(60)
            await _join_too_small(cluster)
            counts.append(len(await cluster.claims()))
        # Two at once; a third five minutes after the second, a fourth ten minutes after the third.
        assert counts[3] == counts[5] == 2
        assert counts[9] == counts[14] == 3
        assert counts[-1] == 4
        events = await cluster.events("SchedulingDisagreement")
        events.sort(key=lambda each: each.firstTimestamp or "")
        assert events[0].message.startswith("2 nodes were launched for the pod")
        assert _waiting_pods(cluster) == 1
        failed = await cluster.events("FailedScheduling")
        failed.sort(key=lambda each: each.firstTimestamp or "")
        until = (events[0].message.partition("not before ")[2]).partition(". ")[0]
        assert failed[0].message == (
            f"Failed to schedule pod: launches for it back off until {until}: 2 nodes were "
            "launched for it and the kube-scheduler bound it to none"
        )
        assert not [each for each in failed if "NotIn" in each.message or "fix" in each.message]
        await cluster.api.delete(Pod, "web-0", "default", grace_period=0)
        await cluster.wait(1)
        assert _waiting_pods(cluster) == 0

    run_cluster(story)


def test_other_pods_get_their_nodes_while_one_waits() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(node_pool(**_only("m5.large"), **QUIET))
        cluster.start()
        await cluster.create(pending_pod("web-0"))
        for _ in range(4):
            await cluster.wait(60)
            await _join_too_small(cluster)
        assert len(await cluster.claims()) == 2
        await cluster.create(pending_pod("db-0"))
        await cluster.wait(20)
        assert len(await cluster.claims()) == 3

    run_cluster(story)


def test_a_pod_that_a_pool_launches_no_more_nodes_for_gets_one_of_another_pool() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(
            node_pool(weight=10, **_only("m5.large"), **QUIET),
            node_pool("other", **_only("m5.large"), **QUIET),
        )
        cluster.start()
        await cluster.create(pending_pod("web-0"))
        for _ in range(4):
            await cluster.wait(60)
            await _join_too_small(cluster)
        labels = [claim.metadata.labels or {} for claim in await cluster.claims()]
        assert {each["karpenter.sh/nodepool"] for each in labels} == {"web", "other"}

    run_cluster(story)


def test_a_pod_that_was_bound_is_forgotten_by_the_guard() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(node_pool(**_only("m5.large"), **QUIET))
        cluster.start()
        await cluster.create(pending_pod("web-0"))
        for _ in range(4):
            await cluster.wait(60)
            await _join_too_small(cluster)
        (first, _) = sorted(node.metadata.name for node in await cluster.nodes())
        await cluster.bind("web-0", first)
        await cluster.wait(BACKOFF_STEP)
        assert len(await cluster.claims()) == 2

    run_cluster(story)


def test_the_pods_of_a_node_that_leaves_get_another_before_they_are_evicted() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(node_pool(**_only("m5.large"), **QUIET))
        cluster.start()
        protected: dict[str, Any] = {
            "metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "30m"}}
        }
        await cluster.create(pending_pod("web-0", **protected))
        await cluster.wait(20)
        node = await cluster.join(await cluster.claim())
        await cluster.bind("web-0", node.metadata.name)
        await cluster.wait(5)
        await cluster.api.delete(Node, node.metadata.name)
        await cluster.wait(30)
        assert len(await cluster.claims()) == 2
        pod = await cluster.api.get(Pod, "web-0", "default")
        assert pod.metadata.deletionTimestamp is None

    run_cluster(story)


def test_the_pods_of_a_node_that_leaves_get_no_node_after_node_that_is_too_small() -> None:
    """As long as nobody evicts them."""

    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(node_pool(**_only("m5.large"), **QUIET))
        cluster.start()
        protected: dict[str, Any] = {
            "metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "3h"}}
        }
        await cluster.create(pending_pod("web-0", **protected))
        await cluster.wait(20)
        node = await cluster.join(await cluster.claim())
        await cluster.bind("web-0", node.metadata.name)
        await cluster.wait(5)
        await cluster.api.delete(Node, node.metadata.name)
        counts = []
        for number in range(24):
            await cluster.wait(60)
            await _join_too_small(cluster)
            counts.append(len(await cluster.claims()) - 1)
            # The pod changes meanwhile: that it runs somewhere is no reason to forget.
            labels = {"metadata": {"labels": {"seen": str(number)}}}
            await cluster.api.patch(Pod, "web-0", labels, "default")
        assert counts[3] == counts[5] == 2
        assert counts[9] == counts[14] == 3
        assert counts[-1] == 4
        assert await cluster.events("SchedulingDisagreement") == []
        failed = await cluster.events("FailedScheduling")
        assert any("launched for it and none has room for it" in each.message for each in failed)

    run_cluster(story)


def test_a_claim_that_the_api_server_does_not_take_is_tried_again() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up()
        cluster.start()
        await cluster.wait(5)
        await cluster.create(pending_pod())
        await cluster.wait(0.5)
        cluster.api.stop()
        await cluster.wait(30)
        cluster.api.start()
        await cluster.wait(120)
        assert len(await cluster.claims()) == 1
        assert len(cluster.instances()) == 1

    run_cluster(story)


def test_names_do_not_repeat_over_restarts() -> None:
    clock = VirtualClock()
    clock.close()
    names: set[str] = set()

    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(node_pool(**_only("m5.large"), **QUIET))
        for number in range(3):
            cluster.start()
            await cluster.create(pending_pod(f"web-{number}", cpu="1500m"))
            await cluster.wait(30)
            await cluster.kill()
        names.update(claim.metadata.name for claim in await cluster.claims())
        cluster.start()

    run_cluster(story)
    assert len(names) == 3


def test_a_pod_waits_for_the_node_that_was_launched_for_it_and_is_planned_again_after_it() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(node_pool(**_only("m5.large"), **QUIET))
        cluster.start()
        await cluster.create(pending_pod("web-0", cpu="1500m"))
        await cluster.wait(20)
        # Smaller than planned: a plan would launch another node as soon as that is known.
        small = {"cpu": "1", "memory": "7Gi", "pods": "29"}
        await cluster.join(await cluster.claim(), status={"allocatable": small})
        counts = []
        for _ in range(3):
            await cluster.wait(6)
            counts.append(len(await cluster.claims()))
        assert counts == [1, 2, 2]

    run_cluster(story)


def test_pods_that_wait_for_a_node_leave_no_room_for_others_there() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(node_pool(**_only("m5.large"), **QUIET))
        cluster.start()
        await cluster.create(pending_pod("web-0", cpu="1500m"))
        await cluster.wait(20)
        await cluster.join(await cluster.claim())
        await cluster.wait(2)
        await cluster.create(pending_pod("other", cpu="1500m"))
        await cluster.wait(4)
        assert len(await cluster.claims()) == 2

    run_cluster(story)


def unschedulable(
    pod: str, pool: str, in_use: int = 0, reason: PoolReason | None = None
) -> UnschedulableGroup:
    reached = LimitExceeded(
        resource="cpu", limit=4000, in_use=in_use, needed=2000, instance_type="m5.large"
    )
    verdict = PoolVerdict(pool=pool, reason=reason or reached, funnel=EMPTY_FUNNEL)
    return UnschedulableGroup(
        pods=(pod,), reason=NoCompatiblePool(), pools=(verdict,), nearest_pool=pool
    )


def test_an_unschedulable_pod_is_reported_again_after_a_while_or_for_another_cause() -> None:
    reported = ReportedPods()
    assert reported.select_due([unschedulable("a/b", "web")], 0.0) == {"a/b"}
    assert reported.select_due([unschedulable("a/b", "web", in_use=2000)], 10.0) == frozenset()
    assert reported.select_due([unschedulable("a/b", "gpu")], 20.0) == {"a/b"}
    assert reported.select_due([unschedulable("a/b", "gpu")], 319.0) == frozenset()
    assert reported.select_due([unschedulable("a/b", "gpu")], 320.0) == {"a/b"}
    tainted = UntoleratedTaint(taint=Taint(key="gpu"))
    assert reported.select_due([unschedulable("a/b", "gpu", reason=tainted)], 325.0) == {"a/b"}
    assert reported.select_due([], 330.0) == frozenset()
    assert reported.select_due([unschedulable("a/b", "gpu")], 340.0) == {"a/b"}


def test_a_new_process_does_not_collect_pods_that_have_waited_for_long() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up()
        await cluster.create_pod()
        await cluster.wait(60)
        cluster.start()
        await cluster.wait(0.5)
        assert len(await cluster.claims()) == 1

    run_cluster(story)


def test_a_pod_is_planned_again_where_another_has_got_its_room_on_a_node() -> None:
    """Its node is initialized, and no other pod becomes pending."""

    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(node_pool(disruption={"consolidateAfter": "Never"}))
        cluster.start()
        await cluster.wait(5)
        node = await cluster.add_node("web-0", cpu="100m")
        await cluster.wait(30)
        await cluster.create_pod("web-1", cpu="1500m")
        await cluster.wait(5)
        assert len(await cluster.claims()) == 1, "there is room for it"
        await cluster.create_pod("other", cpu="1500m", spec={"nodeName": node.metadata.name})
        await cluster.wait(30)
        assert len(await cluster.claims()) == 2

    run_cluster(story, instanceTypes=["m5.large"])
