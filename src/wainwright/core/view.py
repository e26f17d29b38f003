"""The view: a cluster compiled once, of which one can ask what if these nodes were not there.

Every answer is what a plan of the changed cluster would say: where the pods of the nodes would go,
and the one node that would be launched for those that fit nowhere. Pending pods are not part of
it; ask it of a cluster that is quiet.
"""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from wainwright.core.classes import Classes
from wainwright.core.drafts import DraftTable
from wainwright.core.ladder import Ladder
from wainwright.core.launch import choose
from wainwright.core.nodes import NodeTable
from wainwright.core.opening import Openings
from wainwright.core.order import queue
from wainwright.core.outcome import claims
from wainwright.core.plan import is_placeable, plan
from wainwright.core.rehearsal import Overlay, Rehearsal, SecondNode
from wainwright.core.reservations import free_slots
from wainwright.core.site import Found
from wainwright.core.slack import Slack
from wainwright.core.solve import acquaint, context, introduce, stocked
from wainwright.core.templates import compiled
from wainwright.core.topology.registry import Registry
from wainwright.core.topology.topology import Topology
from wainwright.core.uses import without_promised
from wainwright.core.wishes import PodClass
from wainwright.model.index import TypeIndex
from wainwright.model.node import Node
from wainwright.model.options import DEFAULT_OPTIONS, Options
from wainwright.model.plan import Placement, PlannedClaim
from wainwright.model.pod import Pod
from wainwright.model.snapshot import Snapshot


class Simulation(msgspec.Struct, frozen=True, kw_only=True):
    """What would become of the pods of some nodes if these were not there."""

    placements: tuple[Placement, ...] = ()
    claim: PlannedClaim | None = None
    """The node that would be launched; None where what stands is enough."""
    unplaced: tuple[str, ...] = ()
    """Pods that would have no place, or would need a second new node."""

    @property
    def is_possible(self) -> bool:
        return not self.unplaced


class View:
    """A cluster without pending pods, seen by whoever wonders which nodes it needs."""

    def __init__(
        self,
        snapshot: Snapshot,
        catalogs: Mapping[str, TypeIndex],
        options: Options = DEFAULT_OPTIONS,
    ) -> None:
        self._snapshot, self._catalogs, self._options = snapshot, catalogs, options
        gate = options.capacity_reservations
        self._templates = compiled(snapshot.pools, catalogs, snapshot.daemonsets, gate=gate)
        self._nodes = NodeTable(snapshot.nodes, snapshot.daemonsets)
        self._numbers = {node.name: n for n, node in enumerate(self._nodes.nodes)}
        registry = Registry()
        running = [pod for node in self._nodes.nodes for pod in node.pods]
        movable = [pod for pod in running if is_movable(pod) and is_placeable(pod)]
        registry.introduce(movable, running)
        self._classes = Classes(movable, registry, context(self._templates, self._nodes, options))
        on_offer = free_slots(template.index for template in self._templates)
        stock = stocked(self._templates, without_promised(on_offer, snapshot.nodes), gate=gate)
        stock.begin_round()
        acquaint(self._classes, self._templates, self._nodes, None)
        self._ladder = Ladder(self._templates, Openings(options.min_values_policy, stock))
        self._topology = self._counted(registry)
        self._ranks, self._groups = self._in_order()

    def without(self, names: Collection[str]) -> Simulation:
        """What would become of their pods if the nodes of these names were not there."""
        numbers = [self._numbers[name] for name in names]
        if any(_is_promised_a_slot(self._nodes.nodes[number]) for number in numbers):
            return self.rebuilt(names)  # there would be one slot more
        pods = [
            pod for number in numbers for pod in self._nodes.nodes[number].pods if is_movable(pod)
        ]
        if any(id(pod) not in self._ranks for pod in pods):
            stuck = tuple(sorted(pod.key for pod in pods if id(pod) not in self._ranks))
            return Simulation(unplaced=stuck)
        pods.sort(key=lambda pod: self._ranks[id(pod)])
        rehearsal = self._rehearsal(numbers)
        left = self._placed(rehearsal, pods)
        if left and self._may_be_wrong(rehearsal, left):
            return self.rebuilt(names)
        return self._told(rehearsal, left)

    def rebuilt(self, names: Collection[str]) -> Simulation:
        """The same, worked out from nothing: slow, and what the quick way must agree with."""
        gone = set(names)
        nodes = tuple(_deleting(each, gone) for each in self._snapshot.nodes)
        pods = tuple(
            pod
            for node in self._snapshot.nodes
            if node.name in gone
            for pod in node.pods
            if is_movable(pod)
        )
        changed = msgspec.structs.replace(self._snapshot, nodes=nodes, pods=pods)
        made = plan(changed, self._catalogs, self._options, advise=False)
        lost = tuple(pod for group in made.unschedulable for pod in group.pods)
        second = tuple(pod for claim in made.claims[1:] for pod in claim.pods)
        if lost or second:
            return Simulation(unplaced=tuple(sorted((*lost, *second))))
        return Simulation(placements=made.placements, claim=made.claims[0] if made.claims else None)

    def _no_slack(self) -> Slack:
        return Slack((), len(self._classes.resources))

    def _counted(self, registry: Registry) -> Topology | None:
        if not registry.groups:
            return None
        table = DraftTable(self._templates, self._no_slack())
        topology = Topology(registry, self._templates, self._nodes, table, self._ladder.stock)
        topology.refresh_all()
        return topology

    def _in_order(self) -> tuple[dict[int, int], dict[int, PodClass]]:
        ranks: dict[int, int] = {}
        groups: dict[int, PodClass] = {}
        for run in queue(self._classes.all):
            for pod in run.pods:
                ranks[id(pod)] = len(ranks)
                groups[id(pod)] = run.group
        return ranks, groups

    def _rehearsal(self, numbers: Sequence[int]) -> Rehearsal:
        removed = 0
        for number in numbers:
            removed |= 1 << number
        overlay = Overlay(self._nodes, removed)
        found = Rehearsal(self._templates, overlay, self._ladder, self._classes, self._topology)
        found.strict_weights = self._options.strict_weights
        found.introduce = lambda ask: introduce(ask, self._templates)
        found.take_away(numbers)
        return found

    def _placed(self, rehearsal: Rehearsal, pods: list[Pod]) -> list[Pod]:
        """Those left over after passes in which nobody gained a place any more."""
        left, before = pods, -1
        while left and len(left) != before:
            before, waiting, left = len(left), left, []
            for number, pod in enumerate(waiting):
                try:
                    found = self._is_placed(rehearsal, pod)
                except SecondNode:
                    return [*left, *waiting[number:]]
                if not found:
                    left.append(pod)
        return left

    def _is_placed(self, rehearsal: Rehearsal, pod: Pod) -> bool:
        return rehearsal.place(pod, self._groups[id(pod)]) is Found.PLACE

    def _may_be_wrong(self, rehearsal: Rehearsal, left: Sequence[Pod]) -> bool:
        """Whether a later round could help: limits, or slots hidden behind them."""
        if any(template.pool.limits for template in self._templates):
            return bool(rehearsal.table.drafts)
        return any(stage.bound is not None for p in left for stage in self._groups[id(p)].stages)

    def _told(self, rehearsal: Rehearsal, left: Sequence[Pod]) -> Simulation:
        if left:
            return Simulation(unplaced=tuple(sorted(pod.key for pod in left)))
        taken: dict[int, list[str]] = {}
        for pod, number in rehearsal.overlay.taken:
            taken.setdefault(number, []).append(pod.key)
        placements = [
            Placement(node=self._nodes.nodes[number].name, pods=tuple(sorted(pods)))
            for number, pods in taken.items()
        ]
        return Simulation(
            placements=tuple(sorted(placements, key=lambda each: each.node)),
            claim=self._claim(rehearsal),
        )

    def _claim(self, rehearsal: Rehearsal) -> PlannedClaim | None:
        if not rehearsal.table.drafts:
            return None
        draft = rehearsal.table.drafts[0]
        draft.pin(choose(draft.left, self._ladder.stock.free))
        taken = self._snapshot.taken_names
        return claims([draft], self._classes.resources, taken)[0]


def is_movable(pod: Pod) -> bool:
    """Whether somebody makes it anew elsewhere when its node goes."""
    return not pod.daemonset and not pod.terminating


def _is_promised_a_slot(node: Node) -> bool:
    return node.reservation_id is not None and not node.launched


def _deleting(node: Node, gone: Collection[str]) -> Node:
    return msgspec.structs.replace(node, deleting=True) if node.name in gone else node
