"""Domains: which value of a topology label each draft has decided on, and which values new nodes
could have, as sets of drafts.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from enum import Enum, auto
from typing import TypeAlias

from wainwright.core.launch.launch_choice import LaunchChoice, capacity_type_of, zone_of
from wainwright.core.scheduling.compiled_requirements import CompiledRequirements
from wainwright.core.scheduling.drafts import Draft
from wainwright.core.scheduling.nodeclaim_template import NodeClaimTemplate
from wainwright.core.scheduling.reservation_manager import ReservationManager
from wainwright.core.scheduling.topology.groups import NodeFilter
from wainwright.model.bitset import BitSet
from wainwright.model.labels import CAPACITY_TYPE, ZONE
from wainwright.model.offering_groups import OfferingGroupSet
from wainwright.model.pod import ANY_NODE_TERMS
from wainwright.model.requirements import Requirements
from wainwright.model.snapshot import Node
from wainwright.model.taints import PREFER_NO_SCHEDULE, Taint, Toleration, find_untolerated_taint


class NoValue(Enum):
    UNDECIDED = auto()
    LACKING = auto()
    """Nodes of this kind do not have the label."""


DomainValue: TypeAlias = str | NoValue


class Domains:
    """For every label that anything is counted by."""

    def __init__(self, keys: Sequence[str], nodes: Sequence[Node]) -> None:
        self.keys = tuple(keys)
        self.of_drafts: dict[str, dict[str, BitSet]] = {key: {} for key in keys}
        self.undecided: dict[str, BitSet] = dict.fromkeys(keys, 0)
        self.lacking: dict[str, BitSet] = dict.fromkeys(keys, 0)
        self.of_nodes: dict[str, dict[str, BitSet]] = {key: _by_value(key, nodes) for key in keys}
        self.unlabelled: dict[str, BitSet] = {key: _nodes_without(key, nodes) for key in keys}
        self._values: dict[int, dict[str, DomainValue]] = {}
        self._known: dict[CompiledRequirements, tuple[DomainValue, ...]] = {}

    def fork(self) -> "Domains":
        """The same nodes, and no drafts."""
        twin = copy(self)
        twin.of_drafts = {key: {} for key in self.keys}
        twin.undecided = dict.fromkeys(self.keys, 0)
        twin.lacking = dict.fromkeys(self.keys, 0)
        twin._values = {}
        return twin

    def enter(self, draft: Draft) -> None:
        """A draft was opened."""
        decided = self._decided(draft.template, draft.narrowing)
        self._values[draft.number] = dict(zip(self.keys, decided, strict=True))
        for key, value in zip(self.keys, decided, strict=True):
            self._put(draft.bit, key, value)

    def narrowed(self, draft: Draft) -> None:
        """The draft was left fewer values."""
        values = self._values[draft.number]
        decided = self._decided(draft.template, draft.narrowing)
        for key, value in zip(self.keys, decided, strict=True):
            if values[key] is NoValue.UNDECIDED and value is not NoValue.UNDECIDED:
                self.decide(draft, key, value)

    def decide(self, draft: Draft, key: str, value: DomainValue) -> None:
        self.undecided[key] &= ~draft.bit
        self._values[draft.number][key] = value
        self._put(draft.bit, key, value)

    def value(self, draft: Draft, key: str) -> DomainValue:
        return self._values[draft.number][key]

    def _put(self, bit: BitSet, key: str, value: DomainValue) -> None:
        if value is NoValue.UNDECIDED:
            self.undecided[key] |= bit
        elif value is NoValue.LACKING:
            self.lacking[key] |= bit
        else:
            same = self.of_drafts[key]
            same[value] = same.get(value, 0) | bit

    def _decided(
        self, template: NodeClaimTemplate, narrowing: CompiledRequirements
    ) -> tuple[DomainValue, ...]:
        found = self._known.get(narrowing)
        if found is None:
            found = tuple(_decided_value(template, narrowing, key) for key in self.keys)
            self._known[narrowing] = found
        return found


def _decided_value(
    template: NodeClaimTemplate, narrowing: CompiledRequirements, key: str
) -> DomainValue:
    requirement = narrowing.requirements.get(key)
    if requirement is None:
        return NoValue.UNDECIDED if key in template.well_known else NoValue.LACKING
    allowed = requirement.allowed
    if allowed.is_empty:
        return NoValue.LACKING
    if allowed.length == 1:
        return next(iter(allowed.values))
    return NoValue.UNDECIDED


def launched_value(draft: Draft, buy: LaunchChoice, key: str) -> str | None:
    """The value of the label on the machine that would be bought; None if it will have none."""
    left, kind = draft.left, draft.template.index.types[buy.row]
    if key == ZONE:
        return zone_of(left, buy)
    if key == CAPACITY_TYPE:
        return capacity_type_of(left, buy)
    offered = buy.offering.requirements.single_value(key)
    if offered is not None:
        return offered
    allowed = kind.requirements.allowed(key) & left.requirements.allowed(key)
    return None if allowed.open else allowed.any_value() or None


def _by_value(key: str, nodes: Iterable[Node]) -> dict[str, BitSet]:
    found: dict[str, BitSet] = {}
    for number, node in enumerate(nodes):
        value = node.labels.get(key)
        if value is not None:
            found[value] = found.get(value, 0) | 1 << number
    return found


def _nodes_without(key: str, nodes: Iterable[Node]) -> BitSet:
    return sum(1 << number for number, node in enumerate(nodes) if key not in node.labels)


def union_of(columns: Mapping[str, BitSet], values: Iterable[str]) -> BitSet:
    """Those with any of the values."""
    found = 0
    for value in values:
        found |= columns.get(value, 0)
    return found


def launchable(
    templates: Sequence[NodeClaimTemplate], wanted: NodeFilter
) -> Iterator[tuple[CompiledRequirements, NodeClaimTemplate]]:
    """What pools could launch of the nodes that count, where the pod may go."""
    for template in templates:
        if not _tolerates_pool(template, wanted):
            continue
        for each in wanted.reach or ANY_NODE_TERMS:
            if template.base.requirements.is_compatible(each, template.well_known):
                narrowing = template.base.joined(template.decided_here(each))
                if narrowing is not None:
                    yield narrowing, template


def counts_draft(wanted: NodeFilter, draft: Draft) -> bool:
    return _tolerates_pool(draft.template, wanted) and any(
        _may_become(draft, each) for each in wanted.alternatives or ANY_NODE_TERMS
    )


def _may_become(draft: Draft, wanted: Requirements) -> bool:
    """Whether the draft can become such a node, or is one if it is settled what it becomes."""
    template = draft.template
    if not template.base.requirements.is_compatible(wanted, template.well_known):
        return False
    narrowing = draft.narrowing.joined(template.decided_here(wanted))
    if narrowing is None:
        return False
    if not draft.pinned:
        slots = template.shelf.available_in(draft.held & narrowing.reserved, draft.reserved_rows)
        return bool(draft.rows & narrowing.rows & (narrowing.offered | slots))
    bought = (narrowing.offering_groups | narrowing.reserved) & draft.pinned_market
    return bool(narrowing.rows & draft.pinned and bought)


def _tolerates_pool(template: NodeClaimTemplate, wanted: NodeFilter) -> bool:
    if wanted.tolerations is None:
        return True
    return tolerates_taints(template.pool.taints, wanted.tolerations)


def tolerates_taints(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> bool:
    """Whether all taints that bind are tolerated."""
    binding = [taint for taint in taints if taint.effect != PREFER_NO_SCHEDULE]
    return find_untolerated_taint(binding, tolerations) is None


def launchable_values(
    template: NodeClaimTemplate,
    narrowing: CompiledRequirements,
    key: str,
    stock: ReservationManager,
) -> list[str]:
    """The values of the label that nodes of the pool could have if they were launched now."""
    reserved = narrowing.reserved & template.shelf.of(stock.live)
    rows = narrowing.rows & template.limits.allowed_at_start
    return _label_values(template, narrowing, key, rows, reserved)


def possible_values(
    template: NodeClaimTemplate, narrowing: CompiledRequirements, key: str
) -> list[str]:
    """The same, whatever limits and reservations say."""
    reserved = narrowing.reserved & template.shelf.offering_groups
    return _label_values(template, narrowing, key, narrowing.rows, reserved)


def _label_values(
    template: NodeClaimTemplate,
    narrowing: CompiledRequirements,
    key: str,
    rows: BitSet,
    reserved: OfferingGroupSet,
) -> list[str]:
    index, allowed = template.index, narrowing.requirements.allowed(key)
    rows &= narrowing.offered | template.shelf.available_in(reserved, rows)
    if not rows:
        return []
    if key in index.keys:
        return index.remaining_values(key, rows, narrowing.offering_groups | reserved, allowed)
    return [] if allowed.open else sorted(allowed.values)
