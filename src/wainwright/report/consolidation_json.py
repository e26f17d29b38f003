"""What disruption would do as one JSON object, described by docs/consolidation.schema.json."""

from collections.abc import Iterable, Iterator
from typing import Any

from wainwright.core.disruption.candidates import Candidate
from wainwright.core.disruption.commands import Command, UnavailableReplacement
from wainwright.core.disruption.preview import DisruptionPreview, HeldSaving, NodeOutcome
from wainwright.disruption_verdicts import verdict_facts
from wainwright.messages.disruption import (
    describe_blocker,
    describe_verdict,
    describe_warning,
)
from wainwright.messages.formatting import join_first
from wainwright.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, RESERVATION_ID, ZONE
from wainwright.model.snapshot import Node
from wainwright.report.plan_input import PlanInput
from wainwright.report.plan_json import claim_document, options_document

Document = dict[str, Any]


def consolidation_document(
    given: PlanInput, preview: DisruptionPreview, lower_bound: float | None
) -> Document:
    """What `wain consolidate -o json` prints."""
    shows_time = given.consolidation is None or given.consolidation.shows_time
    warnings = [*given.input_notes, *given.warnings, *consolidation_warnings(preview)]
    replacements = _replacements_by_node(preview.commands)
    return {
        "apiVersion": "wainwright.dev/v1alpha1",
        "kind": "Consolidation",
        **({"now": given.now} if shows_time else {}),
        "commands": [_command(n, each) for n, each in enumerate(preview.commands, start=1)],
        "nodes": [
            node_document(each, replacements.get(each.candidate.name, ()))
            for each in preview.outcomes
        ],
        "heldBy": [_held(each) for each in preview.held],
        "summary": _summary(preview, lower_bound),
        "warnings": list(dict.fromkeys(warnings)),
    }


def _replacements_by_node(commands: Iterable[Command]) -> dict[str, tuple[str, ...]]:
    return {
        candidate.name: command.replacement_names
        for command in commands
        for candidate in command.candidates
    }


def _command(step: int, command: Command) -> Document:
    return {
        "step": step,
        "method": command.method.value,
        "reason": command.reason.value,
        "decision": "replace" if command.replacement_names else "delete",
        "candidates": [_candidate(each) for each in command.candidates],
        "replacements": [
            *(claim_document(each) for each in command.replacements),
            *(_unavailable(each) for each in command.unavailable),
        ],
        "moves": [
            {"pod": move.pod, "from": move.source, "to": move.target}
            for move in sorted(command.moves(), key=lambda move: move.pod)
        ],
        "pricePerHourBefore": command.price_before,
        "pricePerHourAfter": command.price_after,
        "savingsPerHour": command.saving,
        "evictions": command.evictions,
    }


def _unavailable(replacement: UnavailableReplacement) -> Document:
    """As a planned node, but nothing can be said of the instance."""
    return {
        "name": replacement.name,
        "nodePool": replacement.node.pool,
        "instanceType": None,
        "zone": None,
        "capacityType": None,
        "reservationID": None,
        "pricePerHour": None,
        "modelledPrice": False,
        "feesPerHour": 0.0,
        "round": 1,
        "options": options_document(replacement.choices),
        "requests": {},
        "pods": list(replacement.pods),
        "relaxed": [],
    }


def _candidate(candidate: Candidate) -> Document:
    return {
        **_instance(candidate),
        "disruptionCost": candidate.cost,
        "pods": sorted(pod.key for pod in candidate.pods),
    }


def _instance(candidate: Candidate) -> Document:
    node = candidate.node
    return {
        "node": node.name,
        "nodeClaim": claim_name(node),
        "nodePool": node.pool,
        "instanceType": node.labels.get(INSTANCE_TYPE),
        "zone": node.labels.get(ZONE),
        "capacityType": node.labels.get(CAPACITY_TYPE),
        "reservationID": node.labels.get(RESERVATION_ID) or node.reservation_id,
        "pricePerHour": None if candidate.offering is None else candidate.price,
        "modelledPrice": candidate.offering is not None and candidate.offering.modelled,
    }


def claim_name(node: Node) -> str:
    """A node without a NodeClaim stands for its own."""
    return node.claim.name if node.claim is not None else node.name


def node_document(outcome: NodeOutcome, replacements: tuple[str, ...] = ()) -> Document:
    facts = verdict_facts(outcome, replacements)
    return {
        **_instance(outcome.candidate),
        "pods": len(outcome.candidate.pods),
        "verdict": outcome.fate.value,
        "reason": outcome.code,
        "message": describe_verdict(facts),
        "blockers": [
            {"kind": each.kind, "name": each.name, "message": describe_blocker(each, facts)}
            for each in facts.blockers
        ],
        "savingPerHour": outcome.saving,
    }


def _held(held: HeldSaving) -> Document:
    return {
        "kind": held.kind.value,
        "name": held.name,
        "reason": held.code.text,
        "nodes": held.nodes,
        "savingPerHour": held.saving,
    }


def _summary(preview: DisruptionPreview, lower_bound: float | None) -> Document:
    managed = [node for node in preview.after.nodes if node.managed]
    after = sum(not node.deleting for node in managed)
    removed = sum(len(command.candidates) for command in preview.commands)
    launched = sum(len(command.replacement_names) for command in preview.commands)
    bound = None if lower_bound is None else min(lower_bound, preview.price_after)
    return {
        "nodesBefore": len(managed) + removed - launched,
        "nodesAfter": after,
        "pricePerHourBefore": preview.price_before,
        "pricePerHourAfter": preview.price_after,
        "savingsPerHour": preview.price_before - preview.price_after,
        "evictions": preview.evictions,
        "settled": preview.settled,
        "lookedAhead": preview.looked_ahead,
        "lowerBoundPerHour": bound,
        "modelledPrices": preview.has_modelled_prices,
    }


def consolidation_warnings(preview: DisruptionPreview) -> list[str]:
    """What somebody should know before such commands are carried out."""
    return [
        *_unclaimed_nodes(preview),
        *map(describe_warning, preview.warnings),
    ]


def _unclaimed_nodes(preview: DisruptionPreview) -> Iterator[str]:
    names = [each.candidate.name for each in preview.outcomes if each.candidate.node.claim is None]
    if names:
        nodes = "1 node has" if len(names) == 1 else f"{len(names):,} nodes have"
        own = "counts as its own" if len(names) == 1 else "count as their own"
        yield f"{nodes} no NodeClaim and {own}: {join_first(names)}"
