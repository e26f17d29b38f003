"""The alerts of the chart, and the metrics that a PromQL expression is about."""

from pathlib import Path

import promql_parser
import yaml

ALERTS: list[dict[str, str]] = yaml.safe_load(
    (Path(__file__).parents[2] / "deploy" / "chart" / "alerts.yaml").read_text("utf-8")
)["alerts"]


def selectors(expression: str) -> list[promql_parser.VectorSelector]:
    found: list[promql_parser.VectorSelector] = []

    def visit(node: promql_parser.Expr) -> None:
        if isinstance(node, promql_parser.MatrixSelector):
            found.append(node.vector_selector)
        elif isinstance(node, promql_parser.VectorSelector):
            found.append(node)

    promql_parser.walk(promql_parser.parse(expression), visit, lambda _: None)
    return found
