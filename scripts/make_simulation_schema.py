"""Writes docs/simulation.schema.json from the structs of a result; `--check` says whether it is so.

Every field is always there in what `wain simulate -o json` prints, so all are required.
"""

import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from wainwright.model.simulation import SimulationResult

FILE = Path(__file__).parent.parent / "docs" / "simulation.schema.json"


def result_schema() -> dict[str, Any]:
    schema = msgspec.json.schema(SimulationResult)
    for definition in schema["$defs"].values():
        definition["required"] = list(definition.get("properties", {}))
        for name, field in definition.get("properties", {}).items():
            if name in ("apiVersion", "kind") and "default" in field:
                definition["properties"][name] = {"const": field["default"]}
            field.pop("default", None)
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Simulation",
        "description": "What `wain simulate -o json` prints; docs/simulate.md says what it means.",
    }
    return {**head, **schema}


def main() -> None:
    text = json.dumps(result_schema(), indent=2) + "\n"
    if "--check" not in sys.argv:
        FILE.write_text(text, encoding="utf-8")
    elif text != FILE.read_text(encoding="utf-8"):
        sys.exit("docs/simulation.schema.json is old: run scripts/make_simulation_schema.py")


if __name__ == "__main__":
    main()
