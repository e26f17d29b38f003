"""Law 2 at the border: what commands print does not hang on the order in which sets are walked."""

import os
import subprocess
import sys

from tests.support.table import TESTS

PRINT = """
from click.testing import CliRunner
from wainwright.cli.main import wain

NOW = ("--now", "2026-01-31T12:00:00Z")
for arguments in (
    ("plan", "examples/weights-gpu-families", "-o", "json", *NOW),
    ("plan", "examples/weights-gpu-families", "-o", "nodeclaims", *NOW),
    ("plan", "--diff", "examples/reserved-only", "examples/reserved-then-spot", "-o", "json", *NOW),
    ("reservations", "examples/reserved-only", "-o", "json", *NOW),
    ("explain", "type", "p4d.24xlarge", "-o", "json"),
    ("validate", "examples/mistakes", "-o", "json"),
):
    print(CliRunner().invoke(wain, arguments).stdout)
"""


def printed(seed: str) -> bytes:
    environment = {
        **os.environ,
        "PYTHONHASHSEED": seed,
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, "-c", PRINT]
    done = subprocess.run(
        command, env=environment, cwd=TESTS.parent, capture_output=True, check=True
    )
    return done.stdout


def test_law_2_another_hash_seed_prints_the_same_bytes() -> None:
    first, second = printed("1"), printed("2")
    assert first == second
    assert first.count(b'"apiVersion"') >= 3
