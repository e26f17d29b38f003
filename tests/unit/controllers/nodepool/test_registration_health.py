"""Whether nodes of a NodePool register: rows L12 to L16."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from tests.support.controlled_cluster import ControlledCluster as Cluster
from tests.support.controlled_cluster import conditions, node_pool, run_cluster

from wainwright.api.karpenter.nodeclaim import NodeClaim, NodeClaimStatus
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.wire import Condition, OwnerReference
from wainwright.clock import VirtualClock
from wainwright.controllers.informer_cache import InformerCache
from wainwright.controllers.nodepool.registration_health import RegistrationHealth
from wainwright.sim.api_server import InMemoryApiServer

HEALTHY = "NodeRegistrationHealthy"


class Pools:
    """An API server with one NodePool, and claims that exist only as reports."""

    def __init__(self, clock: VirtualClock) -> None:
        self.api = InMemoryApiServer(clock)
        self.cache = InformerCache(self.api, clock, [NodePool])
        self.health = RegistrationHealth(self.cache, clock)
        self._claims = 0

    async def condition(self) -> Condition | None:
        pool = await self.api.get(NodePool, "web")
        stated = (pool.status.conditions if pool.status else None) or ()
        return next((each for each in stated if each.type == HEALTHY), None)

    async def set_condition(self, status: str) -> None:
        pool = await self.api.get(NodePool, "web")
        stated = Condition(
            type=HEALTHY,
            status=status,
            reason="Before",
            lastTransitionTime="2026-01-01T00:00:00Z",
            observedGeneration=pool.metadata.generation,
        )
        await self.api.patch_status(
            NodePool, "web", {"status": {"conditions": msgspec.to_builtins([stated])}}
        )
        await self.settle()

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    async def claim(self, *launched: Condition) -> NodeClaim:
        pool = await self.api.get(NodePool, "web")
        self._claims += 1
        owner = OwnerReference(
            apiVersion=pool.apiVersion, kind=pool.kind, name="web", uid=pool.metadata.uid
        )
        made = {
            "metadata": {
                "name": f"web-{self._claims}",
                "uid": f"claim-{self._claims}",
                "ownerReferences": [msgspec.to_builtins(owner)],
            },
            "spec": {
                "nodeClassRef": {
                    "group": "karpenter.k8s.aws",
                    "kind": "EC2NodeClass",
                    "name": "default",
                },
                "requirements": [],
            },
        }
        claim = msgspec.convert(made, NodeClaim, strict=False)
        return msgspec.structs.replace(claim, status=NodeClaimStatus(conditions=[*launched]))


def run_pools(story: Callable[[Pools], Awaitable[None]], **spec: Any) -> None:
    clock = VirtualClock()

    async def main() -> None:
        pools = Pools(clock)
        await pools.api.create(node_pool(**spec))
        watches = asyncio.create_task(pools.cache.run())
        await pools.cache.wait_until_listed()
        await story(pools)
        watches.cancel()
        await asyncio.gather(watches, return_exceptions=True)

    try:
        clock.run(main())
    finally:
        clock.close()


@pytest.mark.parametrize(
    ("stated", "outcomes", "expected"),
    [
        ("Unknown", "s", "True"),
        ("Unknown", "f", "Unknown"),
        ("Unknown", "ff", "False"),
        ("Unknown", "ffs", "False"),
        ("Unknown", "fs", "True"),
        ("Unknown", "ffsss", "True"),
        ("Unknown", "fssssf", "True"),
        ("True", "f", "True"),
        ("True", "ff", "False"),
        ("False", "s", "False"),
        ("False", "ss", "False"),
        ("False", "sss", "True"),
    ],
)
def test_l12_two_failures_of_the_last_four_are_unhealthy_and_l15_a_new_process_goes_on(
    stated: str, outcomes: str, expected: str
) -> None:
    async def story(pools: Pools) -> None:
        await pools.set_condition(stated)
        for outcome in outcomes:
            claim = await pools.claim()
            report = pools.health.succeeded if outcome == "s" else pools.health.failed
            await report(claim)
        found = await pools.condition()
        assert found is not None
        assert found.status == expected

    run_pools(story)


def test_l12_an_empty_ring_and_one_success_turn_false_into_true() -> None:
    async def story(pools: Pools) -> None:
        await pools.set_condition("False")
        pools.health.forget(await pools.api.get(NodePool, "web"))
        await pools.health.succeeded(await pools.claim())
        found = await pools.condition()
        assert found is not None
        assert found.status == "True"

    run_pools(story)


def test_a_claim_that_is_reported_twice_counts_once() -> None:
    async def story(pools: Pools) -> None:
        claim = await pools.claim()
        await pools.health.failed(claim)
        await pools.health.failed(claim)
        assert await pools.condition() is None

    run_pools(story)


def test_l13_claims_of_an_earlier_pool_of_that_name_do_not_count() -> None:
    async def story(pools: Pools) -> None:
        old = [await pools.claim() for _ in range(3)]
        await pools.api.delete(NodePool, "web")
        await pools.api.create(node_pool())
        await pools.settle()
        for claim in old:
            await pools.health.failed(claim)
            await pools.health.succeeded(claim)
        assert await pools.condition() is None

    run_pools(story)


def _launched(status: str, reason: str, message: str = "") -> Condition:
    return Condition(
        type="Launched",
        status=status,
        reason=reason,
        message=message,
        lastTransitionTime="2026-01-01T00:00:00Z",
    )


@pytest.mark.parametrize(
    ("launched", "expected"),
    [
        (
            _launched("Unknown", "QuotaExceeded", "32 vCPU"),
            ("QuotaExceeded", "32 vCPU"),
        ),
        (
            _launched("True", "Launched"),
            ("RegistrationFailed", "Failed to register node"),
        ),
    ],
)
def test_l14_the_condition_says_why_there_is_no_node(
    launched: Condition, expected: tuple[str, str]
) -> None:
    async def story(pools: Pools) -> None:
        for _ in range(2):
            await pools.health.failed(await pools.claim(launched))
        found = await pools.condition()
        assert found is not None
        assert (found.reason, found.message) == expected

    run_pools(story)


def test_pools_of_foreign_classes_are_not_judged() -> None:
    foreign = {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"}

    async def story(pools: Pools) -> None:
        for _ in range(2):
            await pools.health.failed(await pools.claim())
        assert await pools.condition() is None

    run_pools(story, template={"spec": {"nodeClassRef": foreign}})


def test_l16_a_change_of_pool_or_class_begins_anew_and_nothing_else_does() -> None:
    async def healthy(cluster: Cluster) -> tuple[str, str]:
        await cluster.wait(10)
        return conditions(await cluster.pool())[HEALTHY]

    async def story(cluster: Cluster) -> None:
        await cluster.set_up()
        cluster.start()
        assert await healthy(cluster) == ("Unknown", "AwaitingReconciliation")
        await cluster.add_node()
        assert (await healthy(cluster))[0] == "True"
        await cluster.api.patch(NodePool, "web", {"metadata": {"annotations": {"team": "shop"}}})
        assert (await healthy(cluster))[0] == "True"
        await cluster.api.patch(NodePool, "web", {"spec": {"weight": 3}})
        assert (await healthy(cluster))[0] == "Unknown"
        await cluster.add_node("web-1", cpu="30")
        assert (await healthy(cluster))[0] == "True"
        await cluster.change_class({"tags": {"team": "shop"}})
        assert (await healthy(cluster))[0] == "Unknown"
        pool = await cluster.pool()
        assert pool.status is not None
        assert pool.status.nodeClassObservedGeneration == 2

    run_cluster(story)


def test_l11_nodes_that_never_join_make_the_pool_unhealthy_before_their_claim_is_deleted() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.set_up()
        await cluster.create_pod()
        cluster.start()
        await cluster.wait(16 * 60)
        assert conditions(await cluster.pool())[HEALTHY][0] == "Unknown"
        await cluster.wait(16 * 60)
        assert conditions(await cluster.pool())[HEALTHY] == ("False", "RegistrationFailed")

    run_cluster(story)


def test_l15_a_restart_does_not_forget_that_a_pool_was_unhealthy() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.set_up()
        await cluster.create_pod()
        cluster.start()
        await cluster.wait(32 * 60)
        await cluster.kill()
        cluster.start()
        await cluster.wait(60)
        (claim,) = await cluster.claims()
        await cluster.join(claim)
        await cluster.wait(10)
        assert conditions(await cluster.pool())[HEALTHY] == ("False", "RegistrationFailed")

    run_cluster(story)
