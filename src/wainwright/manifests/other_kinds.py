"""Kinds that are not planned with: one line for those that do not matter, one for those that do."""

from collections import Counter
from functools import cache
from typing import Any, Final

from wainwright.api.kinds import known_kinds
from wainwright.manifests.problems import Problem
from wainwright.messages.formatting import format_count

MAX_LISTED_KINDS: Final = 5  # the most frequent ones; --verbose lists all
POD_COUNT_KINDS: Final = frozenset(
    {
        *("CronJob", "SparkApplication", "ScheduledSparkApplication", "RayCluster", "RayJob"),
        *("RayService", "HorizontalPodAutoscaler", "ScaledObject", "ScaledJob"),
    }
)
"""Kinds that create pods without listing containers, or change how many there are."""


class OtherKinds:
    """Counts objects of kinds that are not read."""

    def __init__(self) -> None:
        self._irrelevant: Counter[str] = Counter()
        self._uncounted: Counter[str] = Counter()

    def add(self, value: dict[str, Any]) -> None:
        creates_pods = value["kind"] in POD_COUNT_KINDS or _has_containers(value)
        (self._uncounted if creates_pods else self._irrelevant)[_kind_text(value)] += 1

    def uncounted_pods(self, *, verbose: bool) -> list[Problem]:
        """A note where the input has more pods than can be seen."""
        return _note("create or scale pods, which are not counted", self._uncounted, verbose)

    def irrelevant(self, *, verbose: bool) -> list[Problem]:
        return _note("not relevant to scheduling", self._irrelevant, verbose)


def _kind_text(value: dict[str, Any]) -> str:
    """With the version where the kind alone would be taken for one that is read."""
    kind: str = value["kind"]
    return f"{kind} of {value['apiVersion']}" if kind in _known_names() else kind


@cache
def _known_names() -> frozenset[str]:
    return frozenset(kind for _, kind in known_kinds())


def _has_containers(value: dict[str, Any]) -> bool:
    """Whether a pod's containers are somewhere in the object."""
    waiting: list[Any] = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            containers = part.get("containers")
            if isinstance(containers, list) and containers and isinstance(containers[0], dict):
                return True
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)
    return False


def _note(what: str, counts: "Counter[str]", verbose: bool) -> list[Problem]:
    if not counts:
        return []
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    listed = ordered if verbose else ordered[:MAX_LISTED_KINDS]
    parts = [format_count(count, kind, _plural(kind)) for kind, count in listed]
    if len(ordered) > 1:
        parts.append(f"{counts.total():,} in all")
    return [Problem(file="", message=f"{what}: {', '.join(parts)}")]


def _plural(kind: str) -> str:
    """Ingresses, NetworkPolicies, Gateways; the version of a kind stays behind it."""
    name, of, version = kind.partition(" of ")
    if name.endswith(("s", "x", "ch")):
        name += "es"
    elif name.endswith("y") and name[-2:-1] not in "aeiou":
        name = f"{name[:-1]}ies"
    else:
        name += "s"
    return f"{name}{of}{version}"
