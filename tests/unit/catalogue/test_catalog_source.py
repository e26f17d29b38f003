"""Sources of catalogs: the same layers on the built-in data and on a Catalog document."""

import msgspec
import pytest
from tests.support.catalogue_builders import (
    as_stated,
    build_catalogue,
    catalog_object,
    cloud_object,
    overlay_object,
)

from wainwright.api.catalog_documents import Catalog
from wainwright.catalogue.catalog_document import format_catalog
from wainwright.catalogue.catalog_source import offline_source
from wainwright.errors import InvalidInputError


def test_the_region_is_that_of_the_catalog_the_cloud_or_the_command_line() -> None:
    assert offline_source().region == "us-east-1"
    assert offline_source(region="eu-west-1").region == "eu-west-1"
    assert offline_source(cloud=cloud_object()).region == "us-west-2"
    assert offline_source(catalog=catalog_object()).region == "dc-1"


@pytest.mark.parametrize(
    ("region", "cloud_region", "message"),
    [
        ("us-east-1", None, "the region us-east-1 was asked for, but the Catalog is of dc-1"),
        (None, "us-west-2", "the Catalog is of dc-1, the Cloud of us-west-2"),
    ],
)
def test_regions_must_agree(region: str | None, cloud_region: str | None, message: str) -> None:
    cloud = None if cloud_region is None else cloud_object(region=cloud_region)
    with pytest.raises(InvalidInputError, match=message):
        offline_source(region=region, cloud=cloud, catalog=catalog_object())


def test_an_unknown_region_names_the_cloud_that_states_it() -> None:
    with pytest.raises(InvalidInputError, match=r"Cloud test: spec\.region"):
        offline_source(cloud=cloud_object(region="us-west-9"))
    with pytest.raises(InvalidInputError, match="us-west-9"):
        offline_source(region="us-west-9")


def test_a_printed_catalog_gives_the_same_types_under_the_same_layers() -> None:
    cloud = cloud_object(instanceTypes=["m5.*", "c6g.*"], zones=["us-west-2a", "us-west-2b"])
    cheaper = overlay_object(
        "cheaper",
        ("karpenter.k8s.aws/instance-family", "In", ["m5"]),
        priceAdjustment="-10%",
        capacity={"example.com/fpga": 2},
    )
    plain = build_catalogue(cloud=cloud)
    document = msgspec.json.decode(format_catalog(plain.region, plain.types), type=Catalog)
    limited = cloud_object(unavailable=[{"instanceType": "m5.large", "capacityType": "spot"}])
    printed = build_catalogue(catalog=document, cloud=limited, overlays=(cheaper,))
    both = msgspec.structs.replace(
        cloud, spec=msgspec.structs.replace(cloud.spec, unavailable=limited.spec.unavailable)
    )
    built = build_catalogue(cloud=both, overlays=(cheaper,))
    assert printed.types == tuple(map(as_stated, built.types))
    assert printed.settings is None
