"""`wain emulator` from its first line to its last."""

import json
import signal
from pathlib import Path

from click.testing import CliRunner
from tests.contract.client_checks.setup import create_reservation
from tests.contract.clients import HttpClient, expect_error
from tests.contract.servers import EmulatorServer, emulator_process

from wainwright.cli.main import wain
from wainwright.errors import WainError
from wainwright.manifests.problems import InvalidInput

CLOUD = """
apiVersion: wainwright.dev/v1alpha1
kind: Cloud
metadata: {name: oregon}
spec:
  region: us-west-2
  zones: [us-west-2a, us-west-2b]
  instanceTypes: ["m5.*", "m6i.large"]
  prices:
    - {instanceType: m5.large, capacityType: spot, zone: us-west-2a, price: 0.0123}
  capacityReservations:
    - {id: cr-0a1b2c, instanceType: m5.large, availabilityZone: us-west-2a, total: 4, available: 1}
"""
FAULTS = """
- {operation: DescribeVpcs, code: InternalError, status: 500, times: 1}
"""


def test_one_line_says_all_that_a_client_must_know(tmp_path: Path) -> None:
    cloud, faults = tmp_path / "cloud.yaml", tmp_path / "faults.yaml"
    cloud.write_text(CLOUD)
    faults.write_text(FAULTS)
    flags = ("--cloud", str(cloud), "--faults", str(faults), "--seed", "5", "--log")
    with emulator_process(*flags) as running:
        said = running.said
        assert said["endpoint"].startswith("http://127.0.0.1:")
        assert said["region"] == said["environment"]["AWS_REGION"] == "us-west-2"
        assert said["environment"]["AWS_ENDPOINT_URL"] == said["endpoint"]
        assert set(said["subnets"]) == {"us-west-2a", "us-west-2b"}
        door = HttpClient(said["endpoint"], said["region"])
        found = door.ask("ec2", "DescribeInstanceTypes")["InstanceTypes"]
        names = {each["InstanceType"] for each in found}
        assert {"m5.large", "m6i.large"} <= names
        assert not any(name.startswith("c5") for name in names)
        (reservation,) = door.ask("ec2", "DescribeCapacityReservations")["CapacityReservations"]
        assert reservation["CapacityReservationId"] == "cr-0a1b2c"
        assert reservation["AvailableInstanceCount"] == 1
        assert expect_error(door, "ec2", "DescribeVpcs") == ("InternalError", 500)
        assert door.ask("ec2", "DescribeVpcs")["Vpcs"]
        door.close()
        code, errors = running.stop()
    assert code == 0
    lines = errors.splitlines()
    assert len(lines) == 4
    assert " 200 ec2 DescribeInstanceTypes " in lines[0]
    assert " 500 InternalError ec2 DescribeVpcs " in lines[2]


def test_the_state_is_kept_and_the_account_goes_on(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    with emulator_process("--state", str(state), "--throttle") as running:
        first = running.said
        door = HttpClient(first["endpoint"])
        identity = create_reservation(door, 2)
        door.close()
        assert running.stop()[0] == 0
    saved = json.loads(state.read_bytes())
    assert saved["account"]["cluster"] == "wain"
    with emulator_process("--state", str(state)) as running:
        again = running.said
        assert again["subnets"] == first["subnets"]
        assert again["queueURL"].startswith(again["endpoint"])
        door = HttpClient(again["endpoint"])
        (found,) = door.ask("ec2", "DescribeCapacityReservations")["CapacityReservations"]
        assert found["CapacityReservationId"] == identity
        door.close()
        running.child.send_signal(signal.SIGINT)
        assert running.child.wait(30) == 0


def refused(*arguments: str) -> WainError:
    """Said by the command itself, in this process; `main` prints it and ends with its exit code."""
    result = CliRunner().invoke(wain, ["emulator", *arguments], standalone_mode=False)
    assert result.stdout == ""
    assert isinstance(result.exception, WainError), result.exception
    assert result.exception.exit_code == 2
    return result.exception


def test_a_cloud_that_cannot_be_used(tmp_path: Path) -> None:
    cloud = tmp_path / "cloud.yaml"
    cloud.write_text(CLOUD.replace("us-west-2b", "us-west-2z"))
    error = refused("--port", "0", "--cloud", str(cloud))
    assert isinstance(error, InvalidInput)
    (problem,) = error.report.errors
    assert (problem.file, problem.line) == (str(cloud), 7)
    assert "us-west-2z" in problem.message


def test_a_state_that_cannot_be_used(tmp_path: Path) -> None:
    wrong = tmp_path / "state.json"
    wrong.write_text("{")
    error = refused("--port", "0", "--state", str(wrong))
    assert error.message.startswith("this is no saved emulator")
    error = refused("--port", "0", "--state", str(tmp_path / "none" / "state.json"))
    assert "cannot be written" in error.message


def test_a_port_that_is_taken(served: EmulatorServer) -> None:
    port = served.endpoint.rpartition(":")[2]
    assert refused("--port", port).message.startswith(f"port {port} cannot be used: ")
