"""Topology spread constraints: selectors, keys, strictness."""

from typing import Any

import pytest
from tests.unit.translate.objects import Value, pod, translated

from wainwright.model.pod import (
    ALL_PODS,
    NO_PODS,
    PodSelector,
    SelectorRequirement,
    TopologySpread,
    pod_selector,
)

ZONE = "topology.kubernetes.io/zone"
WEB = pod_selector({"app": "web"})


def constraint(**fields: Any) -> Value:
    """By default over zones with maxSkew 1, of app web."""
    made: Value = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    return {**made, "labelSelector": {"matchLabels": {"app": "web"}}, **fields}


def spreads(
    *constraints: Value, labels: dict[str, str] | None = None
) -> tuple[TopologySpread, ...]:
    metadata = {"labels": labels or {}}
    spec = {"topologySpreadConstraints": list(constraints)}
    [only] = translated(pod(metadata=metadata, spec=spec)).snapshot.pods
    return only.constraints.spreads


def clause(key: str, operator: str, *values: str) -> SelectorRequirement:
    return SelectorRequirement(key=key, operator=operator, values=frozenset(values))


ROWS: dict[str, tuple[Value, TopologySpread]] = {
    "as it stands": (constraint(), TopologySpread(key=ZONE, selector=WEB)),
    "skew": (constraint(maxSkew=4), TopologySpread(key=ZONE, selector=WEB, max_skew=4)),
    "domains": (constraint(minDomains=3), TopologySpread(key=ZONE, selector=WEB, min_domains=3)),
    "a preference": (
        constraint(whenUnsatisfiable="ScheduleAnyway"),
        TopologySpread(key=ZONE, selector=WEB, required=False),
    ),
    "whatever nodes it selects": (
        constraint(nodeAffinityPolicy="Ignore"),
        TopologySpread(key=ZONE, selector=WEB, honor_affinity=False),
    ),
    "only nodes it tolerates": (
        constraint(nodeTaintsPolicy="Honor"),
        TopologySpread(key=ZONE, selector=WEB, honor_taints=True),
    ),
    "policies as they are by default": (
        constraint(nodeAffinityPolicy="Honor", nodeTaintsPolicy="Ignore"),
        TopologySpread(key=ZONE, selector=WEB),
    ),
    "an old name of the label": (
        constraint(topologyKey="failure-domain.beta.kubernetes.io/zone"),
        TopologySpread(key=ZONE, selector=WEB),
    ),
    "the volume driver's name of the label": (
        constraint(topologyKey="topology.ebs.csi.aws.com/zone"),
        TopologySpread(key=ZONE, selector=WEB),
    ),
    "a key that nobody knows": (
        constraint(topologyKey="rack"),
        TopologySpread(key="rack", selector=WEB),
    ),
    "no selector": (constraint(labelSelector=None), TopologySpread(key=ZONE, selector=NO_PODS)),
    "an empty selector": (
        constraint(labelSelector={}),
        TopologySpread(key=ZONE, selector=ALL_PODS),
    ),
    "an own value": (
        constraint(matchLabelKeys=["hash"]),
        TopologySpread(key=ZONE, selector=pod_selector({"app": "web", "hash": "7f"})),
    ),
    "a label that the pod lacks": (
        constraint(matchLabelKeys=["colour"]),
        TopologySpread(key=ZONE, selector=WEB),
    ),
    "an own value that the API server has merged already": (
        constraint(
            matchLabelKeys=["hash"],
            labelSelector={
                "matchLabels": {"app": "web"},
                "matchExpressions": [{"key": "hash", "operator": "In", "values": ["7f"]}],
            },
        ),
        TopologySpread(key=ZONE, selector=pod_selector({"app": "web", "hash": "7f"})),
    ),
    "an own value without a selector": (
        constraint(labelSelector=None, matchLabelKeys=["hash"]),
        TopologySpread(key=ZONE, selector=NO_PODS),
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_constraint_is_taken_over(name: str) -> None:
    written, expected = ROWS[name]
    assert spreads(written, labels={"app": "web", "hash": "7f"}) == (expected,)


def test_every_operator_becomes_a_clause_in_the_order_of_keys() -> None:
    expressions = [
        {"key": "d", "operator": "DoesNotExist"},
        {"key": "c", "operator": "Exists"},
        {"key": "b", "operator": "NotIn", "values": ["x", "y"]},
        {"key": "a", "operator": "In", "values": ["z"]},
    ]
    [found] = spreads(constraint(labelSelector={"matchExpressions": expressions}))
    assert found.selector == PodSelector(
        match_expressions=(
            clause("a", "In", "z"),
            clause("b", "NotIn", "x", "y"),
            clause("c", "Exists"),
            clause("d", "DoesNotExist"),
        )
    )


@pytest.mark.parametrize(
    "selector",
    [
        {"matchExpressions": [{"key": "app", "operator": "Near", "values": ["web"]}]},
        {"matchExpressions": [{"key": "app", "operator": "In"}]},
        {"matchExpressions": [{"key": "app", "operator": "Exists", "values": ["web"]}]},
        {"matchLabels": {"app": "not a value"}},
        {"matchLabels": {"not a key": "web"}},
    ],
)
def test_a_spread_with_an_invalid_selector_is_ignored(selector: Value) -> None:
    other = constraint(topologyKey="rack")
    found = spreads(constraint(labelSelector=selector), other)
    assert [each.key for each in found] == ["rack"]


def test_constraints_keep_their_order_and_equal_ones_are_one() -> None:
    rack, zone = constraint(topologyKey="rack"), constraint()
    old = constraint(topologyKey="failure-domain.beta.kubernetes.io/zone")
    assert [each.key for each in spreads(rack, zone, old)] == ["rack", ZONE]
    assert [each.key for each in spreads(zone, rack)] == [ZONE, "rack"]
