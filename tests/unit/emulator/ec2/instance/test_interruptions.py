"""Interruptions: the warning, the termination that follows it, status checks, and messages."""

import asyncio
import json
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from tests.support.emulator_accounts import ManualTime
from tests.support.emulator_launches import A, LaunchAccount, cloud_reservation, launched_ids

from wainwright.clock import EPOCH, VirtualClock
from wainwright.emulator.api_conventions import iso_timestamp
from wainwright.emulator.context import AccountContext
from wainwright.emulator.ec2.instance.interruptions import (
    Interruptions,
    InterruptionState,
    ScheduledEventCode,
    StatusCheck,
)
from wainwright.emulator.emulated_account import EmulatedAwsAccount
from wainwright.emulator.services.sqs import Sqs
from wainwright.errors import InvalidInputError


class FakeInstance(msgspec.Struct):
    id: str
    lifecycle: str = "on-demand"
    state: str = "running"
    zone: str = "us-east-1a"
    zone_id: str = "use1-az6"


class FakeInstances:
    """Instances without an account; termination takes effect at once."""

    def __init__(self, context: AccountContext) -> None:
        self.known: dict[str, FakeInstance] = {}
        self.ended: list[tuple[float, str, str]] = []
        self._context = context

    def add(self, name: str, lifecycle: str = "spot") -> FakeInstance:
        self.known[name] = FakeInstance(name, lifecycle)
        return self.known[name]

    def get(self, instance: str) -> FakeInstance | None:
        return self.known.get(instance)

    def terminate(self, ids: Iterable[str], reason: str) -> None:
        for name in ids:
            if name in self.known:
                self.known[name].state = "shutting-down"
                self.ended.append((self._context.now() - EPOCH, name, reason))


class InterruptionSetup:
    def __init__(self, seed: int = 0) -> None:
        self.clock = ManualTime()
        self.context = AccountContext(self.clock.now, region="us-east-1", seed=seed)
        self.sqs = Sqs(self.context)
        self.url = self.sqs.seed("wain")
        self.instances = FakeInstances(self.context)
        self.interruptions = Interruptions(self.context, self.sqs, "wain", self.instances)

    def messages(self) -> list[Any]:
        response = self.sqs.receive_message({"QueueUrl": self.url, "MaxNumberOfMessages": 10})
        return [json.loads(each["Body"]) for each in response.get("Messages", ())]

    def later(self, seconds: float) -> None:
        self.clock.time += seconds
        self.context.run_due_events()


@pytest.fixture
def scene() -> InterruptionSetup:
    created = InterruptionSetup()
    created.instances.add("i-1")
    return created


def test_every_event_has_region_account_and_time(scene: InterruptionSetup) -> None:
    scene.interruptions.recommend_rebalance("i-1")
    (body,) = scene.messages()
    assert body["version"] == "0"
    assert body["account"] == "111122223333"
    assert body["region"] == "us-east-1"
    assert body["time"] == "2026-01-01T00:00:00Z"
    assert len(body["id"]) == 36
    assert set(body) == {
        *("version", "id", "detail-type", "source", "account", "time", "region", "resources"),
        "detail",
    }


def test_a_spot_interruption_warning_comes_two_minutes_before_termination(
    scene: InterruptionSetup,
) -> None:
    scene.interruptions.interrupt_spot("i-1")
    (body,) = scene.messages()
    assert (body["source"], body["detail-type"]) == (
        "aws.ec2",
        "EC2 Spot Instance Interruption Warning",
    )
    assert body["detail"] == {"instance-id": "i-1", "instance-action": "terminate"}
    assert body["resources"] == ["arn:aws:ec2:us-east-1a:instance/i-1"]
    scene.later(119)
    assert scene.instances.ended == []
    scene.later(60)
    assert scene.instances.ended == [(120, "i-1", "Server.SpotInstanceTermination")]


def test_a_rebalance_recommendation_terminates_nothing(scene: InterruptionSetup) -> None:
    scene.interruptions.recommend_rebalance("i-1")
    (body,) = scene.messages()
    assert body["detail-type"] == "EC2 Instance Rebalance Recommendation"
    assert body["detail"] == {"instance-id": "i-1"}
    scene.later(10_000)
    assert scene.instances.ended == []


def test_interruptible_capacity_has_its_own_warning(scene: InterruptionSetup) -> None:
    scene.instances.add("i-2", "capacity-block")
    scene.interruptions.interrupt_reserved("i-2", notice_seconds=600)
    (body,) = scene.messages()
    assert body["detail-type"] == "EC2 Capacity Reservation Instance Interruption Warning"
    assert body["detail"] == {
        "instance-id": "i-2",
        "instance-action": "terminate",
        "instance-termination-time": "2026-01-01T00:10:00Z",
        "availability-zone-id": "use1-az6",
        "instance-lifecycle": "capacity-block",
    }
    scene.later(600)
    assert [each[:2] for each in scene.instances.ended] == [(600, "i-2")]


@pytest.mark.parametrize("code", list(ScheduledEventCode))
def test_a_scheduled_change_is_announced_described_and_carried_out(
    scene: InterruptionSetup, code: ScheduledEventCode
) -> None:
    event = scene.interruptions.schedule_change("i-1", code, starts=EPOCH + 3600, duration=60)
    (body,) = scene.messages()
    assert (body["source"], body["detail-type"]) == ("aws.health", "AWS Health Event")
    detail = body["detail"]
    assert (detail["service"], detail["eventTypeCategory"]) == ("EC2", "scheduledChange")
    assert [each["entityValue"] for each in detail["affectedEntities"]] == ["i-1"]
    assert detail["startTime"] == "Thu, 01 Jan 2026 01:00:00 GMT"
    assert scene.interruptions.state.events == {"i-1": [event]}
    assert (event.not_before, event.not_after) == (EPOCH + 3600, EPOCH + 3660)
    scene.later(3600)
    assert [each[:2] for each in scene.instances.ended] == [(3600, "i-1")] * code.terminates


def test_each_state_change_is_sent_once(scene: InterruptionSetup) -> None:
    fake_instance = scene.instances.add("i-2", "on-demand")
    seen = ""
    for state in ("pending", "running", "shutting-down", "terminated", "gone"):
        fake_instance.state = state
        scene.interruptions.on_state_change(fake_instance, seen)
        seen = state
    found = scene.messages()
    assert {each["detail-type"] for each in found} == {"EC2 Instance State-change Notification"}
    assert [each["detail"] for each in found] == [
        {"instance-id": "i-2", "state": state}
        for state in ("pending", "running", "shutting-down", "terminated")
    ]


def test_a_failing_check_keeps_its_first_time_until_it_recovers(scene: InterruptionSetup) -> None:
    scene.interruptions.impair("i-1", StatusCheck.SYSTEM)
    scene.later(60)
    scene.interruptions.impair("i-1", StatusCheck.SYSTEM)
    scene.interruptions.impair("i-1", StatusCheck.INSTANCE)
    state = scene.interruptions.state
    assert state.impaired == {"i-1": {StatusCheck.SYSTEM: EPOCH, StatusCheck.INSTANCE: EPOCH + 60}}
    stored = msgspec.json.decode(msgspec.json.encode(state), type=InterruptionState)
    assert stored == state
    scene.interruptions.clear_impairment("i-1")
    assert state.impaired == {}


def test_a_terminated_instance_has_no_scheduled_events(scene: InterruptionSetup) -> None:
    scene.interruptions.schedule_change("i-1", ScheduledEventCode.SYSTEM_REBOOT, starts=EPOCH + 10)
    scene.interruptions.impair("i-1", StatusCheck.EBS)
    fake_instance = scene.instances.known["i-1"]
    fake_instance.state = "terminated"
    scene.interruptions.on_state_change(fake_instance, "shutting-down")
    assert scene.interruptions.state == InterruptionState()


def test_interruptions_work_without_a_queue(scene: InterruptionSetup) -> None:
    scene.sqs.operations()["DeleteQueue"]({"QueueUrl": scene.url})
    scene.interruptions.interrupt_spot("i-1")
    scene.later(120)
    assert len(scene.instances.ended) == 1


def test_an_unknown_instance_cannot_be_interrupted(scene: InterruptionSetup) -> None:
    for act in (scene.interruptions.interrupt_spot, scene.interruptions.recommend_rebalance):
        with pytest.raises(InvalidInputError, match="i-9"):
            act("i-9")


def launch_many(scene: InterruptionSetup, count: int, lifecycle: str) -> None:
    for number in range(count):
        fake_instance = scene.instances.add(f"i-{lifecycle}-{number}", lifecycle)
        scene.interruptions.on_state_change(fake_instance, "")


def test_spot_instances_are_reclaimed_at_the_configured_rate() -> None:
    scene = InterruptionSetup(seed=3)
    scene.interruptions.state.monthly_spot_interruption_rate = 0.2
    launch_many(scene, 1000, "spot")
    launch_many(scene, 1000, "on-demand")
    scene.later(30 * 86_400)
    ended = [name for _, name, _ in scene.instances.ended]
    assert 130 < len(ended) < 240  # 1 - exp(-0.2) is 18 %
    assert all(name.startswith("i-spot") for name in ended)
    again = InterruptionSetup(seed=3)
    again.interruptions.state.monthly_spot_interruption_rate = 0.2
    launch_many(again, 1000, "spot")
    launch_many(again, 1000, "on-demand")
    again.later(30 * 86_400)
    assert again.instances.ended == scene.instances.ended


def test_no_instance_is_reclaimed_by_default() -> None:
    scene = InterruptionSetup()
    launch_many(scene, 1000, "spot")
    scene.later(365 * 86_400)
    assert scene.instances.ended == []


HOUR, WARNED = 3600.0, 2400.0
SPOT = "EC2 Spot Instance Interruption Warning"
STATE = "EC2 Instance State-change Notification"
RESERVATION = "EC2 Capacity Reservation Instance Interruption Warning"
EXPIRES = "Capacity Block Expiration Warning"
BLOCK = ("p5.48xlarge", A)


def events(account: LaunchAccount) -> list[Any]:
    """All messages of the queue, which are deleted."""
    url = account.cloud.account.queue_url
    found: list[Any] = []
    while True:
        request = {"QueueUrl": url, "MaxNumberOfMessages": 10}
        messages = account.call_service("sqs", "ReceiveMessage", request).get("Messages", [])
        if not messages:
            return found
        for each in messages:
            handle = {"QueueUrl": url, "ReceiptHandle": each["ReceiptHandle"]}
            account.call_service("sqs", "DeleteMessage", handle)
            found.append(json.loads(each["Body"]))


def event_kinds(account: LaunchAccount) -> list[tuple[str, str]]:
    """Event type and instance id; of a state change the state."""
    return [
        (each["detail-type"], each["detail"].get("state") or each["detail"].get("instance-id", ""))
        for each in events(account)
    ]


def interrupt(account: LaunchAccount, instance: str, kind: str, **more: Any) -> None:
    account.cloud.change({"interruptions": [{"instance": instance, "kind": kind, **more}]})


def running(account: LaunchAccount, *capacity_pool: str, capacity_type: str = "spot") -> str:
    """A running instance, with the messages of its launch deleted."""
    (instance_id,) = account.launch(*capacity_pool, capacity_type=capacity_type)
    account.wait(2)
    assert event_kinds(account) == [(STATE, "pending"), (STATE, "running")]
    return instance_id


def test_a_spot_instance_is_terminated_two_minutes_after_the_warning() -> None:
    account = LaunchAccount()
    instance_id, other = running(account), running(account)
    interrupt(account, instance_id, "spot")
    (warning,) = events(account)
    assert (warning["detail-type"], warning["detail"]["instance-id"]) == (SPOT, instance_id)
    assert warning["time"] == iso_timestamp(account.clock.now()).replace(".000", "")
    account.wait(119)
    assert (account.state(instance_id), event_kinds(account)) == ("running", [])
    account.wait(1)
    assert account.state(instance_id) == "shutting-down"
    assert (
        account.describe_instance(instance_id)["StateReason"]["Code"]
        == "Server.SpotInstanceTermination"
    )
    account.wait(1)
    assert (account.state(instance_id), account.state(other)) == ("terminated", "running")
    assert event_kinds(account) == [(STATE, "shutting-down"), (STATE, "terminated")]


def test_an_interrupted_instance_releases_its_capacity() -> None:
    account = LaunchAccount()
    account.cloud.change(
        {"stock": [{"instanceType": "m5.large", "capacityType": "spot", "free": 1}]}
    )
    instance_id = running(account)
    capacity_market = account.cloud.services.capacity_market
    assert capacity_market.free("m5.large", A, "spot") == 0
    interrupt(account, instance_id, "spot", seconds=10)
    account.wait(11)
    assert account.state(instance_id) == "terminated"
    assert capacity_market.free("m5.large", A, "spot") == 1


def test_an_instance_terminated_after_the_warning_is_not_terminated_twice() -> None:
    account = LaunchAccount()
    instance_id = running(account)
    interrupt(account, instance_id, "spot")
    account.call("TerminateInstances", InstanceIds=[instance_id])
    account.wait(200)
    assert (
        account.describe_instance(instance_id)["StateReason"]["Code"]
        == "Client.UserInitiatedShutdown"
    )
    assert [kind for kind, _ in event_kinds(account)] == [SPOT, STATE, STATE]


def test_a_scheduled_termination_survives_saving_and_loading() -> None:
    account = LaunchAccount()
    instance_id = running(account)
    interrupt(account, instance_id, "spot")
    account.cloud = EmulatedAwsAccount.load(account.cloud.save(), clock=account.clock)
    account.wait(122)
    assert account.state(instance_id) == "terminated"
    assert [kind for kind, _ in event_kinds(account)] == [SPOT, STATE, STATE]


def statuses(account: LaunchAccount, code: str) -> list[Any]:
    filters = [{"Name": "event.code", "Values": [code]}]
    return list(account.call("DescribeInstanceStatus", Filters=filters)["InstanceStatuses"])


@pytest.mark.parametrize(
    ("code", "after"),
    [
        ("instance-retirement", "terminated"),
        ("instance-stop", "terminated"),
        ("system-reboot", "running"),
        ("system-maintenance", "running"),
    ],
)
def test_a_scheduled_event_is_sent_described_and_carried_out(code: str, after: str) -> None:
    account = LaunchAccount()
    instance_id = running(account, capacity_type="on-demand")
    starts = account.clock.now() + HOUR
    interrupt(account, instance_id, code, seconds=HOUR)
    (health,) = events(account)
    assert (health["source"], health["detail-type"]) == ("aws.health", "AWS Health Event")
    assert health["detail"]["affectedEntities"][0]["entityValue"] == instance_id
    (row,) = statuses(account, code)
    (event,) = row["Events"]
    assert (row["InstanceId"], event["Code"]) == (instance_id, code)
    assert event["NotBefore"].timestamp() == starts
    assert statuses(account, "instance-reboot") == []
    account.wait(HOUR + 2)
    assert account.state(instance_id) == after
    assert bool(statuses(account, code)) is (after == "running")


def block() -> LaunchAccount:
    """A capacity block of two instances, which ends in five hours."""
    window = {"startTime": iso_timestamp(EPOCH), "endTime": iso_timestamp(EPOCH + 5 * HOUR)}
    account = LaunchAccount(
        cloud_reservation(1, *BLOCK, reservationType="capacity-block", **window)
    )
    target = {"CapacityReservationTarget": {"CapacityReservationId": "cr-00000001"}}
    capacity_type = {"MarketType": "capacity-block"}
    account.template(
        "block", CapacityReservationSpecification=target, InstanceMarketOptions=capacity_type
    )
    return account


def test_the_end_of_a_capacity_block_is_announced_and_its_instances_end_before() -> None:
    account = block()
    config = account.config(BLOCK, template="block")
    first, second = launched_ids(account.fleet(config, capacity_type="capacity-block", count=2))
    account.wait(2)
    events(account)
    account.wait(5 * HOUR - WARNED - 3)
    assert events(account) == []
    account.wait(1)
    expires, *warnings = events(account)
    assert (expires["detail-type"], expires["detail"]) == (
        EXPIRES,
        {"capacity-reservation-id": "cr-00000001", "end-date": "2026-01-01T05:00:00Z"},
    )
    assert expires["resources"] == [
        "arn:aws:ec2:us-west-2:111122223333:capacity-reservation/cr-00000001"
    ]
    assert [each["detail-type"] for each in warnings] == [RESERVATION, RESERVATION]
    assert [each["detail"]["instance-id"] for each in warnings] == [first, second]
    assert {each["detail"]["instance-termination-time"] for each in warnings} == {
        "2026-01-01T04:30:00Z"
    }
    account.wait(599)
    assert account.state(first) == "running"
    account.wait(2)
    assert (account.state(first), account.state(second)) == ("terminated", "terminated")
    assert (
        account.describe_instance(first)["StateReason"]["Code"] == "Server.CapacityReservationEnded"
    )
    account.wait(1800)
    assert account.reserved("cr-00000001")["State"] == "expired"


def test_the_end_of_an_empty_block_is_announced_and_that_of_a_reservation_is_not() -> None:
    account = block()
    ends = {"endTime": iso_timestamp(EPOCH + 5 * HOUR)}
    entry = cloud_reservation(2, "m5.large", A, **ends)
    account.cloud.services.reservations.seed([entry])
    account.wait(5 * HOUR - WARNED + 1)
    assert [each["detail"].get("capacity-reservation-id") for each in events(account)] == [
        "cr-00000001"
    ]
    account.wait(HOUR)
    assert events(account) == []


def test_an_extended_block_is_announced_before_its_new_end() -> None:
    account = block()
    longer = {
        "id": "cr-00000001",
        "instanceType": BLOCK[0],
        "availabilityZone": BLOCK[1],
        "total": 2,
        "reservationType": "capacity-block",
        "endTime": iso_timestamp(EPOCH + 10 * HOUR),
    }
    account.cloud.change({"capacityReservations": [longer]})
    account.wait(5 * HOUR - WARNED + 1)
    assert events(account) == []
    account.wait(5 * HOUR)
    assert [each["detail"]["end-date"] for each in events(account)] == ["2026-01-01T10:00:00Z"]


def test_a_waiting_receiver_gets_an_interruption_at_once() -> None:
    clock = VirtualClock()
    cloud = EmulatedAwsAccount(clock=clock)
    image = next(iter(cloud.services.images.state.images))
    request = {"ImageId": image, "InstanceType": "m5.large", "MinCount": 1, "MaxCount": 1}
    instance_id = cloud.answer("ec2", "RunInstances", request)["Instances"][0]["InstanceId"]
    receive = {"QueueUrl": cloud.account.queue_url, "WaitTimeSeconds": 20}

    async def listen() -> tuple[float, str]:
        while True:
            response = await cloud.call("sqs", "ReceiveMessage", receive)
            for each in response.get("Messages", ()):
                handle = {"ReceiptHandle": each["ReceiptHandle"]}
                await cloud.call("sqs", "DeleteMessage", receive | handle)
                if SPOT in each["Body"]:
                    return clock.now() - EPOCH, json.loads(each["Body"])["detail"]["instance-id"]

    async def interrupt_later() -> tuple[float, str]:
        listening = asyncio.create_task(listen())
        await clock.sleep(47)
        cloud.change({"interruptions": [{"instance": instance_id, "kind": "spot"}]})
        return await listening

    try:
        assert clock.run(interrupt_later()) == (47, instance_id)
    finally:
        clock.close()
