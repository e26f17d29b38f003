"""Choices that a claim of a plan has when it is launched."""

from collections.abc import Callable

from wainwright.core.launch import left_to, ordinary
from wainwright.offline import Planned


def launchable(planned: Planned) -> Callable[[str], int]:
    """As how many types a claim could be launched, by its name: with a slot those that have one."""
    claims = {claim.name: claim for claim in planned.plan.claims}

    def count(name: str) -> int:
        claim = claims[name]
        return ordinary(left_to(claim, planned.prepared.built[claim.pool].index)).bit_count()

    return count
