"""Settings of an emulated account: delays, faults, limits and shortages, none by default."""

from typing import Annotated

import msgspec

from wainwright.emulator.ec2.capacity_market import CapacityRule
from wainwright.emulator.ec2.instance.lifecycle import InstanceTimings
from wainwright.emulator.ec2.instance.quotas import QuotaLimits
from wainwright.emulator.faults import FaultRule, RateLimit


class EmulatorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """By default nothing fails, no call is throttled and capacity is unlimited."""

    latency: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """Seconds that every call takes."""
    faults: tuple[FaultRule, ...] = ()
    throttling: tuple[RateLimit, ...] = ()
    capacity_rules: tuple[CapacityRule, ...] = msgspec.field(default=(), name="stock")
    moving_prices: bool = False
    """Whether spot prices change over time."""
    timings: InstanceTimings = msgspec.field(default=InstanceTimings(), name="pace")
    quota: QuotaLimits = QuotaLimits()
    spot_interruptions: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """The share of spot instances that EC2 reclaims within thirty days."""
    queue_base: str | None = None
    """The base of queue URLs, where it is not that of AWS."""
    control_plane: tuple[str, str] | None = None
    """Endpoint and base64 certificate authority of an existing cluster."""
    cluster: str = "wain"
    """The name of the cluster, and of what belongs to it."""
    kubernetes: str | None = None
    """Kubernetes version of the cluster; the newest by default."""
