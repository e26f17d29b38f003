"""Interruptions: messages of the queue, deleted once handled, and failing status checks."""

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.aws_account import ScriptedApi, run_in_virtual_time
from tests.support.aws_provider import ProviderScene, claim_requirements, node_claim, run_scene

from wainwright.aws.api.services import Ec2, Sqs
from wainwright.aws.interruptions import (
    InstanceStatusProvider,
    InterruptionQueue,
    parse_interruptions,
    scheduled_events,
)
from wainwright.clock import EPOCH, VirtualClock
from wainwright.errors import AwsError, TemporarilyUnavailableError
from wainwright.metrics import (
    INTERRUPTION_MESSAGES_DELETED,
    INTERRUPTION_MESSAGES_RECEIVED,
    INTERRUPTION_QUEUE_DURATION,
    UNHEALTHY_INSTANCES,
    MetricsRegistry,
)
from wainwright.model.node_claim import Interruption, InterruptionKind

EC2, HEALTH = "aws.ec2", "aws.health"
TIME, AT = "2026-01-01T00:00:10Z", EPOCH + 10
I1 = {"instance-id": "i-1"}


def body(kind: str, detail: dict[str, Any], source: str = EC2, **more: Any) -> str:
    event = {"version": "0", "source": source, "detail-type": kind, "time": TIME, "detail": detail}
    return msgspec.json.encode(event | more).decode()


STATE = "EC2 Instance State-change Notification"
HEALTH_EVENT = {
    "service": "EC2",
    "eventTypeCategory": "scheduledChange",
    "eventTypeCode": "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED",
    "startTime": "Thu, 01 Jan 2026 01:00:00 GMT",
    "affectedEntities": [{"entityValue": "i-1"}, {"entityValue": "i-2"}],
}
READ: list[tuple[str, str, list[tuple[InterruptionKind, str, float | None]]]] = [
    (
        "spot",
        body("EC2 Spot Instance Interruption Warning", {**I1, "instance-action": "terminate"}),
        [(InterruptionKind.SPOT, "i-1", AT + 120)],
    ),
    (
        "rebalance",
        body("EC2 Instance Rebalance Recommendation", I1),
        [(InterruptionKind.REBALANCE, "i-1", None)],
    ),
    (
        "stopping",
        body(STATE, {**I1, "state": "stopping"}),
        [(InterruptionKind.STOPPING, "i-1", None)],
    ),
    (
        "stopped",
        body(STATE, {**I1, "state": "stopped"}),
        [(InterruptionKind.STOPPING, "i-1", None)],
    ),
    (
        "ending",
        body(STATE, {**I1, "state": "shutting-down"}),
        [(InterruptionKind.TERMINATING, "i-1", None)],
    ),
    (
        "ended",
        body(STATE, {**I1, "state": "terminated"}),
        [(InterruptionKind.TERMINATING, "i-1", None)],
    ),
    ("starting", body(STATE, {**I1, "state": "pending"}), []),
    ("running", body(STATE, {**I1, "state": "running"}), []),
    (
        "reservation",
        body(
            "EC2 Capacity Reservation Instance Interruption Warning",
            {**I1, "instance-termination-time": "2026-01-01T00:02:00Z"},
        ),
        [(InterruptionKind.RESERVATION, "i-1", EPOCH + 120)],
    ),
    (
        "scheduled",
        body("AWS Health Event", HEALTH_EVENT, HEALTH),
        [
            (InterruptionKind.SCHEDULED, "i-1", EPOCH + 3600),
            (InterruptionKind.SCHEDULED, "i-2", EPOCH + 3600),
        ],
    ),
    (
        "health of something else",
        body("AWS Health Event", {**HEALTH_EVENT, "service": "EBS"}, HEALTH),
        [],
    ),
    (
        "health without a change",
        body("AWS Health Event", {**HEALTH_EVENT, "eventTypeCategory": "issue"}, HEALTH),
        [],
    ),
    ("unknown", body("EC2 Fleet Information", I1), []),
    ("another source", body("EC2 Spot Instance Interruption Warning", I1, "aws.rds"), []),
]


@pytest.mark.parametrize(("text", "found"), [case[1:] for case in READ], ids=[c[0] for c in READ])
def test_each_event_type_is_parsed(
    text: str, found: list[tuple[InterruptionKind, str, float | None]]
) -> None:
    read = parse_interruptions(text)
    assert [(each.kind, each.instance, each.ends_at) for each in read] == found
    assert {each.at for each in read} <= {AT}


UNREADABLE = [
    "",
    "not json",
    "[]",
    "{}",
    body("EC2 Spot Instance Interruption Warning", {}),
    body("EC2 Spot Instance Interruption Warning", I1, time="yesterday"),
    body("AWS Health Event", {**HEALTH_EVENT, "affectedEntities": [{}]}, HEALTH),
    body("AWS Health Event", {**HEALTH_EVENT, "affectedEntities": {"i-1": 1}}, HEALTH),
    body("AWS Health Event", {**HEALTH_EVENT, "startTime": 5}, HEALTH),
    body("AWS Health Event", {**HEALTH_EVENT, "startTime": f"1 Jan 2026 0:0:0 +{9**40}"}, HEALTH),
    body("EC2 Spot Instance Interruption Warning", I1, time="2026-01-01T00:00:00+99:00"),
    body("EC2 Spot Instance Interruption Warning", {"instance-id": ["i-1"]}),
    body(STATE, {**I1, "state": {"name": "stopping"}}),
    body("EC2 Spot Instance Interruption Warning", I1).replace('"i-1"', "[" * 9999 + "]" * 9999),
]


def test_only_a_rebalance_recommendation_keeps_the_instance() -> None:
    assert [kind for kind in InterruptionKind if not kind.ends_instance] == [
        InterruptionKind.REBALANCE
    ]


async def next_events(
    seam: Any, clock: VirtualClock, metrics: MetricsRegistry, count: int
) -> list[Interruption]:
    """The next `count` interruptions, each acknowledged."""
    found: list[Interruption] = []
    async for event in InterruptionQueue(Sqs(seam, "wain"), clock, metrics).events():
        found.append(event)
        if len(found) > count:
            break
    return found[:count]


def message(text: str, receipt: str, sent: float = EPOCH - 3) -> dict[str, Any]:
    stamp = {"SentTimestamp": str(int(sent * 1000))}
    return {"Body": text, "ReceiptHandle": receipt, "MessageId": receipt, "Attributes": stamp}


def queue(*answers: Any) -> ScriptedApi:
    return ScriptedApi(
        {
            "GetQueueUrl": {"QueueUrl": "https://queue"},
            "ReceiveMessage": list(answers),
            "DeleteMessage": {},
        }
    )


SPOT, MORE = READ[0][1], {"Messages": [message(READ[1][1], "last")]}


def test_messages_that_cannot_be_parsed_are_counted_logged_and_deleted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main(clock: VirtualClock) -> None:
        metrics = MetricsRegistry()
        odd = [message(text, f"odd-{n}") for n, text in enumerate(UNREADABLE)]
        dull = [message(READ[6][1], "dull")]
        seam = queue({"Messages": [*odd, *dull, message(SPOT, "spot")]}, MORE)
        (event,) = await next_events(seam, clock, metrics, 1)
        assert event.kind is InterruptionKind.SPOT
        removed = [each["ReceiptHandle"] for each in seam.calls_to("DeleteMessage")]
        assert removed == [*(f"odd-{n}" for n in range(len(UNREADABLE))), "dull", "spot"]
        count = {
            word: metrics.value(INTERRUPTION_MESSAGES_RECEIVED, message_type=word)
            for word in ("unparsable", "no_op")
        }
        assert count == {"unparsable": len(UNREADABLE), "no_op": 1}
        assert len(caplog.records) == len(UNREADABLE)
        assert metrics.value(INTERRUPTION_MESSAGES_DELETED) == len(removed)
        waited = metrics.distribution(INTERRUPTION_QUEUE_DURATION)
        assert waited.count == len(removed) + 1
        assert waited.total >= 3 * waited.count, "each was sent three seconds before"

    run_in_virtual_time(main)


def test_a_message_that_cannot_be_parsed_or_deleted_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main(clock: VirtualClock) -> None:
        odd = {"Messages": [message("{}", "odd"), message(SPOT, "spot")]}
        seam = ScriptedApi(
            {
                "GetQueueUrl": {"QueueUrl": "https://queue"},
                "ReceiveMessage": [odd, odd, odd],
                "DeleteMessage": AwsError("InternalError", "not now", 500),
            }
        )
        assert len(await next_events(seam, clock, MetricsRegistry(), 2)) == 2
        (record,) = caplog.records
        assert "odd" in record.getMessage()

    run_in_virtual_time(main)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=30),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3)
    ),
    max_leaves=8,
)
GOOD_BODIES = [text for _, text, _ in READ]


@given(st.sampled_from(GOOD_BODIES), st.data())
def test_whatever_is_wrong_with_a_message_is_a_value_error(text: str, data: st.DataObject) -> None:
    event = msgspec.json.decode(text)
    place = data.draw(st.sampled_from([event, event["detail"]]))
    place[data.draw(st.sampled_from(sorted(place)))] = data.draw(JSON)
    with suppress(ValueError):
        parse_interruptions(msgspec.json.encode(event).decode())


def test_a_message_stays_in_the_queue_until_all_its_interruptions_are_handled() -> None:
    async def main(clock: VirtualClock) -> None:
        seam = queue({"Messages": [message(READ[9][1], "both")]}, MORE)
        events = InterruptionQueue(Sqs(seam, "wain"), clock, MetricsRegistry()).events()
        for expected in ("i-1", "i-2"):
            assert (await anext(events)).instance == expected
            assert not seam.calls_to("DeleteMessage")
        await anext(events)
        assert [each["ReceiptHandle"] for each in seam.calls_to("DeleteMessage")] == ["both"]

    run_in_virtual_time(main)


def test_a_queue_that_cannot_be_read_is_retried() -> None:
    async def main(clock: VirtualClock) -> None:
        lost = AwsError("AWS.SimpleQueueService.NonExistentQueue", "no such queue")
        seam = queue(lost, lost, {"Messages": [message(SPOT, "spot")]}, MORE)
        assert await next_events(seam, clock, MetricsRegistry(), 1)
        assert clock.now() - EPOCH >= 10

    run_in_virtual_time(main)


def test_a_message_that_cannot_be_deleted_is_no_failure() -> None:
    async def main(clock: VirtualClock) -> None:
        seam = ScriptedApi(
            {
                "GetQueueUrl": {"QueueUrl": "https://queue"},
                "ReceiveMessage": [{"Messages": [message(SPOT, "spot")]}, MORE],
                "DeleteMessage": AwsError("InternalError", "try later", 500),
            }
        )
        metrics = MetricsRegistry()
        assert await next_events(seam, clock, metrics, 1)
        assert metrics.value(INTERRUPTION_MESSAGES_DELETED) == 0

    run_in_virtual_time(main)


def test_events_of_the_account_arrive() -> None:
    async def test(scene: ProviderScene) -> None:
        found = await scene.launch_one(node_claim(1, claim_requirements(capacity="spot")))
        await scene.clock.sleep(5)
        interruption = {"instance": found.id, "kind": "spot"}
        scene.emulated.change({"interruptions": [interruption]})
        kinds = []
        async for event in scene.cloud.interruptions():
            assert event.instance == found.id
            kinds.append(event.kind)
            if event.kind is InterruptionKind.TERMINATING:
                break
        assert kinds == [InterruptionKind.SPOT, InterruptionKind.TERMINATING]

    run_scene(test)


def interrupt(scene: ProviderScene, instance: str, kind: str, **more: Any) -> None:
    scene.emulated.change({"interruptions": [{"instance": instance, "kind": kind, **more}]})


@pytest.mark.parametrize("check", ["instance-check", "system-check"])
def test_a_check_may_fail_for_two_minutes(check: str) -> None:
    async def test(scene: ProviderScene) -> None:
        found = await scene.launch_one(node_claim(1, claim_requirements(capacity="on-demand")))
        await scene.clock.sleep(5)
        interrupt(scene, found.id, check)
        await scene.clock.sleep(118)
        assert not await scene.cloud.unhealthy_instances()
        await scene.clock.sleep(2)
        for _ in range(2):
            (event,) = await scene.cloud.unhealthy_instances()
            assert (event.kind, event.instance) == (InterruptionKind.UNHEALTHY, found.id)
            assert event.kind.is_forceful
        count = {"category": InterruptionKind.UNHEALTHY.value}
        assert scene.metrics.value(UNHEALTHY_INSTANCES, **count) == 1
        interrupt(scene, found.id, "recovered")
        assert not await scene.cloud.unhealthy_instances()
        interrupt(scene, found.id, check)
        await scene.clock.sleep(120)
        assert await scene.cloud.unhealthy_instances()
        assert scene.metrics.value(UNHEALTHY_INSTANCES, **count) == 2

    run_scene(test)


def test_a_failed_volume_check_is_ignored() -> None:
    async def test(scene: ProviderScene) -> None:
        found = await scene.launch_one(node_claim(1, claim_requirements(capacity="on-demand")))
        await scene.clock.sleep(5)
        interrupt(scene, found.id, "attached-ebs-check")
        await scene.clock.sleep(300)
        assert not await scene.cloud.unhealthy_instances()

    run_scene(test)


@pytest.mark.parametrize("code", ["instance-retirement", "system-reboot"])
def test_scheduled_events_are_reported(code: str) -> None:
    async def test(scene: ProviderScene) -> None:
        found = await scene.launch_one(node_claim(1, claim_requirements(capacity="on-demand")))
        await scene.clock.sleep(5)
        interrupt(scene, found.id, code, seconds=3600)
        (event,) = await scene.cloud.unhealthy_instances()
        assert (event.kind, event.detail) == (InterruptionKind.SCHEDULED, code)
        assert not event.kind.is_forceful
        assert event.ends_at is not None
        assert abs(event.ends_at - scene.clock.now() - 3600) < 1

    run_scene(test)


@pytest.mark.parametrize(
    ("event", "reported"),
    [
        ({"Code": "instance-stop", "Description": "soon"}, True),
        ({"Code": "instance-stop", "NotBefore": datetime(2026, 1, 1, tzinfo=UTC)}, True),
        ({"Code": "instance-stop", "Description": "[Completed] it was"}, False),
        ({"Code": "instance-stop", "Description": "[Canceled] not after all"}, False),
        ({"Code": "something-else"}, False),
    ],
)
def test_finished_events_are_not_reported(event: dict[str, Any], reported: bool) -> None:
    assert bool(list(scheduled_events({"InstanceId": "i-1", "Events": [event]}, EPOCH))) is reported


def test_without_permission_status_checks_are_skipped() -> None:
    async def main(clock: VirtualClock) -> None:
        denied = AwsError("UnauthorizedOperation", "no", 403)
        seam = ScriptedApi({"DescribeInstanceStatus": denied})
        assert (
            await InstanceStatusProvider(Ec2(seam), clock, MetricsRegistry()).list_unhealthy() == []
        )

    run_in_virtual_time(main)


def test_a_failed_status_call_is_raised() -> None:
    async def test(scene: ProviderScene) -> None:
        broken = {"operation": "DescribeInstanceStatus", "code": "InternalError", "status": 500}
        scene.emulated.change({"faults": [broken]})
        with pytest.raises(TemporarilyUnavailableError):
            await scene.cloud.unhealthy_instances()

    run_scene(test)
