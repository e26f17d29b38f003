"""Priority classes: how important a pod is that says so by name, or not at all."""

from collections.abc import Iterable
from typing import Final

from wainwright.api.builtin.pod import PodSpec
from wainwright.api.builtin.policy import PriorityClass

SYSTEM: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""Classes that every cluster has."""


class Priorities:
    def __init__(self, classes: Iterable[PriorityClass]) -> None:
        given = list(classes)
        self._by_name = SYSTEM | {each.metadata.name: each.value for each in given}
        # Should several claim to be the default, Kubernetes takes the lowest.
        self._default = min((each.value for each in given if each.globalDefault), default=0)

    def of(self, spec: PodSpec) -> int:
        if spec.priority is not None:
            return spec.priority
        if spec.priorityClassName:
            return self._by_name.get(spec.priorityClassName, 0)
        return self._default
