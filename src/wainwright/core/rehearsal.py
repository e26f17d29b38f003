"""Rehearsals: nodes are taken away and their pods placed elsewhere, on an overlay that is dropped.

The base is compiled once and never changes. An overlay holds what a rehearsal would change: what
is left on nodes that took a pod, ports and volumes there, groups whose counts moved, and the one
draft that may be opened.
"""

from collections.abc import Iterable

from wainwright.core.classes import Classes
from wainwright.core.drafts import Draft, DraftTable
from wainwright.core.fit import attempt
from wainwright.core.ladder import Ladder, Step
from wainwright.core.nodes import NodeTable
from wainwright.core.placing import Placing
from wainwright.core.ports import Ports
from wainwright.core.slack import Slack
from wainwright.core.templates import Template
from wainwright.core.topology.bound import Bound
from wainwright.core.topology.groups import AnyGroup, HostGroup, Kind, LabelGroup
from wainwright.core.topology.restriction import Restriction
from wainwright.core.topology.topology import Topology
from wainwright.core.wishes import PodClass, Wish
from wainwright.model.attachments import Attachment
from wainwright.model.columns import Rows
from wainwright.model.pod import Pod


class SecondNode(Exception):
    """A rehearsal needs more than one new node."""


class Overlay(NodeTable):
    """The nodes of a base without some, and with what a rehearsal puts on the others."""

    def __init__(self, base: NodeTable, removed: Rows) -> None:
        self.nodes = base.nodes
        self.everything = base.everything
        self.removed = removed
        self.standing = base.everything ^ removed
        self.taken: list[tuple[Pod, int]] = []
        self._base = base
        self._changed: dict[int, list[int]] = {}
        self._own_ports = Ports()
        self._own_attached: dict[int, set[Attachment]] = {}

    def take(self, pod: Pod, group: PodClass, wish: Wish, among: Rows = -1) -> int | None:
        left = wish.ask.nodes & among & self.standing
        left ^= left & wish.full
        for short, mark in wish.short_nodes:
            left ^= left & short[mark]
        if left and wish.ask.ports:
            ports = wish.ask.ports
            left &= ~(self._base.clashing(ports) | self._own_ports.clashing(ports))
        while left:
            lowest = left & -left
            number = lowest.bit_length() - 1
            if self._fits(number, group, wish):
                self._use(pod, group, wish, number)
                return number
            if number not in self._changed:
                wish.full |= lowest  # not even the base has room
            left ^= lowest
        return None

    def _fits(self, number: int, group: PodClass, wish: Wish) -> bool:
        free = self._changed.get(number)
        if free is None:
            free = self._base.free(number)
        for column, amount in wish.amounts:
            if amount > free[column]:
                return False
        if not group.attachments:
            return True
        own = self._own_attached.get(number, set())
        return self._base.attachable(number, (*group.attachments, *own))

    def _use(self, pod: Pod, group: PodClass, wish: Wish, number: int) -> None:
        free = self._changed.get(number)
        if free is None:
            free = self._changed[number] = list(self._base.free(number))
        for column, amount in wish.amounts:
            free[column] -= amount
        if wish.ask.ports:
            self._own_ports.take(1 << number, wish.ask.ports)
        if group.attachments:
            self._own_attached.setdefault(number, set()).update(group.attachments)
        self.taken.append((pod, number))


class Forked(Topology):
    """The groups of a base, copied as soon as a rehearsal changes them."""

    def __init__(self, base: Topology, table: DraftTable, removed: Rows) -> None:
        self.__dict__.update(base.__dict__)
        self.domains = base.domains.fork()
        self._table = table
        self._removed = removed
        self._waiting = {}
        self._forks: dict[int, AnyGroup] = {}

    def restriction(self, bound: Bound) -> Restriction | None:
        return super().restriction(bound.through(self._forks))

    def company(self, bound: Bound) -> Restriction | None:
        return super().company(bound.through(self._forks))

    def steering(self, bound: Bound) -> Restriction | None:
        return super().steering(bound.through(self._forks))

    def put_on_draft(self, group: PodClass, draft: Draft) -> None:
        for each in group.counted:
            self._count_on_draft(self._fork(each), draft)

    def put_on_node(self, group: PodClass, number: int) -> None:
        for each in group.counted:
            self._count_on_node(self._fork(each), number)

    def leave(self, pod: Pod, number: int) -> None:
        """A pod is no longer on a node that goes: the reverse of how it was counted."""
        for each in self.registry.standing(pod).counted:
            if not (pod.terminating and each.kind is Kind.SPREAD):
                self._leave(each, number)
        for term in dict.fromkeys(pod.bonds.anti_affinity):
            self._leave(self.registry.shunned(term), number)

    def refresh(self, group: LabelGroup) -> None:
        """The base's domains hold, unless nodes that made one are gone."""
        if group.stamp is self:
            return
        group.stamp = self
        standing = self.domains.of_nodes[group.key].items()
        left = {value for value, rows in standing if rows & group.nodes & ~self._removed}
        group.domains = tuple(sorted(left | group.launchable))

    def lose_domains(self) -> None:
        """Every spread looks anew at where it can go, as a value may have gone with its nodes."""
        for group in self._labels():
            if group.spread is not None and self._is_lost(group):
                self.refresh(self._label_fork(group))

    def _is_lost(self, group: LabelGroup) -> bool:
        for value, rows in self.domains.of_nodes[group.key].items():
            here = rows & group.nodes
            gone = here & self._removed
            if gone and gone == here and value not in group.launchable:
                return True
        return False

    def _leave(self, group: AnyGroup, number: int) -> None:
        if not group.nodes >> number & 1:
            return
        fork = self._fork(group)
        if isinstance(fork, HostGroup):
            fork.forget()
            return
        value = self._nodes.nodes[number].labels.get(fork.key)
        if value is not None:
            fork.add(value, -1)

    def _fork(self, group: AnyGroup) -> AnyGroup:
        found = self._forks.get(group.number)
        if found is None:
            found = self._forks[group.number] = group.fork()
        return found

    def _label_fork(self, group: LabelGroup) -> LabelGroup:
        fork = self._fork(group)
        assert isinstance(fork, LabelGroup)
        return fork


class Rehearsal(Placing):
    """Places the pods of the nodes that go; opens one draft at most."""

    def __init__(
        self,
        templates: list[Template],
        nodes: Overlay,
        ladder: Ladder,
        classes: Classes,
        base: Topology | None,
    ) -> None:
        table = DraftTable(templates, Slack((), len(classes.resources)))
        forked = None if base is None else Forked(base, table, nodes.removed)
        super().__init__(templates, nodes, table, ladder, classes, forked)
        self._fit = attempt
        self.overlay = nodes
        self.forked = forked

    def take_away(self, numbers: Iterable[int]) -> None:
        """The pods of nodes that go are not counted there any more."""
        if self.forked is not None:
            for number in numbers:
                for pod in self.nodes.nodes[number].pods:
                    self.forked.leave(pod, number)
            self.forked.lose_domains()

    def _open(self, pod: Pod, group: PodClass, step: Step) -> None:
        if self.table.drafts:
            raise SecondNode
        draft = Draft(0, 1, step.template, step.answer)
        self.table.add(draft)
        if self.topology is not None:
            self.topology.opened(draft)
        self._put(pod, group, step.wish, draft, narrowed=True)
