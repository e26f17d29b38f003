"""Fixes: changes after which a pool would take a pod, as few of them as will do."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from wainwright.core.remedies.changes import changed_pod, changed_template, written
from wainwright.core.templates import Template
from wainwright.core.why.funnel import descent
from wainwright.core.why.judge import Refusal
from wainwright.core.why.misspelt import correction
from wainwright.core.why.state import State
from wainwright.model.pod import Pod
from wainwright.model.pool import Pool
from wainwright.model.reason import (
    Asker,
    LabelConflict,
    LimitReached,
    NothingBigEnough,
    NothingOffered,
    NotOnOffer,
    NoTypeMatches,
    PoolReason,
    RestrictedLabel,
    TooFewValues,
    Untolerated,
)
from wainwright.model.suggestion import (
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

MOST: Final = 3  # changes at once; who needs more has to think again
LEADS: Final = 8  # that are followed further, of all that one change more opens

Changes: TypeAlias = tuple[Suggestion, ...]


class Lead(NamedTuple):
    """A pool and a pod, changed so far, and what still stands between them."""

    template: Template
    pod: Pod
    reason: PoolReason
    made: Changes = ()


def fixes(pod: Pod, refusals: Sequence[Refusal], state: State) -> Iterator[Changes]:
    """Those after which a pool would take the pod; fewer changes first, then the order of pools."""
    leads = [Lead(template, pod, reason) for template, reason in refusals]
    for _ in range(MOST):
        further: list[Lead] = []
        for lead in leads:
            yield from _followed(lead, state, further)
        leads = further[:LEADS]


def _followed(lead: Lead, state: State, further: list[Lead]) -> Iterator[Changes]:
    for change in _candidates(lead.template, lead.reason, lead.pod):
        if any(_same_matter(change, other) for other in lead.made):
            continue
        template, pod = changed_template(change, lead.template), changed_pod(change, lead.pod)
        made, reason = (*lead.made, change), descent(template, pod, state).reason
        if reason is None:
            yield made
        else:
            further.append(Lead(template, pod, reason, made))


def _same_matter(one: Suggestion, other: Suggestion) -> bool:
    """Whether both change the same thing: then the first change did not settle it."""
    return type(one) is type(other) and _matter(one) == _matter(other)


def _matter(change: Suggestion) -> object:
    match change:
        case Tolerate(toleration=toleration):
            return toleration
        case LowerRequest(resource=name) | RaiseLimit(resource=name):
            return name
        case _:
            return change.key


def _candidates(template: Template, reason: PoolReason, pod: Pod) -> Iterator[Suggestion]:
    pool = template.pool
    match reason:
        case NothingBigEnough():
            yield from _smaller(reason, pod, pool.name)
        case Untolerated(taint=taint):
            toleration = Toleration(key=taint.key, value=taint.value, effect=taint.effect)
            yield Tolerate(toleration=toleration, pool=pool.name)
        case TooFewValues(key=key, needed=needed, found=found) if found:
            yield LowerMinValues(key=key, now=needed, to=found, pool=pool.name)
        case LimitReached(resource=resource, limit=limit, in_use=in_use, needed=needed):
            yield RaiseLimit(resource=resource, now=limit, to=in_use + needed, pool=pool.name)
        case _:
            yield from _other_labels(template, reason, pod)


def _smaller(reason: NothingBigEnough, pod: Pod, pool: str) -> Iterator[LowerRequest]:
    asked = written(pod, reason.resource)
    lower = asked - (reason.needed - reason.best)
    if 0 < lower < asked:
        yield LowerRequest(resource=reason.resource, now=asked, to=lower, pool=pool)


def _other_labels(template: Template, reason: PoolReason, pod: Pod) -> Iterator[Suggestion]:
    name = template.pool.name
    match reason:
        case RestrictedLabel(key=key):
            yield from _dropped(key, pod, name)
        case LabelConflict(key=key, meant=meant):
            if meant is not None:
                yield from _dropped(key, pod, name, meant)
            yield from _dropped(key, pod, name)
        case NoTypeMatches() | NotOnOffer():
            yield from _other_value(reason, pod, template.pool)
        case NothingOffered():
            for key in dict.fromkeys(key for wanted in pod.alternatives for key in wanted):
                if template.index.named_by_markets(key):
                    yield from _dropped(key, pod, name)
        case _:
            return


def _other_value(reason: NoTypeMatches | NotOnOffer, pod: Pod, pool: Pool) -> Iterator[Suggestion]:
    """The value that was meant, or none at all, by whoever asks for what is not there."""
    meant = correction(reason.wanted, [reason.meant] if reason.meant else [])
    if reason.asker is not Asker.POD:
        if meant is not None:
            yield RequireValue(key=reason.key, now=meant[0], to=meant[1], pool=pool.name)
        if reason.key in pool.requirements or reason.key in pool.labels:
            yield DropRequirement(key=reason.key, pool=pool.name)
    if reason.asker is not Asker.POOL:
        if meant is not None:
            yield SelectValue(key=reason.key, now=meant[0], to=meant[1], pool=pool.name)
        yield from _dropped(reason.key, pod, pool.name)


def _dropped(key: str, pod: Pod, pool: str, meant: str | None = None) -> Iterator[DropLabel]:
    if any(key in wanted for wanted in pod.alternatives):
        yield DropLabel(key=key, pool=pool, meant=meant)
