"""Time to load, build and compile the catalog of us-east-1, and its memory.
Catalogs are cached once they are built, so each sample runs in its own Python process.
"""

import gc
import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from random import Random
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
from wainwright.gc_pause import gc_paused
from wainwright.manifests.cluster_manifests import default_node_class
from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import (
    ARCH,
    INSTANCE_CATEGORY,
    INSTANCE_GENERATION,
    INSTANCE_TYPE,
    OS,
    SPOT,
)
from wainwright.model.requirements import Requirements

SAMPLES = 7
REGION = "us-east-1"
TARGETS = {
    "compile": "below 50 ms",
    "load, build and compile": "below 100 ms",
    "compile again: a count": "a fifth of what it takes from nothing",
}
CHANGED = "m5.large"
USUAL_REQUIREMENTS = Requirements.from_entries(
    (key, "Exists", (), None)
    for key in (ARCH, OS, INSTANCE_TYPE, INSTANCE_CATEGORY, INSTANCE_GENERATION)
)
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
    times: dict[str, float] = {}
    _timed(times, "load", _load)
    catalogues, first, second = _catalogues()
    built = _timed(times, "build", lambda: catalogues.build(first))
    _timed(times, "compile", lambda: built.index)
    times["load, build and compile"] = sum(times.values())
    changes = _changes(built.types)
    built.index.compatible_types(USUAL_REQUIREMENTS)
    for what, types in changes.items():
        _timed(times, f"compile again: {what}", partial(_compile, built, types, built.index))
    _timed(times, "compile again: all from nothing", partial(_compile, built, built.types, None))
    _timed(times, "build for another class", lambda: catalogues.build(second))
    _timed(times, "print as a Catalog", lambda: format_catalog(built.region, built.types))
    return {"types": len(built.types), **times}


def _changes(types: Sequence[InstanceType]) -> dict[str, list[InstanceType]]:
    """The types after what changes most often in a live account."""

    def changed(each: InstanceType, change: Callable[[Offering], Offering]) -> InstanceType:
        return msgspec.structs.replace(each, offerings=tuple(map(change, each.offerings)))

    def count(each: Offering) -> Offering:
        return msgspec.structs.replace(each, available=min(each.available, 7))

    def unavailable(each: Offering) -> Offering:
        return msgspec.structs.replace(each, available=0) if each.capacity_type == SPOT else each

    rng = Random(1)

    def price(each: Offering) -> Offering:
        return msgspec.structs.replace(each, price=each.price * rng.uniform(0.9, 1.1))

    return {
        "a count": [changed(each, count) if each.name == CHANGED else each for each in types],
        "spot unavailable": [
            changed(each, unavailable) if each.name == CHANGED else each for each in types
        ],
        "all prices": [changed(each, price) for each in types],
    }


def _compile(
    built: NodeClassCatalog, types: Iterable[InstanceType], previous: InstanceTypeIndex | None
) -> None:
    """Labels are compiled when they are asked for: those of a usual NodePool and its pods."""
    with gc_paused():
        index = InstanceTypeIndex(types, zones=built.zones, previous=previous)
        index.compatible_types(USUAL_REQUIREMENTS)


def _memory() -> dict[str, float]:
    tracemalloc.start()
    weights: dict[str, float] = {}

    def weigh(name: str, make: Callable[[], Any]) -> Any:
        before = tracemalloc.get_traced_memory()[0]
        made = make()
        gc.collect()
        weights[name] = (tracemalloc.get_traced_memory()[0] - before) / 2**20
        return made

    weigh("data", _load)
    catalogues, first, _ = _catalogues()
    built: NodeClassCatalog = weigh("catalogue", lambda: catalogues.build(first))
    weigh("compiled form", lambda: built.index)
    return weights


if __name__ == "__main__":
    print(json.dumps(_memory() if "--memory" in sys.argv else _times()))
