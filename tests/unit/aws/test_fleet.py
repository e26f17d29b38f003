"""The request that buys machines, as EC2 gets it, and what is read from its answer."""

from base64 import b64decode
from typing import Any

import pytest
from tests.support.awslaunches import (
    ONLY_RESERVED,
    POOL,
    RESERVING,
    A,
    B,
    C,
    Scene,
    asking,
    claim,
    played,
    reserved,
)

from wainwright.aws.tokens import BATCH_TAG
from wainwright.model.labels import INSTANCE_TYPE
from wainwright.model.requirements import Requirements
from wainwright.model.taints import Taint

ENDS = "2026-06-01T00:00:00Z"


def overrides(request: Any) -> list[Any]:
    return [each for config in request["LaunchTemplateConfigs"] for each in config["Overrides"]]


def tags_of(request: Any, kind: str) -> dict[str, str]:
    (found,) = [each for each in request["TagSpecifications"] if each["ResourceType"] == kind]
    return {pair["Key"]: pair["Value"] for pair in found["Tags"]}


async def asked(scene: Scene, wanted: Requirements, **more: Any) -> Any:
    """The one request that a claim leads to."""
    await scene.one(claim(1, wanted, **more))
    (request,) = scene.fleets()
    return request


WAYS = [
    ("on-demand", "on-demand", {"OnDemandOptions": {"AllocationStrategy": "lowest-price"}}),
    ("spot", "spot", {"SpotOptions": {"AllocationStrategy": "price-capacity-optimized"}}),
    ("reserved", "on-demand", {"OnDemandOptions": {"AllocationStrategy": "lowest-price"}}),
]


@pytest.mark.parametrize(("capacity", "target", "options"), WAYS)
def test_how_each_kind_of_capacity_is_asked_for(
    capacity: str, target: str, options: dict[str, Any]
) -> None:
    async def test(scene: Scene) -> None:
        scene.use(**RESERVING)
        request = await asked(scene, asking(capacity=capacity))
        assert request["Type"] == "instant"
        assert request["TargetCapacitySpecification"] == {
            "DefaultTargetCapacityType": target,
            "TotalTargetCapacity": 1,
        }
        assert {key: request[key] for key in request if key.endswith("Options")} == options
        assert "UsageStrategy" not in str(request)

    played(test, reserved(1, 2))


def test_each_type_and_zone_once_in_the_subnet_of_the_zone() -> None:
    async def test(scene: Scene) -> None:
        request = await asked(scene, asking(capacity="on-demand"))
        pools = [(each["InstanceType"], each["AvailabilityZone"]) for each in overrides(request)]
        assert len(set(pools)) == len(pools)
        assert {zone for _, zone in pools} == {A, B, C}
        subnets = scene.emulated.account.subnets
        assert all(
            each["SubnetId"] == subnets[each["AvailabilityZone"]] for each in overrides(request)
        )
        assert all(each["ImageId"].startswith("ami-") for each in overrides(request))
        assert not any("Priority" in each for each in overrides(request))

    played(test)


def test_prices_of_overlays_go_along_as_priorities() -> None:
    async def test(scene: Scene) -> None:
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
        bought = await scene.one(claim(1, asking(capacity="on-demand")))
        (request,) = scene.fleets()
        assert request["OnDemandOptions"] == {"AllocationStrategy": "prioritized"}
        cheapest = min(overrides(request), key=lambda each: each["Priority"])
        assert (cheapest["InstanceType"], cheapest["Priority"]) == ("m5.xlarge", 0.001)
        assert (bought.instance_type, bought.price) == ("m5.xlarge", 0.001)

        await scene.one(claim(2, asking(capacity="spot")))
        spot = scene.fleets()[-1]["SpotOptions"]["AllocationStrategy"]
        assert spot == "capacity-optimized-prioritized"

    played(test)


def test_everything_is_tagged_and_named_after_its_batch() -> None:
    async def test(scene: Scene) -> None:
        scene.use(tags={"team": "web"})
        request = await asked(scene, Requirements())
        (mark,) = [mark for _, mark in scene.store.recorded]
        assert request["ClientToken"] == mark.batch
        for kind in ("instance", "volume", "fleet"):
            assert tags_of(request, kind) == {
                "team": "web",
                "kubernetes.io/cluster/wain": "owned",
                "eks:eks-cluster-name": "wain",
                "karpenter.k8s.aws/ec2nodeclass": "default",
                "karpenter.sh/nodepool": POOL,
                BATCH_TAG: mark.batch,
            }

    played(test)


@pytest.mark.parametrize("relaxed", [False, True])
def test_the_context_goes_along_unless_the_claim_is_less_diverse(relaxed: bool) -> None:
    async def test(scene: Scene) -> None:
        scene.use(context="arn:wain")
        request = await asked(scene, Requirements(), min_values_relaxed=relaxed)
        assert request.get("Context") == (None if relaxed else "arn:wain")

    played(test)


def test_one_template_for_each_reservation_and_nothing_else() -> None:
    async def test(scene: Scene) -> None:
        scene.use(**RESERVING)
        request = await asked(scene, Requirements())
        assert len(request["LaunchTemplateConfigs"]) == 2
        templates = scene.seam.asked("CreateLaunchTemplate")[-2:]
        said = [
            each["LaunchTemplateData"]["CapacityReservationSpecification"] for each in templates
        ]
        assert {each["CapacityReservationPreference"] for each in said} == {
            "capacity-reservations-only"
        }
        targets = {each["CapacityReservationTarget"]["CapacityReservationId"] for each in said}
        assert targets == {"cr-00000001", "cr-00000003"}  # most free of its type and zone

    two = reserved(2, 2)
    played(test, reserved(1, 3), two, reserved(3, 1, zone=B))


def test_other_launches_of_such_a_class_keep_out_of_open_reservations() -> None:
    async def test(scene: Scene) -> None:
        scene.use(**RESERVING)
        bought = await scene.one(claim(1, asking(capacity="on-demand")))
        assert (bought.capacity_type, bought.reservation_id) == ("on-demand", "")
        (machine,) = scene.running()
        assert machine.reservation is None

    played(test, reserved(1, 5, instanceMatchCriteria="open"), types=["m5.large"])


def test_a_capacity_block_is_bought_on_its_own_market() -> None:
    async def test(scene: Scene) -> None:
        scene.use(**RESERVING)
        bought = await scene.one(claim(1, ONLY_RESERVED))
        (request,) = scene.fleets()
        target = request["TargetCapacitySpecification"]["DefaultTargetCapacityType"]
        assert target == "capacity-block"
        assert not [key for key in request if key.endswith("Options")]
        assert bought.labels["karpenter.k8s.aws/capacity-reservation-type"] == "capacity-block"

    block = reserved(1, 2, kind="p5.48xlarge", reservationType="capacity-block", endTime=ENDS)
    played(test, block, types=["p5.48xlarge", "m5.large"])


def test_interruptible_capacity_is_asked_for_by_its_name() -> None:
    async def test(scene: Scene) -> None:
        scene.use(**RESERVING)
        bought = await scene.one(claim(1, ONLY_RESERVED))
        (request,) = scene.fleets()
        assert request["ReservedCapacityOptions"] == {
            "ReservationTypes": ["interruptible-capacity-reservation"]
        }
        assert bought.labels["karpenter.k8s.aws/capacity-reservation-interruptible"] == "true"

    played(test, reserved(1, 2, interruptible=True))


def test_the_machine_boots_with_what_the_claim_says() -> None:
    async def test(scene: Scene) -> None:
        taint = Taint(key="dedicated", value="web")
        await asked(scene, Requirements(), labels={"team": "web"}, taints=(taint,))
        (machine,) = scene.running()
        answer = scene.emulated.answer(
            "ec2",
            "DescribeInstanceAttribute",
            {"InstanceId": machine.id, "Attribute": "userData"},
        )
        text = b64decode(answer["UserData"]["Value"]).decode()
        assert "team=web" in text
        assert "dedicated" in text
        assert f"name: {scene.setup.cluster.name}" in text

    played(test)
