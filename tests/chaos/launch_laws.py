"""Laws of a trial about launches: they bind pods, they wait where they bind none, and those that
EC2 refuses are not requested again and again.
"""

from collections import deque
from collections.abc import Callable
from math import inf
from typing import Any, Final

import msgspec

from wainwright.api.karpenter.nodeclaim import NodeClaim, NodeClaimStatus
from wainwright.api.kubernetes.operations import Event
from wainwright.api.kubernetes.workloads import Pod
from wainwright.cluster import EventType, WatchEvent
from wainwright.controllers.conditions import INITIALIZED
from wainwright.emulator.emulated_account import ApiCall
from wainwright.model.labels import NODEPOOL
from wainwright.model.simulation import LawResult
from wainwright.sim.default_processes import aws_controllers
from wainwright.sim.observed_state import ObservedState
from wainwright.sim.simulated_process import RunningController, SimulatedProcess
from wainwright.sim.simulation import Simulation
from wainwright.sim.world import World

FREE_LAUNCHES: Final = 20
LAUNCHES_PER_POD: Final = 3
LAUNCHES_BIND: Final = "launches-bind"
FREE_NODES: Final = 2
"""Initialized nodes of a NodePool that a pod gets before it has to wait."""
BACKOFF_SECONDS: Final = 300.0
ROUNDING: Final = 1.0
"""Seconds that a timestamp of the API server is early by."""
LAG: Final = 120.0
"""Seconds within which the controllers learn that a node has come up, whatever fails."""
LAUNCHES_BACK_OFF: Final = "launches-back-off"
NOMINATED: Final = "Nominated"
REFUSALS: Final = 20
REFUSAL_SECONDS: Final = 60.0
REFUSALS_END: Final = "refusals-end"


class LaunchCounts(msgspec.Struct, frozen=True, kw_only=True):
    """At one moment: all since the start, and the pods that there are."""

    at: float
    launches: int
    bound: int
    deaths: int
    """Of the controllers."""
    pods: int


class LaunchStreak:
    """Launches after which no pod was bound: their number is bounded by the pods there have been
    meanwhile, since those of a node that is drained are gone for a moment. After a death commands
    are rolled back, and their replacements are launched anew.
    """

    def __init__(self) -> None:
        self._last_bound = LaunchCounts(at=0.0, launches=0, bound=0, deaths=0, pods=0)
        self._most_pods = 0
        self.broken: LawResult | None = None

    def count(self, now: LaunchCounts) -> None:
        if now.bound > self._last_bound.bound:
            self._last_bound, self._most_pods = now, 0
        self._most_pods = max(self._most_pods, now.pods)
        launches = now.launches - self._last_bound.launches
        deaths = now.deaths - self._last_bound.deaths
        limit = FREE_LAUNCHES + LAUNCHES_PER_POD * self._most_pods * (1 + deaths)
        if launches > limit and self.broken is None:
            message = f"{launches} launches, and no pod was bound since the first"
            self.broken = LawResult(law=LAUNCHES_BIND, held=False, at=now.at, message=message)


class _Nodes(msgspec.Struct):
    """What was launched of one NodePool for one pod."""

    since: float
    """When the first was."""
    claims: list[str]


class RepeatedLaunches:
    """Nodes for a pod that is not bound to them, or that still runs on a node which is going: after
    two that have come up it waits five minutes for a third of the same NodePool, after three ten,
    and so on.

    What a node is for is said by the event that nominates it. That a node has come up the
    controllers may know later, and after a death they know nothing of what was before.
    """

    def __init__(self, *, clock_error: float = 0.0) -> None:
        self._clock_error = clock_error
        self._created: dict[str, tuple[str, float]] = {}
        """By NodeClaim: its NodePool, and when it was created."""
        self._initialized: dict[str, float] = {}
        self._for_pods: dict[tuple[str, str], _Nodes] = {}
        """By uid of the pod, and NodePool."""
        self._died_at = -inf
        self.broken: LawResult | None = None

    def created(self, claim: str, pool: str, now: float) -> None:
        self._created[claim] = pool, now

    def initialized(self, claim: str, now: float) -> None:
        self._initialized.setdefault(claim, now)

    def died(self, now: float) -> None:
        self._died_at = now

    def bound(self, uid: str) -> None:
        """What was launched for it before counts no more."""
        for key in [key for key in self._for_pods if key[0] == uid]:
            del self._for_pods[key]

    def nominated(self, pod: str, uid: str, claim: str) -> None:
        """The NodeClaim was created for the pod."""
        if claim not in self._created:
            return
        pool, at = self._created[claim]
        nodes = self._for_pods.get((uid, pool))
        if nodes is None or nodes.since <= self._died_at:
            nodes = self._for_pods[uid, pool] = _Nodes(since=at, claims=[])
        if claim in nodes.claims:
            return
        self._judge(pod, pool, [self._initialized.get(each) for each in nodes.claims], at)
        nodes.claims.append(claim)

    def _judge(self, pod: str, pool: str, moments: list[float | None], at: float) -> None:
        known = [each for each in moments if each is not None and each <= at - LAG]
        waits = (len(known) - FREE_NODES + 1) * BACKOFF_SECONDS - ROUNDING - 2 * self._clock_error
        if len(known) < FREE_NODES or at >= max(known) + waits or self.broken is not None:
            return
        message = (
            f"{pod} got {len(known)} nodes of NodePool {pool}, and another one "
            f"{at - max(known):g} s after the last of them had come up"
        )
        self.broken = LawResult(law=LAUNCHES_BACK_OFF, held=False, at=at, message=message)


class RefusedLaunches:
    """CreateFleet requests that start nothing: what EC2 does not have now is not on offer for a
    while, so that few of them follow each other.
    """

    def __init__(self) -> None:
        self._refused: deque[float] = deque()
        self._launches = 0
        self.broken: LawResult | None = None

    def requested(self, now: float, launches: int) -> None:
        """`launches`: of instances since the start, those of this request included."""
        is_refused, self._launches = launches == self._launches, launches
        if not is_refused:
            return
        self._refused.append(now)
        while self._refused[0] <= now - REFUSAL_SECONDS:
            self._refused.popleft()
        if len(self._refused) > REFUSALS and self.broken is None:
            message = f"{len(self._refused)} launches were refused within {REFUSAL_SECONDS:g} s"
            self.broken = LawResult(law=REFUSALS_END, held=False, at=now, message=message)


class LaunchObserver:
    """Counts for these laws, at each moment and each change of a simulation."""

    def __init__(self, clock_error: float, on_circle: Callable[[], None]) -> None:
        """`on_circle`: called when launches are refused again and again, which may have no end."""
        self._on_circle = on_circle
        self._streak = LaunchStreak()
        self._repeated = RepeatedLaunches(clock_error=clock_error)
        self._refused = RefusedLaunches()
        self._starts = 0
        """Of the controllers."""
        self._bound: set[str] = set()
        """Pods, by uid."""
        self._simulation: Simulation | None = None

    @property
    def broken(self) -> list[LawResult]:
        laws = (self._streak, self._repeated, self._refused)
        return [each.broken for each in laws if each.broken is not None]

    def follow(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._world.api.subscribe(self._on_change)
        self._world.account.on_call = self._on_call

    @property
    def _world(self) -> World:
        assert self._simulation is not None
        return self._simulation.world

    def start_process(self, process: SimulatedProcess) -> RunningController:
        """Those that follow the first one know nothing of what it has launched."""
        self._starts += 1
        if self._starts > 1:
            self._repeated.died(self._world.now())
        return aws_controllers(process)

    def observe(self, state: ObservedState) -> None:
        assert self._simulation is not None
        recorder = self._simulation.recorder
        self._streak.count(
            LaunchCounts(
                at=state.at,
                launches=recorder.launches,
                bound=len(recorder.pods.waits),
                deaths=max(self._starts - 1, 0),
                pods=state.pending_pods + state.running_pods,
            )
        )

    def _on_call(self, call: ApiCall) -> None:
        assert self._simulation is not None
        if call.operation == "CreateFleet" and not call.params.get("DryRun"):
            self._refused.requested(self._world.now(), self._simulation.recorder.launches)
            if self._refused.broken is not None:
                self._on_circle()

    def _on_change(self, change: WatchEvent[Any]) -> None:
        if change.type is EventType.DELETED:
            return
        if isinstance(change.object, Pod):
            self._on_pod(change.object)
        elif isinstance(change.object, NodeClaim):
            self._on_claim(change.type, change.object)
        elif isinstance(change.object, Event) and change.object.reason == NOMINATED:
            self._on_nomination(change.object)

    def _on_nomination(self, event: Event) -> None:
        """To a NodeClaim that is created for the pod: one that was on its way already is a node."""
        _, is_new, claim = event.message.rpartition("nodeclaim/")
        if is_new:
            pod = event.involvedObject
            self._repeated.nominated(f"{pod.namespace}/{pod.name}", pod.uid, claim)

    def _on_pod(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        if pod.spec.nodeName and uid not in self._bound:
            self._bound.add(uid)
            self._repeated.bound(uid)

    def _on_claim(self, event: EventType, claim: NodeClaim) -> None:
        name, now = claim.metadata.name, self._world.now()
        if event is EventType.ADDED:
            self._repeated.created(name, (claim.metadata.labels or {}).get(NODEPOOL, ""), now)
        elif _is_initialized(claim):
            self._repeated.initialized(name, now)


def _is_initialized(claim: NodeClaim) -> bool:
    conditions = (claim.status or NodeClaimStatus()).conditions or ()
    return any(each.type == INITIALIZED and each.status == "True" for each in conditions)
