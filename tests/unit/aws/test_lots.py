"""No request has more than EC2 takes, and what is cut is the dearest of it."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from wainwright.aws.launching import Ware
from wainwright.aws.lots import CONFIGS, OVERRIDES, pool_of, reservation_of, trimmed
from wainwright.aws.templates.content import Template
from wainwright.aws.templates.split import Config


def config(number: int, *pools: tuple[str, str]) -> Config:
    overrides = [{"InstanceType": kind, "AvailabilityZone": zone} for kind, zone in pools]
    return Config(template=Template(data={"number": number}, tags={}), overrides=tuple(overrides))


def ware(kind: str, zone: str, price: float) -> Ware:
    return Ware(kind=kind, zone=zone, price=price)


def pools(configs: tuple[Config, ...]) -> set[tuple[str, str]]:
    return {pool_of(each) for one in configs for each in one.overrides}


def test_what_is_small_enough_stays_as_it_is() -> None:
    configs = (config(1, ("m", "a"), ("m", "b")), config(2, ("c", "a")))
    wares = [ware("m", "a", 1), ware("m", "b", 1), ware("c", "a", 2)]
    assert trimmed(configs, wares) == configs


def test_every_type_and_every_zone_keeps_a_place() -> None:
    kinds, zones = [f"m{n}" for n in range(60)], "abcdef"
    every = list(product(kinds, zones))
    prices = {pool: float(number) for number, pool in enumerate(every)}
    found = trimmed(
        (config(1, *every[::2]), config(2, *every[1::2])),
        [ware(*pool, price) for pool, price in prices.items()],
    )
    left = pools(found)
    assert len(left) == OVERRIDES
    assert {kind for kind, _ in left} == set(kinds)
    assert {zone for _, zone in left} == set(zones)
    gone = set(every) - left
    assert min(prices[pool] for pool in gone) > max(prices[pool] for pool in every[:240])


@given(st.permutations(range(CONFIGS + 10)))
def test_of_many_templates_the_cheapest(order: list[int]) -> None:
    configs = tuple(config(number, (f"m{number}", "a")) for number in order)
    wares = [ware(f"m{number}", "a", float(number)) for number in order]
    found = trimmed(configs, wares)
    assert {each.template.data["number"] for each in found} == set(range(CONFIGS))
    assert [each for each in configs if each in found] == list(found)


def test_a_template_without_a_reservation_has_none() -> None:
    target = {"CapacityReservationTarget": {"CapacityReservationId": "cr-1"}}
    data = {"CapacityReservationSpecification": target}
    aimed = Config(template=Template(data=data, tags={}), overrides=())
    assert reservation_of(aimed) == "cr-1"
    none = {"CapacityReservationSpecification": {"CapacityReservationPreference": "none"}}
    assert reservation_of(Config(template=Template(data=none, tags={}), overrides=())) == ""
    assert reservation_of(config(1)) == ""
