"""The world at the start of a simulation: objects, account, and instances of its nodes."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from tests.support.scripted_simulation import (
    NODE_CLASS,
    A,
    B,
    C,
    Manifest,
    cloud,
    managed_node,
    pod,
    reservation,
    scenario,
)

from wainwright.api.karpenter.nodeclaim import NodeClaim, NodeClaimStatus
from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.workloads import Pod
from wainwright.clock import EPOCH
from wainwright.emulator.account_timer import AccountTimer
from wainwright.emulator.ec2.instance.lifecycle import Instance
from wainwright.sim.world import World

RESERVED = {
    "karpenter.sh/capacity-type": "reserved",
    "karpenter.k8s.aws/capacity-reservation-id": "cr-1",
}
MakeWorld = Callable[..., World]


@pytest.fixture
def make_world() -> Iterator[MakeWorld]:
    made: list[World] = []

    def make(*manifests: Manifest, **options: Any) -> World:
        given = scenario(*manifests)
        made.append(World(given.manifests, start=given.start, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


def instances(world: World) -> list[Instance]:
    return world.account.services.instances.list_alive()


def claim_of(world: World, name: str) -> NodeClaim:
    found = world.api.peek(NodeClaim, name)
    assert found is not None
    return found


def test_a_node_alone_is_a_running_instance_with_a_claim(make_world: MakeWorld) -> None:
    node = managed_node("n1", "c5.large", B)
    created = "2025-12-01T00:00:00Z"
    stated = {**node, "metadata": {**node["metadata"], "creationTimestamp": created}}

    world = make_world(stated)

    (instance,) = instances(world)
    stored, claim = world.api.peek(Node, "n1"), claim_of(world, "n1")
    assert stored is not None
    assert (instance.type, instance.zone, instance.state) == ("c5.large", B, "running")
    assert instance.launched == EPOCH - 31 * 86_400
    assert stored.spec.providerID == f"aws:///{B}/{instance.id}"
    assert claim.status is not None
    assert claim.status.providerID == stored.spec.providerID
    assert claim.status.nodeName == "n1"
    assert claim.metadata.creationTimestamp == created
    states = {each.type: each.status for each in claim.status.conditions or ()}
    assert states == dict.fromkeys(("Launched", "Registered", "Initialized", "Ready"), "True")
    assert claim.metadata.finalizers == ["karpenter.sh/termination"]


def test_a_node_keeps_its_provider_id(make_world: MakeWorld) -> None:
    node = {**managed_node("n1"), "spec": {"providerID": f"aws:///{A}/i-0123456789abcdef0"}}

    world = make_world(node)

    assert [each.id for each in instances(world)] == ["i-0123456789abcdef0"]


def test_a_node_without_amounts_has_those_of_its_type(make_world: MakeWorld) -> None:
    world = make_world(managed_node("n1"))

    node = world.api.peek(Node, "n1")
    assert node is not None
    assert (node.status.capacity or {})["cpu"] == "2"
    assert (node.status.allocatable or {})["cpu"] == "1930m"


def test_an_instance_looks_as_its_class_would_launch_it(make_world: MakeWorld) -> None:
    world = make_world(managed_node("n1"))

    (instance,) = instances(world)
    answer = world.account.answer("ec2", "DescribeInstances", {"InstanceIds": [instance.id]})
    view = answer["Reservations"][0]["Instances"][0]
    filters = [{"Name": "tag:karpenter.sh/discovery", "Values": ["shop"]}]
    groups = world.account.answer("ec2", "DescribeSecurityGroups", {"Filters": filters})
    subnets = world.account.answer("ec2", "DescribeSubnets", {"Filters": filters})
    assert view["SubnetId"] in {each["SubnetId"] for each in subnets["Subnets"]}
    assert [each["GroupId"] for each in view["SecurityGroups"]] == [
        each["GroupId"] for each in groups["SecurityGroups"]
    ]
    tags = {each["Key"]: each["Value"] for each in view["Tags"]}
    assert tags["karpenter.sh/nodepool"] == "default"
    assert tags["karpenter.k8s.aws/ec2nodeclass"] == "default"
    assert tags["karpenter.sh/nodeclaim"] == "n1"


@pytest.mark.parametrize(
    ("stated", "used", "others", "free"),
    [
        ({}, 1, 0, 3),
        ({"available": 1}, 1, 2, 1),
        ({"available": 3}, 1, 0, 3),
        ({"available": 4}, 1, 0, 3),
    ],
)
def test_a_reserved_node_is_among_those_that_available_leaves_out(
    make_world: MakeWorld, stated: dict[str, Any], used: int, others: int, free: int
) -> None:
    entry = reservation(total=4, **stated)

    world = make_world(
        managed_node("n1", "c5.large", A, **RESERVED), cloud(capacityReservations=[entry])
    )

    found = world.account.services.reservations.state.reservations["cr-1"]
    assert (found.used, found.used_by_others, found.free) == (used, others, free)


def test_spot_nodes_are_spot_instances(make_world: MakeWorld) -> None:
    world = make_world(managed_node("n1", **{"karpenter.sh/capacity-type": "spot"}))

    assert [each.lifecycle for each in instances(world)] == ["spot"]


def test_a_claim_whose_node_has_not_joined_has_an_instance(make_world: MakeWorld) -> None:
    labels = managed_node("n1")["metadata"]["labels"]
    claim = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": "default-a", "labels": labels},
        "spec": {
            "nodeClassRef": {
                "group": "karpenter.k8s.aws",
                "kind": "EC2NodeClass",
                "name": "default",
            },
            "requirements": [],
        },
        "status": {"providerID": f"aws:///{A}/i-0123456789abcdef0"},
    }

    world = make_world(claim)

    assert [each.id for each in instances(world)] == ["i-0123456789abcdef0"]
    assert (claim_of(world, "default-a").status or NodeClaimStatus()).nodeName == ""


def test_nodes_of_others_have_no_instance(make_world: MakeWorld) -> None:
    world = make_world({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "theirs"}})

    assert instances(world) == []
    assert world.api.peek(Node, "theirs") is not None


def test_a_node_of_a_type_that_ec2_does_not_sell_is_a_warning(make_world: MakeWorld) -> None:
    world = make_world(managed_node("n1", "m1.huge"))

    assert instances(world) == []
    assert "n1 has no instance in the simulation" in world.warnings[0]


def test_bound_pods_run_from_the_start_and_others_wait(make_world: MakeWorld) -> None:
    world = make_world(managed_node("n1"), pod("a", nodeName="n1"), pod("b"))

    phases = {each.metadata.name: each.status.phase for each in world.api.peek_all(Pod)}
    assert phases == {"a": "Running", "b": "Pending"}


def test_pods_have_what_admission_gives_them(make_world: MakeWorld) -> None:
    world = make_world(pod("a"))

    stored = world.api.peek(Pod, "a", "default")
    assert stored is not None
    assert stored.spec.terminationGracePeriodSeconds == 30
    assert len(stored.spec.tolerations or ()) == 2


def test_a_pool_whose_class_is_not_in_the_input_finds_one() -> None:
    given = scenario(managed_node("n1"))
    given.manifests.objects = [
        each
        for each in given.manifests.objects
        if each.kind != NODE_CLASS["kind"]  # type: ignore[attr-defined]
    ]

    world = World(given.manifests, start=given.start)

    assert len(instances(world)) == 1
    world.close()


def test_a_catalog_says_which_types_are_sold_and_for_how_much(make_world: MakeWorld) -> None:
    def offering(zone: str, price: float) -> dict[str, Any]:
        labels = {"karpenter.sh/capacity-type": "on-demand", "topology.kubernetes.io/zone": zone}
        return {"labels": labels, "price": price}

    catalog = {
        "apiVersion": "wainwright.dev/v1alpha1",
        "kind": "Catalog",
        "region": "us-west-2",
        "instanceTypes": [
            {
                "name": name,
                "capacity": {"cpu": "2", "memory": "8Gi", "pods": "20"},
                "offerings": [offering(A, 0.5), offering(B, 0.6)],
            }
            for name in ("m5.large", "x9.large")
        ],
    }
    stated = {**cloud(), "spec": {"region": "us-west-2"}}

    world = make_world(catalog, stated)

    market = world.account.services.capacity_market
    assert market.price("m5.large", A, "on-demand") == 0.5
    assert market.price("c5.large", A, "on-demand") is None
    assert any("x9.large" in each for each in world.warnings)
    assert any("capacity and labels are those of EC2" in each for each in world.warnings)


def test_the_same_seed_gives_the_same_world(make_world: MakeWorld) -> None:
    manifests = (managed_node("n1"), managed_node("n2", zone=C), pod("a"))

    first, second, other = (make_world(*manifests, seed=seed) for seed in (1, 1, 2))

    def state(world: World) -> bytes:
        return msgspec.json.encode([instances(world), list(world.api.peek_all(NodeClaim))])

    assert state(first) == state(second) != state(other)


def test_events_of_ec2_happen_at_their_time_without_any_call(make_world: MakeWorld) -> None:
    ending = reservation(endTime="2026-01-01T00:10:00Z")
    world = make_world(managed_node("n1"), cloud(capacityReservations=[ending]))
    seen: list[tuple[float, str]] = []
    services = world.account.services
    services.instances.add_listener(lambda each, _: seen.append((world.now(), each.state)))
    services.reservations.lifecycle.add_change_listener(
        lambda _, change: seen.append((world.now(), change))
    )

    async def main() -> None:
        timer = AccountTimer(world.account)
        timer.start()
        await world.clock.sleep(60)
        services.instances.terminate([each.id for each in instances(world)])
        await world.clock.sleep(3600)
        timer.stop()

    world.clock.run(main())

    moments = [(round(at, 3), state) for at, state in seen]
    assert moments == [(60.0, "shutting-down"), (61.0, "terminated"), (600.0, "expired")]
