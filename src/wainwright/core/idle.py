"""Idle reservations: capacity that is paid for and stays unused, and what kept pods off it."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from wainwright.model.index import TypeIndex
from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.plan import Plan
from wainwright.model.pod import Pod
from wainwright.model.pool import Pool
from wainwright.model.reason import (
    LabelConflict,
    NothingBigEnough,
    PoolReason,
    PoolUnusable,
    Untolerated,
)
from wainwright.model.requirements import Requirements
from wainwright.model.resources import shortage, signature
from wainwright.model.snapshot import Reservation, Snapshot
from wainwright.model.taints import untolerated

ON_DEMAND = "on-demand"


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """Pods that one pool could not bring into the reservation, for one reason."""

    pool: str
    reason: PoolReason | None
    """None: nothing but that they found room on another node, which comes first."""
    pods: tuple[str, ...]


class Idle(msgspec.Struct, frozen=True, kw_only=True):
    """A reservation with slots to spare."""

    id: str
    instance_type: str
    zone: str
    total: int
    available: int
    used: int
    worth: float | None
    """USD per hour that one slot costs on demand; None where nobody knows."""
    kept: tuple[Kept, ...]

    @property
    def idle(self) -> int:
        return max(0, self.available - self.used)


def idle(snapshot: Snapshot, catalogs: Mapping[str, TypeIndex], plan: Plan) -> tuple[Idle, ...]:
    """Every reservation of the plan, with what kept pods off the slots that stay idle."""
    used = {use.id: use.used for use in plan.reservations}
    elsewhere = _alike(_elsewhere(snapshot, plan))
    return tuple(
        _reservation(one, used.get(one.id, 0), elsewhere, snapshot.pools, catalogs)
        for one in snapshot.reservations
    )


def _elsewhere(snapshot: Snapshot, plan: Plan) -> list[Pod]:
    """Pods that are to be placed and are on no reserved claim of the plan."""
    reserved = {pod for claim in plan.claims if claim.launch.reservation_id for pod in claim.pods}
    return [pod for pod in snapshot.pods if pod.key not in reserved]


Alike = tuple[Pod, list[str]]
"""One pod, and the names of all that ask the same."""


def _alike(pods: Sequence[Pod]) -> list[Alike]:
    """Every reservation is asked once for pods that are alike: there may be many of both."""
    found: dict[object, Alike] = {}
    for pod in pods:
        looks = (signature(pod.requests), pod.alternatives, pod.tolerations)
        found.setdefault(looks, (pod, []))[1].append(pod.key)
    return list(found.values())


def _reservation(
    one: Reservation,
    used: int,
    pods: Sequence[Alike],
    pools: Sequence[Pool],
    catalogs: Mapping[str, TypeIndex],
) -> Idle:
    found = list(_offers(one.id, pools, catalogs))
    kept = tuple(_kept(found, pods)) if one.available > used else ()
    return Idle(
        id=one.id,
        instance_type=one.instance_type,
        zone=one.zone,
        total=one.total,
        available=one.available,
        used=used,
        worth=next((_worth(kind, offer) for _, kind, offer in found), None),
        kept=kept,
    )


Offer = tuple[Pool, InstanceType, Offering]


def _offers(
    reservation: str, pools: Sequence[Pool], catalogs: Mapping[str, TypeIndex]
) -> Iterator[Offer]:
    """The pools that could launch into the reservation, with the type and offering."""
    for pool in sorted(pools, key=lambda each: (-each.weight, each.name)):
        for kind in catalogs[pool.name].types if pool.name in catalogs else ():
            for offering in kind.offerings:
                if offering.reservation_id == reservation:
                    yield pool, kind, offering


def _worth(kind: InstanceType, reserved: Offering) -> float | None:
    prices = [
        offering.price
        for offering in kind.offerings
        if offering.capacity_type == ON_DEMAND and offering.zone in (None, reserved.zone)
    ]
    return min(prices, default=None)


def _kept(found: Sequence[Offer], alike: Sequence[Alike]) -> Iterator[Kept]:
    for pool, kind, offering in found:
        groups: dict[PoolReason | None, list[str]] = {}
        for pod, keys in alike:
            groups.setdefault(obstacle(pool, kind, offering, pod), []).extend(keys)
        for reason, keys in groups.items():
            yield Kept(pool=pool.name, reason=reason, pods=tuple(sorted(keys)))


def obstacle(pool: Pool, kind: InstanceType, offering: Offering, pod: Pod) -> PoolReason | None:
    """The first thing that keeps a pod from a node of this pool, bought in this way."""
    if pool.unusable is not None:
        return PoolUnusable(why=pool.unusable)
    taint = untolerated(pool.taints, pod.tolerations)
    if taint is not None:
        return Untolerated(taint=taint)
    node, allowed = kind.requirements.narrow(offering.requirements), pool.node_requirements
    return (
        _clash(node, allowed, frozenset(allowed))
        or _wanted(node.narrow(allowed), pod)
        or _too_small(kind, pod)
    )


def _clash(
    node: Requirements, wanted: Requirements, known: frozenset[str] = frozenset()
) -> LabelConflict | None:
    found = node.conflict(wanted, known)
    if found is None:
        return None
    return LabelConflict(key=found.key, wanted=found.wanted, offered=found.offered)


def _wanted(node: Requirements, pod: Pod) -> LabelConflict | None:
    """None where any of the pod's alternatives would do; else why the first would not."""
    clashes = [_clash(node, alternative) for alternative in pod.alternatives]
    return None if None in clashes or not clashes else clashes[0]


def _too_small(kind: InstanceType, pod: Pod) -> NothingBigEnough | None:
    allocatable = kind.allocatable
    for name in shortage(pod.requests, allocatable):
        return NothingBigEnough(
            resource=name,
            needed=pod.requests[name],
            best=allocatable.get(name, 0),
            instance_type=kind.name,
        )
    return None
