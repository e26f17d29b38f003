"""The path of our own."""

from typing import Any

import pytest
from tests.unit.emulator.http.asking import ENDPOINT, Asking

RESERVATION = {
    "id": "cr-0a1b",
    "instanceType": "m5.large",
    "availabilityZone": "us-east-1a",
    "total": 3,
}


def test_the_account_says_how_to_reach_it() -> None:
    status, said = Asking().own("GET", "account")
    assert status == 200
    assert said["endpoint"] == ENDPOINT
    assert said["region"] == "us-east-1"
    assert said["cluster"] == said["queue"] == "wain"
    assert said["role"] == "KarpenterNodeRole-wain"
    assert said["discovery"] == {"karpenter.sh/discovery": "wain"}
    assert len(said["subnets"]) == 6
    assert said["securityGroup"].startswith("sg-")
    assert said["queueURL"].endswith("/wain")
    assert said["environment"]["AWS_ENDPOINT_URL"] == ENDPOINT
    assert said["environment"]["AWS_REGION"] == "us-east-1"


def test_what_is_changed_is_shown_in_the_same_fields() -> None:
    asking = Asking()
    patch: dict[str, Any] = {
        "prices": [{"instanceType": "m5.large", "capacityType": "spot", "price": 0.01}],
        "unavailable": [{"instanceType": "p5.*"}],
        "stock": [{"instanceType": "c5.*", "zone": None, "capacityType": None, "free": 3}],
        "capacityReservations": [RESERVATION],
        "quota": {"onDemand": {"standard": 64}, "spot": {}, "fleets": 2, "spotRole": True},
    }
    status, said = asking.own("POST", "change", patch)
    assert status == 200
    shown = {name: said[name] for name in patch if name != "capacityReservations"}
    assert shown == {name: patch[name] for name in shown}
    (reservation,) = said["capacityReservations"]
    assert (reservation["id"], reservation["total"], reservation["available"]) == ("cr-0a1b", 3, 3)
    assert asking.own("GET", "state")[1]["prices"] == patch["prices"]
    assert asking.changes == 1


def test_faults_and_throttling_are_shown() -> None:
    asking = Asking()
    rule = {"operation": "DescribeVpcs", "code": "InternalError", "status": 500}
    asking.own("POST", "change", {"faults": [rule], "throttling": True})
    asking.ec2("DescribeVpcs")
    _, said = asking.own("GET", "state")
    assert said["faults"][0]["operation"] == "DescribeVpcs"
    assert said["struck"] == [1]
    assert said["throttling"]
    _, said = asking.own("POST", "change", {"faults": [], "throttling": False})
    assert (said["faults"], said["throttling"]) == ([], [])


REFUSED: dict[str, tuple[Any, str]] = {
    "no JSON": (b"{", "the change is no JSON"),
    "no object": ([], "the change is no object"),
    "no such field": ({"price": []}, "price cannot be changed"),
    "a field of a rule": ({"faults": [{"oper": "x"}]}, "faults: "),
    "a machine that is not there": (
        {"interruptions": [{"instance": "i-0", "kind": "spot"}]},
        "interruptions: there is no machine i-0",
    ),
    "a value of the Cloud": (
        {"prices": [{"instanceType": "m5.large", "capacityType": "reserved", "price": 1}]},
        "prices[0].capacityType: ",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_change_changes_nothing(name: str) -> None:
    body, message = REFUSED[name]
    asking = Asking()
    before = asking.own("GET", "state")
    status, said = asking.own("POST", "change", body)
    assert status == 400
    assert said["error"].startswith(message)
    assert asking.own("GET", "state") == before
    assert asking.changes == 0


def test_the_log_has_the_latest_requests() -> None:
    asking = Asking()
    asking.ec2("DescribeVpcs", **{"VpcId.1": "vpc-1"})
    asking.ec2("DescribeSubnets")
    _, said = asking.own("GET", "log")
    assert [each["operation"] for each in said] == ["DescribeVpcs", "DescribeSubnets"]
    assert said[0]["params"] == {"VpcIds": ["vpc-1"]}
    assert said[0]["status"] == 400
    _, said = asking.own("GET", "log?count=1")
    assert [each["operation"] for each in said] == ["DescribeSubnets"]
    assert asking.own("GET", "log?count=few")[0] == 400


def test_other_paths_and_web_pages_are_refused() -> None:
    asking = Asking()
    status, said = asking.own("GET", "nothing")
    assert status == 404
    assert "POST /_wain/change" in said["hint"]
    assert asking.own("GET", "change")[0] == 404
    status, _ = asking.own("POST", "change", {"faults": []}, Origin="http://example.com")
    assert status == 403
    assert asking.changes == 0
