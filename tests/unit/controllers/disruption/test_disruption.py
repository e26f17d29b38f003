"""Disruption commands carried out: validation, replacements, roll-back, and restarts between."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.support.controlled_cluster import (
    ControlledCluster,
    conditions,
    node_pool,
    pending_pod,
    run_cluster,
)

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.workloads import Pod
from wainwright.core.disruption import disruption_pass
from wainwright.core.disruption.disruption_input import DisruptionOptions
from wainwright.metrics import DISRUPTION_TIMEOUTS
from wainwright.sim.world import WorldChanges

DISRUPTED = "karpenter.sh/disrupted"


def _two_sizes(**more: Any) -> Any:
    return _pool_of("m5.large", "m5.xlarge", **more)


def _pool_of(*names: str, **more: Any) -> Any:
    types = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [*names]}
    on_demand = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
    disruption = {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}
    template = {"spec": {"requirements": [types, on_demand]}}
    return node_pool(template=template, disruption=disruption, **more)


def _types(claims: list[NodeClaim]) -> list[str]:
    key = "node.kubernetes.io/instance-type"
    return sorted((claim.metadata.labels or {}).get(key, "") for claim in claims)


async def _half_empty_node(cluster: ControlledCluster) -> Node:
    """An m5.xlarge whose remaining pod would fit an m5.large."""
    await cluster.set_up(_two_sizes())
    cluster.start()
    await cluster.wait(5)
    await cluster.create(pending_pod("web-0", cpu="1500m"), pending_pod("web-1", cpu="1500m"))
    await cluster.wait(20)
    claim = await cluster.claim()
    assert _types([claim]) == ["m5.xlarge"]
    node = await cluster.join(claim)
    for name in ("web-0", "web-1"):
        await cluster.bind(name, node.metadata.name)
    await cluster.wait(60)
    assert len(await cluster.claims()) == 1
    await cluster.api.delete(Pod, "web-1", "default")
    await cluster.stop_pods()
    return node


async def _taints(cluster: ControlledCluster, name: str) -> list[str]:
    node = await cluster.api.get(Node, name)
    return [taint.key for taint in node.spec.taints or ()]


async def _replacement(cluster: ControlledCluster, node: Node) -> NodeClaim:
    claims = await cluster.claims()
    (new,) = [each for each in claims if f"node-{each.metadata.name}" != node.metadata.name]
    return new


def test_q1_a_node_is_replaced_by_a_cheaper_one_and_removed_once_that_is_initialized() -> None:
    async def story(cluster: ControlledCluster) -> None:
        node = await _half_empty_node(cluster)
        await cluster.wait(40)
        assert DISRUPTED in await _taints(cluster, node.metadata.name)
        assert _types(await cluster.claims()) == ["m5.large", "m5.xlarge"]
        replacement = await _replacement(cluster, node)
        await cluster.wait(300)
        assert len(await cluster.nodes()) == 1, "its pods stay until the replacement is up"
        assert (await cluster.pods())[0].metadata.deletionTimestamp is None
        new_node = await cluster.join(replacement)
        await cluster.wait(5)
        assert (await cluster.pods())[0].metadata.deletionTimestamp is not None
        await cluster.stop_pods()
        await cluster.create(pending_pod("web-2", cpu="1500m"))
        await cluster.bind("web-2", new_node.metadata.name)
        await cluster.wait(60)
        assert _types(await cluster.claims()) == ["m5.large"]
        assert len(cluster.instances()) == 1

    run_cluster(story)


def test_the_events_of_a_replacement_say_what_it_saves() -> None:
    async def story(cluster: ControlledCluster) -> None:
        node = await _half_empty_node(cluster)
        await cluster.wait(40)
        (launching,) = await cluster.events("DisruptionLaunching")
        expected = f"replace: [{node.metadata.name}] -> [1 replacement] (savings: $0.096/h)"
        assert launching.message == expected
        await cluster.join(await _replacement(cluster, node))
        await cluster.wait(5)
        terminating = await cluster.events("DisruptionTerminating")
        assert {each.involvedObject.kind for each in terminating} == {"Node", "NodeClaim"}
        assert all(each.message.endswith("(savings: $0.096/h)") for each in terminating)

    run_cluster(story)


def test_events_mark_savings_that_are_estimates() -> None:
    async def story(cluster: ControlledCluster) -> None:
        cluster.modelled_prices = cluster.account.region_offerings.offering_keys
        node = await _half_empty_node(cluster)
        await cluster.wait(40)
        (launching,) = await cluster.events("DisruptionLaunching")
        assert launching.message == (
            f"replace: [{node.metadata.name}] -> [1 replacement] (savings: ~$0.096/h)"
        )

    run_cluster(story)


def test_con_15_nothing_is_done_before_the_command_has_held_for_fifteen_seconds() -> None:
    async def story(cluster: ControlledCluster) -> None:
        node = await _half_empty_node(cluster)
        await cluster.wait(12)
        assert await _taints(cluster, node.metadata.name) == []
        await cluster.create(pending_pod("web-2", cpu="1500m"))
        await cluster.bind("web-2", node.metadata.name)
        await cluster.wait(120)
        assert await _taints(cluster, node.metadata.name) == []
        assert len(await cluster.claims()) == 1

    run_cluster(story)


def test_con_14_a_look_that_takes_too_long_is_ended_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three nodes, each in a slice of its own that takes two minutes."""
    monkeypatch.setattr(disruption_pass, "SLICE", 1)

    async def story(cluster: ControlledCluster) -> None:
        async def slowly(work: Callable[[], Any]) -> Any:
            await cluster.clock.sleep(120 if is_slow else 0)
            return work()

        is_slow = False
        cluster.compute = slowly
        await cluster.set_up(_pool_of("m5.xlarge"))
        cluster.start()
        await cluster.wait(5)
        await cluster.create(*(pending_pod(f"web-{number}", cpu="2500m") for number in range(3)))
        await cluster.wait(20)
        for number, claim in enumerate(await cluster.claims()):
            node = await cluster.join(claim)
            await cluster.bind(f"web-{number}", node.metadata.name)
        is_slow = True
        await cluster.wait(500)
        assert timeouts(cluster) == 1
        is_slow = False
        await cluster.wait(3600)
        assert timeouts(cluster) == 1
        assert len(await cluster.nodes()) == 3

    def timeouts(cluster: ControlledCluster) -> float:
        return cluster.metrics.value(DISRUPTION_TIMEOUTS, consolidation_type="single-node")

    run_cluster(story)


def test_con_14_a_look_that_left_some_for_the_next_goes_on_although_nothing_changes() -> None:
    """One node is simulated again in each look, and the pod that ends concerns seven of them."""

    async def story(cluster: ControlledCluster) -> None:
        options = DisruptionOptions(max_repetitions=1)
        cluster.settings = msgspec.structs.replace(cluster.settings, disruption_options=options)
        cluster.feed = WorldChanges(cluster.api, cluster.account)
        await cluster.set_up(_pool_of("m5.xlarge"))
        cluster.start()
        await cluster.wait(5)
        await cluster.create(*(pending_pod(f"web-{number}", cpu="2500m") for number in range(8)))
        await cluster.wait(20)
        for number, claim in enumerate(await cluster.claims()):
            node = await cluster.join(claim)
            await cluster.create(pending_pod(f"small-{number}", cpu="100m"))
            for name in ("web", "small"):
                await cluster.bind(f"{name}-{number}", node.metadata.name)
        await cluster.wait(300)
        await cluster.api.delete(Pod, "small-0", "default")
        await cluster.stop_pods()
        await cluster.wait(12)
        assert not _last_look(cluster).is_complete
        await cluster.wait(120)
        assert _last_look(cluster).is_complete
        assert len(await cluster.nodes()) == 8

    run_cluster(story)


def _last_look(cluster: ControlledCluster) -> disruption_pass.DisruptionPass:
    assert cluster.manager is not None
    assert cluster.manager.disruption is not None
    assert cluster.manager.disruption.last_look is not None
    return cluster.manager.disruption.last_look


def test_q4_a_replacement_that_is_gone_sets_the_node_free() -> None:
    async def story(cluster: ControlledCluster) -> None:
        node = await _half_empty_node(cluster)
        await cluster.wait(40)
        claim = await _replacement(cluster, node)
        cluster.account.change({"unavailable": [{"instanceType": "m5.large"}]})
        await cluster.api.delete(NodeClaim, claim.metadata.name)
        await cluster.wait(1)
        assert DISRUPTED not in await _taints(cluster, node.metadata.name)
        (old,) = [
            each for each in await cluster.claims() if each.metadata.name != claim.metadata.name
        ]
        assert "DisruptionReason" not in conditions(old)

    run_cluster(story)


def test_q4_after_ten_minutes_the_command_is_given_up_and_its_replacement_is_taken_back() -> None:
    async def story(cluster: ControlledCluster) -> None:
        node = await _half_empty_node(cluster)
        await cluster.wait(40)
        replacement = await _replacement(cluster, node)
        await cluster.wait(580)
        assert DISRUPTED in await _taints(cluster, node.metadata.name)
        for _ in range(200):
            if DISRUPTED not in await _taints(cluster, node.metadata.name):
                break
            await cluster.wait(0.2)
        assert DISRUPTED not in await _taints(cluster, node.metadata.name), "40 s later"
        left = [each for each in await cluster.claims() if not each.metadata.deletionTimestamp]
        assert replacement.metadata.name not in [each.metadata.name for each in left]
        assert (await cluster.pods())[0].metadata.deletionTimestamp is None

    run_cluster(story)


def test_q5_a_restart_leaves_no_taint_and_no_second_replacement() -> None:
    async def story(cluster: ControlledCluster) -> None:
        node = await _half_empty_node(cluster)
        await cluster.wait(40)
        replacement = await _replacement(cluster, node)
        await cluster.kill()
        cluster.start()
        await cluster.wait(12)
        names = [each.metadata.name for each in await cluster.claims()]
        assert replacement.metadata.name not in names, "it was launched for a command of the dead"
        await cluster.wait(60)
        assert len(await cluster.claims()) == 2, "the command is given anew"

    run_cluster(story)


def test_con_19_the_pods_of_a_node_to_be_replaced_get_one_node_and_not_two() -> None:
    async def story(cluster: ControlledCluster) -> None:
        node = await _half_empty_node(cluster)
        await cluster.wait(26)
        # Provisioning is woken by another pod while the command begins.
        await cluster.create(pending_pod("other", cpu="100m"))
        await cluster.wait(120)
        assert _types(await cluster.claims()) == ["m5.large", "m5.xlarge"]
        assert DISRUPTED in await _taints(cluster, node.metadata.name)

    run_cluster(story)


def test_con_19_a_nominated_node_is_not_removed_although_it_is_empty() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(_two_sizes())
        cluster.start()
        await cluster.wait(5)
        await cluster.create(pending_pod("web-0", cpu="1500m"))
        await cluster.wait(20)
        node = await cluster.join(await cluster.claim())
        # The pod stays unbound, and is planned onto the node again and again.
        await cluster.wait(120)
        assert DISRUPTED not in await _taints(cluster, node.metadata.name)

    run_cluster(story)
