"""One node explained: its cost, its pods, where they could go, and what would free the node.

A node that a command takes is explained by that command. Any other is explained in the cluster that
is left when nothing remains to be done: there its removal is simulated once more, with the reasons
of pods that would have no place.
"""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from math import fsum
from typing import Any, Final

import msgspec

from wainwright.core.disruption.candidates import BlockerCode, Candidate
from wainwright.core.disruption.commands import Command, Outcome
from wainwright.core.disruption.disruption_pass import DisruptionPass
from wainwright.core.disruption.freeing_changes import ChangeFinder
from wainwright.core.disruption.preview import DisruptionPreview, Fate, NodeOutcome
from wainwright.disruption_verdicts import verdict_facts
from wainwright.errors import UsageError
from wainwright.messages.disruption import (
    GONE_REASONS,
    describe_change,
    describe_reason,
    describe_verdict,
    suggest_change,
)
from wainwright.messages.formatting import (
    MODELLED_PRICES,
    format_count,
    format_hourly,
    format_monthly,
    join_first,
    join_with_and,
)
from wainwright.messages.suggestions import describe_fixes
from wainwright.model.plan import PlannedNodeClaim, UnschedulableGroup
from wainwright.report.consolidation_json import claim_name, node_document
from wainwright.report.consolidation_rows import SMALLEST_SHOWN
from wainwright.report.plan_input import PlanInput
from wainwright.report.plan_json import unschedulable_documents
from wainwright.report.pod_explanation import unschedulable_lines

Document = dict[str, Any]

MAX_NAMED_PODS: Final = 5  # of one destination; the JSON has all of them
MAX_SIMILAR_NAMES: Final = 3
KEPT_CODES: Final = frozenset(each.value for each in Outcome)
UNTRIED_CODES: Final = frozenset(
    each.text for each in (BlockerCode.STATIC_POOL, BlockerCode.NOT_OURS, BlockerCode.UNKNOWN_PRICE)
)
"""Blockers without which the node is another one: what that saves cannot be simulated."""
NOTHING_TO_CHANGE: Final = {
    BlockerCode.DELETING.text: "it goes by itself",
    BlockerCode.NOT_INITIALIZED.text: "nothing is decided before it is initialized",
    BlockerCode.NOMINATED.text: "pending pods need its room",
}
"""What passes by itself, and says more than that no change is known."""


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    """Where pods of the node would go."""

    name: str
    pods: tuple[str, ...]
    claim: PlannedNodeClaim | None = None
    """Set for a new node."""


class Removal(msgspec.Struct, frozen=True, kw_only=True):
    """What would become of the pods if the node were removed."""

    destinations: tuple[Destination, ...] = ()
    unplaced: tuple[UnschedulableGroup, ...] = ()


class NodeChange(msgspec.Struct, frozen=True, kw_only=True):
    """The one change that would free the node, or the obstacle that is left after it."""

    text: str
    saving: float | None = None
    """USD per hour, negative where a drifted node costs less than its replacement; None where it
    is not known.
    """
    obstacle: str = ""
    """Why the node stays all the same; the change is no answer then."""


def explain_node(given: PlanInput, preview: DisruptionPreview, name: str) -> Document:
    """The explanation, as `wain explain node -o json` prints it.

    Raises UsageError with similar names for a node that the input does not have.
    """
    outcome = _find_outcome(given, preview, name)
    explainer = _NodeExplainer(given, preview)
    command = explainer.command_of(outcome)
    removal = explainer.removal(outcome, command)
    replacements = () if command is None else command.replacement_names
    change = None if _is_gone(outcome) else explainer.change(outcome, removal)
    freeing = change if change is not None and not change.obstacle else None
    document = node_document(outcome, replacements)
    explanation: Document = {
        "apiVersion": "wainwright.dev/v1alpha1",
        "kind": "NodeExplanation",
        **document,
        "pods": _pod_documents(removal),
        "removable": _is_gone(outcome),
        "change": None if freeing is None else freeing.text,
        "savingPerHour": document["savingPerHour"] if freeing is None else freeing.saving,
        "lines": [
            *_title_lines(outcome, command, preview, replacements),
            *_cost_lines(outcome),
            *_content_lines(outcome, preview),
            *_removal_lines(outcome, removal),
            *_change_lines(outcome, change, removal),
        ],
    }
    if any("~$" in line for line in explanation["lines"]):
        explanation["lines"].append(f"  {MODELLED_PRICES}")
    return explanation


def _is_gone(outcome: NodeOutcome) -> bool:
    return outcome.fate in (Fate.REMOVED, Fate.REPLACED)


def _find_outcome(given: PlanInput, preview: DisruptionPreview, name: str) -> NodeOutcome:
    for outcome in preview.outcomes:
        if name in (outcome.candidate.name, claim_name(outcome.candidate.node)):
            return outcome
    if any(node.name == name for node in given.snapshot.nodes):
        raise UsageError(
            f"node {name} belongs to no NodePool", "only nodes of NodePools are ever disrupted"
        )
    known = [each.candidate.name for each in preview.outcomes]
    known += [claim_name(each.candidate.node) for each in preview.outcomes]
    raise UsageError(f"the input has no node {name}", _similar_names(name, list(set(known))))


def _similar_names(name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name, sorted(known), n=MAX_SIMILAR_NAMES, cutoff=0.6)
    close = close or [each for each in sorted(known) if name in each][:MAX_SIMILAR_NAMES]
    if close:
        return f"did you mean {' or '.join(close)}?"
    if known:
        return f"the input has {join_first(sorted(known))}"
    return "no Node of the input belongs to a NodePool"


class _NodeExplainer:
    def __init__(self, given: PlanInput, preview: DisruptionPreview) -> None:
        assert given.consolidation is not None
        self._preview = preview
        self._looked = DisruptionPass(preview.state, given.consolidation.options)
        self._changes = ChangeFinder(preview.state, given.consolidation.options)

    def command_of(self, outcome: NodeOutcome) -> Command | None:
        """The command that takes the node."""
        name = outcome.candidate.name
        return next(
            (
                command
                for command in self._preview.commands
                if any(each.name == name for each in command.candidates)
            ),
            None,
        )

    def removal(self, outcome: NodeOutcome, command: Command | None) -> Removal:
        if command is not None:
            return _removal_of_command(outcome, command)
        if not outcome.candidate.pods or outcome.candidate.node.deleting:
            return Removal()
        return self._simulate(outcome.candidate)

    def _simulate(self, candidate: Candidate) -> Removal:
        explained = self._looked.explain_removal(candidate)
        placed = {each.node: each.pods for each in explained.simulation.placements}
        return Removal(
            destinations=(
                *(Destination(name=node, pods=pods) for node, pods in placed.items()),
                *(
                    Destination(name=each.name, pods=each.pods, claim=each)
                    for each in explained.simulation.claims
                ),
            ),
            unplaced=explained.unplaced,
        )

    def change(self, outcome: NodeOutcome, removal: Removal) -> NodeChange | None:
        if outcome.fate is Fate.BLOCKED:
            return self._change_of_blockers(outcome)
        if outcome.code not in KEPT_CODES:
            return None
        settled = self._changes.settled_change(outcome.candidate)
        if settled is not None:
            return NodeChange(text=describe_change(settled), saving=settled.saving)
        if outcome.code == Outcome.PODS_WOULD_BE_PENDING:
            return self._suggested_change(outcome, removal)
        if len(outcome.rules) > 1:
            return _change_of_rules(outcome)
        found = self._changes.rule_change(outcome.candidate, Outcome(outcome.code))
        if found is None:
            return None
        return NodeChange(text=describe_change(found), saving=found.saving)

    def _change_of_blockers(self, outcome: NodeOutcome) -> NodeChange | None:
        """All of them have to go; where there are several, no single change will do."""
        codes = {each.code.text for each in outcome.candidate.blockers}
        text = _suggest_all(outcome)
        if text is None:
            return None
        if outcome.saving is not None or not UNTRIED_CODES.isdisjoint(codes):
            return NodeChange(text=text, saving=outcome.saving)
        return self._without_blockers(outcome, text)

    def _without_blockers(self, outcome: NodeOutcome, text: str) -> NodeChange:
        """A drifted node goes whatever it saves; any other would still have to save something."""
        candidate = outcome.candidate
        drifted = self._looked.drift_without_blockers(candidate)
        found = self._looked.outcome(candidate) if drifted is None else drifted
        if isinstance(found, Command):
            return NodeChange(text=text, saving=found.saving)
        return NodeChange(text=text, obstacle=_reason_of(outcome, found))

    def _suggested_change(self, outcome: NodeOutcome, removal: Removal) -> NodeChange | None:
        """A suggestion that places every pod without a place, tried with the removal."""
        documents = unschedulable_documents(removal.unplaced)
        texts = dict.fromkeys(each["suggestion"] for each in documents)
        if len(texts) != 1 or None in texts:
            return None
        suggested = [each.suggestion for each in removal.unplaced if each.suggestion is not None]
        fixes = dict.fromkeys(fix for each in suggested for fix in each.changes)
        pods = [pod for each in removal.unplaced for pod in each.pods]
        found = self._changes.try_fixes(outcome.candidate.name, fixes, pods)
        text = describe_fixes(fixes)
        if isinstance(found, Command):
            return NodeChange(text=text, saving=found.saving)
        return NodeChange(text=text, obstacle=_reason_of(outcome, found))


def _change_of_rules(outcome: NodeOutcome) -> NodeChange | None:
    text = _suggest_all(outcome)
    return None if text is None else NodeChange(text=text, saving=outcome.saving)


def _suggest_all(outcome: NodeOutcome) -> str | None:
    """A change for each blocker; None where one of them cannot be changed."""
    facts = verdict_facts(outcome)
    codes = dict.fromkeys(each.code for each in facts.blockers)
    changes = [suggest_change(msgspec.structs.replace(facts, code=code)) for code in codes]
    known = [each for each in changes if each is not None]
    return join_with_and(known) if known and len(known) == len(changes) else None


def _reason_of(outcome: NodeOutcome, left: Outcome) -> str:
    """Why the node stays although what kept it at first is gone."""
    facts = verdict_facts(outcome)
    return describe_reason(msgspec.structs.replace(facts, code=left.value, blockers=()))


def _removal_of_command(outcome: NodeOutcome, command: Command) -> Removal:
    claims = {claim.name: claim for claim in command.replacements}
    targets: dict[str, list[str]] = {}
    for move in sorted(command.moves(), key=lambda each: (each.target, each.pod)):
        if move.source == outcome.candidate.name:
            targets.setdefault(move.target, []).append(move.pod)
    return Removal(
        destinations=tuple(
            Destination(name=name, pods=tuple(pods), claim=claims.get(name))
            for name, pods in targets.items()
        )
    )


def _title_lines(
    outcome: NodeOutcome,
    command: Command | None,
    preview: DisruptionPreview,
    replacements: tuple[str, ...],
) -> Iterator[str]:
    name, facts = outcome.candidate.name, verdict_facts(outcome, replacements)
    verb = {Fate.REMOVED: "can be removed", Fate.REPLACED: "can be replaced"}.get(
        outcome.fate, "is kept"
    )
    yield f"{name} {verb}: {describe_verdict(msgspec.structs.replace(facts, saving=None))}"
    if command is not None:
        step, others = preview.commands.index(command) + 1, len(command.candidates) - 1
        beside = f", with {format_count(others, 'other node')}" if others else ""
        money = _money_of_command(command)
        yield f"  by command {step} ({command.method.value}){beside}, which {money}"


def _money_of_command(command: Command) -> str:
    if command.unavailable:
        return "needs capacity that is not offered now"
    if command.saving < 0:
        return f"costs {format_hourly(-command.saving, modelled=command.has_modelled_prices)} more"
    return f"saves {format_hourly(command.saving, modelled=command.has_modelled_prices)}"


def _cost_lines(outcome: NodeOutcome) -> Iterator[str]:
    candidate = outcome.candidate
    document = node_document(outcome)
    keys = ("instanceType", "capacityType", "reservationID", "zone")
    what = " ".join(str(document[key]) for key in keys if document[key]) or "an unknown type"
    price = "price unknown: the catalogue has none"
    if candidate.offering is not None:
        modelled = candidate.offering.modelled
        hourly = format_hourly(candidate.price, modelled=modelled)
        price = f"{hourly}, {format_monthly(candidate.price, modelled=modelled)}"
    yield f"  {what} of NodePool {candidate.node.pool}: {price}"


def _content_lines(outcome: NodeOutcome, preview: DisruptionPreview) -> Iterator[str]:
    """Of a node that stays, with what the commands moved there."""
    node = outcome.candidate.node
    moved = [pod for pod in node.pods if pod.is_rescheduled]
    other = len(node.pods) - len(moved)
    if not node.pods:
        yield "  no pod is on it"
        return
    parts = [f"{len(moved):,} to reschedule"] if moved else []
    parts += [f"{other:,} of DaemonSets or static"] if other else []
    is_later = preview.commands and not _is_gone(outcome)
    commands = format_count(len(preview.commands), "command")
    yield f"  pods{f' after {commands}' if is_later else ''}: {join_with_and(parts)}"


def _removal_lines(outcome: NodeOutcome, removal: Removal) -> Iterator[str]:
    moves = "moves" if _is_gone(outcome) else "would move"
    many = "move" if _is_gone(outcome) else "would move"
    if not _is_gone(outcome) and (removal.destinations or removal.unplaced):
        yield "  without this node"
    for each in removal.destinations:
        names = join_first(each.pods, MAX_NAMED_PODS)
        yield f"    {names} {moves if len(each.pods) == 1 else many} to {_describe_target(each)}"
    for row in unschedulable_documents(removal.unplaced):
        yield from (f"    {line}" for line in unschedulable_lines(row))


def _describe_target(destination: Destination) -> str:
    claim = destination.claim
    if claim is None:
        return destination.name
    launch = claim.launch
    reserved = f" {launch.reservation_id}" if launch.reservation_id else ""
    return (
        f"{claim.name}, a new {launch.instance_type} {launch.capacity_type}{reserved} in "
        f"{launch.zone or 'any zone'} for "
        f"{format_hourly(launch.price, modelled=launch.modelled_price)}"
    )


def _change_lines(
    outcome: NodeOutcome, change: NodeChange | None, removal: Removal
) -> Iterator[str]:
    if _is_gone(outcome) or outcome.code in GONE_REASONS:
        return
    if change is None:
        claims = [each.claim for each in removal.destinations if each.claim is not None]
        if outcome.code == "no-saving" and claims:
            yield f"  nothing to change: {_compare_prices(outcome, claims)}"
        elif outcome.code in NOTHING_TO_CHANGE:
            yield f"  nothing to change: {NOTHING_TO_CHANGE[outcome.code]}"
        else:
            yield "  no single change that would free it is known"
        return
    if change.obstacle:
        yield (
            "  no single change that would free it is known: "
            f"if you {change.text}, it is kept because {change.obstacle}"
        )
        return
    yield f"  to free it{_saved_by(change, outcome)}: {change.text}"


def _saved_by(change: NodeChange, outcome: NodeOutcome) -> str:
    if change.saving is None:
        return ""
    if abs(change.saving) < SMALLEST_SHOWN:
        return " (saves nothing)"
    modelled = verdict_facts(outcome).modelled
    amount = format_hourly(abs(change.saving), modelled=modelled)
    return f" (costs {amount} more)" if change.saving < 0 else f" (saves {amount})"


def _compare_prices(outcome: NodeOutcome, claims: Sequence[PlannedNodeClaim]) -> str:
    """a new node for its pod costs $0.096/h, as much as this node"""
    candidate = outcome.candidate
    price = fsum(each.launch.price for each in claims)
    modelled = any(each.launch.modelled_price for each in claims)
    new = "a new node" if len(claims) == 1 else f"{len(claims):,} new nodes"
    pods = "its pod" if len(candidate.pods) == 1 else "its pods"
    verb = "costs" if len(claims) == 1 else "cost"
    own = format_hourly(candidate.price, modelled=verdict_facts(outcome).modelled)
    total = format_hourly(price, modelled=modelled)
    return f"{new} for {pods} {verb} {total}, and this node costs {own}"


def _pod_documents(removal: Removal) -> list[Document]:
    placed = [
        {"pod": pod, "to": each.name, "newNode": each.claim is not None, "unschedulable": None}
        for each in removal.destinations
        for pod in each.pods
    ]
    unplaced = [
        {"pod": row["pod"], "to": None, "newNode": False, "unschedulable": row}
        for row in unschedulable_documents(removal.unplaced)
    ]
    return sorted([*placed, *unplaced], key=lambda each: str(each["pod"]))
