"""What is bought for a claim: reserved before spot before on-demand, cheapest first."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from tests.support.aws_account import discovered_node_class
from tests.support.aws_provider import (
    ONLY_RESERVED,
    RESERVATION_SELECTOR,
    A,
    B,
    C,
    claim_requirements,
    node_claim,
    reservation_object,
)

from wainwright.api.catalog_documents import (
    Cloud,
    CloudPrice,
    CloudSpec,
    InstanceType,
    NodeOverlay,
    UnavailableOffering,
)
from wainwright.aws.launch.offering_selection import LaunchSelection, LaunchSelector, select_launch
from wainwright.catalogue.class_catalog import CatalogBuilder, NodeClassCatalog
from wainwright.catalogue.region_catalog import CatalogInputs, CatalogScope
from wainwright.errors import InsufficientCapacityError
from wainwright.model.labels import (
    INSTANCE_FAMILY,
    INSTANCE_TENANCY,
    INSTANCE_TYPE,
    RESERVATION_ID,
    SPOT,
    ZONE,
)
from wainwright.model.requirements import Requirements

TYPES = ["m5.large", "m5.xlarge", "c5.large", "m6g.large", "g4dn.xlarge", "m5.metal"]


def catalogue(*reservations: Any, types: list[str] | None = None, **more: Any) -> NodeClassCatalog:
    spec = CloudSpec(
        region="us-east-1",
        zones=[A, B, C],
        instanceTypes=types or TYPES,
        capacityReservations=list(reservations),
        **{key: more.pop(key) for key in ("prices", "unavailable") if key in more},
    )
    wanted = discovered_node_class(**(RESERVATION_SELECTOR if reservations else {}))
    supply = CatalogInputs(now=datetime(2026, 1, 1, tzinfo=UTC), cloud=Cloud(spec=spec), **more)
    return CatalogBuilder(supply).build(CatalogScope(node_class=wanted))


def chosen(
    wanted: Requirements, built: NodeClassCatalog, free: int = 9, **more: Any
) -> LaunchSelection:
    return select_launch(node_claim(1, wanted, **more), built, lambda _: free)


def kinds(choice: LaunchSelection) -> set[str]:
    return {offering.kind for offering in choice.offerings}


def listed(key: str, *values: str) -> tuple[str, str, tuple[str, ...], None]:
    return (key, "In", values, None)


@pytest.mark.parametrize(
    ("allowed", "bought"),
    [
        (("reserved", "spot", "on-demand"), "reserved"),
        (("spot", "on-demand"), "spot"),
        (("reserved", "on-demand"), "reserved"),
        (("on-demand",), "on-demand"),
        (("spot",), "spot"),
    ],
)
def test_reserved_before_spot_before_on_demand(allowed: tuple[str, ...], bought: str) -> None:
    wanted = claim_requirements(listed("karpenter.sh/capacity-type", *allowed))
    found = chosen(wanted, catalogue(reservation_object(1, 2)))
    assert found.capacity_type == bought
    assert all(bool(offering.reservation) is (bought == "reserved") for offering in found.offerings)


def test_a_full_reservation_is_left_out() -> None:
    built = catalogue(reservation_object(1, 2), reservation_object(2, 2, zone=B))
    found = select_launch(
        node_claim(1, ONLY_RESERVED), built, {"cr-00000001": 0, "cr-00000002": 1}.__getitem__
    )
    assert [offering.reservation for offering in found.offerings] == ["cr-00000002"]


def test_with_all_reservations_full_there_is_no_capacity() -> None:
    built = catalogue(reservation_object(1, 2))
    with pytest.raises(InsufficientCapacityError, match="in use"):
        chosen(ONLY_RESERVED, built, free=0)
    pinned = claim_requirements(listed(RESERVATION_ID, "cr-00000001"))
    with pytest.raises(InsufficientCapacityError):
        chosen(pinned, built, free=0)


def test_who_may_have_others_gets_them_when_reservations_are_full() -> None:
    assert chosen(Requirements(), catalogue(reservation_object(1, 2)), free=0).capacity_type == SPOT


def test_only_reservations_for_what_the_claim_asks() -> None:
    built = catalogue(
        reservation_object(1, 2),
        reservation_object(2, 2, zone=B),
        reservation_object(3, 2, kind="m5.xlarge"),
    )
    in_b = chosen(claim_requirements(capacity="reserved", zone=B), built)
    assert [offering.reservation for offering in in_b.offerings] == ["cr-00000002"]
    large = chosen(
        claim_requirements(listed(INSTANCE_TYPE, "m5.large"), capacity="reserved"), built
    )
    assert {offering.reservation for offering in large.offerings} == {"cr-00000001", "cr-00000002"}


def test_reservations_of_one_type_only_the_cheapest() -> None:
    block = reservation_object(
        2, 2, kind="m5.xlarge", reservationType="capacity-block", endTime="2026-02-01T00:00:00Z"
    )
    found = chosen(ONLY_RESERVED, catalogue(reservation_object(1, 2), block))
    assert (found.reservation_type, kinds(found)) == ("default", {"m5.large"})


def test_of_capacity_blocks_the_single_cheapest() -> None:
    ends = "2026-02-01T00:00:00Z"
    blocks = [
        reservation_object(
            number, 2, kind=kind, zone=zone, reservationType="capacity-block", endTime=ends
        )
        for number, kind, zone in [(1, "m5.xlarge", A), (2, "m5.large", B), (3, "m5.large", C)]
    ]
    found = chosen(ONLY_RESERVED, catalogue(*blocks))
    assert found.reservation_type == "capacity-block"
    assert [(offering.kind, offering.zone) for offering in found.offerings] == [("m5.large", B)]


def test_interruptible_reservations_are_a_market_of_their_own() -> None:
    found = chosen(ONLY_RESERVED, catalogue(reservation_object(1, 2, interruptible=True)))
    assert found.interruptible


def test_sixty_types_the_cheapest() -> None:
    found = chosen(claim_requirements(capacity="on-demand"), catalogue(types=["*"]))
    assert len(kinds(found)) == 60
    prices = [offering.price for offering in found.offerings]
    assert prices == sorted(prices)


def test_min_values_are_kept_among_the_sixty() -> None:
    families = (INSTANCE_FAMILY, "Exists", (), 40)
    found = chosen(claim_requirements(families, capacity="on-demand"), catalogue(types=["*"]))
    assert len({name.partition(".")[0] for name in kinds(found)}) >= 40


def test_min_values_that_cannot_be_kept_are_no_capacity() -> None:
    built = catalogue(types=["m5.large", "c5.large"])
    many = claim_requirements((INSTANCE_FAMILY, "Exists", (), 3), capacity="on-demand")
    with pytest.raises(InsufficientCapacityError, match="minValues"):
        chosen(many, built)
    gone = catalogue(
        types=["m5.large", "c5.large"],
        unavailable=[UnavailableOffering(instanceType="c5.large", capacityType="on-demand")],
    )
    with pytest.raises(InsufficientCapacityError, match="minValues"):
        chosen(claim_requirements((INSTANCE_FAMILY, "Exists", (), 2), capacity="on-demand"), gone)


def test_spot_dearer_than_on_demand_is_dropped() -> None:
    dear = [CloudPrice(instanceType="m5.xlarge", capacityType="spot", price=0.09)]
    built = catalogue(types=["m5.large", "m5.xlarge", "c5.large"], prices=dear)
    assert kinds(chosen(Requirements(), built)) == {"m5.large", "c5.large"}
    all_dear = [
        CloudPrice(instanceType=name, capacityType="spot", price=1.0)
        for name in ("m5.large", "m5.xlarge", "c5.large")
    ]
    dearer = catalogue(types=["m5.large", "m5.xlarge", "c5.large"], prices=all_dear)
    assert chosen(Requirements(), dearer).capacity_type == "on-demand"
    assert chosen(claim_requirements(capacity="spot"), dearer).capacity_type == "spot"


def test_whole_machines_and_accelerators_only_where_asked_for() -> None:
    built = catalogue()
    assert kinds(chosen(claim_requirements(capacity="on-demand"), built)).isdisjoint(
        {"g4dn.xlarge", "m5.metal"}
    )
    named = claim_requirements(
        listed(INSTANCE_TYPE, "g4dn.xlarge", "m5.metal"), capacity="on-demand"
    )
    assert kinds(chosen(named, built)) == {"g4dn.xlarge", "m5.metal"}


def test_what_is_too_small_is_not_bought() -> None:
    roomy = chosen(claim_requirements(capacity="on-demand"), catalogue(), requests={"cpu": 3000})
    assert kinds(roomy) == {"m5.xlarge"}
    with pytest.raises(InsufficientCapacityError, match="room"):
        chosen(Requirements(), catalogue(), requests={"cpu": 10_000_000})


def test_labels_that_no_type_has_are_told() -> None:
    with pytest.raises(InsufficientCapacityError, match="labels"):
        chosen(claim_requirements(listed(INSTANCE_TYPE, "z9.huge")), catalogue())


def test_what_is_out_of_stock_is_not_asked_for() -> None:
    built = catalogue(
        types=["m5.large"],
        unavailable=[
            UnavailableOffering(instanceType="m5.large", zone=A, capacityType="on-demand")
        ],
    )
    found = chosen(claim_requirements(capacity="on-demand"), built)
    assert {offering.zone for offering in found.offerings} == {B, C}


@pytest.mark.parametrize(
    ("allowed", "tenancy"),
    [((), "default"), (("default", "dedicated"), "default"), (("dedicated",), "dedicated")],
)
def test_shared_hardware_wherever_that_will_do(allowed: tuple[str, ...], tenancy: str) -> None:
    entries = [listed(INSTANCE_TENANCY, *allowed)] if allowed else []
    assert (
        chosen(claim_requirements(*entries, capacity="on-demand"), catalogue()).tenancy == tenancy
    )


def test_other_tenancies_do_not_exist() -> None:
    with pytest.raises(InsufficientCapacityError, match="tenancy"):
        chosen(claim_requirements(listed(INSTANCE_TENANCY, "host")), catalogue())


def test_reservations_are_for_shared_hardware() -> None:
    wanted = claim_requirements(listed(INSTANCE_TENANCY, "dedicated"))
    assert chosen(wanted, catalogue(reservation_object(1, 2))).capacity_type == SPOT


def test_an_offering_for_any_zone_is_bought_in_those_that_the_claim_may_have() -> None:
    item = msgspec.convert(
        {
            "metadata": {"name": "m5.large"},
            "spec": {
                "offerings": [
                    {"karpenter.sh/capacity-type": "on-demand", "karpenter.sh/price": 0.01}
                ]
            },
        },
        InstanceType,
    )
    built = catalogue(types=["m5.large"], instance_types=(item,))
    found = chosen(claim_requirements(listed(ZONE, A, B)), built)
    assert {offering.zone for offering in found.offerings} == {A, B}
    assert found.prioritised


def test_what_is_remembered_depends_on_what_is_free() -> None:
    chooser, free = LaunchSelector(catalogue(reservation_object(1, 2))), {"cr-00000001": 1}
    first = chooser.choose(node_claim(1), free.__getitem__)
    assert chooser.choose(node_claim(2), free.__getitem__) is first
    assert (
        chooser.choose(node_claim(3, claim_requirements(zone=B)), free.__getitem__).capacity_type
        == SPOT
    )
    free["cr-00000001"] = 0
    assert (first.capacity_type, chooser.choose(node_claim(4), free.__getitem__).capacity_type) == (
        "reserved",
        "spot",
    )
    assert chooser.choose(node_claim(5, requests={"cpu": 3000}), free.__getitem__) is not first


OVERLAY = {
    "metadata": {"name": "discount"},
    "spec": {
        "requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}
        ],
        "priceAdjustment": "-10%",
    },
}


@pytest.mark.parametrize(("capacity", "told"), [("spot", True), ("on-demand", False)])
def test_ec2_is_told_of_prices_that_are_not_its_own(capacity: str, told: bool) -> None:
    built = catalogue(overlays=(msgspec.convert(OVERLAY, NodeOverlay),))
    assert chosen(claim_requirements(capacity=capacity), built).prioritised is told


def test_few_types_for_spot_are_worth_a_note() -> None:
    (note,) = chosen(claim_requirements(capacity="spot"), catalogue(types=["m5.large"])).notes
    assert "a choice of 1 for" in note
    assert not chosen(claim_requirements(capacity="on-demand"), catalogue(types=["m5.large"])).notes
