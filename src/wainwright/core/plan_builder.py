"""Builds the Plan from a finished solution: NodeClaims, pods on existing nodes, relaxed
preferences.

Sets of instance types are spelt out as names here and nowhere earlier: a large plan leaves most of
its drafts the same sets, so that each set is spelt out once.
"""

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import compress, count
from operator import itemgetter
from typing import Final

from wainwright.core.launch.launch_choice import capacity_type_of, zone_of
from wainwright.core.scheduling.compiled_requirements import CompiledRequirements
from wainwright.core.scheduling.drafts import Draft
from wainwright.core.scheduling.existing_nodes import ExistingNodes
from wainwright.core.scheduling.new_node import fitting_types
from wainwright.core.scheduling.nodeclaim_template import NodeClaimTemplate
from wainwright.core.scheduling.pod_requirements import PodClass, PodRequirements
from wainwright.core.scheduling.solver import Solution
from wainwright.model.bitset import BitSet, iter_bits
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import CAPACITY_TYPE, ZONE
from wainwright.model.offering_groups import OfferingGroupSet
from wainwright.model.plan import (
    NodeAssignment,
    PlannedLaunch,
    PlannedNodeClaim,
    RelaxedPods,
    RemainingOptions,
)
from wainwright.model.reasons import RelaxedPreference
from wainwright.model.requirements import Requirement, Requirements, ValueSet
from wainwright.model.resources import sort_resources

FLAGS: Final = bytes.maketrans(b"01", b"\x00\x01")


class TypeNames:
    """The names of some types; any set of these is spelt out in the order of names."""

    __slots__ = ("_flags_of", "_marker", "_names")

    def __init__(self, index: InstanceTypeIndex, rows: BitSet) -> None:
        digits = _binary_digits(rows)
        ordered = [row for row in index.name_order if row < len(digits) and digits[~row]]
        self._names = [index.types[row].name for row in ordered]
        self._marker: BitSet = 1 << len(index.types)
        # A getter of one place gives no tuple, so that the marker is asked for as well, twice.
        self._flags_of = itemgetter(*[~row for row in ordered], 0, 0)

    def of(self, rows: BitSet) -> tuple[str, ...]:
        return tuple(compress(self._names, self._flags_of(_binary_digits(rows | self._marker))))


def _binary_digits(rows: BitSet) -> bytes:
    """For each row whether it is in the set, the last row first."""
    return bin(rows)[2:].encode().translate(FLAGS)


class CatalogNames:
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

    def __init__(self, index: InstanceTypeIndex) -> None:
        self._index = index
        self._ids = [offering_group.reservation_id for offering_group in index.offering_groups]
        self.told: dict[tuple[CompiledRequirements, BitSet], RemainingOptions] = {}
        self._known: dict[BitSet, tuple[str, ...]] = {}
        self._spellings: dict[BitSet, TypeNames] = {}
        self._admitted: dict[tuple[str, ValueSet], list[tuple[str, OfferingGroupSet]]] = {}
        self._markets = {
            key: list(index.groups_by_value(key).items()) for key in (ZONE, CAPACITY_TYPE)
        }
        self._open = {ZONE: index.groups_without_zone, CAPACITY_TYPE: 0}

    def types(self, rows: BitSet, among: BitSet) -> tuple[str, ...]:
        """In order; `among` are all that any draft of the pool might have."""
        found = self._known.get(rows)
        if found is None:
            spelling = self._spellings.get(among)
            if spelling is None:
                spelling = self._spellings[among] = TypeNames(self._index, among)
            found = self._known[rows] = spelling.of(rows)
        return found

    def values(
        self, key: str, rows: BitSet, offering_groups: OfferingGroupSet, allowed: ValueSet
    ) -> tuple[str, ...]:
        """The values of a label that these types have in these markets, in order.

        A market that leaves the zone open stands for every zone that the catalogue knows.
        """
        sold = self._index.available_in
        anywhere = sold(self._open[key] & offering_groups) & rows
        found = tuple(
            value
            for value, having in self._markets[key]
            if allowed.admits(value) and (anywhere or sold(having & offering_groups) & rows)
        )
        return found or _required_values(allowed)

    def held(self, key: str, held: OfferingGroupSet, allowed: ValueSet) -> tuple[str, ...]:
        """The same for markets that are known to sell what is left."""
        admitted = self._admitted.get((key, allowed))
        if admitted is None:
            admitted = self._admitted[key, allowed] = [
                (value, having | self._open[key])
                for value, having in self._markets[key]
                if allowed.admits(value)
            ]
        return tuple([value for value, having in admitted if having & held]) or _required_values(
            allowed
        )

    def reservations(self, held: OfferingGroupSet) -> tuple[str, ...]:
        found = {self._ids[offering_group] or "" for offering_group in iter_bits(held)}
        return tuple(sorted(found))


def _required_values(allowed: ValueSet) -> tuple[str, ...]:
    """What is asked for, where nobody who sells names a value."""
    return () if allowed.open else tuple(sorted(allowed.values))


def planned_claims(
    drafts: Iterable[Draft], resources: Sequence[str], taken: AbstractSet[str] = frozenset()
) -> tuple[PlannedNodeClaim, ...]:
    """Each draft as a claim, named after its pool in the order of creation.

    Numbers that a machine of the cluster has already are passed over.
    """
    names: dict[int, CatalogNames] = {}
    numbered: dict[str, Iterator[str]] = {}
    found = []
    for draft in drafts:
        index, pool = draft.template.index, draft.template.pool.name
        if id(index) not in names:
            names[id(index)] = CatalogNames(index)
        if pool not in numbered:
            numbered[pool] = _unused_names(pool, taken)
        found.append(_claim(draft, next(numbered[pool]), names[id(index)], resources))
    return tuple(found)


def _unused_names(pool: str, taken: AbstractSet[str]) -> Iterator[str]:
    return (name for number in count(1) if (name := f"{pool}-{number}") not in taken)


def pods_on_existing_nodes(nodes: ExistingNodes) -> tuple[NodeAssignment, ...]:
    """The nodes that receive pods, in the order of names."""
    received = [
        NodeAssignment(node=node.name, pods=tuple(sorted(pod.key for pod in pods)))
        for node, pods in zip(nodes.nodes, nodes.pods, strict=True)
        if pods
    ]
    return tuple(sorted(received, key=lambda placement: placement.node))


def _claim(
    draft: Draft, name: str, names: CatalogNames, resources: Sequence[str]
) -> PlannedNodeClaim:
    lowered = _relaxed_min_values(draft)
    return PlannedNodeClaim(
        name=name,
        pool=draft.template.pool.name,
        round=draft.round,
        requirements=_claim_requirements(draft, lowered),
        choices=_choices(draft, names),
        launch=_launch(draft),
        fees=_fees(draft),
        requests=_requests(draft, resources),
        pods=tuple(sorted([pod.key for pod in draft.pods])),
        relaxed_min_values=tuple(sorted(key for key, _ in lowered)) if lowered else (),
    )


def _choices(draft: Draft, names: CatalogNames) -> RemainingOptions:
    if draft.held:
        return _spell_choices(draft, names)
    asked = (draft.narrowing, draft.rows)
    found = names.told.get(asked)
    if found is None:  # most drafts of a large plan are left the same as some other
        found = names.told[asked] = _spell_choices(draft, names)
    return found


def _spell_choices(draft: Draft, names: CatalogNames) -> RemainingOptions:
    rows, offering_groups = draft.rows, draft.narrowing.offering_groups
    allowed = draft.narrowing.requirements.allowed
    zones, kinds = (
        names.held(key, draft.held, allowed(key))
        if draft.held
        else names.values(key, rows, offering_groups, allowed(key))
        for key in (ZONE, CAPACITY_TYPE)
    )
    return RemainingOptions(
        instance_types=names.types(rows, draft.template.base.rows),
        zones=zones,
        capacity_types=kinds,
        reservation_ids=names.reservations(draft.held) if draft.held else (),
    )


def _launch(draft: Draft) -> PlannedLaunch:
    assert draft.buy is not None, "drafts are pinned when their round is over"
    left, buy = draft.left, draft.buy
    return PlannedLaunch(
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
    return sort_resources(taken)


def _relaxed_min_values(draft: Draft) -> list[tuple[str, int]]:
    """The minimums that are less than the pool asks for."""
    if draft.minimums is draft.template.minimums:
        return []
    wanted = dict(draft.template.minimums)
    return [(key, count) for key, count in draft.minimums if count < wanted[key]]


def _claim_requirements(draft: Draft, lowered: Sequence[tuple[str, int]]) -> Requirements:
    requirements = draft.narrowing.requirements
    if not lowered:
        return requirements
    relaxed = [
        Requirement(key=key, allowed=requirements.allowed(key), min_values=count or None)
        for key, count in lowered
    ]
    kept = requirements.without({key for key, _ in lowered})
    return kept.narrow(Requirements(relaxed))


def relaxed_preferences(solution: Solution) -> tuple[RelaxedPods, ...]:
    """Pods that gave up the same, together; in the order of names."""
    given_up = solution.placing.given_up
    if not given_up:
        return ()
    classes = {id(pod): group for group in solution.classes.all for pod in group.pods}
    alike: dict[tuple[int, tuple[RelaxedPreference, ...]], list[str]] = {}
    for pod, given in given_up:
        alike.setdefault((classes[id(pod)].number, given), []).append(pod.key)
    found = [
        RelaxedPods(
            pods=tuple(sorted(pods)),
            preferences=given,
            price_if_kept=_price_without_relaxing(solution, solution.classes.all[number]),
        )
        for (number, given), pods in alike.items()
    ]
    return tuple(sorted(found, key=lambda one: one.pods))


def _price_without_relaxing(solution: Solution, group: PodClass) -> float | None:
    """The cheapest node for one of the pods with all that it would have liked, company aside."""
    prices = [
        price
        for wish in group.stages[0].wishes
        for template in solution.placing.templates
        for price in _cheapest_prices(template, wish)
    ]
    return min(prices, default=None)


def _cheapest_prices(template: NodeClaimTemplate, wish: PodRequirements) -> Iterator[float]:
    terms = wish.ask.terms[template.number]
    if terms is None:
        return
    narrowing = terms.narrowing
    bought = template.index.cheapest_in_groups(
        fitting_types(template, wish) & narrowing.offered, narrowing.offering_groups
    )
    if bought is not None:
        yield bought[1].price
