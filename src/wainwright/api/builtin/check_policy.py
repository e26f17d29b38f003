"""PodDisruptionBudgets, PriorityClasses and RuntimeClasses, held to the API server's rules."""

import re
from collections.abc import Iterator
from typing import Final

from wainwright.api.builtin.check_labels import label_selector, labels
from wainwright.api.builtin.check_metadata import A_LABEL_NAME, is_label_name
from wainwright.api.builtin.check_pod import PREEMPTION
from wainwright.api.builtin.check_resources import amounts
from wainwright.api.builtin.check_taints import tolerations
from wainwright.api.builtin.policy import (
    PodDisruptionBudgetSpec,
    PriorityClass,
    RuntimeClass,
    RuntimeClassScheduling,
)
from wainwright.api.builtin.wording import among, broken, missing, twice, wrong
from wainwright.api.fault import Fault, Path

PERCENT: Final = re.compile(r"[0-9]+%")
A_COUNT: Final = "a number of pods, 0 or more, or a percentage such as 25%"
HIGHEST_PRIORITY: Final = 10**9
SYSTEM: Final = "system-"
SYSTEM_CLASSES: Final = ("system-node-critical", "system-cluster-critical")
EVICTION_POLICIES: Final = ("IfHealthyBudget", "AlwaysAllow")


def disruption_budget(spec: PodDisruptionBudgetSpec, path: Path) -> Iterator[Fault]:
    if spec.minAvailable is not None and spec.maxUnavailable is not None:
        message = "a budget has minAvailable or maxUnavailable, not both"
        yield broken((*path, "maxUnavailable"), spec.maxUnavailable, message)
    for field in ("minAvailable", "maxUnavailable"):
        yield from _count(getattr(spec, field), (*path, field))
    yield from label_selector(spec.selector, (*path, "selector"))
    policy = spec.unhealthyPodEvictionPolicy
    if policy is not None and policy not in EVICTION_POLICIES:
        yield among((*path, "unhealthyPodEvictionPolicy"), policy, EVICTION_POLICIES)


def _count(given: int | str | None, path: Path) -> Iterator[Fault]:
    if isinstance(given, str):
        if not PERCENT.fullmatch(given):
            yield wrong(path, given, A_COUNT)
        elif len(given) < 20 and int(given[:-1]) > 100:
            yield wrong(path, given, "at most 100%")
    elif given is not None and given < 0:
        yield wrong(path, given, A_COUNT)


def priority_class(given: PriorityClass) -> Iterator[Fault]:
    name = given.metadata.name
    if name.startswith(SYSTEM):
        if name not in SYSTEM_CLASSES:
            message = f"names that begin with {SYSTEM} are Kubernetes' own"
            yield broken(("metadata", "name"), name, message)
    elif given.value > HIGHEST_PRIORITY:
        yield wrong(("value",), given.value, f"at most {HIGHEST_PRIORITY}")
    if given.preemptionPolicy is not None and given.preemptionPolicy not in PREEMPTION:
        yield among(("preemptionPolicy",), given.preemptionPolicy, PREEMPTION)


def runtime_class(given: RuntimeClass) -> Iterator[Fault]:
    if not given.handler:
        yield missing(("handler",), A_LABEL_NAME)
    elif not is_label_name(given.handler):
        yield wrong(("handler",), given.handler, A_LABEL_NAME)
    if given.overhead is not None:
        yield from amounts(given.overhead.podFixed, ("overhead", "podFixed"))
    if given.scheduling is not None:
        yield from _scheduling(given.scheduling, ("scheduling",))


def _scheduling(given: RuntimeClassScheduling, path: Path) -> Iterator[Fault]:
    yield from labels(given.nodeSelector, (*path, "nodeSelector"))
    own = given.tolerations or []
    yield from tolerations(own, (*path, "tolerations"))
    marks = [(one.key, one.operator, one.value, one.effect) for one in own]
    for index, mark in enumerate(marks):
        if mark in marks[:index]:
            yield twice((*path, "tolerations", index), own[index].key)
