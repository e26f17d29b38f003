"""The site: where things stand, and what becomes of it when one more pod is put somewhere."""

from collections.abc import Sequence
from enum import Enum, auto

from wainwright.core.answer import Kind
from wainwright.core.drafts import Change, Draft, DraftTable
from wainwright.core.fit import restrict
from wainwright.core.ladder import Ladder, Step
from wainwright.core.launch import choose
from wainwright.core.nodes import NodeTable
from wainwright.core.patience import Patience
from wainwright.core.reservations import Stock
from wainwright.core.templates import Template
from wainwright.core.topology.domains import Open, bought
from wainwright.core.topology.groups import SHUNNING, LabelGroup
from wainwright.core.topology.topology import Topology
from wainwright.core.wishes import PodClass, Stage, Wish
from wainwright.model.columns import Rows
from wainwright.model.pod import Pod
from wainwright.model.requirements import Requirements, requirement


class Found(Enum):
    PLACE = auto()
    NOTHING_YET = auto()
    NOTHING_EVER = auto()


class Site:
    """Nodes, drafts and stock, and the only ways in which they change."""

    def __init__(
        self,
        templates: Sequence[Template],
        nodes: NodeTable,
        table: DraftTable,
        ladder: Ladder,
        topology: Topology | None = None,
    ) -> None:
        self.templates = templates
        self.nodes = nodes
        self.table = table
        self.ladder = ladder
        self.stock: Stock = ladder.stock
        self.patience = Patience(ladder, table)
        self.patient = SHUNNING
        """Groups of these kinds do not make drafts settle before their round is over."""
        self.passes_over_settled = False
        """Whether the machines under way are too full for whoever is tried now."""
        self.round = 0
        self.topology = topology
        if topology is not None:
            topology.decide = self._decide

    def _take(self, pod: Pod, group: PodClass, wish: Wish, among: Rows) -> bool:
        number = self.nodes.take(pod, group, wish, among)
        if number is None:
            return False
        if group.counted and self.topology is not None:
            self.topology.put_on_node(group, number)
        return True

    def _opened(self, pod: Pod, group: PodClass, step: Step) -> Found:
        if step.answer.kind is Kind.WAIT:
            if group.needs is None:
                group.needs = self.ladder.needs(group)
            return Found.NOTHING_YET
        self._open(pod, group, step)
        return Found.PLACE

    def _open(self, pod: Pod, group: PodClass, step: Step) -> None:
        draft = self._begin(step)
        step.template.limits.charge(draft.rows)
        self.stock.touch()
        self.patience.opened()
        self._put(pod, group, step.wish, draft, narrowed=True)

    def _begin(self, step: Step) -> Draft:
        """A draft that nobody is on, and that no limit has counted yet."""
        draft = Draft(len(self.table.drafts), self.round, step.template, step.answer)
        self.table.add(draft)
        if draft.held:
            self.stock.hold(step.template.shelf.ids(draft.held))
        if self.topology is not None:
            self.topology.opened(draft)
        return draft

    def _put(self, pod: Pod, group: PodClass, wish: Wish, draft: Draft, *, narrowed: bool) -> None:
        self.table.put(pod, wish, draft, narrowed=narrowed)
        if group.counted and self.topology is not None:
            self.topology.put_on_draft(group, draft)

    def _apply(self, pod: Pod, group: PodClass, wish: Wish, draft: Draft, change: Change) -> None:
        narrowed = self._change(draft, change)
        self._put(pod, group, wish, draft, narrowed=narrowed)

    def _change(self, draft: Draft, change: Change) -> bool:
        """Leaves the draft what the change leaves; says whether it lost types."""
        if change.held != draft.held:
            self._let_go(draft, change)
        fewer, before = change.rows != draft.rows, draft.narrowing
        draft.rows, draft.narrowing = change.rows, change.narrowing
        draft.reserved_rows, draft.witnesses = change.reserved_rows, change.witnesses
        if self.topology is not None and before is not change.narrowing:
            self.topology.narrowed(draft)
        return fewer

    def _let_go(self, draft: Draft, change: Change) -> None:
        """Gives back the reservations that the draft can no longer use."""
        if not draft.pinned:  # else all but the one that it is launched with were given back
            shelf = draft.template.shelf
            before, after = shelf.ids(draft.held), shelf.ids(change.held)
            self.stock.release(before ^ (before & after))
            self.patience.let_go(before ^ (before & after))
        draft.held = change.held

    def _decide(self, draft: Draft, group: LabelGroup) -> "str | Open | None":
        """Has the draft settle on what it would be launched with, as somebody must know."""
        if group.kind in self.patient and not draft.pinned:
            return Open.UNDECIDED
        key = group.key
        buy = draft.buy or choose(draft.left, self.stock.free)
        value = bought(draft, buy, key)
        if value is None:
            return None
        change = restrict(draft, Requirements([requirement(key, "In", (value,))]))
        if change is None:
            return value if draft.pinned else Open.UNDECIDED
        if self._change(draft, change) and not draft.pinned:
            self.table.measure(draft)
        return value

    def _forbidden(self, stages: Sequence[Stage], step: Step | None) -> Rows:
        """The drafts that the pod must not join, although it might fit."""
        found = 0
        if self.stock.live and self.table.unreserved:
            slot = -1
            for stage in stages:  # spelt out, as nearly every pod comes by
                slot = max(slot, self.ladder.slot_weight(stage))
            if slot >= 0:
                found = self._below(slot + 1) & self.table.unreserved
        return found if step is None else found | self._below(step.weight)

    def _below(self, weight: int) -> Rows:
        found = 0
        for template in self.templates:
            if template.pool.weight < weight:
                found |= self.table.of_template[template.number]
        return found
