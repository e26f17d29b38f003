"""Free addresses of subnets, and volumes that a node can attach, in plans and launches."""

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
from wainwright.model.labels import INSTANCE_TYPE, ZONE

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


def with_volume(n: int) -> Pod:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": f"data-{n}"}}]
    return pending_pod(f"db-{n}", cpu="100m", memory="100Mi", spec={"volumes": volumes})


def test_vol_1_pods_whose_volumes_a_node_cannot_attach_get_another_node() -> None:
    """The node has cpu for all of them; its CSI driver attaches three volumes."""

    async def story(cluster: ControlledCluster) -> None:
        await start(cluster, "m5.large")
        await cluster.create(*volume_objects(5), pending_pod(cpu="100m"))
        await cluster.wait(15)
        node = await cluster.join(await cluster.claim())
        await cluster.bind("web-0", node.metadata.name)
        limits = {"name": DRIVER, "nodeID": "i-1", "allocatable": {"count": 3}}
        csi_node = {"metadata": {"name": node.metadata.name}, "spec": {"drivers": [limits]}}
        await cluster.create(msgspec.convert(csi_node, CSINode, strict=False))
        await cluster.create(*map(with_volume, range(5)))
        await cluster.wait(15)
        assert len(await cluster.claims()) == 2
        events = [each.message for each in await cluster.events("Nominated")]
        assert sum(f"node/{node.metadata.name}" in each for each in events) == 3

    run_cluster(story, instanceTypes=TYPES)


def test_vol_1_new_nodes_are_planned_for_no_more_volumes_than_others_can_attach() -> None:
    """What the CSI driver reports of one node is expected of the next ones, which have room for
    all pods: two of them are launched at once."""

    async def story(cluster: ControlledCluster) -> None:
        await start(cluster, "m5.large")
        await cluster.create(*volume_objects(9), pending_pod(cpu="100m"))
        await cluster.wait(15)
        node = await cluster.join(await cluster.claim())
        await cluster.bind("web-0", node.metadata.name)
        limits = {"name": DRIVER, "nodeID": "i-1", "allocatable": {"count": 3}}
        csi_node = {"metadata": {"name": node.metadata.name}, "spec": {"drivers": [limits]}}
        await cluster.create(msgspec.convert(csi_node, CSINode, strict=False))
        await cluster.create(*map(with_volume, range(8)))
        await cluster.wait(15)
        assert len(await cluster.claims()) == 3
        # One of them has room for a third volume, though nothing has joined or reported anything.
        await cluster.create(with_volume(8))
        await cluster.wait(15)
        assert len(await cluster.claims()) == 3

    run_cluster(story, instanceTypes=TYPES)
