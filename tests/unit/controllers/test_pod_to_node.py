"""A pod without a node, from the claim to the node and to the end of it, with a restart between."""

from collections import Counter

from tests.support.claim_stories import ObservedCluster
from tests.support.controlled_cluster import ControlledCluster, conditions, pending_pod, run_cluster


async def _pod_on_node(cluster: ControlledCluster) -> None:
    await cluster.set_up()
    cluster.start()
    await cluster.wait(5)
    await cluster.create(pending_pod())
    await cluster.wait(20)


def test_a_pending_pod_gets_a_claim_and_an_instance() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await _pod_on_node(cluster)
        claim = await cluster.claim()
        assert conditions(claim)["Launched"] == ("True", "Launched")
        assert conditions(claim)["Registered"] == ("Unknown", "NodeNotFound")
        assert claim.status is not None
        assert [claim.status.providerID.rpartition("/")[2]] == cluster.instances()
        nominated = await cluster.events("Nominated")
        assert claim.metadata.name in nominated[0].message

    run_cluster(story)


def test_a_restart_neither_loses_nor_repeats_a_launch() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await _pod_on_node(cluster)
        before = await cluster.claim()
        await cluster.kill()
        await cluster.wait(5)
        cluster.start()
        await cluster.wait(60)
        claim = await cluster.claim()
        assert claim.metadata.name == before.metadata.name
        assert len(cluster.instances()) == 1

    run_cluster(story)


def test_a_node_that_joins_is_registered_and_initialized() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await _pod_on_node(cluster)
        node = await cluster.join(await cluster.claim())
        await cluster.wait(1)
        claim = await cluster.claim()
        assert {conditions(claim)[each][0] for each in ("Registered", "Initialized", "Ready")} == {
            "True"
        }
        (node,) = await cluster.nodes()
        assert node.spec.taints is None or not node.spec.taints
        labels = node.metadata.labels or {}
        assert labels["karpenter.sh/registered"] == labels["karpenter.sh/initialized"] == "true"
        assert node.metadata.finalizers == ["karpenter.sh/termination"]

    run_cluster(story)


def test_what_a_claim_costs_the_api_server_from_its_creation_to_a_node_with_a_pod() -> None:
    async def story(cluster: ControlledCluster) -> None:
        written: list[str] = []

        def note(verb: str, kind: str, _: object) -> None:
            if kind in ("Node", "NodeClaim") and verb not in ("list", "watch"):
                written.append(f"{verb} {kind}")

        cluster.port = ObservedCluster(cluster.api, note)
        await _pod_on_node(cluster)
        node = await cluster.join(await cluster.claim())
        await cluster.bind("web-0", node.metadata.name)
        await cluster.wait(60)
        assert Counter(written) == {
            "create NodeClaim": 1,
            "patch NodeClaim": 3,  # the launch record, what was launched, that it was tagged
            # Launched, Registered with Initialized and what follows from it, the pod's binding,
            # Consolidatable:
            "patch_status NodeClaim": 4,
            "patch Node": 1,  # registered and initialized
        }

    run_cluster(story)


def test_an_empty_node_is_removed_with_its_instance() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await _pod_on_node(cluster)
        node = await cluster.join(await cluster.claim())
        await cluster.bind("web-0", node.metadata.name)
        await cluster.wait(60)
        assert len(await cluster.nodes()) == 1
        await cluster.api.delete(type(pending_pod()), "web-0", "default")
        await cluster.stop_pods()
        await cluster.wait(120)
        assert await cluster.claims() == []
        assert await cluster.nodes() == []
        assert cluster.instances() == []

    run_cluster(story)
