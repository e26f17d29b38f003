"""Rows L1 to L11 of a NodeClaim's life: its launch, what fails, and when it is given up."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from tests.support.aws_account import discovered_node_class
from tests.support.claim_stories import (
    CLASS_REF,
    FOREIGN_REF,
    KEEP_EMPTY_NODES,
    ControllersAlone,
    ObservedCluster,
    begin,
    failing,
    initialized,
    launched,
    message_of,
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

from wainwright.api.catalog_documents import UnavailableOffering
from wainwright.api.karpenter.nodeclaim import NodeClaim, NodeClaimStatus
from wainwright.api.kubernetes.cluster import Node, NodeSpec
from wainwright.api.wire import Condition, ObjectMeta
from wainwright.clock import format_timestamp
from wainwright.controllers.informer_cache import InformerCache
from wainwright.controllers.manager import WATCHED_KINDS
from wainwright.controllers.nodeclaim.launch_log import NodeClaimLaunchLog
from wainwright.controllers.nodeclaim.nodeclaim_lifecycle import NodeClaimLifecycle
from wainwright.controllers.settings import ControllerSettings
from wainwright.errors import ServerUnavailableError
from wainwright.model.node_claim import LaunchRecord
from wainwright.translate.nodeclaims import LAUNCH_RECORD_ANNOTATION, format_launch_record

DENIED = {"operation": "CreateLaunchTemplate", "code": "UnauthorizedOperation", "status": 403}
FLEET_DENIED = {**DENIED, "operation": "CreateFleet"}
"""After which it takes a minute to be sure that nothing was launched."""
NO_CAPACITY = [UnavailableOffering()]


def _is_claim_status(verb: str, kind: str, _: Mapping[str, Any]) -> bool:
    return verb == "patch_status" and kind == "NodeClaim"


def test_l1_the_finalizer_is_written_by_itself_before_the_provider_is_asked() -> None:
    async def story(cluster: ControlledCluster) -> None:
        writes: list[Mapping[str, Any]] = []

        def before(verb: str, kind: str, details: Mapping[str, Any]) -> None:
            if verb == "patch" and kind == "NodeClaim":
                writes.append(details["patch"]["metadata"])

        cluster.port = ObservedCluster(cluster.api, before)
        calls = record_calls(cluster)
        await begin(cluster)
        del calls[:]
        claim = await launched(cluster)
        assert claim.metadata.finalizers == ["karpenter.sh/termination"]
        assert writes[0].keys() == {"finalizers", "resourceVersion"}
        verbs = [verb for _, verb, kind in calls if kind in ("NodeClaim", "ec2")]
        assert verbs.index("patch") < verbs.index("CreateFleet")

    run_cluster(story)


def test_l1_a_claim_of_a_foreign_class_is_left_alone() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        await cluster.create(node_claim(nodeClassRef=FOREIGN_REF))
        await cluster.wait(1200)
        claim = await cluster.claim()
        assert claim.metadata.finalizers is None
        assert claim.status is None
        assert cluster.instances() == []

    run_cluster(story)


@pytest.mark.parametrize("times", [1, 4])
def test_l2_an_answer_that_could_not_be_written_down_is_written_later(times: int) -> None:
    async def story(cluster: ControlledCluster) -> None:
        error = ServerUnavailableError("etcd is away")
        cluster.port = failing(cluster, error, times=times, where=_is_claim_status)
        calls = record_calls(cluster)
        await begin(cluster)
        await cluster.create(node_claim())
        await cluster.wait(60)
        claim = await cluster.claim()
        assert claim.status is not None
        assert [claim.status.providerID.rpartition("/")[2]] == cluster.instances()
        assert [verb for _, verb, _ in calls].count("CreateFleet") == 2  # one is the dry run

    run_cluster(story)


def test_l3_labels_of_the_claim_win_and_annotations_of_the_provider() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        given = node_claim(
            metadata={
                "labels": {"kubernetes.io/arch": "mine"},
                "annotations": {"karpenter.k8s.aws/ec2nodeclass-hash": "mine", "kept": "yes"},
            }
        )
        claim = await launched(cluster, given)
        labels, annotations = claim.metadata.labels or {}, claim.metadata.annotations or {}
        assert labels["kubernetes.io/arch"] == "mine"
        assert labels["kubernetes.io/os"] == "linux"
        assert annotations["kept"] == "yes"
        assert annotations["karpenter.k8s.aws/ec2nodeclass-hash"] not in ("", "mine")

    run_cluster(story)


def test_lif_1_a_launch_sets_provider_id_labels_capacity_and_allocatable() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        given = node_claim()
        team = {"key": "example.com/team", "operator": "In", "values": ["a"]}
        either = {"key": "example.com/tier", "operator": "In", "values": ["a", "b"]}
        requirements = [*msgspec.to_builtins(given.spec.requirements), team, either]
        claim = await launched(cluster, node_claim(requirements=requirements))
        labels = claim.metadata.labels or {}
        assert claim.status is not None
        assert claim.status.providerID.endswith(cluster.instances()[0])
        assert claim.status.imageID.startswith("ami-")
        assert (claim.status.capacity or {})["cpu"] in ("2", 2)
        assert (claim.status.allocatable or {})["cpu"] == "1930m"
        assert labels["node.kubernetes.io/instance-type"] == "m5.large"
        assert labels["example.com/team"] == "a"
        assert "example.com/tier" not in labels
        assert labels["karpenter.k8s.aws/ec2nodeclass"] == "default"

    run_cluster(story)


def test_l4_an_error_with_a_reason_is_in_the_condition_and_the_launch_is_repeated() -> None:
    async def story(cluster: ControlledCluster) -> None:
        calls = record_calls(cluster)
        await begin(cluster)
        cluster.account.change({"faults": [DENIED]})
        del calls[:]
        await cluster.create(node_claim())
        await cluster.wait(200)
        claim = await cluster.claim()
        assert conditions(claim)["Launched"] == ("Unknown", "UnauthorizedOperation")
        assert "UnauthorizedOperation" in message_of(claim, "Launched")
        attempts = [moment for moment, verb, _ in calls if verb == "CreateLaunchTemplate"]
        waits = [later - earlier for earlier, later in pairwise(attempts)]
        assert 0.8 <= waits[0] <= 3
        assert waits[-1] <= 62
        assert waits[:6] == sorted(waits[:6])
        cluster.account.change({"faults": []})
        await cluster.wait(62)
        assert conditions(await cluster.claim())["Launched"] == ("True", "Launched")

    run_cluster(story)


def test_l4_any_other_error_is_a_failed_launch() -> None:
    def is_launch_record(verb: str, kind: str, details: Mapping[str, Any]) -> bool:
        is_claim = verb == "patch" and kind == "NodeClaim"
        return is_claim and "annotations" in details["patch"].get("metadata", {})

    async def story(cluster: ControlledCluster) -> None:
        error = ServerUnavailableError("etcd is away")
        cluster.port = failing(cluster, error, times=3, where=is_launch_record)
        await begin(cluster)
        await cluster.create(node_claim())
        await cluster.wait(2)
        claim = await cluster.claim()
        assert conditions(claim)["Launched"] == ("Unknown", "LaunchFailed")
        assert "etcd is away" in message_of(claim, "Launched")
        await cluster.wait(60)
        assert conditions(await cluster.claim())["Launched"] == ("True", "Launched")

    run_cluster(story)


def test_l4_a_failure_stays_readable_while_it_is_not_clear_what_came_of_it() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        cluster.account.change({"faults": [FLEET_DENIED]})
        await cluster.create(node_claim())
        for _ in range(4):
            await cluster.wait(15)
            claim = await cluster.claim()
            assert conditions(claim)["Launched"] == ("Unknown", "UnauthorizedOperation")

    run_cluster(story)


def test_l5_the_text_of_a_launch_error_is_cut() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        cluster.account.change({"faults": [{**DENIED, "message": "because " * 500}]})
        await cluster.create(node_claim())
        await cluster.wait(30)
        message = message_of(await cluster.claim(), "Launched")
        assert len(message) == 1024
        assert message.endswith("...")

    run_cluster(story)


def test_l6_no_capacity_is_an_event_of_the_pods_that_the_claim_was_made_for() -> None:
    """Neither to those that have a node by then nor to those that are gone."""

    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up()
        await cluster.create(Node(metadata=ObjectMeta(name="other"), spec=NodeSpec()))
        cluster.start()
        await cluster.wait(5)
        await cluster.create(*(pending_pod(f"web-{n}") for n in range(3)))
        while not await cluster.claims():
            await cluster.wait(0.01)
        name = (await cluster.claim()).metadata.name
        await cluster.bind("web-1", "other")
        await cluster.api.delete(type(pending_pod()), "web-2", "default")
        await cluster.wait(3)
        events = await cluster.events("InsufficientCapacityError")
        about = {(each.involvedObject.kind, each.involvedObject.name) for each in events}
        assert {("NodeClaim", name), ("Pod", "web-0")} <= about
        assert not {("Pod", "web-1"), ("Pod", "web-2")} & about
        (event,) = (
            each
            for each in events
            if each.involvedObject.kind == "Pod" and f"NodeClaim {name}: " in each.message
        )
        assert event.involvedObject.name == "web-0"
        assert "InsufficientInstanceCapacity" in event.message

    run_cluster(story, unavailable=NO_CAPACITY)


def test_l6_events_of_many_pods_are_written_at_a_limited_rate() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up()
        cluster.start()
        await cluster.wait(5)
        await cluster.create(*(pending_pod(f"web-{n}", cpu="100m") for n in range(40)))
        await cluster.wait(4)
        events = await cluster.events("InsufficientCapacityError")
        pods = [each for each in events if each.involvedObject.kind == "Pod"]
        assert 10 <= len(pods) <= 25

    run_cluster(story, unavailable=NO_CAPACITY)


def test_l7_launches_that_are_impossible_are_counted_by_reason() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        cluster.account.change({"unavailable": [{}]})
        await cluster.create(node_claim())
        await cluster.wait(30)
        assert await cluster.claims() == []
        assert _disrupted(cluster, "insufficient_capacity") == 1
        nowhere = [{"tags": {"name": "nowhere"}}]
        await cluster.create(discovered_node_class("bare", subnetSelectorTerms=nowhere))
        await cluster.wait(5)
        await cluster.create(node_claim("web-2", nodeClassRef={**CLASS_REF, "name": "bare"}))
        await cluster.wait(30)
        assert await cluster.claims() == []
        assert _disrupted(cluster, "nodeclass_not_ready") == 1
        (event,) = await cluster.events("NodeClassNotReady")
        assert event.involvedObject.name == "web-2"

    run_cluster(story)


def _disrupted(cluster: ControlledCluster, reason: str, capacity_type: str = "") -> float:
    return cluster.disrupted(reason, capacity_type)


def _observed(claim: NodeClaim) -> dict[str, int | None]:
    assert claim.status is not None
    return {each.type: each.observedGeneration for each in claim.status.conditions or ()}


def test_l8_conditions_follow_the_generation_of_a_claim_that_is_ready() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        claim, _ = await initialized(cluster)
        await cluster.kill()
        metadata = msgspec.structs.replace(claim.metadata, generation=7)
        cluster.api.load([msgspec.structs.replace(claim, metadata=metadata)])
        cluster.start()
        await cluster.wait(2)
        after = await cluster.claim()
        assert set(_observed(after).values()) == {7}
        assert {"Launched", "Registered", "Initialized", "Ready"} <= _observed(after).keys()
        assert conditions(after) == conditions(claim)

    run_cluster(story)


def test_l8_conditions_follow_the_generation_of_a_claim_that_is_being_deleted() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        claim, _ = await initialized(cluster)
        await cluster.api.delete(NodeClaim, claim.metadata.name)
        await cluster.wait(1)
        after = await cluster.claim()
        assert after.metadata.generation == 2
        assert {_observed(after)[each] for each in ("Launched", "Registered", "Ready")} == {2}
        assert conditions(after)["Ready"] == ("True", "Ready")

    run_cluster(story)


def _stamped(cluster: ControlledCluster, *, created: float, changed: float) -> NodeClaim:
    """A claim that was created and has failed so many seconds after the start."""
    claim = node_claim(metadata={"creationTimestamp": format_timestamp(cluster.began + created)})
    failed = Condition(
        type="Launched",
        status="Unknown",
        reason="LaunchFailed",
        lastTransitionTime=format_timestamp(cluster.began + changed),
    )
    return msgspec.structs.replace(claim, status=NodeClaimStatus(conditions=[failed]))


def test_l9_the_clocks_start_at_the_last_transition_of_the_condition() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        cluster.account.change({"faults": [DENIED]})
        await cluster.wait(595)
        cluster.api.load([_stamped(cluster, created=0, changed=600)])
        await cluster.wait(120)
        assert len(await cluster.claims()) == 1
        await cluster.wait(200)
        assert await cluster.claims() == []

    run_cluster(story)


def test_l10_a_claim_that_cannot_be_launched_is_tried_again_and_then_deleted() -> None:
    async def story(cluster: ControlledCluster) -> None:
        calls = record_calls(cluster)
        await begin(cluster)
        cluster.account.change({"faults": [DENIED]})
        await cluster.create(node_claim())
        await cluster.wait(60)
        tried = [verb for _, verb, _ in calls].count("CreateLaunchTemplate")
        assert len(await cluster.claims()) == 1
        await cluster.wait(60)
        assert [verb for _, verb, _ in calls].count("CreateLaunchTemplate") > tried
        await cluster.wait(240)
        assert await cluster.claims() == []
        (event,) = await cluster.events("LaunchTimeout")
        assert "no instance could be launched within 5m: " in event.message
        assert "UnauthorizedOperation" in event.message

    run_cluster(story)


def test_l10_the_limit_can_be_set() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        cluster.account.change({"faults": [DENIED]})
        await cluster.create(node_claim())
        await cluster.wait(30)
        assert len(await cluster.claims()) == 1
        await cluster.wait(30)
        assert await cluster.claims() == []

    run_cluster(story, settings=ControllerSettings(launch_timeout=45))


def test_l10_a_claim_that_has_registered_is_not_deleted_for_its_age() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        claim = await launched(cluster)
        await cluster.join(claim, ready=False)
        await cluster.wait(1200)
        assert len(await cluster.claims()) == len(await cluster.nodes()) == 1
        assert conditions(await cluster.claim())["Registered"][0] == "True"

    run_cluster(story)


class _Outcomes:
    """What a NodePool hears of its launches."""

    def __init__(self, cluster: ControlledCluster) -> None:
        self._cluster = cluster
        self.heard: list[tuple[str, str, bool]] = []

    async def succeeded(self, claim: NodeClaim) -> None:
        await self._hear("succeeded", claim)

    async def failed(self, claim: NodeClaim) -> None:
        await self._hear("failed", claim)

    async def _hear(self, what: str, claim: NodeClaim) -> None:
        now = await self._cluster.api.get(NodeClaim, claim.metadata.name)
        self.heard.append((what, claim.metadata.name, bool(now.metadata.deletionTimestamp)))


def test_l11_the_pool_hears_of_a_launch_that_failed_before_the_claim_is_deleted() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(node_pool(disruption=KEEP_EMPTY_NODES))
        alone = ControllersAlone(cluster)
        outcomes = _Outcomes(cluster)
        await alone.start([NodeClaimLifecycle(alone.context, outcomes)])
        await cluster.join(await launched(cluster, node_claim("joins")))
        await launched(cluster, node_claim("never-joins"))
        await cluster.wait(900)
        cluster.account.change({"faults": [DENIED]})
        await cluster.create(node_claim("never-launches"))
        await cluster.wait(310)
        assert outcomes.heard == [
            ("succeeded", "joins", False),
            ("failed", "never-joins", False),
            ("failed", "never-launches", False),
        ]
        assert _disrupted(cluster, "registration_timeout", "on-demand") == 1
        assert _disrupted(cluster, "launch_timeout") == 1
        await alone.stop()

    run_cluster(story)


def _likely_reason(message: str) -> str:
    assert message.startswith("no node was registered within 15m of the launch: ")
    return message.partition(": ")[2]


def test_lif_2_the_message_of_the_time_out_says_what_is_known_of_the_instance() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        claim = await launched(cluster)
        await cluster.wait(910)
        (event,) = await cluster.events("RegistrationTimeout")
        assert event.involvedObject.name == claim.metadata.name
        reason = _likely_reason(event.message)
        instance = str(claim.status and claim.status.providerID.rpartition("/")[2])
        zone = (claim.metadata.labels or {})["topology.kubernetes.io/zone"]
        assert (
            f"the instance {instance} (m5.large, {zone}, EC2NodeClass default) in subnet-" in reason
        )
        assert "is running, but its node never joined; check its console output" in reason
        await cluster.wait(60)
        assert cluster.instances() == []
        assert await cluster.claims() == []

    run_cluster(story)


def test_lif_2_the_message_says_that_the_instance_was_terminated() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await begin(cluster)
        await launched(cluster)
        # With a queue the claim would go as soon as EC2 announces the end of its instance.
        denied = {"operation": "ReceiveMessage", "code": "AccessDenied", "status": 403}
        cluster.account.change({"faults": [denied]})
        await cluster.wait(30)
        cluster.account.services.instances.terminate(cluster.instances())
        await cluster.wait(880)
        (event,) = await cluster.events("RegistrationTimeout")
        assert "was terminated before it joined" in _likely_reason(event.message)
        await cluster.wait(60)
        assert await cluster.claims() == []

    run_cluster(story)


def test_l3_claims_of_a_batch_are_found_by_their_records_in_the_api_server() -> None:
    def recorded(name: str, batch: str) -> NodeClaim:
        record = LaunchRecord(token=name, batch=batch, index=0, attempt=1, at=0.0)
        annotations = {LAUNCH_RECORD_ANNOTATION: format_launch_record(record)}
        return node_claim(name, metadata={"annotations": annotations})

    async def story(cluster: ControlledCluster) -> None:
        await cluster.create(recorded("a", "one"), recorded("b", "two"), recorded("c", "one"))
        await cluster.create(node_claim("without"))
        cache = InformerCache(cluster.api, cluster.clock, WATCHED_KINDS)
        entries = await NodeClaimLaunchLog(cluster.api, cache).batch_entries("one")
        assert sorted(entry.launch_record.token for entry in entries) == ["a", "c"]

    run_cluster(story)
