"""Random scenarios: a small cluster, workloads that come and go, and faults of every kind."""

from random import Random
from typing import Any

from tests.support.scripted_simulation import A, B, C, cloud, reservation, scenario

from wainwright.sim.scenario import Scenario

ZONES = (A, B, C)
CLASS = {
    "apiVersion": "karpenter.k8s.aws/v1",
    "kind": "EC2NodeClass",
    "metadata": {"name": "default"},
    "spec": {
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "role": "node-role",
        "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "shop"}}],
        "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "shop"}}],
        "capacityReservationSelectorTerms": [{"tags": {"team": "web"}}],
    },
}


def random_scenario(seed: int) -> Scenario:
    random = Random(seed)
    names = [f"web-{number}" for number in range(random.randint(1, 3))]
    events = [_fault(random) for _ in range(random.randint(1, 4))]
    events += [_change(random, names) for _ in range(random.randint(1, 4))]
    spec: dict[str, Any] = {
        "until": "quiet",
        "seed": seed,
        "events": events,
        "machines": {"boot": ["20s", "60s"], "neverJoin": random.choice([0, 0, 0.1])},
    }
    return scenario(
        CLASS,
        _pool(random),
        *(_deployment(random, name) for name in names),
        *_budgets(random, names),
        cloud(capacityReservations=[_reservation(random, number) for number in range(2)]),
        **spec,
    )


def _pool(random: Random) -> dict[str, Any]:
    capacity_types = random.choice(
        [["on-demand"], ["spot"], ["reserved", "on-demand"], ["reserved", "spot", "on-demand"]]
    )
    requirement = {
        "key": "karpenter.sh/capacity-type",
        "operator": "In",
        "values": capacity_types,
    }
    spec: dict[str, Any] = {
        "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "1m"},
        "template": {"spec": {"requirements": [requirement]}},
    }
    if random.random() < 0.3:
        spec["limits"] = {"cpu": str(random.randint(4, 20))}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": spec,
    }


def _deployment(random: Random, name: str) -> dict[str, Any]:
    requests = {"cpu": random.choice(["300m", "1", "1500m"]), "memory": "1Gi"}
    containers = [{"name": "main", "image": "app", "resources": {"requests": requests}}]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "replicas": random.randint(0, 5),
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": containers}},
        },
    }


def _budgets(random: Random, names: list[str]) -> list[dict[str, Any]]:
    return [
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": name}}},
        }
        for name in names
        if random.random() < 0.5
    ]


def _reservation(random: Random, number: int) -> Any:
    more = {"endTime": "2026-01-01T00:45:00Z"} if random.random() < 0.4 else {}
    return reservation(f"cr-{number}", total=random.randint(1, 4), **more)


def _fault(random: Random) -> dict[str, Any]:
    operation = random.choice(["*", "CreateFleet", "Describe*", "TerminateInstances"])
    share = random.choice([0.1, 0.5, 1])
    kind = random.choice(["before", "after", "lost"])
    faults: list[dict[str, Any]] = [
        {"for": "10m", "fail": {"operation": operation, "share": share, "kind": kind}},
        {"for": "10m", "throttle": {"operation": operation, "share": share}},
        {"for": "2m", "down": "apiserver"},
        {"restart": "controller"},
        {"for": "10m", "fail": {"operation": "CreateFleet", "share": 1, "zone": A}},
    ]
    return {"at": f"{random.randint(0, 2400)}s", **random.choice(faults)}


def _change(random: Random, names: list[str]) -> dict[str, Any]:
    name = random.choice(names)
    changes: list[dict[str, Any]] = [
        {"scale": {"name": name, "namespace": "shop", "replicas": random.randint(0, 6)}},
        {"kill": {"node": "*"}},
        {"interrupt": {"share": 0.5}},
        {"for": "10m", "unavailable": {"zone": random.choice(ZONES)}},
        {"for": "10m", "outage": {"zone": random.choice(ZONES)}},
        {"reservation": {"cancel": "cr-0"}},
        {"delete": {"kind": "Deployment", "namespace": "shop", "name": name}},
    ]
    return {"at": f"{random.randint(0, 2400)}s", **random.choice(changes)}
