"""A fixed set of seeds; `make fuzz` takes new ones."""

from pathlib import Path
from random import Random

import pytest
from tests.fuzz.__main__ import main
from tests.fuzz.command_lines import (
    BOUNDS,
    COMMANDS,
    LEFT_OUT,
    OF_A_CLUSTER,
    SCENARIO_COMMANDS,
    WRITTEN,
    command_line,
    commands,
)
from tests.fuzz.commands import fuzz_command, replay, run_command, steering_lines
from tests.fuzz.emulator_calls import fuzz_emulator
from tests.fuzz.inputs import ROOT, intact_input, sources
from tests.fuzz.readers import fuzz_reader

BATCHES = 20
COMMANDS_PER_BATCH = 80
ACCOUNTS_PER_BATCH = 2
READERS = 400
POD = "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: a, image: b}]}}"


@pytest.mark.parametrize("batch", range(BATCHES))
def test_every_command_ends_as_documented_whatever_it_is_given(batch: int, tmp_path: Path) -> None:
    findings = []
    for number in range(COMMANDS_PER_BATCH):
        folder = tmp_path / f"{number}"
        folder.mkdir()  # of its own, as `--seed` replays it
        findings.append(fuzz_command(f"{batch}-{number}", folder))
    found = [f"{each}\nreplay: {replay(f'command:{each.seed}')}" for each in findings if each]
    assert not found, "\n\n".join(found)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_no_call_and_no_request_is_an_internal_error(batch: int) -> None:
    for number in range(ACCOUNTS_PER_BATCH):
        seed = f"{batch}-{number}"
        assert fuzz_emulator(seed) is None, replay(f"emulator:{seed}")


def test_settings_kubeconfigs_messages_and_snapshots_are_read_or_refused(tmp_path: Path) -> None:
    findings = {
        replay(f"reader:{each}"): fuzz_reader(str(each), tmp_path) for each in range(READERS)
    }
    assert {each: text for each, text in findings.items() if text is not None} == {}


# What is tried


def test_every_command_is_tried_but_the_one_that_runs_until_it_is_stopped() -> None:
    """`wain run` needs a cluster; its settings are read by the readers."""
    groups = {"explain"}
    assert {*COMMANDS, *SCENARIO_COMMANDS} == commands().keys() - groups - {"run"}


def test_what_is_left_out_are_options_that_there_are() -> None:
    names = {each.name for command in commands().values() for each in command.params}
    assert names >= {*LEFT_OUT, *WRITTEN, *OF_A_CLUSTER, *BOUNDS}


def test_options_of_every_kind_are_tried(tmp_path: Path) -> None:
    words = set[str]()
    for number in range(2000):
        random = Random(f"options {number}")
        given = intact_input(random)
        words |= {*command_line(given, "input.yaml", tmp_path, random, odd_values=1)[1]}
    tried = (
        "--from-cluster",
        "--sweep",
        "--compare",
        "--set",
        "--report",
        "--shell-state",
        "--csv",
    )
    assert words >= {
        *tried,
        "--until",
        "--steps",
        "--min-saving",
        "--allow-split",
        "--once",
        "html",
    }
    assert words >= {"--ignore-budgets", "--diff", "--price", "nan", "1e400", "\x1b[31mred\x1b[0m"}


def test_every_kind_of_input_is_among_them() -> None:
    names = [source.name for source in sources()]
    for part in ("reserved-then-spot", "sale-day", "scenarios/planning", "manifests/builtin"):
        assert any(part in name for name in names), part


# The judge itself


def test_an_undocumented_exit_code_is_a_finding(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.yaml")
    assert run_command("validate", ("validate", missing)) is None
    assert "ended with 2" in (run_command("only-success", ("validate", missing)) or "")


@pytest.mark.parametrize("text", ["a\n::error::b", "::warning::b", "\x1b[31m", "\u202e", "\x9b2J"])
def test_a_text_that_steers_a_terminal_or_a_log_is_a_finding(text: str) -> None:
    assert steering_lines("nothing\n") == []
    assert len(steering_lines(f"before\n{text}\nafter")) == 1


@pytest.mark.parametrize("command", ["emulator", "serve"])
def test_a_server_is_stopped_once_it_is_up(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    example = () if command == "emulator" else (str(ROOT / "examples" / "consolidate"),)
    arguments = (command, *example, "--port", "0")
    assert run_command("only-success", arguments) is None
    assert capsys.readouterr().out == ""


def test_standard_input_is_the_text_that_was_typed() -> None:
    assert run_command("only-success", ("validate", "-"), POD) is None
    assert "ended with 2" in (run_command("only-success", ("validate", "-"), "kind: Pod") or "")


@pytest.mark.parametrize("kind", ["command", "emulator", "reader"])
def test_a_seed_can_be_replayed_by_its_name(kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(("--seed", f"{kind}:3-5")) == 0
    assert capfd.readouterr().out == "1 seeds, 0 findings\n"
