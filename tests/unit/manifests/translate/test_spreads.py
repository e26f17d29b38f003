"""Topology spread constraints: who is spread, over what, and how strictly."""

from typing import Any

import pytest
from tests.unit.manifests.translate.objects import Value, pod, translated

from wainwright.model.selector import EVERYBODY, NOBODY, Clause, Selector, selector
from wainwright.model.topology import Spread

ZONE = "topology.kubernetes.io/zone"
WEB = selector({"app": "web"})


def constraint(**fields: Any) -> Value:
    """Over zones, one pod apart at most, of app web unless told otherwise."""
    made: Value = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    return {**made, "labelSelector": {"matchLabels": {"app": "web"}}, **fields}


def spreads(*constraints: Value, labels: dict[str, str] | None = None) -> tuple[Spread, ...]:
    metadata = {"labels": labels or {}}
    spec = {"topologySpreadConstraints": list(constraints)}
    [only] = translated(pod(metadata=metadata, spec=spec)).snapshot.pods
    return only.bonds.spreads


def clause(key: str, operator: str, *values: str) -> Clause:
    return Clause(key=key, operator=operator, values=frozenset(values))


ROWS: dict[str, tuple[Value, Spread]] = {
    "as it stands": (constraint(), Spread(key=ZONE, selector=WEB)),
    "skew": (constraint(maxSkew=4), Spread(key=ZONE, selector=WEB, max_skew=4)),
    "domains": (constraint(minDomains=3), Spread(key=ZONE, selector=WEB, min_domains=3)),
    "a preference": (
        constraint(whenUnsatisfiable="ScheduleAnyway"),
        Spread(key=ZONE, selector=WEB, required=False),
    ),
    "whatever nodes it selects": (
        constraint(nodeAffinityPolicy="Ignore"),
        Spread(key=ZONE, selector=WEB, honor_affinity=False),
    ),
    "only nodes it tolerates": (
        constraint(nodeTaintsPolicy="Honor"),
        Spread(key=ZONE, selector=WEB, honor_taints=True),
    ),
    "policies as they are by default": (
        constraint(nodeAffinityPolicy="Honor", nodeTaintsPolicy="Ignore"),
        Spread(key=ZONE, selector=WEB),
    ),
    "an old name of the label": (
        constraint(topologyKey="failure-domain.beta.kubernetes.io/zone"),
        Spread(key=ZONE, selector=WEB),
    ),
    "the volume driver's name of the label": (
        constraint(topologyKey="topology.ebs.csi.aws.com/zone"),
        Spread(key=ZONE, selector=WEB),
    ),
    "a key that nobody knows": (
        constraint(topologyKey="rack"),
        Spread(key="rack", selector=WEB),
    ),
    "no selector": (constraint(labelSelector=None), Spread(key=ZONE, selector=NOBODY)),
    "an empty selector": (constraint(labelSelector={}), Spread(key=ZONE, selector=EVERYBODY)),
    "an own value": (
        constraint(matchLabelKeys=["hash"]),
        Spread(key=ZONE, selector=selector({"app": "web", "hash": "7f"})),
    ),
    "a label that the pod lacks": (
        constraint(matchLabelKeys=["colour"]),
        Spread(key=ZONE, selector=WEB),
    ),
    "an own value that the API server has merged already": (
        constraint(
            matchLabelKeys=["hash"],
            labelSelector={
                "matchLabels": {"app": "web"},
                "matchExpressions": [{"key": "hash", "operator": "In", "values": ["7f"]}],
            },
        ),
        Spread(key=ZONE, selector=selector({"app": "web", "hash": "7f"})),
    ),
    "an own value without a selector": (
        constraint(labelSelector=None, matchLabelKeys=["hash"]),
        Spread(key=ZONE, selector=NOBODY),
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
    assert found.selector == Selector(
        clauses=(
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
def test_a_pod_is_not_spread_by_a_selector_that_makes_no_sense(selector: Value) -> None:
    other = constraint(topologyKey="rack")
    found = spreads(constraint(labelSelector=selector), other)
    assert [each.key for each in found] == ["rack"]


def test_constraints_keep_their_order_and_equal_ones_are_one() -> None:
    rack, zone = constraint(topologyKey="rack"), constraint()
    old = constraint(topologyKey="failure-domain.beta.kubernetes.io/zone")
    assert [each.key for each in spreads(rack, zone, old)] == ["rack", ZONE]
    assert [each.key for each in spreads(zone, rack)] == [ZONE, "rack"]
