"""What decided where a pod went: the plan made once more, with an eye on that pod.

Only at the moment when it is placed do limits, slots and nodes look as they did for it.
"""

from collections.abc import Iterator, Mapping
from math import inf
from typing import Any, Final

import msgspec

from wainwright.core.answer import Terms
from wainwright.core.drafts import Change, Draft
from wainwright.core.ladder import Step
from wainwright.core.placing import Placing
from wainwright.core.plan import OTHERWISE, solved
from wainwright.core.site import Found
from wainwright.core.solve import FIRST_FIT, Manner
from wainwright.core.templates import Template, rank
from wainwright.core.topology.restriction import Restriction
from wainwright.core.why.funnel import State, descent
from wainwright.core.why.refusals import refusals
from wainwright.core.wishes import PodClass, Stage, Wish
from wainwright.model.index import TypeIndex
from wainwright.model.options import MinValuesPolicy, Options
from wainwright.model.plan import PlannedClaim
from wainwright.model.pod import Pod
from wainwright.model.pool import Pool
from wainwright.model.reason import PoolReason, PoolUnusable
from wainwright.model.refusal import NodeVerdict
from wainwright.model.snapshot import Snapshot

PROMISED: Final = "what it could buy is promised to other pods"


class Word(msgspec.Struct, frozen=True, kw_only=True):
    """What a pool that comes earlier had to say; None where it would have opened a node."""

    pool: str
    weight: int
    reason: PoolReason | None


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """How a pod came to its new node."""

    round: int
    """In which it was placed."""
    joined: tuple[str, ...]
    """The pods that the node was planned for already; none where it was opened for this one."""
    under_way: bool
    """Whether that was in an earlier round."""
    earlier: tuple[Word, ...]
    """The pools that are asked before the one of the node, in that order."""
    nodes: tuple[NodeVerdict, ...]
    """Why no node of the cluster took it."""
    tied: bool
    """Whether it minds where other pods are."""
    slots: bool
    """Whether there are reservations that it could use, so that it may have waited for one."""
    limits: bool
    """Whether a pool that would take it has limits, which count drafts at their worst at first."""


def decided(
    snapshot: Snapshot,
    catalogs: Mapping[str, TypeIndex],
    options: Options,
    claim: PlannedClaim,
    pod: str,
) -> Decision | None:
    """None where the claim came about in another way, as when pods are packed by cost."""
    for manner in (FIRST_FIT, *OTHERWISE):
        watch = _Watch(snapshot, options, pod)
        solved(snapshot, catalogs, options, Manner(watch.placing, manner.patient))
        if watch.decision is not None and watch.saw(claim):
            return watch.decision
    return None


class _Watch:
    """Who looks on while a plan is made."""

    def __init__(self, snapshot: Snapshot, options: Options, pod: str) -> None:
        self.pod = pod
        self.options = options
        self.unusable = [pool for pool in snapshot.pools if pool.unusable is not None]
        self.draft: Draft | None = None
        self.decision: Decision | None = None

    def placing(self, *parts: Any) -> Placing:
        made = _Watched(*parts)
        made.watch = self
        return made

    def saw(self, claim: PlannedClaim) -> bool:
        """Whether it was this claim that came of it."""
        draft = self.draft
        return (
            draft is not None
            and draft.template.pool.name == claim.pool
            and sorted(pod.key for pod in draft.pods) == list(claim.pods)
        )


class _Watched(Placing):
    """Places pods as ever, and writes down what it was like for one of them."""

    watch: _Watch
    _asked: tuple[Stage, Restriction | None] | None = None

    def _untied(self, pod: Pod, group: PodClass, stage: Stage) -> Found | None:
        self._asked = stage, None
        return super()._untied(pod, group, stage)

    def _within_limits(
        self, pod: Pod, group: PodClass, stage: Stage, limits: Restriction | None
    ) -> Found | None:
        self._asked = stage, limits
        return super()._within_limits(pod, group, stage, limits)

    def _joins_any(
        self, pod: Pod, group: PodClass, stage: Stage, limits: Restriction | None
    ) -> bool:
        self._asked = stage, limits
        return super()._joins_any(pod, group, stage, limits)

    def _open(self, pod: Pod, group: PodClass, step: Step) -> None:
        if pod.key != self.watch.pod:
            super()._open(pod, group, step)
            return
        self._note(pod, group, step.template, None)
        super()._open(pod, group, step)
        self.watch.draft = self.table.drafts[-1]

    def _apply(self, pod: Pod, group: PodClass, wish: Wish, draft: Draft, change: Change) -> None:
        if pod.key == self.watch.pod:
            self._note(pod, group, draft.template, draft)
            self.watch.draft = draft
        super()._apply(pod, group, wish, draft, change)

    def _note(self, pod: Pod, group: PodClass, template: Template, draft: Draft | None) -> None:
        self.watch.decision = Decision(
            round=self.round,
            joined=() if draft is None else tuple(sorted(each.key for each in draft.pods)),
            under_way=draft is not None and bool(draft.pinned),
            earlier=self._earlier(self._as_asked(pod), template, opens=draft is None),
            nodes=refusals(self, group, self._classes.resources),
            tied=group.is_tied,
            slots=any(terms.narrowing.reserved for _, terms in self._terms()),
            limits=any(template.pool.limits for template, _ in self._terms()),
        )

    def _terms(self) -> Iterator[tuple[Template, Terms]]:
        """The pools that would take such a pod, and how."""
        assert self._asked is not None, "a pod is tried stage by stage"
        for wish in self._asked[0].wishes:
            for template, terms in zip(self.templates, wish.ask.terms, strict=True):
                if terms is not None:
                    yield template, terms

    def _as_asked(self, pod: Pod) -> Pod:
        """The pod with the places that others leave it, and what it has not given up yet."""
        assert self._asked is not None, "a pod is tried stage by stage"
        stage, limits = self._asked
        places = tuple(wish.ask.requirements for wish in stage.wishes)
        options = limits.options if limits is not None and not limits.near_a_node else ()
        narrowed = tuple(dict.fromkeys(p.narrow(o) for p in places for o in options))
        tolerations = stage.wishes[0].ask.tolerations
        return msgspec.structs.replace(
            pod, alternatives=narrowed or places, tolerations=tolerations
        )

    def _earlier(self, pod: Pod, chosen: Template, *, opens: bool) -> tuple[Word, ...]:
        """What the pools said, or would have said, that are asked before the chosen one."""
        state = self._state()
        words: list[tuple[Pool, PoolReason | None]] = [
            (each.pool, descent(_as_full(each), pod, state).reason)
            for each in self.templates[: chosen.number]
        ]
        words += [
            (pool, PoolUnusable(why=pool.unusable or PROMISED))
            for pool in self.watch.unusable
            if rank(pool) < rank(chosen.pool)
        ]
        heavier = chosen.pool.weight + 1 if opens else inf
        return tuple(
            Word(
                pool=pool.name,
                weight=pool.weight,
                reason=reason or (PoolUnusable(why=PROMISED) if pool.weight >= heavier else None),
            )
            for pool, reason in sorted(words, key=lambda word: rank(word[0]))
        )

    def _state(self) -> State:
        stock, options = self.stock, self.watch.options
        return State(
            free={
                name: stock.free(name) if stock.holdable >> number & 1 else 0
                for name, number in stock.numbers.items()
            },
            strict=options.min_values_policy is MinValuesPolicy.STRICT,
            reservations=options.capacity_reservations,
        )


def _as_full(template: Template) -> Template:
    """The pool with its drafts counted as in use, each at its worst."""
    limits, left = template.pool.limits, template.limits.left
    if not limits:
        return template
    twin = template.twin()
    in_use = {name: limits[name] - left[name] for name in limits}
    twin.pool = msgspec.structs.replace(template.pool, in_use=in_use)
    return twin
