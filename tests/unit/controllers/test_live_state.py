"""The state that decisions are made on: usage of nodes, nominations, and missed events."""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.controlled_cluster import node_pool, pending_pod

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.cluster import Node, NodeSpec, NodeStatus
from wainwright.api.kubernetes.storage import PersistentVolume, PersistentVolumeClaim
from wainwright.api.kubernetes.workloads import Pod
from wainwright.api.wire import ObjectMeta
from wainwright.clock import VirtualClock
from wainwright.controllers.informer_cache import InformerCache
from wainwright.controllers.live_state import LiveState
from wainwright.controllers.manager import WATCHED_KINDS
from wainwright.model.pod import VolumeAttachment
from wainwright.model.snapshot import Node as ModelNode
from wainwright.model.snapshot import Snapshot
from wainwright.sim.api_server import InMemoryApiServer
from wainwright.translate.cluster_state import ClusterState

Story = Callable[[InMemoryApiServer, LiveState, VirtualClock], Coroutine[Any, Any, None]]


def run(story: Story) -> None:
    clock = VirtualClock()

    async def main() -> None:
        api = InMemoryApiServer(clock)
        cache = InformerCache(api, clock, WATCHED_KINDS)
        state = LiveState(cache, clock)
        watching = asyncio.create_task(cache.run())
        await cache.wait_until_listed()
        await api.create(node_pool())
        try:
            await story(api, state, clock)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    try:
        clock.run(main())
    finally:
        clock.close()


def _node(name: str, provider_id: str = "") -> Node:
    room = {"cpu": "4", "memory": "8Gi", "pods": "20"}
    labels = {"karpenter.sh/nodepool": "web", "kubernetes.io/hostname": name}
    return Node(
        metadata=ObjectMeta(name=name, labels=labels),
        spec=NodeSpec(providerID=provider_id),
        status=NodeStatus(capacity=dict(room), allocatable=dict(room)),
    )


def _claim(name: str) -> NodeClaim:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    manifest = {
        "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "web"}},
        "spec": {"nodeClassRef": reference, "requirements": []},
    }
    return msgspec.convert(manifest, NodeClaim, strict=False)


async def _bound(api: InMemoryApiServer, pod: Pod, node: str) -> None:
    await api.create(pod)
    await api.bind(pod.metadata.name, "default", node)


def _found(snapshot: Snapshot, name: str) -> ModelNode:
    (node,) = [each for each in snapshot.nodes if each.name == name]
    return node


def test_sta_2_pods_of_a_node_count_until_they_end_and_daemons_are_known_as_such() -> None:
    async def story(api: InMemoryApiServer, state: LiveState, clock: VirtualClock) -> None:
        await api.create(_node("n1"))
        daemon = {"kind": "DaemonSet", "apiVersion": "apps/v1", "name": "agent", "uid": "u"}
        owners: dict[str, Any] = {"metadata": {"ownerReferences": [{**daemon, "controller": True}]}}
        await _bound(api, pending_pod("web-0"), "n1")
        await _bound(api, pending_pod("done"), "n1")
        await api.patch_status(Pod, "done", {"status": {"phase": "Succeeded"}}, "default")
        api.load([msgspec.convert(_daemon_pod(owners), Pod, strict=False)])
        await clock.sleep(1)
        pods = _found(state.snapshot(), "n1").pods
        assert [(pod.name, pod.daemonset) for pod in pods] == [("agent-0", True), ("web-0", False)]

    run(story)


def _daemon_pod(owners: dict[str, Any]) -> dict[str, Any]:
    manifest: dict[str, Any] = msgspec.to_builtins(pending_pod("agent-0"))
    manifest["metadata"] |= owners["metadata"]
    manifest["spec"]["nodeName"] = "n1"
    return manifest


def test_sta_2_host_ports_of_pods_survive_an_update_of_the_claim() -> None:
    async def story(api: InMemoryApiServer, state: LiveState, clock: VirtualClock) -> None:
        await api.create(_claim("web-1"))
        provider_id = "aws:///us-east-1a/i-1"
        await api.patch_status(NodeClaim, "web-1", {"status": {"providerID": provider_id}})
        await api.create(_node("n1", provider_id))
        port = {"containerPort": 80, "hostPort": 80, "protocol": "TCP"}
        container = {"name": "main", "ports": [port]}
        await _bound(api, pending_pod("web-0", spec={"containers": [container]}), "n1")
        await clock.sleep(1)
        before = _found(state.snapshot(), "web-1").pods[0].constraints.ports
        await api.patch(NodeClaim, "web-1", {"metadata": {"labels": {"team": "web"}}})
        await clock.sleep(1)
        after = _found(state.snapshot(), "web-1")
        assert after.claim is not None
        assert after.claim.labels["team"] == "web"
        assert before
        assert after.pods[0].constraints.ports == before

    run(story)


def _volume_objects() -> tuple[PersistentVolumeClaim, PersistentVolume]:
    """A claim that is bound to a volume of a CSI driver."""
    modes, size = ["ReadWriteOnce"], {"storage": "1Gi"}
    claim = {
        "metadata": {"name": "data", "namespace": "default"},
        "spec": {"volumeName": "pv-1", "accessModes": modes, "resources": {"requests": size}},
    }
    source = {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"}
    volume = {
        "metadata": {"name": "pv-1"},
        "spec": {"csi": source, "accessModes": modes, "capacity": size},
    }
    return (
        msgspec.convert(claim, PersistentVolumeClaim, strict=False),
        msgspec.convert(volume, PersistentVolume, strict=False),
    )


def test_sta_2_volumes_of_pods_survive_an_update_of_claim_and_node() -> None:
    async def story(api: InMemoryApiServer, state: LiveState, clock: VirtualClock) -> None:
        await api.create(_claim("web-1"))
        provider_id = "aws:///us-east-1a/i-1"
        await api.patch_status(NodeClaim, "web-1", {"status": {"providerID": provider_id}})
        await api.create(_node("n1", provider_id))
        for obj in _volume_objects():
            await api.create(obj)
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
        await _bound(api, pending_pod("web-0", spec={"volumes": [volume]}), "n1")
        await clock.sleep(1)
        seen = [_found(state.snapshot(), "web-1").pods[0].constraints.attachments]
        await api.patch(NodeClaim, "web-1", {"metadata": {"labels": {"team": "web"}}})
        await clock.sleep(1)
        seen.append(_found(state.snapshot(), "web-1").pods[0].constraints.attachments)
        await api.patch(Node, "n1", {"metadata": {"labels": {"team": "web"}}})
        await clock.sleep(1)
        seen.append(_found(state.snapshot(), "web-1").pods[0].constraints.attachments)
        assert seen == [(VolumeAttachment(driver="ebs.csi.aws.com", volume="vol-1"),)] * 3

    run(story)


def test_sta_3_a_nomination_lasts_for_its_time() -> None:
    async def story(_: InMemoryApiServer, state: LiveState, clock: VirtualClock) -> None:
        state.nominate("n1", 20)
        await clock.sleep(15)
        state.nominate("n2", 20)
        assert state.nominated() == {"n1", "n2"}
        assert state.next_nomination_end == clock.now() + 5
        await clock.sleep(5)
        assert state.nominated() == {"n2"}
        state.nominate("n2", 20)
        await clock.sleep(19)
        assert state.nominated() == {"n2"}, "nominated again, it is kept from then on"

    run(story)


def test_sta_3_a_node_that_keeps_its_pods_is_not_being_deleted_meanwhile() -> None:
    async def story(api: InMemoryApiServer, state: LiveState, clock: VirtualClock) -> None:
        await api.create(_node("n1"))
        await api.patch(Node, "n1", {"spec": {"taints": [DISRUPTED]}})
        await clock.sleep(1)
        with state.keep_pods(["n1"]):
            kept = _found(state.snapshot(), "n1").deleting
        assert (kept, _found(state.snapshot(), "n1").deleting) == (False, True)

    run(story)


def test_sta_3_a_node_that_a_command_of_a_killed_process_tainted_keeps_its_pods() -> None:
    """Until it is set free: a plan made in between would launch a node that nobody needs."""

    async def story(api: InMemoryApiServer, state: LiveState, clock: VirtualClock) -> None:
        await _tainted_with_claims(api, "n1", "n2")
        await clock.sleep(1)
        state.take_nodes(["n2"])
        assert _deleting(state) == {"n1": False, "n2": True}
        state.release_nodes(["n2"])
        assert _deleting(state) == {"n1": False, "n2": False}
        await api.patch(NodeClaim, "n1", {"metadata": {"finalizers": ["tests/kept"]}})
        await api.delete(NodeClaim, "n1")
        await clock.sleep(1)
        assert _deleting(state) == {"n1": True, "n2": False}

    run(story)


def test_sta_3_a_tainted_node_without_a_claim_is_nobody_s_to_set_free() -> None:
    async def story(api: InMemoryApiServer, state: LiveState, clock: VirtualClock) -> None:
        await api.create(_node("n1"))
        await api.patch(Node, "n1", {"spec": {"taints": [DISRUPTED]}})
        await clock.sleep(1)
        assert _deleting(state) == {"n1": True}

    run(story)


DISRUPTED = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}


async def _tainted_with_claims(api: InMemoryApiServer, *names: str) -> None:
    """Nodes as a command marks them."""
    for name in names:
        provider_id = f"aws:///us-east-1a/{name}"
        await api.create(_claim(name))
        await api.patch_status(NodeClaim, name, {"status": {"providerID": provider_id}})
        await api.create(_node(name, provider_id))
        await api.patch(Node, name, {"spec": {"taints": [DISRUPTED]}})


def _deleting(state: LiveState) -> dict[str, bool]:
    return {each.name: each.deleting for each in state.snapshot().nodes}


def _apart() -> Pod:
    """A pod that keeps others of its kind away from its node."""
    term = {
        "labelSelector": {"matchLabels": {"app": "web"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    rules = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    metadata = {"labels": {"app": "web"}, "uid": "u-1"}
    return pending_pod("apart", metadata=metadata, spec={"affinity": rules, "nodeName": "n1"})


@pytest.mark.parametrize("first", ["pod", "node"])
def test_sta_3_anti_affinity_counts_whichever_of_pod_and_node_is_seen_first(first: str) -> None:
    """Kinds are watched one by one: a pod may be seen before its node, and after it is gone."""
    pod, node = _apart(), _node("n1")
    in_order: list[Pod | Node] = [pod, node] if first == "pod" else [node, pod]
    state, seen = ClusterState(), list[list[tuple[str, int]]]()
    state.apply(node_pool())

    def look() -> None:
        nodes = state.snapshot().snapshot.nodes
        rules = [
            (each.name, len(pod.constraints.anti_affinity)) for each in nodes for pod in each.pods
        ]
        seen.append(rules)

    for change in (state.apply, state.remove):
        for obj in in_order:
            change(obj)
            look()
    assert seen == [[], [("n1", 1)], [], []]
    state.apply(_node("n1"))
    look()
    assert seen[-1] == [], "a new node of that name has none of the pods of the old one"


async def _random_change(api: InMemoryApiServer, rng: Random, number: int) -> None:
    nodes = [each.metadata.name for each in (await api.list(Node)).items]
    pods = list((await api.list(Pod)).items)
    match rng.randrange(7):
        case 0:
            await api.create(_node(f"n{number}"))
        case 1 | 2:
            await api.create(pending_pod(f"web-{number}", cpu=f"{rng.randint(1, 9) * 100}m"))
        case 3 if pods and nodes:
            pod = rng.choice(pods)
            if not pod.spec.nodeName:
                await api.bind(pod.metadata.name, "default", rng.choice(nodes))
        case 4 if pods:
            name = rng.choice(pods).metadata.name
            await api.delete(Pod, name, "default", grace_period=0)
        case 5 if nodes:
            await api.delete(Node, rng.choice(nodes))
        case _:
            weight = {"spec": {"weight": rng.randint(1, 100)}}
            await api.patch(NodePool, "web", weight)


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32))
def test_sta_2_missed_events_are_made_good_by_listing_again(seed: int) -> None:
    """Watches that break, and a history that is lost, leave the state as if it had been built from
    the objects that there are.
    """

    async def story(api: InMemoryApiServer, state: LiveState, clock: VirtualClock) -> None:
        rng = Random(seed)
        for number in range(40):
            await _random_change(api, rng, number)
            if rng.random() < 0.2:
                await clock.sleep(0.1)
                state.snapshot()
            if rng.random() < 0.1:
                api.stop()
                await clock.sleep(rng.choice((0.1, 2.0)))
                api.start(forget_history=rng.random() < 0.7)
        await clock.sleep(60)
        fresh = ClusterState()
        for kind in (Node, Pod, NodePool):
            for obj in (await api.list(kind)).items:
                fresh.apply(obj)
        expected = fresh.snapshot(now=clock.now()).snapshot
        assert state.snapshot() == expected

    run(story)
