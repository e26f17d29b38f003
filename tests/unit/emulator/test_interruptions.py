"""Interruptions: the warning, the end that follows it, and what status checks show."""

import json
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from tests.support.oneservice import Moments

from wainwright.clock import EPOCH
from wainwright.emulator.interruptions import Check, Code, Interruptions, InterruptionState
from wainwright.emulator.services.sqs import Sqs
from wainwright.emulator.world import World
from wainwright.errors import BadInput


class Machine(msgspec.Struct):
    id: str
    lifecycle: str = "on-demand"
    state: str = "running"
    zone: str = "us-east-1a"
    zone_id: str = "use1-az6"


class Machines:
    """As many as a test needs; those that are told to end do so at once."""

    def __init__(self, world: World) -> None:
        self.known: dict[str, Machine] = {}
        self.ended: list[tuple[float, str, str]] = []
        self._world = world

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
        self.clock = Moments()
        self.world = World(self.clock.now, region="us-east-1", seed=seed)
        self.sqs = Sqs(self.world)
        self.url = self.sqs.seed("wain")
        self.machines = Machines(self.world)
        self.interruptions = Interruptions(self.world, self.sqs, "wain", self.machines)

    def messages(self) -> list[Any]:
        answer = self.sqs.receive_message({"QueueUrl": self.url, "MaxNumberOfMessages": 10})
        return [json.loads(each["Body"]) for each in answer.get("Messages", ())]

    def later(self, seconds: float) -> None:
        self.clock.time += seconds
        self.world.catch_up()


@pytest.fixture
def scene() -> Scene:
    made = Scene()
    made.machines.add("i-1")
    return made


def test_every_message_says_where_and_when(scene: Scene) -> None:
    scene.interruptions.rebalance("i-1")
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
    scene.interruptions.spot("i-1")
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
    scene.interruptions.rebalance("i-1")
    (body,) = scene.messages()
    assert body["detail-type"] == "EC2 Instance Rebalance Recommendation"
    assert body["detail"] == {"instance-id": "i-1"}
    scene.later(10_000)
    assert scene.machines.ended == []


def test_lent_capacity_is_taken_back_with_its_own_message(scene: Scene) -> None:
    scene.machines.add("i-2", "capacity-block")
    scene.interruptions.reservation("i-2", notice=600)
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


@pytest.mark.parametrize("code", list(Code))
def test_a_scheduled_change_is_told_shown_and_done(scene: Scene, code: Code) -> None:
    event = scene.interruptions.schedule("i-1", code, starts=EPOCH + 3600, lasts=60)
    (body,) = scene.messages()
    assert (body["source"], body["detail-type"]) == ("aws.health", "AWS Health Event")
    detail = body["detail"]
    assert (detail["service"], detail["eventTypeCategory"]) == ("EC2", "scheduledChange")
    assert [each["entityValue"] for each in detail["affectedEntities"]] == ["i-1"]
    assert detail["startTime"] == "Thu, 01 Jan 2026 01:00:00 GMT"
    assert scene.interruptions.state.events == {"i-1": [event]}
    assert (event.not_before, event.not_after) == (EPOCH + 3600, EPOCH + 3660)
    scene.later(3600)
    assert [each[:2] for each in scene.machines.ended] == [(3600, "i-1")] * code.final


def test_state_changes_are_told_once_each(scene: Scene) -> None:
    machine = scene.machines.add("i-2", "on-demand")
    seen = ""
    for state in ("pending", "running", "shutting-down", "terminated", "gone"):
        machine.state = state
        scene.interruptions.noticed(machine, seen)
        seen = state
    found = scene.messages()
    assert {each["detail-type"] for each in found} == {"EC2 Instance State-change Notification"}
    assert [each["detail"] for each in found] == [
        {"instance-id": "i-2", "state": state}
        for state in ("pending", "running", "shutting-down", "terminated")
    ]


def test_checks_fail_since_the_first_time_until_mended(scene: Scene) -> None:
    scene.interruptions.impair("i-1", Check.SYSTEM)
    scene.later(60)
    scene.interruptions.impair("i-1", Check.SYSTEM)
    scene.interruptions.impair("i-1", Check.INSTANCE)
    state = scene.interruptions.state
    assert state.impaired == {"i-1": {Check.SYSTEM: EPOCH, Check.INSTANCE: EPOCH + 60}}
    kept = msgspec.json.decode(msgspec.json.encode(state), type=InterruptionState)
    assert kept == state
    scene.interruptions.mend("i-1")
    assert state.impaired == {}


def test_a_dead_machine_has_no_events_left(scene: Scene) -> None:
    scene.interruptions.schedule("i-1", Code.SYSTEM_REBOOT, starts=EPOCH + 10)
    scene.interruptions.impair("i-1", Check.EBS)
    machine = scene.machines.known["i-1"]
    machine.state = "terminated"
    scene.interruptions.noticed(machine, "shutting-down")
    assert scene.interruptions.state == InterruptionState()


def test_without_a_queue_it_happens_all_the_same(scene: Scene) -> None:
    scene.sqs.operations()["DeleteQueue"]({"QueueUrl": scene.url})
    scene.interruptions.spot("i-1")
    scene.later(120)
    assert len(scene.machines.ended) == 1


def test_a_machine_that_nobody_knows_cannot_be_interrupted(scene: Scene) -> None:
    for act in (scene.interruptions.spot, scene.interruptions.rebalance):
        with pytest.raises(BadInput, match="i-9"):
            act("i-9")


def born(scene: Scene, count: int, lifecycle: str) -> None:
    for number in range(count):
        machine = scene.machines.add(f"i-{lifecycle}-{number}", lifecycle)
        scene.interruptions.noticed(machine, "")


def test_spot_machines_are_taken_back_as_often_as_said_and_no_others() -> None:
    scene = Scene(seed=3)
    scene.interruptions.state.spot_share = 0.2
    born(scene, 1000, "spot")
    born(scene, 1000, "on-demand")
    scene.later(30 * 86_400)
    ended = [name for _, name, _ in scene.machines.ended]
    assert 130 < len(ended) < 240  # 1 - exp(-0.2) is 18 %
    assert all(name.startswith("i-spot") for name in ended)
    again = Scene(seed=3)
    again.interruptions.state.spot_share = 0.2
    born(again, 1000, "spot")
    born(again, 1000, "on-demand")
    again.later(30 * 86_400)
    assert again.machines.ended == scene.machines.ended


def test_nothing_is_taken_back_unless_asked_for() -> None:
    scene = Scene()
    born(scene, 1000, "spot")
    scene.later(365 * 86_400)
    assert scene.machines.ended == []
