"""Whether commands of disruption keep the rules: written from the rules, without the code that
decides. Of `core.disruption` nothing is used but the shape of a command and of the options.

A cluster is checked command by command: each is judged by the state before it, and applied by the
checker itself. Placements are verified by the filters of a kube-scheduler.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from random import Random
from typing import Final, Self

import msgspec
from msgspec.structs import replace
from tests.support.disruption_rules import (
    budget_now,
    disruption_cost,
    drain_deleting,
    evicted_pods,
    evictions_left,
    free_instances,
    has_come_up,
    has_min_values,
    is_expired,
    is_held_by_annotation,
    is_offering_of,
    is_ready,
    is_sold_as,
    last_change,
    new_node,
    with_free_instances,
    with_pods,
    with_usage,
)
from tests.support.kube_scheduler.binding import BoundCluster, launch_differently
from tests.support.random_inputs.unconstrained import PlannerInput
from tests.support.reference_planner.first_fit import pool_catalogs
from tests.support.reference_planner.offerings import (
    PoolCatalog,
    available_offerings,
    total_requests,
)

from wainwright.core.disruption.commands import Command
from wainwright.core.disruption.disruption_input import DisruptionOptions
from wainwright.core.plan import plan
from wainwright.model.disruption import (
    MinimumSaving,
    PodDisruptionBudget,
)
from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.labels import (
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    SPOT,
    ZONE,
)
from wainwright.model.plan import MinValuesPolicy, NodeAssignment, Plan, PlannedNodeClaim
from wainwright.model.pod import Pod
from wainwright.model.requirements import Requirements
from wainwright.model.resources import Resources, add_resources
from wainwright.model.snapshot import Node, Pool

PRICE_TOLERANCE: Final = 1e-12
GRACEFUL: Final = ("emptiness", "multi-node", "single-node")
CONSOLIDATION: Final = ("multi-node", "single-node")
REASONS: Final = {
    "emptiness": "Empty",
    "drift": "Drifted",
    "static-drift": "Drifted",
    "multi-node": "Underutilized",
    "single-node": "Underutilized",
}
RELAUNCHES: Final = 2  # in which other ways each replacement is launched, to see whether pods fit
YOUNG: Final = 3600.0  # seconds in which a missing instance type is no drift


class CheckedCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command, by names: ours, or anybody's."""

    method: str
    nodes: tuple[str, ...]
    placements: tuple[NodeAssignment, ...] = ()
    replacements: tuple[PlannedNodeClaim, ...] = ()
    terminate_first: bool = False

    @classmethod
    def of(cls, command: Command) -> Self:
        return cls(
            method=command.method.value,
            nodes=tuple(each.node.name for each in command.candidates),
            placements=command.simulation.placements,
            replacements=command.replacements,
            terminate_first=command.terminate_first,
        )

    def targets(self) -> list[tuple[str, str]]:
        """Pod and target, once for each time that a pod is placed."""
        homes = [(each.node, each.pods) for each in self.placements]
        homes += [(each.name, each.pods) for each in self.replacements]
        return [(pod, home) for home, pods in homes for pod in pods]


class CheckedRules(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that commands have to keep to."""

    spot_to_spot: bool = False
    spot_to_spot_types: int = 15
    max_nodes: int = 100
    ignore_budgets: bool = False
    allow_split: bool = False
    terminate_first_drift: bool = False
    minimum_saving: MinimumSaving = MinimumSaving()
    balanced_k: float = 2.0

    @classmethod
    def of(cls, options: DisruptionOptions) -> Self:
        return cls(
            spot_to_spot=options.rules.spot_to_spot,
            spot_to_spot_types=options.rules.spot_to_spot_types,
            max_nodes=options.max_nodes,
            ignore_budgets=options.ignore_budgets,
            allow_split=options.allow_split,
            terminate_first_drift=options.terminate_first_drift,
            minimum_saving=options.minimum_saving,
            balanced_k=options.balanced_k,
        )


OfferedLabels = Mapping[str, Mapping[str, tuple[Requirements, ...]]]
"""By NodePool and instance type the labels of each offering that exists."""


class CheckedCluster:
    """A cluster in which pending pods are under way, and what may be done to it."""

    def __init__(
        self,
        cluster: PlannerInput,
        rules: CheckedRules,
        nominated: frozenset[str],
        evictions_left: Mapping[tuple[str, str], int],
        offered: OfferedLabels,
    ) -> None:
        self.cluster, self.rules, self.nominated = cluster, rules, nominated
        self.snapshot, self.now = cluster.snapshot, cluster.snapshot.now
        self.nodes = {node.name: node for node in cluster.snapshot.nodes}
        self.pools = {pool.name: pool for pool in cluster.snapshot.pools}
        self._evictions_left, self._offered = evictions_left, offered

    @classmethod
    def start(
        cls, cluster: PlannerInput, rules: CheckedRules, offered: OfferedLabels | None = None
    ) -> Self:
        """Expired nodes are being deleted; pending pods are where a plan puts them."""
        snapshot = cluster.snapshot
        left = dict(evictions_left(snapshot))
        expired = tuple(
            replace(node, deleting=True) if is_expired(node, snapshot.now) else node
            for node in snapshot.nodes
        )
        drained, pods = drain_deleting(replace(snapshot, nodes=expired))
        pending = plan(drained, cluster.catalogs, cluster.options)
        state = replace(cluster, snapshot=drained)
        nodes = [
            *with_pods(drained.nodes, pending.placements, pods),
            *(replace(new_node(state, each, pods), initialized=False) for each in pending.claims),
        ]
        names = drained.claims | {each.name for each in pending.claims}
        changed = replace(
            drained,
            nodes=tuple(nodes),
            pods=(),
            claims=names,
            pools=with_usage(drained.pools, nodes),
            pod_disruption_budgets=tuple(
                replace(each, disruptions_allowed=left[each.namespace, each.name])
                for each in drained.pod_disruption_budgets
            ),
        )
        nominated = frozenset(each.node for each in pending.placements)
        return cls(replace(cluster, snapshot=changed), rules, nominated, left, offered or {})

    @property
    def price(self) -> float:
        """USD per hour of the managed nodes that stay; 0 for those whose price is unknown."""
        staying = (node for node in self.nodes.values() if node.managed and not node.deleting)
        return sum(self.price_of(node) or 0.0 for node in staying)

    def price_of(self, node: Node) -> float | None:
        kind = self._type_of(node)
        for offering in kind.offerings if kind is not None else ():
            if is_offering_of(node, offering):
                return offering.price
        return None

    def signature(self) -> Counter[tuple[object, ...]]:
        """What runs where, and what has drifted, whatever the machines are called."""
        return Counter(
            (
                node.pool,
                *(node.labels.get(key) for key in (INSTANCE_TYPE, ZONE, CAPACITY_TYPE)),
                node.reservation_id,
                frozenset(pod.key for pod in node.pods),
                node.pool in self.pools and self._has_drifted(node, self.pools[node.pool or ""]),
            )
            for node in self.nodes.values()
        )

    def _released(self, names: Iterable[str]) -> "CheckedCluster":
        """The nodes have given their reserved instances back."""
        held = Counter(
            node.reservation_id
            for name in names
            if (node := self.nodes[name]).launched and node.reservation_id is not None
        )
        nodes = tuple(
            replace(node, launched=False) if node.name in names else node
            for node in self.snapshot.nodes
        )
        changed = replace(
            self.cluster,
            snapshot=replace(self.snapshot, nodes=nodes),
            types=with_free_instances(self.cluster.types, held),
        )
        return CheckedCluster(
            changed, self.rules, self.nominated, self._evictions_left, self._offered
        )

    def after(self, command: CheckedCommand) -> "CheckedCluster":
        """The nodes are gone, their pods have moved, and replacements have come up."""
        if command.terminate_first:
            freed = replace(command, terminate_first=False)
            return self._released(command.nodes).after(freed)
        gone = set(command.nodes)
        pods = {pod.key: pod for name in gone for pod in self.nodes[name].pods}
        kept = [node for node in self.snapshot.nodes if node.name not in gone]
        nodes = with_pods(kept, command.placements, pods)
        nodes += [new_node(self.cluster, each, pods) for each in command.replacements]
        returned = Counter(
            node.reservation_id
            for name in gone
            if (node := self.nodes[name]).launched and node.reservation_id is not None
        )
        names = self.snapshot.claims | {each.name for each in command.replacements}
        changed = replace(
            self.cluster,
            snapshot=replace(
                self.snapshot,
                nodes=tuple(nodes),
                claims=names,
                pools=with_usage(self.snapshot.pools, nodes),
            ),
            types=with_free_instances(self.cluster.types, returned),
        )
        # Pending pods have been bound by now, so that nobody is nominated any more.
        return CheckedCluster(changed, self.rules, frozenset(), self._evictions_left, self._offered)

    def complaints(self, command: CheckedCommand) -> list[str]:
        """What is wrong with the command; empty where it keeps the rules."""
        unknown = [name for name in command.nodes if name not in self.nodes]
        if unknown:
            return [f"no such nodes: {unknown}"]
        if command.terminate_first and not self.rules.terminate_first_drift:
            return ["terminate-first without the gate"]
        if command.terminate_first:
            return self._released(command.nodes).complaints(replace(command, terminate_first=False))
        return [
            *self._form(command),
            *(
                f"{name}: {why}"
                for name in command.nodes
                for why in self._blockers(self.nodes[name], command.method)
            ),
            *self._budgets(command),
            *self._moves(command),
            *self._replacements(command),
        ]

    def removable_empty_nodes(self) -> list[str]:
        """Empty nodes that emptiness has to remove: nothing blocks them, no budget holds them."""
        return [
            name
            for name, node in self.nodes.items()
            if node.managed
            and self.price_of(node) is not None
            and not list(self._blockers(node, "emptiness"))
            and not list(self._budgets(CheckedCommand(method="emptiness", nodes=(name,))))
        ]

    def _form(self, command: CheckedCommand) -> Iterator[str]:
        count = len(command.nodes)
        if not count or len(set(command.nodes)) != count:
            yield f"nodes are missing or listed twice: {command.nodes}"
        if count > self.rules.max_nodes:
            yield f"{count} nodes, {self.rules.max_nodes} allowed"
        if command.method == "single-node" and count != 1:
            yield f"single-node with {count} nodes"
        if command.method == "multi-node" and count < 2:
            yield "multi-node with one node"
        if command.method == "emptiness" and (command.targets() or command.replacements):
            yield "emptiness moves pods"
        if command.method == "drift" and count > 1 and command.targets():
            yield "drift of several nodes that are not empty"

    def _type_of(self, node: Node) -> InstanceType | None:
        kinds = self.cluster.types.get(node.pool or "", ())
        name = node.labels.get(INSTANCE_TYPE)
        return next((kind for kind in kinds if kind.name == name), None)

    # Who may be a candidate.

    def _blockers(self, node: Node, method: str) -> Iterator[str]:
        yield from self._node_blockers(node)
        pool = self.pools.get(node.pool or "")
        if pool is None:
            yield f"its NodePool {node.pool} is unknown"
            return
        claim = node.claim
        is_bounded = claim is not None and claim.termination_grace_period is not None
        if method in GRACEFUL or not is_bounded:
            yield from (f"{pod.key}: {why}" for pod, why in self._protected_pods(node))
        is_empty = not evicted_pods(node)
        if method in GRACEFUL:
            yield from self._consolidation_blockers(node, pool, is_empty=is_empty)
        elif not self._has_drifted(node, pool):
            yield "has not drifted"
        if method == "emptiness" and not is_empty:
            yield "is not empty"
        if method in CONSOLIDATION and (is_empty or self.price_of(node) is None):
            yield "is empty, or of unknown price"

    def _node_blockers(self, node: Node) -> Iterator[str]:
        if not node.managed:
            yield "is not managed"
        if node.deleting or is_expired(node, self.now):
            yield "is being deleted"
        if not has_come_up(node):
            yield "is not initialized"
        if node.name in self.nominated:
            yield "is nominated"
        if node.annotations.get("karpenter.sh/do-not-disrupt") == "true":
            yield "do-not-disrupt"

    def _protected_pods(self, node: Node) -> Iterator[tuple[Pod, str]]:
        for pod in node.pods:
            if pod.terminating:
                continue
            if is_held_by_annotation(pod, self.now):
                yield pod, "do-not-disrupt"
            selecting = [each for each in self._pod_budgets() if each.selects(pod)]
            if selecting and not pod.eviction.static and not self._may_be_evicted(pod, selecting):
                yield pod, f"PodDisruptionBudget {selecting[0].name}"

    def _pod_budgets(self) -> tuple[PodDisruptionBudget, ...]:
        return self.snapshot.pod_disruption_budgets

    def _may_be_evicted(self, pod: Pod, selecting: list[PodDisruptionBudget]) -> bool:
        if len(selecting) > 1:
            return False
        budget = selecting[0]
        if budget.always_allows_unready and not pod.eviction.ready:
            return True
        return self._evictions_left[budget.namespace, budget.name] > 0

    def _consolidation_blockers(self, node: Node, pool: Pool, *, is_empty: bool) -> Iterator[str]:
        after = pool.disruption.consolidate_after
        if pool.replicas is not None:
            yield "its NodePool is static"
        if after is None:
            yield "consolidateAfter is Never"
            return
        if pool.disruption.policy == "WhenEmpty" and not is_empty:
            yield "its policy is WhenEmpty"
        stated = node.claim.conditions.get("Consolidatable") if node.claim is not None else None
        since = last_change(node)
        if since is None:
            since = node.claim.created if node.claim is not None else node.created
        is_recent = since is not None and self.now is not None and since + after > self.now
        if (stated is not None and not stated.is_true) or (stated is None and is_recent):
            yield "is not consolidatable"

    def _has_drifted(self, node: Node, pool: Pool) -> bool:
        stated = node.claim.conditions.get("Drifted") if node.claim is not None else None
        if stated is not None:
            return stated.is_true
        claim = node.claim
        annotations = claim.annotations if claim is not None else node.annotations
        labels = (claim.labels if claim is not None else None) or node.labels
        known = annotations.get("karpenter.sh/nodepool-hash")
        is_ours = annotations.get("karpenter.sh/nodepool-hash-version") == "wain-1"
        if is_ours and known and pool.hash and known != pool.hash:
            return True
        if not all(
            each.allowed.admits(labels[key]) if key in labels else each.allowed.admits_absence
            for key, each in pool.requirements.items()
        ):
            return True
        return self._is_no_longer_sold(node, labels)

    def _is_no_longer_sold(self, node: Node, labels: Mapping[str, str]) -> bool:
        created = node.claim.created if node.claim is not None else node.created
        sold = self._offered.get(node.pool or "")
        if sold is None or INSTANCE_TYPE not in labels:
            return False
        if created is not None and self.now is not None and self.now - created < YOUNG:
            return False
        return not any(is_sold_as(each, labels) for each in sold.get(labels[INSTANCE_TYPE], ()))

    # Budgets of NodePools.

    def _budgets(self, command: CheckedCommand) -> Iterator[str]:
        if self.rules.ignore_budgets:
            return
        by_pool = Counter(self.nodes[name].pool or "" for name in command.nodes)
        for name, count in by_pool.items():
            pool = self.pools.get(name)
            allowed = None if pool is None else self._allowed(pool, REASONS[command.method])
            if allowed is not None and count > allowed:
                yield f"{count} nodes of {name}, its budgets allow {allowed}"

    def _allowed(self, pool: Pool, reason: str) -> int | None:
        """None where no budget is in effect."""
        members = [
            node
            for node in self.nodes.values()
            if node.managed and node.pool == pool.name and has_come_up(node)
        ]
        away = sum(node.deleting or not is_ready(node) for node in members)
        found: list[int] = []
        for budget in pool.disruption.budgets:
            try:
                count, is_active = budget_now(budget, len(members), self.now or 0.0)
            except ValueError:
                return 0
            if is_active and (budget.reasons is None or reason in budget.reasons):
                found.append(count)
        return max(0, min(found) - away) if found else None

    # Where pods go.

    def _moves(self, command: CheckedCommand) -> Iterator[str]:
        pods = [pod for name in command.nodes for pod in evicted_pods(self.nodes[name])]
        targets = command.targets()
        unplaced = Counter(pod.key for pod in pods)
        unplaced.subtract(pod for pod, _ in targets)
        optional = {pod.key for name in command.nodes for pod in self._may_stay(name, command)}
        wrong = {pod for pod, count in unplaced.items() if count < 0 or count > (pod in optional)}
        if wrong:
            yield f"evicted and not placed, or placed and not evicted: {sorted(wrong)}"
            return
        new = {claim.name for claim in command.replacements}
        for home in sorted({home for _, home in targets} - new):
            yield from (f"moves to {home}, which {why}" for why in self._refusals(home, command))
        if new & (self.nodes.keys() | self.snapshot.claims) or len(new) != len(
            command.replacements
        ):
            yield f"names of replacements are taken: {sorted(new)}"
        yield from self._misplaced(command)

    def _may_stay(self, name: str, command: CheckedCommand) -> list[Pod]:
        """Pods for which drift need not find a place: nobody knows when they can be evicted."""
        protected = self._protected_pods(self.nodes[name])
        return [] if command.method in GRACEFUL else [pod for pod, _ in protected]

    def _refusals(self, home: str, command: CheckedCommand) -> Iterator[str]:
        node = self.nodes.get(home)
        if node is None or home in command.nodes:
            yield "does not exist, or goes"
            return
        if node.deleting:
            yield "is being deleted"
        if node.managed and not has_come_up(node):
            yield "has not come up"
        pool = self.pools.get(node.pool or "")
        since, after = last_change(node), pool.disruption.consolidate_after if pool else None
        if command.method not in CONSOLIDATION or since is None or after is None:
            return
        if self.now is not None and since + after > self.now:
            yield "is not settled"

    def _misplaced(self, command: CheckedCommand) -> Iterator[str]:
        """What a kube-scheduler refuses, however the replacements are launched."""
        gone = set(command.nodes)
        homes = {pod for pod, _ in command.targets()}
        pods = [pod for name in gone for pod in self.nodes[name].pods if pod.key in homes]
        kept = tuple(node for node in self.snapshot.nodes if node.name not in gone)
        left = replace(self.snapshot, nodes=kept, pods=tuple(pods))
        cluster = replace(self.cluster, snapshot=left)
        made = Plan(
            claims=command.replacements,
            placements=command.placements,
            unplaced=(),
            reservations=(),
        )
        yield from BoundCluster(cluster, made).refused()
        if not any(has_min_values(self.pools[each.pool]) for each in command.replacements):
            for number in range(RELAUNCHES if command.replacements else 0):
                other = launch_differently(cluster, made, Random(number))
                yield from (f"launched {number}: {why}" for why in _refused(cluster, other))

    # What replaces them.

    def _replacements(self, command: CheckedCommand) -> Iterator[str]:
        claims = command.replacements
        if command.method in CONSOLIDATION:
            if len(claims) > 1 and not self.rules.allow_split:
                yield f"{len(claims)} replacements"
            yield from self._prices(command)
            yield from self._spot_to_spot(command)
            yield from self._minimum_saving(command)
            yield from self._balance(command)
        for claim in claims:
            yield from (f"{claim.name}: {why}" for why in self._claim(claim, command))
        yield from self._reservations(command)
        yield from self._limits(command)

    def _prices(self, command: CheckedCommand) -> Iterator[str]:
        known = {name: self.price_of(self.nodes[name]) or 0.0 for name in command.nodes}
        total = sum(known.values())
        worst = [
            max((o.price for _, o in self._left(c)), default=0.0) for c in command.replacements
        ]
        if command.replacements and sum(worst) >= total - PRICE_TOLERANCE * total:
            yield f"may cost {worst}, before {total}"
        if len(command.nodes) > 1 and len(command.replacements) == 1:
            types = set(command.replacements[0].choices.instance_types)
            for name, price in known.items():
                if self.nodes[name].labels.get(INSTANCE_TYPE) in types and worst[0] >= price:
                    yield f"may cost {worst[0]}, as {name} of one of its types does"

    def _left(self, claim: PlannedNodeClaim) -> list[tuple[InstanceType, Offering]]:
        """All that the claim may be launched as."""
        held = claim.choices.reservation_ids
        found = [
            (kind, offering)
            for kind in self.cluster.types[claim.pool]
            if kind.name in claim.choices.instance_types
            for offering in available_offerings(kind, claim.requirements, held)
        ]
        return [each for each in found if each[1].reservation_id in held or not held]

    def _claim(self, claim: PlannedNodeClaim, command: CheckedCommand) -> Iterator[str]:
        left = self._left(claim)
        launch = claim.launch
        if not any(
            (kind.name, offering.price, offering.reservation_id)
            == (launch.instance_type, launch.price, launch.reservation_id)
            for kind, offering in left
        ):
            yield f"launches {launch}, which is not among its options"
        pool = self.pools[claim.pool]
        if pool.unusable is not None:
            yield f"its NodePool is unusable: {pool.unusable}"
        if pool.replicas is not None and command.method != "static-drift":
            yield "its NodePool is static"
        if not claim.choices.reservation_ids and self._must_be_diverse(command):
            yield from self._min_values(claim)
        yield from self._pool_order(claim)

    def _must_be_diverse(self, command: CheckedCommand) -> bool:
        """Relaxing minValues is for pods that have no node."""
        is_strict = self.cluster.options.min_values_policy is MinValuesPolicy.STRICT
        return command.method in CONSOLIDATION or is_strict

    def _min_values(self, claim: PlannedNodeClaim) -> Iterator[str]:
        catalog = self._catalog(claim.pool)
        kinds = [kind for kind in catalog.types if kind.name in claim.choices.instance_types]
        counts = catalog.counts(claim.requirements, kinds, set())
        for key, least in catalog.minimums.items():
            if counts[key] < (least or 0):
                yield f"{counts[key]} values of {key}, minValues {least}"

    def _catalog(self, name: str) -> PoolCatalog:
        return next(each for each in pool_catalogs(self.cluster) if each.pool.name == name)

    def _pool_order(self, claim: PlannedNodeClaim) -> Iterator[str]:
        """Every pod would rather have a node of a heavier NodePool: whoever came first got one."""
        weight = self.pools[claim.pool].weight
        heavier = [each for each in pool_catalogs(self.cluster) if each.pool.weight > weight]
        pods = [self._pod(key) for key in claim.pods]
        if pods and all(any(self._could_open(each, pod) for each in heavier) for pod in pods):
            yield f"{claim.pool} although heavier NodePools would take its pods"

    def _could_open(self, catalog: PoolCatalog, pod: Pod) -> bool:
        """Whether the pool could surely launch a node for the pod alone, as it first asks."""
        is_free = pod.constraints.volume_topology == (Requirements(()),) and not any(
            (pod.constraints.spreads, pod.constraints.affinity, pod.constraints.anti_affinity)
        )
        is_free = is_free and not pod.constraints.preferred_affinity
        is_free = is_free and not pod.constraints.preferred_anti_affinity
        is_free = is_free and not pod.constraints.preferred_nodes and not pod.constraints.ports
        if not is_free or pod.unsupported or catalog.pool.unusable or catalog.pool.limits:
            return False
        if self.cluster.options.cluster_limits.amounts or catalog.minimums:
            return False
        asked = catalog.joined(catalog.node, pod, pod.alternatives[0]) if pod.alternatives else None
        if asked is None or self._is_repelled(pod):
            return False
        return bool(catalog.launchable_types(asked, total_requests([pod]), (), catalog.types))

    def _is_repelled(self, pod: Pod) -> bool:
        """Whether some running pod wants no such neighbour: then the place matters."""
        return any(
            term.matches(pod.namespace, pod.labels)
            for node in self.nodes.values()
            for other in node.pods
            for term in other.constraints.anti_affinity
        )

    def _pod(self, key: str) -> Pod:
        return next(pod for node in self.nodes.values() for pod in node.pods if pod.key == key)

    def _spot_to_spot(self, command: CheckedCommand) -> Iterator[str]:
        nodes = [self.nodes[name] for name in command.nodes]
        if not command.replacements or any(
            node.labels.get(CAPACITY_TYPE) != SPOT for node in nodes
        ):
            return
        claim = command.replacements[0]
        if claim.launch.capacity_type != SPOT:
            return
        if not self.rules.spot_to_spot:
            yield "spot to spot without the gate"
        if len(nodes) == 1:
            pool = self.pools.get(nodes[0].pool or "")
            own = pool.disruption.spot_to_spot_types if pool is not None else None
            types = claim.choices.instance_types
            needed = self.rules.spot_to_spot_types if own is None else own
            if len(types) < needed:
                yield f"spot to spot with {len(types)} types of {needed}"
            if nodes[0].labels.get(INSTANCE_TYPE) in types:
                yield "spot to spot with its own type among those left"
            if len(types) > needed and not self._catalog(claim.pool).minimums:
                yield f"spot to spot with {len(types)} types, more than {needed}"

    def _price_and_saving(self, command: CheckedCommand) -> tuple[float, float]:
        total = sum(self.price_of(self.nodes[name]) or 0.0 for name in command.nodes)
        return total, total - sum(claim.launch.price for claim in command.replacements)

    def _minimum_saving(self, command: CheckedCommand) -> Iterator[str]:
        """Each NodePool that is touched may demand its own."""
        total, saving = self._price_and_saving(command)
        for name in {self.nodes[name].pool or "" for name in command.nodes}:
            own = self.pools[name].disruption.minimum_saving if name in self.pools else None
            least = own or self.rules.minimum_saving
            needed = max(least.amount, least.fraction * total)
            if saving < needed - PRICE_TOLERANCE:
                yield f"saves {saving}, {name} wants {needed}"

    def _balance(self, command: CheckedCommand) -> Iterator[str]:
        """Policy Balanced: the share of the saving is at least half the share of disruption."""
        prices = {name: self.price_of(self.nodes[name]) or 0.0 for name in command.nodes}
        total, saving = self._price_and_saving(command)
        for pool in self.pools.values():
            mine = [name for name in command.nodes if self.nodes[name].pool == pool.name]
            if pool.disruption.policy == "Balanced" and mine and total:
                share = saving * sum(prices[name] for name in mine) / total
                if not self._is_balanced(pool, mine, share):
                    yield f"saving {share} of {pool.name} is not worth the disruption"

    def _is_balanced(self, pool: Pool, names: list[str], saving: float) -> bool:
        """The rule does not say whether lifetimes count: either way will do."""
        members = [node for node in self.nodes.values() if node.pool == pool.name and node.managed]
        price = sum(self.price_of(node) or 0.0 for node in members)
        worth = saving / price if price else 0.0
        for now in (None, self.now):
            total = sum(disruption_cost(node, now) for node in members)
            effort = sum(disruption_cost(self.nodes[name], now) for name in names) / total
            if saving > 0 and self.rules.balanced_k * worth >= effort * (1 - 1e-9):
                return True
        return False

    def _reservations(self, command: CheckedCommand) -> Iterator[str]:
        """The instance of a node that goes is not free before: unless it was never launched."""
        wanted = Counter(
            each.launch.reservation_id
            for each in command.replacements
            if each.launch.reservation_id is not None
        )
        free = Counter(free_instances(self.cluster))
        for node in (self.nodes[name] for name in command.nodes):
            if node.reservation_id is not None and not node.launched:
                free[node.reservation_id] += 1
        for name, count in wanted.items():
            if count > free[name]:
                yield f"{count} instances of {name}, free are {free[name]}"

    def _limits(self, command: CheckedCommand) -> Iterator[str]:
        """After the command: while replacements come up both may stand."""
        for pool in self.pools.values():
            new = [claim for claim in command.replacements if claim.pool == pool.name]
            if not new or not pool.limits:
                continue
            used: Resources = {}
            for node in self.nodes.values():
                if node.pool == pool.name and node.name not in command.nodes:
                    used = add_resources(used, {**node.capacity, "nodes": 1})
            for claim in new:
                used = add_resources(used, self._largest(claim))
            for name, most in pool.limits.items():
                if used.get(name, 0) > most:
                    yield f"{used[name]} {name} in {pool.name}, its limit is {most}"

    def _largest(self, claim: PlannedNodeClaim) -> Resources:
        """Of each resource the most that any of its types has."""
        found: dict[str, int] = {"nodes": 1}
        for kind, _ in self._left(claim):
            for name, amount in kind.capacity.items():
                found[name] = max(found.get(name, 0), amount)
        return found


def check_sequence(
    cluster: CheckedCluster, commands: Iterable[CheckedCommand]
) -> tuple[list[str], CheckedCluster]:
    """What is wrong with the commands, each applied before the next; and the end."""
    found: list[str] = []
    seen = [cluster.signature()]
    for step, command in enumerate(commands, 1):
        wrong = cluster.complaints(command)
        if not wrong:
            before, cluster = cluster.price, cluster.after(command)
            if command.method in CONSOLIDATION and cluster.price >= before:
                wrong.append(f"costs {cluster.price}, before {before}")
            if cluster.signature() in seen:
                wrong.append("the cluster is what it was before")
            seen.append(cluster.signature())
        found += [f"step {step} ({command.method} {list(command.nodes)}): {why}" for why in wrong]
        if wrong:
            break
    return found, cluster


def count_moves(commands: Iterable[CheckedCommand]) -> Counter[str]:
    """How often each pod is moved."""
    return Counter(pod for command in commands for pod, _ in command.targets())


def _refused(cluster: PlannerInput, made: Plan) -> list[str]:
    return BoundCluster(cluster, made).refused()
