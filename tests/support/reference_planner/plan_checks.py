"""A random world with its plan, and what laws want to know about the two of them."""

from collections.abc import Iterable, Iterator

import msgspec
from tests.support.random_inputs.unconstrained import random_input
from tests.support.reference_planner.first_fit import pool_catalogs
from tests.support.reference_planner.offerings import (
    PoolCatalog,
    available_offerings,
    is_offering_compatible,
    launch_capacity_type,
    offering_label,
    tolerating_soft_taints,
    total_requests,
)

from wainwright.core.plan import plan
from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.labels import ZONE
from wainwright.model.plan import MinValuesPolicy, Plan, PlannedNodeClaim
from wainwright.model.pod import Pod
from wainwright.model.requirements import Requirements
from wainwright.model.resources import Resources, subtract_resources


class PlannedCase:
    """A world and its plan, with what the laws ask about them."""

    def __init__(self, seed: int) -> None:
        self.seed, world = seed, random_input(seed)
        self.world, self.snapshot, self.options = world, world.snapshot, world.options
        self.plan: Plan = plan(world.snapshot, world.catalogs, world.options)
        self.pods = {pod.key: pod for pod in world.snapshot.pods}
        self.shops = {shop.pool.name: shop for shop in pool_catalogs(world)}
        placed = [key for claim in self.plan.claims for key in claim.pods]
        placed += [key for placement in self.plan.placements for key in placement.pods]
        self.placed = placed
        self.unplaced = [
            tolerating_soft_taints(pod) for key, pod in self.pods.items() if key not in placed
        ]
        self.slots = self._slots_to_spare()

    def __repr__(self) -> str:
        return f"Case({self.seed})"

    def kind(self, claim: PlannedNodeClaim, name: str) -> InstanceType:
        return next(kind for kind in self.shops[claim.pool].types if kind.name == name)

    def kinds(self, claim: PlannedNodeClaim) -> list[InstanceType]:
        return [self.kind(claim, name) for name in claim.choices.instance_types]

    def launched(self, claim: PlannedNodeClaim) -> InstanceType:
        return self.kind(claim, claim.launch.instance_type)

    def pods_of(self, claim: PlannedNodeClaim) -> list[Pod]:
        return [self.pods[key] for key in claim.pods]

    def offers(self, claim: PlannedNodeClaim) -> list[tuple[InstanceType, Offering]]:
        """All that is left to the claim."""
        held = claim.choices.reservation_ids
        return [
            (k, o)
            for k in self.kinds(claim)
            for o in available_offerings(k, claim.requirements, held)
        ]

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

    def within_limits(
        self, shop: PoolCatalog, without: PlannedNodeClaim | None = None
    ) -> list[InstanceType]:
        """The types that the pool may buy beside, or instead of one of, the plan's claims."""
        left: Resources = subtract_resources(shop.pool.limits, shop.pool.in_use)
        for claim in self.plan.claims:
            if claim.pool == shop.pool.name and claim is not without:
                left = subtract_resources(left, node_capacity(self.launched(claim)))
        return [kind for kind in shop.types if is_within_limits(shop, left, kind)]


def node_capacity(kind: InstanceType) -> Resources:
    return {**kind.capacity, "nodes": 1}


def is_within_limits(shop: PoolCatalog, left: Resources, kind: InstanceType) -> bool:
    return all(node_capacity(kind).get(name, 0) <= left[name] for name in shop.pool.limits)


def new_node_options(
    case: PlannedCase,
    shop: PoolCatalog,
    pod: Pod,
    types: Iterable[InstanceType],
    slots: Iterable[str] = (),
) -> Iterator[tuple[Requirements, list[InstanceType]]]:
    """The nodes that the pool could open for the pod, one for each alternative that it can."""
    slots = set(slots)
    for wanted in pod.alternatives:
        asked = shop.joined(shop.node, pod, wanted)
        found = [] if asked is None else shop.buyable(asked, total_requests([pod]), slots, types)
        if (
            asked is not None
            and found
            and (is_relaxed(case) or satisfies_min_values(shop, asked, found, slots))
        ):
            yield asked, found


def is_relaxed(case: PlannedCase) -> bool:
    return case.options.min_values_policy is MinValuesPolicy.BEST_EFFORT


def satisfies_min_values(
    shop: PoolCatalog, asked: Requirements, types: list[InstanceType], slots: Iterable[str]
) -> bool:
    counts = shop.counts(asked, types, set(slots))
    return all((asked[key].min_values or 0) <= count for key, count in counts.items())


def requests_on_claim(
    case: PlannedCase, claim: PlannedNodeClaim, kind: InstanceType, offering: Offering
) -> Resources:
    """What the claim's pods need, and the daemonsets that will run beside them."""
    shop = case.shops[claim.pool]
    running = [
        each
        for each in case.snapshot.daemonsets
        if shop.runs(each, kind, offering, claim.requirements)
    ]
    return total_requests([*case.pods_of(claim), *running])


def types_always_within_limits(case: PlannedCase, shop: PoolCatalog) -> list[InstanceType]:
    """What the pool could buy at any time, even with all of its claims counted at their largest."""
    left: Resources = subtract_resources(shop.pool.limits, shop.pool.in_use)
    for claim in case.plan.claims:
        if claim.pool == shop.pool.name:
            for name in left:
                most = max(node_capacity(kind).get(name, 0) for kind in shop.types)
                left = subtract_resources(left, {name: most})
    return [kind for kind in shop.types if is_within_limits(shop, left, kind)]


def could_open_first(
    case: PlannedCase, shop: PoolCatalog, pod: Pod, types: list[InstanceType]
) -> bool:
    """Whether the pool takes the first of the alternatives, before any other is looked at."""
    first = msgspec.structs.replace(pod, alternatives=pod.alternatives[:1])
    return any(new_node_options(case, shop, first, types))


def could_use(
    case: PlannedCase, shop: PoolCatalog, pod: Pod, idle: set[str], claim: PlannedNodeClaim | None
) -> bool:
    """Whether the pool could launch an idle slot for the pod, beside its claim or in its stead."""
    alone = claim is not None and claim.pods == (pod.key,)
    types = case.within_limits(shop, claim if alone else None)
    return not pod.unsupported and any(
        offering.reservation_id is not None
        for asked, found in new_node_options(case, shop, pod, types, idle)
        for kind in found
        for offering in available_offerings(kind, asked, idle)
    )


def could_join(case: PlannedCase, claim: PlannedNodeClaim, pod: Pod) -> bool:
    """Whether the machine under way would hold the pod, with enough of its choice left."""
    shop, held = case.shops[claim.pool], claim.choices.reservation_ids
    requests = total_requests([*case.pods_of(claim), pod])
    for wanted in pod.alternatives:
        asked = shop.joined(claim.requirements, pod, wanted)
        left = [] if asked is None else shop.buyable(asked, requests, held, case.kinds(claim))
        if asked is not None and satisfies_min_values(shop, asked, left, held):
            bought = [(k, o) for k in left for o in k.offerings if is_launch(claim, k, o)]
            if any(is_offering_compatible(kind, offering, asked) for kind, offering in bought):
                return True
    return False


def is_launch(claim: PlannedNodeClaim, kind: InstanceType, offering: Offering) -> bool:
    launch, zones = claim.launch, offering_label(kind, offering, ZONE)
    return (
        kind.name == launch.instance_type
        and offering.price == launch.price
        and offering.reservation_id == launch.reservation_id
        and is_offering_compatible(kind, offering, claim.requirements)
        and launch_capacity_type(kind, offering, claim.requirements) == launch.capacity_type
        and (zones is None or zones.admits(launch.zone or ""))
        and (launch.zone is None or claim.requirements.allowed(ZONE).admits(launch.zone))
    )
