"""After a crash or a lost reply instances are assigned to their claims, and none is paid twice."""

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.aws_provider import (
    ONLY_RESERVED,
    RESERVATION_SELECTOR,
    ProviderScene,
    claim_requirements,
    node_claim,
    reservation_object,
    run_scene,
)

from wainwright.aws.instances import BATCH_TAG, batch_id
from wainwright.aws.launch.recovery import launch_records
from wainwright.emulator.ec2.instance.lifecycle import DelayDistribution, InstanceTimings
from wainwright.emulator.settings import EmulatorSettings
from wainwright.errors import TemporarilyUnavailableError
from wainwright.model.node_claim import NodeClaim


def next_attempt(wanted: NodeClaim, *others: NodeClaim) -> NodeClaim:
    """The claim as it is after a launch together with others."""
    return msgspec.structs.replace(wanted, launch_record=launch_records([wanted, *others], 0.0)[0])


def test_claims_of_a_batch_share_its_name_and_stand_in_order() -> None:
    found = launch_records([node_claim(1), node_claim(2), node_claim(3)], 7.0)
    assert len({mark.batch for mark in found}) == 1
    assert [mark.index for mark in found] == [0, 1, 2]
    assert len({mark.token for mark in found}) == 3
    assert {(mark.attempt, mark.at) for mark in found} == {(1, 7.0)}


def test_the_same_launch_has_the_same_name_whenever_it_is_asked_for() -> None:
    first, second = (
        launch_records([node_claim(1), node_claim(2)], moment) for moment in (1.0, 2.0)
    )
    assert [mark.batch for mark in first] == [mark.batch for mark in second]


def test_another_attempt_is_another_launch() -> None:
    (first,) = launch_records([node_claim(1)], 0.0)
    (second,) = launch_records([next_attempt(node_claim(1))], 0.0)
    assert second.attempt == 2
    assert first.batch != second.batch
    assert first.token != second.token


@given(st.sets(st.integers(1, 9), min_size=1), st.sets(st.integers(1, 9), min_size=1))
def test_other_claims_are_another_launch(one: set[int], other: set[int]) -> None:
    left, right = (
        launch_records([node_claim(number) for number in sorted(each)], 0.0)
        for each in (one, other)
    )
    assert (left[0].batch == right[0].batch) is (one == other)


def test_ec2_takes_them_as_client_token_and_tag() -> None:
    (mark,) = launch_records([node_claim(1)], 0.0)
    assert len(mark.batch) <= 64
    assert batch_id({BATCH_TAG: mark.batch}) == mark.batch
    assert batch_id({"team": "web"}) == ""


ON_DEMAND = claim_requirements(capacity="on-demand")
LOST = {"operation": "CreateFleet", "when": "after"}
SLOW = EmulatorSettings(timings=InstanceTimings(visibility_delay=DelayDistribution(median=10.0)))


async def lose(scene: ProviderScene, *numbers: int, **fault: Any) -> list[Any]:
    """Launches whose replies get lost, however often they are asked for."""
    await scene.cloud.resolve("default")
    scene.emulated.change({"faults": [{**LOST, **fault}]})
    found = await scene.launch(*(node_claim(number, ON_DEMAND) for number in numbers))
    scene.emulated.change({"faults": []})
    return found


def ids(scene: ProviderScene) -> list[str]:
    return [each.id for each in scene.running()]


async def reborn(scene: ProviderScene) -> None:
    """The process dies, and another one takes its place."""
    scene.cloud = scene.provider()
    await scene.cloud.refresh()


def owners(scene: ProviderScene) -> dict[str, str]:
    return {each.uid: each.instance for each in scene.store.claims.values()}


def test_a_lost_reply_is_asked_for_again() -> None:
    async def test(scene: ProviderScene) -> None:
        (found,) = await lose(scene, 1, times=2)
        assert [found.id] == ids(scene)
        assert len({each["ClientToken"] for each in scene.fleets()}) == 1

    run_scene(test)


def test_machines_are_found_although_no_reply_ever_came() -> None:
    async def test(scene: ProviderScene) -> None:
        found = await lose(scene, 1, 2, 3)
        assert [each.id for each in found] == ids(scene)
        assert {each.batch for each in found} == {scene.fleets()[0]["ClientToken"]}
        assert found[0].labels["node.kubernetes.io/instance-type"] == found[0].instance_type

    run_scene(test)


def test_as_long_as_they_cannot_be_seen_nobody_launches_again() -> None:
    async def test(scene: ProviderScene) -> None:
        (found,) = await lose(scene, 1)
        assert isinstance(found, TemporarilyUnavailableError)
        assert found.reason == "LaunchUnclear"
        assert 0 < found.after <= 30
        (again,) = await scene.launch(node_claim(1))
        assert isinstance(again, TemporarilyUnavailableError)
        await scene.clock.sleep(found.after)
        assert (await scene.one(node_claim(1))).id == ids(scene)[0]
        assert len({each["ClientToken"] for each in scene.fleets()}) == 1

    run_scene(test, settings=SLOW)


def test_what_never_came_is_launched_anew_under_another_name() -> None:
    async def test(scene: ProviderScene) -> None:
        (found,) = await lose(scene, 1, when="before")
        assert isinstance(found, TemporarilyUnavailableError)
        assert not ids(scene)
        await scene.clock.sleep(found.after)
        assert (await scene.one(node_claim(1))).id == ids(scene)[0]
        marks = [mark for _, mark in scene.store.recorded]
        assert [mark.attempt for mark in marks] == [1, 2]
        assert marks[0].batch != marks[1].batch

    run_scene(test)


def test_after_a_crash_claims_get_their_machines_in_order() -> None:
    async def test(scene: ProviderScene) -> None:
        first = await scene.launch(*(node_claim(number, ON_DEMAND) for number in (1, 2, 3)))
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

    run_scene(test)


def test_of_fewer_machines_than_claims_the_first_get_theirs() -> None:
    async def test(scene: ProviderScene) -> None:
        wanted = claim_requirements(
            ("node.kubernetes.io/instance-type", "In", ("m5.large",), None), zone="us-east-1a"
        )
        numbers = range(1, 5)
        await scene.launch(*(node_claim(number, wanted) for number in numbers))
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
    run_scene(test, settings=msgspec.convert({"stock": stock}, EmulatorSettings))


def test_machines_of_claims_that_are_gone_are_terminated() -> None:
    async def test(scene: ProviderScene) -> None:
        await scene.launch(*(node_claim(number, ON_DEMAND) for number in (1, 2, 3)))
        for number in (1, 2, 3):
            scene.store.launched(f"uid-{number}", "")
        del scene.store.claims["uid-2"]
        await reborn(scene)
        recovered = await scene.cloud.recover(list(scene.store.claims.values()))
        assert sorted(each.id for each in recovered.found.values()) == sorted(ids(scene))
        assert len(ids(scene)) == 2

    run_scene(test)


def test_a_machine_that_somebody_has_is_not_given_away() -> None:
    async def test(scene: ProviderScene) -> None:
        await scene.launch(node_claim(1, ON_DEMAND), node_claim(2, ON_DEMAND))
        kept = scene.store.claims["uid-2"].instance
        scene.store.launched("uid-1", "")
        await reborn(scene)
        found = await scene.one(node_claim(1))
        assert found.id != kept
        assert sorted(owners(scene).values()) == sorted(ids(scene))

    run_scene(test)


def test_two_who_look_at_the_same_time_do_not_get_the_same() -> None:
    async def test(scene: ProviderScene) -> None:
        await scene.launch(node_claim(1, ON_DEMAND), node_claim(2, ON_DEMAND))
        for number in (1, 2):
            scene.store.launched(f"uid-{number}", "")
        await reborn(scene)
        one, other = await asyncio.gather(
            *(scene.cloud.launch(scene.store.claims[uid]) for uid in ("uid-2", "uid-1"))
        )
        assert {one.id, other.id} == set(ids(scene))
        assert len(scene.fleets()) == 1

    run_scene(test)


def test_marked_but_never_asked_for_is_launched_after_a_while() -> None:
    async def test(scene: ProviderScene) -> None:
        await scene.one(node_claim(1, ON_DEMAND))
        (uid, mark) = scene.store.recorded[0]
        lone = msgspec.structs.replace(mark, batch="nobody-asked", token="t")
        scene.store.keep(node_claim(2, ON_DEMAND, launch_record=lone))
        await reborn(scene)
        (unclear,) = await scene.launch(node_claim(2))
        assert isinstance(unclear, TemporarilyUnavailableError)
        await scene.clock.sleep(unclear.after)
        assert (await scene.one(node_claim(2))).id in ids(scene)
        assert scene.store.claims["uid-2"].launch_record is not None
        assert scene.store.claims["uid-2"].launch_record.attempt == 2
        assert uid == "uid-1"

    run_scene(test)


def test_a_machine_that_died_meanwhile_is_no_machine() -> None:
    async def test(scene: ProviderScene) -> None:
        first = await scene.one(node_claim(1, ON_DEMAND))
        scene.store.launched("uid-1", "")
        scene.emulated.answer("ec2", "TerminateInstances", {"InstanceIds": [first.id]})
        await scene.clock.sleep(60)
        again = await scene.one(node_claim(1))
        assert [again.id] == ids(scene)

    run_scene(test)


def test_reservations_are_not_taken_twice_while_it_is_unclear() -> None:
    async def test(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        await scene.cloud.resolve("default")
        scene.emulated.change({"faults": [LOST]})
        (lost,) = await scene.launch(node_claim(1, ONLY_RESERVED))
        assert isinstance(lost, TemporarilyUnavailableError)
        scene.emulated.change({"faults": []})
        (late,) = await scene.launch(node_claim(2, ONLY_RESERVED))
        assert type(late).__name__ == "InsufficientCapacityError"
        await scene.clock.sleep(lost.after)
        assert (await scene.one(node_claim(1))).reservation_id == "cr-00000001"

    run_scene(test, reservation_object(1, 1), settings=SLOW)


@pytest.mark.parametrize("fault", ["DescribeInstances", "DescribeSubnets"])
def test_what_cannot_be_looked_up_is_unclear(fault: str) -> None:
    async def test(scene: ProviderScene) -> None:
        await scene.one(node_claim(1, ON_DEMAND))
        scene.store.launched("uid-1", "")
        await reborn(scene)
        scene.emulated.change(
            {"faults": [{"operation": fault, "code": "InternalError", "status": 500}]}
        )
        recovered = await scene.cloud.recover(list(scene.store.claims.values()))
        if fault == "DescribeInstances":
            assert recovered.unclear == {"uid-1"}
        else:  # the instance is there, even if nobody can say much about it
            assert recovered.found["uid-1"].id == ids(scene)[0]

    run_scene(test)
