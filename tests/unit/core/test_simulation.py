"""The view: what would become of the pods of some nodes if these were not there."""

import msgspec
import pytest
from tests.support.model_builders import (
    affinity_term,
    existing_node,
    instance_type,
    label_requirement,
    labelled_pods,
    offering,
    spread_constraint,
    zonal_instance_type,
)

from wainwright.core.simulation import ClusterSimulator, Simulation, is_reschedulable
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import HOSTNAME, RESERVED, ZONE
from wainwright.model.pod import Pod, PodConstraints, VolumeProblem
from wainwright.model.snapshot import Node, Pool, Snapshot


def view(*nodes: Node, pools: tuple[Pool, ...] = ()) -> ClusterSimulator:
    index = InstanceTypeIndex([zonal_instance_type(cpu=2000)])
    snapshot = Snapshot(nodes=nodes, pools=pools)
    return ClusterSimulator(snapshot, {pool.name: index for pool in pools})


def homes(found: Simulation) -> dict[str, tuple[str, ...]]:
    return {place.node: place.pods for place in found.placements}


GENERAL = (Pool(name="general"),)


def test_pods_go_where_there_is_room() -> None:
    here = view(
        existing_node("a", "zone-a", *labelled_pods(2, cpu=400)),
        existing_node("b", "zone-a"),
        existing_node("c", "zone-a"),
    )
    found = here.remove_nodes(["a"])
    assert found.is_possible
    assert homes(found) == {"b": ("shop/web-0", "shop/web-1")}
    assert found.claim is None


def test_one_new_node_may_be_launched_and_no_second() -> None:
    here = view(
        existing_node("a", "zone-a", *labelled_pods(1, cpu=1500), cpu=2000),
        existing_node("b", "zone-a", *labelled_pods(1, "db", cpu=1500), cpu=2000),
        pools=GENERAL,
    )
    found = here.remove_nodes(["a"])
    assert found.claim is not None
    assert (found.claim.name, found.claim.pods) == ("general-1", ("shop/web-0",))
    assert not here.remove_nodes(["a", "b"]).is_possible


def test_nodes_that_go_take_nobody() -> None:
    here = view(
        existing_node("a", "zone-a", *labelled_pods(1)), existing_node("b", "zone-a"), pools=()
    )
    assert here.remove_nodes(["a"]).is_possible
    assert here.remove_nodes(["a", "b"]).unplaced == ("shop/web-0",)


def test_nothing_is_left_behind_by_a_question() -> None:
    here = view(
        existing_node("a", "zone-a", *labelled_pods(1, cpu=900)), existing_node("b", "zone-a")
    )
    assert homes(here.remove_nodes(["a"])) == {"b": ("shop/web-0",)}
    assert homes(here.remove_nodes(["a"])) == {"b": ("shop/web-0",)}
    assert here.remove_nodes(["b"]) == Simulation()


def test_pods_that_go_are_no_longer_counted_where_they_were() -> None:
    """Two that keep apart: one goes, and its place is free for nobody but itself elsewhere."""
    apart = PodConstraints(anti_affinity=(affinity_term(HOSTNAME),))
    first, second = labelled_pods(2, constraints=apart)
    here = view(
        existing_node("a", "zone-a", first),
        existing_node("b", "zone-a", second),
        existing_node("c", "zone-a"),
    )
    assert homes(here.remove_nodes(["a"])) == {"c": ("shop/web-0",)}
    assert here.remove_nodes(["a", "c"]).unplaced == ("shop/web-0",)


def test_the_first_of_its_kind_again_when_the_only_one_goes() -> None:
    near = PodConstraints(affinity=(affinity_term(),))
    here = view(
        existing_node("a", "zone-a", *labelled_pods(1, constraints=near)),
        existing_node("b", "zone-b"),
    )
    assert homes(here.remove_nodes(["a"])) == {"b": ("shop/web-0",)}


def test_a_zone_goes_with_its_last_node() -> None:
    """With a and b one each is even; without b, and nothing to be launched there, a is enough."""
    first, second = labelled_pods(2, constraints=spread_constraint())
    here = view(
        existing_node("a", "zone-a", first),
        existing_node("b", "zone-b", second),
        existing_node("c", "zone-a"),
    )
    assert homes(here.remove_nodes(["b"])) == {"a": ("shop/web-1",)}


def test_pods_that_nobody_makes_anew_are_left_out_of_account() -> None:
    agent, leaving = (
        msgspec.structs.replace(labelled_pods(1, "agent")[0], daemonset=True),
        msgspec.structs.replace(labelled_pods(1, "leaving")[0], terminating=True),
    )
    assert not is_reschedulable(agent)
    assert not is_reschedulable(leaving)
    assert view(existing_node("a", "zone-a", agent, leaving)).remove_nodes(["a"]) == Simulation()


@pytest.mark.parametrize(
    "stuck",
    [
        {"volume_problem": VolumeProblem(claim="data", why="is lost")},
        {"alternatives": ()},
        {"alternatives": (label_requirement(ZONE, "In", "nowhere"),)},
    ],
)
def test_a_pod_that_fits_nowhere_keeps_its_node(stuck: dict[str, object]) -> None:
    (pod,) = labelled_pods(1)
    odd: Pod = msgspec.structs.replace(pod, **stuck)
    here = view(existing_node("a", "zone-a", odd), existing_node("b", "zone-a"), pools=GENERAL)
    assert (
        here.remove_nodes(["a"]).unplaced == here.replan_without(["a"]).unplaced == ("shop/web-0",)
    )


def test_an_unknown_node_is_an_error() -> None:
    with pytest.raises(KeyError, match="ghost"):
        view(existing_node("a", "zone-a")).remove_nodes(["ghost"])


def test_without_a_slot_other_capacity_is_used() -> None:
    slot = offering(capacity_type=RESERVED, price=1e-7, available=1, reservation_id="cr-1")
    sold_out = msgspec.structs.replace(slot, available=0)
    node = existing_node("a", "zone-a", *labelled_pods(1))
    for offered, bought in ((slot, "cr-1"), (sold_out, None)):
        index = InstanceTypeIndex([instance_type(offerings=(offered, offering()))])
        here = ClusterSimulator(Snapshot(nodes=(node,), pools=GENERAL), {"general": index})
        found = here.remove_nodes(["a"])
        assert found.claim is not None
        assert found.claim.launch.reservation_id == bought


def test_a_slot_that_a_node_was_promised_is_free_without_it() -> None:
    slot = offering(capacity_type=RESERVED, reservation_id="cr-1", available=1)
    index = InstanceTypeIndex([instance_type(name="only", offerings=(slot,))])
    [pod] = labelled_pods(1)
    node = Node(name="a", launched=False, reservation_id="cr-1", pods=(pod,), pool="general")
    here = ClusterSimulator(Snapshot(nodes=(node,), pools=GENERAL), {"general": index})
    found = here.remove_nodes(["a"])
    assert found == here.replan_without(["a"])
    assert found.claim is not None
    assert found.claim.launch.reservation_id == "cr-1"
