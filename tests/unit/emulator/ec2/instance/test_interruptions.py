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


class Machine(msgspec.Struct):
    id: str
    lifecycle: str = "on-demand"
    state: str = "running"
    zone: str = "us-east-1a"
    zone_id: str = "use1-az6"


class Machines:
    """As many as a test needs; those that are told to end do so at once."""

    def __init__(self, context: AccountContext) -> None:
        self.known: dict[str, Machine] = {}
        self.ended: list[tuple[float, str, str]] = []
        self._world = context

    def add(self, name: str, lifecycle: str = "spot") -> Machine:
        self.known[name] = Machine(name, lifecycle)
        return self.known[name]

    def get(self, instance: str) -> Machine | None:
        return self.known.get(instance)

    def terminate(self, ids: Iterable[str], reason: str) -> None:
        for name in ids:
            if name in self.known:
                self.known[name].state = "shutting-down"
                self.ended.append((self._world.now() - EPOCH, name, reason))


class Scene:
    def __init__(self, seed: int = 0) -> None:
        self.clock = ManualTime()
        self.context = AccountContext(self.clock.now, region="us-east-1", seed=seed)
        self.sqs = Sqs(self.context)
        self.url = self.sqs.seed("wain")
        self.machines = Machines(self.context)
        self.interruptions = Interruptions(self.context, self.sqs, "wain", self.machines)

    def messages(self) -> list[Any]:
        answer = self.sqs.receive_message({"QueueUrl": self.url, "MaxNumberOfMessages": 10})
        return [json.loads(each["Body"]) for each in answer.get("Messages", ())]

    def later(self, seconds: float) -> None:
        self.clock.time += seconds
        self.context.run_due_events()


@pytest.fixture
def scene() -> Scene:
    made = Scene()
    made.machines.add("i-1")
    return made


def test_every_message_says_where_and_when(scene: Scene) -> None:
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


def test_a_spot_machine_is_warned_two_minutes_ahead(scene: Scene) -> None:
    scene.interruptions.interrupt_spot("i-1")
    (body,) = scene.messages()
    assert (body["source"], body["detail-type"]) == (
        "aws.ec2",
        "EC2 Spot Instance Interruption Warning",
    )
    assert body["detail"] == {"instance-id": "i-1", "instance-action": "terminate"}
    assert body["resources"] == ["arn:aws:ec2:us-east-1a:instance/i-1"]
    scene.later(119)
    assert scene.machines.ended == []
    scene.later(60)
    assert scene.machines.ended == [(120, "i-1", "Server.SpotInstanceTermination")]


def test_a_recommendation_ends_nothing(scene: Scene) -> None:
    scene.interruptions.recommend_rebalance("i-1")
    (body,) = scene.messages()
    assert body["detail-type"] == "EC2 Instance Rebalance Recommendation"
    assert body["detail"] == {"instance-id": "i-1"}
    scene.later(10_000)
    assert scene.machines.ended == []


def test_lent_capacity_is_taken_back_with_its_own_message(scene: Scene) -> None:
    scene.machines.add("i-2", "capacity-block")
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
    assert [each[:2] for each in scene.machines.ended] == [(600, "i-2")]


@pytest.mark.parametrize("code", list(ScheduledEventCode))
def test_a_scheduled_change_is_told_shown_and_done(scene: Scene, code: ScheduledEventCode) -> None:
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
    assert [each[:2] for each in scene.machines.ended] == [(3600, "i-1")] * code.terminates


def test_state_changes_are_told_once_each(scene: Scene) -> None:
    machine = scene.machines.add("i-2", "on-demand")
    seen = ""
    for state in ("pending", "running", "shutting-down", "terminated", "gone"):
        machine.state = state
        scene.interruptions.on_state_change(machine, seen)
        seen = state
    found = scene.messages()
    assert {each["detail-type"] for each in found} == {"EC2 Instance State-change Notification"}
    assert [each["detail"] for each in found] == [
        {"instance-id": "i-2", "state": state}
        for state in ("pending", "running", "shutting-down", "terminated")
    ]


def test_checks_fail_since_the_first_time_until_mended(scene: Scene) -> None:
    scene.interruptions.impair("i-1", StatusCheck.SYSTEM)
    scene.later(60)
    scene.interruptions.impair("i-1", StatusCheck.SYSTEM)
    scene.interruptions.impair("i-1", StatusCheck.INSTANCE)
    state = scene.interruptions.state
    assert state.impaired == {"i-1": {StatusCheck.SYSTEM: EPOCH, StatusCheck.INSTANCE: EPOCH + 60}}
    kept = msgspec.json.decode(msgspec.json.encode(state), type=InterruptionState)
    assert kept == state
    scene.interruptions.clear_impairment("i-1")
    assert state.impaired == {}


def test_a_dead_machine_has_no_events_left(scene: Scene) -> None:
    scene.interruptions.schedule_change("i-1", ScheduledEventCode.SYSTEM_REBOOT, starts=EPOCH + 10)
    scene.interruptions.impair("i-1", StatusCheck.EBS)
    machine = scene.machines.known["i-1"]
    machine.state = "terminated"
    scene.interruptions.on_state_change(machine, "shutting-down")
    assert scene.interruptions.state == InterruptionState()


def test_without_a_queue_it_happens_all_the_same(scene: Scene) -> None:
    scene.sqs.operations()["DeleteQueue"]({"QueueUrl": scene.url})
    scene.interruptions.interrupt_spot("i-1")
    scene.later(120)
    assert len(scene.machines.ended) == 1


def test_a_machine_that_nobody_knows_cannot_be_interrupted(scene: Scene) -> None:
    for act in (scene.interruptions.interrupt_spot, scene.interruptions.recommend_rebalance):
        with pytest.raises(InvalidInputError, match="i-9"):
            act("i-9")


def born(scene: Scene, count: int, lifecycle: str) -> None:
    for number in range(count):
        machine = scene.machines.add(f"i-{lifecycle}-{number}", lifecycle)
        scene.interruptions.on_state_change(machine, "")


def test_spot_machines_are_taken_back_as_often_as_said_and_no_others() -> None:
    scene = Scene(seed=3)
    scene.interruptions.state.monthly_spot_interruption_rate = 0.2
    born(scene, 1000, "spot")
    born(scene, 1000, "on-demand")
    scene.later(30 * 86_400)
    ended = [name for _, name, _ in scene.machines.ended]
    assert 130 < len(ended) < 240  # 1 - exp(-0.2) is 18 %
    assert all(name.startswith("i-spot") for name in ended)
    again = Scene(seed=3)
    again.interruptions.state.monthly_spot_interruption_rate = 0.2
    born(again, 1000, "spot")
    born(again, 1000, "on-demand")
    again.later(30 * 86_400)
    assert again.machines.ended == scene.machines.ended


def test_nothing_is_taken_back_unless_asked_for() -> None:
    scene = Scene()
    born(scene, 1000, "spot")
    scene.later(365 * 86_400)
    assert scene.machines.ended == []


HOUR, WARNED = 3600.0, 2400.0
SPOT = "EC2 Spot Instance Interruption Warning"
STATE = "EC2 Instance State-change Notification"
RESERVATION = "EC2 Capacity Reservation Instance Interruption Warning"
EXPIRES = "Capacity Block Expiration Warning"
BLOCK = ("p5.48xlarge", A)


def told(yard: LaunchAccount) -> list[Any]:
    """All messages of the queue, which is empty then."""
    url = yard.cloud.account.queue_url
    found: list[Any] = []
    while True:
        asked = {"QueueUrl": url, "MaxNumberOfMessages": 10}
        messages = yard.ask_of("sqs", "ReceiveMessage", asked).get("Messages", [])
        if not messages:
            return found
        for each in messages:
            handle = {"QueueUrl": url, "ReceiptHandle": each["ReceiptHandle"]}
            yard.ask_of("sqs", "DeleteMessage", handle)
            found.append(json.loads(each["Body"]))


def news(yard: LaunchAccount) -> list[tuple[str, str]]:
    """Kind and what it is about; of a change of state the state."""
    return [
        (each["detail-type"], each["detail"].get("state") or each["detail"].get("instance-id", ""))
        for each in told(yard)
    ]


def happen(yard: LaunchAccount, instance: str, kind: str, **more: Any) -> None:
    yard.cloud.change({"interruptions": [{"instance": instance, "kind": kind, **more}]})


def running(yard: LaunchAccount, *pool: str, market: str = "spot") -> str:
    """A machine that is up, with nothing left to read of its start."""
    (machine,) = yard.launch(*pool, market=market)
    yard.wait(2)
    assert news(yard) == [(STATE, "pending"), (STATE, "running")]
    return machine


def test_spot_capacity_is_taken_back_two_minutes_after_the_warning() -> None:
    yard = LaunchAccount()
    machine, other = running(yard), running(yard)
    happen(yard, machine, "spot")
    (warning,) = told(yard)
    assert (warning["detail-type"], warning["detail"]["instance-id"]) == (SPOT, machine)
    assert warning["time"] == iso_timestamp(yard.clock.now()).replace(".000", "")
    yard.wait(119)
    assert (yard.state(machine), news(yard)) == ("running", [])
    yard.wait(1)
    assert yard.state(machine) == "shutting-down"
    assert yard.machine(machine)["StateReason"]["Code"] == "Server.SpotInstanceTermination"
    yard.wait(1)
    assert (yard.state(machine), yard.state(other)) == ("terminated", "running")
    assert news(yard) == [(STATE, "shutting-down"), (STATE, "terminated")]


def test_capacity_comes_back_with_the_machine_that_was_taken() -> None:
    yard = LaunchAccount()
    yard.cloud.change({"stock": [{"instanceType": "m5.large", "capacityType": "spot", "free": 1}]})
    machine = running(yard)
    capacity_market = yard.cloud.services.capacity_market
    assert capacity_market.free("m5.large", A, "spot") == 0
    happen(yard, machine, "spot", seconds=10)
    yard.wait(11)
    assert yard.state(machine) == "terminated"
    assert capacity_market.free("m5.large", A, "spot") == 1


def test_a_machine_that_is_ended_in_time_is_not_ended_twice() -> None:
    yard = LaunchAccount()
    machine = running(yard)
    happen(yard, machine, "spot")
    yard.ask("TerminateInstances", InstanceIds=[machine])
    yard.wait(200)
    assert yard.machine(machine)["StateReason"]["Code"] == "Client.UserInitiatedShutdown"
    assert [kind for kind, _ in news(yard)] == [SPOT, STATE, STATE]


def test_an_appointment_is_kept_by_an_account_that_was_saved() -> None:
    yard = LaunchAccount()
    machine = running(yard)
    happen(yard, machine, "spot")
    yard.cloud = EmulatedAwsAccount.load(yard.cloud.save(), clock=yard.clock)
    yard.wait(122)
    assert yard.state(machine) == "terminated"
    assert [kind for kind, _ in news(yard)] == [SPOT, STATE, STATE]


def statuses(yard: LaunchAccount, code: str) -> list[Any]:
    filters = [{"Name": "event.code", "Values": [code]}]
    return list(yard.ask("DescribeInstanceStatus", Filters=filters)["InstanceStatuses"])


@pytest.mark.parametrize(
    ("code", "after"),
    [
        ("instance-retirement", "terminated"),
        ("instance-stop", "terminated"),
        ("system-reboot", "running"),
        ("system-maintenance", "running"),
    ],
)
def test_what_is_scheduled_is_told_shown_and_done(code: str, after: str) -> None:
    yard = LaunchAccount()
    machine = running(yard, market="on-demand")
    starts = yard.clock.now() + HOUR
    happen(yard, machine, code, seconds=HOUR)
    (health,) = told(yard)
    assert (health["source"], health["detail-type"]) == ("aws.health", "AWS Health Event")
    assert health["detail"]["affectedEntities"][0]["entityValue"] == machine
    (row,) = statuses(yard, code)
    (event,) = row["Events"]
    assert (row["InstanceId"], event["Code"]) == (machine, code)
    assert event["NotBefore"].timestamp() == starts
    assert statuses(yard, "instance-reboot") == []
    yard.wait(HOUR + 2)
    assert yard.state(machine) == after
    assert bool(statuses(yard, code)) is (after == "running")


def block() -> LaunchAccount:
    """A block of two machines, which ends in five hours."""
    window = {"startTime": iso_timestamp(EPOCH), "endTime": iso_timestamp(EPOCH + 5 * HOUR)}
    yard = LaunchAccount(cloud_reservation(1, *BLOCK, reservationType="capacity-block", **window))
    target = {"CapacityReservationTarget": {"CapacityReservationId": "cr-00000001"}}
    market = {"MarketType": "capacity-block"}
    yard.template("block", CapacityReservationSpecification=target, InstanceMarketOptions=market)
    return yard


def test_a_capacity_block_is_announced_to_end_and_its_machines_end_before_it() -> None:
    yard = block()
    config = yard.config(BLOCK, template="block")
    first, second = launched_ids(yard.fleet(config, market="capacity-block", count=2))
    yard.wait(2)
    told(yard)
    yard.wait(5 * HOUR - WARNED - 3)
    assert told(yard) == []
    yard.wait(1)
    expires, *warnings = told(yard)
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
    yard.wait(599)
    assert yard.state(first) == "running"
    yard.wait(2)
    assert (yard.state(first), yard.state(second)) == ("terminated", "terminated")
    assert yard.machine(first)["StateReason"]["Code"] == "Server.CapacityReservationEnded"
    yard.wait(1800)
    assert yard.reserved("cr-00000001")["State"] == "expired"


def test_an_empty_block_is_announced_all_the_same_and_a_reservation_is_not() -> None:
    yard = block()
    ends = {"endTime": iso_timestamp(EPOCH + 5 * HOUR)}
    entry = cloud_reservation(2, "m5.large", A, **ends)
    yard.cloud.services.reservations.seed([entry])
    yard.wait(5 * HOUR - WARNED + 1)
    assert [each["detail"].get("capacity-reservation-id") for each in told(yard)] == ["cr-00000001"]
    yard.wait(HOUR)
    assert told(yard) == []


def test_a_block_that_goes_on_is_announced_at_its_new_end() -> None:
    yard = block()
    longer = {
        "id": "cr-00000001",
        "instanceType": BLOCK[0],
        "availabilityZone": BLOCK[1],
        "total": 2,
        "reservationType": "capacity-block",
        "endTime": iso_timestamp(EPOCH + 10 * HOUR),
    }
    yard.cloud.change({"capacityReservations": [longer]})
    yard.wait(5 * HOUR - WARNED + 1)
    assert told(yard) == []
    yard.wait(5 * HOUR)
    assert [each["detail"]["end-date"] for each in told(yard)] == ["2026-01-01T10:00:00Z"]


def test_who_waits_at_the_queue_hears_of_it_at_once() -> None:
    clock = VirtualClock()
    cloud = EmulatedAwsAccount(clock=clock)
    image = next(iter(cloud.services.images.state.images))
    asked = {"ImageId": image, "InstanceType": "m5.large", "MinCount": 1, "MaxCount": 1}
    machine = cloud.answer("ec2", "RunInstances", asked)["Instances"][0]["InstanceId"]
    receive = {"QueueUrl": cloud.account.queue_url, "WaitTimeSeconds": 20}

    async def listen() -> tuple[float, str]:
        while True:
            answer = await cloud.call("sqs", "ReceiveMessage", receive)
            for each in answer.get("Messages", ()):
                handle = {"ReceiptHandle": each["ReceiptHandle"]}
                await cloud.call("sqs", "DeleteMessage", receive | handle)
                if SPOT in each["Body"]:
                    return clock.now() - EPOCH, json.loads(each["Body"])["detail"]["instance-id"]

    async def interrupt() -> tuple[float, str]:
        listening = asyncio.create_task(listen())
        await clock.sleep(47)
        cloud.change({"interruptions": [{"instance": machine, "kind": "spot"}]})
        return await listening

    try:
        assert clock.run(interrupt()) == (47, machine)
    finally:
        clock.close()
