"""A fixed set of seeds; `make fuzz` takes new ones."""

from pathlib import Path

import pytest
from tests.fuzz.commands import fuzz_command, run_command
from tests.fuzz.emulator_calls import fuzz_emulator
from tests.fuzz.inputs import sources
from tests.fuzz.readers import fuzz_reader

BATCHES = 20
COMMANDS_PER_BATCH = 80
ACCOUNTS_PER_BATCH = 2
READERS = 400


@pytest.mark.parametrize("batch", range(BATCHES))
def test_every_command_ends_as_documented_whatever_it_is_given(batch: int, tmp_path: Path) -> None:
    seeds = (f"{batch}-{number}" for number in range(COMMANDS_PER_BATCH))
    findings = [finding for seed in seeds if (finding := fuzz_command(seed, tmp_path)) is not None]
    assert not findings, "\n\n".join(map(str, findings))


@pytest.mark.parametrize("batch", range(BATCHES))
def test_no_call_and_no_request_is_an_internal_error(batch: int) -> None:
    for number in range(ACCOUNTS_PER_BATCH):
        seed = f"{batch}-{number}"
        assert fuzz_emulator(seed) is None, seed


def test_settings_kubeconfigs_messages_and_snapshots_are_read_or_refused(tmp_path: Path) -> None:
    findings = [fuzz_reader(str(number), tmp_path) for number in range(READERS)]
    assert [each for each in findings if each is not None] == []


def test_every_kind_of_input_is_among_them() -> None:
    names = [source.name for source in sources()]
    for part in ("reserved-then-spot", "sale-day", "scenarios/planning", "manifests/builtin"):
        assert any(part in name for name in names), part


def test_a_command_that_steers_the_terminal_or_fails_is_found(tmp_path: Path) -> None:
    """The judge itself: an undocumented code is a finding."""
    missing = str(tmp_path / "missing.yaml")
    assert run_command("validate", ("validate", missing)) is None
    assert "ended with 2" in (run_command("only-success", ("validate", missing)) or "")
