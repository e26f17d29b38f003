"""Pages of rows, each with its tests: every row is there once, and what it names exists."""

import ast
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
import pytest
from tests.oracle.known_differences import BY_INSPECTION, BY_RERUNNING

from wainwright.sim.scenario_format.expectation_format import EVENT_REASONS

ROOT = Path(__file__).parents[2]
STORIES = ROOT / "tests" / "scenarios"
DOCS = sorted((ROOT / "docs").glob("**/*.md"))


class Page(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    rows: Mapping[str, int]
    """Beginnings of rows with how many there are of each, in order: TNT- has TNT-1 to TNT-6."""
    reasons: tuple[str, ...]
    """What a row without a test begins with."""


PAGES = (
    Page(
        name="rows.md",
        rows={
            "TNT-": 6,
            "SCH-": 29,
            "VOL-": 8,
            "TOP-": 19,
            "SEL-": 10,
            "RSV-": 9,
            "DMN-": 5,
            "CON-": 24,
            "BUD-": 6,
            "DRF-": 8,
            "EXP-": 1,
            "REP-": 2,
            "BUF-": 3,
            "NPL-": 4,
            "OVL-": 4,
            "STC-": 3,
            "STA-": 4,
        },
        reasons=("not supported",),
    ),
    Page(
        name="requirements.md",
        rows={"000-": 10, "001-": 64, "002-": 35, "003-": 16, "004-": 16},
        reasons=("not done: ", "nothing to build: "),
    ),
    Page(
        name="lifecycle-rows.md",
        rows={
            "L": 29,
            "T": 13,
            "E": 2,
            "G": 3,
            "C": 3,
            "S": 7,
            "N": 4,
            "LIF-": 8,
            "TRM-": 10,
        },
        reasons=(),
    ),
    Page(
        name="disruption-rows.md",
        rows={"Q": 6, "H": 12, "P": 3},
        reasons=("not supported",),
    ),
)
LINE = re.compile(r"^\| ([A-Z0-9]{3}-\d+|[A-Z]\d+) \| (.+?) \| (.+) \|$")


def table(page: Page) -> list[tuple[str, str]]:
    """The rows of a page: id, and its tests or the reason why there is none."""
    lines = (ROOT / "docs" / "internals" / page.name).read_text(encoding="utf-8").splitlines()
    return [(found[1], found[3]) for line in lines if (found := LINE.match(line))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_row_is_there_in_order(page: Page) -> None:
    wanted = [f"{name}{n}" for name, most in page.rows.items() for n in range(1, most + 1)]
    assert [row for row, _ in table(page)] == wanted


@pytest.mark.parametrize(
    ("page", "proof"),
    [pytest.param(page, proof, id=row) for page in PAGES for row, proof in table(page)],
)
def test_a_row_has_tests_that_exist_or_a_reason(page: Page, proof: str) -> None:
    named = [name for name in re.findall(r"`([^`]+)`", proof) if "/" in name]
    assert named or proof.startswith(page.reasons)
    assert [name for name in named if not exists(name)] == []


LOOP: Final = ("LIF-", "TRM-", "NPL-", "STA-", "REP-", "STC-", "EXP-", "BUF-", "OVL-")
"""Rows of the control loop, beside those of lifecycle-rows.md that are a letter and a number."""


@pytest.mark.parametrize(
    ("row", "proof"),
    [
        pytest.param(row, proof, id=row)
        for page in PAGES
        if page.name in ("rows.md", "lifecycle-rows.md")
        for row, proof in table(page)
        if "-" not in row or row.startswith(LOOP)
    ],
)
def test_a_row_of_the_control_loop_has_a_test_named_after_it(row: str, proof: str) -> None:
    name = row.lower().replace("-", "_")
    assert re.search(rf"::test_(?:\w+_)?{name}_", proof)


NAMED_REQUIREMENTS: Final = (13, 41, 42, 43, 44, 45, 46, 47, 48, 49, 56, 57)
"""Of the first design document: launches, their failures, expiry and relabelling."""


@pytest.mark.parametrize("number", NAMED_REQUIREMENTS)
def test_a_requirement_of_reservations_has_a_test_or_scenario_named_after_it(number: int) -> None:
    page = next(each for each in PAGES if each.name == "requirements.md")
    proof = dict(table(page))[f"001-{number}"]
    assert re.search(rf"_m{number}_|test_001_{number}_|/1\.1-{number}-", proof)


EVENT_LINE: Final = re.compile(r"^\| (\w+) \| (.*?) ?\| (.+?) \| (.*?) ?\|$", re.MULTILINE)
WRITERS: Final = frozenset(
    {"warn", "inform", "warn_many", "inform_each", "_about_pool", "_about_candidates"}
)


def events_on_page() -> dict[str, tuple[str, str]]:
    """By event when it is written, or why it is not, and its tests."""
    text = (ROOT / "docs" / "internals" / "events.md").read_text(encoding="utf-8")
    rows = EVENT_LINE.findall(text)
    return {event: (when, proof) for event, _, when, proof in rows if event != "event"}


def literals(path: Path, *, of_events: bool) -> set[str]:
    """Texts of one word in a module: all, or what is passed to those who write events."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    within = [
        each
        for each in ast.walk(tree)
        if isinstance(each, ast.Call)
        and isinstance(each.func, ast.Attribute)
        and each.func.attr in WRITERS
    ]
    nodes = [arg for call in within for arg in call.args] if of_events else [*ast.walk(tree)]
    texts = {node.value for node in nodes if isinstance(node, ast.Constant)}
    return {each for each in texts if isinstance(each, str) and re.fullmatch(r"[A-Z]\w+", each)}


def test_every_event_is_written_and_on_the_page() -> None:
    modules = [*(ROOT / "src" / "wainwright" / "controllers").glob("**/*.py")]
    page = events_on_page()
    written = {name for path in modules for name in literals(path, of_events=True)}
    assert written - page.keys() == set()
    known = {name for path in modules for name in literals(path, of_events=False)}
    missing = {name for name, (when, _) in page.items() if name not in known}
    assert missing == {name for name, (when, _) in page.items() if when.startswith("not written: ")}


def test_scenarios_can_expect_every_event_that_is_written() -> None:
    page = events_on_page()
    written = {name for name, (when, _) in page.items() if not when.startswith("not written: ")}
    assert set(EVENT_REASONS) == written


@pytest.mark.parametrize("event", events_on_page())
def test_an_event_that_is_written_has_a_test(event: str) -> None:
    when, proof = events_on_page()[event]
    assert "::" in proof or when.startswith("not written: ")


def test_every_scenario_of_a_design_document_is_on_the_page() -> None:
    (page,) = (page for page in PAGES if page.name == "requirements.md")
    proofs = " ".join(proof for _, proof in table(page))
    named = {path for name in scenarios(proofs) for path in STORIES.glob(f"{name}.yaml")}
    written = {path for path in STORIES.glob("*/*.yaml") if re.match(r"1\.\d-|block-", path.name)}
    assert written - named == set()


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.stem)
def test_what_a_page_names_exists(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    named = [*scenarios(text), *re.findall(r"`(tests/[^`\s]+::\w+)`", text)]
    assert [name for name in named if not exists(name)] == []


def test_every_difference_that_accounts_for_a_missing_pod_is_a_function() -> None:
    page = (ROOT / "docs" / "internals" / "differences.md").read_text(encoding="utf-8")
    ours_places_fewer = page.split("\n## ")[1]
    rows = [int(row) for row in re.findall(r"^\| (\d+) \|", ours_places_fewer, re.MULTILINE)]
    assert rows == sorted([*BY_INSPECTION, *BY_RERUNNING])


def scenarios(text: str) -> list[str]:
    """Those that a text names, alone or by pattern; modules of these names end in .py."""
    return re.findall(r"`((?:planning|catalogue|consolidation)/[\w.*-]+(?<!\.py))`", text)


def exists(name: str) -> bool:
    if scenarios(f"`{name}`"):
        return any(STORIES.glob(f"{name.removesuffix('.yaml')}.yaml"))
    file, _, test = name.partition("::")
    found = ROOT / file
    if not found.is_file():
        return False
    return not test or f"def {test}(" in found.read_text(encoding="utf-8")
