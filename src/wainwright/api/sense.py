"""What a schema cannot say: values that are refused offline, and values that make no sense.

The API server accepts all of these. What is refused here the controller will report on the object;
what is doubted here is legal, and almost certainly not what was meant.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from wainwright.api import cel
from wainwright.api.fault import Fault, Path, shown
from wainwright.api.kubelet import VARIABLES
from wainwright.api.metadata import A_KEY, is_label_key
from wainwright.api.names import (
    CAPACITY_TYPE,
    CAPACITY_TYPES,
    PRICE,
    RESERVATION_ID,
    TENANCIES,
    TENANCY,
)
from wainwright.api.overrides import A_PRICE, PRICE_TEXT
from wainwright.api.quantity import NotAQuantity, parse
from wainwright.api.wire import A_LABEL_VALUE, LABEL_VALUE

GO_DURATION: Final = re.compile(r"[+-]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h))+|0")
CRON_FIELD: Final = re.compile(r"[0-9A-Za-z*?/,-]+")
KNOWN_VALUES: Final = {CAPACITY_TYPE: CAPACITY_TYPES, TENANCY: TENANCIES}

Value = dict[str, Any]


def doubts(kind: str, value: Value) -> Iterator[Fault]:
    """Refusals and warnings beyond the schema, for an object whose shape is right."""
    spec = value.get("spec") or {}
    match kind:
        case "NodePool":
            yield from _pool(spec)
        case "NodeClaim":
            yield from _requirements(spec.get("requirements"), ("spec", "requirements"))
        case "EC2NodeClass":
            yield from _kubelet(spec.get("kubelet") or {}, ("spec", "kubelet"))
        case "InstanceType":
            yield from _offerings(spec.get("offerings") or [])
        case "Cloud":
            yield from _cloud(spec)
        case "Catalog":
            yield from _catalog(value)
        case _:
            return


def _pool(spec: Value) -> Iterator[Fault]:
    template = spec.get("template") or {}
    inner = ("spec", "template")
    requirements = (template.get("spec") or {}).get("requirements")
    yield from _requirements(requirements, (*inner, "spec", "requirements"))
    for key in (template.get("metadata") or {}).get("labels") or {}:
        if not is_label_key(key):
            yield _doubt((*inner, "metadata", "labels", key), key, A_KEY)
    for name, amount in (spec.get("limits") or {}).items():
        if _is_negative(amount):
            yield _doubt(("spec", "limits", name), amount, "0 or more", "nothing can be launched")
    for index, budget in enumerate((spec.get("disruption") or {}).get("budgets") or []):
        schedule = budget.get("schedule")
        if schedule and not _is_cron(schedule):
            path = ("spec", "disruption", "budgets", index, "schedule")
            yield _doubt(path, schedule, "five cron fields", "a schedule nobody can read blocks")


def _is_negative(amount: Any) -> bool:
    try:
        return parse(str(amount)).nano < 0
    except NotAQuantity:
        return False


def _is_cron(schedule: str) -> bool:
    if schedule.startswith("@"):
        return True
    fields = schedule.split()
    return len(fields) == 5 and all(CRON_FIELD.fullmatch(field) for field in fields)


def _requirements(requirements: Any, path: Path) -> Iterator[Fault]:
    for index, item in enumerate(requirements or []):
        values = item.get("values") or []
        least, distinct = item.get("minValues") or 0, len(set(values))
        if item.get("operator") == "In" and least > distinct:
            yield Fault(
                path=(*path, index, "minValues"),
                message="minValues asks for more different values than the requirement lists",
                found=str(least),
                expected=f"at most {distinct}",
            )
        allowed = KNOWN_VALUES.get(item.get("key", ""), values)
        for number, one in enumerate(values):
            if one not in allowed:
                yield _doubt((*path, index, "values", number), one, f"one of {', '.join(allowed)}")


def _kubelet(kubelet: Value, path: Path) -> Iterator[Fault]:
    for signal, period in (kubelet.get("evictionSoftGracePeriod") or {}).items():
        if not GO_DURATION.fullmatch(period):
            place = (*path, "evictionSoftGracePeriod", signal)
            yield _doubt(place, period, "a duration such as 1m30s")
    for field in ("kubeReserved", "systemReserved"):
        for name, amount in (kubelet.get(field) or {}).items():
            yield from _expression(amount, (*path, field, name))
    most = kubelet.get("maxPods")
    if isinstance(most, str):
        yield from _expression(most, (*path, "maxPods"))


def _expression(text: str, path: Path) -> Iterator[Fault]:
    if any(name in text for name in VARIABLES) and cel.compiles(text):
        yield _doubt(path, text, "an expression that CEL can read", "the class will not be ready")


def _offerings(offerings: list[Any]) -> Iterator[Fault]:
    for index, offering in enumerate(offerings):
        for key, item in offering.items():
            path = ("spec", "offerings", index, key)
            if key == PRICE:
                yield from _price(item, path)
            elif isinstance(item, (list, dict)) or item is None:
                yield _refusal(path, item, "one value: an offering has one value for each label")
            else:
                yield from _label(key, item, path)


def _price(item: Any, path: Path) -> Iterator[Fault]:
    number = isinstance(item, (int, float)) and not isinstance(item, bool)
    text = isinstance(item, str) and re.search(PRICE_TEXT, item) is not None
    if not number and not text:
        yield _refusal(path, item, A_PRICE)


def _label(key: str, item: Any, path: Path) -> Iterator[Fault]:
    if not is_label_key(key):
        yield _refusal(path, key, A_KEY)
    text = shown(item) if isinstance(item, bool) else str(item)
    if len(text) > 63 or not re.fullmatch(LABEL_VALUE.strip("^$"), text):
        yield _refusal(path, item, A_LABEL_VALUE)


def _cloud(spec: Value) -> Iterator[Fault]:
    seen: set[str] = set()
    for index, item in enumerate(spec.get("capacityReservations") or []):
        path = ("spec", "capacityReservations", index)
        if item["id"] in seen:
            yield _refusal((*path, "id"), item["id"], "an id that no other reservation has")
        seen.add(item["id"])
        if (item.get("available") or 0) > item["total"]:
            yield _refusal((*path, "available"), item["available"], f"at most {item['total']}")
        start, end = item.get("startTime"), item.get("endTime")
        if start and end and end <= start:
            yield _refusal((*path, "endTime"), end, f"a time after {start}")
    yield from _repeated(spec.get("zones") or [], ("spec", "zones"))


def _catalog(value: Value) -> Iterator[Fault]:
    types = value.get("instanceTypes") or []
    names = [item["name"] for item in types]
    yield from _repeated(names, ("instanceTypes",))
    for index, item in enumerate(types):
        yield from _allocatable(item, ("instanceTypes", index))
        yield from _nameless(item, ("instanceTypes", index))


def _nameless(item: Value, path: Path) -> Iterator[Fault]:
    """Slots are counted by reservation, so that a reserved offering has to say which it is of."""
    for index, offering in enumerate(item.get("offerings") or []):
        labels = offering["labels"]
        named = offering.get("reservationID") or labels.get(RESERVATION_ID)
        if labels.get(CAPACITY_TYPE) == "reserved" and not named:
            place = (*path, "offerings", index, "reservationID")
            yield _refusal(place, named, "the name of the reservation that it is a slot of")


def _repeated(values: list[str], path: Path) -> Iterator[Fault]:
    seen: set[str] = set()
    for index, one in enumerate(values):
        if one in seen:
            yield _refusal((*path, index), one, "an entry that is not there yet")
        seen.add(one)


def _allocatable(item: Value, path: Path) -> Iterator[Fault]:
    """Printed for people; where it is given it must be what capacity and overhead come to."""
    capacity, overhead = item["capacity"], item.get("overhead") or {}
    for name, amount in (item.get("allocatable") or {}).items():
        left = parse(str(capacity.get(name, 0))) - parse(str(overhead.get(name, 0)))
        if parse(str(amount)) != left:
            yield _refusal((*path, "allocatable", name), amount, f"capacity less overhead: {left}")


def _refusal(path: Path, value: Any, expected: str) -> Fault:
    return Fault(path=path, message=f"expected {expected}", found=shown(value), expected=expected)


def _doubt(path: Path, value: Any, expected: str, hint: str = "") -> Fault:
    message = f"legal, but it makes no sense: found {shown(value)}, expected {expected}"
    return Fault(
        path=path,
        message=message,
        found=shown(value),
        expected=expected,
        hint=hint,
        warning=True,
    )
