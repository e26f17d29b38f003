"""Drift that does not depend on the cloud: hash of the NodePool, requirements, instance type."""

from typing import Any

import msgspec
import pytest
from tests.unit.translate.objects import Value, pool, requirement, typed_pool

from wainwright.api.karpenter.nodepool import NodePool
from wainwright.core.disruption.drift import (
    HASH_VERSION,
    POOL_HASH_ANNOTATION,
    POOL_HASH_VERSION_ANNOTATION,
    Drift,
    find_drift,
    pool_hash_annotations,
)
from wainwright.model.disruption import Condition, NodeClaimState
from wainwright.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, RESERVATION_ID, ZONE
from wainwright.model.requirements import Requirements
from wainwright.model.snapshot import Node, Pool
from wainwright.translate.pools import pool_hash, translate_pool

NOW = 1_000_000.0
HOUR = 3600.0
LABELS = {INSTANCE_TYPE: "m5.large", ZONE: "us-west-2a", CAPACITY_TYPE: "spot", "gen": "5"}


def node(labels: dict[str, str] | None = None, **claim: Any) -> Node:
    state = NodeClaimState(name="web-1", labels=labels or LABELS, **claim)
    return Node(name="n", pool="web", labels={"other": "label"}, claim=state)


def web(*requirements: Value, **template: Any) -> Pool:
    return translate_pool(typed_pool(template={"requirements": list(requirements), **template}))


def reason(found: Drift | None) -> str | None:
    return None if found is None else str(found.reason)


def offering(**labels: str) -> Requirements:
    known = {"zone": ZONE, "capacity": CAPACITY_TYPE, "reservation": RESERVATION_ID}
    return Requirements.from_labels({known[key]: value for key, value in labels.items()})


@pytest.mark.parametrize(
    ("required", "drifted"),
    [
        (requirement(ZONE, "us-west-2a", "us-west-2b"), False),
        (requirement(ZONE, "us-west-2b"), True),
        (requirement(ZONE, operator="Exists"), False),
        (requirement(ZONE, operator="DoesNotExist"), True),
        (requirement("gen", "4", operator="Gt"), False),
        (requirement("gen", "5", operator="Gt"), True),
        (requirement("gen", "5", operator="Lt"), True),
        (requirement("team", "a"), True),
        (requirement("team", "a", operator="NotIn"), False),
        (requirement("team", operator="DoesNotExist"), False),
        (requirement("other", operator="Exists"), True),
    ],
)
def test_requirements_are_compared_with_the_labels_of_the_claim(
    required: Value, drifted: bool
) -> None:
    found = find_drift(node(), web(required), None, NOW)
    assert reason(found) == ("RequirementsDrifted" if drifted else None)


def test_a_node_that_left_its_reservation_drifts_only_where_the_pool_requires_one() -> None:
    """A controller has relabelled it; in a reservation it had not drifted."""
    inside = node(LABELS | {CAPACITY_TYPE: "reserved", RESERVATION_ID: "cr-1"})
    outside = node(LABELS | {CAPACITY_TYPE: "on-demand"})
    only, also = (
        web(requirement(CAPACITY_TYPE, *values))
        for values in (["reserved"], ["reserved", "on-demand"])
    )
    assert find_drift(inside, only, None, NOW) is None
    assert reason(find_drift(outside, only, None, NOW)) == "RequirementsDrifted"
    assert find_drift(outside, also, None, NOW) is None


def test_min_values_are_for_launches_and_make_no_node_drift() -> None:
    before, after = web(), web(requirement(INSTANCE_TYPE, operator="Exists") | {"minValues": 10})
    launched = node(annotations=pool_hash_annotations(before))
    assert find_drift(launched, after, OFFERED, NOW) is None


def test_a_node_without_a_claim_is_judged_by_its_own_labels() -> None:
    alone = Node(name="n", pool="web", labels=LABELS)
    assert reason(find_drift(alone, web(requirement(ZONE, "us-west-2b")), None, NOW)) is not None
    assert find_drift(alone, web(requirement(ZONE, "us-west-2a")), None, NOW) is None


def test_a_node_of_a_pool_that_was_changed_since_has_drifted_whatever_else() -> None:
    before, after = web(), web(requirement(ZONE, "us-west-2b"), expireAfter="1h")
    found = find_drift(node(annotations=pool_hash_annotations(before)), after, None, NOW)
    assert reason(found) == "NodePoolDrifted"
    assert find_drift(node(annotations=pool_hash_annotations(before)), before, None, NOW) is None


@pytest.mark.parametrize(
    "annotations",
    [
        {},
        {POOL_HASH_ANNOTATION: "other"},
        {POOL_HASH_VERSION_ANNOTATION: HASH_VERSION},
        {POOL_HASH_ANNOTATION: "other", POOL_HASH_VERSION_ANNOTATION: "v3"},
    ],
)
def test_a_hash_that_is_missing_or_of_another_version_says_nothing(
    annotations: dict[str, str],
) -> None:
    assert find_drift(node(annotations=annotations), web(), None, NOW) is None


BASE = pool()
OTHER_CLASS = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "other"}


def annotated_pool(**annotations: str) -> Value:
    made = pool()
    made["spec"]["template"]["metadata"]["annotations"] = annotations
    return made


@pytest.mark.parametrize(
    ("changed", "is_other"),
    [
        (annotated_pool(team="a"), True),
        (pool(template={"nodeClassRef": OTHER_CLASS}), True),
        (pool(spec={"replicas": 3}), False),
        (pool(spec={"disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "0"}]}}), False),
        (pool(metadata={"annotations": {"wainwright.dev/minimum-saving": "5%"}}), False),
        (pool(template={"expireAfter": "1h"}), True),
        (pool(template={"terminationGracePeriod": "1h"}), True),
        (pool(template={"taints": [{"key": "a", "effect": "NoSchedule"}]}), True),
        (pool(template={"startupTaints": [{"key": "a", "effect": "NoSchedule"}]}), True),
        (pool(labels={"team": "a"}), True),
        (pool(template={"requirements": [requirement(ZONE, "us-west-2b")]}), False),
        (pool(spec={"limits": {"cpu": "10"}}), False),
        (pool(spec={"weight": 10}), False),
        (pool(spec={"disruption": {"consolidateAfter": "1h"}}), False),
        (pool(template={"taints": []}), False),
    ],
)
def test_drf_2_the_hash_is_of_what_nodes_get_at_launch(changed: Value, is_other: bool) -> None:
    before, after = (msgspec.convert(value, NodePool) for value in (BASE, changed))
    assert (pool_hash(before) != pool_hash(after)) is is_other
    launched = node(
        LABELS | {ZONE: "us-west-2b"}, annotations=pool_hash_annotations(translate_pool(before))
    )
    found = find_drift(launched, translate_pool(after), None, NOW)
    assert reason(found) == ("NodePoolDrifted" if is_other else None)


OFFERED = {"m5.large": (offering(zone="us-west-2a", capacity="spot"),)}


def test_an_instance_type_or_offering_that_is_gone_is_drift() -> None:
    other = {"m5.large": (offering(zone="us-west-2b", capacity="spot"),)}
    assert find_drift(node(), web(), OFFERED, NOW) is None
    assert reason(find_drift(node(), web(), {}, NOW)) == "InstanceTypeNotFound"
    assert reason(find_drift(node(), web(), other, NOW)) == "InstanceTypeNotFound"
    assert find_drift(node(), web(), None, NOW) is None


@pytest.mark.parametrize(("age", "drifted"), [(HOUR - 1, False), (HOUR, True)])
def test_a_young_node_is_not_drifted_for_its_instance_type(age: float, drifted: bool) -> None:
    found = find_drift(node(created=NOW - age), web(), {}, NOW)
    assert (found is not None) is drifted


@pytest.mark.parametrize(
    ("offered", "drifted"),
    [
        (offering(zone="us-west-2a", capacity="reserved", reservation="cr-1"), False),
        (offering(zone="us-west-2a", capacity="reserved", reservation="cr-2"), True),
        (offering(zone="us-west-2a", capacity="on-demand"), False),
        (offering(zone="us-west-2b", capacity="on-demand"), True),
        (offering(zone="us-west-2a", capacity="spot"), True),
    ],
)
def test_for_a_reserved_node_an_on_demand_offering_suffices(
    offered: Requirements, drifted: bool
) -> None:
    reserved = LABELS | {CAPACITY_TYPE: "reserved", RESERVATION_ID: "cr-1"}
    found = find_drift(node(reserved), web(), {"m5.large": (offered,)}, NOW)
    assert (found is not None) is drifted


@pytest.mark.parametrize(("status", "drifted"), [("True", True), ("False", False)])
def test_the_condition_of_the_claim_decides(status: str, drifted: bool) -> None:
    condition = Condition(status=status, since=5.0, reason="AMIDrift", message="old")
    found = find_drift(
        node(conditions={"Drifted": condition}), web(requirement("team", "a")), {}, NOW
    )
    assert found == (Drift(reason="AMIDrift", message="old", since=5.0) if drifted else None)
