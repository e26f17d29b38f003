"""Requests, limits and capacities: names of resources, amounts, and what one says of the other."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from wainwright.api.field_error import (
    FieldError,
    FieldPath,
    broken_rule,
    did_you_mean,
    field_warning,
    invalid_value,
    missing_field,
    unsupported_value,
)
from wainwright.api.kubernetes.label_validation import is_label_key
from wainwright.api.kubernetes.meta import QuantityValue, ResourceList, to_quantity
from wainwright.api.kubernetes.workloads import Container, ResourceRequirements
from wainwright.api.quantity import InvalidQuantity, Quantity

CONTAINER_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage")
POD_LEVEL_RESOURCES: Final = ("cpu", "memory")
HUGE_PAGES_PREFIX: Final = "hugepages-"
INTEGER_RESOURCES: Final = frozenset(
    {
        "pods",
        "services",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "replicationcontrollers",
        "resourcequotas",
        "services.nodeports",
        "services.loadbalancers",
    }
)
EXACT_LIMIT: Final = 2**53  # Go's own arithmetic is beyond its limits somewhere above
EXPECTED_RESOURCE: Final = (
    "cpu, memory, ephemeral-storage, or a name with a domain such as nvidia.com/gpu"
)


def validate_resource_requirements(
    given: ResourceRequirements, path: FieldPath
) -> Iterator[FieldError]:
    """What a container asks for."""
    for name in ("requests", "limits"):
        yield from validate_resource_list(getattr(given, name), (*path, name))
    yield from _validate_limits(given, path)
    yield from _validate_huge_pages_alone(given, path)


def validate_resource_list(given: ResourceList | None, path: FieldPath) -> Iterator[FieldError]:
    """Names and amounts that a container may ask for, or that running a pod costs on top."""
    for name, written in (given or {}).items():
        if not is_container_resource(name):
            yield invalid_value((*path, name), name, EXPECTED_RESOURCE, _suggest_resource(name))
        else:
            yield from _validate_amount(name, written, (*path, name))
            yield from _validate_huge_pages(name, written, (*path, name))


def _suggest_resource(name: str) -> str:
    # The nearest word to gpu is cpu, which nobody means by it.
    return "" if "gpu" in name else did_you_mean(name, list(CONTAINER_RESOURCES))


def validate_capacity(given: ResourceList | None, path: FieldPath) -> Iterator[FieldError]:
    """Amounts that a node has; it may name what it likes."""
    for name, written in (given or {}).items():
        yield from _validate_amount(name, written, (*path, name))


def _validate_amount(name: str, written: QuantityValue, path: FieldPath) -> Iterator[FieldError]:
    quantity = to_quantity(written)
    if quantity.nano < 0:
        yield invalid_value(path, written, "an amount that is not negative")
    elif quantity.milli % 1000 and quantity.units < EXACT_LIMIT and _is_integer_resource(name):
        yield invalid_value(path, written, "a whole number; this resource cannot be divided")


def _is_integer_resource(name: str) -> bool:
    return name in INTEGER_RESOURCES or is_extended_resource(name)


def _validate_huge_pages(
    name: str, written: QuantityValue, path: FieldPath
) -> Iterator[FieldError]:
    if not name.startswith(HUGE_PAGES_PREFIX) or not 0 <= to_quantity(written).units < EXACT_LIMIT:
        return
    try:
        page = to_quantity(name.removeprefix(HUGE_PAGES_PREFIX))
    except InvalidQuantity:
        page = Quantity(0)
    if page.nano <= 0 or page.milli % 1000:
        yield invalid_value(path, name, "the name of a page size, such as hugepages-2Mi")
    elif to_quantity(written).units % page.units:
        yield invalid_value(path, written, f"a multiple of the page size {page}")


@lru_cache(maxsize=1024)
def is_extended_resource(name: str) -> bool:
    """A resource of somebody else's domain: whole numbers, and requests equal to limits."""
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return is_label_key(f"requests.{name}")


@lru_cache(maxsize=1024)
def is_container_resource(name: str) -> bool:
    if "/" in name:
        native = "kubernetes.io/" in name and is_label_key(name)
        return native or is_extended_resource(name)
    return name in CONTAINER_RESOURCES or (
        name.startswith(HUGE_PAGES_PREFIX) and is_label_key(name)
    )


def _validate_limits(given: ResourceRequirements, path: FieldPath) -> Iterator[FieldError]:
    limits = given.limits or {}
    for name, written in (given.requests or {}).items():
        firm = name.startswith(HUGE_PAGES_PREFIX) or is_extended_resource(name)
        if name in limits:
            yield from _validate_against_limit(name, written, limits[name], path, firm=firm)
        elif firm:
            yield field_warning(
                (*path, "requests", name),
                written,
                "API servers refuse a request for this resource without a limit",
                f"add a limit of {written}",
            )


def _validate_against_limit(
    name: str, written: QuantityValue, limit: QuantityValue, path: FieldPath, *, firm: bool
) -> Iterator[FieldError]:
    """Compared in thousandths, to which the API server rounds both before it looks."""
    asked, allowed = to_quantity(written).milli, to_quantity(limit).milli
    if firm and asked != allowed:
        expected = f"the same as the limit of {limit}; this resource is not shared out"
    elif asked > allowed:
        expected = f"at most the limit of {limit}"
    else:
        return
    yield invalid_value((*path, "requests", name), written, expected)


def _validate_huge_pages_alone(
    given: ResourceRequirements, path: FieldPath
) -> Iterator[FieldError]:
    names = {*(given.requests or ()), *(given.limits or ())}
    if any(name.startswith(HUGE_PAGES_PREFIX) for name in names) and not names & {"cpu", "memory"}:
        message = "huge pages need a request or limit of cpu or memory beside them"
        yield broken_rule(path, ", ".join(sorted(names)), message)


def validate_resource_claims(
    given: ResourceRequirements, known: set[str], path: FieldPath
) -> Iterator[FieldError]:
    """A container's claims on devices must be among the pod's."""
    for index, claim in enumerate(given.claims or ()):
        place = (*path, "claims", index, "name")
        if not claim.name:
            yield missing_field(place, "the name of one of the pod's resourceClaims")
        elif claim.name not in known:
            if known:
                yield unsupported_value(place, claim.name, tuple(sorted(known)))
            else:
                yield broken_rule(place, claim.name, "the pod has no resourceClaims")


def validate_pod_level_resources(
    given: ResourceRequirements, containers: list[Container], path: FieldPath
) -> Iterator[FieldError]:
    """Amounts for the pod as a whole, which its containers share."""
    for kind in ("requests", "limits"):
        for name, written in (getattr(given, kind) or {}).items():
            place = (*path, kind, name)
            if name not in POD_LEVEL_RESOURCES and not name.startswith(HUGE_PAGES_PREFIX):
                yield invalid_value(place, name, "cpu, memory or huge pages for a pod as a whole")
            else:
                yield from _validate_amount(name, written, place)
                yield from _validate_huge_pages(name, written, place)
    yield from _validate_limits(given, path)
    yield from _validate_container_totals(given, containers, path)


def _validate_container_totals(
    given: ResourceRequirements, containers: list[Container], path: FieldPath
) -> Iterator[FieldError]:
    for name, written in (given.requests or {}).items():
        asked = [(one.resources.requests or {}).get(name, 0) for one in containers]
        total = sum(to_quantity(each).milli for each in asked)
        if total > to_quantity(written).milli >= 0:
            yield invalid_value(
                (*path, "requests", name),
                written,
                f"at least {Quantity(total * 10**6)}, which its containers request together",
            )
    for name, limit in (given.limits or {}).items():
        for container in containers:
            own = (container.resources.limits or {}).get(name, 0)
            if to_quantity(own).milli > to_quantity(limit).milli:
                expected = f"at least {own}, which container {container.name} may use"
                yield invalid_value((*path, "limits", name), limit, expected)
