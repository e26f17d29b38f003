"""The scheduler's default topology spread constraints in the running controllers (row TOP-19)."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from tests.support.claim_stories import ObservedCluster
from tests.support.controlled_cluster import ControlledCluster, merged, pending_pod, run_cluster

from wainwright.api.kubernetes.cluster import Service
from wainwright.api.kubernetes.workloads import (
    Deployment,
    Pod,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
    TopologySpreadConstraint,
)
from wainwright.api.wire import WireStruct
from wainwright.controllers.settings import ControllerSettings
from wainwright.model.labels import ZONE

SPREAD = TopologySpreadConstraint(maxSkew=1, topologyKey=ZONE, whenUnsatisfiable="DoNotSchedule")
BY_ZONE = ControllerSettings(default_constraints=(SPREAD,))
LABELS = {"app": "web"}
SELECTED = {"matchLabels": LABELS}
KINDS = {"Service", "Deployment", "ReplicaSet", "ReplicationController"}
"""Of which only default constraints need all objects."""


def selecting(kind: type[WireStruct], name: str = "web") -> WireStruct:
    """An object that selects the pods."""
    is_plain = kind in (Service, ReplicationController)
    spec: dict[str, Any] = {"selector": LABELS if is_plain else SELECTED}
    if kind is not Service:
        containers = [{"name": "main"}]
        spec["template"] = {"metadata": {"labels": LABELS}, "spec": {"containers": containers}}
    manifest = {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
    return msgspec.convert(manifest, kind, strict=False)


def pods(count: int = 3, first: int = 0, **more: Any) -> list[Pod]:
    """That would all fit on one node."""
    numbers = range(first, first + count)
    manifest = merged({"metadata": {"labels": LABELS}}, more)
    return [pending_pod(f"web-{number}", cpu="100m", **manifest) for number in numbers]


async def create_selected(cluster: ControlledCluster, kind: type[WireStruct]) -> None:
    """The object, and three pods: its own, where it can have any."""
    created: Any = await cluster.api.create(selecting(kind))
    reference = {
        "apiVersion": created.apiVersion,
        "kind": created.kind,
        "name": created.metadata.name,
        "uid": created.metadata.uid,
        "controller": True,
    }
    owners = [] if kind is Service else [reference]
    await cluster.create(*pods(metadata={"ownerReferences": owners}))


async def zones(cluster: ControlledCluster) -> list[str]:
    """Of the nodes that were launched."""
    labels = [each.metadata.labels or {} for each in await cluster.claims()]
    return sorted(each[ZONE] for each in labels)


async def start(cluster: ControlledCluster, *objects: WireStruct) -> None:
    await cluster.set_up()
    await cluster.create(*objects)
    cluster.start()
    await cluster.wait(30)


@pytest.mark.parametrize(
    "kind", [Service, Deployment, ReplicaSet, ReplicationController, StatefulSet]
)
@pytest.mark.parametrize(("settings", "nodes"), [(BY_ZONE, 3), (ControllerSettings(), 1)])
def test_pods_without_constraints_are_spread_where_there_are_defaults(
    kind: type[WireStruct], settings: ControllerSettings, nodes: int
) -> None:
    async def story(cluster: ControlledCluster) -> None:
        await create_selected(cluster, kind)
        await start(cluster)
        found = await zones(cluster)
        assert len(found) == len({*found}) == nodes

    run_cluster(story, settings=settings)


def test_pods_that_nothing_selects_or_that_say_how_they_are_spread_are_left_alone() -> None:
    own = {"maxSkew": 9, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    spec = {"topologySpreadConstraints": [{**own, "labelSelector": SELECTED}]}

    async def story(cluster: ControlledCluster) -> None:
        await start(cluster, *pods())
        assert len(await cluster.claims()) == 1
        await cluster.create(selecting(Service), *pods(first=3, spec=spec))
        await cluster.wait(30)
        assert len(await cluster.claims()) == 1

    run_cluster(story, settings=BY_ZONE)


def test_a_service_that_is_made_or_deleted_counts_for_the_next_pods() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await start(cluster, *pods(1))
        await cluster.create(selecting(Service))
        await cluster.wait(5)
        await cluster.create(*pods(2, first=1))
        await cluster.wait(30)
        found = await zones(cluster)
        assert len(found) == len({*found}) == 3
        await cluster.api.delete(Service, "web", "default")
        await cluster.wait(5)
        await cluster.create(*pods(6, first=3))
        await cluster.wait(30)
        assert await zones(cluster) == found, "they have room there, and go anywhere"

    run_cluster(story, settings=BY_ZONE, instanceTypes=["m5.xlarge"])


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (ControllerSettings(), set()),
        (BY_ZONE, KINDS),
        (ControllerSettings(capacity_buffer=True), {"Deployment", "ReplicaSet"}),
        (msgspec.structs.replace(BY_ZONE, capacity_buffer=True), KINDS),
    ],
)
def test_what_only_defaults_depend_on_is_not_watched_without_them(
    settings: ControllerSettings, expected: set[str]
) -> None:
    async def story(cluster: ControlledCluster) -> None:
        listed: list[str] = []

        async def before(verb: str, kind: str, _: Mapping[str, Any]) -> None:
            if verb == "list":
                listed.append(kind)

        cluster.port = ObservedCluster(cluster.api, before)
        await start(cluster)
        assert {*listed} & KINDS == expected
        assert len(listed) == len({*listed}), "each kind once"

    run_cluster(story, settings=settings)
