"""What the cloud port says to decide drift of requirements and instance types, in an account.

Karpenter compares the labels of a NodeClaim with the requirements of its NodePool, and looks for an
offering that is compatible with them; whether it is available does not matter.
"""

from typing import Any

import msgspec
import pytest
from tests.support.aws_provider import (
    ONLY_RESERVED,
    RESERVATION_SELECTOR,
    A,
    ProviderScene,
    claim_requirements,
    node_claim,
    reservation_object,
    run_scene,
)

from wainwright.cloud import DeclaredObjects, NodePoolScope
from wainwright.emulator.faults import FaultRule
from wainwright.emulator.settings import EmulatorSettings
from wainwright.errors import TemporarilyUnavailableError
from wainwright.model.instance_type import OfferedTypes
from wainwright.model.labels import (
    ARCH,
    CAPACITY_TYPE,
    INSTANCE_CATEGORY,
    INSTANCE_GENERATION,
    INSTANCE_GPU_COUNT,
    INSTANCE_TYPE,
    ON_DEMAND,
    OS,
    RESERVATION_ID,
    RESERVED,
    SPOT,
    WELL_KNOWN_LABELS,
    ZONE,
)
from wainwright.model.requirements import Requirements

LARGE = (INSTANCE_TYPE, "In", ("m5.large",), None)


def is_offered(offered: OfferedTypes, labels: dict[str, str]) -> bool:
    """As Karpenter looks for an offering: labels that the claim lacks do not matter."""
    claim = Requirements.from_labels(labels)
    each_offering = offered.get(labels[INSTANCE_TYPE], ())
    return any(claim.is_compatible(each, WELL_KNOWN_LABELS) for each in each_offering)


async def offered_after_refresh(scene: ProviderScene) -> OfferedTypes:
    await scene.cloud.refresh()
    return await scene.cloud.offered_types("web")


@pytest.mark.parametrize("capacity", [ON_DEMAND, SPOT, RESERVED])
def test_the_offering_of_a_launched_claim_exists(capacity: str) -> None:
    async def test(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        wanted = claim_requirements(LARGE, capacity=capacity)
        instance = await scene.launch_one(node_claim(1, wanted))
        offered = await offered_after_refresh(scene)
        assert is_offered(offered, dict(instance.labels))
        assert not is_offered(offered, {**instance.labels, ZONE: "us-east-1z"})
        assert not is_offered(offered, {**instance.labels, INSTANCE_TYPE: "m4.large"})
        assert "m4.large" not in offered  # not among the types of the account

    run_scene(test, reservation_object(1, 1))


def test_what_cannot_be_launched_now_exists_all_the_same() -> None:
    async def test(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        reserved = await scene.launch_one(node_claim(1, ONLY_RESERVED))  # which is full now
        spot = await scene.launch_one(node_claim(2, claim_requirements(capacity=SPOT)))
        scene.cloud.mark_unavailable(spot.instance_type, spot.zone, SPOT)
        await scene.cloud.refresh()
        index = (await scene.cloud.catalog("web")).index
        asked = claim_requirements(LARGE, capacity=RESERVED)
        assert not index.available_to(asked) & index.compatible_types(asked)
        offered = await scene.cloud.offered_types("web")
        for instance in (reserved, spot):
            assert is_offered(offered, dict(instance.labels))

    run_scene(test, reservation_object(1, 1))


def test_zones_without_subnets_exist_also_for_a_class_that_is_not_ready() -> None:
    async def test(scene: ProviderScene) -> None:
        instance = await scene.launch_one(node_claim(1, claim_requirements(LARGE, zone=A)))
        scene.use(subnetSelectorTerms=[{"tags": {"no": "such"}}])
        assert not (await scene.cloud.resolve("default")).ready
        assert is_offered(await offered_after_refresh(scene), dict(instance.labels))

    run_scene(test)


def test_a_reservation_that_is_gone_is_not_offered_and_on_demand_is() -> None:
    async def test(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        instance = await scene.launch_one(node_claim(1, ONLY_RESERVED))
        scene.use()  # selects no reservation
        offered = await offered_after_refresh(scene)
        labels = dict(instance.labels)
        assert not is_offered(offered, labels)
        del labels[RESERVATION_ID]
        assert is_offered(offered, {**labels, CAPACITY_TYPE: ON_DEMAND})

    run_scene(test, reservation_object(1, 1))


def instance_type_manifest(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "InstanceType",
        "metadata": {"name": "m5.large"},
        "spec": spec,
    }


def test_an_instance_type_object_says_which_offerings_exist() -> None:
    async def test(scene: ProviderScene) -> None:
        on_demand = await scene.launch_one(
            node_claim(1, claim_requirements(LARGE, capacity=ON_DEMAND))
        )
        spot_only = instance_type_manifest(offerings=[{CAPACITY_TYPE: SPOT}])
        scene.cloud.declare(
            DeclaredObjects(
                node_classes=tuple(msgspec.to_builtins(each) for each in scene.classes),
                instance_types=(spot_only,),
                pools=(NodePoolScope(name="web", node_class="default"),),
            )
        )
        offered = await offered_after_refresh(scene)
        assert not is_offered(offered, dict(on_demand.labels))
        assert is_offered(offered, {**on_demand.labels, CAPACITY_TYPE: SPOT})

    run_scene(test)


def test_an_offering_for_another_operating_system_does_not_exist() -> None:
    async def test(scene: ProviderScene) -> None:
        for_windows = instance_type_manifest(offerings=[{OS: "windows", "karpenter.sh/price": 1}])
        scene.cloud.declare(
            DeclaredObjects(
                node_classes=tuple(msgspec.to_builtins(each) for each in scene.classes),
                instance_types=(for_windows,),
                pools=(NodePoolScope(name="web", node_class="default"),),
            )
        )
        assert (await offered_after_refresh(scene))["m5.large"] == ()
        remarks = (await scene.cloud.catalog("web")).remarks
        assert any("is for windows" in each.message for each in remarks)

    run_scene(test)


def test_the_built_in_catalog_does_not_answer_for_ec2() -> None:
    async def test(scene: ProviderScene) -> None:
        await scene.cloud.refresh()
        assert (await scene.cloud.catalog("web")).index.types  # the built-in ones
        with pytest.raises(TemporarilyUnavailableError, match="are not known"):
            await scene.cloud.offered_types("web")

    fault = FaultRule(operation="DescribeInstanceTypes", code="InternalError")
    run_scene(test, settings=EmulatorSettings(faults=(fault,)))


@pytest.mark.parametrize(
    ("entry", "is_met"),
    [
        ((INSTANCE_CATEGORY, "In", ("m", "c"), None), True),
        ((INSTANCE_CATEGORY, "In", ("c",), None), False),
        ((INSTANCE_GENERATION, "Gt", ("4",), None), True),
        ((INSTANCE_GENERATION, "Gt", ("5",), None), False),
        ((INSTANCE_GPU_COUNT, "DoesNotExist", (), None), True),
        ((INSTANCE_GPU_COUNT, "Exists", (), None), False),
        ((OS, "In", ("linux",), None), True),
        ((ARCH, "NotIn", ("amd64",), None), False),
        ((CAPACITY_TYPE, "In", (ON_DEMAND, SPOT), None), True),
        ((CAPACITY_TYPE, "In", (SPOT,), None), False),
        ((ZONE, "In", (A,), None), True),
    ],
    ids=str,
)
def test_labels_of_a_claim_tell_whether_it_meets_changed_requirements(
    entry: Any, is_met: bool
) -> None:
    """Without well-known labels: a claim has every label that its NodePool can require."""

    async def test(scene: ProviderScene) -> None:
        wanted = claim_requirements(LARGE, capacity=ON_DEMAND, zone=A)
        instance = await scene.launch_one(node_claim(1, wanted))
        labels = Requirements.from_labels(dict(instance.labels))
        assert labels.is_compatible(Requirements.from_entries([entry])) == is_met

    run_scene(test)
