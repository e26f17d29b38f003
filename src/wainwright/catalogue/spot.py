"""Spot prices: a model, not a record. Real ones come from an account or a Cloud.

The ratio of spot to on-demand price is log-normal around a median that depends on the kind of
machine, its size and its region, with a share each for the family, the type in its region, and the
zone. Medians and spreads are those of a public snapshot of 46,030 pools (August 2026). The draws
are hashes of names: the same pool has the same price in every run and on every machine.
"""

from collections.abc import Iterable
from functools import cache
from hashlib import blake2b
from math import exp, sqrt
from struct import Struct
from typing import Final

from wainwright.catalogue.machine import Machine

FOUR: Final = Struct(">4H")
EIGHT: Final = Struct(">32H")
ROOT_OF_THREE: Final = sqrt(3.0)  # the sum of four even draws has a variance of a third

MEDIAN: Final = 0.32
FLOOR, CEILING = 0.10, 0.95  # in the snapshot 2 % of pools cost as much as on-demand; ours never do
FAMILY_SPREAD, TYPE_SPREAD, ZONE_SPREAD = 0.26, 0.27, 0.22  # standard deviations of the logarithm
ZONE_SCALE: Final = ZONE_SPREAD * ROOT_OF_THREE
UPWARD: Final = 0.7  # the long tail is on the cheap side

REGION_MEDIANS: Final = {
    "ap-south-1": 0.27,
    "ap-southeast-1": 0.39,
    "eu-central-1": 0.375,
    "eu-north-1": 0.21,
    "eu-south-2": 0.13,
    "eu-west-1": 0.43,
    "us-east-1": 0.38,
    "us-east-2": 0.28,
    "us-west-2": 0.36,
}


def spot_prices(
    machine: Machine, *, region: str, zones: Iterable[str], on_demand: float
) -> dict[str, float]:
    """USD per hour in each zone of the region; always below the on-demand price."""
    median, draws = regional_median(machine, region), Draws(machine, region)
    return {
        zone: round(on_demand * _ratio(median, draws.type + draws.zone(zone)), 6) for zone in zones
    }


def ratio(machine: Machine, region: str, zone: str) -> float:
    """The share of the on-demand price that spot costs in the zone."""
    draws = Draws(machine, region)
    return _ratio(regional_median(machine, region), draws.type + draws.zone(zone))


def _ratio(median: float, drift: float) -> float:
    wanted = median * exp(drift if drift < 0 else drift * UPWARD)
    return FLOOR if wanted < FLOOR else min(wanted, CEILING)


class Draws:
    """How far a type in a region lies from the median of its kind, as logarithms.

    One hash gives all eight: seven for the letters that zones end in, the last for the type.
    """

    __slots__ = ("_parts", "type")

    def __init__(self, machine: Machine, region: str) -> None:
        digest = blake2b(f"{machine.name} {region}".encode(), digest_size=64).digest()
        self._parts: tuple[int, ...] = EIGHT.unpack(digest)
        family = FAMILY_SPREAD * draw(machine.family)
        self.type = family + TYPE_SPREAD * _normal(sum(self._parts[7::8]))

    def zone(self, name: str) -> float:
        parts, at = self._parts, ord(name[-1]) % 7
        total = parts[at] + parts[at + 8] + parts[at + 16] + parts[at + 24]
        return (total / 0x10000 - 2.0) * ZONE_SCALE


def regional_median(machine: Machine, region: str) -> float:
    known = REGION_MEDIANS.get(region, MEDIAN)
    return kind_median(machine) * size_factor(machine) * known / MEDIAN


def kind_median(machine: Machine) -> float:
    """The median ratio of machines of this kind, all sizes and regions together."""
    if machine.bare_metal:
        return 0.21
    if machine.gpu is not None:
        return 0.35
    if machine.category == "t":
        return 0.36
    return 0.38 if machine.cpu_manufacturer == "amd" else MEDIAN


def size_factor(machine: Machine) -> float:
    """Small machines are dearer than the median, large ones cheaper."""
    if machine.vcpus <= 4:
        return 0.35 / MEDIAN
    return 0.27 / MEDIAN if machine.vcpus > 64 and not machine.bare_metal else 1.0


@cache
def draw(name: str) -> float:
    """A number that hangs on the name alone, drawn as if from the normal distribution."""
    return _normal(sum(FOUR.unpack(blake2b(name.encode(), digest_size=8).digest())))


def _normal(total: int) -> float:
    """The sum of four even draws comes close enough, and never strays beyond ± 3.5."""
    return (total / 0x10000 - 2.0) * ROOT_OF_THREE
