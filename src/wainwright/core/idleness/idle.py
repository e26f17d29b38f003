"""Idle reservations: capacity that is paid for and stays unused, and what kept pods off it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

import msgspec

from wainwright.core.filled import filled
from wainwright.core.idleness.homes import Homes
from wainwright.core.idleness.neighbours import Neighbours
from wainwright.core.idleness.obstacles import Scene, obstacle
from wainwright.core.idleness.seekers import Seeker, seekers
from wainwright.core.idleness.slots import Way, ways
from wainwright.core.templates import compiled, rank
from wainwright.model.index import TypeIndex
from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.labels import ON_DEMAND, RESERVATION_ID
from wainwright.model.obstacle import KeptOff, Obstacle, Place, TooSmall
from wainwright.model.options import DEFAULT_OPTIONS, MinValuesPolicy, Options, PreferencePolicy
from wainwright.model.plan import Plan, ReservationUse
from wainwright.model.pool import Pool
from wainwright.model.reason import PoolUnusable
from wainwright.model.requirements import Requirements
from wainwright.model.snapshot import Reservation, Snapshot


class Idle(msgspec.Struct, frozen=True, kw_only=True):
    """A reservation, and what becomes of its slots."""

    id: str
    instance_type: str
    zone: str
    total: int
    available: int
    promised: int
    used: int
    worth: float | None
    """USD per hour that one slot costs on demand; None where nobody knows."""
    kept: tuple[KeptOff, ...]

    @property
    def idle(self) -> int:
        """What is free, and neither promised to claims under way nor used by the plan."""
        return max(0, self.available - self.promised - self.used)


def idle(
    snapshot: Snapshot,
    catalogs: Mapping[str, TypeIndex],
    plan: Plan,
    options: Options = DEFAULT_OPTIONS,
) -> tuple[Idle, ...]:
    """Every reservation that can be used, with what kept pods off the slots that stay idle."""
    stocktaking = _Stocktaking(snapshot, catalogs, plan, options)
    return tuple(map(stocktaking.of, (each for each in snapshot.reservations if each.is_usable)))


class _Stocktaking:
    """Everything that is asked of each reservation, found out once."""

    def __init__(
        self,
        snapshot: Snapshot,
        catalogs: Mapping[str, TypeIndex],
        plan: Plan,
        options: Options,
    ) -> None:
        now = filled(snapshot, catalogs, plan.claims)
        self.templates = compiled(now.pools, catalogs, snapshot.daemonsets)
        self.unusable = [
            (pool, catalogs[pool.name])
            for pool in sorted(snapshot.pools, key=rank)
            if pool.unusable is not None and pool.name in catalogs
        ]
        self.uses = {use.id: use for use in plan.reservations}
        self.scene = Scene(
            free={use.id: use.left for use in plan.reservations},
            weights={pool.name: pool.weight for pool in snapshot.pools},
            strict=options.min_values_policy is MinValuesPolicy.STRICT,
            respects=options.preference_policy is PreferencePolicy.RESPECT,
        )
        homes = Homes(catalogs)
        neighbours = Neighbours(snapshot, plan, homes, options.preference_policy)
        neighbours.count(self.templates, self.scene.free)
        self.seekers = list(seekers(snapshot, plan, homes, neighbours))
        asked = (*neighbours.keys, *chain.from_iterable(self._wanted(snapshot)))
        self.named = RESERVATION_ID in asked
        """Whether anybody asks for reservations by name."""
        self.kept: dict[object, tuple[KeptOff, ...]] = {}

    def _wanted(self, snapshot: Snapshot) -> Iterator[Requirements]:
        yield from (pool.requirements for pool in snapshot.pools)
        for seeker in self.seekers:
            yield from seeker.wanted
            yield from (each.requirements for each in seeker.pod.bonds.preferred_nodes)

    def of(self, one: Reservation) -> Idle:
        use = self.uses.get(one.id) or ReservationUse(
            id=one.id, total=one.total, available=one.available, used=0
        )
        found = list(ways(one.id, self.templates))
        return Idle(
            id=one.id,
            instance_type=one.instance_type,
            zone=one.zone,
            total=one.total,
            available=one.available,
            promised=use.promised,
            used=use.used,
            worth=self._worth(one.id),
            kept=self._remembered(one.id, found) if use.left else (),
        )

    def _remembered(self, name: str, found: Sequence[Sequence[Way]]) -> tuple[KeptOff, ...]:
        """Asked once of reservations that differ in nothing but their names."""
        closed = [
            pool
            for pool, index in self.unusable
            if any(market.reservation_id == name for market in index.markets)
        ]
        ways = tuple(way.looks for each in found for way in each)
        key = (ways, tuple(pool.name for pool in closed), name if self.named else None)
        if key not in self.kept:
            self.kept[key] = tuple(self._kept(found, closed))
        return self.kept[key]

    def _kept(self, found: Iterable[Sequence[Way]], closed: Iterable[Pool]) -> Iterator[KeptOff]:
        """By pool: those without a place, then those on new nodes, then the others."""
        for each in found:
            yield from _grouped(each[0].template.pool, self._obstacles(each))
        for pool in closed:
            reason = PoolUnusable(why=pool.unusable or "")
            yield from _grouped(pool, ((seeker, reason) for seeker in self.seekers))

    def _obstacles(self, found: Sequence[Way]) -> Iterator[tuple[Seeker, Obstacle]]:
        return ((seeker, obstacle(found, seeker, self.scene)) for seeker in self.seekers)

    def _worth(self, name: str) -> float | None:
        indexes = (*(each.index for each in self.templates), *(each for _, each in self.unusable))
        return next((_worth(*offer) for offer in _offers(name, indexes)), None)


def _grouped(pool: Pool, found: Iterable[tuple[Seeker, Obstacle]]) -> Iterator[KeptOff]:
    groups: dict[tuple[Place, Obstacle], tuple[Obstacle, list[str]]] = {}
    for seeker, reason in found:
        key = seeker.place, _alike(reason)
        told, pods = groups.setdefault(key, (reason, []))
        pods += seeker.keys
        groups[key] = _nearer(told, reason), pods
    for place in (Place.NONE, Place.NEW, Place.EXISTING):
        for (where, _), (reason, pods) in groups.items():
            if where is place:
                yield KeptOff(pool=pool.name, place=place, reason=reason, pods=tuple(sorted(pods)))


def _alike(reason: Obstacle) -> Obstacle:
    """Pods of many sizes for which a machine is too small are told of together."""
    return msgspec.structs.replace(reason, needed=0) if isinstance(reason, TooSmall) else reason


def _nearer(told: Obstacle, reason: Obstacle) -> Obstacle:
    if isinstance(told, TooSmall) and isinstance(reason, TooSmall):
        return min(told, reason, key=lambda each: each.needed)
    return told


def _offers(
    reservation: str, indexes: Iterable[TypeIndex]
) -> Iterator[tuple[InstanceType, Offering]]:
    for index in dict.fromkeys(indexes):
        for kind in index.types:
            for offering in kind.offerings:
                if offering.reservation_id == reservation:
                    yield kind, offering


def _worth(kind: InstanceType, reserved: Offering) -> float | None:
    prices = [
        offering.price
        for offering in kind.offerings
        if offering.capacity_type == ON_DEMAND and offering.zone in (None, reserved.zone)
    ]
    return min(prices, default=None)
