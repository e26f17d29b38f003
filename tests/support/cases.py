"""A random world with its plan, and what laws want to know about the two of them."""

from collections.abc import Iterable, Iterator

import msgspec
from tests.support.obvious import shops
from tests.support.randomworlds import random_world
from tests.support.shop import Shop, agrees, bought_as, requests_of, sold, stated
from tests.support.standing import undemanding

from wainwright.core.plan import plan
from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.labels import ZONE
from wainwright.model.options import MinValuesPolicy
from wainwright.model.plan import Plan, PlannedClaim
from wainwright.model.pod import Pod
from wainwright.model.requirements import Requirements
from wainwright.model.resources import Resources, subtract


class Case:
    """A world and its plan, with what the laws ask about them."""

    def __init__(self, seed: int) -> None:
        self.seed, world = seed, random_world(seed)
        self.world, self.snapshot, self.options = world, world.snapshot, world.options
        self.plan: Plan = plan(world.snapshot, world.catalogs, world.options)
        self.pods = {pod.key: pod for pod in world.snapshot.pods}
        self.shops = {shop.pool.name: shop for shop in shops(world)}
        placed = [key for claim in self.plan.claims for key in claim.pods]
        placed += [key for placement in self.plan.placements for key in placement.pods]
        self.placed = placed
        self.unplaced = [undemanding(pod) for key, pod in self.pods.items() if key not in placed]
        self.slots = self._slots_to_spare()

    def __repr__(self) -> str:
        return f"Case({self.seed})"

    def kind(self, claim: PlannedClaim, name: str) -> InstanceType:
        return next(kind for kind in self.shops[claim.pool].types if kind.name == name)

    def kinds(self, claim: PlannedClaim) -> list[InstanceType]:
        return [self.kind(claim, name) for name in claim.choices.instance_types]

    def launched(self, claim: PlannedClaim) -> InstanceType:
        return self.kind(claim, claim.launch.instance_type)

    def pods_of(self, claim: PlannedClaim) -> list[Pod]:
        return [self.pods[key] for key in claim.pods]

    def offers(self, claim: PlannedClaim) -> list[tuple[InstanceType, Offering]]:
        """All that is left to the claim."""
        held = claim.choices.reservation_ids
        return [(k, o) for k in self.kinds(claim) for o in sold(k, claim.requirements, held)]

    def _slots_to_spare(self) -> dict[str, int]:
        free = self.free_slots()
        for claim in self.plan.claims:
            if claim.launch.reservation_id is not None:
                free[claim.launch.reservation_id] -= 1
        return free

    def free_slots(self) -> dict[str, int]:
        """What is on offer, less what claims under way have been promised."""
        free: dict[str, int] = {}
        kinds = [kind for shop in self.shops.values() for kind in shop.types]
        for offering in (offering for kind in kinds for offering in kind.offerings):
            if offering.reservation_id is not None:
                known = free.get(offering.reservation_id, offering.available)
                free[offering.reservation_id] = min(known, offering.available)
        for node in self.snapshot.nodes:
            if not node.launched and not node.deleting and free.get(node.reservation_id or ""):
                free[node.reservation_id or ""] -= 1
        return free

    def within_limits(self, shop: Shop, without: PlannedClaim | None = None) -> list[InstanceType]:
        """The types that the pool may buy beside, or instead of one of, the plan's claims."""
        left: Resources = subtract(shop.pool.limits, shop.pool.in_use)
        for claim in self.plan.claims:
            if claim.pool == shop.pool.name and claim is not without:
                left = subtract(left, machine(self.launched(claim)))
        return [kind for kind in shop.types if allows(shop, left, kind)]


def machine(kind: InstanceType) -> Resources:
    return {**kind.capacity, "nodes": 1}


def allows(shop: Shop, left: Resources, kind: InstanceType) -> bool:
    return all(machine(kind).get(name, 0) <= left[name] for name in shop.pool.limits)


def opens(
    case: Case, shop: Shop, pod: Pod, types: Iterable[InstanceType], slots: Iterable[str] = ()
) -> Iterator[tuple[Requirements, list[InstanceType]]]:
    """The nodes that the pool could open for the pod, one for each alternative that it can."""
    slots = set(slots)
    for wanted in pod.alternatives:
        asked = shop.joined(shop.node, pod, wanted)
        found = [] if asked is None else shop.buyable(asked, requests_of([pod]), slots, types)
        if asked is not None and found and (is_relaxed(case) or diverse(shop, asked, found, slots)):
            yield asked, found


def is_relaxed(case: Case) -> bool:
    return case.options.min_values_policy is MinValuesPolicy.BEST_EFFORT


def diverse(
    shop: Shop, asked: Requirements, types: list[InstanceType], slots: Iterable[str]
) -> bool:
    counts = shop.counts(asked, types, set(slots))
    return all((asked[key].min_values or 0) <= count for key, count in counts.items())


def everything_on(
    case: Case, claim: PlannedClaim, kind: InstanceType, offering: Offering
) -> Resources:
    """What the claim's pods need, and the daemonsets that will run beside them."""
    shop = case.shops[claim.pool]
    running = [
        each
        for each in case.snapshot.daemonsets
        if shop.runs(each, kind, offering, claim.requirements)
    ]
    return requests_of([*case.pods_of(claim), *running])


def allowed_at_worst(case: Case, shop: Shop) -> list[InstanceType]:
    """What the pool could buy at any time, even with all of its claims counted at their largest."""
    left: Resources = subtract(shop.pool.limits, shop.pool.in_use)
    for claim in case.plan.claims:
        if claim.pool == shop.pool.name:
            for name in left:
                most = max(machine(kind).get(name, 0) for kind in shop.types)
                left = subtract(left, {name: most})
    return [kind for kind in shop.types if allows(shop, left, kind)]


def could_open_first(case: Case, shop: Shop, pod: Pod, types: list[InstanceType]) -> bool:
    """Whether the pool takes the first of the alternatives, before any other is looked at."""
    first = msgspec.structs.replace(pod, alternatives=pod.alternatives[:1])
    return any(opens(case, shop, first, types))


def could_use(case: Case, shop: Shop, pod: Pod, idle: set[str], claim: PlannedClaim | None) -> bool:
    """Whether the pool could launch an idle slot for the pod, beside its claim or in its stead."""
    alone = claim is not None and claim.pods == (pod.key,)
    types = case.within_limits(shop, claim if alone else None)
    return not pod.unsupported and any(
        offering.reservation_id is not None
        for asked, found in opens(case, shop, pod, types, idle)
        for kind in found
        for offering in sold(kind, asked, idle)
    )


def could_join(case: Case, claim: PlannedClaim, pod: Pod) -> bool:
    """Whether the machine under way would hold the pod, with enough of its choice left."""
    shop, held = case.shops[claim.pool], claim.choices.reservation_ids
    requests = requests_of([*case.pods_of(claim), pod])
    for wanted in pod.alternatives:
        asked = shop.joined(claim.requirements, pod, wanted)
        left = [] if asked is None else shop.buyable(asked, requests, held, case.kinds(claim))
        if asked is not None and diverse(shop, asked, left, held):
            bought = [(k, o) for k in left for o in k.offerings if is_launch(claim, k, o)]
            if any(agrees(kind, offering, asked) for kind, offering in bought):
                return True
    return False


def is_launch(claim: PlannedClaim, kind: InstanceType, offering: Offering) -> bool:
    launch, zones = claim.launch, stated(kind, offering, ZONE)
    return (
        kind.name == launch.instance_type
        and offering.price == launch.price
        and offering.reservation_id == launch.reservation_id
        and agrees(kind, offering, claim.requirements)
        and bought_as(kind, offering, claim.requirements) == launch.capacity_type
        and (zones is None or zones.admits(launch.zone or ""))
        and (launch.zone is None or claim.requirements.allowed(ZONE).admits(launch.zone))
    )
