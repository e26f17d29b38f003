"""NodeOverlay and InstanceType: whether they are in effect, and if not, why.

They are in effect with the next plan. Their status is worked out when they, or what they may apply
to, change; prices and instance types of the cloud change without anybody telling.
"""

from collections import defaultdict
from typing import Any, Final

from wainwright.api.catalog_documents import ConditionsStatus, InstanceType, NodeOverlay
from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.cloud import ObjectRemark
from wainwright.controllers import conditions as condition
from wainwright.controllers.conditions import ConditionSet
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.events import truncate
from wainwright.controllers.informer_cache import Change
from wainwright.controllers.nodeclass.declared_objects import DeclaredObjectsTracker
from wainwright.controllers.nodepool.runtime_validation import validation_problems
from wainwright.controllers.runtime import (
    AFTER_CONFLICT,
    DONE,
    WHOLE_CLUSTER,
    Key,
    Poll,
    Result,
    WorkQueue,
)
from wainwright.errors import ConflictError

PERIOD: Final = 6 * 3600.0  # seconds
RUNTIME_VALIDATION: Final = "RuntimeValidation"
MAX_MESSAGE: Final = 1024

Override = NodeOverlay | InstanceType
Remarks = dict[tuple[str, str], dict[ObjectRemark, None]]
"""By kind and name of the object."""


class OverrideStatus:
    name = "nodeoverlay"

    def __init__(self, context: ControllerContext, declared: DeclaredObjectsTracker) -> None:
        self._context, self._cache, self._declared = context, context.cache, declared

    def watch(self, queue: WorkQueue) -> None:
        def changed(change: Change[Any]) -> None:
            before, after = change.before, change.after
            if before is None or after is None or _relevant(before) != _relevant(after):
                queue.add(WHOLE_CLUSTER)

        for kind in (NodeOverlay, InstanceType, NodePool, EC2NodeClass):
            self._cache.subscribe(kind, changed)

    async def reconcile(self, _: Key) -> Result:
        overrides: list[Override] = [
            *self._cache.all(NodeOverlay),
            *self._cache.all(InstanceType),
        ]
        if not overrides:
            return DONE
        remarks = await self._remarks()
        try:
            for each in overrides:
                await self._write(each, remarks[each.kind, each.metadata.name])
        except ConflictError:
            return AFTER_CONFLICT
        return Poll(PERIOD)

    async def _remarks(self) -> Remarks:
        """What is said about each object, whatever NodePool it is said for."""
        found: Remarks = defaultdict(dict)
        for catalog in (await self._declared.catalogs()).values():
            for remark in catalog.remarks:
                found[remark.kind, remark.name][remark] = None
        return found

    async def _write(self, override: Override, remarks: dict[ObjectRemark, None]) -> None:
        conditions = ConditionSet(
            (override.status or ConditionsStatus()).conditions,
            now=self._context.clock.now(),
            generation=override.metadata.generation,
            readiness=condition.OVERRIDE_READINESS,
        )
        _set_validation(conditions, override, remarks)
        patch = conditions.patch()
        if patch is not None:
            await self._cache.patch_status(override, patch)


def _set_validation(
    conditions: ConditionSet, override: Override, remarks: dict[ObjectRemark, None]
) -> None:
    problems = "; ".join(validation_problems(override))
    void = next((each for each in remarks if each.void), None)
    if problems:
        _fail(conditions, RUNTIME_VALIDATION, problems)
    elif void is not None:
        _fail(conditions, void.void, void.message)
    else:
        message = truncate("; ".join(each.message for each in remarks), MAX_MESSAGE)
        conditions.set(condition.VALIDATION_SUCCEEDED, condition.TRUE, message=message)


def _fail(conditions: ConditionSet, reason: str, message: str) -> None:
    message = truncate(message, MAX_MESSAGE)
    conditions.set(condition.VALIDATION_SUCCEEDED, condition.FALSE, reason, message)


def _relevant(obj: Override | NodePool | EC2NodeClass) -> object:
    """A class that becomes ready has types that overlays can conflict in."""
    stated = (obj.status.conditions if obj.status is not None else None) or ()
    ready = next((each.status for each in stated if each.type == condition.READY), "")
    return obj.metadata.uid, obj.metadata.generation, ready
