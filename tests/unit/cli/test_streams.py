"""Output that nobody takes: a closed pipe, a full disk, a stream that was closed before."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.table import TESTS

ROOT = TESTS.parent
STORY = "examples/reserved-then-spot"
WAIN = (sys.executable, "-c", "from wainwright.cli.main import main; main()")
COMMANDS = [
    ("plan", STORY),
    ("plan", STORY, "-o", "json"),
    ("explain", "pod", "web-0", STORY),
    ("--help",),
]


def started(arguments: tuple[str, ...], stdout: int | None) -> tuple[int, str]:
    """Exit code and standard error; a stdout of None is closed."""
    line = list(map(str, (*WAIN, *arguments)))
    if stdout is None:
        line = ["sh", "-c", 'exec "$@" >&-', "sh", *line]
    done = subprocess.run(
        line, cwd=ROOT, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_reader_who_has_had_enough_is_not_told_that_a_pod_has_no_place(
    arguments: tuple[str, ...],
) -> None:
    reading, to = os.pipe()
    os.close(reading)
    try:
        assert started(arguments, to) == (141, "")
    finally:
        os.close(to)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, as Linux has it")
@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_full_disk_is_told_in_one_line(arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        code, told = started(arguments, full.fileno())
    expected = "error: standard output cannot be written: No space left on device\n"
    assert (code, told) == (2, expected)


def test_a_closed_standard_output_is_told_in_one_line() -> None:
    code, told = started(("plan", STORY), None)
    assert (code, told) == (2, "error: standard output cannot be written: it is closed\n")


def test_without_a_standard_error_the_plan_is_made_all_the_same() -> None:
    line = ["sh", "-c", 'exec "$@" 2>&-', "sh", *WAIN, "plan", STORY]
    done = subprocess.run(line, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0
    assert "7 of 7 pods have a place" in done.stdout
