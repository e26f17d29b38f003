"""Claims: machines that have been decided on, as the cloud is asked for them."""

from collections.abc import Mapping

import msgspec

from wainwright.model.requirements import NO_REQUIREMENTS, Requirements
from wainwright.model.resources import Resources
from wainwright.model.taints import Taint


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """What is written down on a claim before it is launched, so that a crash loses nothing.

    Claims that are launched in one request share a batch, which the machines carry as a tag: who
    comes later finds them by it, and deals them out to the claims in the order of `index`.
    """

    token: str
    """Of this claim and this attempt alone."""
    batch: str
    index: int
    attempt: int
    """How often the claim has been launched, this time included."""
    at: float
    """When, in seconds since 1970."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """One machine that is wanted, and what is known of its launch so far."""

    name: str
    uid: str
    pool: str
    node_class: str
    requirements: Requirements = NO_REQUIREMENTS
    """Of the pool and its pods together, minValues included; reservations are pinned by label."""
    requests: Resources = {}
    """Of the pods, and of the daemonsets that will run beside them."""
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    min_values_relaxed: bool = False
    """Whether fewer values will do than its pool asks for."""
    mark: Mark | None = None
    """Of the last attempt to launch it; None if there was none."""
    instance: str = ""
    """The id of its machine, once that is known for sure."""

    @property
    def under_way(self) -> bool:
        """Whether a machine may have been launched that nobody has written down yet."""
        return self.mark is not None and not self.instance
