"""Default spreads: what the scheduler's configuration asks of pods that ask for nothing themselves.

Whom such a pod is spread with is not written anywhere. kube-scheduler deduces it: the labels of all
services that select the pod, and the selector of what controls it. Where neither says anything,
the pod is not spread.
"""

from collections.abc import Iterable
from typing import Final

from wainwright.api.builtin.pod import Pod
from wainwright.api.wire import Metadata, OwnerReference
from wainwright.manifests.expand import namespace
from wainwright.manifests.scheduler.constraints import Constraints
from wainwright.manifests.translate.kin import CONTROLLERS, Kin
from wainwright.manifests.translate.spreads import spread
from wainwright.model.selector import Selector
from wainwright.model.topology import Spread

Look = tuple[str, tuple[str, str, str] | None, tuple[tuple[str, str], ...]]
"""All that a deduction depends on: namespace, controller and labels of the pod."""

NOTHING: Final[tuple[Spread, ...]] = ()


class Defaults:
    """Gives pods their default spreads; those of one workload are one object."""

    def __init__(self, constraints: Constraints, kin: Kin) -> None:
        self._constraints = constraints
        self._kin = kin
        self._known: dict[Look, tuple[Spread, ...]] = {}
        self._made: dict[Selector, tuple[Spread, ...]] = {}

    def spreads(self, pod: Pod) -> tuple[Spread, ...]:
        if not self._apply(pod):
            return NOTHING
        look = _look(pod)
        found = self._known.get(look)
        if found is None:
            found = self._known[look] = self._deduced(pod)
        return found

    def unknown(self, pod: Pod) -> str | None:
        """The controller that has a say in whom the pod is spread with, and is not there."""
        owner = controller(pod.metadata) if self._apply(pod) else None
        if owner is None or (owner.apiVersion, owner.kind) not in CONTROLLERS:
            return None
        missing = not self._kin.knows(namespace(pod.metadata), owner)
        return f"{owner.kind} {owner.name}" if missing else None

    def _apply(self, pod: Pod) -> bool:
        return bool(self._constraints) and not pod.spec.topologySpreadConstraints

    def _deduced(self, pod: Pod) -> tuple[Spread, ...]:
        space, labels = namespace(pod.metadata), pod.metadata.labels or {}
        selected = self._kin.of(space, labels, controller(pod.metadata))
        if selected is None:
            return NOTHING
        return self._made.setdefault(selected, self._with(selected))

    def _with(self, selected: Selector) -> tuple[Spread, ...]:
        made = (spread(each, selected, by_default=True) for each in self._constraints)
        return tuple(dict.fromkeys(made))


def controller(metadata: Metadata) -> OwnerReference | None:
    """The one owner that says it is in control."""
    owners: Iterable[OwnerReference] = metadata.ownerReferences or ()
    return next((owner for owner in owners if owner.controller), None)


def _look(pod: Pod) -> Look:
    owner = controller(pod.metadata)
    own = None if owner is None else (owner.apiVersion, owner.kind, owner.name)
    return namespace(pod.metadata), own, tuple((pod.metadata.labels or {}).items())
