"""The view model: what happens to a cluster, as every front end shows it.

A story is the history of a cluster with what was decided and why. `cluster_view.cluster_at` has the
cluster at one of its moments. Front ends make no numbers of their own but sums over these. The JSON
of a `Report` is what pages read: names are those of the fields, defaults are left out, and a field
once published keeps its meaning.
"""

from enum import StrEnum
from typing import Any, Final

import msgspec

from wainwright.model.cluster_history import ClusterHistory
from wainwright.model.simulation import Series, Timeline

REPORT_API_VERSION: Final = "wainwright.dev/v1alpha1"


class StoryKind(StrEnum):
    PLAN = "Plan"
    CONSOLIDATION = "Consolidation"
    SIMULATION = "Simulation"
    CLUSTER = "Cluster"
    """A live cluster, as it is."""


class MomentUnit(StrEnum):
    """What moments count."""

    SECONDS = "seconds"
    """Since the start."""
    STEPS = "steps"
    """0 is the input, n what is left after the n-th change."""


class PoolInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    weight: int = 0
    limits: dict[str, int] = {}
    """In whole units, as all amounts; `nodes` may be among them."""


class BlockerInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What keeps a node from being disrupted."""

    kind: str
    name: str
    message: str


class VerdictRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What becomes of a node, from a moment on."""

    at: float
    node: int
    """Its number in the history."""
    verdict: str
    """removed, replaced, kept, blocked, drifted or interrupted."""
    reason: str = ""
    """A code."""
    message: str = ""
    change: str = ""
    """What would free the node; empty where nothing is known."""
    savingPerHour: float | None = None
    modelledPrices: bool = False
    """Whether the saving is an estimate."""
    blockers: list[BlockerInfo] = []


class PoolRefusal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a NodePool launches nothing for a pod."""

    pool: str
    reason: str
    funnel: list[int] = []
    """How many instance types were left: all, after requirements, resources, offerings, minValues
    and limits."""


class PendingExplanation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why pods are unschedulable, and what would help."""

    pods: list[int]
    """Their numbers in the history."""
    reason: str
    suggestion: str = ""
    pools: list[PoolRefusal] = []
    nodes: list[str] = []
    """Why the existing nodes do not take them."""


class NodeNote(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Sentences on one node: why it is there, and why nothing else was launched."""

    node: int
    why: list[str] = []
    elsewhere: list[str] = []


class FindingInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that was expected, or a law."""

    text: str
    held: bool | None = None
    """None where it could not be judged."""


class Story(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    kind: StoryKind
    name: str
    answer: str
    """One line: what came of it."""
    unit: MomentUnit
    start: str | None = None
    """RFC 3339: when moment 0 was, or the time that a preview is for."""
    end: float
    """The last moment."""
    opensAt: float | None = None
    """The moment to show first; the end where there is none."""
    pools: list[PoolInfo] = []
    history: ClusterHistory
    series: Series | None = None
    """Those of the JSON; steps have none."""
    events: Timeline = []
    """Ascending; without bindings and labels, which follow from the history."""
    verdicts: list[VerdictRecord] = []
    """Ascending in `at`."""
    pending: list[PendingExplanation] = []
    notes: list[NodeNote] = []
    totals: list[tuple[str, str]] = []
    """What it came to: a name and a sentence each."""
    findings: list[FindingInfo] = []
    warnings: list[str] = []
    figures: dict[str, Any] = {}
    """The totals or the summary, as the JSON of the command has them."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Both stories of a report in figures."""

    answer: str
    names: tuple[str, str]
    rows: list[tuple[str, str, str, str]]
    """A name, both values and the difference."""


class LiveMode(StrEnum):
    SCENARIO = "scenario"
    """A simulation that goes on, and that the page may change."""
    CLUSTER = "cluster"
    """A cluster that is only read."""


class WorkloadInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What can be scaled."""

    kind: str
    namespace: str
    name: str
    replicas: int = 0


class LiveInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Of a page whose story goes on (`wain serve`)."""

    mode: LiveMode
    frame: str
    """The last change that is in the story; the stream of changes goes on after it."""
    isPlaying: bool = False
    isOver: bool = False
    speed: float = 0.0
    """Seconds of the simulation in a second."""
    until: float | None = None
    """Where the simulation ends; None: fully consolidated."""
    zones: list[str] = []
    workloads: list[WorkloadInfo] = []
    problem: str = ""
    """Why what is shown is old; empty where it is not."""


class Report(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a page shows: one story, or two on the same axis."""

    apiVersion: str = REPORT_API_VERSION
    kind: str = "Report"
    version: str = ""
    """Of wainwright."""
    stories: list[Story]
    comparison: Comparison | None = None
    live: LiveInfo | None = None
