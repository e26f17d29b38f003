"""Reasons as sentences, made late: a plan itself has only data."""

from wainwright.model.preference import (
    AwayFromPods,
    GivenUp,
    NearPods,
    OnNodes,
    OnUntainted,
    SpreadEvenly,
)
from wainwright.model.reason import (
    Asker,
    Contradictory,
    Keeping,
    Kept,
    LabelConflict,
    LimitReached,
    NewNodeWontDo,
    NoPoolFits,
    NoPools,
    NothingBigEnough,
    NothingOffered,
    NothingToBuy,
    NotNear,
    NotOnOffer,
    NoTypeMatches,
    Overdrawn,
    PodReason,
    PoolReason,
    PoolUnusable,
    PortsTaken,
    Promised,
    RestrictedLabel,
    Shortage,
    TooFewValues,
    TooNear,
    Uneven,
    Unsupported,
    Untolerated,
    VolumesElsewhere,
    VolumeUnusable,
)
from wainwright.model.resources import quantity_text
from wainwright.report.numbers import counted
from wainwright.report.quantities import alike


def pod(reason: PodReason) -> str:
    """Why the pod as a whole has no place."""
    match reason:
        case Unsupported(features=features):
            return f"it uses {_and(map(str, features))}, which the planner does not place yet"
        case Contradictory(keys=keys):
            what = f"of {_and(keys)} " if keys else ""
            return f"it asks {what}what no node can have"
        case VolumeUnusable(claim=claim, why=why):
            return f"its claim {claim} {why}"
        case VolumesElsewhere():
            return "its volumes can be reached only where its selectors do not let it go"
        case Kept(by=by):
            return "; ".join(map(keeping, by))
        case NoPools():
            return "there is no pool that could launch a node"
        case NoPoolFits():
            return "no pool can launch a node for it"


def keeping(reason: Keeping) -> str:
    """How the places of other pods keep it off."""
    match reason:
        case Uneven():
            return _uneven(reason)
        case NotNear(key=key, pods=pods, left=()):
            return f"it must be near {pods} by {key}, and no such pod has a place"
        case NotNear(key=key, pods=pods, left=left):
            return f"it must be near {pods}, which are only in {_and(left)} ({key})"
        case TooNear(key=key, pods=pods, taken=taken, theirs=True):
            return f"pods that shun {pods} have taken {_and(taken)} ({key})"
        case TooNear(key=key, pods=pods, taken=taken):
            return f"it shuns {pods}, which have taken {_and(taken)} ({key})"


def _uneven(reason: Uneven) -> str:
    default = _by_default(reason.by_default)
    if not reason.counts:
        return f"it is to be spread over {reason.key}{default}, which no pool, type or node has"
    counts = ", ".join(f"{each.place} has {each.pods:,}" for each in reason.counts)
    least = f", minDomains {reason.min_domains}" if reason.min_domains else ""
    only = f"only {_and(reason.left)}" if reason.left else "no place is left"
    return f"{reason.key}: {counts}, maxSkew {reason.max_skew}{least}{default}: {only}"


def _by_default(given: bool) -> str:
    return " (a default of the scheduler)" if given else ""


def preference(given_up: GivenUp) -> str:
    """What a pod would have liked."""
    match given_up:
        case NearPods(term=term, weight=weight):
            return f"to be near {term.selector} by {term.key} (weight {weight})"
        case AwayFromPods(term=term, weight=weight):
            return f"to be away from {term.selector} by {term.key} (weight {weight})"
        case OnNodes(requirements=wanted, weight=weight):
            return f"to be on nodes with {wanted} (weight {weight})"
        case SpreadEvenly(spread=spread):
            told = f"to be spread over {spread.key} with maxSkew {spread.max_skew}"
            return told + _by_default(spread.by_default)
        case OnUntainted():
            return "not to be where a PreferNoSchedule taint asks it not to be"


def pool(reason: PoolReason) -> str:
    """Why one pool launches no node for the pod."""
    match reason:
        case PoolUnusable() | NothingToBuy() | Promised():
            return f"it launches nothing: {_nothing(reason)}"
        case PortsTaken(ports=ports):
            return f"the pod needs port {_and(map(str, ports))}, which a daemonset takes there"
        case NewNodeWontDo():
            return "it could launch a node, but a new one would not do"
        case Untolerated(taint=taint):
            return f"the pod does not tolerate the taint {taint}"
        case RestrictedLabel(key=key):
            return f"the pod selects {key}, which no pool can promise"
        case LabelConflict():
            return _label(reason)
        case NoTypeMatches() | NotOnOffer():
            return f"{_value(reason)}{_meant(reason.meant)}"
        case _:
            return _amount(reason)


def _nothing(reason: PoolUnusable | NothingToBuy | Promised) -> str:
    match reason:
        case PoolUnusable(why=why):
            return why
        case NothingToBuy():
            return "there is nothing that it could buy"
        case Promised():
            return "what it could buy is promised to other pods"


def _label(reason: LabelConflict) -> str:
    needs = f"the pod needs {reason.key} {reason.wanted}"
    if reason.offered is None:
        return f"{needs}, and the pool does not define that label{_meant(reason.meant)}"
    return f"{needs}, and only {reason.offered} is on offer{_meant(reason.meant)}"


def _meant(name: str | None) -> str:
    return f"; did you mean {name}?" if name else ""


ASKS = {
    Asker.POD: "the pod needs",
    Asker.POOL: "the pool asks for",
    Asker.BOTH: "pod and pool together need",
}


def _value(reason: NoTypeMatches | NotOnOffer) -> str:
    wanted = f"{reason.key} {reason.wanted}"
    if isinstance(reason, NotOnOffer):
        offered = "nothing" if reason.offered.empty else f"only {reason.offered}"
        kind = reason.instance_type
        return f"{ASKS[reason.asker]} {wanted}, and {offered} is on offer, such as {kind}"
    whose = ", which the pool asks for" if reason.asker is Asker.POOL else ""
    return f"no instance type has {wanted}{whose}"


def _amount(
    reason: NothingBigEnough | Overdrawn | NothingOffered | TooFewValues | LimitReached,
) -> str:
    match reason:
        case NothingBigEnough():
            return _too_big(reason)
        case Overdrawn():
            return _overdrawn(reason)
        case NothingOffered(instance_type=kind):
            sold_out = f"{_sold_out(reason)}{_used_up(reason)}"
            return f"nothing can be bought now, such as {kind}{sold_out}"
        case TooFewValues(key=key, needed=needed, found=found):
            left = "1 is left" if found == 1 else f"{found} are left"
            return f"minValues asks for {counted(needed, 'value')} of {key}, and {left}"
        case LimitReached():
            return _limited(reason)


def _sold_out(reason: NothingOffered) -> str:
    if not reason.capacity_types:
        return ""
    zones = f" in {_and(reason.zones)}" if reason.zones else ""
    return f", sold out as {_and(reason.capacity_types)}{zones}"


def _used_up(reason: NothingOffered) -> str:
    if not reason.reservations:
        return ""
    users = reason.users
    others = f" and {len(users) - 2:,} more" if len(users) > 2 else ""
    by = f" by {', '.join(users[:2])}{others}, free again if that goes elsewhere" if users else ""
    return f"; {_and(reason.reservations)} used up{by}"


def _too_big(reason: NothingBigEnough) -> str:
    own = Shortage(resource=reason.resource, needed=reason.needed, best=reason.best)
    short = (own, *reason.beside)
    pairs = [alike(each.resource, each.needed, each.best) for each in short]
    names = [each.resource for each in short]
    needed = _and(tuple(f"{pair[0]} {name}" for pair, name in zip(pairs, names, strict=True)))
    best = _and(tuple(pair[1] for pair in pairs))
    taken = f", after {quantity_text(own.resource, reason.daemonsets)} for daemonsets"
    beside = taken if reason.daemonsets else ""
    return f"needs {needed}, the largest left offers {best} ({reason.instance_type}{beside})"


def _overdrawn(reason: Overdrawn) -> str:
    kind, resource = reason.instance_type, reason.resource
    if not reason.needed:
        return f"{kind} keeps no {resource} for pods"
    needed, best = alike(resource, reason.needed, reason.best)
    return f"daemonsets alone need {needed} {resource}, and {kind} has {best}"


def _limited(reason: LimitReached) -> str:
    limit, used, needed = alike(reason.resource, reason.limit, reason.in_use, reason.needed)
    return (
        f"the limit of {limit} {reason.resource} is reached: {used} in use, and "
        f"{reason.instance_type} would add {needed}"
    )


def _and(words: "map[str] | tuple[str, ...]") -> str:
    listed = list(words)
    return listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} and {listed[-1]}"
