"""Where other pods leave a pod a place: pods counted by domain, anew for every question, and the
domains that spread, affinity and anti-affinity allow.
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
"""Whether a pod in that place is one of those that are counted."""


class DomainCounts(msgspec.Struct, frozen=True):
    """How many pods of some kind are where, by the values of a label."""

    known: Counter[str]
    undecided: tuple[ReferenceDraft, ...] = ()
    """Drafts with such pods that have no value yet."""
    open: int = 0
    """How many pods are on those."""

    @property
    def anywhere(self) -> bool:
        return bool(self.known or self.undecided)


class PodPlacements:
    """Every place with the pods that it has; whoever plans keeps it up to date."""

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
        if key not in place.asked and key not in place.shop.known:
            return UndecidedValue.LACKING
        return place.asked.single_value(key) or UndecidedValue.UNDECIDED

    def by_value(self, key: str, counts: CountPredicate) -> DomainCounts:
        """Of the pods that count, how many are where."""
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
        """Whether any such pod has a place that the label can tell apart."""
        if host:
            return any(self.on(place, counts) for place, _ in self.occupied)
        return self.by_value(key, counts).anywhere

    def values(self, want: RelaxedPod, spread: TopologySpread) -> set[str]:
        """The values of the label in the places that the spread looks at.

        A machine under way that nobody made settle has the value that it will be launched with.
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
        """Whether a pod in some place is among those that are spread."""
        alike = pod.namespace == want.pod.namespace and spread.selector.selects(pod.labels)
        leaving = isinstance(place, Node) and pod.terminating
        return alike and not leaving and self.is_looked_at(place, want, spread)

    def is_looked_at(self, place: NodeOrDraft, want: RelaxedPod, spread: TopologySpread) -> bool:
        """Whether a spread takes account of the place."""
        lacking = [
            key
            for key in required_topology_keys(want, spread)
            if self.label(place, key) is UndecidedValue.LACKING
        ]
        if isinstance(place, Node):
            taints = place.effective_taints
            wanted = any(_node_matches(place, each) for each in want.asked)
        else:
            taints = place.shop.pool.taints
            wanted = any(_may_become(place, each) for each in want.asked)
        binding = [taint for taint in taints if taint.effect != PREFER_NO_SCHEDULE]
        tolerated = find_untolerated_taint(binding, want.pod.tolerations) is None
        fine = (wanted or not spread.honor_affinity) and (tolerated or not spread.honor_taints)
        return fine and not lacking

    def shunning(self, pod: Pod) -> Iterator[AffinityTerm]:
        """The terms by which pods that have a place do not want this one near."""
        found: dict[AffinityTerm, None] = {}
        for _, pods in self.occupied:
            for other in pods:
                found |= dict.fromkeys(
                    t for t in other.constraints.anti_affinity if matches_all_terms((t,), pod)
                )
        return iter(found)


def matches_all_terms(terms: tuple[AffinityTerm, ...], pod: Pod) -> bool:
    """Whether all of the terms speak of the pod."""
    return all(term.matches(pod.namespace, pod.labels) for term in terms)


def required_topology_keys(want: RelaxedPod, spread: TopologySpread) -> set[str]:
    """Labels without which a node counts for none of the spreads that bind the pod."""
    binding = {each.key for each in want.pod.constraints.spreads if each.required}
    return binding - {HOSTNAME, spread.key} if spread.required else set()


def _may_become(draft: ReferenceDraft, wanted: Requirements) -> bool:
    """Whether the draft may still become what is wanted, or is to be launched as that."""
    asked = draft.shop.joined(draft.asked, TOLERANT_POD, wanted)
    if asked is None:
        return False
    if draft.launch is None:
        return any(
            draft.shop.admits(k, asked) and available_offerings(k, asked, draft.held)
            for k in draft.types
        )
    kind, offering = draft.launch
    return draft.shop.admits(kind, asked) and is_offering_compatible(kind, offering, asked)


def _node_matches(node: Node, wanted: Requirements) -> bool:
    return Requirements.from_labels(node.labels).is_compatible(wanted)


class AllowedDomains:
    def __init__(
        self,
        census: PodPlacements,
        want: RelaxedPod,
        launchable: Callable[[TopologySpread], Iterable[str]],
        *,
        steered: bool = False,
    ) -> None:
        self._census = census
        self._want = want
        self._allowed: dict[str, ValueSet] = {}
        self._optional: dict[str, bool] = {}
        """Whether a place without the label will do as well."""
        self._ranked: dict[str, dict[str, int]] = {}
        """Of a label that pods are spread by the values that will do, with how many are there."""
        self._hosts: list[Callable[[NodeOrDraft], bool]] = []
        self.adrift: list[ReferenceDraft] = []
        """Drafts that may end where a spread would not have them, unless the pod steers."""
        self.near_a_place = False
        """Whether only a place that somebody has already will do."""
        for key in want.there:
            self._narrow(key, ANY_VALUE, optional=False)
        for terms in want.near:
            self._near(terms)
        for term in want.away:
            self._away(term, partial(_is_matched, (term,)))
        for term in census.shunning(want.pod):
            self._away(term, partial(_has_anti_affinity, term))
        for spread in want.spreads:
            self._spread(spread, launchable, steered=steered)

    def admits(self, place: NodeOrDraft) -> bool:
        """Whether the place will do as it is, or may be made to."""
        labels = {key: self._census.label(place, key) for key in self._allowed}
        fine = all(self._is_fine(key, value) for key, value in labels.items())
        return fine and all(check(place) for check in self._hosts)

    def is_undecided(self, draft: ReferenceDraft) -> bool:
        return any(
            self._census.label(draft, key) is UndecidedValue.UNDECIDED for key in self._allowed
        )

    def _is_fine(self, key: str, value: str | UndecidedValue) -> bool:
        if isinstance(value, str):
            return self._allowed[key].admits(value)
        if value is UndecidedValue.LACKING:
            return self._optional[key]
        return not self._allowed[key].is_empty

    def options(self) -> list[tuple[Requirements, list[int]]]:
        """What a new node may be, or a draft that has not settled: the emptiest places first.

        With each how many other counts are lower, label by label; equal places are equal in that.
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
        """That a node has some zone goes without saying; that it has some label does not."""
        return allowed != ANY_VALUE or not (self._optional[key] or key in WELL_KNOWN_LABELS)

    def _narrow(self, key: str, allowed: ValueSet, *, optional: bool) -> None:
        self._allowed[key] = self._allowed[key] & allowed if key in self._allowed else allowed
        self._optional[key] = self._optional.get(key, True) and optional

    def _near(self, terms: tuple[AffinityTerm, ...]) -> None:
        counts, keys = partial(_is_matched, terms), list(dict.fromkeys(term.key for term in terms))
        somewhere = any(self._census.anywhere(key, counts, host=key == HOSTNAME) for key in keys)
        first = matches_all_terms(terms, self._want.pod) and not somewhere
        for key in keys:
            if first and key != HOSTNAME:
                self._narrow(key, ANY_VALUE, optional=False)  # any will do, but it must have one
            elif not first and key == HOSTNAME:
                self.near_a_place = True
                self._hosts.append(lambda place: self._census.on(place, counts) > 0)
            elif not first:
                here = self._census.by_value(key, counts).known
                self._narrow(key, one_of(here), optional=False)

    def _away(self, term: AffinityTerm, counts: Callable[[NodeOrDraft, Pod], bool]) -> None:
        if term.key == HOSTNAME:
            self._hosts.append(lambda place: self._census.on(place, counts) == 0)
            return
        found = self._census.by_value(term.key, counts)
        if found.anywhere:  # a draft that cannot settle yet may end up anywhere
            allowed = NO_VALUE if found.undecided else none_of(found.known)
            self._narrow(term.key, allowed, optional=True)

    def _spread(
        self,
        spread: TopologySpread,
        launchable: Callable[[TopologySpread], Iterable[str]],
        *,
        steered: bool,
    ) -> None:
        counts = partial(self._census.is_spread, want=self._want, spread=spread)
        itself = spread.selector.selects(self._want.pod.labels)
        if spread.key == HOSTNAME:
            # A new node is always possible, so that the emptiest counts as empty.
            self._hosts.append(
                lambda place: self._census.on(place, counts) + itself <= spread.max_skew
            )
            return
        domains = self._census.values(self._want, spread) | set(launchable(spread))
        found = self._census.by_value(spread.key, counts)
        adrift = self._adrift(spread, domains)
        self.adrift += [draft for draft in adrift if draft not in self.adrift]
        few = bool(adrift and not steered) or len(domains) < (spread.min_domains or 0)
        values = _domains_within_skew(spread, domains, found, itself=itself, few=few)
        self._narrow(spread.key, one_of(values), optional=False)
        before = self._ranked.get(spread.key, {value: found.known[value] for value in values})
        self._ranked[spread.key] = {v: count for v, count in before.items() if v in values}

    def _adrift(self, spread: TopologySpread, domains: set[str]) -> list[ReferenceDraft]:
        """Drafts that may yet be in a domain that only others can use, and where nobody is."""
        if self._want.reach == (self._want.asked if spread.honor_affinity else ANY_NODE_TERMS):
            return []
        drafts = [place for place, _ in self._census.occupied if isinstance(place, ReferenceDraft)]
        return [
            draft
            for draft in drafts
            if draft.launch is None
            and self._census.label(draft, spread.key) is UndecidedValue.UNDECIDED
            and self._census.is_looked_at(draft, self._want, spread)
            and not possible_values(draft, spread.key) <= domains
        ]


def _domains_within_skew(
    spread: TopologySpread, domains: set[str], found: DomainCounts, *, itself: bool, few: bool
) -> list[str]:
    """The domains where one more keeps the skew, those with the fewest pods first.

    Pods on drafts that cannot settle yet might be in any of them. Open choice: by name among
    equals.
    """
    taken = {value: found.known[value] for value in domains}
    lowest = 0 if few else min(taken.values(), default=0)
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
    """A label that decides where a pod may go, and the pods whose value of it matters."""

    key: str
    counts: CountPredicate
    shunning: bool = False
    """Whether those are pods not to be near."""


class DomainDecision(Enum):
    """When drafts settle."""

    UNLESS_SHUNNED = auto()
    AT_ONCE = auto()
    LATE = auto()

    def waits(self, question: TopologyQuestion) -> bool:
        return self is DomainDecision.LATE or (
            self is DomainDecision.UNLESS_SHUNNED and question.shunning
        )


def topology_questions(census: PodPlacements, want: RelaxedPod) -> Iterator[TopologyQuestion]:
    for spread in want.spreads:
        yield TopologyQuestion(spread.key, partial(census.is_spread, want=want, spread=spread))
    for terms in want.near:
        yield from affinity_questions(terms)
    for term in want.away:
        yield TopologyQuestion(term.key, partial(_is_matched, (term,)), shunning=True)
    for term in census.shunning(want.pod):
        yield TopologyQuestion(term.key, partial(_has_anti_affinity, term), shunning=True)


def affinity_questions(terms: tuple[AffinityTerm, ...]) -> Iterator[TopologyQuestion]:
    """Where those are whom a pod wants to be near."""
    return (TopologyQuestion(term.key, partial(_is_matched, terms)) for term in terms)
