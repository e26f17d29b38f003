"""Law 24: pods that mind each other find the same places when everybody is counted by hand."""

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.support.randomworlds import World, shuffled
from tests.support.slowoutcome import disagreement, planned
from tests.support.tiedshrink import shrunk, told
from tests.support.tiedworlds import mixed_world, tied_world

from wainwright.core.plan import plan

SEEDS = st.integers(min_value=0, max_value=10**9)
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)  # a smaller seed is no smaller world
WORLDS = settings().max_examples * 2  # a world takes the slow planner a thirtieth of a second


@settings(max_examples=WORLDS, phases=UNSHRUNK)
@given(seed=SEEDS)
def test_law_24_the_planner_and_the_slow_one_agree(seed: int) -> None:
    assert_agreement(tied_world(seed))


@settings(max_examples=WORLDS // 5, phases=UNSHRUNK)
@given(seed=SEEDS)
def test_law_24_they_agree_on_pods_of_whom_some_do_not_mind(seed: int) -> None:
    assert_agreement(mixed_world(seed))


def assert_agreement(world: World) -> None:
    if disagreement(world) is not None:
        small = shrunk(world, lambda smaller: disagreement(smaller) is not None)
        pytest.fail(f"{disagreement(small)}\nin {told(small)}")


@settings(phases=UNSHRUNK)
@given(seed=SEEDS)
def test_law_21_order_does_not_matter_to_them_either(seed: int) -> None:
    world = tied_world(seed)
    assert planned(shuffled(world, seed)) == planned(world)


MEMORIES = {
    "wainwright.core.drafts.LEVELS": 0,
    "wainwright.core.narrowing.REMEMBERED": 1,
    "wainwright.core.patience.FEW": 0,
    "wainwright.core.patience.LENGTH": 1,
    "wainwright.core.patience.PARTS": 3,
    "wainwright.core.reservations.REMEMBERED": 1,
    "wainwright.core.slack.BLOCK": 3,
    "wainwright.core.slack.MARKS": 20,
    "wainwright.model.columns.REMEMBERED": 1,
    "wainwright.model.markets.REMEMBERED": 1,
}
"""Sizes that only a large world would come up against."""


@given(seed=SEEDS)
def test_a_short_memory_changes_nothing(seed: int) -> None:
    world = tied_world(seed)
    made = plan(world.snapshot, world.catalogs, world.options)
    with pytest.MonkeyPatch.context() as patch:
        for name, size in MEMORIES.items():
            patch.setattr(name, size)
        assert plan(world.snapshot, world.catalogs, world.options) == made


@given(seed=SEEDS)
def test_classes_make_no_difference(seed: int) -> None:
    """Pods that are alike share answers; with a label of their own they are all different."""
    world = tied_world(seed)
    pods = tuple(
        msgspec.structs.replace(pod, labels={**pod.labels, "own": pod.key})
        for pod in world.snapshot.pods
    )
    snapshot = msgspec.structs.replace(world.snapshot, pods=pods)
    assert planned(msgspec.structs.replace(world, snapshot=snapshot)) == planned(world)
