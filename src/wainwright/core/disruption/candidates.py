"""Candidates: what each managed node costs, what its disruption would cost, and what blocks it.

A blocker is a fact with a name that can be looked up with kubectl. Of several the first in the
order of `BlockerCode` is reported. Whether anything would be gained is decided afterwards.
"""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from enum import IntEnum, StrEnum
from math import inf
from operator import attrgetter
from typing import Final

import msgspec

from wainwright.core.disruption.disruption_cost import disruption_cost
from wainwright.core.disruption.drift import Drift, find_drift
from wainwright.core.disruption.eviction import EvictionAllowance
from wainwright.model.disruption import BlockingBudget, FailedStart, NodeClaimState
from wainwright.model.instance_type import OfferedTypes, Offering
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import INSTANCE_TYPE
from wainwright.model.pod import Pod
from wainwright.model.snapshot import Node, Pool, Snapshot, find_offering
from wainwright.model.taints import UNREGISTERED_TAINT
from wainwright.whole_numbers import MAX_DIGITS, parse_whole_number

COST_PRECISION: Final = 0.01
"""The share of a node's lifetime for which the cost of its disruption is taken to be the same."""
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
WHEN_EMPTY: Final = "WhenEmpty"
UNDONE_CONSOLIDATIONS: Final = "wainwright.dev/undone-consolidations"
"""On the NodeClaim of a node that was launched because consolidation had removed one that was
needed: how many times in a row that happened.
"""
FIRST_BACKOFF: Final = 3600.0
"""Seconds for which such a node is not consolidated; twice as many each further time."""
MAX_DOUBLINGS: Final = 10
REBOOTING: Final = "Rebooting"
"""A condition of NodeClaims; only honoured where others set it."""


class BlockerCode(IntEnum):
    """What keeps a node from being disrupted; the first that holds is the one reported."""

    DELETING = 1
    NOT_INITIALIZED = 2
    NOMINATED = 3
    EXPIRED = 4
    STATIC_POOL = 5
    DO_NOT_DISRUPT_NODE = 6
    CANNOT_BEGIN = 7
    """The API server did not accept what a command of it begins with."""
    DO_NOT_DISRUPT_POD = 8
    PDB = 9
    CONSOLIDATE_AFTER = 10
    POLICY = 11
    BUDGET = 12
    UNKNOWN_PRICE = 13
    NOT_OURS = 14
    RESERVATION = 15
    """Its replacement needs the reserved instance that it has itself."""
    PAUSED = 16
    BREAKER = 17
    """Too many nodes were removed within a short time."""
    CONSOLIDATION_BACKOFF = 18
    """Consolidation removed a node in its place before, and it had to be launched again."""
    SPOT_TO_SPOT = 19
    """This and the following: rules that forbid what a simulation found."""
    MIN_VALUES = 20
    MIN_SAVING = 21
    BALANCED_SCORE = 22
    LIMITS = 23

    @property
    def text(self) -> str:
        """As outputs spell it: do-not-disrupt-pod."""
        if self is BlockerCode.RESERVATION:
            return "pods-would-be-pending"
        return self.name.lower().replace("_", "-")


class BlockerKind(StrEnum):
    """The kind of object that blocks."""

    POD = "pod"
    PDB = "pdb"
    BUDGET = "budget"
    ANNOTATION = "annotation"
    POLICY = "policy"
    NODEPOOL = "nodepool"
    TYPE = "type"
    CONDITION = "condition"
    RESERVATION = "reservation"


class Blocker(msgspec.Struct, frozen=True, kw_only=True):
    code: BlockerCode
    kind: BlockerKind
    name: str
    until: float | None = None
    """When it ceases to block by itself; None where somebody has to act."""
    budget: BlockingBudget | None = None
    """Of a PodDisruptionBudget what it says, and what would let it allow an eviction."""
    message: str = ""
    """Of a command that could not be begun, what the API server said."""


POD_CODES: Final = frozenset({BlockerCode.DO_NOT_DISRUPT_POD, BlockerCode.PDB})
"""Blockers that concern single pods: a termination grace period overrides them for drift."""

CONSOLIDATION_CODES: Final = frozenset(
    {
        BlockerCode.CONSOLIDATE_AFTER,
        BlockerCode.POLICY,
        BlockerCode.UNKNOWN_PRICE,
        BlockerCode.CONSOLIDATION_BACKOFF,
    }
)
"""Blockers that concern consolidation only; drift goes its own way."""

NOT_OF_EMPTINESS: Final = frozenset({BlockerCode.UNKNOWN_PRICE, BlockerCode.CONSOLIDATION_BACKOFF})
"""Blockers that do not keep a node that is empty."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A managed node, and all that decides whether it may be disrupted."""

    node: Node
    pool: Pool | None
    """None where the NodePool is not in the input."""
    offering: Offering | None
    """What it is paid by; None where the catalogue in effect has no such offering."""
    cost: float
    """Of its disruption."""
    pods: tuple[Pod, ...]
    """Those that would have to be created again elsewhere."""
    drift: Drift | None
    blockers: tuple[Blocker, ...]
    """In the order of their codes."""
    blocked_pods: frozenset[str] = frozenset()
    """Keys of the pods that may not be evicted."""
    valid_until: float = inf
    """When passing time alone makes it another candidate."""
    drain_bound: float | None = None
    """Seconds that draining may take; only where a repair says so."""

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def is_empty(self) -> bool:
        return not self.pods

    @property
    def is_nominated(self) -> bool:
        return any(each.code is BlockerCode.NOMINATED for each in self.blockers)

    @property
    def failed_start(self) -> Blocker | None:
        return next((each for each in self.blockers if each.code is BlockerCode.CANNOT_BEGIN), None)

    @property
    def is_static(self) -> bool:
        """Whether its NodePool keeps a number of nodes, whatever pods need."""
        return self.pool is not None and self.pool.replicas is not None

    @property
    def price(self) -> float:
        """USD per hour; 0 where it is not known."""
        return self.offering.price if self.offering is not None else 0.0

    @property
    def saving_ratio(self) -> float:
        """Dollars per disruption: the order in which candidates are considered."""
        return self.price / self.cost

    def blockers_of_emptiness(self) -> tuple[Blocker, ...]:
        """What an empty node costs need not be known: it costs something, and nobody is evicted."""
        return tuple(each for each in self.blockers if each.code not in NOT_OF_EMPTINESS)

    def blockers_of_drift(self) -> tuple[Blocker, ...]:
        """Pods do not block where the claim bounds the time that draining may take."""
        claim = self.node.claim
        is_bounded = claim is not None and claim.termination_grace_period is not None
        ignored = CONSOLIDATION_CODES | POD_CODES if is_bounded else CONSOLIDATION_CODES
        return tuple(each for each in self.blockers if each.code not in ignored)


class CandidateContext(msgspec.Struct, frozen=True, kw_only=True):
    """What candidates are judged by, besides the snapshot."""

    catalogs: Mapping[str, InstanceTypeIndex]
    offered: Mapping[str, OfferedTypes] = {}
    """By NodePool what exists at all; a NodePool that is missing has no drift by instance type."""
    nominated: AbstractSet[str] = frozenset()
    """Names of nodes on which pending pods are expected."""
    static_capacity: bool = False
    """Whether static NodePools are taken care of (feature gate)."""
    managed_deletion_cost: bool = False
    """Whether a controller writes the deletion costs of pods (feature gate)."""
    paused: AbstractSet[str] = frozenset()
    """Names of NodePools in which nothing is begun."""
    failed_starts: Mapping[str, FailedStart] = {}
    """By name of nodes of which a command could not be begun."""


def find_candidates(
    snapshot: Snapshot, context: CandidateContext, known: Mapping[str, Candidate] | None = None
) -> list[Candidate]:
    """Every managed node, in the order of names.

    `known` are candidates of an earlier snapshot that differs in nodes and time alone: they are
    used again where their node is the same object.
    """
    finder = _CandidateFinder(snapshot, context)
    known, now = known or {}, snapshot.now or 0.0
    found = []
    for node in sorted((node for node in snapshot.nodes if node.managed), key=_name_of):
        earlier = known.get(node.name)
        is_same = (
            earlier is not None
            and earlier.node is node
            and now < earlier.valid_until
            and earlier.is_nominated == is_nominated(node, context.nominated)
            and earlier.failed_start == start_blocker(context.failed_starts.get(node.name))
        )
        found.append(earlier if earlier is not None and is_same else finder.candidate(node))
    return found


_name_of = attrgetter("name")


class _CandidateFinder:
    def __init__(self, snapshot: Snapshot, context: CandidateContext) -> None:
        self._now = snapshot.now
        self._context = context
        self._pools = {pool.name: pool for pool in snapshot.pools}
        self._budgets = EvictionAllowance(snapshot)

    def candidate(self, node: Node) -> Candidate:
        pool = self._pools.get(node.pool or "")
        offering = self._offering(node)
        offered = self._context.offered.get(node.pool or "")
        drift = None if pool is None else find_drift(node, pool, offered, self._now)
        blockers = list(self._blockers(node, pool, offering, drift))
        return Candidate(
            node=node,
            pool=pool,
            offering=offering,
            cost=disruption_cost(
                node, self._now, managed_deletion_cost=self._context.managed_deletion_cost
            ),
            pods=tuple(pod for pod in node.pods if pod.is_rescheduled),
            drift=drift,
            blockers=tuple(sorted(blockers, key=lambda each: each.code)),
            blocked_pods=frozenset(self._blocked_pods(node)) if blockers else frozenset(),
            valid_until=self._valid_until(node, pool, blockers),
        )

    def _valid_until(self, node: Node, pool: Pool | None, blockers: Iterable[Blocker]) -> float:
        """The next moment at which a blocker ends, the node expires or settles, or its cost is
        another one, as that falls with its remaining lifetime.
        """
        now = self._now or 0.0
        after = pool.disruption.consolidate_after if pool is not None else None
        moments = [
            *(each.until for each in blockers),
            expires_at(node),
            None if after is None else settled_at(node, after),
        ]
        claim = node.claim
        if claim is not None and claim.expire_after:
            moments.append(now + claim.expire_after * COST_PRECISION)
        return min((each for each in moments if each is not None and each > now), default=inf)

    def _offering(self, node: Node) -> Offering | None:
        index = self._context.catalogs.get(node.pool or "")
        name = node.labels.get(INSTANCE_TYPE, "")
        if index is None or not name:
            return None
        found = index.find(name)
        return None if found is None else find_offering(node, found.offerings)

    def _blockers(
        self, node: Node, pool: Pool | None, offering: Offering | None, drift: Drift | None
    ) -> Iterator[Blocker]:
        yield from _node_blockers(node, self._context.nominated, self._now)
        failed = start_blocker(self._context.failed_starts.get(node.name))
        if failed is not None:
            yield failed
        if pool is None:
            yield Blocker(
                code=BlockerCode.NOT_OURS, kind=BlockerKind.NODEPOOL, name=node.pool or node.name
            )
            return
        if pool.name in self._context.paused:
            yield Blocker(code=BlockerCode.PAUSED, kind=BlockerKind.NODEPOOL, name=pool.name)
        is_taken_care_of = self._context.static_capacity and drift is not None
        if pool.replicas is not None and not is_taken_care_of:
            yield Blocker(code=BlockerCode.STATIC_POOL, kind=BlockerKind.NODEPOOL, name=pool.name)
        yield from self._pod_blockers(node)
        yield from _consolidation_blockers(node, pool, self._now)
        if offering is None:
            name = node.labels.get(INSTANCE_TYPE) or node.name
            yield Blocker(code=BlockerCode.UNKNOWN_PRICE, kind=BlockerKind.TYPE, name=name)

    def _blocked_pods(self, node: Node) -> Iterator[str]:
        for pod in node.pods:
            if any(self._blockers_of_pod(pod)):
                yield pod.key

    def _pod_blockers(self, node: Node) -> Iterator[Blocker]:
        for pod in node.pods:
            yield from self._blockers_of_pod(pod)

    def _blockers_of_pod(self, pod: Pod) -> Iterator[Blocker]:
        if not pod.terminating:
            protected, until = is_protected(pod, self._now)
            if protected:
                yield Blocker(
                    code=BlockerCode.DO_NOT_DISRUPT_POD,
                    kind=BlockerKind.POD,
                    name=pod.key,
                    until=until,
                )
            if not pod.eviction.static:
                for budget, shortfall in self._budgets.blocking(pod):
                    yield Blocker(
                        code=BlockerCode.PDB,
                        kind=BlockerKind.PDB,
                        name=f"{budget.namespace}/{budget.name}",
                        budget=shortfall,
                    )


def is_protected(pod: Pod, now: float | None) -> tuple[bool, float | None]:
    """Whether its do-not-disrupt annotation is in effect, and until when; None means for ever.

    A duration counts from the pod's start; one that has not started is protected.
    """
    protection = pod.eviction.do_not_disrupt
    if isinstance(protection, bool):
        return protection, None
    if pod.eviction.started is None or now is None:
        return True, None
    until = pod.eviction.started + protection
    return until > now, until


def is_initialized(node: Node) -> bool:
    """Whether the node has come up; one without a NodeClaim counts once it is Ready."""
    if not node.joined:
        return False
    if node.initialized:
        return True
    if node.claim is not None and node.claim.conditions:
        return False
    ready = node.conditions.get("Ready")
    is_registered = all(taint.key != UNREGISTERED_TAINT.key for taint in node.taints)
    return node.launched and is_registered and (ready is None or ready.is_true)


def is_rebooting(node: Node) -> bool:
    """Whether somebody reboots it, as a condition of its claim says: its room comes back."""
    stated = None if node.claim is None else node.claim.conditions.get(REBOOTING)
    return stated is not None and stated.is_true


def expires_at(node: Node) -> float | None:
    claim = node.claim
    if claim is None or claim.expire_after is None or claim.created is None:
        return None
    return claim.created + claim.expire_after


def is_nominated(node: Node, nominated: AbstractSet[str]) -> bool:
    """Whether pods are expected on it: under its own name, or that of its claim."""
    return node.name in nominated or (node.claim is not None and node.claim.name in nominated)


def _node_blockers(node: Node, nominated: AbstractSet[str], now: float | None) -> Iterator[Blocker]:
    def blocker(code: BlockerCode, kind: BlockerKind, name: str) -> Blocker:
        return Blocker(code=code, kind=kind, name=name)

    if node.deleting:
        yield blocker(BlockerCode.DELETING, BlockerKind.CONDITION, node.name)
    if not is_initialized(node):
        yield blocker(BlockerCode.NOT_INITIALIZED, BlockerKind.CONDITION, "Initialized")
    if is_rebooting(node):
        yield blocker(BlockerCode.NOT_INITIALIZED, BlockerKind.CONDITION, REBOOTING)
    if is_nominated(node, nominated):
        yield blocker(BlockerCode.NOMINATED, BlockerKind.CONDITION, node.name)
    expiry = expires_at(node)
    if expiry is not None and now is not None and expiry <= now:
        yield blocker(BlockerCode.EXPIRED, BlockerKind.CONDITION, node.name)
    if node.annotations.get(DO_NOT_DISRUPT) == "true":
        yield blocker(BlockerCode.DO_NOT_DISRUPT_NODE, BlockerKind.ANNOTATION, DO_NOT_DISRUPT)


def start_blocker(failed: FailedStart | None) -> Blocker | None:
    """Of a node of which a command could not be begun."""
    if failed is None:
        return None
    return Blocker(
        code=BlockerCode.CANNOT_BEGIN,
        kind=BlockerKind.CONDITION,
        name=failed.name,
        until=failed.until,
        message=failed.message,
    )


def _consolidation_blockers(node: Node, pool: Pool, now: float | None) -> Iterator[Blocker]:
    disruption = pool.disruption
    is_empty = not any(pod.is_rescheduled for pod in node.pods)
    if disruption.consolidate_after is None or (disruption.policy == WHEN_EMPTY and not is_empty):
        yield Blocker(code=BlockerCode.POLICY, kind=BlockerKind.POLICY, name=pool.name)
    if disruption.consolidate_after is None:
        return
    again = None if node.claim is None else consolidated_again_at(node.claim)
    if again is not None and now is not None and again > now:
        yield Blocker(
            code=BlockerCode.CONSOLIDATION_BACKOFF,
            kind=BlockerKind.ANNOTATION,
            name=UNDONE_CONSOLIDATIONS,
            until=again,
        )
    is_waiting, until = _is_settling(node, disruption.consolidate_after, now)
    if is_waiting:
        yield Blocker(
            code=BlockerCode.CONSOLIDATE_AFTER,
            kind=BlockerKind.NODEPOOL,
            name=pool.name,
            until=until,
        )


def undone_consolidations(node: Node) -> int:
    """How often, in a row, consolidation removed a node in its place that was needed."""
    return 0 if node.claim is None else _undone(node.claim)


def _undone(claim: NodeClaimState) -> int:
    stated = claim.annotations.get(UNDONE_CONSOLIDATIONS, "")
    return parse_whole_number(stated[:MAX_DIGITS]) or 0


def consolidated_again_at(claim: NodeClaimState) -> float | None:
    """Until when the node is not consolidated because the last time was undone."""
    undone = _undone(claim)
    if not undone or claim.created is None:
        return None
    return claim.created + FIRST_BACKOFF * 2.0 ** min(undone - 1, MAX_DOUBLINGS)


def _is_settling(
    node: Node, consolidate_after: float, now: float | None
) -> tuple[bool, float | None]:
    """Whether pods came or went too recently, and until when it has to be left alone.

    The condition Consolidatable decides where the claim has it.
    """
    until = settled_at(node, consolidate_after)
    if until is not None and now is not None and until <= now:
        until = None  # it is the condition that lags behind
    stated = node.claim.conditions.get("Consolidatable") if node.claim is not None else None
    if stated is not None:
        return not stated.is_true, until
    return until is not None and now is not None, until


def settled_at(node: Node, consolidate_after: float) -> float | None:
    """When the node has been left alone for long enough; None where nobody knows since when."""
    claim = node.claim
    initialized = claim.conditions.get("Initialized") if claim is not None else None
    known = (
        claim.last_pod_event if claim is not None else None,
        initialized.since if initialized is not None else None,
        claim.created if claim is not None else None,
        node.created,
    )
    since = next((each for each in known if each is not None), None)
    return None if since is None else since + consolidate_after
