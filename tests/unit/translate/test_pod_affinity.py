"""Pod affinity and anti-affinity: selectors, namespaces, topology keys."""

from typing import Any

import pytest
from tests.unit.translate.objects import Value, pod, thing, translated

from wainwright.model.pod import (
    ALL_PODS,
    NO_PODS,
    AffinityTerm,
    PodConstraints,
    PodSelector,
    SelectorRequirement,
    WeightedAffinityTerm,
    pod_selector,
)

ZONE = "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
OWN = frozenset({"shop"})
WEB = pod_selector({"app": "web"})
LABELS = {"app": "web", "tenant": "a"}


def term(**fields: Any) -> Value:
    return {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "web"}}, **fields}


def weighted(weight: int, **fields: Any) -> Value:
    return {"weight": weight, "podAffinityTerm": term(**fields)}


def constraints(
    kind: str, strength: str, *terms: Value, around: tuple[Value, ...] = ()
) -> PodConstraints:
    """The constraints of a pod in namespace shop, in an input with other objects."""
    spec = {"affinity": {kind: {strength: list(terms)}}}
    [found] = (
        each
        for each in translated(*around, pod(metadata={"labels": LABELS}, spec=spec)).snapshot.pods
        if each.name == "a"
    )
    return found.constraints


def company(*around: Value, **fields: Any) -> AffinityTerm:
    [only] = constraints("podAffinity", REQUIRED, term(**fields), around=around).affinity
    return only


def space(name: str, **labels: str) -> Value:
    return thing("v1", "Namespace", name, metadata={"labels": labels})


def test_terms_are_required_or_preferred_near_or_away() -> None:
    near = AffinityTerm(key=ZONE, selector=WEB, namespaces=OWN)
    rather = WeightedAffinityTerm(weight=7, term=near)
    assert constraints("podAffinity", REQUIRED, term()) == PodConstraints(affinity=(near,))
    assert constraints("podAntiAffinity", REQUIRED, term()) == PodConstraints(anti_affinity=(near,))
    assert constraints("podAffinity", PREFERRED, weighted(7)) == PodConstraints(
        preferred_affinity=(rather,)
    )
    assert constraints("podAntiAffinity", PREFERRED, weighted(7)) == PodConstraints(
        preferred_anti_affinity=(rather,)
    )


def test_the_heaviest_preference_comes_first_and_equals_as_written() -> None:
    written = [
        weighted(1, topologyKey="a"),
        weighted(50, topologyKey="b"),
        weighted(100, topologyKey="c"),
        weighted(50, topologyKey="d"),
    ]
    found = constraints("podAffinity", PREFERRED, *written).preferred_affinity
    assert [(each.weight, each.term.key) for each in found] == [
        (100, "c"),
        (50, "b"),
        (50, "d"),
        (1, "a"),
    ]


def test_equal_required_terms_are_one() -> None:
    old = term(topologyKey="failure-domain.beta.kubernetes.io/zone")
    assert len(constraints("podAntiAffinity", REQUIRED, term(), old).anti_affinity) == 1


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"labelSelector": None}, NO_PODS),
        ({"labelSelector": {}}, ALL_PODS),
        ({"labelSelector": {"matchLabels": {"app": "not a value"}}}, NO_PODS),
        ({"matchLabelKeys": ["tenant"]}, pod_selector({"app": "web", "tenant": "a"})),
        ({"matchLabelKeys": ["colour"], "mismatchLabelKeys": ["size"]}, WEB),
        (
            {"mismatchLabelKeys": ["tenant"]},
            PodSelector(
                match_expressions=(
                    *WEB.match_expressions,
                    SelectorRequirement(key="tenant", operator="NotIn", values=frozenset({"a"})),
                )
            ),
        ),
    ],
)
def test_the_pods_that_a_term_selects(fields: Value, expected: PodSelector) -> None:
    assert company(**fields).selector == expected


SPACES = (space("front", tier="front"), space("back", tier="back"), space("shop"))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {"shop"}),
        ({"namespaces": []}, {"shop"}),
        ({"namespaces": ["front", "elsewhere"]}, {"front", "elsewhere"}),
        ({"namespaceSelector": {}}, None),
        ({"namespaceSelector": {}, "namespaces": ["front"]}, None),
        ({"namespaceSelector": {"matchLabels": {"tier": "front"}}}, {"front"}),
        (
            {"namespaceSelector": {"matchLabels": {"tier": "front"}}, "namespaces": ["other"]},
            {"front", "other"},
        ),
        ({"namespaceSelector": {"matchLabels": {"tier": "none"}}}, set()),
        (
            {"namespaceSelector": {"matchLabels": {"tier": "no value"}}, "namespaces": ["front"]},
            {"front"},
        ),
        (
            {"namespaceSelector": {"matchExpressions": [{"key": "tier", "operator": "Exists"}]}},
            {"front", "back"},
        ),
        (
            {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "back"}}},
            {"back"},
        ),
    ],
)
def test_the_namespaces_of_a_term(fields: Value, expected: set[str] | None) -> None:
    wanted = None if expected is None else frozenset(expected)
    assert company(*SPACES, **fields).namespaces == wanted


def test_a_namespace_that_is_not_in_the_input_has_only_its_name_for_a_label() -> None:
    stranger = pod("b", metadata={"namespace": "lost"})
    absent = {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}
    named = {"matchLabels": {"kubernetes.io/metadata.name": "lost"}}
    found = company(stranger, space("front", tier="front"), namespaceSelector=absent)
    assert found.namespaces == frozenset({"shop", "lost"})
    assert company(stranger, namespaceSelector=named).namespaces == frozenset({"lost"})


def test_the_beta_name_of_a_topology_key_means_the_stable_one() -> None:
    assert company(topologyKey="beta.kubernetes.io/arch").key == "kubernetes.io/arch"
