"""Interruptions: what a cloud announces about machines before, or after, it happens."""

from enum import StrEnum

import msgspec


class Kind(StrEnum):
    """What is announced; the value is the word for it in metrics."""

    SPOT = "spot_interrupted"
    REBALANCE = "rebalance_recommendation"
    SCHEDULED = "scheduled_change"
    STOPPING = "instance_stopping"
    TERMINATING = "instance_terminating"
    RESERVATION = "capacity_reservation_interrupted"
    UNHEALTHY = "instance_unhealthy"

    @property
    def forceful(self) -> bool:
        """Whether there is nothing left to wait for: the machine does not answer any more."""
        return self is Kind.UNHEALTHY

    @property
    def ends(self) -> bool:
        """Whether the machine is lost, so that its claim has to go; the rest is advice."""
        return self is not Kind.REBALANCE


class Interruption(msgspec.Struct, frozen=True, kw_only=True):
    """One announcement about one machine."""

    kind: Kind
    instance: str
    at: float
    """When it was announced, in seconds since 1970."""
    detail: str = ""
    """What the cloud calls it, for people."""
    ends_at: float | None = None
    """When the machine goes, where the cloud says so."""
