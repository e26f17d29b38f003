"""Topology: all groups of a plan being made, kept up to date as pods are placed."""

from collections.abc import Callable, Iterator, Sequence

from wainwright.core.scheduling.compiled_requirements import CompiledRequirements
from wainwright.core.scheduling.drafts import Draft, DraftTable
from wainwright.core.scheduling.existing_nodes import ExistingNodes
from wainwright.core.scheduling.nodeclaim_template import NodeClaimTemplate
from wainwright.core.scheduling.pod_requirements import PodClass
from wainwright.core.scheduling.reservation_manager import ReservationManager
from wainwright.core.scheduling.topology.allowed_domains import AllowedDomains, allowed_domains
from wainwright.core.scheduling.topology.constraints import TopologyConstraints
from wainwright.core.scheduling.topology.domains import (
    Domains,
    NoValue,
    counts_draft,
    launchable,
    launchable_values,
    launched_value,
    possible_values,
    tolerates_taints,
)
from wainwright.core.scheduling.topology.groups import (
    AnyGroup,
    ConstraintKind,
    HostGroup,
    LabelGroup,
    NodeFilter,
)
from wainwright.core.scheduling.topology.registry import TopologyRegistry
from wainwright.model.bitset import BitSet, iter_bits, union
from wainwright.model.pod import ANY_NODE_TERMS, Pod

DecideDomain = Callable[[Draft, LabelGroup], "str | NoValue | None"]
"""Makes a draft settle on the group's label; UNDECIDED where that must wait for its launch."""


class Topology:
    """Answers where pods may go, and is told where they went."""

    def __init__(
        self,
        registry: TopologyRegistry,
        templates: Sequence[NodeClaimTemplate],
        nodes: ExistingNodes,
        table: DraftTable,
        stock: ReservationManager,
    ) -> None:
        self.registry = registry
        self._templates = templates
        self._nodes = nodes
        self._table = table
        self._reservation_manager = stock
        self.domains = Domains(registry.keys, nodes.nodes)
        self.decide: DecideDomain = _stays_undecided
        self._waiting_groups: dict[int, set[LabelGroup]] = {}
        """By draft: groups that would like to know what it settles on, and cannot yet."""
        self._pinned_cache: dict[str, tuple[BitSet, dict[str, BitSet]]] = {}
        self._values_round = -1
        self._values: dict[tuple[CompiledRequirements, str], list[str]] = {}
        """What new nodes could have, worked out once a round."""
        self._prepare()

    def allowed_domains(self, bound: TopologyConstraints) -> AllowedDomains | None:
        """What is left to one more pod of the bound; None where nothing is."""
        for group in bound.label_groups:
            if group.provisional_counts:
                self._remove_uncounted(group)
            if (
                group.undecided_drafts
                != group.deferred_drafts & self.domains.undecided_drafts[group.key]
            ):
                self._decide_drafts(group)
            if group.spread is not None:
                self.refresh(group)
                group.outside_drafts = (
                    self._outside_drafts(group) if group.counts_unreachable else 0
                )
        return allowed_domains(bound, self.domains)

    def drafts_with_affinity_pods(self, bound: TopologyConstraints) -> AllowedDomains | None:
        """What is left to a pod of drafts with those whom it wants to be near.

        None unless all of them are on drafts of this round that have not settled: on the same
        node it is near them, wherever that will be.
        """
        for number, (groups, _) in enumerate(bound.affinity):
            for group in groups:
                if isinstance(group, LabelGroup) and self._is_only_on_undecided(group):
                    near = group.undecided_drafts  # what comes next may have them settle after all
                    found = self.allowed_domains(bound.without_affinity(number))
                    return found if found is None else found.among(near)
        return None

    def _is_only_on_undecided(self, group: LabelGroup) -> bool:
        """Whether the group is somewhere, and it is quite open where."""
        floating = self.domains.undecided_drafts[group.key] & self._table.current
        return (
            bool(group.undecided_drafts)
            and not group.counts
            and not group.undecided_drafts & ~floating
        )

    def drafts_outside_spread(self, bound: TopologyConstraints) -> AllowedDomains | None:
        """What would be left to a pod of the one draft that keeps it off by where it may end.

        With the pod on it that cannot be; asked for after everything else.
        """
        groups = [group for group, _ in bound.spreads if group.outside_drafts]
        adrift = union(group.outside_drafts for group in groups)
        if not adrift or adrift & (adrift - 1):
            return None
        for group in groups:
            group.outside_drafts = 0
        found = allowed_domains(bound, self.domains)
        return found if found is None else found.among(adrift)

    def _outside_drafts(self, group: LabelGroup) -> BitSet:
        """Drafts that may become nodes where the group's pods cannot go, yet that count."""
        found = 0
        for number in iter_bits(self.domains.undecided_drafts[group.key] & self._table.current):
            draft = self._table.drafts[number]
            values = possible_values(draft.template, draft.compiled, group.key)
            if self._counts_draft(group, draft) and not set(values) <= set(group.domains):
                self._waiting_groups.setdefault(number, set()).add(group)
                found |= draft.bit
        return found

    def refresh_all(self) -> None:
        """Works out beforehand over which values pods are spread."""
        for group in self._label_groups():
            if group.spread is not None:
                self.refresh(group)

    def draft_opened(self, draft: Draft) -> None:
        self.domains.add_draft(draft)

    def draft_narrowed(self, draft: Draft) -> None:
        self.domains.draft_narrowed(draft)
        for group in self._waiting_groups.get(draft.number, ()):
            group.version += 1

    def count_on_draft(self, group: PodClass, draft: Draft) -> None:
        for each in group.counted_by:
            self._count_on_draft(each, draft)

    def count_on_node(self, group: PodClass, number: int) -> None:
        for each in group.counted_by:
            self._count_on_node(each, number)

    def end_round(self) -> None:
        """What could not settle has been pinned by now."""
        self._waiting_groups.clear()
        for group in self._label_groups():
            group.deferred_drafts = 0
            group.version += 1  # domains may have come or gone with the limits

    def _label_groups(self) -> Iterator[LabelGroup]:
        for group in self.registry.groups.values():
            if isinstance(group, LabelGroup):
                yield group

    def _prepare(self) -> None:
        for group in self.registry.groups.values():
            if group.filter is not None and not group.filter.is_trivial:
                group.nodes = self._matching_nodes(group.filter)
        for number, node in enumerate(self._nodes.nodes):
            for pod in node.pods:
                self._count_running(pod, number)

    def _count_running(self, pod: Pod, number: int) -> None:
        for group in self.registry.matching_groups(pod).counting:
            if not (pod.terminating and group.kind is ConstraintKind.SPREAD):
                self._count_on_node(group, number)
        for term in dict.fromkeys(pod.constraints.anti_affinity):
            self._count_on_node(self.registry.inverse_anti_affinity_group(term), number)

    def _count_on_node(self, group: AnyGroup, number: int) -> None:
        if not group.nodes >> number & 1:
            return
        if isinstance(group, HostGroup):
            group.add_node(number)
            return
        value = self._nodes.nodes[number].labels.get(group.key)
        if value is not None:
            group.add(value)

    def _count_on_draft(self, group: AnyGroup, draft: Draft) -> None:
        if not self._counts_draft(group, draft):
            return
        if isinstance(group, HostGroup):
            group.add_draft(draft.number)
            return
        if group.filter is not None and not group.filter.is_trivial:
            group.provisional_counts[draft.number] = (
                group.provisional_counts.get(draft.number, 0) + 1
            )
        value = self.domains.value(draft, group.key)
        if isinstance(value, str):
            group.add(value)
        elif value is NoValue.UNDECIDED:
            group.add_undecided(draft.number)

    def _remove_uncounted(self, group: LabelGroup) -> None:
        """Pods on drafts that have become something else than the nodes that count."""
        drafts = self._table.drafts
        for number in [
            n for n in group.provisional_counts if not self._counts_draft(group, drafts[n])
        ]:
            count = group.provisional_counts.pop(number)
            value = self.domains.value(drafts[number], group.key)
            if number in group.undecided_counts:
                group.decide(number, None)
            elif isinstance(value, str):
                group.add(value, -count)

    def _counts_draft(self, group: AnyGroup, draft: Draft) -> bool:
        """Whether nodes like the draft are among those that count."""
        wanted = group.filter
        if wanted is None or wanted.is_trivial:
            return True
        state = (draft.compiled, draft.pinned_type or draft.types, draft.pinned_group or draft.held)
        known = wanted.counts_cache.get(state)
        if known is None:
            known = wanted.counts_cache[state] = counts_draft(wanted, draft)
        return known

    def _decide_drafts(self, group: LabelGroup) -> None:
        """Has every draft with pods of the group settle on a value, so that they can be counted."""
        waiting = group.deferred_drafts & self.domains.undecided_drafts[group.key]
        for number in iter_bits(group.undecided_drafts ^ waiting):
            draft = self._table.drafts[number]
            value = self.domains.value(draft, group.key)
            if value is NoValue.UNDECIDED:
                decided = self.decide(draft, group)
                if decided is NoValue.UNDECIDED:
                    group.deferred_drafts |= draft.bit
                    self._waiting_groups.setdefault(number, set()).add(group)
                    continue
                value = NoValue.LABEL_ABSENT if decided is None else decided
                self.domains.decide(draft, group.key, value)
            group.decide(number, value if isinstance(value, str) else None)

    def refresh(self, group: LabelGroup) -> None:
        """The values that count for a spread: of standing nodes, and of what could be launched."""
        drafts = self.domains.drafts_by_value[group.key]
        stamp = (self._reservation_manager.round, len(drafts))
        if group.domains_version == stamp:
            return
        group.domains_version = stamp
        standing = self.domains.nodes_by_value[group.key].items()
        group.launchable = self._launchable_values(group)
        found = {value for value, rows in standing if rows & group.nodes} | group.launchable
        pinned = self._pinned_drafts(group.key)
        for value in {*drafts, *pinned} - found:
            if self._has_counted_draft(group, value, drafts.get(value, 0) | pinned.get(value, 0)):
                found.add(value)
        group.domains = tuple(sorted(found))
        group.version += 1

    def _launchable_values(self, group: LabelGroup) -> frozenset[str]:
        if self._values_round != self._reservation_manager.round:
            self._values_round, self._values = self._reservation_manager.round, {}
        found: set[str] = set()
        for narrowing, template in self._launchable(group):
            values = self._values.get((narrowing, group.key))
            if values is None:
                values = launchable_values(
                    template, narrowing, group.key, self._reservation_manager
                )
                self._values[narrowing, group.key] = values
            found.update(values)
        return frozenset(found)

    def _launchable(
        self, group: LabelGroup
    ) -> Sequence[tuple[CompiledRequirements, NodeClaimTemplate]]:
        wanted = group.filter or NodeFilter(None, None, None)
        if wanted.launchable is None:
            wanted.launchable = list(launchable(self._templates, wanted))
        return wanted.launchable

    def _pinned_drafts(self, key: str) -> dict[str, BitSet]:
        """Machines under way by the value they will have, where nobody made them settle on it."""
        done, found = self._pinned_cache.setdefault(key, (0, {}))
        new = self.domains.undecided_drafts[key] & self._table.inflight & ~done
        for number in iter_bits(new):
            draft = self._table.drafts[number]
            value = (
                launched_value(draft, draft.launch_choice, key)
                if draft.launch_choice is not None
                else None
            )
            if value is not None:
                found[value] = found.get(value, 0) | draft.bit
        self._pinned_cache[key] = (done | new, found)
        return found

    def _has_counted_draft(self, group: LabelGroup, value: str, rows: BitSet) -> bool:
        """Whether a draft that counts has the value, although nothing more can be launched."""
        wanted = group.filter.alternatives if group.filter is not None else None
        if wanted and not any(each.allowed(group.key).admits(value) for each in wanted):
            return False
        return any(self._counts_draft(group, self._table.drafts[each]) for each in iter_bits(rows))

    def _matching_nodes(self, wanted: NodeFilter) -> int:
        found = 0
        for each in wanted.alternatives or ANY_NODE_TERMS:
            found |= self._nodes.matching_labels(each)
        if wanted.tolerations is not None:
            found &= union(
                rows
                for taints, rows in self._nodes.by_taints.items()
                if tolerates_taints(taints, wanted.tolerations)
            )
        return found


def _stays_undecided(_draft: Draft, _group: LabelGroup) -> NoValue:
    return NoValue.UNDECIDED
