"""NodeClaim objects of planned claims: name, owner, finalizer, hashes, and the types in order."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Iterable, Mapping
from random import Random
from typing import Final, TypeAlias

import msgspec

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.wire import OwnerReference
from wainwright.cloud import NodePoolCatalog
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.informer_cache import InformerCache
from wainwright.controllers.nodeclaim.node_registration import TERMINATION_FINALIZER
from wainwright.core.disruption.drift import pool_hash_annotations
from wainwright.core.launch.instance_type_truncation import claim_instance_types
from wainwright.errors import ObjectNotFoundError, ServerUnavailableError, TooManyRequestsError
from wainwright.metrics import NODECLAIMS_CREATED
from wainwright.model.labels import node_class_labels
from wainwright.model.plan import PlannedNodeClaim
from wainwright.model.resources import Resources
from wainwright.translate.nodeclaims import (
    planned_claim_annotations,
    template_claim,
    translate_planned_claim,
)
from wainwright.translate.pools import translate_pool

SUFFIX_CHARACTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX_LENGTH: Final = 5
STATIC_REASON: Final = "provisioned"
LOOKUP_WAITS: Final = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Seconds before each look whether a claim was created."""
LOG: Final = logging.getLogger(__name__)


SeenCreations: TypeAlias = Mapping[str, int]
"""By NodePool, how often NodeClaims had been created when the cluster was looked at."""


class ClaimCreations:
    """Counts the creations of NodeClaims, so that a plan which does not know of some is found out.

    Provisioning, disruption and capacity buffers plan at the same time. Of two plans that do not
    know each other's claims each may keep to a limit that both together exceed: with limits, the
    later one has to be made again.
    """

    def __init__(self, cache: InformerCache, *, has_cluster_limits: bool = False) -> None:
        self._cache, self._has_cluster_limits = cache, has_cluster_limits
        self._begun: Counter[str] = Counter()
        self._ended: Counter[str] = Counter()

    def seen(self) -> SeenCreations:
        """What a look at the cluster knows of: claims that are still being created it may not."""
        return self._ended.copy()

    def is_current(self, seen: SeenCreations, pools: Iterable[str]) -> bool:
        """Whether claims of these NodePools, planned with what was seen, keep to the limits."""
        counted = self._begun if self._has_cluster_limits else filter(self._has_limits, pools)
        return all(self._begun[name] == seen.get(name, 0) for name in counted)

    def _has_limits(self, name: str) -> bool:
        pool = self._cache.get(NodePool, name)
        return pool is not None and bool(pool.spec.limits)

    async def create_all(
        self, pools: Iterable[str], creations: Iterable[Awaitable[NodeClaim]]
    ) -> list[NodeClaim | BaseException]:
        """The claims of these NodePools, and an error for each that could not be created.

        Plans made of a look at the cluster before or during this are outdated by it. All are waited
        for, also where one fails: a claim that is created later would be in no plan.
        """
        names = frozenset(pools)
        self._begun.update(names)
        try:
            return await asyncio.gather(*creations, return_exceptions=True)
        finally:
            self._ended.update(names)


class ClaimCreator:
    """Creates the NodeClaims of plans and of disruption commands."""

    def __init__(self, context: ControllerContext, random: Random) -> None:
        self._cache, self._state, self._clock = context.cache, context.state, context.clock
        self._metrics, self._random = context.metrics, random
        limits = context.settings.plan_options.cluster_limits
        self.creations = ClaimCreations(context.cache, has_cluster_limits=bool(limits.amounts))

    async def create(
        self,
        claim: PlannedNodeClaim,
        catalog: NodePoolCatalog,
        *,
        reason: str,
        annotations: Mapping[str, str] | None = None,
    ) -> NodeClaim:
        """`reason` is for the metric; KubernetesError if the API server does not take it."""
        obj = self._object(claim, catalog, annotations or {})
        # Before it is created: its launch begins at once, and may fail while others are created.
        self._state.plan_pods(obj.metadata.name, claim.pods)
        made = await self._create(obj)
        self._count(claim.pool, reason, is_relaxed=bool(claim.relaxed_min_values))
        return made

    async def create_static(
        self,
        pool: NodePool,
        requests: Resources,
        *,
        reason: str = STATIC_REASON,
        annotations: Mapping[str, str] | None = None,
    ) -> NodeClaim:
        """A claim of the template as it stands, whether or not it can be launched now."""
        hashes = pool_hash_annotations(translate_pool(pool))
        made = template_claim(pool, requests, {**hashes, **(annotations or {})})
        created = await self._create(self._with_owner(made, pool))
        self._count(pool.metadata.name, reason)
        return created

    async def _create(self, obj: NodeClaim) -> NodeClaim:
        """Where it is unknown whether the claim was created, that is found out first: whoever takes
        it for missing would launch another one beside it.
        """
        try:
            return await self._cache.create(obj)
        except ServerUnavailableError:
            found = await self._look_up(obj)
            if found is None:
                raise
            return found

    async def _look_up(self, obj: NodeClaim) -> NodeClaim | None:
        for wait in LOOKUP_WAITS:
            await self._clock.sleep(wait)
            try:
                return await self._cache.read(obj)
            except ObjectNotFoundError:
                return None
            except (ServerUnavailableError, TooManyRequestsError) as error:
                LOG.warning("it is not known whether %s was created: %s", obj.metadata.name, error)
        return None

    def _count(self, pool: str, reason: str, *, is_relaxed: bool = False) -> None:
        relaxed = str(is_relaxed).lower()
        self._metrics.add(
            NODECLAIMS_CREATED, reason=reason, nodepool=pool, min_values_relaxed=relaxed
        )

    def _object(
        self, claim: PlannedNodeClaim, catalog: NodePoolCatalog, more: Mapping[str, str]
    ) -> NodeClaim:
        pool = self._cache.get(NodePool, claim.pool)
        assert pool is not None
        types, overlays = claim_instance_types(claim, catalog.index), catalog.applied_overlays()
        planned = planned_claim_annotations(claim, overlays, types, catalog.index.keys)
        annotations = {**pool_hash_annotations(translate_pool(pool)), **planned, **more}
        made = translate_planned_claim(claim, pool, types, annotations)
        return self._with_owner(made, pool)

    def _with_owner(self, made: NodeClaim, pool: NodePool) -> NodeClaim:
        labels = node_class_labels(made.spec.nodeClassRef.name)
        metadata = msgspec.structs.replace(
            made.metadata,
            labels={**(made.metadata.labels or {}), **labels},
            name=self._new_name(pool.metadata.name),
            finalizers=[TERMINATION_FINALIZER],
            ownerReferences=[_owner(pool)],
        )
        return msgspec.structs.replace(made, metadata=metadata)

    def _new_name(self, pool: str) -> str:
        while True:
            suffix = "".join(self._random.choices(SUFFIX_CHARACTERS, k=SUFFIX_LENGTH))
            name = f"{pool}-{suffix}"
            if self._cache.get(NodeClaim, name) is None:
                return name


def _owner(pool: NodePool) -> OwnerReference:
    return OwnerReference(
        apiVersion=pool.apiVersion,
        kind=pool.kind,
        name=pool.metadata.name,
        uid=pool.metadata.uid,
        blockOwnerDeletion=True,
    )
