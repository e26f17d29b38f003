"""The simulated kube-scheduler with default topology spread constraints (row TOP-19)."""

from typing import Any

import pytest
from tests.support.simulated_cluster import (
    Manifest,
    SimulatedCluster,
    Story,
    node,
    play,
    pod,
    workload,
)

from wainwright.api.kubernetes.cluster import Service
from wainwright.api.kubernetes.workloads import TopologySpreadConstraint
from wainwright.model.labels import ZONE
from wainwright.translate.topology import DefaultConstraints

LABELS = {"app": "web"}
BY_ZONE = TopologySpreadConstraint(maxSkew=1, topologyKey=ZONE, whenUnsatisfiable="DoNotSchedule")
NODES = (node("a", zone="us-east-1a"), node("b", zone="us-east-1b", resources={"cpu": "1"}))
"""Two zones; the second has room for one pod."""


def service(**selector: str) -> Manifest:
    metadata = {"name": "web", "namespace": "default"}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {"selector": selector},
    }


def replication_controller(replicas: int) -> Manifest:
    made = workload("ReplicaSet", "web", replicas)
    spec = {**made["spec"], "selector": LABELS}
    return {**made, "apiVersion": "v1", "kind": "ReplicationController", "spec": spec}


def on_two_zones(story: Story, *constraints: TopologySpreadConstraint) -> None:
    play(story, setup=lambda cluster: cluster.load(*NODES), default_constraints=constraints)


async def bound(cluster: SimulatedCluster) -> dict[str, int]:
    """How many pods each node has; those that wait under an empty name."""
    found = list((await cluster.placements()).values())
    return {name: found.count(name) for name in sorted({*found})}


SELECTING: dict[str, tuple[Manifest, ...]] = {
    "Service": (service(app="web"), *(pod(f"web-{n}", labels=LABELS) for n in range(4))),
    "Deployment": (workload("Deployment", "web", 4),),
    "ReplicaSet": (workload("ReplicaSet", "web", 4),),
    "StatefulSet": (workload("StatefulSet", "web", 4, podManagementPolicy="Parallel"),),
    "ReplicationController": (replication_controller(4),),
}


@pytest.mark.parametrize("kind", SELECTING)
@pytest.mark.parametrize(
    ("constraints", "expected"),
    # A third pod in zone a would be two more than zone b can ever have.
    [((BY_ZONE,), {"": 1, "a": 2, "b": 1}), ((), {"a": 3, "b": 1})],
)
def test_pods_are_spread_by_what_selects_them(
    kind: str, constraints: DefaultConstraints, expected: dict[str, int]
) -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(*SELECTING[kind])
        await cluster.wait(20)
        assert await bound(cluster) == expected

    on_two_zones(story, *constraints)


@pytest.mark.parametrize(
    "changes",
    [
        {"labels": {"app": "other"}},
        {"labels": LABELS, "namespace": "kube-system"},
        {
            "labels": LABELS,
            "topologySpreadConstraints": [
                {"maxSkew": 9, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
            ],
        },
    ],
)
def test_a_pod_that_nothing_selects_or_that_says_it_itself_goes_anywhere(
    changes: dict[str, Any],
) -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(service(app="web"), *(pod(f"web-{n}", **changes) for n in range(4)))
        await cluster.wait(20)
        placed = await cluster.placements(changes.get("namespace", "default"))
        assert sorted(placed.values()) == ["a", "a", "a", "b"]

    on_two_zones(story, BY_ZONE)


def test_pods_that_wait_go_on_when_their_service_is_gone() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(*SELECTING["Service"])
        await cluster.wait(20)
        assert (await bound(cluster))[""] == 1
        await cluster.api.delete(Service, "web", "default")
        await cluster.wait(5)
        assert await bound(cluster) == {"a": 3, "b": 1}

    on_two_zones(story, BY_ZONE)
