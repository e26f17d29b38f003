"""Why a pod is unschedulable, as sentences: for the pod, for each NodePool, for each node.
Reasons are data in a plan and become text only here. Every reason of the model has a sentence:
mypy's exhaustiveness check of `match` fails where one is missing.
"""

from collections.abc import Sequence
from typing import Final

from wainwright.messages.formatting import (
    format_count,
    format_hourly,
    format_in_one_unit,
    join_first,
    join_with_and,
    join_with_or,
)
from wainwright.model.labels import (
    CAPACITY_TYPE,
    HOSTNAME,
    INSTANCE_CATEGORY,
    INSTANCE_FAMILY,
    REGION,
    WELL_KNOWN_LABELS,
    ZONE,
    ZONE_ID,
    region_of_zone,
    suggest_label,
)
from wainwright.model.plan import PRICE_LIMIT, PRICE_UNITS
from wainwright.model.pod import PodVolume
from wainwright.model.reasons import (
    ContradictoryRequirements,
    DaemonSetsExceedCapacity,
    ExcludedByPool,
    FunnelStep,
    HostPortsTaken,
    InstanceTypesTooSmall,
    InsufficientResource,
    LabelConflict,
    LaterAlternative,
    LaunchesTakenByOtherPods,
    LimitExceeded,
    LimitUsage,
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
    TooManyVolumes,
    TopologyReason,
    TopologySpreadUnsatisfied,
    TopologyUnsatisfied,
    UnsupportedFeatures,
    UntoleratedTaint,
    VolumeLimitExceeded,
    VolumeTopologyConflict,
    VolumeUnusable,
)
from wainwright.model.requirements import MAX_SHOWN_VALUES, Contradiction, ValueSet
from wainwright.model.resources import format_quantity
from wainwright.model.snapshot import NODES_LIMIT


def describe_pod_reason(reason: PodReason) -> str:
    """Why the pod is unschedulable on any node; of NodePools each has its own reason."""
    match reason:
        case UnsupportedFeatures(features=features):
            return f"it uses {join_with_and(tuple(features))}, which the planner does not support"
        case ContradictoryRequirements(labels=labels):
            what = f" on {join_with_and(list(map(_describe_contradiction, labels)))}"
            what = what if labels else ""
            return f"its requirements{what} contradict each other, so that no node can meet them"
        case VolumeUnusable():
            return _describe_unusable_volume(reason)
        case VolumeTopologyConflict(volumes=volumes):
            return f"{_describe_volumes(volumes)}, which its node selector or affinity excludes"
        case TopologyUnsatisfied(by=by):
            return describe_constraints(by)
        case NoNodePools():
            return "there is no NodePool"
        case NoCompatiblePool():
            return "no NodePool can launch a node for it"


def _describe_contradiction(label: Contradiction) -> str:
    """topology.kubernetes.io/zone (nodeSelector us-west-2b, node affinity us-west-2a)"""
    sides = [f"{each.source} {format_values(each.allowed)}" for each in label.sides]
    return f"{label.key} ({', '.join(sides)})" if sides else label.key


def _describe_unusable_volume(reason: VolumeUnusable) -> str:
    """its PersistentVolumeClaim data …; the pod's volumes are in different zones: pv-1 in …"""
    if not reason.volumes:
        return f"its PersistentVolumeClaim {reason.claim} {reason.why}"
    labels = {key for each in reason.volumes for wanted in each.topology for key in wanted}
    where = "zones" if labels <= {ZONE} else "places"
    volumes = [f"{_volume_name(each)} in {_volume_place(each)}" for each in reason.volumes]
    return f"the pod's volumes are in different {where}: {', '.join(volumes)}"


def _describe_volumes(volumes: Sequence[PodVolume]) -> str:
    if not volumes:
        return "the pod's volumes can be reached only from nodes"
    return join_with_and([describe_volume(each) for each in volumes])


def describe_volume(volume: PodVolume) -> str:
    """the pod's volume pv-1 (claim data) is in us-west-2c"""
    if volume.volume:
        return f"the pod's volume {_volume_name(volume)} is in {_volume_place(volume)}"
    by_class = f" by StorageClass {volume.storage_class}" if volume.storage_class else ""
    allowed = join_with_or(_volume_values(volume)) or "some nodes"
    return f"its claim {volume.claim} can be provisioned{by_class} in {allowed} only"


def _volume_name(volume: PodVolume) -> str:
    return f"{volume.volume} (claim {volume.claim})" if volume.volume else f"claim {volume.claim}"


def _volume_place(volume: PodVolume) -> str:
    return join_with_or(_volume_values(volume)) or "one place"


def _volume_values(volume: PodVolume) -> list[str]:
    values = {
        value
        for wanted in volume.topology
        for requirement in wanted.values()
        if not requirement.allowed.open
        for value in requirement.allowed.values
    }
    return sorted(values)


MAX_DESCRIBED_CONSTRAINTS: Final = 5
MAX_DESCRIBED_DOMAINS: Final = 20


def describe_constraints(reasons: Sequence[TopologyReason]) -> str:
    """The first few, and how many more there are: one pod can have thousands."""
    first = [describe_constraint(each) for each in reasons[:MAX_DESCRIBED_CONSTRAINTS]]
    rest = len(reasons) - len(first)
    more = [f"and {format_count(rest, 'more constraint')}"] if rest else []
    return "; ".join([*first, *more])


def describe_constraint(reason: TopologyReason) -> str:
    """Which constraint between pods rules out domains."""
    match reason:
        case TopologySpreadUnsatisfied():
            return _describe_spread(reason)
        case PodAffinityUnsatisfied(key=key, pods=pods, allowed_domains=()):
            return (
                f"the pod's required affinity by {key} selects {pods}, and no such pod is running"
            )
        case PodAffinityUnsatisfied(key=key, pods=pods, allowed_domains=left):
            where = _join_domains(left)
            return f"the pod's required affinity by {key} selects {pods}, running only in {where}"
        case PodAntiAffinityUnsatisfied(key=key, pods=pods, taken=taken, theirs=True):
            where = _join_domains(taken)
            return (
                f"pods in {where} have required anti-affinity by {key} to {pods}, which this pod "
                "matches"
            )
        case PodAntiAffinityUnsatisfied(key=key, pods=pods, taken=taken):
            where = _join_domains(taken)
            return f"the pod's required anti-affinity by {key} excludes {where}, where {pods} runs"


def _describe_spread(reason: TopologySpreadUnsatisfied) -> str:
    default = _default_note(reason.by_default)
    if not reason.counts:
        return (
            f"the pod's topology spread over {reason.key}{default} has no domain: no NodePool, "
            f"instance type or node has that label{_meant_label(reason.key)}"
        )
    every = [f"{each.domain} has {each.pods:,}" for each in reason.counts]
    counts = join_first(every, MAX_DESCRIBED_DOMAINS)
    least = f", minDomains {reason.min_domains}" if reason.min_domains else ""
    skew = f"maxSkew {reason.max_skew}{least}"
    allowed = reason.allowed_domains
    only = f"only {_join_domains(allowed)} is allowed" if allowed else _no_domain_allowed(reason)
    return f"the pod's topology spread over {reason.key}{default} ({skew}): {counts}; {only}"


def _join_domains(domains: Sequence[str]) -> str:
    rest = len(domains) - MAX_DESCRIBED_DOMAINS
    more = [f"{rest:,} more"] if rest > 0 else []
    return join_with_and([*domains[:MAX_DESCRIBED_DOMAINS], *more])


def _no_domain_allowed(reason: TopologySpreadUnsatisfied) -> str:
    """With fewer domains than minDomains the scheduler takes the lowest count as 0."""
    exist, least = len(reason.counts), reason.min_domains or 0
    if exist >= least:
        return "no domain is allowed"
    return (
        f"only {exist:,} of minDomains {least:,} exist, so the lowest count is taken as 0 and no "
        "domain may have another pod"
    )


def _meant_label(key: str) -> str:
    meant = suggest_label(key, WELL_KNOWN_LABELS | {HOSTNAME})
    return f"; did you mean {meant}?" if meant else ""


def _default_note(by_default: bool) -> str:
    return " (a default of the scheduler)" if by_default else ""


MAX_DESCRIBED_PREFERENCES: Final = 10  # in a text; one pod can have thousands


def describe_preferences(
    given_up: Sequence[RelaxedPreference], most: int = MAX_DESCRIBED_PREFERENCES
) -> list[str]:
    """The first ones, and how many more there are."""
    first, rest = given_up[:most], len(given_up) - most
    more = [format_count(rest, "more preference")] if rest > 0 else []
    return [*map(describe_preference, first), *more]


def describe_preference(given_up: RelaxedPreference) -> str:
    """A preference of a pod."""
    match given_up:
        case PreferredPodAffinity(term=term, weight=weight):
            return f"pod affinity to {term.selector} by {term.key} (weight {weight})"
        case PreferredPodAntiAffinity(term=term, weight=weight):
            return f"pod anti-affinity to {term.selector} by {term.key} (weight {weight})"
        case PreferredNodeAffinity(requirements=wanted, weight=weight):
            return f"node affinity to {wanted} (weight {weight})"
        case PreferredTopologySpread(spread=spread):
            text = f"topology spread over {spread.key} with maxSkew {spread.max_skew}"
            return text + _default_note(spread.by_default)
        case PreferNoScheduleTaint():
            return "a PreferNoSchedule taint"


def describe_pool_reason(reason: PoolReason, *, with_correction: bool = True) -> str:
    """Why a NodePool launches no node for the pod; follows "NodePool general:".

    Without correction where a fix beside it says what was probably meant.
    """
    meant = getattr(reason, "meant", None) if with_correction else None
    return f"{_describe_rejection(reason)}{f'; did you mean {meant}?' if meant else ''}"


def _describe_rejection(reason: PoolReason) -> str:
    match reason:
        case PoolUnusable() | NoInstanceTypes() | LaunchesTakenByOtherPods():
            return _describe_unusable_pool(reason)
        case HostPortsTaken(ports=ports, daemonsets=daemonsets):
            names = join_with_and(tuple(map(str, ports)))
            users = f"DaemonSet {join_first(daemonsets)}" if daemonsets else "a DaemonSet"
            return f"host port {names} of the pod is in use by {users} on its nodes"
        case NewNodeViolatesTopology():
            return (
                "it could launch a node, but pod affinity, anti-affinity or topology spread "
                "excludes a new one"
            )
        case UntoleratedTaint(taint=taint):
            return f"the pod does not tolerate its taint {taint}"
        case RestrictedLabel(key=key):
            return f"the pod selects {key}, a label that no NodePool can set"
        case LabelConflict():
            return _describe_label_conflict(reason)
        case NoMatchingInstanceType() | NoMatchingOffering():
            return _describe_unmatched_value(reason)
        case _:
            return _describe_shortfall(reason)


def _describe_unusable_pool(
    reason: PoolUnusable | NoInstanceTypes | LaunchesTakenByOtherPods,
) -> str:
    match reason:
        case PoolUnusable(why=why):
            return f"it launches no nodes: {why}"
        case NoInstanceTypes():
            return "it has no instance type to launch"
        case LaunchesTakenByOtherPods():
            return "everything it could launch is planned for other pods"


def format_values(values: ValueSet) -> str:
    """us-west-2a, us-west-2b; any but us-west-2a; 6 or higher."""
    if not values.open:
        return join_first(sorted(values.values), MAX_SHOWN_VALUES) or str(values)
    excluded = join_first(sorted(values.values), MAX_SHOWN_VALUES)
    if not values.is_bounded:
        return f"any but {excluded}" if excluded else str(values)
    if values.upper is None:
        bounds = f"{values.lower} or higher"
    elif values.lower is None:
        bounds = f"{values.upper} or lower"
    else:
        bounds = f"{values.lower} to {values.upper}"
    return f"{bounds}, but not {excluded}" if excluded else bounds


def _describe_label_conflict(reason: LabelConflict) -> str:
    needs = _describe_need(reason, REQUESTER_PHRASES[RequiredBy.POD])
    if reason.offered is None:
        return f"{needs}, a label that the NodePool does not set"
    other_region = _other_region(reason, reason.offered)
    allowed = f"the NodePool allows {format_values(reason.offered)}{other_region}"
    return f"{needs}; {allowed}"


def describe_domains_of_pool(pool: str, reason: PoolReason) -> str | None:
    """What a NodePool has of a label of which constraints between pods exclude values: said after
    the constraint itself; None where it is another reason.
    """
    if not isinstance(reason, LabelConflict | NoMatchingOffering) or not reason.by_topology:
        return None
    offered = reason.offered
    if not reason.wanted.open or offered is None or offered.is_empty:
        return None
    if isinstance(reason, LabelConflict):
        return f"NodePool {pool} allows only {format_values(offered)}"
    how, values = ONLY_OFFERED.get(reason.key, "with"), format_values(offered)
    return f"NodePool {pool}: {reason.instance_type} is available only {how} {values}"


def _describe_need(
    reason: LabelConflict | NoMatchingInstanceType | NoMatchingOffering, requester: str
) -> str:
    """Who needs which value of the label: the pod, a volume of it, or constraints between pods."""
    if reason.volume is not None:
        return f"{describe_volume(reason.volume)} ({reason.key})"
    if reason.by_topology:
        wanted = reason.wanted
        if wanted.open and wanted.values:
            excluded = join_first(sorted(wanted.values), MAX_SHOWN_VALUES)
            return f"constraints between pods exclude {excluded} of {reason.key}"
        left = "no value" if wanted.is_empty else f"only {format_values(wanted)}"
        return f"constraints between pods leave {left} of {reason.key}"
    return f"{requester} {reason.key} {format_values(reason.wanted)}"


def _other_region(reason: LabelConflict | NoMatchingOffering, offered: ValueSet) -> str:
    """Where none of the wanted zones is in a region of those that are on offer."""
    wanted = reason.wanted
    if (
        reason.key != ZONE
        or reason.meant
        or any(each.open or each.is_empty for each in (wanted, offered))
    ):
        return ""
    wanted_regions = {region_of_zone(zone) for zone in wanted.values}
    if not wanted_regions.isdisjoint(map(region_of_zone, offered.values)):
        return ""
    names = sorted(name for name in wanted_regions if name is not None)
    if len(names) != len(wanted_regions):
        return ""
    verb = "is another region" if len(names) == 1 else "are other regions"
    return f": {join_with_and(names)} {verb}"


REQUESTER_PHRASES = {
    RequiredBy.POD: "the pod needs",
    RequiredBy.POOL: "the NodePool requires",
    RequiredBy.BOTH: "the pod and the NodePool together need",
}


IN_PLACES: Final = frozenset({ZONE, REGION, ZONE_ID})
ONLY_OFFERED = {ZONE: "in", REGION: "in", ZONE_ID: "in", CAPACITY_TYPE: "as"}


def _describe_unmatched_value(reason: NoMatchingInstanceType | NoMatchingOffering) -> str:
    if isinstance(reason, NoMatchingOffering):
        needs = _describe_need(reason, REQUESTER_PHRASES[reason.required_by])
        if reason.meant:
            needs += ", which does not exist"
        name, other_region = (
            reason.instance_type,
            _other_region(reason, reason.offered),
        )
        if reason.offered.is_empty:
            return f"{needs}; no offering has it, for example none of {name}"
        values = format_values(reason.offered)
        if reason.reservations:
            noun = "capacity reservation" + "s" * (len(reason.reservations) > 1)
            where = f"{join_first(reason.reservations)} of {name}"
            verb = "is" if len(reason.reservations) == 1 else "are"
            place = "in" if reason.key in IN_PLACES else f"for {reason.key}"
            return f"{needs}; {noun} {where} {verb} {place} {values}"
        how = ONLY_OFFERED.get(reason.key, "with")
        return f"{needs}; {name} is available only {how} {values}{other_region}"
    wanted = f"{reason.key} {format_values(reason.wanted)}"
    excluded, is_of_pool = reason.excluded, reason.required_by is RequiredBy.POOL
    if excluded is not None and not (is_of_pool and excluded.key == reason.key):
        return _describe_excluded(reason, excluded)
    if reason.images is not None and reason.images.systems and not reason.meant:
        needs = _describe_need(reason, REQUESTER_PHRASES[reason.required_by])
        systems = join_with_and(reason.images.systems)
        return f"{needs}; the images of {reason.images.node_class} are for {systems}"
    whose = ", which the NodePool requires" if is_of_pool else ""
    return f"no instance type in the catalogue has {wanted}{whose}"


def _describe_excluded(reason: NoMatchingInstanceType, excluded: ExcludedByPool) -> str:
    """the pod needs gpu-name h100, which is in family p5; the NodePool allows family g5, g6"""
    allows = f"the NodePool allows {excluded.key} {format_values(excluded.allowed)}"
    needs = _describe_need(reason, REQUESTER_PHRASES[RequiredBy.POD])
    if excluded.key == reason.key:
        return f"{needs}; {allows}"
    values = join_first(excluded.values, MAX_SHOWN_VALUES)
    which = (
        f"is in {IN_GROUPS[excluded.key]}" if excluded.key in IN_GROUPS else f"has {excluded.key}"
    )
    return f"{needs}, which {which} {values}; {allows}"


IN_GROUPS: Final = {INSTANCE_FAMILY: "family", INSTANCE_CATEGORY: "category"}
"""Labels that say to which group of instance types one belongs."""


def _describe_shortfall(
    reason: InstanceTypesTooSmall
    | DaemonSetsExceedCapacity
    | TooManyVolumes
    | OfferingsUnavailable
    | MinValuesUnsatisfied
    | LimitExceeded,
) -> str:
    match reason:
        case InstanceTypesTooSmall():
            return _describe_too_big(reason)
        case DaemonSetsExceedCapacity():
            return _describe_overhead(reason)
        case TooManyVolumes():
            return _describe_too_many_volumes(reason)
        case OfferingsUnavailable():
            return _describe_unavailable(reason)
        case MinValuesUnsatisfied():
            return _describe_min_values(reason)
        case LimitExceeded():
            return _describe_limit(reason)


def _describe_unavailable(reason: OfferingsUnavailable) -> str:
    where = "" if reason.volume is None else f"{describe_volume(reason.volume)}; "
    parts = []
    if reason.capacity_types or not reason.reservations:
        kinds = f"{join_with_or(reason.capacity_types)} " if reason.capacity_types else ""
        zones = f" in {join_with_and(reason.zones)}" if reason.zones else ""
        parts.append(f"EC2 has no {kinds}capacity for {reason.instance_type}{zones}")
    if reason.reservations:
        parts.append(_describe_used_reservations(reason))
    return f"{where}{'; '.join(parts)}"


def _describe_used_reservations(reason: OfferingsUnavailable) -> str:
    names = join_with_and(reason.reservations)
    are = "capacity reservation" if len(reason.reservations) == 1 else "capacity reservations"
    full = "has no free instance" if len(reason.reservations) == 1 else "have no free instance"
    users = f" (used by {join_first(reason.users, 2)} of this plan)" if reason.users else ""
    return f"{are} {names} {full}{users}"


def _describe_too_big(reason: InstanceTypesTooSmall) -> str:
    first = ResourceShortage(resource=reason.resource, needed=reason.needed, best=reason.best)
    shortages = (first, *reason.other_shortages)
    pairs = [format_in_one_unit(each.resource, each.needed, each.best) for each in shortages]
    needed = join_with_and(
        [f"{pair[0]} {each.resource}" for pair, each in zip(pairs, shortages, strict=True)]
    )
    best = join_with_and([pair[1] for pair in pairs])
    taken = format_quantity(first.resource, reason.daemonsets)
    room = f"left after {taken} for DaemonSets" if reason.daemonsets else "allocatable"
    needs = f"the pod needs {needed}"
    allowed = "that it can launch as reserved" if reason.reserved else "that the NodePool allows"
    if not any(each.best for each in shortages):
        return f"{needs}; no instance type {allowed} has any"
    name = reason.instance_type
    if reason.together or reason.other_shortages:
        both = "both" if len(shortages) == 2 else "all of it" if reason.together else "that"
        types = f"no instance type {allowed}"
        return f"{needs}; {types} has {both}: {name} has {best} {room}"
    unit = " cpu" if first.resource == "cpu" else ""
    return f"{needs}; the largest instance type {allowed}, {name}, has {best}{unit} {room}"


def _describe_too_many_volumes(reason: TooManyVolumes) -> str:
    return (
        f"the pod has {format_count(reason.needed, 'volume')} of {reason.driver}; instance types "
        f"that the NodePool allows attach at most {reason.best} ({reason.instance_type})"
    )


def _describe_overhead(reason: DaemonSetsExceedCapacity) -> str:
    name, resource = reason.instance_type, reason.resource
    if not reason.needed:
        return f"{name} leaves no {resource} for pods"
    needed, best = format_in_one_unit(resource, reason.needed, reason.best)
    requests = [
        f"{each.name} {format_quantity(resource, each.amount)}" for each in reason.daemonsets
    ]
    listed = f" ({join_first(requests)})" if requests else ""
    unit = " cpu" if resource == "cpu" else ""
    return (
        f"DaemonSets alone request {needed} {resource} on a node{listed}; the nearest instance "
        f"type that the NodePool allows, {name}, has {best}{unit} allocatable"
    )


FILTER_PHRASES: Final = {
    FunnelStep.NODE_POOL: "the NodePool allows",
    FunnelStep.POD_REQUIREMENTS: "the pod's node selector and affinity leave",
    FunnelStep.RESOURCES: "the pod's requests leave",
    FunnelStep.OFFERINGS: "available offerings leave",
    FunnelStep.LIMITS: "the limits leave",
}


def _describe_min_values(reason: MinValuesUnsatisfied) -> str:
    """Which filter left how many: the NodePool allows 4, the pod's requests leave 1 (r5)"""
    requires = f"minValues requires {format_count(reason.needed, 'value')} of {reason.key}"
    if not reason.steps:
        return (
            f"{requires}; {'only 1 is' if reason.found == 1 else f'only {reason.found} are'} left"
        )
    counts = ", ".join(f"{FILTER_PHRASES[each.after]} {each.count:,}" for each in reason.steps)
    values = f" ({join_first(reason.values, MAX_SHOWN_VALUES)})" if reason.values else ""
    return f"{requires}; {counts}{values}"


def _describe_limit(reason: LimitExceeded) -> str:
    """its limit of 8 cpu is reached: 8 in use, and one more m5.large adds 2"""
    first = LimitUsage(
        resource=reason.resource,
        limit=reason.limit,
        in_use=reason.in_use,
        needed=reason.needed,
        of_cluster=reason.of_cluster,
    )
    name, usages = reason.instance_type, (first, *reason.others)
    if len(usages) == 1:
        _, used, needed = _format_limit(first)
        adds = "may add" if first.resource == PRICE_LIMIT else "adds"
        reached = f"{_owned_limits(usages)} is reached"
        return f"{reached}: {used} in use, and one more {name} {adds} {needed}"
    amounts = [_describe_added(each) for each in usages]
    return f"{_owned_limits(usages)} are reached: one more {name} adds {join_with_and(amounts)}"


def _owned_limits(usages: Sequence[LimitUsage]) -> str:
    """its limits of 8 cpu and 32Gi memory; the cluster's limit of $5.000/h"""
    parts = []
    for owner, of_cluster in (("its", False), ("the cluster's", True)):
        limits = [
            f"{_format_limit(each)[0]}{_unit_name(each)}"
            for each in usages
            if each.of_cluster is of_cluster
        ]
        if limits:
            noun = "limit" if len(limits) == 1 else "limits"
            parts.append(f"{owner} {noun} of {join_with_and(limits)}")
    return " and ".join(parts)


def _describe_added(usage: LimitUsage) -> str:
    """4 cpu to the 8 in use"""
    _, used, needed = _format_limit(usage)
    unit = " node" if (usage.resource, needed) == (NODES_LIMIT, "1") else _unit_name(usage)
    return f"{needed}{unit} to the {used} in use"


def _unit_name(usage: LimitUsage) -> str:
    return "" if usage.resource == PRICE_LIMIT else f" {usage.resource}"


def _format_limit(usage: LimitUsage) -> tuple[str, ...]:
    """The limit, what is in use, and what one more node adds."""
    amounts = (usage.limit, usage.in_use, usage.needed)
    if usage.resource == PRICE_LIMIT:
        return tuple(format_hourly(amount / PRICE_UNITS) for amount in amounts)
    return format_in_one_unit(usage.resource, *amounts)


def describe_node_reason(reason: NodeReason) -> str:
    """Why a node does not take the pod; follows "3 nodes:" in the output."""
    match reason:
        case NodeTerminating():
            return "being deleted"
        case UntoleratedTaint(taint=taint):
            return f"the pod does not tolerate {taint}"
        case NodeAffinityMismatch(key=key):
            return f"{key} is not what the pod selects"
        case InsufficientResource() | NodeHostPortsTaken() | VolumeLimitExceeded():
            return _describe_full_node(reason)
        case NodeViolatesTopology():
            return "pod affinity, anti-affinity or topology spread excludes them"
        case PreferencesNotRelaxed() | LaterAlternative():
            return _describe_unchosen_node(reason)


def _describe_full_node(
    reason: InsufficientResource | NodeHostPortsTaken | VolumeLimitExceeded,
) -> str:
    match reason:
        case InsufficientResource(resource=resource, short=short, node=name):
            least = format_quantity(resource, short)
            return f"insufficient {resource}, at least {least} short ({name})"
        case NodeHostPortsTaken(ports=ports):
            return f"host port {join_with_and(tuple(map(str, ports)))} is in use"
        case VolumeLimitExceeded(driver=driver):
            return f"the volume attach limit of {driver} is reached"


def _describe_unchosen_node(reason: PreferencesNotRelaxed | LaterAlternative) -> str:
    if isinstance(reason, LaterAlternative):
        return (
            f"would fit ({reason.node}) by a later node affinity term; an earlier one comes first"
        )
    preferences = join_with_and(describe_preferences(reason.preferences))
    return f"would fit ({reason.node}) without the preference for {preferences}"
