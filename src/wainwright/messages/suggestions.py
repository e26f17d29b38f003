"""Suggested changes as sentences, and for how many pods they were verified."""

from wainwright.model.resources import format_quantity
from wainwright.model.suggestions import (
    AddToleration,
    AnyFix,
    ChangePodRequirement,
    ChangePoolRequirement,
    DropPodRequirement,
    DropPoolRequirement,
    LowerMinValues,
    LowerRequest,
    RaiseLimit,
    VerifiedSuggestion,
)
from wainwright.model.taints import Toleration


def describe_suggestion(suggestion: VerifiedSuggestion) -> str:
    """A verified change after which the pods are scheduled."""
    changes_by_verb: dict[str, list[str]] = {}
    for change in suggestion.changes:
        verb, change_text = _describe_change(change)
        changes_by_verb.setdefault(verb, []).append(change_text)
    phrases = [
        f"{verb} {' and '.join(change_text)}" for verb, change_text in changes_by_verb.items()
    ]
    return f"{', and '.join(phrases)}{_trial_note(suggestion)}"


def _trial_note(suggestion: VerifiedSuggestion) -> str:
    group = f"of the {suggestion.of:,} pods that fail alike"
    if suggestion.alone:
        tried_for = f"one {group}, alone" if suggestion.of > 1 else "this pod alone"
        return f" (tried for {tried_for})"
    return f" (serves {suggestion.serves:,} {group})" if suggestion.serves < suggestion.of else ""


def _describe_change(change: AnyFix) -> tuple[str, str]:
    """What to do, and to what; changes with the same verb are joined in one phrase."""
    match change:
        case LowerRequest(resource=name, now=now, to=to):
            return "ask for", _format_amounts(name, now, to)
        case AddToleration(toleration=toleration):
            return "let the pod tolerate", _format_toleration(toleration)
        case DropPodRequirement(key=key, meant=None):
            return "do not select", key
        case DropPodRequirement(key=key, meant=meant):
            return "select", f"{meant} in place of {key}"
        case ChangePodRequirement(key=key, now=before, to=after):
            return "select", f"{key} {after} in place of {before}"
        case _:
            return _describe_pool_change(change)


def _describe_pool_change(
    change: DropPoolRequirement | ChangePoolRequirement | LowerMinValues | RaiseLimit,
) -> tuple[str, str]:
    match change:
        case DropPoolRequirement(key=key, pool=pool):
            return f"in pool {pool} do not require", key
        case ChangePoolRequirement(key=key, now=before, to=after, pool=pool):
            return f"in pool {pool} require", f"{key} {after} in place of {before}"
        case LowerMinValues(key=key, now=now, to=to, pool=pool):
            return "lower minValues of", f"{key} in pool {pool} from {now} to {to}"
        case RaiseLimit(resource=name, now=now, to=to, pool=pool):
            return f"raise the limit of pool {pool} to", _format_amounts(name, now, to)


def _format_amounts(resource: str, now: int | None, to: int) -> str:
    if now is None:
        return f"no more than {format_quantity(resource, to)} {resource}"
    return f"{format_quantity(resource, to)} instead of {format_quantity(resource, now)} {resource}"


def _format_toleration(toleration: Toleration) -> str:
    value = f"={toleration.value}" if toleration.value else ""
    effect = f":{toleration.effect}" if toleration.effect else ""
    return f"{toleration.key}{value}{effect}"
