"""Pricing: the products that clients request, in the format that they parse."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from tests.support.emulator_accounts import SingleService

from wainwright.catalogue import regions
from wainwright.catalogue.instancetypes import instance_type_info
from wainwright.catalogue.offerings import built_in_offerings
from wainwright.emulator.services.pricing import Pricing

COMMON = {
    "serviceCode": "AmazonEC2",
    "preInstalledSw": "NA",
    "operatingSystem": "Linux",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}
SHARED = {"tenancy": "Shared", "productFamily": "Compute Instance"}
METAL = {"tenancy": "Dedicated", "productFamily": "Compute Instance (bare metal)"}


def filter_for(field: str, value: str, kind: str = "TERM_MATCH") -> dict[str, str]:
    return {"Type": kind, "Field": field, "Value": value}


def prices_by_type(service: SingleService[Pricing], region: str, **fields: str) -> dict[str, float]:
    """All pages, parsed as clients do: price by instance type."""
    filters = [
        filter_for(field, value) for field, value in {"regionCode": region, **fields}.items()
    ]
    found: dict[str, float] = {}
    params: dict[str, Any] = {"ServiceCode": "AmazonEC2", "Filters": filters, "MaxResults": 100}
    while True:
        response = service.call("GetProducts", **params)
        assert len(response["PriceList"]) <= 100
        found |= dict(_read(line) for line in response["PriceList"])
        if "NextToken" not in response:
            return found
        params["NextToken"] = response["NextToken"]


def _read(line: str) -> tuple[str, float]:
    entry = json.loads(line)
    (term,) = entry["terms"]["OnDemand"].values()
    (dimension,) = term["priceDimensions"].values()
    ((_, price),) = dimension["pricePerUnit"].items()
    return entry["product"]["attributes"]["instanceType"], float(price)


@pytest.mark.parametrize("region", ["us-east-1", "eu-west-1"])
def test_shared_and_dedicated_products_price_every_type_once(region: str) -> None:
    service = SingleService(Pricing, "us-west-2")
    shared = prices_by_type(service, region, **COMMON, **SHARED)
    metal = prices_by_type(service, region, **COMMON, **METAL)
    assert not shared.keys() & metal.keys()
    instances = instance_type_info.built_in_instance_types()
    assert metal
    assert all(instances[name].is_bare_metal for name in metal)
    listed = {
        name: built_in_offerings.on_demand_list_price(name, region)
        for name in regions.load_region(region).offered
    }
    assert shared | metal == {
        name: pytest.approx(price.usd) for name, price in listed.items() if price is not None
    }


def test_the_default_region_is_that_of_the_account() -> None:
    service = SingleService(Pricing, "eu-west-1")
    filters = [filter_for("instanceType", "m5.large")]
    (line,) = service.call("GetProducts", ServiceCode="AmazonEC2", Filters=filters)["PriceList"]
    assert json.loads(line)["product"]["attributes"]["regionCode"] == "eu-west-1"


@pytest.mark.parametrize(
    ("fields", "count"),
    [
        ({"instanceType": "m5.large", **SHARED}, 1),
        ({"instanceType": "m5.metal"}, 2),
        ({"instanceType": "m5.large", "operatingSystem": "Windows"}, 0),
        ({"instanceType": "m5.large", "preInstalledSw": "SQL Std"}, 0),
        ({"instanceType": "m5.large", "tenancy": "Dedicated"}, 0),
        ({"instanceType": "m5.large", "regionCode": "mars-1"}, 0),
        ({"instanceType": "m5.large", "vcpu": "2", "memory": "8 GiB"}, 1),
    ],
)
def test_every_filter_applies(fields: dict[str, str], count: int) -> None:
    filters = [filter_for(field, value) for field, value in fields.items()]
    response = SingleService(Pricing).call("GetProducts", ServiceCode="AmazonEC2", Filters=filters)
    assert len(response["PriceList"]) == count


@pytest.mark.parametrize(
    ("kind", "value", "count"),
    [("EQUALS", "m5.large", 1), ("ANY_OF", "m5.large,c5.large", 2), ("CONTAINS", "m5.larg", 1)],
)
def test_other_filter_types(kind: str, value: str, count: int) -> None:
    filters = [filter_for("instanceType", value, kind)]
    response = SingleService(Pricing).call("GetProducts", ServiceCode="AmazonEC2", Filters=filters)
    assert len(response["PriceList"]) == count


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({}, "InvalidParameterException"),
        ({"ServiceCode": "AmazonS3"}, "NotFoundException"),
        ({"ServiceCode": "AmazonEC2", "MaxResults": 101}, "InvalidParameterException"),
        ({"ServiceCode": "AmazonEC2", "NextToken": "x"}, "InvalidNextTokenException"),
        (
            {"ServiceCode": "AmazonEC2", "Filters": [filter_for("colour", "red")]},
            "InvalidParameterException",
        ),
        (
            {"ServiceCode": "AmazonEC2", "Filters": [filter_for("tenancy", "Shared", "LIKE")]},
            "InvalidParameterException",
        ),
    ],
)
def test_invalid_requests_are_rejected(params: dict[str, Any], code: str) -> None:
    assert SingleService(Pricing).refused("GetProducts", **params) == (code, 400)


class MovingPrices:
    """A price source whose prices change."""

    def __init__(self) -> None:
        self.prices: dict[str, float] = {"m5.large": 0.05, "x9.home": 1.25, "m5.metal": 2.0}

    def on_demand(self, region: str) -> Mapping[str, float]:
        return self.prices if region == "us-east-1" else {}


def test_prices_come_from_the_price_source_even_for_unknown_types() -> None:
    book = MovingPrices()
    service = SingleService(lambda context: Pricing(context, book))
    assert prices_by_type(service, "us-east-1", **SHARED) == {"m5.large": 0.05, "x9.home": 1.25}
    assert prices_by_type(service, "us-east-1", **METAL) == {"m5.metal": 2.0}
    book.prices["m5.large"] = 0.0425
    assert prices_by_type(service, "us-east-1", **SHARED)["m5.large"] == 0.0425
    assert prices_by_type(service, "us-west-2", **SHARED) == {}
