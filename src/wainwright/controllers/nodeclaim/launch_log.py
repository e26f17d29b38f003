"""The launch log on NodeClaims: what is about to be requested is written before it is requested.

A process that is killed in between leaves the record; the next one finds by it whether an instance
was launched. The record is an annotation, so that no other object has to be kept in step.
"""

from collections.abc import Sequence

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.cloud import LaunchLogEntry
from wainwright.cluster import Cluster, MergePatch
from wainwright.controllers.conditions import instance_id
from wainwright.controllers.informer_cache import InformerCache
from wainwright.errors import KubernetesError, TemporarilyUnavailableError
from wainwright.model.node_claim import LaunchRecord
from wainwright.translate.nodeclaims import (
    LAUNCH_RECORD_ANNOTATION,
    format_launch_record,
    launch_record_of,
)


class NodeClaimLaunchLog:
    """Implements `cloud.LaunchLog`."""

    def __init__(self, cluster: Cluster, cache: InformerCache) -> None:
        self._cluster, self._cache = cluster, cache
        self._by_uid = cache.index(NodeClaim, lambda claim: claim.metadata.uid)

    async def record(
        self, claim: str, launch_record: LaunchRecord, *, replaces: LaunchRecord | None
    ) -> None:
        found = self._by_uid.get(claim)
        if not found:
            raise TemporarilyUnavailableError(f"the NodeClaim {claim} is gone")
        annotations = {LAUNCH_RECORD_ANNOTATION: format_launch_record(launch_record)}

        def patch_of(current: NodeClaim) -> MergePatch:
            if not _may_be_launched(current, replaces):
                raise TemporarilyUnavailableError(f"the NodeClaim {claim} has changed")
            return {"metadata": {"annotations": annotations}}

        try:
            await self._cache.update(found[0], patch_of)
        except KubernetesError as error:
            name = found[0].metadata.name
            raise TemporarilyUnavailableError(
                f"the launch of {name} could not be recorded: {error}"
            ) from error

    async def batch_entries(self, batch: str) -> Sequence[LaunchLogEntry]:
        """Asks the API server: another process may have written since."""
        try:
            listed = await self._cluster.list(NodeClaim)
        except KubernetesError as error:
            raise TemporarilyUnavailableError(f"NodeClaims cannot be listed: {error}") from error
        entries = []
        for claim in listed.items:
            record = launch_record_of(claim)
            if record is not None and record.batch == batch:
                instance = instance_id(claim)
                entries.append(
                    LaunchLogEntry(
                        claim=claim.metadata.uid, launch_record=record, instance=instance
                    )
                )
        return entries


def _may_be_launched(claim: NodeClaim, replaces: LaunchRecord | None) -> bool:
    return launch_record_of(claim) == replaces and not instance_id(claim)
