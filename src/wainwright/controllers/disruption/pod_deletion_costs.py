"""The feature gate PodDeletionCostManagement: pods of nodes that may go soon get a low deletion
cost, so that a ReplicaSet that shrinks empties these nodes first.
"""

import logging
from typing import Final

from wainwright.api.kubernetes.workloads import Pod
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.disruption.disruption_controller import Disruption
from wainwright.controllers.runtime import WHOLE_CLUSTER, Key, Poll, Result, WorkQueue
from wainwright.core.disruption.deletion_costs import rank_deletion_costs
from wainwright.core.disruption.disruption_pass import DisruptionPass
from wainwright.errors import KubernetesError, ObjectNotFoundError
from wainwright.translate.object_metadata import has_owner_kind

LOG: Final = logging.getLogger(__name__)
PERIOD: Final = 60.0  # seconds
DELETION_COST_ANNOTATION: Final = "controller.kubernetes.io/pod-deletion-cost"


class PodDeletionCosts:
    name = "pod.deletioncost"

    def __init__(self, context: ControllerContext, disruption: Disruption) -> None:
        self._context, self._disruption = context, disruption
        self._seen: DisruptionPass | None = None

    def watch(self, queue: WorkQueue) -> None:
        queue.add(WHOLE_CLUSTER)

    async def reconcile(self, _: Key) -> Result:
        looked = self._disruption.last_look
        if looked is not None and looked is not self._seen:
            self._seen = looked
            for node, cost in rank_deletion_costs(looked).items():
                await self._write(node, None if cost is None else str(cost))
        return Poll(PERIOD)

    async def _write(self, node: str, cost: str | None) -> None:
        """Only where it is another one, and only on pods of ReplicaSets. One that the API server
        refuses to change keeps no other; it is tried again after the next look.
        """
        for pod in self._context.state.pods_by_node.get(node):
            known = (pod.metadata.annotations or {}).get(DELETION_COST_ANNOTATION)
            if known != cost and has_owner_kind(pod.metadata, "ReplicaSet"):
                await self._annotate(pod, cost)

    async def _annotate(self, pod: Pod, cost: str | None) -> None:
        change = {"metadata": {"annotations": {DELETION_COST_ANNOTATION: cost}}}
        try:
            await self._context.cache.patch(pod, change, any_version=True)
        except ObjectNotFoundError:
            return  # it has just ended
        except KubernetesError as error:
            LOG.warning("pod %s got no deletion cost: %s", pod.metadata.name, error)
