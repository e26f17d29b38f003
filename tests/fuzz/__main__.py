"""`make fuzz SECONDS=60`: random seeds until the time is over; every finding with its input."""

import argparse
import sys
import tempfile
import time
from pathlib import Path
from random import SystemRandom

from tests.fuzz.commands import fuzz_command
from tests.fuzz.emulator_calls import fuzz_emulator
from tests.fuzz.readers import fuzz_reader


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", help="a single seed, as a finding names it")
    parser.add_argument("--first", type=int, help="the first of consecutive seeds")
    options = parser.parse_args()
    if options.seed is not None:
        finding = _run(options.seed)
        return _report([] if finding is None else [finding], 1)
    first = SystemRandom().randrange(10**9) if options.first is None else options.first
    end, number, findings = time.monotonic() + options.seconds, 0, []
    _say(f"seeds from {first}")
    while time.monotonic() < end:
        finding = _run(f"{first + number}")
        number += 1
        findings += [] if finding is None else [finding]
    return _report(findings, number)


def _run(seed: str) -> str | None:
    """Every twentieth seed is a row of calls to the emulator, every tenth is for other readers."""
    if seed.endswith(("00", "20", "40", "60", "80")):
        problem = fuzz_emulator(seed)
        text = None if problem is None else f"seed {seed}, emulator: {problem}"
    elif seed.endswith("5"):
        with tempfile.TemporaryDirectory() as folder:
            problem = fuzz_reader(seed, Path(folder))
        text = None if problem is None else f"seed {seed}, reader: {problem}"
    else:
        with tempfile.TemporaryDirectory() as folder:
            finding = fuzz_command(seed, Path(folder))
        text = None if finding is None else f"{finding}\n--- input\n{finding.text}\n---"
    if text is not None:
        _say(f"{text}\n")
    return text


def _report(findings: list[str], number: int) -> int:
    _say(f"{number:,} seeds, {len(findings):,} findings")
    return 1 if findings else 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
