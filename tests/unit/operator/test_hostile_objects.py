"""Whatever is written into an object, the controllers go on, and other pods get their nodes."""

import logging

import pytest
from tests.support.controlled_cluster import pending_pod
from tests.support.hostile_objects import ALL, Hostile
from tests.support.operator_world import World, play
from tests.support.simulated_cluster import to_object

from wainwright.api.kubernetes.workloads import Pod


@pytest.mark.parametrize("hostile", ALL, ids=[each.name for each in ALL])
def test_a_pod_of_somebody_else_gets_its_node(
    hostile: Hostile, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(world: World) -> None:
        process = world.run()
        await world.clock.sleep(5)
        await world.api.create(to_object(hostile.manifest))
        await world.clock.sleep(5)
        await world.api.create(pending_pod("innocent"))
        await world.clock.sleep(60)
        found = await world.api.get(Pod, "innocent", "default")
        assert found.status.phase == "Running"
        assert not process.task.done()

    with caplog.at_level(logging.WARNING):
        play(story)
    assert not [each.getMessage() for each in caplog.records if each.exc_info]
