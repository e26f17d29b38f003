"""What an API server makes of an object before it stores it: defaults, then validation.

Our own kinds are judged by the schema and CEL rules of their CRDs, the very ones of `wain
validate`; core kinds by the rules that scheduling depends on. A part is judged when it is created
or changed, not when another part is.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final

import msgspec

from wainwright.api.api_resources import ApiResource
from wainwright.api.field_error import FieldError, FieldPath, format_field_path
from wainwright.api.kubernetes.cluster import (
    Namespace,
    NamespaceStatus,
    Node,
    PodDisruptionBudget,
    PodDisruptionBudgetStatus,
    PriorityClass,
    Taint,
)
from wainwright.api.kubernetes.kind_validation import OBJECT_CHECKS, PART_CHECKS
from wainwright.api.kubernetes.label_validation import validate_object_metadata
from wainwright.api.kubernetes.operations import LeaseSpec
from wainwright.api.kubernetes.workloads import Pod, PodSpec, PodStatus, Toleration
from wainwright.api.validation.metadata_validation import validate_metadata
from wainwright.api.validation.schema_validation import apply_defaults, validate_schema
from wainwright.api.wire import ObjectMeta, WireStruct, object_schema
from wainwright.errors import InvalidField, InvalidObjectError, RequestForbiddenError
from wainwright.sim.merge_patch import parts_of
from wainwright.sim.object_store import ObjectStore, metadata_of

NOT_READY_TAINT: Final = Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule")
DEFAULT_TOLERATIONS: Final = tuple(
    Toleration(key=key, operator="Exists", effect="NoExecute", tolerationSeconds=300)
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
)
"""How long a pod stays on a node that has failed, unless it says otherwise."""
DEFAULT_GRACE_PERIOD: Final = 30
SYSTEM_PRIORITIES: Final = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
"""PriorityClasses that every cluster has."""
ADMITTED_SPECS_LIMIT: Final = 10_000
MICRO_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)$")


def invalid_object(
    resource: ApiResource, name: str, errors: Iterable[FieldError]
) -> InvalidObjectError:
    fields = [
        InvalidField(format_field_path(each.path), _reason(each), each.message) for each in errors
    ]
    listed = ", ".join(f"{field.field}: {field.message}" for field in fields)
    return InvalidObjectError(f'{resource.qualified_kind} "{name}" is invalid: {listed}', fields)


def forbidden_change(
    resource: ApiResource, name: str, field: str, message: str
) -> InvalidObjectError:
    cause = InvalidField(field, "FieldValueForbidden", f"Forbidden: {message}")
    text = f'{resource.qualified_kind} "{name}" is invalid: {field}: {cause.message}'
    return InvalidObjectError(text, [cause])


def _reason(error: FieldError) -> str:
    return "FieldValueRequired" if error.found == "nothing" else "FieldValueInvalid"


def _refused(errors: Iterable[FieldError]) -> list[FieldError]:
    return [each for each in errors if not each.is_accepted]


def validate_metadata_of(resource: ApiResource, metadata: ObjectMeta) -> None:
    value = msgspec.to_builtins(metadata)
    if resource.is_custom:
        found = [
            msgspec.structs.replace(each, path=("metadata", *each.path))
            for each in validate_metadata(value, namespaced=False)
        ]
    else:
        found = list(validate_object_metadata(value, resource.kind))
    if errors := _refused(found):
        raise invalid_object(resource, metadata.name, errors)


def admit_custom_parts(
    resource: ApiResource, name: str, values: Mapping[str, Any], old: WireStruct | None = None
) -> dict[str, Any]:
    """Parts of an object of ours with defaults; InvalidObjectError if a rule refuses them.

    `old` is the object that they are a change of.
    """
    schema = object_schema(resource.type)
    status = values.get("status")
    if old is not None and isinstance(status, dict) and _is_judged_by_fields(resource, values):
        return {"status": _admitted_status(resource, name, status, old)}
    properties = schema["properties"]
    whole = {key: properties[key] for key in values if key != "metadata"}
    # The rules of the object itself refer to its spec; a change of the status does not run them.
    judged = schema if "spec" in values else {"type": "object", "properties": whole}
    before = {} if old is None else {"old": _defaulted_body(old, schema)}
    admitted = apply_defaults(dict(values), judged)
    if errors := _refused(validate_schema(admitted, judged, (), **before)):
        raise invalid_object(resource, name, errors)
    return {key: admitted.get(key) for key in values}


def _is_judged_by_fields(resource: ApiResource, values: Mapping[str, Any]) -> bool:
    """Whether only a status is changed, and no CEL rule may look at all of it."""
    return values.keys() == {"status"} and not _has_status_rules(resource.type)


@cache
def _has_status_rules(kind: type[WireStruct]) -> bool:
    status = object_schema(kind)["properties"]["status"]
    return "x-kubernetes-validations" in msgspec.json.encode(status).decode()


def _admitted_status(
    resource: ApiResource, name: str, status: dict[str, Any], old: WireStruct
) -> dict[str, Any]:
    """A changed status, of which only the changed fields are judged.

    Conditions and times of NodeClaims change with nearly every pod: judging the whole object each
    time took an eighth of a simulated day.
    """
    schema = object_schema(resource.type)["properties"]["status"]
    admitted: dict[str, Any] = apply_defaults(status, schema)
    before = msgspec.to_builtins(getattr(old, "status", None)) or {}
    judged = {
        key: value
        for key, value in admitted.items()
        if key in schema.get("required", ()) or key not in before or before[key] != value
    }
    if errors := _refused(validate_schema(judged, schema, ("status",))):
        raise invalid_object(resource, name, errors)
    return admitted


def _defaulted_body(obj: WireStruct, schema: dict[str, Any]) -> dict[str, Any]:
    defaulted: dict[str, Any] = apply_defaults(msgspec.to_builtins(obj), schema)
    return {key: value for key, value in defaulted.items() if key != "metadata"}


def validate_core_part(resource: ApiResource, name: str, part: str, value: Any) -> None:
    """A changed part of a core kind."""
    of_lease = (resource.kind, part) == ("Lease", "spec")
    check = validate_lease if of_lease else PART_CHECKS.get((resource.kind, part))
    if check is not None and (errors := _refused(check(value, (part,)))):
        raise invalid_object(resource, name, errors)


def validate_lease(spec: LeaseSpec, path: FieldPath) -> Iterator[FieldError]:
    """What a real server reads of a lease: a duration, and times to the microsecond."""
    if spec.leaseDurationSeconds is not None and spec.leaseDurationSeconds <= 0:
        message = "must be greater than 0"
        yield FieldError(path=(*path, "leaseDurationSeconds"), message=message)
    for name in ("acquireTime", "renewTime"):
        time = getattr(spec, name)
        if time is not None and not MICRO_TIME.match(time):
            message = f'cannot parse "{time}" as "2006-01-02T15:04:05.000000Z07:00"'
            yield FieldError(path=(*path, name), message=message)


def validate_core_object(resource: ApiResource, obj: WireStruct) -> None:
    """A core object to be created; a Pod's spec is judged by `PodAdmission`."""
    name = metadata_of(obj).name
    if whole := OBJECT_CHECKS.get(resource.kind):
        if errors := _refused(whole(obj)):
            raise invalid_object(resource, name, errors)
        return
    if not isinstance(obj, Pod):
        for part in parts_of(type(obj)):
            validate_core_part(resource, name, part, getattr(obj, part))


def initial_status(obj: WireStruct) -> dict[str, Any]:
    """The status that a new object has, whatever was sent; only a Node keeps its own."""
    match obj:
        case Node():
            allocatable = obj.status.allocatable or obj.status.capacity
            return {"status": msgspec.structs.replace(obj.status, allocatable=allocatable)}
        case Pod():
            return {"status": PENDING}
        case PodDisruptionBudget():
            return {"status": NO_DISRUPTIONS}
        case Namespace():
            return {"status": ACTIVE}
        case _:
            part = parts_of(type(obj)).get("status")
            return {} if part is None else {"status": part.make_default()}


PENDING: Final = PodStatus(phase="Pending")
NO_DISRUPTIONS: Final = PodDisruptionBudgetStatus(disruptionsAllowed=0)
ACTIVE: Final = NamespaceStatus(phase="Active")


def with_not_ready_taint(node: Node) -> Node:
    """A new node takes no pods until the node lifecycle controller has seen it Ready."""
    taints = node.spec.taints or []
    if any(taint.key == NOT_READY_TAINT.key for taint in taints):
        return node
    spec = msgspec.structs.replace(node.spec, taints=[*taints, NOT_READY_TAINT])
    return msgspec.structs.replace(node, spec=spec)


class PodAdmission:
    """Defaults and validation of pod specs, once for all pods that share one.

    Replicas are created with the same struct: they share the admitted one as well, which saves
    validating and translating it for each.
    """

    def __init__(self, priority_classes: ObjectStore[PriorityClass]) -> None:
        self._priority_classes = priority_classes
        self._admitted: dict[int, tuple[PodSpec, PodSpec]] = {}
        """By the identity of the spec that was given, which is kept so that it stays unique."""

    def forget(self) -> None:
        """To be called when a PriorityClass has changed."""
        self._admitted.clear()

    def admit(self, resource: ApiResource, pod: Pod) -> PodSpec:
        known = self._admitted.get(id(pod.spec))
        if known is not None:
            return known[1]
        validate_core_part(resource, pod.metadata.name, "spec", pod.spec)
        admitted = self._with_defaults(pod)
        if len(self._admitted) >= ADMITTED_SPECS_LIMIT:
            self._admitted.clear()
        self._admitted[id(pod.spec)] = (pod.spec, admitted)
        return admitted

    def _with_defaults(self, pod: Pod) -> PodSpec:
        spec = pod.spec
        grace = spec.terminationGracePeriodSeconds
        return msgspec.structs.replace(
            spec,
            terminationGracePeriodSeconds=DEFAULT_GRACE_PERIOD if grace is None else grace,
            restartPolicy=spec.restartPolicy or "Always",
            schedulerName=spec.schedulerName or "default-scheduler",
            tolerations=_with_default_tolerations(spec.tolerations or []),
            **self._priority(pod),
        )

    def _priority(self, pod: Pod) -> dict[str, Any]:
        name = pod.spec.priorityClassName
        if name in SYSTEM_PRIORITIES:
            return {"priority": SYSTEM_PRIORITIES[name]}
        found = self._priority_class(name)
        if name and found is None:
            message = f'pods "{pod.metadata.name}" is forbidden: no PriorityClass with name {name}'
            raise RequestForbiddenError(f"{message} was found")
        if found is None:
            return {"priority": 0, "preemptionPolicy": "PreemptLowerPriority"}
        return {
            "priority": found.value,
            "priorityClassName": found.metadata.name,
            "preemptionPolicy": found.preemptionPolicy or "PreemptLowerPriority",
        }

    def _priority_class(self, name: str) -> PriorityClass | None:
        if name:
            return self._priority_classes.find("", name)
        defaults = (each for each in self._priority_classes.objects() if each.globalDefault)
        return min(defaults, key=lambda each: each.value, default=None)


def _with_default_tolerations(tolerations: list[Toleration]) -> list[Toleration]:
    return [
        *tolerations,
        *(
            default
            for default in DEFAULT_TOLERATIONS
            if not any(
                each.key in ("", default.key) and each.effect in ("", "NoExecute")
                for each in tolerations
            )
        ),
    ]
