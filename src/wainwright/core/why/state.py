"""The state of the world as pods without a place find it, and what the funnel remembers of it."""

from collections import defaultdict
from collections.abc import Mapping

import msgspec

from wainwright.model.columns import Rows
from wainwright.model.reason import NothingBigEnough, NothingOffered, NotOnOffer, Overdrawn


class Memory:
    """Answers of the funnel about sets of types, by all that they depend on.

    That is not the pool: those with the same catalogue share answers, and one that a fix changes
    has none of those that it had before.
    """

    __slots__ = ("roomless", "smallest", "unsold")

    def __init__(self) -> None:
        self.roomless: defaultdict[object, dict[Rows, Overdrawn | NothingBigEnough]]
        self.roomless = defaultdict(dict)
        """By room and requests: what comes nearest, and what it lacks."""
        self.unsold: defaultdict[object, dict[Rows, NotOnOffer | NothingOffered]]
        self.unsold = defaultdict(dict)
        """By catalogue and what pool and pod want: why none of these can be bought."""
        self.smallest: defaultdict[object, dict[Rows, tuple[int, str]]]
        self.smallest = defaultdict(dict)
        """By catalogue, limits and what is left of them: what breaks one by least, and which."""


class State(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan has come to: the rest of the world, as the pod without a place finds it."""

    free: Mapping[str, int]
    """Slots left of each reservation."""
    users: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """The claims of the plan that take a slot of each."""
    strict: bool = True
    """Whether minValues must be kept."""
    reservations: bool = True
    memory: Memory = msgspec.field(default_factory=Memory)
