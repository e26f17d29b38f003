"""Two plans compared: what a pull request would change."""

from typing import Any

from wainwright.report.diff import difference, lines, verdict


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


def plan(*claims: dict[str, Any], without: tuple[str, ...] = ()) -> dict[str, Any]:
    price = sum(one["pricePerHour"] for one in claims)
    return {
        "nodeClaims": list(claims),
        "existingNodes": [],
        "unschedulable": [{"pod": pod} for pod in without],
        "summary": {"pricePerHour": price, "feesPerHour": 0.0},
    }


def test_the_same_plan_twice_is_no_change() -> None:
    made = difference(plan(claim("a/b")), plan(claim("a/b")))
    assert (verdict(made), lines(made)) == (0, ["nothing changes"])


def test_a_pod_that_loses_its_place_stops_the_build() -> None:
    made = difference(plan(claim("a/b")), plan(without=("a/b",)))
    assert made["pods"]["lost"] == ["a/b"]
    assert verdict(made) == 1


def test_a_pod_that_gains_a_place_is_another_change() -> None:
    made = difference(plan(without=("a/b",)), plan(claim("a/b")))
    assert made["pods"]["gained"] == ["a/b"]
    assert verdict(made) == 3


def test_a_pod_that_is_gone_has_not_lost_its_place() -> None:
    made = difference(plan(claim("a/b")), plan())
    assert (made["pods"]["lost"], made["pods"]["removed"], verdict(made)) == ([], ["a/b"], 3)


def test_another_type_at_the_same_price_is_a_change() -> None:
    made = difference(plan(claim("a/b")), plan(claim("a/b", kind="m6i.large")))
    assert [(row["instanceType"], row["old"], row["new"]) for row in made["nodes"]] == [
        ("m5.large", 1, 0),
        ("m6i.large", 0, 1),
    ]
    assert verdict(made) == 3


def test_the_price_is_told_by_hour_and_month() -> None:
    made = difference(plan(claim("a/b", price=0.1)), plan(claim("a/b", price=0.3)))
    assert lines(made) == ["$0.100/h becomes $0.300/h: +$0.200/h, +$146/month"]
