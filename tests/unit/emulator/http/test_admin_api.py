"""The admin API, and `wain emulator set` that uses it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.contract.servers import EmulatorServer, serve_emulator
from tests.unit.emulator.http.http_support import ENDPOINT, RequestSender

from wainwright.cli.emulator_patch import FLAG_EXAMPLES, parse_fields
from wainwright.cli.main import wain
from wainwright.errors import WainError

RESERVATION = {
    "id": "cr-0a1b",
    "instanceType": "m5.large",
    "availabilityZone": "us-east-1a",
    "total": 3,
}


def test_the_account_path_returns_connection_info() -> None:
    status, content = RequestSender().admin("GET", "account")
    assert status == 200
    assert content["endpoint"] == ENDPOINT
    assert content["region"] == "us-east-1"
    assert content["cluster"] == content["queue"] == "wain"
    assert content["role"] == "KarpenterNodeRole-wain"
    assert content["discovery"] == {"karpenter.sh/discovery": "wain"}
    assert len(content["subnets"]) == 6
    assert content["securityGroup"].startswith("sg-")
    assert content["queueURL"].endswith("/wain")
    assert content["environment"]["AWS_ENDPOINT_URL"] == ENDPOINT
    assert content["environment"]["AWS_REGION"] == "us-east-1"


def test_the_state_shows_patched_fields_under_the_same_names() -> None:
    requests = RequestSender()
    patch: dict[str, Any] = {
        "prices": [{"instanceType": "m5.large", "capacityType": "spot", "price": 0.01}],
        "unavailable": [{"instanceType": "p5.*"}],
        "stock": [{"instanceType": "c5.*", "zone": None, "capacityType": None, "free": 3}],
        "capacityReservations": [RESERVATION],
        "quota": {"onDemand": {"standard": 64}, "spot": {}, "fleets": 2, "spotRole": True},
    }
    status, content = requests.admin("POST", "change", patch)
    assert status == 200
    shown = {name: content[name] for name in patch if name != "capacityReservations"}
    assert shown == {name: patch[name] for name in shown}
    (reservation,) = content["capacityReservations"]
    assert (reservation["id"], reservation["total"], reservation["available"]) == ("cr-0a1b", 3, 3)
    assert requests.admin("GET", "state")[1]["prices"] == patch["prices"]
    assert requests.changes == 1


def test_faults_and_throttling_are_shown() -> None:
    requests = RequestSender()
    rule = {"operation": "DescribeVpcs", "code": "InternalError", "status": 500}
    requests.admin("POST", "change", {"faults": [rule], "throttling": True})
    requests.ec2("DescribeVpcs")
    _, content = requests.admin("GET", "state")
    assert content["faults"][0]["operation"] == "DescribeVpcs"
    assert content["struck"] == [1]
    assert content["throttling"]
    _, content = requests.admin("POST", "change", {"faults": [], "throttling": False})
    assert (content["faults"], content["throttling"]) == ([], [])


REFUSED: dict[str, tuple[Any, str]] = {
    "no JSON": (b"{", "the change is no JSON"),
    "no object": ([], "the change is not an object"),
    "no such field": ({"price": []}, "price cannot be changed"),
    "a field of a rule": ({"faults": [{"oper": "x"}]}, "faults[0]: unknown field oper"),
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
def test_an_invalid_patch_changes_nothing(name: str) -> None:
    body, message = REFUSED[name]
    requests = RequestSender()
    before = requests.admin("GET", "state")
    status, content = requests.admin("POST", "change", body)
    assert status == 400
    assert content["error"].startswith(message)
    assert requests.admin("GET", "state") == before
    assert requests.changes == 0


def test_the_log_has_the_latest_requests() -> None:
    requests = RequestSender()
    requests.ec2("DescribeVpcs", **{"VpcId.1": "vpc-1"})
    requests.ec2("DescribeSubnets")
    _, content = requests.admin("GET", "log")
    assert [each["operation"] for each in content] == ["DescribeVpcs", "DescribeSubnets"]
    assert content[0]["params"] == {"VpcIds": ["vpc-1"]}
    assert content[0]["status"] == 400
    _, content = requests.admin("GET", "log?count=1")
    assert [each["operation"] for each in content] == ["DescribeSubnets"]
    assert requests.admin("GET", "log?count=few")[0] == 400


def test_unknown_paths_are_rejected() -> None:
    requests = RequestSender()
    status, content = requests.admin("GET", "nothing")
    assert status == 404
    assert "POST /_wain/change" in content["hint"]
    assert requests.admin("GET", "change")[0] == 404
    assert requests.changes == 0


@pytest.mark.parametrize("count", ["x", "-1", "²", "9" * 5000])
def test_a_count_that_is_no_number_is_rejected(count: str) -> None:
    status, content = RequestSender().admin("GET", f"log?count={count}")
    assert status == 400
    assert len(content["error"]) < 100


@pytest.mark.parametrize("body", [b"[" * 100_000, b'"\xff"', b"{"])
def test_a_change_that_is_no_json_is_rejected(body: bytes) -> None:
    status, content = RequestSender().admin("POST", "change", body)
    assert status == 400
    assert "the change is no JSON" in content["error"]


@pytest.mark.parametrize(
    "patch",
    [
        {"faults": [{"status": 204}]},
        {"faults": [{"status": 600}]},
        {"faults": [{"code": "a\r\nX-Header: b"}]},
        {"quota": {"fleets": -1}},
        {"quota": {"spot": {"standard": -1}}},
        {"pace": {"boot": {"median": -1}}},
        {"pace": {"boot": {"median": 1, "spread": 1e300}}},
        {"pace": {"neverJoinRate": 2}},
    ],
)
def test_numbers_are_checked_when_they_are_set(patch: dict[str, Any]) -> None:
    requests = RequestSender()
    assert requests.admin("POST", "change", patch)[0] == 400
    assert requests.changes == 0


CLOUD = """
apiVersion: wainwright.dev/v1alpha1
kind: Cloud
spec:
  region: us-east-1
  zones: [us-east-1a]
  capacityReservations:
    - {id: cr-0123, instanceType: m5.large, availabilityZone: us-east-1a, total: 3}
"""


@pytest.fixture(scope="module")
def running_emulator() -> Iterator[EmulatorServer]:
    with serve_emulator() as created:
        yield created


def run_set_command(
    running_emulator: EmulatorServer, *arguments: str, text: str | None = None
) -> Result:
    line = ["emulator", "set", "--endpoint", running_emulator.endpoint, *arguments]
    return CliRunner().invoke(wain, line, input=text, standalone_mode=False)


def error_output(result: Result) -> str:
    assert isinstance(result.exception, WainError), result.output
    assert result.exception.exit_code == 2
    return result.exception.message


def test_flags_become_a_patch(running_emulator: EmulatorServer) -> None:
    result = run_set_command(
        running_emulator,
        *("--price", "instanceType=m5.large,capacityType=spot,price=0.01"),
        *("--unavailable", "instanceType=p5.*,zone=us-east-1a"),
        *("--stock", "instanceType=c5.*,free=3"),
        *("--stock", "instanceType=c5.large,free=1"),
        *("--fault", "operation=CreateFleet,code=InternalError,status=500,match.Type=instant"),
        *("--reservation", "id=cr-0a,instanceType=m5.large,availabilityZone=us-east-1a,total=2"),
        "--throttle",
    )
    assert result.exit_code == 0, result.exception
    capacity_market = running_emulator.cloud.services.capacity_market.state
    assert [(each.instanceType, each.price) for each in capacity_market.prices] == [
        ("m5.large", 0.01)
    ]
    assert [(each.instanceType, each.free) for each in capacity_market.capacity.rules] == [
        ("c5.*", 3),
        ("c5.large", 1),
    ]
    assert running_emulator.cloud.services.reservations.state.reservations["cr-0a"].total == 2
    expected = "changed prices, unavailable, capacityReservations, stock, faults, throttling\n"
    assert result.output == expected


def test_a_list_can_be_emptied(running_emulator: EmulatorServer) -> None:
    run_set_command(running_emulator, "--unavailable", "instanceType=p5.*")
    assert run_set_command(running_emulator, "--clear", "unavailable").exit_code == 0
    assert running_emulator.cloud.services.capacity_market.state.capacity.unavailable == []


def test_a_file_and_flags_together(running_emulator: EmulatorServer, tmp_path: Path) -> None:
    file = tmp_path / "patch.yaml"
    file.write_text("stock: [{instanceType: r5.*, free: 2}]\npace: {boot: {median: 0}}\n")
    assert (
        run_set_command(
            running_emulator, str(file), "--stock", "instanceType=r6i.*,free=1"
        ).exit_code
        == 0
    )
    rules = running_emulator.cloud.services.capacity_market.state.capacity.rules
    assert [each.instanceType for each in rules] == ["r5.*", "r6i.*"]
    assert running_emulator.cloud.services.instances.state.timings.boot.median == 0


def test_a_patch_from_standard_input(running_emulator: EmulatorServer) -> None:
    patch = {"unavailable": [{"instanceType": "x1.*"}]}
    assert run_set_command(running_emulator, "-", text=json.dumps(patch)).exit_code == 0
    (only,) = running_emulator.cloud.services.capacity_market.state.capacity.unavailable
    assert only.instanceType == "x1.*"
    run_set_command(running_emulator, "--clear", "unavailable")


def test_a_cloud_is_accepted_as_a_patch(running_emulator: EmulatorServer, tmp_path: Path) -> None:
    file = tmp_path / "cloud.yaml"
    file.write_text(CLOUD)
    result = run_set_command(running_emulator, str(file))
    assert result.exit_code == 0, result.exception
    assert running_emulator.cloud.services.reservations.state.reservations["cr-0123"].total == 3
    assert "zones cannot change while the emulator runs" in result.stderr
    file.write_text(CLOUD.replace("us-east-1", "eu-west-1"))
    message = error_output(run_set_command(running_emulator, str(file)))
    assert message == "the patch is for eu-west-1, the emulator is in us-east-1"


WRONG: dict[str, tuple[list[str], str]] = {
    "nothing": ([], "there is nothing to change"),
    "no field": (["--stock", "c5.large"], "--stock: 'c5.large' is not a field with a value"),
    "no number": (
        ["--stock", "instanceType=c5.large,free=few"],
        "--stock: free is not a number: 'few'",
    ),
    "an unknown field": (["--stock", "type=c5.large,free=1"], "stock[0]: unknown field type"),
    "an unknown machine": (
        ["--interrupt", "instance=i-0,kind=spot"],
        "interruptions: there is no machine i-0",
    ),
    "no such file": (["no-such-file.yaml"], "no-such-file.yaml: "),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_name_the_invalid_field(name: str, running_emulator: EmulatorServer) -> None:
    arguments, message = WRONG[name]
    assert error_output(run_set_command(running_emulator, *arguments)).startswith(message)


FILES: dict[str, tuple[str, str]] = {
    "no YAML": ("stock: [", ":"),
    "a text": ("hello", " is neither a patch nor a list of faults"),
    "two documents": ("a: 1\n---\nb: 2\n", " has 2 documents"),
    "an unknown field": ("stocks: []", "stocks cannot be changed"),
    "no list": ("stock: 5", "stock: "),
}


@pytest.mark.parametrize("name", FILES)
def test_unreadable_files_are_errors(
    name: str, running_emulator: EmulatorServer, tmp_path: Path
) -> None:
    text, message = FILES[name]
    file = tmp_path / "patch.yaml"
    file.write_text(text)
    assert message in error_output(run_set_command(running_emulator, str(file)))


def test_no_emulator_at_the_endpoint_is_an_error() -> None:
    line = ["emulator", "set", "--port", "1", "--throttle"]
    message = error_output(CliRunner().invoke(wain, line, standalone_mode=False))
    assert message.startswith("no emulator answers at http://127.0.0.1:1: ")


EXAMPLES: dict[str, tuple[str, Any]] = {
    "texts and numbers": (
        "id=cr-1,total=3,ownerID=111122223333",
        {"id": "cr-1", "total": 3, "ownerID": "111122223333"},
    ),
    "members": (
        "tags.team=web,tags.a.b=c,interruptible=true",
        {"tags": {"team": "web", "a.b": "c"}, "interruptible": True},
    ),
    "an empty value": ("a=,b==", {"a": "", "b": "="}),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_fields_of_a_flag(name: str) -> None:
    text, expected = EXAMPLES[name]
    assert parse_fields("reservation", text) == expected


def test_the_example_of_each_flag_can_be_parsed(running_emulator: EmulatorServer) -> None:
    """The example without optional parts in brackets, and with values for dots."""
    for flag in FLAG_EXAMPLES.keys() - {"interrupt"}:
        text = FLAG_EXAMPLES[flag].partition("[")[0].replace("cr-…", "cr-0b")
        text = text.replace("instanceType=…", "instanceType=m5.large").replace("…", "us-east-1a")
        result = run_set_command(running_emulator, f"--{flag}", text.rstrip("."))
        assert result.exit_code == 0, (flag, result.exception)
