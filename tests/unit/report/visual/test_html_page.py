"""A report inside its page: the data is all there, and none of it is anything but data."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from tests.support.large_report import large_report
from tests.support.manifest_tables import TESTS

from wainwright.cli.main import wain
from wainwright.errors import UsageError
from wainwright.model.cluster_history import ClusterHistory, PodRecord
from wainwright.report.visual.html_page import embed, render_page
from wainwright.report.visual.story import MomentUnit, Report, Story, StoryKind

EXAMPLES = TESTS.parent / "examples"
SCENARIO = str(TESTS / "scenarios" / "simulation" / "spot-is-interrupted.yaml")
DATA = re.compile(r'<script type="application/json" id="report">(.*?)</script>', re.DOTALL)


def report_named(name: str) -> Report:
    history = ClusterHistory(pods=[PodRecord(name=name)])
    story = Story(
        kind=StoryKind.PLAN, name=name, answer=name, unit=MomentUnit.STEPS, end=0.0, history=history
    )
    return Report(stories=[story])


def data_of(page: str) -> dict[str, Any]:
    (found,) = DATA.findall(page)
    document: dict[str, Any] = json.loads(found)
    return document


def simulate(*arguments: str) -> str:
    result = CliRunner().invoke(wain, ["simulate", *arguments], standalone_mode=False)
    assert result.exception is None
    return result.stdout


@given(st.text())
def test_any_text_comes_back_as_it_was_and_stays_inside_its_element(name: str) -> None:
    report = report_named(name)
    embedded = embed(report)
    assert json.loads(embedded) == msgspec.to_builtins(report)
    assert embedded.isascii()
    assert not set("<>&") & set(embedded)


def test_a_report_can_be_read_again() -> None:
    report = large_report(3, 2)
    assert msgspec.json.decode(embed(report), type=Report) == report


def test_the_page_refers_to_nothing_else() -> None:
    page = render_page(large_report(1, 1))
    assert "{{report}}" not in page
    assert re.findall(r"""(?:src|href)\s*=\s*["'](?!#)""", page) == []
    assert "default-src 'none'" in page


def test_the_same_scenario_and_seed_give_the_same_bytes(tmp_path: Path) -> None:
    files = [tmp_path / "first.html", tmp_path / "second.html"]
    for file in files:
        simulate(SCENARIO, "--report", str(file))
    first, second = (file.read_bytes() for file in files)
    assert first == second


def test_a_report_is_written_beside_the_usual_output(tmp_path: Path) -> None:
    file = tmp_path / "new" / "report.html"
    printed = simulate(SCENARIO, "--report", str(file), "-o", "json")
    (story,) = data_of(file.read_text(encoding="utf-8"))["stories"]
    result = json.loads(printed)
    assert story["series"] == result["series"]
    assert story["figures"] == result["totals"]


def test_a_comparison_has_both_stories_on_one_page() -> None:
    page = simulate(SCENARIO, "--compare", "spec.settings.minimumSaving=90%", "-o", "html")
    data = data_of(page)
    names = [story["name"] for story in data["stories"]]
    assert names == ["spot-is-interrupted", "minimumSaving=90%"]
    assert data["comparison"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            ("simulate", SCENARIO, "--sweep", "spec.seed=1,2", "--report", "x.html"),
            "--sweep cannot be shown as a page",
        ),
        (
            ("plan", "--diff", str(EXAMPLES / "weights-joined-node"), ".", "-o", "html"),
            "a difference cannot be printed as html",
        ),
    ],
)
def test_what_is_no_story_is_refused(arguments: tuple[str, ...], problem: str) -> None:
    refused = CliRunner().invoke(wain, list(arguments), standalone_mode=False).exception
    assert isinstance(refused, UsageError)
    assert str(refused).startswith(problem)


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    folder = str(tmp_path)
    arguments = ["simulate", SCENARIO, "--report", folder]
    refused = CliRunner().invoke(wain, arguments, standalone_mode=False).exception
    assert isinstance(refused, UsageError)
    assert folder in str(refused)
