"""Time to load, build and compile the catalog of us-east-1, and its memory.
Catalogs are cached once they are built, so each sample runs in its own Python process.
"""

import gc
import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime
from time import perf_counter
from typing import Any, TypeVar

import msgspec

from benchmarks.measure import print_row
from wainwright.catalogue import regions
from wainwright.catalogue.catalog_document import format_catalog
from wainwright.catalogue.class_catalog import CatalogBuilder, NodeClassCatalog
from wainwright.catalogue.instancetypes import instance_type_info
from wainwright.catalogue.offerings import built_in_offerings
from wainwright.catalogue.region_catalog import CatalogScope, offline_inputs
from wainwright.manifests.cluster_manifests import default_node_class

SAMPLES = 7
REGION = "us-east-1"
TARGETS = {"compile": "below 50 ms", "load, build and compile": "below 100 ms"}
Made = TypeVar("Made")


def run() -> None:
    """Print the best of a few cold runs, and the memory of another."""
    samples = [_sample() for _ in range(SAMPLES)]
    best = {name: min(sample[name] for sample in samples) for name in samples[0]}
    weight = _sample("--memory")
    print(f"catalogue of {REGION}, {best.pop('types'):,.0f} types, best of {SAMPLES} cold runs")
    for name, milliseconds in best.items():
        print_row(name, f"{milliseconds:.1f} ms", TARGETS.get(name, ""))
    for name, mebibytes in weight.items():
        print_row(f"memory of the {name}", f"{mebibytes:.1f} MiB")


def _sample(*flags: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.catalogue", *flags]
    answer = subprocess.run(command, capture_output=True, check=True, text=True)
    found: dict[str, float] = json.loads(answer.stdout)
    return found


def _timed(times: dict[str, float], name: str, make: Callable[[], Made]) -> Made:
    begin = perf_counter()
    made = make()
    times[name] = (perf_counter() - begin) * 1000
    return made


def _load() -> None:
    instance_type_info.built_in_instance_types()
    regions.load_region(REGION)
    built_in_offerings.load_price_table()


def _catalogues() -> tuple[CatalogBuilder, CatalogScope, CatalogScope]:
    first = CatalogScope(node_class=default_node_class())
    second = CatalogScope(node_class=default_node_class("other"), pool="other")
    now = datetime(2026, 1, 1, tzinfo=UTC)
    inputs = msgspec.structs.replace(offline_inputs(now=now), scopes=(first, second))
    return CatalogBuilder(inputs), first, second


def _times() -> dict[str, float]:
    catalogues, first, second = _catalogues()
    times: dict[str, float] = {}
    _timed(times, "load", _load)
    built = _timed(times, "build", lambda: catalogues.build(first))
    _timed(times, "compile", lambda: built.index)
    times["load, build and compile"] = sum(times.values())
    _timed(times, "build for another class", lambda: catalogues.build(second))
    _timed(times, "print as a Catalog", lambda: format_catalog(built.region, built.types))
    return {"types": len(built.types), **times}


def _memory() -> dict[str, float]:
    catalogues, first, _ = _catalogues()
    tracemalloc.start()
    weights: dict[str, float] = {}

    def weigh(name: str, make: Callable[[], Any]) -> Any:
        before = tracemalloc.get_traced_memory()[0]
        made = make()
        gc.collect()
        weights[name] = (tracemalloc.get_traced_memory()[0] - before) / 2**20
        return made

    weigh("data", _load)
    built: NodeClassCatalog = weigh("catalogue", lambda: catalogues.build(first))
    weigh("compiled form", lambda: built.index)
    return weights


if __name__ == "__main__":
    print(json.dumps(_memory() if "--memory" in sys.argv else _times()))
