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
    """Figures that must not be larger than their target."""

    def __init__(self) -> None:
        self._missed: list[str] = []

    def row(self, what: str, figure: float, at_most: float, unit: str) -> None:
        digits = 0 if unit == "ms" else 2
        print_row(what, f"{figure:.{digits}f} {unit}", f"at most {at_most:g} {unit}")
        if not figure <= at_most:
            self._missed.append(f"{what.strip()}: {figure:.{digits}f} {unit}")

    def check(self) -> None:
        """Ends the process with exit code 1 where one was missed."""
        if self._missed:
            sys.exit(f"missed: {'; '.join(self._missed)}")
