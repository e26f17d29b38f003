"""Settings of an emulated account: everything that makes it slower or less kind than at best."""

from typing import Annotated

import msgspec

from wainwright.emulator.ec2.capacity_market import CapacityRule
from wainwright.emulator.ec2.instance.lifecycle import InstanceTimings
from wainwright.emulator.ec2.instance.quotas import QuotaLimits
from wainwright.emulator.faults import FaultRule, RateLimit


class EmulatorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """As they stand, nothing fails, nobody is throttled and no pool runs dry."""

    latency: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """Seconds that every call takes, on the clock."""
    faults: tuple[FaultRule, ...] = ()
    throttling: tuple[RateLimit, ...] = ()
    stock: tuple[CapacityRule, ...] = ()
    moving_prices: bool = False
    """Whether spot prices move."""
    pace: InstanceTimings = InstanceTimings()
    quota: QuotaLimits = QuotaLimits()
    spot_interruptions: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """The share of spot machines that EC2 takes back within thirty days."""
    queue_base: str | None = None
    """What addresses of queues begin with, where it is not AWS's own."""
    control_plane: tuple[str, str] | None = None
    """Endpoint and base64 certificate of the cluster, where there is one."""
    kubernetes: str | None = None
    """Version of the cluster; the newest where none is given."""
