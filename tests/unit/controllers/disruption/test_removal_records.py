"""What the disruption breaker reads after a restart, and how little it believes."""

from collections.abc import Iterable
from typing import Any

import pytest
from tests.support.controlled_cluster import ControlledCluster, node_pool, run_cluster

from wainwright.api.karpenter.nodeclaim import NodeClaim, NodeClaimSpec
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.workloads import Pod
from wainwright.api.wire import ObjectMeta
from wainwright.clock import format_timestamp
from wainwright.cluster import MergePatch
from wainwright.controllers.disruption.disruption_breaker import DisruptionBreaker
from wainwright.controllers.disruption.removal_records import (
    RecordedRemoval,
    RemovalRecords,
)
from wainwright.controllers.informer_cache import InformerCache
from wainwright.controllers.settings import BreakerSettings, ControllerSettings
from wainwright.errors import KubernetesError
from wainwright.model.labels import NODEPOOL
from wainwright.sim.api_server import InMemoryApiServer
from wainwright.translate.annotations import REMOVALS_ANNOTATION

WINDOW = 600.0
HALF = ControllerSettings(breaker=BreakerSettings(share=0.5, nodes=1, window=WINDOW))
POOL: dict[str, Any] = {"disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}}


def restarted(
    nodes: int, *records: tuple[float, int, int], under_way: Iterable[float] = ()
) -> DisruptionBreaker:
    made = DisruptionBreaker(HALF.breaker)
    made.remember(under_way, (RecordedRemoval(*each) for each in records))
    made.count_nodes(nodes, 100.0)
    return made


def test_what_was_removed_before_counts_against_the_nodes_of_then() -> None:
    made = restarted(6, (0.0, 2, 10), (60.0, 1, 8))
    assert made.room(0, 100.0) == 2, "five of ten, less three"
    made.removed([110.0])
    assert made.room(0, 120.0) == 1
    assert made.next_change == 600.0
    assert made.room(1, 600.0) == 1, "four of the eight before the second, less two"
    assert made.next_change == 660.0
    assert made.room(0, 660.0) == 2, "three of the six that this process has counted, less one"


def test_a_node_that_is_still_going_and_written_down_counts_once() -> None:
    assert restarted(6, (0.0, 2, 6), under_way=[1.0, 2.0]).room(0, 100.0) == 1
    assert restarted(6, under_way=[1.0, 2.0]).room(0, 100.0) == 1, "the record is lost"
    assert restarted(6, (0.0, 1, 6), under_way=[1.0, 2.0]).room(0, 100.0) == 1, "it is behind"


@pytest.mark.parametrize(
    "record", [(0.0, 0, 999_999_999), (0.0, 1, 999), (0.0, 0, 0), (700.0, 1, 999)]
)
def test_no_record_lets_more_nodes_go_than_none(record: tuple[float, int, int]) -> None:
    without, made = restarted(6, under_way=[5.0]), restarted(6, record, under_way=[5.0])
    for now in (100.0, 300.0, 601.0, 650.0, 1400.0):
        assert made.room(0, now) <= without.room(0, now)
    assert made.room(0, 1400.0) == without.room(0, 1400.0), "and it is over some day"


async def _written(cluster: ControlledCluster) -> str | None:
    return ((await cluster.pool()).metadata.annotations or {}).get(REMOVALS_ANNOTATION)


async def _empty_nodes(cluster: ControlledCluster, count: int, wait: float = 700.0) -> None:
    await cluster.set_up(node_pool(**POOL))
    cluster.start()
    await cluster.wait(5)
    for number in range(count):
        await cluster.add_node(f"web-{number}", cpu="1500m")
    await cluster.wait(wait)
    for number in range(count):
        await cluster.api.delete(Pod, f"web-{number}", "default", grace_period=0)


async def _alive(cluster: ControlledCluster) -> int:
    return sum(not each.metadata.deletionTimestamp for each in await cluster.claims())


def _run(story: Any, settings: ControllerSettings = HALF) -> None:
    run_cluster(story, instanceTypes=["m5.large"], settings=settings)


class _CountedPatches:
    """The API server, with the patches of the record that it got; it may refuse them."""

    def __init__(
        self, api: InMemoryApiServer, *, is_refusing: bool = False, failing_deletions: int = 0
    ) -> None:
        self._api, self._is_refusing = api, is_refusing
        self._failing_deletions = failing_deletions
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    async def patch(self, kind: Any, name: str, patch: MergePatch, namespace: str = "") -> Any:
        if REMOVALS_ANNOTATION in patch.get("metadata", {}).get("annotations", {}):
            self.count += 1
            if self._is_refusing:
                raise KubernetesError("a webhook says no")
        return await self._api.patch(kind, name, patch, namespace)

    async def delete(self, kind: Any, name: str, namespace: str = "", **more: Any) -> None:
        if kind is NodeClaim and self._failing_deletions:
            self._failing_deletions -= 1
            raise KubernetesError("etcd has no leader")
        await self._api.delete(kind, name, namespace, **more)


def test_each_command_is_written_down_by_one_request() -> None:
    async def story(cluster: ControlledCluster) -> None:
        cluster.port = port = _CountedPatches(cluster.api)
        await _empty_nodes(cluster, 6)
        while await _alive(cluster) == 6:
            await cluster.wait(1)
        first = cluster.clock.now()
        assert (await _written(cluster) or "").startswith("3 of 6 at ")
        assert port.count == 1
        while await _alive(cluster) == 3:
            await cluster.wait(10)
        assert " 3 of 3 at " in (await _written(cluster) or ""), "and all of the first are over"
        assert port.count == 2
        assert cluster.clock.now() - first == pytest.approx(WINDOW, abs=60)

    _run(story)


def test_deletions_that_are_tried_again_are_written_down_once() -> None:
    async def story(cluster: ControlledCluster) -> None:
        cluster.port = port = _CountedPatches(cluster.api, failing_deletions=2)
        await _empty_nodes(cluster, 6)
        await cluster.wait(100)
        assert await _alive(cluster) == 3
        assert (await _written(cluster) or "").startswith("3 of 6 at ")
        assert port.count == 1

    _run(story)


def test_a_command_is_written_down_before_its_nodes_are_deleted() -> None:
    async def story(cluster: ControlledCluster) -> None:
        cluster.port = _CountedPatches(cluster.api, failing_deletions=1000)
        await _empty_nodes(cluster, 6)
        while not await _written(cluster):
            await cluster.wait(1)
        assert await _alive(cluster) == 6
        cluster.port = cluster.api
        for _ in range(2):
            await cluster.kill()
            cluster.start()
            await cluster.wait(60)
            assert await _alive(cluster) == 6, "what was written down counts, carried out or not"

    _run(story)


def test_nothing_is_written_without_a_breaker() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await _empty_nodes(cluster, 2)
        await cluster.wait(60)
        assert await _alive(cluster) == 0
        assert await _written(cluster) is None

    _run(story, ControllerSettings())


def test_a_record_that_cannot_be_written_stops_nothing() -> None:
    async def story(cluster: ControlledCluster) -> None:
        cluster.port = _CountedPatches(cluster.api, is_refusing=True)
        await _empty_nodes(cluster, 4)
        await cluster.wait(60)
        assert await _alive(cluster) == 2
        await cluster.wait(WINDOW)
        assert await _alive(cluster) == 0

    _run(story)


@pytest.mark.parametrize(
    "value",
    [
        "",
        ", ,",
        "3 of",
        "-3 of 6 at {now}",
        "9999999999 of 9999999999 at {now}",
        "3 of 6 at yesterday",
        "3 of 6 at 2026-01-01T00:00:00",
        "6 of 6 at 9999-12-31T23:59:59Z",
        "6 of 6 at 0001-01-01T00:00:00+23:59",
        "0 of 999999999 at {now}",
        "٣ of ٦ at {now}",
        "x" * 200_000,
    ],
)
def test_a_garbled_record_lets_as_many_nodes_go_as_none(value: str) -> None:
    async def story(cluster: ControlledCluster) -> None:
        await _empty_nodes(cluster, 4, wait=0)
        await cluster.kill()
        text = value.format(now=format_timestamp(cluster.clock.now()))
        annotated = {"metadata": {"annotations": {REMOVALS_ANNOTATION: text}}}
        await cluster.api.patch(NodePool, "web", annotated)
        cluster.start()
        await cluster.wait(60)
        assert await _alive(cluster) == 2
        assert (await _written(cluster) or "").endswith("Z"), "it is replaced by one that is right"
        assert len(await _written(cluster) or "") < 100

    _run(story)


def test_a_record_that_is_too_large_is_over_after_two_windows() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await _empty_nodes(cluster, 4, wait=0)
        await cluster.kill()
        text = f"999 of 6 at {format_timestamp(cluster.clock.now() + WINDOW)}"
        annotated = {"metadata": {"annotations": {REMOVALS_ANNOTATION: text}}}
        await cluster.api.patch(NodePool, "web", annotated)
        for _ in range(3):
            cluster.start()
            await cluster.wait(380)
            assert await _alive(cluster) == 4
            await cluster.kill()
        cluster.start()
        await cluster.wait(180)
        assert await _alive(cluster) == 2

    _run(story)


def test_the_record_does_not_grow_with_the_number_of_commands() -> None:
    async def story(cluster: ControlledCluster) -> None:
        pool = node_pool()
        await cluster.set_up(pool)
        cache = InformerCache(cluster.api, cluster.clock, (NodePool,))
        await cache.read(pool)
        claim = NodeClaim(
            metadata=ObjectMeta(name="web-1", labels={NODEPOOL: "web"}),
            spec=NodeClaimSpec(nodeClassRef=pool.spec.template.spec.nodeClassRef, requirements=[]),
        )
        records = RemovalRecords(cache, cluster.clock, WINDOW)
        for _ in range(400):
            await records.add([claim], 1000)
            await cluster.wait(3)
        known = records.all()
        assert [each.nodes for each in known[:-1]] == [10] * 19, "of half a minute each"
        assert len(known) == 20
        assert len(await _written(cluster) or "") < 800

    _run(story)
