"""On-demand list prices and the model of spot prices."""

import json
from statistics import median, quantiles

import pytest

from wainwright import data
from wainwright.catalogue import regions
from wainwright.catalogue.instancetypes import instance_type_info
from wainwright.catalogue.offerings import built_in_offerings
from wainwright.catalogue.offerings.built_in_offerings import (
    PriceFactorBasis,
    normal_draw,
    on_demand_list_price,
    spot_price_ratio,
    spot_prices,
)

LIST = json.loads(data.read_data_file("price_list.json"))


def usd(name: str, region: str = "us-east-1") -> float:
    price = on_demand_list_price(name, region)
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
def test_well_known_list_prices_are_within_half_a_percent(name: str, price: float) -> None:
    assert usd(name) == pytest.approx(price, rel=0.005)


def test_types_that_do_not_follow_the_rule_of_their_family_have_their_own_list_price() -> None:
    for name, price in LIST["types"].items():
        assert usd(name) == price
        found = on_demand_list_price(name, "us-east-1")
        assert found is not None
        assert not found.by_family


def test_a_large_has_the_list_price_of_its_family() -> None:
    plain = {family: row["large"] for family, row in LIST["families"].items() if len(row) == 1}
    for family in sorted(plain):
        name = f"{family}.large"
        if name in instance_type_info.built_in_instance_types() and name not in LIST["types"]:
            assert usd(name) == plain[family]


def test_a_type_without_an_hourly_price_has_none() -> None:
    assert on_demand_list_price("mac2.metal", "us-east-1") is None
    assert on_demand_list_price("p5e.48xlarge", "us-west-2") is None
    assert on_demand_list_price("no.such", "us-east-1") is None


def test_all_but_a_few_dozen_types_are_priced() -> None:
    unpriced = (
        instance_type_info.built_in_instance_types().keys()
        - built_in_offerings.load_price_table().types.keys()
    )
    assert len(unpriced) == 55
    assert (
        built_in_offerings.load_price_table().types.keys()
        <= instance_type_info.built_in_instance_types().keys()
    )


def test_prices_of_a_region_are_its_factor_times_the_list_price() -> None:
    price = on_demand_list_price("m5.large", "eu-west-1")
    assert price is not None
    assert price.usd == 0.107136
    assert (price.list_usd, price.factor, price.basis) == (0.096, 1.116, PriceFactorBasis.MEDIAN)


def test_a_region_without_known_prices_has_an_unknown_basis() -> None:
    price = on_demand_list_price("m5.large", "il-central-1")
    assert price is not None
    assert (price.factor, price.basis) == (1.2, PriceFactorBasis.UNKNOWN)


def test_every_region_has_a_factor() -> None:
    assert tuple(sorted(built_in_offerings.load_price_table().regions)) == regions.region_names()


def test_prices_are_rounded_to_the_sixth_digit() -> None:
    assert all(
        round(price, 6) == price > 0
        for price in built_in_offerings.load_price_table().types.values()
    )


def ratios(region: str) -> list[float]:
    return [
        spot_price_ratio(instance_type_info.built_in_instance_types()[name], region, zone.name)
        for name, zones in regions.load_region(region).offered.items()
        for zone in zones
    ]


@pytest.mark.parametrize(("region", "measured"), [("us-east-1", 0.38), ("eu-north-1", 0.21)])
def test_the_median_of_a_region_is_near_the_measured_one(region: str, measured: float) -> None:
    assert median(ratios(region)) == pytest.approx(measured, rel=0.1)


def test_spot_ratios_have_the_measured_distribution() -> None:
    everywhere = [each for region in regions.region_names() for each in ratios(region)]
    twentieths = quantiles(everywhere, n=20)
    found = {percent: twentieths[percent // 5 - 1] for percent in (5, 25, 50, 75, 95)}
    assert found == pytest.approx({5: 0.11, 25: 0.23, 50: 0.32, 75: 0.41, 95: 0.57}, rel=0.2)


def test_spot_prices_are_below_on_demand_and_never_zero() -> None:
    assert all(0.10 <= each <= 0.95 for each in ratios("eu-west-1"))


def test_spot_prices_differ_between_zones() -> None:
    zones = [zone.name for zone in regions.load_region("us-west-2").zones]
    info = instance_type_info.built_in_instance_types()["m5.large"]
    found = spot_prices(info, region="us-west-2", zones=zones, on_demand=0.096)
    assert sorted(found) == zones
    assert len(set(found.values())) == len(zones)


def test_a_spot_price_depends_on_type_region_and_zone_alone() -> None:
    info = instance_type_info.built_in_instance_types()["m5.large"]
    alone = spot_prices(info, region="us-west-2", zones=["us-west-2c"], on_demand=0.096)
    zones = ["us-west-2a", "us-west-2b", "us-west-2c"]
    together = spot_prices(info, region="us-west-2", zones=zones, on_demand=0.096)
    assert together["us-west-2c"] == alone["us-west-2c"] == 0.041961


def test_draws_are_about_normally_distributed() -> None:
    draws = [normal_draw(f"name {number}") for number in range(2000)]
    assert abs(sum(draws) / len(draws)) < 0.1
    assert sum(each**2 for each in draws) / len(draws) == pytest.approx(1.0, abs=0.1)
    assert max(map(abs, draws)) < 3.5
