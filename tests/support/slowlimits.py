"""Limits: where other pods, and where they are, leave a pod a place.

Labels are looked at one by one: which values will do, and which of them go first because a spread
has the fewest pods there. The hostname tells single places apart.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import product

from tests.support.obvious import Draft
from tests.support.slowcensus import Census, Counted, Open, Place, is_meant
from tests.support.slowwants import Want

from wainwright.model.labels import HOSTNAME, WELL_KNOWN
from wainwright.model.pod import Pod
from wainwright.model.requirements import Requirement, Requirements
from wainwright.model.topology import Company, Spread
from wainwright.model.values import ANYTHING, NOTHING, ValueSet, none_of, one_of


class Limits:
    def __init__(
        self, census: Census, want: Want, launchable: Callable[[Spread], Iterable[str]]
    ) -> None:
        self._census = census
        self._want = want
        self._allowed: dict[str, ValueSet] = {}
        self._optional: dict[str, bool] = {}
        """Whether a place without the label will do as well."""
        self._ranked: dict[str, list[str]] = {}
        """Of a label that pods are spread by the values that will do, the best first."""
        self._hosts: list[Callable[[Place], bool]] = []
        self.near_a_place = False
        """Whether only a place that somebody has already will do."""
        for terms in want.near:
            self._near(terms)
        for term in want.away:
            self._away(term, partial(_meant, (term,)))
        for term in census.shunning(want.pod):
            self._away(term, partial(_shunning, term))
        for spread in want.spreads:
            self._spread(spread, launchable)

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

    def options(self) -> list[Requirements]:
        """What a new node may be, or a draft that has not settled: the emptiest places first."""
        keys = list(self._allowed)
        choices = [list(enumerate(self._choices(key))) for key in keys]
        ranked = sorted(product(*choices), key=lambda each: _rank([n for n, _ in each]))
        return [
            Requirements(
                Requirement(key=key, allowed=allowed)
                for key, (_, allowed) in zip(keys, each, strict=True)
                if self._says_something(key, allowed)
            )
            for each in ranked
        ]

    def _choices(self, key: str) -> list[ValueSet]:
        allowed = self._allowed[key]
        if key in self._ranked:
            return [one_of([value]) for value in self._ranked[key] if allowed.admits(value)]
        return [] if allowed.empty and not self._optional[key] else [allowed]

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

    def _spread(self, spread: Spread, launchable: Callable[[Spread], Iterable[str]]) -> None:
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
        values = _within_skew(spread, domains, found, itself=itself)
        self._narrow(spread.key, one_of(values), optional=False)
        before = self._ranked.get(spread.key, values)
        self._ranked[spread.key] = [value for value in before if value in values]


def _within_skew(spread: Spread, domains: set[str], found: Counted, *, itself: bool) -> list[str]:
    """The domains where one more keeps the skew, those with the fewest pods first.

    Pods on drafts that cannot settle yet might be in any of them. Open choice: by name among
    equals.
    """
    taken = {value: found.known[value] for value in domains}
    few = spread.min_domains is not None and len(domains) < spread.min_domains
    lowest = 0 if few else min(taken.values(), default=0)
    most = lowest + spread.max_skew - itself - found.open
    fine = [value for value in domains if taken[value] <= most]
    return sorted(fine, key=lambda value: (taken[value], value))


def _rank(ranks: list[int]) -> tuple[int, list[int]]:
    return sum(ranks), ranks


def _meant(terms: tuple[Company, ...], _: Place, pod: Pod) -> bool:
    return is_meant(terms, pod)


def _shunning(term: Company, _: Place, pod: Pod) -> bool:
    return term in pod.bonds.anti_affinity


def questions(census: Census, want: Want) -> Iterator[tuple[str, Callable[[Place, Pod], bool]]]:
    """Every label that decides where the pod may go, and the pods whose value of it matters."""
    for spread in want.spreads:
        yield spread.key, partial(census.is_spread, want=want, spread=spread)
    for terms in want.near:
        yield from ((term.key, partial(_meant, terms)) for term in terms)
    for term in want.away:
        yield term.key, partial(_meant, (term,))
    for term in census.shunning(want.pod):
        yield term.key, partial(_shunning, term)
