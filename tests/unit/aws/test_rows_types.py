"""Rows of docs/internals/aws-rows.md on instance types (AIT), through the whole provider.

The names of tests begin with the row; `s22` is item 22 on settings of instance types.
"""

from typing import Any

import pytest
from tests.support.aws_account import discovered_node_class
from tests.support.aws_provider import (
    M5_LARGE_ONLY,
    ON_DEMAND_ONLY,
    ON_DEMAND_OR_SPOT,
    ONLY_RESERVED,
    RESERVATION_SELECTOR,
    A,
    B,
    C,
    ProviderScene,
    boot_instance,
    claim_requirements,
    declare_overrides,
    in_requirement,
    instance_type_document,
    launch_template_data,
    node_claim,
    overlay_document,
    requested_overrides,
    requested_types,
    reservation_object,
    run_refreshed_scene,
    unavailable_offering,
)

from wainwright.api.catalog_documents import CloudPrice
from wainwright.emulator.settings import EmulatorSettings
from wainwright.errors import InsufficientCapacityError
from wainwright.model.labels import (
    CAPACITY_TYPE,
    INSTANCE_TENANCY,
    INSTANCE_TYPE,
    ON_DEMAND,
    SPOT,
    ZONE,
)
from wainwright.model.requirements import Requirements


def test_ait_3_sixty_types_at_most_and_the_cheapest() -> None:
    async def run(scene: ProviderScene) -> None:
        instance = await scene.launch_one(node_claim(1, ON_DEMAND_ONLY))
        (fleet,) = scene.fleets()
        assert len(requested_types(fleet)) == 60
        assert len(requested_overrides(fleet)) <= 180
        index = (await scene.cloud.catalog("web")).index
        prices = {
            kind.name: min(each.price for each in kind.offerings if each.capacity_type == ON_DEMAND)
            for kind in index.types
            if any(each.capacity_type == ON_DEMAND for each in kind.offerings)
        }
        dearest = max(prices[name] for name in requested_types(fleet))
        asked = {"cpu": 500, "memory": 1 << 30}
        fitting = {
            kind.name
            for kind in index.types
            if all(kind.allocatable.get(name, 0) >= amount for name, amount in asked.items())
        }
        cheaper = {name for name in fitting if prices.get(name, dearest) < dearest}
        assert cheaper <= requested_types(fleet)
        assert prices[instance.instance_type] == min(
            prices[name] for name in requested_types(fleet)
        )

    run_refreshed_scene(run, types=["m5*", "m6*", "c5*", "c6*", "r5*", "t3*"])


def test_ait_3_spot_that_is_dearer_than_on_demand_is_left_out() -> None:
    async def run(scene: ProviderScene) -> None:
        await scene.launch_one(node_claim(1, ON_DEMAND_OR_SPOT))
        (fleet,) = scene.fleets()
        assert fleet["TargetCapacitySpecification"]["DefaultTargetCapacityType"] == SPOT
        assert "m5.large" not in requested_types(fleet)
        assert "c5.large" in requested_types(fleet)

    price = CloudPrice(instanceType="m5.large", capacityType=SPOT, price=5.0)
    run_refreshed_scene(run, prices=[price])


def test_ait_6_an_offering_without_capacity_is_left_out_for_three_minutes() -> None:
    async def run(scene: ProviderScene) -> None:
        scene.emulated.change(
            {"unavailable": [unavailable_offering("c5.large"), unavailable_offering("m5.large", A)]}
        )
        wanted = in_requirement(INSTANCE_TYPE, "c5.large", "m5.large").narrow(ON_DEMAND_ONLY)
        instance = await scene.launch_one(node_claim(1, wanted))
        assert (instance.instance_type, instance.zone) != ("m5.large", A)
        scene.emulated.change({"unavailable": []})
        await scene.launch_one(node_claim(2, wanted))
        tried = set(requested_overrides(scene.fleets()[0])) - set(
            requested_overrides(scene.fleets()[1])
        )
        assert {("c5.large", A), ("c5.large", B), ("c5.large", C)} <= tried
        await scene.clock.sleep(181)
        assert (await scene.launch_one(node_claim(3, wanted))).instance_type == "c5.large"

    run_refreshed_scene(run)


def test_ait_6_an_unavailable_type_stays_in_the_catalog_without_available_offerings() -> None:
    async def run(scene: ProviderScene) -> None:
        scene.cloud.mark_unavailable("m5.large", A, SPOT)
        (kind,) = [
            each
            for each in (await scene.cloud.catalog("web")).index.types
            if each.name == "m5.large"
        ]
        out = {(each.zone, each.capacity_type) for each in kind.offerings if each.available == 0}
        assert out == {(A, SPOT)}
        assert len(kind.offerings) == 6

    run_refreshed_scene(run)


def test_ait_6_without_spot_capacity_on_demand_is_launched() -> None:
    async def run(scene: ProviderScene) -> None:
        scene.emulated.change({"unavailable": [unavailable_offering("*", None, SPOT)]})
        outcomes = [
            (await scene.launch(node_claim(number, ON_DEMAND_OR_SPOT)))[0] for number in (1, 2)
        ]
        assert isinstance(outcomes[0], InsufficientCapacityError)
        assert outcomes[1].capacity_type == ON_DEMAND

    run_refreshed_scene(run)


@pytest.mark.parametrize(
    ("wanted", "capacity_type"),
    [
        (ON_DEMAND_ONLY, ON_DEMAND),
        (claim_requirements((CAPACITY_TYPE, "NotIn", (SPOT,), None)), ON_DEMAND),
        (ON_DEMAND_OR_SPOT, SPOT),
        (Requirements(), SPOT),
    ],
)
def test_ait_7_spot_where_it_is_allowed_else_on_demand(
    wanted: Requirements, capacity_type: str
) -> None:
    async def run(scene: ProviderScene) -> None:
        assert (await scene.launch_one(node_claim(1, wanted))).capacity_type == capacity_type

    run_refreshed_scene(run)


def test_ait_7_a_zone_without_spot_is_insufficient_capacity() -> None:
    async def run(scene: ProviderScene) -> None:
        for kind in ("m5.large", "c5.large", "m6g.large", "m5.xlarge"):
            scene.cloud.mark_unavailable(kind, A, SPOT)
        with pytest.raises(InsufficientCapacityError):
            await scene.launch_one(node_claim(1, claim_requirements(zone=A, capacity=SPOT)))
        assert scene.fleets() == []

    run_refreshed_scene(run)


@pytest.mark.parametrize(
    ("values", "tenancy"), [((), "default"), (("dedicated", "default"), "default")]
)
def test_ait_9_shared_hardware_unless_dedicated_is_required(
    values: tuple[str, ...], tenancy: str
) -> None:
    async def run(scene: ProviderScene) -> None:
        wanted = in_requirement(INSTANCE_TENANCY, *values) if values else Requirements()
        instance = await scene.launch_one(node_claim(1, wanted.narrow(ON_DEMAND_ONLY)))
        assert instance.labels[INSTANCE_TENANCY] == tenancy
        (data,) = launch_template_data(scene, scene.fleets()[0])[:1]
        assert data["Placement"]["Tenancy"] == tenancy

    run_refreshed_scene(run)


def test_ait_9_dedicated_hardware_is_requested_and_a_contradiction_fails() -> None:
    async def run(scene: ProviderScene) -> None:
        instance = await scene.launch_one(
            node_claim(1, in_requirement(INSTANCE_TENANCY, "dedicated").narrow(ON_DEMAND_ONLY))
        )
        assert instance.labels[INSTANCE_TENANCY] == "dedicated"
        assert {
            each["Placement"]["Tenancy"] for each in launch_template_data(scene, scene.fleets()[0])
        } == {"dedicated"}
        with pytest.raises(InsufficientCapacityError):
            await scene.launch_one(node_claim(2, in_requirement(INSTANCE_TENANCY, "host")))

    run_refreshed_scene(run)


def test_ait_10_a_catalog_is_rebuilt_only_when_something_has_changed() -> None:
    async def run(scene: ProviderScene) -> None:
        first = (await scene.cloud.catalog("web")).index
        assert (await scene.cloud.catalog("web")).index is first
        scene.cloud.mark_unavailable("m5.large", A, SPOT)
        second = (await scene.cloud.catalog("web")).index
        assert second is not first
        scene.use(kubelet={"maxPods": 20})
        third = (await scene.cloud.catalog("web")).index
        assert {kind.capacity["pods"] for kind in third.types} == {20}
        assert {kind.capacity["pods"] for kind in second.types} != {20}

    run_refreshed_scene(run)


def test_ait_11_one_offering_for_each_zone_and_capacity_type() -> None:
    async def run(scene: ProviderScene) -> None:
        for kind in (await scene.cloud.catalog("web")).index.types:
            found = sorted((each.zone, each.capacity_type) for each in kind.offerings)
            assert found == sorted((zone, way) for zone in (A, B, C) for way in (ON_DEMAND, SPOT))

    run_refreshed_scene(run)


def test_ait_11_an_overlay_can_price_what_has_no_price() -> None:
    async def run(scene: ProviderScene) -> None:
        wanted = in_requirement(INSTANCE_TYPE, "r9g.large").narrow(ON_DEMAND_ONLY)
        with pytest.raises(InsufficientCapacityError):
            await scene.launch_one(node_claim(1, wanted))
        declare_overrides(
            scene, overlays=(overlay_document("priced", INSTANCE_TYPE, "r9g.large", price="1.5"),)
        )
        instance = await scene.launch_one(node_claim(2, wanted))
        assert (instance.instance_type, instance.price) == ("r9g.large", 1.5)

    run_refreshed_scene(run, types=["m5.large", "r9g.large"])


def test_ait_14_discovered_memory_is_used_until_the_image_changes() -> None:
    async def run(scene: ProviderScene) -> None:
        instance = await scene.launch_one(node_claim(1, M5_LARGE_ONLY.narrow(ON_DEMAND_ONLY)))

        async def memory() -> int:
            index = (await scene.cloud.catalog("web")).index
            (kind,) = [each for each in index.types if each.name == "m5.large"]
            return kind.capacity["memory"]

        estimate = await memory()
        scene.cloud.record_discovered_capacity(instance, estimate - (100 << 20))
        assert await memory() == estimate - (100 << 20)
        scene.use(amiSelectorTerms=[{"alias": "bottlerocket@latest"}])
        assert await memory() == estimate

    run_refreshed_scene(run)


def test_s22_a_launch_needs_an_offering_that_the_node_may_have() -> None:
    offering = {"karpenter.sh/capacity-type": ON_DEMAND, "topology.kubernetes.io/zone": B}

    async def run(scene: ProviderScene) -> None:
        declare_overrides(
            scene,
            types=(
                instance_type_document(
                    "m5.large", offerings=[{**offering, "karpenter.sh/price": 0.05}]
                ),
            ),
        )
        with pytest.raises(InsufficientCapacityError):
            await scene.launch_one(node_claim(1, M5_LARGE_ONLY.narrow(in_requirement(ZONE, A))))
        assert scene.fleets() == []
        instance = await scene.launch_one(node_claim(2, M5_LARGE_ONLY))
        assert (instance.zone, instance.capacity_type, instance.price) == (B, ON_DEMAND, 0.05)
        with pytest.raises(InsufficientCapacityError):
            await scene.launch_one(
                node_claim(3, M5_LARGE_ONLY.narrow(claim_requirements(capacity=SPOT)))
            )

    run_refreshed_scene(run)


def test_s12_the_kubelet_gets_the_planned_settings() -> None:
    kubelet = {
        "kubeReserved": {"memory": "1Gi", "cpu": "300m", "ephemeral-storage": "1Gi"},
        "systemReserved": {"memory": "200Mi"},
        "evictionHard": {"memory.available": "1Gi", "nodefs.available": "15%"},
    }

    async def run(scene: ProviderScene) -> None:
        scene.use(kubelet=kubelet)
        instance = await scene.launch_one(node_claim(1, M5_LARGE_ONLY.narrow(ON_DEMAND_ONLY)))
        assert kept(boot_instance(scene, instance.id)) == kept(instance)
        assert kept(instance)["memory"] == (1024 + 200 + 1024) << 20

    run_refreshed_scene(run)


def kept(sized: Any) -> dict[str, int]:
    """Resources that are not available to pods."""
    names = ("cpu", "ephemeral-storage", "memory")
    return {name: sized.capacity[name] - sized.allocatable[name] for name in names}


@pytest.mark.parametrize("alias", ["al2023@latest", "al2@latest"])
def test_s28_s33_max_pods_of_instance_type_objects_reach_the_node_through_one_template(
    alias: str,
) -> None:
    async def run(scene: ProviderScene) -> None:
        scene.use(amiSelectorTerms=[{"alias": alias}])
        await scene.launch_one(
            node_claim(
                1, in_requirement(INSTANCE_TYPE, "m5.large", "c5.large").narrow(ON_DEMAND_ONLY)
            )
        )
        declare_overrides(
            scene,
            types=(
                instance_type_document("m5.large", resources={"pods": "17"}),
                instance_type_document("c5.large", allocatable={"pods": "19"}),
            ),
        )
        instance = await scene.launch_one(node_claim(2, M5_LARGE_ONLY.narrow(ON_DEMAND_ONLY)))
        other = await scene.launch_one(
            node_claim(3, in_requirement(INSTANCE_TYPE, "c5.large").narrow(ON_DEMAND_ONLY))
        )
        assert (instance.capacity["pods"], other.capacity["pods"]) == (17, 19)
        for each in (instance, other):
            node = boot_instance(scene, each.id)
            assert node.capacity["pods"] == each.capacity["pods"]
            assert kept(node) == kept(each)
        names = [
            config["LaunchTemplateSpecification"]["LaunchTemplateName"]
            for fleet in scene.fleets()[1:]
            for config in fleet["LaunchTemplateConfigs"]
        ]
        assert len(set(names)) == 1
        assert len(scene.fleets()[0]["LaunchTemplateConfigs"]) == 1

    run_refreshed_scene(run, settings=EmulatorSettings(kubernetes="1.32"))


TEAM, TIER, OS = "example.com/team", "example.com/tier", "kubernetes.io/os"


@pytest.mark.parametrize(("team", "price"), [("a", 0.01), ("b", 0.30)])
def test_an_instance_is_described_by_the_offering_that_its_claim_allows(
    team: str, price: float
) -> None:
    async def run(scene: ProviderScene) -> None:
        offerings = [
            {TEAM: "a", CAPACITY_TYPE: ON_DEMAND, "karpenter.sh/price": 0.01, TIER: "spare"},
            {TEAM: "a", CAPACITY_TYPE: ON_DEMAND, "karpenter.sh/price": 0.02, TIER: "best"},
            {TEAM: "b", CAPACITY_TYPE: ON_DEMAND, "karpenter.sh/price": 0.30},
            {CAPACITY_TYPE: ON_DEMAND, "karpenter.sh/price": 0.20},
        ]
        declare_overrides(scene, types=(instance_type_document("m5.large", offerings=offerings),))
        wanted = M5_LARGE_ONLY.narrow(in_requirement(TEAM, team))
        first = await scene.launch_one(node_claim(1, wanted))
        scene.store.set_instance("uid-1", "")
        again = await scene.launch_one(node_claim(1))  # the claim as it was stored
        for instance in (first, again):
            assert (instance.labels[TEAM], instance.price) == (team, price)

    run_refreshed_scene(run)


@pytest.mark.parametrize(("system", "price"), [("linux", 0.30), ("windows", 0.01)])
def test_an_instance_has_the_operating_system_of_its_claim(system: str, price: float) -> None:
    async def run(scene: ProviderScene) -> None:
        family = "al2023@latest" if system == "linux" else "windows2022@latest"
        scene.classes = [discovered_node_class(amiSelectorTerms=[{"alias": family}])]
        offerings = [
            {OS: "windows", CAPACITY_TYPE: ON_DEMAND, "karpenter.sh/price": 0.01},
            {OS: "linux", CAPACITY_TYPE: ON_DEMAND, "karpenter.sh/price": 0.30},
        ]
        declare_overrides(scene, types=(instance_type_document("m5.large", offerings=offerings),))
        instance = await scene.launch_one(
            node_claim(1, M5_LARGE_ONLY.narrow(in_requirement(OS, system)))
        )
        assert (instance.labels[OS], instance.price) == (system, price)

    run_refreshed_scene(run)


def test_an_offering_without_capacity_type_does_not_prioritise_a_reserved_launch() -> None:
    async def run(scene: ProviderScene) -> None:
        scene.classes = [discovered_node_class(**RESERVATION_SELECTOR)]
        offerings = [{ZONE: A, "karpenter.sh/price": 0.05}]
        declare_overrides(scene, types=(instance_type_document("m5.large", offerings=offerings),))
        instance = await scene.launch_one(node_claim(1, ONLY_RESERVED))
        assert instance.reservation_id
        (fleet,) = scene.fleets()
        assert fleet["OnDemandOptions"]["AllocationStrategy"] == "lowest-price"

    run_refreshed_scene(run, reservation_object(1, 1))
