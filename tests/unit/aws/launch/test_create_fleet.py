"""The CreateFleet request, within EC2's limits, and its parsed response."""

from base64 import b64decode
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.aws_provider import (
    ONLY_RESERVED,
    POOL_NAME,
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

from wainwright.aws.instances import BATCH_TAG
from wainwright.aws.launch.create_fleet import (
    target_reservation_id,
    truncate_configs,
    type_and_zone,
)
from wainwright.aws.launch.offering_selection import LaunchOffering
from wainwright.aws.launchtemplate.launch_templates import LaunchTemplateConfig
from wainwright.aws.launchtemplate.template_data import LaunchTemplate
from wainwright.model.labels import INSTANCE_TYPE
from wainwright.model.requirements import Requirements
from wainwright.model.taints import Taint

ENDS = "2026-06-01T00:00:00Z"


def overrides(request: Any) -> list[Any]:
    return [each for config in request["LaunchTemplateConfigs"] for each in config["Overrides"]]


def tags_of(request: Any, kind: str) -> dict[str, str]:
    (found,) = [each for each in request["TagSpecifications"] if each["ResourceType"] == kind]
    return {pair["Key"]: pair["Value"] for pair in found["Tags"]}


async def fleet_request(scene: ProviderScene, wanted: Requirements, **more: Any) -> Any:
    """The only CreateFleet request for a claim."""
    await scene.launch_one(node_claim(1, wanted, **more))
    (request,) = scene.fleets()
    return request


WAYS = [
    ("on-demand", "on-demand", {"OnDemandOptions": {"AllocationStrategy": "lowest-price"}}),
    ("spot", "spot", {"SpotOptions": {"AllocationStrategy": "price-capacity-optimized"}}),
    ("reserved", "on-demand", {"OnDemandOptions": {"AllocationStrategy": "lowest-price"}}),
]


@pytest.mark.parametrize(("capacity", "target", "options"), WAYS)
def test_each_capacity_type_has_its_request(
    capacity: str, target: str, options: dict[str, Any]
) -> None:
    async def test(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        request = await fleet_request(scene, claim_requirements(capacity=capacity))
        assert request["Type"] == "instant"
        assert request["TargetCapacitySpecification"] == {
            "DefaultTargetCapacityType": target,
            "TotalTargetCapacity": 1,
        }
        assert {key: request[key] for key in request if key.endswith("Options")} == options
        assert "UsageStrategy" not in str(request)

    run_scene(test, reservation_object(1, 2))


def test_each_type_and_zone_once_in_the_subnet_of_the_zone() -> None:
    async def test(scene: ProviderScene) -> None:
        request = await fleet_request(scene, claim_requirements(capacity="on-demand"))
        pools = [(each["InstanceType"], each["AvailabilityZone"]) for each in overrides(request)]
        assert len(set(pools)) == len(pools)
        assert {zone for _, zone in pools} == {A, B, C}
        subnets = scene.emulated.account.subnets
        assert all(
            each["SubnetId"] == subnets[each["AvailabilityZone"]] for each in overrides(request)
        )
        assert all(each["ImageId"].startswith("ami-") for each in overrides(request))
        assert not any("Priority" in each for each in overrides(request))

    run_scene(test)


def test_prices_of_overlays_become_priorities() -> None:
    async def test(scene: ProviderScene) -> None:
        scene.overlays = [
            {
                "metadata": {"name": "discount"},
                "spec": {
                    "requirements": [
                        {"key": INSTANCE_TYPE, "operator": "In", "values": ["m5.xlarge"]}
                    ],
                    "price": "0.001",
                },
            }
        ]
        scene.declare()
        launched = await scene.launch_one(node_claim(1, claim_requirements(capacity="on-demand")))
        (request,) = scene.fleets()
        assert request["OnDemandOptions"] == {"AllocationStrategy": "prioritized"}
        cheapest = min(overrides(request), key=lambda each: each["Priority"])
        assert (cheapest["InstanceType"], cheapest["Priority"]) == ("m5.xlarge", 0.001)
        assert (launched.instance_type, launched.price) == ("m5.xlarge", 0.001)

        await scene.launch_one(node_claim(2, claim_requirements(capacity="spot")))
        spot = scene.fleets()[-1]["SpotOptions"]["AllocationStrategy"]
        assert spot == "capacity-optimized-prioritized"

    run_scene(test)


def test_all_resources_are_tagged_with_their_batch() -> None:
    async def test(scene: ProviderScene) -> None:
        scene.use(tags={"team": "web"})
        request = await fleet_request(scene, Requirements())
        (mark,) = [mark for _, mark in scene.store.recorded]
        assert request["ClientToken"] == mark.batch
        for kind in ("instance", "volume", "fleet"):
            assert tags_of(request, kind) == {
                "team": "web",
                "kubernetes.io/cluster/wain": "owned",
                "eks:eks-cluster-name": "wain",
                "karpenter.k8s.aws/ec2nodeclass": "default",
                "karpenter.sh/nodepool": POOL_NAME,
                BATCH_TAG: mark.batch,
            }

    run_scene(test)


@pytest.mark.parametrize("relaxed", [False, True])
def test_the_context_is_passed_on_unless_min_values_were_relaxed(relaxed: bool) -> None:
    async def test(scene: ProviderScene) -> None:
        scene.use(context="arn:wain")
        request = await fleet_request(scene, Requirements(), min_values_relaxed=relaxed)
        assert request.get("Context") == (None if relaxed else "arn:wain")

    run_scene(test)


def test_one_template_for_each_reservation_and_nothing_else() -> None:
    async def test(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        request = await fleet_request(scene, Requirements())
        assert len(request["LaunchTemplateConfigs"]) == 2
        templates = scene.seam.calls_to("CreateLaunchTemplate")[-2:]
        specs = [
            each["LaunchTemplateData"]["CapacityReservationSpecification"] for each in templates
        ]
        assert {each["CapacityReservationPreference"] for each in specs} == {
            "capacity-reservations-only"
        }
        targets = {each["CapacityReservationTarget"]["CapacityReservationId"] for each in specs}
        assert targets == {"cr-00000001", "cr-00000003"}  # most free of its type and zone

    two = reservation_object(2, 2)
    run_scene(test, reservation_object(1, 3), two, reservation_object(3, 1, zone=B))


def test_other_launches_of_such_a_class_do_not_use_open_reservations() -> None:
    async def test(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        launched = await scene.launch_one(node_claim(1, claim_requirements(capacity="on-demand")))
        assert (launched.capacity_type, launched.reservation_id) == ("on-demand", "")
        (instance,) = scene.running()
        assert instance.reservation is None

    run_scene(test, reservation_object(1, 5, instanceMatchCriteria="open"), types=["m5.large"])


def test_a_capacity_block_has_its_own_capacity_type() -> None:
    async def test(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        launched = await scene.launch_one(node_claim(1, ONLY_RESERVED))
        (request,) = scene.fleets()
        target = request["TargetCapacitySpecification"]["DefaultTargetCapacityType"]
        assert target == "capacity-block"
        assert not [key for key in request if key.endswith("Options")]
        assert launched.labels["karpenter.k8s.aws/capacity-reservation-type"] == "capacity-block"

    block = reservation_object(
        1, 2, instance_type="p5.48xlarge", reservationType="capacity-block", endTime=ENDS
    )
    run_scene(test, block, types=["p5.48xlarge", "m5.large"])


def test_interruptible_capacity_has_its_own_option() -> None:
    async def test(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        launched = await scene.launch_one(node_claim(1, ONLY_RESERVED))
        (request,) = scene.fleets()
        assert request["ReservedCapacityOptions"] == {
            "ReservationTypes": ["interruptible-capacity-reservation"]
        }
        assert launched.labels["karpenter.k8s.aws/capacity-reservation-interruptible"] == "true"

    run_scene(test, reservation_object(1, 2, interruptible=True))


def test_the_node_boots_with_the_labels_and_taints_of_the_claim() -> None:
    async def test(scene: ProviderScene) -> None:
        taint = Taint(key="dedicated", value="web")
        await fleet_request(scene, Requirements(), labels={"team": "web"}, taints=(taint,))
        (instance,) = scene.running()
        answer = scene.emulated.answer(
            "ec2",
            "DescribeInstanceAttribute",
            {"InstanceId": instance.id, "Attribute": "userData"},
        )
        text = b64decode(answer["UserData"]["Value"]).decode()
        assert "team=web" in text
        assert "dedicated" in text
        assert f"name: {scene.options.cluster.name}" in text

    run_scene(test)


def config(number: int, *pools: tuple[str, str]) -> LaunchTemplateConfig:
    overrides = [{"InstanceType": kind, "AvailabilityZone": zone} for kind, zone in pools]
    return LaunchTemplateConfig(
        template=LaunchTemplate(data={"number": number}, tags={}), overrides=tuple(overrides)
    )


def offering(kind: str, zone: str, price: float) -> LaunchOffering:
    return LaunchOffering(instance_type=kind, zone=zone, price=price)


def pools(configs: tuple[LaunchTemplateConfig, ...]) -> set[tuple[str, str]]:
    return {type_and_zone(each) for one in configs for each in one.overrides}


# EC2 takes 50 templates and 300 overrides in a request.


def test_a_request_within_the_limits_is_unchanged() -> None:
    configs = (config(1, ("m", "a"), ("m", "b")), config(2, ("c", "a")))
    offerings = [offering("m", "a", 1), offering("m", "b", 1), offering("c", "a", 2)]
    assert truncate_configs(configs, offerings) == configs


def test_every_type_and_every_zone_keeps_an_override() -> None:
    types_of, zones = [f"m{n}" for n in range(60)], "abcdef"
    every = list(product(types_of, zones))
    prices = {pool: float(number) for number, pool in enumerate(every)}
    found = truncate_configs(
        (config(1, *every[::2]), config(2, *every[1::2])),
        [offering(*pool, price) for pool, price in prices.items()],
    )
    left = pools(found)
    assert len(left) == 300
    assert {kind for kind, _ in left} == set(types_of)
    assert {zone for _, zone in left} == set(zones)
    gone = set(every) - left
    assert min(prices[pool] for pool in gone) > max(prices[pool] for pool in every[:240])


@given(st.permutations(range(60)))
def test_the_cheapest_templates_are_kept(order: list[int]) -> None:
    configs = tuple(config(number, (f"m{number}", "a")) for number in order)
    offerings = [offering(f"m{number}", "a", float(number)) for number in order]
    found = truncate_configs(configs, offerings)
    assert {each.template.data["number"] for each in found} == set(range(50))
    assert [each for each in configs if each in found] == list(found)


def test_a_template_without_a_reservation_has_none() -> None:
    target = {"CapacityReservationTarget": {"CapacityReservationId": "cr-1"}}
    data = {"CapacityReservationSpecification": target}
    aimed = LaunchTemplateConfig(template=LaunchTemplate(data=data, tags={}), overrides=())
    assert target_reservation_id(aimed) == "cr-1"
    none = {"CapacityReservationSpecification": {"CapacityReservationPreference": "none"}}
    assert (
        target_reservation_id(
            LaunchTemplateConfig(template=LaunchTemplate(data=none, tags={}), overrides=())
        )
        == ""
    )
    assert target_reservation_id(config(1)) == ""


def test_a_template_without_overrides_is_left_out() -> None:
    cheap = [*product([f"m{n}" for n in range(60)], "abcde"), ("m0", "f")]
    dear = [(f"m{n}", "f") for n in range(1, 10)]
    offerings = [offering(*pool, 1.0) for pool in cheap] + [offering(*pool, 9.0) for pool in dear]
    (found,) = truncate_configs((config(1, *cheap), config(2, *dear)), offerings)
    assert found.template.data["number"] == 1
    assert len(found.overrides) == 300


def test_a_type_without_an_image_is_named_in_the_error() -> None:
    async def test(scene: ProviderScene) -> None:
        await scene.cloud.resolve("default")
        images = scene.emulated.services.images.state.images.values()
        image = next(each.id for each in images if each.architecture == "x86_64")
        scene.use(amiFamily="AL2023", amiSelectorTerms=[{"id": image}])
        requirements = claim_requirements((INSTANCE_TYPE, "In", ("m6g.large",), None))
        (found,) = await scene.launch(node_claim(1, requirements))
        assert "m6g.large is left out: no image" in found.message

    run_scene(test)
