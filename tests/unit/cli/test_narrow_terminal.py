"""Sentences in a terminal of 80 columns: they wrap between words; what continues is indented."""

import sys

import pytest
from tests.support.terminal import Terminal

from wainwright.cli.printing import wrap_line

WAIN = [sys.executable, "-c", "from wainwright.cli.main import main; main()"]
PENDING = ("examples/pending-pods", "--region", "us-east-1")


def screen_of(*arguments: str, last: str) -> list[str]:
    """Once its last line is there."""
    terminal = Terminal([*WAIN, *arguments], 80, 60)
    try:
        lines = [line.rstrip() for line in terminal.wait_for(last)]
        terminal.end()
        return lines
    finally:
        terminal.close()


@pytest.mark.parametrize("command", [("plan",), ("explain", "pod", "research/training-0")])
def test_a_reason_that_does_not_fit_continues_further_to_the_right(command: tuple[str]) -> None:
    lines = screen_of(*command, *PENDING, last="other NodePool: general")
    fix = next(n for n, line in enumerate(lines) if line.startswith("  fix: "))
    assert lines[fix + 1].startswith("      ")
    assert lines[fix + 1].endswith("the plan then costs $7.560/h")


def test_names_in_a_note_are_not_broken() -> None:
    lines = screen_of("consolidate", "examples/consolidate", last="and 4 more")
    note = next(n for n, line in enumerate(lines) if line.startswith("note: 7 nodes"))
    assert lines[note + 1] == "    ip-10-0-1-11.us-west-2.compute.internal,"


def test_wrapped_lines_have_the_same_words() -> None:
    text = "  fix: " + "word " * 40 + "a-name-longer-than-the-line.us-west-2.compute.internal"
    assert " ".join(wrap_line(text, 40)).split() == text.split()
    assert all(len(line) <= 40 or "name" in line for line in wrap_line(text, 40))
