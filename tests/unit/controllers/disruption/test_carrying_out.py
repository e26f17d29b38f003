"""Rows Q1 to Q6, P2, and what happens beside a command: several in flight, kills, provisioning."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, cast

import msgspec
import pytest
from tests.support.aws_account import discovered_node_class
from tests.support.claim_stories import ObservedCluster
from tests.support.controlled_cluster import (
    ControlledCluster,
    SlowClaimCreations,
    conditions,
    node_pool,
    pending_pod,
    run_cluster,
)

from wainwright.api.catalog_documents import CloudReservation
from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.workloads import Pod
from wainwright.aws.provider import AwsCloudProvider
from wainwright.clock import format_timestamp
from wainwright.cluster import Cluster
from wainwright.controllers.disruption.disruption_reports import NEW_SECONDS
from wainwright.controllers.settings import ControllerSettings
from wainwright.core.disruption.disruption_input import DisruptionOptions
from wainwright.errors import KubernetesError, ObjectNotFoundError, RequestForbiddenError
from wainwright.metrics import (
    DISRUPTION_DECISIONS,
    DISRUPTION_DECISIONS_BY_POOL,
    DISRUPTION_ELIGIBLE_NODES,
    DISRUPTION_FAILED_VALIDATIONS,
    DISRUPTION_QUEUE_FAILURES,
    NODECLAIMS_UNHEALTHY,
)
from wainwright.model.disruption import RepairPolicy
from wainwright.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, RESERVATION_ID, RESERVED
from wainwright.model.plan import ClusterLimits, PlanOptions
from wainwright.sim.world import WorldChanges
from wainwright.translate.object_metadata import parse_timestamp

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
DISRUPTED = "karpenter.sh/disrupted"
TYPES = ["m5.large", "m5.xlarge"]
ON_DEMAND = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}


def pool(labels: dict[str, str] | None = None, **disruption: Any) -> NodePool:
    wanted = {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}], **disruption}
    template = {"metadata": {"labels": labels or {}}, "spec": {"requirements": [ON_DEMAND]}}
    return node_pool(template=template, disruption=wanted)


async def drift(cluster: ControlledCluster, tier: str = "front") -> None:
    """Another label for the nodes of the pool: all that are there have drifted."""
    change = {"spec": {"template": {"metadata": {"labels": {"tier": tier}}}}}
    await cluster.api.patch(NodePool, "web", change)


async def started(
    cluster: ControlledCluster, *names: str, cpu: str = "1500m", **disruption: Any
) -> list[Node]:
    """A node each, with a pod that leaves no room for another."""
    await cluster.set_up(pool(**{"consolidateAfter": "Never", **disruption}))
    cluster.start()
    await cluster.wait(5)
    return [await cluster.add_node(name, cpu=cpu) for name in names]


async def tainted(cluster: ControlledCluster) -> list[str]:
    return [
        node.metadata.name
        for node in await cluster.nodes()
        if any(taint.key == DISRUPTED for taint in node.spec.taints or ())
    ]


async def replacements(cluster: ControlledCluster) -> list[NodeClaim]:
    """Claims that were made for a command."""
    return [
        claim
        for claim in await cluster.claims()
        if "wainwright.dev/replaces" in (claim.metadata.annotations or {})
    ]


async def two_replacements(cluster: ControlledCluster) -> list[NodeClaim]:
    """Of a drifted node with two pods, each of which needs a node of its own now."""
    await cluster.set_up(pool(consolidateAfter="Never"))
    cluster.start()
    await cluster.wait(5)
    await cluster.create(pending_pod("web-0", cpu="1500m"), pending_pod("web-1", cpu="1500m"))
    await cluster.wait(20)
    node = await cluster.join(await cluster.claim())
    for name in ("web-0", "web-1"):
        await cluster.bind(name, node.metadata.name)
    cluster.account.change({"unavailable": [{"instanceType": "m5.xlarge"}]})
    small = {
        "key": "node.kubernetes.io/instance-type",
        "operator": "In",
        "values": ["m5.large"],
    }
    template = {"spec": {"requirements": [ON_DEMAND, small]}}
    await cluster.api.patch(NodePool, "web", {"spec": {"template": template}})
    await cluster.wait(30)
    return await replacements(cluster)


def test_q3_with_one_of_two_replacements_ready_nothing_is_deleted() -> None:
    async def story(cluster: ControlledCluster) -> None:
        first, second = await two_replacements(cluster)
        await cluster.join(first)
        await cluster.wait(60)
        assert all(not each.metadata.deletionTimestamp for each in await cluster.claims())
        assert all(not each.metadata.deletionTimestamp for each in await cluster.pods())
        assert len(await cluster.events("DisruptionLaunching")) == 2
        waiting = await cluster.events("DisruptionWaitingReadiness")
        assert {each.involvedObject.name for each in waiting} >= {second.metadata.name}
        await cluster.join(second)
        await cluster.wait(5)
        assert all(each.metadata.deletionTimestamp for each in await cluster.pods())

    run_cluster(story, instanceTypes=TYPES)


def test_q3_two_commands_end_each_in_its_own_time() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await started(cluster, "web-0", "web-1")
        await drift(cluster)
        await cluster.wait(30)
        first, second = await replacements(cluster)
        await cluster.join(second)
        await cluster.wait(10)
        leaving = [each for each in await cluster.claims() if each.metadata.deletionTimestamp]
        assert len(leaving) == 1
        assert len(await tainted(cluster)) == 2
        await cluster.join(first)
        await cluster.wait(10)
        leaving = [each for each in await cluster.claims() if each.metadata.deletionTimestamp]
        assert len(leaving) == 2

    run_cluster(story, instanceTypes=["m5.large"])


def test_bud_5_commands_in_flight_use_the_budget() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await started(cluster, "web-0", "web-1", "web-2", budgets=[{"nodes": "2"}])
        await drift(cluster)
        await cluster.wait(120)
        assert len(await tainted(cluster)) == 2
        assert len(await replacements(cluster)) == 2

    run_cluster(story, instanceTypes=["m5.large"])


def test_q5_replacements_of_a_dead_process_are_deleted_before_its_nodes_are_set_free() -> None:
    """Both together may be more than limits allow, and one of them may still be launched."""

    async def story(cluster: ControlledCluster) -> None:
        await started(cluster, "web-0")
        await drift(cluster)
        while not await replacements(cluster):
            await cluster.wait(0.5)
        await cluster.kill()
        steps: list[str] = []

        def before(verb: str, kind: str, details: Mapping[str, Any]) -> None:
            patch = (details.get("patch") or {}).get("spec") or {}
            if (verb, kind) == ("delete", "NodeClaim"):
                steps.append("delete")
            if (verb, kind) == ("patch", "Node") and "taints" in patch:
                steps.append("set free")

        cluster.port = ObservedCluster(cluster.api, before)
        cluster.start()
        await cluster.wait(5)
        assert steps[:2] == ["delete", "set free"]

    run_cluster(story, instanceTypes=["m5.large"])


class SlowStatus:
    """An API server that takes a while to write the status of NodeClaims that have no reason to be
    disrupted."""

    def __init__(self, cluster: ControlledCluster, seconds: float) -> None:
        self._api, self._clock, self._seconds = cluster.api, cluster.clock, seconds

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    async def patch_status(self, kind: Any, name: str, patch: Any, *parts: Any) -> Any:
        written = patch["status"].get("conditions") or ()
        if kind is NodeClaim and all(each["type"] != "DisruptionReason" for each in written):
            await self._clock.sleep(self._seconds)
        return await self._api.patch_status(kind, name, patch, *parts)


def test_bud_5_a_node_that_is_being_set_free_uses_the_budget_until_it_is() -> None:
    async def story(cluster: ControlledCluster) -> None:
        cluster.port = cast(Cluster, SlowStatus(cluster, 15.0))
        await started(cluster, "web-0", "web-1", budgets=[{"nodes": "1"}])
        await drift(cluster)
        await cluster.wait(60)
        (claim,) = await replacements(cluster)
        (first,) = await tainted(cluster)
        kept = {"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}
        await cluster.api.patch(Node, first, kept)  # the other one is next
        await cluster.api.delete(NodeClaim, claim.metadata.name)
        for _ in range(60):
            await cluster.wait(1)
            marked = [conditions(each) for each in await cluster.claims()]
            assert sum("DisruptionReason" in each for each in marked) <= 1
        assert first not in await tainted(cluster)
        assert len(await tainted(cluster)) == 1

    run_cluster(story, instanceTypes=["m5.large"])


def test_q4_the_other_replacements_are_taken_back_at_once() -> None:
    async def story(cluster: ControlledCluster) -> None:
        first, second = await two_replacements(cluster)
        await cluster.wait(3)
        await cluster.api.delete(NodeClaim, first.metadata.name)
        await cluster.wait(1)
        assert await tainted(cluster) == []
        left = [each for each in await cluster.claims() if not each.metadata.deletionTimestamp]
        assert second.metadata.name not in [each.metadata.name for each in left]

    run_cluster(story, instanceTypes=TYPES)


def test_q4_a_replacement_that_never_comes_up_is_counted() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await started(cluster, "web-0")
        await drift(cluster)
        await cluster.wait(20)
        (claim,) = await replacements(cluster)
        await cluster.api.delete(NodeClaim, claim.metadata.name)
        await cluster.wait(5)
        failures = cluster.metrics.value(DISRUPTION_QUEUE_FAILURES, consolidation_type="drift")
        assert failures == 1

    run_cluster(story, instanceTypes=["m5.large"])


async def _sick(cluster: ControlledCluster, name: str) -> None:
    stated = {"type": "KernelReady", "status": "False", "reason": "Panic"}
    ready = {"type": "Ready", "status": "True"}
    patch = {"status": {"conditions": [ready, stated]}}
    await cluster.api.patch_status(Node, name, patch)


REPLACE_FIRST = ControllerSettings(node_repair=True, replace_before_repair=True)


def test_q6_a_bounded_drain_gets_its_deadline_when_the_replacement_is_ready() -> None:
    """The claim bounds the drain, so that a protected pod does not keep the broken node."""

    async def story(cluster: ControlledCluster) -> None:
        template = {
            "spec": {"requirements": [ON_DEMAND], "terminationGracePeriod": "5m"},
        }
        await cluster.set_up(node_pool(template=template))
        cluster.start()
        await cluster.wait(5)
        protected = {"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}
        node = await cluster.add_node("web-0", cpu="1500m", **protected)
        await _sick(cluster, node.metadata.name)
        await cluster.wait(1830)
        (new,) = await replacements(cluster)
        (old,) = [each for each in await cluster.claims() if each != new]
        deadline = "karpenter.sh/nodeclaim-termination-timestamp"
        assert deadline not in (old.metadata.annotations or {})
        await cluster.join(new)
        await cluster.wait(2)
        old = await cluster.api.get(NodeClaim, old.metadata.name)
        assert old.metadata.deletionTimestamp
        stated = parse_timestamp((old.metadata.annotations or {})[deadline])
        assert stated == pytest.approx(cluster.clock.now() + 300, abs=3)
        assert cluster.disrupted("unhealthy", mode="forceful") == 1
        image = old.status.imageID if old.status else ""
        labels = {"condition": "KernelReady", "nodepool": "web", "capacity_type": "on-demand"}
        assert cluster.metrics.value(NODECLAIMS_UNHEALTHY, image_id=image, **labels) == 1
        assert conditions(old)["DisruptionReason"] == ("True", "Unhealthy")

    run_cluster(story, instanceTypes=["m5.large"], settings=REPLACE_FIRST)


def test_h5_many_unhealthy_nodes_stop_the_pool_and_three_objects_hear_of_it() -> None:
    async def story(cluster: ControlledCluster) -> None:
        nodes = await started(cluster, "web-0", "web-1", "web-2")
        for node in nodes[:2]:
            await _sick(cluster, node.metadata.name)
        await cluster.wait(1900)
        assert await replacements(cluster) == []
        blocked = await cluster.events("NodeRepairBlocked")
        assert {each.involvedObject.kind for each in blocked} == {"Node", "NodeClaim", "NodePool"}

    run_cluster(story, instanceTypes=["m5.large"], settings=REPLACE_FIRST)


def test_p2_pods_of_nodes_that_may_go_get_a_low_deletion_cost() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(pool())
        cluster.start()
        await cluster.wait(5)
        await cluster.add_node("web-0", cpu="1500m")
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1"}
        owned = {"metadata": {"ownerReferences": [{**owner, "controller": True}]}}
        await cluster.api.patch(Pod, "web-0", owned, "default")
        await cluster.add_node("lone", cpu="1500m")
        await cluster.wait(130)
        stated = {
            pod.metadata.name: (pod.metadata.annotations or {}).get(DELETION_COST)
            for pod in await cluster.pods()
        }
        assert stated["lone"] is None, "only pods of ReplicaSets"
        assert stated["web-0"] in ("-1", "-2")
        paused = {"metadata": {"annotations": {"wainwright.dev/pause": "disruption"}}}
        await cluster.api.patch(NodePool, "web", paused)
        await cluster.wait(130)
        pod = await cluster.api.get(Pod, "web-0", "default")
        assert DELETION_COST not in (pod.metadata.annotations or {}), "it cannot go any more"

    settings = ControllerSettings(managed_deletion_cost=True)
    run_cluster(story, instanceTypes=["m5.large"], settings=settings)


def test_con_24_nodes_say_why_they_are_kept_once_and_metrics_count_decisions() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(pool(), node_pool("never", disruption={"consolidateAfter": "Never"}))
        cluster.start()
        await cluster.wait(5)
        await cluster.add_node(
            "web-0", cpu="1500m", spec={"nodeSelector": {"karpenter.sh/nodepool": "web"}}
        )
        protected = {"karpenter.sh/do-not-disrupt": "true"}
        selector = {"nodeSelector": {"karpenter.sh/nodepool": "web"}}
        node = await cluster.add_node(
            "web-1", cpu="1500m", spec=selector, metadata={"annotations": protected}
        )
        await cluster.wait(1200)
        (blocked,) = [
            each
            for each in await cluster.events("DisruptionBlocked")
            if each.involvedObject.kind == "Node"
        ]
        assert blocked.involvedObject.name == node.metadata.name
        assert "default/web-1" in blocked.message
        kept = await cluster.events("Unconsolidatable")
        assert sorted(each.involvedObject.kind for each in kept) == ["Node", "NodeClaim"]
        await cluster.add_node("web-2", cpu="1500m", spec=selector)
        await cluster.wait(60)
        known = {each.involvedObject.name for each in kept}
        again = await cluster.events("Unconsolidatable")
        assert sum(each.involvedObject.name in known for each in again) == 2, "it is no news"
        assert cluster.metrics.value(DISRUPTION_ELIGIBLE_NODES, reason="underutilized") == 2
        await cluster.api.delete(Pod, "web-0", "default", grace_period=0)
        await cluster.wait(60)
        labels = {"decision": "delete", "reason": "empty", "consolidation_type": "emptiness"}
        assert cluster.metrics.value(DISRUPTION_DECISIONS, **labels) == 1
        assert cluster.metrics.value(DISRUPTION_DECISIONS_BY_POOL, nodepool="web", **labels) == 1

    run_cluster(story, instanceTypes=["m5.large"])


@pytest.mark.parametrize(
    ("disruption", "policy"),
    [
        ({"consolidateAfter": "Never"}, "consolidateAfter: Never"),
        ({"consolidationPolicy": "WhenEmpty"}, "policy WhenEmpty"),
    ],
)
def test_con_24_a_node_says_that_its_pool_does_not_consolidate_it(
    disruption: dict[str, Any], policy: str
) -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(pool(**disruption))
        cluster.start()
        await cluster.wait(5)
        node = await cluster.add_node("web-0", cpu="1500m")
        await cluster.wait(NEW_SECONDS + 60)
        assert await _unconsolidatable(cluster, node) == [
            f"NodePool web does not consolidate it ({policy})"
        ]

    run_cluster(story, instanceTypes=["m5.large"])


@pytest.mark.parametrize("kind", ["m5.unheard-of", None])
def test_con_24_a_node_says_that_its_instance_type_is_unknown_or_not_stated(
    kind: str | None,
) -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(pool())
        cluster.start()
        await cluster.wait(5)
        node = await cluster.add_node("web-0", cpu="1500m")
        labelled = {"metadata": {"labels": {INSTANCE_TYPE: kind}}}
        await cluster.api.patch(Node, node.metadata.name, labelled)
        await cluster.api.patch(NodeClaim, (await cluster.claim()).metadata.name, labelled)
        await cluster.wait(NEW_SECONDS + 60)
        (message,) = await _unconsolidatable(cluster, node)
        assert message.startswith("the catalogue has no price for ")
        assert kind is None or kind in message

    run_cluster(story, instanceTypes=["m5.large"])


async def _unconsolidatable(cluster: ControlledCluster, node: Node) -> list[str]:
    """What the events of the node and of its claim say, which is the same."""
    events = await cluster.events("Unconsolidatable")
    said = {(each.involvedObject.kind, each.message) for each in events}
    assert {each.involvedObject.name for each in events} == {
        node.metadata.name,
        node.metadata.name.removeprefix("node-"),
    }
    messages = sorted({message for _, message in said})
    assert said == {(kind, text) for kind in ("Node", "NodeClaim") for text in messages}
    return messages


def test_a_node_says_why_it_is_kept_when_it_is_no_longer_new_though_nothing_changes() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(pool(consolidateAfter="0s"))
        cluster.start()
        await cluster.wait(5)
        node = await cluster.add_node("web-0", cpu="1500m")
        await cluster.wait(NEW_SECONDS - 15)
        assert await cluster.events("Unconsolidatable") == [], "two requests for each node"
        await cluster.wait(30)
        kept = await cluster.events("Unconsolidatable")
        names = {each.involvedObject.name for each in kept if each.involvedObject.kind == "Node"}
        assert (names, len(kept)) == ({node.metadata.name}, 2)

    run_cluster(story, instanceTypes=["m5.large"])


def test_a_claim_that_is_being_deleted_does_not_become_consolidatable() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(pool(consolidateAfter="1m"))
        cluster.start()
        await cluster.wait(5)
        protected = {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}
        node = await cluster.add_node("web-0", cpu="1500m", metadata=protected)
        await cluster.wait(5)
        await cluster.api.delete(NodeClaim, node.metadata.name.removeprefix("node-"))
        await cluster.wait(300)
        assert "Consolidatable" not in conditions(await cluster.claim())

    run_cluster(story, instanceTypes=["m5.large"])


@pytest.mark.parametrize(
    "error",
    [
        ObjectNotFoundError("the watch has not shown it yet"),
        RequestForbiddenError("admission webhook denied the request"),
    ],
)
def test_p2_a_pod_that_cannot_be_changed_keeps_no_other_from_its_cost(
    error: KubernetesError,
) -> None:
    async def story(cluster: ControlledCluster) -> None:
        ended = ""

        def before(verb: str, kind: str, details: Mapping[str, Any]) -> None:
            if (verb, kind) == ("patch", "Pod") and details["name"] == ended:
                raise error

        cluster.port = ObservedCluster(cluster.api, before)
        await cluster.set_up(pool())
        cluster.start()
        await cluster.wait(5)
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1"}
        owned = {"metadata": {"ownerReferences": [{**owner, "controller": True}]}}
        nodes = {}
        for name in ("web-0", "web-1"):
            nodes[(await cluster.add_node(name, cpu="1500m")).metadata.name] = name
        ended, other = (nodes[each] for each in sorted(nodes))
        for name in (ended, other):
            await cluster.api.patch(Pod, name, owned, "default")
        await cluster.wait(130)
        pod = await cluster.api.get(Pod, other, "default")
        assert DELETION_COST in (pod.metadata.annotations or {})

    settings = ControllerSettings(managed_deletion_cost=True)
    run_cluster(story, instanceTypes=["m5.large"], settings=settings)


@pytest.mark.parametrize("allowed", ["0", "1"])
def test_con_24_a_pool_hears_that_its_budgets_block(allowed: str) -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(pool(consolidateAfter="0s", budgets=[{"nodes": allowed}]))
        cluster.start()
        await cluster.wait(5)
        await cluster.add_node("web-0", cpu="1500m")
        await cluster.wait(120)
        events = await cluster.events("DisruptionBlocked")
        subjects = [(each.involvedObject.kind, each.involvedObject.name) for each in events]
        assert subjects == ([("NodePool", "web")] if allowed == "0" else [])
        assert all("budget" in each.message for each in events)

    run_cluster(story, instanceTypes=["m5.large"])


def test_h12_a_node_that_goes_before_its_replacement_is_counted_as_such() -> None:
    """Its reservation is full: the replacement gets the instance that the node gives back."""

    async def story(cluster: ControlledCluster) -> None:
        terms = [{"tags": {"team": "web"}}]
        reserved = {"key": CAPACITY_TYPE, "operator": "In", "values": [RESERVED]}
        await cluster.create(
            discovered_node_class(capacityReservationSelectorTerms=terms),
            node_pool(template={"spec": {"requirements": [reserved]}}),
        )
        cluster.start()
        await cluster.wait(5)
        before = await cluster.add_node("web-0", cpu="1500m")
        await cluster.wait(30)
        await drift(cluster)
        await cluster.wait(20)
        labels = {"reason": "drifted", "consolidation_type": "drift"}
        first = cluster.metrics.value(DISRUPTION_DECISIONS, decision="terminate-first", **labels)
        assert first == 1
        assert [each.metadata.name for each in await cluster.nodes()] == [before.metadata.name]
        assert len(await cluster.claims()) == 1, "nothing is launched beside it"
        await cluster.stop_pods()
        await cluster.wait(60)
        assert (await cluster.nodes(), cluster.instances()) == ([], [])
        await cluster.create_pod("web-1", cpu="1500m")
        await cluster.wait(90)
        claim = await cluster.claim()
        assert (claim.metadata.labels or {})[RESERVATION_ID] == "cr-1"

    full = CloudReservation(
        id="cr-1",
        total=1,
        instanceType="m5.large",
        availabilityZone="us-east-1a",
        tags={"team": "web"},
    )
    gates = DisruptionOptions(terminate_first_drift=True)
    settings = ControllerSettings(disruption_options=gates)
    run_cluster(story, full, instanceTypes=["m5.large"], settings=settings)


def test_con_15_a_pod_that_came_is_counted_as_a_failed_validation() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(pool())
        cluster.start()
        await cluster.wait(5)
        node = await cluster.add_node("web-0", cpu="1500m")
        await cluster.api.delete(Pod, "web-0", "default", grace_period=0)
        await cluster.wait(12)
        await cluster.create(pending_pod("web-1", cpu="1"))
        await cluster.bind("web-1", node.metadata.name)
        await cluster.wait(30)
        assert await tainted(cluster) == []
        failed = cluster.metrics.value(
            DISRUPTION_FAILED_VALIDATIONS, consolidation_type="emptiness", reason="candidates"
        )
        assert failed == 1

    run_cluster(story, instanceTypes=["m5.large"])


def test_drf_7_several_drifted_nodes_the_earliest_first_also_where_consolidation_is_off() -> None:
    async def story(cluster: ControlledCluster) -> None:
        nodes = await started(cluster, "web-0", "web-1", budgets=[{"nodes": "0"}])
        last = max(nodes, key=lambda each: each.metadata.name)
        other_hash = {"metadata": {"annotations": {"karpenter.sh/nodepool-hash": "1"}}}
        claim = last.metadata.name.removeprefix("node-")
        await cluster.api.patch(NodeClaim, claim, other_hash)
        await cluster.wait(30)
        await drift(cluster)
        await cluster.wait(30)
        drifted = [conditions(each)["Drifted"][0] for each in await cluster.claims()]
        assert (drifted, await tainted(cluster)) == (["True", "True"], [])
        one = {"spec": {"disruption": {"budgets": [{"nodes": "1"}]}}}
        await cluster.api.patch(NodePool, "web", one)
        await cluster.wait(30)
        assert await tainted(cluster) == [last.metadata.name]

    run_cluster(story, instanceTypes=["m5.large"])


def test_drf_6_the_condition_goes_when_the_drift_is_over() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await started(cluster, "web-0", budgets=[{"nodes": "0"}])
        await drift(cluster)
        await cluster.wait(5)
        assert conditions(await cluster.claim())["Drifted"] == ("True", "NodePoolDrifted")
        await cluster.api.patch(
            NodePool, "web", {"spec": {"template": {"metadata": {"labels": {"tier": None}}}}}
        )
        await cluster.wait(5)
        assert "Drifted" not in conditions(await cluster.claim())

    run_cluster(story, instanceTypes=["m5.large"])


@pytest.mark.parametrize("after", [0.0, 0.5, 1.0, 3.0, 20.0, 45.0])
def test_q5_a_process_that_is_killed_at_any_moment_leaves_no_taint(after: float) -> None:
    """Nor a replacement: meanwhile somebody has closed the budget."""

    async def story(cluster: ControlledCluster) -> None:
        await started(cluster, "web-0")
        await drift(cluster)
        while not await tainted(cluster):
            await cluster.wait(0.5)
        await cluster.wait(after)
        await cluster.kill()
        closed = {"spec": {"disruption": {"budgets": [{"nodes": "0"}]}}}
        await cluster.api.patch(NodePool, "web", closed)
        cluster.start()
        await cluster.wait(30)
        assert await tainted(cluster) == []
        assert all("DisruptionReason" not in conditions(each) for each in await cluster.claims())
        await cluster.wait(60)
        assert await replacements(cluster) == []
        assert len(cluster.instances()) == 1

    run_cluster(story, instanceTypes=["m5.large"])


@pytest.mark.parametrize("after", [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0])
def test_a_replacement_and_a_node_for_new_pods_together_keep_to_the_limits(after: float) -> None:
    """Each is planned before the other is created, and keeps to the limit by itself."""

    async def story(cluster: ControlledCluster) -> None:
        options = PlanOptions(cluster_limits=ClusterLimits(nodes=2))
        cluster.settings = msgspec.structs.replace(cluster.settings, plan_options=options)
        cluster.port = cast(Cluster, SlowClaimCreations(cluster, 3.0))
        await started(cluster, "web-0")
        await drift(cluster)
        await cluster.wait(after)
        await cluster.create_pod("web-1", cpu="1500m")
        most = 0
        for _ in range(60):
            await cluster.wait(0.5)
            most = max(most, len(cluster.instances()), len(await cluster.claims()))
        assert most == 2

    run_cluster(story, instanceTypes=["m5.large"])


async def half_empty_nodes(cluster: ControlledCluster, *names: str) -> None:
    """Large nodes with a small pod each, which consolidation begins to look at now."""
    await cluster.set_up(pool(consolidateAfter="Never"))
    cluster.start()
    await cluster.wait(5)
    for name in names:
        await cluster.create_pod(f"big-{name}", cpu="2900m")
        node = await cluster.add_node(name, cpu="800m")
        await cluster.bind(f"big-{name}", node.metadata.name)
    for name in names:
        await cluster.api.delete(Pod, f"big-{name}", "default", grace_period=0)
    await cluster.api.patch(NodePool, "web", {"spec": {"disruption": {"consolidateAfter": "0s"}}})


def test_con_15_a_set_that_does_not_hold_lets_single_nodes_be_looked_at_at_once() -> None:
    async def story(cluster: ControlledCluster) -> None:
        def failed() -> float:
            labels = {"consolidation_type": "multi-node", "reason": "candidates"}
            return cluster.metrics.value(DISRUPTION_FAILED_VALIDATIONS, **labels)

        await half_empty_nodes(cluster, "web-0", "web-1")
        await cluster.wait(12)
        protected = {"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}
        await cluster.api.patch(Pod, "web-1", protected, "default")
        for _ in range(60):
            if failed():
                break
            assert await tainted(cluster) == []
            await cluster.wait(1)
        await cluster.wait(16)
        assert len(await tainted(cluster)) == 1, "found at once, and validated 15 s later"

    run_cluster(story, instanceTypes=TYPES)


@pytest.mark.parametrize("is_simulation", [False, True])
def test_con_15_after_a_set_that_does_not_hold_another_set_is_looked_for(
    is_simulation: bool,
) -> None:
    """No node can go alone: what a look at single nodes finds is neither a reason to rest, which
    only simulations do, nor one for which the nodes are kept."""

    async def story(cluster: ControlledCluster) -> None:
        if is_simulation:
            cluster.feed = WorldChanges(cluster.api, cluster.account)
        await started(cluster, "web-0", "web-1", "web-2", cpu="1200m")
        await cluster.wait(NEW_SECONDS + 60)
        looks_for_savings = {"spec": {"disruption": {"consolidateAfter": "0s"}}}
        await cluster.api.patch(NodePool, "web", looks_for_savings)
        await cluster.wait(12)
        protected = {"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}
        await cluster.api.patch(Pod, "web-2", protected, "default")
        await cluster.wait(60)
        labels = {"consolidation_type": "multi-node", "reason": "candidates"}
        assert cluster.metrics.value(DISRUPTION_FAILED_VALIDATIONS, **labels) == 1
        assert len(await tainted(cluster)) == 2
        kept = [each.message for each in await cluster.events("Unconsolidatable")]
        assert "no cheaper node can run its pod" not in kept

    run_cluster(story, instanceTypes=["m5.large", "c5.xlarge"])


def test_q5_a_reason_without_a_taint_is_taken_back_too() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await started(cluster, "web-0")
        claim = (await cluster.claim()).metadata.name
        await cluster.set_condition(claim, "DisruptionReason")
        await cluster.wait(30)
        assert "DisruptionReason" not in conditions(await cluster.claim())

    run_cluster(story, instanceTypes=TYPES)


class LostAnswers(ObservedCluster):
    """The first reason of a disruption is written, the answer is an error, and from then on watches
    show no NodeClaim."""

    written = False

    async def patch_status(self, *args: Any, **more: Any) -> Any:
        answer = await super().patch_status(*args, **more)
        if not self.written and "DisruptionReason" in conditions(answer):
            self.written = True
            raise KubernetesError("the answer was lost")
        return answer

    async def watch(self, kind: type[Any], resource_version: str) -> AsyncGenerator[Any, None]:
        async for event in super().watch(kind, resource_version):
            if not self.written or kind is not NodeClaim:
                yield event


def test_q5_a_reason_whose_answer_was_lost_is_taken_back_before_any_watch_shows_it() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await started(cluster, "web-0")
        await cluster.kill()
        cluster.port = port = LostAnswers(cluster.api)
        cluster.start()
        await cluster.wait(5)
        await drift(cluster)
        while not port.written:
            await cluster.wait(1)
        await cluster.wait(3)
        assert "DisruptionReason" not in conditions(await cluster.claim())
        assert await tainted(cluster) == []

    run_cluster(story, instanceTypes=TYPES)


def test_q5_a_taint_that_is_added_meanwhile_stays() -> None:
    """The list of taints is written as a whole: not over a version that has not been read."""

    async def story(cluster: ControlledCluster) -> None:
        (node,) = await started(cluster, "web-0")
        name = node.metadata.name

        async def before(verb: str, kind: str, details: Mapping[str, Any]) -> None:
            taints = (details.get("patch") or {}).get("spec", {}).get("taints")
            if (verb, kind) == ("patch", "Node") and taints is not None and not meanwhile:
                meanwhile.append({"key": "team/repair", "effect": "NoSchedule"})
                await cluster.api.patch(Node, name, {"spec": {"taints": [left, *meanwhile]}})

        meanwhile: list[dict[str, str]] = []
        await cluster.kill()
        left = {"key": DISRUPTED, "effect": "NoSchedule"}
        await cluster.api.patch(Node, name, {"spec": {"taints": [left]}})
        cluster.port = ObservedCluster(cluster.api, before)
        cluster.start()
        await cluster.wait(60)
        (node,) = await cluster.nodes()
        assert [taint.key for taint in node.spec.taints or ()] == ["team/repair"]

    run_cluster(story, instanceTypes=["m5.large"])


def test_a_look_for_savings_never_delays_provisioning() -> None:
    """While a command waits for its validation and its replacement, pods get nodes as quickly as
    in a cluster in which there is nothing to disrupt."""

    def seconds_to_claim(disturb: bool) -> float:
        waited: list[float] = []

        async def story(cluster: ControlledCluster) -> None:
            await started(cluster, "web-0")
            if disturb:
                await drift(cluster)
            await cluster.wait(12)
            known = len(await cluster.claims())
            began = cluster.clock.now()
            await cluster.create_pod("late", cpu="1500m")
            while len(await cluster.claims()) == known:
                await cluster.wait(0.1)
            waited.append(cluster.clock.now() - began)

        run_cluster(story, instanceTypes=["m5.large"])
        return waited[0]

    assert seconds_to_claim(disturb=True) == pytest.approx(seconds_to_claim(disturb=False), abs=0.2)


@pytest.mark.parametrize("long", ["_prepare", "find_command"])
def test_a_pod_is_planned_while_a_look_for_savings_still_computes(long: str) -> None:
    """What disruption computes takes two minutes here, and planning nothing."""

    async def story(cluster: ControlledCluster) -> None:
        computing: list[str] = []

        async def compute(work: Callable[[], Any]) -> Any:
            if long in work.__qualname__:
                computing.append(work.__qualname__)
                await cluster.wait(120)
                computing.pop()
            return work()

        cluster.compute = compute
        await started(cluster, "web-0", consolidateAfter="0s")
        while not computing:
            await cluster.wait(1)
        known = len(await cluster.claims())
        began = cluster.clock.now()
        await cluster.create_pod("late", cpu="1500m")
        while len(await cluster.claims()) == known:
            await cluster.wait(0.1)
        assert cluster.clock.now() - began < 2, "of which one is the batch window"
        assert computing, "the look goes on"

    run_cluster(story, instanceTypes=["m5.large"])


def _step(verb: str, kind: str, details: Mapping[str, Any]) -> str:
    """The calls that carry a command out, as one word each."""
    patch = details.get("patch") or {}
    taints = (patch.get("spec") or {}).get("taints") or []
    stated = (patch.get("status") or {}).get("conditions") or []
    if (verb, kind) == ("patch", "Node") and any(each["key"] == DISRUPTED for each in taints):
        return "taint"
    if verb == "patch_status" and any(each["type"] == "DisruptionReason" for each in stated):
        return "reason"
    if kind == "NodeClaim" and verb in ("create", "delete"):
        return verb
    return ""


def test_q1_taint_and_reason_then_replacements_then_deletion() -> None:
    async def story(cluster: ControlledCluster) -> None:
        steps: list[str] = []

        def before(verb: str, kind: str, details: Mapping[str, Any]) -> None:
            steps.append(_step(verb, kind, details))

        cluster.port = ObservedCluster(cluster.api, before)
        await started(cluster, "web-0")
        steps.clear()
        await drift(cluster)
        await cluster.wait(30)
        (claim,) = await replacements(cluster)
        await cluster.join(claim)
        await cluster.wait(5)
        assert list(dict.fromkeys(filter(None, steps))) == ["taint", "reason", "create", "delete"]

    run_cluster(story, instanceTypes=["m5.large"])


@pytest.mark.parametrize("with_pods", [True, False])
def test_q2_where_a_taint_fails_a_replacement_is_given_up_and_a_deletion_goes_on(
    with_pods: bool,
) -> None:
    async def story(cluster: ControlledCluster) -> None:
        nodes = await started(cluster, "web-0", "web-1")
        refused = nodes[0].metadata.name

        def before(verb: str, kind: str, details: Mapping[str, Any]) -> None:
            if _step(verb, kind, details) == "taint" and details["name"] == refused:
                raise KubernetesError("the node is locked")

        await cluster.kill()
        cluster.port = ObservedCluster(cluster.api, before)
        cluster.start()
        if not with_pods:
            for name in ("web-0", "web-1"):
                await cluster.api.delete(Pod, name, "default", grace_period=0)
        await drift(cluster)
        await cluster.wait(25)
        staying = [
            each.metadata.name
            for each in await cluster.claims()
            if not each.metadata.deletionTimestamp
        ]
        if with_pods:
            replaced = [
                (each.metadata.annotations or {})["wainwright.dev/replaces"]
                for each in await replacements(cluster)
            ]
            assert refused.removeprefix("node-") not in replaced
        else:
            assert [f"node-{each}" for each in staying] == [refused]
        assert refused not in await tainted(cluster)

    run_cluster(story, instanceTypes=["m5.large"])


def test_a_decision_is_one_log_line_and_drift_says_what_it_costs_more(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(cluster: ControlledCluster) -> None:
        await started(cluster, "web-0")
        key = "node.kubernetes.io/instance-type"
        large = {"key": key, "operator": "In", "values": ["m5.xlarge"]}
        template = {"spec": {"requirements": [ON_DEMAND, large]}}
        caplog.set_level("INFO")
        await cluster.api.patch(NodePool, "web", {"spec": {"template": template}})
        await cluster.wait(30)
        (event,) = await cluster.events("DisruptionLaunching")
        assert event.message.endswith("(costs: $0.096/h more)")
        lines = [each for each in caplog.messages if "replace: [" in each]
        assert lines == [f"drift: {event.message}"]
        claims = await cluster.claims()
        (old,) = [each for each in claims if each.metadata.name != event.involvedObject.name]
        assert conditions(old)["DisruptionReason"] == ("True", "Drifted")

    run_cluster(story, instanceTypes=TYPES)


def test_verdicts_are_known_of_every_node_at_any_moment() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await started(cluster, "web-0", "web-1", budgets=[{"nodes": "1"}])
        await cluster.wait(20)
        assert cluster.manager is not None
        assert cluster.manager.disruption is not None
        verdicts = cluster.manager.disruption.verdicts
        found = (await verdicts()).outcomes
        assert [(each.fate, each.code) for each in found] == [("blocked", "policy")] * 2
        await drift(cluster)
        await cluster.wait(20)
        assert sorted((each.fate, each.code) for each in (await verdicts()).outcomes) == [
            ("blocked", "not-initialized"),
            ("blocked", "policy"),
            ("replaced", "drifted"),
        ]

    run_cluster(story, instanceTypes=["m5.large"])


class _BoundedRepairs(AwsCloudProvider):
    """A cloud whose policies bound the drain of broken nodes."""

    def repair_policies(self) -> Sequence[RepairPolicy]:
        policies = super().repair_policies()
        return [msgspec.structs.replace(each, drain_bound=60.0) for each in policies]


@pytest.mark.parametrize(("stated", "expected"), [(None, 60.0), (600.0, 60.0), (20.0, 20.0)])
def test_q6_a_bound_brings_a_deadline_forward_and_never_puts_it_off(
    stated: float | None, expected: float
) -> None:
    deadline = "karpenter.sh/nodeclaim-termination-timestamp"

    async def story(cluster: ControlledCluster) -> None:
        cluster.provider_class = _BoundedRepairs
        (node,) = await started(cluster, "web-0")
        await _sick(cluster, node.metadata.name)
        await cluster.wait(1830)
        (new,) = await replacements(cluster)
        (old,) = [each for each in await cluster.claims() if each != new]
        if stated is not None:
            moment = format_timestamp(cluster.clock.now() + stated)
            change = {"metadata": {"annotations": {deadline: moment}}}
            await cluster.api.patch(NodeClaim, old.metadata.name, change)
        await cluster.join(new)
        await cluster.wait(1)
        old = await cluster.api.get(NodeClaim, old.metadata.name)
        found = parse_timestamp((old.metadata.annotations or {})[deadline])
        assert found == pytest.approx(cluster.clock.now() + expected, abs=3)

    run_cluster(story, instanceTypes=["m5.large"], settings=REPLACE_FIRST)


def test_q2_of_two_nodes_for_one_replacement_neither_goes_where_one_taint_fails() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(pool())
        cluster.start()
        await cluster.wait(5)
        nodes = [await cluster.add_node(f"big-{n}", cpu="3500m") for n in range(2)]
        paused = {"metadata": {"annotations": {"wainwright.dev/pause": "disruption"}}}
        await cluster.api.patch(NodePool, "web", paused)
        for number, node in enumerate(nodes):
            await cluster.api.delete(Pod, f"big-{number}", "default", grace_period=0)
            await cluster.create_pod(f"web-{number}", cpu="800m")
            await cluster.bind(f"web-{number}", node.metadata.name)

        def before(verb: str, kind: str, details: Mapping[str, Any]) -> None:
            if _step(verb, kind, details) == "taint" and details["name"] == refused:
                tried.append(refused)
                raise KubernetesError("the node is locked")

        tried: list[str] = []
        refused = nodes[1].metadata.name
        await cluster.kill()
        cluster.port = ObservedCluster(cluster.api, before)
        cluster.start()
        await cluster.wait(30)
        await cluster.api.patch(
            NodePool, "web", {"metadata": {"annotations": {"wainwright.dev/pause": None}}}
        )
        while not tried:
            await cluster.wait(1)
        await cluster.wait(1)
        assert await tainted(cluster) == []
        assert await replacements(cluster) == []

    run_cluster(story, instanceTypes=TYPES)


@pytest.mark.parametrize("storm", [False, True])
def test_writes_of_others_hold_no_replacement_up(storm: bool) -> None:
    """Before each write of a version somebody else writes, once; nothing takes a second longer."""

    async def story(cluster: ControlledCluster) -> None:
        tried: set[str] = set()

        async def before(verb: str, kind: str, details: Mapping[str, Any]) -> None:
            patch = details.get("patch") or {}
            is_versioned = "resourceVersion" in patch.get("metadata", {})
            attempt = f"{verb} {kind} {details.get('name')} {_without_version(patch)}"
            if storm and is_versioned and attempt not in tried:
                tried.add(attempt)
                kinds = {each.__name__: each for each in (Node, NodeClaim, NodePool, EC2NodeClass)}
                number = {"metadata": {"annotations": {"tests/number": str(len(tried))}}}
                await cluster.api.patch(kinds[kind], details["name"], number)

        cluster.port = ObservedCluster(cluster.api, before)
        await started(cluster, "web-0")
        (node,) = await cluster.nodes()
        await drift(cluster)
        await cluster.wait(20)
        (claim,) = await replacements(cluster)
        await cluster.join(claim)
        await cluster.wait(3)
        assert await tainted(cluster) == [node.metadata.name]
        await cluster.api.delete(Pod, "web-0", "default", grace_period=0)
        await cluster.wait(8)
        assert [each.metadata.name for each in await cluster.claims()] == [claim.metadata.name]
        assert len(await cluster.nodes()) == 1
        assert bool(tried) == storm

    run_cluster(story, instanceTypes=["m5.large"])


def _without_version(patch: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {k: v for k, v in patch.get("metadata", {}).items() if k != "resourceVersion"}
    return {**patch, "metadata": metadata}
