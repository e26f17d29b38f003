"""Pod classes: pods that ask the same are one class, and every answer is worked out once.

An ask is what is wanted of a node besides room; a wish is an ask with the room it needs; a class
has one wish for each alternative that its pods put up with.
"""

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, TypeAlias

from wainwright.core.answer import Answer, Terms
from wainwright.core.reservations import Ids
from wainwright.model.columns import Rows
from wainwright.model.pod import Pod
from wainwright.model.requirements import Requirements
from wainwright.model.resources import PODS, Resources
from wainwright.model.taints import Toleration

FIRST: Final = itemgetter(0)
NOTHING_YET: Final[Mapping[int, Any]] = {}  # shared, as most wishes never learn anything

Amounts: TypeAlias = tuple[tuple[int, int], ...]
"""Number of the resource and how much of it; only what is more than nothing."""


class Ask:
    """Requirements and tolerations of some pods, and what has been found out about them."""

    __slots__ = ("nodes", "refused_by", "rejected", "requirements", "terms", "tolerations")

    def __init__(self, requirements: Requirements, tolerations: tuple[Toleration, ...]) -> None:
        self.requirements = requirements
        self.tolerations = tolerations
        self.terms: list[Terms | None] = []
        """For each pool under which terms it takes such pods; None where it does not."""
        self.refused_by: tuple[int, ...] = ()
        self.nodes: Rows = 0
        """The nodes of the cluster whose labels and taints are fine."""
        self.rejected: Rows = 0
        """The drafts whose requirements or types are not."""


class Wish:
    """An ask that needs so much room."""

    __slots__ = (
        "amounts",
        "answers",
        "ask",
        "columns",
        "full",
        "rejected",
        "room",
        "short",
        "short_nodes",
    )

    def __init__(self, ask: Ask, amounts: Amounts, columns: tuple[int, ...]) -> None:
        self.ask = ask
        self.amounts = amounts
        self.columns = columns
        self.rejected: Rows = 0
        """The drafts that have refused it; they only ever get fuller."""
        self.full: Rows = 0
        """The same for nodes."""
        self.short: Sequence[tuple[list[Rows], int]] = ()
        """Where the slack index lists the drafts that are too full."""
        self.short_nodes: Sequence[tuple[list[Rows], int]] = ()
        self.room: Mapping[int, Rows] = NOTHING_YET
        """By pool: the types with the labels and the room."""
        self.answers: Mapping[int, tuple[int, Answer]] = NOTHING_YET
        """By pool: what it last said to a new node, and at which stamp."""


class PodClass:
    """Pods that cannot be told apart by where they fit."""

    __slots__ = (
        "needs",
        "number",
        "pods",
        "requests",
        "slot_stamp",
        "slot_weight",
        "stamp",
        "wishes",
    )

    def __init__(self, number: int, wishes: tuple[Wish, ...], requests: Resources) -> None:
        self.number = number
        self.wishes = wishes
        self.requests = requests
        self.pods: list[Pod] = []
        self.stamp = -1
        """When it was last found that nothing takes its pods; nothing has changed until then."""
        self.needs: Ids = 0
        """The reservations of which any slot would do, once it waits for nothing else."""
        self.slot_stamp = -1
        self.slot_weight = -1
        """The highest weight of a pool that has, or may yet have, a reserved slot for its pods."""


class Classes:
    """Sorts pods into classes."""

    def __init__(self, pods: Iterable[Pod]) -> None:
        self.all: list[PodClass] = []
        self.asks: dict[tuple[Requirements, tuple[Toleration, ...]], Ask] = {}
        self._by_value: dict[object, PodClass] = {}
        self._by_looks: dict[tuple[object, int, int], PodClass] = {}
        self._numbers: dict[str, int] = {}
        self._columns: dict[tuple[int, ...], tuple[int, ...]] = {}
        for pod in pods:
            self._class_of(pod).pods.append(pod)
        self._by_looks.clear()  # with all pods different these are as large as the rest together
        self._by_value.clear()

    @property
    def resources(self) -> list[str]:
        """The resources that anybody asks for; a resource goes by its place in this list."""
        return list(self._numbers)

    @property
    def wishes(self) -> list[Wish]:
        return [wish for group in self.all for wish in group.wishes]

    def _class_of(self, pod: Pod) -> PodClass:
        # Most pods share the very tuples of their workload, which saves looking into them.
        seen = (tuple(pod.requests.items()), id(pod.alternatives), id(pod.tolerations))
        found = self._by_looks.get(seen)
        if found is None:
            found = self._by_looks[seen] = self._equal_to(pod)
        return found

    def _equal_to(self, pod: Pod) -> PodClass:
        requests = _requests(pod)
        value = (tuple(requests.items()), pod.alternatives, pod.tolerations)
        found = self._by_value.get(value)
        if found is None:
            amounts = tuple([(self._number(name), amount) for name, amount in requests.items()])
            columns = tuple(map(FIRST, amounts))
            columns = self._columns.setdefault(columns, columns)
            wishes = tuple(
                [
                    Wish(self._ask(each, pod.tolerations), amounts, columns)
                    for each in pod.alternatives
                ]
            )
            found = self._by_value[value] = PodClass(len(self.all), wishes, requests)
            self.all.append(found)
        return found

    def _number(self, name: str) -> int:
        return self._numbers.setdefault(name, len(self._numbers))

    def _ask(self, requirements: Requirements, tolerations: tuple[Toleration, ...]) -> Ask:
        key = (requirements, tolerations)
        found = self.asks.get(key)
        if found is None:
            found = self.asks[key] = Ask(requirements, tolerations)
        return found


def _requests(pod: Pod) -> dict[str, int]:
    wanted = {**pod.requests, PODS: 1}
    return {name: wanted[name] for name in sorted(wanted) if wanted[name] > 0}
