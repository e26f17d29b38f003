"""Shadow mode: what Karpenter has decided, compared with what would be decided here.

Whenever Karpenter has launched nodes, the cluster is planned once more without them: with the pods
that are on them, or wait for them, pending. A launch is the same where this plan has a node of the
same NodePool whose instance types, zones and capacity types include what was launched; which of
them a spot instance becomes is EC2's choice, others must not cost more than planned here. A node
that Karpenter disrupts is the same where a command found here had taken it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.controllers import conditions as condition
from wainwright.controllers.disruption.disruption_breaker import VOLUNTARY
from wainwright.controllers.informer_cache import Change
from wainwright.controllers.nodepool.registration_health import find_condition
from wainwright.core.disruption.cluster_changes import ClusterChanges, with_returned
from wainwright.core.disruption.commands import Command
from wainwright.core.plan import plan
from wainwright.messages.formatting import format_count, format_hourly
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, SPOT, ZONE
from wainwright.model.plan import PlannedNodeClaim, PlanOptions
from wainwright.model.snapshot import Node, Snapshot, find_offering

Indexes = Mapping[str, InstanceTypeIndex]

CONFIRMED_LOOKS: Final = 2
"""A command that one look finds and the next does not would not have been carried out."""


class ShadowSummary(msgspec.Struct, kw_only=True):
    """Nodes, and USD per hour."""

    launched: int = 0
    same_launches: int = 0
    their_price: float = 0.0
    """Of launches that are not the same."""
    our_launches: int = 0
    our_price: float = 0.0
    """Of the nodes that would have been launched in their place."""
    disrupted: int = 0
    same_disruptions: int = 0
    only_ours: int = 0
    """Nodes that only commands found here have taken."""
    their_saving: float = 0.0
    our_saving: float = 0.0

    @property
    def difference(self) -> float:
        """What ours would cost more than theirs; negative where it would cost less."""
        return self.our_price - self.their_price - (self.our_saving - self.their_saving)

    def describe(self) -> str:
        others = self.launched - self.same_launches
        launches = f"Karpenter launched {format_count(self.launched, 'node')}"
        if self.launched:
            launches += f", {self.same_launches:,} of them as Wainwright would have"
        if others:
            launches += (
                f", {others:,} for {format_hourly(self.their_price)} where Wainwright would have "
                f"launched {self.our_launches:,} for {format_hourly(self.our_price)}"
            )
        disruptions = f"it disrupted {format_count(self.disrupted, 'node')}"
        if self.disrupted:
            disruptions += f", {self.same_disruptions:,} of them as Wainwright would have"
        if self.only_ours:
            disruptions += f"; Wainwright alone {format_count(self.only_ours, 'node')}"
        return f"{launches}; {disruptions}; {_compared(self.difference)}"


def _compared(difference: float) -> str:
    if abs(difference) < SAME_PRICE:
        return "both cost the same"
    word = "more" if difference > 0 else "less"
    return f"Wainwright's decisions would cost {format_hourly(abs(difference))} {word}"


SAME_PRICE: Final = 0.0005


class Shadow:
    """Follows what Karpenter does, and adds up the differences."""

    def __init__(self, options: PlanOptions) -> None:
        self._options = options
        self._known: set[str] | None = None
        """Claims that there were at the start, or that were compared."""
        self._disrupted: dict[str, None] = {}
        """Claims that Karpenter has begun to disrupt."""
        self._prices: dict[str, float] = {}
        """By claim."""
        self._found: dict[str, tuple[int, float]] = {}
        """By claim in how many looks in a row a command took it, and its share of the saving."""
        self._summary = ShadowSummary()

    def claim_changed(self, change: Change[NodeClaim]) -> None:
        """A disrupted claim may be gone at the next look: it is noted at once."""
        if change.after is None or self._known is None:
            return
        reason = find_condition(change.after, condition.DISRUPTION_REASON)
        if reason is not None and reason.status == condition.TRUE and reason.reason in VOLUNTARY:
            self._disrupted.setdefault(change.name)

    def look(self, snapshot: Snapshot, indexes: Indexes, command: Command | None) -> None:
        """Compares what is new since the last look."""
        launched = {
            node.claim.name: node
            for node in snapshot.nodes
            if node.claim is not None and INSTANCE_TYPE in node.labels
        }
        self._prices |= {name: _price(node, indexes) for name, node in launched.items()}
        if self._known is None:
            self._known = set(snapshot.claims)
        new = [node for name, node in launched.items() if name not in self._known]
        self._known.update(launched)
        if new:
            self._compare(snapshot, indexes, new)
        self._note_command(command)

    def _compare(self, snapshot: Snapshot, indexes: Indexes, new: list[Node]) -> None:
        summary = self._summary
        before, catalogs = _without(snapshot, indexes, new)
        if not before.pods:  # they take the place of nodes that are disrupted
            summary.their_saving -= sum(_price(node, indexes) for node in new)
            return
        ours = list(plan(before, catalogs, self._options).claims)
        summary.launched += len(new)
        for node in new:
            same = next(
                (each for each in ours if _includes(each, node, _price(node, indexes))), None
            )
            if same is not None:
                ours.remove(same)
                summary.same_launches += 1
            else:
                summary.their_price += _price(node, indexes)
        summary.our_launches += len(ours)
        summary.our_price += sum(claim.launch.price for claim in ours)

    def _note_command(self, command: Command | None) -> None:
        candidates = () if command is None else command.candidates
        names = [each.node.claim.name for each in candidates if each.node.claim is not None]
        share = 0.0 if command is None or not names else command.saving / len(names)
        for name in names:
            self._found[name] = self._found.get(name, (0, 0.0))[0] + 1, share
        kept = {*names, *self._disrupted}
        self._found = {
            name: (looks, saving)
            for name, (looks, saving) in self._found.items()
            if looks >= CONFIRMED_LOOKS or name in kept
        }

    def summary(self) -> ShadowSummary:
        """Of everything since the last one."""
        summary, self._summary = self._summary, ShadowSummary()
        summary.disrupted = len(self._disrupted)
        summary.same_disruptions = sum(name in self._found for name in self._disrupted)
        only_ours = [name for name in self._found if name not in self._disrupted]
        summary.only_ours = len(only_ours)
        summary.our_saving = sum(saving for _, saving in self._found.values())
        summary.their_saving += sum(self._prices.get(name, 0.0) for name in self._disrupted)
        self._disrupted, self._found = {}, {}
        return summary


def _without(
    snapshot: Snapshot, indexes: Indexes, removed: Iterable[Node]
) -> tuple[Snapshot, Indexes]:
    """The cluster as if these had not been launched: their pods wait."""
    nodes = list(removed)
    names = [node.name for node in nodes]
    changes = ClusterChanges(snapshot.pools, indexes)
    without = changes.after_removal(snapshot, names, (), ())
    pods = [pod for node in nodes for pod in node.pods if pod.is_rescheduled]
    returned = Counter(
        node.reservation_id for node in nodes if node.reservation_id is not None and node.launched
    )
    before = msgspec.structs.replace(without, pods=(*snapshot.pods, *pods))
    return before, with_returned(indexes, returned)


def _includes(ours: PlannedNodeClaim, theirs: Node, price: float) -> bool:
    labels, choices = theirs.labels, ours.choices
    return (
        ours.pool == theirs.pool
        and labels.get(INSTANCE_TYPE) in choices.instance_types
        and labels.get(ZONE) in choices.zones
        and labels.get(CAPACITY_TYPE) in choices.capacity_types
        and (labels.get(CAPACITY_TYPE) == SPOT or price <= ours.launch.price + SAME_PRICE)
    )


def _price(node: Node, indexes: Indexes) -> float:
    index = indexes.get(node.pool or "")
    name = node.labels.get(INSTANCE_TYPE)
    found = None if index is None else next((e for e in index.types if e.name == name), None)
    offering = None if found is None else find_offering(node, found.offerings)
    return 0.0 if offering is None else offering.price
