"""Growth: input of every shape that a file of modest size can have, doubled twice. CPU seconds and
memory of the command in a process of its own, and the factor per doubling: about 2 is linear.
"""

import io
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from cProfile import Profile
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.measure import peak_memory_megabytes
from wainwright.cli.main import main

Manifest = dict[str, Any]
LIMIT_SECONDS: Final = 5
LIMIT_MEGABYTES: Final = 500
REGION: Final = "us-west-2"
NOW: Final = ("--now", "2026-01-31T12:00:00Z")


def pool(name: str, **spec: Any) -> Manifest:
    requirements = spec.pop("requirements", [])
    template = {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        "requirements": requirements,
        **spec.pop("template", {}),
    }
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": {"spec": template}, **spec},
    }


def node_class(**spec: Any) -> Manifest:
    tags = [{"tags": {"a": "b"}}]
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": {
            "role": "r",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": tags,
            "securityGroupSelectorTerms": tags,
            **spec,
        },
    }


def cloud(**spec: Any) -> Manifest:
    return {
        "apiVersion": "wainwright.dev/v1alpha1",
        "kind": "Cloud",
        "spec": {"region": REGION, **spec},
    }


def pod(name: str, cpu: str = "1", labels: dict[str, str] | None = None, **spec: Any) -> Manifest:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"containers": [container], **spec},
    }


def requirement(key: str, *values: str, operator: str = "In") -> Manifest:
    return {"key": key, "operator": operator, "values": list(values)}


def limited_pools(count: int) -> list[Manifest]:
    """NodePools whose limit two pods exhaust, and two pods for each."""
    pools = [pool(f"pool-{number}", limits={"cpu": "2"}) for number in range(count)]
    return [node_class(), *pools, *(pod(f"pod-{number}") for number in range(2 * count))]


def tainted_pools(count: int) -> list[Manifest]:
    """Two pods for each NodePool, which no others tolerate."""
    pools = [
        pool(
            f"pool-{number}",
            limits={"cpu": "4"},
            template={"taints": [{"key": "pool", "value": str(number), "effect": "NoSchedule"}]},
        )
        for number in range(count)
    ]
    toleration = {"key": "pool", "operator": "Equal", "effect": "NoSchedule"}
    pods = [
        pod(f"pod-{number}-{each}", tolerations=[{**toleration, "value": str(number)}])
        for number in range(count)
        for each in range(2)
    ]
    return [node_class(), *pools, *pods]


def broad_spreads(count: int) -> list[Manifest]:
    """Every pod has a spread of its own that counts all pods."""
    pods = []
    for number in range(count):
        expressions = [
            {"key": "app", "operator": "Exists"},
            {"key": "number", "operator": "NotIn", "values": [f"x{number}"]},
        ]
        spread = {
            "maxSkew": 5,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchExpressions": expressions},
        }
        labels = {"app": "a", "number": str(number)}
        pods.append(pod(f"pod-{number}", labels=labels, topologySpreadConstraints=[spread]))
    return [node_class(), pool("default"), *pods]


def spread_constraints(count: int, when: str) -> list[Manifest]:
    return [
        {
            "maxSkew": 1,
            "topologyKey": f"example.com/key-{number}",
            "whenUnsatisfiable": when,
            "labelSelector": {"matchLabels": {"a": "b"}},
        }
        for number in range(count)
    ]


def required_spreads(count: int) -> list[Manifest]:
    """One pod with spreads over labels that no node has."""
    spreads = spread_constraints(count, "DoNotSchedule")
    alone = pod("pod", labels={"a": "b"}, topologySpreadConstraints=spreads)
    return [node_class(), pool("default"), alone]


def preferred_spreads(count: int) -> list[Manifest]:
    """The same as preferences, which are relaxed."""
    spreads = spread_constraints(count, "ScheduleAnyway")
    alone = pod("pod", labels={"a": "b"}, topologySpreadConstraints=spreads)
    return [node_class(), pool("default"), alone]


def spreads_beside_nodes(count: int) -> list[Manifest]:
    """One pod with so many required spreads, and as many pods that need a node each."""
    return [*required_spreads(count), *one_pod_a_node(count)[2:]]


def apart_from_all_others(count: int) -> list[Manifest]:
    """Each pod has a selector of its own for anti-affinity, which selects all others."""
    pods = []
    for number in range(count):
        others = {"key": "number", "operator": "NotIn", "values": [str(number)]}
        term = {
            "labelSelector": {"matchExpressions": [others]},
            "topologyKey": "kubernetes.io/hostname",
        }
        anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        pods.append(pod(f"pod-{number}", labels={"number": str(number)}, affinity=anti))
    return [node_class(), pool("default"), *pods]


def faulty_objects(count: int) -> list[Manifest]:
    return [{**pod(f"pod-{number}"), "spec": {"containers": "none"}} for number in range(count)]


def unknown_labels(count: int) -> list[Manifest]:
    selector = {f"example.com/label-{number}": "x" for number in range(count)}
    return [node_class(), pool("default"), pod("pod", nodeSelector=selector)]


def reservations(count: int) -> list[Manifest]:
    """As many reservations of one instance as pods that need one each."""
    stated = [
        {
            "id": f"cr-{number:017x}",
            "instanceType": "m5.large",
            "availabilityZone": f"{REGION}a",
            "total": 1,
            "tags": {"a": "b"},
        }
        for number in range(count)
    ]
    capacity = requirement("karpenter.sh/capacity-type", "reserved", "on-demand")
    pods = [pod(f"pod-{number}", cpu="1500m") for number in range(count)]
    given = node_class(capacityReservationSelectorTerms=[{"tags": {"a": "b"}}])
    return [
        given,
        cloud(capacityReservations=stated),
        pool("default", requirements=[capacity]),
        *pods,
    ]


def overlays(count: int) -> list[Manifest]:
    def overlay(number: int) -> Manifest:
        every_type = requirement("kubernetes.io/arch", operator="Exists")
        return {
            "apiVersion": "karpenter.sh/v1alpha1",
            "kind": "NodeOverlay",
            "metadata": {"name": f"overlay-{number}"},
            "spec": {
                "requirements": [every_type],
                "priceAdjustment": f"-{number % 50}%",
                "weight": number + 1,
            },
        }

    return [node_class(), pool("default"), pod("pod"), *map(overlay, range(count))]


def different_overlays(count: int) -> list[Manifest]:
    """Each with 100 requirements of its own, as many as the API allows."""

    def overlay(number: int) -> Manifest:
        families = [f"none-{number}-{each}" for each in range(100)]
        key = "karpenter.k8s.aws/instance-family"
        requirements = [requirement(key, family, operator="NotIn") for family in families]
        return {
            "apiVersion": "karpenter.sh/v1alpha1",
            "kind": "NodeOverlay",
            "metadata": {"name": f"overlay-{number}"},
            "spec": {"requirements": requirements, "price": "1", "weight": number + 1},
        }

    return [node_class(), pool("default"), pod("pod"), *map(overlay, range(count))]


def full_pools(count: int) -> list[Manifest]:
    """NodePools with the 100 requirements and 100 labels that the API allows, and a pod each."""
    pools = []
    for number in range(count):
        key = "node.kubernetes.io/instance-type"
        own = [requirement("example.com/pool", str(number))]
        others = [requirement(key, f"none-{number}-{each}", operator="NotIn") for each in range(99)]
        made = pool(f"pool-{number}", requirements=[*own, *others])
        labels = {f"example.com/label-{each}": f"{number}" for each in range(100)}
        made["spec"]["template"]["metadata"] = {"labels": labels}
        pools.append(made)
    selectors = [{"example.com/pool": str(number)} for number in range(count)]
    pods = [
        pod(f"pod-{number}", nodeSelector=selector) for number, selector in enumerate(selectors)
    ]
    return [node_class(), *pools, *pods]


def full_classes(count: int) -> list[Manifest]:
    """Classes with 30 terms of every selector, as the API allows, a NodePool and a pod for each."""
    made: list[Manifest] = [cloud()]
    terms = [{"tags": {"a": f"b-{number}"}} for number in range(30)]
    for number in range(count):
        selectors = {"subnetSelectorTerms": terms, "securityGroupSelectorTerms": terms}
        given = node_class(
            capacityReservationSelectorTerms=terms, kubelet={"maxPods": 20 + number}, **selectors
        )
        given["metadata"]["name"] = f"class-{number}"
        own = pool(f"pool-{number}", requirements=[requirement("example.com/pool", str(number))])
        own["spec"]["template"]["spec"]["nodeClassRef"]["name"] = f"class-{number}"
        made += [given, own, pod(f"pod-{number}", nodeSelector={"example.com/pool": str(number)})]
    return made


def full_budgets(count: int) -> list[Manifest]:
    """Nodes of a NodePool with 50 budgets that have a schedule, as many as the API allows."""
    budgets = [
        {"nodes": f"{number + 10}%", "schedule": f"{number} * * * *", "duration": "30m"}
        for number in range(50)
    ]
    disruption = {"consolidateAfter": "0s", "budgets": budgets}
    return [
        pool("default", disruption=disruption) if each["kind"] == "NodePool" else each
        for each in nodes(count)
    ]


def affinity_terms(count: int) -> list[Manifest]:
    """Ten pods, each with so many alternatives that no node meets."""
    terms = [
        {"matchExpressions": [requirement("kubernetes.io/arch", "amd64"), _nowhere(number)]}
        for number in range(count)
    ]
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
        }
    }
    pods = [pod(f"pod-{number}", affinity=affinity) for number in range(10)]
    return [node_class(), pool("default"), *pods]


def _nowhere(number: int) -> Manifest:
    return requirement("topology.kubernetes.io/zone", f"nowhere-{number}")


def useless_pools(count: int) -> list[Manifest]:
    """NodePools that no pod can use, and a pod."""
    pools = [pool(f"pool-{number}", requirements=[_nowhere(number)]) for number in range(count)]
    return [node_class(), *pools, pod("pod")]


def unknown_type(number: int) -> str:
    """An instance type that nobody has, with the first letter and digits of many that there are."""
    letters = "".join(chr(ord("a") + number // 26**place % 26) for place in range(3))
    return f"m5.{letters}xlarge"


def unknown_cloud_types(count: int) -> list[Manifest]:
    """A Cloud with prices of instance types that nobody has."""
    prices = [
        {"instanceType": unknown_type(number), "capacityType": "spot", "price": 1}
        for number in range(count)
    ]
    return [node_class(), pool("default"), cloud(prices=prices), pod("pod")]


def unknown_pod_types(count: int) -> list[Manifest]:
    """Pods that each select an instance type that nobody has."""
    key = "node.kubernetes.io/instance-type"
    pods = [
        pod(f"pod-{number}", nodeSelector={key: unknown_type(number)}) for number in range(count)
    ]
    return [node_class(), pool("default"), *pods]


def distinct_failures(count: int) -> list[Manifest]:
    pods = [
        pod(f"pod-{number}", nodeSelector={f"example.com/label-{number}": "x"})
        for number in range(count)
    ]
    return [node_class(), pool("default"), *pods]


def one_pod_a_node(count: int) -> list[Manifest]:
    term = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "kubernetes.io/hostname"}
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pods = [pod(f"pod-{number}", labels={"a": "b"}, affinity=anti) for number in range(count)]
    return [node_class(), pool("default"), *pods]


def full_nodes(count: int) -> list[Manifest]:
    """Pods that fill a node each, so that first-fit is at the lower bound."""
    only = requirement("node.kubernetes.io/instance-type", "m5.large")
    pods = [pod(f"pod-{number}", cpu="1500m") for number in range(count)]
    return [node_class(), pool("default", requirements=[only]), *pods]


def nodes(count: int) -> list[Manifest]:
    """Nodes with a pod each that must not be disrupted."""
    made = []
    for number in range(count):
        labels = {
            "karpenter.sh/nodepool": "default",
            "karpenter.sh/capacity-type": "on-demand",
            "node.kubernetes.io/instance-type": "m5.large",
            "topology.kubernetes.io/zone": f"{REGION}a",
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux",
            "karpenter.sh/registered": "true",
            "karpenter.sh/initialized": "true",
        }
        amounts = {"cpu": "2", "memory": "8Gi", "pods": "29"}
        made.append(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": f"node-{number}", "labels": labels},
                "spec": {"providerID": f"aws:///{REGION}a/i-{number:017x}"},
                "status": {
                    "capacity": amounts,
                    "allocatable": amounts,
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            }
        )
        bound = pod(f"pod-{number}", cpu="1500m", nodeName=f"node-{number}")
        bound["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "true"}
        made.append(bound)
    return [node_class(), cloud(), pool("default"), *made]


ANY_NODES: Final = {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}
ONE_PRICE: Final = (
    requirement("node.kubernetes.io/instance-type", "m5.large", "m5.xlarge"),
    requirement("karpenter.sh/capacity-type", "on-demand"),
)


def small_pods_on_nodes(count: int) -> list[Manifest]:
    """Nodes with a small pod each, of a workload: most of them can go."""
    made = nodes(count)
    for each in made:
        if each["kind"] == "Pod":
            owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "w", "uid": "u"}
            each["metadata"] = {
                "name": each["metadata"]["name"],
                "labels": {"app": each["metadata"]["name"]},
                "ownerReferences": [{**owner, "controller": True}],
            }
            each["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "300m"
    movable = pool("default", requirements=[*ONE_PRICE], disruption=ANY_NODES)
    return [movable if each["kind"] == "NodePool" else each for each in made]


def limited_pools_with_nodes(count: int) -> list[Manifest]:
    """NodePools with a limit, and two nodes of a small pod for each."""
    made = [each for each in small_pods_on_nodes(2 * count) if each["kind"] != "NodePool"]
    for number, node in enumerate(each for each in made if each["kind"] == "Node"):
        node["metadata"]["labels"]["karpenter.sh/nodepool"] = f"pool-{number // 2}"
    limits, requirements = {"cpu": "10"}, [*ONE_PRICE]
    return [
        *made,
        *(
            pool(f"pool-{n}", limits=limits, disruption=ANY_NODES, requirements=requirements)
            for n in range(count)
        ),
    ]


def spread_nodes(count: int) -> list[Manifest]:
    """Nodes that can go, with a pod each that has a spread of its own which counts all pods."""
    made = small_pods_on_nodes(count)
    alone = [each for each in broad_spreads(count) if each["kind"] == "Pod"]
    for running, waiting in zip((x for x in made if x["kind"] == "Pod"), alone, strict=True):
        running["metadata"]["labels"] = waiting["metadata"]["labels"]
        spreads = waiting["spec"]["topologySpreadConstraints"]
        running["spec"]["topologySpreadConstraints"] = spreads
    return made


def spreads_beside_consolidation(count: int) -> list[Manifest]:
    """Fifty nodes that can go, and a pending pod whose preferences every simulation relaxes."""
    return [*small_pods_on_nodes(50), preferred_spreads(count)[-1]]


def disruption_budget(name: str, labels: dict[str, str], **spec: Any) -> Manifest:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}, **spec},
    }


def nodes_of_budgets(count: int) -> list[Manifest]:
    """Nodes with a pod each that a PodDisruptionBudget of its own keeps where it is."""
    made = small_pods_on_nodes(count)
    pods = [each["metadata"] for each in made if each["kind"] == "Pod"]
    budgets = [disruption_budget(each["name"], each["labels"], minAvailable=1) for each in pods]
    return [*made, *budgets]


def deployment(name: str, replicas: int, labels: dict[str, str]) -> Manifest:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod("x")["spec"]},
        },
    }


def scenario(count: int, **spec: Any) -> list[Manifest]:
    """A Scenario of ten minutes with one Deployment of so many pods."""
    made = {
        "apiVersion": "wainwright.dev/v1alpha1",
        "kind": "Scenario",
        "metadata": {"name": "growth"},
        "spec": {"duration": "10m", **spec},
    }
    web = deployment("web", count, {"a": "b"})
    return [made, node_class(), cloud(), pool("default"), web]


def scaled_scenario(count: int) -> list[Manifest]:
    """A Deployment of five pods that so many events scale."""
    web = {"kind": "Deployment", "name": "web"}
    events = [
        {"at": f"{number % 500}s", "scale": {**web, "replicas": 5 + number % 3}}
        for number in range(count)
    ]
    return scenario(5, events=events)


def expecting_scenario(count: int) -> list[Manifest]:
    """Expectations at moments and during all of the time, half of each."""
    few = {"pods": {"pending": {"lte": 100}}}
    moments = [{"at": f"{number % 500}s", **few} for number in range(count // 2)]
    return scenario(5, expect=[*moments, *({"during": ["0s", "10m"], **few} for _ in moments)])


def deployments(count: int) -> list[Manifest]:
    """Deployments of a pod, each with a PodDisruptionBudget."""
    made = scenario(1)
    for number in range(count):
        labels = {"app": f"web-{number}"}
        made += [
            deployment(f"web-{number}", 1, labels),
            disruption_budget(f"web-{number}", labels, maxUnavailable=1),
        ]
    return made


def shared_budgets(count: int) -> list[Manifest]:
    """PodDisruptionBudgets that all select the five pods of one Deployment."""
    labels = {"a": "b"}
    budgets = [disruption_budget(f"b-{n}", labels, maxUnavailable=1) for n in range(count)]
    return [*scenario(5), *budgets]


def pools_of_a_scenario(count: int) -> list[Manifest]:
    """NodePools with limits, and a Deployment that needs one of them."""
    others = [pool(f"pool-{number}", limits={"cpu": "20"}) for number in range(count)]
    return [*scenario(5), *others]


class Row(msgspec.Struct, frozen=True):
    """One shape of input, in three sizes, through one command."""

    make: Callable[[int], list[Manifest]]
    sizes: tuple[int, int, int]
    command: tuple[str, ...] = ("plan", *NOW)


CONSOLIDATE: Final = ("consolidate", *NOW)
SIMULATE: Final = ("simulate",)
ROWS: Final = {
    "NodePools with limits, two pods each": Row(limited_pools, (400, 800, 1600)),
    "NodePools with taints, two pods each": Row(tainted_pools, (400, 800, 1600)),
    "spreads that count every pod": Row(broad_spreads, (500, 1000, 2000)),
    "required spreads of one pod": Row(required_spreads, (400, 800, 1600)),
    "preferred spreads of one pod": Row(preferred_spreads, (1000, 2000, 4000)),
    "spreads of one pod, and as many nodes": Row(spreads_beside_nodes, (400, 800, 1600)),
    "pods apart from all others": Row(apart_from_all_others, (500, 1000, 2000)),
    "faulty objects in a stream of JSON": Row(faulty_objects, (1000, 2000, 4000), ("validate",)),
    "one pod with unknown labels": Row(unknown_labels, (5000, 10_000, 20_000)),
    "as many reservations as pods": Row(reservations, (1250, 2500, 5000)),
    "NodeOverlays": Row(overlays, (125, 250, 500)),
    "NodeOverlays with 100 requirements each": Row(different_overlays, (50, 100, 200)),
    "NodePools with 100 requirements, 100 labels": Row(full_pools, (50, 100, 200)),
    "EC2NodeClasses with 30 terms each": Row(full_classes, (10, 20, 40)),
    "nodes under 50 budgets, consolidate": Row(full_budgets, (250, 500, 1000), CONSOLIDATE),
    "terms of node affinity, on ten pods": Row(affinity_terms, (125, 250, 500)),
    "NodePools that match nothing": Row(useless_pools, (1250, 2500, 5000)),
    "pods that fail for a reason each": Row(distinct_failures, (1000, 2000, 4000)),
    "unknown instance types of a Cloud": Row(unknown_cloud_types, (1000, 2000, 4000)),
    "unknown instance types, one for each pod": Row(unknown_pod_types, (500, 1000, 2000)),
    "one pod a node, --packing cost": Row(
        one_pod_a_node, (2000, 4000, 8000), ("plan", "--packing", "cost", *NOW)
    ),
    "pods that fill a node, --packing cost": Row(
        full_nodes, (2000, 4000, 8000), ("plan", "--packing", "cost", *NOW)
    ),
    "nodes that stay, consolidate": Row(nodes, (250, 500, 1000), CONSOLIDATE),
    "nodes that can go, consolidate": Row(small_pods_on_nodes, (250, 500, 1000), CONSOLIDATE),
    "limited NodePools, 2 nodes, consolidate": Row(
        limited_pools_with_nodes, (100, 200, 400), CONSOLIDATE
    ),
    "nodes under broad spreads, consolidate": Row(spread_nodes, (250, 500, 1000), CONSOLIDATE),
    "preferred spreads of a pod, consolidate": Row(
        spreads_beside_consolidation, (1000, 2000, 4000), CONSOLIDATE
    ),
    "nodes with a PDB each, consolidate": Row(nodes_of_budgets, (250, 500, 1000), CONSOLIDATE),
    "pods of a simulation": Row(scenario, (250, 500, 1000), SIMULATE),
    "Deployments with a PDB each, simulate": Row(deployments, (125, 250, 500), SIMULATE),
    "PDBs of the same pods, simulate": Row(shared_budgets, (500, 1000, 2000), SIMULATE),
    "NodePools with limits, simulate": Row(pools_of_a_scenario, (400, 800, 1600), SIMULATE),
    "events of a simulation": Row(scaled_scenario, (1000, 2000, 4000), SIMULATE),
    "expectations of a simulation": Row(expecting_scenario, (1000, 2000, 4000), SIMULATE),
}


def run() -> None:
    sizes = {name: row.sizes for name, row in ROWS.items()}
    if not print_table(sizes, LIMIT_SECONDS, LIMIT_MEGABYTES):
        sys.exit(1)


def print_table(rows: Mapping[str, tuple[int, ...]], seconds: float, megabytes: float) -> bool:
    """Every row in processes of its own, so that none inherits caches or memory. Returns whether
    the largest of each is within the limits.
    """
    print(f"growth: CPU seconds and MB, at most {seconds} s and {megabytes} MB")
    within = [print_growth(name, sizes, seconds, megabytes) for name, sizes in rows.items()]
    return all(within)


def print_growth(name: str, sizes: tuple[int, ...], seconds: float, megabytes: float) -> bool:
    figures = [measure_apart(name, size) for size in sizes]
    shown = [
        f"{size:>6,}: {cpu:6.2f} s {memory:5.0f} MB"
        for size, (cpu, memory) in zip(sizes, figures, strict=True)
    ]
    factors = [f"×{after[0] / max(before[0], 0.01):.1f}" for before, after in pairwise(figures)]
    cpu, memory = figures[-1]
    is_within = cpu < seconds and memory < megabytes
    verdict = "" if is_within else "   over"
    print(f"  {name:<40} {'   '.join(shown)}   {' '.join(factors)}{verdict}", flush=True)
    return is_within


def measure_apart(name: str, size: int) -> tuple[float, float]:
    """CPU seconds and MB in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.growth", name, str(size)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    cpu, memory = done.stdout.split()[-2:]
    return float(cpu), float(memory)


def count_calls(name: str, size: int) -> int:
    """How many functions the command calls, in this process: no other changes this number."""
    row = ROWS[name]
    with tempfile.TemporaryDirectory() as folder:
        small, file = Path(folder, "small.json"), Path(folder, "input.json")
        _write(small, row.make(1))
        _write(file, row.make(size))
        _run(row.command, small)  # what is made once and kept does not count
        profile = Profile()
        profile.runcall(_run, row.command, file)
    return sum(entry.callcount for entry in profile.getstats())


def measure(name: str, size: int) -> tuple[float, float]:
    """In this process; what importing and the catalogue cost is not part of it."""
    row = ROWS[name]
    with tempfile.TemporaryDirectory() as folder:
        small, file = Path(folder, "small.json"), Path(folder, "input.json")
        _write(small, row.make(1))
        _write(file, row.make(size))
        _run(row.command, small)
        start = time.process_time()
        _run(row.command, file)
        return time.process_time() - start, peak_memory_megabytes()


def _write(file: Path, documents: list[Manifest]) -> None:
    file.write_text("\n".join(json.dumps(each, indent=1) for each in documents), "utf-8")


def _run(command: tuple[str, ...], file: Path) -> None:
    sys.argv = ["wain", *command, str(file)]
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as errors:
        try:
            main()
        except SystemExit as end:
            if end.code == 70:
                raise RuntimeError(errors.getvalue()) from None


if __name__ == "__main__":
    print(*measure(sys.argv[1], int(sys.argv[2])))
