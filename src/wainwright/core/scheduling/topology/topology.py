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
        self._stock = stock
        self.domains = Domains(registry.keys, nodes.nodes)
        self.decide: DecideDomain = _stays_undecided
        self._waiting: dict[int, set[LabelGroup]] = {}
        """By draft: groups that would like to know what it settles on, and cannot yet."""
        self._pinned_by: dict[str, tuple[BitSet, dict[str, BitSet]]] = {}
        self._era = -1
        self._values: dict[tuple[CompiledRequirements, str], list[str]] = {}
        """What new nodes could have, worked out once a round."""
        self._prepare()

    def restriction(self, bound: TopologyConstraints) -> AllowedDomains | None:
        """What is left to one more pod of the bound; None where nothing is."""
        for group in bound.labels:
            if group.doubtful:
                self._reconsider(group)
            if group.undecided != group.stuck & self.domains.undecided[group.key]:
                self._resolve(group)
            if group.spread is not None:
                self.refresh(group)
                group.adrift = self._adrift(group) if group.roams else 0
        return allowed_domains(bound, self.domains)

    def company(self, bound: TopologyConstraints) -> AllowedDomains | None:
        """What is left to a pod of drafts with those whom it wants to be near.

        None unless all of them are on drafts of this round that have not settled: on the same
        node it is near them, wherever that will be.
        """
        for number, (groups, _) in enumerate(bound.near):
            for group in groups:
                if isinstance(group, LabelGroup) and self._is_afloat(group):
                    near = group.undecided  # what comes next may have them settle after all
                    found = self.restriction(bound.met(number))
                    return found if found is None else found.among(near)
        return None

    def _is_afloat(self, group: LabelGroup) -> bool:
        """Whether the group is somewhere, and it is quite open where."""
        floating = self.domains.undecided[group.key] & self._table.current
        return bool(group.undecided) and not group.counts and not group.undecided & ~floating

    def steering(self, bound: TopologyConstraints) -> AllowedDomains | None:
        """What would be left to a pod of the one draft that keeps it off by where it may end.

        With the pod on it that cannot be; asked for after everything else.
        """
        groups = [group for group, _ in bound.spreads if group.adrift]
        adrift = union(group.adrift for group in groups)
        if not adrift or adrift & (adrift - 1):
            return None
        for group in groups:
            group.adrift = 0
        found = allowed_domains(bound, self.domains)
        return found if found is None else found.among(adrift)

    def _adrift(self, group: LabelGroup) -> BitSet:
        """Drafts that may become nodes where the group's pods cannot go, yet that count."""
        found = 0
        for number in iter_bits(self.domains.undecided[group.key] & self._table.current):
            draft = self._table.drafts[number]
            values = possible_values(draft.template, draft.narrowing, group.key)
            if self._counts(group, draft) and not set(values) <= set(group.domains):
                self._waiting.setdefault(number, set()).add(group)
                found |= draft.bit
        return found

    def refresh_all(self) -> None:
        """Works out beforehand over which values pods are spread."""
        for group in self._labels():
            if group.spread is not None:
                self.refresh(group)

    def opened(self, draft: Draft) -> None:
        self.domains.enter(draft)

    def narrowed(self, draft: Draft) -> None:
        self.domains.narrowed(draft)
        for group in self._waiting.get(draft.number, ()):
            group.version += 1

    def put_on_draft(self, group: PodClass, draft: Draft) -> None:
        for each in group.counted:
            self._count_on_draft(each, draft)

    def put_on_node(self, group: PodClass, number: int) -> None:
        for each in group.counted:
            self._count_on_node(each, number)

    def end_round(self) -> None:
        """What could not settle has been pinned by now."""
        self._waiting.clear()
        for group in self._labels():
            group.stuck = 0
            group.version += 1  # domains may have come or gone with the limits

    def _labels(self) -> Iterator[LabelGroup]:
        for group in self.registry.groups.values():
            if isinstance(group, LabelGroup):
                yield group

    def _prepare(self) -> None:
        for group in self.registry.groups.values():
            if group.filter is not None and not group.filter.trivial:
                group.nodes = self._matching_nodes(group.filter)
        for number, node in enumerate(self._nodes.nodes):
            for pod in node.pods:
                self._count_running(pod, number)

    def _count_running(self, pod: Pod, number: int) -> None:
        for group in self.registry.standing(pod).counted:
            if not (pod.terminating and group.kind is ConstraintKind.SPREAD):
                self._count_on_node(group, number)
        for term in dict.fromkeys(pod.constraints.anti_affinity):
            self._count_on_node(self.registry.shunned(term), number)

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
        if not self._counts(group, draft):
            return
        if isinstance(group, HostGroup):
            group.add_draft(draft.number)
            return
        if group.filter is not None and not group.filter.trivial:
            group.doubtful[draft.number] = group.doubtful.get(draft.number, 0) + 1
        value = self.domains.value(draft, group.key)
        if isinstance(value, str):
            group.add(value)
        elif value is NoValue.UNDECIDED:
            group.postpone(draft.number)

    def _reconsider(self, group: LabelGroup) -> None:
        """Pods on drafts that have become something else than the nodes that count."""
        drafts = self._table.drafts
        for number in [n for n in group.doubtful if not self._counts(group, drafts[n])]:
            count = group.doubtful.pop(number)
            value = self.domains.value(drafts[number], group.key)
            if number in group.pending:
                group.settle(number, None)
            elif isinstance(value, str):
                group.add(value, -count)

    def _counts(self, group: AnyGroup, draft: Draft) -> bool:
        """Whether nodes like the draft are among those that count."""
        wanted = group.filter
        if wanted is None or wanted.trivial:
            return True
        state = (draft.narrowing, draft.pinned or draft.rows, draft.pinned_market or draft.held)
        known = wanted.takes.get(state)
        if known is None:
            known = wanted.takes[state] = counts_draft(wanted, draft)
        return known

    def _resolve(self, group: LabelGroup) -> None:
        """Has every draft with pods of the group settle on a value, so that they can be counted."""
        waiting = group.stuck & self.domains.undecided[group.key]
        for number in iter_bits(group.undecided ^ waiting):
            draft = self._table.drafts[number]
            value = self.domains.value(draft, group.key)
            if value is NoValue.UNDECIDED:
                decided = self.decide(draft, group)
                if decided is NoValue.UNDECIDED:
                    group.stuck |= draft.bit
                    self._waiting.setdefault(number, set()).add(group)
                    continue
                value = NoValue.LACKING if decided is None else decided
                self.domains.decide(draft, group.key, value)
            group.settle(number, value if isinstance(value, str) else None)

    def refresh(self, group: LabelGroup) -> None:
        """The values that count for a spread: of standing nodes, and of what could be launched."""
        drafts = self.domains.of_drafts[group.key]
        stamp = (self._stock.era, len(drafts))
        if group.stamp == stamp:
            return
        group.stamp = stamp
        standing = self.domains.of_nodes[group.key].items()
        group.launchable = self._launchable_values(group)
        found = {value for value, rows in standing if rows & group.nodes} | group.launchable
        pinned = self._pinned(group.key)
        for value in {*drafts, *pinned} - found:
            if self._stands(group, value, drafts.get(value, 0) | pinned.get(value, 0)):
                found.add(value)
        group.domains = tuple(sorted(found))
        group.version += 1

    def _launchable_values(self, group: LabelGroup) -> frozenset[str]:
        if self._era != self._stock.era:
            self._era, self._values = self._stock.era, {}
        found: set[str] = set()
        for narrowing, template in self._launchable(group):
            values = self._values.get((narrowing, group.key))
            if values is None:
                values = launchable_values(template, narrowing, group.key, self._stock)
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

    def _pinned(self, key: str) -> dict[str, BitSet]:
        """Machines under way by the value they will have, where nobody made them settle on it."""
        done, found = self._pinned_by.setdefault(key, (0, {}))
        new = self.domains.undecided[key] & self._table.settled & ~done
        for number in iter_bits(new):
            draft = self._table.drafts[number]
            value = launched_value(draft, draft.buy, key) if draft.buy is not None else None
            if value is not None:
                found[value] = found.get(value, 0) | draft.bit
        self._pinned_by[key] = (done | new, found)
        return found

    def _stands(self, group: LabelGroup, value: str, rows: BitSet) -> bool:
        """Whether a draft that counts has the value, although nothing more can be launched."""
        wanted = group.filter.alternatives if group.filter is not None else None
        if wanted and not any(each.allowed(group.key).admits(value) for each in wanted):
            return False
        return any(self._counts(group, self._table.drafts[each]) for each in iter_bits(rows))

    def _matching_nodes(self, wanted: NodeFilter) -> int:
        found = 0
        for each in wanted.alternatives or ANY_NODE_TERMS:
            found |= self._nodes.labelled(each)
        if wanted.tolerations is not None:
            found &= union(
                rows
                for taints, rows in self._nodes.by_taints.items()
                if tolerates_taints(taints, wanted.tolerations)
            )
        return found


def _stays_undecided(_draft: Draft, _group: LabelGroup) -> NoValue:
    return NoValue.UNDECIDED
