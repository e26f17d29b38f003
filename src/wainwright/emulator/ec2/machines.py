"""What the emulated EC2 remembers of machines and of capacity that is set aside: plain data."""

from typing import Any, Final

import msgspec

PENDING: Final = "pending"
RUNNING: Final = "running"
SHUTTING_DOWN: Final = "shutting-down"
TERMINATED: Final = "terminated"
GONE: Final = "gone"  # what only our own parts get to see
CODES: Final = {PENDING: 0, RUNNING: 16, SHUTTING_DOWN: 32, TERMINATED: 48}
ALIVE: Final = (PENDING, RUNNING)

ON_DEMAND: Final = "on-demand"
SPOT: Final = "spot"
BLOCK: Final = "capacity-block"
INTERRUPTIBLE: Final = "interruptible-capacity-reservation"

OPEN: Final = "open"
NONE: Final = "none"
ONLY: Final = "capacity-reservations-only"


class Interface(msgspec.Struct, frozen=True, kw_only=True):
    """A network interface that a machine is born with."""

    device: int = 0
    card: int = 0
    kind: str = "interface"
    groups: tuple[str, ...] = ()


class Build(msgspec.Struct, frozen=True, kw_only=True):
    """What a machine is made of, whatever its type and place: the same for all of one launch."""

    image: str
    architecture: str
    windows: bool = False
    user_data: str | None = None
    """As it came: base64."""
    vpc: str = ""
    groups: dict[str, str] = {}
    """Id to name, of all interfaces."""
    interfaces: tuple[Interface, ...] = (Interface(),)
    profile: dict[str, str] | None = None
    """Arn and Id."""
    metadata: dict[str, Any] = {}
    disks: dict[str, bool] = {}
    """Device to whether it goes with the machine."""
    sizes: dict[str, int] = {}
    """Device to GiB, as far as image or launch say it."""
    root_device: str = "/dev/xvda"
    key: str | None = None
    monitored: bool = False
    enclave: bool = False
    ebs_optimized: bool = False
    tenancy: str = "default"
    placement_group: str | None = None

    @property
    def platform(self) -> str:
        """As capacity reservations spell it."""
        return "Windows" if self.windows else "Linux/UNIX"


class Instance(msgspec.Struct, kw_only=True):
    id: str
    number: int
    """In the order of launches."""
    run: str
    """What EC2 calls its reservation: the launch that it came out of."""
    index: int
    """Within that launch."""
    type: str
    build: str
    """Which of the builds it is made from."""
    zone: str
    zone_id: str
    subnet: str
    address: str
    launched: float
    visible: float
    """From when on it is found by those who ask for it."""
    state: str = PENDING
    reason: str = ""
    """Why it ended."""
    lifecycle: str = ON_DEMAND
    spot_request: str | None = None
    preference: str = OPEN
    target: str | None = None
    """The capacity reservation that it must run in."""
    reservation: str | None = None
    """The capacity reservation that it runs in."""
    token: str = ""
    joins: bool = True
    """Whether it comes up as it should; the others run, and nobody ever hears of them."""
    tags: dict[str, str] = {}

    @property
    def alive(self) -> bool:
        """Whether it takes up capacity."""
        return self.state in ALIVE


class CapacityReservation(msgspec.Struct, kw_only=True):
    id: str
    owner: str
    type: str
    zone: str
    zone_id: str
    total: int
    used: int = 0
    """By machines of this account."""
    others: int = 0
    """By machines of other accounts, which share it."""
    platform: str = "Linux/UNIX"
    tenancy: str = "default"
    criteria: str = OPEN
    kind: str = "default"
    """Or capacity-block."""
    interruptible: bool = False
    state: str = "active"
    created: float
    start: float
    end: float | None = None
    ebs_optimized: bool = False
    tags: dict[str, str] = {}

    @property
    def free(self) -> int:
        return max(self.total - self.used - self.others, 0)

    @property
    def active(self) -> bool:
        return self.state == "active"

    @property
    def lifecycle(self) -> str:
        """What machines are called that run in it."""
        if self.kind == BLOCK:
            return BLOCK
        return INTERRUPTIBLE if self.interruptible else ON_DEMAND
