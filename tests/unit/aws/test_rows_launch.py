"""Rows of docs/internals/aws-rows.md on launches (ALN), through the whole provider."""

from typing import Any

import msgspec
import pytest
from tests.support.aws_provider import (
    M5_LARGE_ONLY,
    ON_DEMAND_ONLY,
    ON_DEMAND_OR_SPOT,
    A,
    B,
    C,
    ProviderScene,
    claim_requirements,
    declare_overrides,
    in_requirement,
    launch_template_data,
    node_claim,
    overlay_document,
    requested_types,
    run_refreshed_scene,
)

from wainwright.catalogue.instancetypes.capacity import EFA
from wainwright.emulator.ec2.instance.quotas import QuotaLimits
from wainwright.emulator.settings import EmulatorSettings
from wainwright.errors import (
    InsufficientCapacityError,
    NodeClassNotReadyError,
    RequestRejectedError,
    TemporarilyUnavailableError,
)
from wainwright.model.labels import INSTANCE_TYPE, ON_DEMAND, SPOT, ZONE, ZONE_ID


def test_aln_1_too_few_types_for_min_values_is_no_capacity() -> None:
    async def run(scene: ProviderScene) -> None:
        wanted = in_requirement(INSTANCE_TYPE, "m5.large", "c5.large", least=2).narrow(
            ON_DEMAND_ONLY
        )
        assert launched_types(scene, await scene.launch(node_claim(1, wanted))) == {
            "m5.large",
            "c5.large",
        }
        for zone in (A, B, C):
            scene.cloud.mark_unavailable("c5.large", zone, ON_DEMAND)
        with pytest.raises(InsufficientCapacityError) as raised:
            await scene.launch_one(node_claim(2, wanted))
        assert raised.value.reason == "MinValues"
        assert len(scene.fleets()) == 1

    run_refreshed_scene(run)


def launched_types(scene: ProviderScene, outcomes: list[Any]) -> set[str]:
    assert not any(isinstance(each, BaseException) for each in outcomes), outcomes
    return requested_types(scene.fleets()[-1])


CAPACITY = (
    "InsufficientInstanceCapacity",
    "MaxSpotInstanceCountExceeded",
    "VcpuLimitExceeded",
    "UnfulfillableCapacity",
    "Unsupported",
    "InsufficientFreeAddressesInSubnet",
    "MaxFleetCountExceeded",
    "ReservationCapacityExceeded",
    "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
)


class Answering:
    """A seam on which CreateFleet returns only these errors."""

    def __init__(self, scene: ProviderScene, *codes: str) -> None:
        self._seam = scene.seam
        self._codes = codes

    async def call(self, service: str, operation: str, params: Any) -> Any:
        if operation != "CreateFleet" or params.get("DryRun"):
            return await self._seam.call(service, operation, params)
        overrides = [
            each for config in params["LaunchTemplateConfigs"] for each in config["Overrides"]
        ]
        pairs = zip(self._codes, overrides * len(self._codes), strict=False)
        errors = [
            {
                "ErrorCode": code,
                "ErrorMessage": "no",
                "LaunchTemplateAndOverrides": {"Overrides": override},
            }
            for code, override in pairs
        ]
        return {"FleetId": "fleet-1", "Instances": [], "Errors": errors}


@pytest.mark.parametrize("code", CAPACITY)
def test_aln_2_only_capacity_errors_are_no_capacity(code: str) -> None:
    async def run(scene: ProviderScene) -> None:
        scene.cloud = scene.provider(Answering(scene, code))
        await scene.cloud.refresh()
        with pytest.raises(InsufficientCapacityError) as raised:
            await scene.launch_one(node_claim(1, ON_DEMAND_ONLY))
        assert raised.value.reason == code

    run_refreshed_scene(run)


@pytest.mark.parametrize(
    ("codes", "error"),
    [
        (("InsufficientInstanceCapacity", "InternalError"), TemporarilyUnavailableError),
        (("InsufficientInstanceCapacity", "UnauthorizedOperation"), TemporarilyUnavailableError),
        (("UnauthorizedOperation",), RequestRejectedError),
        ((), TemporarilyUnavailableError),
    ],
)
def test_aln_2_other_errors_are_not_insufficient_capacity(
    codes: tuple[str, ...], error: type[Exception]
) -> None:
    async def run(scene: ProviderScene) -> None:
        scene.cloud = scene.provider(Answering(scene, *codes))
        await scene.cloud.refresh()
        with pytest.raises(error):
            await scene.launch_one(node_claim(1, ON_DEMAND_ONLY))

    run_refreshed_scene(run)


def test_aln_2_without_the_spot_role_no_spot_is_launched_for_a_while() -> None:
    async def run(scene: ProviderScene) -> None:
        gone = {"RoleName": "AWSServiceRoleForEC2Spot"}
        scene.emulated.answer("iam", "DeleteServiceLinkedRole", gone)
        outcomes = [
            (await scene.launch(node_claim(number, ON_DEMAND_OR_SPOT)))[0] for number in (1, 2)
        ]
        assert isinstance(outcomes[0], InsufficientCapacityError)
        assert outcomes[1].capacity_type == ON_DEMAND

    run_refreshed_scene(run, settings=EmulatorSettings(quota=QuotaLimits(spotRole=False)))


def subnets(scene: ProviderScene, zone: str) -> str:
    """Another subnet in the zone, with few addresses, selected by the class."""
    tags = [{"Key": "karpenter.sh/discovery", "Value": "wain"}]
    made = scene.emulated.answer(
        "ec2",
        "CreateSubnet",
        {
            "VpcId": scene.emulated.account.vpc,
            "CidrBlock": "192.168.224.0/24",
            "AvailabilityZone": zone,
            "TagSpecifications": [{"ResourceType": "subnet", "Tags": tags}],
        },
    )
    return str(made["Subnet"]["SubnetId"])


def test_aln_3_the_subnet_with_most_addresses_counting_launches_in_flight() -> None:
    async def run(scene: ProviderScene) -> None:
        small, large = subnets(scene, A), scene.emulated.account.subnets[A]
        wanted = M5_LARGE_ONLY.narrow(claim_requirements(zone=A, capacity=ON_DEMAND))
        await scene.launch_one(node_claim(1, wanted))
        used = [each["SubnetId"] for each in _overrides(scene.fleets()[0])]
        assert used == [large]
        free = scene.emulated.services.network.state.subnets[large].free
        # 29 addresses for each instance: as many as leave fewer than the small subnet has.
        count = (free - 240) // 29 + 1
        instances = await scene.launch(
            *(node_claim(number, wanted) for number in range(2, 2 + count))
        )
        assert not any(isinstance(each, BaseException) for each in instances)
        await scene.launch_one(node_claim(5000, wanted))
        assert [each["SubnetId"] for each in _overrides(scene.fleets()[-1])] == [small]

    run_refreshed_scene(run)


def _overrides(fleet: Any) -> list[Any]:
    return [each for config in fleet["LaunchTemplateConfigs"] for each in config["Overrides"]]


def test_aln_3_a_subnet_without_addresses_is_left_out_and_its_zone_with_the_last_one() -> None:
    async def run(scene: ProviderScene) -> None:
        other, first = subnets(scene, A), scene.emulated.account.subnets[A]
        known = scene.emulated.services.network.state.subnets
        wanted = M5_LARGE_ONLY.narrow(claim_requirements(zone=A, capacity=ON_DEMAND))
        await scene.cloud.resolve("default")
        known[first].free = 0
        with pytest.raises(InsufficientCapacityError) as raised:
            await scene.launch_one(node_claim(1, wanted))
        assert raised.value.reason == "InsufficientFreeAddressesInSubnet"
        await scene.launch_one(node_claim(2, wanted))
        assert [each["SubnetId"] for each in _overrides(scene.fleets()[-1])] == [other]
        known[other].free = 0
        with pytest.raises(InsufficientCapacityError):
            await scene.launch_one(node_claim(3, wanted))
        asked = len(scene.fleets())
        with pytest.raises(InsufficientCapacityError):
            await scene.launch_one(node_claim(4, wanted))
        assert len(scene.fleets()) == asked

    run_refreshed_scene(run)


@pytest.mark.parametrize(
    ("capacity_type", "plain", "prioritized"),
    [
        (ON_DEMAND, "lowest-price", "prioritized"),
        (SPOT, "price-capacity-optimized", "capacity-optimized-prioritized"),
    ],
)
def test_aln_4_ec2_chooses_by_its_prices_or_by_those_of_overlays(
    capacity_type: str, plain: str, prioritized: str
) -> None:
    field = "SpotOptions" if capacity_type == SPOT else "OnDemandOptions"

    async def run(scene: ProviderScene) -> None:
        wanted = claim_requirements(capacity=capacity_type)
        await scene.launch_one(node_claim(1, wanted))
        declare_overrides(
            scene, overlays=(overlay_document("cheap", INSTANCE_TYPE, "m5.xlarge", price="0.001"),)
        )
        instance = await scene.launch_one(node_claim(2, wanted))
        first, second = scene.fleets()
        assert first[field]["AllocationStrategy"] == plain
        assert second[field]["AllocationStrategy"] == prioritized
        assert all("Priority" not in each for each in _overrides(first))
        priorities = {each["InstanceType"]: each["Priority"] for each in _overrides(second)}
        assert priorities["m5.xlarge"] == 0.001 == min(priorities.values())
        assert instance.instance_type == "m5.xlarge" or capacity_type == SPOT

    run_refreshed_scene(run)


def test_aln_5_the_context_of_the_class_is_passed_on_unless_min_values_were_relaxed() -> None:
    async def run(scene: ProviderScene) -> None:
        scene.use(context="CXID-1")
        await scene.launch_one(node_claim(1, ON_DEMAND_ONLY))
        await scene.launch_one(node_claim(2, ON_DEMAND_ONLY, min_values_relaxed=True))
        assert [each.get("Context") for each in scene.fleets()] == ["CXID-1", None]

    run_refreshed_scene(run)


def test_aln_6_a_class_that_is_not_ready_is_not_launched_from() -> None:
    async def run(scene: ProviderScene) -> None:
        scene.use(subnetSelectorTerms=[{"tags": {"no": "where"}}])
        with pytest.raises(NodeClassNotReadyError, match="Subnets"):
            await scene.launch_one(node_claim(1, ON_DEMAND_ONLY))
        scene.use(tags={"karpenter.sh/nodepool": "mine"})
        with pytest.raises(NodeClassNotReadyError):
            await scene.launch_one(node_claim(2, ON_DEMAND_ONLY))
        scene.use()
        await scene.launch_one(node_claim(3, ON_DEMAND_ONLY))
        with pytest.raises(InsufficientCapacityError) as raised:
            await scene.launch_one(node_claim(4, ON_DEMAND_ONLY, node_class="other"))
        assert raised.value.reason == "NodeClassNotFound"

    run_refreshed_scene(run)


def test_aln_6_a_changed_class_is_resolved_before_a_launch() -> None:
    async def run(scene: ProviderScene) -> None:
        await scene.launch_one(node_claim(1, ON_DEMAND_ONLY))
        scene.use(tags={"team": "web"})
        await scene.launch_one(node_claim(2, ON_DEMAND_ONLY))
        tags = scene.fleets()[-1]["TagSpecifications"][0]["Tags"]
        assert {"Key": "team", "Value": "web"} in tags

    run_refreshed_scene(run)


def test_aln_6_no_remaining_offering_is_insufficient_capacity() -> None:
    async def run(scene: ProviderScene) -> None:
        for wanted in (
            in_requirement(INSTANCE_TYPE, "x9.huge"),
            ON_DEMAND_ONLY.narrow(in_requirement(ZONE, "us-east-1z")),
        ):
            with pytest.raises(InsufficientCapacityError):
                await scene.launch_one(node_claim(1, wanted))
        with pytest.raises(InsufficientCapacityError, match="room for its pods"):
            await scene.launch_one(node_claim(2, ON_DEMAND_ONLY, requests={"cpu": 999_000}))
        assert scene.fleets() == []

    run_refreshed_scene(run)


def test_aln_7_an_instance_has_its_image_zone_and_settings() -> None:
    async def run(scene: ProviderScene) -> None:
        instance = await scene.launch_one(
            node_claim(1, M5_LARGE_ONLY.narrow(claim_requirements(zone=B, capacity=ON_DEMAND)))
        )
        (real,) = scene.running()
        assert instance.image_id == scene.emulated.services.instances.specification_of(real).image
        assert (instance.zone_id, instance.labels[ZONE_ID]) == (real.zone_id, real.zone_id)
        assert instance.provider_id == f"aws:///{B}/{instance.id}"
        assert set(instance.annotations) == {
            "karpenter.k8s.aws/ec2nodeclass-hash",
            "karpenter.k8s.aws/ec2nodeclass-hash-version",
            "karpenter.k8s.aws/instance-profile-name",
        }

    run_refreshed_scene(run)


@pytest.mark.parametrize(("asked", "kind"), [({}, "interface"), ({EFA: 1}, "efa")])
def test_aln_7_efa_interfaces_only_if_pods_request_them(asked: dict[str, int], kind: str) -> None:
    async def run(scene: ProviderScene) -> None:
        wanted = in_requirement(INSTANCE_TYPE, "c5n.18xlarge").narrow(ON_DEMAND_ONLY)
        await scene.launch_one(node_claim(1, wanted, requests={"cpu": 500, **asked}))
        (data,) = launch_template_data(scene, scene.fleets()[0])
        found = [each.get("InterfaceType", "interface") for each in data["NetworkInterfaces"]]
        assert found == [kind]

    run_refreshed_scene(run, types=["m5.large", "c5n.18xlarge"])


def test_aln_10_drift_of_an_instance_in_the_account() -> None:
    async def run(scene: ProviderScene) -> None:
        instance = await scene.launch_one(node_claim(1, ON_DEMAND_ONLY))
        kept = msgspec.structs.replace(
            scene.store.claims["uid-1"], labels=instance.labels, annotations=instance.annotations
        )
        await scene.clock.sleep(60)
        assert await scene.cloud.drift(kept) is None
        scene.use(tags={"team": "web"})
        assert await scene.cloud.drift(kept) == "NodeClassDrift"
        scene.use(amiSelectorTerms=[{"alias": "bottlerocket@latest"}], amiFamily="AL2023")
        assert await scene.cloud.drift(kept) == "AMIDrift"

    run_refreshed_scene(run)
