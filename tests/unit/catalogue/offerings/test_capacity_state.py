"""Offerings without capacity, as a Cloud or an account states them."""

from tests.support.catalogue_builders import (
    NOW,
    build_catalogue,
    cloud_object,
    layered_offering,
    node_class_object,
)

from wainwright.catalogue.catalog_source import offline_source
from wainwright.catalogue.class_catalog import CatalogBuilder, NodeClassCatalog
from wainwright.catalogue.offerings.capacity_state import (
    CapacityState,
    UnavailableKey,
    apply_unavailability,
    stated_capacity,
)
from wainwright.catalogue.offerings.layered_offering import LayeredOffering
from wainwright.catalogue.region_catalog import CatalogInputs, CatalogScope

ZONES = {"zone-a": "id-a", "zone-b": ""}


def availability(
    entry: dict[str, str], *offerings: LayeredOffering
) -> list[tuple[str | None, int]]:
    capacity = stated_capacity(cloud_object(unavailable=[entry]), NOW)
    offerings_after, unused = apply_unavailability(
        capacity.unavailable, {"m5.large": offerings}, ZONES
    )
    assert not unused
    return [(each.zone, int(each.available > 0)) for each in offerings_after["m5.large"]]


def test_a_field_that_is_not_set_matches_everything() -> None:
    reserved = layered_offering(capacity_type="reserved", reservation_id="cr-1", available=3)
    assert availability(
        {"zone": "zone-a"}, layered_offering(), reserved, layered_offering(zone="zone-b")
    ) == [
        ("zone-a", 0),
        ("zone-a", 0),
        ("zone-b", 1),
    ]


def test_types_are_matched_by_pattern() -> None:
    assert availability({"instanceType": "m5*"}, layered_offering()) == [("zone-a", 0)]


def test_an_offering_for_any_zone_is_split_when_one_zone_is_unavailable() -> None:
    any_zone = layered_offering(zone=None)
    assert availability({"zone": "zone-b"}, any_zone) == [("zone-a", 1), ("zone-b", 0)]


def test_an_offering_of_another_capacity_type_is_not_split() -> None:
    spot, any_zone = (
        layered_offering(zone="zone-b", capacity_type="spot"),
        layered_offering(zone=None),
    )
    assert availability({"zone": "zone-b", "capacityType": "spot"}, spot, any_zone) == [
        ("zone-b", 0),
        (None, 1),
    ]


NOWHERE = UnavailableKey("m5.large", "us-east-1z", "spot")
SELECTING = CatalogScope(
    node_class=node_class_object(capacityReservationSelectorTerms=[{"id": "cr-1"}])
)


def catalogue_of_account(capacity: CapacityState) -> NodeClassCatalog:
    inputs = CatalogInputs(source=offline_source(), capacity=capacity)
    return CatalogBuilder(inputs).build(SELECTING)


def test_keys_without_an_offering_are_a_mistake_in_a_cloud_and_not_in_an_account() -> None:
    stated = cloud_object(unavailable=[{"instanceType": "m5.large", "zone": "us-west-2z"}])
    (warning,) = build_catalogue(cloud=stated).diagnostics
    assert str(warning).startswith("Cloud test: spec.unavailable[0]: there is no such offering")
    capacity = CapacityState(now=NOW, unavailable=(NOWHERE,), from_account=True)
    (other,) = catalogue_of_account(capacity).diagnostics
    assert "unavailable" not in str(other)


def test_warnings_about_an_account_name_its_reservation_and_no_cloud() -> None:
    stated = cloud_object(
        capacityReservations=[
            {"id": "cr-1", "instanceType": "m5.large", "availabilityZone": "us-east-9a", "total": 1}
        ]
    )
    reservations = stated_capacity(stated, NOW).reservations
    capacity = CapacityState(now=NOW, reservations=reservations, from_account=True)
    (warning,) = catalogue_of_account(capacity).diagnostics
    assert str(warning) == (
        "capacity reservation cr-1: cr-1 lies in a zone that the region does not have, "
        "and is not offered"
    )
    (none_selected,) = catalogue_of_account(CapacityState(now=NOW, from_account=True)).diagnostics
    assert "selects no capacity reservation of the account" in str(none_selected)


def test_a_builder_takes_another_capacity_for_the_same_class() -> None:
    scope = CatalogScope(node_class=node_class_object())
    builder = CatalogBuilder(
        CatalogInputs(source=offline_source(), capacity=CapacityState(now=NOW))
    )
    key = UnavailableKey("m5.large", None, None)
    plain, without = (
        builder.build(scope),
        builder.build(scope, CapacityState(now=NOW, unavailable=(key,))),
    )
    assert {each.available for each in without.by_name["m5.large"].offerings} == {0}
    assert 0 not in {each.available for each in plain.by_name["m5.large"].offerings}
    assert builder.build(scope).types == plain.types
