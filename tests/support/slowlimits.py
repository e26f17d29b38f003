"""Limits: where other pods, and where they are, leave a pod a place.

Labels are looked at one by one: which values will do, and which of them go first because a spread
has the fewest pods there. The hostname tells single places apart.
"""

from collections.abc import Callable, Iterable, Iterator
from enum import Enum, auto
from functools import partial
from itertools import product

import msgspec
from tests.support.obvious import Draft
from tests.support.slowcensus import Census, Counted, Counts, Open, Place, is_meant
from tests.support.slowshops import possible_values
from tests.support.slowwants import Want

from wainwright.model.labels import HOSTNAME, WELL_KNOWN
from wainwright.model.pod import ANYWHERE, Pod
from wainwright.model.requirements import Requirement, Requirements
from wainwright.model.topology import Company, Spread
from wainwright.model.values import ANYTHING, NOTHING, ValueSet, none_of, one_of


class Limits:
    def __init__(
        self,
        census: Census,
        want: Want,
        launchable: Callable[[Spread], Iterable[str]],
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
        self._hosts: list[Callable[[Place], bool]] = []
        self.adrift: list[Draft] = []
        """Drafts that may end where a spread would not have them, unless the pod steers."""
        self.near_a_place = False
        """Whether only a place that somebody has already will do."""
        for key in want.there:
            self._narrow(key, ANYTHING, optional=False)
        for terms in want.near:
            self._near(terms)
        for term in want.away:
            self._away(term, partial(_meant, (term,)))
        for term in census.shunning(want.pod):
            self._away(term, partial(_shunning, term))
        for spread in want.spreads:
            self._spread(spread, launchable, steered=steered)

    def admits(self, place: Place) -> bool:
        """Whether the place will do as it is, or may be made to."""
        labels = {key: self._census.label(place, key) for key in self._allowed}
        fine = all(self._is_fine(key, value) for key, value in labels.items())
        return fine and all(check(place) for check in self._hosts)

    def is_undecided(self, draft: Draft) -> bool:
        return any(self._census.label(draft, key) is Open.UNDECIDED for key in self._allowed)

    def _is_fine(self, key: str, value: str | Open) -> bool:
        if isinstance(value, str):
            return self._allowed[key].admits(value)
        if value is Open.LACKING:
            return self._optional[key]
        return not self._allowed[key].empty

    def options(self) -> list[tuple[Requirements, list[int]]]:
        """What a new node may be, or a draft that has not settled: the emptiest places first.

        With each how many other counts are lower, label by label; equal places are equal in that.
        """
        keys = list(self._allowed)
        ranked = sorted(product(*map(self._choices, keys)), key=lambda each: _rank(_crowd(each)))
        return [(self._asked(dict(zip(keys, each, strict=True))), _crowd(each)) for each in ranked]

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
        return [] if allowed.empty and not self._optional[key] else [(0, allowed)]

    def _says_something(self, key: str, allowed: ValueSet) -> bool:
        """That a node has some zone goes without saying; that it has some label does not."""
        return allowed != ANYTHING or not (self._optional[key] or key in WELL_KNOWN)

    def _narrow(self, key: str, allowed: ValueSet, *, optional: bool) -> None:
        self._allowed[key] = self._allowed[key] & allowed if key in self._allowed else allowed
        self._optional[key] = self._optional.get(key, True) and optional

    def _near(self, terms: tuple[Company, ...]) -> None:
        counts, keys = partial(_meant, terms), list(dict.fromkeys(term.key for term in terms))
        somewhere = any(self._census.anywhere(key, counts, host=key == HOSTNAME) for key in keys)
        first = is_meant(terms, self._want.pod) and not somewhere
        for key in keys:
            if first and key != HOSTNAME:
                self._narrow(key, ANYTHING, optional=False)  # any will do, but it must have one
            elif not first and key == HOSTNAME:
                self.near_a_place = True
                self._hosts.append(lambda place: self._census.on(place, counts) > 0)
            elif not first:
                here = self._census.by_value(key, counts).known
                self._narrow(key, one_of(here), optional=False)

    def _away(self, term: Company, counts: Callable[[Place, Pod], bool]) -> None:
        if term.key == HOSTNAME:
            self._hosts.append(lambda place: self._census.on(place, counts) == 0)
            return
        found = self._census.by_value(term.key, counts)
        if found.anywhere:  # a draft that cannot settle yet may end up anywhere
            allowed = NOTHING if found.undecided else none_of(found.known)
            self._narrow(term.key, allowed, optional=True)

    def _spread(
        self, spread: Spread, launchable: Callable[[Spread], Iterable[str]], *, steered: bool
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
        values = _within_skew(spread, domains, found, itself=itself, few=few)
        self._narrow(spread.key, one_of(values), optional=False)
        before = self._ranked.get(spread.key, {value: found.known[value] for value in values})
        self._ranked[spread.key] = {v: count for v, count in before.items() if v in values}

    def _adrift(self, spread: Spread, domains: set[str]) -> list[Draft]:
        """Drafts that may yet be in a domain that only others can use, and where nobody is."""
        if self._want.reach == (self._want.asked if spread.honor_affinity else ANYWHERE):
            return []
        drafts = [place for place, _ in self._census.occupied if isinstance(place, Draft)]
        return [
            draft
            for draft in drafts
            if draft.launch is None
            and self._census.label(draft, spread.key) is Open.UNDECIDED
            and self._census.is_looked_at(draft, self._want, spread)
            and not possible_values(draft, spread.key) <= domains
        ]


def _within_skew(
    spread: Spread, domains: set[str], found: Counted, *, itself: bool, few: bool
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


def _crowd(chosen: Iterable[tuple[int, ValueSet]]) -> list[int]:
    return [rank for rank, _ in chosen]


def _rank(ranks: list[int]) -> tuple[int, list[int]]:
    return sum(ranks), ranks


def _meant(terms: tuple[Company, ...], _: Place, pod: Pod) -> bool:
    return is_meant(terms, pod)


def _shunning(term: Company, _: Place, pod: Pod) -> bool:
    return term in pod.bonds.anti_affinity


class Question(msgspec.Struct, frozen=True):
    """A label that decides where a pod may go, and the pods whose value of it matters."""

    key: str
    counts: Counts
    shunning: bool = False
    """Whether those are pods not to be near."""


class Settling(Enum):
    """When drafts settle."""

    UNLESS_SHUNNED = auto()
    AT_ONCE = auto()
    LATE = auto()

    def waits(self, question: Question) -> bool:
        return self is Settling.LATE or (self is Settling.UNLESS_SHUNNED and question.shunning)


def questions(census: Census, want: Want) -> Iterator[Question]:
    for spread in want.spreads:
        yield Question(spread.key, partial(census.is_spread, want=want, spread=spread))
    for terms in want.near:
        yield from company(terms)
    for term in want.away:
        yield Question(term.key, partial(_meant, (term,)), shunning=True)
    for term in census.shunning(want.pod):
        yield Question(term.key, partial(_shunning, term), shunning=True)


def company(terms: tuple[Company, ...]) -> Iterator[Question]:
    """Where those are whom a pod wants to be near."""
    return (Question(term.key, partial(_meant, terms)) for term in terms)
