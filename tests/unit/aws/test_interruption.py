"""Announcements about machines: read, handed on, and removed once they are dealt with."""

from typing import Any

import msgspec
import pytest
from tests.support.awslaunches import Scene, asking, claim, played
from tests.support.seams import Scripted, on_time

from wainwright.aws.beside import Sqs
from wainwright.aws.interruption import DELETED, RECEIVED, WAITED, Announcements, interruptions
from wainwright.clock import EPOCH, VirtualClock
from wainwright.errors import AwsError
from wainwright.metrics import Registry
from wainwright.model.interruption import Interruption, Kind

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
READ: list[tuple[str, str, list[tuple[Kind, str, float | None]]]] = [
    (
        "spot",
        body("EC2 Spot Instance Interruption Warning", {**I1, "instance-action": "terminate"}),
        [(Kind.SPOT, "i-1", AT + 120)],
    ),
    (
        "rebalance",
        body("EC2 Instance Rebalance Recommendation", I1),
        [(Kind.REBALANCE, "i-1", None)],
    ),
    ("stopping", body(STATE, {**I1, "state": "stopping"}), [(Kind.STOPPING, "i-1", None)]),
    ("stopped", body(STATE, {**I1, "state": "stopped"}), [(Kind.STOPPING, "i-1", None)]),
    ("ending", body(STATE, {**I1, "state": "shutting-down"}), [(Kind.TERMINATING, "i-1", None)]),
    ("ended", body(STATE, {**I1, "state": "terminated"}), [(Kind.TERMINATING, "i-1", None)]),
    ("starting", body(STATE, {**I1, "state": "pending"}), []),
    ("running", body(STATE, {**I1, "state": "running"}), []),
    (
        "reservation",
        body(
            "EC2 Capacity Reservation Instance Interruption Warning",
            {**I1, "instance-termination-time": "2026-01-01T00:02:00Z"},
        ),
        [(Kind.RESERVATION, "i-1", EPOCH + 120)],
    ),
    (
        "scheduled",
        body("AWS Health Event", HEALTH_EVENT, HEALTH),
        [(Kind.SCHEDULED, "i-1", EPOCH + 3600), (Kind.SCHEDULED, "i-2", EPOCH + 3600)],
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
def test_what_a_message_announces(text: str, found: list[tuple[Kind, str, float | None]]) -> None:
    read = interruptions(text)
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
]


def test_only_advice_leaves_the_machine_where_it_is() -> None:
    assert [kind for kind in Kind if not kind.ends] == [Kind.REBALANCE]


async def heard(
    seam: Any, clock: VirtualClock, metrics: Registry, count: int
) -> list[Interruption]:
    """So many announcements, each dealt with."""
    found: list[Interruption] = []
    async for event in Announcements(Sqs(seam, "wain"), clock, metrics).events():
        found.append(event)
        if len(found) > count:
            break
    return found[:count]


def message(text: str, receipt: str, sent: float = EPOCH - 3) -> dict[str, Any]:
    stamp = {"SentTimestamp": str(int(sent * 1000))}
    return {"Body": text, "ReceiptHandle": receipt, "Attributes": stamp}


def queue(*answers: Any) -> Scripted:
    return Scripted(
        {
            "GetQueueUrl": {"QueueUrl": "https://queue"},
            "ReceiveMessage": list(answers),
            "DeleteMessage": {},
        }
    )


SPOT, MORE = READ[0][1], {"Messages": [message(READ[1][1], "last")]}


def test_what_nobody_understands_is_counted_and_removed() -> None:
    async def main(clock: VirtualClock) -> None:
        metrics = Registry()
        odd = [message(text, f"odd-{n}") for n, text in enumerate(UNREADABLE)]
        dull = [message(READ[6][1], "dull")]
        seam = queue({"Messages": [*odd, *dull, message(SPOT, "spot")]}, MORE)
        (event,) = await heard(seam, clock, metrics, 1)
        assert event.kind is Kind.SPOT
        removed = [each["ReceiptHandle"] for each in seam.asked("DeleteMessage")]
        assert removed == [*(f"odd-{n}" for n in range(len(UNREADABLE))), "dull", "spot"]
        count = {
            word: metrics.value(RECEIVED, message_type=word) for word in ("unparsable", "no_op")
        }
        assert count == {"unparsable": len(UNREADABLE), "no_op": 1}
        assert metrics.value(DELETED) == len(removed)
        assert metrics.distribution(WAITED).count == len(removed) + 1

    on_time(main)


def test_a_message_stays_until_all_of_it_is_dealt_with() -> None:
    async def main(clock: VirtualClock) -> None:
        seam = queue({"Messages": [message(READ[9][1], "both")]}, MORE)
        events = Announcements(Sqs(seam, "wain"), clock, Registry()).events()
        for expected in ("i-1", "i-2"):
            assert (await anext(events)).instance == expected
            assert not seam.asked("DeleteMessage")
        await anext(events)
        assert [each["ReceiptHandle"] for each in seam.asked("DeleteMessage")] == ["both"]

    on_time(main)


def test_a_queue_that_cannot_be_read_is_asked_again() -> None:
    async def main(clock: VirtualClock) -> None:
        lost = AwsError("AWS.SimpleQueueService.NonExistentQueue", "no such queue")
        seam = queue(lost, lost, {"Messages": [message(SPOT, "spot")]}, MORE)
        assert await heard(seam, clock, Registry(), 1)
        assert clock.now() - EPOCH >= 10

    on_time(main)


def test_a_message_that_cannot_be_removed_is_no_failure() -> None:
    async def main(clock: VirtualClock) -> None:
        seam = Scripted(
            {
                "GetQueueUrl": {"QueueUrl": "https://queue"},
                "ReceiveMessage": [{"Messages": [message(SPOT, "spot")]}, MORE],
                "DeleteMessage": AwsError("InternalError", "try later", 500),
            }
        )
        metrics = Registry()
        assert await heard(seam, clock, metrics, 1)
        assert metrics.value(DELETED) == 0

    on_time(main)


def test_what_the_account_announces_is_heard() -> None:
    async def test(scene: Scene) -> None:
        found = await scene.one(claim(1, asking(capacity="spot")))
        await scene.clock.sleep(5)
        mishap = {"instance": found.id, "kind": "spot"}
        scene.emulated.change({"interruptions": [mishap]})
        kinds = []
        async for event in scene.cloud.interruptions():
            assert event.instance == found.id
            kinds.append(event.kind)
            if event.kind is Kind.TERMINATING:
                break
        assert kinds == [Kind.SPOT, Kind.TERMINATING]

    played(test)
