"""The instance type funnel: how many types of a NodePool are left to a pod after each check, and
the check that leaves none.

Labels, host ports, resources, offerings, minValues and limits are checked in the order of the
scheduler. It runs only for pods without a place and for a pod that is explained, so that it may
look at types one by one. Results about sets of types are cached by all that they depend on.
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
    """Results of the funnel about sets of types, by all that they depend on.

    The pool is no part of the keys: pools with the same catalog share results, and a pool that a
    suggested change alters has keys of its own. Without it hundreds of pod classes that fail alike
    would each look at every type of every pool.
    """

    __slots__ = ("closest_to_limits", "no_offering", "too_small")

    def __init__(self) -> None:
        self.too_small: defaultdict[
            object, dict[BitSet, DaemonSetsExceedCapacity | InstanceTypesTooSmall]
        ]
        self.too_small = defaultdict(dict)
        """By room and requests: the type that comes closest, and what it lacks."""
        self.no_offering: defaultdict[
            object, dict[BitSet, NoMatchingOffering | OfferingsUnavailable]
        ]
        self.no_offering = defaultdict(dict)
        """By catalog and requirements of pool and pod: why none of the types can be launched."""
        self.closest_to_limits: defaultdict[object, dict[BitSet, tuple[int, str]]]
        self.closest_to_limits = defaultdict(dict)
        """By catalog, limits and what is left: the type that exceeds a limit least, and which."""


class FunnelContext(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a plan that the funnel depends on, besides the pool and the pod."""

    available_counts: Mapping[str, int]
    """Available instances of each reservation."""
    users: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """The claims of the plan that use each."""
    strict_min_values: bool = True
    """Whether minValues must be satisfied."""
    reservations: bool = True
    """Whether capacity reservations may be used."""
    cache: FunnelCache = msgspec.field(default_factory=FunnelCache)


def available_offering_groups(
    index: InstanceTypeIndex, requirements: Requirements, available_counts: Mapping[str, int]
) -> OfferingGroupSet:
    """The compatible offering groups, without reservations that have no available capacity."""
    groups = index.compatible_groups(requirements)
    for number in iter_bits(groups):
        name = index.offering_groups[number].reservation_id
        if name is not None and not available_counts.get(name):
            groups ^= 1 << number
    return groups


def check_min_values(
    template: NodeClaimTemplate,
    requirements: Requirements,
    types: BitSet,
    offering_groups: OfferingGroupSet,
) -> MinValuesUnsatisfied | None:
    """The first of the pool's minValues that these types in these groups do not satisfy."""
    for key, count in template.min_values:
        allowed = requirements.allowed(key)
        values = template.index.remaining_values(key, types, offering_groups, allowed)
        if len(values) < count:
            return MinValuesUnsatisfied(key=key, needed=count, found=len(values))
    return None


def usage_of_one_node(template: NodeClaimTemplate, type_number: int, name: str) -> int:
    """The amount that one more node of the type adds to the usage of a limit."""
    return 1 if name == NODES_LIMIT else template.index.types[type_number].capacity.get(name, 0)


def exceeded_limits(template: NodeClaimTemplate, type_number: int) -> list[str]:
    """The limits that one more node of the type would exceed."""
    remaining = template.limits.remaining
    return [
        name
        for name in remaining
        if usage_of_one_node(template, type_number, name) > remaining[name]
    ]


def limit_reached_reason(template: NodeClaimTemplate, type_number: int, name: str) -> LimitExceeded:
    return LimitExceeded(
        resource=name,
        limit=template.pool.limits[name],
        in_use=template.pool.in_use.get(name, 0),
        needed=usage_of_one_node(template, type_number, name),
        instance_type=template.index.types[type_number].name,
    )


BISECTION_STEPS: Final = 12  # halvings, after which the types left are about equally close
MAX_COMPARED_TYPES: Final = 32  # of those, one by one


def closest_types(types: BitSet, requests: Resources, room: ResourceIndex) -> BitSet:
    """A few of the types with the closest among them: those that hold the largest share.

    The share is found by bisection with the resource index: a dozen look-ups, where comparing
    all types one by one would take a thousand for each pod and pool.
    """
    low, high = 0.0, 1.0
    closest = types
    for _ in range(BISECTION_STEPS):
        share = (low + high) / 2
        part = {name: int(amount * share) for name, amount in requests.items()}
        holding = types & room.fitting(part)
        low, high = (share, high) if holding else (low, share)
        closest = holding or closest
    return closest


def daemonset_overcommit(
    template: NodeClaimTemplate, types: BitSet
) -> DaemonSetsExceedCapacity | None:
    """The daemonset overhead of the closest of the types; None where any of them has enough."""
    if types & template.allocatable.non_negative:
        return None
    closest = 0
    for group, overhead in template.overhead.groups:
        closest |= closest_types(group & types, overhead, template.index.allocatable_index)
    compared = islice(iter_bits(closest), MAX_COMPARED_TYPES)
    _, name, type_number = min(_daemonset_excess(template, type_number) for type_number in compared)
    return DaemonSetsExceedCapacity(
        resource=name,
        needed=template.overhead.of(type_number).get(name, 0),
        best=max(0, template.index.types[type_number].allocatable.get(name, 0)),
        instance_type=template.index.types[type_number].name,
    )


def _daemonset_excess(template: NodeClaimTemplate, type_number: int) -> tuple[float, str, int]:
    """Overhead as a multiple of allocatable, for the resource where that is highest."""
    has, overhead = template.index.types[type_number].allocatable, template.overhead.of(type_number)
    short = [name for name in {**has, **overhead} if has.get(name, 0) < overhead.get(name, 0)]
    ratio, name = max(
        (overhead.get(name, 0) / max(has.get(name, 0), 0.001), name) for name in short
    )
    return ratio, name, type_number


class FunnelResult(msgspec.Struct, frozen=True, kw_only=True):
    """How many types passed each check, and the reason of the check that left none, if any."""

    funnel: Funnel
    reason: PoolReason | None

    @property
    def depth(self) -> tuple[int, ...]:
        """A sort key: the alternative of a pod that passed most checks is the highest."""
        counts = msgspec.structs.astuple(self.funnel)
        return (*(min(count, 1) for count in counts), *counts)


def run_funnel(template: NodeClaimTemplate, pod: Pod, context: FunnelContext) -> FunnelResult:
    """The result of the pod's alternative that gets furthest, with the pool's present usage."""
    taint = find_untolerated_taint(template.pool.taints, pod.tolerations)
    if taint is not None:
        return _funnel_result(template, [], UntoleratedTaint(taint=taint))
    results = [_AlternativeFunnel(template, pod, each, context).run() for each in pod.alternatives]
    passed = [result for result in results if result.reason is None]
    return passed[0] if passed else max(results, key=lambda result: result.depth)


def _funnel_result(
    template: NodeClaimTemplate, passed: Sequence[int], reason: PoolReason | None
) -> FunnelResult:
    counts = [len(template.index.types), *passed]
    counts += [0] * (6 - len(counts))
    names = ("types", "requirements", "resources", "offerings", "min_values", "limits")
    return FunnelResult(funnel=Funnel(**dict(zip(names, counts, strict=True))), reason=reason)


class _AlternativeFunnel:
    """The checks of one alternative of one pod against one pool."""

    def __init__(
        self, template: NodeClaimTemplate, pod: Pod, wanted: Requirements, context: FunnelContext
    ) -> None:
        self.template = template
        self.index = template.index
        self.wanted = wanted
        self.requests = {**pod.requests, PODS: 1}
        self.ports = pod.constraints.ports
        self.context = context
        self.passed: list[int] = []
        """How many types passed each check so far."""
        self.combined = template.base.requirements
        """Of the pool; of the pod as well once labels are checked."""

    def run(self) -> FunnelResult:
        reason = self._check_labels() or self._check_types()
        return _funnel_result(self.template, self.passed, reason)

    def _check_labels(self) -> PoolReason | None:
        restricted = [
            key
            for key, requirement in self.wanted.items()
            if is_restricted_for_pods(key) and not requirement.allowed.admits_absence
        ]
        if restricted:
            return RestrictedLabel(key=restricted[0])
        known = self.template.well_known
        conflict = self.combined.find_conflict(self.wanted, known)
        if conflict is not None:
            meant = suggest_label(conflict.key) if conflict.offered is None else None
            return LabelConflict(
                key=conflict.key, wanted=conflict.wanted, offered=conflict.offered, meant=meant
            )
        self.combined = self.combined.narrow(self.template.known_requirements(self.wanted))
        return None

    def _check_types(self) -> PoolReason | None:
        compatible = self.index.compatible_types(self.combined)
        self._count(compatible)
        if not compatible:
            return self._label_diagnosis.no_matching_type()
        with_ports = compatible ^ (compatible & self.template.types_with_port_conflict(self.ports))
        if not with_ports:
            return self._ports_taken(compatible)
        fitting = with_ports & self.template.allocatable.fitting(self.requests)
        self._count(fitting)
        if not fitting:
            return self._too_small(with_ports)
        offering_groups = self._offering_groups()
        available = fitting & self.index.available_in(offering_groups)
        self._count(available)
        if not available:
            return self._no_offering(fitting)
        too_few_values = self._min_values(available, offering_groups)
        self._count(0 if too_few_values else available)
        return too_few_values or self._check_limits(available, offering_groups)

    def _count(self, types: BitSet) -> None:
        self.passed.append(types.bit_count())

    def _ports_taken(self, types: BitSet) -> HostPortsTaken:
        taken = {
            port.port
            for port in self.ports
            if types & self.template.types_with_port_conflict((port,))
        }
        return HostPortsTaken(ports=tuple(sorted(taken)))

    def _too_small(self, types: BitSet) -> DaemonSetsExceedCapacity | InstanceTypesTooSmall:
        """Cached: the same for all pods with these requests and all types with this room."""
        template = self.template
        cache = self.context.cache.too_small[template.allocatable, resources_key(self.requests)]
        if types not in cache:
            cache[types] = daemonset_overcommit(template, types) or self._closest_too_small(
                types & template.allocatable.non_negative
            )
        return cache[types]

    def _closest_too_small(self, types: BitSet) -> InstanceTypesTooSmall:
        """The type that comes closest, with the resource that it lacks most."""
        closest = closest_types(types, self.requests, self.template.allocatable)
        _, name, type_number = min(
            self._shortage(type_number) for type_number in iter_bits(closest)
        )
        return InstanceTypesTooSmall(
            resource=name,
            needed=self.requests[name],
            best=max(0, self._room(type_number).get(name, 0)),
            instance_type=self.index.types[type_number].name,
            daemonsets=self.template.overhead.of(type_number).get(name, 0),
            other_shortages=tuple(self._also_lacking(type_number, name)),
        )

    def _also_lacking(self, type_number: int, most: str) -> Iterator[ResourceShortage]:
        room = self._room(type_number)
        for name, amount in self.requests.items():
            best = max(0, room.get(name, 0))
            if name != most and amount > best:
                yield ResourceShortage(resource=name, needed=amount, best=best)

    def _shortage(self, type_number: int) -> tuple[float, str, int]:
        room = self._room(type_number)
        ratio, name = max(
            (amount / max(room.get(name, 0), 0.001), name)
            for name, amount in self.requests.items()
            if amount > 0
        )
        return ratio, name, type_number

    def _room(self, type_number: int) -> Resources:
        return subtract_resources(
            self.index.types[type_number].allocatable, self.template.overhead.of(type_number)
        )

    def _offering_groups(self) -> OfferingGroupSet:
        counts = self.context.available_counts if self.context.reservations else {}
        return available_offering_groups(self.index, self.combined, counts)

    def _no_offering(self, types: BitSet) -> NoMatchingOffering | OfferingsUnavailable:
        """Cached: the same for all pods with these requirements and these types."""
        requirements = self.template.base.requirements, self.wanted, self.combined
        cache = self.context.cache.no_offering[self.index, *requirements]
        if types not in cache:
            cache[types] = self._label_diagnosis.no_offering(
                types, reservations=self.context.reservations
            )
        reason = cache[types]
        if isinstance(reason, NoMatchingOffering):
            return reason
        users = [user for name in reason.reservations for user in self.context.users.get(name, ())]
        return msgspec.structs.replace(reason, users=tuple(dict.fromkeys(users)))

    @property
    def _label_diagnosis(self) -> LabelDiagnosis:
        return LabelDiagnosis(self.template, self.wanted, self.combined)

    def _min_values(
        self, types: BitSet, offering_groups: OfferingGroupSet
    ) -> MinValuesUnsatisfied | None:
        if not self.context.strict_min_values:
            return None
        return check_min_values(self.template, self.combined, types, offering_groups)

    def _check_limits(
        self, types: BitSet, offering_groups: OfferingGroupSet
    ) -> LimitExceeded | MinValuesUnsatisfied | None:
        allowed = types & self.template.limits.allowed
        self._count(allowed)
        if allowed:
            return self._min_values(allowed, offering_groups)
        return limit_reached_reason(self.template, *self._closest_to_limits(types))

    def _closest_to_limits(self, types: BitSet) -> tuple[int, str]:
        """The type that exceeds a limit by the least, and that limit; cached for equal limits."""
        remaining, limits = self.template.limits.remaining, self.template.pool.limits
        key = self.index, tuple(remaining.items()), tuple(limits.items())
        cache = self.context.cache.closest_to_limits[key]
        if types not in cache:
            type_number = min(
                iter_bits(types), key=lambda type_number: (self._excess(type_number), type_number)
            )
            cache[types] = type_number, exceeded_limits(self.template, type_number)[0]
        return cache[types]

    def _excess(self, type_number: int) -> float:
        """By how much the type exceeds the limit that it exceeds most, in parts of that limit."""
        template = self.template
        remaining, limits = template.limits.remaining, template.pool.limits
        return max(
            (usage_of_one_node(template, type_number, name) - remaining[name])
            / max(limits[name], 1)
            for name in exceeded_limits(template, type_number)
        )
