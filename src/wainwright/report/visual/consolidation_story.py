"""A consolidation as a story: a step for each command, and a verdict on every node."""

from collections.abc import Iterable, Iterator
from typing import Any

from wainwright.core.disruption.commands import Command
from wainwright.core.disruption.preview import DisruptionPreview
from wainwright.disruption_verdicts import verdict_facts
from wainwright.messages.disruption import suggest_change
from wainwright.messages.formatting import format_count, format_hourly, format_monthly
from wainwright.model.simulation import DisruptEntry, Timeline
from wainwright.report.consolidation_rows import (
    answer,
    answer_notes,
    has_modelled_price,
    has_modelled_prices,
    held_words,
    money_of_command,
)
from wainwright.report.plan_input import PlanInput
from wainwright.report.visual.preview_history import PreviewHistory, pool_infos
from wainwright.report.visual.story import (
    BlockerInfo,
    MomentUnit,
    NodeNote,
    Story,
    StoryKind,
    VerdictRecord,
)

Document = dict[str, Any]


def consolidation_story(given: PlanInput, preview: DisruptionPreview, document: Document) -> Story:
    """`document` is the JSON of the consolidation."""
    steps = PreviewHistory(given.snapshot, given.indexes)
    _place_pending(steps, preview)
    for step, command in enumerate(preview.commands, start=1):
        _carry_out(steps, command, float(step))
    steps.count_reservations(len(preview.commands))
    shows_time = given.consolidation is None or given.consolidation.shows_time
    return Story(
        kind=StoryKind.CONSOLIDATION,
        name="consolidation",
        answer=answer(document),
        unit=MomentUnit.STEPS,
        start=given.now if shows_time else None,
        end=float(len(preview.commands)),
        opensAt=0.0,
        pools=pool_infos(given.snapshot.pools),
        history=steps.history,
        events=_events(document["commands"]),
        verdicts=[*verdict_records(preview, document, steps)],
        notes=[*_notes(document["commands"], steps)],
        totals=[*_totals(document)],
        warnings=[*answer_notes(document), *document["warnings"]],
        figures=document["summary"],
    )


def _place_pending(steps: PreviewHistory, preview: DisruptionPreview) -> None:
    """Pending pods are planned first: what is launched for them counts as under way."""
    replacements = {name for command in preview.commands for name in command.replacement_names}
    moved = {move.pod for command in preview.commands for move in command.moves()}
    waiting = {
        pod.name for pod in steps.history.pods if pod.bound is None and pod.name not in moved
    }
    for node in preview.after.nodes:
        if node.name not in steps.node_numbers and node.name not in replacements:
            steps.add_node(node, 0.0)
            continue
        for pod in node.pods:
            if pod.key in waiting and node.name in steps.node_numbers:
                steps.place(pod.key, steps.node_numbers[node.name], 0.0)


def _carry_out(steps: PreviewHistory, command: Command, at: float) -> None:
    for claim in command.replacements:
        steps.launch(claim, at)
    for unavailable in command.unavailable:
        steps.add_node(unavailable.node, at)
    for move in command.moves():
        number = steps.node_numbers.get(move.target)
        if number is not None and not _is_on(steps, move.pod, number):
            steps.place(move.pod, number, at)
    for candidate in command.candidates:
        steps.remove(candidate.name, at, command.reason.value)


def _is_on(steps: PreviewHistory, pod: str, node: int) -> bool:
    number = steps.pod_numbers.get(pod)
    return number is not None and steps.history.pods[number].node == node


def _events(commands: Iterable[Document]) -> Timeline:
    return [
        DisruptEntry(
            at=float(command["step"]),
            object="",
            message=_describe(command),
            reason=command["reason"],
            method=command["method"],
            candidates=[each["node"] for each in command["candidates"]],
            replacements=[each["name"] for each in command["replacements"]],
            savingsPerHour=command["savingsPerHour"],
            modelledPrices=has_modelled_price(command),
        )
        for command in commands
    ]


def _describe(command: Document) -> str:
    nodes = format_count(len(command["candidates"]), "node")
    verb = "replaced" if command["replacements"] else "removed"
    money = money_of_command(command)
    moves = format_count(command["evictions"], "pod")
    return f"{command['reason']}: {nodes} {verb}, {moves} moved, {money}"


def verdict_records(
    preview: DisruptionPreview, document: Document, steps: PreviewHistory
) -> Iterator[VerdictRecord]:
    for outcome, node in zip(preview.outcomes, document["nodes"], strict=True):
        yield VerdictRecord(
            at=0.0,
            node=steps.node_numbers[node["node"]],
            verdict=node["verdict"],
            reason=node["reason"],
            message=node["message"],
            change=suggest_change(verdict_facts(outcome)) or "",
            savingPerHour=node["savingPerHour"],
            modelledPrices=node["modelledPrice"],
            blockers=[BlockerInfo(**each) for each in node["blockers"]],
        )


def _notes(commands: Iterable[Document], steps: PreviewHistory) -> Iterator[NodeNote]:
    for command in commands:
        old = ", ".join(each["node"] for each in command["candidates"])
        for each in command["replacements"]:
            why = f"command {command['step']} launches it in place of {old}: {command['reason']}"
            types = len(each["options"]["instanceTypes"])
            yield NodeNote(
                node=steps.node_numbers[each["name"]],
                why=[why],
                elsewhere=[f"{format_count(types, 'instance type')} left that hold its pods"],
            )


def _totals(document: Document) -> Iterator[tuple[str, str]]:
    summary = document["summary"]
    before, after = summary["pricePerHourBefore"], summary["pricePerHourAfter"]
    modelled = has_modelled_prices(document)
    yield "now", _nodes_and_price(summary["nodesBefore"], before, modelled=modelled)
    yield "after", _nodes_and_price(summary["nodesAfter"], after, modelled=modelled)
    if summary["lowerBoundPerHour"] is not None:
        yield "lower bound", format_hourly(summary["lowerBoundPerHour"], modelled=modelled)
    yield "pods that move", f"{summary['evictions']:,}"
    for held in document["heldBy"]:
        nodes = format_count(held["nodes"], "node")
        saving = format_hourly(held["savingPerHour"], modelled=modelled)
        yield f"held by {held_words(held)}", f"{saving} on {nodes}"


def _nodes_and_price(nodes: int, price: float, *, modelled: bool) -> str:
    hourly, monthly = (each(price, modelled=modelled) for each in (format_hourly, format_monthly))
    return f"{format_count(nodes, 'node')} · {hourly} · {monthly}"
