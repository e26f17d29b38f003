"""Kin: which pods belong together, as kube-scheduler tells by services and controllers."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from wainwright.api.builtin.selection import LabelSelector
from wainwright.api.builtin.service import Service
from wainwright.api.builtin.workloads import (
    Deployment,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from wainwright.api.wire import OwnerReference, Wire
from wainwright.manifests.expand import name_of, namespace
from wainwright.manifests.translate.selectors import like, selector
from wainwright.model.selector import EVERYBODY, Selector

CONTROLLERS: Final = frozenset(
    {("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet"), ("v1", "ReplicationController")}
)
"""What kube-scheduler asks for its pods. Jobs and DaemonSets have no say."""

Controller = Deployment | ReplicaSet | StatefulSet | ReplicationController
"""A Deployment is there for the pods that it lacks: we make them without a ReplicaSet between."""

PARTIES: Final = (Service, Deployment, ReplicaSet, StatefulSet, ReplicationController)
"""The kinds of which objects have to be known."""

Identity = tuple[str, str, str, str]
"""apiVersion, kind, namespace and name."""

Anchor = tuple[str, str, str]
"""A namespace, and a label with its value that whoever a service selects must have."""

NO_CLAUSES: Final = LabelSelector()


class Kin:
    """Knows the services and controllers of the input."""

    def __init__(self, objects: Iterable[Wire]) -> None:
        self._services: dict[Anchor, list[Mapping[str, str]]] = defaultdict(list)
        self._controllers: dict[Identity, Controller] = {}
        for each in objects:
            if isinstance(each, Service) and each.spec.selector:
                anchor = (namespace(each.metadata), *min(each.spec.selector.items()))
                self._services[anchor].append(each.spec.selector)
            elif isinstance(each, Controller):
                self._controllers[_identity(each)] = each

    def knows(self, space: str, owner: OwnerReference) -> bool:
        return _referred(space, owner) in self._controllers

    def of(
        self, space: str, labels: Mapping[str, str], owner: OwnerReference | None
    ) -> Selector | None:
        """Whom a pod with these labels belongs to; None where nothing tells."""
        merged = self._served(space, labels)
        made = None if owner is None else self._controllers.get(_referred(space, owner))
        if isinstance(made, ReplicationController):
            merged.update(made.spec.selected)
            return _selector(merged)
        return _selector(merged, made.spec.selector if made is not None else None)

    def _served(self, space: str, labels: Mapping[str, str]) -> dict[str, str]:
        """What all services together select that select these labels; they cannot disagree."""
        merged: dict[str, str] = {}
        for key, value in labels.items():
            for served in self._services.get((space, key, value), ()):
                if served.items() <= labels.items():
                    merged.update(served)
        return merged


def _selector(labels: Mapping[str, str], own: LabelSelector | None = None) -> Selector | None:
    """Both must hold; where they contradict each other nobody is selected.

    A controller's selector that makes no sense says nothing, as for kube-scheduler.
    """
    clauses = list(like(labels, labels))
    found = selector(own or NO_CLAUSES, clauses) or selector(NO_CLAUSES, clauses)
    return None if found == EVERYBODY else found


def _identity(made: Controller) -> Identity:
    return made.apiVersion, made.kind, namespace(made.metadata), name_of(made.metadata)


def _referred(space: str, owner: OwnerReference) -> Identity:
    return owner.apiVersion, owner.kind, space, owner.name
