"""What docs/emulator.md shows is what happens; the session of the AWS CLI has a test of its own."""

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from scripts import emulator_docs as docs
from tests.contract.servers import Emulator, emulator

from wainwright.cli.main import wain
from wainwright.emulator.http.announcement import environment

STALE = "run: .venv/bin/python scripts/emulator_docs.py"


@pytest.fixture(scope="module")
def alone() -> Iterator[Emulator]:
    with emulator() as made:
        yield made


def test_the_announcement() -> None:
    assert docs.block("announcement") == docs.announced(), STALE


def test_the_operations() -> None:
    assert docs.listed() == docs.operations(), STALE


def test_the_program(alone: Emulator) -> None:
    where = environment(alone.endpoint, "us-east-1")
    assert docs.block("printed") == docs.printed(where), STALE


@pytest.mark.parametrize("line", docs.block("changes").splitlines())
def test_the_changes(line: str, alone: Emulator) -> None:
    _, *arguments = shlex.split(line)
    result = CliRunner().invoke(
        wain, arguments, env={"AWS_ENDPOINT_URL": alone.endpoint}, standalone_mode=False
    )
    assert result.exit_code == 0, result.exception


def test_the_patch(alone: Emulator, tmp_path: Path) -> None:
    file = tmp_path / "patch.yaml"
    file.write_text(docs.block("patch"))
    line = ["emulator", "set", "--endpoint", alone.endpoint, str(file)]
    result = CliRunner().invoke(wain, line, standalone_mode=False)
    assert result.exit_code == 0, result.exception
    assert alone.cloud.parts.quota.state.limits.onDemand == {"standard": 64, "p": 0}
