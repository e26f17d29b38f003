"""Snapshot: everything that one decision may look at, besides the instance types.

NodePools with what they allow and already use, nodes and NodeClaims in flight, pods to be
placed, DaemonSets and capacity reservations. Nothing in it changes while a plan is made.
"""

from typing import Final

import msgspec

from wainwright.model.labels import EC2NODECLASS, INITIALIZED, NODEPOOL, REGISTERED
from wainwright.model.pod import DaemonSet, Pod
from wainwright.model.requirements import NO_REQUIREMENTS, Requirements
from wainwright.model.resources import Resources
from wainwright.model.taints import Taint, is_ephemeral_taint

NODES_LIMIT: Final = "nodes"
"""The name under which limits count instances."""


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """One NodePool. `limits` and `in_use` may name `nodes` beside resources."""

    name: str
    node_class: str = "default"
    weight: int = 0
    requirements: Requirements = NO_REQUIREMENTS
    """With minValues where the user asks for flexibility."""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    limits: Resources = msgspec.field(default_factory=dict)
    in_use: Resources = msgspec.field(default_factory=dict)
    """The capacity of the instances that it has already, each once."""
    unusable: str | None = None
    """Why it must not launch anything (static, being deleted, not ready); None if it may."""

    @property
    def node_requirements(self) -> Requirements:
        """What is known of every node of the pool before any pod has its say."""
        own = {NODEPOOL: self.name, EC2NODECLASS: self.node_class}
        ours = {REGISTERED: "true", INITIALIZED: "true"}
        return self.requirements.narrow(Requirements.from_labels(self.labels | own | ours))


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A node, or a NodeClaim of which no node has joined yet."""

    name: str
    """The node's; the claim's as long as there is no node."""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    """Taken off before the node is initialized, and until then no obstacle."""
    allocatable: Resources = msgspec.field(default_factory=dict)
    pods: tuple[Pod, ...] = ()
    """Those that run or are bound here, daemonsets' pods included."""
    managed: bool = True
    """Whether it is one of ours; on other nodes every taint counts."""
    initialized: bool = True
    deleting: bool = False
    """Takes no pods; its own are among the snapshot's pods."""
    pool: str | None = None
    launched: bool = True
    """False for a claim without an instance: it still needs its reservation."""
    reservation_id: str | None = None
    attach_limits: dict[str, int] = msgspec.field(default_factory=dict)
    """By CSI driver how many volumes it takes; no limit is known of others."""

    @property
    def effective_taints(self) -> tuple[Taint, ...]:
        """The taints that a pod must tolerate."""
        if self.initialized or not self.managed:
            return self.taints
        return tuple(
            taint
            for taint in self.taints
            if taint not in self.startup_taints and not is_ephemeral_taint(taint)
        )


class ReservationState(msgspec.Struct, frozen=True, kw_only=True):
    """A capacity reservation that some pool's class selects, for the summary of a plan."""

    id: str
    total: int
    available: int
    instance_type: str = ""
    zone: str = ""
    unusable: str | None = None
    """Why no pool can use it, although it is there; half a sentence."""

    @property
    def is_usable(self) -> bool:
        return self.unusable is None


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a cluster. The order of none of these matters."""

    pods: tuple[Pod, ...] = ()
    """To be placed, those of nodes being deleted included."""
    pools: tuple[Pool, ...] = ()
    nodes: tuple[Node, ...] = ()
    daemonsets: tuple[DaemonSet, ...] = ()
    reservations: tuple[ReservationState, ...] = ()
    claims: frozenset[str] = frozenset()
    """Names of the claims that there are, also of those that are known by their node's name."""

    @property
    def taken_names(self) -> frozenset[str]:
        """The names that no new claim may have."""
        return self.claims.union(node.name for node in self.nodes)
