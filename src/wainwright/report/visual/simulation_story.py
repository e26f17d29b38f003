"""A simulation as a story: its result as the JSON has it, and the history beside it."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from wainwright.api.karpenter.nodepool import NodePool
from wainwright.messages.formatting import format_count, format_hourly
from wainwright.model.cluster_history import ClusterHistory, NodeRecord
from wainwright.model.simulation import (
    BindEntry,
    ConditionEntry,
    DisruptEntry,
    EventEntry,
    InterruptEntry,
    LabelEntry,
    LaunchEntry,
    SimulationResult,
    TimelineEntry,
)
from wainwright.report.simulation_comparison import (
    SimulationComparison,
    compared_names,
    comparison_answer,
    comparison_rows,
)
from wainwright.report.simulation_lines import answer, duration_of, findings, total_rows
from wainwright.report.visual.story import (
    Comparison,
    FindingInfo,
    MomentUnit,
    NodeNote,
    PoolInfo,
    Report,
    Story,
    StoryKind,
    VerdictRecord,
)
from wainwright.sim.node_info import amounts

LEFT_OUT: Final = (BindEntry, LabelEntry, ConditionEntry)
NOMINATED_CLAIM: Final = "nodeclaim/"
VERDICT_EVENTS: Final = {"Unconsolidatable": "kept", "DisruptionBlocked": "blocked"}


def simulation_story(
    result: SimulationResult, history: ClusterHistory, pools: Sequence[PoolInfo], name: str = ""
) -> Story:
    """`name` tells two stories of a comparison apart."""
    return Story(
        kind=StoryKind.SIMULATION,
        name=name or result.scenario,
        answer=answer(result, name),
        unit=MomentUnit.SECONDS,
        start=result.start,
        end=duration_of(result),
        opensAt=_opening_moment(result, history),
        pools=list(pools),
        history=history,
        series=result.series,
        events=[entry for entry in result.timeline if not isinstance(entry, LEFT_OUT)],
        verdicts=[*_Verdicts(result, history)],
        notes=[*_launch_notes(result, history)],
        totals=total_rows(result),
        findings=[FindingInfo(text=each.text, held=each.held) for each in findings(result)],
        warnings=list(dict.fromkeys(result.warnings)),
        figures=msgspec.to_builtins(result.totals),
    )


def pool_infos(pools: Iterable[NodePool]) -> list[PoolInfo]:
    """By weight, as they are asked."""
    infos = [
        PoolInfo(
            name=pool.metadata.name,
            weight=pool.spec.weight or 0,
            limits=amounts(pool.spec.limits),
        )
        for pool in pools
    ]
    return sorted(infos, key=lambda pool: (-pool.weight, pool.name))


def comparison_report(
    comparison: SimulationComparison, stories: Sequence[Story], version: str
) -> Report:
    _, *rows = comparison_rows(comparison)
    shown = Comparison(
        answer=comparison_answer(comparison), names=compared_names(comparison), rows=rows
    )
    return Report(version=version, stories=list(stories), comparison=shown)


def _opening_moment(result: SimulationResult, history: ClusterHistory) -> float | None:
    """The removal of a node at which pods are pending and reserved instances are idle as well, so
    that the first screen answers why of each; of several the one that saves most.

    Else when most nodes are there: the end of a quiet night shows little.
    """
    series = result.series
    if not series.nodes:
        return None
    removals = [entry for entry in result.timeline if isinstance(entry, DisruptEntry)]
    telling = {entry.at: _tells(entry.at, result, history) for entry in removals}
    best = max(
        removals, key=lambda entry: (telling[entry.at], entry.savingsPerHour or 0.0), default=None
    )
    if best is not None and telling[best.at]:
        return best.at
    return series.at[series.nodes.index(max(series.nodes))]


def _tells(at: float, result: SimulationResult, history: ClusterHistory) -> int:
    """How much of this there is to explain at a moment: pending pods, idle reservations."""
    series = result.series
    pending = series.pods.pending[bisect_right(series.at, at) - 1]
    idle = any(
        next((idle for since, _, _, idle in reversed(each.counts) if since <= at), 0)
        for each in history.reservations
    )
    return bool(pending) + idle


class _Verdicts:
    """What the controllers said of nodes, in the order of moments."""

    def __init__(self, result: SimulationResult, history: ClusterHistory) -> None:
        self._timeline = result.timeline
        self._by_name: dict[str, list[int]] = {}
        self._by_claim: dict[str, int] = {}
        for number, node in enumerate(history.nodes):
            self._by_name.setdefault(node.name, []).append(number)
            if node.claim:
                self._by_claim[node.claim] = number
        self._nodes: list[NodeRecord] = history.nodes

    def __iter__(self) -> Iterator[VerdictRecord]:
        for entry in self._timeline:
            match entry:
                case EventEntry(reason=reason) if reason in VERDICT_EVENTS:
                    yield from self._event(entry)
                case DisruptEntry():
                    yield from self._command(entry)
                case InterruptEntry():
                    yield from self._verdict(entry, "interrupted", entry.message)
                case ConditionEntry(type="Drifted", status="True"):
                    yield from self._verdict(entry, "drifted", entry.message or entry.reason)
                case _:
                    pass

    def _event(self, entry: EventEntry) -> Iterator[VerdictRecord]:
        """What is said of a claim is said of its node, too."""
        if entry.object.startswith("Node/"):
            yield from self._verdict(entry, VERDICT_EVENTS[entry.reason], entry.message)

    def _command(self, entry: DisruptEntry) -> Iterator[VerdictRecord]:
        verdict = "replaced" if entry.replacements else "removed"
        for claim in entry.candidates:
            number = self._by_claim.get(claim)
            if number is not None:
                yield VerdictRecord(
                    at=entry.at,
                    node=number,
                    verdict=verdict,
                    reason=entry.reason,
                    message=_describe_command(entry),
                    savingPerHour=entry.savingsPerHour,
                    modelledPrices=entry.modelledPrices,
                )

    def _verdict(self, entry: TimelineEntry, verdict: str, text: str) -> Iterator[VerdictRecord]:
        number = self._number_of(entry)
        if number is not None:
            reason = getattr(entry, "reason", "")
            yield VerdictRecord(
                at=entry.at, node=number, verdict=verdict, reason=reason, message=text
            )

    def _number_of(self, entry: TimelineEntry) -> int | None:
        kind, _, name = entry.object.partition("/")
        if kind == "NodeClaim":
            return self._by_claim.get(name)
        there = [each for each in self._by_name.get(name, ()) if self._is_there(each, entry.at)]
        return there[-1] if there else None

    def _is_there(self, number: int, at: float) -> bool:
        return self._nodes[number].exists_at(at)


def _describe_command(entry: DisruptEntry) -> str:
    count = len(entry.candidates)
    with_others = f" with {format_count(count - 1, 'other node')}" if count > 1 else ""
    verb = "replaced" if entry.replacements else "removed"
    by = f" by {', '.join(entry.replacements)}" if entry.replacements else ""
    money = ""
    if entry.savingsPerHour is not None:
        saved = entry.savingsPerHour
        amount = format_hourly(abs(saved), modelled=entry.modelledPrices)
        money = f", saves {amount}" if saved >= 0 else f", costs {amount} more"
    return f"{entry.reason}: {verb}{with_others}{by} ({entry.method}){money}"


def _launch_notes(result: SimulationResult, history: ClusterHistory) -> Iterator[NodeNote]:
    """Why each node was launched: for which pods, or in place of which nodes."""
    numbers = {node.id: number for number, node in enumerate(history.nodes)}
    pods: dict[str, int] = {}
    replaced: dict[str, DisruptEntry] = {}
    launches: list[LaunchEntry] = []
    for entry in result.timeline:
        match entry:
            case EventEntry(reason="Nominated"):
                claim = entry.message.rpartition(NOMINATED_CLAIM)[2]
                pods[claim] = pods.get(claim, 0) + 1
            case DisruptEntry():
                replaced |= dict.fromkeys(entry.replacements, entry)
            case LaunchEntry():
                launches.append(entry)
            case _:
                pass
    for launch in launches:
        number = numbers.get(launch.instance)
        if number is not None:
            claim = launch.object.rpartition("/")[2]
            why = _why_launched(launch, pods.get(claim, 0), replaced.get(claim))
            yield NodeNote(node=number, why=why, elsewhere=_launch_options(launch))


def _why_launched(launch: LaunchEntry, pods: int, command: DisruptEntry | None) -> list[str]:
    pool = f"NodePool {launch.nodePool}" if launch.nodePool else "a NodePool"
    if command is not None:
        old = ", ".join(command.candidates)
        return [f"launched by {pool} in place of {old}: {command.reason}, {command.method}"]
    if pods:
        return [f"launched by {pool} for {format_count(pods, 'pending pod')}"]
    return [f"launched by {pool}"]


def _launch_options(launch: LaunchEntry) -> list[str]:
    """What else EC2 could have chosen of the request."""
    held = [each for each in launch.templates if each is not None]
    if held:
        return [f"the request was for reserved instances only ({', '.join(held)})"]
    if launch.types <= 1:
        return ["the request held no other instance type"]
    return [f"EC2 chose it among {format_count(launch.types, 'instance type')} of the request"]
