"""The facts that decide whether nodes and their pods may be disrupted, as the cluster states them.

What follows from them (may this pod be evicted, is that node expired) is decided in
`core/disruption`. Times are seconds since 1970, durations are seconds.
"""

from enum import StrEnum
from typing import Final

import msgspec

from wainwright.model.pod import Pod, PodSelector
from wainwright.model.suggestions import AnyFix


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """A condition of a NodeClaim or Node."""

    status: str
    """True, False or Unknown."""
    since: float | None = None
    """The time of its last transition."""
    reason: str = ""
    message: str = ""

    @property
    def is_true(self) -> bool:
        return self.status == "True"


class NodeClaimState(msgspec.Struct, frozen=True, kw_only=True):
    """The NodeClaim of a node, as far as disruption depends on it."""

    name: str
    created: float | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    conditions: dict[str, Condition] = {}
    """By type."""
    expire_after: float | None = None
    """None for Never."""
    termination_grace_period: float | None = None
    last_pod_event: float | None = None
    image: str = ""


class DisruptionBudget(msgspec.Struct, frozen=True, kw_only=True):
    """How many nodes of a NodePool may be disrupted at once, when, and for which reasons."""

    nodes: str = "10%"
    """A count or a percentage."""
    reasons: tuple[str, ...] | None = None
    """None for all of them."""
    schedule: str | None = None
    """When it begins to be in effect: cron, in UTC; None for always."""
    duration: float | None = None


class Pause(StrEnum):
    """What is not begun while it is paused; what is under way goes on."""

    DISRUPTION = "disruption"
    PROVISIONING = "provisioning"
    ALL = "all"


class MinimumSaving(msgspec.Struct, frozen=True, kw_only=True):
    """What a move must save at least to be worth it; consolidation only."""

    fraction: float = 0.0
    """Of what the candidates cost."""
    amount: float = 0.0
    """USD per hour."""

    def is_met(self, saving: float, price: float) -> bool:
        """Whether a move that saves this much of this price is worth it."""
        return saving >= self.amount and saving >= self.fraction * price


NO_MINIMUM_SAVING: Final = MinimumSaving()


class FailedStart(msgspec.Struct, frozen=True, kw_only=True):
    """A node of which a command could not be begun, as the API server did not accept a write."""

    name: str
    until: float | None = None
    """When it is tried again; None where another write has to succeed first."""
    message: str
    """What was not accepted, and what the API server said."""
    is_marked: bool = False
    """Whether it is still marked for the command: then it counts against budgets."""


class NodePoolDisruption(msgspec.Struct, frozen=True, kw_only=True):
    """When nodes of a NodePool may be removed or replaced."""

    policy: str = "WhenEmptyOrUnderutilized"
    consolidate_after: float | None = 0.0
    """None for Never."""
    budgets: tuple[DisruptionBudget, ...] = (DisruptionBudget(),)
    expire_after: float | None = None
    """Of its new nodes; None for Never."""
    termination_grace_period: float | None = None
    minimum_saving: MinimumSaving | None = None
    """None where the NodePool says nothing: the setting for all of them counts."""
    spot_to_spot_types: int | None = None
    """How many cheaper types a spot node needs to be replaced by spot; None as above."""


DEFAULT_DISRUPTION: Final = NodePoolDisruption()


class PodDisruptionBudget(msgspec.Struct, frozen=True, kw_only=True):
    """A PodDisruptionBudget: how many of the pods that it selects may be evicted at once."""

    namespace: str
    name: str
    selector: PodSelector
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    """Counts, or percentages of the selected pods."""
    always_allows_unready: bool = False
    """Whether pods that are not ready may be evicted in any case (AlwaysAllow)."""
    disruptions_allowed: int | None = None
    """How many evictions its status allows now; None if it has no status."""
    healthy: int | None = None
    expected: int | None = None
    """Of the selected pods those that are healthy, and all that there should be; None as above."""

    def selects(self, pod: Pod) -> bool:
        return pod.namespace == self.namespace and self.selector.selects(pod.labels)

    @property
    def never_allows_eviction(self) -> bool:
        """Whether no ready pod can ever be evicted, whatever the state of the others."""
        return str(self.max_unavailable) in ("0", "0%") or self.min_available == "100%"


class BlockingBudget(msgspec.Struct, frozen=True, kw_only=True):
    """What a PodDisruptionBudget that allows no eviction says, and what would let it allow one."""

    field: str = ""
    """minAvailable or maxUnavailable; empty where it has neither."""
    value: int | str = 0
    healthy: int = 0
    expected: int = 0
    allowing_value: int | None = None
    """The value with which one eviction is allowed now; None where no value would do."""
    healthy_needed: int | None = None
    """How many of the expected pods have to be healthy; None where that would not be enough."""
    replicas_needed: int | None = None
    """How many pods there have to be, all of them healthy; None where more do not help."""
    is_shared: bool = False
    """Whether another budget selects the same pod: Kubernetes then evicts it never."""


class FreeingChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change after which a node that is kept can go; it was tried."""

    code: str
    """Of the verdict that it is for; consolidate-after where waiting is enough."""
    pool: str
    """The NodePool whose rule it is; empty where it is a rule for all of them."""
    saving: float = 0.0
    """USD per hour; negative where a drifted node gets a more expensive replacement."""
    fixes: tuple[AnyFix, ...] = ()
    """Which minValues or limits, from what to what."""
    gate: bool = False
    """Whether it needs the feature gate for spot to spot."""
    types: int | None = None
    """How many cheaper spot types may be asked for; None where that need not change."""
    cluster_limits: bool = False
    """Whether the limits are those of the cluster."""
    nodes: tuple[str, ...] = ()
    until: float | None = None
    """Nodes to which its pods may be moved from then on."""


class RepairPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """A condition of nodes that shows that the instance is broken."""

    condition: str
    status: str
    toleration: float
    """Seconds for which it may last before the node is replaced."""
    reason: str = ""
    """A regular expression on the condition's reason; empty: the fallback for any reason."""
    drain_bound: float | None = None
    """Seconds that draining may take at most; None: as long as the NodeClaim allows."""
    priority: int = 0
    """0 to 100; what is more urgent is repaired first."""


class WarningCode(StrEnum):
    FEW_TYPES = "few-types"
    """A replacement can be launched as few instance types: it may not be found."""
    REPLICAS_TOGETHER = "replicas-together"
    """All replicas of a workload would be on one spot node, which may be interrupted."""


class CommandWarning(msgspec.Struct, frozen=True, kw_only=True):
    code: WarningCode
    step: int
    """The number of the command, from 1."""
    node: str
    """The replacement, or the node that pods are moved to."""
    count: int
    """Of instance types, or of replicas."""
    workload: str = ""
    """Namespace, kind and name."""
