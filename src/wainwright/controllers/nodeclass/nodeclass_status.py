"""EC2NodeClass: what its selectors find now is written into its status; what was created for it is
removed before the class is.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass, EC2NodeClassStatus
from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.cluster import MergePatch
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.informer_cache import Change, with_finalizer, without_finalizer
from wainwright.controllers.live_state import is_ours
from wainwright.controllers.nodeclass.declared_objects import DeclaredObjectsTracker
from wainwright.controllers.nodepool.nodepool_hash import take_over_claims
from wainwright.controllers.runtime import (
    ACCOUNT,
    AFTER_CONFLICT,
    DONE,
    IMAGES,
    INSTANCES,
    Again,
    Key,
    Poll,
    Result,
    WorkQueue,
)
from wainwright.errors import ConflictError

DEPENDS_ON: Final = {INSTANCES: 120.0, ACCOUNT: 3600.0, IMAGES: 24 * 3600.0}
"""Free addresses and reservations are remembered for a minute, parameters that name images for a
day, all else for half an hour at most."""
NODE_CLASS_FINALIZER: Final = "karpenter.k8s.aws/termination"
WAITING_REPEAT: Final = 600.0
"""Seconds after which people are told again what a deleted class waits for. Each claim that goes
has it looked at as well."""
HASH_VERSION_ANNOTATION: Final = "karpenter.k8s.aws/ec2nodeclass-hash-version"


class NodeClassStatus:
    name = "nodeclass"

    def __init__(self, context: ControllerContext, declared: DeclaredObjectsTracker) -> None:
        self._context, self._declared = context, declared
        self._cache, self._cloud = context.cache, context.cloud
        self._claims = context.cache.index(NodeClaim, _class_of)
        self._reservation_counts = 0

    def watch(self, queue: WorkQueue) -> None:
        def changed_class(change: Change[EC2NodeClass]) -> None:
            before, after = change.before, change.after
            is_same = before is not None and after is not None and _inputs(before) == _inputs(after)
            if not is_same:
                queue.add(change.name)

        def changed_claim(change: Change[NodeClaim]) -> None:
            name = _class_of(change.object)
            node_class = self._cache.get(EC2NodeClass, name) if change.after is None else None
            if node_class is not None and node_class.metadata.deletionTimestamp:
                queue.add(name)

        self._cache.subscribe(EC2NodeClass, changed_class)
        self._cache.subscribe(NodeClaim, changed_claim)

    async def reconcile(self, key: Key) -> Result:
        node_class = self._cache.get(EC2NodeClass, key)
        if node_class is None:
            return DONE
        self._declared.apply()
        try:
            if node_class.metadata.deletionTimestamp:
                return await self._finalize(node_class)
            return await self._resolve(node_class)
        except ConflictError:
            return AFTER_CONFLICT

    async def _resolve(self, node_class: EC2NodeClass) -> Result:
        node_class = await self._mark(node_class)
        state = await self._cloud.resolve(node_class.metadata.name)
        if state.reservation_counts != self._reservation_counts:
            self._reservation_counts = state.reservation_counts
            self._context.learnt()
        await self._cache.update(
            node_class, lambda found: _status_patch(found, state.status), status=True
        )
        if not state.ready:
            return Again(state.requeue_after)  # what makes it ready may be no change in the cluster
        again = self._context.clock.now() + state.requeue_after if state.outdated else None
        return Poll(state.requeue_after, again, DEPENDS_ON)

    async def _mark(self, node_class: EC2NodeClass) -> EC2NodeClass:
        """With the finalizer, before anything is created for it, and with its hash, by one
        request.
        """
        current = self._cloud.node_class_annotations(node_class.metadata.name)
        known = node_class.metadata.annotations or {}
        if known.get(HASH_VERSION_ANNOTATION) != current.get(HASH_VERSION_ANNOTATION):
            claims = self._claims.get(node_class.metadata.name)
            await take_over_claims(self._cache, claims, current, HASH_VERSION_ANNOTATION)
        return await self._cache.update(node_class, lambda found: _mark_patch(found, current))

    async def _finalize(self, node_class: EC2NodeClass) -> Result:
        if NODE_CLASS_FINALIZER not in (node_class.metadata.finalizers or ()):
            return DONE
        name = node_class.metadata.name
        claims = [claim.metadata.name for claim in self._claims.get(name)]
        waiting = await self._cloud.finalize_node_class(name, claims)
        if waiting:
            await self._context.events.warn(node_class, "WaitingOnNodeClaimTermination", waiting)
            return Again(WAITING_REPEAT)
        await self._cache.update(node_class, without_finalizer(NODE_CLASS_FINALIZER))
        return DONE


def _mark_patch(node_class: EC2NodeClass, annotations: Mapping[str, str]) -> MergePatch | None:
    written = node_class.metadata.annotations or {}
    finalizers = with_finalizer(NODE_CLASS_FINALIZER)(node_class) or {"metadata": {}}
    changed = {} if annotations.items() <= written.items() else {"annotations": dict(annotations)}
    metadata = {**finalizers["metadata"], **changed}
    return {"metadata": metadata} if metadata else None


def _status_patch(node_class: EC2NodeClass, status: Mapping[str, Any]) -> dict[str, Any] | None:
    before = msgspec.to_builtins(node_class.status or EC2NodeClassStatus())
    removed: dict[str, Any] = dict.fromkeys(before.keys() - status.keys())
    return None if before == status else {**removed, **status}


def _class_of(claim: NodeClaim) -> str:
    reference = claim.spec.nodeClassRef
    return reference.name if is_ours(reference) else ""


def _inputs(node_class: EC2NodeClass) -> object:
    """What the status is worked out from; its own status would make it look at itself for ever."""
    metadata = node_class.metadata
    return node_class.spec, metadata.uid, metadata.deletionTimestamp, metadata.finalizers
