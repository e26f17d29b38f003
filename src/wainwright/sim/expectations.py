"""Whether what a Scenario expects is what happens.

Expectations are judged while the simulation runs: a state is looked at once, and only as deep as an
expectation of that moment needs it. Several states of one moment count as the last of them, which
is the one after everything that was due.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from wainwright.messages.formatting import format_count
from wainwright.model.labels import (
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    RESERVATION_ID,
    ZONE,
)
from wainwright.model.simulation import (
    EndClaim,
    EndNode,
    EventEntry,
    ExpectationResult,
    Totals,
)
from wainwright.sim.observed_state import ObservedState
from wainwright.sim.scenario import (
    END,
    ClaimExpectation,
    Comparisons,
    EventExpectation,
    Expectation,
    NodeExpectation,
    NodeMatch,
    ObjectExpectation,
    ObjectTarget,
    StateExpectation,
    TotalExpectation,
    ValueComparison,
    Window,
)
from wainwright.sim.scenario_format.references import is_glob, matches
from wainwright.translate.disruption import format_duration

TOLERANCE: Final = 1e-6
"""Numbers that differ by no more are equal: sums of prices are rounded."""
SECONDS: Final = ("pendingFor", "pendingSeconds")
Path = tuple[str, ...]
Value = float | str | bool | None


class JudgedExpectation(msgspec.Struct, frozen=True, kw_only=True):
    """What one state, or the totals, make of an expectation."""

    held: bool
    values: Mapping["Path", "Value"]
    failed: tuple["Path", ...] = ()
    """The values that are not as they should be."""
    message: str = ""
    """Empty where the values say enough."""


def holds(comparison: ValueComparison, value: Value) -> bool:
    """Whether a value is as it should be; text may be a glob."""
    if comparison.equal is not msgspec.UNSET:
        return _is_equal(comparison.equal, value)
    if isinstance(value, str | bool) or value is None:
        return False
    bounds = (
        comparison.lt is None or value < comparison.lt - TOLERANCE,
        comparison.lte is None or value <= comparison.lte + TOLERANCE,
        comparison.gt is None or value > comparison.gt + TOLERANCE,
        comparison.gte is None or value >= comparison.gte - TOLERANCE,
    )
    return all(bounds)


def _is_equal(expected: Value | msgspec.UnsetType, value: Value) -> bool:
    if isinstance(expected, str):
        return isinstance(value, str) and matches(value, expected)
    if isinstance(expected, bool) or expected is None:
        return value is expected
    if isinstance(value, str | bool) or value is None or expected is msgspec.UNSET:
        return False
    return abs(value - expected) <= TOLERANCE


def describe_comparison(comparison: ValueComparison) -> str:
    """7, at most 7, more than 3 and less than 9."""
    if comparison.equal is not msgspec.UNSET:
        return "nothing" if comparison.equal is None else format_amount(comparison.equal)
    words = {"gt": "more than", "gte": "at least", "lt": "less than", "lte": "at most"}
    bounds = ((words[name], getattr(comparison, name)) for name in words)
    return " and ".join(f"{word} {format_amount(at)}" for word, at in bounds if at is not None)


def format_amount(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _describe_moment(at: float) -> str:
    return "at the end" if at == END else f"at {format_duration(at)}"


class _Judge(Protocol):
    """Judges one expectation."""

    @property
    def line(self) -> int: ...

    @property
    def window(self) -> Window: ...

    @property
    def decided_at(self) -> float: ...

    def observe(self, state: ObservedState) -> None: ...

    def result(self, totals: Totals, end: float, *, is_complete: bool) -> ExpectationResult: ...


class Expectations:
    """All expectations of a Scenario.

    `observe` is to be called with every state, and at each of `moments` even where nothing has
    changed; `finish` once, with the last state.
    """

    def __init__(self, expect: Sequence[Expectation]) -> None:
        self._judges = [_judge_of(each) for each in expect]

    @property
    def moments(self) -> tuple[float, ...]:
        """Moments at which a state must be observed, ascending, without the end."""
        found = {at for judge in self._judges for at in (judge.window.start, judge.window.end)}
        return tuple(sorted(at for at in found if at != END))

    def observe(self, state: ObservedState) -> None:
        at = state.at
        for judge in self._judges:
            if judge.window.start <= at <= judge.window.end:
                judge.observe(state)

    def finish(
        self, state: ObservedState, totals: Totals, *, is_complete: bool = True
    ) -> list[ExpectationResult]:
        """The results, in the order of the file; the last state was observed already.

        Incomplete is a simulation that `--until` has stopped: what was to be judged later is
        neither held nor failed.
        """
        if is_complete:
            for judge in self._judges:
                if judge.window.start == END:
                    judge.observe(state)
        return [judge.result(totals, state.at, is_complete=is_complete) for judge in self._judges]

    def judged_at(self, end: float) -> list[float]:
        """When each was decided, in the order of the results: at its moment, where a state of its
        window failed, else when its window was over."""
        return [min(judge.decided_at, end) for judge in self._judges]


def _judge_of(expectation: Expectation) -> _Judge:
    match expectation:
        case TotalExpectation():
            return _TotalJudge(expectation)
        case EventExpectation():
            return _EventJudge(expectation)
        case _:
            return _StateJudge(expectation)


def _not_reached(line: int) -> ExpectationResult:
    message = "not judged: the simulation stopped before"
    return ExpectationResult(line=line, held=None, found=None, message=message)


class _StateJudge:
    """Of every state of a window.

    The outcome of a moment counts once a later state is seen: until then another state of the
    same moment takes its place.
    """

    def __init__(
        self,
        expectation: StateExpectation | NodeExpectation | ClaimExpectation | ObjectExpectation,
    ) -> None:
        self._expectation = expectation
        self._latest: tuple[float, JudgedExpectation] | None = None
        self._failed: tuple[float, JudgedExpectation] | None = None
        self._ranges: dict[Path, tuple[float, float]] = {}
        """The lowest and highest values of a window."""

    @property
    def line(self) -> int:
        return self._expectation.line

    @property
    def window(self) -> Window:
        return self._expectation.window

    @property
    def decided_at(self) -> float:
        return self.window.end if self._failed is None else self._failed[0]

    def observe(self, state: ObservedState) -> None:
        if self._failed is not None and self._failed[0] < state.at:
            return
        if self._latest is not None and self._latest[0] < state.at:
            self._commit()
            if self._failed is not None:
                return
        self._latest = (state.at, outcome_of(self._expectation, state))

    def _commit(self) -> None:
        if self._latest is None:
            return
        outcome = self._latest[1]
        if not outcome.held:
            self._failed = self._latest
        elif self.window.start < self.window.end:
            self._widen(outcome)

    def _widen(self, outcome: JudgedExpectation) -> None:
        for path, value in outcome.values.items():
            if isinstance(value, int | float):
                low, high = self._ranges.get(path, (value, value))
                self._ranges[path] = (min(low, value), max(high, value))

    def result(
        self,
        totals: Totals,  # noqa: ARG002
        end: float,
        *,
        is_complete: bool,
    ) -> ExpectationResult:
        self._commit()
        is_later = self.window.end > end and not is_complete
        if self._failed is None and (is_later or self._latest is None):
            return _not_reached(self.line)
        decisive = self._failed or self._latest
        assert decisive is not None
        at, outcome = decisive
        if outcome.held and self.window.start < self.window.end:
            return self._held_throughout()
        moment = END if self.window.start == END else at
        message = describe_outcome(outcome, self._expectation.values)
        return ExpectationResult(
            line=self.line,
            held=outcome.held,
            found=_nested(outcome.values),
            message=f"{_describe_moment(moment)}: {message}",
        )

    def _held_throughout(self) -> ExpectationResult:
        """What was found is from where to where the values went."""
        found = {path: {"min": low, "max": high} for path, (low, high) in self._ranges.items()}
        texts = [_describe_range(path, *between) for path, between in self._ranges.items()]
        start, end = _describe_moment(self.window.start), _describe_moment(self.window.end)
        message = f"from {start.removeprefix('at ')} to {end.removeprefix('at ')}: "
        return ExpectationResult(
            line=self.line, held=True, found=_nested(found), message=message + ", ".join(texts)
        )


class _TotalJudge:
    def __init__(self, expectation: TotalExpectation) -> None:
        self._expectation = expectation

    @property
    def line(self) -> int:
        return self._expectation.line

    @property
    def window(self) -> Window:
        return Window(start=END, end=END)

    @property
    def decided_at(self) -> float:
        return END

    def observe(self, state: ObservedState) -> None:
        """Totals are judged at the end."""

    def result(
        self,
        totals: Totals,
        end: float,  # noqa: ARG002
        *,
        is_complete: bool,
    ) -> ExpectationResult:
        if not is_complete:
            return _not_reached(self.line)
        values = {path: total_value(totals, path) for path in self._expectation.values}
        outcome = _compare(self._expectation.values, values)
        return ExpectationResult(
            line=self.line,
            held=outcome.held,
            found=_nested(values),
            message=describe_outcome(outcome, self._expectation.values),
        )


class _EventJudge:
    """Counts Kubernetes Events within its window."""

    def __init__(self, expectation: EventExpectation) -> None:
        self._expectation = expectation
        self._count = 0

    @property
    def line(self) -> int:
        return self._expectation.line

    @property
    def window(self) -> Window:
        """Every state: events of a moment may come with a state after it."""
        return Window(start=0.0, end=END)

    @property
    def decided_at(self) -> float:
        return self._expectation.window.end

    def observe(self, state: ObservedState) -> None:
        self._count += sum(self._is_meant(event) for event in state.new_events)

    def _describe_found(self) -> str:
        """2 events Nominated of Pod shop/web-0."""
        expected = self._expectation
        parts = [format_count(self._count, "event"), expected.reason]
        parts += ["of", expected.kind, expected.name] if expected.kind else []
        return " ".join(each for each in parts if each)

    def _is_meant(self, event: EventEntry) -> bool:
        expected, window = self._expectation, self._expectation.window
        if not window.start <= event.at <= window.end:
            return False
        kind, _, name = event.object.partition("/")
        is_named = expected.name is None or any(
            matches(each, expected.name) for each in (name, name.rpartition("/")[2])
        )
        return is_named and matches(event.reason, expected.reason) and matches(kind, expected.kind)

    def result(
        self,
        totals: Totals,  # noqa: ARG002
        end: float,
        *,
        is_complete: bool,
    ) -> ExpectationResult:
        if self._expectation.window.end > end and not is_complete:
            return _not_reached(self.line)
        count = self._expectation.count
        message = f"{self._describe_found()}, expected {describe_comparison(count)}"
        held = holds(count, self._count)
        return ExpectationResult(
            line=self.line, held=held, found={"count": self._count}, message=message
        )


# What a state makes of an expectation


def outcome_of(
    expectation: StateExpectation | NodeExpectation | ClaimExpectation | ObjectExpectation,
    state: ObservedState,
) -> JudgedExpectation:
    match expectation:
        case StateExpectation():
            values = {path: state_value(state, path) for path in expectation.values}
            return _compare(expectation.values, values)
        case NodeExpectation():
            nodes = [
                each for each in state.node_views() if selects_node(expectation.selector, each)
            ]
            return _judge_all(
                "node",
                [(_node_name(each), _node_values(each)) for each in nodes],
                expectation.values,
                expectation.count,
            )
        case ClaimExpectation():
            return _judge_all(
                "claim",
                _selected_claims(expectation.selector, state),
                expectation.values,
                expectation.count,
            )
        case ObjectExpectation():
            return _judge_all(
                "object",
                _selected_objects(expectation.target, state),
                expectation.values,
                expectation.count,
            )


def _compare(comparisons: Comparisons, values: Mapping[Path, Value]) -> JudgedExpectation:
    failed = tuple(
        path for path, comparison in comparisons.items() if not holds(comparison, values[path])
    )
    return JudgedExpectation(held=not failed, values=values, failed=failed)


def describe_outcome(outcome: JudgedExpectation, comparisons: Comparisons) -> str:
    """What is not as it should be; where everything is, what it is."""
    if outcome.message:
        return outcome.message
    if outcome.held:
        return ", ".join(_describe(path, value) for path, value in outcome.values.items())
    return "; ".join(
        _describe_difference(path, outcome.values[path], comparisons[path])
        for path in outcome.failed
    )


def _describe_difference(path: Path, value: Value, comparison: ValueComparison) -> str:
    unit = _unit(path)
    return f"{_describe(path, value)}, expected {describe_comparison(comparison)}{unit}"


def _describe(path: Path, value: Value) -> str:
    return f"{'.'.join(path)} is {_describe_value(value)}{_unit(path)}"


def _describe_range(path: Path, low: float, high: float) -> str:
    between = (
        format_amount(low) if low == high else f"{format_amount(low)} to {format_amount(high)}"
    )
    return f"{'.'.join(path)} was {between}{_unit(path)}"


def _unit(path: Path) -> str:
    return " s" if path[0] in SECONDS else ""


def _describe_value(value: Value) -> str:
    return "nothing" if value is None else format_amount(value)


def _nested(values: Mapping[Path, Any]) -> dict[str, Any]:
    """{("pods", "pending"): 3} is {"pods": {"pending": 3}}."""
    found: dict[str, Any] = {}
    for path, value in values.items():
        inner = found
        for step in path[:-1]:
            inner = inner.setdefault(step, {})
        inner[path[-1]] = value
    return found


def state_value(state: ObservedState, path: Path) -> float:
    match path:
        case ("pods", "pending"):
            return state.pending_pods
        case ("pods", _):
            return state.running_pods
        case ("nodes", "count"):
            return state.nodes
        case ("nodes", capacity_type):
            return state.nodes_by_capacity_type.get(capacity_type, 0)
        case ("pendingFor",):
            return state.longest_wait
        case ("reservations", identity, what):
            count = state.reservations.get(identity)
            return 0 if count is None else getattr(count, what)
        case _:
            return state.price_per_hour


def total_value(totals: Totals, path: Path) -> float:
    """What was never counted is 0."""
    value: Any = getattr(totals, path[0])
    for step in path[1:]:
        if isinstance(value, Mapping):
            value = value.get(step, 0)
        elif isinstance(value, list):
            value = next((each for each in value if each.id == step), 0)
        else:
            value = getattr(value, step, 0)
    return float(value)


Candidate = tuple[str, Mapping[Path, Value]]
"""A node, claim or object by its name, and its values by their paths."""


def _judge_all(
    what: str,
    candidates: Sequence[Candidate],
    comparisons: Comparisons,
    count: ValueComparison | None,
) -> JudgedExpectation:
    """Without a count all must pass, and there must be one; else as many as it says."""
    failures = [
        (name, path, values.get(path, _absent(path)))
        for name, values in candidates
        for path, comparison in comparisons.items()
        if not holds(comparison, values.get(path, _absent(path)))
    ]
    passed = len(candidates) - len({name for name, _, _ in failures})
    found: dict[Path, Value] = {("selected",): len(candidates), ("passed",): passed}
    if count is not None:
        verb = "passes" if passed == 1 else "pass"
        message = f"{format_count(passed, what)} {verb}, expected {describe_comparison(count)}"
        return JudgedExpectation(held=holds(count, passed), values=found, message=message)
    if not candidates:
        return JudgedExpectation(held=False, values=found, message=f"there is no such {what}")
    if not failures:
        verb = "passes" if passed == 1 else "pass"
        message = f"{format_count(passed, what)} {verb}"
        return JudgedExpectation(held=True, values=found, message=message)
    name, path, value = failures[0]
    difference = _describe_difference(path, value, comparisons[path])
    return JudgedExpectation(held=False, values=found, message=f"{what} {name}: {difference}")


def _absent(path: Path) -> str | None:
    """A condition that is absent reads False."""
    return "False" if path[0] == "conditions" else None


def selects_node(selector: NodeMatch, node: EndNode) -> bool:
    return (
        matches(node.name, selector.name)
        and matches(node.nodePool, selector.node_pool)
        and matches(node.instanceType, selector.instance_type)
        and matches(node.zone, selector.zone)
        and matches(node.capacityType, selector.capacity_type)
        and matches(node.reservationID, selector.reservation_id)
        and _holds_pods(selector.pods, node.pods)
    )


def _holds_pods(patterns: Iterable[str], pods: Sequence[str]) -> bool:
    return all(any(matches(pod, pattern) for pod in pods) for pattern in patterns)


def _node_name(node: EndNode) -> str:
    return node.name or node.claim or node.instance


def _node_values(node: EndNode) -> dict[Path, Value]:
    return {
        ("name",): node.name,
        ("nodePool",): node.nodePool,
        ("instanceType",): node.instanceType,
        ("zone",): node.zone,
        ("capacityType",): node.capacityType,
        ("reservationID",): node.reservationID,
        ("pricePerHour",): node.pricePerHour,
        ("ready",): node.ready,
        ("pods",): len(node.pods),
    }


def _selected_claims(selector: NodeMatch, state: ObservedState) -> list[Candidate]:
    pods: dict[str, Sequence[str]] = {}
    if selector.pods:
        pods = {each.claim: each.pods for each in state.node_views() if each.claim is not None}
    return [
        (claim.name, _claim_values(claim))
        for claim in state.claim_views()
        if _selects_claim(selector, claim) and _holds_pods(selector.pods, pods.get(claim.name, ()))
    ]


def _selects_claim(selector: NodeMatch, claim: EndClaim) -> bool:
    labels = claim.labels
    return (
        matches(claim.name, selector.name)
        and matches(claim.nodePool, selector.node_pool)
        and matches(labels.get(INSTANCE_TYPE), selector.instance_type)
        and matches(labels.get(ZONE), selector.zone)
        and matches(labels.get(CAPACITY_TYPE), selector.capacity_type)
        and matches(labels.get(RESERVATION_ID), selector.reservation_id)
    )


def _claim_values(claim: EndClaim) -> dict[Path, Value]:
    values: dict[Path, Value] = {
        ("name",): claim.name,
        ("nodePool",): claim.nodePool,
        ("node",): claim.node,
        ("instanceType",): claim.labels.get(INSTANCE_TYPE),
        ("zone",): claim.labels.get(ZONE),
        ("capacityType",): claim.labels.get(CAPACITY_TYPE),
        ("reservationID",): claim.labels.get(RESERVATION_ID),
    }
    values |= {("conditions", name): status for name, status in claim.conditions.items()}
    return values | {("labels", name): value for name, value in claim.labels.items()}


def _selected_objects(target: ObjectTarget, state: ObservedState) -> list[Candidate]:
    found: list[Candidate] = []
    for namespace, name in _object_names(target, state):
        item = state.find_object(target.kind, namespace, name)
        if item is not None:
            conditions = getattr(getattr(item, "status", None), "conditions", None) or ()
            values: dict[Path, Value] = {
                ("conditions", each.type): each.status for each in conditions
            }
            found.append((f"{target.kind} {name}", values))
    return found


def _object_names(target: ObjectTarget, state: ObservedState) -> list[tuple[str, str]]:
    """Those that match; without a glob nothing has to be listed."""
    if not is_glob(target.name) and not is_glob(target.namespace):
        return [(target.namespace, target.name)]
    return [
        (namespace, name)
        for namespace, name in state.object_names(target.kind)
        if matches(namespace, target.namespace) and matches(name, target.name)
    ]
