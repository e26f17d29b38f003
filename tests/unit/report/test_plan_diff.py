"""Two plans compared: what a pull request would change."""

from typing import Any

import msgspec
import pytest

from wainwright.model.plan import UnschedulableGroup
from wainwright.model.reasons import (
    Funnel,
    LabelConflict,
    LimitExceeded,
    NoCompatiblePool,
    PodReason,
    PoolReason,
    PoolVerdict,
    TopologySpreadUnsatisfied,
    TopologyUnsatisfied,
)
from wainwright.model.requirements import one_of
from wainwright.report.plan_diff import (
    diff_exit_code,
    diff_lines,
    diff_markdown,
    diff_plans,
    pods_with_other_causes,
)
from wainwright.report.plan_rows import FUNNEL_LEGEND


def claim(
    *pods: str, kind: str = "m5.large", price: float = 0.1, pool: str = "default"
) -> dict[str, Any]:
    return {
        "nodePool": pool,
        "instanceType": kind,
        "zone": "us-west-2a",
        "capacityType": "spot",
        "reservationID": None,
        "pricePerHour": price,
        "modelledPrice": False,
        "pods": list(pods),
    }


def failure(pod: str, why: str = "needs 9 cpu", types: int = 1) -> dict[str, Any]:
    pools = [{"nodePool": "default", "reason": why, "funnel": {"types": types}}]
    return {
        "pod": pod,
        "reason": f"NodePool default: {why}",
        "suggestion": "request 8 cpu (now 9): +$0.100/h",
        "alternative": None,
        "otherPools": "2 other NodePools: 2 taint",
        "existingNodes": None,
        "pools": pools,
        "nodes": [],
    }


def plan(
    *claims: dict[str, Any], without: tuple[str, ...] = (), fees: float = 0.0
) -> dict[str, Any]:
    price = sum(one["pricePerHour"] for one in claims)
    return {
        "nodeClaims": list(claims),
        "existingNodes": [],
        "unschedulable": [failure(pod) for pod in without],
        "summary": {
            "pricePerHour": price,
            "feesPerHour": fees,
            "modelledPrices": any(one["modelledPrice"] for one in claims),
            "scheduled": sum(len(one["pods"]) for one in claims),
        },
    }


def test_the_same_plan_twice_is_no_change() -> None:
    made = diff_plans(plan(claim("a/b")), plan(claim("a/b")))
    assert (diff_exit_code(made), diff_lines(made)) == (0, ["nothing changes"])


def test_a_pod_that_loses_its_place_stops_the_build() -> None:
    made = diff_plans(plan(claim("a/b")), plan(without=("a/b",)))
    assert made["pods"]["lost"] == ["a/b"]
    assert diff_exit_code(made) == 1


def test_a_pod_that_gains_a_place_is_another_change() -> None:
    made = diff_plans(plan(without=("a/b",)), plan(claim("a/b")))
    assert made["pods"]["gained"] == ["a/b"]
    assert diff_exit_code(made) == 3


def test_a_pod_that_is_gone_has_not_lost_its_place() -> None:
    made = diff_plans(plan(claim("a/b")), plan())
    assert (made["pods"]["lost"], made["pods"]["removed"], diff_exit_code(made)) == ([], ["a/b"], 3)


def test_another_type_at_the_same_price_is_a_change() -> None:
    made = diff_plans(plan(claim("a/b")), plan(claim("a/b", kind="m6i.large")))
    assert [(row["instanceType"], row["old"], row["new"]) for row in made["nodes"]] == [
        ("m5.large", 1, 0),
        ("m6i.large", 0, 1),
    ]
    assert diff_exit_code(made) == 3


def test_the_price_is_reported_by_hour_and_month() -> None:
    made = diff_plans(plan(claim("a/b", price=0.1)), plan(claim("a/b", price=0.3)))
    assert diff_lines(made) == [
        "+$0.200/h (+200 %): default +$0.200",
        "$0.100/h becomes $0.300/h: +$0.200/h, +$146/month",
    ]


def test_fees_that_change_alone_are_reported() -> None:
    made = diff_plans(plan(claim("a/b"), fees=0.01), plan(claim("a/b"), fees=0.02))
    assert diff_exit_code(made) == 3
    assert diff_lines(made)[1:] == ["fees: $0.010/h become $0.020/h: +$0.010/h, +$7.30/month"]


def test_a_new_unschedulable_pod_is_reported_with_the_reason() -> None:
    made = diff_plans(plan(claim("a/b")), plan(claim("a/b"), without=("a/c",)))
    assert diff_exit_code(made) == 3
    assert [row["pod"] for row in made["unschedulable"]] == ["a/c"]
    assert diff_lines(made) == [
        "1 new pod unschedulable; the price stays the same",
        "1 pod is new and unschedulable: a/c",
        "  1 pod is unschedulable: a/c",
        "    NodePool default: needs 9 cpu",
        "    fix: request 8 cpu (now 9): +$0.100/h",
        "    2 other NodePools: 2 taint",
    ]
    assert diff_lines(made, every=True)[-2:] == [
        "    NodePool default: needs 9 cpu [1]",
        f"  {FUNNEL_LEGEND}",
    ]


def test_markdown_begins_with_verdict_and_cost_and_has_a_table_by_pool() -> None:
    old = plan(claim("a/b", price=2.0, pool="general"), without=("a/c", "a/d"))
    large = [claim(pod, price=2.5, pool="gpu") for pod in ("a/c", "a/d")]
    made = diff_markdown(diff_plans(old, plan(claim("a/b", price=0.5, pool="general"), *large)))
    assert made[:6] == [
        "**+$3.50/h (+175 %): gpu +$5.00, general −$1.50; 2 more pods scheduled**",
        "",
        "| pool | new nodes | before | after | change |",
        "|---|--:|--:|--:|--:|",
        "| general | 1 → 1 | $2.000/h | $0.500/h | −$1.500/h |",
        "| gpu | 0 → 2 | $0.000/h | $5.000/h | +$5.000/h |",
    ]
    assert made[7] == "<details><summary>Nodes</summary>"
    lost = diff_markdown(diff_plans(plan(claim("a/b")), plan(without=("a/b",))))
    assert lost[0] == (
        "**1 pod becomes unschedulable; −$0.100/h (−100 %): default −$0.100; "
        "1 fewer pod scheduled**"
    )
    assert "- fix: request 8 cpu (now 9): +$0.100/h" in lost
    assert lost[lost.index(f"- {FUNNEL_LEGEND}") + 1] == "- NodePool default: needs 9 cpu [1]"


def test_a_pod_that_never_had_a_place_is_no_news() -> None:
    made = diff_plans(plan(without=("a/b",)), plan(without=("a/b",)))
    assert (made["unschedulable"], diff_lines(made)) == ([], ["nothing changes"])


def test_one_pod_is_one_and_two_are_two() -> None:
    made = diff_plans(plan(claim("a/b")), plan(claim("a/b", "a/c")))
    assert diff_lines(made) == [
        "the price stays the same; 1 more pod scheduled",
        "1 pod is new: a/c",
    ]
    made = diff_plans(plan(claim("a/b", "a/c", "a/d")), plan(claim("a/b")))
    assert diff_lines(made)[1:] == ["2 pods are gone: a/c, a/d"]


def failing(*rows: dict[str, Any]) -> dict[str, Any]:
    return {**plan(), "unschedulable": list(rows)}


def test_another_reason_for_having_no_place_is_a_change() -> None:
    limit = "the limit is reached"
    old, new = failing(failure("a/b")), failing(failure("a/b", limit))
    made = diff_plans(old, new, other_causes=["a/b"])
    assert (made["pods"]["otherwise"], diff_exit_code(made)) == (["a/b"], 3)
    assert diff_lines(made)[1:4] == [
        "1 pod is still unschedulable, but for another reason: a/b",
        "  1 pod is unschedulable: a/b",
        "    NodePool default: the limit is reached",
    ]
    old, new = failing(failure("a/b"), failure("a/c")), failing(failure("a/b"), failure("a/c"))
    made = diff_plans(old, new, other_causes=["a/c", "a/b"])
    assert diff_lines(made)[1] == "2 pods are still unschedulable, but for other reasons: a/b, a/c"


def groups(
    reason: PoolReason, pod: str = "a/b", types: int = 1, of_pod: PodReason | None = None
) -> tuple[UnschedulableGroup, ...]:
    funnel = Funnel(types=types, requirements=0, resources=0, offerings=0, min_values=0, limits=0)
    verdict = PoolVerdict(pool="default", reason=reason, funnel=funnel)
    return (UnschedulableGroup(pods=(pod,), reason=of_pod or NoCompatiblePool(), pools=(verdict,)),)


CPU = LimitExceeded(resource="cpu", limit=8000, in_use=8000, needed=2000, instance_type="m5.large")
LOWER = LimitExceeded(resource="cpu", limit=4000, in_use=4000, needed=4000, instance_type="m5.2xl")
MEMORY = LimitExceeded(resource="memory", limit=8, in_use=8, needed=2, instance_type="m5.large")
ZONE = LabelConflict(key="zone", wanted=one_of(["a"]), offered=one_of(["b"]))


def test_a_cause_with_other_amounts_is_no_other_cause() -> None:
    assert pods_with_other_causes(groups(CPU), groups(LOWER, types=2)) == []


def spread(skew: int, key: str = "zone") -> TopologyUnsatisfied:
    return TopologyUnsatisfied(
        by=(TopologySpreadUnsatisfied(key=key, max_skew=skew, counts=(), allowed_domains=()),)
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (groups(CPU), groups(MEMORY)),
        (groups(CPU), groups(ZONE)),
        (groups(ZONE), groups(msgspec.structs.replace(ZONE, wanted=one_of(["c"])))),
        (groups(CPU), groups(CPU, of_pod=spread(1))),
        (groups(CPU, of_pod=spread(1)), groups(CPU, of_pod=spread(1, "host"))),
    ],
)
def test_another_resource_label_or_constraint_is_another_cause(
    old: tuple[UnschedulableGroup, ...], new: tuple[UnschedulableGroup, ...]
) -> None:
    assert pods_with_other_causes(old, new) == ["a/b"]


def test_constraints_with_other_counts_are_the_same_cause() -> None:
    old, new = groups(CPU, of_pod=spread(1)), groups(CPU, of_pod=spread(2))
    assert pods_with_other_causes(old, new) == []


def test_only_pods_that_both_plans_leave_out_have_other_causes() -> None:
    assert pods_with_other_causes(groups(CPU), groups(ZONE, pod="a/c")) == []


def test_another_reserved_instance_is_no_noticeable_cost() -> None:
    before = plan(claim("a/b", price=1e-7))
    made = diff_plans(before, plan(claim("a/b", price=1e-7), claim("a/c", price=1e-7)))
    assert (diff_exit_code(made), diff_lines(made)[2:]) == (3, ["1 pod is new: a/c"])
    assert diff_exit_code(diff_plans(before, plan(claim("a/b", price=2e-7)))) == 0


def test_a_change_too_small_for_an_hour_is_reported_by_the_month() -> None:
    made = diff_plans(plan(claim("a/b", price=0.1)), plan(claim("a/b", price=0.1003)))
    assert (diff_exit_code(made), diff_lines(made)[1:]) == (3, ["$0.100/h changes by +$0.22/month"])
