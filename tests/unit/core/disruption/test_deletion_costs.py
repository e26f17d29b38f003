"""Deletion costs of pods, so that workloads that shrink empty the nodes that may go."""

from tests.unit.core.disruption.test_commands import WEB, node, types

from wainwright.core.disruption.deletion_costs import GOING, rank_deletion_costs
from wainwright.core.disruption.disruption_input import DisruptionInput
from wainwright.core.disruption.disruption_pass import DisruptionPass
from wainwright.model.disruption import (
    Condition,
    DisruptionBudget,
    NodeClaimState,
    NodePoolDisruption,
)
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.snapshot import Node, Pool, Snapshot

DRIFTED = NodeClaimState(name="c", conditions={"Drifted": Condition(status="True")})


def costs(*nodes: Node, pool: Pool = WEB) -> dict[str, int | None]:
    given = DisruptionInput(
        snapshot=Snapshot(nodes=nodes, pools=(pool,), now=1000.0),
        catalogs={"web": InstanceTypeIndex(types())},
    )
    return rank_deletion_costs(DisruptionPass(given))


def test_p2_nodes_that_go_come_first_then_drifted_ones_then_by_saving_per_disruption() -> None:
    protected = {"do_not_disrupt": True}
    found = costs(
        node("going", "small", deleting=True),
        node("drifted", "small", 100, 100, claim=DRIFTED, initialized=True),
        node("dear", "huge", 100),
        node("cheap", "small", 100),
        node("kept", "huge", 100, facts=protected),
    )
    assert found == {"going": GOING, "drifted": -3, "dear": -2, "cheap": -1, "kept": None}


def test_p2_no_more_than_fifty_nodes_and_than_budgets_allow() -> None:
    nodes = [node(f"n{number:02}", "small", 100) for number in range(60)]
    found = costs(*nodes)
    assert sorted(each for each in found.values() if each is not None) == [*range(-50, 0)]
    two = Pool(name="web", disruption=NodePoolDisruption(budgets=(DisruptionBudget(nodes="2"),)))
    assert [each for each in costs(*nodes, pool=two).values() if each is not None] == [-2, -1]


def _web(*budgets: DisruptionBudget) -> Pool:
    return Pool(name="web", disruption=NodePoolDisruption(budgets=budgets))


def _ranked(pool: Pool) -> set[str]:
    """Of three drifted nodes and three others."""
    drifted = [
        node(f"drifted-{each}", "small", 100, claim=DRIFTED, initialized=True) for each in "abc"
    ]
    found = costs(*drifted, *(node(f"other-{each}", "huge", 100) for each in "abc"), pool=pool)
    return {name for name, cost in found.items() if cost is not None}


def test_p2_a_budget_of_all_reasons_is_shared_by_drifted_and_other_nodes() -> None:
    assert _ranked(_web(DisruptionBudget(nodes="2"))) == {"drifted-a", "drifted-b"}
    four = {"drifted-a", "drifted-b", "drifted-c", "other-a"}
    assert _ranked(_web(DisruptionBudget(nodes="4"))) == four


def test_p2_nodes_that_drift_takes_count_against_budgets_of_other_reasons_too() -> None:
    drift = DisruptionBudget(nodes="1", reasons=("Drifted",))
    consolidation = DisruptionBudget(nodes="3", reasons=("Underutilized",))
    assert _ranked(_web(drift, consolidation)) == {"drifted-a", "other-a", "other-b"}
    none = DisruptionBudget(nodes="0", reasons=("Drifted",))
    assert _ranked(_web(none, consolidation)) == {"other-a", "other-b", "other-c"}


def test_p2_an_empty_node_is_ranked_within_the_budget_of_empty_nodes() -> None:
    kept = DisruptionBudget(nodes="0", reasons=("Empty",))
    pool = _web(kept, DisruptionBudget(nodes="1"))
    assert costs(node("empty", "huge"), node("other", "small", 100), pool=pool) == {
        "empty": None,
        "other": -1,
    }
