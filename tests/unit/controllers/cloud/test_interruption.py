"""What EC2 announces about instances, through the queue and the controllers (row ANC-7)."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest
from tests.support.claim_stories import ObservedCluster
from tests.support.controlled_cluster import (
    ControlledCluster,
    node_pool,
    pending_pod,
    run_cluster,
)

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.karpenter.shared_fields import NodeClassRef
from wainwright.api.kubernetes.workloads import Pod
from wainwright.api.wire import ObjectMeta
from wainwright.clock import format_timestamp
from wainwright.controllers.runtime import ACCOUNT, Subject
from wainwright.errors import RequestForbiddenError
from wainwright.metrics import (
    INTERRUPTION_MESSAGES_DELETED,
    INTERRUPTION_MESSAGES_RECEIVED,
    UNHEALTHY_INSTANCES,
)
from wainwright.translate.object_metadata import parse_timestamp

TYPES = ["m5.large", "m6i.large"]
DEADLINE = "karpenter.sh/nodeclaim-termination-timestamp"


def pool_of(capacity_type: str = "spot", *types: str) -> NodePool:
    requirements = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity_type]},
        {
            "key": "node.kubernetes.io/instance-type",
            "operator": "In",
            "values": [*(types or TYPES)],
        },
    ]
    return node_pool(template={"spec": {"requirements": requirements}})


async def running_node(cluster: ControlledCluster, pool: NodePool | None = None) -> NodeClaim:
    """A pod on a node."""
    await cluster.set_up(pool or pool_of())
    cluster.start()
    await cluster.wait(5)
    await cluster.create(pending_pod())
    await cluster.wait(20)
    node = await cluster.join(await cluster.claim())
    await cluster.bind("web-0", node.metadata.name)
    await cluster.wait(10)
    return await cluster.claim()


def instance_of(claim: NodeClaim) -> str:
    assert claim.status is not None
    return claim.status.providerID.rpartition("/")[2]


def interrupt(cluster: ControlledCluster, claim: NodeClaim, kind: str, **more: Any) -> None:
    interruption = {"instance": instance_of(claim), "kind": kind, **more}
    cluster.account.change({"interruptions": [interruption]})


async def is_going(cluster: ControlledCluster, claim: NodeClaim) -> bool:
    found = [each for each in await cluster.claims() if each.metadata.uid == claim.metadata.uid]
    return not found or found[0].metadata.deletionTimestamp is not None


async def replacing_claim(cluster: ControlledCluster) -> NodeClaim:
    """The claim of the pod that a ReplicaSet creates in place of the evicted one."""
    await cluster.wait(1)
    await cluster.create(pending_pod("web-1"))
    await cluster.wait(15)
    (found,) = [each for each in await cluster.claims() if not each.metadata.deletionTimestamp]
    return found


async def events_about(cluster: ControlledCluster, reason: str) -> set[str]:
    return {each.involvedObject.kind for each in await cluster.events(reason)}


@pytest.mark.parametrize(
    ("kind", "reason", "metric"),
    [
        ("spot", "SpotInterrupted", "spot_interrupted"),
        (
            "reservation",
            "CapacityReservationInstanceInterrupted",
            "capacity_reservation_interrupted",
        ),
        ("instance-retirement", "InstanceUnhealthy", "scheduled_change"),
        ("system-reboot", "InstanceUnhealthy", "scheduled_change"),
    ],
)
def test_anc_7_an_announced_end_deletes_the_claim_at_once(
    kind: str, reason: str, metric: str
) -> None:
    async def story(cluster: ControlledCluster) -> None:
        claim = await running_node(cluster)
        interrupt(cluster, claim, kind)
        await cluster.wait(1)
        assert await is_going(cluster, claim)
        assert DEADLINE not in ((await cluster.claims())[0].metadata.annotations or {})
        for each in (reason, "TerminatingOnInterruption"):
            assert await events_about(cluster, each) == {"NodeClaim", "Node"}
        assert cluster.disrupted(metric, "spot") == 1

    run_cluster(story, instanceTypes=TYPES)


def test_anc_7_the_pods_of_an_interrupted_node_get_another_one_before_it_ends() -> None:
    async def story(cluster: ControlledCluster) -> None:
        claim = await running_node(cluster)
        interrupt(cluster, claim, "spot")
        replacement = await replacing_claim(cluster)
        assert {instance_of(claim), instance_of(replacement)} == set(cluster.instances())

    run_cluster(story, instanceTypes=TYPES)


def test_anc_7_a_reclaimed_spot_offering_is_not_bought_again_for_a_while() -> None:
    async def story(cluster: ControlledCluster) -> None:
        claim = await running_node(cluster)
        labels = claim.metadata.labels or {}
        offering = labels["node.kubernetes.io/instance-type"], labels["topology.kubernetes.io/zone"]
        interrupt(cluster, claim, "spot")
        bought = (await replacing_claim(cluster)).metadata.labels or {}
        assert offering != (
            bought["node.kubernetes.io/instance-type"],
            bought["topology.kubernetes.io/zone"],
        )

    run_cluster(story, instanceTypes=TYPES)


def test_anc_7_a_rebalance_recommendation_is_advice() -> None:
    async def story(cluster: ControlledCluster) -> None:
        claim = await running_node(cluster)
        interrupt(cluster, claim, "rebalance")
        await cluster.wait(120)
        assert not await is_going(cluster, claim)
        (on_node, on_claim) = await cluster.events("SpotRebalanceRecommendation")
        assert {on_node.type, on_claim.type} == {"Normal"}
        assert await cluster.events("TerminatingOnInterruption") == []

    run_cluster(story, instanceTypes=TYPES)


def test_anc_7_an_instance_that_ends_by_itself_takes_its_claim_along() -> None:
    async def story(cluster: ControlledCluster) -> None:
        claim = await running_node(cluster)
        cluster.account.answer("ec2", "TerminateInstances", {"InstanceIds": [instance_of(claim)]})
        await cluster.wait(25)
        assert await is_going(cluster, claim)
        assert await events_about(cluster, "InstanceTerminating") == {"NodeClaim", "Node"}

    run_cluster(story, instanceTypes=TYPES)


def test_anc_7_an_instance_that_is_stopped_takes_its_claim_along() -> None:
    """As EventBridge announces it: only people stop instances."""

    async def story(cluster: ControlledCluster) -> None:
        claim = await running_node(cluster)
        message = {
            "source": "aws.ec2",
            "detail-type": "EC2 Instance State-change Notification",
            "detail": {"instance-id": instance_of(claim), "state": "stopping"},
            "time": format_timestamp(cluster.clock.now()),
        }
        cluster.account.services.sqs.send("wain", json.dumps(message))
        await cluster.wait(25)
        assert await is_going(cluster, claim)
        assert await events_about(cluster, "InstanceStopping") == {"NodeClaim", "Node"}

    run_cluster(story, instanceTypes=TYPES)


def test_anc_7_our_own_terminations_are_no_news() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await running_node(cluster)
        await cluster.api.delete(Pod, "web-0", "default")
        await cluster.stop_pods()
        await cluster.wait(200)
        assert await cluster.claims() == []
        assert await cluster.events("InstanceTerminating") == []
        received = cluster.metrics.value(
            INTERRUPTION_MESSAGES_RECEIVED, message_type="instance_terminating"
        )
        assert received > 0

    run_cluster(story, instanceTypes=TYPES)


def test_anc_7_what_cannot_be_parsed_is_dropped_and_does_not_hold_up_others() -> None:
    async def story(cluster: ControlledCluster) -> None:
        claim = await running_node(cluster)
        cluster.account.services.sqs.send("wain", "not json")
        interrupt(cluster, claim, "spot")
        await cluster.wait(25)
        assert await is_going(cluster, claim)
        unparsable = {"message_type": "unparsable"}
        assert cluster.metrics.value(INTERRUPTION_MESSAGES_RECEIVED, **unparsable) == 1

    run_cluster(story, instanceTypes=TYPES)


def test_anc_7_instances_of_others_are_ignored() -> None:
    async def story(cluster: ControlledCluster) -> None:
        claim = await running_node(cluster)
        await cluster.kill()
        await make_foreign(cluster, claim)
        cluster.start()
        await cluster.wait(5)
        interrupt(cluster, claim, "spot")
        interrupt(cluster, claim, "instance-check")
        await cluster.wait(300)
        (left,) = await cluster.claims()
        assert left.metadata.name == "foreign"
        assert left.metadata.deletionTimestamp is None
        assert await cluster.events("SpotInterrupted") == []

    run_cluster(story, instanceTypes=TYPES)


async def make_foreign(cluster: ControlledCluster, claim: NodeClaim) -> None:
    """Gives the instance of the claim to one of another provider."""
    await cluster.api.delete(NodeClaim, claim.metadata.name)
    await cluster.api.patch(NodeClaim, claim.metadata.name, {"metadata": {"finalizers": []}})
    other = NodeClassRef(group="example.com", kind="OtherNodeClass", name="default")
    spec = msgspec.structs.replace(claim.spec, nodeClassRef=other)
    labels = claim.metadata.labels
    await cluster.create(NodeClaim(metadata=ObjectMeta(name="foreign", labels=labels), spec=spec))
    status = {"providerID": f"aws:///us-east-1a/{instance_of(claim)}"}
    await cluster.api.patch_status(NodeClaim, "foreign", {"status": status})


def test_anc_7_an_interruption_that_a_process_did_not_deal_with_is_left_to_the_next() -> None:
    async def story(cluster: ControlledCluster) -> None:
        claim = await running_node(cluster)
        await cluster.kill()
        interrupt(cluster, claim, "spot")
        await cluster.wait(5)
        cluster.start()
        await cluster.wait(5)
        assert await is_going(cluster, claim)

    run_cluster(story, instanceTypes=TYPES)


def test_anc_7_a_message_is_acknowledged_only_when_it_is_dealt_with() -> None:
    """The API server is away for longer than the attempts take: the queue delivers it again."""

    async def story(cluster: ControlledCluster) -> None:
        claim = await running_node(cluster)
        acknowledged = cluster.metrics.value(INTERRUPTION_MESSAGES_DELETED)
        cluster.api.stop()
        interrupt(cluster, claim, "spot", seconds=600)
        await cluster.wait(15)
        assert cluster.metrics.value(INTERRUPTION_MESSAGES_DELETED) == acknowledged
        cluster.api.start()
        await cluster.wait(60)
        assert await is_going(cluster, claim)
        assert cluster.metrics.value(INTERRUPTION_MESSAGES_DELETED) > acknowledged

    run_cluster(story, instanceTypes=TYPES)


def test_anc_7_a_message_that_always_fails_does_not_hold_up_the_others() -> None:
    """Somebody's webhook refuses to delete one of the claims."""

    async def story(cluster: ControlledCluster) -> None:
        refused: list[str] = []

        def before(verb: str, kind: str, details: Mapping[str, Any]) -> None:
            if (verb, kind) == ("delete", "NodeClaim") and details.get("name") in refused:
                raise RequestForbiddenError("the webhook says no")

        cluster.port = ObservedCluster(cluster.api, before)
        await cluster.set_up(pool_of())
        cluster.start()
        await cluster.wait(5)
        for name in ("web-0", "web-1", "web-2"):
            await cluster.add_node(name)
        first, second, third = await cluster.claims()
        refused.append(first.metadata.name)
        interrupt(cluster, first, "spot", seconds=600)
        interrupt(cluster, second, "spot", seconds=600)
        await cluster.wait(5)
        assert [await is_going(cluster, each) for each in (first, second)] == [False, True]
        await cluster.wait(60)  # the queue has delivered the first one again and again
        interrupt(cluster, third, "spot", seconds=600)
        await cluster.wait(1)
        assert await is_going(cluster, third)
        refused.clear()
        await cluster.wait(60)
        assert await is_going(cluster, first)

    run_cluster(story, instanceTypes=TYPES)


def test_anc_7_a_process_that_is_killed_while_it_deletes_leaves_the_message() -> None:
    async def story(cluster: ControlledCluster) -> None:
        claim = await running_node(cluster)
        cluster.api.stop()
        interrupt(cluster, claim, "spot", seconds=600)
        await cluster.wait(1)
        await cluster.kill()
        cluster.api.start()
        cluster.start()
        await cluster.wait(30)
        assert await is_going(cluster, claim)

    run_cluster(story, instanceTypes=TYPES)


@pytest.mark.parametrize("check", ["instance-check", "system-check"])
def test_anc_7_an_instance_that_fails_its_checks_for_two_minutes_goes_forcefully(
    check: str,
) -> None:
    async def story(cluster: ControlledCluster) -> None:
        claim = await running_node(cluster)
        interrupt(cluster, claim, check)
        await cluster.wait(119)
        assert not await is_going(cluster, claim)
        await cluster.wait(61)
        assert await is_going(cluster, claim)
        annotations = (await cluster.claims())[0].metadata.annotations or {}
        deadline = parse_timestamp(annotations[DEADLINE])
        assert deadline is not None
        assert deadline <= cluster.clock.now()
        (pod,) = await cluster.pods()
        assert pod.metadata.deletionTimestamp is not None
        assert pod.metadata.deletionGracePeriodSeconds == 1
        assert await events_about(cluster, "InstanceUnhealthy") == {"NodeClaim", "Node"}
        await cluster.wait(300)
        assert cluster.metrics.value(UNHEALTHY_INSTANCES, category="instance_unhealthy") == 1

    run_cluster(story, instanceTypes=TYPES)


def test_anc_7_failed_checks_bring_the_end_of_a_drain_forward() -> None:
    """A pod that may not be disrupted holds up the drain, and then the instance hangs."""

    async def story(cluster: ControlledCluster) -> None:
        claim = await running_node(cluster)
        kept = {"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}
        await cluster.api.patch(Pod, "web-0", kept, "default")
        interrupt(cluster, claim, "spot", seconds=3600)
        await cluster.wait(30)
        (pod,) = await cluster.pods()
        assert pod.metadata.deletionTimestamp is None
        interrupt(cluster, claim, "instance-check")
        await cluster.wait(185)
        (pod,) = await cluster.pods()
        assert pod.metadata.deletionTimestamp is not None

    run_cluster(story, instanceTypes=TYPES)


def test_anc_7_checks_that_recover_in_time_are_forgotten() -> None:
    async def story(cluster: ControlledCluster) -> None:
        claim = await running_node(cluster)
        interrupt(cluster, claim, "instance-check")
        await cluster.wait(100)
        interrupt(cluster, claim, "recovered")
        await cluster.wait(300)
        assert not await is_going(cluster, claim)

    run_cluster(story, instanceTypes=TYPES)


def test_anc_7_a_scheduled_event_is_found_without_the_queue_and_is_graceful() -> None:
    async def story(cluster: ControlledCluster) -> None:
        claim = await running_node(cluster)
        denied = {"operation": "ReceiveMessage", "code": "AccessDenied", "status": 403}
        cluster.account.change({"faults": [denied]})
        await cluster.wait(30)
        interrupt(cluster, claim, "instance-retirement", seconds=3600)
        await cluster.wait(61)
        assert await is_going(cluster, claim)
        left = (await cluster.claims())[0]
        assert DEADLINE not in (left.metadata.annotations or {})

    run_cluster(story, instanceTypes=TYPES)


class Changes:
    """The feed of a simulation, with changes as the test says."""

    def __init__(self) -> None:
        self._callbacks: list[Callable[[Subject], None]] = []

    def on_change(self, callback: Callable[[Subject], None]) -> None:
        self._callbacks.append(callback)

    def happen(self) -> None:
        for callback in self._callbacks:
            callback(ACCOUNT)


def test_anc_7_checks_that_fail_for_long_are_found_where_nothing_else_changes() -> None:
    """A simulation polls only after changes; that two minutes have passed is none."""

    async def story(cluster: ControlledCluster) -> None:
        changes = Changes()
        cluster.feed = changes
        claim = await running_node(cluster)
        await cluster.wait(600)
        interrupt(cluster, claim, "instance-check")
        changes.happen()
        await cluster.wait(180)
        assert await is_going(cluster, claim)

    run_cluster(story, instanceTypes=TYPES)
