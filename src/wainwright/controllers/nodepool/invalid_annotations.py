"""What people hear of annotations of ours on NodePools that do not do what they were written for:
an event for as long as that is so, and a line in the log when it becomes another thing.
"""

import logging
from collections.abc import Mapping
from typing import Final

from wainwright.api.karpenter.nodepool import NodePool
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.informer_cache import Change
from wainwright.controllers.live_state import is_ours
from wainwright.controllers.runtime import DONE, Key, Poll, Result, WorkQueue
from wainwright.translate.annotations import annotation_problems, describe_problems

LOG: Final = logging.getLogger(__name__)

REPEAT_SECONDS: Final = 900.0
"""An API server keeps events for an hour, and a mistyped pause may stay for longer."""


class AnnotationLog:
    """Logs what is wrong with the annotations of a NodePool, once until it is another thing."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def look(self, pool: str, annotations: Mapping[str, str] | None) -> str:
        """What is wrong; empty if nothing is."""
        problems = describe_problems(annotation_problems("NodePool", annotations or {}))
        known = self._known.pop(pool, "")
        if problems:
            self._known[pool] = problems
        if problems and problems != known:
            LOG.warning("NodePool %s: %s", pool, problems)
        elif known and not problems:
            LOG.info("NodePool %s: its annotations can be read again", pool)
        return problems

    def drop(self, pool: str) -> None:
        self._known.pop(pool, None)


class InvalidAnnotations:
    name = "nodepool.annotations"

    def __init__(self, context: ControllerContext) -> None:
        self._context, self._cache, self._log = context, context.cache, AnnotationLog()

    def watch(self, queue: WorkQueue) -> None:
        def changed_pool(change: Change[NodePool]) -> None:
            if change.after is None:
                self._log.drop(change.name)
            elif _inputs(change.before) != _inputs(change.after):
                queue.add(change.name)

        self._cache.subscribe(NodePool, changed_pool)

    async def reconcile(self, key: Key) -> Result:
        pool = self._cache.get(NodePool, key)
        if pool is None or not is_ours(pool.spec.template.spec.nodeClassRef):
            return DONE
        problems = self._log.look(key, pool.metadata.annotations)
        if not problems:
            return DONE
        await self._context.events.warn(pool, "InvalidAnnotation", problems)
        return Poll(REPEAT_SECONDS, depends_on={})


def _inputs(pool: NodePool | None) -> object:
    """Not the records that commands leave on it."""
    if pool is None:
        return None
    return pool.metadata.uid, [*annotation_problems("NodePool", pool.metadata.annotations or {})]
