"""The obvious slow planner: the same decisions in plain loops over pods, types and offerings.

It keeps nothing that it could work out again, so that there is little in it that could be wrong.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from math import inf

from msgspec.structs import replace
from tests.support.slowcatalog import (
    SlowCatalog,
    capacity_type,
    is_exotic,
    market_rank,
    offers,
    overhead,
)

from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.labels import HOSTNAME, SPOT
from wainwright.model.node import Node
from wainwright.model.options import MinValuesPolicy, Options
from wainwright.model.pod import DaemonSet, Pod
from wainwright.model.pool import Pool
from wainwright.model.requirements import Requirements
from wainwright.model.resources import Resources, add, fits, maximum, subtract
from wainwright.model.snapshot import Snapshot
from wainwright.model.taints import PREFER_NO_SCHEDULE, untolerated


class SlowDraft:
    """A node being planned."""

    def __init__(self, pool: Pool, round_number: int, allowed: list[InstanceType]) -> None:
        self.pool = pool
        self.round = round_number
        self.allowed = allowed
        """The types that the pool's limits allowed when it was opened."""
        self.requirements = pool.node_requirements
        self.requests: Resources = {}
        self.pods: list[Pod] = []
        self.types: list[InstanceType] = []
        self.held: set[str] = set()
        self.minimums: dict[str, int] = {}
        self.worst: Resources = {}
        self.launch: tuple[InstanceType, Offering] | None = None

    def with_minimums(self) -> Requirements:
        """Its requirements with the minValues that it was opened with."""
        return Requirements(
            replace(found, min_values=self.minimums.get(key) or None)
            for key, found in self.requirements.items()
        )


def with_slot(pod: Pod) -> Resources:
    return {**pod.requests, "pods": 1}


class SlowPlanner:
    def __init__(
        self, snapshot: Snapshot, types: Mapping[str, Sequence[InstanceType]], options: Options
    ) -> None:
        self.snapshot = snapshot
        self.options = options
        self.catalogs = {name: SlowCatalog(kinds) for name, kinds in types.items()}
        self.pools = sorted(
            (pool for pool in snapshot.pools if pool.unusable is None),
            key=lambda pool: (-pool.weight, sha256(pool.name.encode()).hexdigest(), pool.name),
        )
        self.drafts: list[SlowDraft] = []
        self.round = 0
        self.on_nodes: dict[str, list[Pod]] = {}
        self.left: list[Pod] = []
        self.free = self._free_slots()
        self.answers: dict[object, tuple[str, SlowDraft | None]] = {}
        """What pools say to the pod at hand, as several questions need it."""

    def run(self) -> list[Pod]:
        """Places what can be placed, and gives back the rest."""
        left = sorted(self.snapshot.pods, key=_order)
        left = [pod for pod in left if pod.alternatives and not pod.unsupported]
        while True:
            self.round += 1
            before = len(left)
            left = self._passes(left)
            self._settle()
            if len(left) == before:
                return left

    def _passes(self, left: list[Pod]) -> list[Pod]:
        while True:
            before = len(left)
            left = [pod for pod in left if not self._place(pod)]
            if len(left) == before:
                return left

    def _place(self, pod: Pod) -> bool:
        self.answers.clear()
        for wanted in pod.alternatives:
            if self._on_node(pod, wanted):
                return True
            if self._join(pod, wanted):
                return True
            verdict, draft = self._new(pod, wanted)
            if verdict == "wait":
                return False
            if draft is not None:
                self.drafts.append(draft)
                return True
        return False

    def _on_node(self, pod: Pod, wanted: Requirements) -> bool:
        for node in sorted(self.snapshot.nodes, key=lambda n: (not n.initialized, n.name)):
            labels = Requirements.from_labels(node.labels)
            if (
                not node.deleting
                and untolerated(node.lasting_taints, pod.tolerations) is None
                and labels.compatible(wanted)
                and all(
                    amount <= self._left_on(node).get(name, 0)
                    for name, amount in with_slot(pod).items()
                    if amount > 0
                )
            ):
                self.on_nodes.setdefault(node.name, []).append(pod)
                return True
        return False

    def _left_on(self, node: Node) -> Resources:
        left: Resources = node.allocatable
        running: Resources = {}
        for pod in [*node.pods, *self.on_nodes.get(node.name, ())]:
            left = subtract(left, with_slot(pod))
            running = add(running, with_slot(pod)) if pod.daemonset else running
        awaited: Resources = {}
        for daemonset in self.snapshot.daemonsets:
            if _belongs(daemonset, node):
                awaited = add(awaited, {**daemonset.requests, "pods": 1})
        still = {name: max(0, n - running.get(name, 0)) for name, n in awaited.items()}
        return subtract(left, still)

    def _join(self, pod: Pod, wanted: Requirements) -> bool:
        """Machines under way in the order of creation, then drafts with the fewest pods."""
        under_way = [draft for draft in self.drafts if draft.round < self.round]
        current = [draft for draft in self.drafts if draft.round == self.round]
        slot = self._slot_weight(pod)
        own = self._own_weight(pod, wanted) if self.options.strict_weights else -inf
        for draft in [*under_way, *sorted(current, key=lambda each: len(each.pods))]:
            if not draft.held and draft.pool.weight <= slot:
                continue
            if draft.pool.weight < own:
                continue
            if self._add(draft, pod, wanted):
                return True
        return False

    def _own_weight(self, pod: Pod, wanted: Requirements) -> float:
        verdict, draft = self._new(pod, wanted)
        if draft is not None:
            return draft.pool.weight
        return self._slot_weight(pod) if verdict == "wait" else -inf

    def _add(self, draft: SlowDraft, pod: Pod, wanted: Requirements) -> bool:
        trial = SlowDraft(draft.pool, draft.round, draft.allowed)
        trial.requirements, trial.minimums = draft.requirements, draft.minimums
        trial.requests, trial.pods = draft.requests, draft.pods
        if not self._fill(trial, pod, wanted, draft.held):
            return False
        if draft.held and not trial.held:
            return False
        if not self._diverse(trial, trial.minimums):
            return False
        if draft.launch is not None and not self._keeps(trial, *draft.launch):
            return False
        draft.requirements, draft.requests = trial.requirements, trial.requests
        draft.types, draft.held = trial.types, trial.held
        draft.pods = [*draft.pods, pod]
        return True

    def _keeps(self, trial: SlowDraft, kind: InstanceType, offering: Offering) -> bool:
        return kind in trial.types and offering in offers(kind, trial.requirements, trial.held)

    def _fill(self, draft: SlowDraft, pod: Pod, wanted: Requirements, ids: Iterable[str]) -> bool:
        """Puts the pod on the draft and works out what is left; False where nothing is."""
        catalog, pool = self.catalogs[draft.pool.name], draft.pool
        if untolerated(pool.taints, pod.tolerations) is not None:
            return False
        if not pool.node_requirements.compatible(wanted, catalog.well_known):
            return False
        known = {
            key for key in wanted if key in pool.node_requirements or key in catalog.well_known
        }
        wanted = wanted.without(set(wanted) - known)
        if not draft.requirements.compatible(wanted, catalog.well_known):
            return False
        draft.requirements = draft.requirements.narrow(wanted)
        draft.requests = add(draft.requests, with_slot(pod))
        held = set(ids)
        roomy = [kind for kind in draft.allowed if self._has_room(draft, kind)]
        draft.types = [kind for kind in roomy if offers(kind, draft.requirements, held)]
        draft.held = {
            each.reservation_id
            for kind in draft.types
            for each in offers(kind, draft.requirements, held)
            if each.reservation_id is not None
        }
        return bool(draft.types)

    def _has_room(self, draft: SlowDraft, kind: InstanceType) -> bool:
        catalog = self.catalogs[draft.pool.name]
        if not catalog.admits(kind, draft.requirements):
            return False
        taken = overhead(draft.pool, catalog, kind, self.snapshot.daemonsets)
        return fits(draft.requests, subtract(kind.allocatable, taken))

    def _diverse(self, draft: SlowDraft, minimums: Mapping[str, int]) -> bool:
        catalog = self.catalogs[draft.pool.name]
        return all(
            len(catalog.values(key, draft.types, draft.requirements, draft.held)) >= count
            for key, count in minimums.items()
        )

    def _new(self, pod: Pod, wanted: Requirements) -> tuple[str, SlowDraft | None]:
        """The draft that the pod would open for itself, or whether it has to wait."""
        for weight in sorted({pool.weight for pool in self.pools}, reverse=True):
            pools = [pool for pool in self.pools if pool.weight == weight]
            answers = [self._opened(pool, pod, each) for pool in pools for each in pod.alternatives]
            for verdict, draft in answers:
                if verdict == "reserved":
                    return verdict, draft
            if any(verdict == "wait" for verdict, _ in answers):
                return "wait", None
            for pool in pools:
                verdict, draft = self._opened(pool, pod, wanted)
                if verdict == "plain":
                    return verdict, draft
        return "none", None

    def _slot_weight(self, pod: Pod) -> float:
        """The highest weight of a pool with a slot for the pod, be it held or not."""
        return max(
            (
                pool.weight
                for pool in self.pools
                for wanted in pod.alternatives
                if self._opened(pool, pod, wanted)[0] in ("reserved", "wait")
            ),
            default=-inf,
        )

    def _opened(self, pool: Pool, pod: Pod, wanted: Requirements) -> tuple[str, SlowDraft | None]:
        if (pool.name, wanted) not in self.answers:
            self.answers[pool.name, wanted] = self._asked(pool, pod, wanted)
        return self.answers[pool.name, wanted]

    def _asked(self, pool: Pool, pod: Pod, wanted: Requirements) -> tuple[str, SlowDraft | None]:
        """What the pool says to a pod that asks for a node of its own."""
        live = {name for name, count in self.free.items() if count > 0}
        held_out = {name for name in live if self.free[name] <= self._holders(name)}
        if not self.options.capacity_reservations:
            live = held_out = set()
        now, at_start = self._allowed(pool, exact=False), self._allowed(pool, exact=True)
        at_best = self._fresh(pool, pod, wanted, at_start, live)
        if at_best is not None and at_best.held:
            draft = self._fresh(pool, pod, wanted, now, live - held_out)
            if draft is not None and draft.held and self._opens(draft):
                return "reserved", draft
            if self._opens(at_best):
                return "wait", None
        draft = self._fresh(pool, pod, wanted, now, ())
        return ("plain", draft) if draft is not None and self._opens(draft) else ("none", None)

    def _fresh(
        self,
        pool: Pool,
        pod: Pod,
        wanted: Requirements,
        allowed: list[InstanceType],
        ids: Iterable[str],
    ) -> SlowDraft | None:
        draft = SlowDraft(pool, self.round, allowed)
        if not self._fill(draft, pod, wanted, ids):
            return None
        draft.pods = [pod]
        for kind in draft.types:
            draft.worst = maximum(draft.worst, {**kind.capacity, "nodes": 1})
        return draft

    def _opens(self, draft: SlowDraft) -> bool:
        """Sets the minimums of a new draft; False where the pool insists on more than there is."""
        catalog = self.catalogs[draft.pool.name]
        for key, requirement in draft.pool.node_requirements.items():
            if requirement.min_values is not None:
                there = len(catalog.values(key, draft.types, draft.requirements, draft.held))
                relaxed = self.options.min_values_policy is MinValuesPolicy.BEST_EFFORT
                draft.minimums[key] = (
                    min(there, requirement.min_values) if relaxed else requirement.min_values
                )
        return self._diverse(draft, draft.minimums)

    def _holders(self, reservation: str) -> int:
        current = [draft for draft in self.drafts if draft.round == self.round]
        return sum(reservation in draft.held for draft in current)

    def _allowed(self, pool: Pool, *, exact: bool) -> list[InstanceType]:
        """The types that fit under the limits; exactly, or with this round's drafts at worst."""
        left = subtract(pool.limits, {n: pool.in_use.get(n, 0) for n in pool.limits})
        for draft in self.drafts:
            if draft.pool is pool and draft.round < self.round:
                assert draft.launch is not None
                left = subtract(left, {**draft.launch[0].capacity, "nodes": 1})
            elif draft.pool is pool and not exact:
                left = subtract(left, draft.worst)
        return [
            kind
            for kind in self.catalogs[pool.name].types
            if all({**kind.capacity, "nodes": 1}.get(name, 0) <= left[name] for name in pool.limits)
        ]

    def _settle(self) -> None:
        for draft in self.drafts:
            if draft.round == self.round:
                draft.launch = self._choice(draft)
                if draft.launch[1].reservation_id is not None:
                    self.free[draft.launch[1].reservation_id] -= 1

    def _choice(self, draft: SlowDraft) -> tuple[InstanceType, Offering]:
        every = [
            (kind, each)
            for kind in draft.types
            for each in offers(kind, draft.requirements, draft.held)
        ]
        reserved = [pair for pair in every if pair[1].reservation_id is not None]
        if reserved:
            plain = [pair for pair in reserved if not is_exotic(pair[0], draft.requirements)]
            return min(plain or reserved, key=self._slot_rank)
        plain = [pair for pair in every if not is_exotic(pair[0], draft.requirements)]
        if plain and self._still_diverse(draft, plain):
            every = plain
        spot = [pair for pair in every if capacity_type(pair[1]) == SPOT]
        other = [pair for pair in every if capacity_type(pair[1]) != SPOT]
        cheapest = min((pair[1].price for pair in other), default=inf)
        affordable = [pair for pair in spot if pair[1].price <= cheapest]
        return min(affordable or other, key=_price_rank)

    def _still_diverse(
        self, draft: SlowDraft, pairs: Sequence[tuple[InstanceType, Offering]]
    ) -> bool:
        trial = SlowDraft(draft.pool, draft.round, draft.allowed)
        trial.requirements, trial.held = draft.requirements, draft.held
        names = {kind.name for kind, _ in pairs}
        trial.types = [kind for kind in draft.types if kind.name in names]
        return self._diverse(trial, draft.minimums)

    def _slot_rank(self, pair: tuple[InstanceType, Offering]) -> tuple[float, str, str, int, str]:
        kind, each = pair
        name = each.reservation_id or ""
        return each.price, kind.name, each.zone or "", -self.free[name], name

    def _free_slots(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for pool in self.pools:
            for kind in self.catalogs[pool.name].types:
                for each in kind.offerings:
                    if each.reservation_id is not None and each.available > 0:
                        known = found.get(each.reservation_id, each.available)
                        found[each.reservation_id] = min(known, each.available)
        for node in self.snapshot.nodes:
            if not node.launched and not node.deleting and node.reservation_id in found:
                found[node.reservation_id] = max(0, found[node.reservation_id] - 1)
        return found


def _price_rank(pair: tuple[InstanceType, Offering]) -> tuple[object, ...]:
    return pair[1].price, pair[0].name, market_rank(pair[1])


def _order(pod: Pod) -> tuple[object, ...]:
    age = inf if pod.created is None else pod.created
    cpu, memory = pod.requests.get("cpu", 0), pod.requests.get("memory", 0)
    return -cpu, -memory, age, pod.uid, pod.namespace, pod.name


def _belongs(daemonset: DaemonSet, node: Node) -> bool:
    taints = [taint for taint in node.lasting_taints if taint.effect != PREFER_NO_SCHEDULE]
    labels = Requirements.from_labels(node.labels)
    return untolerated(taints, daemonset.tolerations) is None and any(
        labels.compatible(each.without({HOSTNAME})) for each in daemonset.alternatives
    )
