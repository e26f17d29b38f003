"""Relaxation: which preferences a pod gives up, and in which order."""

from tests.support.model_builders import affinity_term, label_requirement, spread_constraint

from wainwright.core.scheduling.relaxation import RelaxedConstraints, relaxation_steps
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
