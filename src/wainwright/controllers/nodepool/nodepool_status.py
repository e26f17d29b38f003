"""NodePool: whether it may launch nodes, as conditions that the planner and people go by."""

from collections.abc import Iterator
from typing import Any, Final

from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass, EC2NodeClassStatus
from wainwright.api.karpenter.nodepool import NodePool, NodePoolStatus
from wainwright.api.karpenter.shared_fields import CAPACITY_TYPES
from wainwright.api.wire import Condition
from wainwright.controllers import conditions as condition
from wainwright.controllers.conditions import ConditionSet
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.events import truncate
from wainwright.controllers.informer_cache import Change
from wainwright.controllers.live_state import is_ours
from wainwright.controllers.nodepool.registration_health import (
    RegistrationHealth,
    find_condition,
    pool_conditions,
)
from wainwright.controllers.nodepool.runtime_validation import validation_problems
from wainwright.controllers.runtime import AFTER_CONFLICT, DONE, Key, Result, WorkQueue
from wainwright.errors import ConflictError
from wainwright.model.labels import CAPACITY_TYPE
from wainwright.translate.pools import MAX_LABEL_VALUE

VALIDATION_FAILED: Final = "NodePoolValidationFailed"
AWAITING: Final = "AwaitingReconciliation"
MAX_MESSAGE: Final = 1024
READINESS_UNKNOWN: Final = "NodeClassReadinessUnknown"


class NodePoolConditions:
    """ValidationSucceeded and NodeClassReady, hence Ready; NodeRegistrationHealthy begins anew
    where nodes will be launched with other settings than those it was judged by.
    """

    name = "nodepool.status"

    def __init__(self, context: ControllerContext, health: RegistrationHealth) -> None:
        self._context, self._cache, self._health = context, context.cache, health
        self._by_class = context.cache.index(NodePool, _class_of)

    def watch(self, queue: WorkQueue) -> None:
        def changed_pool(change: Change[NodePool]) -> None:
            before, after = change.before, change.after
            if after is None:
                self._health.drop(change.object)
            elif before is None or _relevant(before) != _relevant(after):
                queue.add(change.name)

        def changed_class(change: Change[EC2NodeClass]) -> None:
            if _class_state(change.before) != _class_state(change.after):
                for pool in self._by_class.get(change.name):
                    queue.add(pool.metadata.name)

        self._cache.subscribe(NodePool, changed_pool)
        self._cache.subscribe(EC2NodeClass, changed_class)

    async def reconcile(self, key: Key) -> Result:
        pool = self._cache.get(NodePool, key)
        if pool is None or not is_ours(pool.spec.template.spec.nodeClassRef):
            return DONE
        try:
            await self._cache.update(pool, self._status_of, status=True)
        except ConflictError:
            return AFTER_CONFLICT
        return DONE

    def _status_of(self, pool: NodePool) -> dict[str, Any] | None:
        """What has changed of the status."""
        conditions = pool_conditions(pool, self._context.clock.now())
        _set_validation(conditions, pool)
        node_class = self._cache.get(EC2NodeClass, _class_of(pool))
        _set_class_readiness(conditions, node_class)
        seen = {} if node_class is None else self._observe_class(pool, node_class, conditions)
        return {**seen, **(conditions.patch() or {})} or None

    def _observe_class(
        self, pool: NodePool, node_class: EC2NodeClass, conditions: ConditionSet
    ) -> dict[str, Any]:
        generation = node_class.metadata.generation
        is_new_class = (pool.status or NodePoolStatus()).nodeClassObservedGeneration != generation
        judged = find_condition(pool, condition.NODE_REGISTRATION_HEALTHY)
        is_new_pool = judged is None or judged.observedGeneration != pool.metadata.generation
        if is_new_class or is_new_pool:
            self._health.forget(pool)
            conditions.set(condition.NODE_REGISTRATION_HEALTHY, condition.UNKNOWN, AWAITING)
        return {"nodeClassObservedGeneration": generation} if is_new_class else {}


def _set_validation(conditions: ConditionSet, pool: NodePool) -> None:
    problems = "; ".join(_problems(pool))
    if problems:
        message = truncate(problems, MAX_MESSAGE)
        conditions.set(condition.VALIDATION_SUCCEEDED, condition.FALSE, VALIDATION_FAILED, message)
    else:
        conditions.set(condition.VALIDATION_SUCCEEDED, condition.TRUE)


def _problems(pool: NodePool) -> Iterator[str]:
    yield from validation_problems(pool)
    name = pool.metadata.name
    if len(name) > MAX_LABEL_VALUE:
        yield f"metadata.name: {len(name)} characters; nodes carry it as a label, at most 63"
    for requirement in pool.spec.template.spec.requirements:
        values = requirement.values or []
        is_choice = requirement.key == CAPACITY_TYPE and requirement.operator == "In"
        if is_choice and values and not any(each in CAPACITY_TYPES for each in values):
            known = ", ".join(CAPACITY_TYPES)
            yield f"{CAPACITY_TYPE}: none of {', '.join(values)} is one of {known}"


def _set_class_readiness(conditions: ConditionSet, node_class: EC2NodeClass | None) -> None:
    if node_class is None:
        _not_ready(conditions, "NodeClassNotFound", "NodeClass not found on cluster")
        return
    if node_class.metadata.deletionTimestamp:
        _not_ready(conditions, "NodeClassTerminating", "NodeClass is being deleted")
        return
    ready = _ready_condition(node_class)
    if ready is None or ready.status == condition.UNKNOWN:
        message = "NodeClass does not report its readiness yet"
        _not_ready(conditions, READINESS_UNKNOWN, message)
    elif ready.status == condition.FALSE:
        _not_ready(conditions, ready.reason, ready.message)
    else:
        conditions.set(condition.NODE_CLASS_READY, condition.TRUE)


def _not_ready(conditions: ConditionSet, reason: str, message: str) -> None:
    conditions.set(condition.NODE_CLASS_READY, condition.FALSE, reason, message)


def _ready_condition(node_class: EC2NodeClass) -> Condition | None:
    stated = (node_class.status or EC2NodeClassStatus()).conditions or ()
    return next((each for each in stated if each.type == condition.READY), None)


def _class_of(pool: NodePool) -> str:
    reference = pool.spec.template.spec.nodeClassRef
    return reference.name if is_ours(reference) else ""


def _relevant(pool: NodePool) -> object:
    """Not what it holds, which changes with every node."""
    status = pool.status or NodePoolStatus()
    metadata = pool.metadata
    return metadata.uid, metadata.generation, status.conditions, status.nodeClassObservedGeneration


def _class_state(node_class: EC2NodeClass | None) -> object:
    if node_class is None:
        return None
    metadata = node_class.metadata
    ready = _ready_condition(node_class)
    return metadata.uid, metadata.generation, metadata.deletionTimestamp, ready
