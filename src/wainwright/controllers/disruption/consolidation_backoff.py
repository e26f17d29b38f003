"""The consolidation back-off: a node is not removed again and again for a saving that never comes.

Consolidation removes a node because its pods fit elsewhere. Nothing keeps the kube-scheduler to
that plan: pods that are created again in another order may take the room that was meant for one of
them, for a pod that still waits for its eviction from another node, or for the virtual pods of a
capacity buffer, and a node has to be launched for it. Such a removal was undone. The new node says
so by an annotation, and is not consolidated for an hour; the next one in its place for two, and so
on.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.kubernetes.workloads import Pod
from wainwright.clock import format_timestamp
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.informer_cache import Change
from wainwright.core.disruption.budgets import DisruptionReason
from wainwright.core.disruption.candidates import (
    UNDONE_CONSOLIDATIONS,
    consolidated_again_at,
    undone_consolidations,
)
from wainwright.core.disruption.commands import Command
from wainwright.messages.formatting import format_count
from wainwright.metrics import UNDONE_CONSOLIDATIONS_TOTAL
from wainwright.model.labels import NODEPOOL
from wainwright.translate.disruption import translate_claim_state
from wainwright.translate.object_metadata import controller_of, has_owner_kind
from wainwright.translate.pods import is_terminal

LOG: Final = logging.getLogger(__name__)

WINDOW: Final = 600.0
"""Seconds after the last node of a removal is gone in which a launch may undo it."""


class _RecordedRemoval(msgspec.Struct, kw_only=True):
    """Nodes that consolidation removed, and what became of it."""

    claims: set[str]
    """Names of those that are still there."""
    workloads: Mapping[str, int]
    """By uid of the controllers of the evicted pods: how many pods each had."""
    waiting: Mapping[str, int]
    """The same of pods on other nodes that are drained: the plan has room for them too, which the
    kube-scheduler does not know of."""
    virtual_pods: int
    """Of capacity buffers, wherever they have room: any of them may have lost it."""
    pods: int
    """In the cluster, where there are virtual pods: more of them may need more room."""
    saving: float
    """USD per hour that launches have left of it."""
    undone: int
    """How often removals in their place were undone before."""
    ended: float = float("inf")


class ConsolidationBackoff:
    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._pods = context.cache.index(Pod, _workload_of)
        self._removals: list[_RecordedRemoval] = []
        self._undone_for_buffers = 0
        """How often in all: virtual pods have room on any node, so that another one goes each time,
        and a count by node would begin anew."""
        context.cache.subscribe(NodeClaim, self._changed_claim)
        context.cache.subscribe(Pod, self._changed_pod)

    # Removals

    def removing(self, command: Command, claims: Iterable[str]) -> None:
        """The command deletes these NodeClaims now. An empty node may have had room for virtual
        pods: a reserved one is not kept for them.
        """
        if command.reason not in (DisruptionReason.UNDERUTILIZED, DisruptionReason.EMPTY):
            return
        nodes = [each.node for each in command.candidates]
        names = {node.name for node in nodes}
        workloads = self._workloads_on(names)
        virtual_pods = self._context.state.virtual_pod_count
        if workloads or virtual_pods:
            removal = _RecordedRemoval(
                claims={*claims},
                workloads=workloads,
                waiting=self._workloads_on({*self._context.state.disrupted_nodes} - names),
                virtual_pods=virtual_pods,
                pods=self._count_all() if virtual_pods else 0,
                saving=command.saving,
                undone=max(map(undone_consolidations, nodes)),
            )
            self._forget_old()
            self._removals.append(removal)

    def _workloads_on(self, nodes: Iterable[str]) -> dict[str, int]:
        """By uid of the controllers of their pods: how many pods each has."""
        pods = (pod for node in nodes for pod in self._context.state.pods_by_node.get(node))
        return {uid: self._count(uid) for uid in {_workload_of(pod) for pod in pods} if uid}

    def _count(self, workload: str, *, is_bound: bool = False) -> int:
        """Pods that stay; with `is_bound` only those that have a node."""
        return sum(
            not (each.metadata.deletionTimestamp or is_terminal(each))
            and (bool(each.spec.nodeName) or not is_bound)
            for each in self._pods.get(workload)
        )

    def _count_all(self) -> int:
        """Pods that stay, but for those of DaemonSets and of nodes themselves."""
        return sum(
            not (each.metadata.deletionTimestamp or is_terminal(each) or _is_of_node(each))
            for each in self._context.cache.all(Pod)
        )

    def _changed_claim(self, change: Change[NodeClaim]) -> None:
        if change.after is None and self._removals:
            for removal in self._removals:
                removal.claims.discard(change.name)
                if not removal.claims:
                    removal.ended = min(removal.ended, self._context.clock.now())
            self._forget_settled()

    def _changed_pod(self, change: Change[Pod]) -> None:
        pod = change.after
        if self._removals and pod is not None and pod.spec.nodeName:
            self._forget_settled(_workload_of(pod))

    def _forget_settled(self, workload: str | None = None) -> None:
        """A removal after which every pod has found another node is over, and was right; whether
        others lost their place by it shows later.
        """
        self._removals = [
            each
            for each in self._removals
            if workload not in (None, *each.workloads) or not self._is_settled(each)
        ]

    def _is_settled(self, removal: _RecordedRemoval) -> bool:
        """Whether virtual pods have lost their room shows only when the buffers are looked at."""
        is_open = removal.claims or removal.waiting or removal.virtual_pods
        return not is_open and all(
            self._count(uid, is_bound=True) >= before for uid, before in removal.workloads.items()
        )

    # Launches

    def launching(self, price: float, pods: Iterable[Pod]) -> int:
        """How often removals in the place of the node that is launched were undone, this time
        included; 0 where it undoes none.
        """
        workloads = {_workload_of(pod) for pod in pods} if self._removals else set()
        return self._charge(price, lambda removal: self._is_undone(removal, workloads))

    def launching_for_buffers(self, price: float, virtual_pods: int) -> int:
        """The same for virtual pods, of which there are so many in all: the more of them, or of
        real pods, there are since a removal, the less it is to blame.
        """
        pods = self._count_all() if self._removals else 0
        undone = self._charge(
            price,
            lambda removal: virtual_pods <= removal.virtual_pods and pods <= removal.pods,
        )
        if undone:
            undone = max(undone, self._undone_for_buffers + 1)
            self._undone_for_buffers = undone
        return undone

    def _charge(self, price: float, is_undone: Callable[[_RecordedRemoval], bool]) -> int:
        self._forget_old()
        concerned = [*filter(is_undone, self._removals)]
        for removal in concerned:
            removal.saving -= price
        return max((1 + each.undone for each in concerned if each.saving <= 0), default=0)

    def _forget_old(self) -> None:
        begin = self._context.clock.now() - WINDOW
        self._removals = [each for each in self._removals if each.ended >= begin]

    def _is_undone(self, removal: _RecordedRemoval, workloads: set[str]) -> bool:
        """A workload that has more pods than before needs the node for those."""
        before = {**removal.waiting, **removal.workloads}
        return any(self._count(uid) <= before[uid] for uid in workloads & before.keys())

    async def launched(self, claim: NodeClaim, undone: int, pods: Iterable[Pod]) -> None:
        """`pods` are those that it was launched for; virtual ones have no owner."""
        again = consolidated_again_at(translate_claim_state(claim))
        owners = ", ".join(sorted({owner for pod in pods if (owner := _owner_of(pod))}))
        text = (
            f"Launched for {f'pods of {owners}' if owners else 'capacity buffers'} after "
            "consolidation had removed a node: it saved nothing, "
            f"{format_count(undone, 'time')} in a row. Not consolidated before "
            f"{format_timestamp(again or 0.0)}"
        )
        LOG.warning("%s: %s", claim.metadata.name, text)
        pool = (claim.metadata.labels or {}).get(NODEPOOL, "")
        self._context.metrics.add(UNDONE_CONSOLIDATIONS_TOTAL, nodepool=pool)
        await self._context.events.warn(claim, "ConsolidationUndone", text)


def undone_annotation(undone: int) -> dict[str, str]:
    return {UNDONE_CONSOLIDATIONS: str(undone)} if undone else {}


def _workload_of(pod: Pod) -> str:
    """The uid of its controller; empty where it has none, or one that runs it on this node."""
    owner = controller_of(pod.metadata)
    return "" if owner is None or _is_of_node(pod) else owner.uid


def _is_of_node(pod: Pod) -> bool:
    owner = controller_of(pod.metadata)
    is_mirror = owner is not None and owner.kind == "Node"
    return is_mirror or has_owner_kind(pod.metadata, "DaemonSet")


def _owner_of(pod: Pod) -> str:
    owner = controller_of(pod.metadata)
    return "" if owner is None else f"{owner.kind} {pod.metadata.namespace}/{owner.name}"
