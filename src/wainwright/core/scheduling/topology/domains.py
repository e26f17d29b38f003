"""Domains: which value of a topology label each draft has decided on, and which values new nodes
could have, as sets of drafts.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum, auto
from typing import TypeAlias

from wainwright.core.launch.launch_choice import LaunchChoice, capacity_type_of, zone_of
from wainwright.core.scheduling.compiled_requirements import CompiledRequirements
from wainwright.core.scheduling.constraints.taint_toleration import admits_without_preferences
from wainwright.core.scheduling.drafts import Draft
from wainwright.core.scheduling.forks import shallow_copy
from wainwright.core.scheduling.nodeclaim_template import NodeClaimTemplate
from wainwright.core.scheduling.reservation_manager import ReservationManager
from wainwright.core.scheduling.topology.groups import NodeFilter
from wainwright.model.bitset import BitSet
from wainwright.model.labels import CAPACITY_TYPE, ZONE
from wainwright.model.offering_groups import OfferingGroupSet
from wainwright.model.pod import ANY_NODE_TERMS
from wainwright.model.requirements import Requirements
from wainwright.model.snapshot import Node


class NoValue(Enum):
    UNDECIDED = auto()
    LABEL_ABSENT = auto()
    """Nodes of this pool do not have the label."""


DomainValue: TypeAlias = str | NoValue


class _DecidedValues:
    """What drafts with the same requirements have decided from the start, for every label."""

    __slots__ = ("absent", "by_key", "known", "undecided")

    def __init__(self, by_key: dict[str, DomainValue]) -> None:
        self.by_key = by_key
        self.known = tuple(
            [(key, value) for key, value in by_key.items() if isinstance(value, str)]
        )
        self.undecided = tuple([k for k, value in by_key.items() if value is NoValue.UNDECIDED])
        self.absent = frozenset([k for k, v in by_key.items() if v is NoValue.LABEL_ABSENT])


class Domains:
    """Drafts and nodes by domain, for every topology label that is counted.

    One pod can name thousands of labels, nearly all of which nodes do not have: what is kept for
    each draft is only what differs from other drafts with the same requirements.
    """

    def __init__(self, keys: Sequence[str], nodes: Sequence[Node]) -> None:
        self.keys = tuple(keys)
        self.drafts_by_value: dict[str, dict[str, BitSet]] = {key: {} for key in keys}
        self.undecided_drafts: dict[str, BitSet] = dict.fromkeys(keys, 0)
        self.nodes_by_value = _nodes_by_value(self.keys, nodes)
        self._nodes: BitSet = (1 << len(nodes)) - 1
        self._nodes_without: dict[str, BitSet] = {}
        self._drafts_by_absent: dict[frozenset[str], BitSet] = {}
        """By the labels that they cannot have from the start: pools have few sets of labels."""
        self._absent_later: dict[str, BitSet] = {}
        """By label the drafts that turned out not to have it."""
        self._values: dict[int, _DecidedValues] = {}
        self._decided_later: dict[tuple[int, str], DomainValue] = {}
        self._cache: dict[CompiledRequirements, _DecidedValues] = {}
        """What drafts with these requirements have decided: hundreds of drafts share a few. Without
        it every draft that is opened or narrowed looks through its types for each key. Forks share
        it, as it depends on the requirements alone.
        """

    def fork(self) -> "Domains":
        """The same nodes, without drafts."""
        clone = shallow_copy(self)
        clone.drafts_by_value = {key: {} for key in self.keys}
        clone.undecided_drafts = dict.fromkeys(self.keys, 0)
        clone._drafts_by_absent, clone._absent_later = {}, {}
        clone._values, clone._decided_later = {}, {}
        return clone

    def add_draft(self, draft: Draft) -> None:
        """Call this when a draft is opened."""
        decided = self._decided(draft.template, draft.compiled)
        self._values[draft.number] = decided
        for key, value in decided.known:
            self._add_to_value(draft.bit, key, value)
        for key in decided.undecided:
            self.undecided_drafts[key] |= draft.bit
        if decided.absent:
            absent = self._drafts_by_absent
            absent[decided.absent] = absent.get(decided.absent, 0) | draft.bit

    def draft_narrowed(self, draft: Draft) -> None:
        """Call this when the draft was left fewer values."""
        before = self._values[draft.number]
        if not before.undecided:
            return
        by_key = self._decided(draft.template, draft.compiled).by_key
        for key in before.undecided:
            value = by_key[key]
            if value is not NoValue.UNDECIDED and (draft.number, key) not in self._decided_later:
                self.decide(draft, key, value)

    def decide(self, draft: Draft, key: str, value: DomainValue) -> None:
        self.undecided_drafts[key] &= ~draft.bit
        self._decided_later[draft.number, key] = value
        if isinstance(value, str):
            self._add_to_value(draft.bit, key, value)
        elif value is NoValue.LABEL_ABSENT:
            self._absent_later[key] = self._absent_later.get(key, 0) | draft.bit

    def value(self, draft: Draft, key: str) -> DomainValue:
        value = self._values[draft.number].by_key[key]
        if value is NoValue.UNDECIDED:
            return self._decided_later.get((draft.number, key), value)
        return value

    def drafts_without(self, key: str) -> BitSet:
        """The drafts that will not have the label."""
        drafts = self._absent_later.get(key, 0)
        for absent, same in self._drafts_by_absent.items():
            if key in absent:
                drafts |= same
        return drafts

    def nodes_without(self, key: str) -> BitSet:
        """The nodes that do not have the label."""
        found = self._nodes_without.get(key)
        if found is None:
            by_value = self.nodes_by_value[key]
            found = self._nodes_without[key] = self._nodes & ~union_of(by_value, by_value)
        return found

    def _add_to_value(self, bit: BitSet, key: str, value: str) -> None:
        same = self.drafts_by_value[key]
        same[value] = same.get(value, 0) | bit

    def _decided(
        self, template: NodeClaimTemplate, compiled: CompiledRequirements
    ) -> _DecidedValues:
        values = self._cache.get(compiled)
        if values is None:
            values = self._cache[compiled] = _DecidedValues(
                {key: _decided_value(template, compiled, key) for key in self.keys}
            )
        return values


def _decided_value(
    template: NodeClaimTemplate, compiled: CompiledRequirements, key: str
) -> DomainValue:
    requirement = compiled.requirements.get(key)
    if requirement is None:
        return NoValue.UNDECIDED if key in template.well_known else NoValue.LABEL_ABSENT
    allowed = requirement.allowed
    if allowed.is_empty:
        return NoValue.LABEL_ABSENT
    if allowed.length == 1:
        return next(iter(allowed.values))
    return NoValue.UNDECIDED


def launched_value(draft: Draft, choice: LaunchChoice, key: str) -> str | None:
    """The label's value on the node that would be launched; None if it has none."""
    options, instance_type = draft.launch_options, draft.template.index.types[choice.type_number]
    if key == ZONE:
        return zone_of(options, choice)
    if key == CAPACITY_TYPE:
        return capacity_type_of(options, choice)
    offered = choice.offering.requirements.single_value(key)
    if offered is not None:
        return offered
    allowed = instance_type.requirements.allowed(key) & options.requirements.allowed(key)
    return None if allowed.open else allowed.any_value() or None


def _nodes_by_value(keys: tuple[str, ...], nodes: Iterable[Node]) -> dict[str, dict[str, BitSet]]:
    """By key and value; of thousands of keys a node has few, and its labels are few."""
    found: dict[str, dict[str, BitSet]] = {key: {} for key in keys}
    for number, node in enumerate(nodes):
        for key in found.keys() & node.labels.keys():
            by_value, value = found[key], node.labels[key]
            by_value[value] = by_value.get(value, 0) | 1 << number
    return found


def union_of(by_value: Mapping[str, BitSet], values: Iterable[str]) -> BitSet:
    """The nodes or drafts with any of the values."""
    result = 0
    for value in values:
        result |= by_value.get(value, 0)
    return result


def launchable(
    templates: Sequence[NodeClaimTemplate], node_filter: NodeFilter
) -> Iterator[tuple[CompiledRequirements, NodeClaimTemplate]]:
    """What pools could launch of the nodes that count, where the pod may go."""
    for template in templates:
        if not _tolerates_pool(template, node_filter):
            continue
        for each in node_filter.reachable or ANY_NODE_TERMS:
            if template.base.requirements.is_compatible(each, template.well_known):
                compiled = template.base.combine(template.known_requirements(each))
                if compiled is not None:
                    yield compiled, template


def counts_draft(node_filter: NodeFilter, draft: Draft) -> bool:
    return _tolerates_pool(draft.template, node_filter) and any(
        _may_become(draft, each) for each in node_filter.alternatives or ANY_NODE_TERMS
    )


def _may_become(draft: Draft, node_term: Requirements) -> bool:
    """Whether the draft could become such a node; if it is pinned, whether it is one."""
    template = draft.template
    if not template.base.requirements.is_compatible(node_term, template.well_known):
        return False
    compiled = draft.compiled.combine(template.known_requirements(node_term))
    if compiled is None:
        return False
    if not draft.pinned_type:
        reserved_types = template.pool_reservations.available_in(
            draft.held & compiled.reserved, draft.reserved_types
        )
        return bool(draft.types & compiled.types & (compiled.offered | reserved_types))
    groups = (compiled.offering_groups | compiled.reserved) & draft.pinned_group
    return bool(compiled.types & draft.pinned_type and groups)


def surely_counts_draft(node_filter: NodeFilter, draft: Draft) -> bool:
    """Whether every node that the draft could become counts; of one that counts now."""
    is_open = _has_open_labels if draft.pinned_type else _is_narrowed_by
    return any(not is_open(draft, each) for each in node_filter.alternatives or ANY_NODE_TERMS)


def _has_open_labels(draft: Draft, node_term: Requirements) -> bool:
    """Whether a draft whose type and offering are known may still become another node by a label
    that no instance type has: nobody knows which of several values its node will get.
    """
    if not _may_become(draft, node_term):
        return True
    after = draft.compiled.combine(draft.template.known_requirements(node_term))
    return after is None or _narrows_labels(draft, node_term, after)


def _is_narrowed_by(draft: Draft, node_term: Requirements) -> bool:
    """Whether the term leaves the draft fewer types, offerings or labels than it has now."""
    template, before = draft.template, draft.compiled
    if not template.base.requirements.is_compatible(node_term, template.well_known):
        return True
    after = before.combine(template.known_requirements(node_term))
    if after is None or draft.types & ~after.types:
        return True
    lost = before.offering_groups & ~after.offering_groups
    lost_reserved = draft.held & before.reserved & ~after.reserved
    if template.index.available_in(lost) & draft.types or template.pool_reservations.available_in(
        lost_reserved, draft.reserved_types
    ):
        return True
    return _narrows_labels(draft, node_term, after)


def _narrows_labels(draft: Draft, node_term: Requirements, after: CompiledRequirements) -> bool:
    """Of labels that are no properties of instance types or offerings."""
    before = draft.compiled.requirements
    return any(
        before.allowed(key) != after.requirements.allowed(key)
        for key in node_term
        if key not in draft.template.index.keys
    )


def _tolerates_pool(template: NodeClaimTemplate, node_filter: NodeFilter) -> bool:
    if node_filter.tolerations is None:
        return True
    return admits_without_preferences(template.pool.taints, node_filter.tolerations)


def launchable_values(
    template: NodeClaimTemplate,
    compiled: CompiledRequirements,
    key: str,
    reservation_manager: ReservationManager,
) -> list[str]:
    """The values of the label that nodes of the pool could have if they were launched now."""
    reserved = compiled.reserved & template.pool_reservations.groups_of(
        reservation_manager.available
    )
    limits, reservations = template.limits, template.pool_reservations
    types = compiled.types & limits.admitted_at_start & compiled.offered
    values = _label_values(template, compiled, key, types, compiled.offering_groups)
    # A price limit of the cluster leaves more types to reserved nodes than to others.
    types = reservations.available_in(reserved, compiled.types & limits.admitted_reserved_at_start)
    if types:
        values = sorted({*values, *_label_values(template, compiled, key, types, reserved)})
    return values


def possible_values(
    template: NodeClaimTemplate, compiled: CompiledRequirements, key: str
) -> list[str]:
    """The same, leaving limits and reservation counts aside."""
    reserved = compiled.reserved & template.pool_reservations.offering_groups
    available = template.pool_reservations.available_in(reserved, compiled.types)
    types = compiled.types & (compiled.offered | available)
    return _label_values(template, compiled, key, types, compiled.offering_groups | reserved)


def _label_values(
    template: NodeClaimTemplate,
    compiled: CompiledRequirements,
    key: str,
    types: BitSet,
    offering_groups: OfferingGroupSet,
) -> list[str]:
    """The values that these types have in these groups, each of which offers some of them."""
    index, allowed = template.index, compiled.requirements.allowed(key)
    if not types:
        return []
    if key in index.keys:
        return index.remaining_values(key, types, offering_groups, allowed)
    return [] if allowed.open else sorted(allowed.values)
