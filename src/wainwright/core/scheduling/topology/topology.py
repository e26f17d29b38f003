"""Topology: all topology groups of a plan, kept up to date as pods are placed."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from wainwright.core.scheduling.compiled_requirements import CompiledRequirements
from wainwright.core.scheduling.drafts import Draft, DraftTable
from wainwright.core.scheduling.existing_nodes import ExistingNodes
from wainwright.core.scheduling.forks import shallow_copy
from wainwright.core.scheduling.nodeclaim_template import NodeClaimTemplate
from wainwright.core.scheduling.pod_classes import PodClass
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
    surely_counts_draft,
)
from wainwright.core.scheduling.topology.groups import (
    AnyGroup,
    DividedGroups,
    HostGroup,
    LabelGroup,
    NodeFilter,
    TopologyKind,
)
from wainwright.core.scheduling.topology.registry import TopologyRegistry
from wainwright.core.scheduling.topology.topology_reasons import topology_reasons
from wainwright.model.bitset import BitSet, iter_bits, union
from wainwright.model.pod import ANY_NODE_TERMS, Pod
from wainwright.model.reasons import TopologyReason
from wainwright.model.snapshot import Node

MANY_GROUPS = 8
NO_VALUES: Final[frozenset[str]] = frozenset()
DecideDomain = Callable[[Draft, LabelGroup], "str | NoValue | None"]
"""Makes a draft decide on the group's label; UNDECIDED if that must wait for the end of the round.
"""


class Topology:
    """Computes where pods may go, and counts them where they were placed."""

    def __init__(
        self,
        registry: TopologyRegistry,
        templates: Sequence[NodeClaimTemplate],
        nodes: ExistingNodes,
        table: DraftTable,
        reservation_manager: ReservationManager,
    ) -> None:
        self.registry = registry
        self._templates = templates
        self._nodes = nodes
        self._table = table
        self._reservation_manager = reservation_manager
        self.domains = Domains(registry.keys, nodes.nodes)
        self.decision: Callable[[], DecideDomain | None] = _without_state
        """How drafts decide: a weak reference to what the state of this topology does."""
        self._waiting_groups: dict[int, set[LabelGroup]] = {}
        """By draft: groups whose counts depend on a decision that the draft cannot make yet."""
        self._pinned_cache: dict[str, tuple[BitSet, dict[str, BitSet]]] = {}
        """By key: the in-flight drafts that were looked at, and those of them by value. What they
        are launched as does not change any more, so that each is looked at once: without it every
        refresh of a group would look at all of them.
        """
        self._values_round = -1
        self._values: dict[tuple[CompiledRequirements, str], list[str]] = {}
        """Cache: the values that new nodes could have. Without it every refresh of a spread looks
        through the offerings of all NodePools. Valid for one round: later there are other limits
        and reservations.
        """
        self._forked_groups: dict[int, AnyGroup] | None = None
        """Of a fork: its own copies of the groups that it has changed, by their number."""
        self._forked_constraints: dict[int, TopologyConstraints] = {}
        self._divided_groups: dict[int, DividedGroups] = {}
        """By the identity of the groups that count a pod, where there are many."""
        self._ended_rounds = 0
        self._lost_domains: list[tuple[LabelGroup, str]] = []
        """Of a fork: spreads with a domain whose last node was removed."""
        self._leaving_domains: dict[int, set[str]] = {}
        """Of a fork: those that count until the node is gone, by the number of the group."""
        self._groups_by_node: list[tuple[AnyGroup, ...]] = []
        """For forks: the groups that count the pods of each node, once for each pod."""
        self._spread_groups = [each for each in self._label_groups() if each.spread is not None]
        self._spreads_by_label: dict[str, list[LabelGroup]] = {}
        """For forks: of thousands of spreads few are over a label that a node has."""
        for each in self._spread_groups:
            self._spreads_by_label.setdefault(each.key, []).append(each)
        self._prepare()

    def fork(
        self,
        nodes: ExistingNodes,
        table: DraftTable,
        templates: Sequence[NodeClaimTemplate],
        reservation_manager: ReservationManager,
    ) -> "Topology":
        """The same without the nodes that `nodes` lacks; groups are copied when they change.

        Only for a topology without drafts.
        """
        clone = shallow_copy(self)
        clone._nodes, clone._table, clone._templates = nodes, table, templates
        clone._reservation_manager = reservation_manager
        clone.domains = self.domains.fork()
        clone._waiting_groups, clone._pinned_cache = {}, {}
        clone._forked_groups, clone._forked_constraints = {}, {}
        clone._lost_domains, clone._leaving_domains = [], {}
        clone._remove_nodes(self._nodes.remaining ^ nodes.remaining)
        return clone

    def version_of(self, pod_class: PodClass) -> int:
        """Changes whenever something does that keeps pods of the class away from some place."""
        constraints = pod_class.first_constraints
        if constraints is None:
            return 0
        if self._forked_groups is None:
            return constraints.version
        return self._ended_rounds + self._own_constraints(constraints).version

    def allowed_domains(self, constraints: TopologyConstraints) -> AllowedDomains | None:
        """Where one more pod with these constraints may go; None if nowhere."""
        if self._forked_groups is not None:
            constraints = self._own_constraints(constraints)
        self._settle(constraints)
        return allowed_domains(constraints, self.domains)

    def spread_without_domain(self, constraints: TopologyConstraints) -> LabelGroup | None:
        """The last spread that allows no place, wherever other pods are; its domains are known."""
        for group, _ in reversed(constraints.spreads):
            own = group if self._forked_groups is None else self._own_group(group)
            assert isinstance(own, LabelGroup)
            if not own.domains:
                return group
        return None

    def why(self, constraints: TopologyConstraints) -> tuple[TopologyReason, ...]:
        """Every constraint that rules out some domain for one more such pod.

        Settled first: a pod that fits nowhere is not tried at all, so that its spreads may not know
        their domains yet.
        """
        if self._forked_groups is not None:
            constraints = self._own_constraints(constraints)
        self._settle(constraints)
        return topology_reasons(constraints, self._nodes.remaining)

    def _settle(self, constraints: TopologyConstraints) -> None:
        """Brings the counts and domains of all groups up to date."""
        for group in constraints.label_groups:
            if group.provisional_counts:
                self._remove_uncounted(group)
            if (
                group.undecided_drafts
                != group.deferred_drafts & self.domains.undecided_drafts[group.key]
            ):
                self._decide_drafts(group)
            if group.spread is not None:
                if group.provisional_counts or group.uncertain_counts:
                    group.uncertain_counts = self._uncertain_counts(group)
                self.refresh(group)
                group.outside_drafts = (
                    self._outside_drafts(group) if group.counts_unreachable else 0
                )

    def drafts_with_affinity_pods(self, constraints: TopologyConstraints) -> AllowedDomains | None:
        """The drafts on which all pods are that the pod wants to be near.

        None unless they are all on undecided drafts of this round: on the same node the pod is near
        them, whatever domain that will be.
        """
        if self._forked_groups is not None:
            constraints = self._own_constraints(constraints)
        for number, (groups, _) in enumerate(constraints.affinity):
            for group in groups:
                if isinstance(group, LabelGroup) and self._is_only_on_undecided(group):
                    # Read before the next call, which may make these drafts decide after all.
                    drafts = group.undecided_drafts
                    allowed = self.allowed_domains(constraints.without_affinity(number))
                    return allowed if allowed is None else allowed.among(drafts)
        return None

    def _is_only_on_undecided(self, group: LabelGroup) -> bool:
        """Whether all pods of the group are on undecided drafts of this round."""
        undecided = self.domains.undecided_drafts[group.key] & self._table.current
        return (
            bool(group.undecided_drafts)
            and not group.counts
            and not group.undecided_drafts & ~undecided
        )

    def drafts_outside_spread(self, constraints: TopologyConstraints) -> AllowedDomains | None:
        """The one draft that excludes the pod because it could end up outside the domains.

        With the pod on it that is no longer possible. Tried after everything else.
        """
        if self._forked_groups is not None:
            constraints = self._own_constraints(constraints)
        groups = [group for group, _ in constraints.spreads if group.outside_drafts]
        outside = union(group.outside_drafts for group in groups)
        if not outside or outside & (outside - 1):
            return None
        for group in groups:
            group.outside_drafts = 0
        allowed = allowed_domains(constraints, self.domains)
        return allowed if allowed is None else allowed.among(outside)

    def _outside_drafts(self, group: LabelGroup) -> BitSet:
        """Undecided drafts that count, but could become nodes where the group's pods cannot go."""
        drafts = 0
        for number in iter_bits(self.domains.undecided_drafts[group.key] & self._table.current):
            draft = self._table.drafts[number]
            values = possible_values(draft.template, draft.compiled, group.key)
            if self._counts_draft(group, draft) and not set(values) <= set(group.domains):
                self._waiting_groups.setdefault(number, set()).add(group)
                drafts |= draft.bit
        return drafts

    def refresh_all(self) -> None:
        """Computes the domains of all spreads beforehand."""
        for group in self._spread_groups:
            self.refresh(group)

    def prepare_forks(self) -> None:
        """Computes once what every fork needs: the domains of spreads, and which groups count the
        pods of each node, which are to be removed with it.
        """
        self.refresh_all()
        self._groups_by_node = [
            self._groups_on_node(number, node) for number, node in enumerate(self._nodes.nodes)
        ]

    def _groups_on_node(self, number: int, node: Node) -> tuple[AnyGroup, ...]:
        """The groups that count the pods of the node, once for each pod."""
        groups = (group for pod in node.pods for group in self._groups_counting(pod))
        return tuple(group for group in groups if group.nodes >> number & 1)

    def replace_node(self, number: int) -> set[int]:
        """The node has other pods now; returns the numbers of the groups whose counts changed.

        After `prepare_forks`, and not for forks.
        """
        before, node = self._groups_by_node[number], self._nodes.nodes[number]
        after = self._groups_on_node(number, node)
        for group in before:
            if isinstance(group, HostGroup):
                group.remove_from_node(number)
            elif group.key in node.labels:
                group.add(node.labels[group.key], -1)
        for group in after:
            self._count_on_node(group, number)
        self._groups_by_node[number] = after
        changed = Counter(each.number for each in after)
        changed.subtract(each.number for each in before)
        return {number for number, count in changed.items() if count}

    def draft_opened(self, draft: Draft) -> None:
        self.domains.add_draft(draft)

    def draft_narrowed(self, draft: Draft) -> None:
        self.domains.draft_narrowed(draft)
        for group in self._waiting_groups.get(draft.number, ()):
            group.version += 1

    def count_on_draft(self, pod_class: PodClass, draft: Draft) -> None:
        groups = pod_class.counted_by
        if self._forked_groups is not None:
            groups = tuple(map(self._own_group, groups))
        elif len(groups) > MANY_GROUPS:
            groups = self._count_together(groups, draft)
        for each in groups:
            self._count_on_draft(each, draft)

    def _count_together(self, groups: tuple[AnyGroup, ...], draft: Draft) -> tuple[AnyGroup, ...]:
        """Counts in most groups that count every node; returns the others that count this draft.

        The draft's value is the same for all of one label, and whether it counts for all of one
        filter: where thousands of selectors select every pod, this saves finding it out for each.
        """
        divided = self._divided_groups.get(id(groups))
        if divided is None:
            divided = self._divided_groups[id(groups)] = DividedGroups(groups)
        for key, same in divided.by_label.items():
            value = self.domains.value(draft, key)
            if isinstance(value, str):
                for group in same:
                    counts = group.counts
                    counts[value] = counts.get(value, 0) + 1
                    group.version += 1
            elif value is NoValue.UNDECIDED:
                for group in same:
                    group.add_undecided(draft.number)
        for single in divided.singles:
            single.fill_draft(draft.bit)
        filtered = (
            same for each, same in divided.by_filter.items() if self._counts_for(each, draft)
        )
        return tuple(chain(divided.others, *filtered))

    def count_on_node(self, pod_class: PodClass, number: int) -> None:
        for each in pod_class.counted_by:
            self._count_on_node(self._own_group(each), number)

    def end_round(self) -> None:
        """All undecided drafts are pinned by now."""
        self._waiting_groups.clear()
        self._ended_rounds += 1
        for group in self._label_groups():
            group.deferred_drafts = 0
            group.version += 1  # limits may have added or removed domains

    def _label_groups(self) -> Iterator[LabelGroup]:
        """Of a fork only its own: the others are as they were."""
        forked = self._forked_groups
        groups = self.registry.groups.values() if forked is None else forked.values()
        for group in groups:
            if isinstance(group, LabelGroup):
                yield group

    def _own_group(self, group: AnyGroup) -> AnyGroup:
        """The group itself, or the fork's copy of it."""
        forked = self._forked_groups
        if forked is None:
            return group
        own = forked.get(group.number)
        if own is None:
            own = forked[group.number] = group.fork()
        return own

    def _own_constraints(self, constraints: TopologyConstraints) -> TopologyConstraints:
        """The same constraints on groups of the fork, all of them copied.

        Reading a spread may update its domains, and a constraint that is resolved once for all its
        groups stays valid while pods are counted: most pods of a simulation share few of them.
        """
        own = self._forked_constraints.get(id(constraints))
        if own is None:
            own = constraints.on_groups(self._own_group)
            self._forked_constraints[id(constraints)] = own
            self._forked_constraints[id(own)] = own
        return own

    def _remove_nodes(self, removed: BitSet) -> None:
        for number in iter_bits(removed):
            labels = self._nodes.nodes[number].labels
            for group in self._groups_by_node[number]:
                self._remove_from(group, labels)
            for spread in chain(*(self._spreads_by_label.get(key, ()) for key in labels)):
                if self._has_lost_domain(spread, number):
                    own = self._own_group(spread)
                    assert isinstance(own, LabelGroup)
                    own.domains_version = None
                    self._lost_domains.append((own, labels[own.key]))

    def count_leaving_nodes(self) -> None:
        """Of a fork: the domains of removed nodes count until these are gone, as they do for the
        kube-scheduler while a node is drained; not where tainted nodes do not count.
        """
        for group, value in self._lost_domains:
            spread = group.spread
            if spread is not None and spread.required and not spread.honor_taints:
                self._leaving_domains.setdefault(group.number, set()).add(value)

    def _remove_from(self, group: AnyGroup, labels: Mapping[str, str]) -> None:
        own = self._own_group(group)
        if isinstance(own, HostGroup):
            own.remove_one()
        elif own.key in labels:
            own.add(labels[own.key], -1)

    def _has_lost_domain(self, group: LabelGroup, number: int) -> bool:
        """Whether the removed node was the last of its domain, and no new node could have it."""
        value = self._nodes.nodes[number].labels[group.key]
        if value in group.launchable:
            return False
        counted = self.domains.nodes_by_value[group.key][value] & group.nodes
        return bool(counted >> number & 1) and not counted & self._nodes.remaining

    def _prepare(self) -> None:
        matching: dict[NodeFilter, BitSet] = {}
        for group in self.registry.groups.values():
            node_filter = group.filter
            if node_filter is not None and not node_filter.is_trivial:
                if node_filter not in matching:
                    matching[node_filter] = self._matching_nodes(node_filter)
                group.nodes = matching[node_filter]
        for number, node in enumerate(self._nodes.nodes):
            for pod in node.pods:
                self._count_running(pod, number)

    def _count_running(self, pod: Pod, number: int) -> None:
        for group in self._groups_counting(pod):
            self._count_on_node(group, number)

    def _groups_counting(self, pod: Pod) -> Iterator[AnyGroup]:
        """The groups that count a running pod; terminating ones do not count for spreads."""
        for group in self.registry.matching_groups(pod).counting:
            if not (pod.terminating and group.kind is TopologyKind.SPREAD):
                yield group
        for term in dict.fromkeys(pod.constraints.anti_affinity):
            yield self.registry.inverse_anti_affinity_group(term)

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
        """Removes pods on drafts that have become nodes that do not count."""
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

    def _uncertain_counts(self, group: LabelGroup) -> dict[str, int]:
        """By value the pods on drafts that could still become nodes that do not count."""
        found: dict[str, int] = {}
        if not group.counts:
            return found
        for number, count in group.provisional_counts.items():
            draft = self._table.drafts[number]
            if number not in group.undecided_counts and not self._surely_counts(group, draft):
                value = self.domains.value(draft, group.key)
                if isinstance(value, str):
                    found[value] = found.get(value, 0) + count
        return found

    def _surely_counts(self, group: LabelGroup, draft: Draft) -> bool:
        assert group.filter is not None
        cache, state = group.filter.surely_counts_cache, _narrowed_state(draft)
        counts = cache.get(state)
        if counts is None:
            counts = cache[state] = surely_counts_draft(group.filter, draft)
        return counts

    def _counts_draft(self, group: AnyGroup, draft: Draft) -> bool:
        """Whether nodes like the draft count for the group."""
        node_filter = group.filter
        return node_filter is None or node_filter.is_trivial or self._counts_for(node_filter, draft)

    def _counts_for(self, node_filter: NodeFilter, draft: Draft) -> bool:
        state = _narrowed_state(draft)
        counts = node_filter.counts_cache.get(state)
        if counts is None:
            counts = node_filter.counts_cache[state] = counts_draft(node_filter, draft)
        return counts

    def _decide_drafts(self, group: LabelGroup) -> None:
        """Makes every draft with pods of the group decide on a value, so that pods are counted."""
        decide = self.decision()
        assert decide is not None, "a topology is used by its state alone"
        deferred = group.deferred_drafts & self.domains.undecided_drafts[group.key]
        for number in iter_bits(group.undecided_drafts ^ deferred):
            draft = self._table.drafts[number]
            value = self.domains.value(draft, group.key)
            if value is NoValue.UNDECIDED:
                decided = decide(draft, group)
                if decided is NoValue.UNDECIDED:
                    group.deferred_drafts |= draft.bit
                    self._waiting_groups.setdefault(number, set()).add(group)
                    continue
                value = NoValue.LABEL_ABSENT if decided is None else decided
                self.domains.decide(draft, group.key, value)
            group.decide(number, value if isinstance(value, str) else None)

    def refresh(self, group: LabelGroup) -> None:
        """Updates the domains of a spread: those of existing nodes and of possible launches."""
        drafts = self.domains.drafts_by_value[group.key]
        version = (self._reservation_manager.round, len(drafts))
        if group.domains_version == version:
            return
        group.domains_version = version
        nodes_by_value = self.domains.nodes_by_value[group.key].items()
        group.launchable = self._launchable_values(group)
        counted = group.nodes & self._nodes.remaining
        values = {value for value, nodes in nodes_by_value if nodes & counted} | group.launchable
        values |= self._leaving_domains.get(group.number, NO_VALUES)
        pinned = self._pinned_drafts(group.key)
        for value in {*drafts, *pinned} - values:
            if self._has_counted_draft(group, value, drafts.get(value, 0) | pinned.get(value, 0)):
                values.add(value)
        group.domains = tuple(sorted(values))
        group.version += 1

    def _launchable_values(self, group: LabelGroup) -> frozenset[str]:
        if self._values_round != self._reservation_manager.round:
            self._values_round, self._values = self._reservation_manager.round, {}
        all_values: set[str] = set()
        for compiled, base_template in self._launchable(group):
            values = self._values.get((compiled, group.key))
            if values is None:
                template = self._templates[base_template.number]  # with the limits of this fork
                values = launchable_values(template, compiled, group.key, self._reservation_manager)
                self._values[compiled, group.key] = values
            all_values.update(values)
        return frozenset(all_values)

    def _launchable(
        self, group: LabelGroup
    ) -> Sequence[tuple[CompiledRequirements, NodeClaimTemplate]]:
        node_filter = group.filter or NodeFilter(None, None, None)
        if node_filter.launchable is None:
            node_filter.launchable = list(launchable(self._templates, node_filter))
        return node_filter.launchable

    def _pinned_drafts(self, key: str) -> dict[str, BitSet]:
        """In-flight drafts that no group made decide, by the value they will be launched with."""
        done, by_value = self._pinned_cache.setdefault(key, (0, {}))
        new = self.domains.undecided_drafts[key] & self._table.inflight & ~done
        for number in iter_bits(new):
            draft = self._table.drafts[number]
            value = (
                launched_value(draft, draft.launch_choice, key)
                if draft.launch_choice is not None
                else None
            )
            if value is not None:
                by_value[value] = by_value.get(value, 0) | draft.bit
        self._pinned_cache[key] = (done | new, by_value)
        return by_value

    def _has_counted_draft(self, group: LabelGroup, value: str, drafts: BitSet) -> bool:
        """Whether a draft that counts has the value, though no further node can launch there."""
        node_terms = group.filter.alternatives if group.filter is not None else None
        if node_terms and not any(each.allowed(group.key).admits(value) for each in node_terms):
            return False
        return any(
            self._counts_draft(group, self._table.drafts[each]) for each in iter_bits(drafts)
        )

    def _matching_nodes(self, node_filter: NodeFilter) -> int:
        matching = 0
        for each in node_filter.alternatives or ANY_NODE_TERMS:
            matching |= self._nodes.labels.admits(each)
        if node_filter.tolerations is not None:
            matching &= self._nodes.taints.admits_without_preferences(node_filter.tolerations)
        return matching


def _narrowed_state(draft: Draft) -> tuple[object, ...]:
    """What whether a draft counts depends on: one that holds a reservation may become a node
    outside it, until it is pinned to the reservation.
    """
    if draft.pinned_type:
        return draft.compiled, draft.pinned_type, draft.pinned_group
    return draft.compiled, draft.types, draft.held, draft.reserved_types


def _without_state() -> DecideDomain:
    return _stays_undecided


def _stays_undecided(_draft: Draft, _group: LabelGroup) -> NoValue:
    return NoValue.UNDECIDED
