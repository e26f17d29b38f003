"""Pods that need a place, and the daemonsets that take room on every node they run on."""

from enum import StrEnum
from typing import Final

import msgspec

from wainwright.model.requirements import NO_REQUIREMENTS, Requirements
from wainwright.model.resources import Resources
from wainwright.model.taints import Toleration

ANYWHERE: Final = (NO_REQUIREMENTS,)
"""The alternatives of a pod that asks nothing of a node's labels."""


class Feature(StrEnum):
    """What the planner cannot honour yet, in words that end a sentence about the pod."""

    TOPOLOGY_SPREAD = "topology spread constraints"
    POD_AFFINITY = "pod affinity"
    POD_ANTI_AFFINITY = "pod anti-affinity"
    PREFERENCES = "preferred node affinity"
    VOLUMES = "persistent volumes"
    HOST_PORTS = "host ports"
    RESOURCE_CLAIMS = "resource claims"


class Pod(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A pod, with everything that decides where it can go."""

    namespace: str
    name: str
    uid: str = ""
    created: float | None = None
    """Seconds since 1970; None sorts as the youngest."""
    requests: Resources = msgspec.field(default_factory=dict)
    """Init containers, sidecars and overhead included; its own slot is added by the planner."""
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
