"""Metrics: counters, gauges and histograms by name and labels, and their Prometheus text format.

A registry is a value that callers pass on; there is no global one. Every metric of the product is
declared once, here, so that its name and labels can be looked up, and a misspelt label is an
error.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator
from enum import Enum
from functools import cache
from heapq import merge
from itertools import accumulate, islice
from typing import Final, TypeAlias, TypeVar

import msgspec

DURATION_BUCKETS: Final = (
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
)
SIZE_BUCKETS: Final = (
    1.0,
    2.0,
    4.0,
    5.0,
    10.0,
    15.0,
    20.0,
    25.0,
    50.0,
    100.0,
    250.0,
    500.0,
    1000.0,
)
LIFETIME_BUCKETS: Final = tuple(
    hours * 3600.0 for hours in (0.25, 0.5, 1, 2, 4, 8, 12, 24, 48, 72, 120, 168, 336, 720, 1440)
)
LAG_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
TERMINATION_BUCKETS: Final = (*DURATION_BUCKETS, 120.0, 300.0, 600.0, 1800.0, 3600.0, 86400.0)
POD_BUCKETS: Final = (0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 180.0, 300.0)
PART_SIZE: Final = 1000
"""Series that are collected, sorted or written at once: some 10 ms. To sort 80,000 takes 0.2 s."""

Item = TypeVar("Item")


class MetricKind(Enum):
    """The metric types of Prometheus."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """A declaration of a metric; it holds no values."""

    name: str
    help: str
    kind: MetricKind
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    """Upper bounds, ascending; only of a histogram, and without infinity."""


class Distribution(msgspec.Struct, frozen=True, kw_only=True):
    """The observations of a histogram."""

    count: int = 0
    total: float = 0.0
    buckets: tuple[int, ...] = ()
    """Observations in each bucket (not cumulative), the one without an upper bound last."""


MetricLabelValues = tuple[str, ...]
"""In the order of the labels of the declaration."""
Sample: TypeAlias = tuple[Metric, MetricLabelValues, float]
Collector: TypeAlias = Callable[[], Iterable[Sample]]
"""Computes gauges when they are asked for. Others have their turn between two samples: it must not
iterate over what may change meanwhile."""


class MetricsRegistry:
    """The values of all metrics of one process."""

    def __init__(self) -> None:
        self._values: dict[Metric, dict[MetricLabelValues, float]] = {}
        self._distributions: dict[Metric, dict[MetricLabelValues, Distribution]] = {}
        self._collectors: list[Collector] = []

    def add(self, metric: Metric, amount: float = 1.0, /, **labels: str) -> None:
        """Increases a counter."""
        key = _key(metric, labels, MetricKind.COUNTER)
        if amount < 0:
            raise ValueError(f"{metric.name} is a counter and cannot go down by {-amount}")
        values = self._values.setdefault(metric, {})
        values[key] = values.get(key, 0.0) + amount

    def set(self, metric: Metric, value: float, /, **labels: str) -> None:
        """Sets a gauge."""
        self._values.setdefault(metric, {})[_key(metric, labels, MetricKind.GAUGE)] = value

    def remove(self, metric: Metric, /, **labels: str) -> None:
        """Removes a gauge whose object is gone."""
        self._values.get(metric, {}).pop(_key(metric, labels, MetricKind.GAUGE), None)

    def remove_gauges(self, *, keep: Collection[Metric] = ()) -> None:
        """Removes all gauges but these: nobody keeps them up to date any more."""
        gauges = [each for each in self._values if each.kind is MetricKind.GAUGE]
        for metric in gauges:
            if metric not in keep:
                del self._values[metric]

    def add_collector(self, collector: Collector) -> None:
        """For gauges with a series for each object: they cost nothing until they are asked for."""
        self._collectors.append(collector)

    def remove_collectors(self) -> None:
        """What they know is no longer kept up to date."""
        self._collectors.clear()

    def observe(self, metric: Metric, value: float, /, **labels: str) -> None:
        """Adds one observation to a histogram."""
        key = _key(metric, labels, MetricKind.HISTOGRAM)
        distributions = self._distributions.setdefault(metric, {})
        old = distributions.get(key) or Distribution(buckets=(0,) * (len(metric.buckets) + 1))
        bucket = bisect_left(metric.buckets, value)
        buckets = (*old.buckets[:bucket], old.buckets[bucket] + 1, *old.buckets[bucket + 1 :])
        distributions[key] = Distribution(
            count=old.count + 1, total=old.total + value, buckets=buckets
        )

    def value(self, metric: Metric, /, **labels: str) -> float:
        """The value of a counter or gauge; zero if it was never set."""
        return self._values.get(metric, {}).get(_key(metric, labels, metric.kind), 0.0)

    def distribution(self, metric: Metric, /, **labels: str) -> Distribution:
        distributions = self._distributions.get(metric, {})
        return distributions.get(_key(metric, labels, MetricKind.HISTOGRAM), Distribution())

    def exposition(self) -> str:
        """All values in the Prometheus text format, sorted by name and labels."""
        return "".join(self.exposition_parts())

    def exposition_parts(self) -> Iterator[str]:
        """The same in parts, so that an event loop is not held up by a large cluster; parts are
        empty while gauges are collected.
        """
        collected: dict[Metric, dict[MetricLabelValues, float]] = {}
        for number, (metric, labels, value) in enumerate(self._samples(), start=1):
            collected.setdefault(metric, {})[labels] = value
            if number % PART_SIZE == 0:
                yield ""
        metrics = {*self._values, *self._distributions, *collected}
        for metric in sorted(metrics, key=lambda metric: metric.name):
            values = {**self._values.get(metric, {}), **collected.get(metric, {})}.items()
            runs = []
            for run in _parts(values):
                runs.append(sorted(run))
                yield ""
            for part in _parts(self._lines(metric, merge(*runs))):
                yield "".join(f"{line}\n" for line in part)

    def _samples(self) -> Iterator[Sample]:
        for collector in [*self._collectors]:
            yield from collector()

    def _lines(
        self, metric: Metric, values: Iterable[tuple[MetricLabelValues, float]]
    ) -> Iterator[str]:
        yield f"# HELP {metric.name} {_escape(metric.help)}"
        yield f"# TYPE {metric.name} {metric.kind.value}"
        for labels, value in values:
            yield f"{metric.name}{_format_labels(metric, labels)} {_format_number(value)}"
        for labels, distribution in sorted(
            self._distributions.get(metric, {}).items(), key=lambda item: item[0]
        ):
            yield from _histogram_lines(metric, labels, distribution)


def _parts(items: Iterable[Item]) -> Iterator[list[Item]]:
    rest = iter(items)
    while part := [*islice(rest, PART_SIZE)]:
        yield part


def _key(metric: Metric, labels: dict[str, str], kind: MetricKind) -> MetricLabelValues:
    if metric.kind is not kind:
        raise ValueError(f"{metric.name} is a {metric.kind.value}, not a {kind.value}")
    # Gauges are set with every change of a pod: no sets are built for the usual case.
    if len(labels) == len(metric.labels):
        try:
            return tuple([labels[name] for name in metric.labels])
        except KeyError:
            pass
    raise ValueError(f"{metric.name} has the labels {metric.labels}, found {tuple(labels)}")


def _histogram_lines(
    metric: Metric, labels: MetricLabelValues, distribution: Distribution
) -> Iterator[str]:
    bounds = [*map(_format_number, metric.buckets), "+Inf"]
    for bound, count in zip(bounds, accumulate(distribution.buckets), strict=True):
        yield f"{metric.name}_bucket{_format_labels(metric, labels, le=bound)} {count}"
    yield f"{metric.name}_sum{_format_labels(metric, labels)} {_format_number(distribution.total)}"
    yield f"{metric.name}_count{_format_labels(metric, labels)} {distribution.count}"


@cache
def _label_template(metric: Metric) -> str:
    inside = ",".join(f'{name}="%s"' for name in metric.labels)
    return f"{{{inside}}}" if inside else ""


def _format_labels(metric: Metric, labels: MetricLabelValues, **more: str) -> str:
    # Usually nothing has to be escaped, and series are by the thousand.
    text = "".join(labels)
    if not (more or '"' in text or "\\" in text or "\n" in text):
        return _label_template(metric) % labels
    pairs = [*zip(metric.labels, labels, strict=True), *more.items()]
    inside = ",".join(f'{name}="{_escape(value, quotes=True)}"' for name, value in pairs)
    return f"{{{inside}}}" if inside else ""


def _escape(text: str, *, quotes: bool = False) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n")
    return escaped.replace('"', '\\"') if quotes else escaped


def resource_type(resource: str) -> str:
    """A resource as the label of that name has it: ephemeral_storage."""
    return resource.lower().replace("-", "_")


def _format_number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(value)


CLOUD_DURATION: Final = Metric(
    name="karpenter_cloudprovider_duration_seconds",
    help="How long a method of the cloud provider took, by the controller that called it.",
    kind=MetricKind.HISTOGRAM,
    labels=("controller", "method", "provider"),
    buckets=DURATION_BUCKETS,
)
CLOUD_ERRORS: Final = Metric(
    name="karpenter_cloudprovider_errors_total",
    help="Methods of the cloud provider that ended in an error, by controller and error.",
    kind=MetricKind.COUNTER,
    labels=("controller", "method", "provider", "error"),
)
AWS_REQUEST_DURATION: Final = Metric(
    name="wainwright_aws_request_duration_seconds",
    help="How long a request to AWS took, each attempt by itself.",
    kind=MetricKind.HISTOGRAM,
    labels=("service", "operation"),
    buckets=DURATION_BUCKETS,
)
AWS_REQUEST_ERRORS: Final = Metric(
    name="wainwright_aws_request_errors_total",
    help="Requests to AWS that were answered with an error, or not at all.",
    kind=MetricKind.COUNTER,
    labels=("service", "operation", "error"),
)
BATCH_SIZE: Final = Metric(
    name="karpenter_cloudprovider_batcher_batch_size",
    help="How many requests went into one call.",
    kind=MetricKind.HISTOGRAM,
    labels=("batcher_name",),
    buckets=SIZE_BUCKETS,
)
BATCH_TIME: Final = Metric(
    name="karpenter_cloudprovider_batcher_batch_time_seconds",
    help="How long the first request of a batch waited for the others.",
    kind=MetricKind.HISTOGRAM,
    labels=("batcher_name",),
    buckets=DURATION_BUCKETS,
)
CLOUD_RETRIES: Final = Metric(
    name="wainwright_cloudprovider_retries_total",
    help="Calls that were repeated, by the error that made it necessary.",
    kind=MetricKind.COUNTER,
    labels=("method", "error"),
)
CLOUD_RATE_LIMIT_WAIT: Final = Metric(
    name="wainwright_cloudprovider_paced_seconds",
    help="How long calls waited so as to stay below the cloud's limits.",
    kind=MetricKind.HISTOGRAM,
    labels=("method",),
    buckets=DURATION_BUCKETS,
)


INSTANCE_LAUNCH_FAILURES: Final = Metric(
    name="karpenter_cloudprovider_instance_launch_failures_total",
    help="Pools that EC2 could not launch from, by what it said.",
    kind=MetricKind.COUNTER,
    labels=("zone", "zone_id", "capacity_type", "reason"),
)


INTERRUPTION_MESSAGES_RECEIVED: Final = Metric(
    name="karpenter_interruption_received_messages_total",
    help="Messages of the interruption queue, by what they announce.",
    kind=MetricKind.COUNTER,
    labels=("message_type",),
)


INTERRUPTION_MESSAGES_DELETED: Final = Metric(
    name="karpenter_interruption_deleted_messages_total",
    help="Messages that were handled and removed from the queue.",
    kind=MetricKind.COUNTER,
)


INTERRUPTION_QUEUE_DURATION: Final = Metric(
    name="karpenter_interruption_message_queue_duration_seconds",
    help="How long messages lay in the queue before they were read.",
    kind=MetricKind.HISTOGRAM,
    buckets=DURATION_BUCKETS,
)


UNHEALTHY_INSTANCES: Final = Metric(
    name="karpenter_interruption_instance_status_unhealthy_total",
    help="Instances that were found unhealthy or due for maintenance, once for each time.",
    kind=MetricKind.COUNTER,
    labels=("category",),
)


RECONCILES: Final = Metric(
    name="controller_runtime_reconcile_total",
    help="Looks at an object, by controller and result.",
    kind=MetricKind.COUNTER,
    labels=("controller", "result"),
)
RECONCILE_ERRORS: Final = Metric(
    name="controller_runtime_reconcile_errors_total",
    help="Looks at an object that ended in an error.",
    kind=MetricKind.COUNTER,
    labels=("controller",),
)
RECONCILE_SECONDS: Final = Metric(
    name="controller_runtime_reconcile_time_seconds",
    help="How long a look at an object took.",
    kind=MetricKind.HISTOGRAM,
    labels=("controller",),
    buckets=DURATION_BUCKETS,
)
ACTIVE_WORKERS: Final = Metric(
    name="controller_runtime_active_workers",
    help="Workers of a controller that are not waiting.",
    kind=MetricKind.GAUGE,
    labels=("controller",),
)
MAX_WORKERS: Final = Metric(
    name="controller_runtime_max_concurrent_reconciles",
    help="Workers of a controller.",
    kind=MetricKind.GAUGE,
    labels=("controller",),
)
QUEUE_DEPTH: Final = Metric(
    name="workqueue_depth",
    help="Keys that wait for a worker.",
    kind=MetricKind.GAUGE,
    labels=("controller", "name"),
)


NODECLAIMS_CREATED: Final = Metric(
    name="karpenter_nodeclaims_created_total",
    help="NodeClaims that were created, by what for and for which NodePool.",
    kind=MetricKind.COUNTER,
    labels=("reason", "nodepool", "min_values_relaxed"),
)
NODECLAIMS_TERMINATED: Final = Metric(
    name="karpenter_nodeclaims_terminated_total",
    help="NodeClaims whose instance is gone.",
    kind=MetricKind.COUNTER,
    labels=("nodepool", "capacity_type", "zone"),
)
DISRUPTION_DECISIONS: Final = Metric(
    name="karpenter_voluntary_disruption_decisions_total",
    help="Disruption commands that were begun.",
    kind=MetricKind.COUNTER,
    labels=("decision", "reason", "consolidation_type"),
)
DISRUPTION_QUEUE_FAILURES: Final = Metric(
    name="karpenter_voluntary_disruption_queue_failures_total",
    help="Replacements that could not be created or never came up, and nodes that could not be "
    "tainted, of commands that were given up or went on without them.",
    kind=MetricKind.COUNTER,
    labels=("consolidation_type",),
)
NODECLAIMS_UNHEALTHY: Final = Metric(
    name="karpenter_nodeclaims_unhealthy_disrupted_total",
    help="NodeClaims that were deleted because of a condition of their node.",
    kind=MetricKind.COUNTER,
    labels=("condition", "nodepool", "capacity_type", "image_id"),
)
NODECLAIMS_DISRUPTED: Final = Metric(
    name="karpenter_nodeclaims_disrupted_total",
    help="NodeClaims that were deleted, by why, by the policy of their NodePool, and how.",
    kind=MetricKind.COUNTER,
    labels=("reason", "nodepool", "capacity_type", "consolidation_policy", "termination_mode"),
)
DISRUPTION_DECISIONS_BY_POOL: Final = Metric(
    name="karpenter_voluntary_disruption_decisions_by_nodepool_total",
    help="Disruption commands that were begun, for each NodePool whose nodes they take.",
    kind=MetricKind.COUNTER,
    labels=("nodepool", "decision", "reason", "consolidation_type"),
)
DISRUPTION_ELIGIBLE_NODES: Final = Metric(
    name="karpenter_voluntary_disruption_eligible_nodes",
    help="Nodes that nothing keeps from being disrupted for this reason.",
    kind=MetricKind.GAUGE,
    labels=("reason",),
)
DISRUPTION_FAILED_VALIDATIONS: Final = Metric(
    name="karpenter_voluntary_disruption_failed_validations_total",
    help="Commands that did not hold any more when they were to be begun, by why.",
    kind=MetricKind.COUNTER,
    labels=("consolidation_type", "reason"),
)
DISRUPTION_EVALUATION_SECONDS: Final = Metric(
    name="karpenter_voluntary_disruption_decision_evaluation_duration_seconds",
    help="How long a look for something to disrupt took.",
    kind=MetricKind.HISTOGRAM,
    buckets=DURATION_BUCKETS,
)
DISRUPTION_TIMEOUTS: Final = Metric(
    name="karpenter_voluntary_disruption_consolidation_timeouts_total",
    help="Looks for something to disrupt that were ended because they took too long.",
    kind=MetricKind.COUNTER,
    labels=("consolidation_type",),
)
NODEPOOL_ALLOWED_DISRUPTIONS: Final = Metric(
    name="karpenter_nodepools_allowed_disruptions",
    help="How many more nodes the budgets of a NodePool allow to be disrupted now.",
    kind=MetricKind.GAUGE,
    labels=("nodepool", "reason"),
)
DISRUPTION_BREAKER_OPEN: Final = Metric(
    name="wainwright_disruption_breaker_open",
    help="1 while no node is disrupted because too many were within a short time.",
    kind=MetricKind.GAUGE,
)
UNDONE_CONSOLIDATIONS_TOTAL: Final = Metric(
    name="wainwright_disruption_undone_consolidations_total",
    help="Nodes launched for pods whose node consolidation had just removed, so that it saved "
    "nothing.",
    kind=MetricKind.COUNTER,
    labels=("nodepool",),
)
LAUNCH_BACKOFF_PODS: Final = Metric(
    name="wainwright_launch_backoff_pods",
    help="Pods that wait before another node is launched for them: they were bound to none.",
    kind=MetricKind.GAUGE,
)
DISRUPTION_PAUSED: Final = Metric(
    name="wainwright_disruption_paused",
    help="1 while no voluntary disruption is begun in a NodePool because somebody paused it.",
    kind=MetricKind.GAUGE,
    labels=("nodepool",),
)
DISRUPTION_MAX_NODES_WAITING: Final = Metric(
    name="wainwright_disruption_max_nodes_waiting",
    help="Nodes that could be disrupted, and wait because one command takes no more (--max-nodes).",
    kind=MetricKind.GAUGE,
)
PROVISIONING_PAUSED: Final = Metric(
    name="wainwright_provisioning_paused",
    help="1 while no node is launched for pods by a NodePool because somebody paused it.",
    kind=MetricKind.GAUGE,
    labels=("nodepool",),
)
NODEPOOL_USAGE: Final = Metric(
    name="karpenter_nodepools_usage",
    help="What the nodes of a NodePool add up to: cores, bytes, or a count.",
    kind=MetricKind.GAUGE,
    labels=("nodepool", "resource_type"),
)
NODEPOOL_LIMIT: Final = Metric(
    name="karpenter_nodepools_limit",
    help="What the nodes of a NodePool may add up to, where it has a limit.",
    kind=MetricKind.GAUGE,
    labels=("nodepool", "resource_type"),
)
NODEPOOL_COST: Final = Metric(
    name="karpenter_nodepools_cost_total",
    help="What the nodes of a NodePool cost at the prices in effect, in USD per hour.",
    kind=MetricKind.GAUGE,
    labels=("nodepool",),
)


class ConditionMetricsOfKind(msgspec.Struct, frozen=True):
    """What is told of the conditions of one kind of object."""

    count: Metric
    transitions: Metric
    transition_seconds: Metric
    termination_seconds: Metric
    current_seconds: Metric
    current_termination_seconds: Metric


def condition_metrics(kind: str, *, by_name: bool) -> ConditionMetricsOfKind:
    """Named as operators in general have them: operator_nodeclaim_status_condition_count. Where
    there are many objects of the kind, conditions are counted, with no object named.
    """
    prefix = f"operator_{kind.lower()}"
    labels = (*(("namespace", "name") if by_name else ()), "type", "status", "reason")
    return ConditionMetricsOfKind(
        count=Metric(
            name=f"{prefix}_status_condition_count",
            help=f"How often the kind {kind} has a condition of this type, status and reason.",
            kind=MetricKind.GAUGE,
            labels=labels,
        ),
        transitions=Metric(
            name=f"{prefix}_status_condition_transitions_total",
            help=f"Changes of the status of conditions of a {kind}.",
            kind=MetricKind.COUNTER,
            labels=("type", "status", "reason"),
        ),
        transition_seconds=Metric(
            name=f"{prefix}_status_condition_transition_seconds",
            help=f"How long a condition of a {kind} had the status before it got this one.",
            kind=MetricKind.HISTOGRAM,
            labels=("type", "status"),
            buckets=TERMINATION_BUCKETS,
        ),
        termination_seconds=Metric(
            name=f"{prefix}_termination_duration_seconds",
            help=f"From the deletion of a {kind} until it was gone.",
            kind=MetricKind.HISTOGRAM,
            labels=(),
            buckets=TERMINATION_BUCKETS,
        ),
        current_seconds=Metric(
            name=f"{prefix}_status_condition_current_status_seconds",
            help=f"For how long a {kind} has had the status of a condition; the longest time.",
            kind=MetricKind.GAUGE,
            labels=labels,
        ),
        current_termination_seconds=Metric(
            name=f"{prefix}_termination_current_time_seconds",
            help=f"Time since the deletion of each {kind} that is not gone yet.",
            kind=MetricKind.GAUGE,
            labels=("namespace", "name"),
        ),
    )


API_REQUESTS: Final = Metric(
    name="client_go_request_total",
    help="Requests to the API server, watches included, by method and HTTP status.",
    kind=MetricKind.COUNTER,
    labels=("method", "code"),
)
UNREADABLE_OBJECTS: Final = Metric(
    name="wainwright_unreadable_objects_total",
    help="Objects in answers of the API server that could not be read, by kind; each in every list "
    "and watch event that has it. What was last known of them counts on.",
    kind=MetricKind.COUNTER,
    labels=("kind",),
)
EVENT_LOOP_LAG: Final = Metric(
    name="wainwright_event_loop_lag_seconds",
    help="How late the event loop was to what was due: leases, watches and probes wait as long.",
    kind=MetricKind.HISTOGRAM,
    buckets=LAG_BUCKETS,
)
SCHEDULER_QUEUE: Final = Metric(
    name="karpenter_scheduler_queue_depth",
    help="Pods that the last plan was made for.",
    kind=MetricKind.GAUGE,
)
SCHEDULER_UNSCHEDULABLE: Final = Metric(
    name="karpenter_scheduler_unschedulable_pods_count",
    help="Pods that were unschedulable in the last plan.",
    kind=MetricKind.GAUGE,
)
SCHEDULING_SECONDS: Final = Metric(
    name="karpenter_scheduler_scheduling_duration_seconds",
    help="How long plans for pending pods took.",
    kind=MetricKind.HISTOGRAM,
    buckets=DURATION_BUCKETS,
)
STATE_NODES: Final = Metric(
    name="karpenter_cluster_state_node_count",
    help="Nodes that decisions are made on, with NodeClaims whose node has not joined.",
    kind=MetricKind.GAUGE,
)
STATE_SYNCED: Final = Metric(
    name="karpenter_cluster_state_synced",
    help="1 where every Node and the instance of every NodeClaim is known, else 0.",
    kind=MetricKind.GAUGE,
)
STATE_UNSYNCED_SECONDS: Final = Metric(
    name="karpenter_cluster_state_unsynced_time_seconds",
    help="For how long the state has not been in sync; 0 where it is.",
    kind=MetricKind.GAUGE,
)
NODECLAIMS_TERMINATION_SECONDS: Final = Metric(
    name="karpenter_nodeclaims_termination_duration_seconds",
    help="From the deletion of a NodeClaim to its end.",
    kind=MetricKind.HISTOGRAM,
    labels=("nodepool",),
    buckets=TERMINATION_BUCKETS,
)
INSTANCE_TERMINATION_SECONDS: Final = Metric(
    name="karpenter_nodeclaims_instance_termination_duration_seconds",
    help="From the first request to terminate an instance to its end.",
    kind=MetricKind.HISTOGRAM,
    labels=("nodepool",),
    buckets=TERMINATION_BUCKETS,
)
NODES_CREATED: Final = Metric(
    name="karpenter_nodes_created_total",
    help="Nodes that have joined and were registered.",
    kind=MetricKind.COUNTER,
    labels=("nodepool",),
)
NODES_TERMINATED: Final = Metric(
    name="karpenter_nodes_terminated_total",
    help="Nodes that were released after their drain.",
    kind=MetricKind.COUNTER,
    labels=("nodepool",),
)
NODES_DRAINED: Final = Metric(
    name="karpenter_nodes_drained_total",
    help="Nodes that no pod has to leave any more, once for each NodeClaim.",
    kind=MetricKind.COUNTER,
    labels=("nodepool",),
)
NODES_TERMINATION_SECONDS: Final = Metric(
    name="karpenter_nodes_termination_duration_seconds",
    help="From the deletion of a node to its end.",
    kind=MetricKind.HISTOGRAM,
    labels=("nodepool",),
    buckets=TERMINATION_BUCKETS,
)
NODES_LIFETIME_SECONDS: Final = Metric(
    name="karpenter_nodes_lifetime_duration_seconds",
    help="From the creation of a node to its end.",
    kind=MetricKind.HISTOGRAM,
    labels=("nodepool",),
    buckets=LIFETIME_BUCKETS,
)
PODS_DRAINED: Final = Metric(
    name="karpenter_pods_drained_total",
    help="Pods that were evicted or deleted by a drain, by what the drain was for.",
    kind=MetricKind.COUNTER,
    labels=("reason",),
)
EVICTION_REQUESTS: Final = Metric(
    name="karpenter_pods_eviction_requests_total",
    help="Evictions that were asked for, by the HTTP status of the answer.",
    kind=MetricKind.COUNTER,
    labels=("code",),
)
PODS_DISRUPTION_INITIATED: Final = Metric(
    name="karpenter_pods_disruption_initiated_total",
    help="Pods that need another node because theirs is disrupted, by why.",
    kind=MetricKind.COUNTER,
    labels=("nodepool", "reason"),
)
POD_STARTUP_SECONDS: Final = Metric(
    name="karpenter_pods_startup_duration_seconds",
    help="From the creation of a pod until it is ready.",
    kind=MetricKind.HISTOGRAM,
    buckets=POD_BUCKETS,
)
POD_BOUND_SECONDS: Final = Metric(
    name="karpenter_pods_bound_duration_seconds",
    help="From the creation of a pod until it is bound to a node.",
    kind=MetricKind.HISTOGRAM,
    buckets=POD_BUCKETS,
)
POD_DECISION_SECONDS: Final = Metric(
    name="karpenter_pods_scheduling_decision_duration_seconds",
    help="From the moment at which a pending pod was seen until the first plan with it.",
    kind=MetricKind.HISTOGRAM,
    buckets=POD_BUCKETS,
)
POD_PROVISIONING_BOUND_SECONDS: Final = Metric(
    name="karpenter_pods_provisioning_bound_duration_seconds",
    help="From the first plan that has a place for a pod until the pod is bound.",
    kind=MetricKind.HISTOGRAM,
    buckets=POD_BUCKETS,
)
POD_PROVISIONING_STARTUP_SECONDS: Final = Metric(
    name="karpenter_pods_provisioning_startup_duration_seconds",
    help="From the first plan that has a place for a pod until the pod is ready.",
    kind=MetricKind.HISTOGRAM,
    buckets=POD_BUCKETS,
)
POD_UNBOUND_TIME: Final = Metric(
    name="karpenter_pods_unbound_time_seconds",
    help="Time since the creation of a pod that is not bound yet.",
    kind=MetricKind.GAUGE,
    labels=("name", "namespace"),
)
POD_UNSTARTED_TIME: Final = Metric(
    name="karpenter_pods_unstarted_time_seconds",
    help="Time since the creation of a pod that has not been ready yet.",
    kind=MetricKind.GAUGE,
    labels=("name", "namespace"),
)
POD_UNDECIDED_TIME: Final = Metric(
    name="karpenter_pods_provisioning_scheduling_undecided_time_seconds",
    help="Time since a pending pod was seen that no plan has been made with yet.",
    kind=MetricKind.GAUGE,
    labels=("name", "namespace"),
)
POD_PROVISIONING_UNBOUND_TIME: Final = Metric(
    name="karpenter_pods_provisioning_unbound_time_seconds",
    help="Time since the first plan that has a place for a pod that is not bound yet.",
    kind=MetricKind.GAUGE,
    labels=("name", "namespace"),
)
POD_PROVISIONING_UNSTARTED_TIME: Final = Metric(
    name="karpenter_pods_provisioning_unstarted_time_seconds",
    help="Time since the first plan that has a place for a pod that has not been ready yet.",
    kind=MetricKind.GAUGE,
    labels=("name", "namespace"),
)
NODE_LABELS: Final = (
    "node_name",
    "nodepool",
    "managed",
    "arch",
    "os",
    "capacity_type",
    "instance_type",
    "instance_category",
    "instance_family",
    "instance_size",
    "region",
    "zone",
)
"""Those of Karpenter that dashboards group by; the rest follow from the instance type."""
NODE_CURRENT_LIFETIME: Final = Metric(
    name="karpenter_nodes_current_lifetime_seconds",
    help="Time since the creation of a node.",
    kind=MetricKind.GAUGE,
    labels=NODE_LABELS,
)
NODE_ALLOCATABLE: Final = Metric(
    name="karpenter_nodes_allocatable",
    help="What pods may request of a node: cores, bytes, or a count.",
    kind=MetricKind.GAUGE,
    labels=(*NODE_LABELS, "resource_type"),
)
NODE_SYSTEM_OVERHEAD: Final = Metric(
    name="karpenter_nodes_system_overhead",
    help="The part of the capacity of a node that pods may not request.",
    kind=MetricKind.GAUGE,
    labels=(*NODE_LABELS, "resource_type"),
)
NODE_POD_REQUESTS: Final = Metric(
    name="karpenter_nodes_total_pod_requests",
    help="What the pods on a node request, those of DaemonSets included.",
    kind=MetricKind.GAUGE,
    labels=(*NODE_LABELS, "resource_type"),
)
NODE_POD_LIMITS: Final = Metric(
    name="karpenter_nodes_total_pod_limits",
    help="What the limits of the pods on a node add up to, those of DaemonSets included.",
    kind=MetricKind.GAUGE,
    labels=(*NODE_LABELS, "resource_type"),
)
NODE_DAEMON_REQUESTS: Final = Metric(
    name="karpenter_nodes_total_daemon_requests",
    help="What the DaemonSet pods on a node request.",
    kind=MetricKind.GAUGE,
    labels=(*NODE_LABELS, "resource_type"),
)
NODE_DAEMON_LIMITS: Final = Metric(
    name="karpenter_nodes_total_daemon_limits",
    help="What the limits of the DaemonSet pods on a node add up to.",
    kind=MetricKind.GAUGE,
    labels=(*NODE_LABELS, "resource_type"),
)
CLUSTER_UTILIZATION: Final = Metric(
    name="karpenter_cluster_utilization_percent",
    help="The share of what pods may request of all nodes that they do request.",
    kind=MetricKind.GAUGE,
    labels=("resource_type",),
)
POD_STATE: Final = Metric(
    name="karpenter_pods_state",
    help="Pods by what they are and by what their nodes are.",
    kind=MetricKind.GAUGE,
    labels=(
        "scheduled",
        "managed",
        "nodepool",
        "zone",
        "arch",
        "capacity_type",
        "instance_type",
        "phase",
        "ready",
    ),
)
BUILD_INFO: Final = Metric(
    name="karpenter_build_info",
    help="1, with the version of this process.",
    kind=MetricKind.GAUGE,
    labels=("version",),
)
LEADER_STATUS: Final = Metric(
    name="leader_election_master_status",
    help="1 where this process holds the lease, 0 where it stands by.",
    kind=MetricKind.GAUGE,
    labels=("name",),
)
PROCESS_GAUGES: Final = (BUILD_INFO, LEADER_STATUS)
"""Also those of a process that stands by."""
CONSOLIDATION_SCORE: Final = Metric(
    name="karpenter_consolidation_score",
    help="The share of its price that a consolidation saves a NodePool with the policy Balanced, "
    "divided by the share of its pods that it disrupts.",
    kind=MetricKind.HISTOGRAM,
    labels=("decision", "nodepool", "policy"),
    buckets=(0.1, 0.25, 0.33, 0.5, 1.0, 2.0, 5.0, 10.0),
)
CONSOLIDATION_MOVES: Final = Metric(
    name="karpenter_consolidation_moves_total",
    help="Consolidations that were scored, by whether the score was high enough.",
    kind=MetricKind.COUNTER,
    labels=("decision", "nodepool", "policy"),
)
NODEPOOL_CONSUMING_BUDGETS: Final = Metric(
    name="karpenter_nodepools_nodes_consuming_budgets",
    help="Nodes of a NodePool that are disrupted or not ready, and count against its budgets.",
    kind=MetricKind.GAUGE,
    labels=("nodepool", "reason"),
)
NODEPOOL_COST_ERRORS: Final = Metric(
    name="karpenter_nodepools_cost_tracker_errors_total",
    help="Nodes whose price was not known when the cost of their NodePool was added up.",
    kind=MetricKind.COUNTER,
    labels=("nodepool",),
)
TYPE_CPU_CORES: Final = Metric(
    name="karpenter_cloudprovider_instance_type_cpu_cores",
    help="Cores of an instance type that some NodePool may launch.",
    kind=MetricKind.GAUGE,
    labels=("instance_type",),
)
TYPE_MEMORY_BYTES: Final = Metric(
    name="karpenter_cloudprovider_instance_type_memory_bytes",
    help="Memory of an instance type that some NodePool may launch.",
    kind=MetricKind.GAUGE,
    labels=("instance_type",),
)
OFFERING_AVAILABLE: Final = Metric(
    name="karpenter_cloudprovider_instance_type_offering_available",
    help="1 where an offering can be launched as far as is known, else 0.",
    kind=MetricKind.GAUGE,
    labels=("instance_type", "capacity_type", "zone"),
)
OFFERING_PRICE: Final = Metric(
    name="karpenter_cloudprovider_instance_type_offering_price_estimate",
    help="What an offering costs in USD per hour, at the prices that decisions are made with.",
    kind=MetricKind.GAUGE,
    labels=("instance_type", "capacity_type", "zone"),
)
SCHEDULER_UNFINISHED_SECONDS: Final = Metric(
    name="karpenter_scheduler_unfinished_work_seconds",
    help="For how long the plan has been computed that is not done yet; 0 where there is none.",
    kind=MetricKind.GAUGE,
)
SCHEDULER_IGNORED: Final = Metric(
    name="karpenter_scheduler_ignored_pods_count",
    help="Pending pods of the last plan that fit no node because of a volume or a feature.",
    kind=MetricKind.GAUGE,
)
PENDING_PODS_BY_ZONE: Final = Metric(
    name="karpenter_scheduler_pending_pods_by_effective_zone_count",
    help="Pending pods of the last plan by the only zone that node affinity and volumes leave; "
    "flexible where they leave several, none where they leave no zone.",
    kind=MetricKind.GAUGE,
    labels=("zone",),
)
QUEUE_ADDS: Final = Metric(
    name="workqueue_adds_total",
    help="Keys that were added to the queue of a controller.",
    kind=MetricKind.COUNTER,
    labels=("controller", "name"),
)
QUEUE_RETRIES: Final = Metric(
    name="workqueue_retries_total",
    help="Keys that were to be added to the queue of a controller some time later.",
    kind=MetricKind.COUNTER,
    labels=("controller", "name"),
)
QUEUE_UNFINISHED_SECONDS: Final = Metric(
    name="workqueue_unfinished_work_seconds",
    help="For how long the keys that are in work have been, added up.",
    kind=MetricKind.GAUGE,
    labels=("controller", "name"),
)
QUEUE_LONGEST_SECONDS: Final = Metric(
    name="workqueue_longest_running_processor_seconds",
    help="For how long the key that has been in work for longest has been.",
    kind=MetricKind.GAUGE,
    labels=("controller", "name"),
)
INSTANCE_TERMINATION_FAILURES: Final = Metric(
    name="karpenter_cloudprovider_instance_termination_failures_total",
    help="Instances that EC2 could not terminate, by what it said.",
    kind=MetricKind.COUNTER,
    labels=("zone", "zone_id", "capacity_type", "reason"),
)
USER_DATA_BYTES: Final = Metric(
    name="karpenter_ec2nodeclasses_userdata_bytes",
    help="The largest user data of the last launch from an EC2NodeClass, before base64.",
    kind=MetricKind.GAUGE,
    labels=("nodeclass",),
)
