"""The whole input as one snapshot: everything that a plan may look at, besides the catalogues."""

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from wainwright.api.builtin.node import Namespace, Node
from wainwright.api.builtin.policy import PodDisruptionBudget, PriorityClass, RuntimeClass
from wainwright.api.builtin.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from wainwright.api.builtin.workloads import DaemonSet, StatefulSet
from wainwright.api.wire import Wire
from wainwright.manifests.expand import expanded, namespace
from wainwright.manifests.translate.affinity import Places
from wainwright.manifests.translate.bonds import Binding
from wainwright.manifests.translate.budgets import Budgets
from wainwright.manifests.translate.claims import Claims
from wainwright.manifests.translate.daemonsets import DaemonSets
from wainwright.manifests.translate.defaults import Defaults
from wainwright.manifests.translate.drivers import attach_limits
from wainwright.manifests.translate.kin import PARTIES, Kin
from wainwright.manifests.translate.machines import Machine, is_double, paired
from wainwright.manifests.translate.names import named
from wainwright.manifests.translate.namespaces import Namespaces
from wainwright.manifests.translate.nodes import NO_LIMITS, hostnames, node
from wainwright.manifests.translate.pods import Pods
from wainwright.manifests.translate.pools import pool
from wainwright.manifests.translate.priorities import Priorities
from wainwright.manifests.translate.remarks import remarks
from wainwright.manifests.translate.runtimes import Runtimes
from wainwright.manifests.translate.sorting import Sorted, Sorter
from wainwright.manifests.translate.storage import Storage
from wainwright.manifests.translate.volumes import Volumes
from wainwright.manifests.world import World
from wainwright.model import pod as model
from wainwright.model.node import Node as ModelNode
from wainwright.model.pool import Pool
from wainwright.model.snapshot import Reservation, Snapshot

One = TypeVar("One", bound=Wire)


class Translated(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot, and what its reader should know besides."""

    snapshot: Snapshot
    warnings: tuple[str, ...] = ()


def snapshot(world: World, *, reservations: Iterable[Reservation] = ()) -> Translated:
    """The state of the cluster that the input describes, in the order of names."""
    return _Translation(world).translated(reservations)


class _Translation:
    """The parts of one translation that others need."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.by_kind: dict[type[Wire], list[Any]] = {}
        for each in world.objects:
            self.by_kind.setdefault(type(each), []).append(each)
        self.written = named(expanded(world.objects))
        self.machines, self.left_out = _counted(paired(self._all(Node), world.claims))
        self.runtimes = Runtimes(self._all(RuntimeClass))
        parties = (each for kind in PARTIES for each in self.by_kind.get(kind, ()))
        self.defaults = Defaults(world.default_constraints, Kin(parties))
        self.pods = self._translating()
        self.found = self._sorted()

    def translated(self, reservations: Iterable[Reservation]) -> Translated:
        made = Snapshot(
            pods=self._placed(),
            pools=self._pools(),
            nodes=self._nodes(),
            daemonsets=self._daemonsets(),
            reservations=tuple(sorted(reservations, key=lambda each: each.id)),
        )
        notes = remarks(self.found, self.runtimes, self.defaults, self.left_out)
        return Translated(snapshot=made, warnings=tuple(notes))

    def _all(self, kind: type[One]) -> list[One]:
        """As the world has them, which takes a look at every object each time it is asked."""
        return self.by_kind.get(kind, [])

    def _translating(self) -> Pods:
        hosts = hostnames(self.machines)
        places = Places(hosts)
        mentioned = (namespace(pod.metadata) for pod in self.written)
        spaces = Namespaces(self._all(Namespace), mentioned)
        claims = Claims(self._all(PersistentVolumeClaim), self._all(StatefulSet))
        storage = Storage(self._all(StorageClass))
        return Pods(
            self.runtimes,
            Priorities(self._all(PriorityClass)),
            places,
            Binding(places, spaces, self.defaults),
            Volumes(claims, storage, self._all(PersistentVolume), hosts),
        )

    def _sorted(self) -> Sorted:
        deleting = {each.node_name for each in self.machines if each.is_deleting}
        budgets = Budgets(self._all(PodDisruptionBudget))
        sets = self._all(StatefulSet)
        named = {(namespace(each.metadata), each.metadata.name) for each in sets}
        return Sorter(deleting, budgets, named).sort(self.written)

    def _placed(self) -> tuple[model.Pod, ...]:
        return _in_order(self.pods.pod(each) for each in self.found.placed)

    def _pools(self) -> tuple[Pool, ...]:
        by_pool: dict[str | None, list[Machine]] = {}
        for machine in self.machines:
            by_pool.setdefault(machine.pool, []).append(machine)
        return tuple(
            pool(each, by_pool.get(each.metadata.name, ()))
            for each in sorted(self.world.pools, key=lambda each: each.metadata.name)
        )

    def _nodes(self) -> tuple[ModelNode, ...]:
        pools = {each.metadata.name: each for each in self.world.pools}
        limits = attach_limits(self._all(CSINode))
        return tuple(
            node(
                each,
                pools.get(each.pool or ""),
                self._staying(each.node_name),
                limits.get(each.node_name, NO_LIMITS),
            )
            for each in self.machines
        )

    def _staying(self, name: str) -> tuple[model.Pod, ...]:
        there = self.found.staying.get(name, ())
        return _in_order(self.pods.pod(each, stays=True) for each in there)

    def _daemonsets(self) -> tuple[model.DaemonSet, ...]:
        translating = DaemonSets(self.pods, self.runtimes, self.written)
        made = map(translating.daemonset, self._all(DaemonSet))
        return tuple(sorted(made, key=lambda each: (each.namespace, each.name)))


def _in_order(pods: Iterable[model.Pod]) -> tuple[model.Pod, ...]:
    return tuple(sorted(pods, key=lambda pod: (pod.namespace, pod.name)))


def _counted(machines: list[Machine]) -> tuple[list[Machine], list[Machine]]:
    """The machines that count, and nodes that a claim under way stands for already."""
    under_way = {each.pool for each in machines if each.node is None}
    doubles = [is_double(each, under_way) for each in machines]
    counted = [each for each, double in zip(machines, doubles, strict=True) if not double]
    return counted, [each for each, double in zip(machines, doubles, strict=True) if double]
