"""Static NodePools keep their number of nodes (rows S1 to S7, STC-1 to STC-3)."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import msgspec
import pytest
from tests.support.claim_stories import failing
from tests.support.controlled_cluster import (
    ControlledCluster,
    node_pool,
    pending_pod,
    run_cluster,
)

from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.workloads import DaemonSet
from wainwright.controllers.nodepool.static_capacity import NodeCountReservations
from wainwright.controllers.settings import ControllerSettings
from wainwright.errors import KubernetesError
from wainwright.model.plan import ClusterLimits, PlanOptions

STATIC = ControllerSettings(plan_options=PlanOptions(static_capacity=True))
ON_DEMAND = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
SMALL = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]}
ONE_TYPE = {"spec": {"requirements": [ON_DEMAND, SMALL]}}
SETTLED = 120.0

Story = Callable[[ControlledCluster], Coroutine[Any, Any, None]]


def run_static(story: Story, **more: Any) -> None:
    run_cluster(story, **{"settings": STATIC, **more})


def static_pool(replicas: int, **spec: Any) -> NodePool:
    return node_pool(replicas=replicas, **{"template": ONE_TYPE, **spec})


async def scale(cluster: ControlledCluster, replicas: int) -> None:
    await cluster.api.patch(NodePool, "web", {"spec": {"replicas": replicas}})


async def alive(cluster: ControlledCluster) -> list[NodeClaim]:
    return [each for each in await cluster.claims() if not each.metadata.deletionTimestamp]


async def names(cluster: ControlledCluster) -> set[str]:
    return {each.metadata.name for each in await alive(cluster)}


def test_s1_as_many_nodes_as_replicas_without_any_pod() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(static_pool(3))
        cluster.start()
        await cluster.wait(SETTLED)
        assert len(await cluster.claims()) == len(cluster.instances()) == 3
        await scale(cluster, 5)
        await cluster.wait(10)
        assert len(await cluster.claims()) == 5

    run_static(story)


def test_static_pools_are_left_alone_while_their_gate_is_off() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(static_pool(3))
        cluster.start()
        await cluster.wait(SETTLED)
        assert await cluster.claims() == []

    run_cluster(story)


def test_s1_the_limit_counts_nodes_that_are_being_deleted() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(static_pool(3, limits={"nodes": "3"}))
        cluster.start()
        await cluster.wait(30)
        claim = (await cluster.claims())[0]
        await cluster.join(claim)
        await cluster.wait(10)
        await _blocked_pod(cluster, f"node-{claim.metadata.name}")
        await cluster.api.delete(NodeClaim, claim.metadata.name)
        await cluster.wait(SETTLED)
        assert len(await cluster.claims()) == 3
        assert len(await alive(cluster)) == 2
        await cluster.api.patch(NodePool, "web", {"spec": {"limits": {"nodes": "4"}}})
        await cluster.wait(10)
        assert len(await alive(cluster)) == 3

    run_static(story)


async def _blocked_pod(cluster: ControlledCluster, node: str) -> None:
    """A pod that the drain waits for."""
    blocking = {"karpenter.sh/do-not-disrupt": "true"}
    await cluster.create(pending_pod("stays", metadata={"annotations": blocking}))
    await cluster.bind("stays", node)


def test_s1_a_node_that_is_being_replaced_counts_as_there() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(static_pool(2))
        cluster.start()
        await cluster.wait(30)
        replaced = min(await names(cluster))
        await cluster.set_condition(replaced, "DisruptionReason")
        await scale(cluster, 3)
        await cluster.wait(10)
        assert len(await alive(cluster)) == 3

    run_static(story)


def test_s2_a_pool_that_is_not_ready_launches_nothing_until_it_is() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.create(static_pool(2))
        cluster.start()
        await cluster.wait(SETTLED)
        assert await cluster.claims() == []
        await cluster.create_class()
        await cluster.wait(10)
        assert len(await cluster.claims()) == 2

    run_static(story)


def test_s2_a_node_that_goes_is_replaced_at_once() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(static_pool(2))
        cluster.start()
        await cluster.wait(SETTLED)
        gone = min(await names(cluster))
        await cluster.api.delete(NodeClaim, gone)
        await cluster.wait(5)
        assert len(await alive(cluster)) == 2
        assert gone not in await names(cluster)

    run_static(story)


def test_s2_pools_of_foreign_classes_are_left_alone() -> None:
    foreign = {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"}

    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(static_pool(2, template={"spec": {"nodeClassRef": foreign}}))
        cluster.start()
        await cluster.wait(SETTLED)
        assert await cluster.claims() == []

    run_static(story)


def test_s2_a_pool_that_is_deleted_goes_with_its_nodes() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(static_pool(2))
        cluster.start()
        await cluster.wait(SETTLED)
        await cluster.api.delete(NodePool, "web")
        await cluster.wait(SETTLED)
        assert await cluster.claims() == []
        assert cluster.instances() == []

    run_static(story)


def test_s3_changes_in_quick_succession_never_exceed_the_limit() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(static_pool(5, limits={"nodes": "10"}))
        cluster.start()
        for number in range(50):
            await scale(cluster, 5 + number % 9)
            await cluster.wait(0.3)
            assert len(await cluster.claims()) <= 10
        await scale(cluster, 5)
        await cluster.wait(SETTLED)
        assert len(await alive(cluster)) == 5

    run_static(story)


def test_s3_a_thousand_replicas() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(static_pool(1000))
        cluster.start()
        await cluster.wait(2)
        assert len(await cluster.claims()) == 1000

    run_static(story)


def test_s3_a_claim_that_could_not_be_created_is_created_later() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(static_pool(3, limits={"nodes": "3"}))
        cluster.start()
        await cluster.wait(0.01)
        cluster.api.stop()
        await cluster.wait(60)
        cluster.api.start()
        await cluster.wait(600)
        assert len(await cluster.claims()) == 3

    run_static(story)


def test_s4_claims_are_the_template_as_it_stands() -> None:
    async def story(cluster: ControlledCluster) -> None:
        template = {
            "metadata": {"labels": {"team": "shop"}, "annotations": {"note": "static"}},
            "spec": {
                "requirements": [ON_DEMAND],
                "taints": [{"key": "team", "value": "shop", "effect": "NoSchedule"}],
                "expireAfter": "100h",
            },
        }
        await cluster.set_up(static_pool(1, template=template))
        cluster.start()
        await cluster.wait(30)
        claim = await cluster.claim()
        assert (claim.metadata.labels or {})["team"] == "shop"
        assert (claim.metadata.annotations or {})["note"] == "static"
        assert [each.key for each in claim.spec.taints or ()] == ["team"]
        assert claim.spec.expireAfter == "100h"
        keys = {each.key for each in claim.spec.requirements}
        assert "node.kubernetes.io/instance-type" not in keys
        assert keys >= {"karpenter.sh/capacity-type", "team", "karpenter.sh/nodepool"}
        hashes = (await cluster.pool()).metadata.annotations or {}
        key = "karpenter.sh/nodepool-hash"
        assert (claim.metadata.annotations or {})[key] == hashes[key]

    run_static(story)


def test_s4_a_static_node_is_large_enough_for_daemonsets() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(static_pool(1, template={"spec": {"requirements": [ON_DEMAND]}}))
        await cluster.create(_daemonset("3"))
        cluster.start()
        await cluster.wait(30)
        claim = await cluster.claim()
        assert claim.status is not None
        assert int((claim.status.capacity or {})["cpu"]) >= 4

    run_static(story)


def test_s5_nodes_that_are_going_do_not_count_as_too_many() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(static_pool(4))
        cluster.start()
        await cluster.wait(30)
        claims = await cluster.claims()
        for claim in claims:
            await cluster.join(claim)
        await cluster.wait(10)
        for number, claim in enumerate(claims[:3]):
            blocking = {"karpenter.sh/do-not-disrupt": "true"}
            await cluster.create(pending_pod(f"p{number}", metadata={"annotations": blocking}))
            await cluster.bind(f"p{number}", f"node-{claim.metadata.name}")
        await cluster.kill()
        await scale(cluster, 1)
        for claim in claims[:3]:
            await cluster.api.delete(NodeClaim, claim.metadata.name)
        cluster.start()
        await cluster.wait(SETTLED)
        assert await names(cluster) == {claims[3].metadata.name}

    run_static(story)


def test_s5_with_no_replicas_all_nodes_go() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(static_pool(4))
        cluster.start()
        await cluster.wait(SETTLED)
        await scale(cluster, 0)
        await cluster.wait(SETTLED)
        assert await cluster.claims() == []
        assert cluster.instances() == []

    run_static(story)


def _daemonset(cpu: str, memory: str = "1Gi") -> DaemonSet:
    requests = {"cpu": cpu, "memory": memory}
    template = {
        "metadata": {"labels": {"app": "agent"}},
        "spec": {"containers": [{"name": "main", "resources": {"requests": requests}}]},
    }
    manifest = {
        "metadata": {"name": "agent", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template},
    }
    return msgspec.convert(manifest, DaemonSet, strict=False)


def test_stc_2_s6_what_does_least_harm_goes_first() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(static_pool(8))
        agent = await cluster.api.create(_daemonset("10m", "10Mi"))
        cluster.start()
        await cluster.wait(30)
        claims = sorted(each.metadata.name for each in await cluster.claims())
        for claim in await cluster.claims():
            await cluster.join(claim)
        await cluster.wait(10)
        owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent"}
        daemon = {"ownerReferences": [{**owner, "uid": agent.metadata.uid}]}
        protected = {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}
        kinds: list[list[dict[str, Any]]] = [[{}, {}], [protected], [{}], [daemon]]
        for number, name in enumerate(claims):
            for index, metadata in enumerate(kinds[number // 2]):
                pod = f"pod-{index}-{name}"
                await cluster.create(pending_pod(pod, "10m", "10Mi", metadata=metadata))
                await cluster.bind(pod, f"node-{name}")
        await cluster.wait(10)
        for replicas, left in ((6, claims[:6]), (4, claims[:4]), (2, claims[2:4]), (0, [])):
            await scale(cluster, replicas)
            await cluster.wait(5)
            assert await names(cluster) == {*left}

    run_static(story)


def test_s6_claims_without_an_instance_go_before_empty_nodes() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(static_pool(2))
        cluster.start()
        await cluster.wait(30)
        for claim in await cluster.claims():
            await cluster.join(claim)
        await cluster.wait(10)
        launched = await names(cluster)
        await cluster.kill()
        waiting = msgspec.structs.replace(
            (await cluster.claims())[0],
            metadata=msgspec.structs.replace(
                (await cluster.claims())[0].metadata, name="web-00000", uid="", finalizers=None
            ),
            status=None,
        )
        cluster.account.change({"faults": [{"operation": "CreateFleet"}]})
        await cluster.create(waiting)
        cluster.start()
        await cluster.wait(60)
        assert await names(cluster) == launched

    run_static(story)


def test_s7_releasing_more_than_was_taken_leaves_none() -> None:
    reservations = NodeCountReservations()
    assert reservations.reserve("web", 3, 5) == 3
    assert reservations.reserve("web", 3, 5) == 2
    assert reservations.reserve("web", 3, 5) == 0
    reservations.release("web", 100)
    assert reservations.reserved("web") == 0
    assert reservations.reserve("web", 7, 5) == 5
    reservations.release("unknown", 1)
    assert reservations.reserve("unknown", 2, None) == 2


def test_s7_a_claim_that_could_not_be_deleted_is_deleted_later() -> None:
    async def story(cluster: ControlledCluster) -> None:
        def is_deletion(verb: str, kind: str, _: Mapping[str, Any]) -> bool:
            return (verb, kind) == ("delete", "NodeClaim")

        error = KubernetesError("not now")
        cluster.port = failing(cluster, error, times=3, where=is_deletion)
        await cluster.set_up(static_pool(3))
        cluster.start()
        await cluster.wait(SETTLED)
        await scale(cluster, 1)
        await cluster.wait(SETTLED)
        assert len(await alive(cluster)) == 1

    run_static(story)


def test_stc_1_a_static_pool_has_no_weight_no_other_limit_and_stays_static() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.create(static_pool(1), node_pool("dynamic"))
        for name, spec in (
            ("web", {"weight": 3}),
            ("web", {"limits": {"cpu": "10"}}),
            ("web", {"replicas": None}),
            ("dynamic", {"replicas": 3}),
        ):
            with pytest.raises(KubernetesError):
                await cluster.api.patch(NodePool, name, {"spec": spec})

    run_static(story)


def test_stc_1_a_static_pool_launches_nothing_for_pods_and_takes_them() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(static_pool(1))
        cluster.start()
        await cluster.wait(30)
        await cluster.join(await cluster.claim())
        await cluster.wait(10)
        await cluster.create_pod("fits", cpu="500m", memory="1Gi")
        await cluster.create_pod("large", cpu="8")
        await cluster.wait(60)
        assert len(await cluster.claims()) == 1
        nominated = await cluster.events("Nominated")
        assert {each.involvedObject.name for each in nominated} == {"fits"}

    run_static(story)


def test_stc_3_nothing_is_launched_twice_while_launches_are_on_their_way() -> None:
    """Every launch is delayed, so that the state is not in sync; the pool changes meanwhile."""

    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(static_pool(2))
        cluster.account.change({"faults": [{"operation": "CreateFleet", "times": 3}]})
        cluster.start()
        for replicas in (3, 2, 4, 3):
            await cluster.wait(1)
            await scale(cluster, replicas)
        await cluster.wait(SETTLED)
        assert len(await alive(cluster)) == len(cluster.instances()) == 3

    run_static(story)


def test_a_drifted_static_node_is_replaced_within_the_limit() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(static_pool(2, limits={"nodes": "3"}))
        cluster.start()
        joining = asyncio.create_task(_join_all(cluster))
        await cluster.wait(60)
        before = await names(cluster)
        await cluster.api.patch(EC2NodeClass, "default", {"spec": {"tags": {"team": "shop"}}})
        for _ in range(60):
            await cluster.wait(20)
            assert len(await cluster.claims()) <= 3
        joining.cancel()
        after = await names(cluster)
        assert len(after) == 2
        assert not before & after

    run_static(story)


async def _join_all(cluster: ControlledCluster) -> None:
    """Nodes join two seconds after their launch."""
    joined: set[str] = set()
    while True:
        await cluster.wait(2)
        for claim in await alive(cluster):
            if claim.status is not None and claim.status.providerID not in {"", *joined}:
                joined.add(claim.status.providerID)
                await cluster.join(claim)


@pytest.mark.parametrize(
    ("limits", "nodes"),
    [
        (ClusterLimits(nodes=3), 3),
        (ClusterLimits(cpu=5000), 2),
        (ClusterLimits(price_per_hour=0.2), 2),
        (ClusterLimits(nodes=9), 5),
    ],
)
def test_static_nodes_keep_to_the_limits_of_the_cluster(limits: ClusterLimits, nodes: int) -> None:
    """Which are hard, whatever the NodePool asks for; an m5.large has two cores for $0.096/h."""

    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(static_pool(5))
        cluster.start()
        await cluster.wait(SETTLED)
        assert len(await alive(cluster)) == len(cluster.instances()) == nodes

    options = PlanOptions(static_capacity=True, cluster_limits=limits)
    run_static(story, settings=ControllerSettings(plan_options=options))


def test_static_nodes_are_of_types_that_the_limits_of_the_cluster_leave_room_for() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(static_pool(2, template={"spec": {"requirements": [ON_DEMAND]}}))
        cluster.start()
        await cluster.wait(SETTLED)
        first, second = await alive(cluster)
        for claim in (first, second):
            capacity = (claim.status and claim.status.capacity) or {}
            assert int(capacity["cpu"]) <= 2

    limits = ClusterLimits(cpu=4000)
    options = PlanOptions(static_capacity=True, cluster_limits=limits)
    run_static(story, settings=ControllerSettings(plan_options=options))


def test_static_nodes_and_those_for_pods_keep_to_a_limit_of_the_cluster_together() -> None:
    """Both are planned at the same time, and neither knows the claims of the other."""

    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(
            static_pool(2), node_pool("pods", template={"spec": {"requirements": [ON_DEMAND]}})
        )
        taken = {"nodeSelector": {"karpenter.sh/nodepool": "pods"}}
        for number in range(4):
            await cluster.create_pod(f"web-{number}", cpu="1500m", spec=taken)
        cluster.start()
        await cluster.wait(SETTLED)
        assert len(cluster.instances()) == 3

    limits = ClusterLimits(nodes=3)
    options = PlanOptions(static_capacity=True, cluster_limits=limits)
    run_static(story, settings=ControllerSettings(plan_options=options))


def test_drifted_static_nodes_are_replaced_within_the_limits_of_the_cluster() -> None:
    """By one of the same size, where the template as it stands could become any."""

    async def story(cluster: ControlledCluster) -> None:
        budgets = [{"nodes": "1"}]
        disruption = {"consolidateAfter": "Never", "budgets": budgets}
        template = {"spec": {"requirements": [ON_DEMAND]}}
        await cluster.set_up(static_pool(1, template=template, disruption=disruption))
        cluster.start()
        joining = asyncio.create_task(_join_all(cluster))
        await cluster.wait(60)
        before = await names(cluster)
        changed = {"metadata": {"labels": {"generation": "2"}}}
        await cluster.api.patch(NodePool, "web", {"spec": {"template": changed}})
        await cluster.wait(60)
        joining.cancel()
        (new,) = [each for each in await cluster.claims() if each.metadata.name not in before]
        assert int(((new.status and new.status.capacity) or {})["cpu"]) <= 2

    limits = ClusterLimits(cpu=4000)
    options = PlanOptions(static_capacity=True, cluster_limits=limits)
    run_static(story, settings=ControllerSettings(plan_options=options))
