"""The end of claims and nodes: rows L26 to L29, T1 to T4, T8 to T13, and the TRM rows."""

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import msgspec
import pytest
from tests.support.claim_stories import (
    FOREIGN_REF,
    ControllersAlone,
    ObservedCluster,
    begin,
    failing,
    initialized,
    launched,
    node_claim,
    record_calls,
)
from tests.support.controlled_cluster import (
    ControlledCluster,
    conditions,
    pending_pod,
    run_cluster,
)

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.kubernetes.cluster import (
    Node,
    NodeSpec,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
)
from wainwright.api.kubernetes.meta import LabelSelector
from wainwright.api.kubernetes.operations import (
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
)
from wainwright.api.kubernetes.storage import PersistentVolumeClaim
from wainwright.api.kubernetes.workloads import Pod
from wainwright.api.wire import ObjectMeta
from wainwright.clock import format_timestamp
from wainwright.cluster import Cluster
from wainwright.controllers.node.node_termination import PodEviction
from wainwright.controllers.runtime import Again, Poll
from wainwright.errors import (
    EvictionBlockedError,
    KubernetesError,
    ServerUnavailableError,
    TooManyRequestsError,
)
from wainwright.metrics import (
    EVICTION_REQUESTS,
    INSTANCE_TERMINATION_SECONDS,
    NODECLAIMS_TERMINATED,
    NODECLAIMS_TERMINATION_SECONDS,
    NODES_DRAINED,
    NODES_LIFETIME_SECONDS,
    NODES_TERMINATED,
    NODES_TERMINATION_SECONDS,
    PODS_DRAINED,
)
from wainwright.translate.object_metadata import parse_timestamp

OURS = {"karpenter.k8s.aws/ec2nodeclass": "default", "karpenter.sh/nodepool": "web"}
FINALIZER = "karpenter.sh/termination"


async def _with_pods(cluster: ControlledCluster, node: str, *pods: Pod) -> None:
    await cluster.create(*pods)
    for pod in pods:
        await cluster.bind(pod.metadata.name, node)
        running = {"status": {"phase": "Running"}}
        await cluster.api.patch_status(Pod, pod.metadata.name, running, "default")
    await cluster.wait(1)


async def _pod_names(cluster: ControlledCluster) -> list[str]:
    return [pod.metadata.name for pod in await cluster.pods()]


async def _node(cluster: ControlledCluster) -> Node:
    (found,) = await cluster.nodes()
    return found


def _node_of_nobody(name: str = "stray", **metadata: Any) -> Node:
    return Node(
        metadata=ObjectMeta(name=name, finalizers=[FINALIZER], labels=OURS, **metadata),
        spec=NodeSpec(providerID=f"aws:///us-east-1a/i-{name}"),
    )


def _tolerant() -> dict[str, Any]:
    return {"tolerations": [{"key": "karpenter.sh/disrupted", "operator": "Exists"}]}


# The claim


def test_l26_the_node_of_an_unregistered_claim_is_left_alone() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        claim = await launched(cluster)
        await cluster.kill()
        for name in ("a", "b"):
            await cluster.join(claim, metadata={"name": name})
        cluster.start()
        await cluster.wait(5)
        await cluster.api.delete(NodeClaim, claim.metadata.name)
        await cluster.wait(30)
        assert await cluster.claims() == []
        assert [node.metadata.deletionTimestamp for node in await cluster.nodes()] == [None, None]
        assert cluster.instances() == []

    run_cluster(story)


def test_l26_the_claim_waits_for_the_last_of_its_nodes() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        claim, _ = await initialized(cluster)
        for name in ("b", "c"):
            await cluster.join(claim, metadata={"name": name, "finalizers": ["example.com/keep"]})
        await cluster.api.delete(NodeClaim, claim.metadata.name)
        await cluster.wait(60)
        nodes = await cluster.nodes()
        assert all(node.metadata.deletionTimestamp for node in nodes)
        assert {"b", "c"} <= {node.metadata.name for node in nodes}
        for name in ("b", "c"):
            assert len(await cluster.claims()) == 1
            await cluster.api.patch(Node, name, {"metadata": {"finalizers": None}})
            await cluster.wait(20)
        assert await cluster.claims() == []

    run_cluster(story)


def test_l27_the_claim_goes_when_the_provider_no_longer_finds_the_instance() -> None:
    async def story(cluster: ControlledCluster) -> None:
        cluster.account.change({"pace": {"shutdown": {"median": 60}}})
        await begin(cluster)
        claim = await launched(cluster)
        calls = record_calls(cluster)
        await cluster.kill()
        cluster.start()
        await cluster.wait(5)
        await cluster.api.delete(NodeClaim, claim.metadata.name)
        await cluster.wait(2)
        found = await cluster.claim()
        assert conditions(found)["InstanceTerminating"] == ("True", "InstanceTerminating")
        assert conditions(found)["Ready"] == conditions(claim)["Ready"]
        del calls[:]
        await cluster.wait(40)
        looks = [moment for moment, verb, _ in calls if verb == "DescribeInstances"]
        assert 7 <= len(looks) <= 9  # every five seconds
        assert len(await cluster.claims()) == 1
        await cluster.wait(40)
        assert await cluster.claims() == []
        labels = {"nodepool": "web"}
        assert cluster.metrics.distribution(NODECLAIMS_TERMINATION_SECONDS, **labels).count == 1
        ended = cluster.metrics.distribution(INSTANCE_TERMINATION_SECONDS, **labels)
        assert 55 <= ended.total <= 70
        zone = (claim.metadata.labels or {})["topology.kubernetes.io/zone"]
        counted = {**labels, "capacity_type": "on-demand", "zone": zone}
        assert cluster.metrics.value(NODECLAIMS_TERMINATED, **counted) == 1

    run_cluster(story)


def test_l27_an_error_of_the_provider_keeps_the_claim_and_is_repeated() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        claim = await launched(cluster)
        denied = {"operation": "TerminateInstances", "code": "UnauthorizedOperation"}
        cluster.account.change({"faults": [denied]})
        await cluster.api.delete(NodeClaim, claim.metadata.name)
        await cluster.wait(60)
        assert len(await cluster.claims()) == len(cluster.instances()) == 1
        (event, *_) = await cluster.events("FailedTermination")
        assert event.involvedObject.name == claim.metadata.name
        cluster.account.change({"faults": []})
        await cluster.wait(300)
        assert (await cluster.claims(), cluster.instances()) == ([], [])

    run_cluster(story)


def test_l27_a_claim_does_not_go_before_an_instance_that_was_never_written_down() -> None:
    """The process was killed between the launch and the write, and the claim deleted."""

    def is_status(verb: str, kind: str, _: Mapping[str, Any]) -> bool:
        return (verb, kind) == ("patch_status", "NodeClaim")

    async def story(cluster: ControlledCluster) -> None:
        error = ServerUnavailableError("etcd is away")
        cluster.port = failing(cluster, error, times=1000, where=is_status)
        await begin(cluster)
        await cluster.create(node_claim())
        await cluster.wait(5)
        await cluster.kill()
        assert len(cluster.instances()) == 1
        cluster.port = cluster.api
        await cluster.api.delete(NodeClaim, "web-1")
        cluster.start()
        while await cluster.claims():
            await cluster.wait(1)
        assert cluster.instances() == []

    run_cluster(story)


def test_l28_a_claim_that_was_not_launched_goes_without_the_provider_or_any_node() -> None:
    async def story(cluster: ControlledCluster) -> None:
        calls = record_calls(cluster)
        await begin(cluster)
        denied = {"operation": "CreateLaunchTemplate", "code": "UnauthorizedOperation"}
        cluster.account.change({"faults": [denied]})
        for n in range(10):
            await cluster.create(Node(metadata=ObjectMeta(name=f"bare-{n}")))
        await cluster.create(node_claim())
        await cluster.wait(10)
        del calls[:]
        await cluster.api.delete(NodeClaim, "web-1")
        await cluster.wait(10)
        assert await cluster.claims() == []
        assert len(await cluster.nodes()) == 10
        assert all(node.metadata.deletionTimestamp is None for node in await cluster.nodes())
        assert not {"TerminateInstances"} & {verb for _, verb, _ in calls}

    run_cluster(story)


def test_l29_the_deadline_is_the_deletion_and_the_grace_period() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        for name, grace_period in (("with", "5m"), ("without", None)):
            given = node_claim(name, terminationGracePeriod=grace_period)
            claim, node = await initialized(cluster, given)
            protected = pending_pod(
                f"pod-{name}", metadata={"annotations": {"karpenter.sh/do-not-disrupt": "true"}}
            )
            await _with_pods(cluster, node.metadata.name, protected)
            await cluster.api.delete(NodeClaim, claim.metadata.name)
        await cluster.wait(1)
        annotation = "karpenter.sh/nodeclaim-termination-timestamp"
        found = {claim.metadata.name: claim.metadata for claim in await cluster.claims()}
        assert annotation not in (found["without"].annotations or {})
        deadline = (found["with"].annotations or {})[annotation]
        deleted = parse_timestamp(found["with"].deletionTimestamp)
        assert deleted is not None
        assert deadline == format_timestamp(deleted + 300)
        (event,) = await cluster.events("TerminationGracePeriodExpiring")
        assert deadline in event.message

    run_cluster(story)


def test_l29_a_deadline_that_is_there_is_kept_byte_for_byte() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        stated = "2026-01-01T01:00:00+00:00"
        annotation = "karpenter.sh/nodeclaim-termination-timestamp"
        given = node_claim(
            terminationGracePeriod="5m", metadata={"annotations": {annotation: stated}}
        )
        claim, node = await initialized(cluster, given)
        await cluster.api.delete(NodeClaim, claim.metadata.name)
        await cluster.wait(2)
        assert ((await cluster.claim()).metadata.annotations or {})[annotation] == stated
        assert await cluster.events("TerminationGracePeriodExpiring") == []
        assert node.metadata.name == (await _node(cluster)).metadata.name

    run_cluster(story)


# The node


def test_trm_1_a_deleted_claim_drains_its_node_and_ends_its_instance() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        claim, node = await initialized(cluster)
        await _with_pods(cluster, node.metadata.name, pending_pod("web-0"))
        await cluster.api.delete(NodeClaim, claim.metadata.name)
        await cluster.wait(1)
        (node,) = await cluster.nodes()
        assert [(each.key, each.effect) for each in node.spec.taints or ()] == [
            ("karpenter.sh/disrupted", "NoSchedule")
        ]
        excluded = "node.kubernetes.io/exclude-from-external-load-balancers"
        assert (node.metadata.labels or {})[excluded] == "karpenter"
        (pod,) = await cluster.pods()
        assert pod.metadata.deletionTimestamp
        (event,) = await cluster.events("Evicted")
        assert event.involvedObject.name == "web-0"
        assert len(cluster.instances()) == 1
        await cluster.stop_pods()
        await cluster.wait(30)
        assert (await cluster.claims(), await cluster.nodes(), cluster.instances()) == ([], [], [])
        labels = {"nodepool": "web"}
        assert cluster.metrics.value(NODES_TERMINATED, **labels) == 1
        assert cluster.metrics.distribution(NODES_TERMINATION_SECONDS, **labels).count == 1
        assert 10 <= cluster.metrics.distribution(NODES_LIFETIME_SECONDS, **labels).total <= 60

    run_cluster(story)


@pytest.mark.parametrize("claims", [0, 2])
def test_t1_a_node_without_a_claim_or_with_two_is_drained_and_released_at_once(
    claims: int,
) -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        node = _node_of_nobody()
        held = [
            node_claim(f"held-{n}", metadata={"finalizers": ["example.com/hold"]})
            for n in range(claims)
        ]
        for claim in held:
            cluster.api.load([_already_launched(claim, node.spec.providerID)])
        await cluster.create(node)
        await cluster.set_ready("stray")
        await _with_pods(cluster, "stray", pending_pod())
        calls = record_calls(cluster)
        await cluster.kill()
        cluster.start()
        await cluster.wait(5)
        await cluster.api.delete(Node, "stray")
        await cluster.wait(0.5)
        (node,) = await cluster.nodes()
        assert [each.key for each in node.spec.taints or ()] == ["karpenter.sh/disrupted"]
        (pod,) = await cluster.pods()
        assert pod.metadata.deletionTimestamp
        await cluster.stop_pods()
        await cluster.wait(0.5)
        assert await cluster.nodes() == []  # less than the minimum of a drain
        deleted = [claim.metadata.deletionTimestamp for claim in await cluster.claims()]
        assert len(deleted) == claims
        assert all(deleted)
        assert "TerminateInstances" not in {verb for _, verb, _ in calls}

    run_cluster(story)


def _already_launched(claim: NodeClaim, provider_id: str) -> NodeClaim:
    stamp = "2026-01-01T00:00:00Z"
    written = [
        {"type": kind, "status": "True", "reason": kind, "lastTransitionTime": stamp}
        for kind in ("Launched", "Registered", "Initialized", "Ready")
    ]
    manifest = msgspec.to_builtins(claim)
    manifest["status"] = {"providerID": provider_id, "conditions": written}
    return msgspec.convert(manifest, NodeClaim, strict=False)


def test_t1_a_deleted_node_deletes_its_claim() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        _, node = await initialized(cluster)
        await cluster.api.delete(Node, node.metadata.name)
        await cluster.wait(1)
        assert (await cluster.claim()).metadata.deletionTimestamp
        await cluster.wait(30)
        assert (await cluster.claims(), await cluster.nodes(), cluster.instances()) == ([], [], [])

    run_cluster(story)


@pytest.mark.parametrize(("status", "is_asked"), [("True", False), ("False", True)])
def test_t2_the_provider_is_asked_for_the_instance_only_of_a_node_that_is_not_ready(
    status: str, is_asked: bool
) -> None:
    async def story(cluster: ControlledCluster) -> None:
        calls = record_calls(cluster)
        await begin(cluster)
        claim, node = await initialized(cluster)
        protected = pending_pod(metadata={"annotations": {"karpenter.sh/do-not-disrupt": "true"}})
        await _with_pods(cluster, node.metadata.name, protected)
        await cluster.set_ready(node.metadata.name, status)
        del calls[:]
        await cluster.api.delete(NodeClaim, claim.metadata.name)
        await cluster.wait(5)
        assert ("DescribeInstances" in {verb for _, verb, _ in calls}) is is_asked

    run_cluster(story)


@pytest.mark.parametrize(("status", "is_finished"), [("False", True), ("True", False)])
def test_trm_8_the_drain_ends_where_the_instance_is_gone_and_the_node_is_not_ready(
    status: str, is_finished: bool
) -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        claim, node = await initialized(cluster)
        protected = pending_pod(metadata={"annotations": {"karpenter.sh/do-not-disrupt": "true"}})
        await _with_pods(cluster, node.metadata.name, protected)
        cluster.account.services.instances.terminate(cluster.instances())
        await cluster.wait(10)
        await cluster.set_ready(node.metadata.name, status)
        await cluster.api.delete(NodeClaim, claim.metadata.name)
        await cluster.wait(30)
        assert (await cluster.nodes() == []) is is_finished
        assert (await cluster.claims() == []) is is_finished

    run_cluster(story)


def test_t3_the_conditions_of_a_drain_follow_its_stages() -> None:
    async def story(cluster: ControlledCluster) -> None:
        cluster.account.change({"pace": {"shutdown": {"median": 30}}})
        await begin(cluster)
        claim, node = await initialized(cluster)
        name = node.metadata.name
        await _with_pods(cluster, name, pending_pod())
        await cluster.create(_attachment("va", name, "pv-1"))
        await cluster.api.delete(NodeClaim, claim.metadata.name)
        await cluster.wait(7)
        assert conditions(await cluster.claim())["Drained"] == ("Unknown", "Draining")
        await cluster.stop_pods()
        await cluster.wait(0.1)
        state = conditions(await cluster.claim())
        assert state["Drained"][0] == "True"
        assert state["VolumesDetached"] == ("Unknown", "AwaitingVolumeDetachment")
        (event,) = await cluster.events("AwaitingVolumeDetachment")
        assert "pv-1" in event.message
        await cluster.wait(600)
        assert len(cluster.instances()) == 1
        await cluster.api.delete(VolumeAttachment, "va")
        await cluster.wait(0.1)
        state = conditions(await cluster.claim())
        assert state["VolumesDetached"][0] == "True"
        await cluster.wait(0.2)
        assert conditions(await cluster.claim())["InstanceTerminating"][0] == "True"

    run_cluster(story)


def _attachment(name: str, node: str, volume: str | None) -> VolumeAttachment:
    source = VolumeAttachmentSource(persistentVolumeName=volume)
    spec = VolumeAttachmentSpec(attacher="ebs.csi.aws.com", nodeName=node, source=source)
    return VolumeAttachment(metadata=ObjectMeta(name=name), spec=spec)


def test_trm_7_t3_volumes_are_not_awaited_beyond_the_deadline() -> None:
    async def story(cluster: ControlledCluster) -> None:
        cluster.account.change({"pace": {"shutdown": {"median": 30}}})
        await begin(cluster)
        claim, node = await initialized(cluster, node_claim(terminationGracePeriod="1m"))
        await cluster.create(_attachment("va", node.metadata.name, "pv-1"))
        await cluster.api.delete(NodeClaim, claim.metadata.name)
        await cluster.wait(58)
        assert conditions(await cluster.claim())["VolumesDetached"][0] == "Unknown"
        await cluster.wait(3)
        state = conditions(await cluster.claim())
        assert state["VolumesDetached"] == ("False", "TerminationGracePeriodElapsed")
        assert state["InstanceTerminating"][0] == "True"

    run_cluster(story)


def test_trm_7_t4_an_empty_node_is_drained_for_five_seconds() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        claim, _ = await initialized(cluster)
        await cluster.api.delete(NodeClaim, claim.metadata.name)
        await cluster.wait(3)
        state = conditions(await cluster.claim())
        assert state["Drained"] == ("Unknown", "Draining")
        assert "InstanceTerminating" not in state
        await cluster.wait(3)
        state = conditions(await cluster.claim())
        assert state["Drained"][0] == state["InstanceTerminating"][0] == "True"

    run_cluster(story)


# Pods that the watch has not shown


def test_a_node_that_only_looks_empty_is_drained_first() -> None:
    async def story(cluster: ControlledCluster) -> None:
        shown = {Pod: asyncio.Event()}
        shown[Pod].set()
        cluster.port = ObservedCluster(cluster.api, held=shown)
        await begin(cluster)
        claim, node = await initialized(cluster)
        shown[Pod].clear()
        await _with_pods(cluster, node.metadata.name, pending_pod("a"), pending_pod("b"))
        await cluster.api.delete(NodeClaim, claim.metadata.name)
        await cluster.wait(30)
        assert [bool(pod.metadata.deletionTimestamp) for pod in await cluster.pods()] == [True] * 2
        assert conditions(await cluster.claim())["Drained"] == ("Unknown", "Draining")
        assert len(cluster.instances()) == 1
        await cluster.stop_pods()
        shown[Pod].set()
        await cluster.wait(30)
        assert (await cluster.claims(), await cluster.nodes(), cluster.instances()) == ([], [], [])

    run_cluster(story)


def test_a_pod_that_came_unseen_while_volumes_were_awaited_is_drained_first() -> None:
    async def story(cluster: ControlledCluster) -> None:
        shown = {Pod: asyncio.Event()}
        shown[Pod].set()
        cluster.port = ObservedCluster(cluster.api, held=shown)
        await begin(cluster)
        claim, node = await initialized(cluster)
        await cluster.create(_attachment("va", node.metadata.name, "pv-1"))
        await cluster.api.delete(NodeClaim, claim.metadata.name)
        await cluster.wait(30)
        assert conditions(await cluster.claim())["Drained"][0] == "True"
        shown[Pod].clear()
        await _with_pods(cluster, node.metadata.name, pending_pod("a"))
        await cluster.api.delete(VolumeAttachment, "va")
        await cluster.wait(30)
        assert "InstanceTerminating" not in conditions(await cluster.claim())
        (pod,) = await cluster.pods()
        assert pod.metadata.deletionTimestamp
        await cluster.stop_pods()
        shown[Pod].set()
        await cluster.wait(30)
        assert (await cluster.claims(), cluster.instances()) == ([], [])

    run_cluster(story)


def test_a_node_of_no_claim_that_only_looks_empty_is_drained_first() -> None:
    async def story(cluster: ControlledCluster) -> None:
        shown = {Pod: asyncio.Event()}
        shown[Pod].set()
        cluster.port = ObservedCluster(cluster.api, held=shown)
        await begin(cluster)
        await cluster.create(_node_of_nobody())
        await cluster.wait(1)
        shown[Pod].clear()
        await _with_pods(cluster, "stray", pending_pod("a"))
        await cluster.api.delete(Node, "stray")
        await cluster.wait(30)
        assert len(await cluster.nodes()) == 1
        await cluster.stop_pods()
        shown[Pod].set()
        await cluster.wait(30)
        assert await cluster.nodes() == []

    run_cluster(story)


@pytest.mark.parametrize("volumes", [0, 1])
def test_the_pods_of_a_node_are_listed_once_and_once_more_after_waiting_for_volumes(
    volumes: int,
) -> None:
    async def story(cluster: ControlledCluster) -> None:
        cluster.account.change({"pace": {"shutdown": {"median": 60}}})
        calls = record_calls(cluster)
        await begin(cluster)
        claim, node = await initialized(cluster)
        await _with_pods(cluster, node.metadata.name, *(pending_pod(f"p-{n}") for n in range(3)))
        if volumes:
            await cluster.create(_attachment("va", node.metadata.name, "pv-1"))
        await cluster.api.delete(NodeClaim, claim.metadata.name)
        await cluster.wait(60)
        assert not [verb for _, verb, _ in calls if verb == "list_pods_on_node"]
        await cluster.stop_pods()
        await cluster.wait(60)
        if volumes:
            await cluster.api.delete(VolumeAttachment, "va")
        await cluster.wait(120)
        assert await cluster.claims() == []
        listed = [verb for _, verb, _ in calls if verb == "list_pods_on_node"]
        assert len(listed) == 1 + volumes

    run_cluster(story)


def test_t3_no_write_of_a_drain_is_refused_where_nobody_else_writes() -> None:
    async def story(cluster: ControlledCluster) -> None:
        asked: list[str] = []
        done: list[str] = []
        cluster.port = ObservedCluster(
            cluster.api,
            lambda verb, _, details: _note(asked, verb, details),
            lambda verb, _, details: _note(done, verb, details),
        )
        await begin(cluster)
        claim, _ = await initialized(cluster)
        asked.clear()
        done.clear()
        await cluster.api.delete(NodeClaim, claim.metadata.name)
        await cluster.wait(60)
        assert await cluster.claims() == []
        assert asked == done
        assert len(asked) >= 4

    run_cluster(story)


def _note(writes: list[str], verb: str, details: Mapping[str, Any]) -> None:
    if verb in ("patch", "patch_status"):
        writes.append(f"{verb} {details['name']} {details['patch']}")


# Evictions


async def _budget(cluster: ControlledCluster, allowed: int, name: str = "web") -> None:
    """A budget of all pods with the label app=web, as its controller has set it."""
    budget = PodDisruptionBudget(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=PodDisruptionBudgetSpec(selector=LabelSelector(matchLabels={"app": "web"})),
    )
    await cluster.create(budget)
    await _allow(cluster, allowed, name)


async def _allow(cluster: ControlledCluster, allowed: int, name: str = "web") -> None:
    status = {
        "disruptionsAllowed": allowed,
        "currentHealthy": 1 + allowed,
        "desiredHealthy": 1,
        "expectedPods": 1 + allowed,
        "observedGeneration": 1,
    }
    await cluster.api.patch_status(PodDisruptionBudget, name, {"status": status}, "default")


def _web(name: str = "web-0", **more: Any) -> Pod:
    return pending_pod(name, metadata={"labels": {"app": "web"}}, **more)


async def _make_ready(cluster: ControlledCluster, name: str) -> None:
    ready = [{"type": "Ready", "status": "True"}]
    await cluster.api.patch_status(Pod, name, {"status": {"conditions": ready}}, "default")


def test_trm_4_an_eviction_that_a_budget_forbids_is_repeated_until_it_is_allowed() -> None:
    async def story(cluster: ControlledCluster) -> None:
        calls = record_calls(cluster)
        await begin(cluster)
        claim, node = await initialized(cluster)
        await _with_pods(cluster, node.metadata.name, _web())
        await _make_ready(cluster, "web-0")
        await _budget(cluster, 0)
        await cluster.api.delete(NodeClaim, claim.metadata.name)
        await cluster.wait(60)
        tried = [moment for moment, verb, _ in calls if verb == "evict"]
        assert 0.07 <= tried[1] - tried[0] <= 0.11
        assert 7.9 <= tried[-1] - tried[-2] <= 10
        (event,) = await cluster.events("FailedDraining")
        assert (event.involvedObject.kind, event.involvedObject.name) == (
            "Node",
            node.metadata.name,
        )
        assert "default/web-0" in event.message
        await _allow(cluster, 1)
        await cluster.wait(10)
        await cluster.stop_pods()
        await cluster.wait(30)
        assert await cluster.nodes() == []
        assert cluster.metrics.value(EVICTION_REQUESTS, code="429") == len(tried)
        assert cluster.metrics.value(EVICTION_REQUESTS, code="201") == 1

    run_cluster(story)


def test_t8_two_budgets_for_a_pod_are_reported_and_the_eviction_repeated() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        claim, node = await initialized(cluster)
        await _with_pods(cluster, node.metadata.name, _web())
        await _make_ready(cluster, "web-0")
        await _budget(cluster, 1)
        await _budget(cluster, 1, "web-too")
        await cluster.api.delete(NodeClaim, claim.metadata.name)
        await cluster.wait(20)
        (event,) = await cluster.events("FailedDraining")
        assert "more than one PodDisruptionBudget" in event.message
        await cluster.api.delete(PodDisruptionBudget, "web-too", "default")
        await cluster.wait(10)
        (pod,) = await cluster.pods()
        assert pod.metadata.deletionTimestamp

    run_cluster(story)


def test_t8_an_eviction_has_the_uid_and_other_errors_are_repeated_without_an_event() -> None:
    async def story(cluster: ControlledCluster) -> None:
        def is_eviction(verb: str, _: str, details: Mapping[str, Any]) -> bool:
            if verb == "evict":
                uids.append(details["uid"])
            return verb == "evict"

        uids: list[str] = []
        error = ServerUnavailableError("etcd is away", 500)
        cluster.port = failing(cluster, error, times=3, where=is_eviction)
        await begin(cluster)
        claim, node = await initialized(cluster)
        await _with_pods(cluster, node.metadata.name, pending_pod())
        (pod,) = await cluster.pods()
        await cluster.api.delete(NodeClaim, claim.metadata.name)
        await cluster.wait(2)
        (after,) = await cluster.pods()
        assert after.metadata.deletionTimestamp
        assert uids == [pod.metadata.uid] * 3
        assert await cluster.events("FailedDraining") == []

    run_cluster(story)


@pytest.mark.parametrize("status", [404, 409])
def test_t8_a_pod_that_is_gone_or_another_one_ends_the_eviction_silently(status: int) -> None:
    async def story(cluster: ControlledCluster) -> None:
        async def before(verb: str, _: str, details: Mapping[str, Any]) -> None:
            if verb == "evict":
                evictions.append(details["name"])
                await cluster.api.delete(Pod, details["name"], "default", grace_period=0)
                if status == 409:
                    await _with_pods(cluster, node_name, pending_pod(spec=_tolerant()))

        evictions: list[str] = []
        node_name = "node-web-1"
        cluster.port = ObservedCluster(cluster.api, before)
        await begin(cluster)
        claim, _ = await initialized(cluster)
        await _with_pods(cluster, node_name, pending_pod())
        await cluster.api.delete(NodeClaim, claim.metadata.name)
        await cluster.wait(30)
        assert evictions == ["web-0"]
        assert await cluster.events("FailedDraining") == []
        assert await cluster.events("Evicted") == []
        assert await cluster.nodes() == []

    run_cluster(story)


def test_trm_10_t9_a_new_pod_of_the_same_name_is_not_evicted_in_its_place() -> None:
    """The first is blocked by its budget, ends by itself, and another comes on another node."""

    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        claim, node = await initialized(cluster)
        await cluster.create(Node(metadata=ObjectMeta(name="other")))
        await _with_pods(cluster, node.metadata.name, _web())
        await _make_ready(cluster, "web-0")
        await _budget(cluster, 0)
        await cluster.api.delete(NodeClaim, claim.metadata.name)
        await cluster.wait(3)
        await cluster.api.delete(Pod, "web-0", "default", grace_period=0)
        await _with_pods(cluster, "other", _web())
        await _allow(cluster, 5)
        await cluster.wait(60)
        (pod,) = await cluster.pods()
        assert pod.metadata.deletionTimestamp is None

    run_cluster(story)


def test_t9_a_pod_that_finishes_leaves_the_queue() -> None:
    async def story(cluster: ControlledCluster) -> None:
        calls = record_calls(cluster)
        await begin(cluster)
        claim, node = await initialized(cluster)
        await _with_pods(cluster, node.metadata.name, _web())
        await _make_ready(cluster, "web-0")
        await _budget(cluster, 0)
        await cluster.api.delete(NodeClaim, claim.metadata.name)
        await cluster.wait(3)
        done = {"status": {"phase": "Succeeded"}}
        await cluster.api.patch_status(Pod, "web-0", done, "default")
        del calls[:]
        await cluster.wait(60)
        assert "evict" not in {verb for _, verb, _ in calls}
        assert await cluster.nodes() == []

    run_cluster(story)


def test_trm_10_t10_a_pod_that_waits_for_its_eviction_is_deleted_at_its_time() -> None:
    """Also T7: with its uid, and the whole seconds that are left."""

    async def story(cluster: ControlledCluster) -> None:
        deletions: list[Mapping[str, Any]] = []

        def before(verb: str, kind: str, details: Mapping[str, Any]) -> None:
            if (verb, kind) == ("delete", "Pod"):
                deletions.append(details)

        cluster.port = ObservedCluster(cluster.api, before)
        await begin(cluster)
        claim, node = await initialized(cluster, node_claim(terminationGracePeriod="5m"))
        long = {"terminationGracePeriodSeconds": 60}
        await _with_pods(cluster, node.metadata.name, _web(spec=long))
        await _make_ready(cluster, "web-0")
        (pod,) = await cluster.pods()
        await _budget(cluster, 0)
        await cluster.api.delete(NodeClaim, claim.metadata.name)
        await cluster.wait(235)
        assert deletions == []
        await cluster.wait(10)
        assert deletions == [{"name": "web-0", "uid": pod.metadata.uid, "grace_period": 60}]
        (event,) = await cluster.events("Disrupted")
        assert event.involvedObject.name == "web-0"
        assert cluster.metrics.value(PODS_DRAINED, reason="Forceful Termination") == 1

    run_cluster(story)


def test_t10_the_earlier_of_two_deadlines_counts() -> None:
    """The API server refuses the deletion; meanwhile somebody puts the deadline off."""

    async def story(cluster: ControlledCluster) -> None:
        grace_periods: list[int] = []

        def is_deletion(verb: str, kind: str, details: Mapping[str, Any]) -> bool:
            if (verb, kind) == ("delete", "Pod"):
                grace_periods.append(details["grace_period"])
                return True
            return False

        error = KubernetesError("not now")
        cluster.port = failing(cluster, error, times=3, where=is_deletion)
        await begin(cluster)
        claim, node = await initialized(cluster, node_claim(terminationGracePeriod="1m"))
        long = {"terminationGracePeriodSeconds": 600}
        await _with_pods(cluster, node.metadata.name, pending_pod(spec=long))
        await cluster.api.delete(NodeClaim, claim.metadata.name)
        await cluster.wait(0.05)
        later = format_timestamp(cluster.clock.now() + 300)
        annotations = {"karpenter.sh/nodeclaim-termination-timestamp": later}
        await cluster.api.patch(
            NodeClaim, claim.metadata.name, {"metadata": {"annotations": annotations}}
        )
        await cluster.wait(5)
        (pod,) = await cluster.pods()
        assert pod.metadata.deletionGracePeriodSeconds in (58, 59)
        assert len(grace_periods) == 3

    run_cluster(story)


def test_t11_volumes_that_nobody_will_detach_are_not_awaited() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        claim, node = await initialized(cluster)
        name = node.metadata.name
        data = {
            "metadata": {"name": "data", "namespace": "default"},
            "spec": {
                "volumeName": "pv-1",
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
        await cluster.create(msgspec.convert(data, PersistentVolumeClaim, strict=False))
        await _with_pods(cluster, name, pending_pod(spec={**_tolerant(), "volumes": volumes}))
        await cluster.create(_attachment("a", name, "pv-1"), _attachment("b", name, None))
        await cluster.api.delete(NodeClaim, claim.metadata.name)
        await cluster.wait(30)
        assert (await cluster.claims(), await cluster.nodes(), cluster.instances()) == ([], [], [])

    run_cluster(story)


def test_t12_drained_pods_are_counted_by_the_reason_of_the_claim() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        claim, node = await initialized(cluster)
        await _with_pods(cluster, node.metadata.name, pending_pod("a"), pending_pod("b"))
        written = msgspec.to_builtins(claim.status)["conditions"]
        reason = {**written[0], "type": "DisruptionReason", "status": "True", "reason": "Drifted"}
        status = {"status": {"conditions": [*written, reason]}}
        await cluster.api.patch_status(NodeClaim, claim.metadata.name, status)
        await cluster.api.delete(NodeClaim, claim.metadata.name)
        await cluster.wait(1)
        await cluster.stop_pods()
        await cluster.wait(60)
        assert await cluster.nodes() == []
        assert cluster.metrics.value(PODS_DRAINED, reason="Drifted") == 2
        assert cluster.metrics.value(NODES_DRAINED, nodepool="web") == 1

    run_cluster(story)


def test_t13_many_nodes_are_drained_at_once_and_each_pod_is_evicted_once() -> None:
    async def story(cluster: ControlledCluster) -> None:
        calls = record_calls(cluster)
        await begin(cluster)
        nodes = []
        for n in range(8):
            _, node = await initialized(cluster, node_claim(f"web-{n}"))
            nodes.append(node.metadata.name)
        for name in nodes:
            await _with_pods(cluster, name, *(pending_pod(f"{name}-{n}") for n in range(5)))
        for name in nodes:
            await cluster.api.delete(Node, name)
        await cluster.wait(0.01)
        for n in range(8):
            await _with_pods(cluster, nodes[n], pending_pod(f"late-{n}"))
        await cluster.wait(1)
        await cluster.stop_pods()
        await cluster.wait(60)
        assert (await cluster.nodes(), await _pod_names(cluster), cluster.instances()) == (
            [],
            [],
            [],
        )
        assert [verb for _, verb, _ in calls].count("evict") == 48

    run_cluster(story)


def test_trm_9_nodes_of_foreign_classes_are_left_alone() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        foreign = node_claim("foreign", nodeClassRef=FOREIGN_REF)
        claimed = _node_of_nobody("claimed")
        labels = {"karpenter.example.com/othernodeclass": "default"}
        unclaimed = Node(metadata=ObjectMeta(name="x", finalizers=[FINALIZER], labels=labels))
        cluster.api.load([_already_launched(foreign, claimed.spec.providerID)])
        await cluster.create(claimed, unclaimed)
        for name in ("claimed", "x"):
            await cluster.api.delete(Node, name)
        await cluster.wait(120)
        nodes = await cluster.nodes()
        assert [node.metadata.finalizers for node in nodes] == [[FINALIZER]] * 2
        taints = [each.key for node in nodes for each in node.spec.taints or ()]
        assert "karpenter.sh/disrupted" not in taints
        assert (await cluster.claim()).metadata.deletionTimestamp is None

    run_cluster(story)


class RefusedEvictions:
    """An API server that refuses to evict pods."""

    def __init__(self, cluster: ControlledCluster, error: KubernetesError) -> None:
        self._api, self._error = cluster.api, error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    async def evict(self, *_: Any, **__: Any) -> None:
        raise self._error


@pytest.mark.parametrize(
    ("error", "expected"),
    [(EvictionBlockedError("its budget"), Poll), (TooManyRequestsError("busy"), Again)],
)
def test_only_a_budget_is_waited_for_until_something_changes(
    error: KubernetesError, expected: type
) -> None:
    """That a server is busy no longer shows in no object."""

    async def story(cluster: ControlledCluster) -> None:
        cluster.port = cast(Cluster, RefusedEvictions(cluster, error))
        await cluster.create_pod("web-0")
        alone = ControllersAlone(cluster)
        await alone.start([])
        (pod,) = await cluster.pods()
        eviction = PodEviction(alone.context)
        result = await eviction.reconcile(f"default/web-0/{pod.metadata.uid}")
        assert isinstance(result, expected)
        await alone.stop()

    run_cluster(story)
