"""The registry: equal constraints are one, and pods know which of them concern them."""

import msgspec
from tests.support.model_builders import (
    affinity_term,
    label_requirement,
    labelled_pods,
    spread_constraint,
)

from wainwright.core.scheduling.topology.registry import TopologyRegistry
from wainwright.model.labels import HOSTNAME, ZONE
from wainwright.model.pod import ALL_PODS, AffinityTerm, Pod, PodConstraints


def groups_of(*waiting: Pod) -> int:
    registry = TopologyRegistry()
    registry.register(waiting, ())
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


def test_constraints_that_differ_in_anything_do_not() -> None:
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


def test_a_pod_is_counted_by_those_that_speak_of_it() -> None:
    registry = TopologyRegistry()
    web, db = (
        labelled_pods(1, constraints=spread_constraint()),
        labelled_pods(1, "db", constraints=PodConstraints(anti_affinity=(affinity_term(),))),
    )
    registry.register((*web, *db), ())
    counted = registry.matching_groups(web[0])
    assert {group.key for group in counted.counting} == {ZONE}
    assert [group.terms[0] for group in counted.inverse_anti_affinity] == [affinity_term()]
    assert (
        registry.matching_groups(db[0]).counting
        == registry.matching_groups(db[0]).inverse_anti_affinity
        == ()
    )


def test_a_namespace_sets_pods_apart() -> None:
    registry = TopologyRegistry()
    registry.register(labelled_pods(1, constraints=spread_constraint()), ())
    (stranger,) = labelled_pods(1, namespace="data")
    assert registry.matching_groups(stranger).counting == ()
    everywhere = AffinityTerm(key=ZONE, selector=ALL_PODS)
    registry = TopologyRegistry()
    registry.register(labelled_pods(1, constraints=PodConstraints(anti_affinity=(everywhere,))), ())
    assert registry.matching_groups(stranger).inverse_anti_affinity != ()


def test_running_pods_keep_others_away_and_ask_for_nothing_else() -> None:
    constraints = PodConstraints(
        anti_affinity=(affinity_term(),), affinity=(affinity_term(app="db"),)
    )
    registry = TopologyRegistry()
    registry.register((), labelled_pods(1, "alone", constraints=constraints))
    assert len(registry.groups) == 1
    assert registry.matching_groups(labelled_pods(1)[0]).inverse_anti_affinity != ()


def test_terms_of_one_pod_are_counted_by_each_of_their_labels() -> None:
    registry = TopologyRegistry()
    terms = (affinity_term(ZONE), affinity_term(HOSTNAME), affinity_term(ZONE))
    assert [group.key for group in registry.affinity_groups(terms)] == [ZONE, HOSTNAME]
