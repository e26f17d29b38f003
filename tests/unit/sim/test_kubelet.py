"""Kubelets: from an instance to a node that runs pods, and what is left of a lost one."""

from typing import Any

import pytest
from tests.support.simulated_cluster import (
    Manifest,
    SimulatedCluster,
    Story,
    node,
    play,
    pod,
    workload,
)

from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.storage import CSINode
from wainwright.api.kubernetes.workloads import Pod
from wainwright.catalogue.instancetypes.attach_limits import attachable_volumes
from wainwright.catalogue.instancetypes.instance_type_info import built_in_instance_types
from wainwright.catalogue.instancetypes.node_class_settings import NodeClassSettings
from wainwright.emulator.boot.user_data import BootFailureReason
from wainwright.sim.kubelet import KubeletOptions, attachable_disks

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"


def taints(found: Node) -> list[tuple[str, str]]:
    return sorted((each.key, each.effect) for each in found.spec.taints or ())


def ready(found: Node) -> str:
    return next(each.status for each in found.status.conditions or () if each.type == "Ready")


async def only_node(cluster: SimulatedCluster) -> Node:
    (found,) = (await cluster.nodes()).values()
    return found


# From an instance to a node


def test_an_instance_joins_after_its_boot_and_is_ready_a_little_later() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        unregistered = "karpenter.sh/unregistered:NoExecute"
        text = cluster.user_data(labels="team=red", taints=unregistered)
        instance = cluster.launch(user_data=text)
        await cluster.wait(39.9)
        assert await cluster.nodes() == {}
        assert cluster.components.next_due == pytest.approx(cluster.start + 40.001, abs=0.01)
        await cluster.wait(0.2)
        joined = await only_node(cluster)
        assert joined.metadata.name.startswith("ip-")
        assert joined.spec.providerID.endswith(f"/{instance}")
        assert (joined.metadata.labels or {})["team"] == "red"
        assert (joined.metadata.labels or {})["node.kubernetes.io/instance-type"] == "m5.large"
        assert ready(joined) == "False"
        assert taints(joined) == [
            ("karpenter.sh/unregistered", "NoExecute"),
            (NOT_READY, "NoExecute"),
            (NOT_READY, "NoSchedule"),
        ]
        await cluster.wait(5)
        assert ready(await only_node(cluster)) == "True"
        assert taints(await only_node(cluster)) == [("karpenter.sh/unregistered", "NoExecute")]

    play(story)


@pytest.mark.parametrize("seed", [1, 2])
def test_boot_times_are_drawn_from_the_seed(seed: int) -> None:
    moments: list[float] = []

    async def story(cluster: SimulatedCluster) -> None:
        for _ in range(3):
            cluster.launch()
        while len(await cluster.nodes()) < 3:
            await cluster.wait(0.5)
            moments.append(len(await cluster.nodes()))

    options = KubeletOptions(boot=(20.0, 60.0))
    play(story, options=options, seed=seed)
    first = list(moments)
    moments.clear()
    play(story, options=options, seed=seed)
    assert moments == first
    assert 20 <= len(moments) / 2 <= 60
    moments.clear()
    play(story, options=options, seed=seed + 10)
    assert moments != first


def test_a_share_of_the_instances_never_joins() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        for _ in range(40):
            cluster.launch()
        await cluster.wait(60)
        assert 5 < len(await cluster.nodes()) < 35
        before = len(await cluster.nodes())
        cluster.components.set_never_join(1.0)
        cluster.launch()
        await cluster.wait(60)
        assert len(await cluster.nodes()) == before
        cluster.components.set_never_join(0.0)
        cluster.launch()
        await cluster.wait(60)
        assert len(await cluster.nodes()) == before + 1

    play(story, options=KubeletOptions(never_join=0.5))


def test_an_instance_with_wrong_user_data_never_joins() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        instance = cluster.launch(user_data="#!/bin/bash")
        await cluster.wait(600)
        assert await cluster.nodes() == {}
        failure = cluster.components.kubelets.boot_failure(instance)
        assert failure is not None
        assert failure.reason is BootFailureReason.NO_BOOTSTRAP
        assert cluster.components.next_due is None

    play(story)


def test_an_instance_that_ends_while_it_boots_never_joins() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        instance = cluster.launch()
        await cluster.wait(20)
        cluster.terminate(instance)
        await cluster.wait(100)
        assert await cluster.nodes() == {}

    play(story)


def claim(instance_zone: str, instance: str, startup: list[dict[str, str]]) -> Manifest:
    class_ref = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": "claim"},
        "spec": {"nodeClassRef": class_ref, "requirements": [], "startupTaints": startup},
        "status": {"providerID": f"aws:///{instance_zone}/{instance}"},
    }


def test_startup_taints_vanish_when_the_node_is_ready_whoever_adds_them_again() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        text = cluster.user_data(taints="cni=wait:NoSchedule,team=red:NoSchedule")
        instance = cluster.launch(user_data=text)
        zone = cluster.account.services.instances.state.instances[instance].zone
        startup = [{"key": "cni", "value": "wait", "effect": "NoSchedule"}]
        cluster.load(claim(zone, instance, startup))
        await cluster.wait(44)
        assert ("cni", "NoSchedule") in taints(await only_node(cluster))
        await cluster.wait(2)
        assert taints(await only_node(cluster)) == [("team", "NoSchedule")]
        name = (await only_node(cluster)).metadata.name
        await cluster.api.patch(Node, name, {"spec": {"taints": startup}})
        await cluster.wait()
        assert taints(await only_node(cluster)) == []

    play(story)


def test_devices_appear_when_the_node_is_ready() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        cluster.launch("g4dn.xlarge")
        await cluster.wait(42)
        assert "nvidia.com/gpu" not in ((await only_node(cluster)).status.capacity or {})
        await cluster.wait(4)
        status = (await only_node(cluster)).status
        assert (status.capacity or {})["nvidia.com/gpu"] == "1"
        assert (status.allocatable or {})["nvidia.com/gpu"] == "1"

    play(story)


def test_an_instance_offers_what_its_claim_says() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        instance = cluster.launch(claim="claim")
        made = claim("us-east-1a", instance, [])
        resources = {"cpu": "2", "memory": "7000Mi", "pods": "29", "vpc.amazonaws.com/pod-eni": "9"}
        made["status"] |= {"capacity": resources, "allocatable": {**resources, "cpu": "1930m"}}
        cluster.load(made)
        await cluster.wait(42)
        expected = {name: resources[name] for name in ("cpu", "memory", "pods")}
        assert (await only_node(cluster)).status.capacity == expected
        await cluster.wait(10)
        assert (await only_node(cluster)).status.capacity == resources
        assert ((await only_node(cluster)).status.allocatable or {})["cpu"] == "1930m"

    play(story)


def test_every_instance_offers_less_where_that_is_said() -> None:
    memory: list[int] = []

    async def story(cluster: SimulatedCluster) -> None:
        cluster.launch()
        await cluster.wait(60)
        memory.append(int(((await only_node(cluster)).status.allocatable or {})["memory"]))

    play(story)
    play(story, options=KubeletOptions(less={"memory": "300Mi"}))
    assert memory[0] - memory[1] == 300 * 1024 * 1024


def test_instances_that_join_meanwhile_offer_less() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        cluster.launch()
        await cluster.wait(60)
        cluster.components.set_less({"cpu": "500m"})
        await cluster.wait(60)
        cluster.launch()
        await cluster.wait(60)
        cluster.components.set_less({})
        cluster.launch()
        await cluster.wait(60)
        nodes = (await cluster.nodes()).values()
        offered = sorted((each.status.allocatable or {})["cpu"] for each in nodes)
        assert offered == ["1430m", "1930m", "1930m"]

    play(story)


def test_csi_nodes_have_the_limit_of_attachments() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        cluster.launch()
        await cluster.wait(60)
        (found,) = (await cluster.api.list(CSINode)).items
        (driver,) = found.spec.drivers or []
        assert driver.name == "ebs.csi.aws.com"
        assert driver.allocatable is not None
        assert driver.allocatable.count == 7
        await cluster.api.delete(Node, found.metadata.name)
        assert (await cluster.api.list(CSINode)).items == []

    play(story, options=KubeletOptions(volumes=7))


def test_csi_nodes_have_the_limit_that_the_planner_expects_of_their_type() -> None:
    """Written apart from it, from the same facts."""
    plain = NodeClassSettings()
    for info in built_in_instance_types().values():
        assert attachable_disks(info, 1) == attachable_volumes(info, plain).amount, info.name

    async def story(cluster: SimulatedCluster) -> None:
        cluster.launch()
        await cluster.wait(60)
        (found,) = (await cluster.api.list(CSINode)).items
        (driver,) = found.spec.drivers or []
        assert driver.allocatable is not None
        instance_type = (await only_node(cluster)).metadata.labels or {}
        info = built_in_instance_types()[instance_type["node.kubernetes.io/instance-type"]]
        assert driver.allocatable.count == attachable_volumes(info, plain).amount

    play(story)


def test_an_instance_waits_for_the_name_of_an_earlier_one() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        instance = cluster.launch()
        address = cluster.account.services.instances.state.instances[instance].address
        name = f"ip-{address.replace('.', '-')}.ec2.internal"
        cluster.load(node(name))
        await cluster.wait(60)
        assert not (await only_node(cluster)).spec.providerID
        await cluster.api.delete(Node, name)
        await cluster.wait(6)
        joined = await only_node(cluster)
        assert joined.spec.providerID.endswith(instance)
        assert ready(joined) == "True"

    play(story)


def test_an_instance_does_not_register_again_when_its_node_is_deleted() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        instance = cluster.launch()
        await cluster.wait(60)
        cluster.components.lose(instance)
        await cluster.api.delete(Node, (await only_node(cluster)).metadata.name)
        cluster.components.recover(instance)
        await cluster.wait(60)
        assert await cluster.nodes() == {}

    play(story)


# Pods


def on_one_node(story: Story, **options: Any) -> None:
    play(
        story,
        options=KubeletOptions(**options),
        setup=lambda cluster: cluster.load(node("a"), node("b", zone="us-east-1b")),
    )


def test_a_bound_pod_runs_after_a_while() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(pod("web"))
        await cluster.wait(1.9)
        assert (await cluster.pods())["web"].status.phase == "Pending"
        await cluster.wait(0.2)
        status = (await cluster.pods())["web"].status
        conditions = {each.type: each.status for each in status.conditions or ()}
        assert status.phase == "Running"
        assert conditions == {
            "PodScheduled": "True",
            "Initialized": "True",
            "Ready": "True",
            "ContainersReady": "True",
        }

    on_one_node(story)


@pytest.mark.parametrize(
    ("termination", "grace", "expected"), [(5.0, 30, 5.0), (60.0, 30, 30.0), (60.0, 0, 0.0)]
)
def test_a_pod_is_gone_after_its_termination_or_its_grace_period(
    termination: float, grace: int, expected: float
) -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(pod("web", terminationGracePeriodSeconds=grace))
        await cluster.wait(3)
        await cluster.api.delete(Pod, "web", "default")
        await cluster.wait(max(0.0, expected - 0.1))
        assert ("web" in await cluster.pods()) is (expected > 0)
        await cluster.wait(0.2)
        assert await cluster.pods() == {}

    on_one_node(story, pod_termination=(termination, termination))


def test_a_grace_period_can_be_shortened() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(pod("web", terminationGracePeriodSeconds=600))
        await cluster.wait(3)
        await cluster.api.delete(Pod, "web", "default")
        await cluster.wait(100)
        await cluster.api.delete(Pod, "web", "default", grace_period=10)
        await cluster.wait(9)
        assert "web" in await cluster.pods()
        await cluster.wait(2)
        assert await cluster.pods() == {}

    on_one_node(story, pod_termination=(1000.0, 1000.0))


def test_a_pod_that_runs_for_a_time_succeeds_unless_it_is_restarted_always() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        annotations = {"wainwright.dev/runs-for": "1m30s"}
        await cluster.apply(
            pod("once", annotations=annotations, restartPolicy="Never"),
            pod("always", annotations=annotations),
            pod("endless", restartPolicy="Never"),
        )
        await cluster.wait(91)
        assert (await cluster.pods())["once"].status.phase == "Running"
        await cluster.wait(2)
        phases = {name: each.status.phase for name, each in (await cluster.pods()).items()}
        assert phases == {"once": "Succeeded", "always": "Running", "endless": "Running"}

    on_one_node(story)


# Lost instances


async def running_web(cluster: SimulatedCluster) -> str:
    """A Deployment and a StatefulSet of one pod on an instance of their own; its id."""
    instance = cluster.launch("m5.xlarge")
    await cluster.wait(50)
    await cluster.apply(workload("Deployment", "web", 1), workload("StatefulSet", "db", 1))
    await cluster.wait(5)
    assert {each.status.phase for each in (await cluster.pods()).values()} == {"Running"}
    return instance


def test_a_lost_instance_is_unknown_after_forty_seconds() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        instance = await running_web(cluster)
        cluster.components.lose(instance)
        await cluster.wait(39)
        assert ready(await only_node(cluster)) == "True"
        await cluster.wait(2)
        lost = await only_node(cluster)
        assert ready(lost) == "Unknown"
        assert taints(lost) == [(UNREACHABLE, "NoExecute"), (UNREACHABLE, "NoSchedule")]

    play(story)


def test_pods_of_a_lost_instance_are_deleted_after_five_minutes_and_stay_until_it_answers() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        instance = await running_web(cluster)
        cluster.components.lose(instance)
        await cluster.wait(338)
        assert sorted(await cluster.pods()) == ["db-0", "web-0"]
        await cluster.wait(4)
        pods = await cluster.pods()
        assert sorted(pods) == ["db-0", "web-0", "web-1"], "a Deployment replaces at once"
        assert pods["web-0"].metadata.deletionTimestamp is not None
        assert pods["db-0"].metadata.deletionTimestamp is not None
        assert pods["web-1"].spec.nodeName == ""
        await cluster.wait(3600)
        assert sorted(await cluster.pods()) == ["db-0", "web-0", "web-1"]
        cluster.components.recover(instance)
        await cluster.wait(10)
        assert ready(await only_node(cluster)) == "True"
        assert taints(await only_node(cluster)) == []
        found = await cluster.pods()
        assert sorted(found) == ["db-0", "web-1"], "a StatefulSet when the old pod is gone"
        assert {each.status.phase for each in found.values()} == {"Running"}

    play(story)


def test_an_instance_that_answers_again_in_time_is_as_before() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        instance = await running_web(cluster)
        cluster.components.lose(instance)
        await cluster.wait(60)
        cluster.components.recover(instance)
        await cluster.wait(600)
        assert sorted(await cluster.pods()) == ["db-0", "web-0"]
        assert taints(await only_node(cluster)) == []
        assert cluster.components.next_due is None

    play(story)


def test_an_instance_that_is_lost_while_it_boots_joins_when_it_answers() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        instance = cluster.launch()
        cluster.components.lose(instance)
        await cluster.wait(600)
        assert await cluster.nodes() == {}
        cluster.components.recover(instance)
        await cluster.wait(6)
        assert ready(await only_node(cluster)) == "True"

    play(story)


def test_an_instance_that_ends_takes_its_kubelet_with_it_but_not_its_node() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        instance = await running_web(cluster)
        cluster.terminate(instance)
        await cluster.wait(41)
        assert ready(await only_node(cluster)) == "Unknown"
        await cluster.wait(3600)
        assert len(await cluster.nodes()) == 1

    play(story)


def test_pods_go_with_a_deleted_node() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        instance = await running_web(cluster)
        cluster.terminate(instance)
        await cluster.wait(1)
        await cluster.api.delete(Node, (await only_node(cluster)).metadata.name)
        await cluster.wait()
        found = await cluster.pods()
        assert {name: each.spec.nodeName for name, each in found.items()} == {
            "db-0": "",
            "web-0": "",
        }

    play(story)


def test_a_node_without_an_instance_has_a_kubelet_too() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(pod("web", nodeSelector={"kubernetes.io/hostname": "a"}))
        await cluster.wait(3)
        assert (await cluster.pods())["web"].status.phase == "Running"
        cluster.components.lose("a")
        await cluster.wait(41)
        assert ready((await cluster.nodes())["a"]) == "Unknown"
        cluster.components.recover("a")
        await cluster.wait(1)
        assert ready((await cluster.nodes())["a"]) == "True"

    on_one_node(story)
