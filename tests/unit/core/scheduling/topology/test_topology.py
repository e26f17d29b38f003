"""Where pods go that mind each other, as far as Kubernetes leaves it open."""

import msgspec
import pytest
from tests.support.model_builders import (
    GENERAL,
    ZONES,
    affinity_term,
    existing_node,
    label_requirement,
    labelled_pods,
    plan_pods,
    pods_by_zone,
    spread_constraint,
    zonal_instance_type,
)

from wainwright.model.labels import CAPACITY_TYPE, HOSTNAME, ON_DEMAND, SPOT, ZONE
from wainwright.model.pod import PodConstraints, WeightedAffinityTerm
from wainwright.model.snapshot import Pool
from wainwright.model.taints import Taint

BOTH = (SPOT, ON_DEMAND)


def test_nodes_that_nobody_asks_about_keep_their_choice() -> None:
    made = plan_pods(labelled_pods(2))
    assert made.claims[0].choices.zones == ZONES


def test_a_node_settles_as_soon_as_somebody_must_know() -> None:
    (even,) = (
        msgspec.structs.replace(pod, name="web-9")
        for pod in labelled_pods(1, constraints=spread_constraint())
    )
    made = plan_pods([*labelled_pods(1, cpu=200), even])
    assert [claim.choices.zones for claim in made.claims] == [("zone-a",), ("zone-b",)]
    assert {claim.round for claim in made.claims} == {1}


def test_who_only_keeps_off_waits_until_it_is_launched() -> None:
    alone = PodConstraints(anti_affinity=(affinity_term(app="web"),))
    made = plan_pods([*labelled_pods(1, cpu=200), *labelled_pods(1, "shy", constraints=alone)])
    assert [claim.choices.zones for claim in made.claims] == [("zone-a",), ("zone-b", "zone-c")]
    assert [claim.round for claim in made.claims] == [1, 2]


def test_who_would_rather_keep_off_does_not_wait() -> None:
    rather = PodConstraints(
        preferred_anti_affinity=(WeightedAffinityTerm(weight=1, term=affinity_term(app="web")),)
    )
    made = plan_pods([*labelled_pods(1, cpu=200), *labelled_pods(1, "shy", constraints=rather)])
    assert [claim.pods for claim in made.claims] == [("shop/shy-0", "shop/web-0")]
    assert [group.pods for group in made.relaxed] == [("shop/shy-0",)]


def test_whoever_joins_its_company_need_not_know_where_that_will_be() -> None:
    near = PodConstraints(affinity=(affinity_term(),))
    made = plan_pods(
        [*labelled_pods(1, cpu=200), *labelled_pods(5, "x", cpu=150, constraints=near)]
    )
    assert [claim.choices.zones for claim in made.claims] == [ZONES]


def test_company_is_only_company_where_the_node_has_every_label() -> None:
    """The pod that is wanted near is on a node without racks: in no rack it is near."""
    constraints = PodConstraints(affinity=(affinity_term(), affinity_term("example.com/rack")))
    made = plan_pods([*labelled_pods(1, cpu=200), *labelled_pods(1, "x", constraints=constraints)])
    assert [group.pods for group in made.unschedulable] == [("shop/x-0",)]


def test_of_equally_empty_zones_the_cheapest_comes_first() -> None:
    dear, cheap = (
        zonal_instance_type("dear", zones=ZONES[:2], price=2.0),
        zonal_instance_type("cheap", zones=ZONES[2:]),
    )
    (first, second) = plan_pods(
        labelled_pods(2, constraints=spread_constraint()), dear, cheap
    ).claims
    assert (first.launch.zone, second.launch.zone) == ("zone-c", "zone-a")


def test_a_node_that_is_made_to_settle_stays_cheap() -> None:
    dear, cheap = (
        zonal_instance_type("dear", zones=ZONES[:2], price=2.0),
        zonal_instance_type("cheap", zones=ZONES[2:]),
    )
    made = plan_pods(
        [*labelled_pods(1, "x", cpu=200), *labelled_pods(1, constraints=spread_constraint())],
        dear,
        cheap,
    )
    assert [claim.choices.zones for claim in made.claims] == [("zone-c",)]


def test_nodes_out_of_reach_count_before_it_is_known_where_they_will_be() -> None:
    """Affinity is ignored, so that a node in another zone, where none of them is, would count."""
    there = Pool(
        name="c", requirements=label_requirement(ZONE, "In", "zone-b", "zone-c"), weight=10
    )
    here = (label_requirement(ZONE, "In", "zone-a"),)
    constraints = spread_constraint(honor_affinity=False)
    waiting = [
        *labelled_pods(1, "x", cpu=200),
        *labelled_pods(2, constraints=constraints, alternatives=here),
    ]
    made = plan_pods(waiting, pools=(there, GENERAL))
    assert made.unscheduled == 1


def test_where_a_volume_keeps_the_pod_other_zones_are_no_domains() -> None:
    constraints = msgspec.structs.replace(
        spread_constraint(), volume_topology=(label_requirement(ZONE, "In", "zone-a"),)
    )
    assert pods_by_zone(plan_pods(labelled_pods(3, constraints=constraints))) == {"zone-a": 3}


def test_a_zone_where_nothing_can_be_had_is_no_domain() -> None:
    dry = zonal_instance_type(zones=("zone-a", "zone-b"))
    assert pods_by_zone(plan_pods(labelled_pods(8, constraints=spread_constraint()), dry)) == {
        "zone-a": 4,
        "zone-b": 4,
    }


def test_a_zone_whose_pool_has_used_up_its_limits_is_no_domain() -> None:
    closed = Pool(
        name="c", requirements=label_requirement(ZONE, "In", "zone-c"), limits={"nodes": 0}
    )
    here = Pool(name="ab", requirements=label_requirement(ZONE, "In", "zone-a", "zone-b"))
    made = plan_pods(labelled_pods(4, constraints=spread_constraint()), pools=(closed, here))
    assert pods_by_zone(made) == {"zone-a": 2, "zone-b": 2}


def test_a_zone_where_a_node_stands_is_a_domain_even_if_nothing_can_be_had_there() -> None:
    made = plan_pods(
        labelled_pods(4, constraints=spread_constraint()),
        zonal_instance_type(zones=("zone-a",)),
        nodes=[existing_node("full", "zone-b", cpu=0)],
    )
    assert pods_by_zone(made) == {"zone-a": 1}
    assert made.unscheduled == 3


def test_combinations_that_nobody_offers_are_passed_over() -> None:
    """Spot only in one zone: pods are spread over zones and capacity types all the same."""
    types = [
        zonal_instance_type("spot", zones=("zone-a",), capacity_types=(SPOT,)),
        zonal_instance_type("demand", zones=("zone-b", "zone-c")),
    ]
    constraints = PodConstraints(
        spreads=(
            *spread_constraint().spreads,
            *spread_constraint(CAPACITY_TYPE, max_skew=2).spreads,
        )
    )
    made = plan_pods(labelled_pods(6, constraints=constraints), *types)
    assert pods_by_zone(made) == {"zone-a": 2, "zone-b": 2, "zone-c": 2}


def test_spreads_that_differ_in_min_domains_are_counted_each_on_its_own() -> None:
    lax, strict = (
        labelled_pods(2, constraints=spread_constraint()),
        labelled_pods(3, "db", constraints=spread_constraint(app="db", min_domains=4)),
    )
    made = plan_pods([*lax, *strict])
    assert made.unscheduled == 0
    more = plan_pods(
        [*lax, *labelled_pods(4, "db", constraints=spread_constraint(app="db", min_domains=4))]
    )
    assert more.unscheduled == 1


def test_a_reachable_zone_is_used_while_the_skew_allows_it() -> None:
    only = msgspec.structs.replace(GENERAL, requirements=label_requirement(ZONE, "In", "zone-a"))
    empty = existing_node("tiny", "zone-b", cpu=0)
    made = plan_pods(
        labelled_pods(5, constraints=spread_constraint(max_skew=3)), pools=(only,), nodes=(empty,)
    )
    assert pods_by_zone(made) == {"zone-a": 3}


@pytest.mark.parametrize(("max_skew", "nodes"), [(1, 6), (2, 3), (4, 2)])
def test_over_hostnames_a_new_node_is_always_possible(max_skew: int, nodes: int) -> None:
    made = plan_pods(labelled_pods(6, constraints=spread_constraint(HOSTNAME, max_skew=max_skew)))
    assert len(made.claims) == nodes


def test_the_first_of_its_kind_goes_anywhere_and_the_others_follow() -> None:
    near = PodConstraints(affinity=(affinity_term(),))
    made = plan_pods(labelled_pods(4, cpu=9000, constraints=near))
    assert [claim.launch.zone for claim in made.claims] == ["zone-a"] * 4


def test_several_terms_speak_of_pods_that_all_of_them_mean() -> None:
    """One pod has the app and another the tier: neither is the one that is wanted near."""
    tier = msgspec.structs.replace(affinity_term(), selector=affinity_term(app="x").selector)
    constraints = PodConstraints(affinity=(affinity_term(app="web"), tier))
    made = plan_pods(
        [
            *labelled_pods(1),
            *labelled_pods(1, "x"),
            *labelled_pods(1, "torn", constraints=constraints),
        ]
    )
    assert [group.pods for group in made.unschedulable] == [("shop/torn-0",)]


def test_a_running_pod_that_does_not_belong_to_those_it_shuns_keeps_them_away_too() -> None:
    shunning = PodConstraints(anti_affinity=(affinity_term(app="web"),))
    (alien,) = labelled_pods(1, "alien", constraints=shunning)
    made = plan_pods(
        labelled_pods(1, constraints=shunning), nodes=[existing_node("n", "zone-a", alien)]
    )
    assert made.placements == ()
    assert made.claims[0].choices.zones == ("zone-b", "zone-c")


def test_nobody_takes_a_zone_that_was_opened_too_early() -> None:
    """Had those who keep off not waited, a second zone would be there for who needs none."""
    waiting = [
        *labelled_pods(1, "five", cpu=500),
        *labelled_pods(1, "one", cpu=400),
        *labelled_pods(
            1,
            "shuns-one",
            cpu=300,
            constraints=PodConstraints(anti_affinity=(affinity_term(app="one"),)),
        ),
        *(msgspec.structs.replace(pod, name="five-1") for pod in labelled_pods(1, "five", cpu=200)),
        *labelled_pods(
            1,
            "shuns-five",
            cpu=100,
            constraints=PodConstraints(anti_affinity=(affinity_term(app="five"),)),
        ),
    ]
    made = plan_pods(waiting, zonal_instance_type(zones=("zone-a", "zone-b")))
    assert [claim.pods for claim in made.claims] == [
        ("shop/five-0", "shop/five-1", "shop/one-0"),
        ("shop/shuns-five-0", "shop/shuns-one-0"),
    ]


def test_who_is_not_counted_itself_may_join_one_more() -> None:
    """With one of them there and maxSkew one, another of them may not; somebody else may."""
    node = existing_node("n", "zone-a", *labelled_pods(1))
    stranger = plan_pods(
        labelled_pods(1, "x", constraints=spread_constraint(HOSTNAME)), nodes=[node]
    )
    assert [place.node for place in stranger.placements] == ["n"]
    own = [
        msgspec.structs.replace(pod, name="web-9")
        for pod in labelled_pods(1, constraints=spread_constraint(HOSTNAME))
    ]
    assert plan_pods(own, nodes=[node]).placements == ()


@pytest.mark.parametrize(("honour", "placed"), [(True, 3), (False, 1)])
def test_tainted_nodes_count_unless_taints_are_honoured(honour: bool, placed: int) -> None:
    tainted = msgspec.structs.replace(existing_node("n", "zone-b"), taints=(Taint(key="team"),))
    constraints = spread_constraint(honor_taints=honour)
    made = plan_pods(
        labelled_pods(3, constraints=constraints),
        zonal_instance_type(zones=("zone-a",)),
        nodes=[tainted],
    )
    assert made.scheduled == placed
