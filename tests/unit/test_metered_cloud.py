"""Metrics of the cloud provider: by controller, method and error, as dashboards have them."""

import inspect
from typing import Any

import pytest
from tests.support.aws_provider import ProviderScene, node_claim, run_scene

from wainwright.cloud import CloudProvider
from wainwright.emulator.ec2.capacity_market import CapacityRule
from wainwright.emulator.settings import EmulatorSettings
from wainwright.errors import InstanceNotFoundError, InsufficientCapacityError
from wainwright.metered_cloud import MeteredCloudProvider
from wainwright.metrics import CLOUD_DURATION, CLOUD_ERRORS

CONTROLLER = "nodeclaim.lifecycle"


def metered(scene: ProviderScene) -> CloudProvider:
    return MeteredCloudProvider(scene.cloud, scene.clock, scene.metrics, controller=CONTROLLER)


def labels(method: str) -> dict[str, str]:
    return {"controller": CONTROLLER, "method": method, "provider": "aws"}


def calls(scene: ProviderScene, method: str) -> int:
    return scene.metrics.distribution(CLOUD_DURATION, **labels(method)).count


def test_methods_have_the_names_of_karpenters_provider() -> None:
    async def test(scene: ProviderScene) -> None:
        cloud, claim = metered(scene), scene.store.add(node_claim())
        instance = await cloud.launch(claim)
        await cloud.instance(instance.id)
        await cloud.instances()
        await cloud.catalog("web")
        await cloud.terminate(instance.id)
        counts = {name: calls(scene, name) for name in ("Create", "Get", "List", "Delete")}
        assert counts == {"Create": 1, "Get": 1, "List": 1, "Delete": 1}
        assert calls(scene, "GetInstanceTypes") == 1

    run_scene(test)


def test_an_error_is_counted_by_its_reason_and_raised() -> None:
    async def test(scene: ProviderScene) -> None:
        with pytest.raises(InsufficientCapacityError) as raised:
            await metered(scene).launch(scene.store.add(node_claim()))
        reason = raised.value.reason
        assert scene.metrics.value(CLOUD_ERRORS, error=reason, **labels("Create")) == 1
        assert calls(scene, "Create") == 1

    rules = (CapacityRule(instanceType="*", free=0),)
    run_scene(test, settings=EmulatorSettings(capacity_rules=rules))


def test_an_instance_that_is_gone_is_an_error_of_get() -> None:
    async def test(scene: ProviderScene) -> None:
        with pytest.raises(InstanceNotFoundError):
            await metered(scene).instance("i-0123456789abcdef0")
        name = "InstanceNotFound"
        assert scene.metrics.value(CLOUD_ERRORS, error=name, **labels("Get")) == 1

    run_scene(test)


def test_durations_are_taken_from_the_clock() -> None:
    async def test(scene: ProviderScene) -> None:
        await metered(scene).instances()
        assert scene.metrics.distribution(CLOUD_DURATION, **labels("List")).total >= 0.5

    run_scene(test, settings=EmulatorSettings(latency=0.5))


def test_every_method_of_the_port_is_passed_on() -> None:
    def methods(kind: type[Any]) -> set[str]:
        return {name for name, _ in inspect.getmembers(kind, callable) if not name.startswith("_")}

    assert methods(MeteredCloudProvider) == methods(CloudProvider)
