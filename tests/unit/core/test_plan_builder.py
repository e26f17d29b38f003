"""The plan builder: names and costs of claims, and relaxed preferences."""

from tests.support.model_builders import (
    affinity_term,
    instance_type,
    label_requirement,
    labelled_pods,
    offering,
    plan_pods,
    zonal_instance_type,
)

from wainwright.core.plan import plan, solve_snapshot
from wainwright.core.plan_builder import planned_claims
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import HOSTNAME, ZONE
from wainwright.model.plan import DEFAULT_PLAN_OPTIONS, PlannedNodeClaim
from wainwright.model.pod import Pod, PodConstraints, PreferredNodeTerm, WeightedAffinityTerm
from wainwright.model.reasons import PreferredNodeAffinity, PreferredPodAntiAffinity
from wainwright.model.snapshot import Node, Pool, Snapshot

SMALL = {"cpu": 1000, "memory": 2**32, "pods": 1}
"""Capacity of a node for one pod."""


def pods_with_cpu(count: int) -> tuple[Pod, ...]:
    return tuple(Pod(namespace="d", name=str(n), requests={"cpu": 500}) for n in range(count))


def claims_with(*taken: str) -> tuple[PlannedNodeClaim, ...]:
    index = InstanceTypeIndex([instance_type(capacity=SMALL)])
    snapshot = Snapshot(pods=pods_with_cpu(3), pools=(Pool(name="web"), Pool(name="web-1")))
    solution = solve_snapshot(snapshot, {"web": index}, DEFAULT_PLAN_OPTIONS)
    return planned_claims(solution.drafts, solution.classes.resources, frozenset(taken))


def test_claims_are_numbered_in_the_order_of_creation() -> None:
    assert [claim.name for claim in claims_with()] == ["web-1", "web-2", "web-3"]


def test_names_of_existing_nodes_are_skipped() -> None:
    assert [claim.name for claim in claims_with("web-1", "web-3", "other")] == [
        "web-2",
        "web-4",
        "web-5",
    ]


def test_taken_names_are_those_of_nodes_and_of_their_claims() -> None:
    nodes = (Node(name="web-2"), Node(name="ip-10-0-0-1"))
    assert Snapshot(nodes=nodes, claims=frozenset({"web-1"})).taken_names == {
        "web-1",
        "web-2",
        "ip-10-0-0-1",
    }


def test_a_claim_costs_the_fees_of_the_type_that_would_be_launched() -> None:
    expensive_disk = instance_type(
        name="a", capacity=SMALL, offerings=(offering(price=1.0),), fee=0.5
    )
    cheap_disk = instance_type(name="b", capacity=SMALL, offerings=(offering(price=1.2),), fee=0.1)
    snapshot = Snapshot(pods=pods_with_cpu(2), pools=(Pool(name="p"),))
    result = plan(snapshot, {"p": InstanceTypeIndex([expensive_disk, cheap_disk])})
    assert [(each.launch.instance_type, each.fees) for each in result.claims] == [("b", 0.1)] * 2
    assert (result.price, result.fees) == (2.4, 0.2)


def prefers_zone(zone: str) -> PodConstraints:
    preferred = PreferredNodeTerm(weight=7, requirements=label_requirement(ZONE, "In", zone))
    return PodConstraints(preferred_nodes=(preferred,))


def test_pods_with_the_same_relaxed_preferences_are_grouped() -> None:
    result = plan_pods(
        [
            *labelled_pods(3, constraints=prefers_zone("zone-x")),
            *labelled_pods(1, "db", constraints=prefers_zone("zone-y")),
        ]
    )
    assert [group.pods for group in result.relaxed] == [
        ("shop/db-0",),
        ("shop/web-0", "shop/web-1", "shop/web-2"),
    ]
    assert result.relaxed[1].preferences == (
        PreferredNodeAffinity(requirements=f"{ZONE} In [zone-x]", weight=7),
    )


def test_an_unsatisfiable_preference_has_no_price() -> None:
    assert (
        plan_pods(labelled_pods(1, constraints=prefers_zone("zone-x"))).relaxed[0].price_if_kept
        is None
    )


def test_a_relaxed_preference_is_priced_by_the_cheapest_node_that_keeps_it() -> None:
    """A pool of one node: the second pod shares it despite its preferred anti-affinity."""
    alone = WeightedAffinityTerm(weight=1, term=affinity_term(HOSTNAME))
    small = Pool(name="small", limits={"nodes": 1})
    result = plan_pods(
        labelled_pods(2, constraints=PodConstraints(preferred_anti_affinity=(alone,))),
        zonal_instance_type(price=3.0),
        pools=(small,),
    )
    assert len(result.claims) == 1
    assert [group.preferences for group in result.relaxed] == [
        (PreferredPodAntiAffinity(term=affinity_term(HOSTNAME), weight=1),)
    ]
    assert result.relaxed[0].price_if_kept == 3.0


def test_pods_that_keep_their_preferences_are_not_listed() -> None:
    assert plan_pods(labelled_pods(2, constraints=prefers_zone("zone-b"))).relaxed == ()
