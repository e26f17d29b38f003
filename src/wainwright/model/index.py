"""A catalogue compiled for one node class: instance types as bits, every question a few ANDs.

Row 0 is the type with the cheapest offering that can be had, fees included, so that the lowest bit
of a set is its cheapest member; slots of reservations, which are not for sale, do not count. What
is asked comes apart into four questions, and the caller ANDs
the answers: who has the labels (`admitted_by`), who has the room (`holding`), which markets may be
used (`markets_admitted_by`), and who is sold there (`sold_in`).

A set that answers for two requirements at once may be smaller than the AND of the answers for each:
a type that can be either of two values agrees with each of them, not with both. AND first, as it is
cheap and refuses most; ask for the narrowed requirements before believing the rest.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import inf

from wainwright.model.columns import Column, Rows, row_numbers, union
from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.labels import DECIDED_BY_OFFERING, DESCRIBED_BY_TYPES, INSTANCE_TYPE, ZONE
from wainwright.model.markets import Market, Markets, MarketTable
from wainwright.model.requirements import Requirements
from wainwright.model.resources import Resources, subtract
from wainwright.model.thresholds import Thresholds
from wainwright.model.traits import accelerated, metal
from wainwright.model.values import ANYTHING, ValueSet, one_of


class TypeIndex:
    """Instance types in ascending order of cost (then name), and the answers about them.

    A type that lacks a label does not have it if the catalogue names the label for other types, or
    if it is one that types are described by; then only NotIn and DoesNotExist admit the type. It
    leaves the label open where its offerings decide it. A label that nobody names narrows nothing.
    """

    __slots__ = (
        "_allocatable",
        "_capacities",
        "_columns",
        "_markets",
        "accelerated",
        "by_name",
        "everything",
        "keys",
        "metal",
        "own_thresholds",
        "types",
    )

    def __init__(
        self,
        types: Iterable[InstanceType],
        described: AbstractSet[str] = DESCRIBED_BY_TYPES,
        zones: Iterable[str] = (),
    ) -> None:
        self.types: tuple[InstanceType, ...] = tuple(sorted(types, key=_by_cost_then_name))
        self.everything: Rows = (1 << len(self.types)) - 1
        self.by_name: list[int] = sorted(range(len(self.types)), key=lambda n: self.types[n].name)
        """The rows in the order of names."""
        self._markets = MarketTable(self.types, zones)
        held = _labels_of(self.types, described)
        self._columns = {key: self._column(key, sets) for key, sets in held.items()}
        self.keys = self._markets.keys | {key for key, sets in held.items() if sets}
        """The labels that types or offerings name: well known to all who use this catalogue."""
        self._allocatable = [kind.allocatable for kind in self.types]
        self.own_thresholds = Thresholds(self._allocatable)
        """Room before any daemonset takes its share."""
        self._capacities: Thresholds | None = None
        self.metal: Rows = metal(self.types)
        self.accelerated: Rows = accelerated(self.types)

    @property
    def markets(self) -> tuple[Market, ...]:
        """What sets offerings apart besides the type; bit i of a market set is `markets[i]`."""
        return self._markets.markets

    def admitted_by(self, requirements: Requirements) -> Rows:
        """The types whose labels agree with the requirements."""
        found = self.everything
        for key, requirement in requirements.items():
            column = self._columns.get(key)
            if column is not None:
                found &= column.admitting(requirement.allowed)
        return found

    def holding(self, requests: Resources) -> Rows:
        """The types whose allocatable resources have room for the requests."""
        return self.own_thresholds.holding(requests)

    def thresholds(self, overhead: Sequence[Resources]) -> Thresholds:
        """Answers to `holding` when each type, in the order of rows, gives up its overhead."""
        pairs = zip(self._allocatable, overhead, strict=True)
        return Thresholds(subtract(allocatable, taken) for allocatable, taken in pairs)

    @property
    def capacities(self) -> Thresholds:
        """The types by all that they have, as limits count it; worked out when first asked for."""
        if self._capacities is None:
            self._capacities = Thresholds(kind.capacity for kind in self.types)
        return self._capacities

    def markets_admitted_by(self, requirements: Requirements) -> Markets:
        """The markets in which somebody with these requirements may buy."""
        return self._markets.admitting(requirements)

    def sold_in(self, markets: Markets) -> Rows:
        """The types that can be had now in at least one of the markets."""
        return self._markets.selling(markets)

    def offered_to(self, requirements: Requirements) -> Rows:
        """The types with an available offering that agrees with the requirements."""
        return self.sold_in(self.markets_admitted_by(requirements))

    def cheapest(
        self, rows: Rows, requirements: Requirements
    ) -> tuple[InstanceType, Offering] | None:
        """The best buy among the types: by cost, then name, then the order of markets."""
        return self.cheapest_in(rows, self.markets_admitted_by(requirements))

    def cheapest_in(self, rows: Rows, markets: Markets) -> tuple[InstanceType, Offering] | None:
        found = self.best_buy(rows, markets)
        return None if found is None else (self.types[found[0]], found[2])

    def best_buy(self, rows: Rows, markets: Markets) -> tuple[int, int, Offering] | None:
        """Row, market and offering of the best buy."""
        found = self._markets.cheapest(rows, markets)
        if found is None:
            return None
        row, market, position = found
        return row, market, self.types[row].offerings[position]

    def best_offers(self, row: int, markets: Markets) -> list[tuple[int, int, Offering]]:
        """All offerings of one type that cost no more than any other of it in these markets."""
        offerings = self.types[row].offerings
        cheapest = self._markets.cheapest_of(row, markets)
        return [(row, market, offerings[position]) for market, position in cheapest]

    def spot_for(self, capacity_types: ValueSet) -> Markets:
        """The markets in which who may have these capacity types buys spot capacity."""
        return self._markets.spot_for(capacity_types)

    @property
    def zones(self) -> tuple[str, ...]:
        """All that are known; an offering that names none can be had in each of them."""
        return self._markets.zones

    @property
    def zoneless(self) -> Markets:
        """The markets that name no zone."""
        return self._markets.zoneless

    def markets_by_value(self, key: str) -> Mapping[str, Markets]:
        """The values that the label has in any market, in order; a zone may be in none of them."""
        return self._markets.by_value(key)

    def members(self, rows: Rows) -> Iterator[InstanceType]:
        """The types of the set, cheapest first."""
        return (self.types[row] for row in row_numbers(rows))

    def values_left(
        self, key: str, rows: Rows, markets: Markets, wanted: ValueSet = ANYTHING
    ) -> list[str]:
        """The wanted values of a label that the types left still have, in order.

        A type whose offerings name the label has the values of those left in these markets; if one
        of them leaves the zone open it has all zones.
        """
        if key == ZONE and self.sold_in(self.zoneless & markets) & rows:
            return list(filter(wanted.admits, self.zones))
        bought = rows & self._markets.naming(key)
        traded = self._markets.values(key, wanted, self._trading(bought, markets))
        column = self._columns.get(key)
        described = () if column is None else column.values(rows ^ bought, wanted)
        return sorted({*traded, *described})

    def has_values(
        self, key: str, count: int, rows: Rows, markets: Markets, wanted: ValueSet
    ) -> bool:
        """Whether `values_left` has so many; quicker than counting them."""
        column = self._columns.get(key)
        if column is None or key in self._markets.keys:
            return len(self.values_left(key, rows, markets, wanted)) >= count
        return column.has_values(count, rows, wanted)

    def witnesses(self, key: str, count: int, rows: Rows, wanted: ValueSet) -> Rows | None:
        """Types that between them have so many wanted values, for a label that no market names."""
        column = self._columns.get(key)
        return None if column is None else column.witnesses(count, rows, wanted)

    def named_by_markets(self, key: str) -> bool:
        """Whether the values of the label depend on the markets left, not on the types alone."""
        return key in self._markets.keys

    def offers(self, rows: Rows, markets: Markets) -> Iterator[tuple[int, int, Offering]]:
        """Every available offering of the types in these markets, with its row and its market."""
        for row in row_numbers(rows):
            for _, market, position in self._markets.offers(row):
                if markets >> market & 1:
                    yield row, market, self.types[row].offerings[position]

    def _trading(self, rows: Rows, markets: Markets) -> Markets:
        return union(
            1 << number for number in row_numbers(markets) if self.markets[number].sold & rows
        )

    def _column(self, key: str, held: dict[ValueSet, Rows]) -> Column:
        lacking = self.everything ^ union(held.values())
        open_to = lacking if key in DECIDED_BY_OFFERING else lacking & self._markets.naming(key)
        return Column(held, absent=lacking ^ open_to, undecided=open_to)


def _labels_of(
    types: Iterable[InstanceType], described: AbstractSet[str]
) -> dict[str, dict[ValueSet, Rows]]:
    """For each label who has which values; empty for a label that nobody is described by."""
    held: dict[str, dict[ValueSet, Rows]] = {key: {} for key in sorted(described)}
    bit = 1
    for kind in types:
        for key, requirement in kind.requirements.items():
            same = held.setdefault(key, {})
            same[requirement.allowed] = same.get(requirement.allowed, 0) | bit
        if INSTANCE_TYPE not in kind.requirements:
            same = held.setdefault(INSTANCE_TYPE, {})
            same[one_of([kind.name])] = same.get(one_of([kind.name]), 0) | bit
        bit <<= 1
    return held


def _by_cost_then_name(kind: InstanceType) -> tuple[float, str]:
    bought = [each for each in kind.offerings if each.available > 0 and not each.reservation_id]
    return min((each.price + kind.fee for each in bought), default=inf), kind.name
