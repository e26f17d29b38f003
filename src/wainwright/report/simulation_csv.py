"""A simulation as CSV files: one row for each entry, point, node, expectation and total."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from wainwright.model.simulation import (
    EndClaim,
    EndNode,
    ExpectationResult,
    LawResult,
    PendingPod,
    ReservationTotals,
    Series,
    SimulationResult,
)

TIMELINE_COLUMNS: Final = ("at", "what", "object", "message")


def simulation_tables(result: SimulationResult) -> dict[str, str]:
    """The text of each file by its name, the same bytes for the same result."""
    document = msgspec.to_builtins(result)
    return {
        "timeline.csv": _timeline(document["timeline"]),
        "series.csv": _series(result.series),
        "totals.csv": _write(("total", "value"), _flat(document["totals"])),
        "reservations.csv": _table(ReservationTotals, document["totals"]["reservations"]),
        "nodes.csv": _table(EndNode, document["end"]["nodes"]),
        "claims.csv": _table(EndClaim, document["end"]["claims"]),
        "pending.csv": _table(PendingPod, document["end"]["pending"]),
        "expectations.csv": _table(ExpectationResult, document["expectations"]),
        "laws.csv": _table(LawResult, document["laws"]),
    }


def _write(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_cell(each) for each in row] for row in rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    """Lists of pods are separated by spaces; what is deeper is JSON."""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return " ".join(value)
    if isinstance(value, dict | list):
        return msgspec.json.encode(value).decode()
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else value


def _table(struct: type[msgspec.Struct], rows: Sequence[Mapping[str, Any]]) -> str:
    header = [field.encode_name for field in msgspec.structs.fields(struct)]
    return _write(header, ([row[name] for name in header] for row in rows))


def _timeline(entries: Sequence[Mapping[str, Any]]) -> str:
    """The fields of every kind of entry side by side; those that an entry lacks are empty."""
    names = dict.fromkeys([*TIMELINE_COLUMNS, *(name for entry in entries for name in entry)])
    return _write(list(names), ([entry.get(name) for name in names] for entry in entries))


def _series(series: Series) -> str:
    columns: dict[str, Sequence[float]] = {
        "at": series.at,
        "nodes": series.nodes,
        "pods.running": series.pods.running,
        "pods.pending": series.pods.pending,
        "pricePerHour": series.pricePerHour,
    }
    for identity, counts in series.reservations.items():
        columns[f"reservations.{identity}.used"] = counts.used
        columns[f"reservations.{identity}.total"] = counts.total
    return _write(list(columns), zip(*columns.values(), strict=True))


def _flat(totals: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """pendingSeconds.p95 and its value; reservations have a file of their own."""
    rows: list[tuple[str, Any]] = []
    for name, value in totals.items():
        if isinstance(value, Mapping):
            rows += _flat(value, f"{prefix}{name}.")
        elif not isinstance(value, list):
            rows.append((f"{prefix}{name}", value))
    return rows
