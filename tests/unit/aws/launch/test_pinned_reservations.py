"""Claims that are pinned to the reservation that the plan counted for them."""

from typing import Any

import pytest
from tests.support.aws_provider import (
    ONLY_RESERVED,
    RESERVATION_SELECTOR,
    A,
    B,
    ProviderScene,
    in_requirement,
    node_claim,
    reservation_object,
    run_scene,
)

from wainwright.errors import InsufficientCapacityError
from wainwright.model.labels import RESERVATION_ID
from wainwright.model.node_claim import NodeClaim

FIRST, SECOND = "cr-00000001", "cr-00000002"
TWO = (reservation_object(1, 2), reservation_object(2, 3))


def pinned(number: int, reservation: str, **more: Any) -> NodeClaim:
    requirements = ONLY_RESERVED.narrow(in_requirement(RESERVATION_ID, reservation))
    return node_claim(number, requirements, **more)


def use_up(scene: ProviderScene, number: int, **more: Any) -> None:
    """Somebody else uses a reservation, which only EC2 knows."""
    taken = {"instanceType": "m5.large", "availabilityZone": A, "total": 2, **more}
    entry = {"id": f"cr-{number:08}", "available": 0, "tags": {"team": "web"}, **taken}
    scene.emulated.change({"capacityReservations": [entry]})


def used(results: list[Any]) -> list[str]:
    return [getattr(each, "reservation_id", type(each).__name__) for each in results]


def test_five_claims_over_two_reservations_all_succeed() -> None:
    async def test(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        planned = [FIRST, SECOND, FIRST, SECOND, SECOND]
        claims = [pinned(number, each) for number, each in enumerate(planned)]
        assert used(await scene.launch(*claims)) == planned

    run_scene(test, *TWO)


def test_claims_that_are_not_pinned_fill_both_reservations() -> None:
    async def test(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        found = await scene.launch(*(node_claim(number, ONLY_RESERVED) for number in range(6)))
        expected = [SECOND] * 3 + [FIRST] * 2 + ["InsufficientCapacityError"]
        assert used(found) == expected
        assert len(scene.fleets()) == 2

    run_scene(test, *TWO)


def test_another_reservation_of_the_same_type_and_zone_stands_in_for_a_full_one() -> None:
    async def test(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        await scene.cloud.resolve("default")
        use_up(scene, 1)
        instance = await scene.launch_one(pinned(1, FIRST))
        assert instance.reservation_id == SECOND
        assert instance.labels[RESERVATION_ID] == SECOND
        requirement = scene.store.claims["uid-1"].requirements
        assert requirement.single_value(RESERVATION_ID) == FIRST
        assert [each.attempt for _, each in scene.store.recorded] == [1, 2]
        (later,) = await scene.launch(pinned(2, FIRST))  # known to be full: not requested again
        assert later.reservation_id == SECOND
        assert len(scene.fleets()) == 3

    run_scene(test, *TWO)


def test_the_reservation_that_is_used_is_counted_and_recovered() -> None:
    async def test(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        await scene.cloud.resolve("default")
        use_up(scene, 1)
        first = await scene.launch_one(pinned(1, FIRST))
        scene.store.set_instance("uid-1", "")
        scene.cloud = scene.provider()
        await scene.cloud.refresh()
        found = await scene.launch_one(pinned(1, FIRST))
        assert (found.id, found.labels[RESERVATION_ID]) == (first.id, SECOND)
        assert found.price == first.price

    run_scene(test, *TWO)


@pytest.mark.parametrize(
    "other",
    [
        reservation_object(2, 3, "c5.large"),
        reservation_object(2, 3, "m5.large", B),
        reservation_object(2, 3, interruptible=True),
    ],
    ids=["type", "zone", "interruptible"],
)
def test_a_reservation_that_differs_does_not_stand_in(other: Any) -> None:
    async def test(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        await scene.cloud.resolve("default")
        use_up(scene, 1)
        (found,) = await scene.launch(pinned(1, FIRST))
        assert isinstance(found, InsufficientCapacityError)
        assert found.reason == "ReservationCapacityExceeded"

    run_scene(test, reservation_object(1, 2), other)


def test_a_reservation_that_pool_or_pods_require_is_not_replaced() -> None:
    async def test(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        await scene.cloud.resolve("default")
        use_up(scene, 1)
        (found,) = await scene.launch(pinned(1, FIRST, reservation_required=True))
        assert isinstance(found, InsufficientCapacityError)

    run_scene(test, *TWO)


def test_a_call_that_fails_as_a_whole_empties_the_reservation_too() -> None:
    async def test(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        await scene.cloud.resolve("default")
        fault = {"operation": "CreateFleet", "code": "ReservationCapacityExceeded", "status": 400}
        scene.emulated.change({"faults": [fault]})
        for number in (1, 2):
            (found,) = await scene.launch(node_claim(number, ONLY_RESERVED))
            assert isinstance(found, InsufficientCapacityError)
        assert len(scene.fleets()) == 1
        (state,) = (await scene.cloud.catalog("web")).reservations
        assert state.available == 0

    run_scene(test, reservation_object(1, 2))
