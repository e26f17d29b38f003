"""Answers: what a pool says when it is asked to open a node for a pod."""

from enum import IntEnum
from typing import Final

from wainwright.core.minvalues import Minimums, Witnesses
from wainwright.core.narrowing import Narrowing
from wainwright.model.columns import Rows
from wainwright.model.markets import Markets
from wainwright.model.requirements import Requirements


class Terms:
    """What a pool would make of a pod's requirements."""

    __slots__ = ("asked", "narrowing", "rows", "trivial")

    def __init__(
        self, asked: Requirements, narrowing: Narrowing, rows: Rows, *, trivial: bool
    ) -> None:
        self.asked = asked
        """Only what the pool or the catalogue decides; the rest its nodes satisfy anyway."""
        self.narrowing = narrowing
        """Of a node that nobody else uses."""
        self.rows: Rows = rows
        """The types with the labels, but for those where a daemonset has taken its ports."""
        self.trivial = trivial
        """Whether the pod asks nothing that the pool does not promise."""


class Kind(IntEnum):
    """How good an answer is, best first."""

    RESERVED = 0
    """A node that holds slots of reservations."""
    WAIT = 1
    """A slot would do, but for now it is held by a draft, or hidden behind a limit at its worst."""
    PLAIN = 2
    LIMITED = 3
    """Not now, but perhaps when this round's drafts count as what they would be launched with."""
    REFUSED = 4


class Answer:
    __slots__ = ("held", "kind", "minimums", "narrowing", "rows", "witnesses")

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.rows: Rows = 0
        self.held: Markets = 0
        self.narrowing: Narrowing | None = None
        self.minimums: Minimums = ()
        self.witnesses: Witnesses = ()


WAIT: Final = Answer(Kind.WAIT)
LIMITED: Final = Answer(Kind.LIMITED)
REFUSED: Final = Answer(Kind.REFUSED)
