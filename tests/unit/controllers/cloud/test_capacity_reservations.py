"""Capacity reservations through the controllers, while time passes (rows ACR-2 to ACR-4, and items
48 to 50 and 56 of the design of capacity reservations).
"""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from tests.support.aws_account import discovered_node_class
from tests.support.controlled_cluster import (
    ControlledCluster,
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
from wainwright.api.wire import ObjectMeta
from wainwright.clock import EPOCH
from wainwright.model.labels import (
    CAPACITY_TYPE,
    ON_DEMAND,
    RESERVATION_ID,
    RESERVATION_INTERRUPTIBLE,
    RESERVATION_TYPE,
    RESERVED,
)

TYPES = ["m5.large", "m5.xlarge"]
HOUR = 3600.0


def at(seconds: float) -> str:
    """A moment so many seconds after the start."""
    return datetime.fromtimestamp(EPOCH + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def reservation(identity: str = "cr-1", total: int = 1, **more: Any) -> CloudReservation:
    stated = {"instanceType": "m5.large", "availabilityZone": "us-east-1a", **more}
    return CloudReservation(id=identity, total=total, tags={"team": "web"}, **stated)


def block(identity: str, *, start: float = 0.0, end: float, **more: Any) -> CloudReservation:
    return reservation(
        identity,
        startTime=at(start),
        endTime=at(end),
        reservationType="capacity-block",
        **more,
    )


def reserved_pool(*capacity_types: str) -> NodePool:
    requirement = {
        "key": CAPACITY_TYPE,
        "operator": "In",
        "values": [*(capacity_types or (RESERVED, ON_DEMAND))],
    }
    return node_pool(template={"spec": {"requirements": [requirement]}})


async def start(cluster: ControlledCluster, pool: NodePool | None = None) -> None:
    terms = [{"tags": {"team": "web"}}]
    await cluster.create(
        discovered_node_class(capacityReservationSelectorTerms=terms), pool or reserved_pool()
    )
    cluster.start()
    await cluster.wait(5)


async def run_pod(cluster: ControlledCluster, name: str = "web-0") -> NodeClaim:
    """A pod that needs a node for itself, on its node."""
    known = {claim.metadata.name for claim in await cluster.claims()}
    await cluster.create(pending_pod(name, cpu="1500m"))
    await cluster.wait(12)
    (claim,) = [each for each in await cluster.claims() if each.metadata.name not in known]
    node = await cluster.join(claim)
    await cluster.bind(name, node.metadata.name)
    await cluster.wait(2)
    return await cluster.api.get(NodeClaim, claim.metadata.name)


async def reservation_labels(cluster: ControlledCluster) -> list[tuple[str | None, ...]]:
    """Of every NodeClaim and Node the capacity type, and the labels of its reservation."""
    found: list[NodeClaim | Node] = [*await cluster.claims(), *await cluster.nodes()]
    keys = (CAPACITY_TYPE, RESERVATION_ID, RESERVATION_TYPE)
    return [tuple((each.metadata.labels or {}).get(key) for key in keys) for each in found]


async def selected(cluster: ControlledCluster) -> list[str]:
    """The reservations in the status of the class."""
    node_class = await cluster.api.get(EC2NodeClass, "default")
    assert node_class.status is not None
    return [each.id for each in node_class.status.capacityReservations or ()]


def cancel(cluster: ControlledCluster, identity: str = "cr-1") -> None:
    parameters = {"CapacityReservationId": identity}
    cluster.account.answer("ec2", "CancelCapacityReservation", parameters)


IN_RESERVATION = (RESERVED, "cr-1", "default")
LEFT = (ON_DEMAND, None, None)


def test_acr_3_m49_a_node_that_left_its_reservation_is_on_demand_within_a_minute() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await start(cluster)
        await run_pod(cluster)
        assert await reservation_labels(cluster) == [IN_RESERVATION] * 2
        cancel(cluster)
        await cluster.wait(60)
        assert await reservation_labels(cluster) == [LEFT] * 2
        assert await selected(cluster) == []

    run_cluster(story, reservation(), instanceTypes=TYPES)


@pytest.mark.parametrize("left", [NodeClaim, Node])
def test_acr_3_works_where_only_one_of_claim_and_node_is_left_to_relabel(left: Any) -> None:
    """A process may have ended between the two writes, or the claim may be gone."""

    async def story(cluster: ControlledCluster) -> None:
        await start(cluster)
        claim = await run_pod(cluster)
        await cluster.kill()
        if left is Node:
            await cluster.api.patch(
                NodeClaim, claim.metadata.name, {"metadata": {"finalizers": []}}
            )
            await cluster.api.delete(NodeClaim, claim.metadata.name)
        else:
            (node,) = await cluster.nodes()
            labels = {CAPACITY_TYPE: ON_DEMAND, RESERVATION_ID: None, RESERVATION_TYPE: None}
            await cluster.api.patch(Node, node.metadata.name, {"metadata": {"labels": labels}})
        cancel(cluster)
        await cluster.wait(5)
        cluster.start()
        await cluster.wait(20)
        assert set(await reservation_labels(cluster)) == {LEFT}

    run_cluster(story, reservation(), instanceTypes=TYPES)


def test_acr_3_a_reservation_that_ends_by_itself_is_seen_within_a_minute_and_nothing_drifts() -> (
    None
):
    """Items 13, 48 to 50: the instance runs on at the on-demand price."""

    async def story(cluster: ControlledCluster) -> None:
        await start(cluster)
        claim = await run_pod(cluster)
        await cluster.wait(HOUR - (cluster.clock.now() - cluster.began))
        assert await reservation_labels(cluster) == [IN_RESERVATION] * 2
        await cluster.wait(60)
        assert await reservation_labels(cluster) == [LEFT] * 2
        assert await selected(cluster) == []
        await cluster.wait(900)
        left = await cluster.claim()
        assert left.metadata.uid == claim.metadata.uid
        assert left.metadata.deletionTimestamp is None
        assert conditions(left).get("Drifted", ("False", ""))[0] != "True"
        assert len(cluster.instances()) == 1

    run_cluster(story, reservation(endTime=at(HOUR)), instanceTypes=TYPES)


def test_acr_3_nodes_of_others_are_not_relabelled() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await start(cluster)
        labels = {CAPACITY_TYPE: RESERVED, RESERVATION_ID: "cr-9"}
        await cluster.create(Node(metadata=ObjectMeta(name="other", labels=labels)))
        await cluster.wait(180)
        (node,) = await cluster.nodes()
        assert (node.metadata.labels or {}).items() >= labels.items()

    run_cluster(story, reservation(), instanceTypes=TYPES)


def test_acr_3_goes_on_after_ec2_has_failed() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await start(cluster)
        await run_pod(cluster)
        fault = {"operation": "DescribeInstances", "code": "AccessDenied", "status": 403}
        cluster.account.change({"faults": [fault]})
        cancel(cluster)
        await cluster.wait(3 * HOUR)
        assert await reservation_labels(cluster) == [IN_RESERVATION] * 2
        cluster.account.change({"faults": []})
        await cluster.wait(60)
        assert await reservation_labels(cluster) == [LEFT] * 2

    run_cluster(story, reservation(), instanceTypes=TYPES)


def test_acr_2_counts_are_corrected_by_our_own_launches_at_once() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await start(cluster)
        first = await run_pod(cluster)
        second = await run_pod(cluster, "web-1")
        found = [(each.metadata.labels or {})[CAPACITY_TYPE] for each in (first, second)]
        assert found == [RESERVED, ON_DEMAND]
        assert cluster.clock.now() - cluster.began < 60

    run_cluster(story, reservation(), instanceTypes=TYPES)


def test_acr_2_a_terminated_instance_frees_its_reservation_at_once() -> None:
    """Before the next poll: its pods get the same reservation again."""

    async def story(cluster: ControlledCluster) -> None:
        await start(cluster, reserved_pool(RESERVED))
        claim = await run_pod(cluster)
        await cluster.wait(62 - (cluster.clock.now() - cluster.began))
        await cluster.api.delete(NodeClaim, claim.metadata.name)
        await cluster.wait(2)
        await cluster.stop_pods()
        await cluster.wait(10)
        await cluster.create(pending_pod("web-1", cpu="1500m"))
        await cluster.wait(25)
        (labels,) = [
            each.metadata.labels or {}
            for each in await cluster.claims()
            if not each.metadata.deletionTimestamp and each.status and each.status.providerID
        ]
        assert labels[RESERVATION_ID] == "cr-1"
        assert cluster.clock.now() - cluster.began < 120

    run_cluster(story, reservation(), instanceTypes=TYPES)


def test_acr_4_only_the_nodes_of_a_block_that_ends_are_drained_before_its_end() -> None:
    """Two blocks side by side, of which one goes on. Without the queue: its warning comes at the
    same moment, and would have the nodes drained as well.
    """

    async def story(cluster: ControlledCluster) -> None:
        denied = {"operation": "ReceiveMessage", "code": "AccessDenied", "status": 403}
        cluster.account.change({"faults": [denied]})
        await start(cluster)
        claims = [await run_pod(cluster), await run_pod(cluster, "web-1")]
        by_block = {(each.metadata.labels or {})[RESERVATION_ID]: each for each in claims}
        assert set(by_block) == {"cr-1", "cr-2"}
        await cluster.wait(2 * HOUR - 2400 - (cluster.clock.now() - cluster.began) - 2)
        assert len(await cluster.claims()) == 2
        await cluster.wait(70)
        await cluster.stop_pods()
        await cluster.wait(60)
        assert [each.metadata.uid for each in await cluster.claims()] == [
            by_block["cr-2"].metadata.uid
        ]
        assert len(await cluster.events("CapacityReservationExpiring")) == 1

    run_cluster(
        story,
        block("cr-1", end=2 * HOUR),
        block("cr-2", end=48 * HOUR),
        instanceTypes=TYPES,
    )


def test_acr_4_reservations_that_are_no_blocks_are_not_drained() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await start(cluster)
        claim = await run_pod(cluster)
        await cluster.wait(2 * HOUR)
        assert (await cluster.claim()).metadata.uid == claim.metadata.uid

    run_cluster(story, reservation(endTime=at(2 * HOUR)), instanceTypes=TYPES)


def test_a_block_is_used_from_its_begin_on() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await start(cluster, reserved_pool(RESERVED))
        await cluster.create(pending_pod(cpu="1500m"))
        await cluster.wait(HOUR - 10)
        assert await cluster.claims() == []
        await cluster.wait(90)
        claim = await cluster.claim()
        labels = claim.metadata.labels or {}
        assert (labels[RESERVATION_ID], labels[RESERVATION_TYPE]) == ("cr-1", "capacity-block")

    run_cluster(story, block("cr-1", start=HOUR, end=48 * HOUR), instanceTypes=TYPES)


def test_the_instances_of_an_interruptible_reservation_can_be_taken_back() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await start(cluster)
        claim = await run_pod(cluster)
        labels = claim.metadata.labels or {}
        assert (labels[RESERVATION_ID], labels[RESERVATION_INTERRUPTIBLE]) == ("cr-1", "true")
        assert claim.status is not None
        instance = claim.status.providerID.rpartition("/")[2]
        interruption = {"instance": instance, "kind": "reservation"}
        cluster.account.change({"interruptions": [interruption]})
        await cluster.wait(1)
        (left,) = await cluster.claims()
        assert left.metadata.deletionTimestamp is not None
        assert len(await cluster.events("CapacityReservationInstanceInterrupted")) == 2

    run_cluster(story, reservation(interruptible=True), instanceTypes=TYPES)


def test_m56_a_relabelled_node_drifts_only_where_its_pool_requires_reservations() -> None:
    """The pool of reservations alone gets a node in the next one; the other pool keeps its node."""

    async def story(cluster: ControlledCluster) -> None:
        await start(cluster, reserved_pool(RESERVED))
        claim = await run_pod(cluster)
        cancel(cluster)
        await cluster.wait(180)
        assert conditions(await cluster.claim())["Drifted"] == ("True", "RequirementsDrifted")
        cluster.account.change({"capacityReservations": [msgspec.to_builtins(reservation("cr-2"))]})
        await cluster.wait(120)
        (replacement,) = [
            each for each in await cluster.claims() if each.metadata.uid != claim.metadata.uid
        ]
        assert (replacement.metadata.labels or {})[RESERVATION_ID] == "cr-2"

    run_cluster(story, reservation(), instanceTypes=TYPES)
