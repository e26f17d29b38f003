"""Bonds are shared by pods that are tied alike, and only by those."""

import pytest
from tests.unit.manifests.translate.objects import container, pods, typed_pod

from wainwright.model.pod import NO_BONDS

CONSTRAINT = {
    "maxSkew": 1,
    "topologyKey": "topology.kubernetes.io/zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
}
SPREAD = {"topologySpreadConstraints": [CONSTRAINT]}


def test_pods_of_equal_spec_share_their_bonds() -> None:
    translating = pods()
    one, other = (translating.pod(typed_pod(name, spec=SPREAD)) for name in "ab")
    assert one.bonds.spreads
    assert one.bonds is other.bonds


def test_equal_bonds_of_different_specs_are_one_object() -> None:
    translating = pods()
    small, large = (
        translating.pod(typed_pod(spec={**SPREAD, "containers": [container(cpu=cpu)]}))
        for cpu in "12"
    )
    assert small.requests != large.requests
    assert small.bonds is large.bonds


def test_a_pod_with_nothing_to_tie_it_has_no_bonds() -> None:
    bare = {"affinity": {"nodeAffinity": {}, "podAffinity": {}}, "topologySpreadConstraints": []}
    assert pods().pod(typed_pod()).bonds is NO_BONDS
    assert pods().pod(typed_pod(spec=bare)).bonds is NO_BONDS


def test_pods_of_equal_spec_but_other_labels_have_bonds_of_their_own() -> None:
    translating = pods()
    keyed = {**CONSTRAINT, "matchLabelKeys": ["hash"]}
    first, again, second, without = (
        translating.pod(
            typed_pod(metadata={"labels": labels}, spec={"topologySpreadConstraints": [keyed]})
        ).bonds
        for labels in (
            {"app": "web", "hash": "1"},
            {"app": "other", "hash": "1"},
            {"app": "web", "hash": "2"},
            {"app": "web"},
        )
    )
    assert first is again
    assert [
        [clause.key for clause in bonds.spreads[0].selector.clauses]
        for bonds in (first, second, without)
    ] == [["app", "hash"], ["app", "hash"], ["app"]]
    assert first != second


@pytest.mark.parametrize("field", ["matchLabelKeys", "mismatchLabelKeys"])
@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
def test_labels_tell_the_neighbours_of_equal_pods_apart(kind: str, field: str) -> None:
    translating = pods()
    term = {"topologyKey": "zone", "labelSelector": {}, "namespaces": ["x"], field: ["hash"]}
    weighted = [{"weight": 1, "podAffinityTerm": term}]
    spec = {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": weighted}}}
    one, other = (
        translating.pod(typed_pod(metadata={"labels": {"hash": each}}, spec=spec)).bonds
        for each in "12"
    )
    assert one != other


def test_pods_of_equal_spec_in_other_namespaces_have_bonds_of_their_own() -> None:
    translating = pods()
    term = {"topologyKey": "zone", "labelSelector": {}}
    away = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    shop, again, bank = (
        translating.pod(
            typed_pod(metadata={"namespace": name}, spec={"affinity": {"podAntiAffinity": away}})
        ).bonds
        for name in ("shop", "shop", "bank")
    )
    assert shop is again
    shops, banks = shop.anti_affinity[0], bank.anti_affinity[0]
    assert (shops.namespaces, banks.namespaces) == (frozenset({"shop"}), frozenset({"bank"}))


def test_pods_of_equal_spec_but_for_a_volume_have_bonds_of_their_own() -> None:
    translating = pods()
    disk = {"volumes": [{"name": "v", "awsElasticBlockStore": {"volumeID": "vol-1"}}]}
    bare, attached = (translating.pod(typed_pod(spec=spec)) for spec in ({}, disk))
    assert bare.requests is attached.requests
    assert (len(bare.bonds.attachments), len(attached.bonds.attachments)) == (0, 1)
