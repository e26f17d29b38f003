"""Hashes of NodePools, by which nodes drift, and the take-over of hashes that others computed.

Hashes of another version cannot be compared with ours. Claims get the new one in their place:
nothing is replaced because another controller, or another version of this one, takes over. The
object that is hashed gets the version last: until then a process that comes later does it again.
"""

from collections.abc import Iterable, Mapping

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.controllers import conditions as condition
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.informer_cache import Change, InformerCache
from wainwright.controllers.live_state import is_ours
from wainwright.controllers.nodepool.registration_health import find_condition
from wainwright.controllers.runtime import DONE, Key, Result, WorkQueue
from wainwright.core.disruption.drift import (
    HASH_VERSION,
    POOL_HASH_ANNOTATION,
    POOL_HASH_VERSION_ANNOTATION,
)
from wainwright.translate.node_claim_pairing import pool_of_claim
from wainwright.translate.pools import pool_hash


class NodePoolHash:
    name = "nodepool.hash"

    def __init__(self, context: ControllerContext) -> None:
        self._cache = context.cache
        self._claims = context.cache.index(NodeClaim, lambda claim: pool_of_claim(claim) or "")

    def watch(self, queue: WorkQueue) -> None:
        def changed_pool(change: Change[NodePool]) -> None:
            before, after = change.before, change.after
            if after is not None and (before is None or _relevant(before) != _relevant(after)):
                queue.add(change.name)

        self._cache.subscribe(NodePool, changed_pool)

    async def reconcile(self, key: Key) -> Result:
        pool = self._cache.get(NodePool, key)
        if pool is None or not is_ours(pool.spec.template.spec.nodeClassRef):
            return DONE
        current = {
            POOL_HASH_ANNOTATION: pool_hash(pool),
            POOL_HASH_VERSION_ANNOTATION: HASH_VERSION,
        }
        known = pool.metadata.annotations or {}
        if known.get(POOL_HASH_VERSION_ANNOTATION) != HASH_VERSION:
            await take_over_claims(
                self._cache, self._claims.get(key), current, POOL_HASH_VERSION_ANNOTATION
            )
        if any(known.get(name) != value for name, value in current.items()):
            await self._cache.patch(pool, {"metadata": {"annotations": current}})
        return DONE


async def take_over_claims(
    cache: InformerCache,
    claims: Iterable[NodeClaim],
    current: Mapping[str, str],
    version_annotation: str,
) -> None:
    """Writes the current hash on claims with one of another version.

    Those that have drifted keep their hash, and so stay drifted: nobody can tell any more whether
    they still are.
    """
    version = {version_annotation: current[version_annotation]}
    for claim in claims:
        known = claim.metadata.annotations or {}
        if known.get(version_annotation) == current[version_annotation]:
            continue
        is_drifted = find_condition(claim, condition.DRIFTED) is not None
        annotations = version if is_drifted else dict(current)
        await cache.patch(claim, {"metadata": {"annotations": annotations}})


def _relevant(pool: NodePool) -> object:
    return pool.metadata.uid, pool.metadata.generation, pool.metadata.annotations
