"""Capacity buffers: room for pods that may come, kept by virtual pods that exist only here.

A buffer names a pod template or a workload, and how many such pods there is to be room for. The
virtual pods are planned after all real ones; what they still need is launched. They are never
created, so that a real pod finds their room free, and the buffer is filled again after it.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Any, Final, TypeAlias

import msgspec

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.kubernetes.cluster import Namespace, PriorityClass, RuntimeClass, Service
from wainwright.api.kubernetes.operations import (
    CapacityBuffer,
    CapacityBufferSpec,
    CapacityBufferStatus,
    LocalObjectReference,
    PodTemplate,
    ScalableReference,
)
from wainwright.api.kubernetes.storage import Volume
from wainwright.api.kubernetes.workloads import (
    Deployment,
    Pod,
    PodTemplateSpec,
    ReplicaSet,
    StatefulSet,
)
from wainwright.api.wire import ObjectMeta, WireStruct
from wainwright.cloud import NodePoolCatalog
from wainwright.controllers import conditions as condition
from wainwright.controllers.conditions import ConditionSet
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.disruption.consolidation_backoff import (
    ConsolidationBackoff,
    undone_annotation,
)
from wainwright.controllers.informer_cache import Change, InformerCache
from wainwright.controllers.nodeclaim.claim_creation import ClaimCreator
from wainwright.controllers.nodeclass.declared_objects import DeclaredObjectsTracker
from wainwright.controllers.provisioning.launch_backoff import LaunchBackoff
from wainwright.controllers.provisioning.provisioner import ProvisioningInput
from wainwright.controllers.runtime import (
    AFTER_CONFLICT,
    DONE,
    WHOLE_CLUSTER,
    Again,
    Key,
    Poll,
    Result,
    WorkQueue,
)
from wainwright.core.launch.claims_within_limits import claims_within_limits
from wainwright.core.virtual_pods import VirtualPodPlan, plan_virtual_pods, pods_that_keep
from wainwright.errors import ConflictError, ObjectNotFoundError, WainError
from wainwright.gc_pause import gc_paused
from wainwright.model.disruption import Pause
from wainwright.model.plan import PlannedNodeClaim
from wainwright.model.pod import Pod as ModelPod
from wainwright.model.resources import Resources
from wainwright.model.snapshot import Snapshot
from wainwright.translate.cluster_state import ClusterState
from wainwright.translate.resources import translate_capacity
from wainwright.translate.topology import DefaultConstraints

BUFFER_KINDS: Final = (CapacityBuffer, PodTemplate, Deployment, ReplicaSet)
"""Watched only where the gate is on, besides those of every snapshot."""
ACTIVE_CAPACITY: Final = "buffer.x-k8s.io/active-capacity"
PERIOD: Final = 10.0  # seconds between two looks at the room of buffers
SYNC_POLL: Final = 1.0
LOWEST_PRIORITY: Final = -(2**31)
SAMPLE: Final = -1
"""The number of a virtual pod that is translated only to learn what such pods request."""
MAX_REPLICAS: Final = 10_000
"""Virtual pods of one buffer, lest a slip in its limits plan millions."""

READY_FOR_PROVISIONING: Final = "ReadyForProvisioning"
PROVISIONING: Final = "Provisioning"
FAKE_POD_ANNOTATION: Final = "karpenter.sh/capacity-buffer-fake-pod"
BUFFER_NAME_ANNOTATION: Final = "karpenter.sh/capacity-buffer-name"
BUFFER_NAMESPACE_ANNOTATION: Final = "karpenter.sh/capacity-buffer-namespace"

Scalable: TypeAlias = Deployment | ReplicaSet | StatefulSet
SCALABLE_KINDS: Final[dict[tuple[str, str], type[Scalable]]] = {
    ("apps", kind.__name__): kind for kind in (Deployment, ReplicaSet, StatefulSet)
}


class BufferNotReadyError(WainError):
    """Why a buffer has no virtual pods; `reason` is one word for its condition."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class BufferUnit(msgspec.Struct, frozen=True, kw_only=True):
    """What a buffer keeps room for."""

    template: PodTemplateSpec
    generation: int | None
    scale: int | None = None
    """The replicas of its workload; None for a pod template."""


def buffer_replicas(spec: CapacityBufferSpec, scale: int | None, requests: Resources) -> int:
    """How many virtual pods the buffer has; BufferNotReadyError if its spec does not say."""
    wanted = [] if spec.replicas is None else [spec.replicas]
    if spec.percentage is not None and scale is not None:
        wanted.append(math.ceil(spec.percentage * scale / 100))
    limits = translate_capacity(spec.limits)
    most = [limit // requests[name] for name, limit in limits.items() if requests.get(name)]
    if not wanted and not most:
        message = "neither replicas nor percentage, nor limits of what the pods request"
        raise BufferNotReadyError("NoSize", message)
    return max(0, min([*([max(wanted)] if wanted else []), *most, MAX_REPLICAS]))


class VirtualPods:
    """The virtual pods of all buffers, and how these stand."""

    def __init__(self, cache: InformerCache, default_constraints: DefaultConstraints = ()) -> None:
        self._state = ClusterState(default_constraints)
        self._pods: dict[Key, dict[str, Pod]] = {}
        """By buffer and by uid."""
        self.lacking: dict[Key, bool] = {}
        """By buffer whether some of its pods need a new node; absent before the first look."""
        # Only Services: a virtual pod has no controller.
        selecting = (Service,) if default_constraints else ()
        for kind in (RuntimeClass, PriorityClass, Namespace, *selecting):
            cache.subscribe(kind, self._apply)

    def _apply(self, change: Change[Any]) -> None:
        if change.after is None:
            self._state.remove(change.object)
        else:
            self._state.apply(change.after)

    def requests_of(self, sample: Pod) -> Resources:
        self._state.apply(sample)
        translated = self.all()
        self._state.remove(sample)
        return next(each.requests for each in translated if each.uid == sample.metadata.uid)

    def set(self, buffer: Key, pods: Iterable[Pod]) -> bool:
        """Whether they are others than before."""
        before, after = self._pods.pop(buffer, {}), {pod.metadata.uid: pod for pod in pods}
        for uid in before.keys() - after.keys():
            self._state.remove(before[uid])
        for uid, pod in after.items():
            if before.get(uid) != pod:
                self._state.apply(pod)
        if after:
            self._pods[buffer] = after
        else:
            self.lacking.pop(buffer, None)
        return before != after

    def all(self) -> tuple[ModelPod, ...]:
        return self._state.snapshot().snapshot.pods

    def wire_pods(self) -> dict[str, Pod]:
        """By key, as plans name pods."""
        return {
            f"{pod.metadata.namespace}/{pod.metadata.name}": pod
            for pods in self._pods.values()
            for pod in pods.values()
        }

    def set_lacking(self, lacking: Mapping[str, bool]) -> list[Key]:
        """`lacking`: by uid of each pod. The buffers of which another thing is true now."""
        changed = []
        for buffer, pods in self._pods.items():
            is_lacking = any(lacking.get(uid, True) for uid in pods)
            if self.lacking.get(buffer) != is_lacking:
                self.lacking[buffer] = is_lacking
                changed.append(buffer)
        return changed


class CapacityBuffers:
    """Works out the virtual pods of each buffer, and writes its status."""

    name = "capacitybuffer"

    def __init__(self, context: ControllerContext, virtual: VirtualPods) -> None:
        self._context, self._cache, self._virtual = context, context.cache, virtual

    def watch(self, queue: WorkQueue) -> None:
        def changed_buffer(change: Change[CapacityBuffer]) -> None:
            queue.add(_key(change.object))

        def changed_target(change: Change[Any]) -> None:
            target = change.object
            for buffer in self._cache.all(CapacityBuffer):
                if _refers_to(buffer, target):
                    queue.add(_key(buffer))

        self._queue = queue
        self._cache.subscribe(CapacityBuffer, changed_buffer)
        for kind in (PodTemplate, Deployment, ReplicaSet, StatefulSet):
            self._cache.subscribe(kind, changed_target)

    def look_at(self, buffers: Iterable[Key]) -> None:
        for buffer in buffers:
            self._queue.add(buffer)

    async def reconcile(self, key: Key) -> Result:
        namespace, _, name = key.partition("/")
        buffer = self._cache.get(CapacityBuffer, name, namespace)
        if buffer is None or buffer.metadata.deletionTimestamp or not _is_active(buffer):
            self._set(key, ())
            return DONE
        try:
            await self._write(buffer, self._update(key, buffer))
        except ConflictError:
            return AFTER_CONFLICT
        except ObjectNotFoundError:
            pass
        return DONE

    def _update(
        self, key: Key, buffer: CapacityBuffer
    ) -> "tuple[BufferUnit, int] | BufferNotReadyError":
        try:
            unit = self._unit(buffer)
            sample = _virtual_pod(buffer, unit.template, SAMPLE)
            count = buffer_replicas(buffer.spec, unit.scale, self._virtual.requests_of(sample))
        except BufferNotReadyError as problem:
            self._set(key, ())
            return problem
        self._set(key, (_virtual_pod(buffer, unit.template, n) for n in range(count)))
        return unit, count

    def _set(self, key: Key, pods: Iterable[Pod]) -> None:
        if self._virtual.set(key, pods):
            self._context.learnt()

    def _unit(self, buffer: CapacityBuffer) -> BufferUnit:
        reference, namespace = buffer.spec.podTemplateRef, buffer.metadata.namespace
        if buffer.spec.scalableRef is not None:
            return self._scalable_unit(buffer.spec.scalableRef, namespace)
        if reference is None:
            raise BufferNotReadyError(
                "NoReference", "neither podTemplateRef nor scalableRef is set"
            )
        found = self._cache.get(PodTemplate, reference.name, namespace)
        if found is None:
            message = f"there is no PodTemplate {reference.name} in {namespace}"
            raise BufferNotReadyError("PodTemplateNotFound", message)
        return BufferUnit(template=found.template, generation=found.metadata.generation)

    def _scalable_unit(self, reference: ScalableReference, namespace: str) -> BufferUnit:
        kind = SCALABLE_KINDS.get((reference.apiGroup, reference.kind))
        if kind is None:
            known = ", ".join(f"{group}/{name}" for group, name in SCALABLE_KINDS)
            message = f"{reference.apiGroup}/{reference.kind} is not one of {known}"
            raise BufferNotReadyError("UnsupportedScalableRef", message)
        found: Scalable | None = self._cache.get(kind, reference.name, namespace)
        if found is None:
            message = f"there is no {reference.kind} {reference.name} in {namespace}"
            raise BufferNotReadyError("ScalableRefNotFound", message)
        replicas, generation = found.spec.replicas, found.metadata.generation
        scale = 1 if replicas is None else replicas
        return BufferUnit(template=found.spec.template, generation=generation, scale=scale)

    async def _write(
        self, buffer: CapacityBuffer, outcome: "tuple[BufferUnit, int] | BufferNotReadyError"
    ) -> None:
        status = buffer.status or CapacityBufferStatus()
        conditions = ConditionSet(
            status.conditions,
            now=self._context.clock.now(),
            generation=buffer.metadata.generation,
        )
        self._set_conditions(conditions, _key(buffer), outcome)
        written = _resolved_status(buffer, outcome)
        known = msgspec.to_builtins(status)
        changed = {key: value for key, value in written.items() if known.get(key) != value}
        patch = {**changed, **(conditions.patch() or {})}
        if patch:
            await self._cache.patch_status(buffer, patch)

    def _set_conditions(
        self,
        conditions: ConditionSet,
        key: Key,
        outcome: "tuple[BufferUnit, int] | BufferNotReadyError",
    ) -> None:
        if isinstance(outcome, BufferNotReadyError):
            reason, message = outcome.reason, outcome.message
            conditions.set(READY_FOR_PROVISIONING, condition.FALSE, reason, message)
            conditions.set(PROVISIONING, condition.FALSE, "NotReadyForProvisioning", message)
            return
        conditions.set(READY_FOR_PROVISIONING, condition.TRUE)
        if outcome[1] == 0:
            conditions.set(PROVISIONING, condition.FALSE, "BufferEmpty")
        elif key in self._virtual.lacking:
            is_lacking = self._virtual.lacking[key]
            status = condition.FALSE if is_lacking else condition.TRUE
            reason = "RequiresNewCapacity" if is_lacking else "FitsExistingCapacity"
            conditions.set(PROVISIONING, status, reason)


class CapacityBufferProvisioning:
    """Launches what virtual pods still need, and keeps the nodes that have their room."""

    name = "capacitybuffer.provisioning"

    def __init__(
        self,
        context: ControllerContext,
        declared: DeclaredObjectsTracker,
        creator: ClaimCreator,
        virtual: VirtualPods,
        look_at_buffers: Callable[[Iterable[Key]], None],
        consolidation_backoff: ConsolidationBackoff,
    ) -> None:
        self._context, self._declared, self._creator = context, declared, creator
        self._consolidation_backoff = consolidation_backoff
        self._state, self._virtual = context.state, virtual
        self._look_at_buffers = look_at_buffers
        self._backoff = LaunchBackoff(context.cache)
        self._planned: ProvisioningInput | None = None
        """What the last plan was made from, if it needed nothing new."""

    def watch(self, queue: WorkQueue) -> None:
        self._context.cache.subscribe(CapacityBuffer, lambda _: queue.add(WHOLE_CLUSTER))
        queue.add(WHOLE_CLUSTER)

    async def reconcile(self, _: Key) -> Result:
        if not self._state.is_synced:
            return Again(SYNC_POLL)
        pods = self._virtual.all()
        if not pods:
            self._keep({}, 0)
            self._planned = None
            return Poll(PERIOD)
        catalogs = await self._declared.catalogs()
        seen = self._creator.creations.seen()
        snapshot = self._snapshot(catalogs)
        everything = msgspec.structs.replace(snapshot, pods=(*snapshot.pods, *pods))
        given = ProvisioningInput(snapshot=everything, catalogs=catalogs)
        if self._planned is None or not given.is_same(self._planned):
            planned = self._plan(snapshot, pods, catalogs)
            if not self._creator.creations.is_current(
                seen, (claim.pool for claim in planned.claims)
            ):
                return Again(SYNC_POLL)
            self._record(snapshot, pods, planned)
            self._planned = None if planned.claims else given
            await self._create(planned, catalogs)
        return Poll(PERIOD, self._backoff.next_release(self._context.clock.now()))

    def _snapshot(self, catalogs: Mapping[str, NodePoolCatalog]) -> Snapshot:
        snapshot = self._state.snapshot(catalogs.values())
        pools = tuple(
            pool
            for pool in snapshot.pools
            if pool.name in catalogs and not self._context.settings.pauses(pool, Pause.PROVISIONING)
        )
        return msgspec.structs.replace(snapshot, pools=pools)

    def _plan(
        self,
        snapshot: Snapshot,
        pods: tuple[ModelPod, ...],
        catalogs: Mapping[str, NodePoolCatalog],
    ) -> VirtualPodPlan:
        indexes = {name: catalog.index for name, catalog in catalogs.items()}
        allowed = self._backoff.restrict(pods, self._context.clock.now())
        options = self._context.settings.plan_options
        with gc_paused():
            planned = plan_virtual_pods(snapshot, allowed, indexes, options)
            claims = claims_within_limits(planned.claims, snapshot, indexes, options)
        return msgspec.structs.replace(planned, claims=claims)

    def _keep(self, keeping: Mapping[str, tuple[ModelPod, ...]], count: int) -> None:
        """A node that is kept no longer may go: no object of the cluster says so."""
        if self._state.set_virtual_pods(keeping, count):
            self._context.learnt()

    def _record(
        self, snapshot: Snapshot, pods: tuple[ModelPod, ...], planned: VirtualPodPlan
    ) -> None:
        nodes = {node.name: node for node in snapshot.nodes}
        kept = {
            name: pods_that_keep(nodes[name], placed)
            for name, placed in planned.placements.items()
            if name in nodes
        }
        keeping = {name: placed for name, placed in kept.items() if placed}
        self._keep(keeping, len(pods))
        lacking = {pod.uid: True for pod in pods}
        for name, placed in planned.placements.items():
            if name in nodes and nodes[name].initialized:
                for pod in placed:
                    lacking[pod.uid] = False
                    self._backoff.forget(pod.uid)
        self._look_at_buffers(self._virtual.set_lacking(lacking))

    async def _create(
        self, planned: VirtualPodPlan, catalogs: Mapping[str, NodePoolCatalog]
    ) -> None:
        wire = self._virtual.wire_pods()
        seconds = self._context.settings.nomination_seconds
        results = await self._creator.creations.create_all(
            (claim.pool for claim in planned.claims),
            (self._create_claim(claim, catalogs[claim.pool], wire) for claim in planned.claims),
        )
        for claim, made in zip(planned.claims, results, strict=True):
            if isinstance(made, NodeClaim):
                self._state.nominate(made.metadata.name, seconds)
                self._backoff.launched(made, (wire[key] for key in claim.pods if key in wire))
        for error in results:
            if isinstance(error, BaseException):
                raise error  # what is still missing is planned again

    async def _create_claim(
        self, claim: PlannedNodeClaim, catalog: NodePoolCatalog, virtual: Mapping[str, Pod]
    ) -> NodeClaim:
        backoff = self._consolidation_backoff
        undone = backoff.launching_for_buffers(claim.launch.price, len(virtual))
        annotations = undone_annotation(undone)
        created = await self._creator.create(
            claim, catalog, reason="capacity_buffer", annotations=annotations
        )
        if undone:
            await backoff.launched(created, undone, ())
        return created


def _key(buffer: CapacityBuffer) -> Key:
    return f"{buffer.metadata.namespace}/{buffer.metadata.name}"


def _is_active(buffer: CapacityBuffer) -> bool:
    """Other strategies are for other autoscalers."""
    return buffer.spec.provisioningStrategy in ("", ACTIVE_CAPACITY)


def _refers_to(buffer: CapacityBuffer, target: WireStruct) -> bool:
    spec, metadata = buffer.spec, target.metadata  # type: ignore[attr-defined]
    if metadata.namespace != buffer.metadata.namespace:
        return False
    if isinstance(target, PodTemplate):
        return spec.podTemplateRef is not None and spec.podTemplateRef.name == metadata.name
    reference = spec.scalableRef
    return reference is not None and (reference.kind, reference.name) == (
        type(target).__name__,
        metadata.name,
    )


def _resolved_status(
    buffer: CapacityBuffer, outcome: tuple[BufferUnit, int] | BufferNotReadyError
) -> dict[str, Any]:
    if isinstance(outcome, BufferNotReadyError):
        return {"replicas": None, "podTemplateGeneration": None}
    unit, count = outcome
    reference = buffer.spec.podTemplateRef or LocalObjectReference()
    written: dict[str, Any] = {
        "replicas": count,
        "podTemplateGeneration": unit.generation,
        "provisioningStrategy": ACTIVE_CAPACITY,
    }
    if unit.scale is None:
        written["podTemplateRef"] = {"name": reference.name}
    return written


def _virtual_pod(buffer: CapacityBuffer, template: PodTemplateSpec, number: int) -> Pod:
    """A name with a colon cannot be that of a real pod; the uid is the same in every process."""
    metadata = buffer.metadata
    identity = f"{metadata.namespace}/{metadata.name}/{number}"
    annotations = {
        FAKE_POD_ANNOTATION: "true",
        BUFFER_NAME_ANNOTATION: metadata.name,
        BUFFER_NAMESPACE_ANNOTATION: metadata.namespace,
    }
    spec = msgspec.structs.replace(
        template.spec,
        nodeName="",
        schedulingGates=None,
        priority=LOWEST_PRIORITY,
        priorityClassName="",
        volumes=[*_kept_volumes(template.spec.volumes or ())] or None,
    )
    return Pod(
        metadata=ObjectMeta(
            name=f"capacity-buffer:{metadata.name}:{number}",
            namespace=metadata.namespace,
            uid=blake2b(identity.encode(), digest_size=16).hexdigest(),
            labels=template.metadata.labels,
            annotations={**(template.metadata.annotations or {}), **annotations},
        ),
        spec=spec,
    )


def _kept_volumes(volumes: Iterable[Volume]) -> Iterator[Volume]:
    """Without those of claims: a pod that does not exist has none."""
    for volume in volumes:
        if volume.persistentVolumeClaim is None and volume.ephemeral is None:
            yield volume
