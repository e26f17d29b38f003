"""Warnings about NodePools: valid requirements that no instance type can meet."""

from collections.abc import Iterator, Sequence

from wainwright.catalogue.offerings.capacity_reservations import SelectedReservation
from wainwright.catalogue.regions import region_of
from wainwright.messages.formatting import join_first
from wainwright.messages.input_remarks import describe_region_source
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import (
    AUTO_MODE_DOMAIN,
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    REGION_LABELS,
    RESERVED,
    region_of_zone,
)
from wainwright.model.requirements import Operator
from wainwright.model.snapshot import Pool
from wainwright.model.spelling import closest_spelling
from wainwright.offline import PreparedInput


def why_no_reserved_capacity(selected: Sequence[SelectedReservation]) -> str:
    """Why there is no reserved capacity for a pool whose class selects these reservations."""
    if not selected:
        return "its class selects no capacity reservation"
    full = [each.reservation.id for each in selected if each.is_offered and not each.available]
    if full:
        return f"{join_first(full)} has no free instance"
    if len(selected) == 1 and not selected[0].is_offered:
        return f"{selected[0].reservation.id} {selected[0].standing.value}"
    return f"nothing can be launched from {join_first(each.reservation.id for each in selected)}"


CONFUSED_LABELS = (
    *(
        f"{domain}/instance-{name}"
        for name in ("family", "category", "size")
        for domain in ("karpenter.k8s.aws", AUTO_MODE_DOMAIN)
    ),
    INSTANCE_TYPE,
)
"""Labels that are often confused, most likely first."""


def pool_warnings(prepared: PreparedInput) -> Iterator[str]:
    """A warning for each value that no type has, and each minValues that cannot be met."""
    for pool in sorted(prepared.snapshot.pools, key=lambda each: each.name):
        yield from _warnings_of(pool, prepared)


def _warnings_of(pool: Pool, prepared: PreparedInput) -> Iterator[str]:
    index = prepared.catalogs[pool.name].index
    for key, requirement in pool.requirements.items():
        known = _values(index, key)
        if requirement.min_values is not None and not known:
            yield (
                f"NodePool {pool.name}: no instance type has the label {key}, so that its "
                "minValues cannot be met"
            )
        if requirement.allowed.operator is Operator.IN and known:
            for value in sorted(requirement.allowed.values - known):
                why = (
                    _misspelt(key, value, known)
                    or _other_region(key, value, prepared)
                    or _other_label(index, key, value)
                )
                missing = f"no type has {key} {value}{why}"
                if (key, value) == (CAPACITY_TYPE, RESERVED):
                    missing = (
                        f"there is no reserved capacity: {_no_reserved_capacity(pool, prepared)}"
                    )
                yield f"NodePool {pool.name}: {missing}"


def _misspelt(key: str, value: str, known: set[str]) -> str:
    meant = closest_spelling(key, value, tuple(sorted(known)))
    return f"; did you mean {meant}?" if meant else ""


def _other_region(key: str, value: str, prepared: PreparedInput) -> str:
    """Where the value names another region than that of the plan; empty where it does not."""
    region, choice = region_of(value) or region_of_zone(value), prepared.region
    if key not in REGION_LABELS or region in (None, choice.region):
        return ""
    what = "" if region == value else f", a zone of {region}"
    return f"{what}: the plan is for {choice.region}, as {describe_region_source(choice)}"


def _no_reserved_capacity(pool: Pool, prepared: PreparedInput) -> str:
    if not prepared.settings.gates.capacity_reservations:
        return "the feature gate CapacityReservations is off"
    return why_no_reserved_capacity(prepared.catalogs[pool.name].reservations)


def _values(index: InstanceTypeIndex, key: str) -> set[str]:
    return set(index.all_values(key))


def _other_label(index: InstanceTypeIndex, key: str, value: str) -> str:
    for other in CONFUSED_LABELS:
        if other != key and value in _values(index, other):
            return f"; did you mean {other.rpartition('/')[2]}?"
    return ""
