"""A class is tried out with an image and a machine that can be had together."""

import pytest
from tests.support.awslaunches import Scene, claim, played


@pytest.mark.parametrize(
    "types",
    [
        pytest.param(["m5.large", "c5.large"], id="only amd64 is sold"),
        pytest.param(["m6g.large"], id="only arm64 is sold"),
        pytest.param(["c5.xlarge"], id="not the type that is usual"),
    ],
)
def test_a_class_is_ready_whatever_machines_are_sold(types: list[str]) -> None:
    async def launched(scene: Scene) -> None:
        found = await scene.one(claim())
        assert found.instance_type in types
        tried = [each for each in scene.seam.asked("RunInstances") if each.get("DryRun")]
        assert {each["InstanceType"] for each in tried} <= set(types)
        assert tried

    played(launched, types=types)
