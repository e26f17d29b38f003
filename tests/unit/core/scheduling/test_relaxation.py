"""Relaxation: which preferences a pod gives up, and in which order."""

from tests.support.model_builders import affinity_term, label_requirement, spread_constraint

from wainwright.core.scheduling.relaxation import (
    MAX_TRIED_CONSTRAINTS,
    RelaxedConstraints,
    relaxation_steps,
    relaxed_constraints,
)
from wainwright.model.labels import CAPACITY_TYPE, HOSTNAME, ZONE
from wainwright.model.plan import PreferencePolicy
from wainwright.model.pod import PodConstraints, PreferredNodeTerm, WeightedAffinityTerm

EVERYTHING = PodConstraints(
    spreads=(
        *spread_constraint().spreads,
        *spread_constraint(CAPACITY_TYPE, required=False).spreads,
    ),
    affinity=(affinity_term(app="db"),),
    anti_affinity=(affinity_term(HOSTNAME),),
    preferred_affinity=(
        WeightedAffinityTerm(weight=100, term=affinity_term(app="x")),
        WeightedAffinityTerm(weight=1, term=affinity_term(app="y")),
    ),
    preferred_anti_affinity=(WeightedAffinityTerm(weight=50, term=affinity_term(app="z")),),
    preferred_nodes=(
        PreferredNodeTerm(weight=20, requirements=label_requirement(ZONE, "In", "zone-a")),
        PreferredNodeTerm(weight=10, requirements=label_requirement(ZONE, "In", "zone-b")),
    ),
)


def given_up(level: RelaxedConstraints) -> list[str]:
    return [str(each.__struct_config__.tag) for each in level.given_up]


def test_preferences_are_relaxed_one_by_one_in_a_fixed_order() -> None:
    levels = list(relaxation_steps(EVERYTHING, PreferencePolicy.RESPECT, has_soft_taints=True))
    assert [len(level.given_up) for level in levels] == list(range(8))
    assert given_up(levels[-1]) == [
        "NearPods",
        "NearPods",
        "AwayFromPods",
        "OnNodes",
        "OnNodes",
        "SpreadEvenly",
        "OnUntainted",
    ]


def test_required_constraints_are_never_relaxed() -> None:
    *_, last = relaxation_steps(EVERYTHING, PreferencePolicy.RESPECT, has_soft_taints=True)
    assert last.spreads == spread_constraint().spreads
    assert last.affinity == EVERYTHING.affinity
    assert last.anti_affinity == EVERYTHING.anti_affinity
    assert (last.preferred_affinity, last.preferred_anti_affinity, last.preferred_nodes) == (
        (),
        (),
        (),
    )
    assert last.tolerates_preferences


def test_the_preference_with_the_highest_weight_is_relaxed_first() -> None:
    _, first, *_ = relaxation_steps(EVERYTHING, PreferencePolicy.RESPECT, has_soft_taints=False)
    assert [each.weight for each in first.preferred_affinity] == [1]


def test_prefer_no_schedule_is_tolerated_only_if_there_are_such_taints() -> None:
    *_, last = relaxation_steps(EVERYTHING, PreferencePolicy.RESPECT, has_soft_taints=False)
    assert not last.tolerates_preferences
    assert "OnUntainted" not in given_up(last)


def test_with_preferences_ignored_only_taints_are_relaxed() -> None:
    levels = list(relaxation_steps(EVERYTHING, PreferencePolicy.IGNORE, has_soft_taints=True))
    assert [given_up(level) for level in levels] == [[], ["OnUntainted"]]
    assert levels[0].spreads == spread_constraint().spreads


def test_a_pod_without_preferences_has_one_relaxation_level() -> None:
    assert (
        len(
            list(
                relaxation_steps(PodConstraints(), PreferencePolicy.RESPECT, has_soft_taints=False)
            )
        )
        == 1
    )


def spreads(count: int) -> PodConstraints:
    """So many preferred spreads, and a required one in between."""
    preferred = [spread_constraint(f"k{n}", required=False).spreads[0] for n in range(count)]
    return PodConstraints(spreads=(*preferred[:1], *spread_constraint().spreads, *preferred[1:]))


def steps(constraints: PodConstraints, alternatives: int = 1) -> list[RelaxedConstraints]:
    respect = PreferencePolicy.RESPECT
    return list(
        relaxation_steps(constraints, respect, has_soft_taints=False, alternatives=alternatives)
    )


def test_fewer_than_a_hundred_preferences_are_relaxed_one_by_one() -> None:
    levels = steps(spreads(98))
    assert [len(level.given_up) for level in levels] == list(range(99))
    assert [level.spreads[-1].key for level in levels[:-1]] == ["k97"] * 98


def test_of_thousands_ever_more_are_given_up_at_once() -> None:
    constraints = spreads(4000)
    levels = steps(constraints)
    given_up = [len(level.given_up) for level in levels]
    assert given_up == [0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 2047, 4000]
    kept = [each for each in constraints.spreads[2:] if not each.required]
    assert levels[1].spreads == (*spread_constraint().spreads, *kept)
    assert levels[2].spreads == (*spread_constraint().spreads, *kept[2:])
    assert levels[-1].spreads == spread_constraint().spreads


def test_all_levels_together_grow_with_the_preferences_and_not_with_their_square() -> None:
    tried = [sum(level.between_pods for level in steps(spreads(n))) for n in (2000, 4000)]
    assert tried[1] < 2.5 * tried[0] < MAX_TRIED_CONSTRAINTS * 12


def test_any_number_of_preferred_node_terms_is_relaxed_one_by_one() -> None:
    """Only the first of them applies: a level is tried as fast as without the others."""
    wanted = [label_requirement(ZONE, "In", f"zone-{number}") for number in range(6000)]
    terms = tuple(PreferredNodeTerm(weight=1, requirements=each) for each in wanted)
    assert len(steps(PodConstraints(preferred_nodes=terms))) == 6001
    assert len(steps(PodConstraints(preferred_nodes=terms), alternatives=1000)) < 20


def test_the_constraints_of_a_level_are_found_by_what_was_given_up() -> None:
    respect = PreferencePolicy.RESPECT
    levels = list(relaxation_steps(EVERYTHING, respect, has_soft_taints=True))
    assert levels == [relaxed_constraints(EVERYTHING, respect, level.given_up) for level in levels]
    other = relaxed_constraints(EVERYTHING, respect, levels[1].given_up * 2)
    assert other == levels[-1]
