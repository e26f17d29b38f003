"""Fixes as sentences, and how much is known of them."""

from wainwright.model.resources import quantity_text
from wainwright.model.suggestion import (
    Advice,
    DropLabel,
    DropRequirement,
    LowerMinValues,
    LowerRequest,
    RaiseLimit,
    RequireValue,
    SelectValue,
    Suggestion,
    Tolerate,
)
from wainwright.model.taints import Toleration


def suggestion(advice: Advice) -> str:
    """What would give the pods their places; it has been tried."""
    said: dict[str, list[str]] = {}
    for change in advice.changes:
        what, how = _change(change)
        said.setdefault(what, []).append(how)
    told = [f"{what} {' and '.join(how)}" for what, how in said.items()]
    return f"{', and '.join(told)}{_tried(advice)}"


def _tried(advice: Advice) -> str:
    alike = f"of the {advice.of:,} pods that fail alike"
    if advice.alone:
        whom = f"one {alike}, alone" if advice.of > 1 else "this pod alone"
        return f" (tried for {whom})"
    return f" (serves {advice.serves:,} {alike})" if advice.serves < advice.of else ""


def _change(change: Suggestion) -> tuple[str, str]:
    """What to do, and to what: several of the first kind are said at once."""
    match change:
        case LowerRequest(resource=name, now=now, to=to):
            return "ask for", _amounts(name, now, to)
        case Tolerate(toleration=toleration):
            return "let the pod tolerate", _toleration(toleration)
        case DropLabel(key=key, meant=None):
            return "do not select", key
        case DropLabel(key=key, meant=meant):
            return "select", f"{meant} in place of {key}"
        case SelectValue(key=key, now=before, to=after):
            return "select", f"{key} {after} in place of {before}"
        case _:
            return _change_of_pool(change)


def _change_of_pool(
    change: DropRequirement | RequireValue | LowerMinValues | RaiseLimit,
) -> tuple[str, str]:
    match change:
        case DropRequirement(key=key, pool=pool):
            return f"in pool {pool} do not require", key
        case RequireValue(key=key, now=before, to=after, pool=pool):
            return f"in pool {pool} require", f"{key} {after} in place of {before}"
        case LowerMinValues(key=key, now=now, to=to, pool=pool):
            return "lower minValues of", f"{key} in pool {pool} from {now} to {to}"
        case RaiseLimit(resource=name, now=now, to=to, pool=pool):
            return f"raise the limit of pool {pool} to", _amounts(name, now, to)


def _amounts(resource: str, now: int | None, to: int) -> str:
    if now is None:
        return f"no more than {quantity_text(resource, to)} {resource}"
    return f"{quantity_text(resource, to)} instead of {quantity_text(resource, now)} {resource}"


def _toleration(toleration: Toleration) -> str:
    value = f"={toleration.value}" if toleration.value else ""
    effect = f":{toleration.effect}" if toleration.effect else ""
    return f"{toleration.key}{value}{effect}"
