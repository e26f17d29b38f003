"""Requests, limits and capacities: resource names, amounts, and rules between them."""

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
EXACT_LIMIT: Final = 2**53  # above this Go's arithmetic overflows
EXPECTED_RESOURCE: Final = (
    "cpu, memory, ephemeral-storage, or a name with a domain such as nvidia.com/gpu"
)


def validate_resource_requirements(
    resources: ResourceRequirements, path: FieldPath
) -> Iterator[FieldError]:
    """The requests and limits of a container."""
    for name in ("requests", "limits"):
        yield from validate_resource_list(getattr(resources, name), (*path, name))
    yield from _validate_limits(resources, path)
    yield from _validate_huge_pages_alone(resources, path)


def validate_resource_list(resources: ResourceList | None, path: FieldPath) -> Iterator[FieldError]:
    """Names and amounts of a container's resources, or of a pod's overhead."""
    for name, quantity in (resources or {}).items():
        if not is_container_resource(name):
            yield invalid_value((*path, name), name, EXPECTED_RESOURCE, _suggest_resource(name))
        else:
            yield from _validate_amount(name, quantity, (*path, name))
            yield from _validate_huge_pages(name, quantity, (*path, name))


def _suggest_resource(name: str) -> str:
    # The word most similar to gpu is cpu, which is never meant.
    return "" if "gpu" in name else did_you_mean(name, list(CONTAINER_RESOURCES))


def validate_capacity(resources: ResourceList | None, path: FieldPath) -> Iterator[FieldError]:
    """Amounts that a node has, of any resource name."""
    for name, quantity in (resources or {}).items():
        yield from _validate_amount(name, quantity, (*path, name))


def _validate_amount(name: str, quantity: QuantityValue, path: FieldPath) -> Iterator[FieldError]:
    amount = to_quantity(quantity)
    if amount.nano < 0:
        yield invalid_value(path, quantity, "an amount that is not negative")
    elif amount.milli % 1000 and amount.units < EXACT_LIMIT and _is_integer_resource(name):
        yield invalid_value(path, quantity, "a whole number; this resource cannot be divided")


def _is_integer_resource(name: str) -> bool:
    return name in INTEGER_RESOURCES or is_extended_resource(name)


def _validate_huge_pages(
    name: str, quantity: QuantityValue, path: FieldPath
) -> Iterator[FieldError]:
    if not name.startswith(HUGE_PAGES_PREFIX) or not 0 <= to_quantity(quantity).units < EXACT_LIMIT:
        return
    try:
        page = to_quantity(name.removeprefix(HUGE_PAGES_PREFIX))
    except InvalidQuantity:
        page = Quantity(0)
    if page.nano <= 0 or page.milli % 1000:
        yield invalid_value(path, name, "the name of a page size, such as hugepages-2Mi")
    elif to_quantity(quantity).units % page.units:
        yield invalid_value(path, quantity, f"a multiple of the page size {page}")


@lru_cache(maxsize=1024)
def is_extended_resource(name: str) -> bool:
    """A resource of another domain: whole numbers, and requests equal to limits."""
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


def _validate_limits(resources: ResourceRequirements, path: FieldPath) -> Iterator[FieldError]:
    limits = resources.limits or {}
    for name, quantity in (resources.requests or {}).items():
        must_equal = name.startswith(HUGE_PAGES_PREFIX) or is_extended_resource(name)
        if name in limits:
            yield from _validate_against_limit(
                name, quantity, limits[name], path, must_equal=must_equal
            )
        elif must_equal:
            yield field_warning(
                (*path, "requests", name),
                quantity,
                "API servers refuse a request for this resource without a limit",
                f"add a limit of {quantity}",
            )


def _validate_against_limit(
    name: str, quantity: QuantityValue, limit: QuantityValue, path: FieldPath, *, must_equal: bool
) -> Iterator[FieldError]:
    """Compared in thousandths, to which the API server rounds both first."""
    requested, allowed = to_quantity(quantity).milli, to_quantity(limit).milli
    if must_equal and requested != allowed:
        expected = f"the same as the limit of {limit}; this resource is not shared out"
    elif requested > allowed:
        expected = f"at most the limit of {limit}"
    else:
        return
    yield invalid_value((*path, "requests", name), quantity, expected)


def _validate_huge_pages_alone(
    resources: ResourceRequirements, path: FieldPath
) -> Iterator[FieldError]:
    names = {*(resources.requests or ()), *(resources.limits or ())}
    if any(name.startswith(HUGE_PAGES_PREFIX) for name in names) and not names & {"cpu", "memory"}:
        message = "huge pages need a request or limit of cpu or memory beside them"
        yield broken_rule(path, ", ".join(sorted(names)), message)


def validate_resource_claims(
    resources: ResourceRequirements, known: set[str], path: FieldPath
) -> Iterator[FieldError]:
    """A container's claims on devices must be among the pod's."""
    for index, claim in enumerate(resources.claims or ()):
        place = (*path, "claims", index, "name")
        if not claim.name:
            yield missing_field(place, "the name of one of the pod's resourceClaims")
        elif claim.name not in known:
            if known:
                yield unsupported_value(place, claim.name, tuple(sorted(known)))
            else:
                yield broken_rule(place, claim.name, "the pod has no resourceClaims")


def validate_pod_level_resources(
    resources: ResourceRequirements, containers: list[Container], path: FieldPath
) -> Iterator[FieldError]:
    """Resources of the pod as a whole, which its containers share."""
    for kind in ("requests", "limits"):
        for name, quantity in (getattr(resources, kind) or {}).items():
            place = (*path, kind, name)
            if name not in POD_LEVEL_RESOURCES and not name.startswith(HUGE_PAGES_PREFIX):
                yield invalid_value(place, name, "cpu, memory or huge pages for a pod as a whole")
            else:
                yield from _validate_amount(name, quantity, place)
                yield from _validate_huge_pages(name, quantity, place)
    yield from _validate_limits(resources, path)
    yield from _validate_container_totals(resources, containers, path)


def _validate_container_totals(
    resources: ResourceRequirements, containers: list[Container], path: FieldPath
) -> Iterator[FieldError]:
    for name, quantity in (resources.requests or {}).items():
        requested = [(claim.resources.requests or {}).get(name, 0) for claim in containers]
        total = sum(to_quantity(each).milli for each in requested)
        if total > to_quantity(quantity).milli >= 0:
            yield invalid_value(
                (*path, "requests", name),
                quantity,
                f"at least {Quantity(total * 10**6)}, which its containers request together",
            )
    for name, limit in (resources.limits or {}).items():
        for container in containers:
            container_resources = (container.resources.limits or {}).get(name, 0)
            if to_quantity(container_resources).milli > to_quantity(limit).milli:
                expected = (
                    f"at least {container_resources}, which container {container.name} may use"
                )
                yield invalid_value((*path, "limits", name), limit, expected)
