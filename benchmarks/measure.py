"""Measuring: the median of several runs, and what a fresh process says of itself."""

import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path


def median_seconds(work: Callable[[], object], runs: int = 5) -> float:
    """The median time of a piece of work."""
    return statistics.median(_once(work) for _ in range(runs))


def _once(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def run_in_process(module: str, *arguments: str) -> float:
    """What `python -m module arguments` prints of itself, undisturbed by what ran here before."""
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout.split()[-1])


def peak_memory_megabytes() -> float:
    """Of this program. `ru_maxrss` is that of the process, and so of who started it as well: of a
    small program that a large one starts it is the peak of the large one.
    """
    status = Path("/proc/self/status")
    if status.exists():
        peak = re.search(r"VmHWM:\s+(\d+) kB", status.read_text(encoding="utf-8"))
        if peak is not None:
            return int(peak[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def print_row(what: str, figure: str, target: str = "") -> None:
    print(f"  {what:<52} {figure:>16}   {target}")


class Targets:
    """What figures must not be larger than, or must be below."""

    def __init__(self) -> None:
        self._missed: list[str] = []

    def row(self, what: str, figure: float, at_most: float, unit: str = "") -> None:
        """A number without a unit is a count."""
        digits = 0 if unit in ("ms", "") else 2
        shown, bound = f"{figure:.{digits}f} {unit}".strip(), f"at most {at_most:g} {unit}".strip()
        self._add(what, shown, bound, is_met=figure <= at_most)

    def price(self, what: str, figure: float, below: float) -> None:
        """To the cent."""
        is_met = round(figure, 2) < round(below, 2)
        self._add(what, f"${figure:.2f}/h", f"less than ${below:.2f}/h", is_met=is_met)

    def _add(self, what: str, shown: str, bound: str, *, is_met: bool) -> None:
        print_row(what, shown, bound)
        if not is_met:
            self._missed.append(f"missed: {what.strip()}: {shown}, {bound}")

    def check(self) -> None:
        """Ends the process with exit code 1 where one was missed, with a line for each."""
        if self._missed:
            sys.exit("\n".join(self._missed))
