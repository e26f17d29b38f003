"""Answers that EC2 can give to CreateFleet and rarely does."""

from itertools import product

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
from wainwright.emulator.settings import EmulatorSettings
from wainwright.model.labels import ON_DEMAND

ZONES = (A, B, C)
MISSING = ("without-zone", "without-subnet", "without-image")
IN_A = claim_requirements(capacity=ON_DEMAND, zone=A)
FAMILIES, SIZES = ("m5", "c5", "r5", "m6i"), ("large", "xlarge", "2xlarge", "4xlarge", "12xlarge")
MANY_TYPES = [f"{family}.{size}" for family, size in product(FAMILIES, SIZES)]


def give_answers(scene: ProviderScene, *names: str) -> None:
    scene.emulated.change(
        {"faults": [{"operation": "CreateFleet", "answer": name} for name in names]}
    )


@pytest.mark.parametrize("missing", MISSING)
def test_an_instance_is_complete_whatever_its_answer_lacks(missing: str) -> None:
    async def test(scene: ProviderScene) -> None:
        await scene.cloud.resolve("default")
        give_answers(scene, missing)
        found = await scene.launch_one(node_claim(1, IN_A))
        (instance,) = scene.running()
        seen = (found.zone, found.zone_id, found.image_id, found.instance_type)
        data = scene.emulated.answer("ec2", "DescribeInstances", {"InstanceIds": [instance.id]})
        (row,) = data["Reservations"][0]["Instances"]
        assert seen == (A, instance.zone_id, row["ImageId"], instance.type)
        assert found.provider_id == f"aws:///{A}/{instance.id}"

    run_scene(test)


def test_addresses_are_counted_although_the_answer_lacks_the_subnet() -> None:
    async def test(scene: ProviderScene) -> None:
        account = scene.emulated.account
        subnet = {"VpcId": account.vpc, "AvailabilityZone": A, "CidrBlock": "192.168.224.0/20"}
        other = scene.emulated.answer("ec2", "CreateSubnet", subnet)["Subnet"]["SubnetId"]
        scene.use(subnetSelectorTerms=[{"id": other}, {"id": account.subnets[A]}])
        await scene.cloud.resolve("default")
        give_answers(scene, "without-subnet")
        await scene.launch(*(node_claim(number, IN_A) for number in range(1, 201)))
        await scene.launch_one(node_claim(300, IN_A))
        used = [
            {
                override["SubnetId"]
                for config in request["LaunchTemplateConfigs"]
                for override in config["Overrides"]
            }
            for request in scene.fleets()
        ]
        assert used == [{account.subnets[A]}, {other}]

    run_scene(test, types=["m5.large"])


@pytest.mark.parametrize("missing", MISSING)
def test_an_offering_without_capacity_is_known_whatever_the_answer_lacks(missing: str) -> None:
    async def test(scene: ProviderScene) -> None:
        await scene.cloud.resolve("default")
        give_answers(scene, missing)
        await scene.launch(node_claim(1, claim_requirements(capacity=ON_DEMAND)))
        (offered,) = (await scene.cloud.catalog("web")).index.types
        available = {
            each.zone
            for each in offered.offerings
            if each.capacity_type == ON_DEMAND and each.available
        }
        assert available == {B, C}

    rule = CapacityRule(instanceType="*", zone=A, capacityType=ON_DEMAND, free=0)
    run_scene(test, settings=EmulatorSettings(capacity_rules=(rule,)), types=["m5.large"])


def test_more_instances_than_requested_are_terminated() -> None:
    async def test(scene: ProviderScene) -> None:
        await scene.cloud.resolve("default")
        give_answers(scene, "one-more")
        found = await scene.launch(*(node_claim(number, IN_A) for number in (1, 2)))
        assert sorted(each.id for each in scene.running()) == sorted(each.id for each in found)
        assert len(scene.seam.calls_to("TerminateInstances")) == 1

    run_scene(test)


def test_more_reservations_than_a_fleet_may_have_templates() -> None:
    async def test(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        assert (await scene.launch_one(node_claim(1, ONLY_RESERVED))).reservation_id
        (request,) = scene.fleets()
        assert len(request["LaunchTemplateConfigs"]) == 50

    places = list(product(MANY_TYPES, ZONES))[:51]
    run_scene(
        test,
        *(reservation_object(number, 1, *place) for number, place in enumerate(places)),
        types=MANY_TYPES,
    )
