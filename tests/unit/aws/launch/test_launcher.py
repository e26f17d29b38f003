"""Compatible launches share a request; offerings without capacity are marked unavailable."""

import asyncio
import gc
from typing import Any

import pytest
from tests.support.aws_provider import (
    ONLY_RESERVED,
    RESERVATION_SELECTOR,
    A,
    B,
    C,
    ProviderScene,
    claim_requirements,
    node_claim,
    reservation_object,
    run_scene,
)

from wainwright.emulator.ec2.capacity_market import CapacityRule
from wainwright.emulator.ec2.instance.quotas import QuotaLimits
from wainwright.emulator.settings import EmulatorSettings
from wainwright.errors import (
    InsufficientCapacityError,
    RequestRejectedError,
    TemporarilyUnavailableError,
)
from wainwright.metrics import BATCH_SIZE, INSTANCE_LAUNCH_FAILURES
from wainwright.model.labels import INSTANCE_TYPE
from wainwright.model.node_claim import LaunchRecord
from wainwright.model.taints import Taint

ON_DEMAND = claim_requirements(capacity="on-demand")
LARGE = claim_requirements((INSTANCE_TYPE, "In", ("m5.large",), None), capacity="on-demand")


def limited_capacity(
    free: int, instance_type: str = "*", zone: str | None = None, capacity_type: str = "on-demand"
) -> EmulatorSettings:
    return EmulatorSettings(
        capacity_rules=(
            CapacityRule(
                instanceType=instance_type, zone=zone, capacityType=capacity_type, free=free
            ),
        )
    )


def counts(scene: ProviderScene) -> list[int]:
    return [each["TargetCapacitySpecification"]["TotalTargetCapacity"] for each in scene.fleets()]


def pools(request: Any) -> set[tuple[str, str]]:
    return {
        (each["InstanceType"], each["AvailabilityZone"])
        for config in request["LaunchTemplateConfigs"]
        for each in config["Overrides"]
    }


def outcome_types(results: list[Any]) -> list[str]:
    return [type(each).__name__ for each in results]


def test_claims_with_equal_keys_share_a_request() -> None:
    async def test(scene: ProviderScene) -> None:
        found = await scene.launch(*(node_claim(number, ON_DEMAND) for number in range(1, 6)))
        assert counts(scene) == [5]
        assert len({each.id for each in found}) == 5
        assert scene.metrics.distribution(BATCH_SIZE, batcher_name="create_fleet").total == 5
        marks = [mark for _, mark in scene.store.recorded]
        assert sorted(mark.index for mark in marks) == [0, 1, 2, 3, 4]
        assert len({mark.batch for mark in marks}) == 1

    run_scene(test)


def test_claims_that_differ_have_separate_requests() -> None:
    async def test(scene: ProviderScene) -> None:
        await scene.launch(
            node_claim(1, ON_DEMAND),
            node_claim(2, claim_requirements(capacity="spot")),
            node_claim(3, ON_DEMAND, labels={"team": "web"}),
            node_claim(4, ON_DEMAND, taints=(Taint(key="dedicated"),)),
            node_claim(5, claim_requirements(capacity="on-demand", zone=A)),
        )
        assert counts(scene) == [1] * 5

    run_scene(test)


def test_later_claims_have_separate_requests() -> None:
    async def test(scene: ProviderScene) -> None:
        await scene.launch(node_claim(1, ON_DEMAND))
        await scene.launch(node_claim(2, ON_DEMAND))
        assert counts(scene) == [1, 1]

    run_scene(test)


def test_instances_are_assigned_in_order_and_the_other_claims_get_an_error() -> None:
    async def test(scene: ProviderScene) -> None:
        found = await scene.launch(*(node_claim(number, LARGE) for number in range(1, 8)))
        assert outcome_types(found) == ["Instance"] * 6 + ["InsufficientCapacityError"]
        assert "InsufficientInstanceCapacity" in found[-1].message
        assert "web-7" in found[-1].message

    run_scene(test, settings=limited_capacity(2))


def test_errors_of_a_fulfilled_fleet_only_mark_offerings_unavailable() -> None:
    async def test(scene: ProviderScene) -> None:
        first = await scene.launch_one(node_claim(1, LARGE))
        assert first.zone != A
        failed = {"zone": A, "zone_id": "use1-az1", "capacity_type": "on-demand"}
        reason = "InsufficientInstanceCapacity"
        assert scene.metrics.value(INSTANCE_LAUNCH_FAILURES, reason=reason, **failed) == 1
        await scene.launch_one(node_claim(2, LARGE))
        assert ("m5.large", A) in pools(scene.fleets()[0])
        assert ("m5.large", A) not in pools(scene.fleets()[1])
        await scene.clock.sleep(180)
        await scene.launch_one(node_claim(3, LARGE))
        assert ("m5.large", A) in pools(scene.fleets()[2])

    run_scene(test, settings=limited_capacity(0, zone=A), types=["m5.large"])


def test_offerings_without_capacity_are_not_requested_again() -> None:
    async def test(scene: ProviderScene) -> None:
        for number in (1, 2):
            (found,) = await scene.launch(node_claim(number, LARGE))
            assert isinstance(found, InsufficientCapacityError)
        assert counts(scene) == [1]
        listed = (await scene.cloud.catalog("web")).index
        instance_type = next(
            instance_type for instance_type in listed.types if instance_type.name == "m5.large"
        )
        states = {each.capacity_type: each.available > 0 for each in instance_type.offerings}
        assert states == {"on-demand": False, "spot": True}  # still listed

    run_scene(test, settings=limited_capacity(0), types=["m5.large"])


def test_on_demand_is_launched_without_spot_capacity() -> None:
    async def test(scene: ProviderScene) -> None:
        (found,) = await scene.launch(node_claim(1))
        assert isinstance(found, InsufficientCapacityError)
        again = await scene.launch_one(node_claim(2))
        assert again.capacity_type == "on-demand"

    run_scene(test, settings=limited_capacity(0, capacity_type="spot"), types=["m5.large"])


def test_without_the_spot_role_no_spot_is_launched() -> None:
    async def test(scene: ProviderScene) -> None:
        role = {"RoleName": "AWSServiceRoleForEC2Spot"}
        scene.emulated.answer("iam", "DeleteServiceLinkedRole", role)
        (found,) = await scene.launch(node_claim(1))
        assert isinstance(found, InsufficientCapacityError)
        assert "service-linked role" in found.hint
        assert (await scene.launch_one(node_claim(2))).capacity_type == "on-demand"

    run_scene(test, settings=EmulatorSettings(quota=QuotaLimits(spotRole=False)))


def test_an_exceeded_quota_is_insufficient_capacity() -> None:
    async def test(scene: ProviderScene) -> None:
        found = await scene.launch(node_claim(1, LARGE), node_claim(2, LARGE))
        assert outcome_types(found) == ["Instance", "InsufficientCapacityError"]
        assert "quota" in found[1].hint

    run_scene(
        test,
        settings=EmulatorSettings(quota=QuotaLimits(onDemand={"standard": 3})),
        types=["m5.large"],
    )


def test_after_a_full_subnet_another_one_is_used() -> None:
    async def test(scene: ProviderScene) -> None:
        account = scene.emulated.account
        subnet = {"VpcId": account.vpc, "AvailabilityZone": A, "CidrBlock": "192.168.250.0/28"}
        small = scene.emulated.answer("ec2", "CreateSubnet", subnet)["Subnet"]["SubnetId"]
        terms = [{"id": small}, {"id": account.subnets[A]}]
        scene.use(subnetSelectorTerms=terms[:1])
        await scene.launch(*(node_claim(number, LARGE) for number in range(1, 16)))
        assert len(scene.running()) == 11  # of 16 addresses EC2 keeps five
        (late,) = await scene.launch(node_claim(20, LARGE))
        assert isinstance(late, InsufficientCapacityError)
        scene.use(subnetSelectorTerms=terms)
        await scene.launch_one(node_claim(21, LARGE))
        (config,) = scene.fleets()[-1]["LaunchTemplateConfigs"]
        assert {each["SubnetId"] for each in config["Overrides"]} == {account.subnets[A]}

    run_scene(test, types=["m5.large"])


def test_concurrent_launches_do_not_use_the_same_addresses() -> None:
    async def test(scene: ProviderScene) -> None:
        account = scene.emulated.account
        subnet = {"VpcId": account.vpc, "AvailabilityZone": A, "CidrBlock": "192.168.224.0/20"}
        other = scene.emulated.answer("ec2", "CreateSubnet", subnet)["Subnet"]["SubnetId"]
        scene.use(subnetSelectorTerms=[{"id": other}, {"id": account.subnets[A]}])
        await scene.cloud.resolve("default")
        await scene.launch(*(node_claim(number, LARGE) for number in range(1, 201)))
        await scene.launch_one(node_claim(300, LARGE))
        used = [
            {
                each["SubnetId"]
                for config in request["LaunchTemplateConfigs"]
                for each in config["Overrides"]
            }
            for request in scene.fleets()
        ]
        assert used == [{account.subnets[A]}, {other}]

    run_scene(test, types=["m5.large"])


def test_a_launch_that_failed_holds_no_addresses() -> None:
    async def test(scene: ProviderScene) -> None:
        account = scene.emulated.account
        subnet = {"VpcId": account.vpc, "AvailabilityZone": A, "CidrBlock": "192.168.224.0/20"}
        other = scene.emulated.answer("ec2", "CreateSubnet", subnet)["Subnet"]["SubnetId"]
        scene.use(subnetSelectorTerms=[{"id": other}, {"id": account.subnets[A]}])
        await scene.cloud.resolve("default")
        scene.emulated.change({"faults": [{"operation": "CreateFleet", "code": "InternalError"}]})
        failed = await scene.launch(*(node_claim(number, LARGE) for number in range(1, 201)))
        assert not scene.running()
        assert "Instance" not in outcome_types(failed)
        scene.emulated.change({"faults": []})
        await scene.launch_one(node_claim(300, LARGE))
        assert {each.subnet for each in scene.running()} == {account.subnets[A]}

    run_scene(test, types=["m5.large"])


def test_never_more_instances_are_requested_than_a_reservation_has() -> None:
    async def test(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        found = await scene.launch(*(node_claim(number, ONLY_RESERVED) for number in range(1, 6)))
        assert outcome_types(found) == ["Instance"] * 3 + ["InsufficientCapacityError"] * 2
        assert counts(scene) == [3]
        assert {each.reservation_id for each in found[:3]} == {"cr-00000001"}
        (late,) = await scene.launch(node_claim(9, ONLY_RESERVED))
        assert isinstance(late, InsufficientCapacityError)
        assert counts(scene) == [3]  # no further request

    run_scene(test, reservation_object(1, 3))


def test_concurrent_launches_share_a_reservation() -> None:
    async def test(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        found = await scene.launch(
            node_claim(1, ONLY_RESERVED),
            node_claim(2, claim_requirements(capacity="reserved", zone=A)),
            node_claim(3, claim_requirements(capacity="reserved", zone=A), labels={"team": "web"}),
        )
        assert sorted(outcome_types(found)) == ["Instance", "Instance", "InsufficientCapacityError"]

    run_scene(test, reservation_object(1, 2), settings=EmulatorSettings(latency=0.5))


def test_reserved_capacity_is_available_again_after_termination() -> None:
    async def test(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        first = await scene.launch_one(node_claim(1, ONLY_RESERVED))
        await scene.cloud.terminate(first.id)
        assert (
            await scene.launch_one(node_claim(2, ONLY_RESERVED))
        ).reservation_id == "cr-00000001"

    run_scene(test, reservation_object(1, 1))


def test_an_exceeded_reservation_counts_as_full_until_the_next_poll() -> None:
    async def test(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        await scene.cloud.resolve("default")
        taken = {"total": 1, "available": 0}
        theirs = {"id": "cr-00000001", "instanceType": "m5.large", "availabilityZone": A, **taken}
        scene.emulated.change({"capacityReservations": [{**theirs, "tags": {"team": "web"}}]})
        (found,) = await scene.launch(node_claim(1, ONLY_RESERVED))
        assert isinstance(found, InsufficientCapacityError)
        assert found.reason == "ReservationCapacityExceeded"
        (late,) = await scene.launch(node_claim(2, ONLY_RESERVED))
        assert isinstance(late, InsufficientCapacityError)
        assert len(scene.fleets()) == 1
        scene.emulated.change(
            {"capacityReservations": [{**theirs, "available": 1, "tags": {"team": "web"}}]}
        )
        await scene.clock.sleep(60)
        assert await scene.launch_one(node_claim(3, ONLY_RESERVED))

    run_scene(test, reservation_object(1, 1))


def test_throttling_does_not_mark_a_reservation_as_full() -> None:
    async def test(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        await scene.cloud.resolve("default")
        fault = {"operation": "CreateFleet", "code": "RequestLimitExceeded", "status": 503}
        scene.emulated.change({"faults": [{**fault, "times": 5}]})
        (found,) = await scene.launch(node_claim(1, ONLY_RESERVED))
        assert isinstance(found, TemporarilyUnavailableError)
        # Every attempt was throttled: nothing was launched, and there is nothing to wait for.
        assert await scene.launch_one(node_claim(1, ONLY_RESERVED))

    run_scene(test, reservation_object(1, 1))


def test_a_claim_without_a_launch_record_is_not_launched() -> None:
    async def test(scene: ProviderScene) -> None:
        class Broken:
            batch_entries = scene.store.batch_entries

            async def record(
                self, claim: str, launch_record: LaunchRecord, *, replaces: LaunchRecord | None
            ) -> None:
                if claim in refused:
                    raise TemporarilyUnavailableError(
                        "somebody else has changed it", reason="Conflict"
                    )
                await scene.store.record(claim, launch_record, replaces=replaces)

        for refused, launched in (({"uid-1"}, 1), ({"uid-3", "uid-4"}, 0)):
            scene.cloud = scene.provider(launch_log=Broken())
            await scene.cloud.refresh()
            before = len(scene.running())
            numbers = (1, 2) if "uid-1" in refused else (3, 4)
            found = await scene.launch(*(node_claim(number, ON_DEMAND) for number in numbers))
            assert len(scene.running()) - before == launched
            assert all(
                isinstance(result, TemporarilyUnavailableError)
                for number, result in zip(numbers, found, strict=True)
                if f"uid-{number}" in refused
            )

    run_scene(test)


def test_a_deleted_template_is_created_again() -> None:
    async def test(scene: ProviderScene) -> None:
        await scene.launch_one(node_claim(1, LARGE))
        (config,) = scene.fleets()[-1]["LaunchTemplateConfigs"]
        named = {"LaunchTemplateName": config["LaunchTemplateSpecification"]["LaunchTemplateName"]}
        scene.emulated.answer("ec2", "DeleteLaunchTemplate", named)
        assert await scene.launch_one(node_claim(2, LARGE))
        assert len(scene.running()) == 2

    run_scene(test)


def test_user_data_that_cannot_be_written_is_rejected() -> None:
    async def test(scene: ProviderScene) -> None:
        await scene.cloud.resolve("default")
        labels = {f"label-{number}": "x" * 60 for number in range(400)}
        (found,) = await scene.launch(node_claim(1, ON_DEMAND, labels=labels))
        assert isinstance(found, RequestRejectedError)
        assert "user data" in found.message
        assert not scene.fleets()

    run_scene(test)


def test_concurrent_launches_of_a_claim_get_one_instance() -> None:
    async def test(scene: ProviderScene) -> None:
        wanted = scene.store.add(node_claim(1, ON_DEMAND))
        first, second = await asyncio.gather(*(scene.cloud.launch(wanted) for _ in range(2)))
        assert first.id == second.id
        later = await scene.cloud.launch(wanted)  # the claim without its launch record
        assert later.id == first.id
        assert len(scene.running()) == 1

    run_scene(test)


def test_a_launch_continues_after_its_caller_is_cancelled() -> None:
    async def test(scene: ProviderScene) -> None:
        wanted = scene.store.add(node_claim(1, ON_DEMAND))
        waiting = asyncio.ensure_future(scene.cloud.launch(wanted))
        await scene.clock.sleep(0.01)
        waiting.cancel()
        await scene.clock.sleep(10)
        (instance,) = scene.running()
        assert (await scene.cloud.launch(wanted)).id == instance.id

    run_scene(test)


def test_a_launch_that_fails_after_its_caller_was_cancelled_is_no_error_of_the_process() -> None:
    async def test(scene: ProviderScene) -> None:
        complaints: list[Any] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        waiting = asyncio.ensure_future(scene.cloud.launch(scene.store.add(node_claim(1, LARGE))))
        await scene.clock.sleep(0.01)
        waiting.cancel()
        await scene.clock.sleep(10)
        gc.collect()
        assert complaints == []
        assert scene.fleets()

    run_scene(test, settings=limited_capacity(0))


@pytest.mark.parametrize("zones", [(A,), (A, B, C)])
def test_only_zones_with_subnets_of_the_class(zones: tuple[str, ...]) -> None:
    async def test(scene: ProviderScene) -> None:
        subnets = scene.emulated.account.subnets
        scene.use(subnetSelectorTerms=[{"id": subnets[zone]} for zone in zones])
        await scene.launch_one(node_claim(1, ON_DEMAND))
        assert {zone for _, zone in pools(scene.fleets()[0])} == set(zones)

    run_scene(test)
