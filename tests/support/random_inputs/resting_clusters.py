"""Random clusters whose workload changes for half an hour and then stays as it is."""

from random import Random
from typing import Any

from tests.support.random_inputs.scenarios import CLASS
from tests.support.scripted_simulation import cloud, reservation, scenario

from wainwright.sim.scenario import Scenario

BUSY_MINUTES = 30
TYPES = ["c5.large", "c5.xlarge", "c5.2xlarge", "m5.large", "m5.xlarge", "m5.2xlarge", "r5.xlarge"]
CAPACITY_TYPES = (
    ["on-demand"],
    ["spot"],
    ["spot", "on-demand"],
    ["reserved", "on-demand"],
    ["reserved", "spot", "on-demand"],
)


def resting_cluster(seed: int) -> Scenario:
    """Nothing comes after the first half hour; it ends three hours later."""
    random = Random(f"resting {seed}")
    names = [f"app-{number}" for number in range(random.randint(1, 5))]
    pools = [_pool(random, f"pool-{number}") for number in range(random.randint(1, 3))]
    gates = {"SpotToSpotConsolidation": random.random() < 0.5}
    return scenario(
        CLASS,
        *pools,
        *(_deployment(random, name) for name in names),
        *_pod_budgets(random, names),
        cloud(
            instanceTypes=TYPES,
            capacityReservations=[
                reservation(f"cr-{number}", total=random.randint(1, 3)) for number in range(2)
            ],
        ),
        duration=f"{BUSY_MINUTES + 180}m",
        seed=seed,
        settings={"featureGates": gates},
        events=[_change(random, names) for _ in range(random.randint(2, 8))],
    )


def _pool(random: Random, name: str) -> dict[str, Any]:
    requirements = [
        {
            "key": "karpenter.sh/capacity-type",
            "operator": "In",
            "values": random.choice(CAPACITY_TYPES),
        },
        {
            "key": "node.kubernetes.io/instance-type",
            "operator": "In",
            "values": random.sample(TYPES, random.randint(2, len(TYPES))),
        },
    ]
    disruption: dict[str, Any] = {
        "consolidationPolicy": random.choice(["WhenEmptyOrUnderutilized", "Balanced"]),
        "consolidateAfter": random.choice(["0s", "1m", "5m"]),
        "budgets": [{"nodes": random.choice(["1", "50%", "100%"])}],
    }
    spec: dict[str, Any] = {
        "disruption": disruption,
        "template": {"spec": {"requirements": requirements, "expireAfter": "Never"}},
        "weight": random.choice([1, 10]),
    }
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": spec,
    }


def _deployment(random: Random, name: str) -> dict[str, Any]:
    requests = {
        "cpu": random.choice(["200m", "500m", "1", "1500m", "3"]),
        "memory": random.choice(["512Mi", "2Gi", "5Gi"]),
    }
    spec: dict[str, Any] = {
        "containers": [{"name": "main", "image": "app", "resources": {"requests": requests}}]
    }
    labels = {"app": name}
    if random.random() < 0.4:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": random.choice([1, 2]),
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": random.choice(["DoNotSchedule", "ScheduleAnyway"]),
                "labelSelector": {"matchLabels": labels},
            }
        ]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "replicas": random.randint(1, 8),
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def _pod_budgets(random: Random, names: list[str]) -> list[dict[str, Any]]:
    return [
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {
                "maxUnavailable": random.choice([0, 1, "50%"]),
                "selector": {"matchLabels": {"app": name}},
            },
        }
        for name in names
        if random.random() < 0.3
    ]


def _change(random: Random, names: list[str]) -> dict[str, Any]:
    change = {"name": random.choice(names), "namespace": "shop", "replicas": random.randint(0, 12)}
    return {"at": f"{random.randint(120, BUSY_MINUTES * 60)}s", "scale": change}
