"""All components together: an API server that fails, the same run twice, and when it is quiet."""

import msgspec
import pytest
from tests.support.simulated_cluster import SimulatedCluster, node, play, workload

from wainwright.api.kubernetes.workloads import Deployment, Pod
from wainwright.sim.kubelet import KubeletOptions


def test_a_quiet_cluster_has_nothing_due() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(workload("Deployment", "web", 3))
        cluster.launch("m5.2xlarge")
        await cluster.wait(120)
        assert cluster.components.next_due is None
        before = (await cluster.api.list(Pod)).resource_version
        await cluster.wait(86_400)
        assert (await cluster.api.list(Pod)).resource_version == before

    play(story)


@pytest.mark.parametrize("forget_history", [False, True])
def test_components_go_on_where_they_were_after_an_outage_of_the_api_server(
    forget_history: bool,
) -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(workload("Deployment", "web", 3))
        await cluster.wait(1)
        cluster.api.stop()
        cluster.launch("m5.2xlarge")
        await cluster.wait(90)
        cluster.api.start(forget_history=forget_history)
        await cluster.wait(20)
        pods = (await cluster.pods()).values()
        assert [each.status.phase for each in pods] == ["Running"] * 3
        (found,) = (await cluster.nodes()).values()
        assert not found.spec.taints, "no node turns NotReady for it"

    play(story)


def test_what_was_deleted_during_an_outage_is_noticed_after_it() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(workload("Deployment", "web", 2))
        await cluster.wait(5)
        await cluster.api.delete(Pod, "web-0", "default", grace_period=0)
        cluster.api.stop()
        cluster.api.start(forget_history=True)
        await cluster.wait(10)
        found = await cluster.pods()
        assert sorted(found) == ["web-0", "web-1"]
        assert all(each.spec.nodeName == "a" for each in found.values())

    play(story, setup=lambda cluster: cluster.load(node("a")))


def test_the_same_seed_gives_the_same_cluster() -> None:
    seen: list[bytes] = []

    async def story(cluster: SimulatedCluster) -> None:
        await cluster.apply(workload("Deployment", "web", 20), workload("StatefulSet", "db", 3))
        await cluster.apply(workload("DaemonSet", "agent", template={"requests": {"cpu": "50m"}}))
        for _ in range(8):
            cluster.launch("m5.xlarge")
        await cluster.wait(100)
        await cluster.api.patch(Deployment, "web", {"spec": {"replicas": 9}}, "default")
        cluster.components.lose(sorted(cluster.account.services.instances.state.instances)[0])
        await cluster.wait(400)
        seen.append(msgspec.json.encode((await cluster.nodes(), await cluster.pods())))

    options = KubeletOptions(
        boot=(20, 60), ready=(1, 9), pod_start=(1, 5), pod_termination=(1, 20), never_join=0.1
    )
    for _ in range(2):
        play(story, options=options, seed=7)
    assert seen[0] == seen[1]
