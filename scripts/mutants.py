"""Mutation testing: changes the source a little, and sees whether a test fails.

    python scripts/mutants.py --seed 1 --per-module 1 --budget 20 --jobs 2 --packages core,aws

First the tests run under coverage, which gives the tests that execute each line, and how long they
take. Then a sample of mutants is drawn. Each is run against tests that execute its line, in a copy
of the package that is first on PYTHONPATH, so that processes started by a test import the mutant as
well. The recording and the verdicts are kept in .mutants for as long as sources and tests are the
same: a run that was stopped goes on. All of it is shared among --jobs processes; a verdict is the
same with any number of them, as tests are bounded by CPU time.

A mutant is killed if a test fails, if the package cannot be imported, or if a test takes many times
as long as recorded (timeout). It survived if all chosen tests pass, or if no test executes it. As
the choice is bounded by a budget, a survivor may still be killed by a test that was not chosen.

The draw depends on the seed, the qualified name of the function and the mutated code, but not on
the file: after code has been moved, most of the mutants are drawn again.

This file is also the pytest plugin of these runs; it takes its job from the environment.
"""

import argparse
import ast
import copy
import functools
import hashlib
import importlib
import itertools
import json
import os
import pkgutil
import queue
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest
from coverage import Coverage
from coverage.numbits import numbits_any_intersection, nums_to_numbits
from hypothesis import HealthCheck, Phase, settings

ROOT: Final = Path.cwd()
PACKAGE: Final = "wainwright"
SOURCE: Final = ROOT / "src" / PACKAGE
TESTS: Final = ROOT / "tests"
LEFT_OUT: Final = {TESTS / "integration", TESTS / "fuzz", TESTS / "unit" / "test_growth.py"}
"""Too slow to be run for every mutant: they build Go programs and start a control plane, only look
for tracebacks, or measure how long large files take."""
EXAMPLES: Final = 30
"""Of each property: fewer than `make test` tries, so that more tests fit into the budget."""
UNDER_COVERAGE: Final = 2.5
"""How many times as long a test takes that is being recorded, roughly."""
LONGEST: Final = 20.0
"""CPU seconds of a test, without coverage, after which its recording is given up: it would take the
whole budget of a mutant by itself. Without this, such tests are two thirds of a recording."""
INPUTS: Final = ("src", "tests", "examples", "pyproject.toml", "requirements")
"""A recording is out of date as soon as any file in these has changed."""

WORK: Final = ROOT / ".mutants"
JOB: Final = "MUTANTS_JOB"
PARTS: Final = 4
"""Into so many parts the tests are split to be recorded: each is a process of its own."""

MODULE_LINES: Final = 150
"""What counts as one module in the size of the sample, so that merging files does not change it."""
MANY: Final = 60
"""From here on tests are chosen from every test file in turn, and not only the quickest."""
NEAREST: Final = 4
MOST_FILES: Final = 30
"""From so many test files the tests of a mutant are chosen, the nearest first."""
START_UP: Final = 30.0
MARGIN: Final = 10.0
SLOWER: Final = 5.0
"""A test times out after this many times its recorded CPU time, and a margin: the test that comes
first also pays for what is then in a cache or a fixture, and that may be another than in the
recording."""
SLEEPING: Final = 30.0
TIMERS: Final = {-signal.SIGPROF, -signal.SIGALRM}
ROUNDS: Final = 3
"""How often a value may be passed on from constant to constant before a function uses it."""
MISSES: Final = 100
"""How often a cached function is recorded apart: switching is slow, and later misses add little."""

AT_IMPORT: Final = ""
KILLED, TIMEOUT, SURVIVED, NOT_EXECUTED = "killed", "timeout", "survived", "not executed"


# Places: the nodes of a module, and where each stands.


@dataclass(frozen=True)
class Scope:
    names: tuple[str, ...] = ()
    """Classes and functions around the node; at import time also the name that is assigned to."""
    in_function: bool = False
    hidden: bool = False
    """Not to be mutated: annotations, texts, logging and the like."""
    statement: ast.stmt | None = None
    returns: ast.expr | None = None


Place: TypeAlias = tuple[ast.AST, Scope]
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
HIDDEN_FIELDS: Final = {"annotation", "returns", "decorator_list", "keywords of a class"}
HIDDEN_CALLS: Final = {"assert_never", "reveal_type"}
LOGGERS: Final = {"log", "logger", "logging"}


def places(node: ast.AST, scope: Scope = Scope()) -> Iterator[Place]:  # noqa: B008 - it is frozen
    """Every node below this one, in the order of the source."""
    for name, value in ast.iter_fields(node):
        around = _entered(node, name, scope)
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                inner = _within(child, around)
                yield child, inner
                yield from places(child, inner)


def _entered(node: ast.AST, field: str, scope: Scope) -> Scope:
    """The scope in one field of a node."""
    if field == "body" and isinstance(node, Function | ast.Lambda):
        scope = replace(scope, in_function=True)
    if isinstance(node, ast.ClassDef) and field == "keywords":
        field = "keywords of a class"
    return replace(scope, hidden=True) if field in HIDDEN_FIELDS else scope


def _within(node: ast.AST, scope: Scope) -> Scope:
    """The scope of a node itself."""
    if isinstance(node, ast.stmt):
        scope = replace(scope, statement=node)
    if isinstance(node, Function):
        scope = replace(scope, returns=node.returns)
    names = _named(node, scope)
    hidden = scope.hidden or _is_hidden(node)
    return replace(scope, names=scope.names + names, hidden=hidden)


def _named(node: ast.AST, scope: Scope) -> tuple[str, ...]:
    if isinstance(node, Function | ast.ClassDef):
        return (node.name,)
    if scope.in_function or not isinstance(node, ast.Assign | ast.AnnAssign):
        return ()
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    return tuple(found.id for found in ast.walk(target) if isinstance(found, ast.Name))


def _is_hidden(node: ast.AST) -> bool:
    match node:
        case ast.JoinedStr():
            return True
        case ast.FunctionDef(name="__repr__"):
            return True
        case ast.FunctionDef(decorator_list=[ast.Name(id="overload"), *_]):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Expr(value=ast.Call(func=called)):
            return _root(called).lower() in LOGGERS or _root(called) in HIDDEN_CALLS
        case _:
            return False


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


# Operators: what may be changed in a node.


@dataclass(frozen=True)
class Change:
    operator: str
    target: ast.expr | ast.stmt
    text: str


SWAPPED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
MOVED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
EMPTY: Final = {
    "bytes": 'b""',
    "dict": "{}",
    "float": "0.0",
    "frozenset": "frozenset()",
    "int": "0",
    "list": "[]",
    "set": "set()",
    "str": '""',
    "tuple": "()",
    "Collection": "()",
    "Iterable": "()",
    "Iterator": "iter(())",
    "Mapping": "{}",
    "Sequence": "()",
}
"""What a function returns instead, by its annotation; None if it has another."""


def comparisons(node: ast.Compare, _: Scope) -> Iterator[Change]:
    for title, table in (("comparison swapped", SWAPPED), ("boundary moved", MOVED)):
        for index, operator in enumerate(node.ops):
            if other := table.get(type(operator)):
                changed = copy.copy(node)
                changed.ops = [*node.ops[:index], other(), *node.ops[index + 1 :]]
                yield Change(title, node, f"({ast.unparse(changed)})")


def boolean_operators(node: ast.BoolOp, _: Scope) -> Iterator[Change]:
    changed = copy.copy(node)
    changed.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    yield Change("and/or swapped", node, f"({ast.unparse(changed)})")


def negations(node: ast.UnaryOp, _: Scope) -> Iterator[Change]:
    if isinstance(node.op, ast.Not):
        yield Change("not removed", node, f"({ast.unparse(node.operand)})")


def constants(node: ast.Constant, _: Scope) -> Iterator[Change]:
    if isinstance(node.value, bool):
        yield Change("True/False flipped", node, str(not node.value))
    elif isinstance(node.value, int | float):
        yield Change("constant changed by one", node, repr(node.value + 1))


def sums(node: ast.BinOp | ast.AugAssign, _: Scope) -> Iterator[Change]:
    sides = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.value,)
    if not isinstance(node.op, ast.Add | ast.Sub) or any(map(_is_sequence, sides)):
        return
    changed = copy.copy(node)
    changed.op = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
    text = ast.unparse(changed)
    yield Change("+/- swapped", node, f"({text})" if isinstance(node, ast.BinOp) else text)


def _is_sequence(node: ast.expr) -> bool:
    """Such a thing cannot be subtracted, and a mutant that does so says nothing about the tests."""
    match node:
        case ast.JoinedStr() | ast.List() | ast.ListComp() | ast.Tuple():
            return True
        case ast.Constant(value=str() | bytes()):
            return True
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return _is_sequence(left) or _is_sequence(right)
        case _:
            return False


def returned(node: ast.Return, scope: Scope) -> Iterator[Change]:
    if node.value is None or isinstance(node.value, ast.Constant) or scope.returns is None:
        return
    kind = _kind(scope.returns)
    if kind == "bool":
        yield from _negated(node.value)
    elif (text := EMPTY.get(kind, "None")) != ast.unparse(node.value):
        yield Change("return value replaced", node.value, text)


def _kind(annotation: ast.expr) -> str:
    if isinstance(annotation, ast.Subscript):
        annotation = annotation.value
    return annotation.id if isinstance(annotation, ast.Name) else ""


def _negated(node: ast.expr) -> Iterator[Change]:
    """Not for what another operator turns round already."""
    turned = isinstance(node, ast.Compare | ast.BoolOp | ast.Constant)
    if not turned and not (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)):
        yield Change("not added", node, f"(not ({ast.unparse(node)}))")


def conditions(
    node: ast.If | ast.While | ast.IfExp | ast.comprehension | ast.match_case, _: Scope
) -> Iterator[Change]:
    for test in _tests(node):
        yield from _negated(test)
        assigns = any(isinstance(inner, ast.NamedExpr) for inner in ast.walk(test))
        if not assigns and not isinstance(test, ast.Constant):
            yield Change("condition always false", test, "False")
            if not isinstance(node, ast.While):
                yield Change("condition always true", test, "True")


def _tests(
    node: ast.If | ast.While | ast.IfExp | ast.comprehension | ast.match_case,
) -> list[ast.expr]:
    if isinstance(node, ast.comprehension):
        return node.ifs
    if isinstance(node, ast.match_case):
        return [node.guard] if node.guard else []
    return [node.test]


def deletions(
    node: ast.Expr | ast.AugAssign | ast.Continue | ast.Break, _: Scope
) -> Iterator[Change]:
    if isinstance(node, ast.Continue | ast.Break):
        yield Change("continue/break deleted", node, "pass")
        return
    value = node.value.value if isinstance(node.value, ast.Await) else node.value
    if isinstance(node, ast.AugAssign) or isinstance(value, ast.Call):
        yield Change("statement deleted", node, "pass")


def extremes(node: ast.Call, _: Scope) -> Iterator[Change]:
    if isinstance(node.func, ast.Name) and node.func.id in {"min", "max"}:
        yield Change("min/max swapped", node.func, "max" if node.func.id == "min" else "min")


OPERATORS: Final[dict[type[ast.AST], tuple[Callable[[Any, Scope], Iterator[Change]], ...]]] = {
    ast.Compare: (comparisons,),
    ast.BoolOp: (boolean_operators,),
    ast.UnaryOp: (negations,),
    ast.Constant: (constants,),
    ast.BinOp: (sums,),
    ast.AugAssign: (sums, deletions),
    ast.Return: (returned,),
    ast.If: (conditions,),
    ast.While: (conditions,),
    ast.IfExp: (conditions,),
    ast.comprehension: (conditions,),
    ast.match_case: (conditions,),
    ast.Expr: (deletions,),
    ast.Continue: (deletions,),
    ast.Break: (deletions,),
    ast.Call: (extremes,),
}

WEIGHTS: Final = {
    "boundary moved": 3.0,
    "+/- swapped": 2.0,
    "min/max swapped": 3.0,
    "continue/break deleted": 3.0,
    "condition always false": 0.5,
    "condition always true": 0.5,
}
"""How many times as likely to be drawn: what is rare but telling is drawn more often."""


# Mutants: changes in their files, and the draw.


@dataclass(frozen=True)
class Mutant:
    key: str
    path: str
    """Relative to the package."""
    line: int
    function: str
    operator: str
    before: str
    after: str
    lines: tuple[int, ...]
    in_function: bool
    span: tuple[int, int]
    """In bytes of the file."""
    text: str

    @property
    def package(self) -> str:
        return package_of(SOURCE / self.path)

    @property
    def rank(self) -> float:
        return int(self.key, 16) / WEIGHTS.get(self.operator, 1.0)

    def applied(self) -> bytes:
        source = (SOURCE / self.path).read_bytes()
        start, end = self.span
        return source[:start] + self.text.encode() + source[end:]


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def package_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).parts
    return parts[0] if len(parts) > 1 else "top-level"


def mutants_of(path: Path, seed: int) -> Iterator[Mutant]:
    """All that can be made of one module."""
    source = path.read_bytes()
    seen: Counter[str] = Counter()
    for node, scope in places(ast.parse(source)):
        for operator in () if scope.hidden else OPERATORS.get(type(node), ()):
            for change in operator(node, scope):
                identity = _identity(change, scope, seed)
                seen[identity] += 1
                yield _mutant(path, source, (change, scope), f"{identity}\0{seen[identity]}")


def _identity(change: Change, scope: Scope, seed: int) -> str:
    code = ast.unparse(change.target)
    return "\0".join([str(seed), ".".join(scope.names), change.operator, code, change.text])


def _mutant(path: Path, source: bytes, what: tuple[Change, Scope], identity: str) -> Mutant:
    change, scope = what
    start, end = span = _span(source, change.target)
    first = source.rfind(b"\n", 0, start) + 1
    last = (source + b"\n").index(b"\n", end)
    return Mutant(
        key=hashlib.sha256(identity.encode()).hexdigest(),
        path=path.relative_to(SOURCE).as_posix(),
        line=change.target.lineno,
        function=".".join(scope.names),
        operator=change.operator,
        before=_snippet(source[first:last]),
        after=_snippet(source[first:start] + change.text.encode() + source[end:last]),
        lines=_lines(change.target, scope.statement),
        in_function=scope.in_function,
        span=span,
        text=change.text,
    )


def _span(source: bytes, node: ast.expr | ast.stmt) -> tuple[int, int]:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    starts = _line_starts(source)
    return (
        starts[node.lineno - 1] + node.col_offset,
        starts[node.end_lineno - 1] + node.end_col_offset,
    )


@functools.lru_cache(maxsize=1)
def _line_starts(source: bytes) -> list[int]:
    return [0, *itertools.accumulate(map(len, source.splitlines(keepends=True)))]


def _snippet(code: bytes) -> str:
    return " ".join(code.decode().split())


def _lines(node: ast.expr | ast.stmt, statement: ast.stmt | None) -> tuple[int, ...]:
    """A tracer may see only the first line of a statement that is spread over many."""
    lines = set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return tuple(sorted(lines | ({statement.lineno} if statement else set())))


def drawn(packages: Collection[str], seed: int, per_module: float) -> list[Mutant]:
    files: dict[str, list[Path]] = defaultdict(list)
    for path in modules():
        files[package_of(path)].append(path)
    if unknown := set(packages) - set(files):
        sys.exit(f"no such package: {', '.join(sorted(unknown))}; there are {', '.join(files)}")
    found: list[Mutant] = []
    for package in packages or files:
        found += _sample(files[package], seed, per_module)
    return found


def _sample(paths: list[Path], seed: int, per_module: float) -> list[Mutant]:
    """Those that rank first, and at most one in a function."""
    lines = sum(len(path.read_bytes().splitlines()) for path in paths)
    found = [mutant for path in paths for mutant in mutants_of(path, seed)]
    ranked = sorted(found, key=lambda mutant: mutant.rank, reverse=True)
    first = {(mutant.path, mutant.function): mutant for mutant in ranked}
    count = max(1, round(per_module * lines / MODULE_LINES))
    return sorted(first.values(), key=lambda mutant: mutant.rank)[:count]


# The recording: which tests execute which lines, and how long they take.


def cpu_time() -> float:
    """Seconds, with those of processes that have ended."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


class TooLongError(BaseException):
    """Not an Exception: hypothesis would run the example again to see whether it fails again."""


def _give_up(*_: object) -> None:
    raise TooLongError


class Recorder:
    """The plugin of the run under coverage.

    It takes CPU time: which tests fit into a budget must not depend on what else is running.

    What a test gets from a cache or from a fixture of a wider scope may have been computed for
    another test. Such code is recorded under a name of its own, and so is who uses it.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._contexts = [AT_IMPORT]
        self._uses: set[tuple[str, str]] = set()
        self._seconds: dict[str, float] = {}
        self._failed: set[str] = set()
        self._caches: dict[str, Any] = {}
        self._misses: Counter[str] = Counter()
        self._coverage = Coverage(data_file=file, config_file=False, source=[str(SOURCE)])
        self._coverage.start()
        self._lru_cache = functools.lru_cache
        functools.lru_cache = self._recorded_cache

    @contextmanager
    def _context(self, name: str) -> Generator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = self._calls()
        self._contexts.append(name)
        self._coverage.switch_context(name)
        try:
            yield
        finally:
            self._contexts.pop()
            self._coverage.switch_context(self._contexts[-1])
            self._note(name, before)

    def _calls(self) -> dict[str, tuple[int, int]]:
        """Hits and misses of every cache so far."""
        return {name: cached.cache_info()[:2] for name, cached in self._caches.items()}

    def _note(self, user: str, before: Mapping[str, tuple[int, int]]) -> None:
        """Whoever has changed these numbers uses the cache."""
        for name, calls in self._calls().items():
            if calls != before.get(name, (0, 0)):
                self._uses.add((user, name))

    def _recorded_cache(self, maxsize: Any = 128, typed: bool = False) -> Any:
        if callable(maxsize):
            return self._recorded_cache()(maxsize)
        make = self._lru_cache(maxsize, typed)

        def decorate(function: Callable[..., Any]) -> Any:
            ours = function.__module__.startswith((f"{PACKAGE}.", "tests."))
            return self._cached(function, make) if ours else make(function)

        return decorate

    def _cached(self, function: Callable[..., Any], make: Any) -> Any:
        name = f"cache {function.__module__}.{function.__qualname__}"

        @functools.wraps(function)
        def miss(*args: Any, **kwargs: Any) -> Any:
            self._misses[name] += 1
            if self._misses[name] > MISSES:
                return function(*args, **kwargs)
            with self._context(name):
                return function(*args, **kwargs)

        self._caches[name] = cached = make(miss)
        return cached

    def pytest_sessionstart(self) -> None:
        steady_hypothesis()
        package = importlib.import_module(PACKAGE)
        for module in pkgutil.walk_packages(package.__path__, f"{PACKAGE}."):
            importlib.import_module(module.name)
        self._note(AT_IMPORT, {})

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, object, object]:
        with self._context(f"module {collector.nodeid}"):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[object]
    ) -> Generator[None, object, object]:
        if fixturedef.scope == "function":
            return (yield)
        with self._context(_fixture(fixturedef)):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._uses.add((item.nodeid, f"module {item.nodeid.partition('::')[0]}"))
        for fixtures in _fixtures(item):
            self._uses.update((item.nodeid, _fixture(fixture)) for fixture in fixtures)
        began = cpu_time()
        signal.signal(signal.SIGPROF, _give_up)
        signal.setitimer(signal.ITIMER_PROF, LONGEST * UNDER_COVERAGE)
        try:
            with self._context(item.nodeid):
                return (yield)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            self._seconds[item.nodeid] = (cpu_time() - began) / UNDER_COVERAGE

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.add(report.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        self._coverage.combine()
        self._coverage.save()
        with closing(sqlite3.connect(self._file)) as base, base:
            base.execute("create table uses (user text, used text)")
            base.executemany("insert into uses values (?, ?)", sorted(self._uses))
            tests = [(name, took, name in self._failed) for name, took in self._seconds.items()]
            base.execute("create table test (name text, seconds real, failed int)")
            base.executemany("insert into test values (?, ?, ?)", tests)


def _fixtures(item: pytest.Item) -> Collection[Iterable[pytest.FixtureDef[object]]]:
    info = getattr(item, "_fixtureinfo", None)
    return info.name2fixturedefs.values() if info else ()


def _fixture(definition: pytest.FixtureDef[object]) -> str:
    return f"fixture {definition.baseid}::{definition.argname}"


STARTED_BY_A_TEST: Final = """\
import os

test = os.environ.get("PYTEST_CURRENT_TEST")
if test:
    from coverage import Coverage

    Coverage(
        data_file={file!r},
        data_suffix=True,
        auto_data=True,
        config_file=False,
        source={source!r},
        context=test.rpartition(" ")[0],
    ).start()
"""
"""A sitecustomize module: coverage of the processes that tests start."""


class Recording:
    """What the recorder has written."""

    def __init__(self, file: Path) -> None:
        self._base = sqlite3.connect(file, check_same_thread=False)
        self._base.create_function("meets", 2, numbits_any_intersection)
        tests = self._base.execute("select name, seconds from test where not failed")
        self.seconds: dict[str, float] = dict(tests)
        failed = self._base.execute("select name from test where failed order by name")
        self.failed: list[str] = [name for (name,) in failed]
        self._users: dict[str, set[str]] = defaultdict(set)
        for user, used in self._base.execute("select user, used from uses"):
            self._users[used].add(user)

    def contexts(self, path: Path, lines: Iterable[int] | None = None) -> set[str]:
        """Who executed one of the lines, or any line, directly or by way of a cache."""
        rows = self._base.execute(
            "select distinct context.context from line_bits"
            " join file on file.id = file_id join context on context.id = context_id"
            " where file.path = ? and (? is null or meets(?, numbits))",
            (str(path), *[None if lines is None else nums_to_numbits(lines)] * 2),
        )
        found = {name for (name,) in rows}
        waiting = list(found)
        while waiting:
            new = self._users.get(waiting.pop(), set()) - found
            found |= new
            waiting += new
        return found

    def tests(self, contexts: Iterable[str]) -> set[str]:
        """Those among the contexts that are tests, and have passed."""
        return {name for name in contexts if name in self.seconds}


def recording(file: Path, jobs: int) -> Recording:
    """The one in the file, if it is of these sources; else a new one."""
    now = fingerprint()
    if not _is_of(file, now):
        _record(file, jobs)
        with closing(sqlite3.connect(file)) as base, base:
            base.execute("create table fingerprint as select ? as text", (now,))
    return Recording(file)


def fingerprint() -> str:
    found = hashlib.sha256()
    for path in sorted(
        path for name in INPUTS for path in [ROOT / name, *(ROOT / name).rglob("*")]
    ):
        if path.is_file() and path.suffix != ".pyc" and ".egg-info" not in str(path):
            found.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return found.hexdigest()


def _is_of(file: Path, now: str) -> bool:
    if not file.exists():
        return False
    with closing(sqlite3.connect(file)) as base, suppress(sqlite3.DatabaseError):
        return bool(base.execute("select text from fingerprint").fetchone() == (now,))
    return False


def _record(file: Path, jobs: int) -> None:
    parts = _parts()
    with ThreadPoolExecutor(jobs) as pool:
        done = list(pool.map(_record_part, range(len(parts)), parts))
    _join(file, done)


def _parts() -> list[list[str]]:
    """The test files in turn, so that neighbours, which take about as long, are spread evenly."""
    files = sorted(
        path for path in TESTS.rglob("test_*.py") if not LEFT_OUT & {path, *path.parents}
    )
    names = [str(path.relative_to(ROOT)) for path in files]
    return [names[number::PARTS] for number in range(PARTS)]


def _record_part(number: int, tests: Iterable[str]) -> Path:
    place = Workplace(f"record-{number}")
    file = place.folder / "record.sqlite"
    for old in place.folder.glob(f"{file.name}*"):
        old.unlink()
    code = STARTED_BY_A_TEST.format(file=str(file), source=[str(SOURCE)])
    (place.folder / "sitecustomize.py").write_text(code, encoding="utf-8")
    status = place.run_pytest({"record": str(file)}, tests, place.folder, timeout=None)
    if status not in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}:
        sys.exit(f"the tests cannot be recorded; see {place.log}")
    progress(f"part {number + 1} of {PARTS} recorded", line=True)
    return file


def _join(file: Path, parts: Iterable[Path]) -> None:
    """One base of the coverage, the uses and the durations of all parts."""
    file.unlink(missing_ok=True)
    joined = Coverage(data_file=file, config_file=False)
    joined.combine([str(part) for part in parts], keep=True)
    joined.save()
    with closing(sqlite3.connect(file)) as base:
        base.execute("create table uses (user text, used text)")
        base.execute("create table test (name text, seconds real, failed int)")
        for part in parts:
            base.execute("attach ? as part", (str(part),))
            base.execute("insert into uses select * from part.uses")
            base.execute("insert into test select * from part.test")
            base.commit()
            base.execute("detach part")


# Code that runs at import time: who uses the names that it gives a value to.


class Mentions:
    """Where every name is mentioned: in functions of the package, in tests, or for another name."""

    def __init__(self) -> None:
        self._lines: dict[str, dict[Path, set[int]]] = defaultdict(lambda: defaultdict(set))
        self._tests: dict[str, set[str]] = defaultdict(set)
        self._passed_on: dict[str, set[str]] = defaultdict(set)
        for path in [*modules(), *TESTS.rglob("*.py")]:
            for node, scope in places(ast.parse(path.read_bytes())):
                if name := _mentioned(node):
                    self._add(name, path, node, scope)

    def _add(self, name: str, path: Path, node: Any, scope: Scope) -> None:
        if not scope.in_function:
            self._passed_on[name].update(scope.names)
        elif path.is_relative_to(SOURCE):
            self._lines[name][path].add(node.lineno)
        elif path.name.startswith("test_") and scope.names[0].startswith(("test_", "Test")):
            self._tests[name].add(f"{path.relative_to(ROOT)}::{scope.names[0]}")
        else:
            self._passed_on[name].update(scope.names)

    def reached(self, names: Collection[str]) -> set[str]:
        """The names, and those that got their value from one of them."""
        found = set(names)
        for _ in range(ROUNDS):
            found |= {other for name in found for other in self._passed_on.get(name, ())}
        return found

    def lines(self, names: Iterable[str]) -> dict[Path, set[int]]:
        """Lines of functions in the package that mention one of the names."""
        found: dict[Path, set[int]] = defaultdict(set)
        for name in names:
            for path, lines in self._lines.get(name, {}).items():
                found[path] |= lines
        return found

    def tests(self, names: Iterable[str]) -> set[str]:
        """Test functions that mention one of the names, without parameters."""
        return {test for name in names for test in self._tests.get(name, ())}


def _mentioned(node: ast.AST) -> str | None:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.keyword(arg=name):
            return name
        case _:
            return None


# The plugin of the runs against mutants, and what both have in common.


class Judge:
    """Runs the chosen tests in the given order. A test that takes too long ends the process."""

    def __init__(self, limits: Mapping[str, float], failures: Path, running: Path) -> None:
        self._limits = limits
        self._failures = failures
        self._running = running
        limit(START_UP)

    def pytest_sessionstart(self) -> None:
        steady_hypothesis()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """A mutant may change the parameters of a test, and the test with them."""
        missing = set(self._limits) - {item.nodeid for item in items}
        bases = {base_of(name) for name in missing}
        chosen = {item.nodeid: item for item in items if item.nodeid in self._limits}
        others = [i for i in items if base_of(i.nodeid) in bases and i.nodeid not in chosen]
        items[:] = [chosen[name] for name in self._limits if name in chosen] + others

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._running.write_text(item.nodeid, encoding="utf-8")
        limit(self._limits.get(item.nodeid, START_UP))
        try:
            return (yield)
        finally:
            limit(START_UP)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            with self._failures.open("a", encoding="utf-8") as file:
                file.write(f"{report.nodeid}\n")


def limit(seconds: float) -> None:
    """Ends this process after so much CPU time, or, where it only waits, some time later."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, SLEEPING + SLOWER * seconds)


def base_of(test: str) -> str:
    """The name of a test without its parameters."""
    return test.partition("[")[0]


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Before any conftest imports the package."""
    job = json.loads(Path(os.environ.pop(JOB)).read_text(encoding="utf-8"))
    early_config.pluginmanager.register(_plugin(job))


def _plugin(job: Mapping[str, Any]) -> object:
    if "record" in job:
        return Recorder(Path(job["record"]))
    return Judge(job["limits"], Path(job["failures"]), Path(job["running"]))


def steady_hypothesis() -> None:
    """The same examples in every run, and no search for the smallest that fails."""
    settings.register_profile(
        "mutants",
        parent=settings.get_profile("default"),
        max_examples=EXAMPLES,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    settings.load_profile("mutants")


class Workplace:
    """A folder in which one process at a time runs tests."""

    def __init__(self, name: str) -> None:
        self.folder = WORK / name
        self.log = self.folder / "pytest.log"
        self.folder.mkdir(parents=True, exist_ok=True)

    def run_pytest(
        self, job: Mapping[str, object], flags: Iterable[str], first: Path, timeout: float | None
    ) -> int:
        """The exit status, with a folder first on the path; negative if ended by a signal."""
        file = self.folder / "job.json"
        file.write_text(json.dumps(job), encoding="utf-8")
        common = ["-p", "mutants", "-p", "no:randomly", "-p", "no:cacheprovider", "--assert=plain"]
        command = [sys.executable, "-m", "pytest", *common, "--hypothesis-seed=0", *flags]
        with self.log.open("wb") as log:
            child = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, **_environment(first), JOB: str(file)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            return _ended(child, timeout)


def _environment(first: Path) -> dict[str, str]:
    return {
        "HYPOTHESIS_PROFILE": "default",
        "PYTHONPATH": os.pathsep.join(map(str, (first, SOURCE.parent, Path(__file__).parent))),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(WORK / "pycache"),
    }


def _ended(child: "subprocess.Popen[bytes]", timeout: float | None) -> int:
    try:
        return child.wait(timeout)
    except subprocess.TimeoutExpired:
        return -signal.SIGALRM
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


# Judging: from a mutant to its verdict.


@dataclass(frozen=True)
class Verdict:
    mutant: Mutant
    status: str
    tests: int
    """How many were chosen."""
    of: int
    """How many execute the line."""
    killer: str | None = None

    @property
    def killed(self) -> bool:
        return self.status in {KILLED, TIMEOUT}


class TestChoice:
    """Which tests a mutant is run against. Runners share one: a base of SQLite has one thread."""

    def __init__(self, recording: Recording, budget: float) -> None:
        self._recording = recording
        self._budget = budget
        self._mentions = Mentions()
        self._lock = threading.Lock()
        self.seconds = recording.seconds

    def of(self, mutant: Mutant, without: Collection[str]) -> tuple[set[str], list[list[str]]]:
        """All that execute it, and those of them that fit into the budget, in two parts.

        First those of files about the same subject by their names, which notice most mutants.
        Collecting a file takes longer than most of its tests, so that both are of few files.
        """
        with self._lock:
            found = self._tests(mutant) - set(without)
        files = sorted({name.partition("::")[0] for name in found}, key=closeness(mutant.path))
        parts = files[:NEAREST], files[NEAREST:MOST_FILES]
        named = ([name for name in found if name.partition("::")[0] in part] for part in parts)
        return found, [budgeted(part, self.seconds, self._budget / 2) for part in named if part]

    def _tests(self, mutant: Mutant) -> set[str]:
        path = SOURCE / mutant.path
        contexts = self._recording.contexts(path, mutant.lines)
        if mutant.in_function and AT_IMPORT not in contexts:
            return self._recording.tests(contexts)
        names = self._mentions.reached(mutant.function.split("."))
        for other, lines in self._mentions.lines(names).items():
            contexts |= self._recording.contexts(other, lines)
        found = self._recording.tests(contexts)
        mentioning = self._mentions.tests(names)
        found |= {test for test in self._recording.seconds if base_of(test) in mentioning}
        return found or self._recording.tests(self._recording.contexts(path))


class MutantRunner:
    """Runs the tests of a mutant, in a copy of the package of its own."""

    def __init__(self, name: str, choice: "TestChoice") -> None:
        self._choice = choice
        self._place = Workplace(name)
        self._tree = self._place.folder / "tree"
        self._failures = self._place.folder / "failures"
        self._running = self._place.folder / "running"
        shutil.rmtree(self._tree, ignore_errors=True)
        unneeded = shutil.ignore_patterns("__pycache__")
        shutil.copytree(SOURCE, self._tree / PACKAGE, ignore=unneeded)

    def verdict(self, mutant: Mutant, without: Collection[str] = ()) -> Verdict:
        found, parts = self._choice.of(mutant, without)
        verdict = Verdict(mutant, SURVIVED if found else NOT_EXECUTED, 0, len(found))
        for chosen in parts:
            verdict = self._judge(replace(verdict, tests=verdict.tests + len(chosen)), chosen)
            if verdict.killed:
                break
        return verdict

    def _judge(self, verdict: Verdict, chosen: list[str]) -> Verdict:
        with self._in_place(verdict.mutant):
            status, failures = self._run(chosen, "-x")
        if status in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
            return verdict
        if status in TIMERS:
            running = self._running.read_text(encoding="utf-8")
            return replace(verdict, status=TIMEOUT, killer=running or None)
        return replace(verdict, status=KILLED, killer=failures[0] if failures else None)

    def failing(self, tests: Collection[str]) -> list[str]:
        """Those of the tests that fail without any mutant."""
        return self._run(list(tests))[1] if tests else []

    @contextmanager
    def _in_place(self, mutant: Mutant) -> Generator[None]:
        """With a time of its own, or Python could take a mutant for another of the same size."""
        file = self._tree / PACKAGE / mutant.path
        file.write_bytes(mutant.applied())
        os.utime(file, (stamp := int(mutant.key[:7], 16), stamp))
        try:
            yield
        finally:
            shutil.copy2(SOURCE / mutant.path, file)

    def _run(self, chosen: list[str], *flags: str) -> tuple[int, list[str]]:
        for file in (self._failures, self._running):
            file.write_text("", encoding="utf-8")
        limits = {name: MARGIN + SLOWER * self._choice.seconds[name] for name in chosen}
        files = dict.fromkeys(name.partition("::")[0] for name in chosen)
        status = self._place.run_pytest(
            {
                "limits": limits,
                "failures": str(self._failures),
                "running": str(self._running),
            },
            [*flags, *files],
            self._tree,
            timeout=START_UP + SLOWER * sum(limits.values()),
        )
        return status, self._failures.read_text(encoding="utf-8").splitlines()


def closeness(path: str) -> Callable[[str], tuple[int, str]]:
    """Ranks test files by how many words their paths share with the path of a source file."""
    words = _words(path)
    return lambda file: (-len(words & _words(file)), file)


def _words(path: str) -> set[str]:
    return set("_".join(Path(path).with_suffix("").parts).split("_"))


def budgeted(tests: Collection[str], seconds: Mapping[str, float], budget: float) -> list[str]:
    """The quickest that fit into the budget; of many, the quickest of every file come first."""
    order = sorted(tests, key=lambda name: (seconds[name], name))
    if len(order) > MANY:
        seen: Counter[str] = Counter()
        ranks: dict[str, int] = {}
        for name in order:
            file = name.partition("::")[0]
            ranks[name] = seen[file]
            seen[file] += 1
        order.sort(key=lambda name: ranks[name])
    chosen, total = order[:1], seconds[order[0]]
    for name in order[1:]:
        if total + seconds[name] <= budget:
            chosen.append(name)
            total += seconds[name]
    return chosen


class KnownVerdicts:
    """Verdicts of earlier runs on the same sources and tests: a run that was stopped goes on, and
    samples share what they have in common.
    """

    def __init__(self, file: Path, now: str) -> None:
        self._file, self._now = file, now
        self._entries: dict[str, dict[str, Any]] = {}
        for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
            entry = json.loads(line)
            if entry["fingerprint"] == now:
                self._entries[entry["key"]] = entry

    def of(self, mutant: Mutant) -> Verdict | None:
        entry = self._entries.get(mutant.key)
        if entry is None:
            return None
        return Verdict(mutant, entry["status"], entry["tests"], entry["of"], entry["killer"])

    def add(self, verdict: Verdict) -> None:
        entry = {**_entry(verdict), "fingerprint": self._now}
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")


def run_mutants(
    mutants: list[Mutant], choice: TestChoice, known: KnownVerdicts, jobs: int
) -> list[Verdict]:
    """A verdict that rests on a test which also fails without the mutant is given anew."""
    idle: queue.SimpleQueue[MutantRunner] = queue.SimpleQueue()
    for number in range(jobs):
        idle.put(MutantRunner(f"runner-{number}", choice))
    killed: list[bool] = []

    def judged(mutant: Mutant) -> Verdict:
        verdict = known.of(mutant)
        if verdict is None:
            runner = idle.get()
            try:
                verdict = runner.verdict(mutant)
            finally:
                idle.put(runner)
            known.add(verdict)
        killed.append(verdict.killed)
        counts = f"{len(killed)} of {len(mutants)} mutants, {sum(killed)} killed"
        progress(counts, line=len(killed) % 10 == 0)
        if not verdict.killed:
            progress(_described(verdict), line=True)
        return verdict

    # In the order of the draw: if the run is stopped, what was judged is a sample of the sample.
    in_order = sorted(mutants, key=lambda mutant: mutant.rank)
    with ThreadPoolExecutor(jobs) as pool:
        verdicts = list(pool.map(judged, in_order))
    verdicts.sort(key=lambda verdict: (verdict.mutant.path, verdict.mutant.line))
    runner = idle.get()
    killers = {verdict.killer for verdict in verdicts if verdict.killer}
    broken = runner.failing(sorted(killers))
    if broken:
        print(f"fail without a mutant, and are left out: {', '.join(broken)}", file=sys.stderr)
    return [runner.verdict(v.mutant, broken) if v.killer in broken else v for v in verdicts]


def progress(text: str, *, line: bool = False) -> None:
    """On a terminal always in place; elsewhere only what is worth a line of its own."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
    elif line:
        print(text, file=sys.stderr, flush=True)


# The report.


@dataclass(frozen=True)
class Row:
    package: str
    mutants: int
    killed: int

    @property
    def survived(self) -> int:
        return self.mutants - self.killed

    @property
    def percent(self) -> float:
        return round(100 * self.killed / self.mutants, 1) if self.mutants else 100.0

    def __str__(self) -> str:
        figures = f"{self.mutants:8} {self.killed:7} {self.survived:9}"
        return f"{self.package:<12} {figures} {self.percent:6.1f}"


def rows(verdicts: list[Verdict]) -> list[Row]:
    packages: dict[str, list[Verdict]] = defaultdict(list)
    for verdict in sorted(verdicts, key=lambda verdict: verdict.mutant.package):
        packages[verdict.mutant.package].append(verdict)
    packages["total"] = verdicts
    return [Row(name, len(of), sum(v.killed for v in of)) for name, of in packages.items()]


def reported(verdicts: list[Verdict]) -> str:
    lines = [f"{'package':<12}  mutants  killed  survived      %", *map(str, rows(verdicts))]
    for verdict in verdicts:
        if not verdict.killed:
            lines += ["", _described(verdict)]
    return "\n".join(lines)


def _described(verdict: Verdict) -> str:
    mutant = verdict.mutant
    where = f"src/{PACKAGE}/{mutant.path}:{mutant.line} {mutant.function}"
    passed = f"{verdict.status}, {verdict.tests} of {verdict.of} tests"
    what = verdict.status if verdict.status == NOT_EXECUTED else passed
    return f"{where} · {mutant.operator} · {what}\n    {mutant.before}\n  → {mutant.after}"


def report(verdicts: list[Verdict], options: argparse.Namespace) -> str:
    content = {
        "seed": options.seed,
        "per_module": options.per_module,
        "budget": options.budget,
        "rows": [{**asdict(row), "percent": row.percent} for row in rows(verdicts)],
        "mutants": [_entry(verdict) for verdict in verdicts],
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _entry(verdict: Verdict) -> dict[str, object]:
    mutant = verdict.mutant
    names = ("path", "line", "function", "operator", "before", "after", "key")
    about = {name: getattr(mutant, name) for name in names}
    outcome = {"status": verdict.status, "killer": verdict.killer, "tests": verdict.tests}
    return {"package": mutant.package, **about, **outcome, "of": verdict.of}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Mutation testing of src/wainwright.")
    parser.add_argument("--seed", type=int, default=1, help="another seed draws other mutants")
    parser.add_argument(
        "--per-module", type=float, default=1.0, help=f"mutants per {MODULE_LINES} lines"
    )
    parser.add_argument("--budget", type=float, default=20.0, help="seconds of tests per mutant")
    parser.add_argument("--packages", default="", help="such as core,aws; all if not given")
    parser.add_argument("--record", type=Path, default=WORK / "record.sqlite", metavar="FILE")
    parser.add_argument("--jobs", type=int, default=1, help="processes at the same time")
    parser.add_argument("--report", type=Path, metavar="FILE", help="the verdicts as JSON")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    WORK.mkdir(exist_ok=True)
    packages = [name for name in options.packages.split(",") if name]
    mutants = drawn(packages, options.seed, options.per_module)
    progress("recording which tests execute which lines, where that is not known", line=True)
    recorded = recording(options.record.resolve(), options.jobs)
    if recorded.failed:
        left_out = ", ".join(recorded.failed)
        print(f"fail without a mutant, and are left out: {left_out}", file=sys.stderr)
    known = KnownVerdicts(WORK / "verdicts.jsonl", f"{fingerprint()} {options.budget}")
    verdicts = run_mutants(mutants, TestChoice(recorded, options.budget), known, options.jobs)
    progress("")
    print(reported(verdicts))
    if options.report:
        options.report.write_text(report(verdicts, options), encoding="utf-8")


if __name__ == "__main__":
    main()
