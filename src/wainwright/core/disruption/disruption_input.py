"""What disruption decides on, and with which settings.

Apart from the commands that are made of it, so that a plan, whose saved input may have these
settings, does not load all of disruption.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from wainwright.model.disruption import (
    NO_MINIMUM_SAVING,
    FailedStart,
    MinimumSaving,
    RepairPolicy,
)
from wainwright.model.instance_type import OfferedTypes
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.plan import DEFAULT_PLAN_OPTIONS, PlanOptions
from wainwright.model.snapshot import Snapshot

MAX_STEPS: Final = 1000
"""How many commands a preview, or a sequence that is compared, may have."""
MAX_NODES_PER_COMMAND: Final = 100
LOOK_AHEAD_NODES: Final = 10_000
MAX_REPETITIONS: Final = 400
"""At most a quarter of a second of a look at 5,000 nodes; a change that concerns all of them is
known everywhere after a dozen looks.
"""
SPOT_TO_SPOT_TYPES: Final = 15
BALANCED_K: Final = 2.0
"""A move may disturb up to this many times the share that it saves."""


class Method(StrEnum):
    """In the order in which they are tried."""

    REPAIR = "repair"
    """Only where it is switched on: nodes that are unhealthy, once their replacements are up."""
    EMPTINESS = "emptiness"
    STATIC_DRIFT = "static-drift"
    DRIFT = "drift"
    MULTI_NODE = "multi-node"
    SINGLE_NODE = "single-node"


VOLUNTARY_METHODS: Final = tuple(each for each in Method if each is not Method.REPAIR)


class ReplacementRules(msgspec.Struct, frozen=True, kw_only=True):
    spot_to_spot: bool = False
    """Whether spot nodes may be replaced by cheaper spot nodes (feature gate)."""
    spot_to_spot_types: int = SPOT_TO_SPOT_TYPES
    """How many cheaper types a single spot node needs: with fewer it would soon be interrupted."""


class DisruptionOptions(msgspec.Struct, frozen=True, kw_only=True):
    plan: PlanOptions = DEFAULT_PLAN_OPTIONS
    rules: ReplacementRules = ReplacementRules()
    methods: tuple[Method, ...] = VOLUNTARY_METHODS
    max_nodes: int = MAX_NODES_PER_COMMAND
    minimum_saving: MinimumSaving = NO_MINIMUM_SAVING
    """Where a NodePool has none of its own."""
    allow_split: bool = False
    """Whether nodes may be replaced by several that are cheaper together."""
    ignore_budgets: bool = False
    terminate_first_drift: bool = False
    """Whether a drifted node may go before its replacement, if that needs its reservation."""
    terminate_first_repair: bool = False
    """The same of an unhealthy node."""
    managed_deletion_cost: bool = False
    """Whether a controller writes the deletion costs of pods, so that they do not count here."""
    balanced_k: float = BALANCED_K
    look_ahead: int = LOOK_AHEAD_NODES
    """How many nodes may be looked at to compare whole sequences of commands, a node once for each
    pass over it; 0 to choose every command by itself.
    """
    max_repetitions: int = MAX_REPETITIONS
    """How many removals a pass that goes on from another simulates again because something changed
    elsewhere; the next pass goes on from there.
    """


DEFAULT_DISRUPTION_OPTIONS: Final = DisruptionOptions()


class DisruptionInput(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster, and what can be launched for it."""

    snapshot: Snapshot
    catalogs: Mapping[str, InstanceTypeIndex]
    offered: Mapping[str, OfferedTypes] = {}
    """By NodePool what exists at all; without it nothing has drifted by its instance type."""
    nominated: frozenset[str] = frozenset()
    """Names of nodes and claims that pods were planned onto before, and may be on their way to."""
    paused: frozenset[str] = frozenset()
    """Names of NodePools in which no voluntary disruption is begun."""
    repair_policies: tuple[RepairPolicy, ...] = ()
    failed_starts: tuple[FailedStart, ...] = ()
    """Of nodes that wait before another command of them is tried."""
    is_live: bool = False
    """Whether controllers work on it: they delete expired nodes at their own pace."""
