"""Writes the schemas of what `wain simulate -o json` prints, from the structs of a result.
`--check` says whether docs/ has them.

Every field is always there in what is printed, so all are required.
"""

import json
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from wainwright.model.simulation import SimulationResult
from wainwright.report.simulation_comparison import SimulationComparison
from wainwright.report.simulation_sweep import SimulationSweep

DOCS: Final = Path(__file__).parent.parent / "docs"
SCHEMAS: Final[dict[str, tuple[type[msgspec.Struct], str]]] = {
    "simulation.schema.json": (SimulationResult, "What `wain simulate -o json` prints."),
    "simulation-comparison.schema.json": (
        SimulationComparison,
        "What `wain simulate --compare -o json` prints: both simulations, and the difference.",
    ),
    "simulation-sweep.schema.json": (
        SimulationSweep,
        "What `wain simulate --sweep -o json` prints: the totals of every run.",
    ),
}


def schema_of(struct: type[msgspec.Struct], description: str) -> dict[str, Any]:
    schema = msgspec.json.schema(struct)
    for definition in schema["$defs"].values():
        _require_all(definition)
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": struct.__name__,
        "description": f"{description} docs/simulate.md says what it means.",
    }
    return {**head, **schema}


def _require_all(definition: dict[str, Any]) -> None:
    properties = definition.get("properties", {})
    definition["required"] = list(properties)
    for name, field in properties.items():
        default = field.pop("default", None)
        if name in ("apiVersion", "kind") and default is not None:
            properties[name] = {"const": default}


def main() -> None:
    for name, (struct, description) in SCHEMAS.items():
        text = json.dumps(schema_of(struct, description), indent=2) + "\n"
        if "--check" not in sys.argv:
            (DOCS / name).write_text(text, encoding="utf-8")
        elif text != (DOCS / name).read_text(encoding="utf-8"):
            sys.exit(f"docs/{name} is old: run .venv/bin/python scripts/make_simulation_schema.py")


if __name__ == "__main__":
    main()
