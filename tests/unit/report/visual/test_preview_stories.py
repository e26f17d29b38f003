"""Plans and consolidations as stories: every step has the numbers of the JSON."""

from pathlib import Path

import pytest
from tests.support.manifest_tables import TESTS

from wainwright.cli.consolidate import DisruptionArguments, consolidation_input, decide
from wainwright.cli.plan import PlanArguments, Timings, plan_of
from wainwright.model.cluster_history import NodeRecord
from wainwright.report.consolidation_json import consolidation_document
from wainwright.report.plan_json import Document, plan_document
from wainwright.report.visual.cluster_view import ClusterView, cluster_at
from wainwright.report.visual.consolidation_story import consolidation_story
from wainwright.report.visual.plan_story import plan_story
from wainwright.report.visual.story import Story

EXAMPLES = TESTS.parent / "examples"
NOW = "2026-01-01T00:00:00Z"
PLANS = ("reserved-then-spot", "reserved-only", "weights-joined-node", "consolidate", "sale-day")
CONSOLIDATIONS = ("consolidate", "smaller-machines", "spot-diversity", "weights-joined-node")


def planned(example: str, *more: Path) -> tuple[Document, Story]:
    paths = [str(EXAMPLES / example), *map(str, more)]
    arguments = PlanArguments(files=tuple(paths), now=NOW, quiet=True)
    given, plan = plan_of(arguments, Timings())
    document = plan_document(given, plan)
    return document, plan_story(given, plan, document)


def consolidated(example: str) -> tuple[Document, Story]:
    timings = Timings(("read", "compile", "decide"))
    arguments = DisruptionArguments(files=(str(EXAMPLES / example),), now=NOW, quiet=True)
    given = consolidation_input(arguments, timings)
    preview = decide(given, timings)
    document = consolidation_document(given, preview, None)
    return document, consolidation_story(given, preview, document)


def pods_by_node(view: ClusterView) -> dict[str, list[str]]:
    return {
        node.record.id: sorted(pod.name for pod in node.pods if not pod.daemon)
        for node in view.nodes
    }


@pytest.mark.parametrize("example", PLANS)
def test_a_plan_has_its_claims_and_what_they_cost_in_its_last_step(example: str) -> None:
    document, story = planned(example)
    before, after = cluster_at(story, 0), cluster_at(story, 1)
    summary = document["summary"]
    assert len(after.nodes) - len(before.nodes) == summary["nodeClaims"]
    added = after.pricePerHour - before.pricePerHour
    assert added == pytest.approx(summary["pricePerHour"], abs=1e-9)
    pods = pods_by_node(after)
    for claim in document["nodeClaims"]:
        assert pods[claim["name"]] == sorted(claim["pods"])
    for node in document["existingNodes"]:
        assert set(node["pods"]) <= set(pods[node["name"]])


@pytest.mark.parametrize("example", PLANS)
def test_a_planned_node_has_the_requests_of_the_json(example: str) -> None:
    document, story = planned(example)
    used = {node.record.id: node.used for node in cluster_at(story, 1).nodes}
    for claim in document["nodeClaims"]:
        cpu = claim["requests"].get("cpu", "0")
        milli = int(cpu[:-1]) if cpu.endswith("m") else int(cpu) * 1000
        assert used[claim["name"]].get("cpu", 0) == milli


def test_pods_without_a_place_have_the_reasons_of_the_json(tmp_path: Path) -> None:
    pod = tmp_path / "pod.yaml"
    pod.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: huge}\nspec:\n  containers:\n"
        "  - {name: main, image: x, resources: {requests: {cpu: '9000'}}}\n"
    )
    document, story = planned("reserved-then-spot", pod)
    view = cluster_at(story, 1)
    (pending,) = view.pending
    (row,) = document["unschedulable"]
    assert (pending.pod.name, pending.reason) == (row["pod"], row["reason"])
    assert pending.explanation is not None
    assert [each.pool for each in pending.explanation.pools] == [
        each["nodePool"] for each in row["pools"]
    ]


def test_a_plan_has_the_reservations_of_the_json() -> None:
    document, story = planned("reserved-then-spot")
    found = {each.record.id: each for each in cluster_at(story, 1).reservations}
    assert found
    for use in document["summary"]["reservations"]:
        view = found[use["id"]]
        taken = use["total"] - use["available"] + use["promised"] + use["used"]
        assert (view.total, view.used) == (use["total"], taken)


def test_every_planned_node_says_why_it_is_there_and_why_nothing_else() -> None:
    _, story = planned("reserved-then-spot")
    launched = [number for number, node in enumerate(story.history.nodes) if node.launched]
    assert launched
    assert [each.node for each in story.notes] == launched
    assert all(each.why and each.elsewhere for each in story.notes)


@pytest.mark.parametrize("example", CONSOLIDATIONS)
def test_a_consolidation_has_nodes_and_prices_of_the_json_before_and_after(example: str) -> None:
    document, story = consolidated(example)
    before, after = cluster_at(story, 0), cluster_at(story, story.end)
    summary = document["summary"]
    assert len(before.managed) == summary["nodesBefore"]
    assert len(after.managed) == summary["nodesAfter"]
    assert before.pricePerHour == pytest.approx(summary["pricePerHourBefore"], abs=1e-9)
    assert after.pricePerHour == pytest.approx(summary["pricePerHourAfter"], abs=1e-9)


@pytest.mark.parametrize("example", CONSOLIDATIONS)
def test_every_move_of_the_json_is_made_at_its_step(example: str) -> None:
    document, story = consolidated(example)
    for command in document["commands"]:
        pods = pods_by_node(cluster_at(story, command["step"]))
        for move in command["moves"]:
            assert move["pod"] in pods[move["to"]]
        for candidate in command["candidates"]:
            assert candidate["node"] not in pods


@pytest.mark.parametrize("example", CONSOLIDATIONS)
def test_every_node_has_the_verdict_of_the_json(example: str) -> None:
    document, story = consolidated(example)
    nodes: list[NodeRecord] = story.history.nodes
    found = {nodes[each.node].id: (each.verdict, each.message) for each in story.verdicts}
    assert found == {each["node"]: (each["verdict"], each["message"]) for each in document["nodes"]}


def test_a_blocked_node_says_what_would_free_it() -> None:
    _, story = consolidated("consolidate")
    blocked = [each for each in story.verdicts if each.verdict == "blocked"]
    assert blocked
    assert all(each.change and each.blockers and each.savingPerHour for each in blocked)
