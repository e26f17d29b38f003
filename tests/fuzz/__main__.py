"""`make fuzz SECONDS=60`: random seeds until the time is over; every finding with its input."""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from random import SystemRandom
from typing import Final

from tests.fuzz.commands import fuzz_command, replay
from tests.fuzz.emulator_calls import fuzz_emulator
from tests.fuzz.readers import fuzz_reader

KINDS: Final = ("command", "emulator", "reader")


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", help="a single seed, such as command:17, as a finding names it")
    parser.add_argument("--first", type=int, help="the first of consecutive seeds")
    parser.add_argument("--only", choices=KINDS, help="default: all, commands most often")
    options = parser.parse_args(words)
    if options.seed is not None:
        return _report([] if _run(options.seed) is None else [options.seed], 1)
    first = SystemRandom().randrange(10**9) if options.first is None else options.first
    end, findings = time.monotonic() + options.seconds, []
    _say(f"seeds from {first}")
    for number in count(first):
        if time.monotonic() >= end:
            break
        seed = f"{options.only or _kind(number)}:{number}"
        findings += [] if _run(seed) is None else [seed]
    return _report(findings, number - first)


def _kind(number: int) -> str:
    """Every twentieth seed is a row of calls to the emulator, every tenth is for other readers."""
    if number % 20 == 0:
        return "emulator"
    return "reader" if number % 10 == 5 else "command"


def _run(seed: str) -> str | None:
    kind, _, rest = seed.partition(":")
    with tempfile.TemporaryDirectory() as folder:
        problem = _problem(kind, rest, Path(folder))
    if problem is not None:
        _say(f"{problem}\nreplay: {replay(seed)}\n")
    return problem


def _problem(kind: str, seed: str, folder: Path) -> str | None:
    match kind:
        case "emulator":
            return fuzz_emulator(seed)
        case "reader":
            return fuzz_reader(seed, folder)
        case "command":
            finding = fuzz_command(seed, folder)
            return None if finding is None else f"{finding}\n--- input\n{finding.text}\n---"
        case _:
            raise SystemExit(f"a seed begins with one of {', '.join(KINDS)}, as in command:17")


def _report(findings: list[str], number: int) -> int:
    _say(f"{number:,} seeds, {len(findings):,} findings", *map(replay, findings))
    return 1 if findings else 0


def _say(*lines: str) -> None:
    for line in lines:
        sys.stdout.buffer.write(f"{line}\n".encode(errors="backslashreplace"))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
