"""`wain emulator` as a process."""

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


def test_the_first_line_has_the_connection_info(tmp_path: Path) -> None:
    cloud, faults = tmp_path / "cloud.yaml", tmp_path / "faults.yaml"
    cloud.write_text(CLOUD)
    faults.write_text(FAULTS)
    flags = ("--cloud", str(cloud), "--faults", str(faults), "--seed", "5", "--log")
    with emulator_process(*flags) as running:
        content = running.said
        assert content["endpoint"].startswith("http://127.0.0.1:")
        assert content["region"] == content["environment"]["AWS_REGION"] == "us-west-2"
        assert content["environment"]["AWS_ENDPOINT_URL"] == content["endpoint"]
        assert set(content["subnets"]) == {"us-west-2a", "us-west-2b"}
        client = HttpClient(content["endpoint"], content["region"])
        found = client.call("ec2", "DescribeInstanceTypes")["InstanceTypes"]
        names = {each["InstanceType"] for each in found}
        assert {"m5.large", "m6i.large"} <= names
        assert not any(name.startswith("c5") for name in names)
        (reservation,) = client.call("ec2", "DescribeCapacityReservations")["CapacityReservations"]
        assert reservation["CapacityReservationId"] == "cr-0a1b2c"
        assert reservation["AvailableInstanceCount"] == 1
        assert expect_error(client, "ec2", "DescribeVpcs") == ("InternalError", 500)
        assert client.call("ec2", "DescribeVpcs")["Vpcs"]
        client.close()
        code, errors = running.stop()
    assert code == 0
    lines = errors.splitlines()
    assert len(lines) == 4
    assert " 200 ec2 DescribeInstanceTypes " in lines[0]
    assert " 500 InternalError ec2 DescribeVpcs " in lines[2]


def test_the_state_file_survives_a_restart(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    with emulator_process("--state", str(state), "--throttle") as running:
        first = running.said
        client = HttpClient(first["endpoint"])
        identity = create_reservation(client, 2)
        client.close()
        assert running.stop()[0] == 0
    saved = json.loads(state.read_bytes())
    assert saved["account"]["cluster"] == "wain"
    with emulator_process("--state", str(state)) as running:
        again = running.said
        assert again["subnets"] == first["subnets"]
        assert again["queueURL"].startswith(again["endpoint"])
        client = HttpClient(again["endpoint"])
        (reservation,) = client.call("ec2", "DescribeCapacityReservations")["CapacityReservations"]
        assert reservation["CapacityReservationId"] == identity
        client.close()
        running.child.send_signal(signal.SIGINT)
        assert running.child.wait(30) == 0


def refused(*arguments: str) -> WainError:
    """The error of the command in this process; `main` prints it and sets the exit code."""
    result = CliRunner().invoke(wain, ["emulator", *arguments], standalone_mode=False)
    assert result.stdout == ""
    assert isinstance(result.exception, WainError), result.exception
    assert result.exception.exit_code == 2
    return result.exception


def test_an_invalid_cloud_is_an_error(tmp_path: Path) -> None:
    cloud = tmp_path / "cloud.yaml"
    cloud.write_text(CLOUD.replace("us-west-2b", "us-west-2z"))
    error = refused("--port", "0", "--cloud", str(cloud))
    assert isinstance(error, InvalidInput)
    (problem,) = error.report.errors
    assert (problem.file, problem.line) == (str(cloud), 7)
    assert "us-west-2z" in problem.message


def test_an_unreadable_state_file_is_an_error(tmp_path: Path) -> None:
    wrong = tmp_path / "state.json"
    wrong.write_text("{")
    error = refused("--port", "0", "--state", str(wrong))
    assert error.message.startswith("this is not a saved emulator")
    error = refused("--port", "0", "--state", str(tmp_path / "none" / "state.json"))
    assert "cannot be written" in error.message


def test_a_port_in_use_is_an_error(served: EmulatorServer) -> None:
    port = served.endpoint.rpartition(":")[2]
    assert refused("--port", port).message.startswith(f"port {port} cannot be used: ")
