"""A program run under different hash seeds: what it prints must not depend on them."""

import os
import subprocess
import sys


def printed(program: str, seed: str) -> bytes:
    """What the program prints where sets and dictionaries are in the order of this seed."""
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        check=True,
    ).stdout
