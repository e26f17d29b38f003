"""The reference planner: the documented rules as loops over pods, drafts, types and offerings.
Where the documentation leaves a choice open, it makes the choice of `core`, marked "Open choice".
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from hashlib import sha256
from math import inf
from typing import TypeAlias

import msgspec
from tests.support.random_inputs.unconstrained import PlannerInput
from tests.support.reference_planner.offerings import (
    PoolCatalog,
    available_offerings,
    fits_on_node,
    hourly_cost,
    is_node_compatible,
    is_ordinary_type,
    launch_capacity_type,
    offering_label,
    schedulable_nodes,
    tolerating_soft_taints,
    total_requests,
)

from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.labels import (
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    RESERVATION_ID,
    RESERVED,
    SPOT,
    ZONE,
)
from wainwright.model.plan import MinValuesPolicy, PlannedLaunch, RemainingOptions
from wainwright.model.pod import Pod
from wainwright.model.requirements import Requirements
from wainwright.model.resources import Resources, max_resources, subtract_resources
from wainwright.model.snapshot import Node

TypeOffering: TypeAlias = tuple[InstanceType, Offering]


class ReferenceDraft:
    """A node being planned; after its round it is a launching node."""

    def __init__(
        self, catalog: PoolCatalog, asked: Requirements, types: list[InstanceType]
    ) -> None:
        self.catalog = catalog
        self.asked = asked
        self.types = types
        self.held: set[str] = set()
        self.minimums: dict[str, int] = {}
        self.pods: list[Pod] = []
        self.round = 0
        self.worst: Resources = {}
        self.opened: list[InstanceType] = types
        """The types that it was opened with."""
        self.opened_reserved = False
        self.launch: TypeOffering | None = None

    @property
    def offers(self) -> list[TypeOffering]:
        return [
            (kind, each)
            for kind in self.types
            for each in available_offerings(kind, self.asked, self.held)
        ]

    def hold_reservations(self, reservation_ids: Collection[str]) -> None:
        """Holds those of the reservations that it could still be launched from."""
        self.held = set(reservation_ids)
        self.held = {each.reservation_id for _, each in self.offers if each.reservation_id}

    @property
    def requirements(self) -> Requirements:
        """Its requirements, with the minValues that its claim carries."""
        return Requirements(
            msgspec.structs.replace(found, min_values=self.kept_minimums.get(key) or None)
            for key, found in self.asked.items()
        )

    @property
    def kept_minimums(self) -> dict[str, int]:
        """The minValues it was opened with; if reserved, those that its reservation can meet."""
        if not self.held:
            return self.minimums
        reserved = [kind for kind, each in self.offers if each.reservation_id is not None]
        offered = [
            msgspec.structs.replace(
                kind, offerings=tuple(o for o in kind.offerings if o.reservation_id in self.held)
            )
            for kind in reserved
        ]
        counts = self.catalog.counts(self.asked, offered, self.held)
        return {key: n for key, n in self.catalog.minimums.items() if counts[key] >= n}

    @property
    def relaxed(self) -> tuple[str, ...]:
        """The keys whose minValues its claim carries lower than its pool, or not at all."""
        kept = self.kept_minimums
        return tuple(
            sorted(key for key, n in self.catalog.minimums.items() if kept.get(key, 0) < n)
        )

    def is_diverse(self) -> bool:
        counts = self.catalog.counts(self.asked, self.types, self.held)
        return all(counts[key] >= least for key, least in self.minimums.items())


class NewNodeOption(msgspec.Struct):
    """A new node that a pool could open for a pod."""

    catalog: PoolCatalog
    wanted: Requirements
    """The pod's alternative that it is for."""
    draft: ReferenceDraft | None = None
    """None where the pod must wait for a reserved instance that is held for now."""

    @property
    def is_reserved(self) -> bool:
        return self.draft is None or bool(self.draft.held)


class ReferenceClusterLimits:
    """Limits of the cluster, counted anew from all nodes and drafts for every question."""

    def __init__(self, planner_input: PlannerInput) -> None:
        limits = planner_input.options.cluster_limits
        said: list[tuple[str, float | None]] = [
            ("cpu", limits.cpu),
            ("memory", limits.memory),
            ("nodes", limits.nodes),
            ("price", limits.price_per_hour),
        ]
        self.limits = {name: amount for name, amount in said if amount is not None}
        self.snapshot = planner_input.snapshot
        self.types = planner_input.types
        self._highest: dict[tuple[str, str, bool], float] = {}

    def left(self, drafts: Iterable[ReferenceDraft], *, worst: bool) -> dict[str, float]:
        """With this round's drafts at the most that they could use, or not at all."""
        if not self.limits:
            return {}
        usages = [self._node_usage(node) for node in self.snapshot.nodes if node.managed]
        of_nodes = {node.pool for node in self.snapshot.nodes if node.managed}
        usages += [dict(pool.in_use) for pool in self.snapshot.pools if pool.name not in of_nodes]
        for draft in drafts:
            if draft.launch is not None:
                kind, each = draft.launch
                usages.append({**kind.capacity, "nodes": 1, "price": hourly_cost(kind, each)})
            elif worst:
                usages.append({**draft.worst, "price": self._worst_cost(draft)})
        return {
            name: amount - sum(usage.get(name, 0) for usage in usages)
            for name, amount in self.limits.items()
        }

    def _worst_cost(self, draft: ReferenceDraft) -> float:
        reserved = draft.opened_reserved
        return max(self.cost(draft.catalog, kind, reserved=reserved) for kind in draft.opened)

    def _node_usage(self, node: Node) -> dict[str, float]:
        labels = (node.labels.get(ZONE), node.labels.get(CAPACITY_TYPE))
        reservation = node.labels.get(RESERVATION_ID)
        costs = [
            hourly_cost(kind, each)
            for kind in self.types.get(node.pool or "", ())
            if kind.name == node.labels.get(INSTANCE_TYPE)
            for each in kind.offerings
            if None not in labels
            and (each.zone or labels[0], each.capacity_type or labels[1]) == labels
            and (labels[1] != RESERVED or reservation in (None, each.reservation_id))
        ]
        return {**node.capacity, "nodes": 1, "price": costs[0] if costs else 0.0}

    def admits(
        self, catalog: PoolCatalog, kind: InstanceType, left: dict[str, float], *, reserved: bool
    ) -> bool:
        """Whether one more such node, at the most that the pool could pay for it, is within."""
        usage = {**kind.capacity, "nodes": 1, "price": self.cost(catalog, kind, reserved=reserved)}
        return all(usage.get(name, 0) <= amount + ROUNDING for name, amount in left.items())

    def cost(self, catalog: PoolCatalog, kind: InstanceType, *, reserved: bool) -> float:
        """The most that the pool could pay for the type, in a reservation or without one."""
        if "price" not in self.limits:
            return 0.0
        key = (catalog.pool.name, kind.name, reserved)
        if key not in self._highest:
            ids = {each.reservation_id or "" for each in kind.offerings}
            costs = [
                hourly_cost(kind, each)
                for each in available_offerings(kind, catalog.node, ids)
                if (each.reservation_id is not None) is reserved
            ]
            self._highest[key] = max(costs, default=0.0)
        return self._highest[key]


ROUNDING = 5e-9
"""USD per hour, of sums of prices."""


class ReferencePlanner:
    def __init__(self, planner_input: PlannerInput) -> None:
        self.snapshot, self.options = planner_input.snapshot, planner_input.options
        self.pool_catalogs = pool_catalogs(planner_input)
        # Open choice: pools of one weight and price in the order of a hash of their names.
        self.pool_catalogs.sort(key=lambda catalog: sha256(catalog.pool.name.encode()).hexdigest())
        self.pool_catalogs.sort(key=lambda catalog: -catalog.pool.weight)
        self.free = self._free_instances() if planner_input.options.capacity_reservations else {}
        self.cluster_limits = ReferenceClusterLimits(planner_input)
        self.drafts: list[ReferenceDraft] = []
        self.received: dict[str, list[Pod]] = {}
        self.unplaced: list[Pod] = []
        self.relaxed: set[str] = set()
        """Pods that tolerate PreferNoSchedule taints by relaxation."""
        self.round = 0

    def run(self) -> None:
        """Rounds of passes over the unscheduled pods, until no further pod is scheduled."""
        left = sorted(self.snapshot.pods, key=_queue_order)
        before = None
        while before != len(left):
            before = len(left)
            self.round += 1
            left = self._passes(left)
            for draft in self._of_this_round():
                self._settle(draft)
        self.unplaced = left

    def _passes(self, left: list[Pod]) -> list[Pod]:
        before = None
        while before != len(left):
            before = len(left)
            left = [pod for pod in left if pod.unsupported or not self._place(pod)]
        return left

    def _place(self, pod: Pod) -> bool:
        """Soft taints are respected first; a pod that waits for a reservation is not relaxed."""
        found = self._place_as(pod)
        if found is None:
            found = self._place_as(tolerating_soft_taints(pod))
            if found:
                self.relaxed.add(pod.key)
        return bool(found)

    def _place_as(self, pod: Pod) -> bool | None:
        """None where there is no reservation to wait for either."""
        for wanted in pod.alternatives:
            if self._onto_node(pod, wanted) or self._onto_draft(pod, wanted):
                return True
            opening = self._opening(pod, wanted)
            if opening is not None:
                other = opening.wanted
                if other is not wanted and self._onto_draft(pod, other):
                    return (
                        True  # a reserved instance for another alternative, which fits without it
                    )
                if opening.draft is not None:
                    self.drafts.append(opening.draft)
                return opening.draft is not None
        return None

    def _onto_node(self, pod: Pod, wanted: Requirements) -> bool:
        for node in schedulable_nodes(self.snapshot.nodes):
            there = self.received.setdefault(node.name, [])
            if is_node_compatible(node, pod, wanted) and fits_on_node(
                node, [*there, pod], self.snapshot.daemonsets
            ):
                there.append(pod)
                return True
        return False

    def _onto_draft(self, pod: Pod, wanted: Requirements) -> bool:
        drafts = self._joinable()
        least = self._lightest(pod, wanted) if drafts else 0
        reserved_weight = self._reserved_weight(pod) if drafts else 0
        for draft in drafts:
            weight = draft.catalog.pool.weight
            if weight < least or (not draft.held and weight <= reserved_weight):
                continue
            joined = self._joined(draft, pod, wanted)
            if joined is not None:
                draft.asked, draft.types, draft.held = joined.asked, joined.types, joined.held
                draft.pods.append(pod)
                return True
        return False

    def _joinable(self) -> list[ReferenceDraft]:
        """Launching nodes first; then the fewest pods.

        Open choice: of those with one pod the oldest, of others the youngest.
        """
        current = self._of_this_round()
        under_way = [draft for draft in self.drafts if draft not in current]
        return under_way + sorted(current, key=self._fullness)

    def _fullness(self, draft: ReferenceDraft) -> tuple[int, int]:
        pods, age = len(draft.pods), self.drafts.index(draft)
        return pods, age if pods < 2 else -age

    def _of_this_round(self) -> list[ReferenceDraft]:
        return [draft for draft in self.drafts if draft.round == self.round]

    def _lightest(self, pod: Pod, wanted: Requirements) -> float:
        """The least weight of a draft that the pod may join."""
        opening = self._opening(pod, wanted) if self.options.strict_weights else None
        return -inf if opening is None else opening.catalog.pool.weight

    def _reserved_weight(self, pod: Pod) -> float:
        """The highest weight of a pool with an idle reserved instance for the pod."""
        weights = [each.catalog.pool.weight for each in self._openings(pod) if each.is_reserved]
        return max(weights, default=-inf)

    def _joined(
        self, draft: ReferenceDraft, pod: Pod, wanted: Requirements
    ) -> ReferenceDraft | None:
        """The draft with the pod added; None where that is impossible."""
        asked = draft.catalog.joined(draft.asked, pod, wanted)
        if asked is None:
            return None
        requests = total_requests([*draft.pods, pod])
        types = draft.catalog.launchable_types(asked, requests, draft.held, draft.types)
        found = ReferenceDraft(draft.catalog, asked, types)
        found.minimums = draft.minimums
        found.hold_reservations(draft.held)
        lost = draft.held and not found.held
        gone = draft.launch is not None and draft.launch not in found.offers
        return None if not types or lost or gone or not found.is_diverse() else found

    def _opening(self, pod: Pod, wanted: Requirements) -> NewNodeOption | None:
        """Pools in descending weight; reserved capacity before anything else of the same weight;
        then the pool whose node costs least, and of equal ones the first.

        Open choice: the reserved instance may be for any of the alternatives, the first of a pool.
        """
        for weight in dict.fromkeys(catalog.pool.weight for catalog in self.pool_catalogs):
            catalogs = [catalog for catalog in self.pool_catalogs if catalog.pool.weight == weight]
            found = [each for each in self._openings(pod, catalogs) if each.is_reserved]
            ready = {each.catalog.pool.name: each for each in reversed(found) if each.draft}
            first_ready = [ready[each.pool.name] for each in catalogs if each.pool.name in ready]
            evaluated = [self._evaluate_pool(catalog, pod, wanted) for catalog in catalogs]
            plain = [each for each in evaluated if each is not None]
            for group in (first_ready, found, plain):
                if group:
                    return min(group, key=self._opening_price)
        return None

    def _opening_price(self, opening: NewNodeOption) -> float:
        """Of the launch; no price is compared where the pod has to wait."""
        return 0.0 if opening.draft is None else hourly_cost(*self._choice(opening.draft))

    def _openings(
        self, pod: Pod, catalogs: Iterable[PoolCatalog] | None = None
    ) -> Iterator[NewNodeOption]:
        for catalog in self.pool_catalogs if catalogs is None else catalogs:
            for wanted in pod.alternatives:
                opening = self._evaluate_pool(catalog, pod, wanted)
                if opening is not None:
                    yield opening

    def _evaluate_pool(
        self, catalog: PoolCatalog, pod: Pod, wanted: Requirements
    ) -> NewNodeOption | None:
        """A reserved node, else a wait if there may be one later, else any other node."""
        live = {name for name, count in self.free.items() if count > 0}
        unheld = {name for name in live if self.free[name] > self._holders(name)}
        now, at_best = (
            self._within_limits(catalog, worst=True, reserved=True),
            self._within_limits(catalog, worst=False, reserved=True),
        )
        draft = self._new(catalog, pod, wanted, unheld, now)
        if draft is not None and draft.held:
            return NewNodeOption(catalog, wanted, draft)
        later = self._new(catalog, pod, wanted, live, at_best)
        if later is not None and later.held:
            return NewNodeOption(catalog, wanted)
        draft = self._new(catalog, pod, wanted, (), self._within_limits(catalog, worst=True))
        return None if draft is None else NewNodeOption(catalog, wanted, draft)

    def _new(
        self,
        catalog: PoolCatalog,
        pod: Pod,
        wanted: Requirements,
        reservation_ids: Collection[str],
        among: Sequence[InstanceType],
    ) -> ReferenceDraft | None:
        asked = catalog.joined(catalog.node, pod, wanted)
        if asked is None:
            return None
        draft = ReferenceDraft(
            catalog,
            asked,
            catalog.launchable_types(asked, total_requests([pod]), reservation_ids, among),
        )
        draft.hold_reservations(reservation_ids)
        draft.pods, draft.round, draft.minimums = [pod], self.round, dict(catalog.minimums)
        for kind in draft.types:
            draft.worst = max_resources(draft.worst, {**kind.capacity, "nodes": 1})
        draft.opened_reserved = bool(draft.held)
        if draft.held:
            draft.minimums = {}  # a reservation is capacity found: no diversity is needed
        elif self.options.min_values_policy is MinValuesPolicy.BEST_EFFORT:
            counts = catalog.counts(asked, draft.types, draft.held)
            draft.minimums = {key: min(n, counts[key]) for key, n in catalog.minimums.items()}
        return draft if draft.types and draft.is_diverse() else None

    def _holders(self, reservation: str) -> int:
        return sum(reservation in draft.held for draft in self._of_this_round())

    def _within_limits(
        self, catalog: PoolCatalog, *, worst: bool, reserved: bool = False
    ) -> list[InstanceType]:
        """Types within all limits, with this round's drafts at their largest type or not at all."""
        shared = self.cluster_limits.left(self.drafts, worst=worst)
        return [
            kind
            for kind in self._within_pool_limits(catalog, worst=worst)
            if self.cluster_limits.admits(catalog, kind, shared, reserved=reserved)
        ]

    def _within_pool_limits(self, catalog: PoolCatalog, *, worst: bool) -> list[InstanceType]:
        left: Resources = subtract_resources(catalog.pool.limits, catalog.pool.in_use)
        for draft in self.drafts:
            if draft.catalog is catalog and draft.launch is not None:
                left = subtract_resources(left, {**draft.launch[0].capacity, "nodes": 1})
            elif draft.catalog is catalog and worst:
                left = subtract_resources(left, draft.worst)
        return [
            kind
            for kind in catalog.types
            if all(
                {**kind.capacity, "nodes": 1}.get(name, 0) <= left[name]
                for name in catalog.pool.limits
            )
        ]

    def _settle(self, draft: ReferenceDraft) -> None:
        """A reserved draft keeps the one reservation that is counted for it."""
        draft.launch = self._choice(draft)
        reservation = draft.launch[1].reservation_id
        if reservation is not None:
            self.free[reservation] -= 1
            draft.held = {reservation}
            draft.types = [
                kind for kind in draft.types if available_offerings(kind, draft.asked, draft.held)
            ]

    def _choice(self, draft: ReferenceDraft) -> TypeOffering:
        reserved = [offer for offer in draft.offers if offer[1].reservation_id is not None]
        if reserved:
            return min(_ordinary_offerings(draft, reserved) or reserved, key=self._reserved_rank)
        ordinary = _ordinary_offerings(draft, draft.offers)
        trial = ReferenceDraft(
            draft.catalog, draft.asked, list({k.name: k for k, _ in ordinary}.values())
        )
        trial.minimums = draft.minimums
        offers = ordinary if ordinary and trial.is_diverse() else draft.offers
        spot = [offer for offer in offers if launch_capacity_type(*offer, draft.asked) == SPOT]
        other = [offer for offer in offers if launch_capacity_type(*offer, draft.asked) != SPOT]
        bearable = min((hourly_cost(*offer) for offer in other), default=inf)
        return min(
            [offer for offer in spot if hourly_cost(*offer) <= bearable] or other,
            key=_offering_rank,
        )

    def _reserved_rank(self, offer: TypeOffering) -> tuple[float, str, str, int, str]:
        """Open choice: after the price the type's name, the zone, and the most instances left."""
        kind, each = offer
        name = each.reservation_id or ""
        return hourly_cost(*offer), kind.name, each.zone or "", -self.free[name], name

    def _free_instances(self) -> dict[str, int]:
        """Free instances by reservation: the lowest count of any pool, less those in flight."""
        free: dict[str, int] = {}
        for each in (
            o for catalog in self.pool_catalogs for kind in catalog.types for o in kind.offerings
        ):
            if each.reservation_id is not None:
                known = free.get(each.reservation_id, each.available)
                free[each.reservation_id] = min(known, each.available)
        for node in self.snapshot.nodes:
            if not node.launched and not node.deleting and free.get(node.reservation_id or ""):
                free[node.reservation_id or ""] -= 1
        return free


def pool_catalogs(planner_input: PlannerInput) -> list[PoolCatalog]:
    """The catalogs of the pools that may launch nodes."""
    reservations, daemonsets = (
        planner_input.options.capacity_reservations,
        planner_input.snapshot.daemonsets,
    )
    usable = [pool for pool in planner_input.snapshot.pools if pool.unusable is None]
    return [
        PoolCatalog(pool, planner_input.types[pool.name], daemonsets, reservations=reservations)
        for pool in usable
    ]


def _ordinary_offerings(draft: ReferenceDraft, offers: list[TypeOffering]) -> list[TypeOffering]:
    return [offer for offer in offers if is_ordinary_type(offer[0], draft.asked)]


def _offering_rank(offer: TypeOffering) -> tuple[float, str, list[tuple[str, list[str]]]]:
    """Open choice: after price and name the labels of the offering, in the order of their keys."""
    kind, each = offer
    said = {key: offering_label(*offer, key) for key in (*each.requirements, ZONE, CAPACITY_TYPE)}
    labels = [(key, sorted(values.values)) for key, values in said.items() if values is not None]
    return hourly_cost(*offer), kind.name, sorted(labels)


def _queue_order(pod: Pod) -> tuple[int, int, float, str, str, str]:
    age = inf if pod.created is None else pod.created
    cpu, memory = pod.requests.get("cpu", 0), pod.requests.get("memory", 0)
    return -cpu, -memory, age, pod.uid, pod.namespace, pod.name


def draft_choices(draft: ReferenceDraft) -> RemainingOptions:
    """The offerings left to a draft; for one that holds reservations only these."""
    reserved = [offer for offer in draft.offers if offer[1].reservation_id is not None]
    traded = reserved or draft.offers
    return RemainingOptions(
        instance_types=tuple(kind.name for kind in draft.types),
        zones=_label_choices(draft, ZONE, traded),
        capacity_types=_label_choices(draft, CAPACITY_TYPE, traded),
        reservation_ids=tuple(sorted(draft.held)),
    )


def _label_choices(draft: ReferenceDraft, key: str, traded: list[TypeOffering]) -> tuple[str, ...]:
    """The values of a label with which the draft could be launched.

    Open choice: an offering without a zone stands for all zones of the catalog, and where there are
    none, for the required ones.
    """
    allowed = draft.asked.allowed(key)
    everything = [(kind, each) for kind in draft.catalog.types for each in kind.offerings]
    is_open = any(offering_label(*offer, key) is None for offer in traded)
    said = [offering_label(*offer, key) for offer in (everything if is_open else traded)]
    values = {value for found in said if found is not None for value in found.values}
    named = sorted(filter(allowed.admits, values))
    return tuple(named) or (() if allowed.open else tuple(sorted(allowed.values)))


def draft_launch(draft: ReferenceDraft) -> PlannedLaunch:
    """The offering to launch now. Open choice: an offering of any zone counts as the first zone."""
    assert draft.launch is not None
    kind, each = draft.launch
    return PlannedLaunch(
        instance_type=kind.name,
        zone=next(iter(_label_choices(draft, ZONE, [draft.launch])), None),
        capacity_type=launch_capacity_type(kind, each, draft.asked),
        price=each.price,
        reservation_id=each.reservation_id,
    )
