"""Interruptions in a whole account: asked for from outside, told by the queue, carried out."""

import asyncio
import json
from typing import Any

import pytest
from tests.support.launches import A, Yard, launched, reservation

from wainwright.clock import EPOCH, VirtualClock
from wainwright.emulator.cloud import EmulatedCloud
from wainwright.emulator.times import iso

HOUR, WARNED = 3600.0, 2400.0
SPOT = "EC2 Spot Instance Interruption Warning"
STATE = "EC2 Instance State-change Notification"
RESERVATION = "EC2 Capacity Reservation Instance Interruption Warning"
EXPIRES = "Capacity Block Expiration Warning"
BLOCK = ("p5.48xlarge", A)


def told(yard: Yard) -> list[Any]:
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


def news(yard: Yard) -> list[tuple[str, str]]:
    """Kind and what it is about; of a change of state the state."""
    return [
        (each["detail-type"], each["detail"].get("state") or each["detail"].get("instance-id", ""))
        for each in told(yard)
    ]


def happen(yard: Yard, instance: str, kind: str, **more: Any) -> None:
    yard.cloud.change({"interruptions": [{"instance": instance, "kind": kind, **more}]})


def running(yard: Yard, *pool: str, market: str = "spot") -> str:
    """A machine that is up, with nothing left to read of its start."""
    (machine,) = yard.launch(*pool, market=market)
    yard.wait(2)
    assert news(yard) == [(STATE, "pending"), (STATE, "running")]
    return machine


def test_spot_capacity_is_taken_back_two_minutes_after_the_warning() -> None:
    yard = Yard()
    machine, other = running(yard), running(yard)
    happen(yard, machine, "spot")
    (warning,) = told(yard)
    assert (warning["detail-type"], warning["detail"]["instance-id"]) == (SPOT, machine)
    assert warning["time"] == iso(yard.clock.now()).replace(".000", "")
    yard.wait(119)
    assert (yard.state(machine), news(yard)) == ("running", [])
    yard.wait(1)
    assert yard.state(machine) == "shutting-down"
    assert yard.machine(machine)["StateReason"]["Code"] == "Server.SpotInstanceTermination"
    yard.wait(1)
    assert (yard.state(machine), yard.state(other)) == ("terminated", "running")
    assert news(yard) == [(STATE, "shutting-down"), (STATE, "terminated")]


def test_capacity_comes_back_with_the_machine_that_was_taken() -> None:
    yard = Yard()
    yard.cloud.change({"stock": [{"instanceType": "m5.large", "capacityType": "spot", "free": 1}]})
    machine = running(yard)
    shop = yard.cloud.parts.shop
    assert shop.free("m5.large", A, "spot") == 0
    happen(yard, machine, "spot", seconds=10)
    yard.wait(11)
    assert yard.state(machine) == "terminated"
    assert shop.free("m5.large", A, "spot") == 1


def test_a_machine_that_is_ended_in_time_is_not_ended_twice() -> None:
    yard = Yard()
    machine = running(yard)
    happen(yard, machine, "spot")
    yard.ask("TerminateInstances", InstanceIds=[machine])
    yard.wait(200)
    assert yard.machine(machine)["StateReason"]["Code"] == "Client.UserInitiatedShutdown"
    assert [kind for kind, _ in news(yard)] == [SPOT, STATE, STATE]


def test_an_appointment_is_kept_by_an_account_that_was_saved() -> None:
    yard = Yard()
    machine = running(yard)
    happen(yard, machine, "spot")
    yard.cloud = EmulatedCloud.load(yard.cloud.save(), clock=yard.clock)
    yard.wait(122)
    assert yard.state(machine) == "terminated"
    assert [kind for kind, _ in news(yard)] == [SPOT, STATE, STATE]


def statuses(yard: Yard, code: str) -> list[Any]:
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
    yard = Yard()
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


def block() -> Yard:
    """A block of two machines, which ends in five hours."""
    window = {"startTime": iso(EPOCH), "endTime": iso(EPOCH + 5 * HOUR)}
    yard = Yard(reservation(1, *BLOCK, reservationType="capacity-block", **window))
    target = {"CapacityReservationTarget": {"CapacityReservationId": "cr-00000001"}}
    market = {"MarketType": "capacity-block"}
    yard.template("block", CapacityReservationSpecification=target, InstanceMarketOptions=market)
    return yard


def test_a_capacity_block_is_announced_to_end_and_its_machines_end_before_it() -> None:
    yard = block()
    config = yard.config(BLOCK, template="block")
    first, second = launched(yard.fleet(config, market="capacity-block", count=2))
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
    ends = {"endTime": iso(EPOCH + 5 * HOUR)}
    entry = reservation(2, "m5.large", A, **ends)
    yard.cloud.parts.reservations.seed([entry])
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
        "endTime": iso(EPOCH + 10 * HOUR),
    }
    yard.cloud.change({"capacityReservations": [longer]})
    yard.wait(5 * HOUR - WARNED + 1)
    assert told(yard) == []
    yard.wait(5 * HOUR)
    assert [each["detail"]["end-date"] for each in told(yard)] == ["2026-01-01T10:00:00Z"]


def test_who_waits_at_the_queue_hears_of_it_at_once() -> None:
    clock = VirtualClock()
    cloud = EmulatedCloud(clock=clock)
    image = next(iter(cloud.parts.images.state.images))
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

    async def strike() -> tuple[float, str]:
        listening = asyncio.create_task(listen())
        await clock.sleep(47)
        cloud.change({"interruptions": [{"instance": machine, "kind": "spot"}]})
        return await listening

    try:
        assert clock.run(strike()) == (47, machine)
    finally:
        clock.close()
