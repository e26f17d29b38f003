"""Taints that follow a node's state, and pods that they drive away."""

from typing import Any

from tests.support.simulated_cluster import SimulatedCluster, Story, node, play, pod

from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.workloads import Pod

MAINTENANCE = {"key": "maintenance", "effect": "NoExecute"}
TOLERATED = {"key": "maintenance", "operator": "Exists", "effect": "NoExecute"}


def on_two_nodes(story: Story) -> None:
    play(story, setup=lambda cluster: cluster.load(node("a"), node("b")))


def pinned(name: str, **spec: Any) -> dict[str, Any]:
    return pod(name, nodeSelector={"kubernetes.io/hostname": "a"}, **spec)


async def taint(cluster: SimulatedCluster, *given: dict[str, str]) -> None:
    await cluster.api.patch(Node, "a", {"spec": {"taints": list(given)}})


def test_pods_are_driven_away_by_a_taint_when_they_no_longer_tolerate_it() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        patient = [{**TOLERATED, "tolerationSeconds": 60}]
        lasting = [TOLERATED]
        await cluster.apply(
            pinned("plain"),
            pinned("patient", tolerations=patient),
            pinned("lasting", tolerations=lasting),
        )
        await cluster.wait(3)
        await taint(cluster, MAINTENANCE)
        await cluster.wait(59)
        assert sorted(await cluster.pods()) == ["lasting", "patient"]
        await cluster.wait(7)
        assert sorted(await cluster.pods()) == ["lasting"]

    on_two_nodes(story)


def test_a_pod_says_what_deleted_it() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(pinned("plain"))
        await cluster.wait(3)
        await taint(cluster, MAINTENANCE)
        await cluster.wait(1)
        found: Pod = (await cluster.pods())["plain"]
        reasons = [each.reason for each in found.status.conditions or ()]
        assert "DeletionByTaintManager" in reasons

    on_two_nodes(story)


def test_a_taint_that_goes_in_time_drives_nobody_away() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        patient = [{**TOLERATED, "tolerationSeconds": 60}]
        await cluster.apply(pinned("patient", tolerations=patient))
        await cluster.wait(3)
        await taint(cluster, MAINTENANCE)
        await cluster.wait(59)
        await taint(cluster)
        await cluster.wait(600)
        assert sorted(await cluster.pods()) == ["patient"]
        assert cluster.components.next_due is None
        await taint(cluster, MAINTENANCE)
        await cluster.wait(59)
        assert sorted(await cluster.pods()) == ["patient"], "the time begins anew"

    on_two_nodes(story)


def test_a_pod_bound_to_a_node_with_such_a_taint_is_deleted() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await taint(cluster, MAINTENANCE)
        await cluster.wait()
        await cluster.apply(pod("web", nodeName="a", terminationGracePeriodSeconds=0))
        await cluster.wait(1)
        assert await cluster.pods() == {}

    on_two_nodes(story)


def test_a_cordoned_node_is_tainted() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        for unschedulable, expected in ((True, ["node.kubernetes.io/unschedulable"]), (False, [])):
            await cluster.api.patch(Node, "a", {"spec": {"unschedulable": unschedulable}})
            await cluster.wait(0.02)
            found = (await cluster.nodes())["a"]
            assert [each.key for each in found.spec.taints or ()] == expected

    on_two_nodes(story)


def test_the_taints_of_others_stay() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await taint(cluster, {"key": "team", "value": "red", "effect": "NoSchedule"})
        cluster.components.lose("a")
        await cluster.wait(41)
        cluster.components.recover("a")
        await cluster.wait(1)
        found = (await cluster.nodes())["a"]
        assert [each.key for each in found.spec.taints or ()] == ["team"]

    on_two_nodes(story)
