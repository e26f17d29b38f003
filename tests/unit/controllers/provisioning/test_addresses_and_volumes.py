"""Free addresses of subnets, and volumes that a node can attach, in plans and launches."""

from collections.abc import Iterable
from typing import Any

import msgspec
from tests.support.controlled_cluster import (
    ControlledCluster,
    node_pool,
    pending_pod,
    run_cluster,
)

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.kubernetes.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from wainwright.api.kubernetes.workloads import Pod
from wainwright.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE

TYPES = ["m5.large", "m5.xlarge"]
DRIVER = "ebs.csi.aws.com"


def set_free_addresses(cluster: ControlledCluster, free: int, *zones: str) -> None:
    """Other users of the subnets take addresses, or release them."""
    for subnet in cluster.account.services.network.state.subnets.values():
        if not zones or subnet.zone in zones:
            subnet.free = free


async def start(cluster: ControlledCluster, *types: str) -> None:
    values = [*(types or TYPES)]
    requirements = [{"key": INSTANCE_TYPE, "operator": "In", "values": values}]
    await cluster.set_up(node_pool(template={"spec": {"requirements": requirements}}))
    cluster.start()
    await cluster.wait(5)


def in_zone(name: str, zone: str) -> Pod:
    return pending_pod(name, spec={"nodeSelector": {ZONE: zone}})


def zones_of(claims: list[NodeClaim]) -> list[str]:
    return sorted((claim.metadata.labels or {}).get(ZONE, "") for claim in claims)


def test_aln_3_no_node_is_planned_in_a_zone_without_free_addresses() -> None:
    async def story(cluster: ControlledCluster) -> None:
        set_free_addresses(cluster, 0, "us-east-1a")
        await start(cluster)
        await cluster.create(in_zone("web-0", "us-east-1a"), in_zone("web-1", "us-east-1b"))
        await cluster.wait(60)
        assert zones_of(await cluster.claims()) == ["us-east-1b"]
        (event,) = await cluster.events("FailedScheduling")
        assert event.involvedObject.name == "web-0"
        set_free_addresses(cluster, 100, "us-east-1a")
        await cluster.wait(90)
        assert zones_of(await cluster.claims()) == ["us-east-1a", "us-east-1b"]

    run_cluster(story, instanceTypes=TYPES)


def test_aln_3_a_subnet_that_runs_full_between_two_looks_is_left_for_another_zone() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await start(cluster)
        set_free_addresses(cluster, 0)
        set_free_addresses(cluster, 100, "us-east-1c")
        await cluster.create(pending_pod())
        await cluster.wait(45)
        launched = [
            each for each in await cluster.claims() if each.status and each.status.providerID
        ]
        assert zones_of(launched) == ["us-east-1c"]
        assert len(cluster.instances()) == 1

    run_cluster(story, instanceTypes=TYPES)


def test_aln_3_more_nodes_than_a_zone_has_addresses_for_are_given_up_and_not_tried_for_ever() -> (
    None
):
    async def story(cluster: ControlledCluster) -> None:
        await start(cluster, "m5.large")
        set_free_addresses(cluster, 2, "us-east-1a")
        await cluster.wait(60)
        pods = [
            pending_pod(f"web-{n}", cpu="1500m", spec={"nodeSelector": {ZONE: "us-east-1a"}})
            for n in range(4)
        ]
        await cluster.create(*pods)
        await cluster.wait(120)
        assert len(cluster.instances()) == 2
        assert len(await cluster.claims()) == 2
        waiting = {each.involvedObject.name for each in await cluster.events("FailedScheduling")}
        assert len(waiting) == 2
        assert len(await cluster.events("InsufficientCapacityError")) <= 4

    run_cluster(story, instanceTypes=TYPES)


def volume_objects(count: int) -> list[Any]:
    """A claim for each pod, bound to its volume."""
    storage = {"metadata": {"name": "gp3"}, "provisioner": DRIVER}
    objects: list[Any] = [msgspec.convert(storage, StorageClass, strict=False)]
    for n in range(count):
        claim = {
            "metadata": {
                "name": f"data-{n}",
                "namespace": "default",
                "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
            },
            "spec": {
                "storageClassName": "gp3",
                "volumeName": f"pv-{n}",
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
        volume = {
            "metadata": {"name": f"pv-{n}"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": "1Gi"},
                "csi": {"driver": DRIVER, "volumeHandle": f"vol-{n}"},
                "claimRef": {"name": f"data-{n}", "namespace": "default"},
            },
        }
        objects.append(msgspec.convert(claim, PersistentVolumeClaim, strict=False))
        objects.append(msgspec.convert(volume, PersistentVolume, strict=False))
    return objects


def with_volumes(name: str, numbers: Iterable[int], cpu: str = "20m", **more: Any) -> Pod:
    volumes = [
        {"name": f"data-{n}", "persistentVolumeClaim": {"claimName": f"data-{n}"}} for n in numbers
    ]
    return pending_pod(name, cpu=cpu, memory="20Mi", spec={"volumes": volumes}, **more)


def with_volume(n: int) -> Pod:
    return with_volumes(f"db-{n}", [n])


def csi_node(name: str, limit: int) -> CSINode:
    driver = {"name": DRIVER, "nodeID": "i-1", "allocatable": {"count": limit}}
    content = {"metadata": {"name": name}, "spec": {"drivers": [driver]}}
    return msgspec.convert(content, CSINode, strict=False)


def test_vol_1_pods_whose_volumes_a_node_cannot_attach_get_another_node() -> None:
    """The node has cpu for all of them; its CSI driver attaches three volumes."""

    async def story(cluster: ControlledCluster) -> None:
        await start(cluster, "m5.large")
        await cluster.create(*volume_objects(5), pending_pod(cpu="100m"))
        await cluster.wait(15)
        node = await cluster.join(await cluster.claim())
        await cluster.bind("web-0", node.metadata.name)
        await cluster.create(csi_node(node.metadata.name, 3))
        await cluster.create(*map(with_volume, range(5)))
        await cluster.wait(15)
        assert len(await cluster.claims()) == 2
        events = [each.message for each in await cluster.events("Nominated")]
        assert sum(f"node/{node.metadata.name}" in each for each in events) == 3

    run_cluster(story, instanceTypes=TYPES)


def test_vol_1_new_nodes_are_planned_for_no_more_volumes_than_others_of_their_type_attach() -> None:
    """What the CSI driver reports of one node is expected of the next ones of its type, which have
    room for all pods: two of them are launched at once."""

    async def story(cluster: ControlledCluster) -> None:
        await start(cluster, "m5.large")
        await cluster.create(*volume_objects(9), pending_pod(cpu="100m"))
        await cluster.wait(15)
        node = await cluster.join(await cluster.claim())
        await cluster.bind("web-0", node.metadata.name)
        await cluster.create(csi_node(node.metadata.name, 3))
        await cluster.create(*map(with_volume, range(8)))
        await cluster.wait(15)
        assert len(await cluster.claims()) == 3
        # One of them has room for a third volume, though nothing has joined or reported anything.
        await cluster.create(with_volume(8))
        await cluster.wait(15)
        assert len(await cluster.claims()) == 3

    run_cluster(story, instanceTypes=TYPES)


def test_vol_1_before_any_node_reports_its_limit_that_of_the_instance_type_counts() -> None:
    """m5.large attaches 25 volumes of pods; cpu and addresses are there for all 27 pods."""

    async def story(cluster: ControlledCluster) -> None:
        await start(cluster, "m5.large")
        await cluster.create(*volume_objects(28), *map(with_volume, range(27)))
        await cluster.wait(15)
        assert len(await cluster.claims()) == 2
        # The second one has two volumes, and has not joined or reported anything.
        await cluster.create(with_volume(27))
        await cluster.wait(15)
        assert len(await cluster.claims()) == 2
        assert await cluster.events("FailedScheduling") == []

    run_cluster(story, instanceTypes=TYPES)


def test_vol_1_only_types_that_attach_the_volumes_of_the_pods_are_launched() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await start(cluster, "m5.large", "m7i.large")
        await cluster.create(*volume_objects(29), with_volumes("db", range(29)))
        await cluster.wait(15)
        types = {
            value
            for claim in await cluster.claims()
            for each in claim.spec.requirements
            if each.key == INSTANCE_TYPE
            for value in each.values or ()
        }
        assert types == {"m7i.large"}
        launched = cluster.account.services.instances.list_alive()
        assert {each.type for each in launched} == {"m7i.large"}

    run_cluster(story, instanceTypes=["m5.large", "m7i.large"])


def test_vol_1_a_pod_with_more_volumes_than_any_type_attaches_gets_the_reason_and_no_node() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await start(cluster, "m5.large")
        await cluster.create(*volume_objects(26), with_volumes("db", range(26)))
        await cluster.wait(60)
        assert await cluster.claims() == []
        (event,) = await cluster.events("FailedScheduling")
        assert "the pod has 26 volumes of ebs.csi.aws.com" in event.message
        assert "attach at most 25 (m5.large)" in event.message

    run_cluster(story, instanceTypes=TYPES)


def test_vol_1_what_nodes_of_another_type_report_does_not_count() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await start(cluster, "m5.large", "m5.xlarge")
        await cluster.create(*volume_objects(12), pending_pod(cpu="100m"))
        await cluster.wait(15)
        node = await cluster.join(await cluster.claim())
        await cluster.bind("web-0", node.metadata.name)
        await cluster.create(csi_node(node.metadata.name, 3))
        selector = {INSTANCE_TYPE: "m5.xlarge"}
        for pod in map(with_volume, range(12)):
            spec = msgspec.structs.replace(pod.spec, nodeSelector=selector)
            await cluster.create(msgspec.structs.replace(pod, spec=spec))
        await cluster.wait(15)
        assert len(await cluster.claims()) == 2

    run_cluster(story, instanceTypes=TYPES)


def test_vol_1_nodes_are_not_merged_into_one_that_cannot_attach_their_volumes() -> None:
    """A c5.xlarge costs less than two m5.large, and attaches 25 volumes by its type; but that of
    this cluster reports three, and six would have to be attached."""

    async def story(cluster: ControlledCluster) -> None:
        types = {"key": INSTANCE_TYPE, "operator": "In", "values": ["m5.large", "c5.xlarge"]}
        on_demand = {"key": CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}
        disruption = {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}
        template = {"spec": {"requirements": [types, on_demand]}}
        await cluster.set_up(node_pool(template=template, disruption=disruption))
        cluster.start()
        await cluster.create(*volume_objects(9))
        kept = {"karpenter.sh/do-not-disrupt": "true"}
        larger = with_volumes("larger", (6, 7, 8), metadata={"annotations": kept}, cpu="2")
        others = [with_volumes(f"db-{n}", [n], cpu="400m") for n in range(6)]
        for pods in ([larger], others[:3], others[3:]):
            await cluster.create(*pods)
            await cluster.wait(15)
            await join_with_limit(cluster, pods, 3)
        await cluster.wait(900)
        assert len(await cluster.claims()) == 3
        assert await cluster.events("DisruptionLaunching") == []

    run_cluster(story, instanceTypes=["m5.large", "c5.xlarge"])


async def join_with_limit(cluster: ControlledCluster, pods: Iterable[Pod], limit: int) -> None:
    """The claim that has no node yet gets one that reports this limit, and runs the pods."""
    joined = {node.spec.providerID for node in await cluster.nodes()}
    (claim,) = [
        each
        for each in await cluster.claims()
        if each.status and each.status.providerID not in joined
    ]
    node = await cluster.join(claim)
    await cluster.create(csi_node(node.metadata.name, limit))
    for pod in pods:
        await cluster.bind(pod.metadata.name, node.metadata.name)
