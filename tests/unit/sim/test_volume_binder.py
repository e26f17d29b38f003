"""Claims get volumes where their pods run, and nodes attach no more than they can."""

from typing import Any

import pytest
from tests.support.simulated_cluster import Manifest, SimulatedCluster, Story, node, play, pod

from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.operations import VolumeAttachment
from wainwright.api.kubernetes.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from wainwright.api.kubernetes.workloads import Pod
from wainwright.api.wire import WireStruct
from wainwright.sim.kubelet import KubeletOptions

ZONE = "topology.kubernetes.io/zone"
WAITING = "WaitForFirstConsumer"


def storage_class(name: str, mode: str = WAITING, **changes: Any) -> Manifest:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "ebs.csi.aws.com",
        "volumeBindingMode": mode,
        **changes,
    }


def claim(name: str, class_name: str = "ebs", **spec: Any) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "10Gi"}},
            "storageClassName": class_name,
            **spec,
        },
    }


def volume(name: str, class_name: str = "local", size: str = "10Gi", **spec: Any) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": size},
            "storageClassName": class_name,
            "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": f"vol-{name}"},
            **spec,
        },
    }


def in_zone(zone: str) -> dict[str, Any]:
    expression = {"key": ZONE, "operator": "In", "values": [zone]}
    terms = [{"matchExpressions": [expression]}]
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}


def using(name: str, *claims: str, **spec: Any) -> Manifest:
    volumes = [
        {"name": f"v{number}", "persistentVolumeClaim": {"claimName": each}}
        for number, each in enumerate(claims)
    ]
    return pod(name, volumes=volumes, **spec)


def in_two_zones(story: Story, *more: Manifest, **options: Any) -> None:
    def setup(cluster: SimulatedCluster) -> None:
        nodes = [node("a", zone="us-east-1a"), node("b", zone="us-east-1b")]
        cluster.load(*nodes, storage_class("ebs"), *more)

    play(story, setup=setup, options=KubeletOptions(**options))


async def listed(cluster: SimulatedCluster, kind: type[WireStruct]) -> list[Any]:
    return list((await cluster.api.list(kind)).items)


async def why(cluster: SimulatedCluster, name: str) -> str:
    conditions = (await cluster.pods())[name].status.conditions or ()
    return next(each.message for each in conditions if each.type == "PodScheduled")


def zone_of(found: PersistentVolume) -> str:
    affinity = found.spec.nodeAffinity
    assert affinity is not None
    assert affinity.required is not None
    (term,) = affinity.required.nodeSelectorTerms or []
    (expression,) = term.matchExpressions or []
    (zone,) = expression.values or []
    return zone


def test_a_claim_that_waits_gets_its_volume_in_the_zone_of_the_pod() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(claim("data"))
        await cluster.wait(60)
        assert await listed(cluster, PersistentVolume) == []
        place = {"nodeSelector": {"kubernetes.io/hostname": "b"}}
        await cluster.apply(using("web", "data", **place))
        await cluster.wait(5)
        (made,) = await listed(cluster, PersistentVolume)
        assert zone_of(made) == "us-east-1b"
        bound = await cluster.api.get(PersistentVolumeClaim, "data", "default")
        assert (bound.status.phase, bound.spec.volumeName) == ("Bound", made.metadata.name)
        assert (await cluster.pods())["web"].status.phase == "Running"

    in_two_zones(story)


def test_a_pod_follows_its_volume() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(claim("data"), using("first", "data"))
        await cluster.wait(5)
        place = (await cluster.placements())["first"]
        await cluster.apply(using("second", "data"))
        await cluster.wait(5)
        assert (await cluster.placements())["second"] == place
        await cluster.api.patch(Node, place, {"spec": {"unschedulable": True}})
        await cluster.apply(using("third", "data"))
        await cluster.wait(5)
        assert (await cluster.placements())["third"] == ""
        assert "1 node(s) didn't match PersistentVolume's node affinity" in await why(
            cluster, "third"
        )

    in_two_zones(story)


def test_two_pods_of_one_new_claim_are_put_into_one_zone() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        shared = claim("data", accessModes=["ReadWriteMany"])
        await cluster.apply(shared, using("first", "data"), using("second", "data"))
        await cluster.wait(5)
        assert len(await listed(cluster, PersistentVolume)) == 1
        assert len(set((await cluster.placements()).values()) - {""}) == 1
        assert "" not in (await cluster.placements()).values()

    in_two_zones(story)


@pytest.mark.parametrize("zone", ["us-east-1a", "us-east-1b"])
def test_volumes_are_made_where_the_class_allows_them(zone: str) -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(claim("data", "zonal"), using("web", "data"))
        await cluster.wait(5)
        place = (await cluster.placements())["web"]
        assert ((await cluster.nodes())[place].metadata.labels or {})[ZONE] == zone

    topologies = [{"matchLabelExpressions": [{"key": ZONE, "values": [zone]}]}]
    in_two_zones(story, storage_class("zonal", allowedTopologies=topologies))


def test_a_claim_that_does_not_wait_gets_its_volume_at_once_and_the_pod_follows() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(claim("data", "now"))
        await cluster.wait()
        (made,) = await listed(cluster, PersistentVolume)
        await cluster.apply(using("web", "data"))
        await cluster.wait(5)
        place = (await cluster.placements())["web"]
        assert place == ("a" if zone_of(made) == "us-east-1a" else "b")

    topologies = [
        {"matchLabelExpressions": [{"key": ZONE, "values": ["us-east-1a", "us-east-1b"]}]}
    ]
    in_two_zones(story, storage_class("now", "Immediate", allowedTopologies=topologies))


def test_a_pod_waits_for_a_claim_that_is_not_there_or_not_bound() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(claim("stuck", "none"), using("web", "data"), using("db", "stuck"))
        await cluster.wait(5)
        assert 'persistentvolumeclaim "data" not found' in await why(cluster, "web")
        assert "unbound immediate PersistentVolumeClaims" in await why(cluster, "db")
        await cluster.apply(claim("data"))
        await cluster.wait(5)
        assert (await cluster.pods())["web"].status.phase == "Running"

    in_two_zones(story)


def test_a_volume_made_by_hand_is_bound_and_the_smallest_that_fits() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(claim("data", "local"), using("web", "data"))
        await cluster.wait(5)
        bound = await cluster.api.get(PersistentVolumeClaim, "data", "default")
        assert bound.spec.volumeName == "medium"
        assert (await cluster.placements())["web"] == "b"
        await cluster.apply(claim("more", "local", resources={"requests": {"storage": "1Ti"}}))
        await cluster.apply(using("large", "more"))
        await cluster.wait(5)
        assert "didn't find available persistent volumes to bind" in await why(cluster, "large")
        await cluster.apply(volume("huge", size="2Ti"))
        await cluster.wait(5)
        assert (await cluster.pods())["large"].status.phase == "Running"

    no_provisioner = storage_class("local", provisioner="kubernetes.io/no-provisioner")
    in_two_zones(
        story,
        no_provisioner,
        volume("small", size="1Gi", **in_zone("us-east-1b")),
        volume("large", size="100Gi", **in_zone("us-east-1b")),
        volume("medium", size="20Gi", **in_zone("us-east-1b")),
    )


def test_volumes_are_attached_while_a_pod_uses_them() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(claim("data"), using("web", "data"))
        await cluster.wait(5)
        (attached,) = await listed(cluster, VolumeAttachment)
        (made,) = await listed(cluster, PersistentVolume)
        assert attached.status.attached
        assert attached.spec.nodeName == (await cluster.placements())["web"]
        assert attached.spec.source.persistentVolumeName == made.metadata.name
        await cluster.api.delete(Pod, "web", "default")
        await cluster.wait(4)
        assert len(await listed(cluster, VolumeAttachment)) == 1, "until the pod is gone"
        await cluster.wait(2)
        assert await listed(cluster, VolumeAttachment) == []
        assert len(await listed(cluster, PersistentVolume)) == 1

    in_two_zones(story)


def test_a_volume_stays_attached_where_the_kubelet_does_not_answer() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(claim("data"), using("web", "data"))
        await cluster.wait(5)
        place = (await cluster.placements())["web"]
        cluster.components.lose(place)
        await cluster.wait(3600)
        assert len(await listed(cluster, VolumeAttachment)) == 1
        await cluster.api.delete(Node, place)
        await cluster.wait(1)
        assert await listed(cluster, VolumeAttachment) == []

    in_two_zones(story)


def test_a_node_attaches_as_many_volumes_as_it_can() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        cluster.launch("m5.2xlarge")
        await cluster.wait(60)
        for number in range(3):
            await cluster.apply(claim(f"data-{number}"), using(f"web-{number}", f"data-{number}"))
        await cluster.wait(5)
        assert sorted(map(bool, (await cluster.placements()).values())) == [False, True, True]
        waiting = next(name for name, place in (await cluster.placements()).items() if not place)
        assert "node(s) exceed max volume count" in await why(cluster, waiting)
        other = next(name for name, place in (await cluster.placements()).items() if place)
        await cluster.api.delete(Pod, other, "default")
        await cluster.wait(20)
        assert (await cluster.placements())[waiting]

    play(
        story,
        setup=lambda cluster: cluster.load(storage_class("ebs")),
        options=KubeletOptions(volumes=2),
    )


def test_ephemeral_volumes_come_and_go_with_their_pod() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        template = {"spec": claim("x")["spec"]}
        volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]
        await cluster.apply(pod("web", volumes=volumes))
        await cluster.wait(5)
        assert (await cluster.pods())["web"].status.phase == "Running"
        (made,) = await listed(cluster, PersistentVolumeClaim)
        assert made.metadata.name == "web-scratch"
        await cluster.api.delete(Pod, "web", "default")
        await cluster.wait(10)
        for kind in (PersistentVolumeClaim, PersistentVolume, VolumeAttachment):
            assert await listed(cluster, kind) == []

    in_two_zones(story)


def test_the_default_class_is_taken_where_a_claim_names_none() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        unnamed = claim("data")
        del unnamed["spec"]["storageClassName"]
        await cluster.apply(unnamed, using("web", "data"))
        await cluster.wait(5)
        assert "unbound immediate" in await why(cluster, "web")
        default = {"storageclass.kubernetes.io/is-default-class": "true"}
        await cluster.api.patch(StorageClass, "ebs", {"metadata": {"annotations": default}})
        await cluster.wait(5)
        assert (await cluster.pods())["web"].status.phase == "Running"

    in_two_zones(story)
