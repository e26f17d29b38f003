"""Tells the cloud provider what users have declared: node classes, instance types, overlays, pools.

Whoever asks the provider about a class or a pool calls `apply` first, so that the answer is never
about the objects of a moment ago. Without a change it costs nothing.
"""

import logging
from typing import Any, Final

from wainwright.api.catalog_documents import InstanceType, NodeOverlay
from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.wire import WireStruct, to_manifest
from wainwright.cloud import (
    CloudProvider,
    DeclaredObjects,
    Manifest,
    NodePoolCatalog,
    NodePoolScope,
)
from wainwright.controllers.informer_cache import Change, InformerCache
from wainwright.controllers.live_state import is_ours
from wainwright.errors import CloudProviderError

LOG: Final = logging.getLogger(__name__)


class DeclaredObjectsTracker:
    def __init__(self, cache: InformerCache, cloud: CloudProvider) -> None:
        self._cache, self._cloud = cache, cloud
        self._manifests: dict[type[WireStruct], dict[str, Manifest]] = {}
        self._pools: dict[str, NodePoolScope] = {}
        self._is_changed = True
        for kind in (EC2NodeClass, InstanceType, NodeOverlay):
            self._manifests[kind] = {}
            cache.subscribe(kind, self._changed_object)
        cache.subscribe(NodePool, self._changed_pool)

    def apply(self) -> None:
        """Declares everything, if anything has changed."""
        if not self._is_changed:
            return
        self._is_changed = False
        self._cloud.declare(
            DeclaredObjects(
                node_classes=self._sorted(EC2NodeClass),
                instance_types=self._sorted(InstanceType),
                overlays=self._sorted(NodeOverlay),
                pools=tuple(self._pools[name] for name in sorted(self._pools)),
            )
        )

    async def catalogs(self) -> dict[str, NodePoolCatalog]:
        """By NodePool what it can launch now; those whose class is not ready are left out."""
        self.apply()
        catalogs = {}
        for name in sorted(self._pools):
            try:
                catalogs[name] = await self._cloud.catalog(name)
            except CloudProviderError as error:
                LOG.info("NodePool %s is skipped: %s", name, error)
        return catalogs

    def _sorted(self, kind: type[WireStruct]) -> tuple[Manifest, ...]:
        manifests = self._manifests[kind]
        return tuple(manifests[name] for name in sorted(manifests))

    def _changed_object(self, change: Change[Any]) -> None:
        manifests = self._manifests[type(change.object)]
        if change.after is None:
            del manifests[change.name]
        else:
            manifests[change.name] = to_manifest(change.after)
        self._is_changed = True

    def _changed_pool(self, change: Change[NodePool]) -> None:
        pool = change.after
        scope = None if pool is None else _scope(pool)
        if scope == self._pools.get(change.name):
            return
        if scope is None:
            del self._pools[change.name]
        else:
            self._pools[change.name] = scope
        self._is_changed = True


def _scope(pool: NodePool) -> NodePoolScope | None:
    template = pool.spec.template
    if not is_ours(template.spec.nodeClassRef):
        return None
    labels = (template.metadata.labels if template.metadata is not None else None) or {}
    return NodePoolScope(
        name=pool.metadata.name, node_class=template.spec.nodeClassRef.name, labels=labels
    )
