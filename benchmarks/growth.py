"""Growth: input of every shape that a file of modest size can have, doubled twice. CPU seconds and
memory of the command in a process of its own, and the factor per doubling: about 2 is linear.
"""

import io
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
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


def scenario(count: int) -> list[Manifest]:
    """A Scenario of ten minutes with one Deployment of so many pods."""
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": pod("x")["spec"],
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": count,
            "selector": {"matchLabels": {"a": "b"}},
            "template": template,
        },
    }
    made = {
        "apiVersion": "wainwright.dev/v1alpha1",
        "kind": "Scenario",
        "metadata": {"name": "growth"},
        "spec": {"duration": "10m"},
    }
    return [made, node_class(), cloud(), pool("default"), deployment]


class Row(msgspec.Struct, frozen=True):
    """One shape of input, in three sizes, through one command."""

    make: Callable[[int], list[Manifest]]
    sizes: tuple[int, int, int]
    command: tuple[str, ...] = ("plan", *NOW)


CONSOLIDATE: Final = ("consolidate", *NOW)
ROWS: Final = {
    "NodePools with limits, two pods each": Row(limited_pools, (400, 800, 1600)),
    "NodePools with taints, two pods each": Row(tainted_pools, (400, 800, 1600)),
    "spreads that count every pod": Row(broad_spreads, (500, 1000, 2000)),
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
    "pods of a simulation": Row(scenario, (250, 500, 1000), ("simulate",)),
}


def run() -> None:
    """Every row in processes of its own, so that none inherits caches or memory."""
    print(f"growth: CPU seconds and MB, at most {LIMIT_SECONDS} s and {LIMIT_MEGABYTES} MB")
    for name, row in ROWS.items():
        print_growth(name, row.sizes)


def print_growth(name: str, sizes: tuple[int, ...]) -> None:
    figures = [measure_apart(name, size) for size in sizes]
    shown = [
        f"{size:>6,}: {cpu:6.2f} s {memory:5.0f} MB"
        for size, (cpu, memory) in zip(sizes, figures, strict=True)
    ]
    factors = [f"×{after[0] / max(before[0], 0.01):.1f}" for before, after in pairwise(figures)]
    cpu, memory = figures[-1]
    verdict = "" if cpu < LIMIT_SECONDS and memory < LIMIT_MEGABYTES else "   over"
    print(f"  {name:<40} {'   '.join(shown)}   {' '.join(factors)}{verdict}", flush=True)


def measure_apart(name: str, size: int) -> tuple[float, float]:
    """CPU seconds and MB in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.growth", name, str(size)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    cpu, memory = done.stdout.split()[-2:]
    return float(cpu), float(memory)


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
