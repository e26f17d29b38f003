"""Zones, and what is offered where."""

import pytest

from wainwright.catalogue import regions
from wainwright.errors import InvalidInputError


def test_every_region_of_the_source_is_included() -> None:
    assert len(regions.region_names()) == 30
    assert {"us-east-1", "eu-central-1", "ap-southeast-2"} <= set(regions.region_names())


def test_us_east_1_offers_nearly_everything() -> None:
    assert len(regions.load_region("us-east-1").offered) == 1375


def test_zone_names_and_ids_have_the_same_order() -> None:
    zones = [(zone.name, zone.id) for zone in regions.load_region("us-west-2").zones]
    assert zones == [
        ("us-west-2a", "usw2-az1"),
        ("us-west-2b", "usw2-az2"),
        ("us-west-2c", "usw2-az3"),
        ("us-west-2d", "usw2-az4"),
    ]


def test_the_old_zone_of_us_east_1_keeps_its_usual_name() -> None:
    region = regions.load_region("us-east-1")
    (old,) = [zone for zone in region.zones if zone.id == "use1-az3"]
    assert old.name == "us-east-1e"
    assert sum(old in zones for zones in region.offered.values()) < 100


@pytest.mark.parametrize("name", regions.region_names())
def test_every_zone_has_an_id_of_its_own_and_offers_something(name: str) -> None:
    region = regions.load_region(name)
    assert len({zone.id for zone in region.zones}) == len(region.zones) >= 2
    assert {zone for zones in region.offered.values() for zone in zones} == set(region.zones)
    assert all(zone.name.startswith(name) for zone in region.zones)


def test_a_type_that_the_region_lacks_is_offered_nowhere() -> None:
    assert regions.load_region("me-south-1").zones_of("p5.48xlarge") == ()
    assert regions.load_region("us-east-1").zones_of("no.such") == ()


def test_china_is_an_error_as_it_has_no_prices() -> None:
    with pytest.raises(InvalidInputError, match="no prices for cn-north-1"):
        regions.load_region("cn-north-1")


def test_the_nearest_region_is_suggested_for_a_typo() -> None:
    with pytest.raises(InvalidInputError) as refused:
        regions.load_region("us-east1")
    assert refused.value.hint == "did you mean us-east-1?"


def test_all_regions_are_suggested_for_an_unknown_name() -> None:
    with pytest.raises(InvalidInputError) as refused:
        regions.load_region("?")
    assert "eu-north-1" in refused.value.hint
