"""What is out of stock, and what fees come to."""

from typing import Any

import pytest
from tests.support.catalogue import built, catalog, cloud, lot, node_class

from wainwright.catalogue.shortage import out_of_stock
from wainwright.catalogue.supply import Scope

ZONES = {"zone-a": "id-a", "zone-b": ""}


def left(entry: dict[str, str], *lots: object) -> list[tuple[str | None, int]]:
    found, remarks = out_of_stock(cloud(unavailable=[entry]), {"m5.large": lots}, ZONES)  # type: ignore[dict-item]
    assert not remarks
    return [(each.zone, int(each.available > 0)) for each in found["m5.large"]]


def test_a_field_left_out_means_all() -> None:
    reserved = lot(capacity_type="reserved", reservation_id="cr-1", available=3)
    assert left({"zone": "zone-a"}, lot(), reserved, lot(zone="zone-b")) == [
        ("zone-a", 0),
        ("zone-a", 0),
        ("zone-b", 1),
    ]


def test_types_can_be_named_by_pattern() -> None:
    assert left({"instanceType": "m5*"}, lot()) == [("zone-a", 0)]


def test_a_lot_for_any_zone_loses_only_the_zone_that_is_short() -> None:
    anywhere = lot(zone=None)
    assert left({"zone": "zone-b"}, anywhere) == [("zone-a", 1), ("zone-b", 0)]


def test_a_lot_of_another_capacity_type_does_not_come_apart() -> None:
    spot, anywhere = lot(zone="zone-b", capacity_type="spot"), lot(zone=None)
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
    fees = cloud(instanceTypes=["m5.xlarge"], fees={"perGiBDisk": 1, "perNode": 1000})
    made = built(Scope(node_class=node_class(**spec)), cloud=fees)
    assert made.fees == {"m5.xlarge": 1000 + gibibytes}


def test_under_a_catalog_ephemeral_storage_is_the_disk() -> None:
    rack = {"name": "rack", "capacity": {"cpu": "1", "ephemeral-storage": "30Gi"}}
    made = built(catalog=catalog(rack), cloud=cloud(region="dc-1", fees={"perGiBDisk": 1}))
    assert made.fee == 30


def test_fees_of_zero_are_none() -> None:
    assert built(cloud=cloud(instanceTypes=["m5.large"], fees={"perNode": 0})).fees == {}
