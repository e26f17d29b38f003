"""Taints keep pods off nodes; tolerations let them on again."""

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import msgspec

from wainwright.model.requirements import MAX_INTEGER, MIN_INTEGER

NO_SCHEDULE: Final = "NoSchedule"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
NO_EXECUTE: Final = "NoExecute"

REBOOTING_TAINT_KEY: Final = "karpenter.sh/rebooting"
READINESS_TAINT_PREFIX: Final = "readiness.k8s.io/"
STRICT_DECIMAL: Final = re.compile(r"0|-?[1-9][0-9]{0,18}", re.ASCII)


class TolerationOperator(StrEnum):
    EQUAL = "Equal"
    EXISTS = "Exists"
    GREATER = "Gt"
    LESS = "Lt"


class Taint(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    key: str
    value: str = ""
    effect: str = NO_SCHEDULE

    def __str__(self) -> str:
        """As kubectl writes it."""
        return (
            f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"
        )


class Toleration(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    key: str = ""
    """Empty tolerates every key, but only with Exists."""
    operator: TolerationOperator = TolerationOperator.EQUAL
    value: str = ""
    effect: str = ""
    """Empty tolerates every effect."""

    def tolerates(self, taint: Taint) -> bool:
        if self.effect not in ("", taint.effect):
            return False
        if self.operator is TolerationOperator.EXISTS:
            return self.key in ("", taint.key)
        return self.key == taint.key and self._matches(taint.value)

    def _matches(self, value: str) -> bool:
        if self.operator is TolerationOperator.EQUAL:
            return self.value == value
        bound, number = _parse_strict_integer(self.value), _parse_strict_integer(value)
        if bound is None or number is None:
            return False
        return number > bound if self.operator is TolerationOperator.GREATER else number < bound


DISRUPTED_TAINT: Final = Taint(key="karpenter.sh/disrupted", effect=NO_SCHEDULE)
UNREGISTERED_TAINT: Final = Taint(key="karpenter.sh/unregistered", effect=NO_EXECUTE)

TOLERATE_PREFER_NO_SCHEDULE: Final = Toleration(
    operator=TolerationOperator.EXISTS, effect=PREFER_NO_SCHEDULE
)
"""The toleration that a pod gets as the last step of relaxing its preferences."""

EPHEMERAL_TAINTS: Final = frozenset(
    {
        ("node.kubernetes.io/not-ready", NO_SCHEDULE),
        ("node.kubernetes.io/not-ready", NO_EXECUTE),
        ("node.kubernetes.io/unreachable", NO_SCHEDULE),
        ("node.cloudprovider.kubernetes.io/uninitialized", NO_SCHEDULE),
        (UNREGISTERED_TAINT.key, UNREGISTERED_TAINT.effect),
    }
)


def is_ephemeral_taint(taint: Taint) -> bool:
    """Whether a managed node has this taint only until it is initialized, whatever its value."""
    return (taint.key, taint.effect) in EPHEMERAL_TAINTS or taint.key.startswith(
        READINESS_TAINT_PREFIX
    )


def find_untolerated_taint(
    taints: Iterable[Taint], tolerations: Iterable[Toleration]
) -> Taint | None:
    """The first taint that no toleration tolerates; PreferNoSchedule counts like the others."""
    tolerations = tuple(tolerations)
    for taint in taints:
        if not any(toleration.tolerates(taint) for toleration in tolerations):
            return taint
    return None


def _parse_strict_integer(text: str) -> int | None:
    # Stricter than for labels: here Kubernetes also rejects leading zeros and plus signs.
    if STRICT_DECIMAL.fullmatch(text) is None:
        return None
    number = int(text)
    return number if MIN_INTEGER <= number <= MAX_INTEGER else None
