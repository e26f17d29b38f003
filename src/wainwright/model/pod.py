"""Pods that need a place, and the daemonsets that take room on every node they run on."""

from enum import StrEnum
from typing import Final

import msgspec

from wainwright.model.attachments import Attachment, HostPort
from wainwright.model.requirements import NO_REQUIREMENTS, Requirements
from wainwright.model.resources import Resources
from wainwright.model.taints import Toleration
from wainwright.model.topology import Company, Preferred, Spread

ANYWHERE: Final = (NO_REQUIREMENTS,)
"""The alternatives of a pod that asks nothing of a node's labels."""


class Feature(StrEnum):
    """What the planner cannot honour, in words that end a sentence about the pod."""

    RESOURCE_CLAIMS = "resource claims"


class PreferredNodes(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """Nodes on which the pod would rather be; heavier ones count more."""

    weight: int
    requirements: Requirements


class Bonds(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """What ties a pod to other pods, to volumes and to preferences; most pods have none."""

    spreads: tuple[Spread, ...] = ()
    """As written, preferences (ScheduleAnyway) among them."""
    affinity: tuple[Company, ...] = ()
    anti_affinity: tuple[Company, ...] = ()
    preferred_affinity: tuple[Preferred, ...] = ()
    """This and the next two: heaviest first, among equals as written."""
    preferred_anti_affinity: tuple[Preferred, ...] = ()
    preferred_nodes: tuple[PreferredNodes, ...] = ()
    ports: tuple[HostPort, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    """Volumes of which nodes take only so many."""
    volume_places: tuple[Requirements, ...] = ANYWHERE
    """Where its volumes can be reached: any of these will do, and none is ever given up."""


NO_BONDS: Final = Bonds()


class VolumeProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Why a volume keeps the pod from being placed at all."""

    claim: str
    """The claim's name, or the volume's where it has no claim."""
    why: str


class Pod(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A pod, with everything that decides where it can go."""

    namespace: str
    name: str
    uid: str = ""
    created: float | None = None
    """Seconds since 1970; None sorts as the youngest."""
    requests: Resources = msgspec.field(default_factory=dict)
    """Init containers, sidecars and overhead included; its own slot is added by the planner."""
    overhead: Resources | None = None
    """What its runtime adds to the requests that are written; None where it adds nothing."""
    alternatives: tuple[Requirements, ...] = ANYWHERE
    """Node selector with one required node affinity term each: any will do, the first goes first.

    Terms that contradict themselves are left out; with none left the pod fits no node.
    """
    contradictory: tuple[str, ...] = ()
    """Labels of which the terms left out ask what no node can have."""
    tolerations: tuple[Toleration, ...] = ()
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    priority: int = 0
    daemonset: bool = False
    """Whether a DaemonSet owns it."""
    bonds: Bonds = NO_BONDS
    volume_problem: VolumeProblem | None = None
    terminating: bool = False
    """Being deleted: it still takes room, but is no longer counted when pods are spread."""
    unsupported: tuple[Feature, ...] = ()
    """A pod that uses any of these is refused rather than placed wrongly."""

    @property
    def key(self) -> str:
        """As plans and people write it."""
        return f"{self.namespace}/{self.name}"


class DaemonSet(msgspec.Struct, frozen=True, kw_only=True):
    """One more pod on every node that its template fits."""

    namespace: str
    name: str
    requests: Resources = msgspec.field(default_factory=dict)
    alternatives: tuple[Requirements, ...] = ANYWHERE
    tolerations: tuple[Toleration, ...] = ()
    ports: tuple[HostPort, ...] = ()
