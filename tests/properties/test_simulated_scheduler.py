"""The simulated kube-scheduler on random clusters, judged by a checker that counts everything anew:
it never breaks a required constraint, and leaves no pod pending that fits somewhere.
"""

import asyncio
from contextlib import aclosing, suppress
from random import Random
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.support.scheduler_checker import CheckedCluster
from tests.support.simulated_cluster import Manifest, SimulatedCluster, node, play, pod

from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.workloads import Pod
from wainwright.cluster import EventType

SEEDS = st.integers(min_value=0, max_value=10**9)
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)  # a smaller seed is no smaller input
ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
NAMESPACES = {"default": {}, "red": {"team": "red"}, "blue": {"team": "blue"}}
TAINT = {"key": "team", "value": "red", "effect": "NoSchedule"}


@settings(max_examples=settings().max_examples, phases=UNSHRUNK, deadline=None)
@given(seed=SEEDS)
def test_no_constraint_is_broken_and_no_pod_left_that_fits(seed: int) -> None:
    random = Random(seed)

    async def story(cluster: SimulatedCluster) -> None:
        for name, labels in NAMESPACES.items():
            if name != "default":
                metadata = {"name": name, "labels": labels}
                await cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        judge = Judge(cluster)
        judging = asyncio.create_task(judge.follow())
        for number in range(6):
            await change_something(random, cluster, number)
            await cluster.wait(20.0)
            judge.require_none_left((await cluster.api.list(Pod)).items)
        judging.cancel()
        with suppress(asyncio.CancelledError):
            await judging

    play(story)


class Judge:
    """Follows the cluster and judges each binding by the state before it."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._api = cluster.api
        self._checked = CheckedCluster(namespaces=dict(NAMESPACES))

    async def follow(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow_nodes())
            tasks.create_task(self._follow_pods())

    async def _follow_nodes(self) -> None:
        async with aclosing(self._api.watch(Node, "0")) as events:
            async for event in events:
                if event.object is None:
                    continue
                if event.type is EventType.DELETED:
                    self._checked.nodes.pop(event.object.metadata.name, None)
                else:
                    self._checked.nodes[event.object.metadata.name] = event.object

    async def _follow_pods(self) -> None:
        async with aclosing(self._api.watch(Pod, "0")) as events:
            async for event in events:
                if event.object is not None:
                    self._take(event.object, is_gone=event.type is EventType.DELETED)

    def _take(self, pod: Pod, *, is_gone: bool) -> None:
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        if is_gone:
            self._checked.pods.pop(name, None)
            return
        if not pod.spec.nodeName:
            return
        if name not in self._checked.pods:
            node = self._checked.nodes[pod.spec.nodeName]
            problem = self._checked.problem(pod, node)
            assert problem is None, f"{name} on {pod.spec.nodeName} breaks its {problem}"
        self._checked.pods[name] = pod

    def require_none_left(self, pods: Any) -> None:
        for each in pods:
            if each.spec.nodeName or each.metadata.deletionTimestamp is not None:
                continue
            fitting = [
                name
                for name, node in self._checked.nodes.items()
                if self._checked.problem(each, node) is None
            ]
            assert not fitting, f"{each.metadata.name} waits although it fits on {fitting}"
            conditions = each.status.conditions or ()
            assert any(condition.reason == "Unschedulable" for condition in conditions)


async def change_something(random: Random, cluster: SimulatedCluster, number: int) -> None:
    for index in range(random.randint(0, 3)):
        await cluster.apply(random_node(random, f"node-{number}-{index}"))
    nodes = sorted(await cluster.nodes())
    for name in nodes:
        await cluster.api.patch_status(Node, name, READY)
    if nodes and random.random() < 0.3:
        changes: list[dict[str, Any]] = [
            {"spec": {"unschedulable": random.random() < 0.5}},
            {"metadata": {"labels": {"disk": random.choice(["ssd", "hdd"])}}},
            {"metadata": {"labels": {ZONE: random.choice(["z1", "z2", "z3"])}}},
        ]
        await cluster.api.patch(Node, random.choice(nodes), random.choice(changes))
    await cluster.wait(0.1)
    await delete_some(random, cluster)
    for index in range(random.randint(0, 8)):
        await cluster.apply(random_pod(random, f"pod-{number}-{index}"))


READY = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}


async def delete_some(random: Random, cluster: SimulatedCluster) -> None:
    for each in (await cluster.api.list(Pod)).items:
        if random.random() < 0.2:
            await cluster.api.delete(Pod, each.metadata.name, each.metadata.namespace)


def random_node(random: Random, name: str) -> Manifest:
    return node(
        name,
        zone=random.choice(["z1", "z2", "z3"]),
        labels={"disk": random.choice(["ssd", "hdd"])} if random.random() < 0.6 else {},
        resources={"cpu": str(random.randint(1, 6)), "pods": str(random.randint(2, 6))},
        taints=[TAINT] if random.random() < 0.2 else [],
    )


def random_pod(random: Random, name: str) -> Manifest:
    app = random.choice(["web", "db"])
    spec: dict[str, Any] = {
        "requests": {"cpu": random.choice(["200m", "1", "1500m", "3"])},
        "labels": {"app": app, "revision": random.choice("12")},
        "namespace": random.choice(list(NAMESPACES)),
        "terminationGracePeriodSeconds": random.choice([0, 3]),
    }
    for part in random.sample(PARTS, k=random.choice([0, 0, 1, 1, 2])):
        spec.update(part(random))
    return pod(name, **spec)


def selector(random: Random) -> dict[str, Any]:
    return random.choice(
        [
            {"matchLabels": {"app": random.choice(["web", "db"])}},
            {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
            {},
        ]
    )


def with_selector(random: Random) -> dict[str, Any]:
    return {"nodeSelector": {"disk": random.choice(["ssd", "hdd"])}}


def with_toleration(random: Random) -> dict[str, Any]:
    value = random.choice(["red", "blue"])
    return {"tolerations": [{"key": "team", "value": value, "effect": "NoSchedule"}]}


def with_port(random: Random) -> dict[str, Any]:
    ports = [{"containerPort": 80, "hostPort": random.choice([80, 81])}]
    return {"containers": [{"name": "app", "image": "app", "ports": ports}]}


def with_spread(random: Random) -> dict[str, Any]:
    constraints = [
        {
            "maxSkew": random.choice([1, 2]),
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": selector(random),
            **random.choice(
                [
                    {},
                    {"minDomains": 3},
                    {"nodeTaintsPolicy": "Honor"},
                    {"nodeAffinityPolicy": "Ignore"},
                    {"matchLabelKeys": ["revision"]},
                ]
            ),
        }
        for key in random.sample([ZONE, HOSTNAME, "disk"], k=random.choice([1, 1, 2]))
    ]
    for each in constraints:
        if each.get("matchLabelKeys"):
            each["labelSelector"] = {"matchLabels": {"app": random.choice(["web", "db"])}}
    return {"topologySpreadConstraints": constraints}


def with_affinity(random: Random) -> dict[str, Any]:
    kind = random.choice(["podAffinity", "podAntiAffinity", "podAntiAffinity"])
    terms = [
        {
            "topologyKey": random.choice([ZONE, HOSTNAME, "disk"]),
            "labelSelector": selector(random),
            **random.choice(
                [
                    {},
                    {"namespaces": ["red"]},
                    {"namespaceSelector": {"matchLabels": {"team": "blue"}}},
                    {"namespaceSelector": {}},
                ]
            ),
        }
        for _ in range(random.choice([1, 1, 2]))
    ]
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


PARTS = [with_selector, with_toleration, with_port, with_spread, with_affinity, with_affinity]
