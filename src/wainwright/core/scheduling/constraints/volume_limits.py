"""Volume attach limits: how many volumes of a CSI driver a node can attach.

An existing node reports them (CSINode), and that is what counts. What a node attaches that has not
started far enough is expected of its instance type: what other nodes of the type report, else what
`PlanOptions.attach_limits` states, else what the catalogue knows of the type, else the lowest that
any node reports.

Volumes make no new node larger: it takes no more of them than the cheapest type attaches that its
first pod could have, as the few types that attach many more are the largest. Only a pod that has
so many volumes itself gets one of these.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from sys import maxsize
from typing import Final, TypeAlias

from wainwright.core.scheduling.constraints import NodeRejection
from wainwright.core.scheduling.forks import ForkedRows, Rows
from wainwright.model.bitset import (
    AmountTable,
    BitSet,
    amount_table,
    iter_bits,
    largest_amount,
    union,
)
from wainwright.model.instance_type import InstanceType
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import INSTANCE_TYPE
from wainwright.model.plan import DEFAULT_PLAN_OPTIONS, PlanOptions
from wainwright.model.pod import VolumeAttachment
from wainwright.model.reasons import TooManyVolumes, VolumeLimitExceeded
from wainwright.model.snapshot import Node

Attachments: TypeAlias = tuple[VolumeAttachment, ...]
AttachedVolumes: TypeAlias = dict[str, set[VolumeAttachment]]
"""The volumes of one node, by CSI driver."""
AttachLimits: TypeAlias = Mapping[str, int]
"""By CSI driver; one that is not listed has no known limit."""

NO_VOLUMES: Final[AttachedVolumes] = {}
UNLIMITED: Final = maxsize


class ExpectedLimits:
    """What nodes are expected to attach that have not reported it."""

    __slots__ = ("_lowest", "_reported", "_stated")

    def __init__(self, options: PlanOptions) -> None:
        self._stated = dict(options.attach_limits)
        self._reported: dict[str, dict[str, int]] = {}
        self._lowest: dict[str, int] = {}
        for name, driver, limit in options.reported_attach_limits:
            self._reported.setdefault(name, {})[driver] = limit
            self._lowest[driver] = min(limit, self._lowest.get(driver, limit))

    @property
    def drivers(self) -> frozenset[str]:
        """Those with a limit whatever the instance type."""
        return frozenset(self._stated) | frozenset(self._lowest)

    def of_type(self, instance_type: InstanceType) -> AttachLimits:
        return self.of_name(instance_type.name, instance_type.attach_limits)

    def of_name(self, name: str, known: AttachLimits) -> AttachLimits:
        """Of a type; `known` is what the catalogue has."""
        return {**self._lowest, **known, **self._stated, **self._reported.get(name, {})}


class TypeVolumeLimits:
    """How many volumes of each driver nodes of the types of one catalogue are expected to attach.

    Tables are made when a pod with volumes of the driver asks for them.
    """

    __slots__ = ("_expected", "_index", "_limits", "_tables")

    def __init__(self, index: InstanceTypeIndex, expected: ExpectedLimits) -> None:
        self._index, self._expected = index, expected
        self._limits: dict[str, list[int]] = {}
        """By driver, in the order of types."""
        self._tables: dict[str, AmountTable] = {}

    @property
    def drivers(self) -> frozenset[str]:
        """The drivers of which any type has a limit."""
        return self._expected.drivers | self._index.limited_drivers

    def admits_types(
        self, types: BitSet, wanted: Attachments, attached: AttachedVolumes = NO_VOLUMES
    ) -> BitSet:
        """Those of the types that can attach the volumes beside those that the node has."""
        for driver, count in volumes_after(wanted, attached):
            amounts, having = self._table(driver)
            types &= having[bisect_left(amounts, count)]
        return types

    def of_cheapest(self, driver: str, types: BitSet) -> int:
        """How many the cheapest of the types attaches."""
        return self._of_types(driver)[(types & -types).bit_length() - 1]

    def why(self, types: BitSet, wanted: Attachments) -> TooManyVolumes:
        """The driver of which all these types attach too few, and the type that attaches most."""
        driver, count = next(
            (driver, count)
            for driver, count in volumes_after(wanted, NO_VOLUMES)
            if largest_amount(self._table(driver), types) < count
        )
        amounts, having = self._table(driver)
        best = largest_amount((amounts, having), types)
        number = next(iter_bits(types & having[bisect_left(amounts, best)]))
        name = self._index.types[number].name
        return TooManyVolumes(driver=driver, needed=count, best=best, instance_type=name)

    def of_node(self, node: Node) -> AttachLimits:
        """Of a node of the NodePool that has not reported its own."""
        name = node.labels.get(INSTANCE_TYPE, "")
        found = self._index.find(name)
        return self._expected.of_name(name, {} if found is None else found.attach_limits)

    def _table(self, driver: str) -> AmountTable:
        table = self._tables.get(driver)
        if table is None:
            by_limit: dict[int, BitSet] = {}
            for number, limit in enumerate(self._of_types(driver)):
                by_limit[limit] = by_limit.get(limit, 0) | 1 << number
            table = self._tables[driver] = amount_table(by_limit)
        return table

    def _of_types(self, driver: str) -> list[int]:
        limits = self._limits.get(driver)
        if limits is None:
            of_type = self._expected.of_type
            limits = [of_type(each).get(driver, UNLIMITED) for each in self._index.types]
            self._limits[driver] = limits
        return limits


def volumes_after(wanted: Attachments, attached: AttachedVolumes) -> Iterator[tuple[str, int]]:
    """By driver how many volumes the node would have; shared ones count once."""
    for driver in sorted({each.driver for each in wanted}):
        own = {each for each in wanted if each.driver == driver}
        yield driver, len(own | attached.get(driver, own))


CATALOGUE_LIMITS: Final = ExpectedLimits(DEFAULT_PLAN_OPTIONS)
"""Where nothing but the catalogue is known."""


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

    @property
    def drivers(self) -> frozenset[str]:
        """The drivers of which any node has a limit."""
        return frozenset[str]().union(*filter(None, self._limits))

    def expect(
        self,
        nodes: Sequence[Node],
        by_pool: Mapping[str, TypeVolumeLimits],
        expected: ExpectedLimits,
    ) -> None:
        """Limits of those that have not started far enough to report theirs; not for forks."""
        for number, node in enumerate(nodes):
            if not node.initialized and not node.attach_limits:
                of_pool = by_pool.get(node.pool or "")
                name = node.labels.get(INSTANCE_TYPE, "")
                self._limits[number] = (
                    expected.of_name(name, {}) if of_pool is None else of_pool.of_node(node)
                )

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
    """The drafts by how many more volumes they can attach, for those that have any.

    It rules out the full ones at once: to try each of them for each pod would cost as much as all
    other checks.
    """

    __slots__ = ("_by_room", "_holders", "_room")

    def __init__(self) -> None:
        self._by_room: dict[str, dict[int, BitSet]] = {}
        """By driver: the drafts that can attach exactly so many more."""
        self._room: dict[tuple[str, BitSet], int] = {}
        self._holders: dict[VolumeAttachment, BitSet] = {}
        """The drafts that a volume is attached to already."""

    def too_full(self, wanted: Attachments) -> BitSet:
        """Drafts that cannot attach all of the volumes beside those that they have."""
        found = 0
        for driver, count in volumes_after(wanted, NO_VOLUMES):
            by_room = self._by_room.get(driver)
            if by_room is not None:
                full = union(by_room.get(room, 0) for room in range(count))
                if full:
                    own = (each for each in wanted if each.driver == driver)
                    full ^= full & union(self._holders.get(each, 0) for each in own)
                found |= full
        return found

    def hold(self, draft: BitSet, volumes: Attachments) -> None:
        """These volumes are attached to the draft now."""
        for each in volumes:
            self._holders[each] = self._holders.get(each, 0) | draft

    def set_room(self, draft: BitSet, driver: str, more: int) -> None:
        """How many volumes of the driver the draft can attach from now on."""
        by_room, before = self._by_room.setdefault(driver, {}), self._room.get((driver, draft))
        if before is not None:
            by_room[before] ^= draft
        self._room[driver, draft] = more
        by_room[more] = by_room.get(more, 0) | draft


def _attached_volumes(node: Node) -> AttachedVolumes:
    attached: AttachedVolumes = {}
    for pod in node.pods:
        for each in pod.constraints.attachments:
            attached.setdefault(each.driver, set()).add(each)
    return attached
