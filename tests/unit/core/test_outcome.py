"""The outcome: what claims are called, and what they cost."""

from tests.support.model import instance_type, offering

from wainwright.core.nodes import NodeTable
from wainwright.core.outcome import claims
from wainwright.core.plan import plan
from wainwright.core.solve import solve
from wainwright.core.templates import compiled
from wainwright.model.index import TypeIndex
from wainwright.model.node import Node
from wainwright.model.options import DEFAULT_OPTIONS
from wainwright.model.plan import PlannedClaim
from wainwright.model.pod import Pod
from wainwright.model.pool import Pool
from wainwright.model.snapshot import Snapshot

SMALL = {"cpu": 1000, "memory": 2**32, "pods": 1}
"""Of a machine that holds one pod."""


def pods(count: int) -> tuple[Pod, ...]:
    return tuple(Pod(namespace="d", name=str(n), requests={"cpu": 500}) for n in range(count))


def made(*taken: str) -> tuple[PlannedClaim, ...]:
    index = TypeIndex([instance_type(capacity=SMALL)])
    templates = compiled([Pool(name="web"), Pool(name="web-1")], {"web": index}, ())
    solution = solve(pods(3), templates, NodeTable((), ()), {}, DEFAULT_OPTIONS)
    return claims(solution.rounds.table.drafts, solution.classes.resources, frozenset(taken))


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
    world = Snapshot(pods=pods(2), pools=(Pool(name="p"),))
    found = plan(world, {"p": TypeIndex([dear_disk, cheap_disk])})
    assert [(each.launch.instance_type, each.fees) for each in found.claims] == [("b", 0.1)] * 2
    assert (found.price, found.fees) == (2.4, 0.2)
