"""The status of PodDisruptionBudgets beyond the cases that a real controller answers too."""

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

from wainwright.api.kubernetes.cluster import PodDisruptionBudget, PodDisruptionBudgetStatus
from wainwright.api.kubernetes.workloads import Pod
from wainwright.errors import EvictionBlockedError
from wainwright.sim.disruption_budgets import scaled
from wainwright.sim.kubelet import KubeletOptions

SMALL = {"requests": {"cpu": "100m"}}


def budget(name: str = "web", **spec: Any) -> Manifest:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": name}}, **spec},
    }


async def status(cluster: SimulatedCluster, name: str = "web") -> PodDisruptionBudgetStatus:
    return (await cluster.api.get(PodDisruptionBudget, name, "default")).status


def on_a_node(story: Story, **options: Any) -> None:
    play(
        story,
        options=KubeletOptions(**options),
        setup=lambda cluster: cluster.load(node("a", resources={"cpu": "32"})),
    )


@pytest.mark.parametrize(
    ("value", "total", "expected"),
    [(3, 10, 3), ("3", 10, 3), ("50%", 3, 2), ("0%", 5, 0), ("100%", 7, 7), ("1%", 1, 1)],
)
def test_percentages_are_rounded_up(value: int | str, total: int, expected: int) -> None:
    assert scaled(value, total) == expected


def test_a_changed_budget_is_observed() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(workload("Deployment", "web", 4, template=SMALL))
        await cluster.apply(budget(maxUnavailable=1))
        await cluster.wait(5)
        assert (await status(cluster)).observedGeneration == 1
        patch = {"spec": {"maxUnavailable": 3}}
        await cluster.api.patch(PodDisruptionBudget, "web", patch, "default")
        await cluster.wait()
        found = await status(cluster)
        assert (found.observedGeneration, found.disruptionsAllowed) == (2, 3)

    on_a_node(story)


def test_evictions_of_one_moment_do_not_go_beyond_the_budget() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(workload("Deployment", "web", 4, template=SMALL))
        await cluster.apply(budget(maxUnavailable=2))
        await cluster.wait(5)
        refused = 0
        for number in range(4):
            try:
                await cluster.api.evict(f"web-{number}", "default")
            except EvictionBlockedError:
                refused += 1
        assert refused == 2
        await cluster.wait()
        with pytest.raises(EvictionBlockedError):
            await cluster.api.evict("web-3", "default")
        await cluster.wait(10)
        await cluster.api.evict("web-3", "default")

    on_a_node(story)


def test_an_eviction_that_comes_to_nothing_is_forgotten_after_two_minutes() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(workload("Deployment", "web", 2, template=SMALL))
        await cluster.apply(budget(minAvailable=1))
        await cluster.wait(5)
        disrupted = {"status": {"disruptedPods": {"web-0": "2026-01-01T00:00:05Z"}}}
        await cluster.api.patch_status(PodDisruptionBudget, "web", disrupted, "default")
        await cluster.wait(100)
        assert (await status(cluster)).disruptionsAllowed == 0
        await cluster.wait(30)
        found = await status(cluster)
        assert (found.disruptionsAllowed, found.disruptedPods) == (1, None)

    on_a_node(story)


def test_a_pod_that_is_not_ready_is_not_healthy() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(workload("Deployment", "web", 3, template=SMALL))
        await cluster.apply(budget(minAvailable=1))
        await cluster.wait(5)
        assert (await status(cluster)).currentHealthy == 3
        unready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
        await cluster.api.patch_status(Pod, "web-0", unready, "default")
        await cluster.wait()
        assert (await status(cluster)).currentHealthy == 2

    on_a_node(story)


def test_pods_that_change_their_labels_come_and_go() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(pod("lone", labels={"app": "web"}, **SMALL))
        await cluster.apply(budget(minAvailable=1), budget("db", minAvailable=1))
        await cluster.wait(5)
        assert (await status(cluster)).expectedPods == 1
        labels = {"metadata": {"labels": {"app": "db"}}}
        await cluster.api.patch(Pod, "lone", labels, "default")
        await cluster.wait()
        assert (await status(cluster)).expectedPods == 0
        assert (await status(cluster, "db")).currentHealthy == 1

    on_a_node(story)


def test_a_share_of_pods_that_nobody_scales_allows_nothing() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(pod("lone", labels={"app": "web"}, **SMALL))
        await cluster.apply(budget(maxUnavailable=1))
        await cluster.wait(5)
        found = await status(cluster)
        assert (found.expectedPods, found.disruptionsAllowed) == (0, 0)

    on_a_node(story)
