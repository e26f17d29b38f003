"""Relaxing: what a pod gives up, and in which order."""

from tests.support.model import asking
from tests.support.tiedmodel import company, spread

from wainwright.core.relax import Degree, degrees
from wainwright.model.labels import CAPACITY_TYPE, HOSTNAME, ZONE
from wainwright.model.options import PreferencePolicy
from wainwright.model.pod import Bonds, PreferredNodes
from wainwright.model.topology import Preferred

EVERYTHING = Bonds(
    spreads=(*spread().spreads, *spread(CAPACITY_TYPE, required=False).spreads),
    affinity=(company(app="db"),),
    anti_affinity=(company(HOSTNAME),),
    preferred_affinity=(
        Preferred(weight=100, term=company(app="x")),
        Preferred(weight=1, term=company(app="y")),
    ),
    preferred_anti_affinity=(Preferred(weight=50, term=company(app="z")),),
    preferred_nodes=(
        PreferredNodes(weight=20, requirements=asking(ZONE, "In", "zone-a")),
        PreferredNodes(weight=10, requirements=asking(ZONE, "In", "zone-b")),
    ),
)


def given_up(degree: Degree) -> list[str]:
    return [type(each).__name__ for each in degree.given_up]


def test_everything_goes_one_by_one_in_the_fixed_order() -> None:
    found = list(degrees(EVERYTHING, PreferencePolicy.RESPECT, tainted=True))
    assert [len(degree.given_up) for degree in found] == list(range(8))
    assert given_up(found[-1]) == [
        "NearPods",
        "NearPods",
        "AwayFromPods",
        "OnNodes",
        "OnNodes",
        "SpreadEvenly",
        "OnUntainted",
    ]


def test_what_is_required_stays_to_the_end() -> None:
    *_, last = degrees(EVERYTHING, PreferencePolicy.RESPECT, tainted=True)
    assert last.spreads == spread().spreads
    assert last.affinity == EVERYTHING.affinity
    assert last.anti_affinity == EVERYTHING.anti_affinity
    assert (last.near, last.away, last.nodes) == ((), (), ())
    assert last.tolerates_preferences


def test_the_heaviest_goes_first() -> None:
    _, first, *_ = degrees(EVERYTHING, PreferencePolicy.RESPECT, tainted=False)
    assert [each.weight for each in first.near] == [1]


def test_soft_taints_are_put_up_with_only_where_there_are_any() -> None:
    *_, last = degrees(EVERYTHING, PreferencePolicy.RESPECT, tainted=False)
    assert not last.tolerates_preferences
    assert "OnUntainted" not in given_up(last)


def test_whoever_ignores_preferences_starts_without_them() -> None:
    found = list(degrees(EVERYTHING, PreferencePolicy.IGNORE, tainted=True))
    assert [given_up(degree) for degree in found] == [[], ["OnUntainted"]]
    assert found[0].spreads == spread().spreads


def test_a_pod_without_preferences_has_one_degree() -> None:
    assert len(list(degrees(Bonds(), PreferencePolicy.RESPECT, tainted=False))) == 1
