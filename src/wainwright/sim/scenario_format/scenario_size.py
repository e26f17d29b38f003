"""How many pods and static nodes a Scenario has at the same time, before anything runs: a mistyped
number of replicas would take all memory.

Rows of traces are not counted: none of them stands for more than itself.
"""

from collections import defaultdict
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

import msgspec

from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.wire import WireStruct
from wainwright.errors import InvalidInputError
from wainwright.sim.scenario import (
    ApplyObjects,
    DeleteObject,
    ObjectTarget,
    ScaleWorkload,
    ScenarioEvent,
)
from wainwright.translate.disruption import format_duration
from wainwright.translate.workload_expansion import OwnerKey, check_pod_count, count_pods

LIMIT_HINT: Final = "is a number of replicas mistyped? --pod-limit raises the limit"
NODE_POOL: Final = "NodePool"


def check_scenario_size(
    objects: Iterable[WireStruct], events: Iterable[ScenarioEvent], limit: int
) -> None:
    """Raises InvalidInputError where more pods, or static nodes, than that are there at once."""
    all_objects = list(objects)
    check_pod_count(all_objects, limit)
    size = _ScenarioSize(all_objects, limit)
    for moment in _in_order(events):
        size.change(moment)


class _EventMoment(NamedTuple):
    """A point of a curve, or the only moment of another event."""

    at: float
    event: ScenarioEvent
    point: int


class _Line(msgspec.Struct, frozen=True):
    """A number that grows, falls or stays from one moment on."""

    since: float = 0.0
    start: float = 0
    slope: float = 0.0

    def at(self, moment: float) -> float:
        return self.start + self.slope * (moment - self.since)


def _moments_of(event: ScenarioEvent) -> list[_EventMoment]:
    if not isinstance(event.action, ScaleWorkload):
        return [_EventMoment(event.at, event, 0)]
    curve = event.action.curve
    return [
        _EventMoment(event.at + point.after, event, number) for number, point in enumerate(curve)
    ]


def _in_order(events: Iterable[ScenarioEvent]) -> list[_EventMoment]:
    """When a number begins to grow, fall or stay: the highest total is at one of them."""
    moments = [moment for event in events for moment in _moments_of(event)]
    return sorted(moments, key=lambda each: each.at)


class _Growing(msgspec.Struct):
    """The events that go on changing the replicas of a workload, and the highest they set."""

    events: set[int] = msgspec.field(default_factory=set)
    highest: int = 0


class _Total:
    """The sum of numbers that change with time, kept up change by change."""

    def __init__(self) -> None:
        self.lines: dict[OwnerKey, _Line] = {}
        self._sum = _Line()

    def set(self, key: OwnerKey, line: _Line) -> None:
        old = self.lines.get(key, _Line())
        at = line.since
        self._sum = _Line(
            at,
            self._sum.at(at) + line.start - old.at(at),
            self._sum.slope + line.slope - old.slope,
        )
        self.lines[key] = line

    def at(self, moment: float) -> int:
        return round(self._sum.at(moment))

    def largest(self, moment: float) -> tuple[OwnerKey, int]:
        key = max(self.lines, key=lambda each: self.lines[each].at(moment))
        return key, round(self.lines[key].at(moment))


class _ScenarioSize:
    """What there is from one moment to the next."""

    def __init__(self, objects: list[WireStruct], limit: int) -> None:
        self._limit = limit
        self._pods, self._nodes = _Total(), _Total()
        self._growing: dict[OwnerKey, _Growing] = defaultdict(_Growing)
        counted = count_pods(objects)
        self._others = counted.pods - sum(counted.live.values())
        for key, wanted in counted.wanted.items():
            self._pods.set(key, _Line(0.0, max(wanted, counted.live[key])))
        self._set_static_nodes(0.0, objects)
        self._check(0.0, None)

    def change(self, moment: _EventMoment) -> None:
        self._check(moment.at, moment.event)  # just before it
        match moment.event.action:
            case ApplyObjects(objects=objects):
                for key, wanted in count_pods(objects, named_pods=True).wanted.items():
                    self._set_pods(key, _Line(moment.at, wanted))
                self._set_static_nodes(moment.at, objects)
            case ScaleWorkload(target=target) as action:
                self._scale(moment, action, (target.kind, target.namespace, target.name))
            case DeleteObject(target=target):
                self._delete(moment.at, target)
            case _:
                pass  # changes no number of replicas
        self._check(moment.at, moment.event)

    def _scale(self, moment: _EventMoment, action: ScaleWorkload, key: OwnerKey) -> None:
        point, growing = action.curve[moment.point], self._growing[key]
        growing.events.discard(id(moment.event))
        if moment.point == len(action.curve) - 1:
            self._set_pods(key, _Line(moment.at, point.replicas))
            return
        following = action.curve[moment.point + 1]
        slope = (following.replicas - point.replicas) / (following.after - point.after)
        highest = max(point.replicas, following.replicas)
        self._set_pods(key, _Line(moment.at, point.replicas, slope), highest)
        growing.highest = max(growing.highest if growing.events else 0, highest)
        growing.events.add(id(moment.event))

    def _set_pods(self, key: OwnerKey, line: _Line, highest: float = 0) -> None:
        """Where other events go on changing the number, the highest that any of them sets."""
        growing = self._growing.get(key)
        if growing is not None and growing.events:
            line = _Line(line.since, max(growing.highest, line.start, highest))
        self._pods.set(key, line)

    def _delete(self, at: float, target: ObjectTarget) -> None:
        total = self._nodes if target.kind == NODE_POOL else self._pods
        exact = (target.kind, target.namespace, target.name)
        names = [exact] if exact in total.lines else []
        if target.kind == "Pod" and not names:  # may be a glob
            same = [key for key in total.lines if key[:2] == exact[:2]]
            names = [key for key in same if fnmatchcase(key[2], target.name)]
        for key in names:
            total.set(key, _Line(at))

    def _set_static_nodes(self, at: float, objects: Iterable[WireStruct]) -> None:
        for each in objects:
            if isinstance(each, NodePool):
                key = (NODE_POOL, "", each.metadata.name)
                self._nodes.set(key, _Line(at, each.spec.replicas or 0))

    def _check(self, at: float, event: ScenarioEvent | None) -> None:
        pods = self._others + self._pods.at(at)
        if pods > self._limit:
            raise self._too_many(pods, "pods", self._pods, at, event)
        nodes = self._nodes.at(at)
        if nodes > self._limit:
            raise self._too_many(nodes, "static nodes", self._nodes, at, event)

    def _too_many(
        self, number: int, what: str, total: _Total, at: float, event: ScenarioEvent | None
    ) -> InvalidInputError:
        (kind, namespace, name), most = total.largest(at)
        when = "" if event is None else f" at {format_duration(at)}"
        line = "" if event is None or event.line is None else f" (event of line {event.line})"
        owner = f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
        return InvalidInputError(
            f"the scenario has {number:,} {what}{when}{line}, {most:,} of them of {owner}; at most "
            f"{self._limit:,} are simulated",
            hint=LIMIT_HINT,
        )
