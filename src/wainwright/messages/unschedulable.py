"""Why a pod is unschedulable, as sentences: for the pod, for each NodePool, for each node.
Reasons are data in a plan and become text only here. Every reason of the model has a sentence:
mypy's exhaustiveness check of `match` fails where one is missing.
"""

from wainwright.messages.formatting import (
    format_count,
    format_hourly,
    format_in_one_unit,
    join_with_and,
)
from wainwright.model.labels import ZONE, region_of_zone
from wainwright.model.plan import PRICE_LIMIT, PRICE_UNITS
from wainwright.model.reasons import (
    ContradictoryRequirements,
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
    NoNodePools,
    OfferingsUnavailable,
    PodAffinityUnsatisfied,
    PodAntiAffinityUnsatisfied,
    PodReason,
    PoolReason,
    PoolUnusable,
    PreferencesNotRelaxed,
    PreferNoScheduleTaint,
    PreferredNodeAffinity,
    PreferredPodAffinity,
    PreferredPodAntiAffinity,
    PreferredTopologySpread,
    RelaxedPreference,
    RequiredBy,
    ResourceShortage,
    RestrictedLabel,
    TopologyReason,
    TopologySpreadUnsatisfied,
    TopologyUnsatisfied,
    UnsupportedFeatures,
    UntoleratedTaint,
    VolumeLimitExceeded,
    VolumeTopologyConflict,
    VolumeUnusable,
)
from wainwright.model.requirements import ValueSet
from wainwright.model.resources import format_quantity


def describe_pod_reason(reason: PodReason) -> str:
    """Why the pod is unschedulable on any node."""
    match reason:
        case UnsupportedFeatures(features=features):
            return (
                f"it uses {_join_words(map(str, features))}, which the planner does not place yet"
            )
        case ContradictoryRequirements(keys=keys):
            what = f"of {_join_words(keys)} " if keys else ""
            return f"it asks {what}what no node can have"
        case VolumeUnusable(claim=claim, why=why):
            return f"its claim {claim} {why}"
        case VolumeTopologyConflict():
            return "its volumes can be reached only where its selectors do not let it go"
        case TopologyUnsatisfied(by=by):
            return "; ".join(map(describe_constraint, by))
        case NoNodePools():
            return "there is no pool that could launch a node"
        case NoCompatiblePool():
            return "no pool can launch a node for it"


def describe_constraint(reason: TopologyReason) -> str:
    """Which topology constraint the other pods make unsatisfiable."""
    match reason:
        case TopologySpreadUnsatisfied():
            return _describe_spread(reason)
        case PodAffinityUnsatisfied(key=key, pods=pods, allowed_domains=()):
            return f"it must be near {pods} by {key}, and no such pod has a place"
        case PodAffinityUnsatisfied(key=key, pods=pods, allowed_domains=left):
            return f"it must be near {pods}, which are only in {_join_words(left)} ({key})"
        case PodAntiAffinityUnsatisfied(key=key, pods=pods, taken=taken, theirs=True):
            return f"pods with anti-affinity to {pods} have taken {_join_words(taken)} ({key})"
        case PodAntiAffinityUnsatisfied(key=key, pods=pods, taken=taken):
            return f"it has anti-affinity to {pods}, which have taken {_join_words(taken)} ({key})"


def _describe_spread(reason: TopologySpreadUnsatisfied) -> str:
    default = _default_note(reason.by_default)
    if not reason.counts:
        return f"it is to be spread over {reason.key}{default}, which no pool, type or node has"
    counts = ", ".join(f"{each.domain} has {each.pods:,}" for each in reason.counts)
    least = f", minDomains {reason.min_domains}" if reason.min_domains else ""
    only = (
        f"only {_join_words(reason.allowed_domains)}"
        if reason.allowed_domains
        else "no place is left"
    )
    return f"{reason.key}: {counts}, maxSkew {reason.max_skew}{least}{default}: {only}"


def _default_note(by_default: bool) -> str:
    return " (a default of the scheduler)" if by_default else ""


def describe_preference(given_up: RelaxedPreference) -> str:
    """A preference of a pod."""
    match given_up:
        case PreferredPodAffinity(term=term, weight=weight):
            return f"to be near {term.selector} by {term.key} (weight {weight})"
        case PreferredPodAntiAffinity(term=term, weight=weight):
            return f"to be away from {term.selector} by {term.key} (weight {weight})"
        case PreferredNodeAffinity(requirements=wanted, weight=weight):
            return f"to be on nodes with {wanted} (weight {weight})"
        case PreferredTopologySpread(spread=spread):
            text = f"to be spread over {spread.key} with maxSkew {spread.max_skew}"
            return text + _default_note(spread.by_default)
        case PreferNoScheduleTaint():
            return "not to be where a PreferNoSchedule taint asks it not to be"


def describe_pool_reason(reason: PoolReason) -> str:
    """Why a NodePool launches no node for the pod."""
    match reason:
        case PoolUnusable() | NoInstanceTypes() | LaunchesTakenByOtherPods():
            return f"it launches nothing: {_describe_unusable_pool(reason)}"
        case HostPortsTaken(ports=ports):
            return (
                f"the pod needs port {_join_words(map(str, ports))}, which a daemonset takes there"
            )
        case NewNodeViolatesTopology():
            return "it could launch a node, but a new one would not do"
        case UntoleratedTaint(taint=taint):
            return f"the pod does not tolerate the taint {taint}"
        case RestrictedLabel(key=key):
            return f"the pod selects {key}, which no pool can promise"
        case LabelConflict():
            return _describe_label_conflict(reason)
        case NoMatchingInstanceType() | NoMatchingOffering():
            return f"{_describe_unmatched_value(reason)}{_did_you_mean(reason.meant)}"
        case _:
            return _describe_shortfall(reason)


def _describe_unusable_pool(
    reason: PoolUnusable | NoInstanceTypes | LaunchesTakenByOtherPods,
) -> str:
    match reason:
        case PoolUnusable(why=why):
            return why
        case NoInstanceTypes():
            return "there is nothing that it could buy"
        case LaunchesTakenByOtherPods():
            return "what it could buy is promised to other pods"


def _describe_label_conflict(reason: LabelConflict) -> str:
    needs = f"the pod needs {reason.key} {reason.wanted}"
    if reason.offered is None:
        return f"{needs}, and the pool does not define that label{_did_you_mean(reason.meant)}"
    other_region = _other_region(reason.key, reason.wanted, reason.offered)
    offered = f"only {reason.offered} is on offer{other_region}"
    return f"{needs}, and {offered}{_did_you_mean(reason.meant)}"


def _other_region(key: str, wanted: ValueSet, offered: ValueSet) -> str:
    """Where none of the wanted zones is in a region of those that are on offer."""
    if key != ZONE or wanted.open or offered.open or offered.is_empty:
        return ""
    wanted_regions = {region_of_zone(zone) for zone in wanted.values}
    if not wanted_regions.isdisjoint(map(region_of_zone, offered.values)):
        return ""
    names = sorted(name for name in wanted_regions if name is not None)
    if len(names) != len(wanted_regions):
        return ""
    verb = "is another region" if len(names) == 1 else "are other regions"
    return f": {join_with_and(names)} {verb}"


def _did_you_mean(name: str | None) -> str:
    return f"; did you mean {name}?" if name else ""


REQUESTER_PHRASES = {
    RequiredBy.POD: "the pod needs",
    RequiredBy.POOL: "the pool asks for",
    RequiredBy.BOTH: "pod and pool together need",
}


def _describe_unmatched_value(reason: NoMatchingInstanceType | NoMatchingOffering) -> str:
    wanted = f"{reason.key} {reason.wanted}"
    if isinstance(reason, NoMatchingOffering):
        offered = "nothing" if reason.offered.is_empty else f"only {reason.offered}"
        name = reason.instance_type
        requester = REQUESTER_PHRASES[reason.required_by]
        other_region = _other_region(reason.key, reason.wanted, reason.offered)
        return f"{requester} {wanted}, and {offered} is on offer, such as {name}{other_region}"
    whose = ", which the pool asks for" if reason.required_by is RequiredBy.POOL else ""
    return f"no instance type has {wanted}{whose}"


def _describe_shortfall(
    reason: InstanceTypesTooSmall
    | DaemonSetsExceedCapacity
    | OfferingsUnavailable
    | MinValuesUnsatisfied
    | LimitExceeded,
) -> str:
    match reason:
        case InstanceTypesTooSmall():
            return _describe_too_big(reason)
        case DaemonSetsExceedCapacity():
            return _describe_overhead(reason)
        case OfferingsUnavailable(instance_type=name):
            details = f"{_describe_unavailable(reason)}{_describe_used_reservations(reason)}"
            return f"nothing can be bought now, such as {name}{details}"
        case MinValuesUnsatisfied(key=key, needed=needed, found=found):
            remaining = "1 is left" if found == 1 else f"{found} are left"
            return f"minValues asks for {format_count(needed, 'value')} of {key}, and {remaining}"
        case LimitExceeded():
            return _describe_limit(reason)


def _describe_unavailable(reason: OfferingsUnavailable) -> str:
    if not reason.capacity_types:
        return ""
    zones = f" in {_join_words(reason.zones)}" if reason.zones else ""
    return f", sold out as {_join_words(reason.capacity_types)}{zones}"


def _describe_used_reservations(reason: OfferingsUnavailable) -> str:
    if not reason.reservations:
        return ""
    users = reason.users
    others = f" and {len(users) - 2:,} more" if len(users) > 2 else ""
    by = f" by {', '.join(users[:2])}{others}, free again if that goes elsewhere" if users else ""
    return f"; {_join_words(reason.reservations)} used up{by}"


def _describe_too_big(reason: InstanceTypesTooSmall) -> str:
    first = ResourceShortage(resource=reason.resource, needed=reason.needed, best=reason.best)
    shortages = (first, *reason.other_shortages)
    pairs = [format_in_one_unit(each.resource, each.needed, each.best) for each in shortages]
    names = [each.resource for each in shortages]
    needed = _join_words(
        tuple(f"{pair[0]} {name}" for pair, name in zip(pairs, names, strict=True))
    )
    best = _join_words(tuple(pair[1] for pair in pairs))
    taken = f", after {format_quantity(first.resource, reason.daemonsets)} for daemonsets"
    daemonset_note = taken if reason.daemonsets else ""
    return (
        f"needs {needed}, the largest left offers {best} ({reason.instance_type}{daemonset_note})"
    )


def _describe_overhead(reason: DaemonSetsExceedCapacity) -> str:
    name, resource = reason.instance_type, reason.resource
    if not reason.needed:
        return f"{name} keeps no {resource} for pods"
    needed, best = format_in_one_unit(resource, reason.needed, reason.best)
    return f"daemonsets alone need {needed} {resource}, and {name} has {best}"


def _describe_limit(reason: LimitExceeded) -> str:
    if reason.resource == PRICE_LIMIT:
        return _describe_price_limit(reason)
    limit, used, needed = format_in_one_unit(
        reason.resource, reason.limit, reason.in_use, reason.needed
    )
    owner = "cluster's " if reason.of_cluster else ""
    return (
        f"the {owner}limit of {limit} {reason.resource} is reached: {used} in use, and "
        f"{reason.instance_type} would add {needed}"
    )


def _describe_price_limit(reason: LimitExceeded) -> str:
    limit, used, needed = (
        format_hourly(amount / PRICE_UNITS)
        for amount in (reason.limit, reason.in_use, reason.needed)
    )
    return (
        f"the cluster's limit of {limit} is reached: {used} in use, and "
        f"{reason.instance_type} may add {needed}"
    )


def _join_words(words: "map[str] | tuple[str, ...]") -> str:
    listed = list(words)
    return listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} and {listed[-1]}"


def describe_node_reason(reason: NodeReason) -> str:
    """Why a node does not take the pod; follows "3 nodes:" in the output."""
    match reason:
        case NodeTerminating():
            return "being deleted"
        case UntoleratedTaint(taint=taint):
            return f"the pod does not tolerate {taint}"
        case NodeAffinityMismatch(key=key):
            return f"another {key} than the pod selects"
        case InsufficientResource() | NodeHostPortsTaken() | VolumeLimitExceeded():
            return _describe_full_node(reason)
        case NodeViolatesTopology():
            return "out of bounds because of other pods"
        case PreferencesNotRelaxed() | LaterAlternative():
            return _describe_unchosen_node(reason)


def _describe_full_node(
    reason: InsufficientResource | NodeHostPortsTaken | VolumeLimitExceeded,
) -> str:
    match reason:
        case InsufficientResource(resource=resource, short=short, node=name):
            return f"too little {resource}, best {format_quantity(resource, short)} short ({name})"
        case NodeHostPortsTaken(ports=ports):
            return f"port {join_with_and(tuple(map(str, ports)))} is taken"
        case VolumeLimitExceeded(driver=driver):
            return f"no further volume of {driver} can be attached"


def _describe_unchosen_node(reason: PreferencesNotRelaxed | LaterAlternative) -> str:
    if isinstance(reason, LaterAlternative):
        return (
            f"would do ({reason.node}) by a later alternative of the pod; an earlier one goes first"
        )
    preferences = join_with_and([describe_preference(each) for each in reason.preferences])
    return f"would do ({reason.node}), had it given up {preferences}"
