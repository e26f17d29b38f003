"""Nodes that stand, and machines under way: where a pod may go before anything is bought."""

import msgspec

from wainwright.model.pod import Pod
from wainwright.model.resources import Resources
from wainwright.model.taints import Taint, is_ephemeral


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A node, or a NodeClaim of which no node has joined yet."""

    name: str
    """The node's; the claim's as long as there is no node."""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    """Taken off before the node is initialized, and until then no obstacle."""
    allocatable: Resources = msgspec.field(default_factory=dict)
    pods: tuple[Pod, ...] = ()
    """Those that run or are bound here, daemonsets' pods included."""
    managed: bool = True
    """Whether it is one of ours; on other nodes every taint counts."""
    initialized: bool = True
    deleting: bool = False
    """Takes no pods; its own are among the snapshot's pods."""
    pool: str | None = None
    launched: bool = True
    """False for a claim without an instance: it still needs its reservation."""
    reservation_id: str | None = None
    attach_limits: dict[str, int] = msgspec.field(default_factory=dict)
    """By CSI driver how many volumes it takes; no limit is known of others."""

    @property
    def lasting_taints(self) -> tuple[Taint, ...]:
        """The taints that a pod must tolerate."""
        if self.initialized or not self.managed:
            return self.taints
        return tuple(
            taint
            for taint in self.taints
            if taint not in self.startup_taints and not is_ephemeral(taint)
        )
