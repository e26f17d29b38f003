"""One node explained: its cost, its pods, where they could go, and what would free the node.

A node that a command takes is explained by that command. Any other is explained in the cluster that
is left when nothing remains to be done: there its removal is simulated once more, with the reasons
of pods that would have no place.
"""

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from math import fsum
from typing import Any, Final

import msgspec

from wainwright.core.disruption.candidates import is_initialized
from wainwright.core.disruption.commands import Command, DisruptionInput, DisruptionOptions
from wainwright.core.disruption.disruption_pass import DisruptionPass
from wainwright.core.disruption.preview import DisruptionPreview, Fate, NodeOutcome
from wainwright.core.removal_simulation import ClusterSimulator
from wainwright.disruption_verdicts import verdict_facts
from wainwright.errors import UsageError
from wainwright.messages.disruption import describe_verdict, suggest_change
from wainwright.messages.formatting import (
    MODELLED_PRICES,
    format_count,
    format_hourly,
    format_monthly,
    join_first,
    join_with_and,
)
from wainwright.model.disruption import NO_MINIMUM_SAVING
from wainwright.model.plan import ClusterLimits, PlannedNodeClaim, UnschedulableGroup
from wainwright.model.snapshot import Pool
from wainwright.report.consolidation_json import claim_name, node_document
from wainwright.report.plan_input import PlanInput
from wainwright.report.plan_json import unschedulable_documents
from wainwright.report.pod_explanation import unschedulable_lines

Document = dict[str, Any]

MAX_NAMED_PODS: Final = 5  # of one destination; the JSON has all of them
MAX_SIMILAR_NAMES: Final = 3


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
    """The one change that would free the node."""

    text: str
    saving: float | None = None
    """USD per hour; None where it was not tried."""


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
    document = node_document(outcome, replacements)
    explanation: Document = {
        "apiVersion": "wainwright.dev/v1alpha1",
        "kind": "NodeExplanation",
        **document,
        "pods": _pod_documents(removal),
        "removable": _is_gone(outcome),
        "change": None if change is None else change.text,
        "savingPerHour": document["savingPerHour"] if change is None else change.saving,
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
    return f"there are {join_first(sorted(known))}" if known else "it has none of a NodePool"


class _NodeExplainer:
    def __init__(self, given: PlanInput, preview: DisruptionPreview) -> None:
        assert given.consolidation is not None
        self._options = given.consolidation.options
        self._preview = preview
        self._state = msgspec.structs.replace(
            given.disruption, snapshot=preview.after, catalogs=preview.catalogs
        )

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
        return self._simulate(outcome.candidate.name)

    def _simulate(self, name: str) -> Removal:
        simulator = ClusterSimulator(self._state.snapshot, self._state.catalogs, self._options.plan)
        closed = simulator.nodes_where(lambda node: not is_initialized(node))
        simulated = simulator.simulation_of(simulator.solve_without([name], closed))
        placed = {each.node: each.pods for each in simulated.placements}
        return Removal(
            destinations=(
                *(Destination(name=node, pods=pods) for node, pods in placed.items()),
                *(
                    Destination(name=each.name, pods=each.pods, claim=each)
                    for each in simulated.claims
                ),
            ),
            unplaced=simulator.explain_removal([name], with_suggestions=True),
        )

    def change(self, outcome: NodeOutcome, removal: Removal) -> NodeChange | None:
        facts = verdict_facts(outcome)
        if outcome.fate is Fate.BLOCKED:
            return _change_of_blockers(outcome)
        if outcome.code == "pods-would-be-pending":
            return _suggested_change(removal)
        text = suggest_change(facts)
        saving = self._trial(outcome)
        return None if text is None or saving is None else NodeChange(text=text, saving=saving)

    def _trial(self, outcome: NodeOutcome) -> float | None:
        """What removing the node saves after the change; None where it does not help."""
        changed = _without_reason(outcome.code, self._state, self._options)
        if changed is None:
            return None
        looked = DisruptionPass(*changed)
        candidate = next(each for each in looked.candidates if each.name == outcome.candidate.name)
        found = looked.outcome(candidate)
        return found.saving if isinstance(found, Command) else None


def _without_reason(
    code: str, state: DisruptionInput, options: DisruptionOptions
) -> tuple[DisruptionInput, DisruptionOptions] | None:
    """The same cluster as if what the code speaks of had been changed."""
    replace = msgspec.structs.replace
    rules = replace(options.rules, spot_to_spot=True, spot_to_spot_types=1)
    match code:
        case "needs-several-nodes":
            return state, replace(options, allow_split=True)
        case "spot-to-spot":
            pools = _changed_pools(state, spot_to_spot_types=1)
            return pools, replace(options, rules=rules)
        case "min-saving":
            pools = _changed_pools(state, minimum_saving=NO_MINIMUM_SAVING)
            return pools, replace(options, minimum_saving=NO_MINIMUM_SAVING)
        case "balanced-score":
            return _changed_pools(state, policy="WhenEmptyOrUnderutilized"), options
        case "limits":
            plan = replace(options.plan, cluster_limits=ClusterLimits())
            unlimited = [replace(pool, limits={}) for pool in state.snapshot.pools]
            return _with_pools(state, unlimited), replace(options, plan=plan)
        case _:
            return None


def _changed_pools(state: DisruptionInput, **fields: Any) -> DisruptionInput:
    replace = msgspec.structs.replace
    pools = [
        replace(pool, disruption=replace(pool.disruption, **fields))
        for pool in state.snapshot.pools
    ]
    return _with_pools(state, pools)


def _with_pools(state: DisruptionInput, pools: Iterable[Pool]) -> DisruptionInput:
    snapshot = msgspec.structs.replace(state.snapshot, pools=tuple(pools))
    return msgspec.structs.replace(state, snapshot=snapshot)


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


def _change_of_blockers(outcome: NodeOutcome) -> NodeChange | None:
    """All of them have to go; where there are several, no single change will do."""
    facts = verdict_facts(outcome)
    codes = dict.fromkeys(each.code for each in facts.blockers)
    changes = [suggest_change(msgspec.structs.replace(facts, code=code)) for code in codes]
    known = [each for each in changes if each is not None]
    if not known or len(known) < len(changes):
        return None
    return NodeChange(text=join_with_and(known), saving=outcome.saving)


def _suggested_change(removal: Removal) -> NodeChange | None:
    """A suggestion that was tried, if it is for every unschedulable pod."""
    documents = unschedulable_documents(removal.unplaced)
    texts = dict.fromkeys(each["suggestion"] for each in documents)
    if len(texts) != 1 or None in texts:
        return None
    return NodeChange(text=next(iter(texts)))


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
    if _is_gone(outcome):
        return
    if change is None:
        claims = [each.claim for each in removal.destinations if each.claim is not None]
        if outcome.code == "no-saving" and claims:
            yield f"  nothing to change: {_compare_prices(outcome, claims)}"
        else:
            yield "  no single change that would free it is known"
        return
    saved = ""
    if change.saving is not None:
        modelled = verdict_facts(outcome).modelled
        saved = f" (saves {format_hourly(change.saving, modelled=modelled)})"
    yield f"  to free it: {change.text}{saved}"


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
