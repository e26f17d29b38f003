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
