"""The table of `wain consolidate` in windows of several widths."""

from io import StringIO
from typing import Any

import pytest

from wainwright.cli.consolidation_table import print_consolidation
from wainwright.cli.plan_table import Console

NODE = "ip-10-0-1-13.us-west-2.compute.internal"


def candidate(number: int) -> dict[str, Any]:
    return {
        "node": f"{number}-{NODE}",
        "instanceType": "m5.2xlarge",
        "capacityType": "on-demand",
        "reservationID": None,
        "zone": "us-west-2a",
        "pricePerHour": 0.384,
        "modelledPrice": False,
    }


def node(verdict: str, reason: str) -> dict[str, Any]:
    return {"verdict": verdict, "reason": reason, "modelledPrice": False, "savingPerHour": None}


def document(commands: int = 1, nodes: int = 1, *, settled: bool = True) -> dict[str, Any]:
    command = {
        "reason": "Underutilized",
        "candidates": [candidate(number) for number in range(nodes)],
        "replacements": [],
        "moves": [{"pod": f"shop/{n}", "from": NODE, "to": f"node-{n}"} for n in range(7)],
        "savingsPerHour": 0.384 * nodes,
        "evictions": 7,
    }
    held = {"kind": "pdb", "name": "shop/web", "reason": "pdb", "nodes": 2, "savingPerHour": 0.5}
    return {
        "commands": [command | {"step": step + 1} for step in range(commands)],
        "nodes": [node("removed", "underutilized")] * (commands * nodes),
        "heldBy": [held],
        "summary": {
            "nodesBefore": 100,
            "nodesAfter": 100 - commands * nodes,
            "pricePerHourBefore": 40.0,
            "pricePerHourAfter": 39.0,
            "savingsPerHour": 1.0,
            "evictions": 7 * commands,
            "settled": settled,
            "lookedAhead": True,
            "lowerBoundPerHour": 30.0,
            "modelledPrices": False,
        },
    }


def printed(shown: dict[str, Any], *, width: int = 80, terminal: bool = True) -> list[str]:
    output = StringIO()
    console = Console(
        file=output,
        width=width,
        force_terminal=terminal,
        no_color=True,
        markup=False,
        highlight=False,
        legacy_windows=False,
    )
    print_consolidation(shown, console)
    return output.getvalue().replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_window_and_names_stay_whole(width: int) -> None:
    lines = printed(document(), width=width)
    assert max(map(len, lines)) <= max(width, 71)
    assert any(NODE in line for line in lines)


def test_what_does_not_fit_goes_on_further_to_the_right() -> None:
    lines = printed(document())
    [number] = [n for n, line in enumerate(lines) if NODE in line]
    assert lines[number].startswith(f"   − 0-{NODE}  $0.384/h m5.2xlarge")
    assert lines[number + 1].startswith("       ")


def test_a_pipe_has_whole_lines() -> None:
    lines = printed(document(), terminal=False)
    assert f"   − 0-{NODE}  $0.384/h m5.2xlarge on-demand us-west-2a" in lines


def test_many_nodes_of_a_command_are_summed_up() -> None:
    lines = printed(document(nodes=9))
    assert "   − and 4 more: 4 m5.2xlarge" in lines
    assert "     2 pods to 2 other nodes" in lines


def test_many_commands_are_summed_up() -> None:
    lines = printed(document(commands=25))
    assert "20. underutilized: 1 node removed, 7 pods move, saves $0.384/h" in lines
    assert any(line.startswith("and 5 more commands: $1.920/h saved") for line in lines)


def test_the_answer_comes_first_and_the_figures_last() -> None:
    lines = printed(document(), width=120)
    assert lines[0] == "1 of 100 nodes can be removed: saves $1.000/h (2 %), 7 pods move"
    assert lines[-5].split() == [
        "now",
        "fully",
        "consolidated",
        "lower",
        "bound",
    ]
    assert lines[-1].split() == ["above", "the", "bound", "33", "%", "30", "%"]


def test_expired_nodes_go_without_a_command() -> None:
    shown = document()
    shown["nodes"] = [*shown["nodes"], node("removed", "expired")]
    assert printed(shown)[1] == "1 node has expired: expiration deletes without a command"


@pytest.mark.parametrize("settled", [True, False])
def test_who_stays_is_known_only_when_nothing_is_left_to_do(settled: bool) -> None:
    shown = document(settled=settled)
    shown["nodes"] = [*shown["nodes"], node("kept", "no-saving")]
    assert ("1 node stays: no cheaper node can run its pods" in printed(shown)) is settled
    shown["nodes"] = [*shown["nodes"], node("kept", "no-saving")]
    assert ("2 nodes stay: no cheaper node can run their pods" in printed(shown)) is settled


def test_commands_that_are_not_all_say_so() -> None:
    lines = printed(document(settled=False))
    assert lines[1] == "more commands would follow after this one"
    assert "after 1 command" in lines[-5]


HELD_LINES = {
    ("nodepool", "min-values"): "minValues of NodePool web",
    ("nodepool", "min-saving"): "minimum saving for NodePool web",
    ("nodepool", "spot-to-spot"): "spot-to-spot rule for NodePool web",
    ("nodepool", "limits"): "limits for NodePool web",
    ("nodepool", "consolidate-after"): "consolidateAfter of NodePool web",
    ("nodepool", "static-pool"): "replicas of NodePool web",
    ("policy", "balanced-score"): "policy Balanced of NodePool web",
    ("policy", "policy"): "consolidation policy of NodePool web",
    ("budget", "budget"): "budgets of NodePool web",
}


@pytest.mark.parametrize(("kind", "reason"), HELD_LINES)
def test_what_holds_dollars_back_is_named_by_its_rule(kind: str, reason: str) -> None:
    shown = document()
    held = {"kind": kind, "name": "web", "reason": reason, "nodes": 1, "savingPerHour": 0.25}
    shown["heldBy"] = [held]
    [line] = [line for line in printed(shown) if HELD_LINES[kind, reason] in line]
    assert line.split()[-3:] == ["1", "node", "$0.250/h"]


def test_a_node_that_holds_dollars_back_is_not_said_to_stay_once_more() -> None:
    shown = document()
    kept = node("kept", "min-values")
    shown["nodes"] = [*shown["nodes"], kept, kept | {"savingPerHour": 0.25}]
    assert "1 node stays: minValues would not be met" in printed(shown)
