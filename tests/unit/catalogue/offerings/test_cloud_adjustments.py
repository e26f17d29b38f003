"""Fees of nodes."""

from typing import Any

import pytest
from tests.support.catalogue_builders import (
    build_catalogue,
    catalog_object,
    cloud_object,
    node_class_object,
)

from wainwright.catalogue.region_catalog import CatalogScope


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
