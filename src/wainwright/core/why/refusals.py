"""Refusals: why no node of the cluster takes a pod, with equal reasons put together."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeAlias

import msgspec

from wainwright.core.nodes import NodeTable
from wainwright.core.topology.restriction import restriction
from wainwright.core.topology.topology import Topology
from wainwright.core.why.asked import Asked
from wainwright.core.wishes import PodClass, Wish
from wainwright.model.columns import Rows, row_numbers
from wainwright.model.node import Node
from wainwright.model.preference import GivenUp
from wainwright.model.reason import Untolerated
from wainwright.model.refusal import (
    Later,
    Leaving,
    NodeReason,
    NodeVerdict,
    NotGivenUp,
    OtherLabels,
    OutOfBounds,
    PortTaken,
    TooLittle,
    TooManyVolumes,
)
from wainwright.model.requirements import Requirements
from wainwright.model.taints import untolerated

Instead: TypeAlias = tuple[Asked, tuple[GivenUp, ...]]
"""What is asked for after something else, and what is given up for it."""


def refusals(
    nodes: NodeTable,
    group: PodClass,
    asked: Asked,
    resources: list[str],
    instead: Iterable[Instead] = (),
) -> tuple[NodeVerdict, ...]:
    """For each node the first reason, by the first of the alternatives in question.

    `instead` has what would have been asked for next, and what that would have come to.
    """
    found = _Refused(nodes, group, asked.wishes[0], resources)
    verdicts: list[NodeVerdict] = []
    for then, untried in instead:
        verdicts += found.but_for(then, untried)
    verdicts += found.by(asked.nodes)
    return tuple(sorted(verdicts, key=lambda one: -one.nodes))


def leaving(nodes: Iterable[Node]) -> tuple[NodeVerdict, ...]:
    """Those that are being deleted, of which no plan knows anything."""
    count = sum(node.deleting for node in nodes)
    return (NodeVerdict(nodes=count, reason=Leaving()),) if count else ()


def not_tried(group: PodClass, asked: Asked, topology: Topology | None) -> Iterator[Instead]:
    """What a pod that found a place would have asked for next, had it found none.

    Whatever it gives up, it minds nobody whom it did not mind before: where these are is known, so
    that nothing has to settle for the sake of the question.
    """
    if asked.later:
        yield msgspec.structs.replace(asked, wishes=asked.later), ()
    for stage in group.stages[group.stages.index(asked.stage) + 1 :]:
        limits = None
        if stage.bound is not None and topology is not None:
            limits = restriction(stage.bound, topology.domains)
        given_up = stage.given_up[len(asked.stage.given_up) :]
        yield Asked(stage=stage, wishes=stage.wishes, limits=limits), given_up


class _Refused:
    """One wish before all nodes."""

    def __init__(self, nodes: NodeTable, group: PodClass, wish: Wish, resources: list[str]) -> None:
        self.nodes = nodes
        self.group = group
        self.wish = wish
        self.resources = resources
        self.left: Rows = nodes.everything

    def but_for(self, then: Asked, given_up: tuple[GivenUp, ...]) -> Iterator[NodeVerdict]:
        """The nodes that would have taken it."""
        for wish in then.wishes:
            other = _Refused(self.nodes, self.group, wish, self.resources)
            other.left = self.left
            list(other.by(then.nodes))
            for row in islice(row_numbers(other.left), 1):
                name = self.nodes.nodes[row].name
                reason = NotGivenUp(node=name, given_up=given_up) if given_up else Later(node=name)
                yield from self._verdict(other.left, reason)

    def by(self, open_to: Rows) -> Iterator[NodeVerdict]:
        """`open_to` are those where others let it be."""
        yield from self._tainted()
        yield from self._labelled(self.wish.ask.requirements)
        yield from self._short()
        yield from self._ports()
        yield from self._volumes()
        yield from self._verdict(self.left ^ (self.left & open_to), OutOfBounds())

    def _verdict(self, refused: Rows, reason: NodeReason) -> Iterator[NodeVerdict]:
        refused &= self.left
        self.left ^= refused
        if refused:
            yield NodeVerdict(nodes=refused.bit_count(), reason=reason)

    def _tainted(self) -> Iterator[NodeVerdict]:
        for taints, rows in self.nodes.by_taints.items():
            taint = untolerated(taints, self.wish.ask.tolerations)
            if taint is not None:
                yield from self._verdict(rows, Untolerated(taint=taint))

    def _labelled(self, wanted: Requirements) -> Iterator[NodeVerdict]:
        for key in wanted:
            fine = self.nodes.labelled(wanted.without(set(wanted) - {key}))
            yield from self._verdict(self.left ^ (self.left & fine), OtherLabels(key=key))

    def _short(self) -> Iterator[NodeVerdict]:
        for column, amount in self.wish.amounts:
            lacking = {
                number: amount - self.nodes.free_of(number, column)
                for number in row_numbers(self.left)
                if self.nodes.free_of(number, column) < amount
            }
            if lacking:
                nearest = min(lacking, key=lambda number: (lacking[number], number))
                reason = TooLittle(
                    resource=self.resources[column],
                    short=lacking[nearest],
                    node=self.nodes.nodes[nearest].name,
                )
                yield from self._verdict(sum(1 << number for number in lacking), reason)

    def _ports(self) -> Iterator[NodeVerdict]:
        ports = self.wish.ask.ports
        numbers = tuple(sorted({port.port for port in ports}))
        yield from self._verdict(self.nodes.clashing(ports), PortTaken(ports=numbers))

    def _volumes(self) -> Iterator[NodeVerdict]:
        for driver in sorted({each.driver for each in self.group.attachments}):
            own = tuple(each for each in self.group.attachments if each.driver == driver)
            full = sum(
                1 << number
                for number in row_numbers(self.left)
                if not self.nodes.attachable(number, own)
            )
            yield from self._verdict(full, TooManyVolumes(driver=driver))
