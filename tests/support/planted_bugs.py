"""Bugs that can be planted: each replaces one function of the controllers by a wrong one.

`make chaos-proof` plants them one by one, and `make chaos` must find each. What a bug needs besides
is a world in which it matters, at a moment when something fails: that is what the seeds are for.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import msgspec
from tests.chaos.launch_laws import LAUNCHES_BACK_OFF, REFUSALS_END

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.workloads import Pod
from wainwright.aws.instancetypes.live_catalog import AccountOfferingsProvider
from wainwright.aws.reservation_availability import ReservationAvailability
from wainwright.controllers import live_state
from wainwright.controllers.cloud.cloud_upkeep import GarbageCollection
from wainwright.controllers.conditions import DISRUPTION_REASON
from wainwright.controllers.disruption.disruption_queue import CommandInFlight, DisruptionQueue
from wainwright.controllers.informer_cache import InformerCache
from wainwright.controllers.live_state import LiveState
from wainwright.controllers.node.node_termination import NodeTermination, PodEviction
from wainwright.controllers.nodeclaim import node_registration, nodeclaim_lifecycle
from wainwright.controllers.nodeclaim.launch_log import NodeClaimLaunchLog
from wainwright.controllers.nodeclaim.nodeclaim_deletion import NodeClaimDeletion
from wainwright.controllers.provisioning.launch_backoff import LaunchBackoff
from wainwright.controllers.runtime import DONE, Key, Result
from wainwright.core.disruption import budgets
from wainwright.core.disruption.budgets import DisruptionReason
from wainwright.core.disruption.candidates import is_initialized
from wainwright.errors import ResourceVersionGoneError
from wainwright.model.node_claim import Instance, LaunchRecord
from wainwright.model.snapshot import Node as ModelNode
from wainwright.sim.disruption_laws import (
    CONSOLIDATION_SAVES,
    EVICTIONS_END_NODES,
    NO_TAINT_LEFT,
    NODEPOOL_BUDGETS_RESPECTED,
    NODES_ARE_DRAINED,
    REPLACEMENTS_COME_FIRST,
)
from wainwright.sim.laws import (
    BUDGETS_RESPECTED,
    INSTANCE_HAS_CLAIM,
    LIMITS_NOT_EXCEEDED,
    PLACEABLE_PODS_RUN,
)
from wainwright.translate.nodeclaims import LAUNCH_RECORD_ANNOTATION, format_launch_record


class PlantedBug(msgspec.Struct, frozen=True, kw_only=True):
    owner: Any
    """The class or module."""
    function: str
    replacement: Callable[..., Any]
    law: str
    """Which it breaks: that another one is broken is no proof of it."""


# Wrong functions


async def _record_in_memory(
    self: NodeClaimLaunchLog,
    claim: str,
    launch_record: LaunchRecord,
    *,
    replaces: LaunchRecord | None,  # noqa: ARG001
) -> None:
    """The launch is not recorded before it is requested: only this process knows of it."""
    (found,) = self._by_uid.get(claim)
    written = {
        **(found.metadata.annotations or {}),
        LAUNCH_RECORD_ANNOTATION: format_launch_record(launch_record),
    }
    metadata = msgspec.structs.replace(found.metadata, annotations=written)
    changed = msgspec.structs.replace(found, metadata=metadata)
    self._cache._stores[NodeClaim].objects["", found.metadata.name] = changed


async def _delete_in_place_of_eviction(self: PodEviction, pod: Pod) -> None:
    """Nobody asks the PodDisruptionBudget."""
    await self._cache.delete(pod)


def _without_finalizer(claim: NodeClaim, node: Node, *, is_complete: bool) -> Any:
    """A node whose finalizer is lost is gone as soon as it is deleted, with its pods."""
    patch = _registration_patch(claim, node, is_complete=is_complete)
    if patch is not None:
        patch.get("metadata", {}).pop("finalizers", None)
    return patch


_registration_patch = node_registration.registration_patch


_is_abandoned = LiveState.is_abandoned


def _overlook_taint(self: LiveState, node: Node) -> bool:
    """A process that died before it had written the reason leaves its taint behind."""
    claims = self.claims_of_node(node)
    return any(map(live_state._has_disruption_reason, claims)) and _is_abandoned(self, node)


_count_nodes = budgets._count_nodes


def _count_late(nodes: Iterable[Any]) -> Any:
    """Nodes count against budgets only when they are not ready: too late."""
    return _count_nodes([each for each in nodes if is_initialized(each) and not each.deleting])


class _CountsByReason:
    """Of the nodes of a NodePool: those that a command takes count for its own reason only."""

    def __init__(self, nodes: Iterable[ModelNode]) -> None:
        self._nodes = [*nodes]

    @property
    def total(self) -> int:
        return _count_nodes(self._nodes).total

    def disrupted(self, reason: DisruptionReason) -> int:
        counted = [each for each in self._nodes if _reason_in_flight(each) in ("", reason)]
        return _count_nodes(counted).disrupted(reason)


def _reason_in_flight(node: ModelNode) -> str:
    conditions = {} if node.claim is None else node.claim.conditions
    marked = conditions.get(DISRUPTION_REASON)
    return marked.reason if node.deleting and marked is not None and marked.is_true else ""


async def _collect_nothing(self: GarbageCollection, instance: Instance) -> None:
    """An instance that no claim has stays."""


async def _evict_any(self: InformerCache, name: str, namespace: str, *, uid: str) -> None:  # noqa: ARG001
    """Without the uid: a new pod of the same name is evicted in its place."""
    await self._cluster.evict(name, namespace)


async def _follow_without_list(self: InformerCache, kind: type[Any]) -> None:
    """After 410 the watch goes on from now: what happened in between is never listed."""
    store, is_outdated = self._store(kind), False
    while True:
        try:
            if not store.version:
                await self._list(kind)
            elif is_outdated:
                store.version = (await self._cluster.list(kind)).resource_version
                is_outdated = False
            await self._watch(kind)
        except ResourceVersionGoneError:
            is_outdated = True
        except Exception:  # noqa: BLE001
            await self._clock.sleep(1.0)


async def _release_at_once(self: NodeClaimDeletion, claim: NodeClaim) -> Result:
    """The claim goes while its launch may still be under way."""
    return await self._release(claim)


async def _do_not_wait(self: DisruptionQueue, key: Key) -> Result:
    """The candidates go although their replacements are not up."""
    flight: CommandInFlight | None = self._commands.get(key)
    return DONE if flight is None else await self._delete_candidates(key, flight)


async def _do_not_drain(self: NodeTermination, node: Node, claim: NodeClaim | None) -> None:
    """The instance ends with its pods on it."""


async def _clean_nothing(self: DisruptionQueue) -> bool:  # noqa: ARG001
    """What a process that was killed has begun stays as it is."""
    return True


def _back_off_from_nothing(self: LaunchBackoff, uid: str, now: float) -> list[str]:  # noqa: ARG001
    """A pod gets node after node, however many it got and was not bound to."""
    return []


async def _keep_first_prices(self: AccountOfferingsProvider) -> bool:
    """Prices of spot stay as they were when the process started."""
    if self._spot is None:
        return await _fetch_spot(self)
    return bool(await self._pricing.spot())


_fetch_spot = AccountOfferingsProvider._fetch_spot


def _count_without_launches(self: ReservationAvailability, reservation_id: str) -> int:
    """As many as the reservation has, whatever is used of it: a count that is never renewed."""
    count = self._counts.get(reservation_id)
    return 0 if count is None else count.total


BUGS: Final[Mapping[str, PlantedBug]] = {
    "launch-not-recorded": PlantedBug(
        owner=NodeClaimLaunchLog,
        function="record",
        replacement=_record_in_memory,
        law=LIMITS_NOT_EXCEEDED,
    ),
    "eviction-ignores-budget": PlantedBug(
        owner=PodEviction,
        function="_evict",
        replacement=_delete_in_place_of_eviction,
        law=BUDGETS_RESPECTED,
    ),
    "finalizer-lost": PlantedBug(
        owner=nodeclaim_lifecycle,
        function="registration_patch",
        replacement=_without_finalizer,
        law=NODES_ARE_DRAINED,
    ),
    "taint-left": PlantedBug(
        owner=LiveState,
        function="is_abandoned",
        replacement=_overlook_taint,
        law=NO_TAINT_LEFT,
    ),
    "budget-counted-late": PlantedBug(
        owner=budgets,
        function="_count_nodes",
        replacement=_count_late,
        law=NODEPOOL_BUDGETS_RESPECTED,
    ),
    "budget-by-reason": PlantedBug(
        owner=budgets,
        function="_count_nodes",
        replacement=_CountsByReason,
        law=NODEPOOL_BUDGETS_RESPECTED,
    ),
    "orphan-not-collected": PlantedBug(
        owner=GarbageCollection,
        function="_terminate",
        replacement=_collect_nothing,
        law=INSTANCE_HAS_CLAIM,
    ),
    "eviction-without-uid": PlantedBug(
        owner=InformerCache,
        function="evict",
        replacement=_evict_any,
        law=EVICTIONS_END_NODES,
    ),
    "watch-not-listed-again": PlantedBug(
        owner=InformerCache,
        function="_follow",
        replacement=_follow_without_list,
        law=PLACEABLE_PODS_RUN,
    ),
    "claim-released-early": PlantedBug(
        owner=NodeClaimDeletion,
        function="_end_instance",
        replacement=_release_at_once,
        law=LIMITS_NOT_EXCEEDED,
    ),
    "replacement-not-awaited": PlantedBug(
        owner=DisruptionQueue,
        function="reconcile",
        replacement=_do_not_wait,
        law=REPLACEMENTS_COME_FIRST,
    ),
    "node-not-drained": PlantedBug(
        owner=NodeTermination,
        function="_drain",
        replacement=_do_not_drain,
        law=NODES_ARE_DRAINED,
    ),
    "reservation-count-stale": PlantedBug(
        owner=ReservationAvailability,
        function="available_count",
        replacement=_count_without_launches,
        law=REFUSALS_END,
    ),
    "no-launch-backoff": PlantedBug(
        owner=LaunchBackoff,
        function="blocked_pools",
        replacement=_back_off_from_nothing,
        law=LAUNCHES_BACK_OFF,
    ),
    "spot-prices-stale": PlantedBug(
        owner=AccountOfferingsProvider,
        function="_fetch_spot",
        replacement=_keep_first_prices,
        law=CONSOLIDATION_SAVES,
    ),
    "command-not-cleaned-up": PlantedBug(
        owner=DisruptionQueue,
        function="clean_up",
        replacement=_clean_nothing,
        law=NO_TAINT_LEFT,
    ),
}
"""By what is wrong."""


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Meanwhile the bug is in effect."""
    bug = BUGS[name]
    original = bug.owner.__dict__[bug.function]
    setattr(bug.owner, bug.function, bug.replacement)
    try:
        yield
    finally:
        setattr(bug.owner, bug.function, original)
