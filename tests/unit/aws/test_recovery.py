"""After a crash or a lost reply machines are dealt out to their claims, and none is paid twice."""

import asyncio
from typing import Any

import msgspec
import pytest
from tests.support.awslaunches import (
    ONLY_RESERVED,
    RESERVING,
    Scene,
    asking,
    claim,
    played,
    reserved,
)

from wainwright.emulator.ec2.lifecycle import Delay, Pace
from wainwright.emulator.settings import Settings
from wainwright.errors import Unavailable

ON_DEMAND = asking(capacity="on-demand")
LOST = {"operation": "CreateFleet", "when": "after"}
SLOW = Settings(pace=Pace(invisible=Delay(median=10.0)))


async def lose(scene: Scene, *numbers: int, **fault: Any) -> list[Any]:
    """Launches whose replies get lost, however often they are asked for."""
    await scene.cloud.resolve("default")
    scene.emulated.change({"faults": [{**LOST, **fault}]})
    found = await scene.launch(*(claim(number, ON_DEMAND) for number in numbers))
    scene.emulated.change({"faults": []})
    return found


def ids(scene: Scene) -> list[str]:
    return [each.id for each in scene.running()]


async def reborn(scene: Scene) -> None:
    """The process dies, and another one takes its place."""
    scene.cloud = scene.provider()
    await scene.cloud.refresh()


def owners(scene: Scene) -> dict[str, str]:
    return {each.uid: each.instance for each in scene.store.claims.values()}


def test_a_lost_reply_is_asked_for_again() -> None:
    async def test(scene: Scene) -> None:
        (found,) = await lose(scene, 1, times=2)
        assert [found.id] == ids(scene)
        assert len({each["ClientToken"] for each in scene.fleets()}) == 1

    played(test)


def test_machines_are_found_although_no_reply_ever_came() -> None:
    async def test(scene: Scene) -> None:
        found = await lose(scene, 1, 2, 3)
        assert [each.id for each in found] == ids(scene)
        assert {each.batch for each in found} == {scene.fleets()[0]["ClientToken"]}
        assert found[0].labels["node.kubernetes.io/instance-type"] == found[0].instance_type

    played(test)


def test_as_long_as_they_cannot_be_seen_nobody_launches_again() -> None:
    async def test(scene: Scene) -> None:
        (found,) = await lose(scene, 1)
        assert isinstance(found, Unavailable)
        assert found.reason == "LaunchUnclear"
        assert 0 < found.after <= 30
        (again,) = await scene.launch(claim(1))
        assert isinstance(again, Unavailable)
        await scene.clock.sleep(found.after)
        assert (await scene.one(claim(1))).id == ids(scene)[0]
        assert len({each["ClientToken"] for each in scene.fleets()}) == 1

    played(test, settings=SLOW)


def test_what_never_came_is_launched_anew_under_another_name() -> None:
    async def test(scene: Scene) -> None:
        (found,) = await lose(scene, 1, when="before")
        assert isinstance(found, Unavailable)
        assert not ids(scene)
        await scene.clock.sleep(found.after)
        assert (await scene.one(claim(1))).id == ids(scene)[0]
        marks = [mark for _, mark in scene.store.recorded]
        assert [mark.attempt for mark in marks] == [1, 2]
        assert marks[0].batch != marks[1].batch

    played(test)


def test_after_a_crash_claims_get_their_machines_in_order() -> None:
    async def test(scene: Scene) -> None:
        first = await scene.launch(*(claim(number, ON_DEMAND) for number in (1, 2, 3)))
        expected = {f"uid-{number}": each.id for number, each in zip((1, 2, 3), first, strict=True)}
        for uid in ("uid-2", "uid-3"):  # these were not written down any more
            scene.store.launched(uid, "")
        await reborn(scene)
        recovered = await scene.cloud.recover(list(scene.store.claims.values()))
        assert {uid: each.id for uid, each in recovered.found.items()} == {
            uid: expected[uid] for uid in ("uid-2", "uid-3")
        }
        assert not recovered.unclear
        assert len(ids(scene)) == 3

    played(test)


def test_of_fewer_machines_than_claims_the_first_get_theirs() -> None:
    async def test(scene: Scene) -> None:
        wanted = asking(
            ("node.kubernetes.io/instance-type", "In", ("m5.large",), None), zone="us-east-1a"
        )
        numbers = range(1, 5)
        await scene.launch(*(claim(number, wanted) for number in numbers))
        for number in numbers:
            scene.store.launched(f"uid-{number}", "")
        await reborn(scene)
        recovered = await scene.cloud.recover(list(scene.store.claims.values()))
        assert set(recovered.found) == {"uid-1", "uid-2"}
        assert recovered.unclear == {"uid-3", "uid-4"}
        await scene.clock.sleep(30)
        settled = await scene.cloud.recover(list(scene.store.claims.values()))
        assert not settled.unclear

    stock = [{"instanceType": "m5.large", "free": 2}]
    played(test, settings=msgspec.convert({"stock": stock}, Settings))


def test_machines_of_claims_that_are_gone_are_terminated() -> None:
    async def test(scene: Scene) -> None:
        await scene.launch(*(claim(number, ON_DEMAND) for number in (1, 2, 3)))
        for number in (1, 2, 3):
            scene.store.launched(f"uid-{number}", "")
        del scene.store.claims["uid-2"]
        await reborn(scene)
        recovered = await scene.cloud.recover(list(scene.store.claims.values()))
        assert sorted(each.id for each in recovered.found.values()) == sorted(ids(scene))
        assert len(ids(scene)) == 2

    played(test)


def test_a_machine_that_somebody_has_is_not_given_away() -> None:
    async def test(scene: Scene) -> None:
        await scene.launch(claim(1, ON_DEMAND), claim(2, ON_DEMAND))
        kept = scene.store.claims["uid-2"].instance
        scene.store.launched("uid-1", "")
        await reborn(scene)
        found = await scene.one(claim(1))
        assert found.id != kept
        assert sorted(owners(scene).values()) == sorted(ids(scene))

    played(test)


def test_two_who_look_at_the_same_time_do_not_get_the_same() -> None:
    async def test(scene: Scene) -> None:
        await scene.launch(claim(1, ON_DEMAND), claim(2, ON_DEMAND))
        for number in (1, 2):
            scene.store.launched(f"uid-{number}", "")
        await reborn(scene)
        one, other = await asyncio.gather(
            *(scene.cloud.launch(scene.store.claims[uid]) for uid in ("uid-2", "uid-1"))
        )
        assert {one.id, other.id} == set(ids(scene))
        assert len(scene.fleets()) == 1

    played(test)


def test_marked_but_never_asked_for_is_launched_after_a_while() -> None:
    async def test(scene: Scene) -> None:
        await scene.one(claim(1, ON_DEMAND))
        (uid, mark) = scene.store.recorded[0]
        lone = msgspec.structs.replace(mark, batch="nobody-asked", token="t")
        scene.store.keep(claim(2, ON_DEMAND, mark=lone))
        await reborn(scene)
        (unclear,) = await scene.launch(claim(2))
        assert isinstance(unclear, Unavailable)
        await scene.clock.sleep(unclear.after)
        assert (await scene.one(claim(2))).id in ids(scene)
        assert scene.store.claims["uid-2"].mark is not None
        assert scene.store.claims["uid-2"].mark.attempt == 2
        assert uid == "uid-1"

    played(test)


def test_a_machine_that_died_meanwhile_is_no_machine() -> None:
    async def test(scene: Scene) -> None:
        first = await scene.one(claim(1, ON_DEMAND))
        scene.store.launched("uid-1", "")
        scene.emulated.answer("ec2", "TerminateInstances", {"InstanceIds": [first.id]})
        await scene.clock.sleep(60)
        again = await scene.one(claim(1))
        assert [again.id] == ids(scene)

    played(test)


def test_reservations_are_not_taken_twice_while_it_is_unclear() -> None:
    async def test(scene: Scene) -> None:
        scene.use(**RESERVING)
        await scene.cloud.resolve("default")
        scene.emulated.change({"faults": [LOST]})
        (lost,) = await scene.launch(claim(1, ONLY_RESERVED))
        assert isinstance(lost, Unavailable)
        scene.emulated.change({"faults": []})
        (late,) = await scene.launch(claim(2, ONLY_RESERVED))
        assert type(late).__name__ == "NoCapacity"
        await scene.clock.sleep(lost.after)
        assert (await scene.one(claim(1))).reservation_id == "cr-00000001"

    played(test, reserved(1, 1), settings=SLOW)


@pytest.mark.parametrize("fault", ["DescribeInstances", "DescribeSubnets"])
def test_what_cannot_be_looked_up_is_unclear(fault: str) -> None:
    async def test(scene: Scene) -> None:
        await scene.one(claim(1, ON_DEMAND))
        scene.store.launched("uid-1", "")
        await reborn(scene)
        scene.emulated.change(
            {"faults": [{"operation": fault, "code": "InternalError", "status": 500}]}
        )
        recovered = await scene.cloud.recover(list(scene.store.claims.values()))
        if fault == "DescribeInstances":
            assert recovered.unclear == {"uid-1"}
        else:  # the machine is there, even if nobody can say much about it
            assert recovered.found["uid-1"].id == ids(scene)[0]

    played(test)
