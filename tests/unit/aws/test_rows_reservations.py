"""Rows of docs/internals/aws-rows.md on capacity reservations, through the whole provider.

The names of tests begin with the row: `m41` is item 41 of the first section, `acr_1` the row ACR-1.
"""

from typing import Any

import msgspec
import pytest
from tests.support.aws_provider import (
    ONLY_RESERVED,
    RESERVATION_SELECTOR,
    A,
    B,
    ProviderScene,
    claim_requirements,
    in_requirement,
    launch_template_data,
    node_claim,
    requested_overrides,
    reservation_object,
    run_refreshed_scene,
)

from wainwright.aws.cluster_config import ClusterConfig
from wainwright.clock import EPOCH
from wainwright.emulator.api_conventions import iso_timestamp
from wainwright.errors import InsufficientCapacityError
from wainwright.model.labels import (
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    ON_DEMAND,
    RESERVATION_ID,
    RESERVATION_INTERRUPTIBLE,
    RESERVATION_TYPE,
    RESERVED,
    SPOT,
    ZONE,
)
from wainwright.model.requirements import Requirements

HOUR = 3600.0
NOT_SPOT = claim_requirements((CAPACITY_TYPE, "In", (RESERVED, ON_DEMAND), None))
FULL = "ReservationCapacityExceeded"


def specifications(scene: ProviderScene, fleet: Any) -> list[Any]:
    """The CapacityReservationSpecifications of the templates of a request."""
    return [
        each.get("CapacityReservationSpecification") for each in launch_template_data(scene, fleet)
    ]


def targets(scene: ProviderScene, fleet: Any) -> list[str]:
    specs = [each["CapacityReservationTarget"] for each in specifications(scene, fleet)]
    return sorted(each["CapacityReservationId"] for each in specs)


def taken_by_others(scene: ProviderScene, *entries: Any) -> None:
    """Another client of the account uses up the reservation; the provider does not know yet."""
    changed = [msgspec.to_builtins(msgspec.structs.replace(each, available=0)) for each in entries]
    scene.emulated.change({"capacityReservations": changed})


def test_m17_with_the_gate_off_reservations_are_neither_described_nor_specified() -> None:
    async def run(scene: ProviderScene) -> None:
        cluster = ClusterConfig(name="wain", region="us-east-1", capacity_reservations=False)
        scene.options = msgspec.structs.replace(scene.options, cluster=cluster)
        scene.cloud = scene.provider()
        await scene.cloud.refresh()
        scene.use(**RESERVATION_SELECTOR)
        wanted = in_requirement(INSTANCE_TYPE, "m5.large").narrow(
            claim_requirements(zone=A, capacity=ON_DEMAND)
        )
        instance = await scene.launch_one(node_claim(1, wanted))
        assert scene.seam.calls_to("DescribeCapacityReservations") == []
        assert specifications(scene, scene.fleets()[0]) == [None]
        (inside,) = scene.running()
        assert inside.reservation == "cr-00000001"  # EC2 put it there by itself
        assert (instance.capacity_type, instance.reservation_id) == (ON_DEMAND, "")
        (listed,) = await scene.cloud.instances()
        assert (listed.capacity_type, listed.reservation_id) == (ON_DEMAND, "")

    run_refreshed_scene(run, reservation_object(1, 1, instanceMatchCriteria="open"))


@pytest.mark.parametrize("wanted", [Requirements(), NOT_SPOT, ONLY_RESERVED])
def test_m41_reserved_comes_before_everything_else(wanted: Requirements) -> None:
    async def run(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        instance = await scene.launch_one(node_claim(1, wanted))
        assert (instance.capacity_type, instance.reservation_id) == (RESERVED, "cr-00000001")
        assert scene.emulated.services.reservations.state.reservations["cr-00000001"].free == 0

    run_refreshed_scene(run, reservation_object(1, 1))


@pytest.mark.parametrize(
    ("wanted", "used"),
    [
        (in_requirement(INSTANCE_TYPE, "c5.large"), ["cr-00000002"]),
        (in_requirement(ZONE, A), ["cr-00000001"]),
        (in_requirement(RESERVATION_ID, "cr-00000003"), ["cr-00000003"]),
        (Requirements(), ["cr-00000001", "cr-00000002", "cr-00000003"]),
    ],
)
def test_m41_only_reservations_that_the_claim_may_use_are_tried(
    wanted: Requirements, used: list[str]
) -> None:
    async def run(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        await scene.launch_one(node_claim(1, wanted))
        assert targets(scene, scene.fleets()[0]) == used

    run_refreshed_scene(
        run,
        reservation_object(1, 1),
        reservation_object(2, 1, "c5.large", B),
        reservation_object(3, 1, "m5.xlarge", B),
    )


def test_m42_m43_each_reservation_has_a_template_and_there_are_no_others() -> None:
    async def run(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        await scene.launch_one(node_claim(1))
        (fleet,) = scene.fleets()
        assert requested_overrides(fleet) == [("c5.large", B), ("m5.large", A)]
        assert len(fleet["LaunchTemplateConfigs"]) == 2
        assert targets(scene, fleet) == ["cr-00000001", "cr-00000002"]
        specs = specifications(scene, fleet)
        assert {each["CapacityReservationPreference"] for each in specs} == {
            "capacity-reservations-only"
        }

    run_refreshed_scene(run, reservation_object(1, 2), reservation_object(2, 2, "c5.large", B))


def test_m44_of_reservations_for_one_type_and_zone_the_most_available_is_targeted() -> None:
    async def run(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        instance = await scene.launch_one(node_claim(1))
        assert targets(scene, scene.fleets()[0]) == ["cr-00000002"]
        assert instance.reservation_id == "cr-00000002"

    run_refreshed_scene(
        run, reservation_object(1, 1), reservation_object(2, 3), reservation_object(3, 2)
    )


def test_m45_no_usage_strategy_is_ever_set() -> None:
    async def run(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        await scene.launch_one(node_claim(1))
        await scene.launch_one(node_claim(2, claim_requirements(capacity=ON_DEMAND)))
        for fleet in scene.fleets():
            assert fleet["OnDemandOptions"] == {"AllocationStrategy": "lowest-price"}
            assert "ReservedCapacityOptions" not in fleet

    run_refreshed_scene(run, reservation_object(1, 1))


def test_m46_an_exceeded_reservation_is_no_capacity_and_then_another_offering_is_launched() -> None:
    entry = reservation_object(1, 1)

    async def run(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        await scene.cloud.resolve("default")
        taken_by_others(scene, entry)
        with pytest.raises(InsufficientCapacityError) as raised:
            await scene.launch_one(node_claim(1, NOT_SPOT))
        assert raised.value.reason == FULL
        assert scene.running() == []
        # The claim is deleted, and its pods get another one.
        instance = await scene.launch_one(node_claim(2, NOT_SPOT))
        assert instance.capacity_type == ON_DEMAND
        assert len(scene.fleets()) == 2

    run_refreshed_scene(run, entry)


def test_o8_full_reservations_are_not_requested() -> None:
    entry = reservation_object(1, 1)

    async def run(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        await scene.launch_one(node_claim(1, ONLY_RESERVED))
        with pytest.raises(InsufficientCapacityError):
            await scene.launch_one(node_claim(2, ONLY_RESERVED))
        assert len(scene.fleets()) == 1
        await scene.cloud.terminate(scene.store.claims["uid-1"].instance)
        instance = await scene.launch_one(node_claim(3, ONLY_RESERVED))
        assert instance.reservation_id == entry.id

    run_refreshed_scene(run, entry)


def test_o8_an_exceeded_reservation_is_not_requested_before_the_next_poll() -> None:
    entry = reservation_object(1, 2)

    async def run(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        await scene.cloud.resolve("default")
        taken_by_others(scene, entry)
        for number in (1, 2):
            with pytest.raises(InsufficientCapacityError):
                await scene.launch_one(node_claim(number, ONLY_RESERVED))
        assert len(scene.fleets()) == 1
        scene.emulated.change({"capacityReservations": [msgspec.to_builtins(entry)]})
        await scene.clock.sleep(61)
        assert (await scene.launch_one(node_claim(3, ONLY_RESERVED))).reservation_id == entry.id

    run_refreshed_scene(run, entry)


def test_o1_a_class_without_terms_uses_no_reservation_and_keeps_out_of_none() -> None:
    async def run(scene: ProviderScene) -> None:
        with pytest.raises(InsufficientCapacityError):
            await scene.launch_one(node_claim(1, ONLY_RESERVED))
        wanted = in_requirement(INSTANCE_TYPE, "m5.large").narrow(
            claim_requirements(zone=A, capacity=ON_DEMAND)
        )
        instance = await scene.launch_one(node_claim(2, wanted))
        assert specifications(scene, scene.fleets()[0]) == [None]
        assert scene.running()[0].reservation == "cr-00000001"
        assert instance.capacity_type == ON_DEMAND

    run_refreshed_scene(run, reservation_object(1, 1, instanceMatchCriteria="open"))


def test_m47_a_class_with_terms_is_kept_out_of_reservations_that_it_does_not_select() -> None:
    other = reservation_object(1, 5, instanceMatchCriteria="open")
    other = msgspec.structs.replace(other, tags={"team": "ops"})

    async def run(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        wanted = in_requirement(INSTANCE_TYPE, "m5.large").narrow(
            claim_requirements(zone=A, capacity=ON_DEMAND)
        )
        await scene.launch_one(node_claim(1, wanted))
        specs = [{"CapacityReservationPreference": "none"}]
        assert specifications(scene, scene.fleets()[0]) == specs
        assert scene.running()[0].reservation is None

    run_refreshed_scene(run, other)


def test_m48_an_ended_reservation_is_offered_no_longer() -> None:
    async def run(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        state = await scene.cloud.resolve("default")
        (listed,) = state.status["capacityReservations"]
        assert (listed["id"], listed["availabilityZone"]) == ("cr-00000001", A)
        await scene.clock.sleep(HOUR + 61)
        state = await scene.cloud.resolve("default")
        assert not state.status.get("capacityReservations")
        with pytest.raises(InsufficientCapacityError):
            await scene.launch_one(node_claim(1, ONLY_RESERVED))
        assert scene.fleets() == []

    run_refreshed_scene(run, reservation_object(1, 1, endTime=iso_timestamp(EPOCH + HOUR)))


def test_m57_acr_6_drift_depends_on_the_current_reservation_of_the_instance() -> None:
    entry = reservation_object(1, 1)

    async def run(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        instance = await scene.launch_one(node_claim(1))
        kept = msgspec.structs.replace(
            scene.store.claims["uid-1"], labels=instance.labels, annotations=instance.annotations
        )
        assert await scene.cloud.drift(kept) is None
        scene.use(capacityReservationSelectorTerms=[{"tags": {"team": "ops"}}])
        assert await scene.cloud.drift(kept) == "CapacityReservationDrift"
        scene.emulated.answer(
            "ec2", "CancelCapacityReservation", {"CapacityReservationId": entry.id}
        )
        assert await scene.cloud.drift(kept) is None
        assert (await scene.cloud.instance(instance.id)).capacity_type == ON_DEMAND

    run_refreshed_scene(run, entry)


def test_acr_2_counts_go_down_and_up_with_launches_between_two_polls() -> None:
    async def run(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)

        async def free() -> int:
            (found,) = (await scene.cloud.catalog("web")).reservations
            return found.available

        assert await free() == 2
        instance = await scene.launch_one(node_claim(1))
        assert await free() == 1
        await scene.cloud.terminate(instance.id)
        assert await free() == 2
        assert len(scene.seam.calls_to("DescribeCapacityReservations")) == 1

    run_refreshed_scene(run, reservation_object(1, 2))


def test_aln_2_throttling_does_not_mark_a_reservation_as_full() -> None:
    async def run(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        await scene.cloud.resolve("default")
        fault = {"operation": "CreateFleet", "code": "RequestLimitExceeded", "status": 503}
        scene.emulated.change({"faults": [fault]})
        (first,) = await scene.launch(node_claim(1, ONLY_RESERVED))
        assert isinstance(first, Exception)
        assert not isinstance(first, InsufficientCapacityError)
        scene.emulated.change({"faults": []})
        assert (
            await scene.launch_one(node_claim(1, ONLY_RESERVED))
        ).reservation_id == "cr-00000001"

    run_refreshed_scene(run, reservation_object(1, 1))


def block(**more: Any) -> Any:
    """A capacity block of one instance, for ten hours."""
    specs = {"reservationType": "capacity-block", "endTime": iso_timestamp(EPOCH + 10 * HOUR)}
    return reservation_object(1, 1, "m5.large", A, **(specs | more))


def test_aln_1_a_capacity_block_has_its_own_market_type() -> None:
    async def run(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        instance = await scene.launch_one(node_claim(1))
        (fleet,) = scene.fleets()
        target = fleet["TargetCapacitySpecification"]["DefaultTargetCapacityType"]
        assert (target, requested_overrides(fleet)) == ("capacity-block", [("m5.large", A)])
        assert "OnDemandOptions" not in fleet
        assert instance.labels[RESERVATION_TYPE] == "capacity-block"

    run_refreshed_scene(run, block())


def test_aln_1_interruptible_reservations_are_requested_as_reserved_capacity() -> None:
    async def run(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        instance = await scene.launch_one(node_claim(1))
        (fleet,) = scene.fleets()
        target = fleet["TargetCapacitySpecification"]["DefaultTargetCapacityType"]
        kinds = fleet["ReservedCapacityOptions"]["ReservationTypes"]
        assert (target, kinds) == ("reserved-capacity", ["interruptible-capacity-reservation"])
        assert instance.labels[RESERVATION_INTERRUPTIBLE] == "true"

    run_refreshed_scene(run, reservation_object(1, 1, interruptible=True))


def test_acr_1_a_block_is_not_launched_into_in_its_last_forty_minutes() -> None:
    async def run(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        await scene.clock.sleep(10 * HOUR - 39 * 60)
        with pytest.raises(InsufficientCapacityError):
            await scene.launch_one(node_claim(1, ONLY_RESERVED))
        assert scene.fleets() == []
        state = await scene.cloud.resolve("default")
        (listed,) = state.status["capacityReservations"]
        assert (listed["reservationType"], listed["state"]) == ("capacity-block", "expiring")

    run_refreshed_scene(run, block())


def test_acr_5_the_condition_is_true_with_and_without_reservations() -> None:
    async def run(scene: ProviderScene) -> None:
        for terms in ({}, RESERVATION_SELECTOR):
            scene.use(**terms)
            state = await scene.cloud.resolve("default")
            found = {each["type"]: each["status"] for each in state.status["conditions"]}
            assert found["CapacityReservationsReady"] == "True"
            assert state.ready

    run_refreshed_scene(run)


def test_fallback_goes_from_reserved_to_spot_to_on_demand() -> None:
    async def run(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        first, second = await scene.launch_one(node_claim(1)), await scene.launch_one(node_claim(2))
        scene.emulated.change({"unavailable": [{"capacityType": SPOT}]})
        third: Any = None
        for number in range(3, 9):
            (third,) = await scene.launch(node_claim(number))
            if not isinstance(third, InsufficientCapacityError):
                break
        found = [each.capacity_type for each in (first, second, third)]
        assert found == [RESERVED, SPOT, ON_DEMAND]

    run_refreshed_scene(run, reservation_object(1, 1))


def test_m16_claims_are_launched_into_the_reservations_of_a_group() -> None:
    group = "arn:aws:resource-groups:us-east-1:111122223333:group/web"

    async def run(scene: ProviderScene) -> None:
        scene.use(capacityReservationSelectorTerms=[{"reservationGroup": group}])
        launched = await scene.launch(*(node_claim(each, ONLY_RESERVED) for each in range(1, 4)))
        found = {each.labels[RESERVATION_ID] for each in launched[:2]}
        assert found == {"cr-00000001", "cr-00000002"}
        assert isinstance(launched[2], InsufficientCapacityError)  # the third is in no group
        status = (await scene.cloud.resolve("default")).status["capacityReservations"]
        assert [each["reservationGroups"] for each in status] == [[group], [group]]

    run_refreshed_scene(
        run,
        reservation_object(1, 1, groups=[group]),
        reservation_object(2, 1, zone=B, groups=[group]),
        reservation_object(3, 1),
    )
