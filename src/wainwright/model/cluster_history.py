"""Every node, pod and reservation of a cluster over a period, each with its moments.

The state at any moment follows from it: what was launched and has not ended is there. This is far
smaller than a state for every change, and every front end can go back and forth in it. Moments are
seconds since the start of a simulation; in a preview they count steps: 0 is the input, 1 what is
left after the first command. Fields are spelt as in the JSON that pages read; amounts are whole
numbers, cpu in thousandths and memory in bytes.
"""

import msgspec


class NodeRecord(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A node, from its launch to its end, whether or not it ever joined."""

    id: str
    """Unique in the history: the id of its instance, or its name where there is none."""
    name: str = ""
    """Of the Node; empty until it has joined."""
    claim: str = ""
    pool: str = ""
    """Empty where no NodePool owns it: such nodes count in no sum."""
    instanceType: str = ""
    zone: str = ""
    capacityType: str = ""
    """At its launch, and so is the next."""
    reservationID: str | None = None
    capacityChanges: list[tuple[float, str, str | None]] = []
    """Capacity type and reservation from a moment on: a reservation may end before its nodes."""
    allocatable: dict[str, int] = {}
    created: float | None = None
    """Seconds since 1970."""
    launched: float = 0.0
    joined: float | None = None
    ready: list[float] = []
    """When it became Ready, when it ceased to be, when it was Ready again, and so on."""
    silent: list[float] = []
    """When its machine ceased to answer, answered again, and so on."""
    deleting: float | None = None
    ended: float | None = None
    endReason: str = ""
    prices: list[tuple[float, float | None]] = []
    """USD per hour from a moment on; None where the price is unknown."""
    modelled: list[float] = []
    """When its price became an estimate, when it ceased to be one, and so on."""

    @property
    def is_managed(self) -> bool:
        return bool(self.pool)

    @property
    def label(self) -> str:
        """What people call it: the Node, before it joins the NodeClaim, else the instance."""
        return self.name or self.claim or self.id

    def exists_at(self, at: float) -> bool:
        return self.launched <= at and (self.ended is None or at < self.ended)

    def is_ready_at(self, at: float) -> bool:
        return bool(sum(moment <= at for moment in self.ready) % 2)

    def is_answering_at(self, at: float) -> bool:
        return not sum(moment <= at for moment in self.silent) % 2

    def capacity_at(self, at: float) -> tuple[str, str | None]:
        """Capacity type and reservation."""
        found = (self.capacityType, self.reservationID)
        for moment, capacity_type, reservation in self.capacityChanges:
            if moment <= at:
                found = (capacity_type, reservation)
        return found

    def is_price_modelled_at(self, at: float) -> bool:
        return bool(sum(moment <= at for moment in self.modelled) % 2)

    def price_at(self, at: float) -> float | None:
        found: float | None = None
        for moment, price in self.prices:
            if moment > at:
                break
            found = price
        return found


class PodRecord(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A pod, from the moment it waits or is bound until it is gone.

    A pod that moves is another pod: what an eviction ends is made anew by its owner.
    """

    name: str
    """namespace/name."""
    owner: str = ""
    """Kind and name of its controller, as ReplicaSet/web."""
    cpu: int = 0
    memory: int = 0
    other: dict[str, int] = {}
    """Requests besides cpu and memory, as nvidia.com/gpu."""
    daemon: bool = False
    """Of a DaemonSet, or static: it belongs to its node and is counted nowhere."""
    created: float = 0.0
    waits: list[tuple[float, str]] = []
    """Why it has no node, from a moment on."""
    bound: float | None = None
    node: int | None = None
    """The number of its node in the history."""
    running: float | None = None
    deleting: float | None = None
    evicted: bool = False
    ended: float | None = None

    def exists_at(self, at: float) -> bool:
        return self.created <= at and (self.ended is None or at < self.ended)

    def is_pending_at(self, at: float) -> bool:
        return self.exists_at(at) and (self.bound is None or at < self.bound)

    def is_bound_at(self, at: float) -> bool:
        return self.exists_at(at) and self.bound is not None and self.bound <= at

    def is_running_at(self, at: float) -> bool:
        """On a machine that answers."""
        return (
            self.is_bound_at(at)
            and self.running is not None
            and self.running <= at
            and (self.deleting is None or at < self.deleting)
        )

    def wait_reason_at(self, at: float) -> str:
        return next((text for moment, text in reversed(self.waits) if moment <= at), "")


class ReservationRecord(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A capacity reservation; all counts are 0 while it is not active."""

    id: str
    instanceType: str = ""
    zone: str = ""
    counts: list[tuple[float, int, int, int]] = []
    """From a moment on: instances used, in total, and idle."""
    prices: list[tuple[float, float | None]] = []
    """On-demand price of one instance in USD per hour, from a moment on."""
    modelledPrice: bool = False
    unusable: str = ""
    """Why no NodePool can use it."""
    notes: list[str] = []
    """Which pods could use what is idle, and why they do not."""


class ClusterHistory(msgspec.Struct, kw_only=True, omit_defaults=True):
    nodes: list[NodeRecord] = []
    pods: list[PodRecord] = []
    reservations: list[ReservationRecord] = []
