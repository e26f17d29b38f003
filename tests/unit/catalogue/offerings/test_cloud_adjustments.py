"""Unavailable offerings, and fees of nodes."""

from typing import Any

import pytest
from tests.support.catalogue_builders import (
    build_catalogue,
    catalog_object,
    cloud_object,
    layered_offering,
    node_class_object,
)

from wainwright.catalogue.offerings.cloud_adjustments import apply_unavailability
from wainwright.catalogue.offerings.layered_offering import LayeredOffering
from wainwright.catalogue.region_catalog import CatalogScope

ZONES = {"zone-a": "id-a", "zone-b": ""}


def availability(
    entry: dict[str, str], *offerings: LayeredOffering
) -> list[tuple[str | None, int]]:
    offerings_after, diagnostics = apply_unavailability(
        cloud_object(unavailable=[entry]), {"m5.large": offerings}, ZONES
    )
    assert not diagnostics
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


@pytest.mark.parametrize(
    ("spec", "gibibytes"),
    [
        ({}, 20),
        ({"amiFamily": "Bottlerocket", "amiSelectorTerms": [{"id": "ami-1"}]}, 24),
        ({"amiFamily": "Windows2022", "amiSelectorTerms": [{"id": "ami-1"}]}, 50),
        ({"amiFamily": "Custom"}, 20),
        ({"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "7Gi"}}]}, 7),
        ({"annotations": {"wainwright.dev/storage-per-pod": "2Gi"}}, 130),
    ],
)
def test_volume_fees_are_per_gibibyte(spec: dict[str, Any], gibibytes: int) -> None:
    fees = cloud_object(instanceTypes=["m5.xlarge"], fees={"perGiBDisk": 1, "perNode": 1000})
    made = build_catalogue(CatalogScope(node_class=node_class_object(**spec)), cloud=fees)
    assert made.fees == {"m5.xlarge": 1000 + gibibytes}


def test_with_a_catalog_ephemeral_storage_is_the_volume_size() -> None:
    rack = {"name": "rack", "capacity": {"cpu": "1", "ephemeral-storage": "30Gi"}}
    made = build_catalogue(
        catalog=catalog_object(rack), cloud=cloud_object(region="dc-1", fees={"perGiBDisk": 1})
    )
    assert made.fee == 30


def test_fees_of_zero_are_left_out() -> None:
    assert (
        build_catalogue(cloud=cloud_object(instanceTypes=["m5.large"], fees={"perNode": 0})).fees
        == {}
    )
