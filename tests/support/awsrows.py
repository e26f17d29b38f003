"""Words for tests of docs/aws-rows.md: launches through the whole provider, and what was asked."""

from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
from tests.support.awslaunches import POOL, Scene, asking
from tests.support.awslaunches import played as played_at_once

from wainwright.catalogue import builtin
from wainwright.cloud import Declared, PoolScope
from wainwright.emulator.boot.booted import Booted
from wainwright.emulator.boot.machine import Nursery
from wainwright.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, SPOT
from wainwright.model.requirements import Requirements


def played(test: Callable[[Scene], Coroutine[Any, Any, None]], *entries: Any, **more: Any) -> None:
    """In an account whose types and prices are known, as they are after a minute."""

    async def run(scene: Scene) -> None:
        await scene.cloud.refresh()
        await test(scene)

    played_at_once(run, *entries, **more)


def one_of(key: str, *values: str, least: int | None = None) -> Requirements:
    return Requirements.from_entries([(key, "In", values, least)])


OD = asking(capacity=ON_DEMAND)
BOTH = asking((CAPACITY_TYPE, "In", (ON_DEMAND, SPOT), None))
M5 = one_of(INSTANCE_TYPE, "m5.large")


def short(kind: str, zone: str | None = None, capacity_type: str | None = None) -> dict[str, Any]:
    """What is unavailable, as a Cloud has it."""
    said = {"instanceType": kind, "zone": zone, "capacityType": capacity_type}
    return {name: value for name, value in said.items() if value is not None}


def pools(fleet: Any) -> list[tuple[str, str]]:
    """Types and zones of a request, in order."""
    return sorted(
        (each["InstanceType"], each["AvailabilityZone"])
        for config in fleet["LaunchTemplateConfigs"]
        for each in config["Overrides"]
    )


def kinds(fleet: Any) -> set[str]:
    return {kind for kind, _ in pools(fleet)}


def templates(scene: Scene, fleet: Any) -> list[Any]:
    """The LaunchTemplateData that a request is launched from."""
    known = scene.emulated.parts.templates.state.templates.values()
    by_name = {each.name: each for each in known}
    names = [
        config["LaunchTemplateSpecification"]["LaunchTemplateName"]
        for config in fleet["LaunchTemplateConfigs"]
    ]
    return [by_name[name].versions[-1].data for name in names]


def declare(
    scene: Scene, *, types: tuple[Any, ...] = (), overlays: tuple[Any, ...] = (), **labels: str
) -> None:
    """Overrides beside the class that there is."""
    scene.cloud.declare(
        Declared(
            node_classes=tuple(msgspec.to_builtins(each) for each in scene.classes),
            instance_types=types,
            overlays=overlays,
            pools=(PoolScope(name=POOL, node_class="default", labels=labels),),
        )
    )


def instance_type(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "InstanceType",
        "metadata": {"name": name},
        "spec": spec,
    }


def overlay(name: str, key: str, *values: str, **spec: Any) -> dict[str, Any]:
    wanted = [{"key": key, "operator": "In", "values": list(values)}]
    return {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": name},
        "spec": {"requirements": wanted, **spec},
    }


def booted(scene: Scene, instance: str) -> Booted:
    """The node that becomes of a machine."""
    parts = scene.emulated.parts
    nursery = Nursery(
        region=parts.world.region,
        machines=builtin.machines(),
        instances=parts.instances,
        images=parts.images,
        eks=parts.eks,
    )
    machine = parts.instances.get(instance)
    assert machine is not None
    outcome = nursery.outcome(machine)
    assert isinstance(outcome, Booted), outcome
    return outcome
