"""Metrics of the state (row STA-1)."""

from tests.support.controlled_cluster import ControlledCluster, node_pool, run_cluster

from wainwright.metrics import STATE_NODES, STATE_SYNCED, STATE_UNSYNCED_SECONDS


def test_sta_1_nodes_are_counted_once_with_claims_that_have_not_joined() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(node_pool(disruption={"consolidateAfter": "Never"}))
        cluster.start()
        await cluster.wait(5)
        assert cluster.metrics.value(STATE_NODES) == 0
        assert cluster.metrics.value(STATE_SYNCED) == 1
        await cluster.add_node()
        await cluster.wait(5)
        await cluster.create_pod("web-1", cpu="30")
        await cluster.wait(20)
        assert cluster.metrics.value(STATE_NODES) == len(await cluster.claims()) == 2

    run_cluster(story)


def test_sta_1_while_an_instance_is_not_known_the_state_is_not_in_sync() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up()
        cluster.start()
        await cluster.wait(5)
        await cluster.create_pod()
        seen = set()
        for _ in range(800):
            await cluster.wait(0.005)
            seen.add(cluster.metrics.value(STATE_SYNCED))
        assert seen == {0, 1}
        assert cluster.metrics.value(STATE_SYNCED) == 1
        assert cluster.metrics.value(STATE_UNSYNCED_SECONDS) == 0

    run_cluster(story)
