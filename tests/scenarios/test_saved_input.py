"""`wain plan --save-input FILE`, then `wain plan FILE`: the same output without the manifests."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from wainwright.cli.main import wain
from wainwright.errors import InvalidInputError

ROOT = Path(__file__).parent.parent.parent
NOW = "2026-01-31T12:00:00Z"
EXAMPLES = sorted(path.parent for path in ROOT.glob("examples/*/nodepool.yaml"))
INPUTS = [folder for folder in EXAMPLES if folder.name != "mistakes"]
OUTPUTS = ("table", "json", "yaml", "markdown", "nodeclaims")


def plan(*arguments: str) -> Result:
    return CliRunner().invoke(wain, ["plan", *arguments], standalone_mode=False)


def error_of(result: Result) -> str:
    """The text of a user's error, which ends in exit code 2."""
    assert isinstance(result.exception, InvalidInputError), result.exception
    return str(result.exception)


def saved(folder: Path, file: Path, *arguments: str) -> Result:
    return plan(str(folder), "--now", NOW, "--save-input", str(file), *arguments)


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("folder", INPUTS, ids=lambda folder: folder.name)
def test_a_saved_input_gives_the_same_bytes(folder: Path, output: str, tmp_path: Path) -> None:
    file = tmp_path / "input.json"
    first = saved(folder, file, "-o", output)
    again = plan(str(file), "-o", output)
    assert (again.return_value, again.stdout) == (first.return_value, first.stdout)
    assert again.stderr == first.stderr


def test_the_options_of_the_plan_are_saved(tmp_path: Path) -> None:
    file = tmp_path / "input.json"
    folder = ROOT / "examples" / "spot-diversity"
    first = saved(folder, file, "-o", "json", "--packing", "cost", "--strict-weights")
    assert "packing" in json.loads(first.stdout)["summary"]
    assert plan(str(file), "-o", "json").stdout == first.stdout


def test_saving_does_not_change_the_output(tmp_path: Path) -> None:
    folder = ROOT / "examples" / "reserved-then-spot"
    plain = plan(str(folder), "--now", NOW)
    assert saved(folder, tmp_path / "input.json").stdout == plain.stdout


def test_saved_inputs_can_be_compared(tmp_path: Path) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    saved(ROOT / "examples" / "reserved-then-spot", old)
    saved(ROOT / "examples" / "reserved-only", new)
    result = plan("--diff", str(old), str(old))
    assert result.return_value == 0
    assert plan("--diff", str(old), str(new)).return_value in (1, 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--packing", "cost"], "has its own options"),
        (["--region", "us-east-1"], "has its own options"),
        ([str(INPUTS[0])], "is a whole input"),
    ],
)
def test_a_saved_input_takes_no_further_input(
    arguments: list[str], message: str, tmp_path: Path
) -> None:
    file = tmp_path / "input.json"
    saved(INPUTS[0], file)
    assert message in error_of(plan(str(file), *arguments))


def test_a_damaged_file_is_an_error_that_names_the_field(tmp_path: Path) -> None:
    file = tmp_path / "input.json"
    saved(INPUTS[0], file)
    document = json.loads(file.read_bytes())
    document["snapshot"]["pods"][0]["requests"] = "much"
    file.write_bytes(json.dumps(document, separators=(",", ":")).encode())
    error = error_of(plan(str(file)))
    assert "`$.snapshot.pods[0].requests`" in error
    assert "--save-input FILE" in error


def test_a_truncated_file_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "input.json"
    saved(INPUTS[0], file)
    file.write_bytes(file.read_bytes()[:-200])
    assert "is not an input that this version" in error_of(plan(str(file)))


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    result = saved(INPUTS[0], tmp_path / "missing" / "input.json")
    assert "cannot be written" in error_of(result)
