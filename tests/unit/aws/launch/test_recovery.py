"""After a crash or a lost response instances are assigned to their claims; none is duplicated."""

import asyncio
from collections.abc import Sequence
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

from wainwright.aws.api.services import AwsResponse, Params, Seam
from wainwright.aws.instances import BATCH_TAG, GARBAGE_MIN_AGE, MAX_CLOCK_SKEW, batch_id
from wainwright.aws.launch.recovery import VISIBLE_AFTER, launch_records
from wainwright.clock import Clock
from wainwright.cloud import LaunchLogEntry, RecoveredLaunches
from wainwright.emulator.ec2.instance.lifecycle import DelayDistribution, InstanceTimings
from wainwright.emulator.settings import EmulatorSettings
from wainwright.errors import InsufficientCapacityError, TemporarilyUnavailableError
from wainwright.model.node_claim import LaunchRecord, NodeClaim


def next_attempt(wanted: NodeClaim, *others: NodeClaim) -> NodeClaim:
    """The claim with the launch record of a batch with the others."""
    records = launch_records([wanted, *others], "p/1", 0.0)
    return msgspec.structs.replace(wanted, launch_record=records[0])


def test_claims_of_a_batch_share_its_id_and_are_in_order() -> None:
    found = launch_records([node_claim(1), node_claim(2), node_claim(3)], "p/1", 7.0)
    assert len({mark.batch for mark in found}) == 1
    assert [mark.index for mark in found] == [0, 1, 2]
    assert len({mark.token for mark in found}) == 3
    assert {(mark.attempt, mark.at, mark.batch_size) for mark in found} == {(1, 7.0, 3)}


def test_no_two_launches_have_the_same_id() -> None:
    first, second = (
        launch_records([node_claim(1), node_claim(2)], launch, 1.0) for launch in ("p/1", "q/1")
    )
    assert first[0].batch != second[0].batch


def test_another_attempt_has_another_id() -> None:
    (first,) = launch_records([node_claim(1)], "p/1", 0.0)
    (second,) = launch_records([next_attempt(node_claim(1))], "p/1", 0.0)
    assert second.attempt == 2
    assert first.batch != second.batch
    assert first.token != second.token


@given(st.sets(st.integers(1, 9), min_size=1), st.sets(st.integers(1, 9), min_size=1))
def test_other_claims_have_another_id(one: set[int], other: set[int]) -> None:
    left, right = (
        launch_records([node_claim(number) for number in sorted(each)], "p/1", 0.0)
        for each in (one, other)
    )
    assert (left[0].batch == right[0].batch) is (one == other)


def test_ids_are_valid_client_tokens_and_tags() -> None:
    (mark,) = launch_records([node_claim(1)], "p/1", 0.0)
    assert len(mark.batch) <= 64
    assert batch_id({BATCH_TAG: mark.batch}) == mark.batch
    assert batch_id({"team": "web"}) == ""


ON_DEMAND = claim_requirements(capacity="on-demand")
LOST = {"operation": "CreateFleet", "when": "after"}


def visible_after(seconds: float) -> EmulatorSettings:
    delay = DelayDistribution(median=seconds)
    return EmulatorSettings(timings=InstanceTimings(visibility_delay=delay))


SLOW = visible_after(10.0)


async def lose(scene: ProviderScene, *numbers: int, **fault: Any) -> list[Any]:
    """Launches whose responses are always lost."""
    await scene.cloud.resolve("default")
    scene.emulated.change({"faults": [{**LOST, **fault}]})
    found = await scene.launch(*(node_claim(number, ON_DEMAND) for number in numbers))
    scene.emulated.change({"faults": []})
    return found


def ids(scene: ProviderScene) -> list[str]:
    return [each.id for each in scene.running()]


async def reborn(scene: ProviderScene) -> None:
    """The process dies and is restarted."""
    scene.cloud = scene.provider()
    await scene.cloud.refresh()


def owners(scene: ProviderScene) -> dict[str, str]:
    return {each.uid: each.instance for each in scene.store.claims.values()}


def test_a_lost_response_is_retried() -> None:
    async def test(scene: ProviderScene) -> None:
        (found,) = await lose(scene, 1, times=2)
        assert [found.id] == ids(scene)
        assert len({each["ClientToken"] for each in scene.fleets()}) == 1

    run_scene(test)


def test_instances_are_found_although_no_response_came() -> None:
    async def test(scene: ProviderScene) -> None:
        found = await lose(scene, 1, 2, 3)
        assert [each.id for each in found] == ids(scene)
        assert {each.batch for each in found} == {scene.fleets()[0]["ClientToken"]}
        assert found[0].labels["node.kubernetes.io/instance-type"] == found[0].instance_type

    run_scene(test)


def test_a_claim_is_not_launched_again_until_instances_are_visible() -> None:
    async def test(scene: ProviderScene) -> None:
        (found,) = await lose(scene, 1)
        assert isinstance(found, TemporarilyUnavailableError)
        assert found.reason == "LaunchUnclear"
        assert 0 < found.retry_after <= 5
        (again,) = await scene.launch(node_claim(1))
        assert isinstance(again, TemporarilyUnavailableError)
        await scene.clock.sleep(VISIBLE_AFTER)
        assert (await scene.launch_one(node_claim(1))).id == ids(scene)[0]
        assert len({each["ClientToken"] for each in scene.fleets()}) == 1

    run_scene(test, settings=SLOW)


def test_a_launch_without_instances_is_repeated_with_another_id() -> None:
    async def test(scene: ProviderScene) -> None:
        (found,) = await lose(scene, 1, when="before")
        assert isinstance(found, TemporarilyUnavailableError)
        assert not ids(scene)
        await scene.clock.sleep(VISIBLE_AFTER)
        assert (await scene.launch_one(node_claim(1))).id == ids(scene)[0]
        marks = [mark for _, mark in scene.store.recorded]
        assert [mark.attempt for mark in marks] == [1, 2]
        assert marks[0].batch != marks[1].batch

    run_scene(test)


def test_after_a_crash_claims_get_their_instances_in_order() -> None:
    async def test(scene: ProviderScene) -> None:
        numbers = (3, 1, 2)  # the order of the batch is not that of the uids
        first = await scene.launch(*(node_claim(number, ON_DEMAND) for number in numbers))
        expected = {f"uid-{number}": each.id for number, each in zip(numbers, first, strict=True)}
        for uid in ("uid-2", "uid-3"):  # these were not recorded before the crash
            scene.store.set_instance(uid, "")
        await reborn(scene)
        recovered = await scene.cloud.recover(list(scene.store.claims.values()))
        assert {uid: each.id for uid, each in recovered.instances.items()} == {
            uid: expected[uid] for uid in ("uid-2", "uid-3")
        }
        assert not recovered.unclear
        assert len(ids(scene)) == 3

    run_scene(test)


def test_with_fewer_instances_than_claims_the_first_claims_get_them() -> None:
    async def test(scene: ProviderScene) -> None:
        wanted = claim_requirements(
            ("node.kubernetes.io/instance-type", "In", ("m5.large",), None), zone="us-east-1a"
        )
        numbers = range(1, 5)
        await scene.launch(*(node_claim(number, wanted) for number in numbers))
        for number in numbers:
            scene.store.set_instance(f"uid-{number}", "")
        await reborn(scene)
        recovered = await scene.cloud.recover(list(scene.store.claims.values()))
        # With two of four visible, nobody knows yet whether these are the first and the second.
        assert recovered.unclear == {f"uid-{number}" for number in numbers}
        await scene.clock.sleep(VISIBLE_AFTER)
        settled = await scene.cloud.recover(list(scene.store.claims.values()))
        assert set(settled.instances) == {"uid-1", "uid-2"}
        assert not settled.unclear

    capacity = [{"instanceType": "m5.large", "free": 2}]
    run_scene(test, settings=msgspec.convert({"stock": capacity}, EmulatorSettings))


def test_instances_of_deleted_claims_are_garbage() -> None:
    async def test(scene: ProviderScene) -> None:
        await scene.launch(*(node_claim(number, ON_DEMAND) for number in (1, 2, 3)))
        for number in (1, 2, 3):
            scene.store.set_instance(f"uid-{number}", "")
        del scene.store.claims["uid-2"]
        await reborn(scene)
        recovered = await scene.cloud.recover(list(scene.store.claims.values()))
        for uid, each in recovered.instances.items():
            scene.store.set_instance(uid, each.id)
        await scene.cloud.find_garbage(list(scene.store.claims.values()))
        await scene.clock.sleep(31)
        (garbage,) = (await scene.cloud.find_garbage(list(scene.store.claims.values()))).instances
        assert garbage.id not in {each.id for each in recovered.instances.values()}

    run_scene(test)


def test_an_assigned_instance_is_not_assigned_again() -> None:
    async def test(scene: ProviderScene) -> None:
        await scene.launch(node_claim(1, ON_DEMAND), node_claim(2, ON_DEMAND))
        kept = scene.store.claims["uid-2"].instance
        scene.store.set_instance("uid-1", "")
        await reborn(scene)
        found = await scene.launch_one(node_claim(1))
        assert found.id != kept
        assert sorted(owners(scene).values()) == sorted(ids(scene))

    run_scene(test)


def test_concurrent_recoveries_do_not_assign_the_same_instance() -> None:
    async def test(scene: ProviderScene) -> None:
        await scene.launch(node_claim(1, ON_DEMAND), node_claim(2, ON_DEMAND))
        for number in (1, 2):
            scene.store.set_instance(f"uid-{number}", "")
        await reborn(scene)
        one, other = await asyncio.gather(
            *(scene.cloud.launch(scene.store.claims[uid]) for uid in ("uid-2", "uid-1"))
        )
        assert {one.id, other.id} == set(ids(scene))
        assert len(scene.fleets()) == 1

    run_scene(test)


def test_a_recorded_launch_that_was_never_requested_is_launched_after_a_while() -> None:
    async def test(scene: ProviderScene) -> None:
        await scene.launch_one(node_claim(1, ON_DEMAND))
        (uid, mark) = scene.store.recorded[0]
        lone = msgspec.structs.replace(mark, batch="nobody-asked", token="t")
        scene.store.add(node_claim(2, ON_DEMAND, launch_record=lone))
        await reborn(scene)
        (unclear,) = await scene.launch(node_claim(2))
        assert isinstance(unclear, TemporarilyUnavailableError)
        await scene.clock.sleep(VISIBLE_AFTER)
        assert (await scene.launch_one(node_claim(2))).id in ids(scene)
        assert scene.store.claims["uid-2"].launch_record is not None
        assert scene.store.claims["uid-2"].launch_record.attempt == 2
        assert uid == "uid-1"

    run_scene(test)


def test_a_terminated_instance_is_not_recovered() -> None:
    async def test(scene: ProviderScene) -> None:
        first = await scene.launch_one(node_claim(1, ON_DEMAND))
        scene.store.set_instance("uid-1", "")
        scene.emulated.answer("ec2", "TerminateInstances", {"InstanceIds": [first.id]})
        await scene.clock.sleep(60)
        again = await scene.launch_one(node_claim(1))
        assert [again.id] == ids(scene)

    run_scene(test)


def test_reservations_are_not_used_twice_while_a_launch_is_unclear() -> None:
    async def test(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        await scene.cloud.resolve("default")
        scene.emulated.change({"faults": [LOST]})
        (lost,) = await scene.launch(node_claim(1, ONLY_RESERVED))
        assert isinstance(lost, TemporarilyUnavailableError)
        scene.emulated.change({"faults": []})
        (late,) = await scene.launch(node_claim(2, ONLY_RESERVED))
        assert type(late).__name__ == "InsufficientCapacityError"
        await scene.clock.sleep(VISIBLE_AFTER)
        assert (await scene.launch_one(node_claim(1))).reservation_id == "cr-00000001"

    run_scene(test, reservation_object(1, 1), settings=SLOW)


def test_a_restarted_process_with_a_stale_claim_does_not_launch_it_again() -> None:
    async def test(scene: ProviderScene) -> None:
        stale = node_claim(1, ON_DEMAND)
        first = await scene.launch_one(stale)
        scene.store.set_instance("uid-1", "")  # the process died before it stored the instance
        await reborn(scene)
        with pytest.raises(TemporarilyUnavailableError, match="uid-1 has been changed"):
            await scene.cloud.launch(stale)
        assert (await scene.launch_one(node_claim(1))).id == first.id
        assert ids(scene) == [first.id]

    run_scene(test)


def test_claims_changed_by_another_process_leave_their_batch() -> None:
    async def test(scene: ProviderScene) -> None:
        stale = [node_claim(number, ON_DEMAND) for number in (1, 2, 3)]
        await scene.launch(stale[1])
        await reborn(scene)
        for each in stale:
            scene.store.claims.setdefault(each.uid, each)
        found = await asyncio.gather(*map(scene.cloud.launch, stale), return_exceptions=True)
        assert isinstance(found[1], TemporarilyUnavailableError)
        records = [scene.store.claims[uid].launch_record for uid in ("uid-1", "uid-3")]
        assert [(mark.index, mark.batch_size) for mark in records if mark] == [(0, 2), (1, 2)]
        batches = {each.batch for each in found if not isinstance(each, BaseException)}
        assert batches == {mark.batch for mark in records if mark}
        assert len(ids(scene)) == 3

    run_scene(test)


def test_reserved_instances_are_free_again_if_nothing_came_of_a_launch() -> None:
    async def test(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        await scene.cloud.resolve("default")
        scene.emulated.change({"faults": [{**LOST, "when": "before"}]})
        (lost,) = await scene.launch(node_claim(1, ONLY_RESERVED))
        assert isinstance(lost, TemporarilyUnavailableError)
        scene.emulated.change({"faults": []})
        await scene.clock.sleep(VISIBLE_AFTER)
        assert (await scene.launch_one(node_claim(1))).reservation_id == "cr-00000001"

    run_scene(test, reservation_object(1, 1))


@pytest.mark.parametrize("fault", ["DescribeInstances", "DescribeSubnets"])
def test_a_launch_that_cannot_be_looked_up_is_unclear(fault: str) -> None:
    async def test(scene: ProviderScene) -> None:
        await scene.launch_one(node_claim(1, ON_DEMAND))
        scene.store.set_instance("uid-1", "")
        await reborn(scene)
        scene.emulated.change(
            {"faults": [{"operation": fault, "code": "InternalError", "status": 500}]}
        )
        recovered = await scene.cloud.recover(list(scene.store.claims.values()))
        if fault == "DescribeInstances":
            assert recovered.unclear == {"uid-1"}
        else:  # the instance exists, even without its class
            assert recovered.instances["uid-1"].id == ids(scene)[0]

    run_scene(test)


@pytest.mark.parametrize("delay", [10.0, 45.0, VISIBLE_AFTER - 1])
def test_an_instance_that_is_visible_within_the_margin_is_not_paid_twice(delay: float) -> None:
    async def test(scene: ProviderScene) -> None:
        (found,) = await lose(scene, 1)
        for _ in range(20):
            await scene.clock.sleep(getattr(found, "retry_after", 5.0))
            (found,) = await scene.launch(node_claim(1))
        assert [found.id] == ids(scene)

    run_scene(test, settings=visible_after(delay))


def test_an_instance_that_is_visible_too_late_is_garbage() -> None:
    async def test(scene: ProviderScene) -> None:
        await lose(scene, 1)
        late = ids(scene)
        await scene.clock.sleep(VISIBLE_AFTER)
        kept = await scene.launch_one(node_claim(1))
        for _ in range(8):
            await scene.clock.sleep(10)
            for each in (
                await scene.cloud.find_garbage(list(scene.store.claims.values()))
            ).instances:
                await scene.cloud.terminate(each.id)
        assert ids(scene) == [kept.id] != late
        assert 90 - VISIBLE_AFTER + GARBAGE_MIN_AGE + 2 * 10 <= 8 * 10

    run_scene(test, settings=visible_after(90))


class SkewedClock:
    """The clock of a process that is wrong."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock, self._seconds = clock, seconds

    def now(self) -> float:
        return self._clock.now() + self._seconds

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)


@pytest.mark.parametrize("skew", [-280.0, -60.0, 0.0, 60.0, 280.0])
def test_garbage_does_not_depend_on_the_clock_of_ec2(skew: float) -> None:
    async def test(scene: ProviderScene) -> None:
        lost = await scene.launch_one(node_claim(1, ON_DEMAND))
        scene.cloud = scene.provider(clock=SkewedClock(scene.clock, skew))
        await scene.cloud.refresh()
        for _ in range(3):
            assert not (await scene.cloud.find_garbage([])).instances
            await scene.clock.sleep(10)
        assert [each.id for each in (await scene.cloud.find_garbage([])).instances] == [lost.id]

    run_scene(test)


def test_an_old_instance_without_a_claim_is_garbage_at_once() -> None:
    async def test(scene: ProviderScene) -> None:
        lost = await scene.launch_one(node_claim(1, ON_DEMAND))
        await scene.clock.sleep(MAX_CLOCK_SKEW + GARBAGE_MIN_AGE + 1)
        await reborn(scene)
        assert [each.id for each in (await scene.cloud.find_garbage([])).instances] == [lost.id]

    run_scene(test)


FROZEN_COUNTS = {"operation": "DescribeCapacityReservations", "answer": "frozen"}


@pytest.mark.parametrize("recovers", [True, False])
def test_a_restarted_process_holds_reserved_instances_of_unknown_launches(recovers: bool) -> None:
    async def test(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        await scene.cloud.resolve("default")
        scene.emulated.change({"faults": [{**LOST, "times": 5}, FROZEN_COUNTS]})
        await scene.clock.sleep(61)  # EC2 counts from here on as before the launch
        await scene.launch(node_claim(1, ONLY_RESERVED))
        assert len(ids(scene)) == 1
        await reborn(scene)
        scene.use(**RESERVATION_SELECTOR)
        claims = list(scene.store.claims.values())
        outcome = (
            await scene.cloud.recover(claims) if recovers else await scene.launch(node_claim(1))
        )
        assert outcome
        (other,) = await scene.launch(node_claim(2, ONLY_RESERVED))
        assert isinstance(other, InsufficientCapacityError)
        assert len(scene.fleets()) == 5  # all of the first process: a full reservation is not asked
        await scene.clock.sleep(VISIBLE_AFTER)
        assert (await scene.launch_one(node_claim(1))).reservation_id == "cr-00000001"

    run_scene(test, reservation_object(1, 1), settings=SLOW)


def test_throttling_after_a_lost_response_is_not_taken_for_an_answer() -> None:
    async def test(scene: ProviderScene) -> None:
        await scene.cloud.resolve("default")
        throttled = {"operation": "CreateFleet", "code": "RequestLimitExceeded", "status": 503}
        second_attempt = {"start": scene.clock.now() + 0.2}
        scene.emulated.change({"faults": [{**LOST, "times": 1}, {**throttled, **second_attempt}]})
        (found,) = await scene.launch(node_claim(1, ON_DEMAND))
        scene.emulated.change({"faults": []})
        assert [found.id] == ids(scene)

    run_scene(test)


class HeldFleets:
    """CreateFleet requests wait before they reach EC2."""

    def __init__(self, seam: Seam) -> None:
        self._seam = seam
        self.released = asyncio.Event()

    async def call(self, service: str, operation: str, params: Params) -> AwsResponse:
        if operation == "CreateFleet" and not params.get("DryRun"):
            await self.released.wait()
        return await self._seam.call(service, operation, params)


async def recovered(scene: ProviderScene) -> RecoveredLaunches:
    return await scene.cloud.recover(list(scene.store.claims.values()))


def test_a_launch_in_flight_is_unclear_however_long_it_takes() -> None:
    async def test(scene: ProviderScene) -> None:
        held = HeldFleets(scene.seam)
        scene.cloud = scene.provider(seam=held)
        await scene.cloud.refresh()
        launch = asyncio.ensure_future(scene.launch(node_claim(1, ON_DEMAND)))
        for _ in range(4):
            await scene.clock.sleep(VISIBLE_AFTER / 2)
            assert (await recovered(scene)).unclear == {"uid-1"}
        held.released.set()
        (found,) = await launch
        assert [found.id] == ids(scene)

    run_scene(test)


def test_instances_of_a_launch_in_flight_are_left_to_its_response() -> None:
    async def test(scene: ProviderScene) -> None:
        await scene.cloud.resolve("default")
        scene.emulated.change({"faults": [{**LOST, "times": 1}]})
        launch = asyncio.ensure_future(scene.launch(node_claim(1, ON_DEMAND)))
        await scene.clock.sleep(0.2)  # the first response is lost, the second request to come
        assert len(ids(scene)) == 1
        assert (await recovered(scene)).unclear == {"uid-1"}
        (found,) = await launch
        assert [found.id] == ids(scene)

    run_scene(test)


def test_a_launch_settles_after_its_last_attempt_however_early_it_was_looked_for() -> None:
    async def test(scene: ProviderScene) -> None:
        held = HeldFleets(scene.seam)
        scene.cloud = scene.provider(seam=held)
        await scene.cloud.refresh()
        await scene.cloud.resolve("default")
        launch = asyncio.ensure_future(scene.launch(node_claim(1, ON_DEMAND)))
        await scene.clock.sleep(1)
        await recovered(scene)
        await scene.clock.sleep(VISIBLE_AFTER - 10)
        scene.emulated.change({"faults": [LOST]})
        held.released.set()
        await launch
        await scene.clock.sleep(12)
        scene.emulated.change({"faults": []})
        (unclear,) = await scene.launch(node_claim(1))
        assert isinstance(unclear, TemporarilyUnavailableError)
        await scene.clock.sleep(VISIBLE_AFTER)
        assert (await scene.launch_one(node_claim(1))).id == ids(scene)[0]
        assert len(ids(scene)) == 1

    run_scene(test, settings=visible_after(30))


def test_a_claim_without_capacity_is_not_unclear() -> None:
    async def test(scene: ProviderScene) -> None:
        for reason in ("InsufficientInstanceCapacity", "NothingLeft"):
            (found,) = await scene.launch(node_claim(1, ON_DEMAND))
            assert isinstance(found, InsufficientCapacityError)
            assert found.reason == reason

    run_scene(test, settings=msgspec.convert({"stock": [{"free": 0}]}, EmulatorSettings))


def test_launch_records_of_claims_that_are_not_listed_yet_are_kept() -> None:
    async def test(scene: ProviderScene) -> None:
        stale = node_claim(1, ON_DEMAND)
        first = await scene.launch_one(stale)
        await scene.cloud.find_garbage([])
        assert (await scene.cloud.launch(stale)).id == first.id

    run_scene(test)


def test_an_instance_is_not_garbage_while_its_launch_record_is_not_visible_yet() -> None:
    async def test(scene: ProviderScene) -> None:
        stale = node_claim(1, ON_DEMAND)
        await scene.launch_one(stale)
        for _ in range(3):
            assert not (await scene.cloud.find_garbage([stale])).instances
            await scene.clock.sleep(20)

    run_scene(test)


def test_an_instance_that_is_terminating_is_not_the_claims() -> None:
    async def test(scene: ProviderScene) -> None:
        first = await scene.launch_one(node_claim(1, ON_DEMAND))
        scene.store.set_instance("uid-1", "")
        scene.emulated.answer("ec2", "TerminateInstances", {"InstanceIds": [first.id]})
        (found,) = await scene.launch(node_claim(1))
        assert isinstance(found, TemporarilyUnavailableError)
        await scene.clock.sleep(VISIBLE_AFTER)
        assert (await scene.launch_one(node_claim(1))).id != first.id

    run_scene(test)


ONE_FREE = msgspec.convert(
    {"stock": [{"free": 0}, {"instanceType": "m5.large", "zone": "us-east-1a", "free": 1}]},
    EmulatorSettings,
)


def test_an_instance_of_a_deleted_claim_goes_to_the_next_of_its_batch() -> None:
    async def test(scene: ProviderScene) -> None:
        await scene.launch(*(node_claim(number, ON_DEMAND) for number in (5, 9, 1)))
        (instance,) = ids(scene)
        scene.store.set_instance("uid-5", "")
        del scene.store.claims["uid-5"]
        await reborn(scene)
        assert (await recovered(scene)).unclear == {"uid-9", "uid-1"}
        await scene.clock.sleep(VISIBLE_AFTER)
        outcome = await recovered(scene)
        assert {uid: each.id for uid, each in outcome.instances.items()} == {"uid-9": instance}

    run_scene(test, settings=ONE_FREE)


def test_an_instance_of_another_claim_is_not_assigned() -> None:
    async def test(scene: ProviderScene) -> None:
        await scene.launch(*(node_claim(number, ON_DEMAND) for number in (1, 2)))
        await reborn(scene)
        for _ in range(2):
            assert not (await recovered(scene)).instances
            await scene.clock.sleep(VISIBLE_AFTER)

    run_scene(test, settings=ONE_FREE)


def test_a_surplus_instance_of_a_lost_launch_is_terminated() -> None:
    async def test(scene: ProviderScene) -> None:
        await scene.cloud.resolve("default")
        scene.emulated.change(
            {"faults": [LOST, {"operation": "CreateFleet", "answer": "one-more"}]}
        )
        await scene.launch(node_claim(1, ON_DEMAND))
        assert len(ids(scene)) == 2
        scene.emulated.change({"faults": []})
        await scene.clock.sleep(VISIBLE_AFTER)
        found = await scene.launch_one(node_claim(1))
        assert ids(scene) == [found.id]
        assert (await scene.launch_one(node_claim(1))).id == found.id

    run_scene(test, settings=SLOW)


def test_a_launch_that_ends_unexpectedly_settles_too() -> None:
    async def test(scene: ProviderScene) -> None:
        class Buggy:
            batch_entries = scene.store.batch_entries

            async def record(
                self, claim: str, launch_record: LaunchRecord, *, replaces: LaunchRecord | None
            ) -> None:
                await scene.store.record(claim, launch_record, replaces=replaces)
                if len(scene.store.recorded) == 1:
                    raise RuntimeError("not a failure that anybody expects")

        scene.cloud = scene.provider(launch_log=Buggy())
        await scene.cloud.refresh()
        (failed,) = await scene.launch(node_claim(1, ON_DEMAND))
        assert isinstance(failed, RuntimeError)
        await scene.launch(node_claim(1))
        await scene.clock.sleep(VISIBLE_AFTER)
        assert (await scene.launch_one(node_claim(1))).id == ids(scene)[0]

    run_scene(test)


def test_the_log_may_lag_behind() -> None:
    async def test(scene: ProviderScene) -> None:
        class Empty:
            record = scene.store.record

            async def batch_entries(self, _: str) -> Sequence[LaunchLogEntry]:
                return ()

        first = await scene.launch_one(node_claim(1, ON_DEMAND))
        scene.store.set_instance("uid-1", "")
        scene.cloud = scene.provider(launch_log=Empty())
        await scene.cloud.refresh()
        assert (await scene.launch_one(node_claim(1))).id == first.id
        assert ids(scene) == [first.id]

    run_scene(test)
