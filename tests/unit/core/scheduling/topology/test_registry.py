"""The registry: equal constraints share a group, and groups are found for each pod."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.support.model_builders import (
    affinity_term,
    label_requirement,
    labelled_pods,
    spread_constraint,
)

from wainwright.core.scheduling.topology.registry import TopologyRegistry
from wainwright.model.labels import HOSTNAME, ZONE
from wainwright.model.pod import (
    ALL_PODS,
    AffinityTerm,
    Pod,
    PodConstraints,
    PodSelector,
    SelectorRequirement,
)


def groups_of(*pods: Pod) -> int:
    registry = TopologyRegistry()
    registry.register(pods, ())
    return len(registry.groups)


def test_equal_constraints_share_a_group() -> None:
    assert groups_of(*labelled_pods(5, constraints=spread_constraint())) == 1
    assert (
        groups_of(
            *labelled_pods(1, constraints=spread_constraint()),
            *labelled_pods(1, "db", constraints=spread_constraint(app="db")),
        )
        == 2
    )


def test_different_constraints_have_different_groups() -> None:
    (pod,) = labelled_pods(1, constraints=spread_constraint())
    for other in (
        spread_constraint(max_skew=2),
        spread_constraint(min_domains=2),
        spread_constraint(HOSTNAME),
    ):
        assert groups_of(pod, msgspec.structs.replace(pod, name="o", constraints=other)) == 2
    elsewhere = msgspec.structs.replace(
        pod, alternatives=(label_requirement(ZONE, "In", "zone-a"),)
    )
    assert groups_of(pod, elsewhere) == 2
    assert groups_of(pod, msgspec.structs.replace(pod, namespace="data")) == 2


def test_the_required_spreads_of_a_pod_share_a_filter() -> None:
    """It is as long as they are many."""
    required = [*spread_constraint(HOSTNAME).spreads]
    required += [spread_constraint(f"rack-{number}").spreads[0] for number in range(3)]
    preferred = spread_constraint("row", required=False).spreads
    constraints = PodConstraints(spreads=(*required, *preferred))
    (pod,) = labelled_pods(1, constraints=constraints)
    groups = TopologyRegistry().spread_groups(pod)
    filters = {groups[each].filter for each in required}
    assert len(filters) == 1
    (shared,) = filters
    assert shared is not None
    assert shared.alternatives is not None
    assert [set(each) for each in shared.alternatives] == [{"rack-0", "rack-1", "rack-2"}]
    only = groups[preferred[0]].filter
    assert only is not None
    assert only.is_trivial


def test_the_label_of_a_single_required_spread_keeps_no_node_from_counting() -> None:
    (pod,) = labelled_pods(1, constraints=spread_constraint())
    (group,) = TopologyRegistry().spread_groups(pod).values()
    assert group.filter is not None
    assert group.filter.is_trivial


def test_a_pod_is_counted_by_the_groups_that_select_it() -> None:
    registry = TopologyRegistry()
    web, db = (
        labelled_pods(1, constraints=spread_constraint()),
        labelled_pods(1, "db", constraints=PodConstraints(anti_affinity=(affinity_term(),))),
    )
    registry.register((*web, *db), ())
    matching = registry.matching_groups(web[0])
    assert {group.key for group in matching.counting} == {ZONE}
    assert [group.terms[0] for group in matching.inverse_anti_affinity] == [affinity_term()]
    assert (
        registry.matching_groups(db[0]).counting
        == registry.matching_groups(db[0]).inverse_anti_affinity
        == ()
    )


def test_pods_of_other_namespaces_are_not_selected_unless_stated() -> None:
    registry = TopologyRegistry()
    registry.register(labelled_pods(1, constraints=spread_constraint()), ())
    (other_pod,) = labelled_pods(1, namespace="data")
    assert registry.matching_groups(other_pod).counting == ()
    everywhere = AffinityTerm(key=ZONE, selector=ALL_PODS)
    registry = TopologyRegistry()
    registry.register(labelled_pods(1, constraints=PodConstraints(anti_affinity=(everywhere,))), ())
    assert registry.matching_groups(other_pod).inverse_anti_affinity != ()


def test_of_running_pods_only_anti_affinity_is_registered() -> None:
    constraints = PodConstraints(
        anti_affinity=(affinity_term(),), affinity=(affinity_term(app="db"),)
    )
    registry = TopologyRegistry()
    registry.register((), labelled_pods(1, "alone", constraints=constraints))
    assert len(registry.groups) == 1
    assert registry.matching_groups(labelled_pods(1)[0]).inverse_anti_affinity != ()


def test_affinity_terms_have_one_group_for_each_topology_key() -> None:
    registry = TopologyRegistry()
    terms = (affinity_term(ZONE), affinity_term(HOSTNAME), affinity_term(ZONE))
    assert [group.key for group in registry.affinity_groups(terms)] == [ZONE, HOSTNAME]


EXPRESSIONS = st.builds(
    SelectorRequirement,
    key=st.sampled_from("ab"),
    operator=st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
    values=st.frozensets(st.sampled_from("xyz"), min_size=1, max_size=2),
)
SELECTORS = st.builds(
    PodSelector,
    match_expressions=st.lists(EXPRESSIONS, max_size=2).map(tuple),
    selects_nothing=st.booleans(),
)
NAMESPACES = st.none() | st.frozensets(st.sampled_from("mn"), max_size=2)
KEYS = st.sampled_from([ZONE, HOSTNAME, "rack"])
TERMS = st.builds(AffinityTerm, key=KEYS, selector=SELECTORS, namespaces=NAMESPACES)
PODS = st.builds(
    Pod,
    namespace=st.sampled_from("mn"),
    name=st.just("pod"),
    labels=st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"), max_size=2),
)


@given(st.lists(TERMS, max_size=6), PODS)
def test_the_groups_of_a_pod_are_those_that_select_it(terms: list[AffinityTerm], pod: Pod) -> None:
    registry = TopologyRegistry()
    for term in terms:
        registry.anti_affinity_group(term)
        registry.inverse_anti_affinity_group(term)
    if terms:
        registry.affinity_groups(tuple(terms))
    matching = registry.matching_groups(pod)
    found = {each.number for each in (*matching.counting, *matching.inverse_anti_affinity)}
    assert found == {
        each.number
        for each in registry.groups.values()
        if each.selects(pod.namespace, dict(pod.labels))
    }
