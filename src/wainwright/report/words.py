"""Reasons and fixes as sentences: the only place where a plan's data becomes words."""

from wainwright.model.preference import (
    AwayFromPods,
    GivenUp,
    NearPods,
    OnNodes,
    OnUntainted,
    SpreadEvenly,
)
from wainwright.model.reason import (
    Contradictory,
    Keeping,
    Kept,
    LabelConflict,
    LimitReached,
    NewNodeWontDo,
    NodeReason,
    NoPoolFits,
    NoPools,
    NothingBigEnough,
    NothingOffered,
    NotNear,
    NoTypeMatches,
    OtherLabels,
    OutOfBounds,
    PodReason,
    PoolReason,
    PoolUnusable,
    PortTaken,
    RestrictedLabel,
    TooFewValues,
    TooLittle,
    TooManyVolumes,
    TooNear,
    Uneven,
    Unsupported,
    Untolerated,
    VolumesElsewhere,
    VolumeUnusable,
)
from wainwright.model.resources import quantity_text
from wainwright.model.suggestion import (
    DropLabel,
    LowerMinValues,
    LowerRequest,
    RaiseLimit,
    Suggestion,
    Tolerate,
)
from wainwright.model.taints import Toleration


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


def node(reason: NodeReason) -> str:
    """Why nodes of the cluster do not take the pod."""
    match reason:
        case Untolerated(taint=taint):
            return f"the pod does not tolerate {taint}"
        case OtherLabels(key=key):
            return f"another {key} than the pod selects"
        case TooLittle(resource=resource, short=short, node=name):
            return f"too little {resource}, best {quantity_text(resource, short)} short ({name})"
        case PortTaken(ports=ports):
            return f"port {_and(tuple(map(str, ports)))} is taken"
        case TooManyVolumes(driver=driver):
            return f"no further volume of {driver} can be attached"
        case OutOfBounds():
            return "out of bounds because of other pods"


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
        case PoolUnusable(why=why):
            return f"it launches nothing: {why}"
        case NewNodeWontDo():
            return "it could launch a node, but a new one would not do"
        case Untolerated(taint=taint):
            return f"the pod does not tolerate the taint {taint}"
        case RestrictedLabel(key=key):
            return f"the pod selects {key}, which no pool can promise"
        case LabelConflict() | NoTypeMatches():
            return _label(reason)
        case _:
            return _amount(reason)


def _label(reason: LabelConflict | NoTypeMatches) -> str:
    meant = f"; did you mean {reason.meant}?" if reason.meant else ""
    wanted = f"{reason.key} {reason.wanted}"
    if isinstance(reason, NoTypeMatches):
        return f"no instance type has {wanted}{meant}"
    if reason.offered is None:
        return f"the pod needs {wanted}, and the pool does not define that label{meant}"
    return f"the pod needs {wanted}, and only {reason.offered} is on offer{meant}"


def _amount(
    reason: NothingBigEnough | NothingOffered | TooFewValues | LimitReached,
) -> str:
    match reason:
        case NothingBigEnough():
            return _too_big(reason)
        case NothingOffered(instance_type=kind):
            return f"nothing can be bought now, such as {kind}{_used_up(reason)}"
        case TooFewValues(key=key, needed=needed, found=found):
            return f"minValues asks for {needed} values of {key}, and {found} are left"
        case LimitReached():
            return _limited(reason)


def _used_up(reason: NothingOffered) -> str:
    if not reason.reservations:
        return ""
    users = reason.users
    others = f" and {len(users) - 2:,} more" if len(users) > 2 else ""
    by = f" by {', '.join(users[:2])}{others}, free again if that goes elsewhere" if users else ""
    return f"; {_and(reason.reservations)} used up{by}"


def _too_big(reason: NothingBigEnough) -> str:
    needed = quantity_text(reason.resource, reason.needed)
    best = quantity_text(reason.resource, reason.best)
    taken = quantity_text(reason.resource, reason.daemonsets)
    beside = f", after {taken} for daemonsets" if reason.daemonsets else ""
    return (
        f"needs {needed} {reason.resource}, the largest left offers {best} "
        f"({reason.instance_type}{beside})"
    )


def _limited(reason: LimitReached) -> str:
    limit, used, needed = (
        quantity_text(reason.resource, amount)
        for amount in (reason.limit, reason.in_use, reason.needed)
    )
    return (
        f"the limit of {limit} {reason.resource} is reached: {used} in use, and "
        f"{reason.instance_type} would add {needed}"
    )


def suggestion(fix: Suggestion, pods: int = 1) -> str:
    """What would give the pod its place; it has been tried, of pods that are alike for one."""
    tried = f" (tried for one of these {pods:,} pods)" if pods > 1 else ""
    return f"{_fix(fix)}{tried}"


def _fix(fix: Suggestion) -> str:
    match fix:
        case LowerRequest(resource=name, now=now, to=to):
            return f"ask for {_change(name, now, to)} {name}"
        case Tolerate(toleration=toleration):
            return f"let the pod tolerate {_toleration(toleration)}"
        case DropLabel(key=key, meant=meant):
            return f"select {meant} in place of {key}" if meant else f"do not select {key}"
        case LowerMinValues(key=key, now=now, to=to, pool=name):
            return f"lower minValues of {key} in pool {name} from {now} to {to}"
        case RaiseLimit(resource=name, now=now, to=to, pool=owner):
            return f"raise the limit of pool {owner} to {_change(name, now, to)} {name}"


def _change(resource: str, now: int, to: int) -> str:
    return f"{quantity_text(resource, to)} instead of {quantity_text(resource, now)}"


def _toleration(toleration: Toleration) -> str:
    value = f"={toleration.value}" if toleration.value else ""
    effect = f":{toleration.effect}" if toleration.effect else ""
    return f"{toleration.key}{value}{effect}"


def _and(words: "map[str] | tuple[str, ...]") -> str:
    listed = list(words)
    return listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} and {listed[-1]}"
