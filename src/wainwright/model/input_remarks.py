"""Remarks on how a cluster's objects were read: what was left out, and what was assumed; and which
region was chosen, and why.
"""

from enum import Enum

import msgspec


class RemarkKind(Enum):
    """In the order in which they are reported."""

    SCHEDULING_GATED = 1
    EVICTION_BLOCKED = 2
    OTHER_SCHEDULER = 3
    MISSING_RUNTIME_CLASS = 4
    MISSING_PRIORITY_CLASS = 5
    MISSING_STORAGE_CLASS = 6
    MISSING_DEFAULT_STORAGE_CLASS = 7
    MISSING_CONTROLLER = 8
    NODE_COUNTED_AS_CLAIM = 9
    MINIMUM_REPLICAS = 10
    MAXIMUM_REPLICAS = 11
    FEWER_THAN_MINIMUM = 12
    AUTOSCALER_WITHOUT_WORKLOAD = 13
    STATIC_POOLS_IGNORED = 14
    RESERVATIONS_WITHOUT_COUNTS = 15


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
    """Workloads or autoscalers with the number in question, NodePools, or capacity reservations;
    sorted."""


class RegionSource(Enum):
    """Where the region of a plan comes from: the first of these that there is."""

    CATALOG = "Catalog"
    CLOUD = "Cloud"
    OPTION = "option"
    PROVIDER = "provider"
    NODE = "node"
    PROVIDER_ID = "provider id"
    CLASS_STATUS = "class status"
    RESERVATION = "capacity reservation"
    NODE_POOL = "NodePool"
    POD = "pod"
    VOLUME = "volume"
    DEFAULT = "default"


class RegionChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The region of a plan, and what told it."""

    region: str
    source: RegionSource
    subject: str = ""
    """Kind and name of the object that told it."""
    value: str = ""
    """The zone, zone id or region that the object names."""

    @property
    def is_stated(self) -> bool:
        return self.source in (
            RegionSource.CATALOG,
            RegionSource.CLOUD,
            RegionSource.OPTION,
            RegionSource.PROVIDER,
        )
