"""How a kube-scheduler spreads pods that have no topology spread constraint of their own.

Its configuration has the constraints; the selector of each is deduced from the Services that select
the pod and from the pod's controller. Where there is neither, the pod is not spread.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

import msgspec

from wainwright.api.kubernetes.cluster import Service
from wainwright.api.kubernetes.meta import LabelSelector, LabelSelectorRequirement
from wainwright.api.kubernetes.workloads import (
    Deployment,
    Pod,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from wainwright.api.wire import WireStruct
from wainwright.sim.informers import Informers, object_key
from wainwright.translate.object_metadata import controller_of
from wainwright.translate.topology import DefaultConstraints

Selector: TypeAlias = list[LabelSelectorRequirement]
CONTROLLERS: Final[dict[tuple[str, str], type[WireStruct]]] = {
    ("apps/v1", "Deployment"): Deployment,
    ("apps/v1", "ReplicaSet"): ReplicaSet,
    ("apps/v1", "StatefulSet"): StatefulSet,
    ("v1", "ReplicationController"): ReplicationController,
}
"""A simulated Deployment owns its pods itself."""


class DefaultSpread:
    """`on_change`: called when pods may have to be spread by another selector."""

    def __init__(
        self, constraints: DefaultConstraints, informers: Informers, on_change: Callable[[], None]
    ) -> None:
        self._constraints, self._informers, self._on_change = constraints, informers, on_change
        kinds: tuple[type[WireStruct], ...] = (Service, *CONTROLLERS.values())
        for kind in kinds if constraints else ():
            informers.of(kind).add_handler(self._changed)

    def _changed(self, before: Any, after: Any) -> None:
        if before is None or after is None or before.spec.selector != after.spec.selector:
            self._on_change()

    def applied(self, pod: Pod) -> Pod:
        """The pod with the constraints that the scheduler gives it."""
        if not self._constraints or pod.spec.topologySpreadConstraints:
            return pod
        clauses = [*self._service_clauses(pod), *self._controller_clauses(pod)]
        if not clauses:
            return pod
        selector = LabelSelector(matchExpressions=clauses)
        spread = [
            msgspec.structs.replace(each, labelSelector=selector) for each in self._constraints
        ]
        spec = msgspec.structs.replace(pod.spec, topologySpreadConstraints=spread)
        return msgspec.structs.replace(pod, spec=spec)

    def owner(self, pod: Pod) -> str:
        """What tells apart pods of the same labels that may come to be spread differently."""
        controller = controller_of(pod.metadata) if self._constraints else None
        return "" if controller is None else controller.uid

    def _service_clauses(self, pod: Pod) -> Selector:
        labels = (pod.metadata.labels or {}).items()
        services = self._informers.of(Service).objects.values()
        selectors = [
            each.spec.selector
            for each in services
            if each.metadata.namespace == pod.metadata.namespace and each.spec.selector
        ]
        merged = {item for each in selectors if each.items() <= labels for item in each.items()}
        return _equalities(merged)

    def _controller_clauses(self, pod: Pod) -> Selector:
        owner = controller_of(pod.metadata)
        kind = CONTROLLERS.get((owner.apiVersion, owner.kind)) if owner is not None else None
        if owner is None or kind is None:
            return []
        key = object_key(pod.metadata.namespace, owner.name)
        found: Any = self._informers.of(kind).objects.get(key)
        if found is None:
            return []
        if isinstance(found, ReplicationController):
            return _equalities(found.spec.selected.items())
        selector = found.spec.selector or LabelSelector()
        return [
            *_equalities((selector.matchLabels or {}).items()),
            *(selector.matchExpressions or ()),
        ]


def _equalities(labels: Iterable[tuple[str, str]]) -> Selector:
    return [
        LabelSelectorRequirement(key=key, operator="In", values=[value])
        for key, value in sorted(labels)
    ]
