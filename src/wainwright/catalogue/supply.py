"""Supply: everything that the catalogues of all classes are made from."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from wainwright.api.cloud import Catalog, Cloud
from wainwright.api.ec2nodeclass import EC2NodeClass
from wainwright.api.overrides import InstanceType, NodeOverlay
from wainwright.catalogue.settings import Options
from wainwright.model.labels import EC2NODECLASS, NODEPOOL


class Gates(msgspec.Struct, frozen=True, kw_only=True):
    """What can be switched off."""

    capacity_reservations: bool = True
    node_overlay: bool = True


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """For whom a catalogue is made: a class, and the pool where overlays select pools."""

    node_class: EC2NodeClass
    pool: str = ""
    """Empty where the class is looked at by itself."""
    labels: Mapping[str, str] = {}
    """What the pool's template puts on its nodes."""

    def stated(self) -> dict[str, str]:
        """The labels that every node of the scope has."""
        named = {EC2NODECLASS: self.node_class.metadata.name, NODEPOOL: self.pool}
        return {**self.labels, **{key: value for key, value in named.items() if value}}


class Supply(msgspec.Struct, frozen=True, kw_only=True):
    """The input, apart from the class. Nothing in it is changed, and nothing else is looked at."""

    now: datetime
    """Aware of its time zone; only reservations with a start or end depend on it."""
    region: str | None = None
    """Asked for by itself; else the Cloud's, the Catalog's, or us-east-1."""
    cloud: Cloud | None = None
    catalog: Catalog | None = None
    instance_types: tuple[InstanceType, ...] = ()
    overlays: tuple[NodeOverlay, ...] = ()
    scopes: tuple[Scope, ...] = ()
    """Every pool of the input: an overlay that conflicts in one of them is void in all."""
    gates: Gates = Gates()
    options: Options = Options()
