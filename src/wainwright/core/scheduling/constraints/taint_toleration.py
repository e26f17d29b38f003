"""Taints and tolerations: which nodes, or which NodePool, a pod may be on."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from wainwright.core.scheduling.constraints import NodeRejection
from wainwright.model.bitset import BitSet, union
from wainwright.model.reasons import UntoleratedTaint
from wainwright.model.snapshot import Node
from wainwright.model.taints import (
    PREFER_NO_SCHEDULE,
    Taint,
    Toleration,
    TolerationOperator,
    find_untolerated_taint,
)


def admits(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> bool:
    """Whether every taint is tolerated; a preference counts until it is relaxed."""
    return find_untolerated_taint(taints, tolerations) is None


def admits_without_preferences(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> bool:
    """Whether every taint but PreferNoSchedule is tolerated."""
    return admits([each for each in taints if each.effect != PREFER_NO_SCHEDULE], tolerations)


def why(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> UntoleratedTaint | None:
    """The first taint that is not tolerated; None where all are."""
    taint = find_untolerated_taint(taints, tolerations)
    return None if taint is None else UntoleratedTaint(taint=taint)


class TolerablePools:
    """NodePools by their first taint: which of them a pod may tolerate, without trying each.

    With a thousand NodePools of a taint each and as many workloads, trying would be quadratic.
    """

    def __init__(self, taints: Sequence[Sequence[Taint]]) -> None:
        self._untainted = [number for number, each in enumerate(taints) if not each]
        self._by_key: dict[str, list[int]] = {}
        self._by_value: dict[tuple[str, str], list[int]] = {}
        for number, each in enumerate(taints):
            if each:
                first = each[0]
                self._by_key.setdefault(first.key, []).append(number)
                self._by_value.setdefault((first.key, first.value), []).append(number)

    def of(self, tolerations: Iterable[Toleration]) -> Iterable[int] | None:
        """The numbers of pools that may be tolerated; None for all of them."""
        if not self._by_key:
            return None
        found = set(self._untainted)
        for toleration in tolerations:
            if not toleration.key:
                return None
            if toleration.operator is TolerationOperator.EQUAL:
                found.update(self._by_value.get((toleration.key, toleration.value), ()))
            else:
                found.update(self._by_key.get(toleration.key, ()))
        return found


class NodeTaints:
    """The taints of existing nodes: nodes with equal ones are checked once."""

    __slots__ = ("_nodes_by_taints",)

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes_by_taints: dict[tuple[Taint, ...], BitSet] = {}
        for number, node in enumerate(nodes):
            taints = node.effective_taints
            self._nodes_by_taints[taints] = self._nodes_by_taints.get(taints, 0) | 1 << number

    def admits(self, tolerations: tuple[Toleration, ...]) -> BitSet:
        return self._nodes_with(lambda taints: admits(taints, tolerations))

    def admits_without_preferences(self, tolerations: tuple[Toleration, ...]) -> BitSet:
        return self._nodes_with(lambda taints: admits_without_preferences(taints, tolerations))

    def why(self, tolerations: tuple[Toleration, ...], among: BitSet) -> Iterator[NodeRejection]:
        for taints, nodes in self._nodes_by_taints.items():
            reason = why(taints, tolerations)
            if reason is not None:
                yield nodes & among, reason

    def _nodes_with(self, predicate: Callable[[tuple[Taint, ...]], bool]) -> BitSet:
        return union(nodes for taints, nodes in self._nodes_by_taints.items() if predicate(taints))
