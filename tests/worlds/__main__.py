"""Runs the properties of laws 23 and 25 on consecutive seeds, in processes of random hash seeds.

The order of sets and dictionaries of texts differs with the hash seed, so each batch of worlds has
a process of its own. A finding names the property, the world's seed and the hash seed.
"""

import argparse
import importlib
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from random import SystemRandom

import pytest

BATCH = 1000
MODULES = {23: "tests.properties.test_kube_scheduler", 25: "tests.properties.test_node_removal"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=2000, help="worlds in all, of both laws")
    parser.add_argument("--first", type=int, help="the first seed; random without it")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--batch", nargs=2, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.batch is not None:
        return run_batch(*options.batch)
    first = SystemRandom().randrange(10**9) if options.first is None else options.first
    _say(f"{options.worlds:,} worlds, seeds from {first}")
    starts = range(first, first + options.worlds, BATCH)
    done = findings = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for number, text in pool.map(_in_a_process, starts):
            done, findings = done + BATCH, findings + number
            _say(f"{text}{done:,} worlds, {findings:,} findings")
    return 1 if findings else 0


def _in_a_process(start: int) -> tuple[int, str]:
    """How many findings a batch has, and what it says of them."""
    hash_seed = str(SystemRandom().randrange(2**32))
    command = [sys.executable, "-m", "tests.worlds", "--batch", str(start), str(BATCH)]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return 0, ""
    number = max(1, done.stdout.count("finding: "))
    ended = f"seeds from {start} with PYTHONHASHSEED={hash_seed} ended with {done.returncode}"
    return number, f"{ended}\n{done.stdout}{done.stderr}"


def run_batch(start: int, count: int) -> int:
    """Each seed is a world of the next property, so that all of them have equally many."""
    properties = list(properties_of_laws())
    findings = 0
    for seed in range(start, start + count):
        name, check = properties[seed % len(properties)]
        try:
            check(seed)
        except (Exception, pytest.fail.Exception):  # noqa: BLE001  # whatever it is
            findings += 1
            _say(f"finding: {name}({seed})\n{traceback.format_exc()}")
    return min(findings, 1)


def properties_of_laws() -> Iterator[tuple[str, Callable[[int], None]]]:
    """The tests of the two laws, without hypothesis around them."""
    for law, module in MODULES.items():
        for name, test in vars(importlib.import_module(module)).items():
            if name.startswith(f"test_law_{law}_"):
                yield name, test.hypothesis.inner_test


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
