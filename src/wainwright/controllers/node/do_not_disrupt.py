"""What people hear of the annotation karpenter.sh/do-not-disrupt on pods: until when it protects a
pod, that it no longer does, and that its value means nothing.

With the value `true` there is nothing to say: disruption that it blocks is reported on the node.
"""

from datetime import UTC, datetime
from typing import Final

from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.workloads import Pod
from wainwright.clock import format_timestamp
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.informer_cache import Change
from wainwright.controllers.live_state import is_ours
from wainwright.controllers.runtime import DONE, Key, Poll, Result, WorkQueue
from wainwright.translate.disruption import DO_NOT_DISRUPT_ANNOTATION, parse_duration
from wainwright.translate.object_metadata import parse_timestamp
from wainwright.translate.pods import is_terminal

ELAPSED: Final = f"The {DO_NOT_DISRUPT_ANNOTATION} grace period has elapsed, pod is now disruptable"
LAST_MOMENT: Final = datetime.max.replace(tzinfo=UTC).timestamp()
"""Of a longer time no end can be written, as of 5,000 digits of hours."""


class DoNotDisruptEvents:
    """Only pods with a value of their own are looked at, when it or their start changes, and when
    its time has passed.
    """

    name = "pod.donotdisrupt"

    def __init__(self, context: ControllerContext) -> None:
        self._context, self._cache, self._state = context, context.cache, context.state

    def watch(self, queue: WorkQueue) -> None:
        def changed_pod(change: Change[Pod]) -> None:
            if _inputs(change.before) != _inputs(change.after):
                queue.add(f"{change.object.metadata.namespace}/{change.name}")

        self._cache.subscribe(Pod, changed_pod)

    async def reconcile(self, key: Key) -> Result:
        namespace, _, name = key.partition("/")
        pod = self._cache.get(Pod, name, namespace)
        value = None if pod is None else _value(pod)
        if pod is None or value is None or not self._is_on_our_node(pod):
            return DONE
        seconds = parse_duration(value)
        if not seconds:
            await self._report_invalid(pod, value)
            return DONE
        started = parse_timestamp(pod.status.startTime)
        if started is None or started + seconds > LAST_MOMENT:
            return DONE
        return await self._report_end(pod, started + seconds)

    def _is_on_our_node(self, pod: Pod) -> bool:
        node = self._cache.get(Node, pod.spec.nodeName)
        claims = [] if node is None else self._state.claims_of_node(node)
        return any(is_ours(claim.spec.nodeClassRef) for claim in claims)

    async def _report_invalid(self, pod: Pod, value: str) -> None:
        message = (
            f"Invalid {DO_NOT_DISRUPT_ANNOTATION} annotation: {value!r} is neither true nor a "
            "duration such as 30m, ignoring annotation"
        )
        await self._context.events.warn_many([pod], "InvalidDoNotDisruptAnnotation", message)

    async def _report_end(self, pod: Pod, until: float) -> Result:
        events, left = self._context.events, until - self._context.clock.now()
        if left <= 0:
            await events.inform_each([(pod, ELAPSED)], "DoNotDisruptGracePeriodElapsed")
            return DONE
        end = format_timestamp(until)
        message = f"The {DO_NOT_DISRUPT_ANNOTATION} grace period will elapse at {end}"
        await events.inform_each([(pod, message)], "DoNotDisruptUntil")
        return Poll(left, due=until, depends_on={})


def _inputs(pod: Pod | None) -> object:
    value = None if pod is None else _value(pod)
    if pod is None or value is None:
        return None
    return pod.metadata.uid, value, pod.status.startTime, pod.spec.nodeName


def _value(pod: Pod) -> str | None:
    """None where there is nothing to say of the pod."""
    value = (pod.metadata.annotations or {}).get(DO_NOT_DISRUPT_ANNOTATION)
    if value in (None, "true") or not pod.spec.nodeName:
        return None
    return None if pod.metadata.deletionTimestamp or is_terminal(pod) else value
