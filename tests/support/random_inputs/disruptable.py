"""Random clusters for disruption: what a plan ends with, after pods have gone, with all that blocks
or causes a disruption: annotations, budgets, conditions, schedules, drift, expiry.
"""

from collections.abc import Mapping
from random import Random
from typing import Final

import msgspec
from msgspec.structs import replace
from tests.support.kube_scheduler.binding import cluster_after_plan
from tests.support.model_builders import label_requirement
from tests.support.random_inputs.constrained import random_constrained_input
from tests.support.random_inputs.unconstrained import PlannerInput, random_packable_input

from wainwright.core.plan import plan
from wainwright.model.disruption import (
    Condition,
    DisruptionBudget,
    MinimumSaving,
    NodeClaimState,
    NodePoolDisruption,
    PodDisruptionBudget,
)
from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from wainwright.model.pod import EvictionFacts, Pod, pod_selector
from wainwright.model.requirements import Requirements
from wainwright.model.snapshot import Node, Pool

NOW: Final = 1_800_000_000.0  # 15 January 2027, 08:00 UTC, a Friday
HOUR: Final = 3600.0
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
HASH: Final = "karpenter.sh/nodepool-hash"
HASH_VERSION: Final = "karpenter.sh/nodepool-hash-version"
SCHEDULES: Final = (
    "0 8 * * *",
    "30 7 * * fri",
    "@daily",
    "*/20 * * * *",
    "0 9 15 * 1-4",
    "0 0 1 1 *",
)
APPS: Final = ("web", "db", "batch")


class DisruptableCluster(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster, and what exists at all, as drift looks at it."""

    cluster: PlannerInput
    offered: Mapping[str, Mapping[str, tuple[Requirements, ...]]]


def random_disruptable_cluster(seed: int) -> DisruptableCluster:
    """The same seed gives the same cluster."""
    return _ClusterMaker(seed).cluster()


class _ClusterMaker:
    def __init__(self, seed: int) -> None:
        self.rng = Random(f"disruption {seed}")
        maker = random_packable_input if self.chance(50) else random_constrained_input
        self.base = maker(seed)
        self.quiet = self.chance(40)
        """Whether next to nothing blocks, so that much is done."""

    def chance(self, percent: int) -> bool:
        return self.rng.randrange(100) < percent

    def rare(self, percent: int) -> bool:
        return not self.quiet and self.chance(percent)

    def cluster(self) -> DisruptableCluster:
        made = plan(self.base.snapshot, self.base.catalogs, self.base.options)
        after = cluster_after_plan(self.base, made)
        kept = self.rng.choice((1, 2, 2, 3, 5))
        too_large = self.rng.choice((0, 50, 90))
        nodes = [
            self._node(self._oversized(node, after, too_large), after, kept)
            for node in after.snapshot.nodes
        ]
        nodes = [*nodes, *self._spare_nodes(nodes)]
        pools = tuple(self._pool(pool, nodes) for pool in after.snapshot.pools)
        snapshot = replace(
            after.snapshot,
            nodes=tuple(nodes),
            pools=pools,
            pods=self._pending(),
            now=NOW,
            pod_disruption_budgets=tuple(
                self._pod_budget(app) for app in APPS for _ in range(2) if self.rare(15)
            ),
        )
        types = self._types(after.types, nodes)
        cluster = replace(after, snapshot=snapshot, types=types)
        return DisruptableCluster(cluster=cluster, offered=_offered(types))

    def _spare_nodes(self, nodes: list[Node]) -> list[Node]:
        """Empty twins of some nodes."""
        twins = [node for node in nodes if node.reservation_id is None and self.chance(15)]
        return [
            replace(
                node,
                name=f"spare-{node.name}",
                labels={**node.labels, "kubernetes.io/hostname": f"spare-{node.name}"},
                pods=(),
            )
            for node in twins
        ]

    def _oversized(self, node: Node, after: PlannerInput, percent: int) -> Node:
        """Now and then as a larger type of the same place and capacity type."""
        kinds = after.types.get(node.pool or "", ())
        old = next((k for k in kinds if k.name == node.labels.get(INSTANCE_TYPE)), None)
        if old is None or node.reservation_id is not None or not self.chance(percent):
            return node
        larger = [kind for kind in kinds if _is_larger(kind, old, node)]
        if not larger:
            return node
        kind = self.rng.choice(larger)
        labels = {k: v for k, v in node.labels.items() if k not in old.requirements}
        labels |= {
            key: value
            for key in kind.requirements
            if (value := kind.requirements.single_value(key)) is not None
        }
        sold = next(each for each in kind.offerings if _is_sold_there(each, node)).requirements
        labels |= {key: sold.allowed(key).any_value() for key in sold}
        labels[INSTANCE_TYPE] = kind.name
        return replace(node, labels=labels, allocatable=dict(kind.allocatable))

    def _node(self, node: Node, after: PlannerInput, kept: int) -> Node:
        kinds = after.types.get(node.pool or "", ())
        kind = next((k for k in kinds if k.name == node.labels.get(INSTANCE_TYPE)), None)
        is_known = kind is not None
        return replace(
            node,
            pods=tuple(self._pod(pod) for pod in node.pods[::kept]),
            managed=node.managed and node.pool is not None,
            capacity=dict(kind.capacity if kind is not None else node.allocatable),
            launched=True if is_known else node.launched,
            initialized=node.initialized and not self.rare(8),
            deleting=node.deleting or self.rare(4),
            annotations={DO_NOT_DISRUPT: self.rng.choice(("true", "true", "false"))}
            if self.rare(8)
            else {},
            conditions={"Ready": Condition(status="False")} if self.rare(5) else {},
            claim=None if self.chance(10) else self._claim(node),
        )

    def _claim(self, node: Node) -> NodeClaimState:
        conditions: dict[str, Condition] = {}
        if self.chance(50):
            since = NOW - self.rng.choice((10.0, 100.0, HOUR))
            conditions["Initialized"] = Condition(status="True", since=since)
        if self.rare(10):
            conditions["Consolidatable"] = Condition(status=self.rng.choice(("True", "False")))
        if self.rare(12):
            since = NOW - self.rng.choice((10.0, 100.0, HOUR))
            status = self.rng.choice(("True", "True", "False"))
            conditions["Drifted"] = Condition(status=status, since=since, reason="AMIDrift")
        return NodeClaimState(
            name=f"claim-{node.name}",
            created=NOW - self.rng.choice((HOUR / 2, 2 * HOUR, 100 * HOUR)),
            labels=dict(node.labels) if self.chance(50) else {},
            annotations={HASH: "old", HASH_VERSION: self.rng.choice(("wain-1", "v3"))}
            if self.rare(8)
            else {},
            conditions=conditions,
            expire_after=self.rng.choice((HOUR, 200 * HOUR)) if self.rare(8) else None,
            termination_grace_period=60.0 if self.chance(30) else None,
            last_pod_event=NOW - self.rng.choice((5.0, 40.0, HOUR)) if self.chance(30) else None,
        )

    def _pod(self, pod: Pod) -> Pod:
        protection: bool | float = False
        if self.rare(5):
            protection = self.rng.choice((True, 100.0, HOUR + 400.0))
        facts = EvictionFacts(
            owner="ReplicaSet/web",
            static=self.rare(2),
            recreated=self.chance(30),
            do_not_disrupt=protection,
            deletion_cost=self.rng.choice((0.0, 0.0, 2.0**27, -(2.0**28))),
            ready=not self.rare(10),
            started=NOW - HOUR if self.chance(80) else None,
        )
        return replace(
            pod,
            labels=pod.labels or {"app": self.rng.choice(APPS)},
            eviction=facts,
            priority=self.rng.choice((0, 0, 0, 2**25)),
            daemonset=pod.daemonset or self.rare(3),
            terminating=pod.terminating or self.rare(4),
        )

    def _pending(self) -> tuple[Pod, ...]:
        """A few that are like those that run."""
        if not self.rare(25):
            return ()
        pods = [pod for pod in self.base.snapshot.pods if self.chance(20)]
        return tuple(replace(pod, name=f"pending-{pod.name}") for pod in pods)

    def _pod_budget(self, app: str) -> PodDisruptionBudget:
        least = self.rng.choice((None, None, 1, "50%"))
        return PodDisruptionBudget(
            namespace=self.rng.choice(("default", "shop")),
            name=f"{app}-{self.rng.randrange(10**6)}",
            selector=pod_selector({"app": app}),
            min_available=least,
            max_unavailable=self.rng.choice((0, 1, "30%")) if least is None else None,
            always_allows_unready=self.chance(30),
            disruptions_allowed=self.rng.choice((0, 1, 3)) if self.chance(40) else None,
        )

    def _pool(self, pool: Pool, nodes: list[Node]) -> Pool:
        used: dict[str, int] = {}
        for node in nodes:
            if node.pool == pool.name:
                used["nodes"] = used.get("nodes", 0) + 1
                for name, amount in node.capacity.items():
                    used[name] = used.get(name, 0) + amount
        requirements, is_static = pool.requirements, self.rare(4)
        if self.rare(10):
            zone = label_requirement(ZONE, "NotIn", self.rng.choice(("zone-a", "zone-b")))
            requirements = requirements.narrow(zone)
        return replace(
            pool,
            requirements=requirements,
            # A label that contradicts the requirements would make every node drift for ever.
            labels={
                key: value
                for key, value in pool.labels.items()
                if requirements.allowed(key).admits(value)
            },
            limits=pool.limits if self.chance(50) else {},
            in_use=used,
            hash="new",
            replicas=2 if is_static else None,
            unusable="static" if is_static else pool.unusable,
            disruption=self._disruption(),
        )

    def _disruption(self) -> NodePoolDisruption:
        if self.quiet:
            return NodePoolDisruption(budgets=(DisruptionBudget(nodes="100%"),))
        budgets = [self._budget() for _ in range(self.rng.choice((0, 1, 1, 2)))]
        return NodePoolDisruption(
            policy=self.rng.choice(
                ("WhenEmptyOrUnderutilized", "WhenEmptyOrUnderutilized", "Balanced", "WhenEmpty")
            ),
            consolidate_after=self.rng.choice((0.0, 0.0, 0.0, 30.0, 30.0, None)),
            budgets=tuple(budgets),
            expire_after=None if self.chance(50) else 720 * HOUR,
            minimum_saving=MinimumSaving(fraction=0.3, amount=0.05) if self.chance(15) else None,
            spot_to_spot_types=self.rng.choice((None, None, 1, 2)),
        )

    def _budget(self) -> DisruptionBudget:
        is_timed = self.chance(40)
        return DisruptionBudget(
            nodes=self.rng.choice(("100%", "100%", "50%", "10%", "2", "1", "0", "0%")),
            reasons=self.rng.choice(
                (None, None, ("Empty",), ("Drifted",), ("Underutilized", "Empty"))
            ),
            schedule=self.rng.choice(SCHEDULES) if is_timed else None,
            duration=self.rng.choice((600.0, 3 * HOUR, 30 * HOUR)) if is_timed else None,
        )

    def _types(
        self, types: Mapping[str, tuple[InstanceType, ...]], nodes: list[Node]
    ) -> dict[str, tuple[InstanceType, ...]]:
        """Reserved instances that run are not free any more."""
        taken: dict[str, int] = {}
        for node in nodes:
            if node.launched and node.reservation_id is not None and node.pool is not None:
                taken[node.reservation_id] = taken.get(node.reservation_id, 0) + 1

        def left(offering: Offering) -> Offering:
            used = taken.get(offering.reservation_id or "", 0)
            return replace(offering, available=max(0, offering.available - used))

        gone = {kind.name for kinds in types.values() for kind in kinds if self.rare(5)}
        made = {
            id(kinds): tuple(
                replace(kind, offerings=tuple(map(left, kind.offerings)))
                for kind in kinds
                if kind.name not in gone
            )
            for kinds in types.values()
        }
        return {name: made[id(kinds)] for name, kinds in types.items()}


def _offered(
    types: Mapping[str, tuple[InstanceType, ...]],
) -> dict[str, dict[str, tuple[Requirements, ...]]]:
    return {
        pool: {kind.name: tuple(each.requirements for each in kind.offerings) for kind in kinds}
        for pool, kinds in types.items()
    }


def _is_larger(kind: InstanceType, than: InstanceType, node: Node) -> bool:
    """Whether it has at least as much of everything, and is sold where the node is."""
    return all(
        kind.allocatable.get(name, 0) >= amount for name, amount in than.allocatable.items()
    ) and any(_is_sold_there(each, node) for each in kind.offerings)


def _is_sold_there(offering: Offering, node: Node) -> bool:
    place = (node.labels.get(ZONE), node.labels.get(CAPACITY_TYPE))
    return (offering.zone, offering.capacity_type) == place
