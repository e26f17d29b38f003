"""Wishes: what pods of one class ask, and what has been found out about it.

An ask is what is wanted of a node besides room; a wish is an ask with the room it needs; a stage
has one wish for each alternative that pods put up with, and a class has a stage for each degree
to which they give up what they would like.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from wainwright.core.answer import Answer, Terms
from wainwright.core.reservations import Ids
from wainwright.core.topology.bound import Bound
from wainwright.core.topology.groups import AnyGroup
from wainwright.model.attachments import Attachment, HostPort
from wainwright.model.columns import Rows
from wainwright.model.pod import Pod
from wainwright.model.preference import GivenUp
from wainwright.model.requirements import Requirements
from wainwright.model.taints import Toleration

NOTHING_YET: Final[Mapping[int, Any]] = {}  # shared, as most wishes never learn anything
NO_GROUPS: Final[tuple[AnyGroup, ...]] = ()

Amounts: TypeAlias = tuple[tuple[int, int], ...]
"""Number of the resource and how much of it; only what is more than nothing."""


class Ask:
    """Requirements, tolerations and ports of some pods, and what was found out about them."""

    __slots__ = ("nodes", "ports", "refused_by", "rejected", "requirements", "terms", "tolerations")

    def __init__(
        self,
        requirements: Requirements,
        tolerations: tuple[Toleration, ...],
        ports: tuple[HostPort, ...] = (),
    ) -> None:
        self.requirements = requirements
        self.tolerations = tolerations
        self.ports = ports
        self.terms: list[Terms | None] = []
        """For each pool under which terms it takes such pods; None where it does not."""
        self.refused_by: tuple[int, ...] = ()
        self.nodes: Rows = 0
        """The nodes of the cluster whose labels and taints are fine."""
        self.rejected: Rows = 0
        """The drafts whose requirements or types are not."""

    def is_possible(self, standing: Rows) -> bool:
        """Whether any of the nodes, or a pool, has the labels and no taint against it."""
        return bool(self.nodes & standing) or any(terms is not None for terms in self.terms)


class Wish:
    """An ask that needs so much room."""

    __slots__ = (
        "amounts",
        "answers",
        "ask",
        "barren",
        "columns",
        "full",
        "rejected",
        "room",
        "short",
        "short_nodes",
    )

    def __init__(self, ask: Ask, amounts: Amounts, columns: tuple[int, ...]) -> None:
        self.ask = ask
        self.amounts = amounts
        self.columns = columns
        self.rejected: Rows = 0
        """The drafts that have refused it; they only ever get fuller."""
        self.full: Rows = 0
        """The same for nodes."""
        self.barren = 0
        """The last round in which no machine under way could take it."""
        self.short: Sequence[tuple[list[Rows], int]] = ()
        """Where the slack index lists the drafts that are too full."""
        self.short_nodes: Sequence[tuple[list[Rows], int]] = ()
        self.room: Mapping[int, Rows] = NOTHING_YET
        """By pool: the types with the labels and the room."""
        self.answers: Mapping[int, tuple[int, Answer]] = NOTHING_YET
        """By pool: what it last said to a new node, and at which stamp."""


class Stage:
    """The alternatives of a class, after so many preferences were given up."""

    __slots__ = ("bound", "given_up", "slot_stamp", "slot_weight", "wishes", "within")

    def __init__(
        self, wishes: tuple[Wish, ...], tied: Bound | None, given_up: tuple[GivenUp, ...]
    ) -> None:
        self.wishes = wishes
        self.bound = tied
        self.given_up = given_up
        self.slot_stamp = -1
        self.slot_weight = -1
        """The highest weight of a pool that has, or may yet have, a reserved slot for its pods."""
        self.within: dict[Requirements, Stage] = {}
        """The same on nodes of which more is required."""


class PodClass:
    """Pods that cannot be told apart by where they fit."""

    __slots__ = (
        "attachments",
        "counted",
        "is_tied",
        "needs",
        "number",
        "only_wish",
        "pods",
        "seen",
        "stages",
        "stamp",
    )

    def __init__(self, number: int, stages: tuple[Stage, ...]) -> None:
        self.number = number
        self.stages = stages
        self.pods: list[Pod] = []
        self.counted: tuple[AnyGroup, ...] = NO_GROUPS
        """The groups that count its pods, wherever they are."""
        self.attachments: tuple[Attachment, ...] = ()
        self.only_wish = _only_wish(stages)
        """What its pods ask for, if they have no alternatives, no preferences and no bonds."""
        self.is_tied = not self.only_wish and any(stage.bound is not None for stage in stages)
        self.stamp = -1
        """When it was last found that nothing takes its pods; nothing has changed until then."""
        self.seen = 0
        """What others did until then, where its pods are tied to them."""
        self.needs: Ids | None = None
        """The reservations of which any slot would do, once it waits for nothing else."""

    @property
    def wishes(self) -> tuple[Wish, ...]:
        """Of all stages."""
        return tuple(wish for stage in self.stages for wish in stage.wishes)

    @property
    def ports(self) -> tuple[HostPort, ...]:
        return self.stages[0].wishes[0].ask.ports if self.stages else ()

    @property
    def watched(self) -> int:
        """Changes whenever something does that keeps its pods from some place."""
        return sum(stage.bound.version for stage in self.stages if stage.bound is not None)


def _only_wish(stages: tuple[Stage, ...]) -> Wish | None:
    if len(stages) != 1:
        return None
    stage = stages[0]
    return stage.wishes[0] if stage.bound is None and len(stage.wishes) == 1 else None


def both(one: Requirements, other: Requirements) -> Requirements | None:
    """Both at once; None where no node can be that."""
    for key in other:
        if key in one and not one.allowed(key).agrees_with(other.allowed(key)):
            return None
    return one.narrow(other)
