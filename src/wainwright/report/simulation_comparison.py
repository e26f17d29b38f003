"""Two simulations side by side: what both came to, and the difference."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from wainwright.model.simulation import SIMULATION_API_VERSION, SimulationResult
from wainwright.report.simulation_lines import format_dollars

KIND: Final = "SimulationComparison"


class TotalDifference(msgspec.Struct, frozen=True, kw_only=True):
    """One total of both; the difference is the second less the first."""

    total: str
    first: float
    second: float
    difference: float


class SimulationComparison(msgspec.Struct, frozen=True, kw_only=True):
    """What `wain simulate --compare` prints as JSON."""

    apiVersion: str = SIMULATION_API_VERSION
    kind: str = KIND
    first: SimulationResult
    second: SimulationResult
    changes: list[str] = []
    """What `--set` changed in the second; empty where it is another scenario."""
    difference: list[TotalDifference]

    @property
    def is_success(self) -> bool:
        return self.first.is_success and self.second.is_success


def compare_simulations(
    first: SimulationResult, second: SimulationResult, changes: list[str]
) -> SimulationComparison:
    """Every total that either has, in the order of the totals."""
    before, after = _figures(first), _figures(second)
    names = dict.fromkeys([*before, *after])
    return SimulationComparison(
        first=first,
        second=second,
        changes=changes,
        difference=[_difference(name, before, after) for name in names],
    )


def _difference(
    name: str, before: Mapping[str, float], after: Mapping[str, float]
) -> TotalDifference:
    first, second = before.get(name, 0), after.get(name, 0)
    return TotalDifference(total=name, first=first, second=second, difference=second - first)


def _figures(result: SimulationResult) -> dict[str, float]:
    """Totals by their path, and the state at the end."""
    found = _flat(msgspec.to_builtins(result.totals))
    held = [each.held for each in result.expectations]
    return {
        **found,
        "end.nodes": len(result.end.nodes),
        "end.pending": len(result.end.pending),
        "end.pricePerHour": result.series.pricePerHour[-1] if result.series.pricePerHour else 0.0,
        "expectations.failed": held.count(False),
        "laws.broken": sum(not law.held for law in result.laws),
    }


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    found: dict[str, float] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{prefix}{name}.")
        elif isinstance(value, list):
            for each in value:
                rest = {key: amount for key, amount in each.items() if key != "id"}
                found |= _flat(rest, f"{prefix}{name}.{each['id']}.")
        elif value is not None:
            found[f"{prefix}{name}"] = value
    return found


SHOWN_TOTALS: Final = {
    "cost": "cost ($)",
    "fees": "fees ($)",
    "nodeHours": "node hours",
    "launches": "launches",
    "launchFailures": "launch failures",
    "terminations": "terminations",
    "evictions": "evictions",
    "interruptions": "interruptions",
    "pendingSeconds.p50": "pods waited, half (s)",
    "pendingSeconds.p95": "pods waited, 95% (s)",
    "pendingSeconds.max": "pods waited, longest (s)",
    "end.nodes": "nodes at the end",
    "end.pending": "pending at the end",
    "end.pricePerHour": "$/h at the end",
    "expectations.failed": "expectations failed",
    "laws.broken": "laws broken",
}


def comparison_rows(comparison: SimulationComparison) -> list[tuple[str, str, str, str]]:
    """A heading, then each total that matters: both values and the difference."""
    shown = [
        (SHOWN_TOTALS.get(each.total, each.total), each)
        for each in comparison.difference
        if _is_shown(each)
    ]
    return [
        ("", *compared_names(comparison), "difference"),
        *(
            (name, _amount(each.first), _amount(each.second), _signed(each.difference))
            for name, each in shown
        ),
    ]


def compared_names(comparison: SimulationComparison) -> tuple[str, str]:
    """By which both can be told apart: the scenarios, or what was changed."""
    first, second = comparison.first.scenario, comparison.second.scenario
    if comparison.changes:
        return first, ", ".join(map(_short_change, comparison.changes))
    return (first, second) if first != second else (f"first {first}", f"second {second}")


def _short_change(change: str) -> str:
    """minimumSaving=5% of spec.settings.minimumSaving=5%"""
    path, _, value = change.partition("=")
    return f"{path.rpartition('.')[2]}={value}"


def _is_shown(each: TotalDifference) -> bool:
    if each.total in SHOWN_TOTALS:
        return bool(each.first or each.second) or each.total in ("cost", "launches")
    return each.total.startswith(("disruptions.", "reservations.")) and each.difference != 0


def _amount(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3f}"


def _signed(value: float) -> str:
    return "=" if abs(value) < 1e-9 else f"+{_amount(value)}" if value > 0 else _amount(value)


def comparison_answer(comparison: SimulationComparison) -> str:
    """Which is cheaper, and by how much."""
    first, second = comparison.first, comparison.second
    base, other = compared_names(comparison)
    name = ", ".join(comparison.changes) or other
    cost, modelled = first.totals.cost, first.modelledPrices or second.modelledPrices
    saved = cost - second.totals.cost
    if abs(saved) < 0.005:
        return f"{name} costs the same as {base}: {format_dollars(cost, modelled=modelled)}"
    share = f" ({abs(saved) / first.totals.cost:.0%})" if first.totals.cost > 0 else ""
    word = "less" if saved > 0 else "more"
    amount = format_dollars(abs(saved), modelled=modelled)
    return f"{name} costs {amount}{share} {word} than {base}"
