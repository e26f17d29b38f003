"""Rows L17 to L25 and C3: what a node gets when it joins, and when it counts as initialized."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from tests.support.claim_stories import (
    KEEP_EMPTY_NODES,
    ControllersAlone,
    ObservedCluster,
    begin,
    initialized,
    launched,
    message_of,
    node_claim,
)
from tests.support.controlled_cluster import ControlledCluster, conditions, node_pool, run_cluster

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.kubernetes.cluster import Node, Taint
from wainwright.controllers.nodeclaim.node_registration import HookResult
from wainwright.controllers.nodeclaim.nodeclaim_lifecycle import (
    JOINING_SECONDS,
    SETTLING_SECONDS,
    NodeClaimLifecycle,
)
from wainwright.metrics import NODES_CREATED
from wainwright.model.labels import INITIALIZED, REGISTERED
from wainwright.model.taints import UNREGISTERED_TAINT

DEDICATED = {"key": "example.com/dedicated", "value": "web", "effect": "NoSchedule"}
STARTUP = {"key": "example.com/agent", "effect": "NoExecute"}


def _taints(node: Node) -> list[tuple[str, str]]:
    return sorted((taint.key, taint.effect) for taint in node.spec.taints or ())


async def _node(cluster: ControlledCluster) -> Node:
    (found,) = await cluster.nodes()
    return found


async def _set_taints(cluster: ControlledCluster, *taints: Taint) -> None:
    name = (await _node(cluster)).metadata.name
    await cluster.api.patch(Node, name, {"spec": {"taints": msgspec.to_builtins(taints)}})
    await cluster.wait(1)


def test_l17_no_node_is_unknown_and_several_are_false() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        claim = await launched(cluster)
        assert conditions(claim)["Registered"] == ("Unknown", "NodeNotFound")
        await cluster.kill()
        for name in ("a", "b"):
            await cluster.join(claim, metadata={"name": name})
        cluster.start()
        await cluster.wait(5)
        claim = await cluster.claim()
        assert conditions(claim)["Registered"] == ("False", "MultipleNodesFound")
        assert message_of(claim, "Registered") == "several nodes have its providerID: a, b"
        await cluster.api.delete(Node, "b")
        await cluster.wait(1)
        assert conditions(await cluster.claim())["Registered"][0] == "True"

    run_cluster(story)


def test_l17_hooks_are_not_asked_about_one_of_several_nodes() -> None:
    async def story(cluster: ControlledCluster) -> None:
        hook = _Hook("network", HookResult(passed=True))
        alone = await _start_with(cluster, hook)
        claim = await launched(cluster)
        for name in ("a", "b"):
            await cluster.join(claim, metadata={"name": name})
        asked = hook.asked  # about the first, as long as it was the only one
        await cluster.api.patch(
            NodeClaim, claim.metadata.name, {"metadata": {"labels": {"x": "y"}}}
        )
        await cluster.wait(5)
        assert hook.asked == asked
        await alone.stop()

    run_cluster(story)


def test_lif_3_a_node_gets_what_its_claim_says() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        given = node_claim(
            metadata={"labels": {"team": "a"}, "annotations": {"note": "b"}},
            taints=[DEDICATED],
            startupTaints=[STARTUP],
        )
        claim = await launched(cluster, given)
        await cluster.join(claim, metadata={"labels": {"team": "other", "own": "c"}})
        await cluster.wait(1)
        node = await _node(cluster)
        labels = node.metadata.labels or {}
        assert labels["team"] == "a"
        assert labels["own"] == "c"
        assert labels["karpenter.sh/registered"] == "true"
        assert labels["karpenter.k8s.aws/ec2nodeclass"] == "default"
        assert (node.metadata.annotations or {})["note"] == "b"
        assert "wainwright.dev/launch-record" not in (node.metadata.annotations or {})
        (owner,) = node.metadata.ownerReferences or []
        assert (owner.kind, owner.uid) == ("NodeClaim", claim.metadata.uid)
        assert _taints(node) == [
            ("example.com/agent", "NoExecute"),
            ("example.com/dedicated", "NoSchedule"),
        ]
        assert await cluster.events("UnregisteredTaintMissing") == []
        assert cluster.metrics.value(NODES_CREATED, nodepool="web") == 1

    run_cluster(story)


def test_lif_3_startup_taints_that_were_removed_do_not_come_back() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        claim = await launched(cluster, node_claim(startupTaints=[STARTUP]))
        await cluster.join(claim)
        await cluster.wait(1)
        assert conditions(await cluster.claim())["Initialized"][1] == "StartupTaintsExist"
        await _set_taints(cluster)
        assert conditions(await cluster.claim())["Initialized"][0] == "True"
        await _set_taints(cluster, Taint(key="other", effect="NoSchedule"))
        assert _taints(await _node(cluster)) == [("other", "NoSchedule")]

    run_cluster(story)


def test_lif_3_startup_taints_do_not_come_back_after_a_restart_within_registration() -> None:
    """The node was synced, its claim does not say so yet, and an agent was quick."""

    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        claim = await launched(cluster, node_claim(startupTaints=[STARTUP]))
        await cluster.kill()
        finalizers = ["karpenter.sh/termination"]
        await cluster.join(claim, metadata={"finalizers": finalizers}, spec={"taints": []})
        cluster.start()
        await cluster.wait(5)
        assert _taints(await _node(cluster)) == []
        assert conditions(await cluster.claim())["Initialized"][0] == "True"

    run_cluster(story)


def test_lif_3_a_node_without_the_taint_is_registered_and_the_claim_says_so() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        claim = await launched(cluster)
        await cluster.join(claim, spec={"taints": []})
        await cluster.wait(1)
        (event,) = await cluster.events("UnregisteredTaintMissing")
        assert event.involvedObject.name == claim.metadata.name
        assert conditions(await cluster.claim())["Registered"][0] == "True"

    run_cluster(story)


class _Hook:
    """Says what it is told to say; an exception is raised."""

    def __init__(self, name: str, answer: HookResult | Exception) -> None:
        self.name, self.answer = name, answer
        self.asked = 0

    async def check(self, claim: NodeClaim, node: Node) -> HookResult:
        assert node.spec.providerID == (claim.status and claim.status.providerID)
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


async def _start_with(cluster: ControlledCluster, *hooks: _Hook) -> ControllersAlone:
    await cluster.set_up(node_pool(disruption=KEEP_EMPTY_NODES))
    alone = ControllersAlone(cluster)
    await alone.start([NodeClaimLifecycle(alone.context, None, hooks)])
    return alone


def test_l18_hooks_that_wait_keep_the_node_unregistered() -> None:
    async def story(cluster: ControlledCluster) -> None:
        slow = _Hook("slow", HookResult(passed=False, again=60))
        quick = _Hook("quick", HookResult(passed=False, again=10))
        broken = _Hook("broken", RuntimeError("no answer"))
        fine = _Hook("fine", HookResult(passed=True))
        alone = await _start_with(cluster, slow, fine, quick, broken)
        claim = await launched(cluster, node_claim(taints=[DEDICATED], startupTaints=[STARTUP]))
        await cluster.join(claim)
        await cluster.wait(1)
        claim, node = await cluster.claim(), await _node(cluster)
        assert conditions(claim)["Registered"] == ("Unknown", "RegistrationHookPending")
        assert message_of(claim, "Registered") == "slow, quick, broken"
        assert "karpenter.sh/registered" not in (node.metadata.labels or {})
        assert node.metadata.finalizers == ["karpenter.sh/termination"]
        assert len(node.metadata.ownerReferences or ()) == 1
        assert [key for key, _ in _taints(node)] == [
            "example.com/agent",
            "example.com/dedicated",
            "karpenter.sh/unregistered",
        ]
        broken.answer = HookResult(passed=False, again=50)
        await cluster.wait(30)
        asked = quick.asked
        await cluster.wait(31)
        assert 3 <= quick.asked - asked <= 4  # the shortest delay counts
        slow.answer = quick.answer = broken.answer = HookResult(passed=True)
        await cluster.wait(11)
        node = await _node(cluster)
        assert conditions(await cluster.claim())["Registered"][0] == "True"
        assert (node.metadata.labels or {})["karpenter.sh/registered"] == "true"
        assert UNREGISTERED_TAINT.key not in [key for key, _ in _taints(node)]
        await alone.stop()

    run_cluster(story)


def test_l18_startup_taints_that_go_while_hooks_wait_stay_away() -> None:
    async def story(cluster: ControlledCluster) -> None:
        hook = _Hook("slow", HookResult(passed=False, again=10))
        alone = await _start_with(cluster, hook)
        await cluster.join(await launched(cluster, node_claim(startupTaints=[STARTUP])))
        await cluster.wait(1)
        await _set_taints(
            cluster, Taint(key=UNREGISTERED_TAINT.key, effect=UNREGISTERED_TAINT.effect)
        )
        hook.answer = HookResult(passed=True)
        await cluster.wait(11)
        assert _taints(await _node(cluster)) == []
        await alone.stop()

    run_cluster(story)


def test_l18_a_node_whose_hooks_never_pass_times_out_and_the_message_names_them() -> None:
    async def story(cluster: ControlledCluster) -> None:
        alone = await _start_with(cluster, _Hook("network", HookResult(passed=False)))
        await cluster.join(await launched(cluster))
        await cluster.wait(890)
        assert (await cluster.claim()).metadata.deletionTimestamp is None
        await cluster.wait(20)
        (event,) = await cluster.events("RegistrationTimeout")
        assert "joined, but these hooks did not pass: network" in event.message
        await alone.stop()

    run_cluster(story)


def test_l19_labels_of_a_hook_reach_claim_and_node_in_the_same_pass() -> None:
    async def story(cluster: ControlledCluster) -> None:
        hook = _Hook("zones", HookResult(passed=True, labels={"example.com/rack": "r1"}))
        alone = await _start_with(cluster, hook)
        await cluster.join(await launched(cluster))
        await cluster.wait(1)
        node = await _node(cluster)
        assert ((await cluster.claim()).metadata.labels or {})["example.com/rack"] == "r1"
        assert (node.metadata.labels or {})["example.com/rack"] == "r1"
        assert hook.asked == 1
        await alone.stop()

    run_cluster(story)


@pytest.mark.parametrize(
    ("value", "keys"),
    [
        ("true", []),
        ("yes", ["example.com/agent", "example.com/dedicated"]),
        ("", ["example.com/agent", "example.com/dedicated"]),
    ],
)
def test_l20_do_not_sync_taints_counts_only_as_true(value: str, keys: list[str]) -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        claim = await launched(cluster, node_claim(taints=[DEDICATED], startupTaints=[STARTUP]))
        owner = {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodeClaim",
            "name": claim.metadata.name,
            "uid": claim.metadata.uid,
        }
        labels = {"karpenter.sh/do-not-sync-taints": value}
        await cluster.join(claim, metadata={"labels": labels, "ownerReferences": [owner]})
        await cluster.wait(1)
        node = await _node(cluster)
        assert [key for key, _ in _taints(node)] == keys
        assert len(node.metadata.ownerReferences or ()) == 1

    run_cluster(story)


def test_l21_the_claim_names_its_node() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        claim, node = await initialized(cluster)
        assert claim.status is not None
        assert claim.status.nodeName == node.metadata.name

    run_cluster(story)


EPHEMERAL = (
    ("node.kubernetes.io/not-ready", "NoSchedule"),
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoSchedule"),
    ("node.cloudprovider.kubernetes.io/uninitialized", "NoSchedule"),
    ("karpenter.sh/unregistered", "NoExecute"),
    ("readiness.k8s.io/anything", "NoSchedule"),
)


def test_l22_taints_of_young_nodes_must_go_first() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        claim = await launched(cluster)
        await cluster.join(claim, ready=False)
        await cluster.wait(JOINING_SECONDS)
        for key, effect in EPHEMERAL:
            await _set_taints(cluster, Taint(key=key, effect=effect))
            await _set_status(cluster, **_ready())
            state = conditions(await cluster.claim())["Initialized"]
            assert state == ("Unknown", "KnownEphemeralTaintsExist"), key
            assert key in message_of(await cluster.claim(), "Initialized")
        pressure = Taint(key="node.kubernetes.io/memory-pressure", effect="NoSchedule")
        await _set_taints(cluster, pressure)
        assert conditions(await cluster.claim())["Initialized"][0] == "True"

    run_cluster(story)


def _ready() -> dict[str, Any]:
    return {"conditions": [{"type": "Ready", "status": "True"}]}


def test_reasons_that_pass_by_while_a_node_joins_are_no_requests() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        claim = await launched(cluster)
        await cluster.join(claim, ready=False)
        await _set_taints(cluster, Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule"))
        joined = (await cluster.claim()).metadata.resourceVersion
        await _set_status(cluster, **_ready())
        assert (await cluster.claim()).metadata.resourceVersion == joined
        await cluster.wait(JOINING_SECONDS)
        reason = conditions(await cluster.claim())["Initialized"]
        assert reason == ("Unknown", "KnownEphemeralTaintsExist"), "one that stays is told"

    run_cluster(story)


def test_l23_what_is_requested_must_be_allocatable_and_the_first_lack_is_named() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        requests = {
            "cpu": "1",
            "memory": "1Gi",
            "ephemeral-storage": "1Gi",
            "example.com/none": "0",
        }
        claim = await launched(cluster, node_claim(resources={"requests": requests}))
        node = await cluster.join(claim, ready=False)
        await cluster.wait(JOINING_SECONDS)
        lacking = {"memory": "0", "ephemeral-storage": "0"}
        await _set_taints(cluster)
        await _set_status(cluster, allocatable=lacking, **_ready())
        name = node.metadata.name
        assert conditions(await cluster.claim())["Initialized"][1] == "ResourceNotRegistered"
        assert "ephemeral-storage" in message_of(await cluster.claim(), "Initialized")
        await _set_status(cluster, allocatable={"ephemeral-storage": "10Gi"})
        assert "memory" in message_of(await cluster.claim(), "Initialized")
        await _set_status(cluster, allocatable={"memory": "4Gi"})
        assert conditions(await cluster.claim())["Initialized"][0] == "True"
        node = await cluster.api.get(Node, name)
        assert (node.metadata.labels or {})["karpenter.sh/initialized"] == "true"

    run_cluster(story)


async def _set_status(cluster: ControlledCluster, **status: Any) -> None:
    name = (await _node(cluster)).metadata.name
    await cluster.api.patch_status(Node, name, {"status": status})
    await cluster.wait(1)


def test_l24_a_claim_that_is_rebooting_is_not_initialized() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        claim = await launched(cluster)
        await cluster.join(claim, ready=False)
        await cluster.wait(JOINING_SECONDS)
        before = msgspec.to_builtins((await cluster.claim()).status)["conditions"]
        rebooting = {"type": "Rebooting", "status": "True", "reason": "RebootIssued"}
        await _set_conditions(cluster, [*before, rebooting])
        await cluster.set_ready(f"node-{claim.metadata.name}")
        await cluster.wait(1)
        assert conditions(await cluster.claim())["Initialized"] == ("Unknown", "Rebooting")
        now = msgspec.to_builtins((await cluster.claim()).status)["conditions"]
        await _set_conditions(cluster, [each for each in now if each["type"] != "Rebooting"])
        assert conditions(await cluster.claim())["Initialized"][0] == "True"

    run_cluster(story)


async def _set_conditions(cluster: ControlledCluster, written: list[dict[str, Any]]) -> None:
    name = (await cluster.claim()).metadata.name
    stamped = [{"lastTransitionTime": "2026-01-01T00:00:00Z", **each} for each in written]
    await cluster.api.patch_status(NodeClaim, name, {"status": {"conditions": stamped}})
    await cluster.wait(1)


def test_l25_the_first_check_that_fails_gives_the_reason() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        claim = await launched(cluster, node_claim(startupTaints=[STARTUP]))
        await cluster.join(claim, ready=False)
        await cluster.wait(JOINING_SECONDS)
        await _set_status(cluster, allocatable={"cpu": "0"})

        async def reason() -> str:
            return conditions(await cluster.claim())["Initialized"][1]

        assert await reason() == "NodeNotReady"
        await _set_status(cluster, **_ready())
        assert await reason() == "StartupTaintsExist"
        await _set_taints(cluster, Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule"))
        assert await reason() == "KnownEphemeralTaintsExist"
        await _set_taints(cluster)
        assert await reason() == "ResourceNotRegistered"
        node = await _node(cluster)
        await cluster.kill()
        patch = {"metadata": {"finalizers": None, "ownerReferences": None}}
        await cluster.api.patch(Node, node.metadata.name, patch)
        await cluster.api.delete(Node, node.metadata.name)
        cluster.start()
        await cluster.wait(5)
        assert await reason() == "NodeNotFound"

    run_cluster(story)


def test_lif_4_initialization_follows_the_node_without_a_poll() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        claim = await launched(cluster)
        await cluster.join(claim, ready=False)
        await cluster.wait(3600)
        assert conditions(await cluster.claim())["Initialized"] == ("Unknown", "NodeNotReady")
        await cluster.set_ready(f"node-{claim.metadata.name}")
        await cluster.wait(0.1)
        state = conditions(await cluster.claim())
        assert state["Initialized"] == ("True", "Initialized")
        assert state["Ready"] == ("True", "Ready")

    run_cluster(story)


def test_c3_claims_and_nodes_without_the_label_of_the_class_get_it() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        claim, node = await initialized(cluster)
        label = "karpenter.k8s.aws/ec2nodeclass"
        without = {"metadata": {"labels": {label: None}}}
        await cluster.api.patch(NodeClaim, claim.metadata.name, without)
        await cluster.api.patch(Node, node.metadata.name, without)
        await cluster.wait(1)
        assert ((await cluster.claim()).metadata.labels or {})[label] == "default"
        assert ((await _node(cluster)).metadata.labels or {})[label] == "default"

    run_cluster(story)


NOT_READY = Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule")
JOINING_TAINTS = msgspec.to_builtins(
    [Taint(key=UNREGISTERED_TAINT.key, effect="NoExecute"), NOT_READY]
)


def test_a_node_that_is_ready_a_moment_after_it_came_is_registered_and_initialized_at_once() -> (
    None
):
    async def story(cluster: ControlledCluster) -> None:
        written: list[tuple[str, str]] = []

        def before(verb: str, kind: str, _: Mapping[str, Any]) -> None:
            written.append((verb, kind))

        cluster.port = ObservedCluster(cluster.api, before)
        await begin(cluster)
        claim = await launched(cluster)
        written.clear()
        node = await cluster.join(claim, ready=False, spec={"taints": JOINING_TAINTS})
        await cluster.wait(SETTLING_SECONDS / 2)
        await cluster.set_ready(node.metadata.name)
        await cluster.wait(SETTLING_SECONDS / 5)
        found = conditions(await cluster.claim())
        assert (found["Registered"][0], found["Initialized"][0]) == ("True", "True")
        labels = (await _node(cluster)).metadata.labels or {}
        assert labels[REGISTERED] == labels[INITIALIZED] == "true"
        assert cluster.metrics.value(NODES_CREATED, nodepool="web") == 1
        about_it = [
            each for each in written if each[0].startswith("patch") and each[1] != "NodePool"
        ]
        assert about_it[:2] == [("patch", "Node"), ("patch_status", "NodeClaim")]
        assert ("patch", "Node") not in about_it[1:]

    run_cluster(story)


@pytest.mark.parametrize("startup", [[], [STARTUP]])
def test_a_node_that_is_not_ready_soon_is_registered_all_the_same(startup: list[Any]) -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        claim = await launched(cluster, node_claim(startupTaints=startup))
        await cluster.join(claim, ready=False, spec={"taints": JOINING_TAINTS})
        await cluster.wait(SETTLING_SECONDS / 2)
        is_registered = conditions(await cluster.claim())["Registered"][0] == "True"
        assert is_registered is bool(startup), "with startup taints there is nothing to wait for"
        await cluster.wait(SETTLING_SECONDS)
        found = conditions(await cluster.claim())
        assert found["Registered"][0] == "True"
        assert found.get("Initialized", ("Unknown",))[0] != "True"
        assert INITIALIZED not in ((await _node(cluster)).metadata.labels or {})

    run_cluster(story)
