"""Two plans compared: what a pull request would change."""

from typing import Any

from wainwright.report.plan_diff import diff_exit_code, diff_lines, diff_plans


def claim(*pods: str, kind: str = "m5.large", price: float = 0.1) -> dict[str, Any]:
    return {
        "nodePool": "default",
        "instanceType": kind,
        "zone": "us-west-2a",
        "capacityType": "spot",
        "reservationID": None,
        "pricePerHour": price,
        "pods": list(pods),
    }


def failure(pod: str, why: str = "needs 9 cpu", types: int = 1) -> dict[str, Any]:
    pools = [{"nodePool": "default", "reason": why, "funnel": {"types": types}}]
    return {
        "pod": pod,
        "reason": "no pool can launch a node for it",
        "suggestion": "ask for less",
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
        "summary": {"pricePerHour": price, "feesPerHour": fees},
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
    assert diff_lines(made) == ["$0.100/h becomes $0.300/h: +$0.200/h, +$146/month"]


def test_fees_that_change_alone_are_reported() -> None:
    made = diff_plans(plan(claim("a/b"), fees=0.01), plan(claim("a/b"), fees=0.02))
    assert diff_exit_code(made) == 3
    assert diff_lines(made) == ["fees: $0.010/h become $0.020/h: +$0.010/h, +$7.30/month"]


def test_a_new_unschedulable_pod_is_reported_with_the_reason() -> None:
    made = diff_plans(plan(claim("a/b")), plan(claim("a/b"), without=("a/c",)))
    assert diff_exit_code(made) == 3
    assert [row["pod"] for row in made["unschedulable"]] == ["a/c"]
    assert diff_lines(made) == [
        "1 pod is new and has no place: a/c",
        "  no place for a/c: no pool can launch a node for it",
        "    default: needs 9 cpu",
        "    try: ask for less",
    ]


def test_in_markdown_reasons_are_lists_within_the_list() -> None:
    made = diff_plans(plan(), plan(without=("a/c",)))
    assert diff_lines(made, bullet="- ")[:3] == [
        "- 1 pod is new and has no place: a/c",
        "  - no place for a/c: no pool can launch a node for it",
        "    - default: needs 9 cpu",
    ]


def test_a_pod_that_never_had_a_place_is_no_news() -> None:
    made = diff_plans(plan(without=("a/b",)), plan(without=("a/b",)))
    assert (made["unschedulable"], diff_lines(made)) == ([], ["nothing changes"])


def test_one_pod_is_one_and_two_are_two() -> None:
    made = diff_plans(plan(claim("a/b")), plan(claim("a/b", "a/c")))
    assert diff_lines(made) == ["1 pod is new: a/c"]
    made = diff_plans(plan(claim("a/b", "a/c", "a/d")), plan(claim("a/b")))
    assert diff_lines(made) == ["2 pods are gone: a/c, a/d"]


def failing(*rows: dict[str, Any]) -> dict[str, Any]:
    return {**plan(), "unschedulable": list(rows)}


def test_another_reason_for_having_no_place_is_a_change() -> None:
    made = diff_plans(failing(failure("a/b")), failing(failure("a/b", "the limit is reached")))
    assert (made["pods"]["otherwise"], diff_exit_code(made)) == (["a/b"], 3)
    assert diff_lines(made)[:3] == [
        "1 pod still has no place, but for another reason: a/b",
        "  no place for a/b: no pool can launch a node for it",
        "    default: the limit is reached",
    ]
    old, new = [failure("a/b"), failure("a/c")], [failure("a/b", "x"), failure("a/c", "x")]
    made = diff_plans(failing(*old), failing(*new))
    assert diff_lines(made)[0] == "2 pods still have no place, but for other reasons: a/b, a/c"


def test_how_many_types_were_left_is_no_reason() -> None:
    made = diff_plans(failing(failure("a/b", types=1)), failing(failure("a/b", types=2)))
    assert (diff_exit_code(made), diff_lines(made)) == (0, ["nothing changes"])


def test_another_reserved_instance_is_no_noticeable_cost() -> None:
    before = plan(claim("a/b", price=1e-7))
    made = diff_plans(before, plan(claim("a/b", price=1e-7), claim("a/c", price=1e-7)))
    assert (diff_exit_code(made), diff_lines(made)[1:]) == (3, ["1 pod is new: a/c"])
    assert diff_exit_code(diff_plans(before, plan(claim("a/b", price=2e-7)))) == 0


def test_a_change_too_small_for_an_hour_is_reported_by_the_month() -> None:
    made = diff_plans(plan(claim("a/b", price=0.1)), plan(claim("a/b", price=0.1003)))
    assert (diff_exit_code(made), diff_lines(made)) == (3, ["$0.100/h changes by +$0.22/month"])
