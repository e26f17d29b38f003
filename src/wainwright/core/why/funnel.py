"""The funnel: how far a pod gets with one pool, step by step, and what stops it.

Worked out for pods without a place, and for one that somebody asks about: it may look at types one
by one.
"""

from collections.abc import Iterator, Sequence

import msgspec

from wainwright.core.templates import Template
from wainwright.core.why.blame import Blame
from wainwright.core.why.nearest import nearest, overdrawn
from wainwright.core.why.state import State
from wainwright.core.why.stops import added, broken, limit_reached, open_markets, too_few
from wainwright.model.columns import Rows, row_numbers
from wainwright.model.labels import is_restricted_for_pods, suggestion
from wainwright.model.markets import Markets
from wainwright.model.pod import Pod
from wainwright.model.reason import (
    Funnel,
    LabelConflict,
    LimitReached,
    NothingBigEnough,
    NothingOffered,
    NotOnOffer,
    Overdrawn,
    PoolReason,
    PortsTaken,
    RestrictedLabel,
    Shortage,
    TooFewValues,
    Untolerated,
)
from wainwright.model.requirements import Requirements
from wainwright.model.resources import PODS, Resources, signature, subtract
from wainwright.model.taints import untolerated


class Descent(msgspec.Struct, frozen=True, kw_only=True):
    """How far the pod got, and what stopped it; None where nothing did."""

    funnel: Funnel
    reason: PoolReason | None

    @property
    def depth(self) -> tuple[int, ...]:
        """Further is more: to tell which of a pod's alternatives came nearest."""
        left = msgspec.structs.astuple(self.funnel)
        return (*(min(count, 1) for count in left), *left)


def descent(template: Template, pod: Pod, state: State) -> Descent:
    """The best that any of the pod's alternatives achieves with the pool, as full as it is."""
    taint = untolerated(template.pool.taints, pod.tolerations)
    if taint is not None:
        return _stopped(template, [], Untolerated(taint=taint))
    tries = [_Steps(template, pod, wanted, state).taken() for wanted in pod.alternatives]
    passed = [one for one in tries if one.reason is None]
    return passed[0] if passed else max(tries, key=lambda one: one.depth)


def _stopped(template: Template, left: Sequence[int], reason: PoolReason | None) -> Descent:
    counts = [len(template.index.types), *left]
    counts += [0] * (6 - len(counts))
    names = ("types", "requirements", "resources", "offerings", "min_values", "limits")
    return Descent(funnel=Funnel(**dict(zip(names, counts, strict=True))), reason=reason)


class _Steps:
    """One alternative of one pod on its way down."""

    def __init__(self, template: Template, pod: Pod, wanted: Requirements, state: State) -> None:
        self.template = template
        self.index = template.index
        self.wanted = wanted
        self.requests = {**pod.requests, PODS: 1}
        self.ports = pod.bonds.ports
        self.state = state
        self.left: list[int] = []
        self.both = template.base.requirements

    def taken(self) -> Descent:
        reason = self._labels() or self._steps()
        return _stopped(self.template, self.left, reason)

    def _labels(self) -> PoolReason | None:
        restricted = [
            key
            for key, found in self.wanted.items()
            if is_restricted_for_pods(key) and not found.allowed.admits_absence
        ]
        if restricted:
            return RestrictedLabel(key=restricted[0])
        known = self.template.well_known
        clash = self.both.conflict(self.wanted, known)
        if clash is not None:
            meant = suggestion(clash.key) if clash.offered is None else None
            return LabelConflict(
                key=clash.key, wanted=clash.wanted, offered=clash.offered, meant=meant
            )
        self.both = self.both.narrow(self.template.decided_here(self.wanted))
        return None

    def _steps(self) -> PoolReason | None:
        admitted = self.index.admitted_by(self.both)
        self._count(admitted)
        if not admitted:
            return self._blame.unmatched()
        open_to = admitted ^ (admitted & self.template.clashing(self.ports))
        if not open_to:
            return self._no_port(admitted)
        roomy = open_to & self.template.room.holding(self.requests)
        self._count(roomy)
        if not roomy:
            return self._roomless(open_to)
        markets = self._markets()
        sold = roomy & self.index.sold_in(markets)
        self._count(sold)
        if not sold:
            return self._sold_out(roomy)
        return self._too_uniform(sold, markets) or self._limited(sold, markets)

    def _count(self, rows: Rows) -> None:
        self.left.append(rows.bit_count())

    def _no_port(self, rows: Rows) -> PortsTaken:
        taken = {port.port for port in self.ports if rows & self.template.clashing((port,))}
        return PortsTaken(ports=tuple(sorted(taken)))

    def _roomless(self, rows: Rows) -> Overdrawn | NothingBigEnough:
        """The same for all who ask for as much of types with as much room."""
        template = self.template
        known = self.state.memory.roomless[template.room, signature(self.requests)]
        if rows not in known:
            known[rows] = overdrawn(template, rows) or self._too_big(rows & template.room.solvent)
        return known[rows]

    def _too_big(self, rows: Rows) -> NothingBigEnough:
        """The type that comes nearest, by the resource that it lacks most of."""
        near = nearest(rows, self.requests, self.template.room)
        _, name, row = min(self._lack(row) for row in row_numbers(near))
        taken = self.template.overhead.of(row).get(name, 0)
        return NothingBigEnough(
            resource=name,
            needed=self.requests[name],
            best=max(0, self._room(row).get(name, 0)),
            instance_type=self.index.types[row].name,
            daemonsets=taken,
            beside=tuple(self._also_lacking(row, name)),
        )

    def _also_lacking(self, row: int, told: str) -> Iterator[Shortage]:
        room = self._room(row)
        for name, amount in self.requests.items():
            best = max(0, room.get(name, 0))
            if name != told and amount > best:
                yield Shortage(resource=name, needed=amount, best=best)

    def _lack(self, row: int) -> tuple[float, str, int]:
        room = self._room(row)
        ratio, name = max(
            (amount / max(room.get(name, 0), 0.001), name)
            for name, amount in self.requests.items()
            if amount > 0
        )
        return ratio, name, row

    def _room(self, row: int) -> Resources:
        return subtract(self.index.types[row].allocatable, self.template.overhead.of(row))

    def _markets(self) -> Markets:
        free = self.state.free if self.state.reservations else {}
        return open_markets(self.index, self.both, free)

    def _sold_out(self, rows: Rows) -> NotOnOffer | NothingOffered:
        """The same for all who ask for the same among the same types."""
        asked = self.template.base.requirements, self.wanted, self.both
        known = self.state.memory.unsold[self.index, *asked]
        if rows not in known:
            known[rows] = self._blame.unsold(rows, reservations=self.state.reservations)
        found = known[rows]
        if isinstance(found, NotOnOffer):
            return found
        users = [user for name in found.reservations for user in self.state.users.get(name, ())]
        return msgspec.structs.replace(found, users=tuple(dict.fromkeys(users)))

    @property
    def _blame(self) -> Blame:
        return Blame(self.template, self.wanted, self.both)

    def _too_uniform(self, rows: Rows, markets: Markets) -> TooFewValues | None:
        reason = self._few(rows, markets)
        self._count(rows if reason is None else 0)
        return reason

    def _few(self, rows: Rows, markets: Markets) -> TooFewValues | None:
        return too_few(self.template, self.both, rows, markets) if self.state.strict else None

    def _limited(self, rows: Rows, markets: Markets) -> LimitReached | TooFewValues | None:
        fitting = rows & self.template.limits.allowed
        self._count(fitting)
        if fitting:
            return self._few(fitting, markets)
        return limit_reached(self.template, *self._smallest(rows))

    def _smallest(self, rows: Rows) -> tuple[int, str]:
        """The type that breaks a limit by the least, and that limit; remembered for its equals."""
        left, limits = self.template.limits.left, self.template.pool.limits
        key = self.index, tuple(left.items()), tuple(limits.items())
        known = self.state.memory.smallest[key]
        if rows not in known:
            row = min(row_numbers(rows), key=lambda row: (self._excess(row), row))
            known[rows] = row, broken(self.template, row)[0]
        return known[rows]

    def _excess(self, row: int) -> float:
        """By how much it breaks the limit that it breaks most, in parts of that limit."""
        template = self.template
        left, limits = template.limits.left, template.pool.limits
        return max(
            (added(template, row, name) - left[name]) / max(limits[name], 1)
            for name in broken(template, row)
        )
