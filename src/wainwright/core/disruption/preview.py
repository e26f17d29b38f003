"""What disruption would do to a cluster, command by command, until nothing is left to do.

Each command is applied before the next is sought. Every one but drift makes the cluster cheaper or
smaller, so that the sequence ends: a node cannot be replaced by what it was before.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum

import msgspec

from wainwright.core.disruption.budgets import DisruptionReason
from wainwright.core.disruption.candidates import (
    Blocker,
    BlockerCode,
    BlockerKind,
    Candidate,
    expires_at,
)
from wainwright.core.disruption.commands import Command, Outcome
from wainwright.core.disruption.disruption_input import (
    DEFAULT_DISRUPTION_OPTIONS,
    MAX_STEPS,
    DisruptionInput,
    DisruptionOptions,
)
from wainwright.core.disruption.disruption_pass import DisruptionPass
from wainwright.core.disruption.freeing_changes import RULE_BLOCKERS, RuleTrials, rule_blockers
from wainwright.core.disruption.lookahead import after_command, find_sequence
from wainwright.core.disruption.warnings import command_warnings
from wainwright.model.disruption import CommandWarning
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.snapshot import Node, Snapshot


class Fate(StrEnum):
    REMOVED = "removed"
    REPLACED = "replaced"
    KEPT = "kept"
    BLOCKED = "blocked"


class NodeOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a node, and why."""

    candidate: Candidate
    fate: Fate
    code: str
    """One word for the reason: underutilized, no-saving, do-not-disrupt-pod."""
    blocker: Blocker | None = None
    """The first of them, budgets and rules included."""
    rules: tuple[Blocker, ...] = ()
    """Rules that forbid what a simulation found, where that would save something."""
    saving: float | None = None
    """What would be saved but for the blockers, in USD per hour; None where nothing would."""
    max_nodes: int | None = None
    """How many nodes one command takes, where a node that could go waits because of it."""


class HeldSaving(msgspec.Struct, frozen=True, kw_only=True):
    """What a blocker holds back; a node with several counts under the first."""

    kind: BlockerKind
    name: str
    code: BlockerCode
    nodes: int
    saving: float


class DisruptionPreview(msgspec.Struct, frozen=True, kw_only=True):
    commands: tuple[Command, ...]
    outcomes: tuple[NodeOutcome, ...]
    """Of every managed node of the input, in the order of names."""
    settled: bool
    """Whether nothing was left to do."""
    looked_ahead: bool
    """Whether the commands are the best of several sequences; False where the cluster is too large
    to compare all of them.
    """
    after: Snapshot
    """The cluster after the last command."""
    state: DisruptionInput
    """The same as the last pass was given it: what would be changed in it can be looked at."""
    catalogs: Mapping[str, InstanceTypeIndex]
    """What can be launched then, by NodePool, reserved instances of removed nodes included."""
    price_before: float
    price_after: float
    has_modelled_prices: bool
    """Whether a price of a node before or after is an estimate, also of nodes that pending pods
    need first.
    """
    warnings: tuple[CommandWarning, ...] = ()

    @property
    def evictions(self) -> int:
        return sum(command.evictions for command in self.commands)

    @property
    def held(self) -> list[HeldSaving]:
        """The most expensive blocker first."""
        found: dict[tuple[BlockerKind, str, BlockerCode], HeldSaving] = {}
        for outcome in self.outcomes:
            blocker = outcome.blocker
            if outcome.fate in (Fate.BLOCKED, Fate.KEPT) and blocker is not None and outcome.saving:
                key = (blocker.kind, blocker.name, blocker.code)
                held = found.get(key) or HeldSaving(
                    kind=blocker.kind, name=blocker.name, code=blocker.code, nodes=0, saving=0.0
                )
                found[key] = msgspec.structs.replace(
                    held, nodes=held.nodes + 1, saving=held.saving + outcome.saving
                )
        return sorted(found.values(), key=lambda each: (-each.saving, each.kind, each.name))


def preview_disruption(
    given: DisruptionInput,
    options: DisruptionOptions = DEFAULT_DISRUPTION_OPTIONS,
    steps: int = MAX_STEPS,
    report: Callable[[Command], None] = lambda _: None,
) -> DisruptionPreview:
    """At most `steps` commands, and what becomes of every managed node.

    Each command is reported as soon as it is decided on.
    """
    first = DisruptionPass(given if given.is_live else _with_expired_deleted(given), options)
    sequence = find_sequence(first)
    commands = list(sequence.commands[:steps])
    for command in commands:
        report(command)
    current = DisruptionPass(sequence.states[len(commands)], options) if commands else first
    following = next(iter(sequence.commands[steps:]), None) or current.find_command()
    while following is not None and len(commands) < steps:
        commands.append(following)
        report(following)
        current = DisruptionPass(after_command(current, following), options)
        following = current.find_command()
    return _preview(first, current, commands, following, looked_ahead=sequence.compared)


def preview_command(
    given: DisruptionInput, options: DisruptionOptions, command: Command
) -> DisruptionPreview:
    """The preview of one step, whose command a controller has decided on."""
    first = DisruptionPass(given, options)
    current = DisruptionPass(after_command(first, command), options)
    return _preview(first, current, [command], current.find_command(), looked_ahead=False)


def _preview(
    first: DisruptionPass,
    current: DisruptionPass,
    commands: Sequence[Command],
    following: Command | None,
    *,
    looked_ahead: bool,
) -> DisruptionPreview:
    known = {node.name for node in first.given.snapshot.nodes}
    return DisruptionPreview(
        commands=tuple(commands),
        outcomes=tuple(
            each
            for each in _outcomes(first, current, commands, following)
            if each.candidate.name in known
        ),
        settled=following is None,
        looked_ahead=looked_ahead,
        after=current.snapshot,
        state=current.given,
        catalogs=current.given.catalogs,
        price_before=sum(each.price for each in first.candidates),
        price_after=sum(each.price for each in current.candidates if not each.node.deleting),
        has_modelled_prices=any(
            each.offering is not None and each.offering.modelled
            for each in (*first.candidates, *current.candidates)
        ),
        warnings=tuple(command_warnings(first.snapshot, commands)),
    )


def _with_expired_deleted(given: DisruptionInput) -> DisruptionInput:
    """Expired nodes go at once, without a command: nobody waits for their replacements."""
    now = given.snapshot.now

    def expire(node: Node) -> Node:
        expiry = expires_at(node)
        is_expired = expiry is not None and now is not None and expiry <= now
        return msgspec.structs.replace(node, deleting=True) if is_expired else node

    nodes = tuple(expire(node) for node in given.snapshot.nodes)
    return msgspec.structs.replace(
        given, snapshot=msgspec.structs.replace(given.snapshot, nodes=nodes)
    )


def node_outcomes(
    looked: DisruptionPass, found: Command | None, *, savings: bool = True
) -> list[NodeOutcome]:
    """What a pass over the cluster says of every managed node; `found` is what it would do.

    Without savings nothing is simulated that the pass has not simulated itself.
    """
    return [*_outcomes(looked, looked, (), found, savings=savings)]


def _outcomes(
    first: DisruptionPass,
    last: DisruptionPass,
    commands: Sequence[Command],
    following: Command | None,
    *,
    savings: bool = True,
) -> Iterable[NodeOutcome]:
    """Removed nodes by their command; the others by what the last pass found. A node that the
    command after the last step would take is kept with its reason.
    """
    held = _held_by_size(first, last, commands, following)

    def kept(outcome: NodeOutcome) -> NodeOutcome:
        is_held = outcome.fate is Fate.KEPT and outcome.candidate.name in held
        if not is_held:
            return outcome
        return msgspec.structs.replace(outcome, max_nodes=last.options.max_nodes)

    trials = RuleTrials(last.given, last.options) if savings else None
    gone = {each.name: command for command in commands for each in command.candidates}
    taken_next = {each.name for each in following.candidates} if following is not None else set()
    remaining = {each.name: each for each in last.candidates}
    for candidate in first.candidates:
        command = gone.get(candidate.name)
        if command is not None:
            fate = Fate.REPLACED if command.replacement_names else Fate.REMOVED
            yield NodeOutcome(candidate=candidate, fate=fate, code=command.reason.lower())
        elif following is not None and candidate.name in taken_next:
            code = following.reason.lower()
            yield kept(NodeOutcome(candidate=candidate, fate=Fate.KEPT, code=code))
        else:
            yield kept(_kept(remaining.get(candidate.name, candidate), last, trials))


def _held_by_size(
    first: DisruptionPass,
    last: DisruptionPass,
    commands: Sequence[Command],
    following: Command | None,
) -> set[str]:
    """Nodes that would go with the last command, or with the one after it, if these might take more
    nodes.
    """
    waiting = [] if following is None else last.waiting_for_room(following)
    waiting += first.waiting_for_room(commands[-1]) if commands else []
    return {each.name for each in waiting}


def _kept(candidate: Candidate, last: DisruptionPass, trials: RuleTrials | None) -> NodeOutcome:
    """Without trials nothing is simulated that the pass has not simulated itself."""
    blocker = _first_blocker(candidate, last, reservations=trials is not None)
    if blocker is None:
        code = _code_of_kept(candidate, last)
        kept = NodeOutcome(candidate=candidate, fate=Fate.KEPT, code=code)
        return kept if trials is None else _with_saving_of_rules(kept, trials)
    fate = Fate.REMOVED if blocker.code is BlockerCode.EXPIRED else Fate.BLOCKED
    saving = last.saving_without_blockers(candidate) if trials is not None else None
    return NodeOutcome(
        candidate=candidate, fate=fate, code=blocker.code.text, blocker=blocker, saving=saving
    )


def _with_saving_of_rules(kept: NodeOutcome, trials: RuleTrials) -> NodeOutcome:
    """A rule that forbids what would save something holds that back, as a blocker does."""
    rule = next((each for each in RULE_BLOCKERS if each.value == kept.code), None)
    lifted = None if rule is None else trials.lift(rule, kept.candidate.name)
    if lifted is None or lifted.command.saving <= 0:
        return kept
    rules = rule_blockers(kept.candidate, lifted)
    return msgspec.structs.replace(
        kept, blocker=rules[0], rules=rules, saving=lifted.command.saving
    )


def _code_of_kept(candidate: Candidate, last: DisruptionPass) -> str:
    """A node that can go although no command took it: steps or methods were limited. One of a
    static NodePool waits until that has room beside it.
    """
    if candidate.is_static:
        return BlockerCode.STATIC_POOL.text
    if candidate.is_empty:
        return DisruptionReason.EMPTY.lower()
    outcome = last.drift_outcome(candidate) or last.outcome(candidate)
    if isinstance(outcome, Outcome):
        return outcome.value
    return outcome.reason.lower()


def _first_blocker(
    candidate: Candidate, last: DisruptionPass, *, reservations: bool
) -> Blocker | None:
    """An expired node is being deleted in the preview: what counts is why."""
    others = last.other_blockers(candidate, reservations=reservations)
    blockers = [*candidate.blockers, *others]
    expired = [each for each in blockers if each.code is BlockerCode.EXPIRED]
    return next(iter([*expired, *sorted(blockers, key=lambda each: each.code)]), None)
