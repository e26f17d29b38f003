"""One command on one input, in process, and what is wrong with how it ended."""

import io
import os
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any, Final

from tests.fuzz.inputs import FuzzInput, make_input
from tests.support.manifest_tables import TESTS

from wainwright.cli.main import TRACEBACK_VARIABLE, main

MAX_CPU_SECONDS: Final = 10
MAX_MEMORY: Final = 2**30
NOW: Final = ("--now", "2026-01-31T12:00:00Z")
DOCUMENTED_CODES: Final = {
    "plan": (0, 1, 2),
    "diff": (0, 1, 2, 3),
    "explain": (0, 1, 2),
    "validate": (0, 2),
    "convert": (0, 2),
    "consolidate": (0, 2, 3),
    "check": (0, 2),
    "simulate": (0, 1, 2),
    "reservations": (0, 2),
    "catalog": (0, 2),
    "only-success": (0,),  # no command: for a test of the judge
}
SIMULATED: Final = "4m"
OPTIONS: Final = (
    *((), (), (), (), ("-q",), ("--packing", "cost"), ("--preference-policy", "Ignore")),
    *(("--replicas", "max"), ("--strict-weights",), ("--min-values-policy", "BestEffort")),
    *(("--cluster-limit", "cpu=10"), ("--feature-gate", "StaticCapacity=true")),
    *(("--built-in-pool", "system"), ("--verbose",)),
)


class TooSlow(BaseException):
    """Raised into a command that runs over; no handler of an Exception keeps it."""


@dataclass(frozen=True)
class Finding:
    """A command that did not end as documented."""

    seed: str
    arguments: tuple[str, ...]
    source: str
    problem: str
    text: str

    def __str__(self) -> str:
        return f"seed {self.seed}, {self.source}: wain {' '.join(self.arguments)}\n{self.problem}"


def fuzz_command(seed: str, folder: Path) -> Finding | None:
    """The finding of this seed, if there is one."""
    random = Random(seed)
    given = make_input(random)
    file = folder / f"input.{given.suffix}"
    file.write_text(given.text, "utf-8", newline="")
    kind, arguments = _command(given, str(file), random)
    problem = run_command(kind, arguments)
    if problem is None:
        return None
    return Finding(seed, arguments, given.source.name, problem, given.text)


def _command(given: FuzzInput, file: str, random: Random) -> tuple[str, tuple[str, ...]]:
    if given.source.is_scenario and random.random() < 0.75:
        return _simulation(file, random)
    name = random.choice(given.names)
    extra = (*random.choice(OPTIONS), *NOW)
    output = random.choice(("table", "json", "yaml", "markdown"))
    other = str(TESTS.parent / "examples" / "reserved-then-spot")
    choices: tuple[tuple[str, tuple[str, ...]], ...] = (
        ("plan", ("plan", file, "-o", output, *extra)),
        ("plan", ("plan", file, "-o", "nodeclaims", *extra)),
        ("diff", ("plan", "--diff", other, file, "-o", output, *extra)),
        ("explain", ("explain", "pod", name, file, *extra)),
        ("explain", ("explain", "node", name, file, *extra)),
        ("explain", ("explain", "type", "m5.large", file, "-o", _text_or_json(random))),
        ("explain", ("explain", "price", "m5.large", file, "-o", _text_or_json(random))),
        ("validate", ("validate", file, "-o", _text_or_json(random))),
        ("validate", ("validate", file, "--strict", "--verbose")),
        ("convert", ("convert", file, "-o", random.choice(("yaml", "json")))),
        ("consolidate", ("consolidate", file, "-o", output, *extra)),
        ("reservations", ("reservations", file, "-o", random.choice(("table", "json")), *extra)),
        ("catalog", ("catalog", file, "-o", random.choice(("table", "json", "csv")))),
    )
    return random.choice(choices)


def _simulation(file: str, random: Random) -> tuple[str, tuple[str, ...]]:
    """Mostly read only; else the beginning, as a simulated day takes long."""
    if random.random() < 0.8:
        return "check", ("simulate", "--check", file)
    outputs = ((), ("-o", "json"), ("--csv", f"{file}-csv"), ("--full",))
    return "simulate", ("simulate", file, "--until", SIMULATED, *random.choice(outputs))


def _text_or_json(random: Random) -> str:
    return random.choice(("text", "json"))


def run_command(kind: str, arguments: tuple[str, ...]) -> str | None:
    """Runs `wain` as a shell would, and says what was wrong with the end of it."""
    out, errors = io.StringIO(), io.StringIO()
    code: Any = None
    with _within_bounds(), _arguments(arguments), redirect_stdout(out), redirect_stderr(errors):
        try:
            main()
        except SystemExit as end:
            code = end.code
        except TooSlow:
            return f"took more than {MAX_CPU_SECONDS} s of CPU time"
    if code not in DOCUMENTED_CODES[kind]:
        return f"ended with {code}:\n{errors.getvalue()[-3000:]}"
    harmful = [line for line in (out.getvalue() + errors.getvalue()).split("\n") if _steers(line)]
    return f"printed {harmful[0]!r}"[:500] if harmful else None


def _steers(line: str) -> bool:
    return not line.isprintable() or line.lstrip().startswith("::")


@contextmanager
def _arguments(arguments: tuple[str, ...]) -> Iterator[None]:
    before, traceback = sys.argv, os.environ.get(TRACEBACK_VARIABLE)
    sys.argv = ["wain", *arguments]
    os.environ[TRACEBACK_VARIABLE] = "1"
    try:
        yield
    finally:
        sys.argv = before
        del os.environ[TRACEBACK_VARIABLE]
        if traceback is not None:
            os.environ[TRACEBACK_VARIABLE] = traceback


@contextmanager
def _within_bounds() -> Iterator[None]:
    """CPU time by a timer of the process, memory by a limit of its address space."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise TooSlow

    handler = signal.signal(signal.SIGVTALRM, interrupt)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_address_space() + MAX_MEMORY, hard))
    signal.setitimer(signal.ITIMER_VIRTUAL, MAX_CPU_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGVTALRM, handler)


def _address_space() -> int:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    return pages * resource.getpagesize()
