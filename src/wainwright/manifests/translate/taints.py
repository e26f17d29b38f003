"""Taints of nodes and pools, and the tolerations of pods."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from wainwright.api.builtin.node import Taint as NodeTaint
from wainwright.api.builtin.pod import Toleration as PodToleration
from wainwright.api.scheduling import Taint as PoolTaint
from wainwright.model.taints import (
    NO_EXECUTE,
    NO_SCHEDULE,
    Taint,
    Toleration,
    TolerationOperator,
)

CORDONED: Final = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)
"""On every node that somebody has cordoned."""


def taints(written: Iterable[NodeTaint | PoolTaint] | None) -> tuple[Taint, ...]:
    return tuple(
        Taint(key=each.key, value=each.value or "", effect=each.effect) for each in written or ()
    )


def tolerations(written: Iterable[PodToleration] | None) -> tuple[Toleration, ...]:
    """In the order written, each once."""
    return tuple(dict.fromkeys(_toleration(each) for each in written or ()))


def _toleration(written: PodToleration) -> Toleration:
    return _made(written.key, written.operator, written.value, written.effect)


@lru_cache(maxsize=4096)
def _made(key: str, operator: str, value: str, effect: str) -> Toleration:
    named = TolerationOperator(operator) if operator else TolerationOperator.EQUAL
    return Toleration(key=key, operator=named, value=value, effect=effect)


def _tolerated(key: str, effect: str) -> Toleration:
    return _made(f"node.kubernetes.io/{key}", TolerationOperator.EXISTS, "", effect)


OF_DAEMONS: Final = (
    _tolerated("not-ready", NO_EXECUTE),
    _tolerated("unreachable", NO_EXECUTE),
    _tolerated("disk-pressure", NO_SCHEDULE),
    _tolerated("memory-pressure", NO_SCHEDULE),
    _tolerated("pid-pressure", NO_SCHEDULE),
    _tolerated("unschedulable", NO_SCHEDULE),
)
"""What every pod of a DaemonSet is given by its controller."""

ON_THE_NODES_NETWORK: Final = _tolerated("network-unavailable", NO_SCHEDULE)
"""What those get besides that need no network of their own."""
