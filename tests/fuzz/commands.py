"""One command on one input, in process, and what is wrong with how it ended."""

import io
import os
import resource
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any, Final

from tests.contract.servers import serve_emulator
from tests.fuzz.command_lines import command_line
from tests.fuzz.inputs import intact_input, make_input

from wainwright.cli.cluster_input import cluster_text
from wainwright.cli.main import TRACEBACK_VARIABLE, main

MAX_CPU_SECONDS: Final = 10
MAX_MEMORY: Final = 2**30
DOCUMENTED_CODES: Final = {
    **dict.fromkeys(("plan", "explain", "simulate"), (0, 1, 2)),
    **dict.fromkeys(("validate", "convert", "reservations", "catalog", "crds"), (0, 2)),
    **dict.fromkeys(("top", "serve", "emulator", "emulator set", "snapshot"), (0, 2)),
    **dict.fromkeys(("completion",), (0, 2)),
    "consolidate": (0, 2, 3),
    "diff": (0, 1, 2, 3),
    "only-success": (0,),  # no command: for a test of the judge
}
READY: Final = ("; Ctrl-C stops it", '{"endpoint":')
"""What the line has with which a server says that it is up."""


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
        command = f"wain {shlex.join(self.arguments)}"
        return f"seed command:{self.seed}, {self.source}: {command}\n{self.problem}"


def replay(seed: str) -> str:
    """The command that runs one seed again, such as command:17."""
    return f"make fuzz ARGS='--seed {seed}'"


def fuzz_command(seed: str, folder: Path) -> Finding | None:
    """The finding of this seed, if there is one."""
    random = Random(seed)
    # Input and options are odd by turns, as otherwise hardly a run would get beyond its reading.
    odd_values = random.choice((0, 0, 1, 1))
    is_intact = odd_values or random.random() < 0.3
    given = intact_input(random) if is_intact else make_input(random)
    file = folder / f"input.{given.suffix}"
    file.write_text(given.text, "utf-8", newline="")
    kind, arguments = command_line(given, str(file), folder, random, odd_values=odd_values)
    # There, as an empty name of a folder is the current one, and it is written to.
    with chdir(folder), _emulator_to_set(kind) as endpoint:
        problem = run_command(kind, (*arguments, *endpoint), given.text)
    if problem is None:
        return None
    return Finding(seed, arguments, given.source.name, problem, given.text)


@contextmanager
def _emulator_to_set(kind: str) -> Iterator[tuple[str, ...]]:
    """The option that names an emulator which runs meanwhile, for the command that changes one."""
    if kind != "emulator set":
        yield ()
        return
    with serve_emulator() as server:
        yield "--endpoint", server.endpoint


class _Terminal(io.StringIO):
    """Standard output; somebody presses Ctrl-C as soon as a server says that it is up."""

    def write(self, text: str) -> int:
        written = super().write(text)
        if any(ready in text for ready in READY):
            signal.raise_signal(signal.SIGINT)
        return written


def run_command(kind: str, arguments: tuple[str, ...], typed: str = "") -> str | None:
    """Runs `wain` as a shell would, and says what was wrong with the end of it."""
    out, errors = _Terminal(), io.StringIO()
    code: Any = None
    cluster_text.cache_clear()  # one process here is many runs of a command
    with (
        _within_bounds(),
        _started_with(arguments, typed),
        redirect_stdout(out),
        redirect_stderr(errors),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code
        except TooSlow:
            return f"took more than {MAX_CPU_SECONDS} s of CPU time"
    if code not in DOCUMENTED_CODES[kind]:
        return f"ended with {code}:\n{errors.getvalue()[-3000:]}"
    harmful = steering_lines(out.getvalue() + errors.getvalue())
    return f"printed {harmful[0]!r}"[:500] if harmful else None


def steering_lines(text: str) -> list[str]:
    """Lines that a terminal or the log of a CI system would obey."""
    return [each for each in text.split("\n") if _steers(each)]


def _steers(line: str) -> bool:
    return not line.isprintable() or line.lstrip().startswith("::")


@contextmanager
def _started_with(arguments: tuple[str, ...], typed: str) -> Iterator[None]:
    """Arguments, and what standard input has."""
    before, traceback = (sys.argv, sys.stdin), os.environ.get(TRACEBACK_VARIABLE)
    sys.argv = ["wain", *arguments]
    sys.stdin = io.TextIOWrapper(io.BytesIO(typed.encode()), "utf-8")
    os.environ[TRACEBACK_VARIABLE] = "1"
    try:
        yield
    finally:
        sys.argv, sys.stdin = before
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
