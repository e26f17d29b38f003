"""Requirements of pools and claims, with their minValues."""

from collections.abc import Iterable

from wainwright.api.scheduling import ClaimRequirement, Requirement
from wainwright.model.requirements import Requirements


def requirements(written: Iterable[Requirement | ClaimRequirement]) -> Requirements:
    return Requirements.from_entries(
        (each.key, each.operator, tuple(each.values or ()), each.minValues) for each in written
    )
