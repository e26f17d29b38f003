"""What decided where a pod went: the plan made once more, with an eye on that pod.

Only at the moment when it is placed do limits, slots and nodes look as they did for it.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from wainwright.core.answer import Kind, Terms
from wainwright.core.classes import Classes
from wainwright.core.drafts import Change, Draft, DraftTable
from wainwright.core.ladder import Ladder, Step
from wainwright.core.nodes import NodeTable
from wainwright.core.placing import Placing
from wainwright.core.plan import OTHERWISE, solved
from wainwright.core.site import Found
from wainwright.core.solve import FIRST_FIT, Manner
from wainwright.core.templates import Template, rank
from wainwright.core.topology.restriction import Restriction
from wainwright.core.topology.topology import Topology
from wainwright.core.why.asked import Asked
from wainwright.core.why.decision import Decision, Word
from wainwright.core.why.funnel import descent
from wainwright.core.why.refusals import leaving, not_tried, refusals
from wainwright.core.why.state import State
from wainwright.core.wishes import PodClass, Stage, Wish
from wainwright.model.index import TypeIndex
from wainwright.model.options import MinValuesPolicy, Options, Packing
from wainwright.model.plan import PlannedClaim
from wainwright.model.pod import Pod
from wainwright.model.pool import Pool
from wainwright.model.reason import NewNodeWontDo, PoolReason, PoolUnusable
from wainwright.model.refusal import NodeVerdict
from wainwright.model.snapshot import Snapshot


def decided(
    snapshot: Snapshot,
    catalogs: Mapping[str, TypeIndex],
    options: Options,
    claim: PlannedClaim,
    pod: str,
) -> Decision | None:
    """None where pods are packed by cost, and the claim is none that first-fit comes to."""
    for manner in (FIRST_FIT, *OTHERWISE):
        watch = _Watch(snapshot, options, pod)
        solution = solved(snapshot, catalogs, options, Manner(watch.placing, manner.patient))
        if any(_is_of(claim, draft) for draft in solution.rounds.table.drafts):
            assert watch.decision is not None, "whoever is put on a draft is seen"
            return watch.decision
    assert options.packing is Packing.COST, "made once more, a plan is the same"
    return None


def _is_of(claim: PlannedClaim, draft: Draft) -> bool:
    """Whether the claim came of the draft."""
    pool, pods = draft.template.pool.name, sorted(pod.key for pod in draft.pods)
    return pool == claim.pool and pods == list(claim.pods)


class _Watch:
    """Who looks on while a plan is made."""

    def __init__(self, snapshot: Snapshot, options: Options, pod: str) -> None:
        self.pod = pod
        self.options = options
        self.unusable = [
            (pool, PoolUnusable(why=pool.unusable))
            for pool in snapshot.pools
            if pool.unusable is not None
        ]
        self.leaving = leaving(snapshot.nodes)
        self.decision: Decision | None = None

    def placing(
        self,
        templates: Sequence[Template],
        nodes: NodeTable,
        table: DraftTable,
        ladder: Ladder,
        classes: Classes,
        topology: Topology | None,
    ) -> Placing:
        made = _Watched(templates, nodes, table, ladder, classes, topology)
        made.watch = self
        return made


class _Watched(Placing):
    """Places pods as ever, and writes down what it was like for one of them."""

    watch: _Watch
    _tried: tuple[Stage, Restriction | None] | None = None

    def _untied(self, pod: Pod, group: PodClass, stage: Stage) -> Found | None:
        self._tried = stage, None
        return super()._untied(pod, group, stage)

    def _within_limits(
        self, pod: Pod, group: PodClass, stage: Stage, limits: Restriction | None
    ) -> Found | None:
        self._tried = stage, limits
        return super()._within_limits(pod, group, stage, limits)

    def _joins_any(
        self, pod: Pod, group: PodClass, stage: Stage, limits: Restriction | None
    ) -> bool:
        self._tried = stage, limits
        return super()._joins_any(pod, group, stage, limits)

    def _open(self, pod: Pod, group: PodClass, step: Step) -> None:
        if pod.key == self.watch.pod:
            asked, slot = self._asked(self._leading()), step.answer.kind is Kind.RESERVED
            self._note(pod, group, step.template, asked, slot=slot)
        super()._open(pod, group, step)

    def _apply(self, pod: Pod, group: PodClass, wish: Wish, draft: Draft, change: Change) -> None:
        if pod.key == self.watch.pod:
            asked = self._asked(self._as_written(wish))
            self._note(pod, group, draft.template, asked, draft=draft)
        super()._apply(pod, group, wish, draft, change)

    @property
    def _now(self) -> tuple[Stage, Restriction | None]:
        assert self._tried is not None, "a pod is tried stage by stage"
        return self._tried

    def _asked(self, number: int) -> Asked:
        stage, limits = self._now
        return Asked(stage=stage, wishes=(stage.wishes[number],), limits=limits)

    def _leading(self) -> int:
        """The alternative by which a node is opened: the first that any pool says yes to.

        Nodes are not asked for those that come later, though it may be opened for one of them
        that has a slot.
        """
        stage, limits = self._now
        numbers = range(len(stage.wishes))
        if limits is None:
            step = self.ladder.step
            able = (number for number in numbers if step(stage, stage.wishes[number]))
        else:
            able = (number for number in numbers if self._best(stage, limits, number))
        return next(able, len(numbers))

    def _as_written(self, wish: Wish) -> int:
        """Which alternative it is, be it on nodes of which others have more required."""
        stage, _ = self._now
        stages = (stage, *stage.within.values())
        return next(each.wishes.index(wish) for each in stages if wish in each.wishes)

    def _note(
        self,
        pod: Pod,
        group: PodClass,
        template: Template,
        asked: Asked,
        *,
        draft: Draft | None = None,
        slot: bool = False,
    ) -> None:
        self.watch.decision = Decision(
            round=self.round,
            joined=() if draft is None else tuple(sorted(each.key for each in draft.pods)),
            under_way=draft is not None and bool(draft.pinned),
            for_slot=slot,
            earlier=self._earlier(pod, asked, template),
            nodes=self._refusals(group, asked) + self.watch.leaving,
            tied=group.is_tied,
            slots=any(terms.narrowing.reserved for _, terms in self._terms()),
            limits=any(template.pool.limits for template, _ in self._terms()),
        )

    def _refusals(self, group: PodClass, asked: Asked) -> tuple[NodeVerdict, ...]:
        last = min(self._leading(), asked.stage.wishes.index(asked.wishes[0]))
        tried, resources = self._asked(last), self._classes.resources
        return refusals(self.nodes, group, tried, resources, not_tried(group, tried, self.topology))

    def _terms(self) -> Iterator[tuple[Template, Terms]]:
        """The pools that would take such a pod, and how."""
        stage, _ = self._now
        for wish in stage.wishes:
            for template, terms in zip(self.templates, wish.ask.terms, strict=True):
                if terms is not None:
                    yield template, terms

    def _earlier(self, pod: Pod, asked: Asked, chosen: Template) -> tuple[Word, ...]:
        """What the pools said, or would have said, that are asked before the chosen one."""
        state, bounded = self._state(), asked.by(pod)
        refused = None if asked.new_node_will_do else NewNodeWontDo()
        words: list[tuple[Pool, PoolReason | None]] = [
            (each.pool, descent(_as_full(each), bounded, state).reason or refused)
            for each in self.templates[: chosen.number]
        ]
        words += [each for each in self.watch.unusable if rank(each[0]) < rank(chosen.pool)]
        return tuple(
            Word(pool=pool.name, weight=pool.weight, reason=reason)
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
