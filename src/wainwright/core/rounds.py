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
from wainwright.core.order import Queue
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
        self, templates: Sequence[Template], nodes: NodeTable, table: DraftTable, ladder: Ladder
    ) -> None:
        self.templates = templates
        self.nodes = nodes
        self.table = table
        self.stock: Stock = ladder.stock
        self.failed: Queue = []
        self.strict_weights = False
        self._ladder = ladder
        self._round = 0

    def run(self, queue: Queue) -> None:
        """Places what can be placed; the rest is in `failed`."""
        while queue:
            self._round += 1
            self.stock.touch()
            lost = len(self.failed)
            left = self._passes(queue)
            gained = len(queue) - len(left) > len(self.failed) - lost
            self._settle()
            if not gained:
                self.failed += left
                return
            queue = left

    def _passes(self, queue: Queue) -> Queue:
        while True:
            before = len(self.failed)
            left = self._pass(queue)
            placed = len(queue) - len(left) - (len(self.failed) - before)
            if not left or not placed:
                return left
            queue = left

    def _pass(self, queue: Queue) -> Queue:
        """Tries each pod once; gives back those that may still find a place later."""
        left: Queue = []
        for entry in queue:
            group = entry[1]
            if group.stamp == self.stock.version:
                left.append(entry)  # one of its kind has just failed, and nothing has changed
                continue
            found = self._place(*entry)
            if found is Found.NOTHING_YET:
                group.stamp = self.stock.version
                left.append(entry)
            elif found is Found.NOTHING_EVER:
                self.failed.append(entry)
        return left

    def _place(self, pod: Pod, group: PodClass) -> Found:
        for wish in group.wishes:
            if self.nodes.take(pod, wish):
                return Found.PLACE
            step = self._ladder.step(group, wish) if self.strict_weights else None
            if self._join(pod, wish, self._forbidden(group, step)):
                return Found.PLACE
            step = step or self._ladder.step(group, wish)
            if step is not None:
                return self._take(pod, step)
        limited = any(self._ladder.limited(wish) for wish in group.wishes)
        return Found.NOTHING_YET if limited else Found.NOTHING_EVER

    def _take(self, pod: Pod, step: Step) -> Found:
        if step.answer.kind is Kind.WAIT:
            return Found.NOTHING_YET
        draft = Draft(len(self.table.drafts), self._round, step.template, step.answer)
        self.table.add(draft)
        if draft.held:
            self.stock.hold(step.template.shelf.ids(draft.held))
        step.template.limits.charge(draft.rows)
        self.stock.touch()
        self.table.put(pod, step.wish, draft, narrowed=True)
        return Found.PLACE

    def _forbidden(self, group: PodClass, step: Step | None) -> Rows:
        """The drafts that the pod must not join, although it might fit."""
        found = 0
        slot = self._ladder.slot_weight(group)
        if slot >= 0:
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
