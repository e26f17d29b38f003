"""The answer for unschedulable pods: the one cause, from the NodePool that came nearest; the fix,
verified, with its price; all other NodePools and nodes counted by cause.

Plan, difference, Markdown, `wain explain` and events of the controller show this same answer. All
NodePools with their reasons and funnels come only with `--all`, and in JSON.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from wainwright.messages.formatting import format_count
from wainwright.messages.suggestions import describe_suggestion
from wainwright.messages.unschedulable import (
    describe_constraints,
    describe_domains_of_pool,
    describe_pod_reason,
    describe_pool_reason,
    format_values,
)
from wainwright.model.labels import OS
from wainwright.model.plan import UnschedulableGroup
from wainwright.model.reasons import (
    DaemonSetsExceedCapacity,
    ExcludedByPool,
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
    NoNodePools,
    OfferingsUnavailable,
    PoolReason,
    PoolUnusable,
    PoolVerdict,
    PreferencesNotRelaxed,
    RestrictedLabel,
    TooManyVolumes,
    TopologySpreadUnsatisfied,
    TopologyUnsatisfied,
    UntoleratedTaint,
    VolumeLimitExceeded,
)
from wainwright.model.requirements import ValueSet
from wainwright.model.suggestions import (
    ChangePodRequirement,
    ChangePoolRequirement,
    DropPodRequirement,
    VerifiedSuggestion,
)

NO_FIX: Final = "fix: none found that changes the pod or one NodePool"
ADD_POOL: Final = "add a NodePool, and the EC2NodeClass that it refers to"
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
    """other NodePools: gpu (taint nvidia.com/gpu:NoSchedule), batch (limit cpu); counted where they
    are many: 9 other NodePools: 5 taint, 3 label, 1 limit"""
    nodes: str | None = None
    """12 nodes: 8 insufficient cpu, 4 taint"""

    def lines(self) -> list[str]:
        """At most four: the line that names the pods comes before them."""
        fix = f"fix: {self.fix}" if self.fix else NO_FIX
        alternative = f"; or {self.alternative}" if self.alternative else ""
        lines = (self.cause, fix + alternative, self.other_pools, self.nodes)
        return [line for line in lines if line]


def answer_for(group: UnschedulableGroup, *, with_total: bool = True) -> UnschedulableAnswer:
    """The answer for pods that fail alike; without the total of a plan where no plan is shown."""
    nearest = next((each for each in group.pools if each.pool == group.nearest_pool), None)
    others = [each for each in group.pools if each is not nearest]
    images = _other_images(nearest) if group.suggestion is None else None
    return UnschedulableAnswer(
        cause=_cause(group, nearest, others) + (f"; {images}" if images else ""),
        fix=ADD_POOL
        if isinstance(group.reason, NoNodePools)
        else _describe_fix(group.suggestion, with_total=with_total),
        alternative=_describe_fix(group.alternative, with_total=with_total),
        other_pools=_other_pools(others, group.unexplained_pools),
        nodes=_nodes(group),
    )


def _describe_fix(suggestion: VerifiedSuggestion | None, *, with_total: bool) -> str | None:
    return None if suggestion is None else describe_suggestion(suggestion, with_total=with_total)


IMAGE_ALIASES: Final = {"linux": "al2023@latest", "windows": "windows2022@latest"}
"""By operating system, an alias of an EC2NodeClass whose images have it."""


def _other_images(nearest: PoolVerdict | None) -> str | None:
    """Where the pod needs another operating system: images are chosen by an EC2NodeClass, so that
    no change of the pod or a requirement helps. That is no fix: to try it, and to price it, takes
    the catalogue of a node class that does not exist.
    """
    reason = None if nearest is None else nearest.reason
    if nearest is None or not isinstance(reason, LabelConflict | NoMatchingInstanceType):
        return None
    wanted = reason.wanted
    aliases = [] if wanted.open else [IMAGE_ALIASES.get(each) for each in sorted(wanted.values)]
    if reason.key != OS or len(aliases) != 1 or aliases[0] is None:
        return None
    (wanted_system,) = wanted.values
    return f"an EC2NodeClass with alias {aliases[0]} has images for {wanted_system}"


def _cause(
    group: UnschedulableGroup, nearest: PoolVerdict | None, others: Sequence[PoolVerdict]
) -> str:
    reason = group.reason
    if nearest is None or not isinstance(reason, TopologyUnsatisfied | NoCompatiblePool):
        return describe_pod_reason(reason)
    pool_reason = describe_pool_reason(nearest.reason, with_correction=not _corrects(group))
    of_pool = f"NodePool {nearest.pool}: {pool_reason}"
    if isinstance(reason, NoCompatiblePool):
        return of_pool
    topology = describe_constraints(reason.by)
    if isinstance(nearest.reason, NewNodeViolatesTopology):
        return topology
    if _is_only_in(nearest, others, reason):
        return f"{topology}, which only NodePool {nearest.pool} offers: {pool_reason}"
    is_constraint_first = getattr(nearest.reason, "by_topology", False) or isinstance(
        nearest.reason, UntoleratedTaint
    )
    if is_constraint_first:
        return f"{topology}. {describe_domains_of_pool(nearest.pool, nearest.reason) or of_pool}"
    return f"{of_pool}; {topology}"


def _corrects(group: UnschedulableGroup) -> bool:
    """Whether the fix is the corrected label or value: the cause need not ask "did you mean"."""
    changes = () if group.suggestion is None else group.suggestion.changes
    return any(
        isinstance(each, ChangePodRequirement | ChangePoolRequirement)
        or (isinstance(each, DropPodRequirement) and each.meant is not None)
        for each in changes
    )


def _is_only_in(
    nearest: PoolVerdict, others: Sequence[PoolVerdict], reason: TopologyUnsatisfied
) -> bool:
    """Whether the domains that one topology spread allows are only in the nearest NodePool."""
    if not nearest.is_only_taint or len(reason.by) != 1:
        return False
    [spread] = reason.by
    return (
        isinstance(spread, TopologySpreadUnsatisfied)
        and bool(spread.allowed_domains)
        and all(_lacks_domain(each.reason, spread.key) for each in others)
    )


def _lacks_domain(reason: PoolReason, key: str) -> bool:
    return (
        isinstance(reason, LabelConflict | NoMatchingInstanceType | NoMatchingOffering)
        and reason.by_topology
        and reason.key == key
    )


MAX_NAMED_POOLS: Final = 3


def _other_pools(others: Sequence[PoolVerdict], unexplained: int) -> str | None:
    if others and not unexplained and len(others) <= MAX_NAMED_POOLS:
        named = [f"{each.pool} ({_pool_cause(each.reason)})" for each in others]
        return f"other NodePool{'s' if len(named) > 1 else ''}: {', '.join(named)}"
    counts = Counter(POOL_CAUSES[type(each.reason)] for each in others)
    if unexplained:
        counts["not examined"] += unexplained
    if not counts:
        return None
    pools = format_count(counts.total(), "other NodePool")
    return f"{pools}: {_format_counts(counts)}"


def _pool_cause(reason: PoolReason) -> str:
    """taint nvidia.com/gpu:NoSchedule; limit cpu; allows topology.kubernetes.io/zone us-west-2a"""
    match reason:
        case LabelConflict(key=key, offered=None):
            return f"no label {key}"
        case (
            LabelConflict(key=key, offered=ValueSet() as allowed)
            | NoMatchingInstanceType(excluded=ExcludedByPool(key=key, allowed=allowed))
        ):
            return f"allows {key} {format_values(allowed)}"
        case OfferingsUnavailable(instance_type=name):
            return f"no capacity for {name}"
        case UntoleratedTaint(taint=taint):
            what = str(taint)
        case _:
            what = getattr(reason, "resource", getattr(reason, "key", ""))
    return f"{POOL_CAUSES[type(reason)]} {what}".rstrip()


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
