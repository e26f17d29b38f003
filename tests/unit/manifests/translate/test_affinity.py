"""Selectors and required terms become alternatives."""

from typing import Any

import msgspec
from tests.support.model import asking
from tests.unit.manifests.translate.objects import Value, requirement

from wainwright.api.builtin.affinity import Affinity
from wainwright.manifests.translate.affinity import Places, Wanted
from wainwright.model.requirements import NO_REQUIREMENTS

ZONE = "topology.kubernetes.io/zone"
ARCH = "kubernetes.io/arch"
HOSTNAME = "kubernetes.io/hostname"


def term(*expressions: Value, fields: tuple[Value, ...] = ()) -> Value:
    return {"matchExpressions": list(expressions), "matchFields": list(fields)}


def wanted(
    selector: dict[str, str] | None = None, *terms: Value, places: Places | None = None
) -> Wanted:
    required: dict[str, Any] = {"nodeSelectorTerms": list(terms)}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    made = msgspec.convert(affinity, Affinity) if terms else None
    return (places or Places({})).wanted((selector,), made)


def test_a_pod_that_asks_nothing_goes_anywhere() -> None:
    assert wanted().alternatives == (NO_REQUIREMENTS,)
    assert wanted({}).alternatives == (NO_REQUIREMENTS,)


def test_a_selector_is_one_alternative() -> None:
    found = wanted({"team": "web", ARCH: "arm64"})
    assert found.alternatives == (asking("team", "In", "web").narrow(asking(ARCH, "In", "arm64")),)


def test_each_term_narrows_the_selector_in_the_order_written() -> None:
    found = wanted({"team": "web"}, term(requirement(ZONE, "b")), term(requirement(ZONE, "a")))
    team = asking("team", "In", "web")
    assert found.alternatives == (
        team.narrow(asking(ZONE, "In", "b")),
        team.narrow(asking(ZONE, "In", "a")),
    )


def test_expressions_of_one_term_hold_together() -> None:
    several = term(requirement("size", "1", operator="Gt"), requirement("size", "9", operator="Lt"))
    both = asking("size", "Gt", "1").narrow(asking("size", "Lt", "9"))
    assert wanted(None, several).alternatives == (both,)


def test_old_names_of_labels_mean_the_new_ones() -> None:
    found = wanted({"failure-domain.beta.kubernetes.io/zone": "a"})
    assert found.alternatives == (asking(ZONE, "In", "a"),)


def test_a_term_that_contradicts_itself_is_left_out_and_its_labels_are_named() -> None:
    clash = term(requirement(ZONE, "a"), requirement(ZONE, "b"))
    found = wanted(None, clash, term(requirement(ZONE, "c")))
    assert found == Wanted(alternatives=(asking(ZONE, "In", "c"),), contradictory=(ZONE,))


def test_a_term_can_contradict_the_selector() -> None:
    found = wanted({ARCH: "arm64"}, term(requirement(ARCH, "amd64")))
    assert found == Wanted(alternatives=(), contradictory=(ARCH,))


def test_two_names_of_one_label_can_contradict_each_other() -> None:
    found = wanted({ARCH: "arm64", "beta.kubernetes.io/arch": "amd64"})
    assert found == Wanted(alternatives=(), contradictory=(ARCH,))


def test_a_bound_that_is_no_number_is_met_by_no_node() -> None:
    found = wanted(None, term(requirement("size", "large", operator="Gt")))
    assert found == Wanted(alternatives=(), contradictory=("size",))


def test_a_term_that_asks_nothing_takes_no_node() -> None:
    assert wanted(None, term()) == Wanted(alternatives=())
    assert wanted(None, term(), term(requirement(ZONE, "a"))).alternatives == (
        asking(ZONE, "In", "a"),
    )


def test_a_node_by_name_is_the_node_with_its_hostname() -> None:
    named = term(fields=(requirement("metadata.name", "n-1"),))
    assert wanted(None, named).alternatives == (asking(HOSTNAME, "In", "n-1"),)
    places = Places({"n-1": "ip-10-0-0-1"})
    assert wanted(None, named, places=places).alternatives == (
        asking(HOSTNAME, "In", "ip-10-0-0-1"),
    )


def test_labels_that_do_not_matter_are_taken_out_and_contradict_nothing() -> None:
    places = Places({}, without={HOSTNAME})
    pinned = term(requirement(HOSTNAME, "n-1"), fields=(requirement("metadata.name", "n-2"),))
    found = wanted({"team": "web"}, pinned, places=places)
    assert found == Wanted(alternatives=(asking("team", "In", "web"),))


def test_several_selectors_hold_together() -> None:
    found = Places({}).wanted(({"a": "1"}, {"a": "2"}), None)
    assert found == Wanted(alternatives=(), contradictory=("a",))


def test_equal_alternatives_are_one() -> None:
    found = wanted(None, term(requirement(ZONE, "a")), term(requirement(ZONE, "a")))
    assert len(found.alternatives) == 1


def preferred(*terms: tuple[int, Value], places: Places | None = None) -> list[tuple[int, str]]:
    written = [{"weight": weight, "preference": each} for weight, each in terms]
    nodes = {"preferredDuringSchedulingIgnoredDuringExecution": written}
    made = msgspec.convert({"nodeAffinity": nodes}, Affinity)
    found = (places or Places({})).preferred(made)
    return [(each.weight, str(each.requirements)) for each in found]


def test_the_heaviest_preference_comes_first_and_equals_as_written() -> None:
    found = preferred(
        (1, term(requirement(ZONE, "a"))),
        (50, term(requirement("b", "1"), requirement("c", "2", operator="NotIn"))),
        (50, term(requirement("a", "1"))),
        (100, term(requirement("failure-domain.beta.kubernetes.io/zone", "b"))),
    )
    assert found == [
        (100, f"{ZONE} In [b]"),
        (50, "b In [1], c NotIn [2]"),
        (50, "a In [1]"),
        (1, f"{ZONE} In [a]"),
    ]


def test_a_preference_that_all_nodes_meet_or_none_can_says_nothing() -> None:
    found = preferred(
        (100, term()),
        (90, term(requirement(ZONE, "a"), requirement(ZONE, "b"))),
        (80, term(requirement("size", "large", operator="Gt"))),
        (1, term(requirement(ZONE, "c"))),
    )
    assert found == [(1, f"{ZONE} In [c]")]


def test_a_preferred_node_by_name_is_the_node_with_its_hostname() -> None:
    named = term(fields=(requirement("metadata.name", "n-1"),))
    assert preferred((1, named), places=Places({"n-1": "ip-1"})) == [(1, f"{HOSTNAME} In [ip-1]")]


def test_preferences_leave_what_is_required_alone() -> None:
    nodes = {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [term(requirement(ZONE, "a"))]
        },
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "preference": term(requirement(ZONE, "b"))}
        ],
    }
    affinity = msgspec.convert({"nodeAffinity": nodes}, Affinity)
    assert Places({}).wanted((), affinity).alternatives == (asking(ZONE, "In", "a"),)
    assert [str(each.requirements) for each in Places({}).preferred(affinity)] == [f"{ZONE} In [b]"]
