"""Pricing: the streams that clients ask for, in the shape in which they read them."""

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


def term(field: str, value: str, kind: str = "TERM_MATCH") -> dict[str, str]:
    return {"Type": kind, "Field": field, "Value": value}


def stream(one: SingleService[Pricing], region: str, **fields: str) -> dict[str, float]:
    """All pages, read as clients read them: type to price."""
    filters = [term(field, value) for field, value in {"regionCode": region, **fields}.items()]
    found: dict[str, float] = {}
    params: dict[str, Any] = {"ServiceCode": "AmazonEC2", "Filters": filters, "MaxResults": 100}
    while True:
        answer = one.ask("GetProducts", **params)
        assert len(answer["PriceList"]) <= 100
        found |= dict(_read(line) for line in answer["PriceList"])
        if "NextToken" not in answer:
            return found
        params["NextToken"] = answer["NextToken"]


def _read(line: str) -> tuple[str, float]:
    entry = json.loads(line)
    (term,) = entry["terms"]["OnDemand"].values()
    (dimension,) = term["priceDimensions"].values()
    ((_, price),) = dimension["pricePerUnit"].items()
    return entry["product"]["attributes"]["instanceType"], float(price)


@pytest.mark.parametrize("region", ["us-east-1", "eu-west-1"])
def test_both_streams_together_price_every_type_of_the_region_once(region: str) -> None:
    one = SingleService(Pricing, "us-west-2")
    shared = stream(one, region, **COMMON, **SHARED)
    metal = stream(one, region, **COMMON, **METAL)
    assert not shared.keys() & metal.keys()
    machines = instance_type_info.built_in_instance_types()
    assert metal
    assert all(machines[name].is_bare_metal for name in metal)
    listed = {
        name: built_in_offerings.on_demand_list_price(name, region)
        for name in regions.load_region(region).offered
    }
    assert shared | metal == {
        name: pytest.approx(price.usd) for name, price in listed.items() if price is not None
    }


def test_the_region_is_the_worlds_own_where_no_filter_names_one() -> None:
    one = SingleService(Pricing, "eu-west-1")
    filters = [term("instanceType", "m5.large")]
    (line,) = one.ask("GetProducts", ServiceCode="AmazonEC2", Filters=filters)["PriceList"]
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
def test_every_filter_counts(fields: dict[str, str], count: int) -> None:
    filters = [term(field, value) for field, value in fields.items()]
    answer = SingleService(Pricing).ask("GetProducts", ServiceCode="AmazonEC2", Filters=filters)
    assert len(answer["PriceList"]) == count


@pytest.mark.parametrize(
    ("kind", "value", "count"),
    [("EQUALS", "m5.large", 1), ("ANY_OF", "m5.large,c5.large", 2), ("CONTAINS", "m5.larg", 1)],
)
def test_other_ways_to_match(kind: str, value: str, count: int) -> None:
    filters = [term("instanceType", value, kind)]
    answer = SingleService(Pricing).ask("GetProducts", ServiceCode="AmazonEC2", Filters=filters)
    assert len(answer["PriceList"]) == count


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({}, "InvalidParameterException"),
        ({"ServiceCode": "AmazonS3"}, "NotFoundException"),
        ({"ServiceCode": "AmazonEC2", "MaxResults": 101}, "InvalidParameterException"),
        ({"ServiceCode": "AmazonEC2", "NextToken": "x"}, "InvalidNextTokenException"),
        (
            {"ServiceCode": "AmazonEC2", "Filters": [term("colour", "red")]},
            "InvalidParameterException",
        ),
        (
            {"ServiceCode": "AmazonEC2", "Filters": [term("tenancy", "Shared", "LIKE")]},
            "InvalidParameterException",
        ),
    ],
)
def test_what_is_refused(params: dict[str, Any], code: str) -> None:
    assert SingleService(Pricing).refused("GetProducts", **params) == (code, 400)


class Sale:
    """A book of one's own, in which prices move."""

    def __init__(self) -> None:
        self.prices: dict[str, float] = {"m5.large": 0.05, "x9.home": 1.25, "m5.metal": 2.0}

    def on_demand(self, region: str) -> Mapping[str, float]:
        return self.prices if region == "us-east-1" else {}


def test_prices_are_those_of_the_book_also_for_types_that_no_catalogue_knows() -> None:
    book = Sale()
    one = SingleService(lambda context: Pricing(context, book))
    assert stream(one, "us-east-1", **SHARED) == {"m5.large": 0.05, "x9.home": 1.25}
    assert stream(one, "us-east-1", **METAL) == {"m5.metal": 2.0}
    book.prices["m5.large"] = 0.0425
    assert stream(one, "us-east-1", **SHARED)["m5.large"] == 0.0425
    assert stream(one, "us-west-2", **SHARED) == {}
