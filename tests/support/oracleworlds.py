"""Random worlds as manifests, which our planner and Karpenter's scheduler are both given.

A profile says what the worlds are about; the same profile and seed give the same world.
"""

from collections.abc import Iterator
from random import Random
from typing import Any, Final

import msgspec
from tests.support.oraclecatalogue import (
    REGION,
    ZONES,
    Manifest,
    Shortage,
    instance_types,
    reserve,
)
from tests.support.oraclenodes import Nodes
from tests.support.oraclepods import Pods
from tests.support.oraclepools import Pools
from tests.support.oracleprofiles import PROFILES, Dice, Profile

from wainwright.model.labels import DECIDED_BY_OFFERING, WELL_KNOWN
from wainwright.model.options import MinValuesPolicy, Options, PreferencePolicy

NAMESPACES: Final = {"shop": {"team": "red"}, "data": {"team": "blue"}, "kube-system": {}}


class World(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that decides where pods go."""

    profile: str
    seed: int
    objects: tuple[Manifest, ...]
    """Of Kubernetes and of the API, the pods to be placed among them."""
    types: tuple[Manifest, ...]
    """The instance types of a Catalog."""
    options: Options

    @property
    def catalog(self) -> Manifest:
        return {
            "apiVersion": "wainwright.dev/v1alpha1",
            "kind": "Catalog",
            "region": REGION,
            "instanceTypes": list(self.types),
        }

    def documents(self) -> list[Manifest]:
        """All of it as the offline commands read it."""
        return [*self.objects, self.catalog]

    def question(self, *, workers: int = 1, brief: bool = False) -> dict[str, Any]:
        """All of it as the oracle reads it."""
        return {
            "objects": self.objects,
            "instanceTypes": self.types,
            "wellKnownLabels": sorted(WELL_KNOWN | set(self._type_labels())),
            "offeringLabels": sorted(DECIDED_BY_OFFERING),
            "options": {
                "minValuesPolicy": self.options.min_values_policy,
                "preferencePolicy": self.options.preference_policy,
                "reservedCapacity": self.options.capacity_reservations,
                "workers": workers,
                "brief": brief,
            },
        }

    def kinds(self, kind: str) -> list[Manifest]:
        return [each for each in self.objects if each["kind"] == kind]

    def _type_labels(self) -> Iterator[str]:
        for kind in self.types:
            yield from (each["key"] for each in kind["requirements"])


def world(profile: str, seed: int) -> World:
    """The world that belongs to the seed."""
    return _Maker(profile, PROFILES[profile], seed).world()


class _Maker:
    def __init__(self, name: str, profile: Profile, seed: int) -> None:
        self._name, self._profile, self._seed = name, profile, seed
        self._dice = Dice(Random(f"{name}/{seed}"))

    def world(self) -> World:
        types = self._types()
        pools = Pools(self._dice, self._profile, types).manifests()
        pods = Pods(self._dice, self._profile, types)
        pending = pods.manifests()
        nodes = Nodes(self._dice, self._profile, types, pools).manifests(pods)
        return World(
            profile=self._name,
            seed=self._seed,
            objects=(*_namespaces(), *pools, *nodes, *pods.volumes.manifests(), *pending),
            types=tuple(types),
            options=self._options(),
        )

    def _types(self) -> list[Manifest]:
        dice, profile = self._dice, self._profile
        percent = dice.choice((0, 5, 30)) if dice.chance(profile.shortages) else 0
        zone = dice.choice(tuple(ZONES)) if dice.chance(profile.dry_zones) else None
        gpus = dice.chance(profile.requirements // 4)
        types = instance_types(dice.random, Shortage(percent, zone), gpus=gpus)
        if dice.chance(profile.reservations):
            reserve(dice.random, types, dice.choice((1, 2, 3, 4, 6)))
        return types

    def _options(self) -> Options:
        dice, profile = self._dice, self._profile
        lenient = dice.chance(profile.min_values // 3)
        heedless = dice.chance(profile.preferences // 4)
        return Options(
            min_values_policy=MinValuesPolicy.BEST_EFFORT if lenient else MinValuesPolicy.STRICT,
            preference_policy=PreferencePolicy.IGNORE if heedless else PreferencePolicy.RESPECT,
            capacity_reservations=not dice.chance(profile.reservations // 20),
        )


def _namespaces() -> list[Manifest]:
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        for name, labels in NAMESPACES.items()
    ]
