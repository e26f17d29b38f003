"""Node removal as a plan from scratch: slow, and what every simulation must equal."""

from collections.abc import Collection

import msgspec
from tests.support.random_inputs.unconstrained import PlannerInput

from wainwright.core.plan import SolvedPlan, solve_plan
from wainwright.core.removal_simulation import RemovalSimulation
from wainwright.model.snapshot import Node


def plan_without(planner_input: PlannerInput, names: Collection[str]) -> RemovalSimulation:
    made = solve_without(planner_input, names).plan
    return RemovalSimulation(placements=made.placements, claims=made.claims, unplaced=made.unplaced)


def solve_without(planner_input: PlannerInput, names: Collection[str]) -> SolvedPlan:
    """The nodes are being deleted, and their pods are planned beside the pending ones."""
    gone = set(names)
    changed = msgspec.structs.replace(
        planner_input.snapshot,
        nodes=tuple(_deleting(node, gone) for node in planner_input.snapshot.nodes),
    )
    return solve_plan(changed, planner_input.catalogs, planner_input.options)


def _deleting(node: Node, gone: Collection[str]) -> Node:
    return msgspec.structs.replace(node, deleting=True) if node.name in gone else node
