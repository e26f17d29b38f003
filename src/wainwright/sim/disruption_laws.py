"""Laws about how nodes are ended on purpose: commands of disruption, drains, and what they leave.

All of them are judged by what the API server and EC2 know, whatever the controllers think. Where
controllers may not know yet what has changed, because a watch lags, the state of the last minutes
counts as well.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from math import ceil
from typing import Any, Final

import msgspec

from wainwright.api.karpenter.nodeclaim import NodeClaim, NodeClaimStatus
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.workloads import Pod
from wainwright.cluster import EventType, WatchEvent
from wainwright.core.disruption.budgets import is_active
from wainwright.emulator.ec2.instance.lifecycle import USER_INITIATED_SHUTDOWN, Instance
from wainwright.model.disruption import DisruptionBudget
from wainwright.model.labels import INITIALIZED as INITIALIZED_LABEL
from wainwright.model.labels import NODEPOOL
from wainwright.model.taints import DISRUPTED_TAINT
from wainwright.sim.billed_instances import BilledInstance
from wainwright.sim.known_prices import KnownPrices, PriceVersion
from wainwright.sim.money import OfferingOfPool, offering_of
from wainwright.sim.pod_counts import is_daemon
from wainwright.sim.recorder import Recorder
from wainwright.sim.world import World
from wainwright.translate.pools import translate_pool
from wainwright.whole_numbers import parse_whole_number

EVICTIONS_END_NODES: Final = "evictions-end-nodes"
CONSOLIDATION_SAVES: Final = "consolidation-saves"
NODEPOOL_BUDGETS_RESPECTED: Final = "nodepool-budgets-respected"
REPLACEMENTS_COME_FIRST: Final = "replacements-come-first"
NODES_ARE_DRAINED: Final = "nodes-are-drained"
NO_TAINT_LEFT: Final = "no-taint-left"
NODE_HAS_CLAIM: Final = "node-has-claim"
DISRUPTION_LAWS: Final = (
    EVICTIONS_END_NODES,
    CONSOLIDATION_SAVES,
    NODEPOOL_BUDGETS_RESPECTED,
    REPLACEMENTS_COME_FIRST,
    NODES_ARE_DRAINED,
    NO_TAINT_LEFT,
    NODE_HAS_CLAIM,
)
DISRUPTION_REASON: Final = "DisruptionReason"
UNDERUTILIZED: Final = "Underutilized"
INITIALIZED: Final = "Initialized"
MEMBERS: Final = ("Registered", INITIALIZED)
LAG: Final = 300.0
"""Seconds for which a controller may not know of a change: its watch is late several times in a
row, or was lost.
"""
SAME_PRICE: Final = 1e-6
"""EC2 tells the prices of spot with six digits."""


class _MarkedClaim(msgspec.Struct, kw_only=True):
    """A candidate of a command that is under way."""

    reason: str
    offering: OfferingOfPool | None
    """As what its instance was billed when the command began."""
    prices: Sequence[PriceVersion]
    """Those that it may have been judged by."""
    counts: bool
    """Whether its node had come up by then: repair of one that never has uses no budget."""


class DisruptionLaws:
    def __init__(
        self,
        world: World,
        recorder: Recorder,
        break_law: Callable[[str, str], None],
    ) -> None:
        self._world, self._recorder, self._break = world, recorder, break_law
        self.prices = KnownPrices(world, lag=LAG)
        self._marked: dict[str, _MarkedClaim] = {}
        self._newly_marked: set[tuple[str, str]] = set()
        """NodePools and reasons of commands that began at this moment."""
        self._pools: dict[str, str] = {}
        """The NodePool of every registered claim."""
        self._initialized: set[str] = set()
        """Claims whose Node says that it is initialized."""
        self._sizes: dict[str, deque[tuple[float, int]]] = defaultdict(deque)
        """By NodePool, how many registered claims it had since when."""
        self._budgets: dict[str, deque[tuple[float, tuple[DisruptionBudget, ...]]]] = defaultdict(
            deque
        )
        self._launched_as: dict[str, OfferingOfPool] = {}
        """By instance."""
        self._handlers: dict[type, Callable[[EventType, Any], None]] = {
            NodeClaim: self._on_claim,
            NodePool: self._on_pool,
            Node: self._on_node,
        }
        for kind, handler in self._handlers.items():
            existing: Iterator[Any] = world.api.peek_all(kind)
            for obj in existing:
                handler(EventType.ADDED, obj)
        self._newly_marked.clear()
        world.api.subscribe(self._on_change)
        recorder.command_listeners.append(self._on_command)
        world.account.services.instances.add_listener(self._on_instance)

    def _on_change(self, change: WatchEvent[Any]) -> None:
        handler = self._handlers.get(type(change.object))
        if handler is not None:
            handler(change.type, change.object)

    # Commands

    def _on_claim(self, event: EventType, claim: NodeClaim) -> None:
        name = claim.metadata.name
        if event is EventType.DELETED:
            self._set_member(name, "")
            self._marked.pop(name, None)
            self._initialized.discard(name)
            return
        pool = (claim.metadata.labels or {}).get(NODEPOOL, "")
        is_member = _is_member(claim) or name in self._initialized
        self._set_member(name, pool if is_member else "")
        self._note_mark(claim, pool)

    def _note_mark(self, claim: NodeClaim, pool: str) -> None:
        name, reason = claim.metadata.name, _disruption_reason(claim)
        known = self._marked.get(name)
        if not reason:
            self._marked.pop(name, None)
        elif known is None or known.reason != reason:
            self._marked[name] = _MarkedClaim(
                reason=reason,
                offering=self._offering(claim),
                prices=self.prices.versions() if reason == UNDERUTILIZED else (),
                counts=_is_initialized(claim) or name in self._initialized,
            )
            if claim.metadata.deletionTimestamp is None:
                self._newly_marked.add((pool, reason))

    def _offering(self, claim: NodeClaim) -> OfferingOfPool | None:
        billed = self._recorder.instances.get(_instance_id(claim))
        return None if billed is None else offering_of(billed.instance)

    def _on_command(
        self, reason: str, candidates: Sequence[str], replacements: Sequence[str]
    ) -> None:
        """The candidates are about to be deleted."""
        known = [self._world.api.peek(NodeClaim, name) for name in replacements]
        for claim in known:
            is_there = claim is not None and claim.metadata.deletionTimestamp is None
            if claim is not None and is_there and not _is_initialized(claim):
                self._break(
                    REPLACEMENTS_COME_FIRST,
                    f"{', '.join(candidates)} is deleted, and its replacement "
                    f"{claim.metadata.name} is not initialized",
                )
        if replacements and reason == UNDERUTILIZED:
            self._judge_saving(candidates, known)

    def _judge_saving(
        self, candidates: Sequence[str], replacements: Sequence[NodeClaim | None]
    ) -> None:
        """At prices that were known when the command began, whatever they are by now."""
        marked = [each for name in candidates if (each := self._marked.get(name)) is not None]
        before = [each.offering for each in marked if each.offering is not None]
        ids = [_instance_id(each) for each in replacements if each is not None]
        after = [self._launched_as[each] for each in ids if each in self._launched_as]
        if len(before) < len(candidates) or len(after) < len(replacements):
            return  # one of them is gone for another reason
        versions = dict.fromkeys(version for each in marked for version in each.prices)
        excess = self.prices.least_excess(before, after, versions)
        if excess is not None and excess > SAME_PRICE * (len(before) + len(after)):
            self._break(
                CONSOLIDATION_SAVES,
                f"what replaces {', '.join(candidates)} costs {excess:.6g} an hour more, at the "
                "prices by which it was decided",
            )

    # Budgets of NodePools

    def observe(self) -> None:
        """Everything that was due at this moment has been done."""
        self.prices.observe()
        begun, self._newly_marked = self._newly_marked, set()
        for pool, reason in sorted(begun):
            self._check_budgets(pool, reason)

    def _check_budgets(self, pool: str, reason: str) -> None:
        """A node that is disrupted counts against the budgets of every reason."""
        names = [
            f"{name} ({marked.reason})"
            for name, marked in self._marked.items()
            if marked.counts and self._pools.get(name) == pool and self._has_node(name)
        ]
        allowed = self._allowed(pool, reason)
        if allowed is not None and len(names) > allowed:
            self._break(
                NODEPOOL_BUDGETS_RESPECTED,
                f"NodePool {pool}: {', '.join(sorted(names))} are disrupted at once, "
                f"and its budgets allow {allowed} as {reason}",
            )

    def _has_node(self, name: str) -> bool:
        """A claim whose Node is gone has been disrupted, and counts no longer."""
        claim = self._world.api.peek(NodeClaim, name)
        node = (claim.status or NodeClaimStatus()).nodeName if claim is not None else ""
        return bool(node) and self._world.api.peek(Node, node) is not None

    def _allowed(self, pool: str, reason: str) -> int | None:
        """By what was true in the last minutes; None where no budget is in effect."""
        now = self._world.clock.now()
        size = max((count for _, count in self._recent(self._sizes[pool])), default=0)
        most: list[int] = []
        for _, budgets in self._recent(self._budgets[pool]):
            counts = [
                _node_count(budget.nodes, size)
                for budget in budgets
                if (budget.reasons is None or reason in budget.reasons) and is_active(budget, now)
            ]
            if not counts:
                return None
            most.append(min(counts))
        return max(most, default=None)

    def _recent(self, history: deque[tuple[float, Any]]) -> deque[tuple[float, Any]]:
        """What was true at some time of the last minutes: the last entry before them as well."""
        since = self._world.now() - LAG
        while len(history) > 1 and history[1][0] <= since:
            history.popleft()
        return history

    def _set_member(self, claim: str, pool: str) -> None:
        before = self._pools.get(claim, "")
        if before == pool:
            return
        for name, change in ((before, -1), (pool, 1)):
            if name:
                sizes = self._recent(self._sizes[name])
                sizes.append((self._world.now(), (sizes[-1][1] if sizes else 0) + change))
        if pool:
            self._pools[claim] = pool
        else:
            del self._pools[claim]

    def _on_pool(self, event: EventType, pool: NodePool) -> None:
        history = self._recent(self._budgets[pool.metadata.name])
        budgets = translate_pool(pool).disruption.budgets
        if event is not EventType.DELETED and (not history or history[-1][1] != budgets):
            history.append((self._world.now(), budgets))

    # Pods and nodes

    def ending(self, pod: Pod) -> None:
        """The controllers evict or delete the pod: its node must be on its way out for good."""
        node = self._world.api.peek(Node, pod.spec.nodeName) if pod.spec.nodeName else None
        if node is not None and node.metadata.deletionTimestamp is None:
            self._break(
                EVICTIONS_END_NODES,
                f"{pod.metadata.namespace}/{pod.metadata.name} was evicted, and its node "
                f"{pod.spec.nodeName} stays",
            )

    def _on_node(self, event: EventType, node: Node) -> None:
        """The pods of a Node that is deleted go with it, whoever needs them."""
        billed = self._recorder.instances.get(node.spec.providerID.rpartition("/")[2])
        claim = None if billed is None else self._world.api.peek(NodeClaim, billed.claim)
        if claim is not None and claim.metadata.name not in self._initialized:
            self._note_initialized(claim, node)
        is_ended_by_us = claim is not None and claim.metadata.deletionTimestamp is not None
        if event is EventType.DELETED and billed is not None and is_ended_by_us:
            self._judge_drain(billed, node, f"Node {node.metadata.name} was deleted")

    def _note_initialized(self, claim: NodeClaim, node: Node) -> None:
        """The claim says so later, and much later where the answer to a write is lost."""
        if (node.metadata.labels or {}).get(INITIALIZED_LABEL) == "true":
            self._initialized.add(claim.metadata.name)
            self._on_claim(EventType.MODIFIED, claim)

    def _on_instance(self, instance: Instance, previous: str) -> None:
        if not previous:
            self._launched_as[instance.id] = offering_of(instance)
        elif not instance.alive and instance.reason == USER_INITIATED_SHUTDOWN:
            self._judge_termination(instance)
        if not instance.alive:
            self._launched_as.pop(instance.id, None)

    def _judge_termination(self, instance: Instance) -> None:
        billed = self._recorder.instances.get(instance.id)
        node = self._world.api.peek(Node, billed.node) if billed is not None else None
        if billed is not None and node is not None:
            self._judge_drain(billed, node, f"{instance.id} of {billed.node} was terminated")

    def _judge_drain(self, billed: BilledInstance, node: Node, what: str) -> None:
        """We end the node: the pods that it ran must have left."""
        claim = self._world.api.peek(NodeClaim, billed.claim) if billed.claim else None
        if billed.was_noticed or billed.was_killed or claim is None or not _is_ready(node):
            return
        if claim.spec.terminationGracePeriod or self._was_unhealthy(claim):
            return
        for key in self._recorder.pods.names_on(node.metadata.name):
            namespace, _, name = key.partition("/")
            pod = self._world.api.peek(Pod, name, namespace)
            if pod is not None and self._is_staying(pod):
                self._break(NODES_ARE_DRAINED, f"{what}, and {key} ran on it")

    def _was_unhealthy(self, claim: NodeClaim) -> bool:
        return self._recorder.endings.reason_of(claim.metadata.name) == "unhealthy"

    def _is_staying(self, pod: Pod) -> bool:
        """Whether a drain would have waited for it, and had the time to learn of it."""
        if pod.metadata.deletionTimestamp is not None or is_daemon(pod):
            return False
        if any(_tolerates(each) for each in pod.spec.tolerations or ()):
            return False
        conditions = pod.status.conditions or ()
        bound = next((each for each in conditions if each.type == "PodScheduled"), None)
        if pod.status.phase != "Running" or bound is None or bound.lastTransitionTime is None:
            return False
        since = datetime.fromisoformat(bound.lastTransitionTime).timestamp()
        return self._world.clock.now() - since > LAG

    # Once the world is quiet

    def judge_quiet(self) -> None:
        claims = [*self._world.api.peek_all(NodeClaim)]
        by_provider_id = {(claim.status or NodeClaimStatus()).providerID for claim in claims}
        for claim in claims:
            if claim.metadata.deletionTimestamp is None and _disruption_reason(claim):
                name = claim.metadata.name
                self._break(NO_TAINT_LEFT, f"NodeClaim {name} still has a DisruptionReason")
        for node in self._world.api.peek_all(Node):
            self._judge_node(node, by_provider_id)

    def _judge_node(self, node: Node, claims: set[str]) -> None:
        name = node.metadata.name
        is_tainted = any(each.key == DISRUPTED_TAINT.key for each in node.spec.taints or ())
        if is_tainted and node.metadata.deletionTimestamp is None:
            self._break(NO_TAINT_LEFT, f"Node {name} still has the taint {DISRUPTED_TAINT.key}")
        if NODEPOOL in (node.metadata.labels or {}) and node.spec.providerID not in claims:
            self._break(NODE_HAS_CLAIM, f"no NodeClaim has the Node {name}")


def _is_initialized(claim: NodeClaim) -> bool:
    conditions = (claim.status or NodeClaimStatus()).conditions or ()
    return any(each.type == INITIALIZED and each.status == "True" for each in conditions)


def _is_member(claim: NodeClaim) -> bool:
    """Whether it counts in percentages."""
    conditions = (claim.status or NodeClaimStatus()).conditions or ()
    return any(each.type in MEMBERS and each.status == "True" for each in conditions)


def _is_ready(node: Node) -> bool:
    conditions = node.status.conditions or ()
    return any(each.type == "Ready" and each.status == "True" for each in conditions)


def _disruption_reason(claim: NodeClaim) -> str:
    for each in (claim.status or NodeClaimStatus()).conditions or ():
        if each.type == DISRUPTION_REASON and each.status == "True":
            return each.reason
    return ""


def _instance_id(claim: NodeClaim) -> str:
    return (claim.status or NodeClaimStatus()).providerID.rpartition("/")[2]


def _node_count(nodes: str, total: int) -> int:
    number = parse_whole_number(nodes.removesuffix("%"))
    if number is None:
        return 0
    return ceil(number * total / 100) if nodes.endswith("%") else number


def _tolerates(toleration: Any) -> bool:
    return toleration.operator == "Exists" and toleration.key in (None, "", DISRUPTED_TAINT.key)
