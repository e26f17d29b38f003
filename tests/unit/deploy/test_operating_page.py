"""docs/operating.md names every event, condition and value that there is."""

import ast
from collections.abc import Iterator
from pathlib import Path

from wainwright.controllers import conditions
from wainwright.controllers.cloud.interruption import EVENT_REASONS, TERMINATING_EVENT
from wainwright.operator.settings import WITHOUT_EFFECT, OperatorSettings

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "operating.md").read_text("utf-8")
RECORDING = frozenset(
    {"warn", "inform", "warn_many", "inform_each", "_about_pool", "_inform", "_warn"}
)


def recorded_reasons() -> Iterator[str]:
    for path in (ROOT / "src" / "wainwright" / "controllers").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and _is_recording(node.func):
                yield from (
                    each.value
                    for each in node.args[1:2]
                    if isinstance(each, ast.Constant) and isinstance(each.value, str)
                )


def _is_recording(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and function.attr in RECORDING


def test_every_event_is_explained() -> None:
    reasons = {*recorded_reasons(), *EVENT_REASONS.values(), TERMINATING_EVENT}
    assert len(reasons) > 15
    rows = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| ")]
    named = {word for row in rows for word in row.replace(",", " ").split()}
    assert reasons <= named, reasons - named


def test_every_condition_is_named() -> None:
    ours = {
        value
        for name, value in vars(conditions).items()
        if name.isupper() and isinstance(value, str) and name not in ("TRUE", "FALSE", "UNKNOWN")
    } - {conditions.REBOOTING}
    missing = {each for each in ours if each not in PAGE}
    assert not missing


def test_settings_without_effect_are_listed_with_one_reason_each() -> None:
    table = PAGE.partition("have no effect, which is said once:\n")[2].partition("\nMetrics and")[0]
    rows = [line.split("|")[1:3] for line in table.splitlines() if line.startswith("| `")]
    assert [name.strip(" `") for name, _ in rows] == list(WITHOUT_EFFECT)
    assert all(len(reason.split()) > 4 for _, reason in rows)


def test_every_setting_is_in_the_table_of_flags() -> None:
    settings = PAGE.partition("\n## Settings\n")[2].partition("\n## ")[0]
    flags = {f"--{field.replace('_', '-')}" for field in OperatorSettings.__struct_fields__}
    missing = {each for each in flags if f"`{each}`" not in settings}
    assert not missing
