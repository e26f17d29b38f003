"""The simulated kube-scheduler beyond the cases that a real one answers too: order, marks, retries,
and how little it does.
"""

from typing import Any

from tests.support.simulated_cluster import Manifest, SimulatedCluster, Story, node, play, pod

from wainwright.api.kubernetes.cluster import Namespace, Node
from wainwright.api.kubernetes.workloads import Pod

HOSTNAME = "kubernetes.io/hostname"


def scheduled(found: Pod) -> tuple[str, str]:
    """Status and message of the condition PodScheduled."""
    return next(
        (each.status, each.message)
        for each in found.status.conditions or ()
        if each.type == "PodScheduled"
    )


def on_nodes(story: Story, *nodes: Manifest) -> None:
    play(story, setup=lambda cluster: cluster.load(*nodes))


def priority_class(name: str, value: int) -> Manifest:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


async def ready_node(cluster: SimulatedCluster, made: Manifest) -> None:
    """Creates a node that takes pods at once."""
    cluster.load(made)
    await cluster.wait()


def test_the_highest_priority_goes_first_then_the_oldest() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(priority_class("urgent", 1000))
        for name in ("old", "young"):
            await cluster.apply(pod(name))
            await cluster.wait(2)
        await cluster.apply(pod("high", priorityClassName="urgent", labels={"a": "b"}))
        for number, expected in enumerate(("high", "old", "young")):
            await ready_node(cluster, node(f"n{number}", resources={"cpu": "1"}))
            assert (await cluster.placements())[expected] == f"n{number}"

    play(story)


def test_a_pod_of_another_scheduler_is_left_alone() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(pod("web", schedulerName="mine"))
        await cluster.wait(5)
        found = (await cluster.pods())["web"]
        assert (found.spec.nodeName, found.status.conditions) == ("", None)

    on_nodes(story, node("a"))


def test_a_pending_pod_says_why_and_how_many_nodes() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(pod("first"))
        await cluster.wait()
        assert scheduled((await cluster.pods())["first"]) == (
            "False",
            "no nodes available to schedule pods",
        )
        for name in ("a", "b"):
            await ready_node(cluster, node(name, resources={"cpu": "500m"}))
        taint = {"key": "team", "value": "red", "effect": "NoSchedule"}
        await ready_node(cluster, node("c", taints=[taint]))
        await cluster.apply(pod("second", labels={"app": "web"}))
        await cluster.wait()
        status, message = scheduled((await cluster.pods())["second"])
        assert status == "False"
        assert message == (
            "0/3 nodes are available: 1 node(s) had untolerated taint {team: red}, "
            "2 Insufficient cpu."
        )

    play(story)


def test_a_pod_is_marked_once_for_the_same_reasons() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(pod("web", requests={"cpu": "3"}))
        await cluster.wait()
        before = (await cluster.pods())["web"].metadata.resourceVersion
        await cluster.apply(pod("small"))
        await cluster.wait(5)
        await cluster.api.delete(Pod, "small", "default", grace_period=0)
        await cluster.wait(5)
        assert (await cluster.pods())["web"].metadata.resourceVersion == before

    on_nodes(story, node("a", resources={"cpu": "2"}))


def test_pods_with_the_same_needs_are_all_marked() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        for number in range(5):
            await cluster.apply(pod(f"web-{number}"))
        await cluster.wait()
        found = [scheduled(each)[0] for each in (await cluster.pods()).values()]
        assert sorted(found) == ["False", "False", "False", "True", "True"]

    on_nodes(story, node("a", resources={"cpu": "2"}))


def test_a_pod_that_waits_is_bound_when_labels_or_taints_let_it() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(pod("fast", nodeSelector={"disk": "ssd"}), pod("plain"))
        await cluster.wait()
        assert set((await cluster.placements()).values()) == {""}
        await cluster.api.patch(Node, "a", {"spec": {"taints": None}})
        await cluster.wait()
        assert await cluster.placements() == {"fast": "", "plain": "a"}
        await cluster.api.patch(Node, "a", {"metadata": {"labels": {"disk": "ssd"}}})
        await cluster.wait()
        assert await cluster.placements() == {"fast": "a", "plain": "a"}

    on_nodes(story, node("a", taints=[{"key": "team", "effect": "NoSchedule"}]))


def test_finished_pods_give_their_room_back() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(pod("first", restartPolicy="Never"), pod("second"))
        await cluster.wait(5)
        assert (await cluster.placements())["second"] == ""
        await cluster.api.patch_status(Pod, "first", {"status": {"phase": "Succeeded"}}, "default")
        await cluster.wait()
        assert (await cluster.placements())["second"] == "a"

    on_nodes(story, node("a", resources={"cpu": "1"}))


def test_pod_overhead_and_pod_level_requests_count() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        whole = {"resources": {"requests": {"cpu": "3"}}, "requests": {"cpu": "100m"}}
        await cluster.apply(pod("whole", **whole))
        await cluster.wait()
        assert (await cluster.placements())["whole"] == "a"
        await cluster.apply(pod("heavy", requests={"cpu": "600m"}, overhead={"cpu": "500m"}))
        await cluster.wait()
        assert (await cluster.placements())["heavy"] == ""
        await cluster.apply(pod("light", requests={"cpu": "500m"}, overhead={"cpu": "500m"}))
        await cluster.wait()
        assert (await cluster.placements())["light"] == "a"

    on_nodes(story, node("a"))


def test_soft_spread_and_taints_are_followed_where_they_can_be() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        constraint = {
            "maxSkew": 1,
            "topologyKey": HOSTNAME,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
        for number in range(6):
            made = pod(
                f"web-{number}",
                labels={"app": "web"},
                topologySpreadConstraints=[constraint],
                requests={"cpu": "100m"},
            )
            await cluster.apply(made)
            await cluster.wait()
        counted = list((await cluster.placements()).values())
        assert sorted(counted) == ["a", "a", "a", "b", "b", "b"]
        soft = {"key": "old", "effect": "PreferNoSchedule"}
        await cluster.api.patch(Node, "a", {"spec": {"taints": [soft]}})
        await cluster.wait()
        await cluster.apply(pod("plain"))
        await cluster.wait()
        assert (await cluster.placements())["plain"] == "b"

    on_nodes(story, node("a", resources={"cpu": "40"}), node("b", resources={"cpu": "8"}))


def test_affinity_follows_the_labels_of_namespaces() -> None:
    def apart(name: str, **changes: Any) -> Manifest:
        term = {
            "topologyKey": HOSTNAME,
            "labelSelector": {"matchLabels": {"app": "web"}},
            "namespaceSelector": {"matchLabels": {"team": "red"}},
        }
        anti = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        return pod(name, affinity={"podAntiAffinity": anti}, **changes)

    async def story(cluster: SimulatedCluster) -> None:
        metadata = {"name": "shop"}
        await cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        await cluster.apply(pod("web", namespace="shop", labels={"app": "web"}), apart("first"))
        await cluster.wait()
        assert (await cluster.placements())["first"] == "a"
        await cluster.api.patch(Namespace, "shop", {"metadata": {"labels": {"team": "red"}}})
        await cluster.apply(apart("second"))
        await cluster.wait()
        assert (await cluster.placements())["second"] == ""

    on_nodes(story, node("a"))


def test_pods_of_one_group_that_are_deleted_while_they_wait_do_not_hold_it_up() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        for number in range(6):
            await cluster.apply(pod(f"web-{number}"))
        await cluster.wait()
        for number in (0, 2):
            await cluster.api.delete(Pod, f"web-{number}", "default")
        await ready_node(cluster, node("a", resources={"cpu": "2"}))
        placed = {name: place for name, place in (await cluster.placements()).items() if place}
        assert placed == {"web-1": "a", "web-3": "a"}
        await ready_node(cluster, node("b", resources={"cpu": "8"}))
        assert "" not in (await cluster.placements()).values()

    play(story)


def test_a_thousand_pods_that_fit_nowhere_cost_one_write_each() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        for number in range(1_000):
            await cluster.apply(pod(f"web-{number}", requests={"cpu": "64"}))
        await cluster.wait()
        before = (await cluster.api.list(Pod)).resource_version
        for number in range(20):
            await ready_node(cluster, node(f"n{number}"))
        after = (await cluster.api.list(Pod)).resource_version
        assert int(after) - int(before) <= 20, "new nodes that help nobody cause no writes"

    play(story)
