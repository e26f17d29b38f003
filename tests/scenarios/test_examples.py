"""The examples: each folder's plan is the expected one, and every text shows what is printed today.

`python -m tests.scenarios.test_examples` writes the expected plans and the shown output anew, for
review in the diff.
"""

import os
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from wainwright.cli.main import wain

ROOT = Path(__file__).parent.parent.parent
STORIES = sorted(
    path.parent for path in ROOT.glob("examples/*/nodepool.yaml") if path.parent.name != "mistakes"
)
EXPECTED = "expected.plan"
"""JSON, under a name that is no manifest's: a folder is read with everything in it."""
NOW = "2026-01-31T12:00:00Z"
BY_OTHER_TESTS = {"emulator.md", "library.md", "simulate.md"}
"""Their outputs need a server, are of Python, or of files that the page makes up."""
TEXTS = [
    *(folder / "README.md" for folder in STORIES),
    ROOT / "examples" / "consolidate" / "README.md",
    *(
        path
        for path in sorted((ROOT / "docs").glob("**/*.md"))
        if path.name not in BY_OTHER_TESTS and "\n$ wain " in path.read_text(encoding="utf-8")
    ),
]
SHOWN = re.compile(r"^```\n(\$ wain [^`]*?)^```$", re.MULTILINE)


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the texts tell the reader to be, with no width but that of a pipe."""
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.mark.parametrize("folder", STORIES, ids=lambda folder: folder.name)
def test_the_plan_of_an_example_is_the_expected_one(folder: Path) -> None:
    assert planned(folder) == (folder / EXPECTED).read_text(encoding="utf-8")


@pytest.mark.parametrize("folder", STORIES, ids=lambda folder: folder.name)
def test_an_api_server_would_accept_an_example_without_a_warning(folder: Path) -> None:
    result = run("validate", relative_path(folder))
    assert (result.return_value, result.stdout.count("\n")) == (0, 1)
    assert result.stdout.endswith(": all good\n")


@pytest.mark.parametrize("folder", STORIES, ids=lambda folder: folder.name)
def test_the_readme_of_an_example_shows_its_plan(folder: Path) -> None:
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert f"```\n$ wain plan {relative_path(folder)}\n" in text


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_text_shows_what_is_printed_today(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text == refreshed(text)


def relative_path(folder: Path) -> str:
    return folder.relative_to(ROOT).as_posix()


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(wain, arguments, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


def planned(folder: Path) -> str:
    return run("plan", relative_path(folder), "-o", "json", "--now", NOW).stdout


def refreshed(text: str) -> str:
    """The text with every command that it shows followed by today's output."""
    return SHOWN.sub(lambda block: f"```\n{shown(block[1])}```", text)


def shown(block: str) -> str:
    command = block.partition("\n")[0]
    result = run(*shlex.split(command)[2:])
    code = f"(exit code {result.return_value})\n" if result.return_value else ""
    return f"{command}\n{trimmed(result.output)}{code}"


def trimmed(output: str) -> str:
    return "".join(f"{line.rstrip()}\n" for line in output.splitlines())


def main() -> None:
    os.chdir(ROOT)
    for folder in STORIES:
        (folder / EXPECTED).write_text(planned(folder), encoding="utf-8")
    for path in TEXTS:
        text = path.read_text(encoding="utf-8")
        path.write_text(refreshed(text), encoding="utf-8")


if __name__ == "__main__":
    main()
