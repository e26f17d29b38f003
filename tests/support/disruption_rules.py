"""Facts about nodes, pods, budgets and offerings that the checker of disruption goes by: each from
the rules, by plain loops; nothing of `core` is used.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec.structs import replace
from tests.support.kube_scheduler.binding import BoundCluster
from tests.support.random_inputs.unconstrained import PlannerInput

from wainwright.model.disruption import DisruptionBudget, NodeClaimState, PodDisruptionBudget
from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.labels import (
    CAPACITY_TYPE,
    ON_DEMAND,
    RESERVATION_LABELS,
    RESERVED,
    ZONE,
)
from wainwright.model.plan import NodeAssignment, Plan, PlannedNodeClaim
from wainwright.model.pod import Pod
from wainwright.model.requirements import Requirements
from wainwright.model.resources import Resources, add_resources
from wainwright.model.snapshot import Node, Pool, Snapshot
from wainwright.model.taints import DISRUPTED_TAINT, find_untolerated_taint


def has_min_values(pool: Pool) -> bool:
    """One that must keep several zones cannot be launched in any of them alone."""
    return any(each.min_values for each in pool.requirements.values())


def evicted_pods(node: Node) -> list[Pod]:
    """Those that somebody creates again: not of DaemonSets, not static, not those ending anyway."""
    return [
        pod
        for pod in node.pods
        if not pod.daemonset
        and not pod.eviction.static
        and (not pod.terminating or pod.eviction.recreated)
    ]


def has_come_up(node: Node) -> bool:
    if node.initialized:
        return True
    if node.claim is not None and node.claim.conditions:
        return False
    is_registered = not any(taint.key == "karpenter.sh/unregistered" for taint in node.taints)
    return node.launched and is_registered and is_ready(node)


def is_ready(node: Node) -> bool:
    """A node that does not say is taken to be."""
    ready = node.conditions.get("Ready")
    return ready is None or ready.status == "True"


def is_expired(node: Node, now: float | None) -> bool:
    claim = node.claim
    if claim is None or claim.created is None or claim.expire_after is None or now is None:
        return False
    return now - claim.created >= claim.expire_after


def last_change(node: Node) -> float | None:
    """When pods came or went, or the node came up."""
    if node.claim is None:
        return None
    if node.claim.last_pod_event is not None:
        return node.claim.last_pod_event
    initialized = node.claim.conditions.get("Initialized")
    return initialized.since if initialized is not None else None


def is_held_by_annotation(pod: Pod, now: float | None) -> bool:
    value = pod.eviction.do_not_disrupt
    if isinstance(value, bool):
        return value
    started = pod.eviction.started
    return started is None or now is None or now < started + value


def evictions_left(snapshot: Snapshot) -> Iterator[tuple[tuple[str, str], int]]:
    """By PodDisruptionBudget; pending pods are expected, and not healthy."""
    running = [pod for node in snapshot.nodes for pod in node.pods]
    for budget in snapshot.pod_disruption_budgets:
        left = budget.disruptions_allowed
        if left is None:
            mine = [pod for pod in running if budget.selects(pod)]
            expected = len(mine) + sum(map(budget.selects, snapshot.pods))
            healthy = sum(pod.eviction.ready and not pod.terminating for pod in mine)
            left = healthy - _needed(budget, expected)
        yield (budget.namespace, budget.name), max(0, left)


def _needed(budget: PodDisruptionBudget, expected: int) -> int:
    if budget.max_unavailable is not None:
        return max(0, expected - _share(budget.max_unavailable, expected))
    return _share(budget.min_available or 0, expected)


def _share(value: int | str, total: int) -> int:
    if isinstance(value, str) and value.endswith("%"):
        return -(-int(value[:-1]) * total // 100)
    return int(value)


def drain_deleting(snapshot: Snapshot) -> tuple[Snapshot, dict[str, Pod]]:
    """Pods of nodes being deleted are pending, but for those that may never be evicted."""
    nodes, pods = [], list(snapshot.pods)
    for node in snapshot.nodes:
        leaving = evicted_pods(node) if node.deleting else []
        leaving = [pod for pod in leaving if not _is_stuck(pod, snapshot)]
        keys = {pod.key for pod in leaving}
        nodes.append(replace(node, pods=tuple(p for p in node.pods if p.key not in keys)))
        pods += [replace(pod, terminating=False) for pod in leaving]
    pods.sort(key=lambda pod: (pod.namespace, pod.name))
    drained = replace(snapshot, nodes=tuple(nodes), pods=tuple(pods))
    return drained, {pod.key: pod for pod in pods}


def _is_stuck(pod: Pod, snapshot: Snapshot) -> bool:
    if pod.terminating:
        return False
    if pod.eviction.do_not_disrupt is True:
        return True
    budgets = [each for each in snapshot.pod_disruption_budgets if each.selects(pod)]
    never = len(budgets) > 1 or any(
        str(each.max_unavailable) in ("0", "0%") or each.min_available == "100%"
        for each in budgets
        if pod.eviction.ready or not each.always_allows_unready
    )
    return never and find_untolerated_taint([DISRUPTED_TAINT], pod.tolerations) is not None


def with_pods(
    nodes: Iterable[Node], placements: Iterable[NodeAssignment], pods: Mapping[str, Pod]
) -> list[Node]:
    came = {each.node: [pods[key] for key in each.pods] for each in placements}
    return [replace(node, pods=(*node.pods, *came.get(node.name, ()))) for node in nodes]


def with_usage(pools: Iterable[Pool], nodes: Sequence[Node]) -> tuple[Pool, ...]:
    """The pools with what their nodes have altogether."""

    def used(pool: Pool) -> Resources:
        total: Resources = {}
        for node in nodes:
            if node.pool == pool.name:
                total = add_resources(total, {**node.capacity, "nodes": 1})
        return total

    return tuple(replace(pool, in_use=used(pool)) for pool in pools)


def new_node(cluster: PlannerInput, claim: PlannedNodeClaim, pods: Mapping[str, Pod]) -> Node:
    """The node of a claim, as the checks of plans make it."""
    alone = replace(claim, pods=())
    made = Plan(claims=(alone,), placements=(), unplaced=(), reservations=())
    empty = replace(cluster, snapshot=replace(cluster.snapshot, nodes=(), pods=()))
    [host] = BoundCluster(empty, made).coming
    kinds = cluster.types[claim.pool]
    kind = next(each for each in kinds if each.name == claim.launch.instance_type)
    pool = next(each for each in cluster.snapshot.pools if each.name == claim.pool)
    lifetime = pool.disruption.expire_after
    return Node(
        name=claim.name,
        labels=dict(host.labels),
        taints=pool.taints,
        allocatable=dict(kind.allocatable),
        capacity=dict(kind.capacity),
        pods=tuple(pods[key] for key in claim.pods),
        pool=claim.pool,
        launched=False,
        reservation_id=claim.launch.reservation_id,
        claim=NodeClaimState(name=claim.name, expire_after=lifetime),
    )


def is_offering_of(node: Node, offering: Offering) -> bool:
    labels = node.labels
    zone, capacity_type = labels.get(ZONE), labels.get(CAPACITY_TYPE)
    if zone is None or capacity_type is None:
        return False
    is_same = offering.zone in (None, zone) and offering.capacity_type in (None, capacity_type)
    if capacity_type != RESERVED or node.reservation_id is None:
        return is_same
    return is_same and offering.reservation_id == node.reservation_id


def is_sold_as(offering: Requirements, labels: Mapping[str, str]) -> bool:
    """A reserved node needs an offering that is reserved or on demand."""

    def admits(wanted: Mapping[str, str]) -> bool:
        return all(offering.allowed(key).admits(wanted[key]) for key in offering if key in wanted)

    without = {k: v for k, v in labels.items() if k not in RESERVATION_LABELS}
    fallback = {**without, CAPACITY_TYPE: ON_DEMAND}
    is_reserved = labels.get(CAPACITY_TYPE) == RESERVED
    return admits(labels) or (is_reserved and admits(fallback))


def with_free_instances(
    types: Mapping[str, tuple[InstanceType, ...]], returned: Mapping[str, int]
) -> dict[str, tuple[InstanceType, ...]]:
    """Pools with the same types go on sharing them."""

    def changed(offering: Offering) -> Offering:
        more = returned.get(offering.reservation_id or "", 0)
        return replace(offering, available=offering.available + more) if more else offering

    made = {
        id(kinds): tuple(
            replace(kind, offerings=tuple(map(changed, kind.offerings))) for kind in kinds
        )
        for kinds in types.values()
    }
    return {name: made[id(kinds)] for name, kinds in types.items()} if returned else dict(types)


def free_instances(cluster: PlannerInput) -> dict[str, int]:
    """By reservation, less those that nodes not launched yet will take."""
    free: dict[str, int] = {}
    for kinds in cluster.types.values():
        for offering in (each for kind in kinds for each in kind.offerings):
            if offering.reservation_id is not None:
                name = offering.reservation_id
                free[name] = min(free.get(name, offering.available), offering.available)
    for node in cluster.snapshot.nodes:
        if not node.launched and not node.deleting and node.reservation_id in free:
            free[node.reservation_id] -= 1
    return free


def stated_cost(pod: Pod) -> float:
    own = pod.eviction.disruption_cost
    return pod.eviction.deletion_cost if own is None else own


def disruption_cost(node: Node, now: float | None) -> float:
    """Of the node and its pods; with a time less for the part of its lifetime that is over."""
    costs = (1.0 + stated_cost(pod) / 2**27 + pod.priority / 2**25 for pod in evicted_pods(node))
    pods = sum(max(0.0, min(10.0, cost)) for cost in costs)
    claim = node.claim
    if now is None or claim is None or claim.created is None or not claim.expire_after:
        return 1.0 + pods
    return 1.0 + pods * max(0.0, min(1.0, 1.0 - (now - claim.created) / claim.expire_after))


# Schedules of budgets, minute by minute.

SHORTHANDS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
MONTHS: Final = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
DAYS: Final = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
RANGES: Final = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))


def budget_now(budget: DisruptionBudget, total: int, now: float) -> tuple[int, bool]:
    """How many nodes it allows, and whether it is in effect; ValueError where it is nonsense."""
    number = int(budget.nodes.removesuffix("%"))
    if number < 0 or not budget.nodes[0].isdigit():
        raise ValueError(budget.nodes)
    count = -(-number * total // 100) if budget.nodes.endswith("%") else number
    if budget.schedule is None or budget.duration is None:
        return count, True
    return count, _has_begun(budget.schedule, budget.duration, now)


def _has_begun(schedule: str, duration: float, now: float) -> bool:
    """Whether the schedule has a start within the last `duration` seconds."""
    fields = _fields(schedule)
    start = datetime.fromtimestamp(now - now % 60, UTC)
    for minutes in range(int(duration // 60) + 1):
        moment = start - timedelta(minutes=minutes)
        if moment.timestamp() > now - duration and _is_start(fields, moment):
            return True
    return False


def _fields(schedule: str) -> list[tuple[set[int], bool]]:
    """The values of each field, and whether it says anything at all."""
    parts = SHORTHANDS.get(schedule, schedule).lower().split()
    if len(parts) != len(RANGES):
        raise ValueError(schedule)
    return [
        (set().union(*(_values(each, *limits) for each in part.split(","))), part[0] not in "*?")
        for part, limits in zip(parts, RANGES, strict=True)
    ]


def _values(part: str, low: int, high: int) -> set[int]:
    body, _, step = part.partition("/")
    if body in ("*", "?"):
        first, last = low, high
    else:
        start, dash, end = body.partition("-")
        first = _number(start, high)
        last = _number(end, high) if dash else (high if step else first)
    if not low <= first <= last <= max(high, last if high == RANGES[-1][1] and last == 7 else 0):
        raise ValueError(part)
    return {
        value % 7 if high == RANGES[-1][1] else value
        for value in range(first, last + 1)[:: int(step or 1)]
    }


def _number(text: str, high: int) -> int:
    names = MONTHS if high == 12 else DAYS if high == 6 else []
    return names.index(text) + (high == 12) if text in names else int(text)


def _is_start(fields: list[tuple[set[int], bool]], moment: datetime) -> bool:
    (minutes, _), (hours, _), (days, has_days), (months, _), (weekdays, has_weekdays) = fields
    if moment.minute not in minutes or moment.hour not in hours or moment.month not in months:
        return False
    by_day, by_weekday = moment.day in days, moment.isoweekday() % 7 in weekdays
    # Where both are restricted, either will do.
    return (by_day or by_weekday) if has_days and has_weekdays else (by_day and by_weekday)
