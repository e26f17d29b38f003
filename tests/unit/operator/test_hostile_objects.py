"""Whatever somebody writes into an object: controllers go on, and other pods get their nodes."""

import logging

import pytest
from tests.support.controlled_cluster import pending_pod
from tests.support.hostile_objects import ALL, Hostile, Outcome
from tests.support.operator_world import World, play
from tests.support.simulated_cluster import to_object

from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.api.kubernetes.workloads import Pod
from wainwright.errors import InvalidObjectError


@pytest.mark.parametrize("hostile", ALL, ids=[each.name for each in ALL])
def test_a_pod_of_somebody_else_gets_its_node(
    hostile: Hostile, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(world: World) -> None:
        process = world.run()
        await world.clock.sleep(5)
        if await is_created(world, hostile):
            await world.clock.sleep(5)
            selecting = {"nodeSelector": {"karpenter.sh/nodepool": "web"}}
            await world.api.create(pending_pod("innocent", spec=selecting))
            await world.clock.sleep(60)
            found = await world.api.get(Pod, "innocent", "default")
            assert found.status.phase == "Running"
            assert not process.task.done()
            assert await reason_of_class(world, hostile) == hostile.reason

    with caplog.at_level(logging.WARNING):
        play(story)
    assert not [each.getMessage() for each in caplog.records if each.exc_info]


async def reason_of_class(world: World, hostile: Hostile) -> str:
    """Where one is asked for: that of the class not being ready."""
    if not hostile.reason:
        return ""
    found = await world.api.get(EC2NodeClass, hostile.manifest["metadata"]["name"])
    assert found.status is not None
    conditions = {each.type: each for each in found.status.conditions or ()}
    assert conditions["Ready"].status == "False"
    return conditions["ValidationSucceeded"].reason


async def is_created(world: World, hostile: Hostile) -> bool:
    """The API server in memory refuses nothing that the real one accepts."""
    try:
        await world.api.create(to_object(hostile.manifest))
    except InvalidObjectError:
        assert hostile.outcome is Outcome.REFUSED
        return False
    for companion in hostile.companions():
        await world.api.create(to_object(companion))
    return True
