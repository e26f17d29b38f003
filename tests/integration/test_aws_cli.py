"""The AWS command line, from its own package, against `wain emulator`."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scripts import update_emulator_docs
from tests.contract.servers import emulator_process
from tests.support.processes import skip_or_fail


class Aws:
    """The command, pointed at an emulator by its environment and by nothing else."""

    def __init__(self, command: Path, said: dict[str, Any], home: Path) -> None:
        self.said = said
        self._command = command
        kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        proxies = {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        self._environment = {**kept, **proxies, "HOME": str(home), **said["environment"]}

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [self._command, *arguments, "--output", "json"],
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def __call__(self, *arguments: str) -> Any:
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout or "{}")


@pytest.fixture(scope="module")
def command() -> Path:
    """In an environment of its own, which `make test` and `make awscli` set up."""
    home = Path(f"{sys.prefix}-awscli")
    if not (home / ".made").exists():
        skip_or_fail("the AWS CLI is not installed: `make awscli` installs it")
    return home / "bin" / "aws"


@pytest.fixture(scope="module")
def aws(command: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aws]:
    with emulator_process() as running:
        yield Aws(command, running.said, tmp_path_factory.mktemp("home"))


def test_the_session_in_the_documentation(command: Path, tmp_path: Path) -> None:
    assert command.parent == update_emulator_docs.AWS
    with emulator_process() as running:
        where = {**running.said["environment"], "HOME": str(tmp_path)}
        shown = update_emulator_docs.session_output(where)
    stale = "run: .venv/bin/python scripts/update_emulator_docs.py"
    assert update_emulator_docs.block("session") == shown, stale


def image(aws: Aws) -> str:
    found = aws(
        *("ssm", "get-parameter", "--name"),
        "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/standard/recommended/image_id",
    )
    return str(found["Parameter"]["Value"])


def test_reservations_are_created_and_described(aws: Aws) -> None:
    made = aws(
        *("ec2", "create-capacity-reservation", "--instance-type", "c5.large"),
        *("--instance-platform", "Linux/UNIX", "--availability-zone", "us-east-1a"),
        *("--instance-count", "3", "--instance-match-criteria", "targeted"),
        "--tag-specifications",
        "ResourceType=capacity-reservation,Tags=[{Key=team,Value=web}]",
    )["CapacityReservation"]
    assert made["State"] == "active"
    found = aws(
        *("ec2", "describe-capacity-reservations", "--filters", "Name=tag:team,Values=web"),
        *("--query", "CapacityReservations[].[CapacityReservationId,AvailableInstanceCount]"),
    )
    assert found == [[made["CapacityReservationId"], 3]]


def test_a_fleet_is_run_and_its_instances_are_listed(aws: Aws) -> None:
    data = {
        "ImageId": image(aws),
        "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": [aws.said["securityGroup"]]}],
    }
    aws(
        *("ec2", "create-launch-template", "--launch-template-name", "cli"),
        *("--launch-template-data", json.dumps(data)),
    )
    configs = [
        {
            "LaunchTemplateSpecification": {"LaunchTemplateName": "cli", "Version": "$Latest"},
            "Overrides": [
                {"InstanceType": name, "SubnetId": subnet}
                for name in ("m5.4xlarge", "m5.large")
                for subnet in list(aws.said["subnets"].values())[:3]
            ],
        }
    ]
    fleet = aws(
        *("ec2", "create-fleet", "--type", "instant"),
        *("--launch-template-configs", json.dumps(configs)),
        "--target-capacity-specification",
        "TotalTargetCapacity=2,DefaultTargetCapacityType=on-demand",
        *("--on-demand-options", "AllocationStrategy=lowest-price"),
        *("--tag-specifications", "ResourceType=instance,Tags=[{Key=fleet,Value=cli}]"),
    )
    (made,) = fleet["Instances"]
    assert made["InstanceType"] == "m5.large"
    assert fleet["Errors"] == []
    aws("ec2", "wait", "instance-running", "--instance-ids", *made["InstanceIds"])
    found = aws(
        *("ec2", "describe-instances", "--filters", "Name=tag:fleet,Values=cli"),
        *("--query", "Reservations[].Instances[].[InstanceId,State.Name]"),
    )
    assert sorted(found) == [[identity, "running"] for identity in sorted(made["InstanceIds"])]
    ended = aws("ec2", "terminate-instances", "--instance-ids", *made["InstanceIds"])
    states = {each["CurrentState"]["Name"] for each in ended["TerminatingInstances"]}
    assert states == {"shutting-down"}


def test_every_page_is_fetched(aws: Aws) -> None:
    names = aws(
        *("ec2", "describe-instance-types", "--page-size", "100"),
        *("--query", "InstanceTypes[].InstanceType"),
    )
    assert len(names) > 1000
    assert len(set(names)) == len(names)


def test_errors_are_reported_as_those_of_aws(aws: Aws) -> None:
    done = aws.run("ec2", "describe-instances", "--instance-ids", "i-0123456789abcdef0")
    assert done.returncode in (254, 255)
    assert "(InvalidInstanceID.NotFound)" in done.stderr
    done = aws.run("eks", "describe-cluster", "--name", "none")
    assert "(ResourceNotFoundException)" in done.stderr
    # Version 1 of the command goes to AWS for queues, unless it is told otherwise each time.
    here = ("--endpoint-url", aws.said["endpoint"])
    done = aws.run("sqs", "get-queue-url", "--queue-name", "none", *here)
    assert "NonExistentQueue" in done.stderr
