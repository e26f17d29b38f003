"""The instance type funnel: how many types of a NodePool are left to a pod after each check, and
the check that leaves none.

Labels, host ports, resources, volumes, offerings, minValues and limits are checked in the order
of the scheduler. It runs only for pods without a place and for a pod that is explained, so that it
may look at types one by one. Results about sets of types are cached by all that they depend on.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from wainwright.core.scheduling.constraints import node_affinity, offerings, taint_toleration
from wainwright.core.scheduling.constraints.label_diagnosis import LabelDiagnosis
from wainwright.core.scheduling.constraints.limits import ExceededLimit
from wainwright.core.scheduling.nodeclaim_template import NodeClaimTemplate
from wainwright.core.scheduling.reservation_manager import reserved_offerings
from wainwright.model.bitset import BitSet, iter_bits, union
from wainwright.model.labels import CAPACITY_TYPE, OS, RESERVED
from wainwright.model.offering_groups import OfferingGroupSet
from wainwright.model.pod import Pod
from wainwright.model.reasons import (
    DaemonSetsExceedCapacity,
    Funnel,
    FunnelStep,
    InstanceTypesTooSmall,
    LimitExceeded,
    MinValuesUnsatisfied,
    NodeClassImages,
    NoMatchingInstanceType,
    NoMatchingOffering,
    OfferingsUnavailable,
    PoolReason,
    RemainingValues,
)
from wainwright.model.requirements import Requirements
from wainwright.model.resources import PODS, resources_key


class FunnelCache:
    """Results of the funnel about sets of types, by all that they depend on.

    The pool is no part of the keys: pools with the same catalog share results, and a pool that a
    suggested change alters has keys of its own. Without it hundreds of pod classes that fail alike
    would each look at every type of every pool.
    """

    __slots__ = ("closest_to_limits", "no_offering", "too_small", "without_requirement")

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
        self.closest_to_limits: defaultdict[object, dict[BitSet, tuple[int, ExceededLimit]]]
        self.closest_to_limits = defaultdict(dict)
        """By catalog, limits and what is left: the type that exceeds a limit least, and which."""
        self.without_requirement: dict[object, tuple[NodeClaimTemplate, object]] = {}
        """By pool and label: the pool compiled without its requirement on the label, and what it
        was compiled from, which must live as long as its id is a key."""


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


class FunnelResult(msgspec.Struct, frozen=True, kw_only=True):
    """How many types passed each check, and the reason of the check that left none, if any."""

    funnel: Funnel
    reason: PoolReason | None
    types: BitSet = 0
    """Those with an available offering for the pod, whether or not minValues and limits hold."""
    groups: OfferingGroupSet = 0
    """The offering groups that pod and pool allow."""

    @property
    def depth(self) -> tuple[int, ...]:
        """A sort key: the alternative of a pod that passed most checks is the highest."""
        counts = msgspec.structs.astuple(self.funnel)
        return (*(min(count, 1) for count in counts), *counts)


def run_funnel(template: NodeClaimTemplate, pod: Pod, context: FunnelContext) -> FunnelResult:
    """The result of the pod's alternative that gets furthest, with the pool's present usage."""
    untolerated = taint_toleration.why(template.pool.taints, pod.tolerations)
    if untolerated is not None:
        return _funnel_result(template, [], untolerated)
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
        self.attachments = pod.constraints.attachments
        self.context = context
        self.passed: list[int] = []
        """How many types passed each check so far."""
        self.combined = template.base.requirements
        """Of the pool; of the pod as well once labels are checked."""
        self.compatible: BitSet = 0
        self.fitting: BitSet = 0
        self.available: BitSet = 0
        self.groups: OfferingGroupSet = 0

    def run(self) -> FunnelResult:
        reason = self._check_labels() or self._check_types()
        result = _funnel_result(self.template, self.passed, reason)
        return msgspec.structs.replace(result, types=self.available, groups=self.groups)

    def _check_labels(self) -> PoolReason | None:
        pool, template = self.combined, self.template
        reason = node_affinity.why_not_pool(self.wanted, pool, template.well_known)
        if reason is None:
            self.combined = pool.narrow(template.known_requirements(self.wanted))
        return reason

    def _check_types(self) -> PoolReason | None:
        compatible = self.index.compatible_types(self.combined)
        self._count(compatible)
        self.compatible = compatible
        if not compatible:
            return self._no_type()
        daemonset_ports = self.template.daemonset_ports
        with_ports = daemonset_ports.admits_types(compatible, self.ports)
        if not with_ports:
            return daemonset_ports.why(self.ports, compatible)
        large_enough = with_ports & self.template.allocatable.fitting(self.requests)
        volume_limits = self.template.volume_limits
        fitting = volume_limits.admits_types(large_enough, self.attachments)
        self._count(fitting)
        self.fitting = fitting
        if not large_enough:
            return self._too_small(with_ports)
        if not fitting:
            return volume_limits.why(large_enough, self.attachments)
        offering_groups = self._offering_groups()
        available = fitting & self.index.available_in(offering_groups)
        self._count(available)
        self.available, self.groups = available, offering_groups
        if not available:
            return self._no_reserved_type(with_ports, fitting) or self._no_offering(fitting)
        too_few_values = self._min_values(available, available, offering_groups)
        self._count(0 if too_few_values else available)
        return too_few_values or self._check_limits(available, offering_groups)

    def _no_type(self) -> NoMatchingInstanceType:
        reason = node_affinity.why_no_type(self._label_diagnosis)
        systems = self.index.all_values(OS)
        if reason.key != OS or any(map(reason.wanted.admits, systems)):
            return reason
        pool = self.template.pool
        kind = "NodeClass" if pool.auto_mode else "EC2NodeClass"
        images = NodeClassImages(node_class=f"{kind} {pool.node_class}", systems=systems)
        return msgspec.structs.replace(reason, images=images)

    def _count(self, types: BitSet) -> None:
        self.passed.append(types.bit_count())

    def _too_small(self, types: BitSet) -> DaemonSetsExceedCapacity | InstanceTypesTooSmall:
        """Cached: the same for all pods with these requests and all types with this room."""
        template = self.template
        cache = self.context.cache.too_small[template.allocatable, resources_key(self.requests)]
        if types not in cache:
            cache[types] = template.type_resources.why(self.requests, types)
        return cache[types]

    def _no_reserved_type(self, types: BitSet, fitting: BitSet) -> PoolReason | None:
        """Where only reserved capacity is allowed, and instances of reservations are too small, or
        in another place: other types have nothing to do with it.
        """
        capacity_types = self.combined.allowed(CAPACITY_TYPE)
        if capacity_types.open or capacity_types.values != {RESERVED}:
            return None
        groups = reserved_offerings(self.index) if self.context.reservations else 0
        reserved = types & union(
            self.index.offering_groups[number].offered_types for number in iter_bits(groups)
        )
        if not reserved:
            return None
        if not reserved & self.template.allocatable.fitting(self.requests):
            too_small = self._too_small(reserved)
            if isinstance(too_small, InstanceTypesTooSmall):
                too_small = msgspec.structs.replace(too_small, reserved=True)
            return too_small
        return self._no_offering(reserved & fitting) if reserved & fitting else None

    def _offering_groups(self) -> OfferingGroupSet:
        counts = self.context.available_counts if self.context.reservations else {}
        return offerings.available_groups(self.index, self.combined, counts)

    def _no_offering(self, types: BitSet) -> NoMatchingOffering | OfferingsUnavailable:
        """Cached: the same for all pods with these requirements and these types."""
        requirements = self.template.base.requirements, self.wanted, self.combined
        cache = self.context.cache.no_offering[self.index, *requirements]
        if types not in cache:
            cache[types] = offerings.why_no_offering(
                self._label_diagnosis, types, reservations=self.context.reservations
            )
        reason = cache[types]
        if isinstance(reason, NoMatchingOffering):
            return reason
        users = [user for name in reason.reservations for user in self.context.users.get(name, ())]
        return msgspec.structs.replace(reason, users=tuple(dict.fromkeys(users)))

    @property
    def _label_diagnosis(self) -> LabelDiagnosis:
        pool = self.template.base.requirements
        return LabelDiagnosis(index=self.index, pod=self.wanted, pool=pool, combined=self.combined)

    def _min_values(
        self, types: BitSet, reserved_types: BitSet, offering_groups: OfferingGroupSet
    ) -> MinValuesUnsatisfied | None:
        """Why minValues do not hold; for a reserved node, of `reserved_types`, they need not."""
        if not self.context.strict_min_values or not self.template.min_values:
            return None
        reserved = self._reserved(offering_groups)
        if reserved_types & self.index.available_in(reserved):
            return None
        reason = self.template.min_values_checker.why(
            self.template.min_values, self.combined, types, offering_groups ^ reserved
        )
        if reason is None:
            return None
        steps = self._value_counts(reason.key, types, offering_groups ^ reserved)
        return msgspec.structs.replace(reason, steps=tuple(steps))

    def _value_counts(
        self, key: str, last: BitSet, offering_groups: OfferingGroupSet
    ) -> Iterator[RemainingValues]:
        """How many values of the label the NodePool allows, and each check that left fewer."""
        index, pool, combined = self.index, self.template.base.requirements, self.combined
        own_groups, groups = index.compatible_groups(pool), index.compatible_groups(combined)
        stages = (
            (FunnelStep.NODE_POOL, index.compatible_types(pool), own_groups, pool),
            (FunnelStep.POD_REQUIREMENTS, self.compatible, groups, combined),
            (FunnelStep.RESOURCES, self.fitting, groups, combined),
            (FunnelStep.OFFERINGS, self.available, offering_groups, combined),
            (FunnelStep.LIMITS, last, offering_groups, combined),
        )
        fewest = None
        for check, types, within, wanted in stages:
            count = len(index.remaining_values(key, types, within, wanted.allowed(key)))
            if fewest is None or count < fewest:
                yield RemainingValues(after=check, count=count)
                fewest = count

    def _reserved(self, offering_groups: OfferingGroupSet) -> OfferingGroupSet:
        return offering_groups & reserved_offerings(self.index)

    def _check_limits(
        self, types: BitSet, offering_groups: OfferingGroupSet
    ) -> LimitExceeded | MinValuesUnsatisfied | None:
        limits, reserved = self.template.limits, self._reserved(offering_groups)
        unreserved_types = (
            types & limits.admitted & self.index.available_in(offering_groups ^ reserved)
        )
        reserved_types = types & limits.admitted_reserved & self.index.available_in(reserved)
        self._count(unreserved_types | reserved_types)
        if unreserved_types | reserved_types:
            return self._min_values(unreserved_types, reserved_types, offering_groups)
        return limits.why(self.template.pool, *self._closest_to_limits(types))

    def _closest_to_limits(self, types: BitSet) -> tuple[int, ExceededLimit]:
        """The type that exceeds a limit by the least, and that limit; cached for equal limits."""
        limits, pool = self.template.limits, self.template.pool
        # The price of a type that a limit of the cluster counts depends on the pool.
        shared = None if limits.cluster is None else pool.name
        key = (
            self.index,
            tuple(limits.remaining.items()),
            tuple(pool.limits.items()),
            shared,
        )
        cache = self.context.cache.closest_to_limits[key]
        if types not in cache:
            cache[types] = limits.closest(pool, types)
        return cache[types]
