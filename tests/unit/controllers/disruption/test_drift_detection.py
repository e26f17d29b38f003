"""The condition Drifted: set with its reason, removed when it is over, and acted upon."""

from typing import Any

import msgspec
from tests.support.aws_account import discovered_node_class
from tests.support.controlled_cluster import (
    ControlledCluster,
    conditions,
    node_pool,
    pending_pod,
    run_cluster,
)

from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.cluster import Node
from wainwright.controllers.disruption.drift_detection import PERIOD

NEVER: dict[str, Any] = {"disruption": {"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]}}


def _pool(**template: Any) -> NodePool:
    return node_pool(**NEVER, template=template)


async def _launched(cluster: ControlledCluster) -> NodeClaim:
    await cluster.set_up(_pool())
    cluster.start()
    await cluster.wait(5)
    await cluster.create(pending_pod())
    await cluster.wait(20)
    node = await cluster.join(await cluster.claim())
    await cluster.bind("web-0", node.metadata.name)
    await cluster.wait(5)
    return await cluster.claim()


async def _set_pool(cluster: ControlledCluster, pool: NodePool) -> None:
    await cluster.api.patch(NodePool, "web", {"spec": msgspec.to_builtins(pool.spec)})
    await cluster.wait(1)


async def _drift(cluster: ControlledCluster) -> tuple[str, str] | None:
    claim = (await cluster.claims())[0]
    return conditions(claim).get("Drifted")


def test_a_claim_as_its_pool_and_class_have_it_has_no_condition() -> None:
    async def story(cluster: ControlledCluster) -> None:
        claim = await _launched(cluster)
        await cluster.wait(2 * PERIOD)
        assert "Drifted" not in conditions(claim)
        assert await _drift(cluster) is None

    run_cluster(story)


def test_drf_1_a_changed_template_is_drift_of_the_pool() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await _launched(cluster)
        await _set_pool(cluster, _pool(metadata={"labels": {"team": "web"}}))
        assert await _drift(cluster) == ("True", "NodePoolDrifted")

    run_cluster(story)


def test_drf_4_requirements_that_the_node_does_not_meet_are_drift_and_others_are_not() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await _launched(cluster)
        for values, expected in ((["arm64"], ("True", "RequirementsDrifted")), (["amd64"], None)):
            only = [{"key": "kubernetes.io/arch", "operator": "In", "values": values}]
            await _set_pool(cluster, _pool(spec={"requirements": only}))
            assert await _drift(cluster) == expected, values

    run_cluster(story)


def test_drf_6_the_condition_is_removed_when_it_is_no_longer_true() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await _launched(cluster)
        await _set_pool(cluster, _pool(metadata={"labels": {"team": "web"}}))
        assert await _drift(cluster) is not None
        await cluster.api.patch(
            NodePool, "web", {"spec": {"template": {"metadata": {"labels": None}}}}
        )
        await cluster.wait(1)
        assert await _drift(cluster) is None

    run_cluster(story)


def test_drf_3_a_claim_with_hashes_of_another_version_has_not_drifted_by_them() -> None:
    async def story(cluster: ControlledCluster) -> None:
        claim = await _launched(cluster)
        version = {"karpenter.sh/nodepool-hash-version": "v3"}
        await cluster.api.patch(
            NodeClaim, claim.metadata.name, {"metadata": {"annotations": version}}
        )
        await _set_pool(cluster, _pool(metadata={"labels": {"team": "web"}}))
        assert await _drift(cluster) is None

    run_cluster(story)


def test_a_changed_class_is_drift_that_the_provider_finds() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await _launched(cluster)
        changed = discovered_node_class(userData="echo hello")
        await cluster.api.patch(
            EC2NodeClass, "default", {"spec": {"userData": changed.spec.userData}}
        )
        await cluster.wait(5)
        assert await _drift(cluster) == ("True", "NodeClassDrift")

    run_cluster(story)


def test_drf_7_a_drifted_node_is_replaced_at_once_and_removed_when_the_new_one_is_up() -> None:
    async def story(cluster: ControlledCluster) -> None:
        claim = await _launched(cluster)
        open_budget = {"consolidateAfter": "Never", "budgets": [{"nodes": "1"}]}
        await _set_pool(
            cluster,
            node_pool(disruption=open_budget, template={"metadata": {"labels": {"team": "web"}}}),
        )
        await cluster.wait(12)
        claims = await cluster.claims()
        (new,) = [each for each in claims if each.metadata.name != claim.metadata.name]
        assert (new.metadata.labels or {})["team"] == "web"
        await cluster.join(new)
        await cluster.wait(5)
        await cluster.stop_pods()
        await cluster.wait(60)
        assert [node.metadata.name for node in await cluster.nodes()] == [
            f"node-{new.metadata.name}"
        ]

    run_cluster(story)


def test_a_budget_of_none_keeps_drifted_nodes() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await _launched(cluster)
        await _set_pool(cluster, _pool(metadata={"labels": {"team": "web"}}))
        await cluster.wait(300)
        assert len(await cluster.claims()) == 1
        (node,) = await cluster.nodes()
        assert not (await cluster.api.get(Node, node.metadata.name)).spec.taints

    run_cluster(story)
