"""Planted faults: a fixed list of small faults in launches, recovery, reservations and fleet
answers, each put into a copy of the package to see whether a test fails.

    python scripts/planted_faults.py                      all of tests/data/planted_faults.yaml
    python scripts/planted_faults.py recovery-3 fleet-1    only these
    python scripts/planted_faults.py --list tests/data/planted_lifecycle_faults.yaml

The list is data: where the fault is (file and qualified name of the function), the text before and
after, and what is wrong then. Half of it was drawn with the operators of `mutants.py` by the seed
in the file, half was written by hand. Unlike there, the list does not change with the code: if code
is moved, its entry is moved with it, and an entry that no longer applies counts as unnoticed. So
does an entry marked `equivalent`, after which the package behaves as before.

Before the first fault every selection of tests is run once without one: tests that fail anyway
would notice everything.
"""

import argparse
import ast
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

ROOT: Final = Path.cwd()
LIST: Final = Path("tests/data/planted_faults.yaml")
PACKAGE: Final = Path("src/wainwright")
TESTS: Final = (
    "tests/unit/aws/launch",
    *(str(path) for path in sorted(Path("tests/unit/aws").glob("test_*.py"))),
    "tests/unit/aws/nodeclass/test_nodeclass_network.py",
    "tests/properties/test_launch_faults.py",
    "tests/properties/test_two_processes.py",
)
"""The most likely to fail come first: a run ends with the first failure."""
CPU_SECONDS: Final = 300
"""What a run may take, several times what it takes without a fault; a fault can make it endless."""
TIMEOUT: Final = 3600.0  # seconds, for a fault after which everything only waits
NOTICED, UNNOTICED, DOES_NOT_APPLY = "noticed", "unnoticed", "does not apply"


class PlantedFault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str
    what: str
    """What goes wrong."""
    file: str
    """Within the package."""
    function: str = ""
    """Its qualified name; empty for the whole module."""
    before: str
    after: str
    tests: list[str] = []
    """The most likely to notice; those of the module where none are named."""
    equivalent: str = ""
    """Why no test can notice it; such a fault counts as unnoticed."""

    def applied(self, source: str) -> str | None:
        """The source with the fault; None unless the text is there exactly once."""
        start, end = self._span(source)
        part = source[start:end]
        if part.count(self.before) != 1:
            return None
        return source[:start] + part.replace(self.before, self.after) + source[end:]

    def _span(self, source: str) -> tuple[int, int]:
        if not self.function:
            return 0, len(source)
        node: ast.AST = ast.parse(source)
        for name in self.function.split("."):
            found = [each for each in ast.iter_child_nodes(node) if _name(each) == name]
            if not found:
                return 0, 0
            node = found[0]
        assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        lines = source.splitlines(keepends=True)
        start = sum(map(len, lines[: node.lineno - 1]))
        return start, start + sum(map(len, lines[node.lineno - 1 : node.end_lineno]))


def _name(node: ast.AST) -> str:
    return str(getattr(node, "name", ""))


class FaultList(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    seed: int
    """Of the draw; see the module."""
    faults: list[PlantedFault]


def read_list(path: Path) -> FaultList:
    content: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    return msgspec.convert(content, FaultList)


def verdict(fault: PlantedFault) -> tuple[str, str]:
    """The verdict, and the test that noticed."""
    with tempfile.TemporaryDirectory(prefix="planted") as folder:
        file = _copy_package(folder) / fault.file
        changed = fault.applied(file.read_text(encoding="utf-8"))
        if changed is None:
            return DOES_NOT_APPLY, ""
        ast.parse(changed)
        file.write_text(changed, encoding="utf-8")
        return _run_tests(folder, _tests_of(fault))


def failure_without_fault(faults: Iterable[PlantedFault], jobs: int) -> str:
    """Which test of those chosen fails in the package as it is; empty if none does."""
    selections = sorted({_tests_of(each) for each in faults})
    with ThreadPoolExecutor(jobs) as pool:
        results = pool.map(_run_in_copy, selections)
        return next((test for status, test in results if status is not UNNOTICED), "")


def _tests_of(fault: PlantedFault) -> tuple[str, ...]:
    return tuple(fault.tests) or TESTS


def _run_in_copy(tests: tuple[str, ...]) -> tuple[str, str]:
    with tempfile.TemporaryDirectory(prefix="planted") as folder:
        _copy_package(folder)
        return _run_tests(folder, tests)


def _copy_package(folder: str) -> Path:
    package = Path(folder) / PACKAGE.name
    shutil.copytree(ROOT / PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    return package


def _run_tests(folder: str, tests: Iterable[str]) -> tuple[str, str]:
    flags = ["-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0", "--tb=no", "-rfE"]
    environment = {**os.environ, "PYTHONPATH": folder, "PYTHONHASHSEED": "0"}
    environment |= {"PYTHONPYCACHEPREFIX": f"{folder}/pycache", "TWO_PROCESS_SEEDS": "30"}
    limited = ["bash", "-c", f'ulimit -t {CPU_SECONDS}; exec "$@"', "limited"]
    command = [*limited, sys.executable, "-m", "pytest", *flags, *tests]
    try:
        ended = subprocess.run(
            command,
            check=False,
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        return NOTICED, "timeout"
    if ended.returncode == 0:
        return UNNOTICED, ""
    return NOTICED, next(
        (
            line.split()[1]
            for line in ended.stdout.splitlines()
            if line.startswith(("FAILED", "ERROR"))
        ),
        ended.stdout[-200:] + ended.stderr[-200:],
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Plants faults one by one, and runs the tests.")
    parser.add_argument("ids", nargs="*", help="only these faults")
    parser.add_argument("--list", type=Path, default=LIST, metavar="FILE")
    parser.add_argument("--jobs", type=int, default=2, help="faults that are tried at once")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    listed = read_list(options.list)
    faults = [each for each in listed.faults if not options.ids or each.id in options.ids]
    failing = failure_without_fault(faults, options.jobs)
    if failing:
        sys.exit(f"a test fails without any fault: {failing}")
    with ThreadPoolExecutor(options.jobs) as pool:
        verdicts = []
        for fault, (status, test) in zip(faults, pool.map(verdict, faults), strict=True):
            note = test or (f"equivalent: {fault.equivalent}" if fault.equivalent else fault.what)
            print(f"{fault.id:16} {status:15} {note}", flush=True)
            verdicts.append(status)
    counts = Counter(verdicts)
    print(f"seed {listed.seed}: {counts[NOTICED]} of {len(verdicts)} faults make a test fail")


if __name__ == "__main__":
    main()
