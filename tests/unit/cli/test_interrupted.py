"""Ctrl-C: one word and exit code 130, wherever a command is at that moment."""

import subprocess
import sys

import pytest
from tests.support.table import TESTS

EXAMPLE = TESTS.parent / "examples" / "reserved-then-spot"
PROGRAM = """\
import os, signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)
_, folder, last = sys.argv


def interrupt(event, details):
    if event == "import" and details[0] == last:
        os.kill(os.getpid(), signal.SIGINT)


from wainwright.cli.main import main

sys.addaudithook(interrupt)
sys.argv = ["wain", "plan", folder]
main()
"""


@pytest.mark.parametrize(
    "loaded",
    [
        pytest.param("logging", id="while the engine for CEL starts, which is not Python"),
        "wainwright.core.plan",
    ],
)
def test_it_ends_in_a_word(loaded: str) -> None:
    command = [sys.executable, "-c", PROGRAM, str(EXAMPLE), loaded]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "", "interrupted")
