"""Volume attach limits: how many volumes of a CSI driver a node can attach.

An existing node reports them (CSINode). What a new one will report is not known before it starts:
it is taken to have the limits of `PlanOptions.attach_limits`, so that no node is planned for more
volumes than others of the cluster can attach.
"""

from collections.abc import Iterator, Mapping, Sequence
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

    __slots__ = ("_attached", "_changed", "_limits")

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._limits: list[Mapping[str, int]] = [node.attach_limits for node in nodes]
        self._attached: Rows[AttachedVolumes] = [_attached_volumes(node) for node in nodes]
        self._changed: ForkedRows[AttachedVolumes] | None = None
        """Of a fork: what it has instead of the rows that it shares."""

    def fork(self) -> "NodeVolumes":
        clone = NodeVolumes.__new__(NodeVolumes)
        clone._limits = self._limits
        clone._attached = clone._changed = ForkedRows(self._attached)
        return clone

    def assume(self, nodes: Sequence[Node], limits: Mapping[str, int]) -> None:
        """Limits of those that have not started far enough to report theirs; not for forks."""
        for number, node in enumerate(nodes):
            if not node.initialized and not node.attach_limits:
                self._limits[number] = limits

    def admits(self, number: int, wanted: Attachments) -> bool:
        """Whether the node can attach the volumes; those already attached do not count again."""
        limits = self._limits[number]
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


class DraftVolumes:
    """The volumes of the pods of each draft, where drafts have limits.

    Drafts are found by how many volumes they have, and the few that share one with the pod are
    looked at one by one: to look at all for each pod would cost as much as all other checks.
    """

    __slots__ = ("_attached", "_by_count", "_holders", "limits")

    def __init__(self, limits: Mapping[str, int]) -> None:
        self.limits = limits
        self._attached: dict[BitSet, AttachedVolumes] = {}
        self._by_count: dict[str, list[BitSet]] = {driver: [0] for driver in limits}
        """By driver: the drafts that have so many of its volumes; none of those without any."""
        self._holders: dict[VolumeAttachment, BitSet] = {}

    def too_full(self, wanted: Attachments) -> BitSet:
        """Drafts that cannot attach all of the volumes beside those that they have."""
        found = 0
        for driver, limit in self.limits.items():
            own = {each for each in wanted if each.driver == driver}
            if own:
                full = union(self._by_count[driver][max(0, limit - len(own) + 1) :])
                sharing = full & union(self._holders.get(each, 0) for each in own)
                for number in iter_bits(sharing):
                    if len(own | self._attached[1 << number][driver]) <= limit:
                        full ^= 1 << number
                found |= full
        return found

    def attach(self, draft: BitSet, volumes: Attachments) -> None:
        attached = self._attached.setdefault(draft, {})
        for each in volumes:
            own = attached.setdefault(each.driver, set())
            if each.driver in self.limits and each not in own:
                self._raise_count(draft, each.driver, len(own))
                own.add(each)
                self._holders[each] = self._holders.get(each, 0) | draft

    def _raise_count(self, draft: BitSet, driver: str, count: int) -> None:
        levels = self._by_count[driver]
        if count:
            levels[count] ^= draft
        if count + 1 == len(levels):
            levels.append(0)
        levels[count + 1] |= draft


def _attached_volumes(node: Node) -> AttachedVolumes:
    attached: AttachedVolumes = {}
    for pod in node.pods:
        for each in pod.constraints.attachments:
            attached.setdefault(each.driver, set()).add(each)
    return attached
