"""What users read in fifteen situations, word for word: each message alone says what is wrong, what
to change and what that costs. `make messages` writes the texts anew; look at the difference.
"""

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner
from tests.support.controlled_cluster import (
    ControlledCluster,
    node_pool,
    pending_pod,
    run_cluster,
)

from wainwright.cli.main import wain

FOLDER = Path(__file__).parent / "messages"
SITUATIONS = sorted(FOLDER.glob("*.yaml"))
NOW = "2026-01-31T12:00:00Z"
MAX_ANSWER_LINES = 5


class Situation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An input, and the command whose output is kept in a file of the same name."""

    why: str
    run: str
    given: list[dict[str, Any]]


def output_of(path: Path, folder: Path, run: str | None = None) -> str:
    situation = msgspec.convert(yaml.load(path.read_text("utf-8"), yaml.CSafeLoader), Situation)
    file = folder / "given.json"
    file.write_bytes(msgspec.json.encode({"kind": "List", "items": situation.given}))
    run = situation.run if run is None else run
    arguments = [*run.split(), str(file), "--now", NOW, "--quiet"]
    result = CliRunner().invoke(wain, arguments, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return f"$ wain {run}\n{result.stdout}"


async def failed_launch(cluster: ControlledCluster) -> list[str]:
    """EC2 runs out of the only instance type of a NodePool while a pod waits for a node."""
    only = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]}
    await cluster.set_up(node_pool(template={"spec": {"requirements": [only]}}))
    cluster.start()
    await cluster.wait(5)
    cluster.account.change({"unavailable": [{"instanceType": "m5.large"}]})
    await cluster.create(pending_pod("web-0"))
    await cluster.wait(30)
    events = await cluster.events("InsufficientCapacityError")
    events += await cluster.events("FailedScheduling")
    return [f"{each.reason} {each.message}" for each in events if each.involvedObject.kind == "Pod"]


def test_the_events_of_a_launch_that_failed_are_word_for_word_as_they_were_read() -> None:
    lines: list[str] = []

    async def story(cluster: ControlledCluster) -> None:
        lines.extend(await failed_launch(cluster))

    run_cluster(story, instanceTypes=None, zones=["us-east-1a"])
    header = "$ kubectl get events --field-selector involvedObject.name=web-0"
    compare(FOLDER / "15-launch-that-failed.txt", "\n".join([header, *lines, ""]))


@pytest.mark.parametrize("path", SITUATIONS, ids=lambda path: path.stem)
def test_the_message_is_word_for_word_as_it_was_read(path: Path, tmp_path: Path) -> None:
    compare(path.with_suffix(".txt"), output_of(path, tmp_path))


def compare(golden: Path, text: str) -> None:
    if os.environ.get("UPDATE_MESSAGES"):
        golden.write_text(text, "utf-8")
    assert text == golden.read_text("utf-8")


def test_there_are_at_least_fifteen_situations() -> None:
    numbers = sorted(int(path.name[:2]) for path in FOLDER.glob("*.txt"))
    assert numbers == [*range(1, max(15, len(numbers)) + 1)]


PLANS = [path for path in SITUATIONS if "run: plan" in path.read_text("utf-8")]


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
@pytest.mark.parametrize("run", ["plan", "plan -o markdown", "explain pod"])
def test_plan_markdown_and_explanation_have_the_same_answer_in_five_lines(
    path: Path, run: str, tmp_path: Path
) -> None:
    """The line that names the pods, the cause, the fix with its price, other pools, nodes."""
    plan = json.loads(output_of(path, tmp_path, "plan -o json").partition("\n")[2])
    row = plan["unschedulable"][0]
    answer = [row["reason"], f"fix: {row['suggestion']}"]
    answer[1] += f"; or {row['alternative']}" if row["alternative"] else ""
    answer += [each for each in (row["otherPools"], row["existingNodes"]) if each]
    text = output_of(path, tmp_path, f"{run} {row['pod']}" if run == "explain pod" else run)
    lines = [line.lstrip(" -") for line in text.splitlines()]
    first = lines.index(answer[0])
    assert lines[first : first + len(answer)] == answer
    assert "unschedulable" in lines[first - 1] or "unschedulable" in lines[first - 2]
    assert len(answer) < MAX_ANSWER_LINES


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_the_funnel_of_every_pool_comes_only_when_it_is_asked_for(
    path: Path, tmp_path: Path
) -> None:
    plan = json.loads(output_of(path, tmp_path, "plan -o json").partition("\n")[2])
    row = plan["unschedulable"][0]
    for run in ("plan", f"explain pod {row['pod']}"):
        short, every = output_of(path, tmp_path, run), output_of(path, tmp_path, f"{run} --all")
        for pool in row["pools"]:
            assert f"NodePool {pool['nodePool']}: {pool['reason']}" in every
        assert len(every.splitlines()) >= len(short.splitlines()) + len(row["pools"])
