"""Profiles of random clusters: how often each feature occurs."""

from collections.abc import Sequence
from random import Random
from typing import Final, TypeVar

import msgspec

Item = TypeVar("Item")


class PercentRandom:
    """Chance, by the percent."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def chance(self, percent: int) -> bool:
        return self.random.randrange(100) < percent

    def choice(self, among: Sequence[Item]) -> Item:
        return self.random.choice(among)

    def sample(self, among: Sequence[Item], count: int) -> list[Item]:
        return self.random.sample(among, count)

    def some(self, among: Sequence[Item], percent: int) -> list[Item]:
        """Each of them with this chance."""
        return [each for each in among if self.chance(percent)]

    def between(self, low: int, high: int) -> int:
        return self.random.randint(low, high)


class ClusterProfile(msgspec.Struct, frozen=True, kw_only=True):
    """Probabilities in percent; most are drawn once for each pool, group of pods or cluster."""

    pools: int = 1
    """At most so many."""
    shortages: int = 30
    dry_zones: int = 0
    """That nothing can be launched in one of the zones."""
    daemonsets: int = 25
    requirements: int = 0
    taints: int = 0
    weights: int = 90
    """That no two pools have the same."""
    limits: int = 0
    min_values: int = 0
    reservations: int = 0
    spread: int = 0
    affinity: int = 0
    preferences: int = 0
    volumes: int = 0
    ports: int = 0
    nodes: int = 0


PROFILES: Final = {
    "plain": ClusterProfile(),
    "requirements": ClusterProfile(pools=3, requirements=60),
    "taints": ClusterProfile(pools=3, taints=60, requirements=10, daemonsets=40),
    "weights": ClusterProfile(pools=4, weights=95, limits=60, requirements=15),
    "minvalues": ClusterProfile(pools=2, min_values=80, requirements=25, shortages=50),
    "reservations": ClusterProfile(pools=3, reservations=100, requirements=20, limits=10),
    "spread": ClusterProfile(pools=2, spread=80, requirements=10, dry_zones=10, nodes=20),
    "affinity": ClusterProfile(pools=2, affinity=80, requirements=10, nodes=30),
    "preferences": ClusterProfile(pools=2, preferences=80, requirements=10, taints=10, nodes=10),
    "volumes": ClusterProfile(pools=2, volumes=80, requirements=10, nodes=50),
    "ports": ClusterProfile(pools=2, ports=80, requirements=10, nodes=50, daemonsets=60),
    "nodes": ClusterProfile(
        pools=3, nodes=100, taints=20, requirements=20, limits=20, daemonsets=50
    ),
    "mixed": ClusterProfile(
        pools=3,
        requirements=15,
        taints=15,
        limits=20,
        min_values=10,
        reservations=30,
        spread=25,
        affinity=20,
        preferences=20,
        volumes=15,
        ports=10,
        nodes=40,
        dry_zones=5,
    ),
}
