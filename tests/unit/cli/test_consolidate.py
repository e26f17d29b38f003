"""`wain consolidate`, end to end, as somebody at a terminal."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from click.testing import CliRunner, Result
from tests.support.consolidation_manifests import cloud, node, node_pool, pod
from tests.support.manifest_tables import TESTS

from wainwright.cli.main import main, wain
from wainwright.errors import InvalidInputError

ROOT = TESTS.parent
EXAMPLE = str(ROOT / "examples" / "consolidate")
SCHEMA = json.loads((ROOT / "docs" / "consolidation.schema.json").read_text())
NOW = ("--now", "2026-01-31T12:00:00Z")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(wain, ["consolidate", *arguments], standalone_mode=False)


def consolidated(*arguments: str) -> dict[str, Any]:
    result = run(*arguments, "-o", "json")
    if result.exception is not None:
        raise result.exception
    document: dict[str, Any] = json.loads(result.stdout)
    jsonschema.validate(document, SCHEMA, format_checker=jsonschema.FormatChecker())
    return document


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write_file(*objects: dict[str, Any], name: str = "input.yaml") -> str:
        path = tmp_path / name
        path.write_text(yaml.safe_dump_all([node_pool(), cloud(), *objects]), encoding="utf-8")
        return str(path)

    return write_file


def test_the_json_has_the_whole_answer() -> None:
    document = consolidated(EXAMPLE)
    assert [command["method"] for command in document["commands"]] == ["emptiness", "multi-node"]
    assert [each["kind"] for each in document["heldBy"]] == ["pod", "pdb", "policy"]
    summary = document["summary"]
    assert (summary["nodesBefore"], summary["nodesAfter"]) == (7, 3)
    assert summary["settled"]
    assert summary["evictions"] == sum(len(each["moves"]) for each in document["commands"]) == 5


def test_prices_add_up() -> None:
    document = consolidated(EXAMPLE)
    saved = sum(command["savingsPerHour"] for command in document["commands"])
    summary = document["summary"]
    assert saved == pytest.approx(summary["savingsPerHour"])
    before = sum(each["pricePerHour"] for each in document["nodes"])
    assert before == pytest.approx(summary["pricePerHourBefore"])
    assert summary["lowerBoundPerHour"] <= summary["pricePerHourAfter"]


@pytest.mark.parametrize("output", ["table", "json", "yaml", "markdown"])
def test_the_exit_code_is_three_where_there_is_something_to_do(output: str) -> None:
    assert run(EXAMPLE, "-o", output).return_value == 3


def test_the_exit_code_is_zero_where_there_is_nothing_to_do(write: Any) -> None:
    result = run(write(node("n1", "m5.large"), pod("a", "n1", "1800m")))
    assert result.return_value == 0
    assert result.stdout.splitlines()[0] == "nothing to do: 1 node for ~$0.096/h"
    assert "1 node stays: no cheaper node can run its pods" in result.stdout


def test_estimated_prices_of_nodes_that_pending_pods_need_are_marked(write: Any) -> None:
    pending = write(pod("a", None, "1800m"))
    first, *_ = run(pending).stdout.splitlines()
    assert first == "nothing to do: 1 node for ~$0.096/h"
    assert consolidated(pending)["summary"]["modelledPrices"]


def test_bad_input_is_exit_code_two(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["wain", "consolidate", "/missing"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert "/missing" in capsys.readouterr().err


def test_an_empty_input_has_nothing_to_do(write: Any) -> None:
    document = consolidated(write())
    assert (document["commands"], document["nodes"]) == ([], [])
    assert document["summary"]["lowerBoundPerHour"] == 0


def test_without_node_pools_there_is_no_lower_bound(tmp_path: Path) -> None:
    file = tmp_path / "nodes.yaml"
    file.write_text(yaml.safe_dump(node("n1", "m5.large")), encoding="utf-8")
    document = consolidated(str(file))
    assert document["summary"]["lowerBoundPerHour"] is None
    assert document["nodes"][0]["reason"] == "not-ours"


def test_the_first_line_of_the_table_is_the_answer() -> None:
    lines = run(EXAMPLE).stdout.splitlines()
    assert lines[0] == "4 of 7 nodes can be removed: saves ~$1.056/h (44 %), 5 pods move"
    assert "now  fully consolidated  lower bound" in lines[-5]


def test_a_pipe_gets_plain_text() -> None:
    assert "\x1b" not in run(EXAMPLE).stdout


def test_markdown_begins_with_the_answer_and_has_the_figures() -> None:
    text = run(EXAMPLE, "-o", "markdown").stdout
    assert text.startswith("**4 of 7 nodes can be removed")
    assert "|  | now | fully consolidated | lower bound |" in text


def test_yaml_is_the_same_document() -> None:
    assert yaml.safe_load(run(EXAMPLE, "-o", "yaml").stdout) == consolidated(EXAMPLE)


def test_the_number_of_commands_can_be_limited() -> None:
    document = consolidated(EXAMPLE, "--steps", "1")
    assert len(document["commands"]) == 1
    assert not document["summary"]["settled"]
    assert "more commands would follow after this one" in run(EXAMPLE, "--steps", "1").stdout


def test_only_the_methods_that_were_named_are_tried() -> None:
    document = consolidated(EXAMPLE, "--method", "emptiness", "--method", "drift")
    assert {command["method"] for command in document["commands"]} == {"emptiness"}


def test_a_command_takes_no_more_nodes_than_allowed() -> None:
    document = consolidated(EXAMPLE, "--max-nodes", "2")
    assert max(len(command["candidates"]) for command in document["commands"]) == 2


def test_where_not_all_sequences_are_compared_it_says_so() -> None:
    assert consolidated(EXAMPLE)["summary"]["lookedAhead"]
    assert "--look-ahead" not in run(EXAMPLE).stdout
    document = consolidated(EXAMPLE, "--look-ahead", "0")
    assert not document["summary"]["lookedAhead"]
    assert document["summary"]["settled"]
    assert "--look-ahead allows more" in run(EXAMPLE, "--look-ahead", "0").stdout


def test_budgets_can_be_ignored(write: Any) -> None:
    nodes = [node(name, "m5.large") for name in ("a", "b")]
    pool = node_pool(budgets=[{"nodes": "0"}])
    file = write(*nodes, pool)
    assert {each["reason"] for each in consolidated(file)["nodes"]} == {"budget"}
    assert {each["reason"] for each in consolidated(file, "--ignore-budgets")["nodes"]} == {"empty"}


def test_the_time_is_shown_only_where_it_matters(write: Any) -> None:
    timeless = write(node("n1", "m5.large"))
    assert "now" not in consolidated(timeless)
    assert consolidated(timeless, *NOW)["now"] == "2026-01-31T12:00:00+00:00"
    born = node("n1", "m5.large", metadata={"creationTimestamp": "2026-01-01T00:00:00Z"})
    assert "now" in consolidated(write(born))


def test_names_of_replacements_are_unique_and_new(write: Any) -> None:
    nodes = [node(name, "m5.4xlarge") for name in ("default-1", "default-2")]
    pods = [
        pod("a", "default-1", "1", annotations={}),
        pod("b", "default-2", "1", annotations={}),
    ]
    document = consolidated(write(*nodes, *pods), "--max-nodes", "1")
    names = [claim["name"] for command in document["commands"] for claim in command["replacements"]]
    assert len(names) == len(set(names)) > 0
    assert not {"default-1", "default-2"}.intersection(names)


def test_a_pending_pod_is_planned_first_and_its_node_is_nominated(write: Any) -> None:
    document = consolidated(
        write(node("n1", "m5.2xlarge"), pod("a", "n1", "1"), pod("b", None, "5"))
    )
    assert [(each["node"], each["reason"]) for each in document["nodes"]] == [("n1", "nominated")]


def test_nodes_without_claims_are_remarked(write: Any) -> None:
    warnings = consolidated(write(node("n1", "m5.large")))["warnings"]
    assert "1 node has no NodeClaim and counts as its own: n1" in warnings


def test_spot_to_spot_needs_its_gate(write: Any) -> None:
    """With the gate and few types required, the cheaper spot node is taken."""
    pool = node_pool()
    requirement = pool["spec"]["template"]["spec"]["requirements"][0]
    requirement["values"] = ["spot"]
    labels = {"karpenter.sh/capacity-type": "spot"}
    large = node("n1", "m5.4xlarge")
    large["metadata"]["labels"] |= labels
    file = write(large, pod("a", "n1", "1"), pool)
    assert consolidated(file)["nodes"][0]["reason"] == "spot-to-spot"
    gate = ("--feature-gate", "SpotToSpotConsolidation=true", "--spot-to-spot-types", "2")
    assert consolidated(file, *gate)["nodes"][0]["verdict"] == "replaced"


def test_what_saves_too_little_is_not_done(write: Any) -> None:
    file = write(node("n1", "m5.4xlarge"), pod("a", "n1", "7"))
    assert consolidated(file)["nodes"][0]["verdict"] == "replaced"
    for amount in ("0.5", "60%"):
        [found] = consolidated(file, "--min-saving", amount)["nodes"]
        assert (found["verdict"], found["reason"]) == ("kept", "min-saving")


def test_a_minimum_saving_that_is_none_is_an_error() -> None:
    result = run(EXAMPLE, "--min-saving", "much")
    assert isinstance(result.exception, InvalidInputError)
    assert "--min-saving: 'much' is not a saving" in str(result.exception)


def test_several_nodes_take_the_place_of_one_only_where_that_is_allowed(write: Any) -> None:
    """Pods that keep away from one another: no single new node holds them."""
    big = node("n1", "m5.4xlarge")
    ports = [{"containerPort": 80, "hostPort": 80}]
    pods = [pod(name, "n1", "500m") for name in "ab"]
    for each in pods:
        each["spec"]["containers"][0]["ports"] = ports
    file = write(big, *pods)
    assert consolidated(file)["nodes"][0]["reason"] == "needs-several-nodes"
    [command] = consolidated(file, "--allow-split")["commands"]
    assert len(command["replacements"]) == 2


def test_timings_are_one_line_of_json() -> None:
    result = run(EXAMPLE, "--timings")
    last = json.loads(result.stderr.splitlines()[-1])
    assert {"read", "compile", "decide", "bound", "explain", "total"} == set(last)


class TestSavedInput:
    @pytest.mark.parametrize("output", ["table", "json", "yaml", "markdown"])
    def test_it_gives_the_same_bytes(self, output: str, tmp_path: Path) -> None:
        file = str(tmp_path / "input.json")
        first = run(EXAMPLE, "--save-input", file, "-o", output, "--ignore-budgets", *NOW)
        again = run(file, "-o", output)
        assert (again.return_value, again.stdout) == (first.return_value, first.stdout)
        assert again.stderr == first.stderr

    def test_it_has_its_own_options(self, tmp_path: Path) -> None:
        file = str(tmp_path / "input.json")
        run(EXAMPLE, "--save-input", file)
        result = run(file, "--max-nodes", "3")
        assert isinstance(result.exception, InvalidInputError)
        assert "has its own options" in str(result.exception)

    def test_the_input_of_a_plan_is_no_input_of_a_consolidation(self, tmp_path: Path) -> None:
        file = str(tmp_path / "input.json")
        CliRunner().invoke(wain, ["plan", EXAMPLE, "--save-input", file], standalone_mode=False)
        result = run(file)
        assert isinstance(result.exception, InvalidInputError)
        assert "is the input of a plan" in str(result.exception)

    def test_a_plan_can_be_made_of_it(self, tmp_path: Path) -> None:
        file = str(tmp_path / "input.json")
        run(EXAMPLE, "--save-input", file)
        result = CliRunner().invoke(wain, ["plan", file, "-o", "json"], standalone_mode=False)
        assert json.loads(result.stdout)["kind"] == "Plan"
