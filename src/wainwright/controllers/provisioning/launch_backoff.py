"""The runaway guard: no node after node for a pod that the kube-scheduler does not bind to them.

Where the kube-scheduler disagrees with the planner about a pod, every plan would launch one more
node for it. A pod that got two initialized nodes of a NodePool and is still unbound waits five
minutes for a third of that pool, then ten, and so on. Other pods, and other pools, are unaffected.
The same holds for a pod that still runs on a node which is going: where none of the nodes that come
up has room for it, every plan until it is evicted would launch one more.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.kubernetes.workloads import Pod
from wainwright.controllers.conditions import INITIALIZED, TRUE
from wainwright.controllers.informer_cache import Change, InformerCache
from wainwright.model.labels import NODEPOOL
from wainwright.model.pod import Pod as ModelPod
from wainwright.model.requirements import Requirements
from wainwright.model.snapshot import Node as ModelNode
from wainwright.translate.object_metadata import parse_timestamp

FREE_NODES: Final = 2
"""Initialized nodes of a NodePool that a pod may get before it has to wait."""
BACKOFF_STEP: Final = 300.0  # seconds, once more for each further node


class _Launches:
    """What was launched of one pool for one pod."""

    def __init__(self) -> None:
        self.claims: set[str] = set()
        self.initialized: set[str] = set()
        self.last_initialized = 0.0

    @property
    def blocked_until(self) -> float:
        extra = len(self.initialized) - FREE_NODES + 1
        return 0.0 if extra <= 0 else self.last_initialized + extra * BACKOFF_STEP


class LaunchBackoff:
    """Remembers by pod and pool what was launched for pods that are still unbound."""

    def __init__(self, cache: InformerCache) -> None:
        self._by_pod: dict[str, dict[str, _Launches]] = {}
        self._pods_of_claim: dict[str, tuple[str, ...]] = {}
        cache.subscribe(Pod, self._changed_pod)
        cache.subscribe(NodeClaim, self._changed_claim)

    def launched(self, claim: NodeClaim, pods: Iterable[Pod]) -> None:
        """The claim was created for these pods."""
        uids = tuple(pod.metadata.uid for pod in pods)
        pool = (claim.metadata.labels or {}).get(NODEPOOL, "")
        self._pods_of_claim[claim.metadata.uid] = uids
        for uid in uids:
            launches = self._by_pod.setdefault(uid, {}).setdefault(pool, _Launches())
            launches.claims.add(claim.metadata.uid)

    def forget(self, uid: str) -> None:
        """The pod has found room; what was launched for it no longer counts."""
        self._by_pod.pop(uid, None)

    def blocked_pools(self, uid: str, now: float) -> list[str]:
        """The pools that may launch no node for the pod now."""
        pools = self._by_pod.get(uid, {})
        return sorted(pool for pool, launches in pools.items() if launches.blocked_until > now)

    def next_release(self, now: float) -> float | None:
        """When the first pod may get a node again."""
        moments = (
            launches.blocked_until for pools in self._by_pod.values() for launches in pools.values()
        )
        return min((moment for moment in moments if moment > now), default=None)

    def restrict(self, pods: tuple[ModelPod, ...], now: float) -> tuple[ModelPod, ...]:
        """The pods, those that wait with a requirement that keeps them off the pool.

        That keeps them off its existing nodes as well; where one of these has room for the pod, the
        kube-scheduler binds it without us.
        """
        return _restricted(pods, self._blocked(now))

    def restrict_nodes(self, nodes: tuple[ModelNode, ...], now: float) -> tuple[ModelNode, ...]:
        """The nodes; pods of those that are going as if they waited already."""
        blocked = self._blocked(now)
        if not blocked:
            return nodes
        return tuple(
            msgspec.structs.replace(node, pods=_restricted(node.pods, blocked))
            if node.deleting and any(pod.uid in blocked for pod in node.pods)
            else node
            for node in nodes
        )

    def _blocked(self, now: float) -> dict[str, list[str]]:
        return {uid: pools for uid in self._by_pod if (pools := self.blocked_pools(uid, now))}

    def waiting(self, now: float) -> dict[str, tuple[int, float]]:
        """By uid of the pods that wait: how many nodes they got, and until when."""
        blocked = {}
        for uid, pools in self._by_pod.items():
            held = [each for each in pools.values() if each.blocked_until > now]
            if held:
                nodes = sum(len(each.initialized) for each in held)
                blocked[uid] = nodes, max(each.blocked_until for each in held)
        return blocked

    def _changed_pod(self, change: Change[Pod]) -> None:
        """Where it was bound before, what counts was launched because its node is going."""
        was_bound = change.before is not None and bool(change.before.spec.nodeName)
        if change.after is None or (change.after.spec.nodeName and not was_bound):
            self._by_pod.pop(change.object.metadata.uid, None)

    def _changed_claim(self, change: Change[NodeClaim]) -> None:
        claim = change.after
        uid = change.object.metadata.uid
        if claim is None:
            self._pods_of_claim.pop(uid, None)
        elif uid in self._pods_of_claim and (since := _initialized_since(claim)) is not None:
            for launches in self._launches_with(uid):
                launches.initialized.add(uid)
                launches.last_initialized = max(launches.last_initialized, since)

    def _launches_with(self, claim: str) -> Iterable[_Launches]:
        for pod in self._pods_of_claim[claim]:
            for launches in self._by_pod.get(pod, {}).values():
                if claim in launches.claims:
                    yield launches


def _initialized_since(claim: NodeClaim) -> float | None:
    for each in (claim.status.conditions if claim.status is not None else None) or ():
        if each.type == INITIALIZED and each.status == TRUE:
            return parse_timestamp(each.lastTransitionTime)
    return None


def _restricted(
    pods: tuple[ModelPod, ...], blocked: Mapping[str, list[str]]
) -> tuple[ModelPod, ...]:
    if not blocked:
        return pods
    return tuple(_keep_off(pod, blocked[pod.uid]) if pod.uid in blocked else pod for pod in pods)


def _keep_off(pod: ModelPod, pools: list[str]) -> ModelPod:
    off = Requirements.from_entries([(NODEPOOL, "NotIn", tuple(pools), None)])
    narrowed = (alternative.narrow(off) for alternative in pod.alternatives)
    possible = tuple(each for each in narrowed if not each.allowed(NODEPOOL).is_empty)
    return msgspec.structs.replace(pod, alternatives=possible)
