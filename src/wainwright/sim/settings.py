"""The settings of the controllers, as a Scenario states them and as `wain run` is given them.

Apart from the rest of a Scenario: `wain run` starts without what reads manifests.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from wainwright.model.disruption import NO_MINIMUM_SAVING, MinimumSaving
from wainwright.model.plan import (
    ClusterLimits,
    MinValuesPolicy,
    PackingPolicy,
    PreferencePolicy,
)
from wainwright.translate.topology import DefaultConstraints

HOUR: Final = 3600.0
FEATURE_GATES: Final[Mapping[str, bool]] = {
    "CapacityReservations": True,
    "ReservedCapacity": True,
    "NodeOverlay": True,
    "NodeRepair": False,
    "SpotToSpotConsolidation": False,
    "StaticCapacity": False,
    "CapacityBuffer": False,
    "TerminateFirstDrift": False,
    "TerminateFirstRepair": False,
    "PodDeletionCostManagement": False,
}
"""Every feature gate, and whether it is on where nobody says so."""


class NodeRepairMode(StrEnum):
    """How unhealthy nodes are repaired where the feature gate is on."""

    FORCEFUL = "forceful"
    REPLACE_FIRST = "replace-first"


class Pause(StrEnum):
    """What controllers do not begin."""

    NOTHING = ""
    DISRUPTION = "disruption"
    PROVISIONING = "provisioning"
    ALL = "all"


class DisruptionBreaker(msgspec.Struct, frozen=True, kw_only=True):
    """How many nodes voluntary disruption may remove within a window; a share of 1 is off."""

    share: float = 1.0
    nodes: int = 10
    window: float = 600.0


class SimulationSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`spec.settings`: those of the controllers."""

    batch_idle_duration: float = 1.0
    batch_max_duration: float = 10.0
    feature_gates: Mapping[str, bool] = msgspec.field(default_factory=lambda: FEATURE_GATES)
    """All of them."""
    min_values_policy: MinValuesPolicy = MinValuesPolicy.STRICT
    preference_policy: PreferencePolicy = PreferencePolicy.RESPECT
    default_constraints: DefaultConstraints = ()
    """The scheduler's topology spread constraints for pods without their own; a simulated scheduler
    has them too."""
    packing: PackingPolicy = PackingPolicy.FIRST_FIT
    strict_weights: bool = False
    cluster_limits: ClusterLimits = ClusterLimits()
    minimum_saving: MinimumSaving = NO_MINIMUM_SAVING
    spot_to_spot_types: int = 15
    balanced_k: float = 2.0
    max_nodes_per_command: int = 100
    price_refresh: float = 12 * HOUR
    node_repair: NodeRepairMode = NodeRepairMode.FORCEFUL
    disruption_breaker: DisruptionBreaker = DisruptionBreaker()
    pause: Pause = Pause.NOTHING
