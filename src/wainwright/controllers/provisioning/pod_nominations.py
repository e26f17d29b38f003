"""Pods that wait for a node which is on its way: they are counted there, and planned nowhere else.

A plan is made anew whenever something changes, and a new plan may distribute the same pods
otherwise, most of all with topology constraints: it would launch a node for a pod whose own is
about to come up. A nomination ends when the pod is bound, when its claim is gone, or when its
node has been initialized for long enough for the kube-scheduler to bind it: while the scheduler
still binds others that were nominated, a pod is only waiting for its turn.
"""

from collections import defaultdict
from collections.abc import Iterable
from math import inf
from typing import Final

import msgspec

from wainwright.api.kubernetes.workloads import Pod
from wainwright.clock import Clock
from wainwright.controllers.conditions import INITIALIZED
from wainwright.controllers.informer_cache import Change, InformerCache
from wainwright.model.pod import Pod as ModelPod
from wainwright.model.snapshot import Node, Snapshot

BINDING_SECONDS: Final = 10.0
"""How long the kube-scheduler has to bind the pods of a node that was just initialized, and after
each pod that it has bound the next one."""
MAX_BINDING_SECONDS: Final = 120.0
"""After which a pod is planned again however busy the scheduler is."""


class PodNominations:
    def __init__(self, cache: InformerCache, clock: Clock) -> None:
        self._clock = clock
        self._claims: dict[str, str] = {}
        """By uid of the pod the name of its NodeClaim."""
        self._last_bound = -inf
        """When a pod that was nominated was bound."""
        cache.subscribe(Pod, self._changed_pod)

    def add(self, claim: str, pods: Iterable[Pod]) -> None:
        for pod in pods:
            self._claims[pod.metadata.uid] = claim

    def apply(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with the pods on the nodes that they wait for."""
        if not self._claims:
            return snapshot
        coming = {
            node.claim.name: node
            for node in snapshot.nodes
            if node.claim is not None and self._is_awaited(node, snapshot.now or 0.0)
        }
        nominated: dict[str, list[ModelPod]] = defaultdict(list)
        for pod in snapshot.pods:
            claim = self._claims.get(pod.uid, "")
            if claim in coming:
                nominated[coming[claim].name].append(pod)
            else:
                self._claims.pop(pod.uid, None)
        return _with_pods(snapshot, nominated) if nominated else snapshot

    def next_release(self, snapshot: Snapshot) -> float | None:
        """When pods that are still unbound by then are planned again."""
        claims = {*self._claims.values()}
        ends = (
            self._release_time(node)
            for node in snapshot.nodes
            if node.claim is not None and node.claim.name in claims
        )
        now = snapshot.now or 0.0
        return min((end for end in ends if end is not None and end > now), default=None)

    def _changed_pod(self, change: Change[Pod]) -> None:
        pod = change.after
        if pod is not None and not pod.spec.nodeName:
            return
        nominated = self._claims.pop(change.object.metadata.uid, None)
        if nominated is not None and pod is not None:
            self._last_bound = self._clock.now()

    def _is_awaited(self, node: Node, now: float) -> bool:
        end = self._release_time(node)
        return not node.deleting and (end is None or now < end)

    def _release_time(self, node: Node) -> float | None:
        """None as long as it is not initialized."""
        if not node.initialized or node.claim is None:
            return None
        initialized = node.claim.conditions.get(INITIALIZED)
        since = None if initialized is None else initialized.since
        if since is None:  # its label is written first, the condition of its claim a moment later
            since = self._clock.now()
        end = max(since, self._last_bound) + BINDING_SECONDS
        return min(end, since + MAX_BINDING_SECONDS)


def _with_pods(snapshot: Snapshot, nominated: dict[str, list[ModelPod]]) -> Snapshot:
    taken = {pod.uid for pods in nominated.values() for pod in pods}
    nodes = tuple(
        msgspec.structs.replace(node, pods=(*node.pods, *nominated[node.name]))
        if node.name in nominated
        else node
        for node in snapshot.nodes
    )
    pods = tuple(pod for pod in snapshot.pods if pod.uid not in taken)
    return msgspec.structs.replace(snapshot, nodes=nodes, pods=pods)
