"""What one pool can buy, looked at type by type and offering by offering."""

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache

from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.labels import (
    CAPACITY_TYPE,
    DECIDED_BY_OFFERING,
    DESCRIBED_BY_TYPES,
    HOSTNAME,
    INSTANCE_FAMILY,
    INSTANCE_SIZE,
    INSTANCE_TYPE,
    ON_DEMAND,
    RESERVATION_ID,
    RESERVATION_LABELS,
    RESERVED,
    SPOT,
    WELL_KNOWN,
    ZONE,
)
from wainwright.model.pod import DaemonSet, Pod
from wainwright.model.pool import Pool
from wainwright.model.requirements import Requirements
from wainwright.model.resources import Resources, add, fits, subtract
from wainwright.model.taints import PREFER_NO_SCHEDULE, untolerated
from wainwright.model.values import NOTHING, ValueSet, one_of

GPU = "nvidia.com/gpu"


def requests_of(pods: Iterable[Pod | DaemonSet]) -> Resources:
    """What they need together, a slot for each included."""
    total: Resources = {}
    for pod in pods:
        total = add(total, {**pod.requests, "pods": 1})
    return total


def stated(kind: InstanceType, offering: Offering, key: str) -> ValueSet | None:
    """What an offering says of a label, or what is clear all the same; None where it is open."""
    return _stated(kind.requirements, offering, key)


def _stated(kind: Requirements, offering: Offering, key: str) -> ValueSet | None:
    reserved, own = offering.reservation_id, kind.allowed(key)
    if key in offering.requirements:
        return offering.requirements[key].allowed
    if key == ZONE:
        return None if own.open else own
    if key == CAPACITY_TYPE:
        usual = one_of([ON_DEMAND, SPOT] if reserved is None else [RESERVED])
        return usual & own if usual.overlaps(own) else usual
    if key == RESERVATION_ID and reserved is not None:
        return one_of([reserved])
    return NOTHING if key in RESERVATION_LABELS else None


def bought_as(kind: InstanceType, offering: Offering, asked: Requirements) -> str:
    """The capacity type of what is bought: on-demand where it may be that as well as spot."""
    said = stated(kind, offering, CAPACITY_TYPE)
    values = set() if said is None else said.values
    possible = [value for value in values if asked.allowed(CAPACITY_TYPE).admits(value)]
    return ON_DEMAND if ON_DEMAND in possible else min(possible)


def cost(kind: InstanceType, offering: Offering) -> float:
    """What a node costs by the hour, fees included."""
    return offering.price + kind.fee


def sold(kind: InstanceType, asked: Requirements, slots: Collection[str]) -> list[Offering]:
    """Offerings that can be had and agree with what is asked; reserved ones only with a slot."""
    return [
        offering
        for offering in kind.offerings
        if offering.available > 0
        and (offering.reservation_id is None or offering.reservation_id in slots)
        and agrees(kind, offering, asked)
    ]


def agrees(kind: InstanceType, offering: Offering, asked: Requirements) -> bool:
    """Whether who asks for this may buy the type in this way; labels of the type aside."""
    return _agrees(kind.requirements, offering, asked)


@lru_cache(maxsize=65536)
def _agrees(kind: Requirements, offering: Offering, asked: Requirements) -> bool:
    said = {key: _stated(kind, offering, key) for key in asked}
    return all(
        values is None or values.agrees_with(asked[key].allowed) for key, values in said.items()
    )


class Shop:
    """A pool with the types that it can buy, and the daemonsets that would run on its nodes."""

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
        """Whether slots of reservations may be bought at all."""
        self.types = sorted(types, key=lambda kind: kind.name)
        self.daemonsets = daemonsets
        self.node = pool.node_requirements
        self.known = set(WELL_KNOWN)
        """Labels that nodes of the pool can have although it does not define them."""
        for kind in self.types:
            self.known.update(kind.requirements)
            for offering in kind.offerings:
                self.known.update(offering.requirements)
        self.zones = {
            value
            for kind in self.types
            for offering in kind.offerings
            for value in getattr(stated(kind, offering, ZONE), "values", ())
        }
        """All zones that some offering names; one that names none is to be had in each of them."""
        self.minimums = {
            key: found.min_values for key, found in self.node.items() if found.min_values
        }
        self._admitted: dict[tuple[str, Requirements], bool] = {}
        self.room = {kind.name: self._room(kind) for kind in self.types}
        """What daemonsets leave of each type, wherever the pool may buy it."""

    def joined(self, node: Requirements, pod: Pod, wanted: Requirements) -> Requirements | None:
        """What is asked of a node of the pool once the pod is on it; None if that cannot be."""
        if untolerated(self.pool.taints, pod.tolerations) is not None:
            return None
        if not self.node.compatible(wanted, self.known) or not node.compatible(wanted, self.known):
            return None
        # A node lacks what nobody defines, and whoever got here can do without it.
        return node.narrow(wanted.without({key for key in wanted if not self._defined(key)}))

    def _defined(self, key: str) -> bool:
        return key in self.node or key in self.known

    def admits(self, kind: InstanceType, asked: Requirements) -> bool:
        """Whether the type's labels agree with what is asked; asked often, so remembered."""
        known = self._admitted.get((kind.name, asked))
        if known is None:
            said = [(self._said(kind, key), found.allowed) for key, found in asked.items()]
            known = all(values is None or values.agrees_with(allowed) for values, allowed in said)
            self._admitted[kind.name, asked] = known
        return known

    def _said(self, kind: InstanceType, key: str) -> ValueSet | None:
        """What a type says of a label; None where the offering decides, or nobody knows it."""
        if key in kind.requirements:
            return kind.requirements[key].allowed
        if key == INSTANCE_TYPE:
            return one_of([kind.name])
        if key in DECIDED_BY_OFFERING or any(key in each.requirements for each in kind.offerings):
            return None
        others = any(key in other.requirements for other in self.types)
        return NOTHING if others or key in DESCRIBED_BY_TYPES else None

    def _room(self, kind: InstanceType) -> Resources:
        running = [each for each in self.daemonsets if self._may_run(each, kind)]
        return subtract(kind.allocatable, requests_of(running))

    def _may_run(self, daemonset: DaemonSet, kind: InstanceType) -> bool:
        ids = {each.reservation_id or "" for each in kind.offerings if self.reservations}
        return any(
            self.runs(daemonset, kind, each, self.node) for each in sold(kind, self.node, ids)
        )

    def runs(
        self, daemonset: DaemonSet, kind: InstanceType, offering: Offering, node: Requirements
    ) -> bool:
        """Whether the daemonset would run on such a node, bought in this way."""
        binding = [taint for taint in self.pool.taints if taint.effect != PREFER_NO_SCHEDULE]
        if untolerated(binding, daemonset.tolerations) is not None:
            return False
        for alternative in daemonset.alternatives:
            wanted = alternative.without({HOSTNAME})
            both = node.narrow(wanted)
            if (
                node.compatible(wanted, self.known)
                and self.admits(kind, both)
                and agrees(kind, offering, both)
            ):
                return True
        return False

    def buyable(
        self,
        asked: Requirements,
        requests: Resources,
        slots: Collection[str],
        among: Iterable[InstanceType],
    ) -> list[InstanceType]:
        """Those of the types with the labels, the room and an offering."""
        return [
            kind
            for kind in among
            if self.admits(kind, asked)
            and sold(kind, asked, slots)
            and fits(requests, self.room[kind.name])
        ]

    def counts(
        self, asked: Requirements, types: Sequence[InstanceType], slots: Collection[str]
    ) -> dict[str, int]:
        """For each key with minValues how many different values are left."""
        return {key: len(self._values(key, asked, types, slots)) for key in self.minimums}

    def _values(
        self,
        key: str,
        asked: Requirements,
        types: Iterable[InstanceType],
        slots: Collection[str],
    ) -> set[str]:
        found: set[str] = set()
        for kind in types:
            if key == ZONE or any(stated(kind, o, key) is not None for o in kind.offerings):
                said = [stated(kind, each, key) for each in sold(kind, asked, slots)]
            else:
                said = [self._said(kind, key)]
            for values in said:
                unsaid = self.zones if key == ZONE else set()
                found |= unsaid if values is None else set() if values.open else values.values
        return {value for value in found if asked.allowed(key).admits(value)}


def is_ordinary(kind: InstanceType, asked: Requirements) -> bool:
    """Whether it is neither a whole machine nor accelerated, or somebody asked for just that."""
    by_name = _listed(asked, INSTANCE_TYPE, kind.name)
    size, family = kind.requirements.only(INSTANCE_SIZE), kind.requirements.only(INSTANCE_FAMILY)
    metal = (size or "").startswith("metal")
    accelerated = GPU in kind.capacity
    return (not metal or by_name or _listed(asked, INSTANCE_SIZE, size)) and (
        not accelerated or by_name or _listed(asked, INSTANCE_FAMILY, family)
    )


def _listed(asked: Requirements, key: str, value: str | None) -> bool:
    allowed = asked.allowed(key)
    return value is not None and not allowed.open and value in allowed.values
