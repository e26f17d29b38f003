"""Metrics of nodes and pods, computed from the cache when they are asked for.

Nothing is kept up to date for them: nodes and pods change far more often than anybody looks. Only
what a pod requests and what a node has is remembered, until they change.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
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
from wainwright.model.resources import CPU, MEMORY, PODS, Resources, in_units, subtract_resources
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

ALWAYS_SHOWN: Final = (CPU, MEMORY, PODS)
"""Of every node; of other resources only those that a pod of the cluster requests. A node has seven
or more, most of which nobody asks for, and each is a series of up to six metrics."""

Amounts: TypeAlias = Counter[str]


class _PodAmounts(NamedTuple):
    pod: Pod
    requests: Resources
    limits: Resources


class _NodeCapacity(NamedTuple):
    node: Node
    allocatable: Resources
    overhead: Resources


class _NodeAmounts(NamedTuple):
    labels: MetricLabelValues
    allocatable: Resources
    overhead: Resources
    requests: Resources
    limits: Resources
    daemon_requests: Resources
    daemon_limits: Resources

    def samples(self, resources: Collection[str]) -> Iterator[Sample]:
        for metric, amounts in (
            (NODE_ALLOCATABLE, self.allocatable),
            (NODE_SYSTEM_OVERHEAD, self.overhead),
            (NODE_POD_REQUESTS, self.requests),
            (NODE_POD_LIMITS, self.limits),
            (NODE_DAEMON_REQUESTS, self.daemon_requests),
            (NODE_DAEMON_LIMITS, self.daemon_limits),
        ):
            for name, amount in amounts.items():
                if amount and name in resources:
                    labels = (*self.labels, resource_type(name))
                    yield metric, labels, in_units(name, amount)


class ClusterMetrics:
    def __init__(self, context: ControllerContext) -> None:
        self._cache, self._state, self._clock = context.cache, context.state, context.clock
        self._amounts: dict[str, _PodAmounts] = {}
        """By uid, of the pods of the last scrape."""
        self._capacities: dict[str, _NodeCapacity] = {}
        """By name, of the nodes of the last scrape."""
        self._metrics = context.metrics

    def register(self) -> None:
        self._metrics.add_collector(self._collect_nodes)
        self._metrics.add_collector(self._collect_pods)

    def _collect_nodes(self) -> Iterator[Sample]:
        known, self._amounts = self._amounts, {}
        capacities, self._capacities = self._capacities, {}
        allocatable, requests, nodes = Counter[str](), Counter[str](), list[_NodeAmounts]()
        for node in [*self._cache.all(Node)]:
            name = node.metadata.name
            self._capacities[name] = _capacity(node, capacities.get(name))
            found = self._node_amounts(node, known)
            allocatable.update(found.allocatable)
            requests.update(found.requests)
            nodes.append(found)
            yield NODE_CURRENT_LIFETIME, found.labels, self._age(node)
        resources = {*ALWAYS_SHOWN, *requests}
        for found in nodes:
            yield from found.samples(resources)
        yield from _utilization(allocatable, requests)

    def _node_amounts(self, node: Node, known: Mapping[str, _PodAmounts]) -> _NodeAmounts:
        pods = self._pods_on(node, known)
        daemons = [each for each in pods if has_owner_kind(each.pod.metadata, "DaemonSet")]
        capacity = self._capacities[node.metadata.name]
        return _NodeAmounts(
            labels=self._labels(node),
            allocatable=capacity.allocatable,
            overhead=capacity.overhead,
            requests=_add_up(each.requests for each in pods),
            limits=_add_up(each.limits for each in pods),
            daemon_requests=_add_up(each.requests for each in daemons),
            daemon_limits=_add_up(each.limits for each in daemons),
        )

    def _pods_on(self, node: Node, known: Mapping[str, _PodAmounts]) -> list[_PodAmounts]:
        pods = self._state.pods_by_node.get(node.metadata.name)
        return [self._amounts_of(pod, known) for pod in pods if not is_terminal(pod)]

    def _amounts_of(self, pod: Pod, known: Mapping[str, _PodAmounts]) -> _PodAmounts:
        found = known.get(pod.metadata.uid)
        if found is None or found.pod is not pod:
            spec, one = spec_after_resize(pod), {PODS: 1}
            found = _PodAmounts(pod, {**pod_requests(spec), **one}, pod_limits(spec))
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
        node_labels = cache(self._node_labels_of_pod)
        counts = Counter(
            (*node_labels(pod.spec.nodeName or ""), pod.status.phase, _boolean(_is_ready(pod)))
            for pod in self._cache.all(Pod)
        )
        for values, count in counts.items():
            yield POD_STATE, values, float(count)

    def _node_labels_of_pod(self, name: str) -> MetricLabelValues:
        node = self._cache.get(Node, name) if name else None
        labels = {} if node is None else node.metadata.labels or {}
        is_managed = _boolean(node is not None and self._state.claims_of_node(node))
        on_node = (labels.get(each, "") for each in (NODEPOOL, *LABELS_OF_POD))
        return _boolean(name), is_managed, *on_node


def _capacity(node: Node, known: _NodeCapacity | None) -> _NodeCapacity:
    if known is not None and known.node is node:
        return known
    capacity = translate_capacity(node.status.capacity)
    allocatable = translate_capacity(node.status.allocatable or node.status.capacity)
    return _NodeCapacity(node, allocatable, subtract_resources(capacity, allocatable))


def _utilization(allocatable: Amounts, requests: Amounts) -> Iterator[Sample]:
    for name, amount in allocatable.items():
        if amount > 0:
            yield CLUSTER_UTILIZATION, (resource_type(name),), 100 * requests[name] / amount


def _add_up(amounts: Iterable[Resources]) -> Resources:
    total: dict[str, int] = {}  # a Counter takes three times as long, and pods are by the thousand
    for each in amounts:
        for name, amount in each.items():
            total[name] = total.get(name, 0) + amount
    return total


def _is_ready(pod: Pod) -> bool:
    conditions = pod.status.conditions or ()
    return any(each.type == "Ready" and each.status == "True" for each in conditions)


def _boolean(value: object) -> str:
    return "true" if value else "false"
