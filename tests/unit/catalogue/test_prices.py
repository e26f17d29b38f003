"""On-demand prices: list, exceptions, regions."""

import json

import pytest

from wainwright import data
from wainwright.catalogue import builtin, prices, regions
from wainwright.catalogue.prices import Basis, on_demand

LIST = json.loads(data.read("price_list.json"))


def usd(name: str, region: str = "us-east-1") -> float:
    price = on_demand(name, region)
    assert price is not None
    return price.usd


@pytest.mark.parametrize(
    ("name", "price"),
    [
        ("c5.large", 0.085),
        ("m5.xlarge", 0.192),
        ("t3.nano", 0.0052),
        ("m5.metal", 4.608),
        ("c7i.metal-24xl", 4.7124),
        ("c7i.metal-48xl", 8.568),
        ("g5.48xlarge", 16.288),
        ("g4dn.12xlarge", 3.912),
        ("p5.48xlarge", 55.04),
        ("inf2.48xlarge", 12.98127),
        ("u-6tb1.112xlarge", 54.6),
        ("trn1.32xlarge", 21.5),
    ],
)
def test_well_known_list_prices_are_met_within_half_a_percent(name: str, price: float) -> None:
    assert usd(name) == pytest.approx(price, rel=0.005)


def test_types_that_do_not_follow_their_family_have_the_price_listed_for_them() -> None:
    for name, price in LIST["types"].items():
        assert usd(name) == price
        found = on_demand(name, "us-east-1")
        assert found is not None
        assert not found.by_family


def test_a_large_costs_what_its_family_lists() -> None:
    plain = {family: row["large"] for family, row in LIST["families"].items() if len(row) == 1}
    for family in sorted(plain):
        name = f"{family}.large"
        if name in builtin.machines() and name not in LIST["types"]:
            assert usd(name) == plain[family]


def test_a_type_that_is_not_sold_by_the_hour_has_no_price() -> None:
    assert on_demand("mac2.metal", "us-east-1") is None
    assert on_demand("p5e.48xlarge", "us-west-2") is None
    assert on_demand("no.such", "us-east-1") is None


def test_all_but_a_few_dozen_types_are_priced() -> None:
    unpriced = builtin.machines().keys() - prices.table().types.keys()
    assert len(unpriced) == 55
    assert prices.table().types.keys() <= builtin.machines().keys()


def test_a_region_costs_its_factor_times_the_list() -> None:
    price = on_demand("m5.large", "eu-west-1")
    assert price is not None
    assert price.usd == 0.107136
    assert (price.list_usd, price.factor, price.basis) == (0.096, 1.116, Basis.MEDIAN)
    assert price.rough


def test_the_list_of_us_east_1_is_not_rough() -> None:
    price = on_demand("m5.large", "us-east-1")
    assert price is not None
    assert not price.rough


def test_a_region_of_unknown_prices_says_so() -> None:
    price = on_demand("m5.large", "il-central-1")
    assert price is not None
    assert (price.factor, price.basis) == (1.2, Basis.UNKNOWN)


def test_every_region_has_a_factor() -> None:
    assert tuple(sorted(prices.table().regions)) == regions.names()


def test_prices_are_rounded_to_the_sixth_digit() -> None:
    assert all(round(price, 6) == price > 0 for price in prices.table().types.values())
