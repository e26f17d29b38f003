"""Expiration and garbage collection: rows E1, E2, EXP-1, G1 to G3, LIF-5, and the instances of
ANC-6; and what becomes of claims whose reservation was full.
"""

from collections.abc import Awaitable, Callable

import pytest
from tests.support.aws_account import discovered_node_class
from tests.support.claim_stories import (
    FOREIGN_REF,
    begin,
    initialized,
    launched,
    node_claim,
    record_calls,
)
from tests.support.controlled_cluster import (
    ControlledCluster,
    conditions,
    node_pool,
    pending_pod,
    run_cluster,
)

from wainwright.api.catalog_documents import CloudReservation
from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.cluster import Node, NodeSpec
from wainwright.api.wire import ObjectMeta
from wainwright.emulator.context import Params, Response
from wainwright.metrics import PODS_DISRUPTION_INITIATED, RECONCILE_ERRORS
from wainwright.model.labels import NODEPOOL
from wainwright.sim.fault_injection import Fault, FaultInjection, FaultInjector

DAEMON = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "1"}


def _disrupted(cluster: ControlledCluster, reason: str, capacity_type: str = "on-demand") -> float:
    return cluster.disrupted(reason, capacity_type)


async def _deleted(cluster: ControlledCluster) -> list[str]:
    """The names of claims that are being deleted, or are gone, of web-1 … web-n."""
    return [
        claim.metadata.name
        for claim in await cluster.claims()
        if claim.metadata.deletionTimestamp is not None
    ]


def test_e1_the_age_of_the_claim_counts_and_not_that_of_its_pool() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        await launched(cluster, node_claim("short", expireAfter="10m"))
        await launched(cluster, node_claim("long", expireAfter="12m"))
        await launched(cluster, node_claim("never", expireAfter="Never"))
        pool = {"spec": {"template": {"spec": {"expireAfter": "1m"}}}}
        await cluster.api.patch(NodePool, "web", pool)
        await cluster.wait(600 - 15 - 0.1)
        assert await _deleted(cluster) == []
        await cluster.wait(0.2)
        assert await _deleted(cluster) == ["short"]
        await cluster.wait(145)
        assert [claim.metadata.name for claim in await cluster.claims()] == ["never"]

    run_cluster(story)


def test_e2_a_claim_expires_once_and_foreign_ones_never() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        await cluster.create(node_claim("foreign", nodeClassRef=FOREIGN_REF, expireAfter="1m"))
        _, node = await initialized(cluster, node_claim(expireAfter="5m"))
        protected = pending_pod(metadata={"annotations": {"karpenter.sh/do-not-disrupt": "true"}})
        await cluster.create(protected)
        await cluster.bind("web-0", node.metadata.name)
        await cluster.wait(400)
        assert await _deleted(cluster) == ["web-1"]
        await cluster.kill()
        cluster.start()
        await cluster.wait(60)
        assert _disrupted(cluster, "expired") == 1
        assert {claim.metadata.name for claim in await cluster.claims()} == {"foreign", "web-1"}

    run_cluster(story)


def test_e2_a_claim_expires_although_its_node_is_younger() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        claim = await launched(cluster, node_claim(expireAfter="5m"))
        await cluster.wait(285)
        await cluster.join(claim)
        await cluster.wait(12)
        assert await _deleted(cluster) == ["web-1"]

    run_cluster(story)


def test_exp_1_pods_that_need_another_node_are_counted() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        _, node = await initialized(cluster, node_claim(expireAfter="5m"))
        finished = pending_pod("done", cpu="100m")
        agent = pending_pod("agent", cpu="100m", metadata={"ownerReferences": [DAEMON]})
        pods = [pending_pod("a", cpu="100m"), pending_pod("b", cpu="100m"), finished]
        cluster.api.load([agent])
        await cluster.create(*pods)
        for name in ("a", "b", "done", "agent"):
            await cluster.bind(name, node.metadata.name)
        done = {"status": {"phase": "Succeeded"}}
        await cluster.api.patch_status(type(finished), "done", done, "default")
        await cluster.wait(300)
        labels = {"nodepool": "web", "reason": "expired"}
        assert cluster.metrics.value(PODS_DISRUPTION_INITIATED, **labels) == 2

    run_cluster(story)


async def _lose_node(cluster: ControlledCluster, name: str) -> None:
    """What the node lifecycle controller writes about a node that does not answer."""
    await cluster.set_ready(name, "Unknown")


def test_g1_all_claims_whose_instance_is_gone_go_in_one_pass() -> None:
    async def story(cluster: ControlledCluster) -> None:
        cluster.account.change({"pace": {"shutdown": {"median": 3000}}})
        calls = record_calls(cluster)
        await begin(cluster)
        claims = [node_claim(f"web-{n:03}") for n in range(40)]
        await cluster.create(*claims)
        await cluster.wait(10)
        for claim in await cluster.claims():
            await cluster.join(claim)
        await cluster.wait(1)
        instances = cluster.instances()
        cluster.account.services.instances.terminate(instances)
        for node in await cluster.nodes():
            await _lose_node(cluster, node.metadata.name)
        del calls[:]
        await cluster.wait(125)
        # They are still listed, as shutting down.
        deletions = {
            moment for moment, verb, kind in calls if (verb, kind) == ("delete", "NodeClaim")
        }
        assert len(deletions) == 1
        assert len(await _deleted(cluster)) == 40
        assert _disrupted(cluster, "garbage_collected") == 40

    run_cluster(story)


def test_g2_claims_that_never_registered_and_claims_with_an_instance_stay() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        unregistered = await launched(cluster, node_claim("unregistered"))
        _, node = await initialized(cluster, node_claim("without-node"))
        instance = str(unregistered.status and unregistered.status.providerID)
        cluster.account.services.instances.terminate([instance.rpartition("/")[2]])
        await cluster.kill()
        without = {"metadata": {"finalizers": None}}
        await cluster.api.patch(Node, node.metadata.name, without)
        await cluster.api.delete(Node, node.metadata.name)
        cluster.start()
        await cluster.wait(400)
        assert await _deleted(cluster) == []
        assert len(await cluster.claims()) == 2

    run_cluster(story)


@pytest.mark.parametrize(("ready", "is_gone"), [("True", False), ("False", True)])
def test_lif_5_a_ready_node_keeps_a_claim_whose_instance_is_not_listed(
    ready: str, is_gone: bool
) -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        _, node = await initialized(cluster)
        cluster.account.services.instances.terminate(cluster.instances())
        await cluster.set_ready(node.metadata.name, ready)
        await cluster.wait(250)
        assert (await cluster.claims() == []) is is_gone

    run_cluster(story)


class _SlowListing:
    """Lets something happen while EC2 is asked for all instances."""

    def __init__(self, cluster: ControlledCluster, happen: Callable[[], Awaitable[None]]) -> None:
        self._account, self._happen = cluster.account, happen

    async def call(self, service: str, operation: str, params: Params) -> Response:
        answer = await self._account.call(service, operation, params)
        if operation == "DescribeInstances":
            await self._happen()
        return answer


def test_g3_a_claim_that_goes_while_the_cloud_is_asked_is_no_error() -> None:
    async def story(cluster: ControlledCluster) -> None:
        is_lost = False

        async def remove_claim() -> None:
            if is_lost and await cluster.claims():
                without = {"metadata": {"finalizers": None}}
                await cluster.api.patch(NodeClaim, claim.metadata.name, without)
                await cluster.api.delete(NodeClaim, claim.metadata.name)
                await cluster.wait(0.1)

        cluster.seam = _SlowListing(cluster, remove_claim)
        await begin(cluster)
        claim, node = await initialized(cluster)
        cluster.account.services.instances.terminate(cluster.instances())
        await _lose_node(cluster, node.metadata.name)
        is_lost = True
        await cluster.wait(300)
        assert await cluster.claims() == []
        errors = cluster.metrics.value(RECONCILE_ERRORS, controller="nodeclaim.garbagecollection")
        assert errors == 0

    run_cluster(story)


def test_g3_a_claim_that_nobody_saw_go_does_not_keep_the_others_waiting() -> None:
    """It is created, and gone while the watch is broken and knows no history."""

    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        denied = {"operation": "CreateLaunchTemplate", "code": "InternalError", "status": 500}
        cluster.account.change({"faults": [denied]})
        await cluster.create(pending_pod())
        await cluster.wait(3)
        name = (await cluster.claim()).metadata.name
        cluster.api.stop()
        cluster.api.start(forget_history=True)
        await cluster.api.patch(NodeClaim, name, {"metadata": {"finalizers": None}})
        await cluster.api.delete(NodeClaim, name)
        cluster.account.change({"faults": []})
        await cluster.create(pending_pod("web-1"))
        await cluster.wait(60)
        claim = await cluster.claim()
        assert claim.metadata.name != name
        assert conditions(claim)["Launched"][0] == "True"

    run_cluster(story)


def test_anc_6_an_instance_without_a_claim_is_terminated_with_its_node() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        claim, node = await initialized(cluster)
        await cluster.kill()
        # Somebody takes the finalizer off the claim, and deletes it; the node is not owned.
        without = {"metadata": {"ownerReferences": None}}
        await cluster.api.patch(Node, node.metadata.name, without)
        released = {"metadata": {"finalizers": None}}
        await cluster.api.patch(NodeClaim, claim.metadata.name, released)
        await cluster.api.delete(NodeClaim, claim.metadata.name)
        cluster.start()
        await cluster.wait(20)
        assert len(cluster.instances()) == 1  # its claim might be merely not visible yet
        await cluster.wait(260)
        assert (cluster.instances(), await cluster.nodes()) == ([], [])

    run_cluster(story)


def test_anc_6_instances_of_others_are_left_alone() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        await launched(cluster)
        instances = cluster.account.services.instances
        ours = cluster.instances()
        template = await cluster.account.call("ec2", "DescribeLaunchTemplates", {})
        name = template["LaunchTemplates"][0]["LaunchTemplateName"]
        launch = {
            "LaunchTemplate": {"LaunchTemplateName": name},
            "InstanceType": "m5.large",
            "MinCount": 1,
            "MaxCount": 1,
        }
        await cluster.account.call("ec2", "RunInstances", launch)
        assert len(instances.list_alive()) == 2
        await cluster.wait(500)
        assert set(ours) <= set(cluster.instances())

    run_cluster(story)


# Launches into reservations that are full

FULL = CloudReservation(
    id="cr-1",
    instanceType="m5.large",
    availabilityZone="us-east-1a",
    total=1,
    available=1,
)


def test_001_46_a_reservation_that_fills_up_deletes_the_claim_and_its_pod_is_planned_again() -> (
    None
):
    """Also 000-8: on demand is what is left."""

    async def story(cluster: ControlledCluster) -> None:
        selector = [{"id": "cr-1"}]
        requirements = [
            {
                "key": "node.kubernetes.io/instance-type",
                "operator": "In",
                "values": ["m5.large"],
            },
            {
                "key": "karpenter.sh/capacity-type",
                "operator": "In",
                "values": ["reserved", "on-demand"],
            },
        ]
        template = {"spec": {"requirements": requirements}}
        await cluster.create(discovered_node_class(capacityReservationSelectorTerms=selector))
        await cluster.create(node_pool(template=template))
        cluster.start()
        await cluster.wait(5)
        full = {
            "operation": "CreateFleet",
            "code": "ReservationCapacityExceeded",
            "times": 1,
        }
        cluster.account.change({"faults": [full]})
        await cluster.create(pending_pod(cpu="1500m"))
        await cluster.wait(150)
        claim = await cluster.claim()
        assert (claim.metadata.labels or {})["karpenter.sh/capacity-type"] == "on-demand"
        assert len(cluster.instances()) == 1
        assert _disrupted(cluster, "insufficient_capacity", "") == 1
        events = await cluster.events("InsufficientCapacityError")
        assert {each.involvedObject.kind for each in events} == {"NodeClaim", "Pod"}

    run_cluster(story, FULL)


def _lost_node(provider_id: str) -> Node:
    return Node(
        metadata=ObjectMeta(name="lost", labels={NODEPOOL: "web"}),
        spec=NodeSpec(providerID=provider_id),
    )


@pytest.mark.parametrize(
    ("provider_id", "is_kept"), [("aws:///us-east-1a/i-0123456789abcdef0", False), ("", True)]
)
def test_a_node_without_claim_and_instance_is_deleted(provider_id: str, is_kept: bool) -> None:
    """It joined when its claim had just been given up, and its instance ended."""

    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        await cluster.create(_lost_node(provider_id))
        await cluster.wait(300)
        assert bool(await cluster.nodes()) is is_kept

    run_cluster(story)


def test_a_claim_whose_creation_is_answered_with_an_error_is_found() -> None:
    async def story(cluster: ControlledCluster) -> None:
        name = f"create NodeClaim #1: {Fault.AFTER}"
        faults = FaultInjection(
            seed=1, shares={Fault.AFTER: 1.0}, until=3600.0, only=frozenset({name})
        )
        injector = FaultInjector(faults, cluster.clock, cluster.began, kill=lambda: None)
        cluster.port = injector.start_process(cluster.api, cluster.account).cluster
        await begin(cluster)
        await cluster.create(pending_pod())
        await cluster.wait(60)
        assert [each.name for each in injector.happened] == [name]
        assert len(await cluster.claims()) == 1
        assert not cluster.metrics.value(RECONCILE_ERRORS, controller="provisioner")

    run_cluster(story)
