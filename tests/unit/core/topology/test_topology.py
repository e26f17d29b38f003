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
from wainwright.model.topology import Preferred

BOTH = (SPOT, ON_DEMAND)


def test_nodes_that_nobody_asks_about_keep_their_choice() -> None:
    made = planned(pods(2))
    assert made.claims[0].choices.zones == ZONES


def test_a_node_settles_as_soon_as_somebody_must_know() -> None:
    (even,) = (msgspec.structs.replace(pod, name="web-9") for pod in pods(1, bonds=spread()))
    made = planned([*pods(1, cpu=200), even])
    assert [claim.choices.zones for claim in made.claims] == [("zone-a",), ("zone-b",)]
    assert {claim.round for claim in made.claims} == {1}


def test_who_only_keeps_off_waits_until_it_is_launched() -> None:
    alone = Bonds(anti_affinity=(company(app="web"),))
    made = planned([*pods(1, cpu=200), *pods(1, "shy", bonds=alone)])
    assert [claim.choices.zones for claim in made.claims] == [("zone-a",), ("zone-b", "zone-c")]
    assert [claim.round for claim in made.claims] == [1, 2]


def test_who_would_rather_keep_off_does_not_wait() -> None:
    rather = Bonds(preferred_anti_affinity=(Preferred(weight=1, term=company(app="web")),))
    made = planned([*pods(1, cpu=200), *pods(1, "shy", bonds=rather)])
    assert [claim.pods for claim in made.claims] == [("shop/shy-0", "shop/web-0")]
    assert [group.pods for group in made.relaxed] == [("shop/shy-0",)]


def test_whoever_joins_its_company_need_not_know_where_that_will_be() -> None:
    near = Bonds(affinity=(company(),))
    made = planned([*pods(1, cpu=200), *pods(5, "x", cpu=150, bonds=near)])
    assert [claim.choices.zones for claim in made.claims] == [ZONES]


def test_company_is_only_company_where_the_node_has_every_label() -> None:
    """The pod that is wanted near is on a node without racks: in no rack it is near."""
    bonds = Bonds(affinity=(company(), company("example.com/rack")))
    made = planned([*pods(1, cpu=200), *pods(1, "x", bonds=bonds)])
    assert [group.pods for group in made.unschedulable] == [("shop/x-0",)]


def test_of_equally_empty_zones_the_cheapest_comes_first() -> None:
    dear, cheap = machine("dear", zones=ZONES[:2], price=2.0), machine("cheap", zones=ZONES[2:])
    (first, second) = planned(pods(2, bonds=spread()), dear, cheap).claims
    assert (first.launch.zone, second.launch.zone) == ("zone-c", "zone-a")


def test_a_node_that_is_made_to_settle_stays_cheap() -> None:
    dear, cheap = machine("dear", zones=ZONES[:2], price=2.0), machine("cheap", zones=ZONES[2:])
    made = planned([*pods(1, "x", cpu=200), *pods(1, bonds=spread())], dear, cheap)
    assert [claim.choices.zones for claim in made.claims] == [("zone-c",)]


def test_nodes_out_of_reach_count_before_it_is_known_where_they_will_be() -> None:
    """Affinity is ignored, so that a node in another zone, where none of them is, would count."""
    there = Pool(name="c", requirements=asking(ZONE, "In", "zone-b", "zone-c"), weight=10)
    here = (asking(ZONE, "In", "zone-a"),)
    bonds = spread(honor_affinity=False)
    waiting = [*pods(1, "x", cpu=200), *pods(2, bonds=bonds, alternatives=here)]
    made = planned(waiting, pools=(there, GENERAL))
    assert made.unscheduled == 1


def test_where_a_volume_keeps_the_pod_other_zones_are_no_domains() -> None:
    bonds = msgspec.structs.replace(spread(), volume_places=(asking(ZONE, "In", "zone-a"),))
    assert by_zone(planned(pods(3, bonds=bonds))) == {"zone-a": 3}


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


def test_nobody_takes_a_zone_that_was_opened_too_early() -> None:
    """Had those who keep off not waited, a second zone would be there for who needs none."""
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
