"""The outcome: what claims are called, and what they cost."""

from tests.support.model_builders import (
    affinity_term,
    instance_type,
    label_requirement,
    labelled_pods,
    offering,
    plan_pods,
    zonal_instance_type,
)

from wainwright.core.plan import plan
from wainwright.core.plan_builder import planned_claims
from wainwright.core.scheduling.existing_nodes import ExistingNodes
from wainwright.core.scheduling.nodeclaim_template import compile_templates
from wainwright.core.scheduling.solver import solve
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import HOSTNAME, ZONE
from wainwright.model.plan import DEFAULT_PLAN_OPTIONS, PlannedNodeClaim
from wainwright.model.pod import Pod, PodConstraints, PreferredNodeTerm, WeightedAffinityTerm
from wainwright.model.reasons import PreferredNodeAffinity, PreferredPodAntiAffinity
from wainwright.model.snapshot import Node, Pool, Snapshot

SMALL = {"cpu": 1000, "memory": 2**32, "pods": 1}
"""Of a machine that holds one pod."""


def pods_with_cpu(count: int) -> tuple[Pod, ...]:
    return tuple(Pod(namespace="d", name=str(n), requests={"cpu": 500}) for n in range(count))


def made(*taken: str) -> tuple[PlannedNodeClaim, ...]:
    index = InstanceTypeIndex([instance_type(capacity=SMALL)])
    templates = compile_templates([Pool(name="web"), Pool(name="web-1")], {"web": index}, ())
    solution = solve(pods_with_cpu(3), templates, ExistingNodes((), ()), {}, DEFAULT_PLAN_OPTIONS)
    return planned_claims(
        solution.rounds.table.drafts, solution.classes.resources, frozenset(taken)
    )


def test_claims_are_numbered_in_the_order_of_creation() -> None:
    assert [claim.name for claim in made()] == ["web-1", "web-2", "web-3"]


def test_numbers_that_a_machine_has_already_are_passed_over() -> None:
    assert [claim.name for claim in made("web-1", "web-3", "other")] == ["web-2", "web-4", "web-5"]


def test_names_are_taken_by_nodes_and_by_claims_that_have_become_nodes() -> None:
    nodes = (Node(name="web-2"), Node(name="ip-10-0-0-1"))
    assert Snapshot(nodes=nodes, claims=frozenset({"web-1"})).taken_names == {
        "web-1",
        "web-2",
        "ip-10-0-0-1",
    }


def test_a_claim_costs_the_fees_of_the_type_that_would_be_launched() -> None:
    dear_disk = instance_type(name="a", capacity=SMALL, offerings=(offering(price=1.0),), fee=0.5)
    cheap_disk = instance_type(name="b", capacity=SMALL, offerings=(offering(price=1.2),), fee=0.1)
    world = Snapshot(pods=pods_with_cpu(2), pools=(Pool(name="p"),))
    found = plan(world, {"p": InstanceTypeIndex([dear_disk, cheap_disk])})
    assert [(each.launch.instance_type, each.fees) for each in found.claims] == [("b", 0.1)] * 2
    assert (found.price, found.fees) == (2.4, 0.2)


def liking(zone: str) -> PodConstraints:
    wanted = PreferredNodeTerm(weight=7, requirements=label_requirement(ZONE, "In", zone))
    return PodConstraints(preferred_nodes=(wanted,))


def test_pods_that_gave_up_the_same_are_told_together() -> None:
    made = plan_pods(
        [
            *labelled_pods(3, constraints=liking("zone-x")),
            *labelled_pods(1, "db", constraints=liking("zone-y")),
        ]
    )
    assert [group.pods for group in made.relaxed] == [
        ("shop/db-0",),
        ("shop/web-0", "shop/web-1", "shop/web-2"),
    ]
    assert made.relaxed[1].preferences == (
        PreferredNodeAffinity(requirements=f"{ZONE} In [zone-x]", weight=7),
    )


def test_what_cannot_be_had_has_no_price() -> None:
    assert (
        plan_pods(labelled_pods(1, constraints=liking("zone-x"))).relaxed[0].price_if_kept is None
    )


def test_what_could_be_had_is_priced_by_the_cheapest_node_that_keeps_it() -> None:
    """A pool of one node: the second pod shares it, though it would rather be alone."""
    alone = WeightedAffinityTerm(weight=1, term=affinity_term(HOSTNAME))
    small = Pool(name="small", limits={"nodes": 1})
    made = plan_pods(
        labelled_pods(2, constraints=PodConstraints(preferred_anti_affinity=(alone,))),
        zonal_instance_type(price=3.0),
        pools=(small,),
    )
    assert len(made.claims) == 1
    assert [group.preferences for group in made.relaxed] == [
        (PreferredPodAntiAffinity(term=affinity_term(HOSTNAME), weight=1),)
    ]
    assert made.relaxed[0].price_if_kept == 3.0


def test_who_gives_up_nothing_is_not_told() -> None:
    assert plan_pods(labelled_pods(2, constraints=liking("zone-b"))).relaxed == ()
