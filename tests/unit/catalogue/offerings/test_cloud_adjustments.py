"""What is out of stock, and what fees come to."""

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


def left(entry: dict[str, str], *offerings: LayeredOffering) -> list[tuple[str | None, int]]:
    found, remarks = apply_unavailability(
        cloud_object(unavailable=[entry]), {"m5.large": offerings}, ZONES
    )
    assert not remarks
    return [(each.zone, int(each.available > 0)) for each in found["m5.large"]]


def test_a_field_left_out_means_all() -> None:
    reserved = layered_offering(capacity_type="reserved", reservation_id="cr-1", available=3)
    assert left(
        {"zone": "zone-a"}, layered_offering(), reserved, layered_offering(zone="zone-b")
    ) == [
        ("zone-a", 0),
        ("zone-a", 0),
        ("zone-b", 1),
    ]


def test_types_can_be_named_by_pattern() -> None:
    assert left({"instanceType": "m5*"}, layered_offering()) == [("zone-a", 0)]


def test_a_lot_for_any_zone_loses_only_the_zone_that_is_short() -> None:
    anywhere = layered_offering(zone=None)
    assert left({"zone": "zone-b"}, anywhere) == [("zone-a", 1), ("zone-b", 0)]


def test_a_lot_of_another_capacity_type_does_not_come_apart() -> None:
    spot, anywhere = (
        layered_offering(zone="zone-b", capacity_type="spot"),
        layered_offering(zone=None),
    )
    assert left({"zone": "zone-b", "capacityType": "spot"}, spot, anywhere) == [
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
def test_disks_are_paid_by_the_gibibyte(spec: dict[str, Any], gibibytes: int) -> None:
    fees = cloud_object(instanceTypes=["m5.xlarge"], fees={"perGiBDisk": 1, "perNode": 1000})
    made = build_catalogue(CatalogScope(node_class=node_class_object(**spec)), cloud=fees)
    assert made.fees == {"m5.xlarge": 1000 + gibibytes}


def test_under_a_catalog_ephemeral_storage_is_the_disk() -> None:
    rack = {"name": "rack", "capacity": {"cpu": "1", "ephemeral-storage": "30Gi"}}
    made = build_catalogue(
        catalog=catalog_object(rack), cloud=cloud_object(region="dc-1", fees={"perGiBDisk": 1})
    )
    assert made.fee == 30


def test_fees_of_zero_are_none() -> None:
    assert (
        build_catalogue(cloud=cloud_object(instanceTypes=["m5.large"], fees={"perNode": 0})).fees
        == {}
    )
