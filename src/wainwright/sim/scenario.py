"""A Scenario as it was read: what a cluster looks like at the start, what happens to it, and what
is expected of it.

Everything here is valid: `scenario_reader.py` has found no mistake in the file. Times are seconds:
moments count from the start of the simulation, durations are durations. Names that may hold globs
are patterns as a shell has them.
"""

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from wainwright.api.catalog_documents import CloudReservation
from wainwright.api.wire import WireStruct
from wainwright.clock import EPOCH
from wainwright.manifests.cluster_manifests import ClusterManifests
from wainwright.sim.settings import SimulationSettings

END: Final = math.inf
"""The moment `end`: when the simulation ends, whenever that is."""


# How the simulated cluster behaves


class DurationRange(msgspec.Struct, frozen=True, kw_only=True):
    """Uniform between both, by the seed; a single duration where they are equal."""

    low: float
    high: float


class InstanceBehaviour(msgspec.Struct, frozen=True, kw_only=True):
    """`spec.machines`: how instances become nodes."""

    boot: DurationRange = DurationRange(low=40.0, high=40.0)
    """From the launch to the Node, EC2's own pending time included."""
    ready: DurationRange = DurationRange(low=5.0, high=5.0)
    """From the Node to Ready."""
    never_join: float = 0.0
    """The share of instances that never become a node."""
    less: Mapping[str, str] = {}
    """Quantities that every instance offers less than the catalogue says, by resource."""
    volumes: int | None = None
    """How many volumes can be attached to an instance; None: any number."""


class PodBehaviour(msgspec.Struct, frozen=True, kw_only=True):
    """`spec.pods`: how long kubelets take."""

    start: DurationRange = DurationRange(low=2.0, high=2.0)
    """From bound to running."""
    termination: DurationRange = DurationRange(low=5.0, high=5.0)
    """From eviction to gone; the pod's grace period is the upper bound."""


# What happens


class TracePod(msgspec.Struct, frozen=True, kw_only=True):
    """A row of a trace: a pod that comes and goes at these moments."""

    name: str
    namespace: str = "default"
    requests: Mapping[str, str]
    """Quantities by resource."""
    labels: Mapping[str, str] = {}
    node_selector: Mapping[str, str] = {}
    created: float
    deleted: float | None = None
    """None: it stays."""


class NodeMatch(msgspec.Struct, frozen=True, kw_only=True):
    """Which managed nodes, or claims, are meant: all that match every key that is set.
    Values are globs. A node is selected by pods where it holds one that matches each of them.
    """

    name: str | None = None
    node_pool: str | None = None
    instance_type: str | None = None
    zone: str | None = None
    capacity_type: str | None = None
    reservation_id: str | None = None
    pods: tuple[str, ...] = ()
    """`namespace/name`."""


class OfferingPattern(msgspec.Struct, frozen=True, kw_only=True):
    """Which offerings are meant; None is any. The instance type is a glob."""

    instance_type: str | None = None
    zone: str | None = None
    capacity_type: str | None = None
    reservation_id: str | None = None


ANY_OFFERING: Final = OfferingPattern()


class ApplyObjects(msgspec.Struct, frozen=True, kw_only=True, tag="apply"):
    """Objects that are created, or replaced where they exist."""

    objects: tuple[WireStruct, ...]


class ObjectTarget(msgspec.Struct, frozen=True, kw_only=True):
    """An object of the cluster; the name may be a glob where it is a pod's or a node's."""

    type: type[WireStruct]
    kind: str
    name: str
    namespace: str = ""
    """Empty for kinds without namespaces."""


class DeleteObject(msgspec.Struct, frozen=True, kw_only=True, tag="delete"):
    target: ObjectTarget


class CurvePoint(msgspec.Struct, frozen=True, kw_only=True):
    """How many replicas, so many seconds after the event."""

    after: float
    replicas: int


class ScaleWorkload(msgspec.Struct, frozen=True, kw_only=True, tag="scale"):
    """Replicas of a workload, at once, or linear between points with a step a minute."""

    target: ObjectTarget
    curve: tuple[CurvePoint, ...]
    """At least one point, the first at 0, ascending: a single point is `replicas`."""

    def replicas_at(self, after: float) -> int:
        """Rounded half up; the last value stays."""
        before = [point for point in self.curve if point.after <= after][-1]
        later = [point for point in self.curve if point.after > after]
        if not later:
            return before.replicas
        share = (after - before.after) / (later[0].after - before.after)
        return math.floor(before.replicas + share * (later[0].replicas - before.replicas) + 0.5)


class CreateReservation(msgspec.Struct, frozen=True, kw_only=True, tag="reservation.create"):
    reservation: CloudReservation


class ChangeReservation(msgspec.Struct, frozen=True, kw_only=True, tag="reservation.change"):
    """What is None stays as it is."""

    id: str
    total: int | None = None
    available: int | None = None
    """What is free for us from then on: others take or give back instances."""
    start_time: float | None = None
    """Seconds since 1970."""
    end_time: float | None = None
    tags: Mapping[str, str] | None = None
    groups: tuple[str, ...] | None = None


class CancelReservation(msgspec.Struct, frozen=True, kw_only=True, tag="reservation.cancel"):
    id: str


class Unavailable(msgspec.Struct, frozen=True, kw_only=True, tag="unavailable"):
    """EC2 has no capacity in these offerings."""

    offerings: OfferingPattern


class Interrupt(msgspec.Struct, frozen=True, kw_only=True, tag="interrupt"):
    """Instances get their notice: a share of those that match, a number, or those of nodes.
    None of the three: all instances of the reservation.
    """

    offerings: OfferingPattern
    share: float | None = None
    count: int | None = None
    nodes: NodeMatch | None = None


class ChangePrice(msgspec.Struct, frozen=True, kw_only=True, tag="price"):
    """The price of these offerings is that of the start, times the factor."""

    offerings: OfferingPattern
    factor: float


class ZoneOutage(msgspec.Struct, frozen=True, kw_only=True, tag="outage"):
    """No launches in the zone, and its nodes do not answer."""

    zone: str


class FaultKind(StrEnum):
    BEFORE = "before"
    """An error, and nothing was done."""
    AFTER = "after"
    """Done, and then an error."""
    LOST = "lost"
    """Done, and no answer comes."""


class FailCalls(msgspec.Struct, frozen=True, kw_only=True, tag="fail"):
    """Calls of this operation (a glob) fail, each with a probability.
    With offerings only these pools of a CreateFleet fail, as entries of its Errors.
    """

    operation: str
    share: float
    kind: FaultKind = FaultKind.BEFORE
    code: str | None = None
    offerings: OfferingPattern = ANY_OFFERING


class ThrottleCalls(msgspec.Struct, frozen=True, kw_only=True, tag="throttle"):
    """Calls of this operation (a glob) are throttled, each with a probability."""

    operation: str
    share: float
    code: str | None = None
    offerings: OfferingPattern = ANY_OFFERING


class RestartController(msgspec.Struct, frozen=True, kw_only=True, tag="restart"):
    """The process of the controllers dies and starts anew."""


class ApiServerDown(msgspec.Struct, frozen=True, kw_only=True, tag="down"):
    """Every call of the API server fails."""


class KillNodes(msgspec.Struct, frozen=True, kw_only=True, tag="kill"):
    """Instances vanish without notice."""

    nodes: NodeMatch


class PublishImage(msgspec.Struct, frozen=True, kw_only=True, tag="image"):
    """A new image of this alias, such as al2023@latest."""

    alias: str


class SetNodeCondition(msgspec.Struct, frozen=True, kw_only=True, tag="condition"):
    nodes: NodeMatch
    condition: str
    """Its type."""
    status: str
    reason: str = ""
    message: str = ""


class NeverJoin(msgspec.Struct, frozen=True, kw_only=True, tag="neverJoin"):
    """This share of the instances launched meanwhile never become a node."""

    share: float


class OfferLess(msgspec.Struct, frozen=True, kw_only=True, tag="less"):
    """Instances that join meanwhile offer so much less than the catalogue says, by resource."""

    quantities: Mapping[str, str]


class FreeAddresses(msgspec.Struct, frozen=True, kw_only=True, tag="addresses"):
    """How many addresses the subnets of a zone have left."""

    zone: str
    free: int


Action = (
    ApplyObjects
    | DeleteObject
    | ScaleWorkload
    | CreateReservation
    | ChangeReservation
    | CancelReservation
    | Unavailable
    | Interrupt
    | ChangePrice
    | ZoneOutage
    | ThrottleCalls
    | FailCalls
    | RestartController
    | ApiServerDown
    | KillNodes
    | PublishImage
    | SetNodeCondition
    | NeverJoin
    | OfferLess
    | FreeAddresses
)


class ScenarioEvent(msgspec.Struct, frozen=True, kw_only=True):
    """What happens at one moment."""

    at: float
    line: int | None
    """None where no file has it: somebody made it happen while the simulation ran."""
    action: Action
    duration: float | None = None
    """`for`; None: to the end, or an action without one."""

    @property
    def last_moment(self) -> float:
        """When the last of it happens."""
        curve = self.action.curve if isinstance(self.action, ScaleWorkload) else ()
        return self.at + max(self.duration or 0.0, curve[-1].after if curve else 0.0)


# What is expected


class ValueComparison(msgspec.Struct, frozen=True, kw_only=True):
    """What a value must be: equal to a number or text, or within bounds."""

    equal: float | str | bool | msgspec.UnsetType | None = msgspec.UNSET
    lt: float | None = None
    lte: float | None = None
    gt: float | None = None
    gte: float | None = None


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """From one moment to another, both included; `at` is a window of one moment."""

    start: float
    end: float


WHOLE_RUN: Final = Window(start=0.0, end=END)
Comparisons = Mapping[tuple[str, ...], ValueComparison]
"""By the path of a value, such as ("pods", "pending")."""


class StateExpectation(msgspec.Struct, frozen=True, kw_only=True, tag="state"):
    """Of the whole cluster; holds in every state of the window."""

    line: int
    window: Window
    values: Comparisons
    """pods.pending, pods.running, nodes.count, nodes.reserved, nodes.spot, nodes.on-demand,
    pricePerHour, pendingFor, reservations.ID.used, reservations.ID.total"""


class TotalExpectation(msgspec.Struct, frozen=True, kw_only=True, tag="total"):
    line: int
    values: Comparisons
    """By the path in the totals."""


class NodeExpectation(msgspec.Struct, frozen=True, kw_only=True, tag="node"):
    """Of the nodes selected: all pass, and there is one; or as many pass as `count` says."""

    line: int
    window: Window
    selector: NodeMatch
    values: Comparisons
    """instanceType, zone, capacityType, reservationID, nodePool, name, pricePerHour, ready, pods"""
    count: ValueComparison | None = None


class ClaimExpectation(msgspec.Struct, frozen=True, kw_only=True, tag="claim"):
    """The same of NodeClaims."""

    line: int
    window: Window
    selector: NodeMatch
    values: Comparisons
    """As for nodes, and conditions.TYPE, labels.KEY"""
    count: ValueComparison | None = None


class ObjectExpectation(msgspec.Struct, frozen=True, kw_only=True, tag="object"):
    """The same of other objects."""

    line: int
    window: Window
    target: ObjectTarget
    values: Comparisons
    """conditions.TYPE"""
    count: ValueComparison | None = None


class EventExpectation(msgspec.Struct, frozen=True, kw_only=True, tag="event"):
    """How many Kubernetes Events of a reason there are within the window."""

    line: int
    window: Window
    reason: str | None
    """A glob, as the object's parts."""
    kind: str | None
    """Of the object."""
    name: str | None = None
    """`name` or `namespace/name`."""
    count: ValueComparison


Expectation = (
    StateExpectation
    | TotalExpectation
    | NodeExpectation
    | ClaimExpectation
    | ObjectExpectation
    | EventExpectation
)


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """A whole Scenario."""

    name: str
    file: str
    start: float = EPOCH
    """Seconds since 1970."""
    duration: float | None
    """None: until nothing changes any more."""
    seed: int = 0
    manifests: ClusterManifests
    """The world at the start: what `wain plan` reads, a Cloud or Catalog included."""
    settings: SimulationSettings = SimulationSettings()
    instances: InstanceBehaviour = InstanceBehaviour()
    pods: PodBehaviour = PodBehaviour()
    traces: tuple[TracePod, ...] = ()
    """In the order of their creation."""
    events: tuple[ScenarioEvent, ...] = ()
    """In the order in which they happen."""
    expect: tuple[Expectation, ...] = ()

    @property
    def last_moment(self) -> float:
        """Of events and their ends, trace rows and expectations: before it nothing is quiet."""
        moments = [0.0, *(event.last_moment for event in self.events)]
        moments += [pod.deleted or pod.created for pod in self.traces]
        for each in self.expect:
            if not isinstance(each, TotalExpectation):
                moments += [at for at in (each.window.start, each.window.end) if at != END]
        return max(moments)
