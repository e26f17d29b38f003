"""Classes: pods sorted by what they ask, so that every answer is worked out once."""

from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Final, TypeAlias

import msgspec

from wainwright.core.relax import Degree, degrees
from wainwright.core.topology.bound import Bound, bound
from wainwright.core.topology.groups import AnyGroup
from wainwright.core.topology.registry import NOBODY_CARES, Registry, Standing
from wainwright.core.wishes import Amounts, Ask, PodClass, Stage, Wish, both
from wainwright.model.attachments import Attachment, HostPort
from wainwright.model.options import DEFAULT_OPTIONS, Options
from wainwright.model.pod import ANYWHERE, NO_BONDS, Bonds, Pod
from wainwright.model.preference import GivenUp
from wainwright.model.requirements import Requirements
from wainwright.model.resources import PODS
from wainwright.model.taints import TOLERATE_PREFERENCES, Toleration

FIRST: Final = itemgetter(0)

AskKey: TypeAlias = tuple[Requirements, tuple[Toleration, ...], tuple[HostPort, ...]]


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What decides, besides the pods themselves, how they come apart into classes."""

    options: Options = DEFAULT_OPTIONS
    tainted: bool = False
    """Whether any pool or node has a taint that does not bind."""
    attachable: bool = False
    """Whether any node takes only so many volumes."""


_Degree: TypeAlias = tuple[tuple[Ask, ...], Bound | None, tuple[GivenUp, ...]]


class _Mould(msgspec.Struct, frozen=True, kw_only=True):
    """What classes have in common that differ only in the room they need."""

    number: int
    degrees: tuple[_Degree, ...]
    counted: tuple[AnyGroup, ...]
    attachments: tuple[Attachment, ...]


class Classes:
    """Sorts pods into classes."""

    def __init__(
        self,
        pods: Iterable[Pod],
        registry: Registry | None = None,
        context: Context = Context(),  # noqa: B008 - a frozen value
    ) -> None:
        self.all: list[PodClass] = []
        self.asks: dict[AskKey, Ask] = {}
        self.registry = registry or Registry()
        self._context = context
        self._moulds: dict[object, _Mould] = {}
        self._by_value: dict[object, PodClass] = {}
        self._by_looks: dict[tuple[object, ...], PodClass] = {}
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
        return [wish for group in self.all for stage in group.stages for wish in stage.wishes]

    def ask(
        self,
        requirements: Requirements,
        tolerations: tuple[Toleration, ...],
        ports: tuple[HostPort, ...] = (),
    ) -> Ask:
        key = (requirements, tolerations, ports)
        found = self.asks.get(key)
        if found is None:
            found = self.asks[key] = Ask(requirements, tolerations, ports)
        return found

    def _class_of(self, pod: Pod) -> PodClass:
        # Most pods share the very tuples of their workload, which saves looking into them.
        standing = self.registry.standing(pod) if self.registry.groups else NOBODY_CARES
        seen = (
            tuple(pod.requests.items()),
            id(pod.alternatives),
            id(pod.tolerations),
            id(pod.bonds),
            id(standing),
            pod.namespace if pod.bonds is not NO_BONDS else "",
        )
        found = self._by_looks.get(seen)
        if found is None:
            found = self._by_looks[seen] = self._equal_to(pod, standing)
        return found

    def _equal_to(self, pod: Pod, standing: Standing) -> PodClass:
        amounts, mould = self._amounts(pod), self._mould(pod, standing)
        value = (amounts, mould.number)
        found = self._by_value.get(value)
        if found is None:
            found = self._by_value[value] = self._cast(mould, amounts)
            self.all.append(found)
        return found

    def _mould(self, pod: Pod, standing: Standing) -> "_Mould":
        bonds = self._bonds(pod)
        namespace = pod.namespace if bonds is not NO_BONDS else ""
        asked = (pod.alternatives, pod.tolerations, bonds, id(standing), namespace)
        found = self._moulds.get(asked)
        if found is None:
            owned = tuple(map(self.registry.shunned, dict.fromkeys(bonds.anti_affinity)))
            found = self._moulds[asked] = _Mould(
                number=len(self._moulds),
                degrees=tuple(self._degrees(pod, bonds, standing)),
                counted=standing.counted + owned,
                attachments=bonds.attachments,
            )
        return found

    def _bonds(self, pod: Pod) -> Bonds:
        """Volumes set pods apart only where somebody counts them."""
        if self._context.attachable or not pod.bonds.attachments:
            return pod.bonds
        bare = msgspec.structs.replace(pod.bonds, attachments=())
        return NO_BONDS if bare == NO_BONDS else bare

    def _cast(self, mould: "_Mould", amounts: Amounts) -> PodClass:
        columns = tuple(map(FIRST, amounts))
        columns = self._columns.setdefault(columns, columns)
        stages = [
            Stage(tuple([Wish(ask, amounts, columns) for ask in asks]), tied, given_up)
            for asks, tied, given_up in mould.degrees
        ]
        made = PodClass(len(self.all), tuple(stages))
        made.attachments, made.counted = mould.attachments, mould.counted
        return made

    def _degrees(self, pod: Pod, bonds: Bonds, standing: Standing) -> Iterator["_Degree"]:
        policy = self._context.options.preference_policy
        for degree in degrees(bonds, policy, tainted=self._context.tainted):
            tolerations = pod.tolerations
            if degree.tolerates_preferences:
                tolerations = (*tolerations, TOLERATE_PREFERENCES)
            places = _places(pod.alternatives, bonds.volume_places, degree)
            asks = tuple([self.ask(each, tolerations, bonds.ports) for each in places])
            if asks:
                yield asks, bound(pod, degree, self.registry, standing), degree.given_up

    def _amounts(self, pod: Pod) -> Amounts:
        """What the pod asks for, a slot included, in the order of the resources' names."""
        wanted, numbers = {**pod.requests, PODS: 1}, self._numbers
        return tuple(
            [
                (numbers.setdefault(name, len(numbers)), wanted[name])
                for name in sorted(wanted)
                if wanted[name] > 0
            ]
        )


def _places(
    alternatives: tuple[Requirements, ...], volumes: tuple[Requirements, ...], degree: Degree
) -> Iterable[Requirements]:
    """Each alternative with each place of the volumes, and with the nodes that it would like."""
    liked = degree.nodes[0].requirements if degree.nodes else None
    found: dict[Requirements, None] = {}
    for alternative in alternatives:
        for volume in volumes:
            reached = alternative if volumes is ANYWHERE else both(alternative, volume)
            wanted = reached if liked is None or reached is None else both(reached, liked)
            if wanted is not None:
                found[wanted] = None
    return found
