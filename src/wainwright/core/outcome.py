"""The outcome: drafts and nodes with their pods written down as a plan."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import compress, count
from operator import itemgetter
from typing import Final

from wainwright.core.drafts import Draft
from wainwright.core.launch import capacity_type_of, zone_of
from wainwright.core.narrowing import Narrowing
from wainwright.core.nodes import NodeTable
from wainwright.model.columns import Rows, row_numbers
from wainwright.model.index import TypeIndex
from wainwright.model.labels import CAPACITY_TYPE, ZONE
from wainwright.model.markets import Markets
from wainwright.model.plan import Choices, Launch, Placement, PlannedClaim, ReservationUse
from wainwright.model.requirements import Requirement, Requirements
from wainwright.model.resources import ordered
from wainwright.model.snapshot import Reservation
from wainwright.model.values import ValueSet

FLAGS: Final = bytes.maketrans(b"01", b"\x00\x01")


class Spelling:
    """The names of some types; any set of these is spelt out in the order of names."""

    __slots__ = ("_flags_of", "_marker", "_names")

    def __init__(self, index: TypeIndex, rows: Rows) -> None:
        digits = _digits(rows)
        ordered = [row for row in index.by_name if row < len(digits) and digits[~row]]
        self._names = [index.types[row].name for row in ordered]
        self._marker: Rows = 1 << len(index.types)
        # A getter of one place gives no tuple, so that the marker is asked for as well, twice.
        self._flags_of = itemgetter(*[~row for row in ordered], 0, 0)

    def of(self, rows: Rows) -> tuple[str, ...]:
        return tuple(compress(self._names, self._flags_of(_digits(rows | self._marker))))


def _digits(rows: Rows) -> bytes:
    """For each row whether it is in the set, the last row first."""
    return bin(rows)[2:].encode().translate(FLAGS)


class Names:
    """What the sets of one catalogue are called; equal sets are spelt out once."""

    __slots__ = (
        "_admitted",
        "_ids",
        "_index",
        "_known",
        "_markets",
        "_open",
        "_spellings",
        "told",
    )

    def __init__(self, index: TypeIndex) -> None:
        self._index = index
        self._ids = [market.reservation_id for market in index.markets]
        self.told: dict[tuple[Narrowing, Rows], Choices] = {}
        self._known: dict[Rows, tuple[str, ...]] = {}
        self._spellings: dict[Rows, Spelling] = {}
        self._admitted: dict[tuple[str, ValueSet], list[tuple[str, Markets]]] = {}
        self._markets = {key: _by_value(index, key) for key in (ZONE, CAPACITY_TYPE)}
        self._open = {ZONE: index.zoneless, CAPACITY_TYPE: 0}

    def types(self, rows: Rows, among: Rows) -> tuple[str, ...]:
        """In order; `among` are all that any draft of the pool might have."""
        found = self._known.get(rows)
        if found is None:
            spelling = self._spellings.get(among)
            if spelling is None:
                spelling = self._spellings[among] = Spelling(self._index, among)
            found = self._known[rows] = spelling.of(rows)
        return found

    def values(self, key: str, rows: Rows, markets: Markets, allowed: ValueSet) -> tuple[str, ...]:
        """The values of a label that these types have in these markets, in order.

        A market that leaves the zone open stands for every zone that the catalogue knows.
        """
        sold = self._index.sold_in
        anywhere = sold(self._open[key] & markets) & rows
        found = tuple(
            value
            for value, having in self._markets[key]
            if allowed.admits(value) and (anywhere or sold(having & markets) & rows)
        )
        return found or _asked(allowed)

    def held(self, key: str, held: Markets, allowed: ValueSet) -> tuple[str, ...]:
        """The same for markets that are known to sell what is left."""
        admitted = self._admitted.get((key, allowed))
        if admitted is None:
            admitted = self._admitted[key, allowed] = [
                (value, having | self._open[key])
                for value, having in self._markets[key]
                if allowed.admits(value)
            ]
        return tuple([value for value, having in admitted if having & held]) or _asked(allowed)

    def reservations(self, held: Markets) -> tuple[str, ...]:
        found = {self._ids[market] or "" for market in row_numbers(held)}
        return tuple(sorted(found))


def claims(
    drafts: Iterable[Draft], resources: Sequence[str], taken: AbstractSet[str] = frozenset()
) -> tuple[PlannedClaim, ...]:
    """Each draft as a claim, named after its pool in the order of creation.

    Numbers that a machine of the cluster has already are passed over.
    """
    names: dict[int, Names] = {}
    numbered: dict[str, Iterator[str]] = {}
    found = []
    for draft in drafts:
        index, pool = draft.template.index, draft.template.pool.name
        if id(index) not in names:
            names[id(index)] = Names(index)
        if pool not in numbered:
            numbered[pool] = _free_names(pool, taken)
        found.append(_claim(draft, next(numbered[pool]), names[id(index)], resources))
    return tuple(found)


def _free_names(pool: str, taken: AbstractSet[str]) -> Iterator[str]:
    return (name for number in count(1) if (name := f"{pool}-{number}") not in taken)


def placements(nodes: NodeTable) -> tuple[Placement, ...]:
    """The nodes that receive pods, in the order of names."""
    received = [
        Placement(node=node.name, pods=tuple(sorted(pod.key for pod in pods)))
        for node, pods in zip(nodes.nodes, nodes.pods, strict=True)
        if pods
    ]
    return tuple(sorted(received, key=lambda placement: placement.node))


def reservation_uses(
    listed: Iterable[Reservation], free: Mapping[str, int], claimed: Iterable[PlannedClaim]
) -> tuple[ReservationUse, ...]:
    """Every reservation that is listed or on offer, with what the claims take of it."""
    used = Counter(claim.launch.reservation_id for claim in claimed)
    known = {each.id: (each.total, each.available) for each in listed}
    on_offer = {name: (count, count) for name, count in free.items() if name not in known}
    return tuple(
        ReservationUse(id=name, total=total, available=available, used=used[name])
        for name, (total, available) in sorted((known | on_offer).items())
    )


def _claim(draft: Draft, name: str, names: Names, resources: Sequence[str]) -> PlannedClaim:
    lowered = _lowered(draft)
    return PlannedClaim(
        name=name,
        pool=draft.template.pool.name,
        round=draft.round,
        requirements=_with_minimums(draft, lowered),
        choices=_choices(draft, names),
        launch=_launch(draft),
        fees=_fees(draft),
        requests=_requests(draft, resources),
        pods=tuple(sorted([pod.key for pod in draft.pods])),
        relaxed=tuple(sorted(key for key, _ in lowered)) if lowered else (),
    )


def _choices(draft: Draft, names: Names) -> Choices:
    if draft.held:
        return _looked_up(draft, names)
    asked = (draft.narrowing, draft.rows)
    found = names.told.get(asked)
    if found is None:  # most drafts of a large plan are left the same as some other
        found = names.told[asked] = _looked_up(draft, names)
    return found


def _looked_up(draft: Draft, names: Names) -> Choices:
    rows, markets = draft.rows, draft.narrowing.markets
    allowed = draft.narrowing.requirements.allowed
    zones, kinds = (
        names.held(key, draft.held, allowed(key))
        if draft.held
        else names.values(key, rows, markets, allowed(key))
        for key in (ZONE, CAPACITY_TYPE)
    )
    return Choices(
        instance_types=names.types(rows, draft.template.base.rows),
        zones=zones,
        capacity_types=kinds,
        reservation_ids=names.reservations(draft.held) if draft.held else (),
    )


def _launch(draft: Draft) -> Launch:
    assert draft.buy is not None, "drafts are pinned when their round is over"
    left, buy = draft.left, draft.buy
    return Launch(
        instance_type=draft.template.index.types[buy.row].name,
        zone=zone_of(left, buy),
        capacity_type=capacity_type_of(left, buy),
        price=buy.offering.price,
        reservation_id=buy.offering.reservation_id,
    )


def _fees(draft: Draft) -> float:
    return 0.0 if draft.buy is None else draft.template.index.types[draft.buy.row].fee


def _requests(draft: Draft, resources: Sequence[str]) -> dict[str, int]:
    """What is asked for, by name; `resources` are in the order of their numbers."""
    taken = draft.template.overhead.least(draft.rows)
    for name, amount in zip(resources, draft.totals, strict=True):
        if amount:
            taken[name] = taken.get(name, 0) + amount
    return ordered(taken)


def _lowered(draft: Draft) -> list[tuple[str, int]]:
    """The minimums that are less than the pool asks for."""
    if draft.minimums is draft.template.minimums:
        return []
    wanted = dict(draft.template.minimums)
    return [(key, count) for key, count in draft.minimums if count < wanted[key]]


def _with_minimums(draft: Draft, lowered: Sequence[tuple[str, int]]) -> Requirements:
    requirements = draft.narrowing.requirements
    if not lowered:
        return requirements
    relaxed = [
        Requirement(key=key, allowed=requirements.allowed(key), min_values=count or None)
        for key, count in lowered
    ]
    kept = requirements.without({key for key, _ in lowered})
    return kept.narrow(Requirements(relaxed))


def _asked(allowed: ValueSet) -> tuple[str, ...]:
    """What is asked for, where nobody who sells names a value."""
    return () if allowed.open else tuple(sorted(allowed.values))


def _by_value(index: TypeIndex, key: str) -> list[tuple[str, Markets]]:
    found: dict[str, Markets] = dict.fromkeys(index.zones if key == ZONE else (), 0)
    for number, market in enumerate(index.markets):
        allowed = market.requirements.allowed(key)
        for value in () if allowed.open else allowed.values:
            found[value] = found.get(value, 0) | 1 << number
    return sorted(found.items())
