"""Random clusters with a history: pods came in waves, nodes were launched for them, and then most
pods went. What they lack of a real cluster is decided by a profile.
"""

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from tests.oracle.profiles import ClusterProfile, PercentRandom
from tests.oracle.random_catalog import (
    ZONES,
    Manifest,
    Shortage,
    add_reservations,
    allocatable,
    instance_types,
)
from tests.oracle.random_cluster import NAMESPACES, RandomCluster
from tests.oracle.random_pods import RandomPods
from tests.oracle.random_pools import RandomPools
from tests.oracle.runs import bind_pod, prepare_cluster, take_reserved_instance

from wainwright.model.labels import (
    CAPACITY_TYPE,
    HOSTNAME,
    INITIALIZED,
    INSTANCE_TYPE,
    NODEPOOL,
    ON_DEMAND,
    REGISTERED,
    RESERVATION_ID,
    RESERVED,
    WELL_KNOWN_LABELS,
    ZONE,
    ZONE_ID,
)
from wainwright.model.plan import PlannedNodeClaim, PlanOptions
from wainwright.offline import make_plan

YESTERDAY: Final = "2025-12-31T00:00:00Z"
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
SCHEDULES: Final = ("@daily", "30 23 * * *", "0 12 * * *", "*/20 * * * *")
CONDITIONS: Final = ("Launched", "Registered", "Initialized", "Consolidatable")


class DisruptionProfile(msgspec.Struct, frozen=True, kw_only=True):
    """Probabilities in percent."""

    base: ClusterProfile = ClusterProfile(daemonsets=20, shortages=20)
    waves: tuple[int, int] = (2, 10)
    survivors: tuple[int, ...] = (20, 35, 50, 70)
    """One of these is the percentage of pods that are still there."""
    emptied: int = 10
    """Nodes of which all pods go."""
    on_demand: int = 50
    """Clusters of which the nodes were launched on demand only."""
    opened: int = 50
    """Those of them whose NodePools allow spot by now."""
    spot_to_spot: bool = True
    reservations: int = 0
    drifted: int = 0
    budgets: int = 0
    blocked: int = 0
    policies: int = 0
    reweighted: int = 0


DISRUPTION_PROFILES: Final = {
    "empty": DisruptionProfile(emptied=60, survivors=(50, 70, 90)),
    "underutilised": DisruptionProfile(on_demand=100, opened=40),
    "spot": DisruptionProfile(on_demand=0),
    "reserved": DisruptionProfile(
        base=ClusterProfile(pools=2, daemonsets=20, shortages=20), reservations=100
    ),
    "minvalues": DisruptionProfile(base=ClusterProfile(pools=2, min_values=90, shortages=20)),
    "weights": DisruptionProfile(
        base=ClusterProfile(pools=3, weights=100, shortages=20), reweighted=100
    ),
    "budgets": DisruptionProfile(base=ClusterProfile(pools=2, shortages=20), budgets=100),
    "blocked": DisruptionProfile(base=ClusterProfile(pools=2, shortages=20), blocked=15),
    "topology": DisruptionProfile(
        base=ClusterProfile(pools=2, spread=60, affinity=25, shortages=20)
    ),
    "drift": DisruptionProfile(base=ClusterProfile(pools=2, shortages=20), drifted=40),
    "policies": DisruptionProfile(base=ClusterProfile(pools=2, shortages=20), policies=80),
    "mixed": DisruptionProfile(
        base=ClusterProfile(
            pools=3, requirements=10, taints=10, min_values=15, spread=20, affinity=10, ports=10
        ),
        reservations=30,
        drifted=10,
        budgets=20,
        blocked=4,
        policies=15,
        reweighted=30,
    ),
}


def random_disruption_cluster(profile: str, seed: int) -> RandomCluster:
    """The cluster that belongs to the seed."""
    return _ClusterMaker(profile, DISRUPTION_PROFILES[profile], seed).cluster()


class _ClusterMaker:
    def __init__(self, name: str, profile: DisruptionProfile, seed: int) -> None:
        self._name, self._profile, self._seed = name, profile, seed
        self._rng = PercentRandom(Random(f"disruption {name}/{seed}"))

    def cluster(self) -> RandomCluster:
        rng, profile = self._rng, self._profile
        types = self._types()
        pools = RandomPools(rng, profile.base, types).manifests()
        on_demand = rng.chance(profile.on_demand)
        launching = [_on_demand(pool) if on_demand else pool for pool in map(willing_pool, pools)]
        made = RandomCluster(
            profile=self._name,
            seed=self._seed,
            objects=(*_namespaces(), *launching),
            types=tuple(types),
            options=PlanOptions(),
        )
        for wave in range(rng.between(*profile.waves)):
            made = _grown(made, self._pods(wave, types))
        opened = on_demand and rng.chance(profile.opened)
        made = _with_pools(made, [willing_pool(pool) for pool in pools] if opened else launching)
        return self._changed(self._emptied(made))

    def _types(self) -> list[Manifest]:
        rng = self._rng
        shortage = rng.choice((0, 5, 20)) if rng.chance(self._profile.base.shortages) else 0
        types = instance_types(rng.random, Shortage(shortage, None), gpus=False)
        if rng.chance(self._profile.reservations):
            add_reservations(rng.random, types, rng.choice((1, 2, 3, 4)))
        return types

    def _pods(self, wave: int, types: list[Manifest]) -> list[Manifest]:
        """Those of a wave; their names tell the waves apart."""
        pods = RandomPods(self._rng, self._profile.base, types).manifests()
        return [
            pod | {"metadata": pod["metadata"] | {"name": f"w{wave}-{pod['metadata']['name']}"}}
            for pod in pods
        ]

    def _emptied(self, cluster: RandomCluster) -> RandomCluster:
        rng, profile = self._rng, self._profile
        percent = rng.choice(profile.survivors)
        empty = {
            node["metadata"]["name"]
            for node in cluster.kinds("Node")
            if rng.chance(profile.emptied)
        }
        kept = [
            each
            for each in cluster.objects
            if each["kind"] != "Pod"
            or (rng.chance(percent) and each["spec"]["nodeName"] not in empty)
        ]
        return replace(cluster, objects=tuple(kept))

    def _changed(self, cluster: RandomCluster) -> RandomCluster:
        """What happened to the objects since."""
        profile = self._profile
        changes: list[tuple[str, Callable[[Manifest], Manifest]]] = [
            ("NodePool", self._pool),
            ("NodeClaim", self._claim),
        ]
        if profile.blocked:
            changes += [("Pod", self._protected), ("Node", self._protected)]
        for kind, change in changes:
            objects = (change(each) if each["kind"] == kind else each for each in cluster.objects)
            cluster = replace(cluster, objects=tuple(objects))
        return replace(cluster, objects=(*cluster.objects, *self._pod_budgets(cluster)))

    def _pool(self, pool: Manifest) -> Manifest:
        rng, profile = self._rng, self._profile
        disruption = dict(pool["spec"]["disruption"])
        if rng.chance(profile.budgets):
            disruption["budgets"] = [self._budget() for _ in range(rng.between(1, 2))]
        if rng.chance(profile.policies):
            disruption["consolidationPolicy"] = rng.choice(("WhenEmpty", "Balanced", "Balanced"))
        spec = pool["spec"] | {"disruption": disruption}
        if rng.chance(profile.reweighted):
            spec["weight"] = rng.choice((1, 10, 20, 30, 40, 50))
        return pool | {"spec": spec}

    def _budget(self) -> dict[str, Any]:
        rng = self._rng
        found: dict[str, Any] = {"nodes": rng.choice(("0", "1", "1", "2", "10%", "30%", "50%"))}
        if rng.chance(30):
            found["reasons"] = [rng.choice(("Empty", "Underutilized"))]
        if rng.chance(25):
            found |= {"schedule": rng.choice(SCHEDULES), "duration": rng.choice(("1h", "20h"))}
        return found

    def _claim(self, claim: Manifest) -> Manifest:
        rng = self._rng
        drifted = rng.chance(self._profile.drifted)
        at = f"2025-12-31T{rng.between(1, 23):02}:{rng.between(0, 59):02}:00Z"
        conditions = [*claim["status"]["conditions"][:-1], _condition("Drifted", drifted, at)]
        return claim | {"status": claim["status"] | {"conditions": conditions}}

    def _protected(self, item: Manifest) -> Manifest:
        if not self._rng.chance(self._profile.blocked):
            return item
        annotations = {DO_NOT_DISRUPT: "true"}
        return item | {"metadata": item["metadata"] | {"annotations": annotations}}

    def _pod_budgets(self, cluster: RandomCluster) -> list[Manifest]:
        apps = sorted({pod["metadata"]["labels"]["app"] for pod in cluster.kinds("Pod")})
        return [
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": app, "namespace": "shop"},
                "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": app}}},
                "status": {
                    "disruptionsAllowed": self._rng.choice((0, 1)),
                    "currentHealthy": 1,
                    "desiredHealthy": 1,
                    "expectedPods": 1,
                },
            }
            for app in apps
            if self._rng.chance(self._profile.blocked)
        ]


def _grown(cluster: RandomCluster, pods: Sequence[Manifest]) -> RandomCluster:
    """The pods have come, and nodes were launched for them; those without a place are gone."""
    waiting = replace(cluster, objects=(*cluster.objects, *pods))
    plan = make_plan(prepare_cluster(waiting), with_suggestions=False).plan
    for claim in plan.claims:
        waiting = launch_node(waiting, claim, f"n{len(waiting.kinds('Node')):03}")
    names = {claim.name: f"n{number:03}" for number, claim in _numbered(cluster, plan.claims)}
    homes = {pod: names[claim.name] for claim in plan.claims for pod in claim.pods}
    homes |= {pod: home.node for home in plan.placements for pod in home.pods}
    bound = (bind_pod(each, homes) for each in waiting.objects)
    return replace(
        waiting,
        objects=tuple(
            each for each in bound if each["kind"] != "Pod" or "nodeName" in each["spec"]
        ),
    )


def _numbered(
    cluster: RandomCluster, claims: Iterable[PlannedNodeClaim]
) -> Iterable[tuple[int, PlannedNodeClaim]]:
    return enumerate(claims, len(cluster.kinds("Node")))


def launch_node(cluster: RandomCluster, claim: PlannedNodeClaim, name: str) -> RandomCluster:
    """A node that has come up, as the claim would be launched; its reserved instance is taken."""
    launch = claim.launch
    kind = next(each for each in cluster.types if each["name"] == launch.instance_type)
    pool = next(
        each for each in cluster.kinds("NodePool") if each["metadata"]["name"] == claim.pool
    )
    labels = _labels(claim, kind, pool)
    provider = f"aws:///{launch.zone}/i-{name}"
    spec = pool["spec"]["template"]["spec"]
    taints = {"taints": spec["taints"]} if "taints" in spec else {}
    resources = {"capacity": kind["capacity"], "allocatable": allocatable(kind)}
    conditions = [_condition(each, True, YESTERDAY) for each in CONDITIONS]
    conditions.append(_condition("Drifted", False, YESTERDAY))
    claimed = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": f"c-{name}", "labels": labels, "creationTimestamp": YESTERDAY},
        "spec": {
            "nodeClassRef": spec["nodeClassRef"],
            "requirements": [],
            "expireAfter": "Never",
            **taints,
        },
        "status": {**resources, "nodeName": name, "providerID": provider, "conditions": conditions},
    }
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {**labels, HOSTNAME: name},
            "creationTimestamp": YESTERDAY,
        },
        "spec": {"providerID": provider, **taints},
        "status": {**resources, "conditions": [_condition("Ready", True, YESTERDAY)]},
    }
    types = [take_reserved_instance(each, launch.reservation_id) for each in cluster.types]
    return replace(cluster, objects=(*cluster.objects, claimed, node), types=tuple(types))


def _labels(claim: PlannedNodeClaim, kind: Manifest, pool: Manifest) -> dict[str, str]:
    launch = claim.launch
    of_type = {each["key"]: each["values"][0] for each in kind["requirements"]}
    own = {
        key: each.allowed.any_value()
        for key, each in claim.requirements.items()
        if key not in WELL_KNOWN_LABELS and key not in of_type and not each.allowed.admits_absence
    }
    found = {**own, **pool["spec"]["template"]["metadata"]["labels"], **of_type}
    found |= {ZONE: launch.zone or "", ZONE_ID: ZONES[launch.zone or ""]}
    found |= {CAPACITY_TYPE: launch.capacity_type, INSTANCE_TYPE: launch.instance_type}
    found |= {NODEPOOL: claim.pool, REGISTERED: "true", INITIALIZED: "true"}
    if launch.reservation_id is not None:
        found |= {RESERVATION_ID: launch.reservation_id, CAPACITY_TYPE: RESERVED}
    return found


def _condition(name: str, value: bool, at: str) -> dict[str, str]:
    return {
        "type": name,
        "status": "True" if value else "False",
        "reason": name,
        "message": "",
        "lastTransitionTime": at,
    }


def willing_pool(pool: Manifest) -> Manifest:
    """The pool with settings by which all of its nodes may be disrupted at once."""
    disruption = {
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "consolidateAfter": "0s",
        "budgets": [{"nodes": "100%"}],
    }
    template = pool["spec"]["template"]
    template = template | {"spec": template["spec"] | {"expireAfter": "Never"}}
    return pool | {"spec": pool["spec"] | {"disruption": disruption, "template": template}}


def _on_demand(pool: Manifest) -> Manifest:
    template = pool["spec"]["template"]
    others = [each for each in template["spec"]["requirements"] if each["key"] != CAPACITY_TYPE]
    wanted = {"key": CAPACITY_TYPE, "operator": "In", "values": [ON_DEMAND, RESERVED]}
    changed = template | {"spec": template["spec"] | {"requirements": [*others, wanted]}}
    return pool | {"spec": pool["spec"] | {"template": changed}}


def _with_pools(cluster: RandomCluster, pools: Sequence[Manifest]) -> RandomCluster:
    others = [each for each in cluster.objects if each["kind"] != "NodePool"]
    return replace(cluster, objects=(*others, *pools))


def _namespaces() -> list[Manifest]:
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        for name, labels in NAMESPACES.items()
    ]
