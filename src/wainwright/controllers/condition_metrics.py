"""Metrics of the conditions of NodeClaims, Nodes, NodePools and classes: what they are, and how
long they took to become so. Transitions are written as changes are seen; what conditions are, and
since when, is computed when it is asked for.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.cluster import Node
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.informer_cache import Change, metadata_of
from wainwright.metrics import (
    ConditionMetricsOfKind,
    MetricLabelValues,
    Sample,
    condition_metrics,
)
from wainwright.translate.object_metadata import parse_timestamp

KINDS: Final = (NodeClaim, Node, NodePool, EC2NodeClass)
BY_NAME: Final = (NodePool, EC2NodeClass)
"""There are few of them. Conditions of nodes and NodeClaims are counted by what they are: one by
one they were half of all series of a large cluster."""
METRICS: Final = {kind: condition_metrics(kind.__name__, by_name=kind in BY_NAME) for kind in KINDS}


class ConditionMetrics:
    """Without observability of the cluster's state, the conditions of Nodes and NodeClaims are left
    out. The rest stays: alerts have no other source for it.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._context, self._metrics = context, context.metrics
        is_whole = context.settings.cluster_state_observability
        self._with_conditions = KINDS if is_whole else BY_NAME

    def watch(self) -> None:
        for kind in KINDS:
            self._context.cache.subscribe(kind, self._changed)
        self._metrics.add_collector(self._collect)

    def _collect(self) -> Iterator[Sample]:
        """How many conditions there are, and the longest time that one of them has been so."""
        now = self._context.clock.now()
        for kind, of_kind in METRICS.items():
            counts, longest = Counter[MetricLabelValues](), dict[MetricLabelValues, float]()
            for obj in [*self._context.cache.all(kind)]:
                metadata = metadata_of(obj)
                named = (metadata.namespace, metadata.name)
                whose = named if kind in BY_NAME else ()
                for each in self._conditions(obj) or ():
                    values = (*whose, each.type, each.status, each.reason)
                    lasted = now - (parse_timestamp(each.lastTransitionTime) or now)
                    counts[values] += 1
                    longest[values] = max(lasted, longest.get(values, 0.0))
                if metadata.deletionTimestamp:
                    deleted = parse_timestamp(metadata.deletionTimestamp) or now
                    yield of_kind.current_termination_seconds, named, max(0.0, now - deleted)
            for values, count in counts.items():
                yield of_kind.count, values, float(count)
                yield of_kind.current_seconds, values, longest[values]

    def _changed(self, change: Change[Any]) -> None:
        of_kind = METRICS[type(change.object)]
        if change.after is None:
            self._observe_end(of_kind, change.object)
        elif change.before is not None:
            old, new = self._conditions(change.before), self._conditions(change.after)
            if old is not new:
                self._observe_transitions(of_kind, _by_type(old), _by_type(new))

    def _conditions(self, obj: Any) -> Sequence[Any] | None:
        is_counted = isinstance(obj, self._with_conditions) and obj.status is not None
        return obj.status.conditions if is_counted else None

    def _observe_transitions(
        self,
        of_kind: ConditionMetricsOfKind,
        before: Mapping[str, Any],
        after: Mapping[str, Any],
    ) -> None:
        for kind, each in after.items():
            known = before.get(kind)
            if known is None or known.status == each.status:
                continue
            labels = {"type": kind, "status": each.status}
            self._metrics.add(of_kind.transitions, reason=each.reason, **labels)
            since = parse_timestamp(known.lastTransitionTime)
            until = parse_timestamp(each.lastTransitionTime)
            if since is not None and until is not None:
                taken = max(0.0, until - since)
                self._metrics.observe(of_kind.transition_seconds, taken, **labels)

    def _observe_end(self, of_kind: ConditionMetricsOfKind, obj: Any) -> None:
        deleted = parse_timestamp(metadata_of(obj).deletionTimestamp)
        if deleted is not None:
            taken = max(0.0, self._context.clock.now() - deleted)
            self._metrics.observe(of_kind.termination_seconds, taken)


def _by_type(conditions: Sequence[Any] | None) -> Mapping[str, Any]:
    return {each.type: each for each in conditions or ()}
