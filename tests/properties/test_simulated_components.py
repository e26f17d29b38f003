"""The simulated components after anything that can happen to a cluster: when it is quiet again,
every workload has its pods, every status is that of a count from scratch, nothing is left over.
"""

from random import Random
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.support.simulated_cluster import Manifest, SimulatedCluster, play, workload

from wainwright.api.kubernetes.cluster import Node, PodDisruptionBudget
from wainwright.api.kubernetes.meta import to_quantity
from wainwright.api.kubernetes.operations import VolumeAttachment
from wainwright.api.kubernetes.storage import PersistentVolume, PersistentVolumeClaim
from wainwright.api.kubernetes.workloads import DaemonSet, Deployment, Pod, StatefulSet
from wainwright.errors import EvictionBlockedError
from wainwright.sim.evictions import is_ready
from wainwright.sim.kubelet import KubeletOptions

SEEDS = st.integers(min_value=0, max_value=10**9)
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)  # a smaller seed is no smaller input
STEPS = 25
SMALL = {"requests": {"cpu": "100m"}}
CLAIMS = [
    {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "ebs",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
]


def storage_class() -> Manifest:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "ebs"},
        "provisioner": "ebs.csi.aws.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def budget() -> Manifest:
    selector = {"matchLabels": {"app": "web"}}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"maxUnavailable": "30%", "selector": selector},
    }


@settings(max_examples=max(10, settings().max_examples // 2), phases=UNSHRUNK, deadline=None)
@given(seed=SEEDS)
def test_a_cluster_comes_to_rest_whatever_happened(seed: int) -> None:
    random = Random(seed)

    async def story(cluster: SimulatedCluster) -> None:
        strategy = random.choice([{}, {"strategy": {"type": "RollingUpdate"}}])
        await cluster.apply(
            storage_class(),
            budget(),
            workload("Deployment", "web", 5, template=SMALL, **strategy),
            workload("StatefulSet", "db", 2, template=SMALL, volumeClaimTemplates=CLAIMS),
            workload("DaemonSet", "agent", template=SMALL),
        )
        for _ in range(3):
            await launch(random, cluster)
        await cluster.wait(60)
        for _ in range(STEPS):
            await random_step(random, cluster)
            await cluster.wait(random.choice([0.001, 1, 10, 60]))
        await bring_back(cluster)
        await cluster.wait(2_000)
        await require_rest(cluster)

    options = KubeletOptions(boot=(5, 60), pod_start=(0, 5), pod_termination=(0, 40), volumes=3)
    play(story, options=options, seed=seed)


async def random_step(random: Random, cluster: SimulatedCluster) -> None:
    action = random.choice(
        [launch, delete_pod, evict_pod, scale, change_template, lose, recover, end, remove_node]
    )
    await action(random, cluster)


def subnets(cluster: SimulatedCluster) -> list[str]:
    """Of two zones."""
    return list(cluster.account.account.subnets.values())[:2]


async def launch(random: Random, cluster: SimulatedCluster) -> None:
    cluster.launch("m5.large", subnet=random.choice(subnets(cluster)))


async def delete_pod(random: Random, cluster: SimulatedCluster) -> None:
    pods = sorted(await cluster.pods())
    if pods:
        grace = random.choice([None, 0, 1])
        await cluster.api.delete(Pod, random.choice(pods), "default", grace_period=grace)


async def evict_pod(random: Random, cluster: SimulatedCluster) -> None:
    for name in sorted(await cluster.pods()):
        if random.random() < 0.5:
            try:
                await cluster.api.evict(name, "default")
            except EvictionBlockedError:
                continue


async def scale(random: Random, cluster: SimulatedCluster) -> None:
    workloads: list[tuple[type[Any], str]] = [(Deployment, "web"), (StatefulSet, "db")]
    kind, name = random.choice(workloads)
    patch = {"spec": {"replicas": random.randint(0, 8 if name == "web" else 3)}}
    await cluster.api.patch(kind, name, patch, "default")


async def change_template(random: Random, cluster: SimulatedCluster) -> None:
    workloads: list[tuple[type[Any], str]] = [
        (Deployment, "web"),
        (StatefulSet, "db"),
        (DaemonSet, "agent"),
    ]
    kind, name = random.choice(workloads)
    annotations = {"version": str(random.randint(0, 9))}
    patch = {"spec": {"template": {"metadata": {"annotations": annotations}}}}
    await cluster.api.patch(kind, name, patch, "default")


def alive(cluster: SimulatedCluster) -> list[str]:
    instances = cluster.account.services.instances.list_alive()
    return [each.id for each in instances]


async def lose(random: Random, cluster: SimulatedCluster) -> None:
    cluster.components.lose(random.choice(alive(cluster)))


async def recover(random: Random, cluster: SimulatedCluster) -> None:
    cluster.components.recover(random.choice(alive(cluster)))


async def end(random: Random, cluster: SimulatedCluster) -> None:
    if len(alive(cluster)) > 1:
        cluster.terminate(random.choice(alive(cluster)))


async def remove_node(random: Random, cluster: SimulatedCluster) -> None:
    nodes = sorted(await cluster.nodes())
    if nodes:
        await cluster.api.delete(Node, random.choice(nodes))


async def bring_back(cluster: SimulatedCluster) -> None:
    """Nodes without an instance are removed, as our controllers would; every zone gets a node."""
    for instance in alive(cluster):
        cluster.components.recover(instance)
    running = set(alive(cluster))
    for name, node in (await cluster.nodes()).items():
        if node.spec.providerID.rpartition("/")[2] not in running:
            await cluster.api.delete(Node, name)
    for subnet in subnets(cluster):
        cluster.launch("m5.2xlarge", subnet=subnet)
        cluster.launch("m5.2xlarge", subnet=subnet)


async def require_rest(cluster: SimulatedCluster) -> None:
    assert cluster.components.next_due is None
    pods = (await cluster.pods()).values()
    assert {each.status.phase for each in pods} <= {"Running"}
    assert not any(each.metadata.deletionTimestamp for each in pods)
    await require_workloads(cluster)
    await require_room(cluster)
    await require_volumes(cluster)
    await require_budget(cluster)


async def require_workloads(cluster: SimulatedCluster) -> None:
    pods = await cluster.pods()
    web = await cluster.api.get(Deployment, "web", "default")
    database = await cluster.api.get(StatefulSet, "db", "default")
    agent = await cluster.api.get(DaemonSet, "agent", "default")
    names = [name for name in pods if name.startswith("db-")]
    assert names == [f"db-{number}" for number in range(database.spec.replicas or 0)]
    assert sum(name.startswith("web-") for name in pods) == web.spec.replicas
    daemons = [each.spec.nodeName for name, each in pods.items() if name.startswith("agent-")]
    assert sorted(daemons) == sorted(await cluster.nodes())
    for name, owner in (("web", web), ("db", database), ("agent", agent)):
        expected = (owner.spec.template.metadata.annotations or {}).get("version")
        found = {
            (each.metadata.annotations or {}).get("version")
            for key, each in pods.items()
            if key.startswith(f"{name}-")
        }
        assert found <= {expected}


async def require_room(cluster: SimulatedCluster) -> None:
    used: dict[str, int] = {}
    for each in (await cluster.pods()).values():
        assert each.spec.nodeName in await cluster.nodes()
        for container in each.spec.containers or ():
            amount = to_quantity((container.resources.requests or {})["cpu"]).milli
            used[each.spec.nodeName] = used.get(each.spec.nodeName, 0) + amount
    for name, node in (await cluster.nodes()).items():
        offered = to_quantity((node.status.allocatable or {})["cpu"]).milli
        assert used.get(name, 0) <= offered


async def require_volumes(cluster: SimulatedCluster) -> None:
    claims = {
        each.metadata.name: each.spec.volumeName
        for each in (await cluster.api.list(PersistentVolumeClaim)).items
    }
    expected = {
        (claims[f"data-{name}"], each.spec.nodeName)
        for name, each in (await cluster.pods()).items()
        if name.startswith("db-")
    }
    found: list[Any] = list((await cluster.api.list(VolumeAttachment)).items)
    attached = [(each.spec.source.persistentVolumeName, each.spec.nodeName) for each in found]
    assert set(attached) == expected
    assert len(attached) == len(expected)
    volumes = {each.metadata.name for each in (await cluster.api.list(PersistentVolume)).items}
    assert volumes == {volume for volume in claims.values() if volume}


async def require_budget(cluster: SimulatedCluster) -> None:
    web = await cluster.api.get(Deployment, "web", "default")
    status = (await cluster.api.get(PodDisruptionBudget, "web", "default")).status
    pods = [each for name, each in (await cluster.pods()).items() if name.startswith("web-")]
    expected = (web.spec.replicas or 0) if pods else 0
    unavailable = -(-30 * expected // 100)
    assert status.expectedPods == expected
    assert status.currentHealthy == sum(map(is_ready, pods)) == len(pods)
    assert status.desiredHealthy == expected - unavailable
    assert status.disruptionsAllowed == min(unavailable, len(pods))
    assert not status.disruptedPods
