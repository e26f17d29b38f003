"""Metrics of the conditions of NodeClaims, Nodes, NodePools and classes: what they are, and how
long they took to become so. Written as changes are seen; conditions that have not changed cost
nothing. For how long they have been so is computed when it is asked for.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.cluster import Node
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.informer_cache import Change, metadata_of
from wainwright.metrics import ConditionMetricsOfKind, Sample, condition_metrics
from wainwright.translate.object_metadata import parse_timestamp

KINDS: Final = (NodeClaim, Node, NodePool, EC2NodeClass)
METRICS: Final = {kind: condition_metrics(kind.__name__) for kind in KINDS}


class ConditionMetrics:
    def __init__(self, context: ControllerContext) -> None:
        self._context, self._metrics = context, context.metrics

    def watch(self) -> None:
        for kind in KINDS:
            self._context.cache.subscribe(kind, self._changed)
        self._metrics.add_collector(self._collect)

    def _collect(self) -> Iterator[Sample]:
        now = self._context.clock.now()
        for kind, of_kind in METRICS.items():
            for obj in [*self._context.cache.all(kind)]:
                metadata = metadata_of(obj)
                labels = metadata.namespace, metadata.name
                for each in _stated(obj) or ():
                    since = parse_timestamp(each.lastTransitionTime) or now
                    values = (*labels, each.type, each.status, each.reason)
                    yield of_kind.current_seconds, values, max(0.0, now - since)
                if metadata.deletionTimestamp:
                    deleted = parse_timestamp(metadata.deletionTimestamp) or now
                    yield of_kind.current_termination_seconds, labels, max(0.0, now - deleted)

    def _changed(self, change: Change[Any]) -> None:
        of_kind = METRICS[type(change.object)]
        old, new = _stated(change.before), _stated(change.after)
        if old is not new:
            before, after = _by_type(old), _by_type(new)
            labels = {"namespace": metadata_of(change.object).namespace, "name": change.name}
            self._count(of_kind, labels, before, after)
            if change.before is not None and change.after is not None:
                self._observe_transitions(of_kind, before, after)
        if change.after is None:
            self._observe_end(of_kind, change.object)

    def _count(
        self,
        of_kind: ConditionMetricsOfKind,
        labels: Mapping[str, str],
        before: Mapping[str, Any],
        after: Mapping[str, Any],
    ) -> None:
        for kind, each in before.items():
            if _state(each) != _state(after.get(kind)):
                self._metrics.remove(of_kind.count, type=kind, **_labels(each), **labels)
        for kind, each in after.items():
            self._metrics.set(of_kind.count, 1, type=kind, **_labels(each), **labels)

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
            self._metrics.add(of_kind.transitions, type=kind, **_labels(each))
            since = parse_timestamp(known.lastTransitionTime)
            until = parse_timestamp(each.lastTransitionTime)
            if since is not None and until is not None:
                self._metrics.observe(
                    of_kind.transition_seconds,
                    max(0.0, until - since),
                    type=kind,
                    status=each.status,
                )

    def _observe_end(self, of_kind: ConditionMetricsOfKind, obj: Any) -> None:
        deleted = parse_timestamp(metadata_of(obj).deletionTimestamp)
        if deleted is not None:
            taken = max(0.0, self._context.clock.now() - deleted)
            self._metrics.observe(of_kind.termination_seconds, taken)


def _stated(obj: Any) -> Sequence[Any] | None:
    return None if obj is None or obj.status is None else obj.status.conditions


def _by_type(conditions: Sequence[Any] | None) -> Mapping[str, Any]:
    return {each.type: each for each in conditions or ()}


def _state(condition: Any) -> tuple[str, str] | None:
    return None if condition is None else (condition.status, condition.reason)


def _labels(condition: Any) -> dict[str, str]:
    return {"status": condition.status, "reason": condition.reason}
