"""The script that makes the committed catalogue."""

import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from wainwright.catalogue.instancetypes import instance_type_info

ROOT = Path(__file__).parents[3]
MADE_FROM = instance_type_info.load_instance_type_table().source


def installed() -> str:
    try:
        return f"moto {version('moto')}"
    except PackageNotFoundError:
        return "no moto"


@pytest.mark.skipif(
    installed() != MADE_FROM, reason=f"pip install '{MADE_FROM.replace(' ', '==')}'"
)
@pytest.mark.parametrize("seed", ["0", "1"])
def test_the_script_always_generates_the_committed_files(seed: str) -> None:
    done = subprocess.run(
        [sys.executable, "scripts/make_catalogue.py", "--check"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
