"""Requests, limits and capacities: names of resources, amounts, and what one says of the other."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from wainwright.api.builtin.check_labels import is_label_key
from wainwright.api.builtin.part import Amount, Resources, amount
from wainwright.api.builtin.pod import Container, ResourceRequirements
from wainwright.api.builtin.wording import among, broken, doubt, missing, wrong
from wainwright.api.fault import Fault, Path, did_you_mean
from wainwright.api.quantity import NotAQuantity, Quantity

CONTAINER: Final = ("cpu", "memory", "ephemeral-storage")
POD: Final = ("cpu", "memory")
HUGE: Final = "hugepages-"
COUNTED: Final = frozenset(
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
COUNTABLE: Final = 2**53  # Go's own arithmetic is beyond its limits somewhere above
A_RESOURCE: Final = "cpu, memory, ephemeral-storage, or a name with a domain such as nvidia.com/gpu"


def requirements(given: ResourceRequirements, path: Path) -> Iterator[Fault]:
    """What a container asks for."""
    for name in ("requests", "limits"):
        yield from amounts(getattr(given, name), (*path, name))
    yield from _within_limits(given, path)
    yield from _huge_pages_alone(given, path)


def amounts(given: Resources | None, path: Path) -> Iterator[Fault]:
    """Names and amounts that a container may ask for, or that running a pod costs on top."""
    for name, written in (given or {}).items():
        if not is_container_resource(name):
            yield wrong((*path, name), name, A_RESOURCE, _meant(name))
        else:
            yield from _amount(name, written, (*path, name))
            yield from _huge_pages(name, written, (*path, name))


def _meant(name: str) -> str:
    # The nearest word to gpu is cpu, which nobody means by it.
    return "" if "gpu" in name else did_you_mean(name, list(CONTAINER))


def capacities(given: Resources | None, path: Path) -> Iterator[Fault]:
    """Amounts that a node has; it may name what it likes."""
    for name, written in (given or {}).items():
        yield from _amount(name, written, (*path, name))


def _amount(name: str, written: Amount, path: Path) -> Iterator[Fault]:
    quantity = amount(written)
    if quantity.nano < 0:
        yield wrong(path, written, "an amount that is not negative")
    elif quantity.milli % 1000 and quantity.units < COUNTABLE and _is_counted(name):
        yield wrong(path, written, "a whole number; this resource cannot be divided")


def _is_counted(name: str) -> bool:
    return name in COUNTED or is_extended(name)


def _huge_pages(name: str, written: Amount, path: Path) -> Iterator[Fault]:
    if not name.startswith(HUGE) or not 0 <= amount(written).units < COUNTABLE:
        return
    try:
        page = amount(name.removeprefix(HUGE))
    except NotAQuantity:
        page = Quantity(0)
    if page.nano <= 0 or page.milli % 1000:
        yield wrong(path, name, "the name of a page size, such as hugepages-2Mi")
    elif amount(written).units % page.units:
        yield wrong(path, written, f"a multiple of the page size {page}")


@lru_cache(maxsize=1024)
def is_extended(name: str) -> bool:
    """A resource of somebody else's domain: whole numbers, and requests equal to limits."""
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return is_label_key(f"requests.{name}")


@lru_cache(maxsize=1024)
def is_container_resource(name: str) -> bool:
    if "/" in name:
        native = "kubernetes.io/" in name and is_label_key(name)
        return native or is_extended(name)
    return name in CONTAINER or (name.startswith(HUGE) and is_label_key(name))


def _within_limits(given: ResourceRequirements, path: Path) -> Iterator[Fault]:
    limits = given.limits or {}
    for name, written in (given.requests or {}).items():
        firm = name.startswith(HUGE) or is_extended(name)
        if name in limits:
            yield from _against_limit(name, written, limits[name], path, firm=firm)
        elif firm:
            yield doubt(
                (*path, "requests", name),
                written,
                "API servers refuse a request for this resource without a limit",
                f"add a limit of {written}",
            )


def _against_limit(
    name: str, written: Amount, limit: Amount, path: Path, *, firm: bool
) -> Iterator[Fault]:
    """Compared in thousandths, to which the API server rounds both before it looks."""
    asked, allowed = amount(written).milli, amount(limit).milli
    if firm and asked != allowed:
        expected = f"the same as the limit of {limit}; this resource is not shared out"
    elif asked > allowed:
        expected = f"at most the limit of {limit}"
    else:
        return
    yield wrong((*path, "requests", name), written, expected)


def _huge_pages_alone(given: ResourceRequirements, path: Path) -> Iterator[Fault]:
    names = {*(given.requests or ()), *(given.limits or ())}
    if any(name.startswith(HUGE) for name in names) and not names & {"cpu", "memory"}:
        message = "huge pages need a request or limit of cpu or memory beside them"
        yield broken(path, ", ".join(sorted(names)), message)


def claims(given: ResourceRequirements, known: set[str], path: Path) -> Iterator[Fault]:
    """A container's claims on devices must be among the pod's."""
    for index, claim in enumerate(given.claims or ()):
        place = (*path, "claims", index, "name")
        if not claim.name:
            yield missing(place, "the name of one of the pod's resourceClaims")
        elif claim.name not in known:
            if known:
                yield among(place, claim.name, tuple(sorted(known)))
            else:
                yield broken(place, claim.name, "the pod has no resourceClaims")


def pod_level(
    given: ResourceRequirements, containers: list[Container], path: Path
) -> Iterator[Fault]:
    """Amounts for the pod as a whole, which its containers share."""
    for kind in ("requests", "limits"):
        for name, written in (getattr(given, kind) or {}).items():
            place = (*path, kind, name)
            if name not in POD and not name.startswith(HUGE):
                yield wrong(place, name, "cpu, memory or huge pages for a pod as a whole")
            else:
                yield from _amount(name, written, place)
                yield from _huge_pages(name, written, place)
    yield from _within_limits(given, path)
    yield from _room_for_containers(given, containers, path)


def _room_for_containers(
    given: ResourceRequirements, containers: list[Container], path: Path
) -> Iterator[Fault]:
    for name, written in (given.requests or {}).items():
        asked = [(one.resources.requests or {}).get(name, 0) for one in containers]
        total = sum(amount(each).milli for each in asked)
        if total > amount(written).milli >= 0:
            yield wrong(
                (*path, "requests", name),
                written,
                f"at least {Quantity(total * 10**6)}, which its containers request together",
            )
    for name, limit in (given.limits or {}).items():
        for container in containers:
            own = (container.resources.limits or {}).get(name, 0)
            if amount(own).milli > amount(limit).milli:
                expected = f"at least {own}, which container {container.name} may use"
                yield wrong((*path, "limits", name), limit, expected)
