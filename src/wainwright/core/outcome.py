"""The outcome: drafts and nodes with their pods written down as a plan."""

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import count

from wainwright.core.drafts import Draft
from wainwright.core.launch import capacity_type_of, zone_of
from wainwright.core.names import Names
from wainwright.core.nodes import NodeTable
from wainwright.model.labels import CAPACITY_TYPE, ZONE
from wainwright.model.plan import Choices, Launch, Placement, PlannedClaim
from wainwright.model.requirements import Requirement, Requirements
from wainwright.model.resources import ordered


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
