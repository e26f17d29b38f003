"""Rounds: pods find their places until nobody gains one any more.

A round is a single provisioning loop: passes over the pods without a place until one changes
nothing. When it is over its drafts become machines under way, pinned to what they would be
launched as; that gives back reservations and limits, and the next round sees what comes of it.
"""

from collections.abc import Sequence
from enum import Enum, auto

from wainwright.core.answer import Kind
from wainwright.core.drafts import Change, Draft, DraftTable
from wainwright.core.fit import fit
from wainwright.core.ladder import Ladder, Step
from wainwright.core.launch import choose
from wainwright.core.nodes import NodeTable
from wainwright.core.order import Queue, Run
from wainwright.core.patience import Patience, Stretch
from wainwright.core.reservations import Stock
from wainwright.core.templates import Template
from wainwright.core.wishes import PodClass, Wish
from wainwright.model.columns import Rows, row_numbers
from wainwright.model.pod import Pod


class Found(Enum):
    PLACE = auto()
    NOTHING_YET = auto()
    NOTHING_EVER = auto()


class Rounds:
    """The state of a plan in the making."""

    def __init__(
        self,
        templates: Sequence[Template],
        nodes: NodeTable,
        table: DraftTable,
        ladder: Ladder,
        resources: Sequence[str],
    ) -> None:
        self.templates = templates
        self.nodes = nodes
        self.table = table
        self.stock: Stock = ladder.stock
        self.failed: Queue = []
        self.strict_weights = False
        self._ladder = ladder
        self._resources = resources
        self._patience = Patience(self.stock, table)
        self._round = 0
        self._placed = 0

    def run(self, queue: Queue) -> None:
        """Places what can be placed; the rest is in `failed`."""
        if self.stock.live and not self.nodes.nodes:
            for run in queue:
                run.group.needs = self._ladder.needs(run.group)
        stretches = self._patience.stretches(queue, self._resources)
        while stretches:
            self._round += 1
            self.stock.begin_round()
            self._placed = 0
            stretches = self._passes(stretches)
            self._settle()
            if not self._placed:
                self.failed += [run for stretch in stretches for run in stretch.runs]
                return

    def _passes(self, stretches: list[Stretch]) -> list[Stretch]:
        while True:
            before = self._placed
            self._patience.begin_pass()
            stretches = [stretch for stretch in stretches if self._pass(stretch)]
            if not self._patience.again or self._placed == before:
                return stretches

    def _pass(self, stretch: Stretch) -> bool:
        """Tries each pod once; leaves in the stretch those that may still find a place later."""
        if self._patience.all_sleep(stretch):
            return True
        left: Queue = []
        for run in stretch.runs:
            if self._patience.sleeps(run):
                left.append(run)
            else:
                self._try(run, left)
        stretch.runs = left
        return bool(left)

    def _try(self, run: Run, left: Queue) -> None:
        """Places as many pods of the run as there is room for; if one fails, so do the others."""
        group, pods = run.group, run.pods
        for number, pod in enumerate(pods):
            if group.stamp == self.stock.version:
                found = Found.NOTHING_YET  # one of its kind has just failed, and nothing changed
            else:
                found = self._place(pod, group)
            if found is not Found.PLACE:
                self._placed += number
                self._keep(run, number, found, left)
                return
        self._placed += len(pods)

    def _keep(self, run: Run, number: int, found: Found, left: Queue) -> None:
        run.pods = run.pods[number:]
        if found is Found.NOTHING_EVER:
            self.failed.append(run)
            return
        run.group.stamp = self.stock.version
        self._patience.wait(run)
        left.append(run)

    def _place(self, pod: Pod, group: PodClass) -> Found:
        for wish in group.wishes:
            if self.nodes.take(pod, wish):
                return Found.PLACE
            step = self._ladder.step(group, wish) if self.strict_weights else None
            if self._join(pod, wish, self._forbidden(group, step)):
                return Found.PLACE
            step = step or self._ladder.step(group, wish)
            if step is not None and step.answer.kind is Kind.WAIT:
                group.needs = group.needs or self._ladder.needs(group)
                return Found.NOTHING_YET
            if step is not None:
                self._open(pod, step)
                return Found.PLACE
        limited = any(self._ladder.limited(wish) for wish in group.wishes)
        return Found.NOTHING_YET if limited else Found.NOTHING_EVER

    def _open(self, pod: Pod, step: Step) -> None:
        draft = Draft(len(self.table.drafts), self._round, step.template, step.answer)
        self.table.add(draft)
        if draft.held:
            self.stock.hold(step.template.shelf.ids(draft.held))
        step.template.limits.charge(draft.rows)
        self.stock.touch()
        self.table.put(pod, step.wish, draft, narrowed=True)

    def _forbidden(self, group: PodClass, step: Step | None) -> Rows:
        """The drafts that the pod must not join, although it might fit."""
        found = 0
        slot = self._ladder.slot_weight(group)
        if slot >= 0 and self.table.unreserved:
            for template in self.templates:
                if template.pool.weight <= slot:
                    found |= self.table.of_template[template.number]
            found &= self.table.unreserved
        if step is not None:
            for template in self.templates:
                if template.pool.weight < step.weight:
                    found |= self.table.of_template[template.number]
        return found

    def _join(self, pod: Pod, wish: Wish, forbidden: Rows) -> bool:
        table = self.table
        for among, choice in ((table.settled, table.first), (table.current, table.emptiest)):
            left = table.candidates(wish, among ^ (among & forbidden))
            while left:
                draft = choice(left)
                change = fit(draft, wish)
                if change is not None:
                    self._apply(pod, wish, draft, change)
                    return True
                left ^= draft.bit
        return False

    def _apply(self, pod: Pod, wish: Wish, draft: Draft, change: Change) -> None:
        if change.held != draft.held:
            self._let_go(draft, change)
        narrowed = change.rows != draft.rows
        draft.rows, draft.narrowing = change.rows, change.narrowing
        draft.reserved_rows, draft.witnesses = change.reserved_rows, change.witnesses
        self.table.put(pod, wish, draft, narrowed=narrowed)

    def _let_go(self, draft: Draft, change: Change) -> None:
        """Gives back the reservations that the draft can no longer use."""
        if not draft.pinned:  # else all but the one that it is launched with were given back
            shelf = draft.template.shelf
            before, after = shelf.ids(draft.held), shelf.ids(change.held)
            self.stock.release(before ^ (before & after))
            self._patience.let_go(before ^ (before & after))
        draft.held = change.held

    def _settle(self) -> None:
        """Ends the round: every draft of it is pinned to what would be launched."""
        for number in row_numbers(self.table.current):
            draft = self.table.drafts[number]
            buy = choose(draft.left, self.stock.free)
            draft.pin(buy)
            draft.template.limits.settle(draft.template.index.types[buy.row].capacity)
            if draft.held:
                self.stock.release(draft.template.shelf.ids(draft.held))
                self.stock.take(self.stock.numbers[buy.offering.reservation_id or ""])
        for template in self.templates:
            template.limits.begin_round()
        self.table.settle()
