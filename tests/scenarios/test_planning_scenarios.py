"""Scenarios of planning, one file each, named after the item of the specification."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result

from wainwright.cli.main import wain
from wainwright.manifests.problems import InvalidInput

STORIES = sorted((Path(__file__).parent / "planning").glob("*.yaml"))
NOW = "2026-01-31T12:00:00Z"
ITEMS = {
    "1.1": [1, 2, 3, 5, 6, 7, 8, 11, 12, 25, 26, 27, 28, 30, 31, 32, 35, 36, 37, 38, 39, 44],
    "1.2": [1, 7, 8],
    "1.3": [20, 21, 22, 27, 34, 35],
    "1.4": [2, 3, 4, 5, 6, 7],
    "1.5": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12],
}
"""The items on planning that need a story each."""


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Of a story; a key that nobody reads would be an expectation that nobody checks."""


class Nodes(Part, frozen=True, kw_only=True):
    """Claims that are alike; what is not said is not looked at."""

    count: int = 1
    pool: str | None = None
    type: str | None = None
    zone: str | None = None
    capacity_type: str | None = None
    reservation: str | None = None
    price: float | None = None
    price_below: float | None = None
    fees: float | None = None
    workloads: dict[str, int] | None = None
    """How many pods of which workload each of them takes, and no others."""
    types: list[str] | None = None
    """All instance types left to each."""
    types_at_least: int | None = None
    capacity_types: list[str] | None = None
    zones: list[str] | None = None
    reservations: list[str] | None = None
    """All reservations that each of them names."""
    relaxed: list[str] | None = None


class Pool(Part, frozen=True, kw_only=True):
    """What one pool says to pods without a place."""

    reason: str = ""
    """Part of it."""
    funnel: list[int] | None = None
    """types, requirements, resources, offerings, minValues, limits"""
    nearest_miss: dict[str, str | None] = {}


class Unplaced(Part, frozen=True, kw_only=True):
    pods: int
    workload: str
    reason: str = ""
    suggestion: str = ""
    pools: dict[str, Pool] = {}


class ExpectedConstraint(Part, frozen=True, kw_only=True):
    """Pods that a pool did not bring into a reservation."""

    node_pool: str
    pods: int
    place: str
    reason: str
    """Part of it."""


class ExpectedReservation(Part, frozen=True, kw_only=True):
    """What `wain reservations` says of one reservation."""

    idle: int
    promised: int = 0
    not_used_by: list[ExpectedConstraint] | None = None


class Expect(Part, frozen=True, kw_only=True):
    nodes: list[Nodes] = []
    """All claims there are."""
    existing: dict[str, dict[str, int]] = {}
    """All nodes of the input that receive pods, with how many of which workload."""
    unplaced: list[Unplaced] = []
    """All pods without a place."""
    reservations: dict[str, str] = {}
    """All that are listed, as `used/available/total`."""
    unusable: dict[str, str] = {}
    """Those among them that nobody can use, and why."""
    usage: dict[str, ExpectedReservation] | None = None
    """All that `wain reservations` lists."""
    region: dict[str, str] | None = None
    """Its name, and the reason."""
    warnings: list[str] = []
    refused: list[str] = []
    """Parts of what is said; nothing else may be expected then."""


class Story(Part, frozen=True, kw_only=True):
    why: str
    given: list[dict[str, Any]]
    flags: list[str] = []
    scheduler_config: dict[str, Any] | None = None
    """What --scheduler-config is to name."""
    expect: Expect


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_story(path: Path, tmp_path: Path) -> None:
    story = msgspec.convert(yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader), Story)
    file = tmp_path / "given.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": story.given}))
    arguments = ["plan", str(file), "-o", "json", "--now", NOW, *story.flags]
    if story.scheduler_config is not None:
        config = tmp_path / "scheduler.json"
        config.write_text(json.dumps(story.scheduler_config))
        arguments += ["--scheduler-config", str(config)]
    result = CliRunner().invoke(wain, arguments, standalone_mode=False)
    if story.expect.refused:
        check_refused(result, story.expect.refused)
        return
    if result.exception is not None:
        raise result.exception
    plan = json.loads(result.stdout)
    check_nodes(plan["nodeClaims"], story.expect.nodes)
    check_unplaced(plan["unschedulable"], story.expect.unplaced)
    check_rest(plan, story.expect)
    assert result.return_value == (1 if story.expect.unplaced else 0)
    if story.expect.usage is not None:
        arguments[0] = "reservations"
        summaries = json.loads(CliRunner().invoke(wain, arguments, standalone_mode=False).stdout)
        check_reservations({one["id"]: one for one in summaries["items"]}, story.expect.usage)


@pytest.mark.parametrize("chapter", ITEMS)
def test_every_item_on_planning_has_a_story(chapter: str) -> None:
    summaries = {path.stem[:6] for path in STORIES}
    assert [item for item in ITEMS[chapter] if f"{chapter}-{item:02}" not in summaries] == []


def check_refused(result: Result, parts: list[str]) -> None:
    assert isinstance(result.exception, InvalidInput), result.output
    said = [f"{each.path}: {each.message}" for each in result.exception.report.errors]
    for part in parts:
        assert any(part in each for each in said), said


def check_nodes(claims: list[dict[str, Any]], wanted: list[Nodes]) -> None:
    """Each claim is what exactly one of the expectations says, and none is missing."""
    summaries = [claim_summary(claim) for claim in claims]
    found = [
        [number for number, one in enumerate(wanted) if is_like(claim, one)] for claim in summaries
    ]
    lost = [claim for claim, like in zip(summaries, found, strict=True) if len(like) != 1]
    assert lost == [], "claims that were not expected, or by more than one expectation"
    counts = Counter(like[0] for like in found)
    assert [counts[number] for number in range(len(wanted))] == [one.count for one in wanted], (
        summaries
    )


def claim_summary(claim: dict[str, Any]) -> dict[str, Any]:
    options = claim["options"]
    return {
        "pool": claim["nodePool"],
        "type": claim["instanceType"],
        "zone": claim["zone"],
        "capacity_type": claim["capacityType"],
        "reservation": claim["reservationID"],
        "price": claim["pricePerHour"],
        "fees": claim["feesPerHour"],
        "workloads": workloads(claim["pods"]),
        "types": options["instanceTypes"],
        "capacity_types": options["capacityTypes"],
        "zones": options["zones"],
        "reservations": options["reservationIDs"],
        "relaxed": claim["relaxed"],
    }


def workloads(pods: list[str]) -> dict[str, int]:
    """How many pods of which workload: `default/web-3` is one of web."""
    return dict(Counter(pod.partition("/")[2].rpartition("-")[0] for pod in pods))


def is_like(claim: dict[str, Any], wanted: Nodes) -> bool:
    said = msgspec.structs.asdict(wanted)
    exact = all(said[key] is None or said[key] == claim[key] for key in claim)
    below = wanted.price_below is None or 0 < claim["price"] < wanted.price_below
    return exact and below and len(claim["types"]) >= (wanted.types_at_least or 0)


def check_unplaced(found: list[dict[str, Any]], wanted: list[Unplaced]) -> None:
    counts = Counter(workloads([row["pod"] for row in found]))
    assert counts == {one.workload: one.pods for one in wanted}, found
    for one in wanted:
        for row in found:
            if row["pod"].partition("/")[2].rpartition("-")[0] == one.workload:
                check_reasons(row, one)


def check_reasons(row: dict[str, Any], wanted: Unplaced) -> None:
    assert wanted.reason in row["reason"]
    assert wanted.suggestion in (row["suggestion"] or "")
    pools = {pool["nodePool"]: pool for pool in row["pools"]}
    for name, pool in wanted.pools.items():
        said = pools[name]
        assert pool.reason in said["reason"]
        if pool.funnel is not None:
            assert list(said["funnel"].values()) == pool.funnel, said
        miss = said["nearestMiss"] or {}
        assert {key: miss.get(key) for key in pool.nearest_miss} == pool.nearest_miss


def check_rest(plan: dict[str, Any], expect: Expect) -> None:
    received = {node["name"]: workloads(node["pods"]) for node in plan["existingNodes"]}
    assert received == expect.existing
    uses = {
        use["id"]: f"{use['used']}/{use['available']}/{use['total']}"
        for use in plan["summary"]["reservations"]
    }
    assert uses == expect.reservations
    reasons = {use["id"]: use["unusable"] for use in plan["summary"]["reservations"]}
    assert {name: why for name, why in reasons.items() if why} == expect.unusable
    if expect.region is not None:
        assert plan["region"] == expect.region
    for part in expect.warnings:
        assert any(part in warning for warning in plan["warnings"]), plan["warnings"]


def check_reservations(
    found: dict[str, dict[str, Any]], wanted: dict[str, ExpectedReservation]
) -> None:
    counts = {name: (one["idle"], one["promised"]) for name, one in found.items()}
    assert counts == {name: (one.idle, one.promised) for name, one in wanted.items()}
    for name, one in wanted.items():
        kept = found[name]["notUsedBy"]
        for each, said in zip(one.not_used_by or (), kept, strict=one.not_used_by is not None):
            counted = (said["nodePool"], said["place"], len(said["pods"]))
            assert counted == (each.node_pool, each.place, each.pods)
            assert each.reason in said["reason"]
