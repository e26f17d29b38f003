"""Metrics of nodes and pods, computed from the cache when they are asked for.

Nothing is kept up to date for them: nodes and pods change far more often than anybody looks. Only
what a pod requests is remembered, until the pod changes.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.workloads import Pod
from wainwright.controllers.context import ControllerContext
from wainwright.metrics import (
    CLUSTER_UTILIZATION,
    NODE_ALLOCATABLE,
    NODE_CURRENT_LIFETIME,
    NODE_DAEMON_LIMITS,
    NODE_DAEMON_REQUESTS,
    NODE_POD_LIMITS,
    NODE_POD_REQUESTS,
    NODE_SYSTEM_OVERHEAD,
    POD_STATE,
    Metric,
    MetricLabelValues,
    Sample,
    resource_type,
)
from wainwright.model.labels import (
    ARCH,
    CAPACITY_TYPE,
    INSTANCE_CATEGORY,
    INSTANCE_FAMILY,
    INSTANCE_SIZE,
    INSTANCE_TYPE,
    NODEPOOL,
    OS,
    REGION,
    ZONE,
)
from wainwright.model.resources import PODS, Resources, in_units, subtract_resources
from wainwright.translate.object_metadata import has_owner_kind, parse_timestamp
from wainwright.translate.pods import is_terminal
from wainwright.translate.resources import (
    pod_limits,
    pod_requests,
    spec_after_resize,
    translate_capacity,
)

LABELS_OF_NODE: Final = (
    *(ARCH, OS, CAPACITY_TYPE, INSTANCE_TYPE),
    *(INSTANCE_CATEGORY, INSTANCE_FAMILY, INSTANCE_SIZE, REGION, ZONE),
)
LABELS_OF_POD: Final = (ZONE, ARCH, CAPACITY_TYPE, INSTANCE_TYPE)
"""That a pod has from its node."""

Amounts: TypeAlias = Counter[str]


class _PodAmounts(NamedTuple):
    pod: Pod
    requests: Resources
    limits: Resources


class ClusterMetrics:
    def __init__(self, context: ControllerContext) -> None:
        self._cache, self._state, self._clock = context.cache, context.state, context.clock
        self._amounts: dict[str, _PodAmounts] = {}
        """By uid, of the pods of the last scrape."""
        self._metrics = context.metrics

    def register(self) -> None:
        self._metrics.add_collector(self._collect_nodes)
        self._metrics.add_collector(self._collect_pods)

    def _collect_nodes(self) -> Iterator[Sample]:
        known, self._amounts = self._amounts, {}
        allocatable, requests = Counter[str](), Counter[str]()
        for node in [*self._cache.all(Node)]:
            labels = self._labels(node)
            on_node = translate_capacity(node.status.allocatable or node.status.capacity)
            capacity = translate_capacity(node.status.capacity)
            pods = self._pods_on(node, known)
            requested = _add_up(each.requests for each in pods)
            daemons = [each for each in pods if has_owner_kind(each.pod.metadata, "DaemonSet")]
            yield NODE_CURRENT_LIFETIME, labels, self._age(node)
            for metric, amounts in (
                (NODE_ALLOCATABLE, on_node),
                (NODE_SYSTEM_OVERHEAD, subtract_resources(capacity, on_node)),
                (NODE_POD_REQUESTS, requested),
                (NODE_POD_LIMITS, _add_up(each.limits for each in pods)),
                (NODE_DAEMON_REQUESTS, _add_up(each.requests for each in daemons)),
                (NODE_DAEMON_LIMITS, _add_up(each.limits for each in daemons)),
            ):
                yield from _by_resource(metric, labels, amounts)
            allocatable.update(on_node)
            requests.update(requested)
        yield from _utilization(allocatable, requests)

    def _pods_on(self, node: Node, known: Mapping[str, _PodAmounts]) -> list[_PodAmounts]:
        pods = self._state.pods_by_node.get(node.metadata.name)
        return [self._amounts_of(pod, known) for pod in pods if not is_terminal(pod)]

    def _amounts_of(self, pod: Pod, known: Mapping[str, _PodAmounts]) -> _PodAmounts:
        found = known.get(pod.metadata.uid)
        if found is None or found.pod is not pod:
            spec, one = spec_after_resize(pod), {PODS: 1}
            found = _PodAmounts(pod, {**pod_requests(spec), **one}, {**pod_limits(spec), **one})
        self._amounts[pod.metadata.uid] = found
        return found

    def _labels(self, node: Node) -> MetricLabelValues:
        labels = node.metadata.labels or {}
        managed = _boolean(self._state.claims_of_node(node))
        rest = (labels.get(each, "") for each in LABELS_OF_NODE)
        return (node.metadata.name, labels.get(NODEPOOL, ""), managed, *rest)

    def _age(self, node: Node) -> float:
        now = self._clock.now()
        return max(0.0, now - (parse_timestamp(node.metadata.creationTimestamp) or now))

    def _collect_pods(self) -> Iterator[Sample]:
        """By what they are, not one by one: with 20,000 pods that would be most of all series, and
        dashboards add them up anyway.
        """
        counts = Counter(map(self._state_of, self._cache.all(Pod)))
        for values, count in counts.items():
            yield POD_STATE, values, float(count)

    def _state_of(self, pod: Pod) -> MetricLabelValues:
        node = self._cache.get(Node, pod.spec.nodeName) if pod.spec.nodeName else None
        labels = {} if node is None else node.metadata.labels or {}
        return (
            *(_boolean(pod.spec.nodeName), labels.get(NODEPOOL, "")),
            *(labels.get(each, "") for each in LABELS_OF_POD),
            *(pod.status.phase, _boolean(_is_ready(pod))),
            _boolean(node is not None and self._state.claims_of_node(node)),
        )


def _by_resource(
    metric: Metric, labels: MetricLabelValues, amounts: Mapping[str, int]
) -> Iterator[Sample]:
    for name, amount in amounts.items():
        yield metric, (*labels, resource_type(name)), in_units(name, amount)


def _utilization(allocatable: Amounts, requests: Amounts) -> Iterator[Sample]:
    for name, amount in allocatable.items():
        if amount > 0:
            yield CLUSTER_UTILIZATION, (resource_type(name),), 100 * requests[name] / amount


def _add_up(amounts: Iterable[Resources]) -> Amounts:
    total = Counter[str]()
    for each in amounts:
        total.update(each)
    return total


def _is_ready(pod: Pod) -> bool:
    conditions = pod.status.conditions or ()
    return any(each.type == "Ready" and each.status == "True" for each in conditions)


def _boolean(value: object) -> str:
    return "true" if value else "false"
