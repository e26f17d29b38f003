"""The instance type funnel: how many types of a NodePool are left to a pod after each check, and
the check that leaves none.

Labels, host ports, resources, offerings, minValues and limits are checked in the order of the
scheduler. It is run for pods without a place, and for one that somebody asks about: it may
look at types one by one. Answers about sets of types are cached by all that they depend on.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

import msgspec

from wainwright.core.explain.label_diagnosis import LabelDiagnosis
from wainwright.core.scheduling.nodeclaim_template import NodeClaimTemplate
from wainwright.model.bitset import BitSet, ResourceIndex, iter_bits
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import is_restricted_for_pods, suggest_label
from wainwright.model.offering_groups import OfferingGroupSet
from wainwright.model.pod import Pod
from wainwright.model.reasons import (
    DaemonSetsExceedCapacity,
    Funnel,
    HostPortsTaken,
    InstanceTypesTooSmall,
    LabelConflict,
    LimitExceeded,
    MinValuesUnsatisfied,
    NoMatchingOffering,
    OfferingsUnavailable,
    PoolReason,
    ResourceShortage,
    RestrictedLabel,
    UntoleratedTaint,
)
from wainwright.model.requirements import Requirements
from wainwright.model.resources import PODS, Resources, resources_key, subtract_resources
from wainwright.model.snapshot import NODES_LIMIT
from wainwright.model.taints import find_untolerated_taint


class FunnelCache:
    """Answers of the funnel about sets of types, by all that they depend on.

    That is not the pool: those with the same catalogue share answers, and one that a fix changes
    has none of those that it had before.
    """

    __slots__ = ("roomless", "smallest", "unsold")

    def __init__(self) -> None:
        self.roomless: defaultdict[
            object, dict[BitSet, DaemonSetsExceedCapacity | InstanceTypesTooSmall]
        ]
        self.roomless = defaultdict(dict)
        """By room and requests: what comes nearest, and what it lacks."""
        self.unsold: defaultdict[object, dict[BitSet, NoMatchingOffering | OfferingsUnavailable]]
        self.unsold = defaultdict(dict)
        """By catalogue and what pool and pod want: why none of these can be bought."""
        self.smallest: defaultdict[object, dict[BitSet, tuple[int, str]]]
        self.smallest = defaultdict(dict)
        """By catalogue, limits and what is left of them: what breaks one by least, and which."""


class FunnelContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan has come to: the rest of the world, as the pod without a place finds it."""

    free: Mapping[str, int]
    """Available capacity of each reservation."""
    users: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """The claims of the plan that use each."""
    strict: bool = True
    """Whether minValues must be kept."""
    reservations: bool = True
    memory: FunnelCache = msgspec.field(default_factory=FunnelCache)


def available_offering_groups(
    index: InstanceTypeIndex, wanted: Requirements, free: Mapping[str, int]
) -> OfferingGroupSet:
    """Where one may buy, without the reservations that have no available capacity."""
    found = index.compatible_groups(wanted)
    for number in iter_bits(found):
        name = index.offering_groups[number].reservation_id
        if name is not None and not free.get(name):
            found ^= 1 << number
    return found


def check_min_values(
    template: NodeClaimTemplate,
    wanted: Requirements,
    rows: BitSet,
    offering_groups: OfferingGroupSet,
) -> MinValuesUnsatisfied | None:
    """The first of the pool's minValues that these types, bought there, do not keep."""
    for key, count in template.minimums:
        found = template.index.remaining_values(key, rows, offering_groups, wanted.allowed(key))
        if len(found) < count:
            return MinValuesUnsatisfied(key=key, needed=count, found=len(found))
    return None


def usage_of_one_node(template: NodeClaimTemplate, row: int, name: str) -> int:
    """What one more node of the type counts against a limit."""
    return 1 if name == NODES_LIMIT else template.index.types[row].capacity.get(name, 0)


def exceeded_limits(template: NodeClaimTemplate, row: int) -> list[str]:
    """The limits that one more node of the type would break."""
    left = template.limits.left
    return [name for name in left if usage_of_one_node(template, row, name) > left[name]]


def limit_reached_reason(template: NodeClaimTemplate, row: int, name: str) -> LimitExceeded:
    return LimitExceeded(
        resource=name,
        limit=template.pool.limits[name],
        in_use=template.pool.in_use.get(name, 0),
        needed=usage_of_one_node(template, row, name),
        instance_type=template.index.types[row].name,
    )


BISECTION_STEPS: Final = 12  # halvings until the types left are about equally near
MAX_COMPARED_TYPES: Final = 32  # of those, when they are taken one by one


def closest_types(rows: BitSet, asked: Resources, room: ResourceIndex) -> BitSet:
    """A few of the types, the nearest among them: those that hold the largest share of it."""
    low, high = 0.0, 1.0
    found = rows
    for _ in range(BISECTION_STEPS):
        share = (low + high) / 2
        part = {name: int(amount * share) for name, amount in asked.items()}
        holding = rows & room.fitting(part)
        low, high = (share, high) if holding else (low, share)
        found = holding or found
    return found


def daemonset_overcommit(
    template: NodeClaimTemplate, rows: BitSet
) -> DaemonSetsExceedCapacity | None:
    """What daemonsets want of the nearest of the types; None where any of them has enough."""
    if rows & template.room.non_negative:
        return None
    few = 0
    for group, taken in template.overhead.groups:
        few |= closest_types(group & rows, taken, template.index.allocatable_index)
    debts = (_daemonset_excess(template, row) for row in islice(iter_bits(few), MAX_COMPARED_TYPES))
    _, name, row = min(debts)
    return DaemonSetsExceedCapacity(
        resource=name,
        needed=template.overhead.of(row).get(name, 0),
        best=max(0, template.index.types[row].allocatable.get(name, 0)),
        instance_type=template.index.types[row].name,
    )


def _daemonset_excess(template: NodeClaimTemplate, row: int) -> tuple[float, str, int]:
    """How many times as much as there is they want, of what they lack most."""
    has, taken = template.index.types[row].allocatable, template.overhead.of(row)
    short = [name for name in {**has, **taken} if has.get(name, 0) < taken.get(name, 0)]
    ratio, name = max((taken.get(name, 0) / max(has.get(name, 0), 0.001), name) for name in short)
    return ratio, name, row


class FunnelResult(msgspec.Struct, frozen=True, kw_only=True):
    """How far the pod got, and what stopped it; None where nothing did."""

    funnel: Funnel
    reason: PoolReason | None

    @property
    def depth(self) -> tuple[int, ...]:
        """Further is more: to tell which of a pod's alternatives came nearest."""
        left = msgspec.structs.astuple(self.funnel)
        return (*(min(count, 1) for count in left), *left)


def run_funnel(template: NodeClaimTemplate, pod: Pod, state: FunnelContext) -> FunnelResult:
    """The best that any of the pod's alternatives achieves with the pool, as full as it is."""
    taint = find_untolerated_taint(template.pool.taints, pod.tolerations)
    if taint is not None:
        return _funnel_result(template, [], UntoleratedTaint(taint=taint))
    tries = [
        _AlternativeFunnel(template, pod, wanted, state).taken() for wanted in pod.alternatives
    ]
    passed = [one for one in tries if one.reason is None]
    return passed[0] if passed else max(tries, key=lambda one: one.depth)


def _funnel_result(
    template: NodeClaimTemplate, left: Sequence[int], reason: PoolReason | None
) -> FunnelResult:
    counts = [len(template.index.types), *left]
    counts += [0] * (6 - len(counts))
    names = ("types", "requirements", "resources", "offerings", "min_values", "limits")
    return FunnelResult(funnel=Funnel(**dict(zip(names, counts, strict=True))), reason=reason)


class _AlternativeFunnel:
    """One alternative of one pod on its way down."""

    def __init__(
        self, template: NodeClaimTemplate, pod: Pod, wanted: Requirements, state: FunnelContext
    ) -> None:
        self.template = template
        self.index = template.index
        self.wanted = wanted
        self.requests = {**pod.requests, PODS: 1}
        self.ports = pod.constraints.ports
        self.state = state
        self.left: list[int] = []
        self.both = template.base.requirements

    def taken(self) -> FunnelResult:
        reason = self._labels() or self._steps()
        return _funnel_result(self.template, self.left, reason)

    def _labels(self) -> PoolReason | None:
        restricted = [
            key
            for key, found in self.wanted.items()
            if is_restricted_for_pods(key) and not found.allowed.admits_absence
        ]
        if restricted:
            return RestrictedLabel(key=restricted[0])
        known = self.template.well_known
        clash = self.both.find_conflict(self.wanted, known)
        if clash is not None:
            meant = suggest_label(clash.key) if clash.offered is None else None
            return LabelConflict(
                key=clash.key, wanted=clash.wanted, offered=clash.offered, meant=meant
            )
        self.both = self.both.narrow(self.template.decided_here(self.wanted))
        return None

    def _steps(self) -> PoolReason | None:
        admitted = self.index.compatible_types(self.both)
        self._count(admitted)
        if not admitted:
            return self._label_diagnosis.unmatched()
        open_to = admitted ^ (admitted & self.template.clashing(self.ports))
        if not open_to:
            return self._no_port(admitted)
        roomy = open_to & self.template.room.fitting(self.requests)
        self._count(roomy)
        if not roomy:
            return self._roomless(open_to)
        offering_groups = self._markets()
        sold = roomy & self.index.available_in(offering_groups)
        self._count(sold)
        if not sold:
            return self._sold_out(roomy)
        return self._too_uniform(sold, offering_groups) or self._limited(sold, offering_groups)

    def _count(self, rows: BitSet) -> None:
        self.left.append(rows.bit_count())

    def _no_port(self, rows: BitSet) -> HostPortsTaken:
        taken = {port.port for port in self.ports if rows & self.template.clashing((port,))}
        return HostPortsTaken(ports=tuple(sorted(taken)))

    def _roomless(self, rows: BitSet) -> DaemonSetsExceedCapacity | InstanceTypesTooSmall:
        """The same for all who ask for as much of types with as much room."""
        template = self.template
        known = self.state.memory.roomless[template.room, resources_key(self.requests)]
        if rows not in known:
            known[rows] = daemonset_overcommit(template, rows) or self._too_big(
                rows & template.room.non_negative
            )
        return known[rows]

    def _too_big(self, rows: BitSet) -> InstanceTypesTooSmall:
        """The type that comes nearest, by the resource that it lacks most of."""
        near = closest_types(rows, self.requests, self.template.room)
        _, name, row = min(self._lack(row) for row in iter_bits(near))
        taken = self.template.overhead.of(row).get(name, 0)
        return InstanceTypesTooSmall(
            resource=name,
            needed=self.requests[name],
            best=max(0, self._room(row).get(name, 0)),
            instance_type=self.index.types[row].name,
            daemonsets=taken,
            other_shortages=tuple(self._also_lacking(row, name)),
        )

    def _also_lacking(self, row: int, told: str) -> Iterator[ResourceShortage]:
        room = self._room(row)
        for name, amount in self.requests.items():
            best = max(0, room.get(name, 0))
            if name != told and amount > best:
                yield ResourceShortage(resource=name, needed=amount, best=best)

    def _lack(self, row: int) -> tuple[float, str, int]:
        room = self._room(row)
        ratio, name = max(
            (amount / max(room.get(name, 0), 0.001), name)
            for name, amount in self.requests.items()
            if amount > 0
        )
        return ratio, name, row

    def _room(self, row: int) -> Resources:
        return subtract_resources(self.index.types[row].allocatable, self.template.overhead.of(row))

    def _markets(self) -> OfferingGroupSet:
        free = self.state.free if self.state.reservations else {}
        return available_offering_groups(self.index, self.both, free)

    def _sold_out(self, rows: BitSet) -> NoMatchingOffering | OfferingsUnavailable:
        """The same for all who ask for the same among the same types."""
        asked = self.template.base.requirements, self.wanted, self.both
        known = self.state.memory.unsold[self.index, *asked]
        if rows not in known:
            known[rows] = self._label_diagnosis.unsold(rows, reservations=self.state.reservations)
        found = known[rows]
        if isinstance(found, NoMatchingOffering):
            return found
        users = [user for name in found.reservations for user in self.state.users.get(name, ())]
        return msgspec.structs.replace(found, users=tuple(dict.fromkeys(users)))

    @property
    def _label_diagnosis(self) -> LabelDiagnosis:
        return LabelDiagnosis(self.template, self.wanted, self.both)

    def _too_uniform(
        self, rows: BitSet, offering_groups: OfferingGroupSet
    ) -> MinValuesUnsatisfied | None:
        reason = self._few(rows, offering_groups)
        self._count(rows if reason is None else 0)
        return reason

    def _few(self, rows: BitSet, offering_groups: OfferingGroupSet) -> MinValuesUnsatisfied | None:
        return (
            check_min_values(self.template, self.both, rows, offering_groups)
            if self.state.strict
            else None
        )

    def _limited(
        self, rows: BitSet, offering_groups: OfferingGroupSet
    ) -> LimitExceeded | MinValuesUnsatisfied | None:
        fitting = rows & self.template.limits.allowed
        self._count(fitting)
        if fitting:
            return self._few(fitting, offering_groups)
        return limit_reached_reason(self.template, *self._smallest(rows))

    def _smallest(self, rows: BitSet) -> tuple[int, str]:
        """The type that breaks a limit by the least, and that limit; remembered for its equals."""
        left, limits = self.template.limits.left, self.template.pool.limits
        key = self.index, tuple(left.items()), tuple(limits.items())
        known = self.state.memory.smallest[key]
        if rows not in known:
            row = min(iter_bits(rows), key=lambda row: (self._excess(row), row))
            known[rows] = row, exceeded_limits(self.template, row)[0]
        return known[rows]

    def _excess(self, row: int) -> float:
        """By how much it breaks the limit that it breaks most, in parts of that limit."""
        template = self.template
        left, limits = template.limits.left, template.pool.limits
        return max(
            (usage_of_one_node(template, row, name) - left[name]) / max(limits[name], 1)
            for name in exceeded_limits(template, row)
        )
