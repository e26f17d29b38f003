"""What is launched for a claim: reserved before spot before on-demand, cheapest first."""

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
from tests.support.catalogue_builders import catalog_inputs

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
from wainwright.catalogue.region_catalog import CatalogScope
from wainwright.errors import InsufficientCapacityError
from wainwright.model.labels import (
    INSTANCE_FAMILY,
    INSTANCE_TENANCY,
    INSTANCE_TYPE,
    RESERVATION_ID,
    SPOT,
    ZONE,
    ZONE_ID,
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
    supply = catalog_inputs(cloud=Cloud(spec=spec), **more)
    return CatalogBuilder(supply).build(CatalogScope(node_class=wanted))


def chosen(
    wanted: Requirements, catalog: NodeClassCatalog, free: int = 9, **more: Any
) -> LaunchSelection:
    return select_launch(node_claim(1, wanted, **more), catalog, lambda _: free)


def types_of(selection: LaunchSelection) -> set[str]:
    return {offering.instance_type for offering in selection.offerings}


def listed(key: str, *values: str) -> tuple[str, str, tuple[str, ...], None]:
    return (key, "In", values, None)


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [
        (("reserved", "spot", "on-demand"), "reserved"),
        (("spot", "on-demand"), "spot"),
        (("reserved", "on-demand"), "reserved"),
        (("on-demand",), "on-demand"),
        (("spot",), "spot"),
    ],
)
def test_reserved_before_spot_before_on_demand(allowed: tuple[str, ...], expected: str) -> None:
    wanted = claim_requirements(listed("karpenter.sh/capacity-type", *allowed))
    found = chosen(wanted, catalogue(reservation_object(1, 2)))
    assert found.capacity_type == expected
    assert all(
        bool(offering.reservation) is (expected == "reserved") for offering in found.offerings
    )


def test_a_full_reservation_is_left_out() -> None:
    catalog = catalogue(reservation_object(1, 2), reservation_object(2, 2, zone=B))
    found = select_launch(
        node_claim(1, ONLY_RESERVED), catalog, {"cr-00000001": 0, "cr-00000002": 1}.__getitem__
    )
    assert [offering.reservation for offering in found.offerings] == ["cr-00000002"]


def test_with_all_reservations_full_there_is_no_capacity() -> None:
    catalog = catalogue(reservation_object(1, 2))
    with pytest.raises(InsufficientCapacityError, match="in use"):
        chosen(ONLY_RESERVED, catalog, free=0)
    pinned = claim_requirements(listed(RESERVATION_ID, "cr-00000001"))
    with pytest.raises(InsufficientCapacityError):
        chosen(pinned, catalog, free=0)


def test_a_claim_that_allows_others_gets_them_when_reservations_are_full() -> None:
    assert chosen(Requirements(), catalogue(reservation_object(1, 2)), free=0).capacity_type == SPOT


def test_only_reservations_that_the_claim_allows() -> None:
    catalog = catalogue(
        reservation_object(1, 2),
        reservation_object(2, 2, zone=B),
        reservation_object(3, 2, instance_type="m5.xlarge"),
    )
    in_b = chosen(claim_requirements(capacity="reserved", zone=B), catalog)
    assert [offering.reservation for offering in in_b.offerings] == ["cr-00000002"]
    large = chosen(
        claim_requirements(listed(INSTANCE_TYPE, "m5.large"), capacity="reserved"), catalog
    )
    assert {offering.reservation for offering in large.offerings} == {"cr-00000001", "cr-00000002"}


def test_only_reservations_of_the_cheapest_type() -> None:
    block = reservation_object(
        2,
        2,
        instance_type="m5.xlarge",
        reservationType="capacity-block",
        endTime="2026-02-01T00:00:00Z",
    )
    found = chosen(ONLY_RESERVED, catalogue(reservation_object(1, 2), block))
    assert (found.reservation_type, types_of(found)) == ("default", {"m5.large"})


def test_only_the_cheapest_capacity_block() -> None:
    ends = "2026-02-01T00:00:00Z"
    blocks = [
        reservation_object(
            number,
            2,
            instance_type=instance_type,
            zone=zone,
            reservationType="capacity-block",
            endTime=ends,
        )
        for number, instance_type, zone in [
            (1, "m5.xlarge", A),
            (2, "m5.large", B),
            (3, "m5.large", C),
        ]
    ]
    found = chosen(ONLY_RESERVED, catalogue(*blocks))
    assert found.reservation_type == "capacity-block"
    assert [(offering.instance_type, offering.zone) for offering in found.offerings] == [
        ("m5.large", B)
    ]


def test_interruptible_reservations_are_not_mixed_with_others() -> None:
    found = chosen(ONLY_RESERVED, catalogue(reservation_object(1, 2, interruptible=True)))
    assert found.interruptible


def test_the_sixty_cheapest_types() -> None:
    found = chosen(claim_requirements(capacity="on-demand"), catalogue(types=["*"]))
    assert len(types_of(found)) == 60
    prices = [offering.price for offering in found.offerings]
    assert prices == sorted(prices)


def test_min_values_are_kept_among_the_sixty() -> None:
    families = (INSTANCE_FAMILY, "Exists", (), 40)
    found = chosen(claim_requirements(families, capacity="on-demand"), catalogue(types=["*"]))
    assert len({name.partition(".")[0] for name in types_of(found)}) >= 40


def test_min_values_that_cannot_be_met_are_insufficient_capacity() -> None:
    catalog = catalogue(types=["m5.large", "c5.large"])
    many = claim_requirements((INSTANCE_FAMILY, "Exists", (), 3), capacity="on-demand")
    with pytest.raises(InsufficientCapacityError, match="minValues"):
        chosen(many, catalog)
    gone = catalogue(
        types=["m5.large", "c5.large"],
        unavailable=[UnavailableOffering(instanceType="c5.large", capacityType="on-demand")],
    )
    with pytest.raises(InsufficientCapacityError, match="minValues"):
        chosen(claim_requirements((INSTANCE_FAMILY, "Exists", (), 2), capacity="on-demand"), gone)


def test_spot_dearer_than_on_demand_is_dropped() -> None:
    dear = [CloudPrice(instanceType="m5.xlarge", capacityType="spot", price=0.09)]
    catalog = catalogue(types=["m5.large", "m5.xlarge", "c5.large"], prices=dear)
    assert types_of(chosen(Requirements(), catalog)) == {"m5.large", "c5.large"}
    all_dear = [
        CloudPrice(instanceType=name, capacityType="spot", price=1.0)
        for name in ("m5.large", "m5.xlarge", "c5.large")
    ]
    dearer = catalogue(types=["m5.large", "m5.xlarge", "c5.large"], prices=all_dear)
    assert chosen(Requirements(), dearer).capacity_type == "on-demand"
    assert chosen(claim_requirements(capacity="spot"), dearer).capacity_type == "spot"


def test_metal_and_accelerators_only_if_required() -> None:
    catalog = catalogue()
    assert types_of(chosen(claim_requirements(capacity="on-demand"), catalog)).isdisjoint(
        {"g4dn.xlarge", "m5.metal"}
    )
    named = claim_requirements(
        listed(INSTANCE_TYPE, "g4dn.xlarge", "m5.metal"), capacity="on-demand"
    )
    assert types_of(chosen(named, catalog)) == {"g4dn.xlarge", "m5.metal"}


def test_types_that_are_too_small_are_not_launched() -> None:
    roomy = chosen(claim_requirements(capacity="on-demand"), catalogue(), requests={"cpu": 3000})
    assert types_of(roomy) == {"m5.xlarge"}
    with pytest.raises(InsufficientCapacityError, match="room"):
        chosen(Requirements(), catalogue(), requests={"cpu": 10_000_000})


def test_labels_that_no_type_has_are_reported() -> None:
    with pytest.raises(InsufficientCapacityError, match="labels"):
        chosen(claim_requirements(listed(INSTANCE_TYPE, "z9.huge")), catalogue())


def test_unavailable_offerings_are_not_requested() -> None:
    catalog = catalogue(
        types=["m5.large"],
        unavailable=[
            UnavailableOffering(instanceType="m5.large", zone=A, capacityType="on-demand")
        ],
    )
    found = chosen(claim_requirements(capacity="on-demand"), catalog)
    assert {offering.zone for offering in found.offerings} == {B, C}


@pytest.mark.parametrize(
    ("allowed", "tenancy"),
    [((), "default"), (("default", "dedicated"), "default"), (("dedicated",), "dedicated")],
)
def test_shared_tenancy_if_the_claim_allows_it(allowed: tuple[str, ...], tenancy: str) -> None:
    entries = [listed(INSTANCE_TENANCY, *allowed)] if allowed else []
    assert (
        chosen(claim_requirements(*entries, capacity="on-demand"), catalogue()).tenancy == tenancy
    )


def test_other_tenancies_are_rejected() -> None:
    with pytest.raises(InsufficientCapacityError, match="tenancy"):
        chosen(claim_requirements(listed(INSTANCE_TENANCY, "host")), catalogue())


def test_reservations_are_for_shared_tenancy() -> None:
    wanted = claim_requirements(listed(INSTANCE_TENANCY, "dedicated"))
    assert chosen(wanted, catalogue(reservation_object(1, 2))).capacity_type == SPOT


def test_an_offering_without_zone_is_launched_in_the_zones_that_the_claim_allows() -> None:
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
    catalog = catalogue(types=["m5.large"], instance_types=(item,))
    found = chosen(claim_requirements(listed(ZONE, A, B)), catalog)
    assert {offering.zone for offering in found.offerings} == {A, B}
    assert found.prioritised
    by_id = chosen(claim_requirements(listed(ZONE_ID, catalog.zones[B])), catalog)
    assert {offering.zone for offering in by_id.offerings} == {B}


def test_cached_selections_depend_on_full_reservations() -> None:
    selector, free = LaunchSelector(catalogue(reservation_object(1, 2))), {"cr-00000001": 1}
    first = selector.select(node_claim(1), free.__getitem__)
    assert selector.select(node_claim(2), free.__getitem__) is first
    assert (
        selector.select(node_claim(3, claim_requirements(zone=B)), free.__getitem__).capacity_type
        == SPOT
    )
    free["cr-00000001"] = 0
    assert (
        first.capacity_type,
        selector.select(node_claim(4), free.__getitem__).capacity_type,
    ) == (
        "reserved",
        "spot",
    )
    assert selector.select(node_claim(5, requests={"cpu": 3000}), free.__getitem__) is not first


OVERLAY = {
    "metadata": {"name": "discount"},
    "spec": {
        "requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}
        ],
        "priceAdjustment": "-10%",
    },
}


@pytest.mark.parametrize(("capacity", "prioritized"), [("spot", True), ("on-demand", False)])
def test_overridden_prices_make_a_launch_prioritized(capacity: str, prioritized: bool) -> None:
    catalog = catalogue(overlays=(msgspec.convert(OVERLAY, NodeOverlay),))
    assert chosen(claim_requirements(capacity=capacity), catalog).prioritised is prioritized


def test_few_types_for_spot_give_a_note() -> None:
    (note,) = chosen(claim_requirements(capacity="spot"), catalogue(types=["m5.large"])).notes
    assert "a choice of 1 for" in note
    assert not chosen(claim_requirements(capacity="on-demand"), catalogue(types=["m5.large"])).notes


def test_an_earlier_process_may_have_used_only_reservations_of_types_that_fit() -> None:
    selector = LaunchSelector(
        catalogue(reservation_object(1, 2), reservation_object(2, 2, instance_type="m5.xlarge"))
    )
    small = node_claim(1, ONLY_RESERVED)
    large = node_claim(2, ONLY_RESERVED, requests={"cpu": 3000})
    assert selector.possible_reservations(small) == {"cr-00000001", "cr-00000002"}
    assert selector.possible_reservations(large) == {"cr-00000002"}
