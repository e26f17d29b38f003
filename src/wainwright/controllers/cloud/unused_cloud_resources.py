"""Cloud resources that nothing uses any more: launch templates, and profiles of changed roles."""

from typing import Final

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.live_state import is_ours
from wainwright.controllers.nodeclass.declared_objects import DeclaredObjectsTracker
from wainwright.controllers.runtime import (
    INSTANCES,
    WHOLE_CLUSTER,
    Key,
    Poll,
    Result,
    WorkQueue,
    existence_of,
)
from wainwright.translate.nodeclaims import translate_node_claim

PERIOD: Final = 1800.0  # seconds
DEPENDS_ON: Final = dict.fromkeys(
    (INSTANCES, "EC2NodeClass", *map(existence_of, ("EC2NodeClass", "NodeClaim"))), PERIOD
)
"""A launch template is kept for some minutes after its last use."""


class UnusedCloudResources:
    name = "providers.garbagecollection"

    def __init__(self, context: ControllerContext, declared: DeclaredObjectsTracker) -> None:
        self._cache, self._cloud, self._declared = context.cache, context.cloud, declared

    def watch(self, queue: WorkQueue) -> None:
        # By then every class has been resolved.
        queue.add_after(WHOLE_CLUSTER, PERIOD, is_poll=True)

    async def reconcile(self, _: Key) -> Result:
        self._declared.apply()
        claims = [each for each in self._cache.all(NodeClaim) if is_ours(each.spec.nodeClassRef)]
        await self._cloud.garbage_collect(map(translate_node_claim, claims))
        return Poll(PERIOD, depends_on=DEPENDS_ON)
