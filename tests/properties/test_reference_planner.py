"""Laws 22 and 24: the planner and the reference planner come to the same plan, without and with
topology constraints, ports, volumes and preferences.
"""

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.support.random_inputs.constrained import (
    random_constrained_input,
    random_mixed_input,
    with_attach_limits,
)
from tests.support.random_inputs.shrinking import describe_input, shrink_input
from tests.support.random_inputs.unconstrained import (
    PlannerInput,
    random_input,
    random_reservation_queue,
    shuffle_input,
    with_cluster_limits,
    with_gpu_limits,
    with_many_pools,
)
from tests.support.reference_planner.constrained import first_difference, planner_result
from tests.support.reference_planner.first_fit import (
    ReferenceDraft,
    ReferencePlanner,
    draft_choices,
    draft_launch,
)

from wainwright.core.plan import plan
from wainwright.model.plan import PlannedNodeClaim

SEEDS = st.integers(min_value=0, max_value=10**9)
INPUTS = settings().max_examples ** 2 // 10  # 250, and 1,000 in long runs
thorough = settings(max_examples=INPUTS)


@thorough
@given(seed=SEEDS)
def test_law_22_the_planner_and_the_reference_planner_agree(seed: int) -> None:
    assert_agreement(random_input(seed))


@settings(max_examples=INPUTS // 2)
@given(seed=SEEDS)
def test_law_22_they_agree_on_limits_of_the_cluster(seed: int) -> None:
    assert_agreement(with_cluster_limits(random_input(seed), seed))


@settings(max_examples=INPUTS // 2)
@given(seed=SEEDS)
def test_law_22_they_agree_on_limits_of_gpus(seed: int) -> None:
    assert_agreement(with_gpu_limits(random_input(seed), seed))


@settings(max_examples=INPUTS // 20)
@given(seed=SEEDS, cluster_limits=st.booleans())
def test_law_22_they_agree_on_many_pools(seed: int, cluster_limits: bool) -> None:
    planner_input = with_many_pools(random_input(seed), seed)
    assert_agreement(with_cluster_limits(planner_input, seed) if cluster_limits else planner_input)


@settings(max_examples=INPUTS // 80)  # such an input takes the obvious planner half a second
@given(seed=SEEDS)
def test_law_22_they_agree_on_many_pods_waiting_for_reservations(seed: int) -> None:
    assert_agreement(random_reservation_queue(seed))


def test_the_random_inputs_vary() -> None:
    """Agreement would be worth little if nothing interesting ever happened in them."""
    planner_inputs = [random_input(seed) for seed in range(150)]
    plans = [plan(each.snapshot, each.catalogs, each.options) for each in planner_inputs]
    claims = [claim for each in plans for claim in each.claims]
    assert len(claims) > len(plans)
    assert sum(claim.launch.reservation_id is not None for claim in claims) > len(claims) // 5
    assert sum(claim.round > 1 for claim in claims) > len(claims) // 20
    assert sum(claim.fees > 0 for claim in claims) > len(claims) // 5
    assert sum(bool(each.placements) for each in plans) > len(plans) // 10
    assert sum(bool(each.unplaced) for each in plans) > len(plans) // 4
    assert any(claim.relaxed_min_values for claim in claims)
    assert any(each.relaxed for each in plans)


def assert_agreement(planner_input: PlannerInput) -> None:
    made = plan(planner_input.snapshot, planner_input.catalogs, planner_input.options)
    obvious = ReferencePlanner(planner_input)
    obvious.run()
    assert [claim_summary(claim) for claim in made.claims] == [
        draft_summary(draft) for draft in obvious.drafts
    ]
    assert {each.node: list(each.pods) for each in made.placements} == {
        node: sorted(pod.key for pod in pods) for node, pods in obvious.received.items() if pods
    }
    placed = {key for claim in made.claims for key in claim.pods}
    placed |= {key for placement in made.placements for key in placement.pods}
    unplaced = [pod.key for pod in planner_input.snapshot.pods if pod.key not in placed]
    assert sorted(unplaced) == sorted(pod.key for pod in obvious.unplaced)
    assert {key for group in made.relaxed for key in group.pods} == obvious.relaxed


CACHE_SIZES = {
    "wainwright.core.scheduling.drafts.LEVELS_PER_CANDIDATE": 10**6,
    "wainwright.core.scheduling.compiled_requirements.MAX_CACHED": 1,
    "wainwright.core.scheduling.reservation_wait.FEW_DRAFTS": 1,
    "wainwright.core.scheduling.reservation_wait.BATCHES_PER_SEGMENT": 2,
    "wainwright.core.scheduling.reservation_wait.SEGMENTS_PER_GROUP": 2,
    "wainwright.core.scheduling.reservation_manager.MAX_CACHED_RESULTS": 1,
    "wainwright.core.scheduling.capacity_index.BLOCK_SIZE": 2,
    "wainwright.core.scheduling.capacity_index.MAX_SIZES": 11,
    "wainwright.model.bitset.MAX_CACHED_RESULTS": 1,
    "wainwright.model.offering_groups.MAX_CACHED_RESULTS": 1,
    "wainwright.model.offering_groups.MANY_OFFERINGS": 0,
    "wainwright.core.scheduling.new_node.MANY_POOLS": 0,
    "wainwright.core.scheduling.topology.topology.MANY_GROUPS": 0,
}
"""Sizes that only a large input would come up against."""


@given(seed=SEEDS, cluster_limits=st.booleans())
def test_small_caches_change_nothing(seed: int, cluster_limits: bool) -> None:
    planner_input = random_input(seed)
    if cluster_limits:
        planner_input = with_cluster_limits(planner_input, seed)
    made = plan(planner_input.snapshot, planner_input.catalogs, planner_input.options)
    with pytest.MonkeyPatch.context() as patch:
        for name, size in CACHE_SIZES.items():
            patch.setattr(name, size)
        assert plan(planner_input.snapshot, planner_input.catalogs, planner_input.options) == made


def claim_summary(claim: PlannedNodeClaim) -> list[object]:
    asked = str(claim.requirements)
    made = [claim.pool, claim.round, list(claim.pods), asked]
    return [*made, claim.choices, claim.launch, claim.fees, claim.relaxed_min_values]


def draft_summary(draft: ReferenceDraft) -> list[object]:
    assert draft.launch is not None
    pods = sorted(pod.key for pod in draft.pods)
    made = [draft.catalog.pool.name, draft.round, pods, str(draft.requirements)]
    fee = draft.launch[0].fee
    return [*made, draft_choices(draft), draft_launch(draft), fee, draft.relaxed]


CONSTRAINED_SEEDS = st.integers(min_value=0, max_value=10**9)
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)  # a smaller seed is no smaller input
CONSTRAINED_INPUTS = (
    settings().max_examples * 2
)  # an input takes the slow planner a thirtieth of a second


@settings(max_examples=CONSTRAINED_INPUTS, phases=UNSHRUNK)
@given(seed=CONSTRAINED_SEEDS)
def test_law_24_the_planner_and_the_constrained_reference_agree(seed: int) -> None:
    assert_constrained_agreement(random_constrained_input(seed))


@settings(max_examples=CONSTRAINED_INPUTS // 5, phases=UNSHRUNK)
@given(seed=CONSTRAINED_SEEDS)
def test_law_24_they_agree_on_partly_constrained_pods(seed: int) -> None:
    assert_constrained_agreement(random_mixed_input(seed))


@settings(max_examples=CONSTRAINED_INPUTS // 2, phases=UNSHRUNK)
@given(seed=CONSTRAINED_SEEDS)
def test_law_24_they_agree_on_limits_of_the_cluster(seed: int) -> None:
    assert_constrained_agreement(with_cluster_limits(random_constrained_input(seed), seed))


@settings(max_examples=CONSTRAINED_INPUTS // 2, phases=UNSHRUNK)
@given(seed=CONSTRAINED_SEEDS)
def test_law_24_they_agree_on_types_that_attach_few_volumes(seed: int) -> None:
    assert_constrained_agreement(with_attach_limits(random_constrained_input(seed), seed))


def test_attach_limits_of_types_change_plans() -> None:
    inputs = [random_constrained_input(seed) for seed in range(100)]
    limited = [with_attach_limits(each, seed) for seed, each in enumerate(inputs)]
    changed = [
        planner_result(one) != planner_result(other)
        for one, other in zip(inputs, limited, strict=True)
    ]
    assert sum(changed) > 20


def assert_constrained_agreement(planner_input: PlannerInput) -> None:
    if first_difference(planner_input) is not None:
        small = shrink_input(planner_input, lambda smaller: first_difference(smaller) is not None)
        pytest.fail(f"{first_difference(small)}\nin {describe_input(small)}")


@settings(phases=UNSHRUNK)
@given(seed=CONSTRAINED_SEEDS)
def test_law_21_input_order_does_not_matter_for_the_constrained_reference(seed: int) -> None:
    planner_input = random_constrained_input(seed)
    assert planner_result(shuffle_input(planner_input, seed)) == planner_result(planner_input)


CONSTRAINED_CACHE_SIZES = {
    "wainwright.core.scheduling.drafts.LEVELS_PER_CANDIDATE": 0,
    "wainwright.core.scheduling.compiled_requirements.MAX_CACHED": 1,
    "wainwright.core.scheduling.reservation_wait.FEW_DRAFTS": 0,
    "wainwright.core.scheduling.reservation_wait.BATCHES_PER_SEGMENT": 1,
    "wainwright.core.scheduling.reservation_wait.SEGMENTS_PER_GROUP": 3,
    "wainwright.core.scheduling.reservation_manager.MAX_CACHED_RESULTS": 1,
    "wainwright.core.scheduling.capacity_index.BLOCK_SIZE": 3,
    "wainwright.core.scheduling.capacity_index.MAX_SIZES": 20,
    "wainwright.model.bitset.MAX_CACHED_RESULTS": 1,
    "wainwright.model.offering_groups.MAX_CACHED_RESULTS": 1,
    "wainwright.model.offering_groups.MANY_OFFERINGS": 0,
    "wainwright.core.scheduling.new_node.MANY_POOLS": 0,
    "wainwright.core.scheduling.topology.topology.MANY_GROUPS": 0,
}
"""Sizes that only a large input would come up against."""


@given(seed=CONSTRAINED_SEEDS)
def test_small_caches_change_nothing_for_constrained_pods(seed: int) -> None:
    planner_input = random_constrained_input(seed)
    made = plan(planner_input.snapshot, planner_input.catalogs, planner_input.options)
    with pytest.MonkeyPatch.context() as patch:
        for name, size in CONSTRAINED_CACHE_SIZES.items():
            patch.setattr(name, size)
        assert plan(planner_input.snapshot, planner_input.catalogs, planner_input.options) == made


@given(seed=CONSTRAINED_SEEDS)
def test_classes_make_no_difference(seed: int) -> None:
    """Pods that are alike share answers; with a label of their own they are all different."""
    planner_input = random_constrained_input(seed)
    pods = tuple(
        msgspec.structs.replace(pod, labels={**pod.labels, "own": pod.key})
        for pod in planner_input.snapshot.pods
    )
    snapshot = msgspec.structs.replace(planner_input.snapshot, pods=pods)
    assert planner_result(
        msgspec.structs.replace(planner_input, snapshot=snapshot)
    ) == planner_result(planner_input)
