"""Options: what the user may choose about how plans are made."""

from enum import StrEnum
from typing import Final

import msgspec


class MinValuesPolicy(StrEnum):
    """What happens to a pod for which a pool cannot keep its minValues."""

    STRICT = "Strict"
    BEST_EFFORT = "BestEffort"


class PreferencePolicy(StrEnum):
    """Whether preferences of pods count until they cannot be met, or not at all."""

    RESPECT = "Respect"
    IGNORE = "Ignore"


class Packing(StrEnum):
    """How pods are put together on nodes."""

    FIRST_FIT = "first-fit"
    COST = "cost"


class Options(msgspec.Struct, frozen=True, kw_only=True):
    min_values_policy: MinValuesPolicy = MinValuesPolicy.STRICT
    preference_policy: PreferencePolicy = PreferencePolicy.RESPECT
    packing: Packing = Packing.FIRST_FIT
    strict_weights: bool = False
    """Whether no pod may join a draft while a pool of higher weight could open a node for it."""
    capacity_reservations: bool = True
    """The gate: without it reserved offerings are as if they were not there."""


DEFAULT_OPTIONS: Final = Options()
