"""Verdicts on nodes as sentences."""

import json
from typing import Any

import pytest
from tests.support.manifest_tables import TESTS

from wainwright.core.disruption.candidates import BlockerCode
from wainwright.core.disruption.commands import Outcome
from wainwright.messages.disruption import (
    CHANGES,
    GONE_REASONS,
    REASONS,
    BlockerFacts,
    VerdictFacts,
    describe_blocker,
    describe_change,
    describe_reason,
    describe_verdict,
    suggest_change,
)
from wainwright.model.disruption import BlockingBudget, FreeingChange

SCHEMA = json.loads((TESTS.parent / "docs" / "consolidation.schema.json").read_text())
CODES = SCHEMA["$defs"]["node"]["properties"]["reason"]["enum"]
LIVE_CODES = ("paused", "breaker", "unhealthy")
"""Only the control loop has them: pauses, the breaker, and repair."""


def facts(code: str, verdict: str = "blocked", **more: Any) -> VerdictFacts:
    known: dict[str, Any] = {
        "node": "n1",
        "pool": "web",
        "instance_type": "m5.large",
        "zone": "us-west-2a",
        "capacity_type": "spot",
        "pods": 3,
        "policy": "WhenEmpty",
        "consolidate_after": "5m",
        "drift": "NodePoolDrifted" if code == "drifted" else "",
    }
    return VerdictFacts(verdict=verdict, code=code, **known | more)


def blocker(code: str, kind: str = "pod", name: str = "shop/a", **more: Any) -> BlockerFacts:
    return BlockerFacts(code=code, kind=kind, name=name, **more)


FULL = BlockingBudget(
    field="minAvailable", value=2, healthy=2, expected=2, allowing_value=1, replicas_needed=3
)
UNHEALTHY = BlockingBudget(
    field="maxUnavailable", value=1, healthy=4, expected=5, allowing_value=2, healthy_needed=5
)
SHARED = tuple(
    blocker("pdb", "pdb", name, budget=BlockingBudget(is_shared=True))
    for name in ("shop/a", "shop/b")
)
REFUSED = blocker(
    "cannot-begin",
    "condition",
    "n1",
    until=86400.0,
    message="its taint could not be written (webhook denied)",
)
TWO_PODS = tuple(blocker("do-not-disrupt-pod", name=name) for name in ("shop/a", "shop/b"))


def test_every_code_of_the_contract_has_a_sentence() -> None:
    assert {*REASONS, *GONE_REASONS} == {*CODES, *LIVE_CODES}
    assert set(CHANGES) <= {*CODES, *LIVE_CODES}


def test_every_code_of_the_decisions_is_in_the_contract() -> None:
    codes = {each.text for each in BlockerCode} | {each.value for each in Outcome}
    assert codes <= {*CODES, *LIVE_CODES}


@pytest.mark.parametrize("code", [*CODES, *LIVE_CODES])
def test_no_sentence_has_gaps(code: str) -> None:
    said = describe_verdict(facts(code, blockers=(blocker(code),)))
    assert said == said.strip()
    assert "{" not in said
    assert "  " not in said


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            facts(
                "pods-would-be-pending",
                blockers=(blocker("pods-would-be-pending", "reservation", "cr-1"),),
                drift="NodePoolDrifted",
            ),
            "it has drifted (NodePoolDrifted), but its replacement would need its own instance of "
            "capacity reservation cr-1",
        ),
        (
            facts("limits", "kept", drift="NodePoolDrifted"),
            "it has drifted (NodePoolDrifted), but its replacement would exceed the limits",
        ),
        (
            facts("do-not-disrupt-pod", blockers=(blocker("do-not-disrupt-pod"),), saving=0.4),
            (
                "pod shop/a has the annotation karpenter.sh/do-not-disrupt; remove the "
                "annotation to save $0.400/h"
            ),
        ),
        (
            facts(
                "do-not-disrupt-pod",
                blockers=(blocker("do-not-disrupt-pod", until=86400.0),),
                saving=0.4,
            ),
            (
                "pod shop/a has the annotation karpenter.sh/do-not-disrupt; wait until "
                "1970-01-02T00:00:00Z to save $0.400/h"
            ),
        ),
        (
            facts("pdb", blockers=(blocker("pdb", "pdb"), blocker("pdb", "pdb", "shop/b"))),
            "PodDisruptionBudgets shop/a and shop/b allow no eviction now",
        ),
        (
            facts("pdb", blockers=(blocker("pdb", budget=FULL),), saving=0.1, modelled=True),
            (
                "PodDisruptionBudget shop/a (minAvailable 2, 2 of 2 pods healthy) allows no "
                "eviction now; set minAvailable of PodDisruptionBudget shop/a to 1 (now 2), or run "
                "3 replicas to save ~$0.100/h"
            ),
        ),
        (
            facts("pdb", blockers=(blocker("pdb", budget=UNHEALTHY),), saving=0.1),
            (
                "PodDisruptionBudget shop/a (maxUnavailable 1, 4 of 5 pods healthy) allows no "
                "eviction now; set maxUnavailable of PodDisruptionBudget shop/a to 2 (now 1), or "
                "wait until all of its 5 pods are healthy to save $0.100/h"
            ),
        ),
        (
            facts("pdb", blockers=SHARED, saving=0.1),
            (
                "PodDisruptionBudgets shop/a and shop/b select a pod that another one selects too, "
                "and Kubernetes evicts no such pod; change the selectors so that only one "
                "of shop/a and shop/b selects each "
                "pod to save $0.100/h"
            ),
        ),
        (
            facts("do-not-disrupt-pod", blockers=TWO_PODS),
            "pods shop/a and shop/b have the annotation karpenter.sh/do-not-disrupt",
        ),
        (
            facts("pdb", blockers=(blocker("pdb"), blocker("policy", "policy")), saving=0.1),
            (
                "PodDisruptionBudget shop/a allows no eviction now, and 1 other reason"
                "; without that, $0.100/h would be saved"
            ),
        ),
        (
            facts("policy", consolidate_after=None, saving=0.2),
            (
                "NodePool web does not consolidate it (consolidateAfter: Never); set "
                "consolidateAfter of NodePool web to a duration to save $0.200/h"
            ),
        ),
        (
            facts("unknown-price"),
            "the catalogue has no price for m5.large in us-west-2a as spot",
        ),
        (facts("not-initialized", joined=False), "its NodeClaim has no Node yet"),
        (
            facts("budget", budget_problem="the minute 61 is none", saving=0.3),
            (
                "the disruption budgets of NodePool web allow no further node now: the "
                "minute 61 is none; correct spec.disruption.budgets of NodePool web to "
                "save $0.300/h"
            ),
        ),
        (
            facts("cannot-begin", blockers=(REFUSED, blocker("policy")), drift="NodePoolDrifted"),
            "it has drifted (NodePoolDrifted), but its disruption could not be begun, and is "
            "tried again later: its taint could not be written (webhook denied), and 1 other "
            "reason",
        ),
        (
            facts("cannot-begin", blockers=(REFUSED,), saving=0.4),
            "its disruption could not be begun, and is tried again later: its taint could not "
            "be written (webhook denied); wait until 1970-01-02T00:00:00Z to save $0.400/h",
        ),
        (facts("no-saving", "kept", pods=1), "no cheaper node can run its pod"),
        (
            facts("underutilized", "removed"),
            "it costs more than its 3 pods need, and other nodes have room for them",
        ),
        (
            facts("drifted", "replaced", replacements=("web-1",)),
            "it has drifted (NodePoolDrifted), and web-1 replaces it",
        ),
    ],
)
def test_a_verdict_names_what_holds_what_to_do_and_what_it_saves(
    given: VerdictFacts, said: str
) -> None:
    assert describe_verdict(given) == said


def test_a_blocker_is_described_by_its_own_name() -> None:
    given = facts("pdb", blockers=(blocker("pdb", "pdb"), blocker("pdb", "pdb", "shop/b")))
    said = [describe_blocker(each, given) for each in given.blockers]
    assert said == [
        "PodDisruptionBudget shop/a allows no eviction now",
        "PodDisruptionBudget shop/b allows no eviction now",
    ]


def test_what_nobody_can_change_has_no_suggestion() -> None:
    assert suggest_change(facts("no-saving", "kept")) is None
    assert suggest_change(facts("deleting")) is None


def test_the_reason_alone_has_no_dollars() -> None:
    assert "$" not in describe_reason(facts("budget", saving=3.0))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            FreeingChange(code="spot-to-spot", pool="web", gate=True, types=4),
            "allow spot to spot with --feature-gate SpotToSpotConsolidation=true, and lower "
            "wainwright.dev/spot-to-spot-types of NodePool web, or --spot-to-spot-types, to 4",
        ),
        (FreeingChange(code="limits", pool="", cluster_limits=True), "raise --cluster-limit"),
        (FreeingChange(code="limits", pool="web"), "raise the limits for NodePool web"),
        (
            FreeingChange(code="consolidate-after", pool="web", nodes=("a", "b"), until=86400.0),
            "wait until 1970-01-02T00:00:00Z, when consolidateAfter lets its pods go to a and b",
        ),
    ],
)
def test_a_change_that_was_tried_names_what_to_set(change: FreeingChange, said: str) -> None:
    assert describe_change(change) == said
