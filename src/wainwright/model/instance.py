"""Instances: machines that a cloud runs, as controllers see them."""

from collections.abc import Mapping

import msgspec

from wainwright.model.resources import Resources


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """A machine. Whoever lists machines knows less of them than whoever has launched one."""

    id: str
    provider_id: str
    """As the node's spec.providerID names it."""
    instance_type: str
    zone: str
    zone_id: str
    capacity_type: str
    image_id: str
    launched: float
    """Seconds since 1970."""
    state: str = "pending"
    reservation_id: str = ""
    price: float | None = None
    """USD per hour; None where nobody has said it."""
    labels: Mapping[str, str] = {}
    """What its node is known to be: type, place, capacity type, and what the class adds."""
    annotations: Mapping[str, str] = {}
    """What is to be written on its claim: from which settings it was launched."""
    capacity: Resources = {}
    allocatable: Resources = {}
    """As they were planned with; empty in listings."""
    pool: str = ""
    node_class: str = ""
    claim: str = ""
    """The name of its claim, where the machine says so."""
    batch: str = ""
    """The launch that it came from; see `model.claim.Mark`."""
    notes: tuple[str, ...] = ()
    """What somebody should know about the launch."""
