"""`import wainwright`: every example that is printed somewhere is run, and says what is shown.

`python -m tests.unit.test_library` writes the shown output anew, for review in the diff.
"""

import ast
import asyncio
import contextlib
import io
import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.support.manifest_tables import TESTS

import wainwright
from wainwright import InvalidInput, UsageError
from wainwright.cli.main import wain

ROOT = TESTS.parent
CHAPTER = ROOT / "docs" / "library.md"
NOTEBOOK = ROOT / "examples" / "notebook" / "capacity.ipynb"
WORLD = "examples/reserved-then-spot"
CLUSTER = "examples/consolidate"
NOW = "2026-01-31T12:00:00+00:00"
SHOWN = re.compile(r"```python\n(.*?)```\n\n```\n(.*?)```\n", re.DOTALL)
WRITTEN = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the texts tell the reader to be."""
    monkeypatch.chdir(ROOT)


def output(code: str) -> str:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(code, "example", "exec"), {})
    return said.getvalue()


def refreshed(text: str) -> str:
    return SHOWN.sub(lambda one: f"```python\n{one[1]}```\n\n```\n{output(one[1])}```\n", text)


def docstring_example() -> str:
    lines = (wainwright.__doc__ or "").splitlines()
    begin = lines.index("    import wainwright")
    length = next(n for n, line in enumerate(lines[begin:]) if line and line[0] != " ")
    return textwrap.dedent("\n".join(lines[begin : begin + length]))


def test_the_chapter_shows_what_its_examples_print_today() -> None:
    text = CHAPTER.read_text(encoding="utf-8")
    assert len(SHOWN.findall(text)) == len(WRITTEN.findall(text)) >= 3
    assert text == refreshed(text)


def test_the_example_of_the_docstring_is_the_first_of_the_chapter() -> None:
    text = CHAPTER.read_text(encoding="utf-8")
    assert WRITTEN.findall(text)[0].strip() == docstring_example().strip()
    assert output(docstring_example()).startswith("$0.172/h ['c5.large', ")


def test_the_readme_shows_the_same_example() -> None:
    [shown] = WRITTEN.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert shown.strip() == docstring_example().strip()


def test_names_are_there_to_be_completed_before_anything_is_loaded() -> None:
    code = "import sys, wainwright; print(dir(wainwright)); print('wainwright.core' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True, cwd=ROOT
    )
    names, loaded = done.stdout.splitlines()
    assert {"read", "plan", "explain", "__version__"} <= set(ast.literal_eval(names))
    assert loaded == "False"


def test_results_show_their_cost_with_estimates_marked() -> None:
    world, cluster = wainwright.read(WORLD), wainwright.read(CLUSTER)
    planned = wainwright.plan(world, now=datetime.fromisoformat(NOW))
    assert repr(planned) == "<PlanResult: 7 nodes, ~$0.172/h, 0 pods unschedulable>"
    found = wainwright.consolidate(cluster, now=datetime.fromisoformat(NOW))
    assert repr(found) == "<ConsolidationResult: 2 commands, saving ~$1.056/h>"


def test_a_refusal_names_file_line_and_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "pool.yaml"
    file.write_text(
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: p}\n"
        'spec:\n  weight: "10"\n  template: {spec: {requirements: []}}\n'
    )
    with pytest.raises(InvalidInput) as refused:
        wainwright.read(file)
    message = str(refused.value)
    assert message.startswith("1 error; nothing read:\n")
    expected = 'found "10", expected a whole number\n    remove the quotes'
    assert f"{file}:5: spec.weight: {expected}" in message


def test_of_many_mistakes_the_first_few_are_shown(tmp_path: Path) -> None:
    pods = (
        f"---\napiVersion: v1\nkind: Pod\nmetadata: {{name: p{number}}}\nspec: {{contaners: []}}\n"
        for number in range(30)
    )
    file = tmp_path / "pods.yaml"
    file.write_text("".join(pods))
    with pytest.raises(InvalidInput) as refused:
        wainwright.read(file)
    errors = refused.value.report.errors
    assert str(refused.value).endswith(f"and {len(errors) - 10} more, in .report.errors")


def test_an_unknown_pod_is_an_error_with_the_name_that_was_meant() -> None:
    with pytest.raises(UsageError, match="did you mean shop/web-0"):
        wainwright.explain(wainwright.read("examples/reserved-then-spot"), "wbe-0")


def printed_document(*arguments: str) -> Any:
    """What a command prints with -o json."""
    result = CliRunner().invoke(wain, [*arguments, "-o", "json"])
    return json.loads(result.stdout)


def test_a_plan_as_a_dict_is_what_the_command_prints() -> None:
    plan = wainwright.plan(wainwright.read(WORLD), now=datetime.fromisoformat(NOW))
    assert plan.to_dict() == printed_document("plan", WORLD, "--now", NOW)


def test_a_consolidation_as_a_dict_is_what_the_command_prints() -> None:
    result = wainwright.consolidate(wainwright.read(CLUSTER), now=datetime.fromisoformat(NOW))
    assert result.to_dict() == printed_document("consolidate", CLUSTER, "--now", NOW)
    assert result.saving == pytest.approx(result.to_dict()["summary"]["savingsPerHour"])


def test_a_node_is_explained_as_by_the_command() -> None:
    name = "ip-10-0-1-11.us-west-2.compute.internal"
    said = wainwright.explain(wainwright.read(CLUSTER), node=name, now=datetime.fromisoformat(NOW))
    assert (
        said.splitlines()
        == printed_document("explain", "node", name, CLUSTER, "--now", NOW)["lines"]
    )


def test_a_simulation_as_a_dict_is_what_the_command_prints() -> None:
    scenario = "tests/scenarios/simulation/thin-path.yaml"
    result = wainwright.simulate(scenario, seed=3)
    assert result.to_dict() == printed_document("simulate", scenario, "--seed", "3")
    assert result.is_success


def test_cloud_catalog_and_region_take_the_place_of_the_inputs(tmp_path: Path) -> None:
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    for name in ("nodeclass.yaml", "nodepool.yaml", "workload.yaml"):
        (manifests / name).write_text((ROOT / WORLD / name).read_text())
    cloud = wainwright.plan(wainwright.read(manifests, cloud=f"{WORLD}/cloud.yaml"))
    assert cloud.price == wainwright.plan(wainwright.read(WORLD)).price
    catalog = tmp_path / "catalog.json"
    catalog.write_text(CliRunner().invoke(wain, ["catalog", WORLD, "-o", "json"]).stdout)
    types = {
        claim.launch.instance_type
        for claim in wainwright.plan(wainwright.read(manifests, catalog=catalog)).claims
    }
    assert types <= {"c5.large", "c5a.large"}
    region = wainwright.plan(wainwright.read(manifests), region="eu-north-1").to_dict()["region"]
    assert region["name"] == "eu-north-1"


UNTYPED: Any = wainwright
"""As a notebook calls it, where nobody checks types."""


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda _: UNTYPED.read(), "read() was given no files"),
        (lambda _: UNTYPED.read(3), "read() takes names of files, found int"),
        (lambda _: UNTYPED.plan(WORLD), "plan() takes what read() gives back, found str"),
        (lambda world: UNTYPED.plan(world, options={}), "plan(): options is of type dict"),
        (lambda world: UNTYPED.plan(world, region=1), "plan(): region is of type int"),
        (lambda world: UNTYPED.plan(world, now="today"), "plan(): now is of type str"),
        (lambda world: UNTYPED.plan(world, now=datetime(2026, 1, 31)), "now has no time zone"),  # noqa: DTZ001
        (UNTYPED.explain, "explain() takes a pod or a node"),
        (lambda world: UNTYPED.explain(world, 3), "explain(): pod is of type int"),
        (lambda world: UNTYPED.explain(world, node="nobody"), "the input has no node nobody"),
        (lambda world: UNTYPED.consolidate(world, options=1), "options is of type int"),
        (lambda world: UNTYPED.consolidate(world, steps=0), "consolidate(): steps is 0"),
        (lambda _: UNTYPED.simulate(7), "simulate() takes names of files, found int"),
        (lambda _: UNTYPED.simulate("s", changes="spec.seed=1"), "changes is one text"),
    ],
)
def test_an_argument_that_makes_no_sense_is_named(
    call: Callable[[Any], object], message: str
) -> None:
    world = wainwright.read(WORLD)
    with pytest.raises(UsageError) as refused:
        call(world)
    assert message in str(refused.value)
    assert refused.value.hint


async def _simulate_inside_a_loop() -> None:
    wainwright.simulate("tests/scenarios/simulation/thin-path.yaml")


def test_a_simulation_inside_an_event_loop_says_how_to_run_it() -> None:
    with pytest.raises(UsageError, match=r"asyncio\.to_thread"):
        asyncio.run(_simulate_inside_a_loop())


def test_everything_that_is_promised_can_be_imported() -> None:
    assert [name for name in wainwright.__all__ if not hasattr(wainwright, name)] == []


# The notebook


def run_notebook(document: dict[str, Any]) -> dict[str, Any]:
    """The notebook with the output of every cell as it is today, as Jupyter would store it."""
    names: dict[str, Any] = {}
    for number, cell in enumerate(cells(document), start=1):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
        text = said.getvalue().splitlines(keepends=True)
        cell["execution_count"] = number
        cell["outputs"] = (
            [{"name": "stdout", "output_type": "stream", "text": text}] if text else []
        )
    return document


def cells(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in document["cells"] if cell["cell_type"] == "code"]


def test_the_notebook_shows_what_its_cells_print_today() -> None:
    shown = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert len(cells(shown)) >= 4
    assert run_notebook(json.loads(NOTEBOOK.read_text(encoding="utf-8"))) == shown


def main() -> None:
    os.chdir(ROOT)
    CHAPTER.write_text(refreshed(CHAPTER.read_text(encoding="utf-8")), encoding="utf-8")
    notebook = run_notebook(json.loads(NOTEBOOK.read_text(encoding="utf-8")))
    text = json.dumps(notebook, indent=1, ensure_ascii=False)
    NOTEBOOK.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
