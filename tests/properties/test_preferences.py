"""Law 26: preferences are relaxed in a fixed order, and have no other effect."""

from collections.abc import Iterator
from typing import Any

import msgspec
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from tests.support.model_builders import label_requirement
from tests.support.random_inputs.constrained import random_constrained_input
from tests.support.random_inputs.unconstrained import PlannerInput
from tests.support.reference_planner.constrained import planner_result

from wainwright.core.plan import plan
from wainwright.model.plan import PreferencePolicy
from wainwright.model.pod import Pod, PodConstraints, PreferredNodeTerm
from wainwright.model.reasons import (
    PreferNoScheduleTaint,
    PreferredNodeAffinity,
    PreferredPodAffinity,
    PreferredPodAntiAffinity,
    PreferredTopologySpread,
    RelaxedPreference,
)

SEEDS = st.integers(min_value=0, max_value=10**9)
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)  # a smaller seed is no smaller input
NOWHERE = label_requirement("example.com/nobody", "In", "has-it")
planner_inputs = settings(max_examples=settings().max_examples * 2, phases=UNSHRUNK)


def in_order(constraints: PodConstraints) -> Iterator[RelaxedPreference]:
    """Everything that a pod may give up, first things first."""
    for near in constraints.preferred_affinity:
        yield PreferredPodAffinity(term=near.term, weight=near.weight)
    for away in constraints.preferred_anti_affinity:
        yield PreferredPodAntiAffinity(term=away.term, weight=away.weight)
    for nodes in constraints.preferred_nodes:
        yield PreferredNodeAffinity(requirements=str(nodes.requirements), weight=nodes.weight)
    for spread in constraints.spreads:
        if not spread.required:
            yield PreferredTopologySpread(spread=spread)
    yield PreferNoScheduleTaint()


@planner_inputs
@given(seed=SEEDS)
def test_law_26_they_go_in_the_fixed_order(seed: int) -> None:
    planner_input = random_constrained_input(seed)
    pods = {pod.key: pod for pod in planner_input.snapshot.pods}
    made = plan(planner_input.snapshot, planner_input.catalogs, planner_input.options)
    for group in made.relaxed:
        for key in group.pods:
            order = list(in_order(pods[key].constraints))
            if planner_input.options.preference_policy is PreferencePolicy.IGNORE:
                order = order[-1:]
            assert list(group.preferences) == order[: len(group.preferences)] != []


@planner_inputs
@given(seed=SEEDS)
def test_law_26_ignored_preferences_plan_as_if_there_were_none(seed: int) -> None:
    planner_input = random_constrained_input(seed)
    ignoring = msgspec.structs.replace(
        planner_input.options, preference_policy=PreferencePolicy.IGNORE
    )
    heedless = msgspec.structs.replace(planner_input, options=ignoring)
    assert planner_result(heedless) == planner_result(changed(heedless, without_preferences))


@planner_inputs
@example(seed=53383)  # the preference made nodes decide on a zone before it was given up
@given(seed=SEEDS)
def test_law_26_impossible_preferences_change_no_placement(seed: int) -> None:
    """A preference for nodes that there cannot be is given up, and all is as before.

    Unless others come before it: they would have to be given up first.
    """
    planner_input = changed(random_constrained_input(seed), without_earlier_preferences)
    wishful = planner_result(changed(planner_input, with_unsatisfiable_preferences))
    assert places(wishful) == places(planner_result(planner_input))
    if planner_input.options.preference_policy is PreferencePolicy.RESPECT:
        placed = len(planner_input.snapshot.pods) - len(wishful["unplaced"])
        assert len(wishful["relaxed"]) == placed


def places(outcome: Any) -> Any:
    return [outcome[subject] for subject in ("claims", "nodes", "unplaced")]


def with_unsatisfiable_preferences(constraints: PodConstraints) -> PodConstraints:
    nowhere = PreferredNodeTerm(weight=1, requirements=NOWHERE)
    return msgspec.structs.replace(constraints, preferred_nodes=(nowhere,))


def without_preferences(constraints: PodConstraints) -> PodConstraints:
    required = tuple(each for each in constraints.spreads if each.required)
    return msgspec.structs.replace(without_earlier_preferences(constraints), spreads=required)


def without_earlier_preferences(constraints: PodConstraints) -> PodConstraints:
    return msgspec.structs.replace(
        constraints, preferred_affinity=(), preferred_anti_affinity=(), preferred_nodes=()
    )


def changed(planner_input: PlannerInput, change: Any) -> PlannerInput:
    pods = tuple(_changed(pod, change) for pod in planner_input.snapshot.pods)
    snapshot = msgspec.structs.replace(planner_input.snapshot, pods=pods)
    return msgspec.structs.replace(planner_input, snapshot=snapshot)


def _changed(pod: Pod, change: Any) -> Pod:
    return msgspec.structs.replace(pod, constraints=change(pod.constraints))
