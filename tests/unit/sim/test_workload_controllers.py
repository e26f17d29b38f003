"""Workloads keep their pods: how many, which names, in which order, and of which template."""

from typing import Any

import pytest
from tests.support.simulated_cluster import (
    Manifest,
    SimulatedCluster,
    Story,
    node,
    play,
    pod,
    workload,
)

from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.storage import PersistentVolumeClaim
from wainwright.api.kubernetes.workloads import (
    DaemonSet,
    Deployment,
    Job,
    Pod,
    ReplicaSet,
    StatefulSet,
)
from wainwright.sim.kubelet import KubeletOptions

SMALL = {"requests": {"cpu": "100m"}}
NEW_TEMPLATE = {"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}}


def on_two_nodes(story: Story, **options: Any) -> None:
    play(
        story,
        options=KubeletOptions(**options),
        setup=lambda cluster: cluster.load(node("a"), node("b")),
    )


async def alive(cluster: SimulatedCluster) -> list[str]:
    pods = (await cluster.pods()).values()
    return [each.metadata.name for each in pods if each.metadata.deletionTimestamp is None]


def is_new(found: Pod) -> bool:
    return (found.metadata.annotations or {}).get("version") == "2"


async def scale(cluster: SimulatedCluster, kind: type[Any], name: str, replicas: int) -> None:
    await cluster.api.patch(kind, name, {"spec": {"replicas": replicas}}, "default")
    await cluster.wait()


# Deployments


def test_names_have_the_lowest_number_that_no_pod_has() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(pod("web-1"), workload("Deployment", "web", 3, template=SMALL))
        await cluster.wait(5)
        assert await alive(cluster) == ["web-0", "web-1", "web-2", "web-3"]
        await cluster.api.delete(Pod, "web-2", "default")
        await cluster.wait()
        assert await alive(cluster) == ["web-0", "web-1", "web-3", "web-4"]
        await cluster.wait(10)
        await scale(cluster, Deployment, "web", 4)
        assert await alive(cluster) == ["web-0", "web-1", "web-2", "web-3", "web-4"]

    on_two_nodes(story)


def test_of_equal_pods_the_youngest_goes_first() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(workload("Deployment", "web", 2, template=SMALL))
        await cluster.wait(60)
        await scale(cluster, Deployment, "web", 4)
        await cluster.wait(60)
        await scale(cluster, Deployment, "web", 2)
        assert await alive(cluster) == ["web-0", "web-1"]

    on_two_nodes(story)


def test_the_youngest_goes_first_whatever_its_number() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(workload("Deployment", "web", 3, template=SMALL))
        await cluster.wait(60)
        await cluster.api.delete(Pod, "web-0", "default", grace_period=0)
        await cluster.wait(60)
        assert await alive(cluster) == ["web-0", "web-1", "web-2"]
        await scale(cluster, Deployment, "web", 2)
        assert await alive(cluster) == ["web-1", "web-2"]

    on_two_nodes(story)


def test_a_pod_on_no_node_goes_before_one_that_starts() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(workload("Deployment", "web", 2, template={"requests": {"cpu": "3"}}))
        await cluster.wait(1)
        await cluster.api.delete(Node, "a")
        await cluster.wait()
        places = await cluster.placements()
        assert sorted(places.values()) == ["", "b"]
        await scale(cluster, Deployment, "web", 1)
        assert list((await cluster.placements()).values()) == ["b"]

    on_two_nodes(story)


def test_a_pod_that_is_not_ready_goes_before_one_that_is() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(workload("Deployment", "web", 3, template=SMALL))
        await cluster.wait(60)
        status = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
        await cluster.api.patch_status(Pod, "web-0", status, "default")
        await scale(cluster, Deployment, "web", 2)
        assert await alive(cluster) == ["web-1", "web-2"]

    on_two_nodes(story)


def test_pods_on_a_node_with_more_of_them_go_first() -> None:
    def bound(number: int, place: str) -> Manifest:
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "1"}
        made = pod(f"web-{number}", nodeName=place, ownerReferences=[owner], **SMALL)
        made["metadata"]["labels"] = {"app": "web"}
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        return {**made, "status": {"phase": "Running", "conditions": [ready]}}

    async def story(cluster: SimulatedCluster) -> None:
        await cluster.wait(1)
        await scale(cluster, Deployment, "web", 2)
        assert sorted((await cluster.placements()).values())[-2:] == ["a", "b"]
        left = [(await cluster.pods())[name].spec.nodeName for name in await alive(cluster)]
        assert sorted(left) == ["a", "b"]

    def setup(cluster: SimulatedCluster) -> None:
        deployment = workload("Deployment", "web", 3, template=SMALL)
        deployment["metadata"]["uid"] = "1"
        cluster.load(node("a"), node("b"), deployment, bound(0, "a"), bound(1, "a"), bound(2, "b"))

    play(story, setup=setup)


def test_a_changed_template_replaces_all_pods_at_once() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(workload("Deployment", "web", 3, template=SMALL))
        await cluster.wait(10)
        await cluster.api.patch(Deployment, "web", NEW_TEMPLATE, "default")
        await cluster.wait()
        assert await alive(cluster) == ["web-3", "web-4", "web-5"]
        await cluster.wait(10)
        assert sorted(await cluster.pods()) == ["web-3", "web-4", "web-5"]
        assert all(is_new(each) for each in (await cluster.pods()).values())

    on_two_nodes(story)


def test_recreate_waits_until_the_old_pods_are_gone() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        strategy = {"type": "Recreate"}
        await cluster.apply(workload("Deployment", "web", 2, template=SMALL, strategy=strategy))
        await cluster.wait(10)
        await cluster.api.patch(Deployment, "web", NEW_TEMPLATE, "default")
        await cluster.wait(4)
        assert await alive(cluster) == []
        await cluster.wait(2)
        assert await alive(cluster) == ["web-0", "web-1"]
        assert all(is_new(each) for each in (await cluster.pods()).values())

    on_two_nodes(story)


@pytest.mark.parametrize(
    ("surge", "unavailable", "most", "least"),
    [(1, 0, 5, 4), (0, 1, 4, 3), ("50%", "25%", 6, 3), (None, None, 5, 3)],
)
def test_a_rolling_update_keeps_its_limits(
    surge: Any, unavailable: Any, most: int, least: int
) -> None:
    async def story(cluster: SimulatedCluster) -> None:
        rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
        strategy: dict[str, Any] = {"type": "RollingUpdate"}
        if surge is not None:
            strategy["rollingUpdate"] = rolling
        await cluster.apply(workload("Deployment", "web", 4, template=SMALL, strategy=strategy))
        await cluster.wait(10)
        await cluster.api.patch(Deployment, "web", NEW_TEMPLATE, "default")
        for _ in range(120):
            await cluster.wait(0.5)
            pods = (await cluster.pods()).values()
            counted = [each for each in pods if each.metadata.deletionTimestamp is None]
            available = [each for each in counted if each.status.phase == "Running"]
            assert len(counted) <= most
            assert len(available) >= least
        assert len(await cluster.pods()) == 4
        assert all(is_new(each) for each in (await cluster.pods()).values())

    on_two_nodes(story)


def test_replica_sets_of_a_loaded_deployment_are_understood() -> None:
    def owner(kind: str, name: str, uid: str) -> list[dict[str, Any]]:
        api = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid}
        return [{**api, "controller": True}]

    def setup(cluster: SimulatedCluster) -> None:
        deployment = workload("Deployment", "web", 2, template=SMALL)
        deployment["metadata"]["uid"] = "1"
        replica_set = workload("ReplicaSet", "web", 2, template=SMALL)
        replica_set["metadata"] |= {"name": "web-abc", "uid": "2"}
        replica_set["metadata"]["ownerReferences"] = owner("Deployment", "web", "1")
        labels = {"app": "web", "pod-template-hash": "abc"}
        replica_set["spec"]["template"]["metadata"]["labels"] = labels
        owners = owner("ReplicaSet", "web-abc", "2")
        pods = [
            pod(f"web-abc-{end}", labels=labels, ownerReferences=owners, nodeName="a", **SMALL)
            for end in ("x", "y")
        ]
        cluster.load(node("a"), node("b"), deployment, replica_set, *pods)

    async def story(cluster: SimulatedCluster) -> None:
        await cluster.wait(60)
        assert await alive(cluster) == ["web-abc-x", "web-abc-y"]
        await cluster.api.delete(Pod, "web-abc-x", "default")
        await cluster.wait(10)
        assert await alive(cluster) == ["web-0", "web-abc-y"]
        await cluster.api.patch(Deployment, "web", NEW_TEMPLATE, "default")
        await cluster.wait(10)
        assert len(await alive(cluster)) == 2
        assert all(is_new(each) for each in (await cluster.pods()).values())

    play(story, setup=setup)


def test_pods_of_a_deleted_deployment_go() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(workload("Deployment", "web", 3, template=SMALL))
        await cluster.wait(10)
        await cluster.api.delete(Deployment, "web", "default")
        await cluster.wait(10)
        assert await cluster.pods() == {}

    on_two_nodes(story)


def test_a_replica_set_alone_keeps_the_pods_of_its_earlier_template() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(workload("ReplicaSet", "web", 2, template=SMALL))
        await cluster.wait(10)
        await cluster.api.patch(ReplicaSet, "web", NEW_TEMPLATE, "default")
        await scale(cluster, ReplicaSet, "web", 3)
        pods = await cluster.pods()
        assert [name for name in sorted(pods) if is_new(pods[name])] == ["web-2"]
        assert await alive(cluster) == ["web-0", "web-1", "web-2"]

    on_two_nodes(story)


# StatefulSets


def test_ordinals_come_in_order_and_go_backwards() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(workload("StatefulSet", "db", 3, template=SMALL))
        await cluster.wait(1)
        assert await alive(cluster) == ["db-0"]
        await cluster.wait(2)
        assert await alive(cluster) == ["db-0", "db-1"]
        await cluster.wait(5)
        assert await alive(cluster) == ["db-0", "db-1", "db-2"]
        await scale(cluster, StatefulSet, "db", 1)
        assert await alive(cluster) == ["db-0", "db-1"], "one at a time"
        await cluster.wait(20)
        assert await alive(cluster) == ["db-0"]

    on_two_nodes(story)


def test_parallel_ordinals_come_and_go_at_once() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        changes = {"podManagementPolicy": "Parallel", "ordinals": {"start": 5}}
        await cluster.apply(workload("StatefulSet", "db", 3, template=SMALL, **changes))
        await cluster.wait()
        assert await alive(cluster) == ["db-5", "db-6", "db-7"]
        await scale(cluster, StatefulSet, "db", 1)
        assert await alive(cluster) == ["db-5"]

    on_two_nodes(story)


def test_an_ordinal_comes_again_when_the_old_pod_is_gone() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(workload("StatefulSet", "db", 2, template=SMALL))
        await cluster.wait(10)
        before = (await cluster.pods())["db-0"].metadata.uid
        await cluster.api.delete(Pod, "db-0", "default")
        await cluster.wait(4)
        assert await alive(cluster) == ["db-1"]
        await cluster.wait(2)
        assert (await cluster.pods())["db-0"].metadata.uid != before

    on_two_nodes(story)


@pytest.mark.parametrize(
    ("strategy", "replaced"),
    [(None, ["db-0", "db-1"]), ("RollingUpdate", ["db-1"]), ("OnDelete", [])],
)
def test_a_stateful_set_replaces_pods_as_its_strategy_says(
    strategy: str | None, replaced: list[str]
) -> None:
    async def story(cluster: SimulatedCluster) -> None:
        changes = {} if strategy is None else {"updateStrategy": {"type": strategy}}
        await cluster.apply(workload("StatefulSet", "db", 2, template=SMALL, **changes))
        await cluster.wait(10)
        await cluster.api.patch(StatefulSet, "db", NEW_TEMPLATE, "default")
        await cluster.wait()
        leaving = {"db-0", "db-1"} - set(await alive(cluster))
        assert sorted(leaving) == replaced
        await cluster.wait(60)
        assert await alive(cluster) == ["db-0", "db-1"]
        new = [is_new(each) for each in (await cluster.pods()).values()]
        assert new == [strategy != "OnDelete"] * 2

    on_two_nodes(story)


def test_a_stateful_set_makes_the_claims_of_its_pods_and_leaves_them() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        spec = {"accessModes": ["ReadWriteOnce"], "resources": ONE_GIGABYTE}
        claims = [{"metadata": {"name": "data"}, "spec": spec}]
        await cluster.apply(
            workload(
                "StatefulSet",
                "db",
                2,
                volumeClaimTemplates=claims,
                podManagementPolicy="Parallel",
            )
        )
        await cluster.wait()
        found = (await cluster.pods())["db-1"]
        volumes = [each.persistentVolumeClaim for each in found.spec.volumes or ()]
        assert [each.claimName for each in volumes if each is not None] == ["data-db-1"]
        await scale(cluster, StatefulSet, "db", 0)
        await cluster.wait(10)
        listed = (await cluster.api.list(PersistentVolumeClaim)).items
        assert [each.metadata.name for each in listed] == ["data-db-0", "data-db-1"]

    on_two_nodes(story)


ONE_GIGABYTE = {"requests": {"storage": "1Gi"}}


# Jobs


def job(**changes: Any) -> Manifest:
    template = {
        **SMALL,
        "restartPolicy": "Never",
        "annotations": {"wainwright.dev/runs-for": "60s"},
    }
    return workload("Job", "sum", template=template, **changes)


async def job_status(cluster: SimulatedCluster) -> tuple[int, int, bool]:
    found = await cluster.api.get(Job, "sum", "default")
    return found.status.active, found.status.succeeded, bool(found.status.conditions)


def test_a_job_runs_its_completions_so_many_at_a_time() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(job(parallelism=2, completions=3))
        await cluster.wait(10)
        assert await job_status(cluster) == (2, 0, False)
        await cluster.wait(60)
        assert await job_status(cluster) == (1, 2, False)
        await cluster.wait(60)
        assert await job_status(cluster) == (0, 3, True)
        await cluster.wait(600)
        assert sorted(await cluster.pods()) == ["sum-0", "sum-1", "sum-2"]
        assert cluster.components.next_due is None

    on_two_nodes(story)


def test_what_a_job_has_done_counts_though_its_pods_are_gone() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(job(parallelism=1, completions=2))
        await cluster.wait(70)
        assert await job_status(cluster) == (1, 1, False)
        await cluster.api.delete(Pod, "sum-0", "default")
        await cluster.wait(1)
        assert await job_status(cluster) == (1, 1, False)

    on_two_nodes(story)


def test_an_evicted_pod_of_a_job_is_made_anew() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(job(completions=1))
        await cluster.wait(30)
        await cluster.api.evict("sum-0", "default")
        await cluster.wait(70)
        assert await job_status(cluster) == (0, 1, True)

    on_two_nodes(story)


def test_a_job_whose_pods_fail_too_often_has_failed() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(job(completions=3, parallelism=2, backoffLimit=1))
        await cluster.wait(10)
        await cluster.api.evict("sum-0", "default")
        await cluster.wait(10)
        assert await job_status(cluster) == (2, 0, False)
        await cluster.api.evict(next(iter(await cluster.pods())), "default")
        await cluster.wait(20)
        found = await cluster.api.get(Job, "sum", "default")
        assert [(each.type, each.reason) for each in found.status.conditions or ()] == [
            ("Failed", "BackoffLimitExceeded")
        ]
        assert (found.status.failed, found.status.active) == (2, 0)
        assert await cluster.pods() == {}

    on_two_nodes(story)


def test_a_job_may_fail_six_times_where_it_does_not_say() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(job(completions=1))
        for _ in range(6):
            await cluster.wait(10)
            (name,) = await cluster.pods()
            await cluster.api.evict(name, "default")
        await cluster.wait(70)
        assert await job_status(cluster) == (0, 1, True)

    on_two_nodes(story)


def test_pods_that_a_job_ends_itself_have_not_failed() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(job(completions=2, parallelism=2, backoffLimit=0))
        for suspend in (True, False):
            await cluster.wait(10)
            await cluster.api.patch(Job, "sum", {"spec": {"suspend": suspend}}, "default")
        await cluster.wait(80)
        assert await job_status(cluster) == (0, 2, True)

    on_two_nodes(story)


def test_a_job_fails_at_its_deadline() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(job(completions=3, activeDeadlineSeconds=90))
        await cluster.wait(100)
        found = await cluster.api.get(Job, "sum", "default")
        assert [(each.type, each.reason) for each in found.status.conditions or ()] == [
            ("Failed", "DeadlineExceeded")
        ]
        assert (found.status.succeeded, found.status.active) == (1, 0)

    on_two_nodes(story)


def test_a_finished_job_goes_with_its_pods_when_its_time_is_over() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(job(completions=1, ttlSecondsAfterFinished=120))
        await cluster.wait(150)
        assert await job_status(cluster) == (0, 1, True)
        await cluster.wait(60)
        assert (await cluster.api.list(Job)).items == []
        assert await cluster.pods() == {}
        assert cluster.components.next_due is None

    on_two_nodes(story)


def test_a_suspended_job_has_no_pods() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(job(parallelism=2, completions=2))
        await cluster.wait(10)
        await cluster.api.patch(Job, "sum", {"spec": {"suspend": True}}, "default")
        await cluster.wait(10)
        assert await cluster.pods() == {}
        await cluster.api.patch(Job, "sum", {"spec": {"suspend": False}}, "default")
        await cluster.wait(10)
        assert len(await cluster.pods()) == 2

    on_two_nodes(story)


def test_a_job_without_completions_ends_when_one_has_succeeded_and_the_others_have_ended() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(job(parallelism=2))
        await cluster.wait(70)
        assert await job_status(cluster) == (0, 2, True)
        assert len(await cluster.pods()) == 2

    on_two_nodes(story)


# DaemonSets


async def daemon_nodes(cluster: SimulatedCluster) -> list[str]:
    pods = (await cluster.pods()).values()
    return sorted(each.spec.nodeName for each in pods if each.metadata.deletionTimestamp is None)


def test_a_daemon_comes_and_goes_with_nodes() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(workload("DaemonSet", "agent", template=SMALL))
        await cluster.wait()
        assert await daemon_nodes(cluster) == ["a", "b"]
        cluster.launch()
        await cluster.wait(60)
        nodes = await daemon_nodes(cluster)
        assert len(nodes) == 3
        await cluster.api.delete(Node, nodes[-1])
        await cluster.wait(1)
        assert await daemon_nodes(cluster) == ["a", "b"]

    on_two_nodes(story)


def test_a_daemon_stays_on_cordoned_and_unreachable_nodes() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.api.patch(Node, "a", {"spec": {"unschedulable": True}})
        await cluster.apply(workload("DaemonSet", "agent", template=SMALL))
        await cluster.wait(1)
        cluster.components.lose("b")
        await cluster.wait(1000)
        assert await daemon_nodes(cluster) == ["a", "b"]

    on_two_nodes(story)


def test_a_daemon_leaves_a_node_that_it_no_longer_fits() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        selector = {"nodeSelector": {"topology.kubernetes.io/zone": "us-east-1a"}}
        await cluster.apply(workload("DaemonSet", "agent", template={**SMALL, **selector}))
        await cluster.wait(1)
        labels = {"metadata": {"labels": {"topology.kubernetes.io/zone": "us-east-1b"}}}
        await cluster.api.patch(Node, "a", labels)
        taint = {"key": "team", "effect": "NoExecute"}
        await cluster.api.patch(Node, "b", {"spec": {"taints": [taint]}})
        await cluster.wait(1)
        assert await daemon_nodes(cluster) == []

    on_two_nodes(story)


def test_a_changed_daemon_is_replaced_when_the_old_pod_is_gone() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(workload("DaemonSet", "agent", template=SMALL))
        await cluster.wait(10)
        await cluster.api.patch(DaemonSet, "agent", NEW_TEMPLATE, "default")
        await cluster.wait(4)
        assert await alive(cluster) == []
        await cluster.wait(10)
        assert await daemon_nodes(cluster) == ["a", "b"]
        assert all(is_new(each) for each in (await cluster.pods()).values())

    on_two_nodes(story)


def test_a_changed_daemon_has_the_spec_of_the_new_template() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(workload("DaemonSet", "agent", template=SMALL))
        await cluster.wait(10)
        container = {"name": "app", "image": "app", "resources": {"requests": {"cpu": "70m"}}}
        changed = {"spec": {"template": {"spec": {"containers": [container]}}}}
        await cluster.api.patch(DaemonSet, "agent", changed, "default")
        await cluster.wait(20)
        pods = [*(await cluster.pods()).values()]
        found = [main for each in pods for main in each.spec.containers or ()]
        assert [each.resources.requests for each in found] == [{"cpu": "70m"}] * 2

    on_two_nodes(story)
