"""Suggested changes as sentences, with what each costs and for how many pods it was verified."""

from collections.abc import Iterable, Sequence
from typing import Final

from wainwright.messages.formatting import (
    format_count,
    format_hourly,
    format_price_change,
    join_first,
    join_with_and,
)
from wainwright.model.requirements import ValueSet
from wainwright.model.resources import format_quantity
from wainwright.model.suggestions import (
    AddToleration,
    AllowPodValue,
    AllowPoolValue,
    AnyFix,
    ChangePodRequirement,
    ChangePoolRequirement,
    ConstraintKind,
    DropPodRequirement,
    DropPoolRequirement,
    EnlargeReservation,
    HonorTaints,
    LowerMinValues,
    LowerRequest,
    PodFix,
    PreferConstraint,
    RaiseLimit,
    SuggestedLaunch,
    VerifiedSuggestion,
)
from wainwright.model.taints import Toleration


def describe_suggestion(suggestion: VerifiedSuggestion, *, with_total: bool = True) -> str:
    """A verified change after which the pods are scheduled, and what it costs: by itself, and with
    the rest of the plan.
    """
    text = describe_fixes(suggestion.changes, suggestion.workloads)
    return f"{text}{_effect(suggestion)}{_total(suggestion) if with_total else ''}"


MAX_NAMED_WORKLOADS: Final = 3
MAX_NAMED_TYPES: Final = 3


def describe_fixes(fixes: Iterable[AnyFix], workloads: Sequence[str] = ()) -> str:
    """What to change, without what it costs; the same verb is said once.

    Changes of pods are made in the templates of their workloads.
    """
    phrases: dict[tuple[str, str], list[str]] = {}
    of_workloads = f" in {join_first(workloads, MAX_NAMED_WORKLOADS)}" if workloads else ""
    for change in fixes:
        verb, what, ending = _describe_change(change)
        if isinstance(change, PodFix):
            ending += of_workloads
        phrases.setdefault((verb, ending), []).append(what)
    return ", and ".join(
        f"{verb} {join_with_and(what)}{ending}" for (verb, ending), what in phrases.items()
    )


def _effect(suggestion: VerifiedSuggestion) -> str:
    """The price, the new nodes, and how many of the pods are scheduled."""
    if suggestion.alone:
        one = f"one of the {suggestion.of:,} pods" if suggestion.of > 1 else "this pod"
        return f" (checked for {one} alone; its price was not computed)"
    count = suggestion.serves
    served = f"; schedules {count:,} of the {suggestion.of:,} pods" if count < suggestion.of else ""
    if suggestion.price_change is None:
        return served
    bound = "at most " if suggestion.at_most else ""
    price = format_price_change(suggestion.price_change, modelled=suggestion.modelled_price)
    enlarged = [each for each in suggestion.changes if isinstance(each, EnlargeReservation)]
    if enlarged:
        in_plan = f"{bound}{price} in the plan, which counts reserved instances as paid for"
        return f": {_bill(enlarged[0])}, {in_plan}{served}"
    return f": {bound}{price} {_nodes(suggestion)}{served}"


def _bill(change: EnlargeReservation) -> str:
    """What EC2 bills for the added instances."""
    if change.billed is None:
        return "EC2 bills the added instances, used or not"
    total = format_price_change(change.billed * change.by, modelled=change.modelled_bill)
    each = format_hourly(change.billed, modelled=change.modelled_bill)
    return f"{total} on the EC2 bill ({change.by:,} × {each}, used or not)"


def _total(suggestion: VerifiedSuggestion) -> str:
    """What all new nodes of the plan cost then."""
    if suggestion.total_price is None:
        return ""
    bound = "at most " if suggestion.at_most else ""
    total = format_hourly(suggestion.total_price, modelled=suggestion.modelled_price)
    return f"; the plan then costs {bound}{total}"


def _nodes(suggestion: VerifiedSuggestion) -> str:
    """The nodes that the price is for: for 1 m5.2xlarge instead of 1 m5.large"""
    if suggestion.launches:
        replaced = f" instead of {_list_nodes(suggestion.replaces)}" if suggestion.replaces else ""
        return f"for {_list_nodes(suggestion.launches)}{replaced}"
    if suggestion.replaces:
        return f"without {_list_nodes(suggestion.replaces)}"
    if suggestion.planned_nodes:
        nodes = format_count(suggestion.planned_nodes, "node")
        return f"on {nodes} that the plan already has"
    return "on existing nodes"


def _list_nodes(launches: Sequence[SuggestedLaunch]) -> str:
    rest = len(launches) - MAX_NAMED_TYPES
    return join_with_and([_describe_launch(each) for each in launches[:MAX_NAMED_TYPES]]) + (
        f" and {format_count(rest, 'other type')}" if rest > 0 else ""
    )


def _describe_launch(launch: SuggestedLaunch) -> str:
    devices = ", with GPUs or accelerators that no pod requests"
    idle = devices if launch.unrequested_devices else ""
    return f"{launch.count:,} {launch.instance_type} ({launch.capacity_type}{idle})"


def _describe_change(change: AnyFix) -> tuple[str, str, str]:
    """What to do, to what, and where; changes that agree in the first and last are one phrase."""
    match change:
        case LowerRequest(resource=name, now=now, to=to):
            return "request", _format_request(name, now, to), ""
        case AddToleration(toleration=toleration):
            return "add a toleration to the pod for", _format_toleration(toleration), ""
        case DropPodRequirement() | ChangePodRequirement() | AllowPodValue():
            return _describe_selector_change(change)
        case HonorTaints() | PreferConstraint():
            return _describe_constraint_change(change)
        case EnlargeReservation(reservation=reservation):
            return "enlarge capacity reservation", f"{reservation} {_enlarged(change)}", ""
        case _:
            return _describe_pool_change(change)


def _enlarged(change: EnlargeReservation) -> str:
    if change.now is None:
        return f"by {format_count(change.by, 'instance')}"
    return f"from {change.now:,} to {format_count(change.now + change.by, 'instance')}"


def _describe_selector_change(
    change: DropPodRequirement | ChangePodRequirement | AllowPodValue,
) -> tuple[str, str, str]:
    match change:
        case DropPodRequirement(key=key, meant=None, now=now, gets=gets):
            other = f" ({gets or 'another device'} instead of {now})" if now else ""
            return "remove the pod's requirement on", f"{key}{other}", ""
        case DropPodRequirement(key=key, meant=meant):
            return "select", f"{meant} instead of {key}", ""
        case ChangePodRequirement(key=key, now=before, to=after):
            return "change the pod's", f"{key} from {before} to {after}", ""
        case AllowPodValue(key=key, now=before, value=value):
            affinity = f"node affinity {key} In [{before}, {value}] instead of {before}"
            return "allow the pod", f"{value} as well ({affinity})", ""


def _describe_constraint_change(change: HonorTaints | PreferConstraint) -> tuple[str, str, str]:
    if isinstance(change, HonorTaints):
        return "set nodeTaintsPolicy: Honor in the pod's topology spread over", change.key, ""
    what = f"{change.pods} by {change.key}"
    match change.constraint:
        case ConstraintKind.TOPOLOGY_SPREAD:
            verb = "set whenUnsatisfiable: ScheduleAnyway in the pod's topology spread over"
            return verb, change.key, ""
        case ConstraintKind.POD_AFFINITY:
            return "make the pod affinity to", what, " preferred instead of required"
        case ConstraintKind.POD_ANTI_AFFINITY:
            return "make the pod anti-affinity to", what, " preferred instead of required"


def _describe_pool_change(
    change: DropPoolRequirement
    | ChangePoolRequirement
    | AllowPoolValue
    | LowerMinValues
    | RaiseLimit,
) -> tuple[str, str, str]:
    of_pool = f" in NodePool {change.pool}"
    match change:
        case DropPoolRequirement(key=key):
            return "remove the requirement on", key, of_pool
        case ChangePoolRequirement(key=key, now=before, to=after):
            return "change", f"{key} from {before} to {after}", of_pool
        case AllowPoolValue(now=ValueSet() as now, to=ValueSet() as to):
            return *_describe_moved_bounds(change, now, to), of_pool
        case AllowPoolValue(key=key, value=value):
            return "allow", f"{key}={value}", of_pool
        case LowerMinValues(key=key, now=now, to=to):
            return "lower minValues of", f"{key} from {now} to {to}", of_pool
        case RaiseLimit(resource=name, now=now, to=to):
            amounts = f"from {format_quantity(name, now)} to {format_quantity(name, to)}"
            return "raise", f"limits.{name} {amounts}", of_pool


def _describe_moved_bounds(change: AllowPoolValue, now: ValueSet, to: ValueSet) -> tuple[str, str]:
    """change instance-cpu from Lt 4 (Lte 3) to Lt 9 (Lte 8); remove a from NotIn of zone"""
    before, after = _bounds(now), _bounds(to)
    if before == after:
        return "remove", f"{change.value} from NotIn of {change.key}"
    moved = zip(before, after, strict=True)
    pairs = [f"{old} to {new}" for old, new in moved if old != new]
    excluded = f" without {change.value} in NotIn" if now.values != to.values else ""
    return "change", f"{change.key} from {join_with_and(pairs)}{excluded}"


def _bounds(values: ValueSet) -> list[str]:
    """Gt 5 (Gte 6), Lt 9 (Lte 8): whichever the NodePool has, it can be found there."""
    lower, upper = values.lower, values.upper
    bounds = [] if lower is None else [f"Gt {lower - 1} (Gte {lower})"]
    return bounds + ([] if upper is None else [f"Lt {upper + 1} (Lte {upper})"])


def _format_request(resource: str, now: int | None, to: int) -> str:
    if now is None:
        return f"no more than {format_quantity(resource, to)} {resource}"
    return f"{format_quantity(resource, to)} {resource} (now {format_quantity(resource, now)})"


def _format_toleration(toleration: Toleration) -> str:
    value = f"={toleration.value}" if toleration.value else ""
    effect = f":{toleration.effect}" if toleration.effect else ""
    return f"{toleration.key}{value}{effect}"
