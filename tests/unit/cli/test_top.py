"""`wain top` as somebody at a terminal meets it: in a pipe, and through a pty with keys and
resizing.
"""

import json
import sys
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result
from tests.support.manifest_tables import TESTS
from tests.support.terminal import Terminal

from wainwright.cli.main import wain
from wainwright.cli.top import DEMO
from wainwright.errors import UsageError

ROOT = TESTS.parent
CLUSTER = str(ROOT / "examples" / "consolidate")
PENDING = str(ROOT / "examples" / "pending-pods")
THIN = str(ROOT / "tests" / "scenarios" / "simulation" / "thin-path.yaml")
WAIN = [sys.executable, "-c", "from wainwright.cli.main import main; main()"]


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(wain, ["top", *arguments], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


def test_in_a_pipe_the_screen_is_printed_once_and_plain() -> None:
    result = run(CLUSTER)
    assert result.return_value == 0
    first, second, *rest = result.stdout.splitlines()
    assert first == "7 nodes could be 3, which saves ~$1.056/h"
    assert second.startswith("7 nodes · ~$2.400/h · ~$1,752/month · ")
    assert sum(line.startswith("ip-10-") for line in rest) == 7
    assert "\x1b" not in result.stdout


def test_its_numbers_are_those_of_the_json() -> None:
    document = json.loads(CliRunner().invoke(wain, ["consolidate", CLUSTER, "-o", "json"]).stdout)
    nodes = {each["node"].partition(".")[0]: each for each in document["nodes"]}
    rows = [line.split() for line in run(CLUSTER).stdout.splitlines() if line.startswith("ip-")]
    assert {row[0] for row in rows} == set(nodes)
    for row in rows:
        assert row[-1] == nodes[row[0]]["reason"]
        mark = "~" if nodes[row[0]]["modelledPrice"] else ""
        assert row[-2] == f"{mark}${nodes[row[0]]['pricePerHour']:.3f}"


def test_estimated_prices_are_explained_in_one_line() -> None:
    assert "~$" in (said := run(CLUSTER).stdout)
    assert said.splitlines()[-1].startswith("~ estimated price")
    assert "~" not in run(PENDING, "--region", "us-east-1").stdout


def test_pods_that_wait_have_their_reason() -> None:
    said = run(PENDING, "--region", "us-east-1").stdout.splitlines()
    assert said[0] == "there are no nodes of NodePools"
    assert "shop/api-0 and 1 more  needs a new node of general: c6i.4xlarge" in "\n".join(said)
    assert any(line.startswith("shop/api-2  NodePool general: its limit of 16") for line in said)


def test_a_scenario_is_simulated_first() -> None:
    said = run("--scenario", THIN).stdout.splitlines()
    assert said[0].startswith("thin-path at ")


def test_rows_can_be_sorted_and_searched_without_a_terminal() -> None:
    found = run(CLUSTER, "--search", "m5.2xlarge", "--sort", "name", "--reverse").stdout
    names = [line.split()[0] for line in found.splitlines() if line.startswith("ip-")]
    assert names == ["ip-10-0-1-15", "ip-10-0-1-12", "ip-10-0-1-11"]


@pytest.mark.parametrize("arguments", [(), (CLUSTER, "--demo"), ("--demo", "--scenario", THIN)])
def test_one_thing_is_shown(arguments: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="one thing"):
        run(*arguments)


def test_the_demo_is_the_example() -> None:
    example = ROOT / "examples" / "sale-day"
    for file in example.glob("*.yaml"):
        assert (DEMO.parent / file.name).read_bytes() == file.read_bytes()


# Through a pty


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    opened = Terminal([*WAIN, "top", CLUSTER], 80)
    yield opened
    opened.close()


def names(screen: list[str]) -> list[str]:
    return [line.split()[0] for line in screen if line.strip().startswith("ip-10-")]


def test_keys_sort_search_and_quit_and_the_screen_follows_the_window(terminal: Terminal) -> None:
    screen = terminal.wait_for("ip-10-0-1-16")
    assert names(screen)[0] == "ip-10-0-1-14"
    assert not any("NODEPOOL" in line for line in screen)
    terminal.press("s")
    assert names(terminal.wait_for("sorted by cpu"))[0] == "ip-10-0-1-16"
    terminal.resize(160, 30)
    assert any("ZONE" in line for line in terminal.wait_for("us-west-2a"))
    terminal.press("/")
    terminal.wait_for("capacity type or verdict")
    terminal.press("1-15\r")
    terminal.wait_until(lambda screen: names(screen) == ["ip-10-0-1-15"])
    terminal.press("q")
    assert terminal.end() == 0
