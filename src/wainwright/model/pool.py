"""Pools: what a user allows to be launched, in which order, and how much of it."""

from typing import Final

import msgspec

from wainwright.model.labels import EC2NODECLASS, INITIALIZED, NODEPOOL, REGISTERED
from wainwright.model.requirements import NO_REQUIREMENTS, Requirements
from wainwright.model.resources import Resources
from wainwright.model.taints import Taint

NODES: Final = "nodes"
"""The name under which limits count machines."""


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """One NodePool. `limits` and `in_use` may name `nodes` beside resources."""

    name: str
    node_class: str = "default"
    weight: int = 0
    requirements: Requirements = NO_REQUIREMENTS
    """With minValues where the user asks for flexibility."""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    limits: Resources = msgspec.field(default_factory=dict)
    in_use: Resources = msgspec.field(default_factory=dict)
    """The capacity of the machines that it has already, each once."""
    unusable: str | None = None
    """Why it must not launch anything (static, being deleted, not ready); None if it may."""

    @property
    def node_requirements(self) -> Requirements:
        """What is known of every node of the pool before any pod has its say."""
        own = {NODEPOOL: self.name, EC2NODECLASS: self.node_class}
        ours = {REGISTERED: "true", INITIALIZED: "true"}
        return self.requirements.narrow(Requirements.from_labels(self.labels | own | ours))
