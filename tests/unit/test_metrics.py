"""Metrics: what is counted, what is refused, and the text that Prometheus reads."""

import re
from pathlib import Path
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wainwright import metrics
from wainwright.metrics import Metric, MetricKind, MetricsRegistry

CALLS = Metric(
    name="calls_total", help="Calls.", kind=MetricKind.COUNTER, labels=("method", "error")
)
NODES = Metric(name="nodes", help="Nodes\nof a pool.", kind=MetricKind.GAUGE, labels=("pool",))
TIMES = Metric(
    name="seconds",
    help="Seconds.",
    kind=MetricKind.HISTOGRAM,
    labels=("method",),
    buckets=(0.1, 1.0),
)


def test_counters_add_up_by_labels() -> None:
    registry = MetricsRegistry()
    registry.add(CALLS, method="a", error="x")
    registry.add(CALLS, 2, method="a", error="x")
    registry.add(CALLS, method="b", error="x")
    assert registry.value(CALLS, method="a", error="x") == 3
    assert registry.value(CALLS, method="b", error="x") == 1
    assert registry.value(CALLS, method="c", error="x") == 0


def test_a_gauge_keeps_its_value_until_it_is_removed() -> None:
    registry = MetricsRegistry()
    registry.set(NODES, 4, pool="general")
    registry.set(NODES, 2, pool="general")
    assert registry.value(NODES, pool="general") == 2
    registry.remove(NODES, pool="general")
    assert 'pool="general"' not in registry.exposition()


def test_a_counter_cannot_go_down() -> None:
    with pytest.raises(ValueError, match="cannot go down"):
        MetricsRegistry().add(CALLS, -1, method="a", error="x")


@pytest.mark.parametrize("labels", [{}, {"method": "a"}, {"method": "a", "error": "x", "b": "c"}])
def test_labels_must_be_those_of_the_declaration(labels: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="has the labels"):
        MetricsRegistry().add(CALLS, **labels)


def test_a_metric_can_only_be_used_as_its_type() -> None:
    with pytest.raises(ValueError, match="is a gauge, not a counter"):
        MetricsRegistry().add(NODES, pool="a")


@given(st.lists(st.floats(min_value=0, max_value=10)))
def test_a_histogram_counts_every_observation_in_one_bucket(values: list[float]) -> None:
    registry = MetricsRegistry()
    for value in values:
        registry.observe(TIMES, value, method="a")
    seen = registry.distribution(TIMES, method="a")
    assert seen.count == sum(seen.buckets) == len(values)
    assert seen.total == pytest.approx(sum(values))
    if values:
        assert seen.buckets[0] == sum(value <= 0.1 for value in values)
        assert seen.buckets[-1] == sum(value > 1.0 for value in values)


def test_the_exposition_is_prometheus_text_format() -> None:
    registry = MetricsRegistry()
    registry.observe(TIMES, 0.05, method="a")
    registry.observe(TIMES, 0.5, method="a")
    registry.observe(TIMES, 7, method="a")
    registry.set(NODES, 2.5, pool='the "best"\\\n')
    assert registry.exposition() == (
        "# HELP nodes Nodes\\nof a pool.\n"
        "# TYPE nodes gauge\n"
        'nodes{pool="the \\"best\\"\\\\\\n"} 2.5\n'
        "# HELP seconds Seconds.\n"
        "# TYPE seconds histogram\n"
        'seconds_bucket{method="a",le="0.1"} 1\n'
        'seconds_bucket{method="a",le="1"} 2\n'
        'seconds_bucket{method="a",le="+Inf"} 3\n'
        'seconds_sum{method="a"} 7.55\n'
        'seconds_count{method="a"} 3\n'
    )


class CountedLabel(str):
    """A value of a label, which counts how often any of them is compared."""

    __slots__ = ()
    compared = 0

    def __lt__(self, other: str) -> bool:
        CountedLabel.compared += 1
        return str.__lt__(self, other)


def test_series_of_a_large_cluster_are_sorted_a_part_at_a_time() -> None:
    """80,000 at once would hold leases and probes up for a fifth of a second."""
    registry, names = MetricsRegistry(), [f"pool-{number:05}" for number in range(20_000)]
    shuffled = Random(1).sample(names, len(names))
    registry.add_collector(lambda: ((NODES, (CountedLabel(each),), 1.0) for each in shuffled))
    parts, most = [], 0
    for part in registry.exposition_parts():
        most, CountedLabel.compared = max(most, CountedLabel.compared), 0
        parts.append(part)
    assert re.findall(r'pool="(.*)"', "".join(parts)) == names
    assert 5_000 < most < 15_000, "where all at once take 260,000"


def test_the_documentation_lists_every_metric() -> None:
    text = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
    there = text.partition("## Not there")[0]
    declared = {each.name for each in vars(metrics).values() if isinstance(each, Metric)}
    of_conditions = msgspec.structs.astuple(metrics.condition_metrics("KIND", by_name=True))
    declared |= {each.name.replace("_kind_", "_KIND_") for each in of_conditions}
    assert set(re.findall(r"`(\w+)`", there)) == declared
