"""Settings of an emulated account: everything that makes it slower or less kind than at best."""

from typing import Annotated

import msgspec

from wainwright.emulator.ec2.lifecycle import Pace
from wainwright.emulator.ec2.quota import Limits
from wainwright.emulator.ec2.stock import StockRule
from wainwright.emulator.faults import Fault
from wainwright.emulator.throttle import Limit


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """As they stand, nothing fails, nobody is throttled and no pool runs dry."""

    latency: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """Seconds that every call takes, on the clock."""
    faults: tuple[Fault, ...] = ()
    throttling: tuple[Limit, ...] = ()
    stock: tuple[StockRule, ...] = ()
    moving_prices: bool = False
    """Whether spot prices move."""
    pace: Pace = Pace()
    quota: Limits = Limits()
    spot_interruptions: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """The share of spot machines that EC2 takes back within thirty days."""
    queue_base: str | None = None
    """What addresses of queues begin with, where it is not AWS's own."""
    control_plane: tuple[str, str] | None = None
    """Endpoint and base64 certificate of the cluster, where there is one."""
    kubernetes: str | None = None
    """Version of the cluster; the newest where none is given."""
