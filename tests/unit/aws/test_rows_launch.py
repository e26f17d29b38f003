"""Rows of docs/aws-rows.md on instance types and launches, through the whole provider.

The names of tests begin with the row: `ait_6` is AIT-6, `s22` item 22 of the instance type settings.
"""

from typing import Any

import msgspec
import pytest
from tests.support.awslaunches import A, B, C, Scene, asking, claim
from tests.support.awsrows import (
    declare,
    instance_type,
    kinds,
    one_of,
    overlay,
    played,
    pools,
    templates,
)

from wainwright.emulator.ec2.quota import Limits
from wainwright.emulator.settings import Settings
from wainwright.errors import ClassNotReady, NoCapacity, Refused, Unavailable
from wainwright.model.labels import (
    CAPACITY_TYPE,
    INSTANCE_TENANCY,
    INSTANCE_TYPE,
    ON_DEMAND,
    SPOT,
    ZONE,
    ZONE_ID,
)
from wainwright.model.requirements import Requirements

OD = asking(capacity=ON_DEMAND)
BOTH = asking((CAPACITY_TYPE, "In", (ON_DEMAND, SPOT), None))
M5 = one_of(INSTANCE_TYPE, "m5.large")


def short(kind: str, zone: str | None = None, capacity_type: str | None = None) -> dict[str, Any]:
    said = {"instanceType": kind, "zone": zone, "capacityType": capacity_type}
    return {name: value for name, value in said.items() if value is not None}


# Instance types


def test_ait_3_sixty_types_at_most_and_the_cheapest() -> None:
    async def run(scene: Scene) -> None:
        machine = await scene.one(claim(1, OD))
        (fleet,) = scene.fleets()
        assert len(kinds(fleet)) == 60
        assert len(pools(fleet)) <= 180
        index = (await scene.cloud.catalog("web")).index
        prices = {
            kind.name: min(each.price for each in kind.offerings if each.capacity_type == ON_DEMAND)
            for kind in index.types
            if any(each.capacity_type == ON_DEMAND for each in kind.offerings)
        }
        dearest = max(prices[name] for name in kinds(fleet))
        asked = {"cpu": 500, "memory": 1 << 30}
        fitting = {
            kind.name
            for kind in index.types
            if all(kind.allocatable.get(name, 0) >= amount for name, amount in asked.items())
        }
        cheaper = {name for name in fitting if prices.get(name, dearest) < dearest}
        assert cheaper <= kinds(fleet)
        assert prices[machine.instance_type] == min(prices[name] for name in kinds(fleet))

    played(run, types=["m5*", "m6*", "c5*", "c6*", "r5*", "t3*"])


def test_ait_3_spot_that_is_dearer_than_on_demand_is_left_out() -> None:
    async def run(scene: Scene) -> None:
        await scene.one(claim(1, BOTH))
        (fleet,) = scene.fleets()
        assert fleet["TargetCapacitySpecification"]["DefaultTargetCapacityType"] == SPOT
        assert "m5.large" not in kinds(fleet)
        assert "c5.large" in kinds(fleet)

    price = {"instanceType": "m5.large", "capacityType": SPOT, "price": 5.0}
    played(run, prices=_prices(price))


def _prices(*rows: dict[str, Any]) -> list[Any]:
    from wainwright.api.cloud import CloudPrice

    return [CloudPrice(**row) for row in rows]


def test_ait_6_what_was_not_to_be_had_is_left_out_for_three_minutes() -> None:
    async def run(scene: Scene) -> None:
        scene.emulated.change({"unavailable": [short("c5.large"), short("m5.large", A)]})
        wanted = one_of(INSTANCE_TYPE, "c5.large", "m5.large").narrow(OD)
        machine = await scene.one(claim(1, wanted))
        assert (machine.instance_type, machine.zone) != ("m5.large", A)
        scene.emulated.change({"unavailable": []})
        await scene.one(claim(2, wanted))
        tried = set(pools(scene.fleets()[0])) - set(pools(scene.fleets()[1]))
        assert {("c5.large", A), ("c5.large", B), ("c5.large", C)} <= tried
        await scene.clock.sleep(181)
        assert (await scene.one(claim(3, wanted))).instance_type == "c5.large"

    played(run)


def test_ait_6_a_type_out_of_stock_stays_listed_without_anything_to_buy() -> None:
    async def run(scene: Scene) -> None:
        scene.cloud.shun("m5.large", A, SPOT)
        (kind,) = [
            each
            for each in (await scene.cloud.catalog("web")).index.types
            if each.name == "m5.large"
        ]
        out = {(each.zone, each.capacity_type) for each in kind.offerings if each.available == 0}
        assert out == {(A, SPOT)}
        assert len(kind.offerings) == 6

    played(run)


def test_ait_6_without_spot_on_demand_is_bought() -> None:
    async def run(scene: Scene) -> None:
        scene.emulated.change({"unavailable": [short("*", None, SPOT)]})
        outcomes = [(await scene.launch(claim(number, BOTH)))[0] for number in (1, 2)]
        assert isinstance(outcomes[0], NoCapacity)
        assert outcomes[1].capacity_type == ON_DEMAND

    played(run)


@pytest.mark.parametrize(
    ("wanted", "bought"),
    [
        (OD, ON_DEMAND),
        (asking((CAPACITY_TYPE, "NotIn", (SPOT,), None)), ON_DEMAND),
        (BOTH, SPOT),
        (Requirements(), SPOT),
    ],
)
def test_ait_7_spot_where_it_is_allowed_else_on_demand(wanted: Requirements, bought: str) -> None:
    async def run(scene: Scene) -> None:
        assert (await scene.one(claim(1, wanted))).capacity_type == bought

    played(run)


def test_ait_7_a_zone_without_spot_is_no_capacity() -> None:
    async def run(scene: Scene) -> None:
        for kind in ("m5.large", "c5.large", "m6g.large", "m5.xlarge"):
            scene.cloud.shun(kind, A, SPOT)
        with pytest.raises(NoCapacity):
            await scene.one(claim(1, asking(zone=A, capacity=SPOT)))
        assert scene.fleets() == []

    played(run)


@pytest.mark.parametrize(
    ("values", "tenancy"), [((), "default"), (("dedicated", "default"), "default")]
)
def test_ait_9_shared_hardware_unless_dedicated_is_required(
    values: tuple[str, ...], tenancy: str
) -> None:
    async def run(scene: Scene) -> None:
        wanted = one_of(INSTANCE_TENANCY, *values) if values else Requirements()
        machine = await scene.one(claim(1, wanted.narrow(OD)))
        assert machine.labels[INSTANCE_TENANCY] == tenancy
        (data,) = templates(scene, scene.fleets()[0])[:1]
        assert data["Placement"]["Tenancy"] == tenancy

    played(run)


def test_ait_9_dedicated_hardware_is_asked_for_and_a_contradiction_fails() -> None:
    async def run(scene: Scene) -> None:
        machine = await scene.one(claim(1, one_of(INSTANCE_TENANCY, "dedicated").narrow(OD)))
        assert machine.labels[INSTANCE_TENANCY] == "dedicated"
        assert {each["Placement"]["Tenancy"] for each in templates(scene, scene.fleets()[0])} == {
            "dedicated"
        }
        with pytest.raises(NoCapacity):
            await scene.one(claim(2, one_of(INSTANCE_TENANCY, "host")))

    played(run)


def test_ait_10_a_catalogue_is_made_anew_only_when_something_has_changed() -> None:
    async def run(scene: Scene) -> None:
        first = (await scene.cloud.catalog("web")).index
        assert (await scene.cloud.catalog("web")).index is first
        scene.cloud.shun("m5.large", A, SPOT)
        second = (await scene.cloud.catalog("web")).index
        assert second is not first
        scene.use(kubelet={"maxPods": 20})
        third = (await scene.cloud.catalog("web")).index
        assert {kind.capacity["pods"] for kind in third.types} == {20}
        assert {kind.capacity["pods"] for kind in second.types} != {20}

    played(run)


def test_ait_11_one_offering_for_each_zone_and_way_to_pay() -> None:
    async def run(scene: Scene) -> None:
        for kind in (await scene.cloud.catalog("web")).index.types:
            found = sorted((each.zone, each.capacity_type) for each in kind.offerings)
            assert found == sorted((zone, way) for zone in (A, B, C) for way in (ON_DEMAND, SPOT))

    played(run)


def test_ait_11_an_overlay_can_price_what_has_no_price() -> None:
    async def run(scene: Scene) -> None:
        with pytest.raises(NoCapacity):
            await scene.one(claim(1, OD))
        declare(scene, overlays=(overlay("priced", INSTANCE_TYPE, "mac2.metal", price="1.5"),))
        index = (await scene.cloud.catalog("web")).index
        (kind,) = index.types
        assert {each.price for each in kind.offerings} == {1.5}

    played(run, types=["mac2.metal"])


def test_ait_14_memory_of_real_nodes_counts_until_the_image_changes() -> None:
    async def run(scene: Scene) -> None:
        machine = await scene.one(claim(1, M5.narrow(OD)))

        async def memory() -> int:
            index = (await scene.cloud.catalog("web")).index
            (kind,) = [each for each in index.types if each.name == "m5.large"]
            return kind.capacity["memory"]

        estimate = await memory()
        scene.cloud.learn(machine, estimate - (100 << 20))
        assert await memory() == estimate - (100 << 20)
        scene.use(amiSelectorTerms=[{"alias": "bottlerocket@latest"}])
        assert await memory() == estimate

    played(run)


# Launches


def test_aln_1_too_few_types_for_min_values_is_no_capacity() -> None:
    async def run(scene: Scene) -> None:
        wanted = one_of(INSTANCE_TYPE, "m5.large", "c5.large", least=2).narrow(OD)
        assert kinds_of(scene, await scene.launch(claim(1, wanted))) == {"m5.large", "c5.large"}
        for zone in (A, B, C):
            scene.cloud.shun("c5.large", zone, ON_DEMAND)
        with pytest.raises(NoCapacity) as raised:
            await scene.one(claim(2, wanted))
        assert raised.value.reason == "MinValues"
        assert len(scene.fleets()) == 1

    played(run)


def kinds_of(scene: Scene, outcomes: list[Any]) -> set[str]:
    assert not any(isinstance(each, BaseException) for each in outcomes), outcomes
    return kinds(scene.fleets()[-1])


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
    """A seam on which fleets get nothing but these errors."""

    def __init__(self, scene: Scene, *codes: str) -> None:
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
    async def run(scene: Scene) -> None:
        scene.cloud = scene.provider(Answering(scene, code))
        await scene.cloud.refresh()
        with pytest.raises(NoCapacity) as raised:
            await scene.one(claim(1, OD))
        assert raised.value.reason == code

    played(run)


@pytest.mark.parametrize(
    ("codes", "error"),
    [
        (("InsufficientInstanceCapacity", "InternalError"), Unavailable),
        (("InsufficientInstanceCapacity", "UnauthorizedOperation"), Unavailable),
        (("UnauthorizedOperation",), Refused),
        ((), Unavailable),
    ],
)
def test_aln_2_other_errors_are_not(codes: tuple[str, ...], error: type[Exception]) -> None:
    async def run(scene: Scene) -> None:
        scene.cloud = scene.provider(Answering(scene, *codes))
        await scene.cloud.refresh()
        with pytest.raises(error):
            await scene.one(claim(1, OD))

    played(run)


def test_aln_2_without_the_role_for_spot_nothing_is_bought_as_spot_for_a_while() -> None:
    async def run(scene: Scene) -> None:
        outcomes = [(await scene.launch(claim(number, BOTH)))[0] for number in (1, 2)]
        assert isinstance(outcomes[0], NoCapacity)
        assert outcomes[1].capacity_type == ON_DEMAND

    played(run, settings=Settings(quota=Limits(spotRole=False)))


def subnets(scene: Scene, zone: str) -> str:
    """Another subnet in the zone, with few addresses, found by the class."""
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


def test_aln_3_the_subnet_with_most_addresses_counting_what_is_under_way() -> None:
    async def run(scene: Scene) -> None:
        small, large = subnets(scene, A), scene.emulated.account.subnets[A]
        wanted = M5.narrow(asking(zone=A, capacity=ON_DEMAND))
        await scene.one(claim(1, wanted))
        used = [each["SubnetId"] for each in _overrides(scene.fleets()[0])]
        assert used == [large]
        free = scene.emulated.parts.network.state.subnets[large].free
        # 29 addresses for each machine: as many as leave fewer than the small subnet has.
        count = (free - 240) // 29 + 1
        machines = await scene.launch(*(claim(number, wanted) for number in range(2, 2 + count)))
        assert not any(isinstance(each, BaseException) for each in machines)
        await scene.one(claim(5000, wanted))
        assert [each["SubnetId"] for each in _overrides(scene.fleets()[-1])] == [small]

    played(run)


def _overrides(fleet: Any) -> list[Any]:
    return [each for config in fleet["LaunchTemplateConfigs"] for each in config["Overrides"]]


def test_aln_3_a_subnet_without_addresses_is_left_out_and_its_zone_with_the_last_one() -> None:
    async def run(scene: Scene) -> None:
        other, first = subnets(scene, A), scene.emulated.account.subnets[A]
        known = scene.emulated.parts.network.state.subnets
        wanted = M5.narrow(asking(zone=A, capacity=ON_DEMAND))
        await scene.cloud.resolve("default")
        known[first].free = 0
        with pytest.raises(NoCapacity) as raised:
            await scene.one(claim(1, wanted))
        assert raised.value.reason == "InsufficientFreeAddressesInSubnet"
        await scene.one(claim(2, wanted))
        assert [each["SubnetId"] for each in _overrides(scene.fleets()[-1])] == [other]
        known[other].free = 0
        with pytest.raises(NoCapacity):
            await scene.one(claim(3, wanted))
        asked = len(scene.fleets())
        with pytest.raises(NoCapacity):
            await scene.one(claim(4, wanted))
        assert len(scene.fleets()) == asked

    played(run)


@pytest.mark.parametrize(
    ("capacity_type", "plain", "told"),
    [
        (ON_DEMAND, "lowest-price", "prioritized"),
        (SPOT, "price-capacity-optimized", "capacity-optimized-prioritized"),
    ],
)
def test_aln_4_ec2_chooses_by_its_prices_or_by_those_of_overlays(
    capacity_type: str, plain: str, told: str
) -> None:
    field = "SpotOptions" if capacity_type == SPOT else "OnDemandOptions"

    async def run(scene: Scene) -> None:
        wanted = asking(capacity=capacity_type)
        await scene.one(claim(1, wanted))
        declare(scene, overlays=(overlay("cheap", INSTANCE_TYPE, "m5.xlarge", price="0.001"),))
        machine = await scene.one(claim(2, wanted))
        first, second = scene.fleets()
        assert first[field]["AllocationStrategy"] == plain
        assert second[field]["AllocationStrategy"] == told
        assert all("Priority" not in each for each in _overrides(first))
        priorities = {each["InstanceType"]: each["Priority"] for each in _overrides(second)}
        assert priorities["m5.xlarge"] == 0.001 == min(priorities.values())
        assert machine.instance_type == "m5.xlarge" or capacity_type == SPOT

    played(run)


def test_aln_5_the_context_of_the_class_is_passed_on_unless_min_values_were_relaxed() -> None:
    async def run(scene: Scene) -> None:
        scene.use(context="CXID-1")
        await scene.one(claim(1, OD))
        await scene.one(claim(2, OD, min_values_relaxed=True))
        assert [each.get("Context") for each in scene.fleets()] == ["CXID-1", None]

    played(run)


def test_aln_6_a_class_that_is_not_ready_is_not_launched_from() -> None:
    async def run(scene: Scene) -> None:
        scene.use(subnetSelectorTerms=[{"tags": {"no": "where"}}])
        with pytest.raises(ClassNotReady, match="Subnets"):
            await scene.one(claim(1, OD))
        scene.use(tags={"karpenter.sh/nodepool": "mine"})
        with pytest.raises(ClassNotReady):
            await scene.one(claim(2, OD))
        scene.use()
        await scene.one(claim(3, OD))
        with pytest.raises(NoCapacity) as raised:
            await scene.one(claim(4, OD, node_class="other"))
        assert raised.value.reason == "NodeClassNotFound"

    played(run)


def test_aln_6_a_class_that_has_changed_is_looked_at_before_it_is_launched_from() -> None:
    async def run(scene: Scene) -> None:
        await scene.one(claim(1, OD))
        scene.use(tags={"team": "web"})
        await scene.one(claim(2, OD))
        tags = scene.fleets()[-1]["TagSpecifications"][0]["Tags"]
        assert {"Key": "team", "Value": "web"} in tags

    played(run)


def test_aln_6_nothing_left_is_no_capacity() -> None:
    async def run(scene: Scene) -> None:
        for wanted in (one_of(INSTANCE_TYPE, "x9.huge"), OD.narrow(one_of(ZONE, "us-east-1z"))):
            with pytest.raises(NoCapacity):
                await scene.one(claim(1, wanted))
        with pytest.raises(NoCapacity, match="room for its pods"):
            await scene.one(claim(2, OD, requests={"cpu": 999_000}))
        assert scene.fleets() == []

    played(run)


def test_aln_7_a_machine_says_from_which_image_place_and_settings_it_is() -> None:
    async def run(scene: Scene) -> None:
        machine = await scene.one(claim(1, M5.narrow(asking(zone=B, capacity=ON_DEMAND))))
        (real,) = scene.running()
        assert machine.image_id == scene.emulated.parts.instances.build_of(real).image
        assert (machine.zone_id, machine.labels[ZONE_ID]) == (real.zone_id, real.zone_id)
        assert machine.provider_id == f"aws:///{B}/{machine.id}"
        assert set(machine.annotations) == {
            "karpenter.k8s.aws/ec2nodeclass-hash",
            "karpenter.k8s.aws/ec2nodeclass-hash-version",
            "karpenter.k8s.aws/instance-profile-name",
        }

    played(run)


@pytest.mark.parametrize(("asked", "interfaces"), [(0, ["interface"]), (1, ["efa", "efa"])])
def test_aln_7_efa_only_where_pods_ask_for_it(asked: int, interfaces: list[str]) -> None:
    async def run(scene: Scene) -> None:
        requests = {"cpu": 500, "vpc.amazonaws.com/efa": asked}
        if not asked:
            del requests["vpc.amazonaws.com/efa"]
        await scene.one(claim(1, OD, requests=requests))
        (data,) = templates(scene, scene.fleets()[0])
        kinds = [each.get("InterfaceType", "interface") for each in data["NetworkInterfaces"]]
        assert kinds[:1] == interfaces[:1]
        assert (len(kinds) == 1) is (not asked) or kinds == ["efa"] * len(kinds)

    played(run, types=["c5n.18xlarge"])


def test_aln_10_drift_of_a_machine_in_the_account() -> None:
    async def run(scene: Scene) -> None:
        machine = await scene.one(claim(1, OD))
        kept = msgspec.structs.replace(
            scene.store.claims["uid-1"], labels=machine.labels, annotations=machine.annotations
        )
        await scene.clock.sleep(60)
        assert await scene.cloud.drift(kept) is None
        scene.use(tags={"team": "web"})
        assert await scene.cloud.drift(kept) == "NodeClassDrift"
        scene.use(amiSelectorTerms=[{"alias": "bottlerocket@latest"}], amiFamily="AL2023")
        assert await scene.cloud.drift(kept) == "AMIDrift"

    played(run)


def test_s22_a_launch_needs_an_offering_that_the_node_may_have() -> None:
    offering = {"karpenter.sh/capacity-type": ON_DEMAND, "topology.kubernetes.io/zone": B}

    async def run(scene: Scene) -> None:
        declare(
            scene,
            types=(
                instance_type("m5.large", offerings=[{**offering, "karpenter.sh/price": 0.05}]),
            ),
        )
        with pytest.raises(NoCapacity):
            await scene.one(claim(1, M5.narrow(one_of(ZONE, A))))
        assert scene.fleets() == []
        machine = await scene.one(claim(2, M5))
        assert (machine.zone, machine.capacity_type, machine.price) == (B, ON_DEMAND, 0.05)
        with pytest.raises(NoCapacity):
            await scene.one(claim(3, M5.narrow(asking(capacity=SPOT))))

    played(run)


def test_s28_s33_pods_of_instance_type_objects_reach_the_machine_by_one_template() -> None:
    async def run(scene: Scene) -> None:
        await scene.one(claim(1, OD))
        declare(
            scene,
            types=(
                instance_type("m5.large", resources={"pods": "17"}),
                instance_type("c5.large", resources={"pods": "19"}),
            ),
        )
        machine = await scene.one(claim(2, M5.narrow(OD)))
        assert machine.capacity["pods"] == 17
        before, after = scene.fleets()
        assert len(after["LaunchTemplateConfigs"]) == 1 <= len(before["LaunchTemplateConfigs"])

    played(run, types=["m5.large", "c5.large"])
