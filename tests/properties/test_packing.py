"""Law 27: plans packed by cost are never worse than first-fit, and its laws hold for them too."""

from collections.abc import Callable
from functools import lru_cache
from math import fsum

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.properties import test_plan_laws as laws
from tests.properties import test_preferences as relaxing
from tests.support.model_builders import explained_plan
from tests.support.processes import output_with_hash_seed
from tests.support.random_inputs.constrained import random_constrained_input, random_mixed_input
from tests.support.random_inputs.unconstrained import (
    PlannerInput,
    random_packable_input,
    random_reservation_queue,
    shuffle_input,
)
from tests.support.reference_planner.first_fit import pool_catalogs
from tests.support.reference_planner.offerings import tolerating_soft_taints
from tests.support.reference_planner.plan_checks import PlannedCase

from wainwright.core.plan import plan
from wainwright.model.plan import PackingPolicy, PackingResult, Plan, PlanOptions, PreferencePolicy

INPUTS = settings().max_examples ** 2 // 50  # 50, and 200 in the thorough profile
SEEDS = st.integers(min_value=1, max_value=INPUTS)
ANY_SEED = st.integers(min_value=0, max_value=10**9)
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)  # a smaller seed is no smaller input
thorough = settings(max_examples=INPUTS)
planner_inputs = settings(max_examples=INPUTS // 2, phases=UNSHRUNK)


class PackedCase(PlannedCase):
    """An input with many pods, and its plan by cost."""

    def __init__(self, seed: int) -> None:
        self.seed, planner_input = seed, random_packable_input(seed)
        self.planner_input, self.snapshot, self.options = (
            planner_input,
            planner_input.snapshot,
            by_cost(planner_input.options),
        )
        self.first_fit: Plan = plan(self.snapshot, planner_input.catalogs, planner_input.options)
        self.plan = explained_plan(self.snapshot, planner_input.catalogs, self.options)
        self.pods = {pod.key: pod for pod in self.snapshot.pods}
        self.pool_catalogs = {
            catalog.pool.name: catalog for catalog in pool_catalogs(planner_input)
        }
        placed = [key for claim in self.plan.claims for key in claim.pods]
        self.placed = placed + [key for home in self.plan.placements for key in home.pods]
        unplaced = [pod for key, pod in self.pods.items() if key not in self.placed]
        self.unplaced = [tolerating_soft_taints(pod) for pod in unplaced]
        self.free_instances = self._spare_instances()


def by_cost(options: PlanOptions) -> PlanOptions:
    return msgspec.structs.replace(options, packing=PackingPolicy.COST)


def packed(planner_input: PlannerInput) -> Plan:
    return plan(planner_input.snapshot, planner_input.catalogs, by_cost(planner_input.options))


def result(made: Plan) -> PackingResult:
    assert made.packing is not None
    return made.packing


def price(made: Plan) -> float:
    """With fees."""
    return fsum(claim.launch.price + claim.fees for claim in made.claims)


CASES = SEEDS.map(lru_cache(maxsize=INPUTS)(PackedCase))  # all laws look at the same plans
LAWS = [
    test.hypothesis.inner_test
    for name, test in sorted(vars(laws).items())
    if name.startswith(("test_law_1", "test_law_20", "test_law_2_the_same"))
]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__[5:11])
@thorough
@given(case=CASES)
def test_law_27_laws_of_first_fit_hold_for_plans_by_cost(
    law: Callable[..., None], case: PackedCase
) -> None:
    law(case=case)


@thorough
@given(case=CASES)
def test_law_27_a_plan_by_cost_is_never_worse_than_first_fit(case: PackedCase) -> None:
    assert_never_worse(case.first_fit, case.plan)


@pytest.mark.parametrize(
    "input_of", [random_constrained_input, random_mixed_input], ids=lambda made: made.__name__
)
@planner_inputs
@given(seed=ANY_SEED)
def test_law_27_nor_for_pods_with_topology_constraints(
    input_of: Callable[[int], PlannerInput], seed: int
) -> None:
    planner_input = input_of(seed)
    first_fit = plan(planner_input.snapshot, planner_input.catalogs, planner_input.options)
    assert_never_worse(first_fit, packed(planner_input))


@settings(
    max_examples=INPUTS // 12, phases=UNSHRUNK
)  # such a world has two hundred pods of sixty sizes
@given(seed=ANY_SEED)
def test_law_27_nor_for_many_pods_that_wait_for_reservations(seed: int) -> None:
    planner_input = random_reservation_queue(seed)
    first_fit = plan(planner_input.snapshot, planner_input.catalogs, planner_input.options)
    assert_never_worse(first_fit, packed(planner_input))


def assert_never_worse(first_fit: Plan, made: Plan) -> None:
    packing = result(made)
    assert made.scheduled >= first_fit.scheduled
    assert packing.first_fit == price(first_fit)
    assert packing.cost == price(made)
    assert 0 <= packing.lower_bound <= packing.cost <= packing.first_fit
    assert first_fit.packing is None


@settings(max_examples=INPUTS // 2, phases=UNSHRUNK)
@given(seed=ANY_SEED, order=ANY_SEED)
def test_law_21_the_order_of_the_input_does_not_matter(seed: int, order: int) -> None:
    planner_input = random_packable_input(seed)
    assert laws.as_bytes(packed(shuffle_input(planner_input, order))) == laws.as_bytes(
        packed(planner_input)
    )


@planner_inputs
@given(seed=ANY_SEED)
def test_law_21_the_order_does_not_matter_to_pods_with_topology_constraints(seed: int) -> None:
    planner_input = random_constrained_input(seed)
    assert plan_bytes(packed(shuffle_input(planner_input, seed))) == plan_bytes(
        packed(planner_input)
    )


def plan_bytes(made: Plan) -> bytes:
    return laws.as_bytes(made)


@planner_inputs
@given(seed=ANY_SEED)
def test_law_26_preferences_are_relaxed_in_the_fixed_order(seed: int) -> None:
    planner_input = random_constrained_input(seed)
    pods = {pod.key: pod for pod in planner_input.snapshot.pods}
    heeded = planner_input.options.preference_policy is PreferencePolicy.RESPECT
    for group in packed(planner_input).relaxed:
        for key in group.pods:
            order = list(relaxing.in_order(pods[key].constraints))[0 if heeded else -1 :]
            assert list(group.preferences) == order[: len(group.preferences)] != []


PRINT_PLANS = """
import sys
from tests.properties.test_packing import random_packable_input, laws, random_mixed_input, packed
for made in [*map(random_packable_input, range(12)), *map(random_mixed_input, range(12))]:
    sys.stdout.buffer.write(laws.as_bytes(packed(made)))
"""


def test_law_2_another_hash_seed_gives_the_same_bytes() -> None:
    one, other = (output_with_hash_seed(PRINT_PLANS, seed) for seed in ("1", "2"))
    assert one == other != b""


def test_the_inputs_differ_enough() -> None:
    """The laws would prove little if packing by cost never changed a plan."""
    results = [result(packed(random_packable_input(seed))) for seed in range(1, 31)]
    assert sum(each.saved > 0 for each in results) > 5
    assert sum(each.lower_bound > 0 for each in results) > 20
