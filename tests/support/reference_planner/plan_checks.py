"""A random input with its plan, and helpers for the laws of plans."""

from collections.abc import Iterable, Iterator

import msgspec
from tests.support.model_builders import explained_plan
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

from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.labels import ZONE
from wainwright.model.plan import ExplainedPlan, MinValuesPolicy, PlannedNodeClaim
from wainwright.model.pod import Pod
from wainwright.model.requirements import Requirements
from wainwright.model.resources import Resources, subtract_resources


class PlannedCase:
    """An input and its plan, with the values that the laws need."""

    def __init__(self, seed: int) -> None:
        self.seed, planner_input = seed, random_input(seed)
        self.planner_input, self.snapshot, self.options = (
            planner_input,
            planner_input.snapshot,
            planner_input.options,
        )
        self.plan: ExplainedPlan = explained_plan(
            planner_input.snapshot, planner_input.catalogs, planner_input.options
        )
        self.pods = {pod.key: pod for pod in planner_input.snapshot.pods}
        self.pool_catalogs = {
            catalog.pool.name: catalog for catalog in pool_catalogs(planner_input)
        }
        placed = [key for claim in self.plan.claims for key in claim.pods]
        placed += [key for placement in self.plan.placements for key in placement.pods]
        self.placed = placed
        self.unplaced = [
            tolerating_soft_taints(pod) for key, pod in self.pods.items() if key not in placed
        ]
        self.free_instances = self._spare_instances()

    def __repr__(self) -> str:
        return f"Case({self.seed})"

    def kind(self, claim: PlannedNodeClaim, name: str) -> InstanceType:
        return next(kind for kind in self.pool_catalogs[claim.pool].types if kind.name == name)

    def kinds(self, claim: PlannedNodeClaim) -> list[InstanceType]:
        return [self.kind(claim, name) for name in claim.choices.instance_types]

    def launched(self, claim: PlannedNodeClaim) -> InstanceType:
        return self.kind(claim, claim.launch.instance_type)

    def pods_of(self, claim: PlannedNodeClaim) -> list[Pod]:
        return [self.pods[key] for key in claim.pods]

    def offers(self, claim: PlannedNodeClaim) -> list[tuple[InstanceType, Offering]]:
        """All offerings left to the claim."""
        held = claim.choices.reservation_ids
        return [
            (k, o)
            for k in self.kinds(claim)
            for o in available_offerings(k, claim.requirements, held)
        ]

    def _spare_instances(self) -> dict[str, int]:
        free = self.available_instances()
        for claim in self.plan.claims:
            if claim.launch.reservation_id is not None:
                free[claim.launch.reservation_id] -= 1
        return free

    def available_instances(self) -> dict[str, int]:
        """The available instances by reservation, less those in flight."""
        free: dict[str, int] = {}
        kinds = [kind for catalog in self.pool_catalogs.values() for kind in catalog.types]
        for offering in (offering for kind in kinds for offering in kind.offerings):
            if offering.reservation_id is not None:
                known = free.get(offering.reservation_id, offering.available)
                free[offering.reservation_id] = min(known, offering.available)
        for node in self.snapshot.nodes:
            if not node.launched and not node.deleting and free.get(node.reservation_id or ""):
                free[node.reservation_id or ""] -= 1
        return free

    def within_limits(
        self, catalog: PoolCatalog, without: PlannedNodeClaim | None = None
    ) -> list[InstanceType]:
        """The types within the pool's limits given the plan's claims, or all but one of them."""
        left: Resources = subtract_resources(catalog.pool.limits, catalog.pool.in_use)
        for claim in self.plan.claims:
            if claim.pool == catalog.pool.name and claim is not without:
                left = subtract_resources(left, node_capacity(self.launched(claim)))
        return [kind for kind in catalog.types if is_within_limits(catalog, left, kind)]


def node_capacity(kind: InstanceType) -> Resources:
    return {**kind.capacity, "nodes": 1}


def is_within_limits(catalog: PoolCatalog, left: Resources, kind: InstanceType) -> bool:
    return all(node_capacity(kind).get(name, 0) <= left[name] for name in catalog.pool.limits)


def new_node_options(
    case: PlannedCase,
    catalog: PoolCatalog,
    pod: Pod,
    types: Iterable[InstanceType],
    reservation_ids: Iterable[str] = (),
) -> Iterator[tuple[Requirements, list[InstanceType]]]:
    """The nodes that the pool could open for the pod, one for each alternative that it can."""
    reservation_ids = set(reservation_ids)
    for wanted in pod.alternatives:
        asked = catalog.joined(catalog.node, pod, wanted)
        found = (
            []
            if asked is None
            else catalog.launchable_types(asked, total_requests([pod]), reservation_ids, types)
        )
        if asked is None or not found:
            continue
        reserved = any(
            offering.reservation_id is not None
            for kind in found
            for offering in available_offerings(kind, asked, reservation_ids)
        )
        if reserved or is_relaxed(case) or satisfies_min_values(catalog, asked, found, ()):
            yield asked, found


def is_relaxed(case: PlannedCase) -> bool:
    return case.options.min_values_policy is MinValuesPolicy.BEST_EFFORT


def reserved_kinds(case: PlannedCase, claim: PlannedNodeClaim) -> list[InstanceType]:
    """The types of the claim's reservation, with no other offerings."""
    held = claim.choices.reservation_ids
    offered = [
        msgspec.structs.replace(
            kind, offerings=tuple(o for o in kind.offerings if o.reservation_id in held)
        )
        for kind in case.kinds(claim)
    ]
    return [kind for kind in offered if available_offerings(kind, claim.requirements, held)]


def satisfies_min_values(
    catalog: PoolCatalog,
    asked: Requirements,
    types: list[InstanceType],
    reservation_ids: Iterable[str],
) -> bool:
    counts = catalog.counts(asked, types, set(reservation_ids))
    return all((asked[key].min_values or 0) <= count for key, count in counts.items())


def requests_on_claim(
    case: PlannedCase, claim: PlannedNodeClaim, kind: InstanceType, offering: Offering
) -> Resources:
    """The requests of the claim's pods and of the daemonsets on its node."""
    catalog = case.pool_catalogs[claim.pool]
    running = [
        each
        for each in case.snapshot.daemonsets
        if catalog.runs(each, kind, offering, claim.requirements)
    ]
    return total_requests([*case.pods_of(claim), *running])


def types_always_within_limits(case: PlannedCase, catalog: PoolCatalog) -> list[InstanceType]:
    """The types within the limits at any time, with all claims counted at their largest type."""
    left: Resources = subtract_resources(catalog.pool.limits, catalog.pool.in_use)
    for claim in case.plan.claims:
        if claim.pool == catalog.pool.name:
            for name in left:
                most = max(node_capacity(kind).get(name, 0) for kind in catalog.types)
                left = subtract_resources(left, {name: most})
    return [kind for kind in catalog.types if is_within_limits(catalog, left, kind)]


def could_open_first(
    case: PlannedCase, catalog: PoolCatalog, pod: Pod, types: list[InstanceType]
) -> bool:
    """Whether the pool can open a node for the first alternative."""
    first = msgspec.structs.replace(pod, alternatives=pod.alternatives[:1])
    return any(new_node_options(case, catalog, first, types))


def could_use(
    case: PlannedCase,
    catalog: PoolCatalog,
    pod: Pod,
    idle: set[str],
    claim: PlannedNodeClaim | None,
) -> bool:
    """Whether the pool could launch an idle reserved instance for the pod."""
    alone = claim is not None and claim.pods == (pod.key,)
    types = case.within_limits(catalog, claim if alone else None)
    return not pod.unsupported and any(
        offering.reservation_id is not None
        for asked, found in new_node_options(case, catalog, pod, types, idle)
        for kind in found
        for offering in available_offerings(kind, asked, idle)
    )


def could_join(case: PlannedCase, claim: PlannedNodeClaim, pod: Pod) -> bool:
    """Whether the pod could join the claim, with minValues still met."""
    catalog, held = case.pool_catalogs[claim.pool], claim.choices.reservation_ids
    requests = total_requests([*case.pods_of(claim), pod])
    for wanted in pod.alternatives:
        asked = catalog.joined(claim.requirements, pod, wanted)
        left = (
            []
            if asked is None
            else catalog.launchable_types(asked, requests, held, case.kinds(claim))
        )
        if asked is not None and (held or satisfies_min_values(catalog, asked, left, held)):
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
