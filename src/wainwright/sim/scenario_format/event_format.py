"""Events of a Scenario: each has a moment and exactly one verb."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from wainwright.api.catalog_documents import CloudReservation
from wainwright.api.field_error import (
    FieldError,
    FieldPath,
    broken_rule,
    did_you_mean,
    invalid_value,
    missing_field,
)
from wainwright.api.karpenter.ec2nodeclass import ALIAS_FAMILIES
from wainwright.api.karpenter.shared_fields import CAPACITY_TYPES
from wainwright.api.validation.object_validation import check_semantics
from wainwright.api.validation.schema_validation import (
    apply_defaults,
    find_unknown_fields,
    validate_schema,
)
from wainwright.api.wire import schema_of
from wainwright.sim.scenario import (
    Action,
    ApiServerDown,
    ApplyObjects,
    CancelReservation,
    ChangePrice,
    ChangeReservation,
    CreateReservation,
    CurvePoint,
    DeleteObject,
    FailCalls,
    FaultKind,
    FreeAddresses,
    Interrupt,
    KillNodes,
    NeverJoin,
    NodeMatch,
    ObjectTarget,
    OfferingPattern,
    OfferLess,
    PublishImage,
    RestartController,
    ScaleWorkload,
    ScenarioEvent,
    SetNodeCondition,
    ThrottleCalls,
    Unavailable,
    ZoneOutage,
)
from wainwright.sim.scenario_format.applied_manifests import AppliedManifests
from wainwright.sim.scenario_format.cloud_names import (
    EXPECTED_OPERATION,
    CloudNameKind,
    CloudNames,
)
from wainwright.sim.scenario_format.field_reader import EXPECTED_SHARE, FieldReader, Fields
from wainwright.sim.scenario_format.references import (
    RESERVATION,
    CreatedObjects,
    Moment,
    Reference,
    object_reference,
    resources_by_kind,
    split_pod,
)

OFFERING_KEYS: Final = ("instanceType", "zone", "capacityType")
FLEET_KEYS: Final = (*OFFERING_KEYS, "reservationID")
SELECTOR_KEYS: Final = (
    *("name", "nodePool", "instanceType", "zone", "capacityType", "reservationID", "pods"),
)
OBJECT_KEYS: Final = ("kind", "namespace", "name")
SCALABLE: Final = ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController", "NodePool")
CONDITION_STATUSES: Final = ("True", "False", "Unknown")
LASTING: Final = ("unavailable", "price", "outage", "throttle", "fail", "down", "neverJoin", "less")
"""The verbs that take `for`; without it they last to the end."""
CHANGE_KEYS: Final = ("id", "total", "available", "startTime", "endTime", "tags", "groups")


class SelectorReader:
    """Selectors of nodes and claims, in events and expectations."""

    def __init__(self, reader: FieldReader) -> None:
        self.reader = reader
        self.cloud = CloudNames(reader)
        self.references: list[Reference] = []

    def read(self, value: Any, path: FieldPath, before: Moment | None = None) -> NodeMatch:
        """A name, a glob, or a mapping of what must match."""
        if isinstance(value, str) and value:
            return NodeMatch(name=value)
        fields = self.reader.fields(value, path, SELECTOR_KEYS)
        if isinstance(value, dict) and not value:
            self.reader.add(invalid_value(path, value, f"one of {', '.join(SELECTOR_KEYS)}"))
        text = self.reader.text
        selector = NodeMatch(
            name=fields.optional("name", text),
            node_pool=fields.optional("nodePool", text),
            instance_type=fields.optional("instanceType", self.cloud.instance_type),
            zone=fields.optional("zone", self.cloud.zones),
            capacity_type=fields.optional("capacityType", self.capacity_type),
            reservation_id=fields.optional("reservationID", text),
            pods=tuple(map(_full_pod_name, fields.optional("pods", self._pods) or ())),
        )
        self._refer(selector, path, before)
        return selector

    def capacity_type(self, value: Any, path: FieldPath) -> str:
        return self.reader.choice(value, path, CAPACITY_TYPES)

    def _pods(self, value: Any, path: FieldPath) -> tuple[str, ...]:
        return self.reader.texts(value, path, "a list of pods such as [shop/web-0]")

    def _refer(self, selector: NodeMatch, path: FieldPath, before: Moment | None) -> None:
        if selector.node_pool is not None:
            self.refer("NodePool", selector.node_pool, (*path, "nodePool"), before=before)
        if selector.reservation_id is not None:
            self.refer(
                RESERVATION, selector.reservation_id, (*path, "reservationID"), before=before
            )
        for index, pod in enumerate(selector.pods):
            namespace, name = split_pod(pod)
            self.refer("Pod", name, (*path, "pods", index), namespace, before=before)

    def refer(
        self,
        kind: str,
        name: str,
        path: FieldPath,
        namespace: str = "",
        *,
        before: Moment | None = None,
    ) -> None:
        """Notes a name that must mean something; what could not be read is an error already."""
        if name:
            reference = Reference(
                kind=kind, name=name, namespace=namespace, path=path, before=before
            )
            self.references.append(reference)


def _full_pod_name(text: str) -> str:
    return "/".join(split_pod(text))


class EventReader:
    """Reads events in the order of the file."""

    def __init__(
        self,
        reader: FieldReader,
        selectors: SelectorReader,
        applied: AppliedManifests,
        created: CreatedObjects,
        line_of: Callable[[FieldPath], int],
    ) -> None:
        self.reader = reader
        self.selectors = selectors
        self.cloud = selectors.cloud
        self.applied = applied
        self.created = created
        self.line_of = line_of
        self._moment: Moment = (0.0, 0)
        self.created_reservations: list[tuple[str, FieldPath]] = []

    def read(self, value: Any, path: FieldPath, index: int) -> ScenarioEvent | None:
        """The event; None where it has no verb that could be read."""
        fields = self.reader.fields(value, path, ("at", "for", *VERBS))
        at = fields.required("at", self.reader.moment, 0.0, "when it happens, such as at: 1h")
        self._moment = (at, index)
        verb = fields.exactly_one(VERBS)
        if verb is None:
            return None
        if "for" in fields and verb not in LASTING:
            self.reader.add(_without_duration((*path, "for"), value["for"], verb))
        action = fields.get(verb, lambda each, where: VERBS[verb](self, each, where), None)
        duration = fields.optional("for", self.reader.duration)
        if action is None:
            return None
        return ScenarioEvent(at=at, line=self.line_of(path), action=action, duration=duration)

    # Objects of the cluster

    def _apply(self, value: Any, path: FieldPath) -> Action:
        objects = self.applied.read(value, path)
        self.created.add_objects(objects, self._moment)
        return ApplyObjects(objects=objects)

    def _delete(self, value: Any, path: FieldPath) -> Action | None:
        fields = self.reader.fields(value, path, OBJECT_KEYS)
        target = self.object_reference(fields, "Deployment", tuple(resources_by_kind()))
        return None if target is None else DeleteObject(target=target)

    def object_reference(
        self, fields: Fields, default_kind: str, allowed: tuple[str, ...], *, ever: bool = False
    ) -> ObjectTarget | None:
        """What kind, namespace and name mean; it must exist by now, or at some time."""
        reader = self.reader
        errors = len(reader.errors)
        kind = fields.get("kind", lambda each, path: read_kind(reader, each, path, allowed), "")
        name = fields.required("name", reader.text, "", "the name of the object")
        namespace = fields.get("namespace", reader.text, "")
        if len(reader.errors) > errors or not name:
            return None
        target = object_reference(resources_by_kind()[kind or default_kind], namespace, name)
        path = (*fields.path, "name")
        before = None if ever else self._moment
        self.selectors.refer(target.kind, name, path, target.namespace, before=before)
        return target

    def _scale(self, value: Any, path: FieldPath) -> Action | None:
        fields = self.reader.fields(value, path, (*OBJECT_KEYS, "replicas", "curve"))
        target = self.object_reference(fields, "Deployment", SCALABLE)
        form = fields.exactly_one(("replicas", "curve"))
        if form == "replicas":
            replicas = fields.get("replicas", self.reader.count, 0)
            curve: tuple[CurvePoint, ...] = (CurvePoint(after=0.0, replicas=replicas),)
        else:
            curve = fields.get("curve", self._curve, ())
        return ScaleWorkload(target=target, curve=curve) if target and curve else None

    def _curve(self, value: Any, path: FieldPath) -> tuple[CurvePoint, ...]:
        expected = "points such as [[0m, 20], [30m, 200]]"
        points: list[CurvePoint] = []
        for index, each in enumerate(self.reader.items(value, path, expected)):
            where = (*path, index)
            if not isinstance(each, list) or len(each) != 2:
                self.reader.add(invalid_value(where, each, "a time and replicas such as [30m, 20]"))
                return ()
            after = self.reader.moment(each[0], (*where, 0))
            points.append(CurvePoint(after=after, replicas=self.reader.count(each[1], (*where, 1))))
            self._check_point(points, where, each)
        if not points:
            self.reader.add(invalid_value(path, value, expected))
        return tuple(points)

    def _check_point(self, points: list[CurvePoint], path: FieldPath, value: Any) -> None:
        if len(points) == 1 and points[0].after > 0:
            expected = "0m for the first point: times count from the event"
            self.reader.add(invalid_value((*path, 0), value[0], expected))
        elif len(points) > 1 and points[-1].after <= points[-2].after:
            self.reader.add(invalid_value((*path, 0), value[0], "a time later than the one before"))

    # Capacity

    def _reservation(self, value: Any, path: FieldPath) -> Action | None:
        fields = self.reader.fields(value, path, ("create", "change", "cancel"))
        verb = fields.exactly_one(("create", "change", "cancel"))
        if verb is None:
            return None
        read = {"create": self._create, "change": self._change, "cancel": self._cancel}[verb]
        return fields.optional(verb, read)

    def _create(self, value: Any, path: FieldPath) -> Action | None:
        schema = schema_of(CloudReservation)
        defaulted = apply_defaults(value, schema)
        errors = [
            *find_unknown_fields(value, schema, path),
            *validate_schema(defaulted, schema, path),
        ]
        if not errors:
            cloud = {"spec": {"capacityReservations": [defaulted]}}
            errors = [_moved(each, path) for each in check_semantics("Cloud", cloud)]
        self.reader.errors.extend(errors)
        if errors:
            return None
        reservation = msgspec.convert(defaulted, CloudReservation)
        self.created_reservations.append((reservation.id, (*path, "id")))
        self.created.add(RESERVATION, reservation.id, at=self._moment)
        self.cloud.add(
            CloudNameKind.ZONE, reservation.availabilityZone, (*path, "availabilityZone")
        )
        self.cloud.add(
            CloudNameKind.INSTANCE_TYPE, reservation.instanceType, (*path, "instanceType")
        )
        return CreateReservation(reservation=reservation)

    def _change(self, value: Any, path: FieldPath) -> Action:
        reader = self.reader
        fields = reader.fields(value, path, CHANGE_KEYS)
        if isinstance(value, dict) and not any(key in fields for key in CHANGE_KEYS[1:]):
            expected = f"one of {', '.join(CHANGE_KEYS[1:])}"
            reader.add(missing_field(path, expected, f"nothing changes, expected {expected}"))
        return ChangeReservation(
            id=fields.required("id", self._reservation_id, "", "the id of a reservation"),
            total=fields.optional("total", reader.count),
            available=fields.optional("available", reader.count),
            start_time=fields.optional("startTime", reader.timestamp),
            end_time=fields.optional("endTime", reader.timestamp),
            tags=fields.optional("tags", reader.text_map),
            groups=fields.optional("groups", self._groups),
        )

    def _groups(self, value: Any, path: FieldPath) -> tuple[str, ...]:
        return self.reader.texts(value, path, "a list of ARNs of resource groups")

    def _cancel(self, value: Any, path: FieldPath) -> Action:
        return CancelReservation(id=self._reservation_id(value, path))

    def _reservation_id(self, value: Any, path: FieldPath) -> str:
        name = self.reader.text(value, path, "the id of a reservation")
        self.selectors.refer(RESERVATION, name, path, before=self._moment)
        return name

    def _offerings(self, fields: Fields) -> OfferingPattern:
        return OfferingPattern(
            instance_type=fields.optional("instanceType", self.cloud.instance_type),
            zone=fields.optional("zone", self.cloud.zone),
            capacity_type=fields.optional("capacityType", self.selectors.capacity_type),
            reservation_id=fields.optional("reservationID", self._reservation_id),
        )

    def _unavailable(self, value: Any, path: FieldPath) -> Action:
        return Unavailable(
            offerings=self._offerings(self.reader.fields(value, path, OFFERING_KEYS))
        )

    def _price(self, value: Any, path: FieldPath) -> Action:
        fields = self.reader.fields(value, path, (*OFFERING_KEYS, "factor"))
        expected = "what the price of the start is multiplied by, such as factor: 2.5"
        return ChangePrice(
            offerings=self._offerings(fields),
            factor=fields.required("factor", self.reader.number, 1.0, expected),
        )

    def _outage(self, value: Any, path: FieldPath) -> Action:
        fields = self.reader.fields(value, path, ("zone",))
        return ZoneOutage(zone=fields.required("zone", self.cloud.zone, "", "an availability zone"))

    def _image(self, value: Any, path: FieldPath) -> Action:
        fields = self.reader.fields(value, path, ("alias",))
        return PublishImage(alias=fields.required("alias", self._alias, "", EXPECTED_ALIAS))

    def _alias(self, value: Any, path: FieldPath) -> str:
        family, _, release = value.partition("@") if isinstance(value, str) else ("", "", "")
        if family in ALIAS_FAMILIES and release:
            return str(value)
        hint = did_you_mean(family, list(ALIAS_FAMILIES)) if release else ""
        self.reader.add(invalid_value(path, value, EXPECTED_ALIAS, hint))
        return ""

    def _addresses(self, value: Any, path: FieldPath) -> Action:
        fields = self.reader.fields(value, path, ("zone", "free"))
        return FreeAddresses(
            zone=fields.required("zone", self.cloud.zone, "", "an availability zone"),
            free=fields.required("free", self.reader.count, 0, "how many addresses are left"),
        )

    # Nodes

    def _interrupt(self, value: Any, path: FieldPath) -> Action:
        how = ("share", "count", "node")
        fields = self.reader.fields(value, path, (*FLEET_KEYS, *how))
        is_reclaimed = "reservationID" in fields and not any(name in fields for name in how)
        if not is_reclaimed:
            fields.exactly_one(how)
        return Interrupt(
            offerings=self._offerings(fields),
            share=fields.optional("share", self.reader.share),
            count=fields.optional("count", self.reader.positive),
            nodes=fields.optional("node", self._nodes),
        )

    def _nodes(self, value: Any, path: FieldPath) -> NodeMatch:
        return self.selectors.read(value, path, self._moment)

    def _kill(self, value: Any, path: FieldPath) -> Action:
        fields = self.reader.fields(value, path, ("node",))
        return KillNodes(nodes=self._required_nodes(fields))

    def _required_nodes(self, fields: Fields) -> NodeMatch:
        expected = "a name, a glob, or a selector such as {pods: [db/db-0]}"
        return fields.required("node", self._nodes, NodeMatch(), expected)

    def _condition(self, value: Any, path: FieldPath) -> Action:
        fields = self.reader.fields(value, path, ("node", "type", "status", "reason", "message"))
        text, read_status = self.reader.text, partial(condition_status, self.reader)
        return SetNodeCondition(
            nodes=self._required_nodes(fields),
            condition=fields.required("type", text, "", "a condition such as Ready"),
            status=fields.required("status", read_status, "", EXPECTED_STATUS),
            reason=fields.get("reason", text, ""),
            message=fields.get("message", text, ""),
        )

    def _never_join(self, value: Any, path: FieldPath) -> Action:
        fields = self.reader.fields(value, path, ("share",))
        return NeverJoin(share=self._share(fields))

    def _less(self, value: Any, path: FieldPath) -> Action:
        return OfferLess(quantities=self.reader.quantities(value, path))

    # Calls and processes

    def _share(self, fields: Fields) -> float:
        return fields.required("share", self.reader.share, 0.0, EXPECTED_SHARE)

    def _operation(self, fields: Fields) -> str:
        operation = fields.required("operation", self.cloud.operation, "", EXPECTED_OPERATION)
        if any(key in fields for key in FLEET_KEYS):
            self.cloud.check_launch(operation, (*fields.path, "operation"))
        return operation

    def _throttle(self, value: Any, path: FieldPath) -> Action:
        fields = self.reader.fields(value, path, ("operation", "share", "code", *FLEET_KEYS))
        return ThrottleCalls(
            operation=self._operation(fields),
            share=self._share(fields),
            code=fields.optional("code", self.reader.text),
            offerings=self._offerings(fields),
        )

    def _fail(self, value: Any, path: FieldPath) -> Action:
        known = ("operation", "share", "kind", "code", *FLEET_KEYS)
        fields = self.reader.fields(value, path, known)
        kind = fields.get(
            "kind", lambda each, at: self.reader.choice(each, at, FaultKind), "before"
        )
        return FailCalls(
            operation=self._operation(fields),
            share=self._share(fields),
            kind=FaultKind(kind),
            code=fields.optional("code", self.reader.text),
            offerings=self._offerings(fields),
        )

    def _restart(self, value: Any, path: FieldPath) -> Action:
        self.reader.choice(value, path, ("controller",))
        return RestartController()

    def _down(self, value: Any, path: FieldPath) -> Action:
        self.reader.choice(value, path, ("apiserver",))
        return ApiServerDown()


EXPECTED_ALIAS: Final = "an alias of images such as al2023@latest"
ReadVerb = Callable[[EventReader, Any, FieldPath], Action | None]
VERBS: Final[Mapping[str, ReadVerb]] = {
    "apply": EventReader._apply,
    "delete": EventReader._delete,
    "scale": EventReader._scale,
    "reservation": EventReader._reservation,
    "unavailable": EventReader._unavailable,
    "interrupt": EventReader._interrupt,
    "price": EventReader._price,
    "outage": EventReader._outage,
    "throttle": EventReader._throttle,
    "fail": EventReader._fail,
    "restart": EventReader._restart,
    "down": EventReader._down,
    "kill": EventReader._kill,
    "image": EventReader._image,
    "condition": EventReader._condition,
    "neverJoin": EventReader._never_join,
    "less": EventReader._less,
    "addresses": EventReader._addresses,
}


def read_kind(
    reader: FieldReader, value: Any, path: FieldPath, allowed: Iterable[str] | None = None
) -> str:
    """A kind of the cluster; an error lists them only where they are few."""
    kinds = list(resources_by_kind() if allowed is None else allowed)
    if value in kinds:
        return str(value)
    expected = f"one of {', '.join(kinds)}" if len(kinds) < 10 else EXPECTED_KIND
    hint = did_you_mean(value, kinds) if isinstance(value, str) else ""
    reader.add(invalid_value(path, value, expected, hint))
    return ""


def condition_status(reader: FieldReader, value: Any, path: FieldPath) -> str:
    """True without quotes is meant as well."""
    if isinstance(value, bool):
        return str(value)
    return reader.choice(value, path, CONDITION_STATUSES)


EXPECTED_STATUS: Final = 'one of "True", "False", "Unknown"'
EXPECTED_KIND: Final = "a kind that a simulated cluster has, such as Deployment or NodePool"


def _moved(error: FieldError, path: FieldPath) -> FieldError:
    """An error of the only reservation of a Cloud, at the path of an event."""
    return msgspec.structs.replace(error, path=(*path, *error.path[3:]))


def _without_duration(path: FieldPath, value: Any, verb: str) -> FieldError:
    message = f"{verb} happens once and takes no `for`"
    return broken_rule(path, value, message, f"`for` with one of {', '.join(LASTING)}")
