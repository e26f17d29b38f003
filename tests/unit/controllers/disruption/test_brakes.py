"""What slows disruption down: the breaker, pauses, and the verdicts that say so."""

from typing import Any

import pytest
from tests.support.controlled_cluster import ControlledCluster, node_pool, run_cluster

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.workloads import Pod
from wainwright.controllers.disruption.disruption_breaker import DisruptionBreaker
from wainwright.controllers.disruption.disruption_controller import Disruption
from wainwright.controllers.settings import BreakerSettings, ControllerSettings
from wainwright.core.disruption.disruption_input import DisruptionOptions
from wainwright.core.disruption.preview import Fate
from wainwright.disruption_verdicts import verdict_facts
from wainwright.messages.disruption import describe_verdict
from wainwright.metrics import (
    DISRUPTION_BREAKER_OPEN,
    DISRUPTION_MAX_NODES_WAITING,
    DISRUPTION_PAUSED,
)
from wainwright.model.disruption import Pause

TYPES = ["m5.large"]
POOL: dict[str, Any] = {"disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}}
HALF = BreakerSettings(share=0.5, nodes=1, window=600.0)


def breaker(nodes: int, share: float = 0.3, least: int = 1) -> DisruptionBreaker:
    made = DisruptionBreaker(BreakerSettings(share=share, nodes=least, window=600.0))
    made.count_nodes(nodes, 0.0)
    return made


def test_the_share_is_of_the_nodes_at_the_beginning_of_the_window() -> None:
    made = breaker(10)
    assert made.room(0, 0.0) == 3
    made.removed([10.0, 20.0])
    made.count_nodes(8, 30.0)
    assert made.room(0, 30.0) == 1, "of ten, not of eight"
    assert made.room(1, 30.0) == 0, "those of commands under way count"
    assert made.next_change == 610.0
    assert made.room(0, 610.0) == 2
    assert made.room(0, 1200.0) == 2, "30% of eight: ten are out of the window"


def test_a_small_cluster_may_lose_some_in_any_case() -> None:
    assert breaker(3, least=2).room(0, 0.0) == 2
    assert breaker(100, least=2).room(0, 0.0) == 30


def test_more_nodes_may_go_once_the_window_begins_with_more_of_them() -> None:
    """A simulation waits for that: nothing else may change until then."""
    made = breaker(3, least=0)
    made.count_nodes(2, 100.0)  # fewer let none go
    made.count_nodes(4, 200.0)
    made.count_nodes(7, 300.0)
    assert made.room(0, 300.0) == 0, "30% of three"
    assert made.next_change == 800.0
    assert made.room(0, 799.0) == 0
    assert made.room(0, 800.0) == 1, "30% of four"
    assert made.next_change == 900.0


def test_a_share_of_all_is_off() -> None:
    made = breaker(3, share=1.0)
    made.removed([1.0] * 100)
    assert made.room(50, 2.0) == float("inf")


async def _empty_nodes(cluster: ControlledCluster, count: int, needed: int = 0) -> None:
    """So many nodes that are empty, each under the pod that it was for a moment ago, besides those
    that are needed."""
    pool = node_pool(template={"spec": {}}, **POOL)
    await cluster.set_up(pool)
    cluster.start()
    await cluster.wait(5)
    for number in range(count + needed):
        await cluster.add_node(f"web-{number}", cpu="1500m")
    await cluster.wait(700)  # they are all there at the beginning of the window
    for number in range(count):
        await cluster.api.delete(Pod, f"web-{number}", "default", grace_period=0)


def _disruption(cluster: ControlledCluster) -> Disruption:
    assert cluster.manager is not None
    assert cluster.manager.disruption is not None
    return cluster.manager.disruption


async def _alive(cluster: ControlledCluster) -> int:
    return sum(not each.metadata.deletionTimestamp for each in await cluster.claims())


def test_the_breaker_lets_no_command_go_beyond_and_closes_by_itself() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await _empty_nodes(cluster, 4)
        await cluster.wait(60)
        assert await _alive(cluster) == 2, "half of four; the rest waits"
        assert cluster.metrics.value(DISRUPTION_BREAKER_OPEN) == 1
        (event,) = await cluster.events("DisruptionBreakerOpen")
        assert (event.involvedObject.kind, event.involvedObject.name) == ("NodePool", "web")
        assert {
            each.code
            for each in (await _disruption(cluster).verdicts()).outcomes
            if not each.candidate.node.deleting
        } == {"breaker"}
        await cluster.wait(620)
        assert await _alive(cluster) == 0
        await cluster.wait(620)
        assert cluster.metrics.value(DISRUPTION_BREAKER_OPEN) == 0

    run_cluster(story, instanceTypes=TYPES, settings=ControllerSettings(breaker=HALF))


def test_a_simulation_waits_until_the_breaker_lets_as_many_nodes_go_at_once_as_before() -> None:
    """Two nodes that can only go together are not looked at until then."""

    async def story(cluster: ControlledCluster) -> None:
        await _empty_nodes(cluster, 1, needed=3)
        await cluster.wait(60)
        assert await _alive(cluster) == 3
        release = _disruption(cluster).next_release
        assert release is not None
        assert 500 < release - cluster.clock.now() <= 600
        await cluster.wait(620)
        assert _disruption(cluster).next_release is None

    run_cluster(story, instanceTypes=TYPES, settings=ControllerSettings(breaker=HALF))


def test_the_breaker_knows_after_a_restart_what_is_still_going() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await _empty_nodes(cluster, 4)
        while await _alive(cluster) == 4:
            await cluster.wait(1)
        await cluster.kill()
        cluster.start()
        await cluster.wait(60)
        assert await _alive(cluster) == 2

    run_cluster(story, instanceTypes=TYPES, settings=ControllerSettings(breaker=HALF))


def test_con_15_room_that_shrinks_before_the_validation_lets_fewer_nodes_go() -> None:
    """Nodes that others deleted leave the window with fewer nodes at its beginning."""

    async def story(cluster: ControlledCluster) -> None:
        await _empty_nodes(cluster, 0, needed=6)
        for name in ("web-4", "web-5"):
            node = (await cluster.api.get(Pod, name, "default")).spec.nodeName
            await cluster.api.delete(Pod, name, "default", grace_period=0)
            await cluster.api.delete(NodeClaim, node.removeprefix("node-"))
        await cluster.wait(20)
        assert len(await cluster.claims()) == 4
        await cluster.wait(580)  # the window begins with four of them while a command waits
        for number in range(4):
            await cluster.api.delete(Pod, f"web-{number}", "default", grace_period=0)
        found: list[list[str]] = []
        while await _alive(cluster) == 4:
            await cluster.wait(1)
            current = (await _disruption(cluster).verdicts()).outcomes
            found.append(sorted(each.code for each in current))
        assert ["breaker", "empty", "empty", "empty"] in found, "half of six"
        assert await _alive(cluster) == 2, "half of four"

    run_cluster(story, instanceTypes=TYPES, settings=ControllerSettings(breaker=HALF))


async def _restart(cluster: ControlledCluster) -> None:
    await cluster.kill()
    cluster.start()
    await cluster.wait(60)


def test_the_breaker_holds_over_restarts_after_the_nodes_have_gone() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await _empty_nodes(cluster, 6)
        emptied = cluster.clock.now()
        await cluster.wait(150)
        assert len(await cluster.claims()) == 3, "half of six; they are gone for good"
        for _ in range(3):
            await _restart(cluster)
            assert await _alive(cluster) == 3
        assert cluster.metrics.value(DISRUPTION_BREAKER_OPEN) == 1
        await cluster.wait(emptied + 700 - cluster.clock.now())
        assert await _alive(cluster) == 2, "half of the three of the beginning of the next window"

    run_cluster(story, instanceTypes=TYPES, settings=ControllerSettings(breaker=HALF))


@pytest.mark.parametrize("pause", [Pause.DISRUPTION, Pause.ALL])
def test_paused_disruption_begins_nothing_and_says_so(pause: Pause) -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(node_pool(**POOL))
        cluster.start()
        await cluster.wait(5)
        await cluster.add_node("web-0", cpu="1500m")
        paused = {"metadata": {"annotations": {"wainwright.dev/pause": pause.value}}}
        await cluster.api.patch(NodePool, "web", paused)
        await cluster.api.delete(Pod, "web-0", "default", grace_period=0)
        await cluster.wait(120)
        assert await _alive(cluster) == 1
        current = await _disruption(cluster).verdicts()
        assert [each.code for each in current.outcomes] == ["paused"]
        assert cluster.metrics.value(DISRUPTION_PAUSED, nodepool="web") == 1
        (event,) = await cluster.events("DisruptionBlocked")
        assert "paused" in event.message
        await cluster.api.patch(
            NodePool, "web", {"metadata": {"annotations": {"wainwright.dev/pause": None}}}
        )
        await cluster.wait(60)
        assert await _alive(cluster) == 0
        assert cluster.metrics.value(DISRUPTION_PAUSED, nodepool="web") == 0

    run_cluster(story, instanceTypes=TYPES)


@pytest.mark.parametrize("text", ["true", "Yes", "distruption"])
def test_a_pause_that_cannot_be_read_pauses_disruption_and_says_so(text: str) -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(node_pool(**POOL))
        cluster.start()
        await cluster.wait(5)
        await cluster.add_node("web-0", cpu="1500m")
        await _annotate(cluster, text)
        await cluster.api.delete(Pod, "web-0", "default", grace_period=0)
        await cluster.wait(120)
        assert await _alive(cluster) == 1
        why = (
            f'(wainwright.dev/pause: "{text}" is not one of all, disruption, provisioning: '
            "everything is paused)"
        )
        (outcome,) = (await _disruption(cluster).verdicts()).outcomes
        verdict = describe_verdict(verdict_facts(outcome))
        assert verdict.startswith(f"disruption of NodePool web is paused {why}")
        (event,) = await cluster.events("DisruptionBlocked")
        assert event.message == f"no voluntary disruption is begun: it is paused {why}"
        await _annotate(cluster, "false")
        await cluster.wait(60)
        assert await _alive(cluster) == 0

    run_cluster(story, instanceTypes=TYPES)


@pytest.mark.parametrize("text", ["Disruption", " ALL "])
def test_a_pause_in_another_case_or_with_blanks_is_one_without_remarks(text: str) -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(node_pool(**POOL))
        cluster.start()
        await cluster.wait(5)
        await cluster.add_node("web-0", cpu="1500m")
        await _annotate(cluster, text)
        await cluster.api.delete(Pod, "web-0", "default", grace_period=0)
        await cluster.wait(120)
        assert await _alive(cluster) == 1
        (event,) = await cluster.events("DisruptionBlocked")
        assert event.message == "no voluntary disruption is begun: it is paused"
        assert await cluster.events("InvalidAnnotation") == []

    run_cluster(story, instanceTypes=TYPES)


async def _annotate(cluster: ControlledCluster, pause: str) -> None:
    annotations = {"metadata": {"annotations": {"wainwright.dev/pause": pause}}}
    await cluster.api.patch(NodePool, "web", annotations)


def test_a_pause_in_the_settings_is_for_all_pools() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(node_pool(**POOL))
        cluster.start()
        await cluster.wait(5)
        await cluster.add_node("web-0", cpu="1500m")
        await cluster.api.delete(Pod, "web-0", "default", grace_period=0)
        await cluster.wait(120)
        assert await _alive(cluster) == 1
        await cluster.create_pod("web-1")
        await cluster.wait(20)
        assert await _alive(cluster) == 1, "pods are still provisioned for, here on what is there"

    paused = ControllerSettings(pause=Pause.DISRUPTION)
    run_cluster(story, instanceTypes=TYPES, settings=paused)


def test_nodes_that_a_command_has_no_room_for_are_counted_and_say_so() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await _empty_nodes(cluster, 3)
        seen: dict[float, list[str]] = {}
        for _ in range(60):
            await cluster.wait(1)
            waiting = cluster.metrics.value(DISRUPTION_MAX_NODES_WAITING)
            texts = [
                describe_verdict(verdict_facts(each))
                for each in (await _disruption(cluster).verdicts()).outcomes
                if each.max_nodes is not None
            ]
            seen.setdefault(waiting, texts)
        assert list(seen) == [0, 1]
        text = "it is empty: nothing but DaemonSet pods runs on it; it waits: a command takes at "
        assert seen[1] == [f"{text}most 2 nodes (--max-nodes)"]
        await cluster.wait(120)
        assert await _alive(cluster) == 0
        assert cluster.metrics.value(DISRUPTION_MAX_NODES_WAITING) == 0

    limited = DisruptionOptions(max_nodes=2)
    run_cluster(story, instanceTypes=TYPES, settings=ControllerSettings(disruption_options=limited))


def test_nodes_that_a_command_has_no_room_for_have_an_event_each_once() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await _empty_nodes(cluster, 3)
        await cluster.wait(120)
        about = await cluster.events("DisruptionBlocked")
        assert {each.involvedObject.kind: each.involvedObject.name for each in about} == {
            "Node": f"node-{about[-1].involvedObject.name.removeprefix('node-')}",
            "NodeClaim": about[-1].involvedObject.name.removeprefix("node-"),
        }
        assert len(about) == 2, "each once, in two looks before the node goes"
        text = "it is empty: nothing but DaemonSet pods runs on it; it waits: a command takes at "
        assert {each.message for each in about} == {f"{text}most 2 nodes (--max-nodes)"}

    limited = DisruptionOptions(max_nodes=2)
    run_cluster(story, instanceTypes=TYPES, settings=ControllerSettings(disruption_options=limited))


def test_no_more_than_ten_events_at_once_say_that_a_command_has_no_room() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await _empty_nodes(cluster, 9)
        while not cluster.metrics.value(DISRUPTION_MAX_NODES_WAITING):
            await cluster.wait(1)
        written = await cluster.events("DisruptionBlocked")
        assert cluster.metrics.value(DISRUPTION_MAX_NODES_WAITING) == 8
        assert len(written) == 10
        await cluster.wait(300)

    limited = DisruptionOptions(max_nodes=1)
    run_cluster(story, instanceTypes=TYPES, settings=ControllerSettings(disruption_options=limited))


def test_nodes_that_the_breaker_leaves_out_of_a_command_wait_for_the_breaker() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await _empty_nodes(cluster, 4)
        codes: set[str] = set()
        while await _alive(cluster) == 4:
            await cluster.wait(1)
            current = (await _disruption(cluster).verdicts()).outcomes
            codes |= {each.code for each in current if each.fate is Fate.BLOCKED}
            assert [each for each in current if each.max_nodes is not None] == []
            assert cluster.metrics.value(DISRUPTION_MAX_NODES_WAITING) == 0
        assert "breaker" in codes

    run_cluster(story, instanceTypes=TYPES, settings=ControllerSettings(breaker=HALF))
