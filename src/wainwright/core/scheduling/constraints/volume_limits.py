"""Volume attach limits: how many volumes of a CSI driver a node can attach.

Only existing nodes have them (CSINode); what a new node will report is not known before it starts.
"""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from wainwright.core.scheduling.constraints import NodeRejection
from wainwright.core.scheduling.forks import ForkedRows, Rows
from wainwright.model.bitset import BitSet, iter_bits, union
from wainwright.model.pod import VolumeAttachment
from wainwright.model.reasons import VolumeLimitExceeded
from wainwright.model.snapshot import Node

Attachments: TypeAlias = tuple[VolumeAttachment, ...]
AttachedVolumes: TypeAlias = dict[str, set[VolumeAttachment]]
"""The volumes of one node, by CSI driver."""


class NodeVolumes:
    """The volumes that are attached to each existing node."""

    __slots__ = ("_attached", "_changed", "_nodes")

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._attached: Rows[AttachedVolumes] = [_attached_volumes(node) for node in nodes]
        self._changed: ForkedRows[AttachedVolumes] | None = None
        """Of a fork: what it has instead of the rows that it shares."""

    def fork(self) -> "NodeVolumes":
        clone = NodeVolumes.__new__(NodeVolumes)
        clone._nodes = self._nodes
        clone._attached = clone._changed = ForkedRows(self._attached)
        return clone

    def admits(self, number: int, wanted: Attachments) -> bool:
        """Whether the node can attach the volumes; those already attached do not count again."""
        limits = self._nodes[number].attach_limits
        if not limits:
            return True
        attached = self._attached[number]
        for driver in {each.driver for each in wanted if each.driver in limits}:
            of_driver = {each for each in wanted if each.driver == driver}
            if len(of_driver | attached.get(driver, set())) > limits[driver]:
                return False
        return True

    def why(self, wanted: Attachments, among: BitSet) -> Iterator[NodeRejection]:
        """The nodes at the limit of a driver, driver by driver."""
        for driver in sorted({each.driver for each in wanted}):
            own = tuple(each for each in wanted if each.driver == driver)
            full = union(1 << number for number in iter_bits(among) if not self.admits(number, own))
            among ^= full
            yield full, VolumeLimitExceeded(driver=driver)

    def attach(self, number: int, volumes: Attachments) -> None:
        changed = self._changed
        if changed is not None and number not in changed:
            changed[number] = {driver: set(own) for driver, own in changed[number].items()}
        attached = self._attached[number]
        for each in volumes:
            attached.setdefault(each.driver, set()).add(each)


def _attached_volumes(node: Node) -> AttachedVolumes:
    attached: AttachedVolumes = {}
    for pod in node.pods:
        for each in pod.constraints.attachments:
            attached.setdefault(each.driver, set()).add(each)
    return attached
