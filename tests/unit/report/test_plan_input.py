"""Inputs of plans and consolidations, saved and read again."""

from pathlib import Path

import pytest
from tests.support.model_builders import instance_type, offering

from wainwright.core.disruption.disruption_input import DisruptionOptions, Method
from wainwright.model.disruption import MinimumSaving
from wainwright.model.input_remarks import RegionChoice, RegionSource
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.plan import DEFAULT_PLAN_OPTIONS
from wainwright.model.snapshot import Pool, Snapshot
from wainwright.report.plan_input import (
    ClassFacts,
    ConsolidationSettings,
    PlanInput,
    load_plan_input,
    save_plan_input,
)


def saved_and_read(given: PlanInput, folder: Path) -> PlanInput:
    file = str(folder / "input.json")
    save_plan_input(given, file, version="1")
    return load_plan_input(file)


def plan_input(**more: object) -> PlanInput:
    index = InstanceTypeIndex([instance_type(offerings=(offering(zone=None),))], zones=("zone-x",))
    known = {
        "now": "2026-01-31T12:00:00+00:00",
        "options": DEFAULT_PLAN_OPTIONS,
        "snapshot": Snapshot(),
        "indexes": {"a": index, "b": index},
        "file_notes": (),
        "input_notes": (),
        "warnings": (),
        "node_pools": {},
        "region": RegionChoice(region="us-west-2", source=RegionSource.OPTION),
    }
    return PlanInput(**known | more)  # type: ignore[arg-type]


def test_zones_are_kept_that_no_offering_names(tmp_path: Path) -> None:
    indexes = saved_and_read(plan_input(), tmp_path).indexes
    assert indexes["a"].zones == ("zone-x",)
    assert indexes["a"] is indexes["b"]


def test_settings_of_a_consolidation_are_kept(tmp_path: Path) -> None:
    settings = ConsolidationSettings(
        options=DisruptionOptions(
            methods=(Method.DRIFT,), minimum_saving=MinimumSaving(fraction=0.05)
        ),
        steps=3,
        shows_time=False,
    )
    classes = {"a": ClassFacts(hash="x", deselected=("cr-1",))}
    given = saved_and_read(plan_input(consolidation=settings, classes=classes), tmp_path)
    assert (given.consolidation, given.classes) == (settings, classes)


def test_types_without_nodes_exist_as_they_are_in_the_catalogue() -> None:
    offered = plan_input().disruption.offered
    assert set(offered["a"]) == {"m5.large"}


@pytest.mark.parametrize(
    ("stated", "is_paused"),
    [
        ("disruption", True),
        ("all", True),
        ("provisioning", False),
        ("Disruption ", True),
        ("please", True),
        ("false", False),
    ],
)
def test_nodepools_are_paused_by_their_annotation(stated: str, is_paused: bool) -> None:
    pool = Pool(name="a", annotations={"wainwright.dev/pause": stated})
    given = plan_input(snapshot=Snapshot(pools=(pool, Pool(name="b"))))
    assert given.disruption.paused == ({"a"} if is_paused else set())
