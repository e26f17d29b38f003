"""Refusals: why no node of the cluster takes a pod, with equal reasons put together."""

from collections.abc import Iterator

from wainwright.core.nodes import NodeTable
from wainwright.core.placing import Placing
from wainwright.core.wishes import PodClass, Stage, Wish
from wainwright.model.columns import Rows, row_numbers
from wainwright.model.reason import Untolerated
from wainwright.model.refusal import (
    NodeReason,
    NodeVerdict,
    OtherLabels,
    OutOfBounds,
    PortTaken,
    TooLittle,
    TooManyVolumes,
)
from wainwright.model.requirements import Requirements
from wainwright.model.taints import untolerated


def refusals(placing: Placing, group: PodClass, resources: list[str]) -> tuple[NodeVerdict, ...]:
    """For each node the first reason, by the alternative that the pod would like best."""
    nodes = placing.nodes
    if not nodes.nodes or not group.stages:
        return ()
    stage = group.stages[-1]
    found = list(_Refused(nodes, group, stage.wishes[0], resources).by(placing, stage))
    return tuple(sorted(found, key=lambda one: -one.nodes))


class _Refused:
    """One wish before all nodes."""

    def __init__(self, nodes: NodeTable, group: PodClass, wish: Wish, resources: list[str]) -> None:
        self.nodes = nodes
        self.group = group
        self.wish = wish
        self.resources = resources
        self.left: Rows = nodes.everything

    def by(self, placing: Placing, stage: Stage) -> Iterator[NodeVerdict]:
        yield from self._tainted()
        yield from self._labelled(self.wish.ask.requirements)
        yield from self._short()
        yield from self._ports()
        yield from self._volumes()
        if self.left and stage.bound is not None and placing.topology is not None:
            limits = placing.topology.restriction(stage.bound)
            open_to = 0 if limits is None else limits.nodes
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
