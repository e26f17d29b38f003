"""The kubelet: what it makes of its settings, and with which it refuses to start."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from wainwright.api.quantity import NotAQuantity, Quantity, parse
from wainwright.api.wire import LABEL_KEY, LABEL_VALUE
from wainwright.catalogue.threshold import Threshold, threshold
from wainwright.emulator.boot.reasons import Reason, Unbootable
from wainwright.model.taints import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE, Taint

RESERVABLE: Final = frozenset({"cpu", "ephemeral-storage", "memory", "pid"})
SIGNALS: Final = frozenset(
    {
        "allocatableMemory.available",
        "containerfs.available",
        "containerfs.inodesFree",
        "imagefs.available",
        "imagefs.inodesFree",
        "memory.available",
        "nodefs.available",
        "nodefs.inodesFree",
        "pid.available",
    }
)
EFFECTS: Final = frozenset({NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE})
DURATION: Final = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?(?:ns|us|µs|ms|s|m|h))+|0")

PROTECTED: Final = ("kubernetes.io", "k8s.io")
OWN: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
"""Domains in which a kubelet may choose labels, although they are within a protected one."""
OWN_LABELS: Final = frozenset(
    {
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "kubernetes.io/arch",
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    }
)


def check_labels(labels: Mapping[str, str]) -> None:
    for key, value in labels.items():
        if not re.fullmatch(LABEL_KEY, key) or not re.fullmatch(LABEL_VALUE, value):
            raise Unbootable(Reason.UNREGISTERED, f"{key}={value} is no label")
        if _is_in(key, PROTECTED) and not _is_in(key, OWN) and key not in OWN_LABELS:
            raise Unbootable(Reason.REFUSED, f"a kubelet may not give its own node the label {key}")


def _is_in(key: str, domains: Iterable[str]) -> bool:
    domain = key.rpartition("/")[0]
    return any(domain == each or domain.endswith(f".{each}") for each in domains)


def check_taints(taints: Iterable[Taint]) -> None:
    taints = tuple(taints)
    for taint in taints:
        if taint.effect not in EFFECTS:
            raise Unbootable(Reason.REFUSED, f"the taint {taint} has no known effect")
        if not re.fullmatch(LABEL_KEY, taint.key) or not re.fullmatch(LABEL_VALUE, taint.value):
            raise Unbootable(Reason.UNREGISTERED, f"{taint} is no taint")
    for (key, effect), count in Counter((each.key, each.effect) for each in taints).items():
        if count > 1:
            raise Unbootable(
                Reason.UNREGISTERED, f"a node cannot have the taint {key}:{effect} {count} times"
            )


def check_number(name: str, value: int) -> int:
    if value < 0:
        raise Unbootable(Reason.REFUSED, f"{name} is {value}, which is below zero")
    return value


def reserved(name: str, given: Mapping[str, str]) -> dict[str, Quantity]:
    made: dict[str, Quantity] = {}
    for resource, text in given.items():
        if resource not in RESERVABLE:
            raise Unbootable(Reason.REFUSED, f"{name} cannot reserve {resource}")
        made[resource] = _quantity(f"{name}.{resource}", text)
    return made


def _quantity(name: str, text: str) -> Quantity:
    try:
        found = parse(text)
    except NotAQuantity as error:
        raise Unbootable(Reason.REFUSED, f"{name}: {error}") from error
    if found.nano < 0:
        raise Unbootable(Reason.REFUSED, f"{name} is {text}, which is below zero")
    return found


def thresholds(name: str, given: Mapping[str, str]) -> dict[str, Threshold]:
    """An empty text sets nothing."""
    made: dict[str, Threshold] = {}
    for signal, text in given.items():
        if signal not in SIGNALS:
            raise Unbootable(Reason.REFUSED, f"{name} has {signal}, which is no eviction signal")
        if text:
            _quantity(f"{name}.{signal}", text.removesuffix("%"))
            made[signal] = threshold(text)
    return made


def check_grace(soft: Mapping[str, Threshold], grace: Mapping[str, str]) -> None:
    for signal in soft:
        if signal not in grace:
            raise Unbootable(Reason.REFUSED, f"evictionSoft.{signal} has no grace period")
    for signal, text in grace.items():
        if not DURATION.fullmatch(text):
            raise Unbootable(
                Reason.REFUSED, f"evictionSoftGracePeriod.{signal} is {text!r}, no duration"
            )
