"""Snapshot: everything that one decision may look at, besides the instance types.

NodePools with what they allow and already use, nodes and NodeClaims in flight, pods to be
placed, DaemonSets, PodDisruptionBudgets and capacity reservations. Nothing in it changes while a
plan is made.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from wainwright.model.disruption import (
    DEFAULT_DISRUPTION,
    Condition,
    NodeClaimState,
    NodePoolDisruption,
    PodDisruptionBudget,
)
from wainwright.model.instance_type import Offering
from wainwright.model.labels import (
    CAPACITY_TYPE,
    INITIALIZED,
    NODEPOOL,
    REGISTERED,
    RESERVATION_ID,
    RESERVED,
    ZONE,
    node_class_labels,
)
from wainwright.model.pod import DaemonSet, Pod
from wainwright.model.requirements import NO_REQUIREMENTS, Requirements
from wainwright.model.resources import Resources
from wainwright.model.taints import Taint, is_ephemeral_taint

NODES_LIMIT: Final = "nodes"
"""The key in limits that counts nodes."""
STATIC_POOL: Final = "it is static and keeps its replicas, whatever pods need"
"""Why a static NodePool launches nothing for pods."""


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """A NodePool. `limits` and `in_use` may have the key `nodes` in addition to resources."""

    name: str
    node_class: str = "default"
    auto_mode: bool = False
    """Whether the class is one of EKS Auto Mode, whose nodes have other labels."""
    weight: int = 0
    requirements: Requirements = NO_REQUIREMENTS
    """With minValues where the NodePool has them."""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    limits: Resources = msgspec.field(default_factory=dict)
    in_use: Resources = msgspec.field(default_factory=dict)
    """The total capacity of its nodes and NodeClaims, each counted once."""
    unusable: str | None = None
    """Why it must not launch anything (static, being deleted, not ready); None if it may."""
    disruption: NodePoolDisruption = DEFAULT_DISRUPTION
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    hash: str = ""
    """Of the fields of its template that nodes get at launch; see `core.disruption.drift`."""
    replicas: int | None = None
    """The size of a static NodePool; None for one that follows its pods."""

    @property
    def keeps_replicas(self) -> bool:
        """Whether it is static, and nothing keeps it from launching nodes."""
        return self.replicas is not None and self.unusable == STATIC_POOL

    @property
    def node_class_labels(self) -> dict[str, str]:
        return node_class_labels(self.node_class, auto_mode=self.auto_mode)

    @property
    def node_requirements(self) -> Requirements:
        """The requirements that every node of the NodePool meets, before those of any pod."""
        owners = {NODEPOOL: self.name, **self.node_class_labels}
        states = {REGISTERED: "true", INITIALIZED: "true"}
        return self.requirements.narrow(Requirements.from_labels(self.labels | owners | states))


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A node, or a NodeClaim whose node has not joined yet."""

    name: str
    """Of the node, or of the claim as long as there is no node."""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    """Removed before the node is initialized, and ignored until then."""
    allocatable: Resources = msgspec.field(default_factory=dict)
    pods: tuple[Pod, ...] = ()
    """The pods bound to it, those of DaemonSets included."""
    managed: bool = True
    """Whether a NodePool owns it; on other nodes every taint counts."""
    initialized: bool = True
    deleting: bool = False
    """Being deleted: no pod is scheduled on it, and those that may be evicted go elsewhere."""
    pool: str | None = None
    launched: bool = True
    """False for a claim without an instance: it still needs capacity of its reservation."""
    joined: bool = True
    """False for a claim without a Node object: nobody knows what runs there."""
    reservation_id: str | None = None
    attach_limits: dict[str, int] = msgspec.field(default_factory=dict)
    """By CSI driver how many volumes can be attached; drivers not listed have no known limit."""
    capacity: Resources = msgspec.field(default_factory=dict)
    """What counts against limits."""
    highest_price: float | None = None
    """USD per hour that counts against limits, where it is not known what it will be."""
    claim: NodeClaimState | None = None
    """None for a node that only a label assigns to its NodePool, or that none owns."""
    provider_id: str = ""
    created: float | None = None
    """Seconds since 1970; of the claim as long as there is no node."""
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    conditions: dict[str, Condition] = msgspec.field(default_factory=dict)
    """Those of the Node, by type; the NodeClaim's are in `claim`."""

    @property
    def effective_taints(self) -> tuple[Taint, ...]:
        """The taints that a pod must tolerate to be scheduled on it."""
        if self.initialized or not self.managed:
            return self.taints
        return tuple(
            taint
            for taint in self.taints
            if taint not in self.startup_taints and not is_ephemeral_taint(taint)
        )


class ReservationState(msgspec.Struct, frozen=True, kw_only=True):
    """A capacity reservation that a node class selects, for the summary of a plan."""

    id: str
    total: int
    available: int
    instance_type: str = ""
    zone: str = ""
    unusable: str | None = None
    """Why no NodePool can use it, as the rest of a sentence."""

    @property
    def is_usable(self) -> bool:
        return self.unusable is None


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a cluster. The order within the fields does not matter."""

    pods: tuple[Pod, ...] = ()
    """To be scheduled; `core.disruption.eviction` adds those of nodes being deleted."""
    pools: tuple[Pool, ...] = ()
    nodes: tuple[Node, ...] = ()
    daemonsets: tuple[DaemonSet, ...] = ()
    reservations: tuple[ReservationState, ...] = ()
    claims: frozenset[str] = frozenset()
    """Names of all NodeClaims, those whose node is listed by its own name included."""
    pod_disruption_budgets: tuple[PodDisruptionBudget, ...] = ()
    now: float | None = None
    """Seconds since 1970; None where nothing may depend on the time."""

    @property
    def taken_names(self) -> frozenset[str]:
        """The names that a new claim may not have."""
        return self.claims.union(node.name for node in self.nodes)

    def without_virtual_pods(self) -> "Snapshot":
        """As the kube-scheduler sees the cluster; the same object where there are none."""
        if not any(pod.virtual for node in self.nodes for pod in node.pods):
            return self
        nodes = (
            msgspec.structs.replace(node, pods=tuple(pod for pod in node.pods if not pod.virtual))
            for node in self.nodes
        )
        return msgspec.structs.replace(self, nodes=tuple(nodes))


def find_offering(node: Node, offerings: Iterable[Offering]) -> Offering | None:
    """The offering of the node's zone, capacity type and reservation, available or not.

    One that leaves a label open is for every value of it.
    """
    labels = node.labels
    wanted = (labels.get(ZONE), labels.get(CAPACITY_TYPE))
    reservation = labels.get(RESERVATION_ID) if wanted[1] == RESERVED else None
    if None in wanted:
        return None
    for offering in offerings:
        is_same = (offering.zone or wanted[0], offering.capacity_type or wanted[1]) == wanted
        if is_same and (reservation is None or offering.reservation_id == reservation):
            return offering
    return None
