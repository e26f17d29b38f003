"""The result of a simulation, as `wain simulate -o json` writes it.

Fields are spelt as in that JSON. Times in it are seconds since the start, but for `start` and
`finish`. `docs/simulate.md` says what each number counts.
"""

from typing import Any, Final, TypeAlias

import msgspec

SIMULATION_API_VERSION: Final = "wainwright.dev/v1alpha1"


class TimelineEntry(msgspec.Struct, frozen=True, kw_only=True, tag_field="what"):
    """Something that happened; each kind of entry is a subclass."""

    at: float
    """Seconds since the start."""
    object: str
    """`Kind/name` or `Kind/namespace/name`; empty where it is about no object."""
    message: str = ""


class LaunchEntry(TimelineEntry, frozen=True, kw_only=True, tag="launch"):
    """EC2 started an instance, whether or not anybody heard its answer."""

    instance: str
    nodePool: str
    instanceType: str
    zone: str
    capacityType: str
    reservationID: str | None
    pricePerHour: float | None
    types: int
    """How many instance types the request held."""
    templates: list[str | None]
    """The capacity reservation of each launch template config of the request, None for none."""


class LaunchFailureEntry(TimelineEntry, frozen=True, kw_only=True, tag="launchFailure"):
    """A claim was given up because EC2 would not sell what it asked for."""

    nodePool: str


class JoinEntry(TimelineEntry, frozen=True, kw_only=True, tag="join"):
    """The Node of a claim appeared."""

    claim: str | None


class ReadyEntry(TimelineEntry, frozen=True, kw_only=True, tag="ready"):
    """The Node was Ready for the first time."""

    claim: str | None


class BindEntry(TimelineEntry, frozen=True, kw_only=True, tag="bind"):
    node: str
    daemon: bool


class EvictEntry(TimelineEntry, frozen=True, kw_only=True, tag="evict"):
    node: str
    forced: bool
    """Deleted at the deadline of a grace period or by repair, whatever budgets say."""
    daemon: bool


class InterruptEntry(TimelineEntry, frozen=True, kw_only=True, tag="interrupt"):
    """EC2 gave notice to an instance."""

    claim: str | None
    instance: str


class TerminateEntry(TimelineEntry, frozen=True, kw_only=True, tag="terminate"):
    """An instance ended."""

    instance: str
    reason: str


class DisruptEntry(TimelineEntry, frozen=True, kw_only=True, tag="disrupt"):
    """A command of disruption was carried out."""

    reason: str
    method: str
    candidates: list[str]
    replacements: list[str]
    savingsPerHour: float | None
    modelledPrices: bool = False
    """Whether the saving is an estimate."""


class EventEntry(TimelineEntry, frozen=True, kw_only=True, tag="event"):
    """A Kubernetes Event."""

    reason: str
    type: str = "Normal"


class ScenarioEntry(TimelineEntry, frozen=True, kw_only=True, tag="scenario"):
    """The scenario made something happen."""

    verb: str
    line: int | None = None


class ReservationEntry(TimelineEntry, frozen=True, kw_only=True, tag="reservation"):
    """A capacity reservation was created, changed or cancelled, has begun or expired."""

    change: str
    total: int
    used: int


class ConditionEntry(TimelineEntry, frozen=True, kw_only=True, tag="condition"):
    type: str
    status: str
    reason: str


class LabelEntry(TimelineEntry, frozen=True, kw_only=True, tag="label"):
    """A label of a NodeClaim or Node changed after the launch."""

    key: str
    before: str | None = msgspec.field(name="from")
    after: str | None = msgspec.field(name="to")


class FaultEntry(TimelineEntry, frozen=True, kw_only=True, tag="fault"):
    """A call of the AWS side met an injected fault."""

    operation: str
    code: str


class RestartEntry(TimelineEntry, frozen=True, kw_only=True, tag="restart"):
    """A process died, or is up again."""


class ExpectationEntry(TimelineEntry, frozen=True, kw_only=True, tag="expectation"):
    line: int
    held: bool


Timeline: TypeAlias = list[
    LaunchEntry
    | LaunchFailureEntry
    | JoinEntry
    | ReadyEntry
    | BindEntry
    | EvictEntry
    | InterruptEntry
    | TerminateEntry
    | DisruptEntry
    | EventEntry
    | ScenarioEntry
    | ReservationEntry
    | ConditionEntry
    | LabelEntry
    | FaultEntry
    | RestartEntry
    | ExpectationEntry
]


class PodSeries(msgspec.Struct, frozen=True, kw_only=True):
    running: list[int]
    pending: list[int]


class ReservationSeries(msgspec.Struct, frozen=True, kw_only=True):
    used: list[int]
    total: list[int]


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """Step functions: each value holds from its moment to the next."""

    at: list[float]
    nodes: list[int]
    pods: PodSeries
    pricePerHour: list[float]
    reservations: dict[str, ReservationSeries]


class PendingSeconds(msgspec.Struct, frozen=True, kw_only=True):
    """How long pods waited, from their creation to their binding or to the end."""

    p50: float = 0.0
    p95: float = 0.0
    max: float = 0.0
    total: float = 0.0


class ReservationTotals(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    slotHours: float
    usedHours: float
    idleHours: float
    idleCost: float
    """On-demand price of the idle hours."""
    usedValue: float
    """On-demand price of the used hours: what the reservation was worth."""


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    cost: float = 0.0
    fees: float = 0.0
    nodeHours: float = 0.0
    podHours: float = 0.0
    launches: int = 0
    launchFailures: int = 0
    terminations: int = 0
    evictions: int = 0
    interruptions: int = 0
    disruptions: dict[str, int] = {}
    """Machines by reason."""
    commands: int = 0
    """Of disruption that were carried out."""
    savingsPerHour: float = 0.0
    """What these commands promised, added up."""
    moves: int = 0
    """Evictions from the nodes of these commands."""
    pendingSeconds: PendingSeconds = PendingSeconds()
    apiCalls: dict[str, int] = {}
    """Calls of the AWS side by operation."""
    reservations: list[ReservationTotals] = []


class EndNode(msgspec.Struct, frozen=True, kw_only=True):
    """A managed node, from its launch until its instance ends."""

    name: str | None
    """None until it has joined."""
    claim: str | None
    nodePool: str
    instance: str
    instanceType: str
    zone: str
    capacityType: str
    reservationID: str | None
    pricePerHour: float | None
    ready: bool
    pods: list[str]
    """`namespace/name` of what runs on it or is bound to it, without DaemonSet and static pods."""


class EndClaim(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    nodePool: str
    node: str | None
    instance: str | None
    conditions: dict[str, str]
    labels: dict[str, str]


class PendingPod(msgspec.Struct, frozen=True, kw_only=True):
    pod: str
    reason: str


class EndState(msgspec.Struct, frozen=True, kw_only=True):
    nodes: list[EndNode] = []
    pending: list[PendingPod] = []
    claims: list[EndClaim] = []


class ExpectationResult(msgspec.Struct, frozen=True, kw_only=True):
    line: int
    held: bool | None
    """None where the simulation stopped before it could be judged."""
    found: Any = None
    message: str = ""


class LawResult(msgspec.Struct, frozen=True, kw_only=True):
    law: str
    """Its code."""
    held: bool
    at: float | None = None
    """When it was first broken."""
    message: str = ""


class SimulationResult(msgspec.Struct, frozen=True, kw_only=True):
    apiVersion: str = SIMULATION_API_VERSION
    kind: str = "Simulation"
    scenario: str
    seed: int
    start: str
    """RFC 3339."""
    finish: str
    timeline: Timeline
    """Empty where it was not asked for."""
    series: Series
    totals: Totals
    modelledPrices: bool = False
    """Whether a price that instances were billed at is an estimate."""
    end: EndState
    expectations: list[ExpectationResult] = []
    laws: list[LawResult] = []
    warnings: list[str] = []

    @property
    def is_success(self) -> bool:
        """Whether no expectation failed and no law was broken."""
        return all(each.held is not False for each in self.expectations) and all(
            each.held for each in self.laws
        )

    def to_dict(self) -> dict[str, Any]:
        """What `wain simulate -o json` prints (docs/simulation.schema.json)."""
        document: dict[str, Any] = msgspec.to_builtins(self)
        return document
