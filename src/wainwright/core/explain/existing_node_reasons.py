"""Why no existing node takes a pod: one reason for each node, nodes with equal reasons together.

A pod is asked about as it was tried: with the preferences it had not given up by then, and
with the domains that other pods left to it.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeAlias

import msgspec

from wainwright.core.scheduling.existing_nodes import ExistingNodes
from wainwright.core.scheduling.pod_requirements import PodClass, PodRequirements, RelaxationLevel
from wainwright.core.scheduling.topology.allowed_domains import AllowedDomains, allowed_domains
from wainwright.core.scheduling.topology.topology import Topology
from wainwright.model.bitset import BitSet, iter_bits
from wainwright.model.pod import Pod
from wainwright.model.reasons import (
    InsufficientResource,
    LaterAlternative,
    NodeAffinityMismatch,
    NodeHostPortsTaken,
    NodeReason,
    NodeTerminating,
    NodeVerdict,
    NodeViolatesTopology,
    PreferencesNotRelaxed,
    RelaxedPreference,
    UntoleratedTaint,
    VolumeLimitExceeded,
)
from wainwright.model.requirements import Requirements
from wainwright.model.snapshot import Node
from wainwright.model.taints import find_untolerated_taint


class PlacementAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """What nodes and pools are asked for."""

    stage: RelaxationLevel
    wishes: tuple[PodRequirements, ...]
    """The alternatives in question, of those that the stage has."""
    limits: AllowedDomains | None = None
    """What others leave it; None where it minds nobody, or where they leave it nothing."""

    @property
    def nodes(self) -> BitSet:
        """The nodes where others let it be."""
        if self.stage.bound is None:
            return -1
        return 0 if self.limits is None else self.limits.nodes

    @property
    def new_node_will_do(self) -> bool:
        return self.stage.bound is None or bool(self._options)

    @property
    def later(self) -> tuple[PodRequirements, ...]:
        """The alternatives of the stage that are tried only after these."""
        return self.stage.wishes[self.stage.wishes.index(self.wishes[-1]) + 1 :]

    def narrow_pod(self, pod: Pod) -> Pod:
        """The pod as if it required all of that, as pools are asked."""
        places = tuple(wish.ask.requirements for wish in self.wishes)
        narrowed = tuple(dict.fromkeys(p.narrow(o) for p in places for o in self._options))
        tolerations = self.wishes[0].ask.tolerations
        return msgspec.structs.replace(
            pod, alternatives=narrowed or places, tolerations=tolerations
        )

    @property
    def _options(self) -> list[Requirements]:
        """What is required of a new node besides, in one way or another."""
        limits = self.limits
        return [] if limits is None or limits.near_a_node else limits.options


UntriedAttempt: TypeAlias = tuple[PlacementAttempt, tuple[RelaxedPreference, ...]]
"""What is asked for after something else, and what is given up for it."""


def existing_node_verdicts(
    nodes: ExistingNodes,
    group: PodClass,
    attempt: PlacementAttempt,
    resources: list[str],
    instead: Iterable[UntriedAttempt] = (),
) -> tuple[NodeVerdict, ...]:
    """For each node the first reason, by the first of the alternatives in question.

    `instead` has what would have been asked for next, and what that would have come to.
    """
    found = _NodeFilter(nodes, group, attempt.wishes[0], resources)
    verdicts: list[NodeVerdict] = []
    for then, untried in instead:
        verdicts += found.would_accept(then, untried)
    verdicts += found.verdicts(attempt.nodes)
    return tuple(sorted(verdicts, key=lambda one: -one.nodes))


def deleting_node_verdicts(nodes: Iterable[Node]) -> tuple[NodeVerdict, ...]:
    """Those that are being deleted, of which no plan knows anything."""
    count = sum(node.deleting for node in nodes)
    return (NodeVerdict(nodes=count, reason=NodeTerminating()),) if count else ()


def untried_attempts(
    group: PodClass, attempt: PlacementAttempt, topology: Topology | None
) -> Iterator[UntriedAttempt]:
    """What a pod that found a place would have asked for next, had it found none.

    Whatever it gives up, it minds nobody whom it did not mind before: where these are is known, so
    that nothing has to settle for the sake of the question.
    """
    if attempt.later:
        yield msgspec.structs.replace(attempt, wishes=attempt.later), ()
    for stage in group.stages[group.stages.index(attempt.stage) + 1 :]:
        limits = None
        if stage.bound is not None and topology is not None:
            limits = allowed_domains(stage.bound, topology.domains)
        given_up = stage.given_up[len(attempt.stage.given_up) :]
        yield PlacementAttempt(stage=stage, wishes=stage.wishes, limits=limits), given_up


class _NodeFilter:
    """One alternative of a pod against all existing nodes."""

    def __init__(
        self, nodes: ExistingNodes, group: PodClass, wish: PodRequirements, resources: list[str]
    ) -> None:
        self.nodes = nodes
        self.group = group
        self.wish = wish
        self.resources = resources
        self.left: BitSet = nodes.everything

    def would_accept(
        self, then: PlacementAttempt, given_up: tuple[RelaxedPreference, ...]
    ) -> Iterator[NodeVerdict]:
        """The nodes that would have taken it."""
        for wish in then.wishes:
            other = _NodeFilter(self.nodes, self.group, wish, self.resources)
            other.left = self.left
            list(other.verdicts(then.nodes))
            for row in islice(iter_bits(other.left), 1):
                name = self.nodes.nodes[row].name
                reason = (
                    PreferencesNotRelaxed(node=name, preferences=given_up)
                    if given_up
                    else LaterAlternative(node=name)
                )
                yield from self._verdict(other.left, reason)

    def verdicts(self, open_to: BitSet) -> Iterator[NodeVerdict]:
        """`open_to` are those where others let it be."""
        yield from self._tainted()
        yield from self._labelled(self.wish.ask.requirements)
        yield from self._short()
        yield from self._ports()
        yield from self._volumes()
        yield from self._verdict(self.left ^ (self.left & open_to), NodeViolatesTopology())

    def _verdict(self, refused: BitSet, reason: NodeReason) -> Iterator[NodeVerdict]:
        refused &= self.left
        self.left ^= refused
        if refused:
            yield NodeVerdict(nodes=refused.bit_count(), reason=reason)

    def _tainted(self) -> Iterator[NodeVerdict]:
        for taints, rows in self.nodes.by_taints.items():
            taint = find_untolerated_taint(taints, self.wish.ask.tolerations)
            if taint is not None:
                yield from self._verdict(rows, UntoleratedTaint(taint=taint))

    def _labelled(self, wanted: Requirements) -> Iterator[NodeVerdict]:
        for key in wanted:
            fine = self.nodes.labelled(wanted.without(set(wanted) - {key}))
            yield from self._verdict(self.left ^ (self.left & fine), NodeAffinityMismatch(key=key))

    def _short(self) -> Iterator[NodeVerdict]:
        for column, amount in self.wish.amounts:
            lacking = {
                number: amount - self.nodes.free_of(number, column)
                for number in iter_bits(self.left)
                if self.nodes.free_of(number, column) < amount
            }
            if lacking:
                nearest = min(lacking, key=lambda number: (lacking[number], number))
                reason = InsufficientResource(
                    resource=self.resources[column],
                    short=lacking[nearest],
                    node=self.nodes.nodes[nearest].name,
                )
                yield from self._verdict(sum(1 << number for number in lacking), reason)

    def _ports(self) -> Iterator[NodeVerdict]:
        ports = self.wish.ask.ports
        numbers = tuple(sorted({port.port for port in ports}))
        yield from self._verdict(self.nodes.clashing(ports), NodeHostPortsTaken(ports=numbers))

    def _volumes(self) -> Iterator[NodeVerdict]:
        for driver in sorted({each.driver for each in self.group.attachments}):
            own = tuple(each for each in self.group.attachments if each.driver == driver)
            full = sum(
                1 << number
                for number in iter_bits(self.left)
                if not self.nodes.attachable(number, own)
            )
            yield from self._verdict(full, VolumeLimitExceeded(driver=driver))
