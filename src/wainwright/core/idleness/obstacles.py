"""Obstacles: what truly kept a pod off a reservation, asked once the plan is made."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec

from wainwright.core.idleness.seekers import Seeker
from wainwright.core.idleness.slots import Way
from wainwright.core.why.stops import open_markets, too_few
from wainwright.core.wishes import Ask
from wainwright.model.columns import Rows
from wainwright.model.obstacle import (
    Crowded,
    Elsewhere,
    HeavierPool,
    NodesFirst,
    Obstacle,
    OutOfStock,
    Place,
    PortsTaken,
    Prefers,
    TooSmall,
)
from wainwright.model.preference import OnNodes, OnUntainted
from wainwright.model.reason import (
    Kept,
    LimitReached,
    NoPoolFits,
    TooFewValues,
    Untolerated,
)
from wainwright.model.requirements import Requirements
from wainwright.model.resources import shortage
from wainwright.model.taints import TOLERATE_PREFERENCES, untolerated


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """What the plan has come to."""

    free: Mapping[str, int]
    """Slots left of each reservation."""
    weights: Mapping[str, int]
    """Of the pools, by name."""
    strict: bool
    """Whether minValues must be kept."""
    respects: bool
    """Whether preferences are."""


class Question(NamedTuple):
    """Why these pods did not go this way."""

    way: Way
    seeker: Seeker
    scene: Scene


Test: TypeAlias = Callable[[Question], Obstacle | None]


def obstacle(ways: Sequence[Way], seeker: Seeker, scene: Scene) -> Obstacle:
    """What stopped the pod on the way on which it came furthest."""
    return max((_stopped(way, seeker, scene) for way in ways), key=lambda found: found[0])[1]


def _stopped(way: Way, seeker: Seeker, scene: Scene) -> tuple[int, Obstacle]:
    asked = Question(way, seeker, scene)
    for number, test in enumerate(TESTS):
        found = test(asked)
        if found is not None:
            return number, found
    return len(TESTS), _unexplained(asked)


def _outright(asked: Question) -> Obstacle | None:
    """Whatever the pool, there is no place for such a pod."""
    failure = asked.seeker.failure
    if failure is None or (failure.pools and asked.seeker.wanted):
        return None
    return failure.reason


def _tainted(asked: Question) -> Obstacle | None:
    tolerations = asked.seeker.pod.tolerations
    if asked.seeker.failure is not None or OnUntainted() in asked.seeker.given_up:
        tolerations = (*tolerations, TOLERATE_PREFERENCES)
    taint = untolerated(asked.way.template.pool.taints, tolerations)
    return None if taint is None else Untolerated(taint=taint)


def _labelled(asked: Question) -> Obstacle | None:
    """None where any of the alternatives would do; else why the nearest of them would not."""
    if asked.way.barred is not None:
        return asked.way.barred
    clashes = [(each, asked.way.clash(each)) for each in asked.seeker.wanted]
    if any(found is None for _, found in clashes):
        return None
    _, nearest = max(clashes, key=lambda clash: _nearness(asked, clash[0]))
    return nearest


def _nearness(asked: Question, wanted: Requirements) -> tuple[bool, bool]:
    return asked.way.is_known(wanted), wanted == asked.seeker.placed_by


def _admitted(asked: Question) -> Requirements:
    """The first alternative that this way would do for."""
    return next(each for each in asked.seeker.wanted if asked.way.clash(each) is None)


def _too_small(asked: Question) -> Obstacle | None:
    needs, room = asked.seeker.needs, asked.way.room
    if asked.way.overdrawn is not None:
        return asked.way.overdrawn
    for name in shortage(needs, room):
        return TooSmall(
            resource=name,
            needed=needs.get(name, 0),
            room=room.get(name, 0),
            instance_type=asked.way.kind.name,
            daemonsets=asked.way.taken.get(name, 0),
        )
    return None


def _ports(asked: Question) -> Obstacle | None:
    ports = asked.seeker.pod.bonds.ports
    if not ports:
        return None
    tolerations = (*asked.seeker.pod.tolerations, TOLERATE_PREFERENCES)
    terms = asked.way.template.terms(Ask(_admitted(asked), tolerations, ports))
    if terms is None or terms.rows >> asked.way.row & 1:
        return None
    return PortsTaken(ports=tuple(sorted({port.port for port in ports})))


def _out_of_stock(asked: Question) -> Obstacle | None:
    return None if asked.way.in_stock else OutOfStock(instance_type=asked.way.kind.name)


def _nodes_first(asked: Question) -> Obstacle | None:
    return NodesFirst() if asked.seeker.place is Place.EXISTING else None


def _heavier(asked: Question) -> Obstacle | None:
    own = asked.way.template.pool.weight
    weight = own if asked.seeker.pool is None else asked.scene.weights[asked.seeker.pool]
    if asked.seeker.pool is None or weight <= own:
        return None
    return HeavierPool(pool=asked.seeker.pool, weight=weight, own=own)


def _too_uniform(asked: Question) -> Obstacle | None:
    if not asked.scene.strict or not asked.way.template.minimums:
        return None
    return _few(asked, asked.way.template.index.everything)


def _limited(asked: Question) -> LimitReached | TooFewValues | None:
    if asked.way.limit is not None or not asked.scene.strict or not asked.way.template.minimums:
        return asked.way.limit
    return _few(asked, asked.way.template.limits.allowed)


def _few(asked: Question, among: Rows) -> TooFewValues | None:
    """Whether those of the types that hold the pod are less diverse than the pool asks for."""
    template, index = asked.way.template, asked.way.template.index
    wanted = template.base.requirements.narrow(template.decided_here(_admitted(asked)))
    markets = open_markets(index, wanted, asked.scene.free)
    rows = index.admitted_by(wanted) & template.room.holding(asked.seeker.needs)
    return too_few(template, wanted, rows & index.sold_in(markets) & among, markets)


def _prefers(asked: Question) -> Obstacle | None:
    """The heaviest preference that it did not have to give up is as good as a requirement."""
    if not asked.scene.respects or asked.seeker.failure is not None:
        return None
    for liked in asked.seeker.pod.bonds.preferred_nodes:
        told = OnNodes(requirements=str(liked.requirements), weight=liked.weight)
        if told not in asked.seeker.given_up:
            kept_off = asked.way.clash(liked.requirements) is not None
            return Prefers(preference=told) if kept_off else None
    return None


def _tied(asked: Question) -> Obstacle | None:
    if asked.seeker.failure is not None:
        reason = asked.seeker.failure.reason
        return reason if isinstance(reason, Kept) else None
    tie = asked.seeker.tie
    if tie is None:
        return None
    found = tie.against(asked.way.machine(_admitted(asked)))
    return found or (Crowded() if tie.is_concerned else None)


def _unexplained(asked: Question) -> Obstacle:
    """What the plan itself says."""
    if asked.seeker.failure is None:
        return Elsewhere(pool=asked.seeker.pool or "")
    said = {verdict.pool: verdict.reason for verdict in asked.seeker.failure.pools}
    return said.get(asked.way.template.pool.name, NoPoolFits())


TESTS: Final[tuple[Test, ...]] = (
    _outright,
    _tainted,
    _labelled,
    _too_small,
    _ports,
    _out_of_stock,
    _nodes_first,
    _heavier,
    _too_uniform,
    _limited,
    _prefers,
    _tied,
)
"""In the order in which a pool is asked; who passes one is asked the next."""
