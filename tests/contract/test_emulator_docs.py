"""The examples of docs/emulator.md work; the AWS CLI session has its own test."""

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from scripts import update_emulator_docs as docs
from tests.contract.servers import EmulatorServer, serve_emulator

from wainwright.cli.main import wain
from wainwright.emulator.http.admin_api import client_environment

STALE = "run: .venv/bin/python scripts/update_emulator_docs.py"


@pytest.fixture(scope="module")
def alone() -> Iterator[EmulatorServer]:
    with serve_emulator() as created:
        yield created


def test_the_documented_first_line() -> None:
    assert docs.block("announcement") == docs.announcement_text(), STALE


def test_the_documented_operations() -> None:
    assert docs.documented_operations() == docs.operations(), STALE


def test_the_documented_program(alone: EmulatorServer) -> None:
    where = client_environment(alone.endpoint, "us-east-1")
    assert docs.block("printed") == docs.program_output(where), STALE


@pytest.mark.parametrize("line", docs.block("changes").splitlines())
def test_the_documented_changes(line: str, alone: EmulatorServer) -> None:
    _, *arguments = shlex.split(line)
    result = CliRunner().invoke(
        wain, arguments, env={"AWS_ENDPOINT_URL": alone.endpoint}, standalone_mode=False
    )
    assert result.exit_code == 0, result.exception


def test_the_documented_patch(alone: EmulatorServer, tmp_path: Path) -> None:
    file = tmp_path / "patch.yaml"
    file.write_text(docs.block("patch"))
    line = ["emulator", "set", "--endpoint", alone.endpoint, str(file)]
    result = CliRunner().invoke(wain, line, standalone_mode=False)
    assert result.exit_code == 0, result.exception
    assert alone.cloud.services.quota.state.limits.onDemand == {"standard": 64, "p": 0}
