"""Law 30: an API server accepts every NodeClaim of every plan, and reads it as it was planned."""

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.node_claim_manifests import claim_errors, printed_claims
from tests.support.random_inputs.constrained import random_constrained_input, random_mixed_input
from tests.support.random_inputs.unconstrained import (
    PlannerInput,
    random_input,
    random_packable_input,
    random_reservation_queue,
)

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.core.plan import plan
from wainwright.model.labels import CAPACITY_TYPE, RESERVATION_ID, RESERVED
from wainwright.model.plan import PlannedNodeClaim
from wainwright.translate.nodeclaims import MIN_VALUES_RELAXED_ANNOTATION
from wainwright.translate.requirements import translate_requirements

SEEDS = st.integers(min_value=0, max_value=10**9)
INPUTS = settings().max_examples ** 2 // 10  # 250, and 1,000 in long runs


@settings(max_examples=INPUTS)
@given(seed=SEEDS)
def test_law_30_an_api_server_accepts_every_planned_node_claim(seed: int) -> None:
    check_claims(random_input(seed))


@settings(max_examples=INPUTS // 5)
@given(seed=SEEDS)
def test_law_30_also_of_pods_with_constraints(seed: int) -> None:
    check_claims(random_constrained_input(seed))
    check_claims(random_mixed_input(seed))


@settings(max_examples=INPUTS // 10)
@given(seed=SEEDS)
def test_law_30_also_where_many_pods_share_nodes_or_wait_for_reservations(seed: int) -> None:
    check_claims(random_packable_input(seed))
    check_claims(random_reservation_queue(seed))


def check_claims(planner_input: PlannerInput) -> None:
    made = plan(planner_input.snapshot, planner_input.catalogs, planner_input.options)
    for claim, printed in zip(made.claims, printed_claims(planner_input, made), strict=True):
        assert claim_errors(printed) == []
        assert is_pinned_if_reserved(claim, printed)
        annotations = printed["metadata"].get("annotations") or {}
        is_marked = annotations.get(MIN_VALUES_RELAXED_ANNOTATION) == "true"
        assert is_marked == bool(claim.relaxed_min_values)


def is_pinned_if_reserved(claim: PlannedNodeClaim, printed: dict[str, Any]) -> bool:
    """A reserved claim names the one reservation that was counted for it, and nothing else."""
    asked = msgspec.convert(printed, NodeClaim).spec.requirements
    requirements = translate_requirements(asked)
    if claim.launch.reservation_id is None:
        return requirements.allowed(RESERVATION_ID).operator != "In"
    return (
        requirements.single_value(CAPACITY_TYPE) == RESERVED == claim.launch.capacity_type
        and requirements.single_value(RESERVATION_ID) == claim.launch.reservation_id
    )
