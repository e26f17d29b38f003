"""Node selectors and affinity terms become alternatives."""

from typing import Any

import msgspec
from tests.support.model_builders import label_requirement
from tests.unit.translate.objects import Value, requirement

from wainwright.api.karpenter.shared_fields import PoolRequirement, PoolTaint
from wainwright.api.kubernetes import cluster
from wainwright.api.kubernetes.workloads import Affinity
from wainwright.api.kubernetes.workloads import Toleration as PodToleration
from wainwright.model.requirements import NO_REQUIREMENTS
from wainwright.model.taints import Taint, Toleration, TolerationOperator
from wainwright.translate.requirements import (
    NodeAffinityTranslator,
    NodeAlternatives,
    translate_requirements,
    translate_taints,
    translate_tolerations,
)

ZONE = "topology.kubernetes.io/zone"
ARCH = "kubernetes.io/arch"
HOSTNAME = "kubernetes.io/hostname"


def term(*expressions: Value, fields: tuple[Value, ...] = ()) -> Value:
    return {"matchExpressions": list(expressions), "matchFields": list(fields)}


def wanted(
    selector: dict[str, str] | None = None,
    *terms: Value,
    places: NodeAffinityTranslator | None = None,
) -> NodeAlternatives:
    required: dict[str, Any] = {"nodeSelectorTerms": list(terms)}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    made = msgspec.convert(affinity, Affinity) if terms else None
    return (places or NodeAffinityTranslator({})).node_alternatives((selector,), made)


def test_a_pod_without_requirements_fits_any_node() -> None:
    assert wanted().alternatives == (NO_REQUIREMENTS,)
    assert wanted({}).alternatives == (NO_REQUIREMENTS,)


def test_a_selector_is_one_alternative() -> None:
    found = wanted({"team": "web", ARCH: "arm64"})
    assert found.alternatives == (
        label_requirement("team", "In", "web").narrow(label_requirement(ARCH, "In", "arm64")),
    )


def test_each_term_narrows_the_selector_in_the_order_written() -> None:
    found = wanted({"team": "web"}, term(requirement(ZONE, "b")), term(requirement(ZONE, "a")))
    team = label_requirement("team", "In", "web")
    assert found.alternatives == (
        team.narrow(label_requirement(ZONE, "In", "b")),
        team.narrow(label_requirement(ZONE, "In", "a")),
    )


def test_expressions_of_one_term_hold_together() -> None:
    several = term(requirement("size", "1", operator="Gt"), requirement("size", "9", operator="Lt"))
    both = label_requirement("size", "Gt", "1").narrow(label_requirement("size", "Lt", "9"))
    assert wanted(None, several).alternatives == (both,)


def test_old_names_of_labels_mean_the_new_ones() -> None:
    found = wanted({"failure-domain.beta.kubernetes.io/zone": "a"})
    assert found.alternatives == (label_requirement(ZONE, "In", "a"),)


def test_a_term_that_contradicts_itself_is_left_out_and_its_labels_are_named() -> None:
    clash = term(requirement(ZONE, "a"), requirement(ZONE, "b"))
    found = wanted(None, clash, term(requirement(ZONE, "c")))
    assert found == NodeAlternatives(
        alternatives=(label_requirement(ZONE, "In", "c"),), contradictory=(ZONE,)
    )


def test_a_term_can_contradict_the_selector() -> None:
    found = wanted({ARCH: "arm64"}, term(requirement(ARCH, "amd64")))
    assert found == NodeAlternatives(alternatives=(), contradictory=(ARCH,))


def test_two_names_of_one_label_can_contradict_each_other() -> None:
    found = wanted({ARCH: "arm64", "beta.kubernetes.io/arch": "amd64"})
    assert found == NodeAlternatives(alternatives=(), contradictory=(ARCH,))


def test_a_bound_that_is_no_number_is_met_by_no_node() -> None:
    found = wanted(None, term(requirement("size", "large", operator="Gt")))
    assert found == NodeAlternatives(alternatives=(), contradictory=("size",))


def test_an_empty_term_matches_no_node() -> None:
    assert wanted(None, term()) == NodeAlternatives(alternatives=())
    assert wanted(None, term(), term(requirement(ZONE, "a"))).alternatives == (
        label_requirement(ZONE, "In", "a"),
    )


def test_a_node_by_name_is_the_node_with_its_hostname() -> None:
    named = term(fields=(requirement("metadata.name", "n-1"),))
    assert wanted(None, named).alternatives == (label_requirement(HOSTNAME, "In", "n-1"),)
    places = NodeAffinityTranslator({"n-1": "ip-10-0-0-1"})
    assert wanted(None, named, places=places).alternatives == (
        label_requirement(HOSTNAME, "In", "ip-10-0-0-1"),
    )


def test_labels_that_do_not_matter_are_taken_out_and_contradict_nothing() -> None:
    places = NodeAffinityTranslator({}, ignored_labels={HOSTNAME})
    pinned = term(requirement(HOSTNAME, "n-1"), fields=(requirement("metadata.name", "n-2"),))
    found = wanted({"team": "web"}, pinned, places=places)
    assert found == NodeAlternatives(alternatives=(label_requirement("team", "In", "web"),))


def test_several_selectors_hold_together() -> None:
    found = NodeAffinityTranslator({}).node_alternatives(({"a": "1"}, {"a": "2"}), None)
    assert found == NodeAlternatives(alternatives=(), contradictory=("a",))


def test_equal_alternatives_are_one() -> None:
    found = wanted(None, term(requirement(ZONE, "a")), term(requirement(ZONE, "a")))
    assert len(found.alternatives) == 1


def preferred(
    *terms: tuple[int, Value], places: NodeAffinityTranslator | None = None
) -> list[tuple[int, str]]:
    written = [{"weight": weight, "preference": each} for weight, each in terms]
    nodes = {"preferredDuringSchedulingIgnoredDuringExecution": written}
    made = msgspec.convert({"nodeAffinity": nodes}, Affinity)
    found = (places or NodeAffinityTranslator({})).preferred(made)
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
    assert preferred((1, named), places=NodeAffinityTranslator({"n-1": "ip-1"})) == [
        (1, f"{HOSTNAME} In [ip-1]")
    ]


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
    assert NodeAffinityTranslator({}).node_alternatives((), affinity).alternatives == (
        label_requirement(ZONE, "In", "a"),
    )
    assert [str(each.requirements) for each in NodeAffinityTranslator({}).preferred(affinity)] == [
        f"{ZONE} In [b]"
    ]


def test_taints_of_nodes_and_of_pools_are_the_same() -> None:
    on_node = [cluster.Taint(key="dedicated", value="web", effect="NoSchedule")]
    of_pool = [PoolTaint(key="dedicated", value="web", effect="NoSchedule")]
    assert translate_taints(on_node) == translate_taints(of_pool)
    assert translate_taints(on_node) == (Taint(key="dedicated", value="web", effect="NoSchedule"),)


def test_a_taint_without_a_value_has_an_empty_one() -> None:
    assert translate_taints([PoolTaint(key="gpu", effect="NoExecute")])[0].value == ""
    assert translate_taints(None) == ()


def test_no_operator_means_equal() -> None:
    written = msgspec.convert([{"key": "a", "value": "b"}], list[PodToleration])
    expected = Toleration(key="a", operator=TolerationOperator.EQUAL, value="b")
    assert translate_tolerations(written) == (expected,)


def test_a_toleration_for_everything_tolerates_everything() -> None:
    [found] = translate_tolerations([PodToleration(operator="Exists")])
    assert found.tolerates(Taint(key="any", value="thing", effect="NoExecute"))


def test_tolerations_written_twice_are_one() -> None:
    one, short = PodToleration(key="a", operator="Exists"), {"tolerationSeconds": 300}
    again = msgspec.structs.replace(one, **short)
    assert len(translate_tolerations([one, again])) == 1


def test_a_bound_of_a_pool_may_have_a_plus() -> None:
    signed = PoolRequirement(key="cpu", operator="Gt", values=["+5"])
    plain = PoolRequirement(key="cpu", operator="Gt", values=["5"])
    assert translate_requirements([signed]) == translate_requirements([plain])
