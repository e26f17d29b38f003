"""Expectations of a Scenario: when, of what, and which values."""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import partial
from typing import Any, Final

import msgspec

from wainwright.api.field_error import (
    FieldPath,
    broken_rule,
    did_you_mean,
    invalid_value,
    missing_field,
    unknown_field,
)
from wainwright.model.simulation import PendingSeconds, ReservationTotals, Totals
from wainwright.sim.scenario import (
    WHOLE_RUN,
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
from wainwright.sim.scenario_format.event_format import (
    OBJECT_KEYS,
    SelectorReader,
    condition_status,
    read_kind,
)
from wainwright.sim.scenario_format.field_reader import (
    FieldReader,
    Fields,
    duration_seconds,
    is_number,
)
from wainwright.sim.scenario_format.references import (
    RESERVATION,
    is_glob,
    matches,
    object_reference,
    resources_by_kind,
)

BOUNDS: Final = ("lt", "lte", "gt", "gte")
TIMES: Final = ("at", "during", "total")
SUBJECTS: Final = ("node", "claim", "object", "event")
NODE_COUNTS: Final = ("count", "reserved", "spot", "on-demand")
STATE_KEYS: Final = ("pods", "nodes", "pricePerHour", "pendingFor", "reservations")
DISRUPTION_REASONS: Final = (
    *("Empty", "Drifted", "Underutilized", "expired", "interrupted", "unhealthy"),
    *("registration_timeout", "launch_timeout", "garbage_collected", "deleted"),
)
EVENT_REASONS: Final = (
    *("AwaitingVolumeDetachment", "CapacityReservationExpiring"),
    *("CapacityReservationInstanceInterrupted", "ConsolidationApproved", "ConsolidationCandidate"),
    *("ConsolidationRejected", "ConsolidationUndone", "Disrupted", "DisruptionBlocked"),
    *("DisruptionBreakerOpen", "DisruptionLaunching", "DisruptionTerminating"),
    *("DisruptionWaitingReadiness", "DoNotDisruptGracePeriodElapsed", "DoNotDisruptUntil"),
    *("Evicted", "FailedConsistencyCheck", "FailedDraining", "FailedScheduling"),
    *("FailedTermination", "InstanceStopping", "InstanceTerminating", "InstanceUnhealthy"),
    *("InsufficientCapacityError", "InvalidAnnotation", "InvalidDoNotDisruptAnnotation"),
    *(
        "LaunchTimeout",
        "NoCompatibleInstanceTypes",
        "NodeClassNotReady",
        "NodeRepairBlocked",
        "Nominated",
    ),
    *("ProvisioningPaused", "RegistrationTimeout", "SchedulingDisagreement", "SpotInterrupted"),
    *("SpotRebalanceRecommendation", "SpotServiceLinkedRoleCreationFailure"),
    *("TerminatingOnInterruption", "TerminationGracePeriodExpiring", "Unconsolidatable"),
    *("UnregisteredTaintMissing", "WaitingOnNodeClaimTermination"),
)
"""Of the events that the controllers write; those of docs/internals/events.md."""
Compared = dict[tuple[str, ...], ValueComparison]
AT_LEAST_ONE: Final = ValueComparison(gte=1.0)


class ValueKind(Enum):
    """What a value can be compared with."""

    NUMBER = "a number, or bounds such as {lte: 20}"
    DURATION = "a duration such as 120s, or bounds such as {lte: 120s}"
    TEXT = "text"
    STATUS = 'one of "True", "False", "Unknown"'
    BOOLEAN = "true or false"
    INSTANCE_TYPE = "an instance type such as m5.large"
    ZONE = "a zone such as us-west-2a"
    CAPACITY_TYPE = "one of on-demand, reserved, spot"


NODE_VALUES: Final = {
    "name": ValueKind.TEXT,
    "nodePool": ValueKind.TEXT,
    "instanceType": ValueKind.INSTANCE_TYPE,
    "zone": ValueKind.ZONE,
    "capacityType": ValueKind.CAPACITY_TYPE,
    "reservationID": ValueKind.TEXT,
    "pricePerHour": ValueKind.NUMBER,
    "ready": ValueKind.BOOLEAN,
    "pods": ValueKind.NUMBER,
}
CLAIM_VALUES: Final = {
    "name": ValueKind.TEXT,
    "nodePool": ValueKind.TEXT,
    "node": ValueKind.TEXT,
    "instanceType": ValueKind.INSTANCE_TYPE,
    "zone": ValueKind.ZONE,
    "capacityType": ValueKind.CAPACITY_TYPE,
    "reservationID": ValueKind.TEXT,
}


class ExpectationReader:
    def __init__(
        self,
        reader: FieldReader,
        selectors: SelectorReader,
        line_of: Callable[[FieldPath], int],
    ) -> None:
        self.reader = reader
        self.selectors = selectors
        self.line_of = line_of

    def read(self, value: Any, path: FieldPath) -> Expectation | None:
        if not isinstance(value, dict):
            expected = "a mapping such as {at: end, pods: {pending: 0}}"
            self.reader.add(invalid_value(path, value, expected))
            return None
        subjects = [name for name in SUBJECTS if value.get(name) is not None]
        if len(subjects) > 1:
            message = f"{' and '.join(subjects)} exclude each other"
            self.reader.add(broken_rule((*path, subjects[1]), subjects[1], message))
            return None
        read = READERS[subjects[0]] if subjects else ExpectationReader._read_state_or_total
        return read(self, value, path, self.line_of(path))

    def _read_state_or_total(self, value: Any, path: FieldPath, line: int) -> Expectation | None:
        if value.get("total") is not None:
            return self._total(value, path, line)
        fields = self.reader.fields(value, path, (*TIMES, *STATE_KEYS, *SUBJECTS))
        window = self._window(fields)
        values = Compared()
        for name, read in STATE_READERS.items():
            values |= fields.get(name, partial(read, self), Compared())
        self._require_some(values, value, path, (*STATE_KEYS, *SUBJECTS))
        return StateExpectation(line=line, window=window, values=values)

    def _require_some(
        self, values: Comparisons, value: Any, path: FieldPath, names: Iterable[str]
    ) -> None:
        """Nothing expected is a mistake, unless another mistake is why."""
        unread = any(each is not None for key, each in value.items() if key not in TIMES)
        if not values and not unread:
            expected = f"one of {', '.join(names)}"
            self.reader.add(missing_field(path, expected, "nothing is expected here"))

    def _window(self, fields: Fields, *, optional: bool = False) -> Window:
        if optional and not any(name in fields for name in TIMES):
            return WHOLE_RUN
        name = fields.exactly_one(TIMES)
        if name == "at":
            at = fields.get("at", self.reader.moment_or_end, 0.0)
            return Window(start=at, end=at)
        if name == "during":
            return fields.get("during", self._during, WHOLE_RUN)
        return WHOLE_RUN

    def _during(self, value: Any, path: FieldPath) -> Window:
        expected = "two times such as [1h, 4h] or [1h, end]"
        start, end = self.reader.pair(value, path, self.reader.moment_or_end, expected)
        return Window(start=start, end=end)

    # Values

    def compare(self, value: Any, path: FieldPath, kind: ValueKind) -> ValueComparison:
        if isinstance(value, dict):
            return self._bounds(value, path, kind)
        return ValueComparison(equal=self._equal(value, path, kind))

    def _bounds(self, value: Any, path: FieldPath, kind: ValueKind) -> ValueComparison:
        if kind not in (ValueKind.NUMBER, ValueKind.DURATION):
            self.reader.add(invalid_value(path, value, kind.value))
            return ValueComparison()
        entries = self.reader.mapping(value, path, BOUNDS, kind.value)
        if not value:
            self.reader.add(invalid_value(path, value, f"one or several of {', '.join(BOUNDS)}"))
        bounds = {name: self._amount(each, (*path, name)) for name, each in entries.items()}
        return ValueComparison(**bounds)

    def _amount(self, value: Any, path: FieldPath) -> float:
        if is_number(value):
            return float(value)
        seconds = duration_seconds(value)
        if seconds is None:
            self.reader.add(invalid_value(path, value, "a number, or a duration such as 120s"))
            return 0.0
        return seconds

    def _equal(self, value: Any, path: FieldPath, kind: ValueKind) -> float | str | bool | None:
        if kind in (ValueKind.NUMBER, ValueKind.DURATION):
            if isinstance(value, str | int | float) and not isinstance(value, bool):
                return self._amount(value, path)
            self.reader.add(invalid_value(path, value, kind.value))
            return 0.0
        if kind is ValueKind.BOOLEAN:
            return self.reader.boolean(value, path)
        if kind is ValueKind.STATUS:
            return condition_status(self.reader, value, path)
        if value is None:
            return None
        return self._text_readers.get(kind, self.reader.text)(value, path)

    @property
    def _text_readers(self) -> Mapping[ValueKind, Callable[[Any, FieldPath], str]]:
        """Of names that the simulated cloud must have: a misspelt one could never be met."""
        return {
            ValueKind.INSTANCE_TYPE: self.selectors.cloud.instance_type,
            ValueKind.ZONE: self.selectors.cloud.zones,
            ValueKind.CAPACITY_TYPE: self.selectors.capacity_type,
        }

    def _named(self, value: Any, path: FieldPath, kinds: Mapping[str, ValueKind]) -> Compared:
        expected = f"a mapping with {', '.join(kinds)}"
        entries = self.reader.mapping(value, path, kinds, expected)
        return {
            (str(path[-1]), name): self.compare(each, (*path, name), kinds[name])
            for name, each in entries.items()
        }

    def _pods(self, value: Any, path: FieldPath) -> Compared:
        kinds = dict.fromkeys(("pending", "running"), ValueKind.NUMBER)
        return self._named(value, path, kinds)

    def _nodes(self, value: Any, path: FieldPath) -> Compared:
        kinds = dict.fromkeys(NODE_COUNTS, ValueKind.NUMBER)
        return self._named(value, path, kinds)

    def _price(self, value: Any, path: FieldPath) -> Compared:
        return {("pricePerHour",): self.compare(value, path, ValueKind.NUMBER)}

    def _pending_for(self, value: Any, path: FieldPath) -> Compared:
        return {("pendingFor",): self.compare(value, path, ValueKind.DURATION)}

    def _reservations(self, value: Any, path: FieldPath) -> Compared:
        """Of each reservation by its id."""
        found = Compared()
        entries = self.reader.mapping(value, path, None, "a mapping such as {cr-1: {used: 3}}")
        kinds = dict.fromkeys(("used", "total"), ValueKind.NUMBER)
        for name, each in entries.items():
            self.selectors.refer(RESERVATION, name, (*path, name))
            named = self._named(each, (*path, name), kinds)
            found |= {("reservations", *key): comparison for key, comparison in named.items()}
        return found

    # Totals

    def _total(self, value: Any, path: FieldPath, line: int) -> Expectation:
        fields = self.reader.fields(value, path, TIMES)
        fields.exactly_one(TIMES)
        totals = fields.get("total", self._totals, Compared())
        if not totals and not value["total"]:
            self.reader.add(invalid_value((*path, "total"), value["total"], EXPECTED_TOTAL))
        return TotalExpectation(line=line, values=totals)

    def _totals(self, value: Any, path: FieldPath) -> Compared:
        entries = self.reader.mapping(value, path, msgspec_names(Totals), EXPECTED_TOTAL)
        found = Compared()
        for name, each in entries.items():
            found |= self._total_field(name, each, (*path, name))
        return found

    def _total_field(self, name: str, value: Any, path: FieldPath) -> Compared:
        if name == "pendingSeconds":
            names = msgspec_names(PendingSeconds)
            return self._named(value, path, dict.fromkeys(names, ValueKind.DURATION))
        if name == "disruptions":
            return self._named(value, path, dict.fromkeys(DISRUPTION_REASONS, ValueKind.NUMBER))
        if name == "apiCalls":
            entries = self.reader.mapping(value, path, None, "calls by operation")
            return self._named(value, path, dict.fromkeys(entries, ValueKind.NUMBER))
        if name == "reservations":
            return self._reservation_totals(value, path)
        return {(name,): self.compare(value, path, ValueKind.NUMBER)}

    def _reservation_totals(self, value: Any, path: FieldPath) -> Compared:
        kinds = dict.fromkeys(msgspec_names(ReservationTotals)[1:], ValueKind.NUMBER)
        entries = self.reader.mapping(value, path, None, "totals of reservations by their id")
        found = Compared()
        for name, each in entries.items():
            self.selectors.refer(RESERVATION, name, (*path, name))
            named = self._named(each, (*path, name), kinds)
            found |= {("reservations", *key): comparison for key, comparison in named.items()}
        return found

    # Nodes, claims, objects, events

    def _node_selector(self, value: Any, path: FieldPath) -> NodeMatch:
        """`node` selects nodes, `nodes` counts them: whoever mixes them up is told so."""
        counts = [key for key in NODE_COUNTS if isinstance(value, dict) and key in value]
        if not counts:
            return self.selectors.read(value, path)
        for key in counts:
            hint = f"node selects nodes; write nodes: {{{key}: …}} to count all of them"
            self.reader.add(unknown_field((*path, key), key, hint))
        return NodeMatch()

    def _node(self, value: Any, path: FieldPath, line: int) -> Expectation:
        fields = self.reader.fields(value, path, ("node", *TIMES[:2], *NODE_VALUES, "count"))
        return NodeExpectation(
            line=line,
            window=self._window(fields),
            selector=self._node_selector(value["node"], (*path, "node")),
            values=self._checks(value, path, NODE_VALUES),
            count=fields.optional("count", self._count),
        )

    def _claim(self, value: Any, path: FieldPath, line: int) -> Expectation:
        known = ("claim", *TIMES[:2], *CLAIM_VALUES, "conditions", "labels", "count")
        fields = self.reader.fields(value, path, known)
        values = self._checks(value, path, CLAIM_VALUES)
        values |= fields.get("conditions", self._conditions, Compared())
        values |= fields.get("labels", self._labels, Compared())
        return ClaimExpectation(
            line=line,
            window=self._window(fields),
            selector=self.selectors.read(value["claim"], (*path, "claim")),
            values=values,
            count=fields.optional("count", self._count),
        )

    def _object(self, value: Any, path: FieldPath, line: int) -> Expectation | None:
        known = ("object", *TIMES[:2], "conditions", "count")
        fields = self.reader.fields(value, path, known)
        window = self._window(fields)
        values = fields.get("conditions", self._conditions, Compared())
        count = fields.optional("count", self._count)
        target = fields.optional("object", self._target)
        if target is None:
            return None
        return ObjectExpectation(
            line=line, window=window, target=target, values=values, count=count
        )

    def _target(self, value: Any, path: FieldPath) -> ObjectTarget | None:
        fields = self.reader.fields(value, path, OBJECT_KEYS)
        errors = len(self.reader.errors)
        kind = fields.required("kind", self._kind, "", "the kind of the object")
        name = fields.required("name", self.reader.text, "", "the name of the object")
        namespace = fields.get("namespace", self.reader.text, "")
        if len(self.reader.errors) > errors or not kind:
            return None
        target = object_reference(resources_by_kind()[kind], namespace, name)
        self.selectors.refer(kind, name, (*path, "name"), target.namespace)
        return target

    def _kind(self, value: Any, path: FieldPath) -> str:
        return read_kind(self.reader, value, path)

    def _event(self, value: Any, path: FieldPath, line: int) -> Expectation:
        fields = self.reader.fields(value, path, ("event", *TIMES[:2], "count"))
        event = self.reader.fields(value["event"], (*path, "event"), ("reason", "object"))
        if isinstance(value["event"], dict) and not value["event"]:
            self.reader.add(invalid_value((*path, "event"), {}, "reason, object, or both"))
        kind, name = self._event_object(event.get("object", self.reader.text, ""), event.path)
        return EventExpectation(
            line=line,
            window=self._window(fields, optional=True),
            reason=event.optional("reason", self._event_reason),
            kind=kind or None,
            name=name or None,
            count=fields.get("count", self._count, AT_LEAST_ONE),
        )

    def _event_reason(self, value: Any, path: FieldPath) -> str:
        """Of events that the controllers write, or a glob that matches one."""
        text = self.reader.text(value, path)
        if text and not any(matches(reason, text) for reason in EVENT_REASONS):
            hint = did_you_mean(text, [*EVENT_REASONS]) or "docs/internals/events.md lists them"
            self.reader.add(invalid_value(path, text, "the reason of an event", hint))
        return text

    def _event_object(self, text: str, path: FieldPath) -> tuple[str, str]:
        """Kind, Kind/name or Kind/namespace/name."""
        kind, _, name = text.partition("/")
        if kind and not is_glob(kind):
            read_kind(self.reader, kind, (*path, "object"))
        return kind, name

    def _checks(self, value: Any, path: FieldPath, kinds: Mapping[str, ValueKind]) -> Compared:
        return {
            (name,): self.compare(value[name], (*path, name), kind)
            for name, kind in kinds.items()
            if name in value
        }

    def _conditions(self, value: Any, path: FieldPath) -> Compared:
        entries = self.reader.mapping(value, path, None, 'a mapping such as {Ready: "True"}')
        return self._named(value, path, dict.fromkeys(entries, ValueKind.STATUS))

    def _labels(self, value: Any, path: FieldPath) -> Compared:
        entries = self.reader.mapping(value, path, None, "a mapping such as {team: shop}")
        return self._named(value, path, dict.fromkeys(entries, ValueKind.TEXT))

    def _count(self, value: Any, path: FieldPath) -> ValueComparison:
        return self.compare(value, path, ValueKind.NUMBER)


def msgspec_names(struct: type[msgspec.Struct]) -> list[str]:
    return [field.name for field in msgspec.structs.fields(struct)]


EXPECTED_TOTAL: Final = "a mapping such as {cost: {lte: 12.5}, launches: 7}"
ReadExpectation = Callable[[ExpectationReader, Any, FieldPath, int], Expectation | None]
READERS: Final[Mapping[str, ReadExpectation]] = {
    "node": ExpectationReader._node,
    "claim": ExpectationReader._claim,
    "object": ExpectationReader._object,
    "event": ExpectationReader._event,
}
ReadState = Callable[[ExpectationReader, Any, FieldPath], Compared]
STATE_READERS: Final[Mapping[str, ReadState]] = {
    "pods": ExpectationReader._pods,
    "nodes": ExpectationReader._nodes,
    "pricePerHour": ExpectationReader._price,
    "pendingFor": ExpectationReader._pending_for,
    "reservations": ExpectationReader._reservations,
}
