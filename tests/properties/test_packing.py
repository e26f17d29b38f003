"""Plans packed by cost: the laws of plans hold, and they are never worse than first-fit."""

from collections.abc import Callable
from functools import lru_cache

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties import test_plan_laws as laws
from tests.support.cases import Case
from tests.support.standing import undemanding

from wainwright.core.plan import plan
from wainwright.model.options import Options, Packing
from wainwright.model.plan import PackingResult, Plan

WORLDS = settings().max_examples ** 2 // 20  # 125, and 500 where nobody waits
SEEDS = st.integers(min_value=1, max_value=WORLDS)
thorough = settings(max_examples=WORLDS)


class PackedCase(Case):
    """A random world, and its plan by cost."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.first_fit: Plan = self.plan
        self.options = by_cost(self.options)
        self.plan = plan(self.snapshot, self.world.catalogs, self.options)
        placed = [key for claim in self.plan.claims for key in claim.pods]
        self.placed = placed + [key for home in self.plan.placements for key in home.pods]
        unplaced = [pod for key, pod in self.pods.items() if key not in self.placed]
        self.unplaced = [undemanding(pod) for pod in unplaced]
        self.slots = self._slots_to_spare()

    @property
    def packing(self) -> PackingResult:
        assert self.plan.packing is not None
        return self.plan.packing


def by_cost(options: Options) -> Options:
    return msgspec.structs.replace(options, packing=Packing.COST)


CASES = SEEDS.map(lru_cache(maxsize=WORLDS)(PackedCase))  # all laws look at the same plans
LAWS = [
    test.hypothesis.inner_test
    for name, test in sorted(vars(laws).items())
    if name.startswith(("test_law_1", "test_law_20"))
]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__[5:11])
@thorough
@given(case=CASES)
def test_what_holds_for_first_fit_holds_here(law: Callable[..., None], case: PackedCase) -> None:
    law(case=case)
