"""What a user may set about the controllers; defaults are those of Karpenter."""

import logging
from typing import Final

import msgspec

from wainwright.core.disruption.disruption_input import (
    DEFAULT_DISRUPTION_OPTIONS,
    DisruptionOptions,
)
from wainwright.model.disruption import Pause
from wainwright.model.plan import DEFAULT_PLAN_OPTIONS, PlanOptions
from wainwright.model.snapshot import Pool
from wainwright.translate.disruption import (
    PAUSE_ANNOTATION,
    describe_unreadable_pause,
    is_pausing,
    parse_pause,
)
from wainwright.translate.topology import DefaultConstraints

LOG: Final = logging.getLogger(__name__)

BATCH_IDLE_SECONDS: Final = 1.0
BATCH_MAX_SECONDS: Final = 10.0
MIN_NOMINATION_SECONDS: Final = 10.0
LAUNCH_TIMEOUT: Final = 300.0
REGISTRATION_TIMEOUT: Final = 900.0


SWITCH: Final = "pause of the ConfigMap wainwright-settings"


class PauseSwitch:
    """A pause of all NodePools that people set and lift while the controllers run."""

    def __init__(self) -> None:
        self.value: Pause | None = None
        self.problem = ""
        """Why it pauses everything without saying so; empty where it can be read."""

    def set(self, text: str | None) -> None:
        before = self.value, self.problem
        self.value, self.problem = parse_pause(text or ""), describe_unreadable_pause(text or "")
        if (self.value, self.problem) == before:
            return
        if self.problem:
            LOG.warning("%s: %s", SWITCH, self.problem)
        else:
            LOG.info("paused: %s", self.value.value if self.value is not None else "nothing")


class BreakerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How many nodes voluntary disruption may remove within a window; a share of 1 is off."""

    share: float = 1.0
    """Of the nodes that there were at the beginning of the window."""
    nodes: int = 10
    """So many may go in any case: the share of a small cluster is nothing."""
    window: float = 600.0
    """Seconds."""


class ControllerSettings(msgspec.Struct, frozen=True, kw_only=True):
    batch_idle: float = BATCH_IDLE_SECONDS
    """Seconds without a new pending pod after which a batch is planned."""
    batch_max: float = BATCH_MAX_SECONDS
    """Seconds after which a batch is planned in any case."""
    plan_options: PlanOptions = DEFAULT_PLAN_OPTIONS
    disruption_options: DisruptionOptions = DEFAULT_DISRUPTION_OPTIONS
    """Its options of planning are replaced by those above."""
    launch_timeout: float = LAUNCH_TIMEOUT
    """Seconds after which a NodeClaim that could not be launched is deleted."""
    registration_timeout: float = REGISTRATION_TIMEOUT
    """Seconds after the launch by which its node must have joined."""
    node_repair: bool = False
    """The feature gate NodeRepair."""
    replace_before_repair: bool = False
    """Whether unhealthy nodes go by a command, once their replacements are up, within budgets; else
    they are deleted forcefully.
    """
    managed_deletion_cost: bool = False
    """The feature gate PodDeletionCostManagement."""
    pause: Pause | None = None
    """What is paused in all NodePools."""
    switch: PauseSwitch = msgspec.field(default_factory=PauseSwitch)
    breaker: BreakerSettings = BreakerSettings()
    capacity_buffer: bool = False
    """The feature gate CapacityBuffer."""
    default_constraints: DefaultConstraints = ()
    """The scheduler's topology spread constraints for pods without their own."""
    cluster_state_observability: bool = True
    """Whether there are metrics with a series for each node, pod or offering, and of the conditions
    of Nodes and NodeClaims."""

    @property
    def static_capacity(self) -> bool:
        """The feature gate, which planning depends on as well."""
        return self.plan_options.static_capacity

    def pauses(self, pool: Pool, what: Pause) -> bool:
        """Whether these settings or the annotation of the NodePool say so."""
        return self.pauses_everywhere(what) or is_pausing(pool.annotations, what)

    def pauses_everywhere(self, what: Pause) -> bool:
        """Whether these settings say so of all NodePools."""
        return any(each in (what, Pause.ALL) for each in (self.pause, self.switch.value))

    def pause_problem(self, pool: Pool) -> str:
        """The switch or the annotation that pauses everything because it cannot be read."""
        if self.switch.problem:
            return f"{SWITCH}: {self.switch.problem}"
        problem = describe_unreadable_pause(pool.annotations.get(PAUSE_ANNOTATION, ""))
        return f"{PAUSE_ANNOTATION}: {problem}" if problem else ""

    @property
    def nomination_seconds(self) -> float:
        """How long a node that pods were planned onto is kept for them."""
        return max(2 * self.batch_max, MIN_NOMINATION_SECONDS)
