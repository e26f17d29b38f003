"""Alerts and the dashboard: their expressions are PromQL, of metrics that `wain run` exports, with
labels that these have; every alert has a runbook.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.alerts import ALERTS, selectors

from wainwright import metrics
from wainwright.controllers.condition_metrics import METRICS
from wainwright.metrics import LEADER_STATUS, Metric, MetricKind
from wainwright.operator.settings import OperatorSettings

ROOT = Path(__file__).parents[3]
CHART = ROOT / "deploy" / "chart"
RUNBOOKS = ROOT / "docs" / "runbooks"
DASHBOARD = json.loads((CHART / "dashboards" / "wainwright.json").read_text("utf-8"))
ADDED_BY_PROMETHEUS = frozenset({"pod", "instance", "job", "namespace", "endpoint"})


def panels() -> list[dict[str, Any]]:
    return [each for each in DASHBOARD["panels"] if each["type"] != "row"]


def dashboard_expressions() -> list[str]:
    queries = [target["expr"] for panel in panels() for target in panel["targets"]]
    return [each.replace("$__rate_interval", "5m") for each in queries]


EXPRESSIONS = [each["expr"] for each in ALERTS] + dashboard_expressions()


def exported() -> dict[str, tuple[str, ...]]:
    """The series that the process exports, with their labels."""
    declared = [each for each in vars(metrics).values() if isinstance(each, Metric)]
    declared += [
        getattr(kind, field) for kind in METRICS.values() for field in kind.__struct_fields__
    ]
    return {name: labels for each in declared for name, labels in series(each)}


def series(metric: Metric) -> Iterator[tuple[str, tuple[str, ...]]]:
    if metric.kind is not MetricKind.HISTOGRAM:
        yield metric.name, metric.labels
        return
    yield f"{metric.name}_bucket", (*metric.labels, "le")
    yield f"{metric.name}_sum", metric.labels
    yield f"{metric.name}_count", metric.labels


def grouping_labels(expression: str) -> set[str]:
    lists = re.findall(r"\b(?:by|without) \(([a-z_, ]*)\)", expression)
    return {label for each in lists for label in each.replace(" ", "").split(",")}


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_is_about_metrics_that_are_exported(expression: str) -> None:
    known = exported()
    used = selectors(expression)
    assert used
    for each in used:
        assert each.name in known, each.name
        matched = {matcher.name for matcher in each.matchers.matchers}
        assert matched <= {*known[each.name], *ADDED_BY_PROMETHEUS}, each.name
    labels = {label for each in used for label in known[str(each.name)]}
    assert grouping_labels(expression) <= labels | ADDED_BY_PROMETHEUS


def test_what_tells_of_the_leader_is_not_exported_by_karpenter_as_well() -> None:
    """By the name of the lease, in whose place the chart puts the one of its values."""
    lease = OperatorSettings(cluster_name="shop").leader_election_name
    absent = [each["expr"] for each in ALERTS if each["expr"].startswith("absent(")]
    leader = [each for each in EXPRESSIONS if LEADER_STATUS.name in each]
    assert len(leader) == 2
    assert set(absent) < set(leader)
    for each in leader:
        assert f'{LEADER_STATUS.name}{{name="{lease}"}}' in each
    for name in ("prometheusrule.yaml", "dashboard.yaml"):
        assert f'replace "{lease}"' in (CHART / "templates" / name).read_text("utf-8")


def test_every_declared_metric_is_written_somewhere() -> None:
    files = (path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))
    used = Counter(name for text in files for name in set(re.findall(r"\b[A-Z][A-Z_]+\b", text)))
    declared = [name for name, each in vars(metrics).items() if isinstance(each, Metric)]
    assert declared
    assert not [name for name in declared if used[name] < 2]


def test_the_variable_of_the_dashboard_is_a_label_of_its_metric() -> None:
    queries = [each["query"] for each in DASHBOARD["templating"]["list"] if each["type"] == "query"]
    for query in queries:
        name, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", query).groups()  # type: ignore[union-attr]
        assert label in exported()[name]


def test_panels_have_numbers_of_their_own_and_lie_side_by_side() -> None:
    numbers = [each["id"] for each in DASHBOARD["panels"]]
    assert len(set(numbers)) == len(numbers)
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {
            (at["x"] + column, at["y"] + row) for column in range(at["w"]) for row in range(at["h"])
        }
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells


def test_alerts_have_names_of_their_own() -> None:
    names = [each["alert"] for each in ALERTS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_an_alert_can_be_acted_upon(alert: dict[str, str]) -> None:
    assert alert["severity"] in ("critical", "warning", "info")
    assert re.fullmatch(r"\d+[mh]", alert["for"])
    labels = set(re.findall(r"\$labels\.(\w+)", alert["summary"]))
    assert labels <= grouping_labels(alert["expr"]), "a label that the expression keeps"
    page = (RUNBOOKS / f"{alert['alert']}.md").read_text("utf-8")
    assert page.startswith(f"# {alert['alert']}\n")
    assert " ".join(alert["expr"].split()) in " ".join(page.split()), "the page has the expression"
    for heading in ("## What it means", "## What to look at", "## What to do"):
        assert heading in page


def test_every_runbook_is_of_an_alert() -> None:
    pages = {path.stem for path in RUNBOOKS.glob("Wain*.md")}
    assert pages == {each["alert"] for each in ALERTS}


def test_events_that_runbooks_name_are_written_by_the_controllers() -> None:
    sources = " ".join(
        path.read_text("utf-8") for path in (ROOT / "src/wainwright/controllers").rglob("*.py")
    )
    for page in RUNBOOKS.glob("*.md"):
        for reason in re.findall(r"reason=(\w+)", page.read_text("utf-8")):
            assert f'"{reason}"' in sources, (page.name, reason)


def test_links_of_runbooks_lead_somewhere() -> None:
    for page in RUNBOOKS.glob("*.md"):
        for target in re.findall(r"\]\(([^)#]+)(?:#([\w-]+))?\)", page.read_text("utf-8")):
            path, anchor = page.parent / target[0], target[1]
            headings = re.findall(r"^#+ (.*)$", path.read_text("utf-8"), re.MULTILINE)
            anchors = {re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings}
            assert not anchor or anchor in anchors, (page.name, target)
