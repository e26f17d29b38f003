"""Validates objects of our kinds as an API server with our CRDs validates a create request.
Unknown fields are errors; defaults come first, then the schema, then the CEL rules. A create
request ignores the status, so its errors are only warnings. Semantic checks follow: values that a
schema cannot reject, which the controller would report in the status, or which are valid and
almost certainly a mistake.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from wainwright.api.catalog_documents import EXPECTED_PRICE, PRICE_PATTERN
from wainwright.api.field_error import (
    FieldError,
    FieldPath,
    did_you_mean,
    format_value,
    invalid_value,
)
from wainwright.api.karpenter.kubelet import EXPRESSION_VARIABLES
from wainwright.api.karpenter.nodepool import EXPECTED_SCHEDULE, SCHEDULE_NAMES
from wainwright.api.karpenter.shared_fields import (
    AWS_LABEL_RULE,
    AWS_LABELS,
    CAPACITY_TYPE,
    CAPACITY_TYPES,
    EXPECTED_DURATION_OR_NEVER,
    KARPENTER_LABEL_RULE,
    PRICE_LABEL,
    RESERVATION_ID,
    TENANCIES,
    TENANCY,
)
from wainwright.api.kinds import KindFamily, KnownKind
from wainwright.api.quantity import InvalidQuantity, parse_quantity
from wainwright.api.validation import cel, metadata_validation, schema_validation
from wainwright.api.validation.metadata_validation import EXPECTED_KEY, is_label_key, is_label_value
from wainwright.api.validation.schema_validation import is_surely_valid
from wainwright.api.wire import EXPECTED_LABEL_VALUE, LABEL_VALUE_PATTERN, Schema, object_schema

GO_DURATION: Final = re.compile(r"[+-]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h))+|0")
CRON_FIELD: Final = re.compile(r"[0-9A-Za-z*?/,-]+")
WELL_KNOWN_VALUES: Final = {CAPACITY_TYPE: CAPACITY_TYPES, TENANCY: TENANCIES}

JsonObject = dict[str, Any]


def check_semantics(kind: str, value: JsonObject) -> Iterator[FieldError]:
    """Errors and warnings beyond the schema, for an object with valid types."""
    spec = value.get("spec") or {}
    match kind:
        case "NodePool":
            yield from _check_pool(spec)
        case "NodeClaim" | "NodeOverlay":
            yield from _check_requirements(spec.get("requirements"), ("spec", "requirements"))
        case "EC2NodeClass":
            yield from _check_class(spec)
        case "InstanceType":
            yield from _check_offerings(spec.get("offerings") or [])
            yield from _check_stated_allocatable(spec)
        case "Cloud":
            yield from _check_cloud(spec)
        case "Catalog":
            yield from _check_catalog(value)
        case _:
            return


def _check_pool(spec: JsonObject) -> Iterator[FieldError]:
    template = spec.get("template") or {}
    inner = ("spec", "template")
    requirements = (template.get("spec") or {}).get("requirements")
    yield from _check_requirements(requirements, (*inner, "spec", "requirements"))
    for key in (template.get("metadata") or {}).get("labels") or {}:
        if not is_label_key(key):
            yield _semantic_warning((*inner, "metadata", "labels", key), key, EXPECTED_KEY)
    for name, amount in (spec.get("limits") or {}).items():
        if _is_negative(amount):
            yield _semantic_warning(
                ("spec", "limits", name), amount, "0 or more", "nothing can be launched"
            )
    for index, budget in enumerate((spec.get("disruption") or {}).get("budgets") or []):
        schedule = budget.get("schedule")
        if schedule and not _is_cron(schedule):
            path = ("spec", "disruption", "budgets", index, "schedule")
            hint = _schedule_hint(schedule) or "a schedule nobody can read blocks"
            yield _semantic_warning(path, schedule, "five cron fields", hint)


def _is_negative(amount: Any) -> bool:
    try:
        return parse_quantity(str(amount)).nano < 0
    except InvalidQuantity:
        return False


def _is_cron(schedule: str) -> bool:
    if schedule.startswith("@"):
        return schedule in SCHEDULE_NAMES
    fields = schedule.split()
    return len(fields) == 5 and all(CRON_FIELD.fullmatch(field) for field in fields)


def _schedule_hint(schedule: str) -> str:
    return did_you_mean(schedule, list(SCHEDULE_NAMES)) if schedule.startswith("@") else ""


def _check_requirements(requirements: Any, path: FieldPath) -> Iterator[FieldError]:
    for index, item in enumerate(requirements or []):
        yield from _check_requirement(item, (*path, index))


def _check_requirement(item: JsonObject, path: FieldPath) -> Iterator[FieldError]:
    """What Karpenter's CRDs accept although no node can meet it, or none can fail it."""
    values = item.get("values") or []
    least, distinct = item.get("minValues") or 0, len(set(values))
    if item["operator"] == "In" and least > distinct:
        yield _semantic_warning(
            (*path, "minValues"),
            least,
            f"at most {distinct}, the number of different values",
            "nothing can be launched",
        )
    if item["operator"] == "NotIn" and not values:
        yield _semantic_warning((*path, "values"), values, "a value", "it excludes nothing")
    allowed = WELL_KNOWN_VALUES.get(item["key"])
    for number, one in enumerate(values):
        place = (*path, "values", number)
        if allowed is not None and one not in allowed:
            hint = did_you_mean(str(one), list(allowed))
            yield _semantic_warning(place, one, f"one of {', '.join(allowed)}", hint)
        elif item["operator"] in ("In", "NotIn") and not is_label_value(one):
            yield _semantic_warning(place, one, EXPECTED_LABEL_VALUE, "no node has it")


def _check_class(spec: JsonObject) -> Iterator[FieldError]:
    if not spec:
        message = "legal, but nothing can be launched: a class without spec selects no subnet"
        yield FieldError(path=("spec",), message=message, hint=CLASS_SPEC_HINT, warning=True)
    for field, order in SELECTED_BY.items():
        for index, term in enumerate(spec.get(field) or []):
            yield from _check_term(term, order, ("spec", field, index))
    yield from _check_kubelet(spec.get("kubelet") or {}, ("spec", "kubelet"))


CLASS_SPEC_HINT: Final = (
    "write spec with role, amiSelectorTerms, subnetSelectorTerms and securityGroupSelectorTerms"
)
SELECTED_BY: Final = {
    "amiSelectorTerms": ("alias", "ssmParameter"),
    "subnetSelectorTerms": ("id", "tags"),
    "securityGroupSelectorTerms": ("id", "name", "tags"),
}
"""Fields of which a term uses the first that is there. A list in which all terms have two of them
is refused by the schema; where another term is well formed Karpenter's CRD lets it pass."""


def _check_term(term: JsonObject, order: tuple[str, ...], path: FieldPath) -> Iterator[FieldError]:
    first, *ignored = [field for field in order if field in term] or [""]
    for field in ignored:
        message = f"legal, but {field} is ignored: the term selects by {first}"
        yield FieldError(
            path=(*path, field),
            message=message,
            found=format_value(term[field]),
            hint="remove it, or write two terms",
            warning=True,
        )


def _check_kubelet(kubelet: JsonObject, path: FieldPath) -> Iterator[FieldError]:
    for signal, period in (kubelet.get("evictionSoftGracePeriod") or {}).items():
        if not GO_DURATION.fullmatch(period):
            place = (*path, "evictionSoftGracePeriod", signal)
            yield _semantic_warning(place, period, "a duration such as 1m30s")
    for field in ("kubeReserved", "systemReserved"):
        for name, amount in (kubelet.get(field) or {}).items():
            yield from _check_expression(amount, (*path, field, name))
    most = kubelet.get("maxPods")
    if isinstance(most, str):
        yield from _check_expression(most, (*path, "maxPods"))


def _check_expression(text: str, path: FieldPath) -> Iterator[FieldError]:
    if any(name in text for name in EXPRESSION_VARIABLES) and cel.compile_error(text):
        yield _semantic_warning(
            path, text, "an expression that CEL can read", "the class will not be ready"
        )


def _check_offerings(offerings: list[Any]) -> Iterator[FieldError]:
    for index, offering in enumerate(offerings):
        for key, item in offering.items():
            path = ("spec", "offerings", index, key)
            if key == PRICE_LABEL:
                yield from _check_price(item, path)
            elif isinstance(item, (list, dict)) or item is None:
                yield invalid_value(
                    path, item, "one value: an offering has one value for each label"
                )
            else:
                yield from _check_offering_label(key, item, path)


def _check_stated_allocatable(spec: JsonObject) -> Iterator[FieldError]:
    """Pods cannot have more than the same object says that there is."""
    resources = spec.get("resources") or {}
    for name, amount in (spec.get("allocatable") or {}).items():
        stated = resources.get(name)
        if stated is not None and parse_quantity(str(amount)) > parse_quantity(str(stated)):
            path = ("spec", "allocatable", name)
            yield invalid_value(path, amount, f"at most {stated}, which spec.resources states")


def _check_price(item: Any, path: FieldPath) -> Iterator[FieldError]:
    number = isinstance(item, (int, float)) and not isinstance(item, bool)
    text = isinstance(item, str) and re.search(PRICE_PATTERN, item) is not None
    if not number and not text:
        yield invalid_value(path, item, EXPECTED_PRICE)


def _check_offering_label(key: str, item: Any, path: FieldPath) -> Iterator[FieldError]:
    if not is_label_key(key):
        yield invalid_value(path, key, EXPECTED_KEY)
    text = format_value(item) if isinstance(item, bool) else str(item)
    if len(text) > 63 or not re.fullmatch(LABEL_VALUE_PATTERN.strip("^$"), text):
        yield invalid_value(path, item, EXPECTED_LABEL_VALUE)


def _check_cloud(spec: JsonObject) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, item in enumerate(spec.get("capacityReservations") or []):
        path = ("spec", "capacityReservations", index)
        if item["id"] in seen:
            yield invalid_value((*path, "id"), item["id"], "an id that no other reservation has")
        seen.add(item["id"])
        if (item.get("available") or 0) > item["total"]:
            yield invalid_value((*path, "available"), item["available"], f"at most {item['total']}")
        start, end = item.get("startTime"), item.get("endTime")
        if start and end and end <= start:
            yield invalid_value((*path, "endTime"), end, f"a time after {start}")
    yield from _check_duplicates(spec.get("zones") or [], ("spec", "zones"))


def _check_catalog(value: JsonObject) -> Iterator[FieldError]:
    types = value.get("instanceTypes") or []
    names = [item["name"] for item in types]
    yield from _check_duplicates(names, ("instanceTypes",))
    for index, item in enumerate(types):
        yield from _check_allocatable(item, ("instanceTypes", index))
        yield from _check_reservation_ids(item, ("instanceTypes", index))


def _check_reservation_ids(item: JsonObject, path: FieldPath) -> Iterator[FieldError]:
    """Reserved capacity is counted by reservation, so a reserved offering must have its ID."""
    for index, offering in enumerate(item.get("offerings") or []):
        labels = offering["labels"]
        named = offering.get("reservationID") or labels.get(RESERVATION_ID)
        if labels.get(CAPACITY_TYPE) == "reserved" and not named:
            place = (*path, "offerings", index, "reservationID")
            yield invalid_value(place, named, "the name of the reservation that it belongs to")


def _check_duplicates(values: list[str], path: FieldPath) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, one in enumerate(values):
        if one in seen:
            yield invalid_value((*path, index), one, "an entry that is not there yet")
        seen.add(one)


def _check_allocatable(item: JsonObject, path: FieldPath) -> Iterator[FieldError]:
    """Informational; where it is set it must equal capacity minus overhead."""
    capacity, overhead = item["capacity"], item.get("overhead") or {}
    for name, amount in (item.get("allocatable") or {}).items():
        left = parse_quantity(str(capacity.get(name, 0))) - parse_quantity(
            str(overhead.get(name, 0))
        )
        if parse_quantity(str(amount)) != left:
            yield invalid_value(
                (*path, "allocatable", name), amount, f"capacity less overhead: {left}"
            )


def _semantic_warning(path: FieldPath, value: Any, expected: str, hint: str = "") -> FieldError:
    message = f"legal, but it makes no sense: found {format_value(value)}, expected {expected}"
    return FieldError(
        path=path,
        message=message,
        found=format_value(value),
        expected=expected,
        hint=hint,
        warning=True,
    )


LONG_FORM_HINTS: Final[dict[tuple[str, FieldPath], str]] = {
    ("NodePool", ("spec", "requirements")): "write them under spec.template.spec.requirements",
    ("NodePool", ("spec", "template")): "a pool needs spec.template.spec with nodeClassRef and "
    "requirements",
    ("NodePool", ("spec", "template", "spec", "nodeClassRef")): "write nodeClassRef: "
    "{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}",
    ("NodePool", ("spec", "template", "spec", "requirements")): "write requirements: [] where "
    "every node will do",
    ("NodePool", ("spec", "limits", "resources")): "write the resources directly under limits",
    ("NodePool", ("spec", "template", "spec", "kubelet")): "kubelet settings belong to the class: "
    "spec.kubelet of the EC2NodeClass",
    ("NodePool", ("spec", "disruption", "consolidateAfter")): "write consolidateAfter: 0s, or for "
    "how long a node must be quiet",
    ("NodePool", ("spec", "disruption", "expireAfter")): "write it as "
    "spec.template.spec.expireAfter",
    ("InstanceType", ("spec", "provider")): "disks belong to the class: "
    "spec.blockDeviceMappings of the EC2NodeClass",
    ("EC2NodeClass", ("spec", "subnetSelectorTerms")): "write subnetSelectorTerms: "
    "[{tags: {karpenter.sh/discovery: my-cluster}}]",
    ("EC2NodeClass", ("spec", "securityGroupSelectorTerms")): "write securityGroupSelectorTerms: "
    "[{tags: {karpenter.sh/discovery: my-cluster}}]",
    ("EC2NodeClass", ("spec", "amiSelectorTerms")): "write amiSelectorTerms: "
    "[{alias: al2023@latest}]",
    ("EC2NodeClass", ("spec", "capacityReservationSelectorTerms", 0, "type")): "write "
    "instanceMatchCriteria: open or targeted",
    ("EC2NodeClass", ("status", "capacityReservations", 0, "type")): "write "
    "instanceMatchCriteria: open or targeted",
    ("EC2NodeClass", ("status", "capacityReservations", 0, "availableInstanceCount")): "the status "
    "has no counts; a Cloud states them as available and total",
    ("EC2NodeClass", ("status", "capacityReservations", 0, "totalInstanceCount")): "the status "
    "has no counts; a Cloud states them as available and total",
}
"""Names that changed, and short forms: offline commands accept these, an API server requires the
long form. Index 0 stands for every entry of a list."""


def validate_object(
    kind: KnownKind, value: dict[str, Any], old: dict[str, Any] | None = None
) -> list[FieldError]:
    """The field errors of an object of one of our kinds; `old` is the object that it replaces."""
    root = object_schema(kind.type)
    found = list(_metadata_errors(kind, value))
    defaulted = schema_validation.apply_defaults(value, root)
    if old is not None or not is_surely_valid(kind.type, value):
        found.extend(schema_validation.find_unknown_fields(value, root))
        found.extend(_schema_errors(defaulted, root, old))
    if all(field_error.is_accepted for field_error in found):
        found.extend(check_semantics(kind.name, defaulted))
    return [_with_spelling_hint(_with_long_form_hint(kind, field_error)) for field_error in found]


def _metadata_errors(kind: KnownKind, value: dict[str, Any]) -> Iterator[FieldError]:
    given = value.get("metadata")
    given = {} if given is None else given
    if kind.family is KindFamily.OFFLINE and given == {}:
        return
    for field_error in metadata_validation.validate_metadata(given, namespaced=False):
        yield msgspec.structs.replace(field_error, path=("metadata", *field_error.path))


def _schema_errors(defaulted: dict[str, Any], root: Schema, old: Any) -> Iterator[FieldError]:
    body = {key: item for key, item in defaulted.items() if key not in ("metadata", "status")}
    before = cel.ABSENT if old is None else schema_validation.apply_defaults(old, root)
    yield from schema_validation.validate_schema(body, root, (), before)
    status = defaulted.get("status")
    if status is not None:
        yield from _status_warnings(status, root["properties"].get("status", {}))


def _status_warnings(status: Any, schema: Schema) -> Iterator[FieldError]:
    for field_error in schema_validation.validate_schema(status, schema, ("status",)):
        yield msgspec.structs.replace(field_error, warning=True)


def _with_long_form_hint(kind: KnownKind, field_error: FieldError) -> FieldError:
    path = tuple(0 if isinstance(step, int) else step for step in field_error.path)
    hint = LONG_FORM_HINTS.get((kind.name, path))
    is_rule = field_error.message == field_error.expected
    return (
        field_error if hint is None or is_rule else msgspec.structs.replace(field_error, hint=hint)
    )


def _with_spelling_hint(field_error: FieldError) -> FieldError:
    """The known word that is most similar to the one that a rule refuses."""
    if field_error.expected == EXPECTED_SCHEDULE and not field_error.hint:
        return msgspec.structs.replace(
            field_error, hint=_schedule_hint(field_error.found.strip('"'))
        )
    known = _known_words(field_error)
    if field_error.hint or not known:
        return field_error
    written = (str(field_error.path[-1]), field_error.found.strip('"').partition("@")[0])
    words = [word.rpartition("/")[2] for word in written if word not in known]
    hints = (did_you_mean(word, known) for word in words)
    return msgspec.structs.replace(field_error, hint=next(filter(None, hints), ""))


def _known_words(field_error: FieldError) -> list[str]:
    """Taken from the message that lists them, so that the two cannot differ."""
    _, listed, words = field_error.message.partition(" is one of ")
    if listed:
        return words.split(", ")
    if field_error.expected == EXPECTED_DURATION_OR_NEVER:
        return ["Never"]
    if field_error.message.startswith(AWS_LABEL_RULE):
        return [label.rpartition("/")[2] for label in AWS_LABELS]
    is_controllers = field_error.message.startswith(KARPENTER_LABEL_RULE)
    return [CAPACITY_TYPE.rpartition("/")[2]] if is_controllers else []


def with_defaults(kind: KnownKind, value: dict[str, Any]) -> dict[str, Any]:
    """The object with every default filled in: what the API server would store."""
    made: dict[str, Any] = schema_validation.apply_defaults(value, object_schema(kind.type))
    metadata = made.get("metadata")
    if isinstance(metadata, dict):
        # A null in the metadata is nothing for the API server; the schema does not say so.
        made["metadata"] = metadata_validation.without_nulls(metadata)
    return made
