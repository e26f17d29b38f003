"""Topology constraints: pods counted by domain, from scratch each time, and the domains that
spread, affinity and anti-affinity allow.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from enum import Enum, auto
from functools import partial
from itertools import product
from typing import TypeAlias

import msgspec
from tests.support.reference_planner.first_fit import ReferenceDraft
from tests.support.reference_planner.new_nodes import TOLERANT_POD, launched_label, possible_values
from tests.support.reference_planner.offerings import available_offerings, is_offering_compatible
from tests.support.reference_planner.relaxation import RelaxedPod

from wainwright.model.labels import HOSTNAME, WELL_KNOWN_LABELS
from wainwright.model.pod import ANY_NODE_TERMS, AffinityTerm, Pod, TopologySpread
from wainwright.model.requirements import (
    ANY_VALUE,
    NO_VALUE,
    Requirement,
    Requirements,
    ValueSet,
    none_of,
    one_of,
)
from wainwright.model.snapshot import Node
from wainwright.model.taints import PREFER_NO_SCHEDULE, find_untolerated_taint


class UndecidedValue(Enum):
    UNDECIDED = auto()
    LACKING = auto()


NodeOrDraft: TypeAlias = Node | ReferenceDraft
CountPredicate: TypeAlias = Callable[[NodeOrDraft, Pod], bool]
"""Whether a pod on that node is counted."""


class DomainCounts(msgspec.Struct, frozen=True):
    """The number of matching pods by the values of a label."""

    known: Counter[str]
    undecided: tuple[ReferenceDraft, ...] = ()
    """Drafts with such pods that have no value yet."""
    open: int = 0
    """The number of matching pods on undecided drafts."""

    @property
    def anywhere(self) -> bool:
        return bool(self.known or self.undecided)


class PodPlacements:
    """Every node and draft with its pods; the planner keeps it up to date."""

    def __init__(self) -> None:
        self.occupied: list[tuple[NodeOrDraft, list[Pod]]] = []
        self._settled: dict[tuple[int, str], str | UndecidedValue] = {}

    def settle(self, draft: ReferenceDraft, key: str, value: str | None) -> None:
        """From now on the draft has this value of the label, or will never have one."""
        self._settled[id(draft), key] = UndecidedValue.LACKING if value is None else value

    def label(self, place: NodeOrDraft, key: str) -> str | UndecidedValue:
        if isinstance(place, Node):
            return place.labels.get(key, UndecidedValue.LACKING)
        if (id(place), key) in self._settled:
            return self._settled[id(place), key]
        if place.asked.allowed(key).is_empty:
            return UndecidedValue.LACKING
        if key not in place.asked and key not in place.catalog.known:
            return UndecidedValue.LACKING
        return place.asked.single_value(key) or UndecidedValue.UNDECIDED

    def by_value(self, key: str, counts: CountPredicate) -> DomainCounts:
        """The number of counted pods by domain."""
        known: Counter[str] = Counter()
        undecided, undecided_pods = [], 0
        for place, pods in self.occupied:
            here, value = sum(counts(place, pod) for pod in pods), self.label(place, key)
            if here and isinstance(value, str):
                known[value] += here
            elif here and value is UndecidedValue.UNDECIDED and isinstance(place, ReferenceDraft):
                undecided.append(place)
                undecided_pods += here
        return DomainCounts(known, tuple(undecided), undecided_pods)

    def on(self, place: NodeOrDraft, counts: CountPredicate) -> int:
        pods = next(pods for each, pods in self.occupied if each is place)
        return sum(counts(place, pod) for pod in pods)

    def anywhere(self, key: str, counts: CountPredicate, *, host: bool) -> bool:
        """Whether any such pod is on a node with the label."""
        if host:
            return any(self.on(place, counts) for place, _ in self.occupied)
        return self.by_value(key, counts).anywhere

    def values(self, want: RelaxedPod, spread: TopologySpread) -> set[str]:
        """The values of the label on the nodes that the spread counts.
        A launching node that is undecided has the value of its launch.
        """
        found: set[str | UndecidedValue | None] = set()
        for place, _ in self.occupied:
            if self.is_looked_at(place, want, spread):
                value: str | UndecidedValue | None = self.label(place, spread.key)
                if (
                    value is UndecidedValue.UNDECIDED
                    and isinstance(place, ReferenceDraft)
                    and place.launch
                ):
                    value = launched_label(place, place.launch, spread.key)
                found.add(value)
        return {value for value in found if isinstance(value, str)}

    def is_spread(
        self, place: NodeOrDraft, pod: Pod, want: RelaxedPod, spread: TopologySpread
    ) -> bool:
        """Whether the spread counts the pod on that node."""
        alike = pod.namespace == want.pod.namespace and spread.selector.selects(pod.labels)
        leaving = isinstance(place, Node) and pod.terminating
        return alike and not leaving and self.is_looked_at(place, want, spread)

    def is_surely_spread(
        self, place: NodeOrDraft, pod: Pod, want: RelaxedPod, spread: TopologySpread
    ) -> bool:
        """The same, of nodes that count whatever is launched."""
        sure = (
            not isinstance(place, ReferenceDraft)
            or place.launch is not None
            or not spread.honor_affinity
            or any(_will_become(place, each) for each in want.asked)
        )
        return sure and self.is_spread(place, pod, want, spread)

    def is_looked_at(self, place: NodeOrDraft, want: RelaxedPod, spread: TopologySpread) -> bool:
        """Whether the spread counts the node."""
        lacking = [
            key
            for key in required_topology_keys(want, spread)
            if self.label(place, key) is UndecidedValue.LACKING
        ]
        if isinstance(place, Node):
            taints = place.effective_taints
            wanted = any(_node_matches(place, each) for each in want.asked)
        else:
            taints = place.catalog.pool.taints
            wanted = any(_may_become(place, each) for each in want.asked)
        binding = [taint for taint in taints if taint.effect != PREFER_NO_SCHEDULE]
        tolerated = find_untolerated_taint(binding, want.pod.tolerations) is None
        fine = (wanted or not spread.honor_affinity) and (tolerated or not spread.honor_taints)
        return fine and not lacking

    def anti_affinity_terms_against(self, pod: Pod) -> Iterator[AffinityTerm]:
        """The anti-affinity terms of scheduled pods that match this one."""
        found: dict[AffinityTerm, None] = {}
        for _, pods in self.occupied:
            for other in pods:
                found |= dict.fromkeys(
                    t for t in other.constraints.anti_affinity if matches_all_terms((t,), pod)
                )
        return iter(found)


def matches_all_terms(terms: tuple[AffinityTerm, ...], pod: Pod) -> bool:
    """Whether all of the terms match the pod."""
    return all(term.matches(pod.namespace, pod.labels) for term in terms)


def required_topology_keys(want: RelaxedPod, spread: TopologySpread) -> set[str]:
    """Labels without which a node is not counted by the pod's required spreads."""
    binding = {each.key for each in want.pod.constraints.spreads if each.required}
    return binding - {HOSTNAME, spread.key} if spread.required else set()


def _may_become(draft: ReferenceDraft, wanted: Requirements) -> bool:
    """Whether the draft may still meet the requirements, or will be launched so."""
    asked = draft.catalog.joined(draft.asked, TOLERANT_POD, wanted)
    if asked is None:
        return False
    if draft.launch is None:
        return any(
            draft.catalog.admits(k, asked) and available_offerings(k, asked, draft.held)
            for k in draft.types
        )
    kind, offering = draft.launch
    return draft.catalog.admits(kind, asked) and is_offering_compatible(kind, offering, asked)


def _will_become(draft: ReferenceDraft, wanted: Requirements) -> bool:
    """Whether the draft will meet the requirements, whatever is launched of it."""
    asked = draft.catalog.joined(draft.asked, TOLERANT_POD, wanted)
    if asked is None:
        return False
    offered = {
        key
        for kind in draft.catalog.types
        for requirements in (kind.requirements, *(each.requirements for each in kind.offerings))
        for key in requirements
    }
    return all(
        draft.catalog.admits(kind, asked)
        and available_offerings(kind, asked, draft.held)
        == available_offerings(kind, draft.asked, draft.held)
        for kind in draft.types
    ) and all(
        asked.allowed(key) == draft.asked.allowed(key) for key in wanted if key not in offered
    )


def _node_matches(node: Node, wanted: Requirements) -> bool:
    return Requirements.from_labels(node.labels).is_compatible(wanted)


class AllowedDomains:
    def __init__(
        self,
        pod_placements: PodPlacements,
        want: RelaxedPod,
        launchable: Callable[[TopologySpread], Iterable[str]],
        *,
        steered: bool = False,
    ) -> None:
        self._pod_placements = pod_placements
        self._want = want
        self._allowed: dict[str, ValueSet] = {}
        self._optional: dict[str, bool] = {}
        """Whether a node without the label is allowed as well."""
        self._ranked: dict[str, dict[str, int]] = {}
        """The allowed values of a spread's label, with their pod counts."""
        self._hosts: list[Callable[[NodeOrDraft], bool]] = []
        self.undecided_drafts: list[ReferenceDraft] = []
        """Drafts that may end in a domain that violates a spread, unless they are restricted."""
        self.near_a_place = False
        """Whether only a domain that has matching pods already is allowed."""
        for key in want.there:
            self._narrow(key, ANY_VALUE, optional=False)
        for terms in want.near:
            self._near(terms)
        for term in want.away:
            self._away(term, partial(_is_matched, (term,)))
        for term in pod_placements.anti_affinity_terms_against(want.pod):
            self._away(term, partial(_has_anti_affinity, term))
        for spread in want.spreads:
            self._spread(spread, launchable, steered=steered)

    def admits(self, place: NodeOrDraft) -> bool:
        """Whether the node is allowed as it is, or the draft can be restricted so that it is."""
        labels = {key: self._pod_placements.label(place, key) for key in self._allowed}
        fine = all(self._is_fine(key, value) for key, value in labels.items())
        return fine and all(check(place) for check in self._hosts)

    def is_undecided(self, draft: ReferenceDraft) -> bool:
        return any(
            self._pod_placements.label(draft, key) is UndecidedValue.UNDECIDED
            for key in self._allowed
        )

    def _is_fine(self, key: str, value: str | UndecidedValue) -> bool:
        if isinstance(value, str):
            return self._allowed[key].admits(value)
        if value is UndecidedValue.LACKING:
            return self._optional[key]
        return not self._allowed[key].is_empty

    def options(self) -> list[tuple[Requirements, list[int]]]:
        """The label values for a new node or an undecided draft, fewest pods first.
        With the rank of each value by its count, label by label; equal counts have equal ranks.
        """
        keys = list(self._allowed)
        ranked = sorted(
            product(*map(self._choices, keys)), key=lambda each: _option_rank(_domain_counts(each))
        )
        return [
            (self._asked(dict(zip(keys, each, strict=True))), _domain_counts(each))
            for each in ranked
        ]

    def _asked(self, chosen: dict[str, tuple[int, ValueSet]]) -> Requirements:
        return Requirements(
            Requirement(key=key, allowed=allowed)
            for key, (_, allowed) in chosen.items()
            if self._says_something(key, allowed)
        )

    def _choices(self, key: str) -> list[tuple[int, ValueSet]]:
        allowed = self._allowed[key]
        if key in self._ranked:
            fine = {v: count for v, count in self._ranked[key].items() if allowed.admits(v)}
            lower = sorted(set(fine.values()))
            return [(lower.index(count), one_of([value])) for value, count in fine.items()]
        return [] if allowed.is_empty and not self._optional[key] else [(0, allowed)]

    def _says_something(self, key: str, allowed: ValueSet) -> bool:
        """Every node has some zone; other labels must be required explicitly."""
        return allowed != ANY_VALUE or not (self._optional[key] or key in WELL_KNOWN_LABELS)

    def _narrow(self, key: str, allowed: ValueSet, *, optional: bool) -> None:
        self._allowed[key] = self._allowed[key] & allowed if key in self._allowed else allowed
        self._optional[key] = self._optional.get(key, True) and optional

    def _near(self, terms: tuple[AffinityTerm, ...]) -> None:
        counts, keys = partial(_is_matched, terms), list(dict.fromkeys(term.key for term in terms))
        somewhere = any(
            self._pod_placements.anywhere(key, counts, host=key == HOSTNAME) for key in keys
        )
        first = matches_all_terms(terms, self._want.pod) and not somewhere
        for key in keys:
            if first and key != HOSTNAME:
                self._narrow(
                    key, ANY_VALUE, optional=False
                )  # any value will do, but it must have one
            elif not first and key == HOSTNAME:
                self.near_a_place = True
                self._hosts.append(lambda place: self._pod_placements.on(place, counts) > 0)
            elif not first:
                here = self._pod_placements.by_value(key, counts).known
                self._narrow(key, one_of(here), optional=False)

    def _away(self, term: AffinityTerm, counts: Callable[[NodeOrDraft, Pod], bool]) -> None:
        if term.key == HOSTNAME:
            self._hosts.append(lambda place: self._pod_placements.on(place, counts) == 0)
            return
        found = self._pod_placements.by_value(term.key, counts)
        if found.anywhere:  # an undecided draft may end up in any domain
            allowed = NO_VALUE if found.undecided else none_of(found.known)
            self._narrow(term.key, allowed, optional=True)

    def _spread(
        self,
        spread: TopologySpread,
        launchable: Callable[[TopologySpread], Iterable[str]],
        *,
        steered: bool,
    ) -> None:
        counts = partial(self._pod_placements.is_spread, want=self._want, spread=spread)
        itself = spread.selector.selects(self._want.pod.labels)
        if spread.key == HOSTNAME:
            # A new node is always possible, so the lowest count is 0.
            self._hosts.append(
                lambda place: self._pod_placements.on(place, counts) + itself <= spread.max_skew
            )
            return
        domains = self._pod_placements.values(self._want, spread) | set(launchable(spread))
        found = self._pod_placements.by_value(spread.key, counts)
        undecided_drafts = self._undecided_drafts(spread, domains)
        self.undecided_drafts += [
            draft for draft in undecided_drafts if draft not in self.undecided_drafts
        ]
        few = bool(undecided_drafts and not steered) or len(domains) < (spread.min_domains or 0)
        sure = self._pod_placements.by_value(
            spread.key,
            partial(self._pod_placements.is_surely_spread, want=self._want, spread=spread),
        )
        lowest = 0 if few else min((sure.known[value] for value in domains), default=0)
        values = _domains_within_skew(spread, domains, found, itself=itself, lowest=lowest)
        self._narrow(spread.key, one_of(values), optional=False)
        before = self._ranked.get(spread.key, {value: found.known[value] for value in values})
        self._ranked[spread.key] = {v: count for v, count in before.items() if v in values}

    def _undecided_drafts(self, spread: TopologySpread, domains: set[str]) -> list[ReferenceDraft]:
        """Undecided drafts that may end in an empty domain that this pod cannot use."""
        if self._want.reach == (self._want.asked if spread.honor_affinity else ANY_NODE_TERMS):
            return []
        drafts = [
            place for place, _ in self._pod_placements.occupied if isinstance(place, ReferenceDraft)
        ]
        return [
            draft
            for draft in drafts
            if draft.launch is None
            and self._pod_placements.label(draft, spread.key) is UndecidedValue.UNDECIDED
            and self._pod_placements.is_looked_at(draft, self._want, spread)
            and not possible_values(draft, spread.key) <= domains
        ]


def _domains_within_skew(
    spread: TopologySpread, domains: set[str], found: DomainCounts, *, itself: bool, lowest: int
) -> list[str]:
    """The domains where one more pod keeps maxSkew, those with the fewest pods first.
    Pods on undecided drafts might be in any of them. Open choice: by name among equals.
    """
    taken = {value: found.known[value] for value in domains}
    most = lowest + spread.max_skew - itself - found.open
    fine = [value for value in domains if taken[value] <= most]
    return sorted(fine, key=lambda value: (taken[value], value))


def _domain_counts(chosen: Iterable[tuple[int, ValueSet]]) -> list[int]:
    return [rank for rank, _ in chosen]


def _option_rank(ranks: list[int]) -> tuple[int, list[int]]:
    return sum(ranks), ranks


def _is_matched(terms: tuple[AffinityTerm, ...], _: NodeOrDraft, pod: Pod) -> bool:
    return matches_all_terms(terms, pod)


def _has_anti_affinity(term: AffinityTerm, _: NodeOrDraft, pod: Pod) -> bool:
    return term in pod.constraints.anti_affinity


class TopologyQuestion(msgspec.Struct, frozen=True):
    """A topology key that constrains a pod, and the pods that count for it."""

    key: str
    counts: CountPredicate
    anti_affinity_terms_against: bool = False
    """Whether it is an anti-affinity."""


class DomainDecision(Enum):
    """When the label value of a draft is decided."""

    UNLESS_ANTI_AFFINITY = auto()
    AT_ONCE = auto()
    LATE = auto()

    def waits(self, question: TopologyQuestion) -> bool:
        return self is DomainDecision.LATE or (
            self is DomainDecision.UNLESS_ANTI_AFFINITY and question.anti_affinity_terms_against
        )


def topology_questions(
    pod_placements: PodPlacements, want: RelaxedPod
) -> Iterator[TopologyQuestion]:
    for spread in want.spreads:
        yield TopologyQuestion(
            spread.key, partial(pod_placements.is_spread, want=want, spread=spread)
        )
    for terms in want.near:
        yield from affinity_questions(terms)
    for term in want.away:
        yield TopologyQuestion(
            term.key, partial(_is_matched, (term,)), anti_affinity_terms_against=True
        )
    for term in pod_placements.anti_affinity_terms_against(want.pod):
        yield TopologyQuestion(
            term.key, partial(_has_anti_affinity, term), anti_affinity_terms_against=True
        )


def affinity_questions(terms: tuple[AffinityTerm, ...]) -> Iterator[TopologyQuestion]:
    """The questions of the pod's affinity terms."""
    return (TopologyQuestion(term.key, partial(_is_matched, terms)) for term in terms)
