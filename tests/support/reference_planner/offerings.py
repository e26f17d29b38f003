"""What one pool can launch, by type and offering, and whether existing nodes take a pod, each
evaluated by a plain loop.
"""

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache

import msgspec

from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.labels import (
    CAPACITY_TYPE,
    HOSTNAME,
    INSTANCE_FAMILY,
    INSTANCE_SIZE,
    INSTANCE_TYPE,
    INSTANCE_TYPE_LABELS,
    OFFERING_LABELS,
    ON_DEMAND,
    RESERVATION_ID,
    RESERVATION_LABELS,
    RESERVED,
    SPOT,
    WELL_KNOWN_LABELS,
    ZONE,
)
from wainwright.model.pod import DaemonSet, Pod
from wainwright.model.requirements import NO_VALUE, Requirements, ValueSet, one_of
from wainwright.model.resources import Resources, add_resources, fits, subtract_resources
from wainwright.model.snapshot import Node, Pool
from wainwright.model.taints import (
    PREFER_NO_SCHEDULE,
    TOLERATE_PREFER_NO_SCHEDULE,
    find_untolerated_taint,
)

GPU = "nvidia.com/gpu"


def total_requests(pods: Iterable[Pod | DaemonSet]) -> Resources:
    """Their total requests, one pod reserved instance each included."""
    total: Resources = {}
    for pod in pods:
        total = add_resources(total, {**pod.requests, "pods": 1})
    return total


def offering_label(kind: InstanceType, offering: Offering, key: str) -> ValueSet | None:
    """The offering's value of a label, stated or implied; None where it is open."""
    return _offering_label(kind.requirements, offering, key)


def _offering_label(kind: Requirements, offering: Offering, key: str) -> ValueSet | None:
    reserved, own = offering.reservation_id, kind.allowed(key)
    if key in offering.requirements:
        return offering.requirements[key].allowed
    if key == ZONE:
        return None if own.open else own
    if key == CAPACITY_TYPE:
        usual = one_of([ON_DEMAND, SPOT] if reserved is None else [RESERVED])
        return usual & own if usual.intersects(own) else usual
    if key == RESERVATION_ID and reserved is not None:
        return one_of([reserved])
    return NO_VALUE if key in RESERVATION_LABELS else None


def launch_capacity_type(kind: InstanceType, offering: Offering, asked: Requirements) -> str:
    """The capacity type of the launch: on-demand where both on-demand and spot are possible."""
    said = offering_label(kind, offering, CAPACITY_TYPE)
    values = set() if said is None else said.values
    possible = [value for value in values if asked.allowed(CAPACITY_TYPE).admits(value)]
    return ON_DEMAND if ON_DEMAND in possible else min(possible)


def hourly_cost(kind: InstanceType, offering: Offering) -> float:
    """What a node costs by the hour, fees included."""
    return offering.price + kind.fee


def available_offerings(
    kind: InstanceType, asked: Requirements, reservation_ids: Collection[str]
) -> list[Offering]:
    """Available compatible offerings; reserved ones only of these reservations."""
    return [
        offering
        for offering in kind.offerings
        if offering.available > 0
        and (offering.reservation_id is None or offering.reservation_id in reservation_ids)
        and is_offering_compatible(kind, offering, asked)
    ]


def is_offering_compatible(kind: InstanceType, offering: Offering, asked: Requirements) -> bool:
    """Whether the offering meets the requirements, apart from the labels of the type."""
    return _is_offering_compatible(kind.requirements, offering, asked)


@lru_cache(maxsize=65536)
def _is_offering_compatible(kind: Requirements, offering: Offering, asked: Requirements) -> bool:
    said = {key: _offering_label(kind, offering, key) for key in asked}
    return all(
        values is None or values.is_compatible_with(asked[key].allowed)
        for key, values in said.items()
    )


class PoolCatalog:
    """A pool with its instance types, and the daemonsets that would run on its nodes."""

    def __init__(
        self,
        pool: Pool,
        types: Iterable[InstanceType],
        daemonsets: Sequence[DaemonSet],
        *,
        reservations: bool,
    ) -> None:
        self.pool = pool
        self.reservations = reservations
        """Whether reserved capacity may be used at all."""
        self.types = sorted(types, key=lambda kind: kind.name)
        self.daemonsets = daemonsets
        self.node = pool.node_requirements
        self.known = set(WELL_KNOWN_LABELS)
        """Labels that nodes of the pool can have although it does not define them."""
        for kind in self.types:
            self.known.update(kind.requirements)
            for offering in kind.offerings:
                self.known.update(offering.requirements)
        self.zones = {
            value
            for kind in self.types
            for offering in kind.offerings
            for value in getattr(offering_label(kind, offering, ZONE), "values", ())
        }
        """All zones of the offerings; an offering without a zone is available in each of them."""
        self.minimums = {
            key: found.min_values for key, found in self.node.items() if found.min_values
        }
        self._admitted: dict[tuple[str, Requirements], bool] = {}
        self.room = {kind.name: self._room(kind) for kind in self.types}
        """What daemonsets leave of each type."""

    def joined(self, node: Requirements, pod: Pod, wanted: Requirements) -> Requirements | None:
        """The requirements of a node of the pool with the pod on it; None if they conflict."""
        if find_untolerated_taint(self.pool.taints, pod.tolerations) is not None:
            return None
        if not self.node.is_compatible(wanted, self.known) or not node.is_compatible(
            wanted, self.known
        ):
            return None
        # A node lacks undefined labels, and the pods that got here do not require them.
        return node.narrow(wanted.without({key for key in wanted if not self._defined(key)}))

    def _defined(self, key: str) -> bool:
        return key in self.node or key in self.known

    def admits(self, kind: InstanceType, asked: Requirements) -> bool:
        """Whether the type's labels meet the requirements; cached, because it is called often."""
        known = self._admitted.get((kind.name, asked))
        if known is None:
            said = [(self._said(kind, key), found.allowed) for key, found in asked.items()]
            known = all(
                values is None or values.is_compatible_with(allowed) for values, allowed in said
            )
            self._admitted[kind.name, asked] = known
        return known

    def _said(self, kind: InstanceType, key: str) -> ValueSet | None:
        """The type's values of a label; None where the offering decides, or it is unknown."""
        if key in kind.requirements:
            return kind.requirements[key].allowed
        if key == INSTANCE_TYPE:
            return one_of([kind.name])
        if key in OFFERING_LABELS or any(key in each.requirements for each in kind.offerings):
            return None
        others = any(key in other.requirements for other in self.types)
        return NO_VALUE if others or key in INSTANCE_TYPE_LABELS else None

    def _room(self, kind: InstanceType) -> Resources:
        running = [each for each in self.daemonsets if self._may_run(each, kind)]
        return subtract_resources(kind.allocatable, total_requests(running))

    def _may_run(self, daemonset: DaemonSet, kind: InstanceType) -> bool:
        ids = {each.reservation_id or "" for each in kind.offerings if self.reservations}
        return any(
            self.runs(daemonset, kind, each, self.node)
            for each in available_offerings(kind, self.node, ids)
        )

    def runs(
        self, daemonset: DaemonSet, kind: InstanceType, offering: Offering, node: Requirements
    ) -> bool:
        """Whether the daemonset would run on a node launched from this offering."""
        binding = [taint for taint in self.pool.taints if taint.effect != PREFER_NO_SCHEDULE]
        if find_untolerated_taint(binding, daemonset.tolerations) is not None:
            return False
        for alternative in daemonset.alternatives:
            wanted = alternative.without({HOSTNAME})
            both = node.narrow(wanted)
            if (
                node.is_compatible(wanted, self.known)
                and self.admits(kind, both)
                and is_offering_compatible(kind, offering, both)
            ):
                return True
        return False

    def launchable_types(
        self,
        asked: Requirements,
        requests: Resources,
        reservation_ids: Collection[str],
        among: Iterable[InstanceType],
    ) -> list[InstanceType]:
        """The types with matching labels, enough resources and an available offering."""
        return [
            kind
            for kind in among
            if self.admits(kind, asked)
            and available_offerings(kind, asked, reservation_ids)
            and fits(requests, self.room[kind.name])
        ]

    def counts(
        self, asked: Requirements, types: Sequence[InstanceType], reservation_ids: Collection[str]
    ) -> dict[str, int]:
        """The number of distinct values left of each key with minValues."""
        return {key: len(self._values(key, asked, types, reservation_ids)) for key in self.minimums}

    def _values(
        self,
        key: str,
        asked: Requirements,
        types: Iterable[InstanceType],
        reservation_ids: Collection[str],
    ) -> set[str]:
        found: set[str] = set()
        for kind in types:
            if key == ZONE or any(offering_label(kind, o, key) is not None for o in kind.offerings):
                said = [
                    offering_label(kind, each, key)
                    for each in available_offerings(kind, asked, reservation_ids)
                ]
            else:
                said = [self._said(kind, key)]
            for values in said:
                unsaid = self.zones if key == ZONE else set()
                found |= unsaid if values is None else set() if values.open else values.values
        return {value for value in found if asked.allowed(key).admits(value)}


def is_ordinary_type(kind: InstanceType, asked: Requirements) -> bool:
    """Whether it is neither bare metal nor accelerated, or is required explicitly."""
    by_name = _listed(asked, INSTANCE_TYPE, kind.name)
    size, family = (
        kind.requirements.single_value(INSTANCE_SIZE),
        kind.requirements.single_value(INSTANCE_FAMILY),
    )
    metal = (size or "").startswith("metal")
    accelerated = GPU in kind.capacity
    return (not metal or by_name or _listed(asked, INSTANCE_SIZE, size)) and (
        not accelerated or by_name or _listed(asked, INSTANCE_FAMILY, family)
    )


def _listed(asked: Requirements, key: str, value: str | None) -> bool:
    allowed = asked.allowed(key)
    return value is not None and not allowed.open and value in allowed.values


def schedulable_nodes(nodes: Iterable[Node]) -> list[Node]:
    """The nodes that take pods: initialized ones first, then by name."""
    usable = [node for node in nodes if not node.deleting]
    return sorted(usable, key=lambda node: (not node.initialized, node.name))


def tolerating_soft_taints(pod: Pod) -> Pod:
    """The pod with a toleration of PreferNoSchedule taints."""
    tolerations = (*pod.tolerations, TOLERATE_PREFER_NO_SCHEDULE)
    return msgspec.structs.replace(pod, tolerations=tolerations)


def is_node_compatible(node: Node, pod: Pod, wanted: Requirements) -> bool:
    return find_untolerated_taint(node.effective_taints, pod.tolerations) is None and _has_labels(
        node, wanted
    )


def fits_on_node(node: Node, pods: Iterable[Pod], daemonsets: Iterable[DaemonSet]) -> bool:
    """Whether the pods fit in addition to running pods and daemonset pods still to come."""
    expected = total_requests(each for each in daemonsets if _runs_daemonset(node, each))
    there = total_requests(pod for pod in node.pods if pod.daemonset)
    coming = {name: max(0, amount - there.get(name, 0)) for name, amount in expected.items()}
    left = subtract_resources(
        subtract_resources(node.allocatable, total_requests(node.pods)), coming
    )
    wanted = total_requests(pods)
    return all(amount <= left.get(name, 0) for name, amount in wanted.items() if amount > 0)


def _runs_daemonset(node: Node, daemonset: DaemonSet) -> bool:
    binding = [taint for taint in node.effective_taints if taint.effect != PREFER_NO_SCHEDULE]
    return find_untolerated_taint(binding, daemonset.tolerations) is None and any(
        _has_labels(node, wanted) for wanted in daemonset.alternatives
    )


def _has_labels(node: Node, wanted: Requirements) -> bool:
    return Requirements.from_labels(node.labels).is_compatible(wanted)
