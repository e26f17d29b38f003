"""The registry: equal constraints are one, and pods know which of them concern them."""

import msgspec
from tests.support.model import asking
from tests.support.tiedmodel import company, pods, spread

from wainwright.core.topology.registry import Registry
from wainwright.model.labels import HOSTNAME, ZONE
from wainwright.model.pod import Bonds, Pod
from wainwright.model.selector import EVERYBODY
from wainwright.model.topology import Company


def groups_of(*waiting: Pod) -> int:
    registry = Registry()
    registry.introduce(waiting, ())
    return len(registry.groups)


def test_equal_constraints_share_a_group() -> None:
    assert groups_of(*pods(5, bonds=spread())) == 1
    assert groups_of(*pods(1, bonds=spread()), *pods(1, "db", bonds=spread(app="db"))) == 2


def test_constraints_that_differ_in_anything_do_not() -> None:
    (pod,) = pods(1, bonds=spread())
    for other in (spread(max_skew=2), spread(min_domains=2), spread(HOSTNAME)):
        assert groups_of(pod, msgspec.structs.replace(pod, name="o", bonds=other)) == 2
    elsewhere = msgspec.structs.replace(pod, alternatives=(asking(ZONE, "In", "zone-a"),))
    assert groups_of(pod, elsewhere) == 2
    assert groups_of(pod, msgspec.structs.replace(pod, namespace="data")) == 2


def test_a_pod_is_counted_by_those_that_speak_of_it() -> None:
    registry = Registry()
    web, db = pods(1, bonds=spread()), pods(1, "db", bonds=Bonds(anti_affinity=(company(),)))
    registry.introduce((*web, *db), ())
    counted = registry.standing(web[0])
    assert {group.key for group in counted.counted} == {ZONE}
    assert [group.meaning[0] for group in counted.shunned] == [company()]
    assert registry.standing(db[0]).counted == registry.standing(db[0]).shunned == ()


def test_a_namespace_sets_pods_apart() -> None:
    registry = Registry()
    registry.introduce(pods(1, bonds=spread()), ())
    (stranger,) = pods(1, namespace="data")
    assert registry.standing(stranger).counted == ()
    everywhere = Company(key=ZONE, selector=EVERYBODY)
    registry = Registry()
    registry.introduce(pods(1, bonds=Bonds(anti_affinity=(everywhere,))), ())
    assert registry.standing(stranger).shunned != ()


def test_running_pods_keep_others_away_and_ask_for_nothing_else() -> None:
    bonds = Bonds(anti_affinity=(company(),), affinity=(company(app="db"),))
    registry = Registry()
    registry.introduce((), pods(1, "alone", bonds=bonds))
    assert len(registry.groups) == 1
    assert registry.standing(pods(1)[0]).shunned != ()


def test_terms_of_one_pod_are_counted_by_each_of_their_labels() -> None:
    registry = Registry()
    terms = (company(ZONE), company(HOSTNAME), company(ZONE))
    assert [group.key for group in registry.near(terms)] == [ZONE, HOSTNAME]
