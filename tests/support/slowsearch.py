"""What one pod looks for: where others leave it a place, and what it may ask for there."""

import msgspec
from tests.support.obvious import Opening
from tests.support.slowlimits import Limits
from tests.support.slowwants import both

from wainwright.model.pod import Pod
from wainwright.model.requirements import Requirements


class Option(msgspec.Struct, frozen=True):
    """A pod on nodes of which more is required; an alternative that contradicts it is None."""

    pod: Pod
    alternatives: tuple[Requirements | None, ...]
    crowd: list[int]
    """How it compares with the others to those who are to be spread."""


class Search:
    """A pod, where others leave it a place, and what it may ask for there."""

    def __init__(self, pod: Pod, limits: Limits) -> None:
        self.pod = pod
        self.limits = limits
        self.options = [_option(pod, *each) for each in limits.options()]
        self.new = [] if limits.near_a_place else self.options
        """Those for a node of its own."""


def _option(pod: Pod, extra: Requirements, crowd: list[int]) -> Option:
    narrowed = tuple(both(alternative, extra) for alternative in pod.alternatives)
    possible = tuple(each for each in narrowed if each is not None)
    return Option(msgspec.structs.replace(pod, alternatives=possible), narrowed, crowd)


def alternative_of(search: Search, opening: Opening) -> int:
    """Which of the pod's alternatives the opening is for."""
    for option in search.new:
        for number, wanted in enumerate(option.alternatives):
            if wanted is opening.wanted:
                return number
    raise AssertionError("openings are asked for with the alternatives of an option")
