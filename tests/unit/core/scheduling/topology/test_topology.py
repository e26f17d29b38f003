"""Topology: where pods with topology constraints go, as far as Kubernetes leaves it open."""

import msgspec
import pytest
from tests.support.model_builders import (
    GENERAL,
    ZONES,
    affinity_term,
    existing_node,
    instance_type,
    label_requirement,
    labelled_pods,
    offering,
    plan_pods,
    pods_by_zone,
    spread_constraint,
    zonal_instance_type,
)

from wainwright.core.scheduling.topology.topology import MANY_GROUPS
from wainwright.model.labels import CAPACITY_TYPE, HOSTNAME, ON_DEMAND, SPOT, ZONE
from wainwright.model.pod import PodConstraints, WeightedAffinityTerm
from wainwright.model.snapshot import Pool
from wainwright.model.taints import Taint

BOTH = (SPOT, ON_DEMAND)


def test_without_constraints_a_node_keeps_all_zones() -> None:
    result = plan_pods(labelled_pods(2))
    assert result.claims[0].choices.zones == ZONES


def test_a_draft_decides_on_a_zone_as_soon_as_a_spread_depends_on_it() -> None:
    (spread_pod,) = (
        msgspec.structs.replace(pod, name="web-9")
        for pod in labelled_pods(1, constraints=spread_constraint())
    )
    result = plan_pods([*labelled_pods(1, cpu=200), spread_pod])
    assert [claim.choices.zones for claim in result.claims] == [("zone-a",), ("zone-b",)]
    assert {claim.round for claim in result.claims} == {1}


def test_a_pod_with_anti_affinity_waits_until_the_draft_is_pinned() -> None:
    alone = PodConstraints(anti_affinity=(affinity_term(app="web"),))
    result = plan_pods([*labelled_pods(1, cpu=200), *labelled_pods(1, "shy", constraints=alone)])
    assert [claim.choices.zones for claim in result.claims] == [("zone-a",), ("zone-b", "zone-c")]
    assert [claim.round for claim in result.claims] == [1, 2]


def test_a_pod_with_preferred_anti_affinity_does_not_wait() -> None:
    preferred = PodConstraints(
        preferred_anti_affinity=(WeightedAffinityTerm(weight=1, term=affinity_term(app="web")),)
    )
    result = plan_pods(
        [*labelled_pods(1, cpu=200), *labelled_pods(1, "shy", constraints=preferred)]
    )
    assert [claim.pods for claim in result.claims] == [("shop/shy-0", "shop/web-0")]
    assert [group.pods for group in result.relaxed] == [("shop/shy-0",)]


def test_a_pod_with_affinity_joins_the_same_node_without_deciding_its_zone() -> None:
    near = PodConstraints(affinity=(affinity_term(),))
    result = plan_pods(
        [*labelled_pods(1, cpu=200), *labelled_pods(5, "x", cpu=150, constraints=near)]
    )
    assert [claim.choices.zones for claim in result.claims] == [ZONES]


def test_pods_that_waited_for_another_are_tried_again_in_the_same_round() -> None:
    """The larger pods come first, while the pod that they want to be near has no place yet."""
    near = PodConstraints(affinity=(affinity_term(app="db"),))
    result = plan_pods(
        [*labelled_pods(2, "x", cpu=1000, constraints=near), *labelled_pods(1, "db", cpu=200)],
        nodes=[existing_node("n", "zone-a", cpu=1300)],
    )
    assert [placement.pods for placement in result.placements] == [("shop/db-0", "shop/x-0")]
    assert [(claim.pods, claim.round) for claim in result.claims] == [(("shop/x-1",), 1)]


def test_affinity_requires_every_topology_label_on_the_node() -> None:
    """The selected pod is on a node without the rack label, so that no rack has it."""
    constraints = PodConstraints(affinity=(affinity_term(), affinity_term("example.com/rack")))
    result = plan_pods(
        [*labelled_pods(1, cpu=200), *labelled_pods(1, "x", constraints=constraints)]
    )
    assert result.unplaced == ("shop/x-0",)


def test_of_equally_empty_zones_the_cheapest_is_used_first() -> None:
    expensive, cheap = (
        zonal_instance_type("expensive", zones=ZONES[:2], price=2.0),
        zonal_instance_type("cheap", zones=ZONES[2:]),
    )
    (first, second) = plan_pods(
        labelled_pods(2, constraints=spread_constraint()), expensive, cheap
    ).claims
    assert (first.launch.zone, second.launch.zone) == ("zone-c", "zone-a")


def test_a_draft_that_must_decide_takes_the_cheapest_zone() -> None:
    expensive, cheap = (
        zonal_instance_type("expensive", zones=ZONES[:2], price=2.0),
        zonal_instance_type("cheap", zones=ZONES[2:]),
    )
    result = plan_pods(
        [*labelled_pods(1, "x", cpu=200), *labelled_pods(1, constraints=spread_constraint())],
        expensive,
        cheap,
    )
    assert [claim.choices.zones for claim in result.claims] == [("zone-c",)]


def test_unreachable_nodes_count_before_their_zone_is_decided() -> None:
    """Node affinity is ignored: a node in another zone, with none of the pods, would count."""
    there = Pool(
        name="c", requirements=label_requirement(ZONE, "In", "zone-b", "zone-c"), weight=10
    )
    here = (label_requirement(ZONE, "In", "zone-a"),)
    constraints = spread_constraint(honor_affinity=False)
    pods = [
        *labelled_pods(1, "x", cpu=200),
        *labelled_pods(2, constraints=constraints, alternatives=here),
    ]
    result = plan_pods(pods, pools=(there, GENERAL))
    assert result.unscheduled == 1


def test_zones_excluded_by_volume_topology_are_no_domains() -> None:
    constraints = msgspec.structs.replace(
        spread_constraint(), volume_topology=(label_requirement(ZONE, "In", "zone-a"),)
    )
    assert pods_by_zone(plan_pods(labelled_pods(3, constraints=constraints))) == {"zone-a": 3}


def test_a_zone_without_offerings_is_no_domain() -> None:
    two_zones = zonal_instance_type(zones=("zone-a", "zone-b"))
    assert pods_by_zone(
        plan_pods(labelled_pods(8, constraints=spread_constraint()), two_zones)
    ) == {
        "zone-a": 4,
        "zone-b": 4,
    }


def test_a_zone_whose_pool_has_reached_its_limits_is_no_domain() -> None:
    at_limit = Pool(
        name="c", requirements=label_requirement(ZONE, "In", "zone-c"), limits={"nodes": 0}
    )
    here = Pool(name="ab", requirements=label_requirement(ZONE, "In", "zone-a", "zone-b"))
    result = plan_pods(labelled_pods(4, constraints=spread_constraint()), pools=(at_limit, here))
    assert pods_by_zone(result) == {"zone-a": 2, "zone-b": 2}


def test_a_zone_with_an_existing_node_is_a_domain_even_without_offerings() -> None:
    result = plan_pods(
        labelled_pods(4, constraints=spread_constraint()),
        zonal_instance_type(zones=("zone-a",)),
        nodes=[existing_node("full", "zone-b", cpu=0)],
    )
    assert pods_by_zone(result) == {"zone-a": 1}
    assert result.unscheduled == 3


def test_combinations_of_domains_without_an_offering_are_skipped() -> None:
    """Spot only in one zone: pods are still spread over zones and capacity types."""
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
    result = plan_pods(labelled_pods(6, constraints=constraints), *types)
    assert pods_by_zone(result) == {"zone-a": 2, "zone-b": 2, "zone-c": 2}


def test_spreads_with_different_min_domains_are_independent() -> None:
    without_min_domains, with_min_domains = (
        labelled_pods(2, constraints=spread_constraint()),
        labelled_pods(3, "db", constraints=spread_constraint(app="db", min_domains=4)),
    )
    result = plan_pods([*without_min_domains, *with_min_domains])
    assert result.unscheduled == 0
    more = plan_pods(
        [
            *without_min_domains,
            *labelled_pods(4, "db", constraints=spread_constraint(app="db", min_domains=4)),
        ]
    )
    assert more.unscheduled == 1


def test_a_reachable_zone_is_used_while_the_skew_allows_it() -> None:
    only = msgspec.structs.replace(GENERAL, requirements=label_requirement(ZONE, "In", "zone-a"))
    empty = existing_node("tiny", "zone-b", cpu=0)
    result = plan_pods(
        labelled_pods(5, constraints=spread_constraint(max_skew=3)), pools=(only,), nodes=(empty,)
    )
    assert pods_by_zone(result) == {"zone-a": 3}


@pytest.mark.parametrize(("max_skew", "nodes"), [(1, 6), (2, 3), (4, 2)])
def test_over_hostnames_a_new_node_is_always_possible(max_skew: int, nodes: int) -> None:
    result = plan_pods(labelled_pods(6, constraints=spread_constraint(HOSTNAME, max_skew=max_skew)))
    assert len(result.claims) == nodes


def test_the_first_pod_with_affinity_to_itself_goes_anywhere_and_the_others_follow() -> None:
    near = PodConstraints(affinity=(affinity_term(),))
    result = plan_pods(labelled_pods(4, cpu=9000, constraints=near))
    assert [claim.launch.zone for claim in result.claims] == ["zone-a"] * 4


def test_several_affinity_terms_need_a_pod_that_all_of_them_select() -> None:
    """One pod has the app and another the tier: neither is selected by both terms."""
    tier = msgspec.structs.replace(affinity_term(), selector=affinity_term(app="x").selector)
    constraints = PodConstraints(affinity=(affinity_term(app="web"), tier))
    result = plan_pods(
        [
            *labelled_pods(1),
            *labelled_pods(1, "x"),
            *labelled_pods(1, "torn", constraints=constraints),
        ]
    )
    assert result.unplaced == ("shop/torn-0",)


def test_a_running_pod_outside_its_own_anti_affinity_selector_excludes_selected_pods_too() -> None:
    avoiding_web = PodConstraints(anti_affinity=(affinity_term(app="web"),))
    (unselected,) = labelled_pods(1, "unselected", constraints=avoiding_web)
    result = plan_pods(
        labelled_pods(1, constraints=avoiding_web), nodes=[existing_node("n", "zone-a", unselected)]
    )
    assert result.placements == ()
    assert result.claims[0].choices.zones == ("zone-b", "zone-c")


def test_pods_with_anti_affinity_do_not_open_a_second_zone_too_early() -> None:
    """If pods with anti-affinity did not wait, others would use a second zone needlessly."""
    pods = [
        *labelled_pods(1, "five", cpu=500),
        *labelled_pods(1, "one", cpu=400),
        *labelled_pods(
            1,
            "avoids-one",
            cpu=300,
            constraints=PodConstraints(anti_affinity=(affinity_term(app="one"),)),
        ),
        *(msgspec.structs.replace(pod, name="five-1") for pod in labelled_pods(1, "five", cpu=200)),
        *labelled_pods(
            1,
            "avoids-five",
            cpu=100,
            constraints=PodConstraints(anti_affinity=(affinity_term(app="five"),)),
        ),
    ]
    result = plan_pods(pods, zonal_instance_type(zones=("zone-a", "zone-b")))
    assert [claim.pods for claim in result.claims] == [
        ("shop/five-0", "shop/five-1", "shop/one-0"),
        ("shop/avoids-five-0", "shop/avoids-one-0"),
    ]


def test_a_pod_not_selected_by_its_own_spread_may_join_one_more() -> None:
    """With one selected pod there and maxSkew 1, another one may not join; other pods may."""
    node = existing_node("n", "zone-a", *labelled_pods(1))
    not_selected = plan_pods(
        labelled_pods(1, "x", constraints=spread_constraint(HOSTNAME)), nodes=[node]
    )
    assert [place.node for place in not_selected.placements] == ["n"]
    own = [
        msgspec.structs.replace(pod, name="web-9")
        for pod in labelled_pods(1, constraints=spread_constraint(HOSTNAME))
    ]
    assert plan_pods(own, nodes=[node]).placements == ()


@pytest.mark.parametrize(("honour", "placed"), [(True, 3), (False, 1)])
def test_tainted_nodes_count_unless_node_taints_policy_is_honor(honour: bool, placed: int) -> None:
    tainted = msgspec.structs.replace(existing_node("n", "zone-b"), taints=(Taint(key="team"),))
    constraints = spread_constraint(honor_taints=honour)
    result = plan_pods(
        labelled_pods(3, constraints=constraints),
        zonal_instance_type(zones=("zone-a",)),
        nodes=[tainted],
    )
    assert result.scheduled == placed


RACK = "example.com/rack"
WITHOUT_RACK = instance_type(name="plain")
WITH_RACKS = instance_type(
    name="racked",
    offerings=tuple(offering(price=3.0, labels={RACK: rack}) for rack in ("one", "two")),
)


def test_a_new_node_that_will_have_no_such_label_is_in_no_domain() -> None:
    together = PodConstraints(affinity=(affinity_term(RACK),))
    first, *others = labelled_pods(3, cpu=1500, constraints=together)
    free = msgspec.structs.replace(first, constraints=PodConstraints())
    result = plan_pods([free, *others], WITHOUT_RACK, WITH_RACKS)
    assert not result.unplaced
    racks = [
        str(claim.requirements.only(RACK)) for claim in result.claims if RACK in claim.requirements
    ]
    assert racks == ["example.com/rack Exists"] * 2


def test_a_node_that_must_not_have_a_label_keeps_nobody_away_from_its_domains() -> None:
    without = label_requirement(RACK, "DoesNotExist")
    apart = PodConstraints(anti_affinity=(affinity_term(RACK),))
    result = plan_pods(
        [
            *labelled_pods(1, cpu=1500, alternatives=(without,)),
            *labelled_pods(1, "shy", cpu=400, constraints=apart),
        ],
        WITHOUT_RACK,
        WITH_RACKS,
    )
    assert [claim.pods for claim in result.claims] == [("shop/shy-0", "shop/web-0")]


MANY_SPREADS = tuple(
    spread
    for max_skew in range(1, MANY_GROUPS + 2)
    for spread in spread_constraint(max_skew=max_skew).spreads
)


def test_pods_that_many_constraints_count_stay_apart_by_each_of_them() -> None:
    apart = PodConstraints(spreads=MANY_SPREADS, anti_affinity=(affinity_term(HOSTNAME),))
    result = plan_pods(labelled_pods(5, constraints=apart))
    assert [len(claim.pods) for claim in result.claims] == [1] * 5
    assert pods_by_zone(result) == {"zone-a": 2, "zone-b": 2, "zone-c": 1}


def test_many_constraints_count_the_nodes_where_their_pods_may_go() -> None:
    two_zones = label_requirement(ZONE, "In", *ZONES[:2])
    spreads = PodConstraints(spreads=MANY_SPREADS)
    result = plan_pods(labelled_pods(4, constraints=spreads, alternatives=(two_zones,)))
    assert pods_by_zone(result) == {"zone-a": 2, "zone-b": 2}
