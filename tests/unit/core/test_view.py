"""The view: what would become of the pods of some nodes if these were not there."""

import msgspec
import pytest
from tests.support.model import asking, instance_type, offering
from tests.support.tiedmodel import company, machine, pods, spread, standing

from wainwright.core.view import Simulation, View, is_movable
from wainwright.model.index import TypeIndex
from wainwright.model.labels import HOSTNAME, RESERVED, ZONE
from wainwright.model.node import Node
from wainwright.model.pod import Bonds, Pod, VolumeProblem
from wainwright.model.pool import Pool
from wainwright.model.snapshot import Snapshot


def view(*nodes: Node, pools: tuple[Pool, ...] = ()) -> View:
    index = TypeIndex([machine(cpu=2000)])
    snapshot = Snapshot(nodes=nodes, pools=pools)
    return View(snapshot, {pool.name: index for pool in pools})


def homes(found: Simulation) -> dict[str, tuple[str, ...]]:
    return {place.node: place.pods for place in found.placements}


GENERAL = (Pool(name="general"),)


def test_pods_go_where_there_is_room() -> None:
    here = view(
        standing("a", "zone-a", *pods(2, cpu=400)), standing("b", "zone-a"), standing("c", "zone-a")
    )
    found = here.without(["a"])
    assert found.is_possible
    assert homes(found) == {"b": ("shop/web-0", "shop/web-1")}
    assert found.claim is None


def test_one_new_node_may_be_launched_and_no_second() -> None:
    here = view(
        standing("a", "zone-a", *pods(1, cpu=1500), cpu=2000),
        standing("b", "zone-a", *pods(1, "db", cpu=1500), cpu=2000),
        pools=GENERAL,
    )
    found = here.without(["a"])
    assert found.claim is not None
    assert (found.claim.name, found.claim.pods) == ("general-1", ("shop/web-0",))
    assert not here.without(["a", "b"]).is_possible


def test_nodes_that_go_take_nobody() -> None:
    here = view(standing("a", "zone-a", *pods(1)), standing("b", "zone-a"), pools=())
    assert here.without(["a"]).is_possible
    assert here.without(["a", "b"]).unplaced == ("shop/web-0",)


def test_nothing_is_left_behind_by_a_question() -> None:
    here = view(standing("a", "zone-a", *pods(1, cpu=900)), standing("b", "zone-a"))
    assert homes(here.without(["a"])) == {"b": ("shop/web-0",)}
    assert homes(here.without(["a"])) == {"b": ("shop/web-0",)}
    assert here.without(["b"]) == Simulation()


def test_pods_that_go_are_no_longer_counted_where_they_were() -> None:
    """Two that keep apart: one goes, and its place is free for nobody but itself elsewhere."""
    apart = Bonds(anti_affinity=(company(HOSTNAME),))
    first, second = pods(2, bonds=apart)
    here = view(
        standing("a", "zone-a", first), standing("b", "zone-a", second), standing("c", "zone-a")
    )
    assert homes(here.without(["a"])) == {"c": ("shop/web-0",)}
    assert here.without(["a", "c"]).unplaced == ("shop/web-0",)


def test_the_first_of_its_kind_again_when_the_only_one_goes() -> None:
    near = Bonds(affinity=(company(),))
    here = view(standing("a", "zone-a", *pods(1, bonds=near)), standing("b", "zone-b"))
    assert homes(here.without(["a"])) == {"b": ("shop/web-0",)}


def test_a_zone_goes_with_its_last_node() -> None:
    """With a and b one each is even; without b, and nothing to be launched there, a is enough."""
    first, second = pods(2, bonds=spread())
    here = view(
        standing("a", "zone-a", first), standing("b", "zone-b", second), standing("c", "zone-a")
    )
    assert homes(here.without(["b"])) == {"a": ("shop/web-1",)}


def test_pods_that_nobody_makes_anew_are_left_out_of_account() -> None:
    agent, leaving = (
        msgspec.structs.replace(pods(1, "agent")[0], daemonset=True),
        msgspec.structs.replace(pods(1, "leaving")[0], terminating=True),
    )
    assert not is_movable(agent)
    assert not is_movable(leaving)
    assert view(standing("a", "zone-a", agent, leaving)).without(["a"]) == Simulation()


@pytest.mark.parametrize(
    "stuck",
    [
        {"volume_problem": VolumeProblem(claim="data", why="is lost")},
        {"alternatives": ()},
        {"alternatives": (asking(ZONE, "In", "nowhere"),)},
    ],
)
def test_a_pod_that_fits_nowhere_keeps_its_node(stuck: dict[str, object]) -> None:
    (pod,) = pods(1)
    odd: Pod = msgspec.structs.replace(pod, **stuck)
    here = view(standing("a", "zone-a", odd), standing("b", "zone-a"), pools=GENERAL)
    assert here.without(["a"]).unplaced == here.rebuilt(["a"]).unplaced == ("shop/web-0",)


def test_an_unknown_node_is_an_error() -> None:
    with pytest.raises(KeyError, match="ghost"):
        view(standing("a", "zone-a")).without(["ghost"])


def test_without_a_slot_other_capacity_is_used() -> None:
    slot = offering(capacity_type=RESERVED, price=1e-7, available=1, reservation_id="cr-1")
    sold_out = msgspec.structs.replace(slot, available=0)
    node = standing("a", "zone-a", *pods(1))
    for offered, bought in ((slot, "cr-1"), (sold_out, None)):
        index = TypeIndex([instance_type(offerings=(offered, offering()))])
        here = View(Snapshot(nodes=(node,), pools=GENERAL), {"general": index})
        found = here.without(["a"])
        assert found.claim is not None
        assert found.claim.launch.reservation_id == bought


def test_a_slot_that_a_node_was_promised_is_free_without_it() -> None:
    slot = offering(capacity_type=RESERVED, reservation_id="cr-1", available=1)
    index = TypeIndex([instance_type(name="only", offerings=(slot,))])
    [pod] = pods(1)
    node = Node(name="a", launched=False, reservation_id="cr-1", pods=(pod,), pool="general")
    here = View(Snapshot(nodes=(node,), pools=GENERAL), {"general": index})
    found = here.without(["a"])
    assert found == here.rebuilt(["a"])
    assert found.claim is not None
    assert found.claim.launch.reservation_id == "cr-1"
