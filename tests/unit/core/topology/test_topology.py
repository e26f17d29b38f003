"""Where pods go that mind each other, as far as Kubernetes leaves it open."""

import msgspec
import pytest
from tests.support.model import asking
from tests.support.tiedmodel import (
    GENERAL,
    ZONES,
    by_zone,
    company,
    machine,
    planned,
    pods,
    spread,
    standing,
)

from wainwright.model.labels import CAPACITY_TYPE, HOSTNAME, ON_DEMAND, SPOT, ZONE
from wainwright.model.pod import Bonds
from wainwright.model.pool import Pool
from wainwright.model.taints import Taint

BOTH = (SPOT, ON_DEMAND)


def test_nodes_that_nobody_asks_about_keep_their_choice() -> None:
    made = planned(pods(2))
    assert made.claims[0].choices.zones == ZONES


def test_a_node_settles_as_soon_as_somebody_must_know() -> None:
    alone = Bonds(anti_affinity=(company(app="web"),))
    made = planned([*pods(1, cpu=200), *pods(1, "shy", bonds=alone)])
    assert [claim.choices.zones for claim in made.claims] == [("zone-a",), ("zone-b", "zone-c")]


def test_a_zone_where_nothing_can_be_had_is_no_domain() -> None:
    dry = machine(zones=("zone-a", "zone-b"))
    assert by_zone(planned(pods(8, bonds=spread()), dry)) == {"zone-a": 4, "zone-b": 4}


def test_a_zone_whose_pool_has_used_up_its_limits_is_no_domain() -> None:
    closed = Pool(name="c", requirements=asking(ZONE, "In", "zone-c"), limits={"nodes": 0})
    here = Pool(name="ab", requirements=asking(ZONE, "In", "zone-a", "zone-b"))
    made = planned(pods(4, bonds=spread()), pools=(closed, here))
    assert by_zone(made) == {"zone-a": 2, "zone-b": 2}


def test_a_zone_where_a_node_stands_is_a_domain_even_if_nothing_can_be_had_there() -> None:
    made = planned(
        pods(4, bonds=spread()),
        machine(zones=("zone-a",)),
        nodes=[standing("full", "zone-b", cpu=0)],
    )
    assert by_zone(made) == {"zone-a": 1}
    assert made.unscheduled == 3


def test_combinations_that_nobody_offers_are_passed_over() -> None:
    """Spot only in one zone: pods are spread over zones and capacity types all the same."""
    types = [
        machine("spot", zones=("zone-a",), capacity_types=(SPOT,)),
        machine("demand", zones=("zone-b", "zone-c")),
    ]
    bonds = Bonds(spreads=(*spread().spreads, *spread(CAPACITY_TYPE, max_skew=2).spreads))
    made = planned(pods(6, bonds=bonds), *types)
    assert by_zone(made) == {"zone-a": 2, "zone-b": 2, "zone-c": 2}


def test_spreads_that_differ_in_min_domains_are_counted_each_on_its_own() -> None:
    lax, strict = pods(2, bonds=spread()), pods(3, "db", bonds=spread(app="db", min_domains=4))
    made = planned([*lax, *strict])
    assert made.unscheduled == 0
    more = planned([*lax, *pods(4, "db", bonds=spread(app="db", min_domains=4))])
    assert more.unscheduled == 1


def test_a_reachable_zone_is_used_while_the_skew_allows_it() -> None:
    only = msgspec.structs.replace(GENERAL, requirements=asking(ZONE, "In", "zone-a"))
    empty = standing("tiny", "zone-b", cpu=0)
    made = planned(pods(5, bonds=spread(max_skew=3)), pools=(only,), nodes=(empty,))
    assert by_zone(made) == {"zone-a": 3}


@pytest.mark.parametrize(("max_skew", "nodes"), [(1, 6), (2, 3), (4, 2)])
def test_over_hostnames_a_new_node_is_always_possible(max_skew: int, nodes: int) -> None:
    made = planned(pods(6, bonds=spread(HOSTNAME, max_skew=max_skew)))
    assert len(made.claims) == nodes


def test_the_first_of_its_kind_goes_anywhere_and_the_others_follow() -> None:
    near = Bonds(affinity=(company(),))
    made = planned(pods(4, cpu=9000, bonds=near))
    assert [claim.launch.zone for claim in made.claims] == ["zone-a"] * 4


def test_several_terms_speak_of_pods_that_all_of_them_mean() -> None:
    """One pod has the app and another the tier: neither is the one that is wanted near."""
    tier = msgspec.structs.replace(company(), selector=company(app="x").selector)
    bonds = Bonds(affinity=(company(app="web"), tier))
    made = planned([*pods(1), *pods(1, "x"), *pods(1, "torn", bonds=bonds)])
    assert [group.pods for group in made.unschedulable] == [("shop/torn-0",)]


def test_a_running_pod_that_does_not_belong_to_those_it_shuns_keeps_them_away_too() -> None:
    shunning = Bonds(anti_affinity=(company(app="web"),))
    (alien,) = pods(1, "alien", bonds=shunning)
    made = planned(pods(1, bonds=shunning), nodes=[standing("n", "zone-a", alien)])
    assert made.placements == ()
    assert made.claims[0].choices.zones == ("zone-b", "zone-c")


def test_where_haste_leaves_a_pod_out_the_plan_takes_its_time() -> None:
    """Settled at once, a second zone is opened too early, and taken by somebody who need not."""
    waiting = [
        *pods(1, "five", cpu=500),
        *pods(1, "one", cpu=400),
        *pods(1, "shuns-one", cpu=300, bonds=Bonds(anti_affinity=(company(app="one"),))),
        *(msgspec.structs.replace(pod, name="five-1") for pod in pods(1, "five", cpu=200)),
        *pods(1, "shuns-five", cpu=100, bonds=Bonds(anti_affinity=(company(app="five"),))),
    ]
    made = planned(waiting, machine(zones=("zone-a", "zone-b")))
    assert [claim.pods for claim in made.claims] == [
        ("shop/five-0", "shop/five-1", "shop/one-0"),
        ("shop/shuns-five-0", "shop/shuns-one-0"),
    ]


def test_who_is_not_counted_itself_may_join_one_more() -> None:
    """With one of them there and maxSkew one, another of them may not; somebody else may."""
    node = standing("n", "zone-a", *pods(1))
    stranger = planned(pods(1, "x", bonds=spread(HOSTNAME)), nodes=[node])
    assert [place.node for place in stranger.placements] == ["n"]
    own = [msgspec.structs.replace(pod, name="web-9") for pod in pods(1, bonds=spread(HOSTNAME))]
    assert planned(own, nodes=[node]).placements == ()


@pytest.mark.parametrize(("honour", "placed"), [(True, 3), (False, 1)])
def test_tainted_nodes_count_unless_taints_are_honoured(honour: bool, placed: int) -> None:
    tainted = msgspec.structs.replace(standing("n", "zone-b"), taints=(Taint(key="team"),))
    bonds = spread(honor_taints=honour)
    made = planned(pods(3, bonds=bonds), machine(zones=("zone-a",)), nodes=[tainted])
    assert made.scheduled == placed
