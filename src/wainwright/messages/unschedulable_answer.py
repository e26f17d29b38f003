"""The answer for unschedulable pods: the one cause, from the NodePool that came nearest; the fix,
verified, with its price; all other NodePools and nodes counted by cause.

Plan, difference, Markdown, `wain explain` and events of the controller show this same answer. All
NodePools with their reasons and funnels come only with `--all`, and in JSON.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

import msgspec

from wainwright.messages.formatting import format_count
from wainwright.messages.suggestions import describe_suggestion
from wainwright.messages.unschedulable import (
    describe_constraint,
    describe_pod_reason,
    describe_pool_reason,
)
from wainwright.model.plan import UnschedulableGroup
from wainwright.model.reasons import (
    DaemonSetsExceedCapacity,
    HostPortsTaken,
    InstanceTypesTooSmall,
    InsufficientResource,
    LabelConflict,
    LaterAlternative,
    LaunchesTakenByOtherPods,
    LimitExceeded,
    MinValuesUnsatisfied,
    NewNodeViolatesTopology,
    NoCompatiblePool,
    NodeAffinityMismatch,
    NodeHostPortsTaken,
    NodeReason,
    NodeTerminating,
    NodeViolatesTopology,
    NoInstanceTypes,
    NoMatchingInstanceType,
    NoMatchingOffering,
    OfferingsUnavailable,
    PoolReason,
    PoolUnusable,
    PoolVerdict,
    PreferencesNotRelaxed,
    RestrictedLabel,
    TooManyVolumes,
    TopologyUnsatisfied,
    UntoleratedTaint,
    VolumeLimitExceeded,
)

NO_FIX: Final = "fix: none found that changes the pod or one NodePool"
POOL_CAUSES: Final[dict[type[PoolReason], str]] = {
    PoolUnusable: "not usable",
    NoInstanceTypes: "no instance types",
    LaunchesTakenByOtherPods: "other pods",
    NewNodeViolatesTopology: "topology",
    UntoleratedTaint: "taint",
    RestrictedLabel: "label",
    LabelConflict: "label",
    NoMatchingInstanceType: "label",
    NoMatchingOffering: "label",
    InstanceTypesTooSmall: "size",
    DaemonSetsExceedCapacity: "DaemonSets",
    HostPortsTaken: "host port",
    TooManyVolumes: "volume limit",
    OfferingsUnavailable: "no capacity",
    MinValuesUnsatisfied: "minValues",
    LimitExceeded: "limit",
}
NODE_CAUSES: Final[dict[type[NodeReason], str]] = {
    UntoleratedTaint: "taint",
    NodeAffinityMismatch: "node affinity",
    NodeHostPortsTaken: "host port",
    VolumeLimitExceeded: "volume limit",
    NodeViolatesTopology: "topology",
    NodeTerminating: "being deleted",
    PreferencesNotRelaxed: "preferences",
    LaterAlternative: "node affinity",
}


class UnschedulableAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong, what to change, what that costs, and what else was looked at."""

    cause: str
    fix: str | None = None
    """The change, its price and the nodes that it leads to."""
    alternative: str | None = None
    other_pools: str | None = None
    """9 other NodePools: 5 taint, 3 label, 1 limit"""
    nodes: str | None = None
    """12 nodes: 8 insufficient cpu, 4 taint"""

    def lines(self) -> list[str]:
        """At most four: the line that names the pods comes before them."""
        fix = f"fix: {self.fix}" if self.fix else NO_FIX
        alternative = f"; or {self.alternative}" if self.alternative else ""
        lines = (self.cause, fix + alternative, self.other_pools, self.nodes)
        return [line for line in lines if line]


def answer_for(group: UnschedulableGroup) -> UnschedulableAnswer:
    """The answer for pods that fail alike."""
    nearest = next((each for each in group.pools if each.pool == group.nearest_pool), None)
    others = [each for each in group.pools if each is not nearest]
    return UnschedulableAnswer(
        cause=_cause(group, nearest),
        fix=None if group.suggestion is None else describe_suggestion(group.suggestion),
        alternative=None if group.alternative is None else describe_suggestion(group.alternative),
        other_pools=_other_pools(others, group.unexplained_pools),
        nodes=_nodes(group),
    )


def _cause(group: UnschedulableGroup, nearest: PoolVerdict | None) -> str:
    reason = group.reason
    if nearest is None or not isinstance(reason, TopologyUnsatisfied | NoCompatiblePool):
        return describe_pod_reason(reason)
    if isinstance(reason, NoCompatiblePool):
        return f"NodePool {nearest.pool}: {describe_pool_reason(nearest.reason)}"
    topology = "; ".join(map(describe_constraint, reason.by))
    if isinstance(nearest.reason, NewNodeViolatesTopology):
        return topology
    is_constraint_first = getattr(nearest.reason, "by_topology", False) or isinstance(
        nearest.reason, UntoleratedTaint
    )
    if is_constraint_first:
        return f"{topology}. NodePool {nearest.pool}: {describe_pool_reason(nearest.reason)}"
    return f"NodePool {nearest.pool}: {describe_pool_reason(nearest.reason)}; {topology}"


def _other_pools(others: Iterable[PoolVerdict], unexplained: int) -> str | None:
    counts = Counter(POOL_CAUSES[type(each.reason)] for each in others)
    if unexplained:
        counts["not examined"] += unexplained
    if not counts:
        return None
    pools = format_count(counts.total(), "other NodePool")
    return f"{pools}: {_format_counts(counts)}"


def _nodes(group: UnschedulableGroup) -> str | None:
    counts: Counter[str] = Counter()
    for each in group.nodes:
        counts[_node_cause(each.reason)] += each.nodes
    if not counts:
        return None
    return f"{format_count(counts.total(), 'existing node')}: {_format_counts(counts)}"


def _node_cause(reason: NodeReason) -> str:
    if isinstance(reason, InsufficientResource):
        return f"insufficient {reason.resource}"
    return NODE_CAUSES[type(reason)]


def _format_counts(counts: Counter[str]) -> str:
    return ", ".join(f"{count:,} {cause}" for cause, count in counts.most_common())
