"""Requirements of pools and claims, with their minValues."""

from collections.abc import Iterable

from wainwright.api.scheduling import ClaimRequirement, Requirement
from wainwright.model.requirements import Entry, Requirements, contradictions

Written = Iterable[Requirement | ClaimRequirement]


def requirements(written: Written) -> Requirements:
    return Requirements.from_entries(_entries(written))


def contradicted(written: Written) -> tuple[str, ...]:
    """Labels of which the requirements ask what no node can have."""
    return contradictions(_entries(written))


def _entries(written: Written) -> list[Entry]:
    return [(each.key, each.operator, tuple(each.values or ()), each.minValues) for each in written]
