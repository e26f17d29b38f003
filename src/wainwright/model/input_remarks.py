"""Remarks on how a cluster's objects were read: what was left out, and what was assumed."""

from enum import Enum

import msgspec


class RemarkKind(Enum):
    """In the order in which they are reported."""

    SCHEDULING_GATED = 1
    EVICTION_BLOCKED = 2
    OTHER_SCHEDULER = 3
    MISSING_RUNTIME_CLASS = 4
    MISSING_CONTROLLER = 5
    NODE_COUNTED_AS_CLAIM = 6
    MINIMUM_REPLICAS = 7
    MAXIMUM_REPLICAS = 8
    FEWER_THAN_MINIMUM = 9
    AUTOSCALER_WITHOUT_WORKLOAD = 10
    STATIC_POOLS_IGNORED = 11


class InputRemark(msgspec.Struct, frozen=True, kw_only=True):
    """One remark, and the pods that it is about."""

    kind: RemarkKind
    subject: str = ""
    """The name of what is missing or different; of a node."""
    pods: tuple[str, ...] = ()
    """Keys, sorted."""
    pool: str = ""
    """The NodePool of a node that its NodeClaim stands for."""
    workloads: tuple[str, ...] = ()
    """Workloads or autoscalers with the number in question, or NodePools, sorted."""
